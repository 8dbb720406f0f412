//! The history of a conversation, read before its lease is asked for: from the cache if that is enough.

use herma_model::alias::Namespace;
use herma_model::{Alias, TurnId};
use herma_store::{ExpectedHistory, Extent, Running, Scope, Snapshot, Target, TurnRecord};
use herma_turn::Replacement;

use crate::admission::{PendingAdmission, own_alias};
use crate::error::GatewayError;
use crate::request::ConversationRef;

/// The history of a conversation.
pub(crate) struct History {
    pub(crate) before: Option<Snapshot>,
    /// True if it was read from the store, false if it comes from the cache.
    pub(crate) is_fresh: bool,
    /// Where the turn goes.
    pub(crate) target: Target,
    /// Which messages of the request it has.
    pub(crate) known: KnownPart,
    /// What the store has to find by the request's history, if it was not asked yet.
    pub(crate) expected: Option<Box<ExpectedHistory>>,
}

impl History {
    /// That of a new conversation.
    pub(crate) const fn new() -> Self {
        Self { before: None, is_fresh: true, target: Target::New, known: KnownPart::ByAlignment, expected: None }
    }

    /// Whether the turn continues a conversation that exists.
    pub(crate) const fn continues(&self) -> bool {
        matches!(self.target, Target::Alias { .. })
    }
}

/// Which messages of a request its conversation has.
#[derive(Clone)]
pub(crate) enum KnownPart {
    /// Alignment finds out.
    ByAlignment,
    /// This many at the beginning. Inputs of unanswered turns may follow.
    First(usize),
    /// All. A client has added them before, and now wants them answered.
    All,
    /// Some: the client has put others in place of the rest. If none of them is new, the client wants its work
    /// continued.
    Replaced(Box<Replacement>),
}

impl PendingAdmission<'_> {
    /// The history of a turn that branched from a busy conversation: all of the branch but the turn's own messages.
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

    /// The history of the conversation that a request goes to, and where its turn goes.
    pub(crate) async fn history(
        &self,
        scope: &Scope,
        place: &ConversationRef,
        extent: Extent,
    ) -> Result<History, GatewayError> {
        match place {
            // Without messages there is no history to find anything by.
            ConversationRef::New | ConversationRef::ByHistory | ConversationRef::Stateless => Ok(History::new()),
            ConversationRef::Named { alias, namespace, must_exist } => {
                let (before, is_fresh) = self.read(scope, alias, *namespace, extent).await?;
                let target = Target::Alias { alias: alias.clone(), namespace: *namespace, must_exist: *must_exist };
                Ok(History { before, is_fresh, target, ..History::new() })
            }
            ConversationRef::After(response) => {
                let alias = own_alias(&response.to_string())?;
                let found = self.after_in(scope, alias, response.turn(), extent).await?;
                found.ok_or(GatewayError::previous_not_found())
            }
        }
    }

    /// The history of a request that continues after a turn, by that turn. An ended conversation takes no turn, so the
    /// request makes a branch of it.
    pub(crate) async fn after_turn(
        &self,
        scope: &Scope,
        turn: TurnId,
        known: KnownPart,
        extent: Extent,
    ) -> Result<Option<History>, GatewayError> {
        let alias = own_alias(&turn.as_run().to_string())?;
        let found = match self.after_in(scope, alias.clone(), turn, extent).await? {
            Some(found) if found.continues() && found.before.as_ref().is_some_and(|before| before.ended) => {
                self.branch_after(scope, &alias, turn).await?
            }
            found => found,
        };
        Ok(found.map(|found| History { known, ..found }))
    }

    /// The whole conversation with this name if the turn is the last in it. Otherwise the history up to the turn: the
    /// request makes a branch there. `None` if the name leads nowhere.
    pub(crate) async fn after_in(
        &self,
        scope: &Scope,
        alias: Alias,
        turn: TurnId,
        extent: Extent,
    ) -> Result<Option<History>, GatewayError> {
        let (before, is_fresh) = self.read(scope, &alias, Namespace::Session, extent).await?;
        let Some(before) = before else { return Ok(None) };
        let is_last = match self.is_last(scope, &before, turn).await? {
            Some(decided) => decided,
            None => {
                let whole = self.gateway.store.open(scope, &alias, Namespace::Session, Extent::Whole).await?;
                let Some(whole) = whole else { return Ok(None) };
                self.is_last(scope, &whole, turn).await? == Some(true)
            }
        };
        if is_last {
            let target = Target::Alias { alias, namespace: Namespace::Session, must_exist: true };
            return Ok(Some(History { before: Some(before), is_fresh, target, ..History::new() }));
        }
        self.branch_after(scope, &alias, turn).await
    }

    /// The history up to a turn, for a branch that begins after it.
    async fn branch_after(&self, scope: &Scope, alias: &Alias, turn: TurnId) -> Result<Option<History>, GatewayError> {
        let opened = self.gateway.store.open(scope, alias, Namespace::Session, Extent::At(turn)).await?;
        let target = Target::Branch { source: turn };
        Ok(opened.map(|before| History { before: Some(before), target, ..History::new() }))
    }

    /// Whether no later turn of the conversation was answered. Turns that failed or still run do not count. `None` if
    /// the history before the compaction is needed to decide.
    async fn is_last(&self, scope: &Scope, snapshot: &Snapshot, turn: TurnId) -> Result<Option<bool>, GatewayError> {
        let mut live = None;
        let mut is_decided = snapshot.whole;
        for message in snapshot.messages.iter().rev() {
            if message.turn == turn {
                // If a rewind has hidden the end of the response, the response is not the last one.
                let is_cut = snapshot.rewound.iter().any(|other| other.turn == turn && other.seq > message.seq);
                return Ok(Some(!is_cut));
            }
            if Some(message.turn) == live || snapshot.unanswered.contains_key(&message.turn) {
                continue;
            }
            if !self.is_live(scope, message.turn).await? {
                is_decided = true;
                break;
            }
            live = Some(message.turn);
        }
        // A waiting turn comes after all messages. A turn that ended before it began has added none.
        let asked = self.gateway.store.turn(scope, turn).await?.map(TurnRecord::as_it_stands);
        // The input of a turn whose messages were deleted is empty, so such a turn does not count as never begun.
        let never_began = |asked: &TurnRecord| !asked.has_begun && !asked.input.is_empty();
        let is_after_all = asked.is_some_and(|asked| asked.state.is_live() || never_began(&asked));
        Ok((is_after_all || is_decided).then_some(is_after_all))
    }

    /// Whether a turn waits or runs, as far as the store knows: its process may be dead.
    pub(crate) async fn is_live(&self, scope: &Scope, turn: TurnId) -> Result<bool, GatewayError> {
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
