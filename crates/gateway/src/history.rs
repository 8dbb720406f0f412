//! What is known of a conversation before its lease is asked for: from memory if that is enough, and where that leads.

use herma_model::alias::Namespace;
use herma_model::{Alias, ResponseId, TurnId};
use herma_store::{Extent, Running, Scope, Snapshot, Target, TurnRecord};

use crate::admission::{PendingAdmission, own_alias};
use crate::error::GatewayError;
use crate::request::ConversationRef;

/// What is known of a conversation.
pub(crate) struct History {
    pub(crate) before: Option<Snapshot>,
    /// Whether the store said so just now.
    pub(crate) is_fresh: bool,
    /// Where the turn would go.
    pub(crate) target: Target,
}

impl PendingAdmission<'_> {
    /// What a turn has that left a busy conversation: all of the branch but what it brought itself.
    pub(crate) async fn inherited(&self, scope: &Scope, running: &Running) -> Result<Snapshot, GatewayError> {
        let id = own_alias(&running.facts.id.to_string())?;
        let opened = self.gateway.store.open(scope, &id, Namespace::Session, Extent::View).await;
        let mut branch = match opened {
            Ok(Some(branch)) => branch,
            other => {
                self.gateway.store.abandon(running.lease);
                return Err(other.err().map_or(GatewayError::unknown(), GatewayError::Store));
            }
        };
        branch.messages.retain(|message| message.turn != running.turn);
        Ok(branch)
    }

    /// What is known of the conversation, from memory if that is enough, and where that leads.
    pub(crate) async fn history(
        &self,
        scope: &Scope,
        place: &ConversationRef,
        extent: Extent,
    ) -> Result<History, GatewayError> {
        match place {
            ConversationRef::New | ConversationRef::Stateless => {
                Ok(History { before: None, is_fresh: true, target: Target::New })
            }
            ConversationRef::Named { alias, namespace, must_exist } => {
                let (before, is_fresh) = self.read(scope, alias, *namespace, extent).await?;
                let target = Target::Alias { alias: alias.clone(), namespace: *namespace, must_exist: *must_exist };
                Ok(History { before, is_fresh, target })
            }
            ConversationRef::After(response) => self.after(scope, *response, extent).await,
        }
    }

    /// A response's conversation if the response is the last thing that was said in it, else what was said up to it.
    async fn after(&self, scope: &Scope, response: ResponseId, extent: Extent) -> Result<History, GatewayError> {
        let alias = own_alias(&response.to_string())?;
        let (before, is_fresh) = self.read(scope, &alias, Namespace::Session, extent).await?;
        let before = before.ok_or(GatewayError::previous_not_found())?;
        let turn = response.turn();
        let is_last = match self.is_last(scope, &before, turn).await? {
            Some(decided) => decided,
            None => {
                let whole = self.gateway.store.open(scope, &alias, Namespace::Session, Extent::Whole).await?;
                let whole = whole.ok_or(GatewayError::previous_not_found())?;
                self.is_last(scope, &whole, turn).await? == Some(true)
            }
        };
        if is_last {
            let target = Target::Alias { alias, namespace: Namespace::Session, must_exist: true };
            return Ok(History { before: Some(before), is_fresh, target });
        }
        let opened = self.gateway.store.open(scope, &alias, Namespace::Session, Extent::At(turn)).await?;
        let before = Some(opened.ok_or(GatewayError::previous_not_found())?);
        Ok(History { before, is_fresh: true, target: Target::Branch { source: turn } })
    }

    /// Whether nothing was successfully said after a turn. One that failed or still runs has not said anything. None if all that was
    /// said since the last compaction is nothing of that kind, so that what came before it decides.
    async fn is_last(&self, scope: &Scope, snapshot: &Snapshot, turn: TurnId) -> Result<Option<bool>, GatewayError> {
        let mut silent = None;
        let mut is_decided = snapshot.whole;
        for message in snapshot.messages.iter().rev() {
            if message.turn == turn {
                // A response of which a rewind has left the beginning alone is an earlier one.
                let is_cut = snapshot.rewound.iter().any(|other| other.turn == turn && other.seq > message.seq);
                return Ok(Some(!is_cut));
            }
            if Some(message.turn) == silent || snapshot.unanswered.contains_key(&message.turn) {
                continue;
            }
            if !self.is_live(scope, message.turn).await? {
                is_decided = true;
                break;
            }
            silent = Some(message.turn);
        }
        // One that waits comes after everything that was said, and one that ended before it began leaves its conversation where it is.
        let asked = self.gateway.store.turn(scope, turn).await?.map(TurnRecord::as_it_stands);
        // (One of which nothing is left has nothing that it was asked, either.)
        let never_began = |asked: &TurnRecord| !asked.has_begun && !asked.input.is_empty();
        let is_after_all = asked.is_some_and(|asked| asked.state.is_live() || never_began(&asked));
        Ok((is_after_all || is_decided).then_some(is_after_all))
    }

    async fn is_live(&self, scope: &Scope, turn: TurnId) -> Result<bool, GatewayError> {
        Ok(self.gateway.store.turn(scope, turn).await?.is_some_and(|turn| turn.state.is_live()))
    }

    async fn read(
        &self,
        scope: &Scope,
        alias: &Alias,
        namespace: Namespace,
        extent: Extent,
    ) -> Result<(Option<Snapshot>, bool), GatewayError> {
        let known = self.gateway.cache.take(scope.tenant, namespace, alias).filter(|_| extent == Extent::View);
        if let Some(known) = known.filter(|known| scope.keys.sees(known.facts.session_key.as_ref())) {
            return Ok((Some(known), false));
        }
        Ok((self.gateway.store.open(scope, alias, namespace, extent).await?, true))
    }
}
