//! Long-term memory in a turn: what is recalled into it, and whether its words may be recalled later.
//!
//! Memory is used only if a session key is in force. A turn without one recalls nothing. A recall never stops a turn.
//!
//! A block that was made for an earlier turn is shown again only after the store was asked whether all that it quotes is
//! still there. The copy in this process may be older than a deletion.

use std::sync::Arc;

use herma_memory::outbox::Outbox;
use herma_memory::{Builtin, Honcho, HonchoSettings, MemoryProvider, RecallLimits, RecallRequest, recall};
use herma_model::{ConversationFacts, Message, Recall, RecallStatus, Role, SessionKey, SessionKind};
use herma_store::search::text_of;
use herma_store::{Shown, Snapshot, Store};
use herma_telemetry::SpanKind;

use crate::gateway::Gateway;
use crate::mint;
use crate::request::{MemoryUse, TurnRequest};
use crate::running::RunningTurn;
use crate::spans;

/// What an operator can set about long-term memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySettings {
    /// Who remembers.
    pub provider: ProviderSettings,
    /// How much is recalled into a turn, and how long that may take.
    pub limits: RecallLimits,
    /// The model that reads finished conversations for facts. If `None`, no model does.
    pub model: Option<String>,
}

/// Who remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderSettings {
    /// Herma itself, with what its store has.
    Builtin {
        /// Whether what was said in earlier conversations is recalled.
        passages: bool,
        /// Whether facts are recalled.
        facts: bool,
    },
    /// A Honcho server, and Herma itself for facts.
    Honcho(HonchoSettings),
    /// Nothing is remembered.
    Off,
}

impl ProviderSettings {
    /// Whether facts are recalled.
    pub(crate) const fn has_facts(&self) -> bool {
        match self {
            Self::Builtin { facts, .. } => *facts,
            Self::Honcho(_) => true,
            Self::Off => false,
        }
    }
}

/// Who remembers, in a running gateway.
pub(crate) struct Remembering {
    /// What is asked before a turn. `None` if memory is off.
    pub(crate) provider: Option<Arc<dyn MemoryProvider>>,
    /// How an outside provider is told what was said. `None` if there is none.
    pub(crate) outbox: Option<Outbox>,
}

impl MemorySettings {
    /// Makes the provider.
    pub(crate) fn remembering(&self, store: &Arc<dyn Store>) -> Remembering {
        match &self.provider {
            ProviderSettings::Builtin { passages, facts } => {
                let builtin = Builtin::new(Arc::clone(store), *passages, *facts);
                Remembering { provider: Some(Arc::new(builtin)), outbox: None }
            }
            ProviderSettings::Honcho(settings) => {
                let honcho = Arc::new(Honcho::new(Arc::clone(store), settings.clone()));
                let outbox = Outbox::new(Arc::clone(store), Arc::clone(&honcho) as _, mint::now);
                Remembering { provider: Some(honcho), outbox: Some(outbox) }
            }
            ProviderSettings::Off => Remembering { provider: None, outbox: None },
        }
    }
}

impl Gateway {
    /// Recalls into a turn under a session key. A turn that only brings results of the client's tools keeps what the
    /// turn before it had recalled. Cancel-safe.
    pub(crate) async fn recall_into(&self, request: &TurnRequest, turn: &mut RunningTurn, key: SessionKey) {
        if turn.recall.is_some() {
            return;
        }
        let Some(provider) = &self.memory.provider else { return };
        let recorded = is_recorded(request, &turn.session.facts);
        if turn.brings_only_results() {
            turn.recall = Some(Arc::new(self.kept_recall(turn, recorded).await));
            return;
        }
        let mut span = request.trace.begin(SpanKind::Internal, || spans::RECALL);
        let made = match turn.newest_question().map(|message| text_of(message.said.payload.as_json())) {
            Some(text) => {
                let request = recall_request(request, turn, key, text);
                recall(&**provider, &request, self.settings.memory.limits, recorded).await
            }
            None => Recall::without_block(RecallStatus::Nothing, recorded),
        };
        span.set("herma.recall.status", || made.status.as_str());
        self.counters.recalled(made.status);
        turn.recall = Some(Arc::new(made));
    }
}

impl Gateway {
    /// What the turn before had recalled, for a turn that goes on with it. Nothing if something that it quotes was
    /// deleted or changed since.
    async fn kept_recall(&self, turn: &RunningTurn, recorded: bool) -> Recall {
        let nothing = |status| Recall::without_block(status, recorded);
        let Some(kept) = turn.before.as_ref().and_then(|snapshot| snapshot.recall.as_deref()) else {
            return nothing(RecallStatus::Nothing);
        };
        if kept.block.is_some() {
            match self.store.still_quotable(turn.running.lease, kept).await {
                Ok(true) => {}
                Ok(false) => return nothing(RecallStatus::Nothing),
                Err(error) => {
                    tracing::warn!(%error, "what was recalled could not be checked; the turn goes on without it");
                    return nothing(RecallStatus::Failed);
                }
            }
        }
        Recall { recorded, ..kept.clone() }
    }
}

fn recall_request(request: &TurnRequest, turn: &RunningTurn, session_key: SessionKey, text: String) -> RecallRequest {
    let facts = &turn.session.facts;
    let before = turn.before.as_ref();
    let inherited = match facts.origin_kind {
        SessionKind::Branch => before.map_or(&[][..], |snapshot| &snapshot.messages),
        SessionKind::Main | SessionKind::Auxiliary | SessionKind::Background | SessionKind::Continuation => &[],
    };
    RecallRequest {
        tenant: request.caller.principal.tenant,
        session_key,
        text,
        shown: Shown {
            conversation: facts.id,
            hidden_through: before.and_then(|snapshot| snapshot.base.as_ref()).map(|base| base.through),
        },
        inherited: inherited.iter().map(|message| message.id).collect(),
        as_of: turn.running.memory,
    }
}

/// What is stored with a turn whose caller wants no memory. `None` for any other turn. The conversation may get its
/// session key later, so it is stored without one too.
pub(crate) fn unrecorded(request: &TurnRequest) -> Option<Recall> {
    (request.options.memory == MemoryUse::Off).then(|| Recall::without_block(RecallStatus::Off, false))
}

/// Whether later recalls may find what a turn says. Helpers and background work are recorded only if they ask for it.
pub(crate) fn is_recorded(request: &TurnRequest, facts: &ConversationFacts) -> bool {
    match request.options.memory {
        MemoryUse::AsUsual => facts.origin_kind.is_user_facing(),
        MemoryUse::On => true,
        MemoryUse::Off => false,
    }
}

fn is_users(message: &&Arc<Message>) -> bool {
    message.said.role == Role::User
}

/// The newest user message that the model is shown of a conversation. A compaction may have carried it.
pub(crate) fn newest_question(snapshot: &Snapshot) -> Option<&Arc<Message>> {
    let carried = snapshot.base.as_ref().map_or(&[][..], |base| &base.carried);
    snapshot.messages.iter().rev().find(is_users).or_else(|| carried.iter().rev().find(is_users))
}

impl RunningTurn {
    /// The newest user message that the model is shown.
    pub(crate) fn newest_question(&self) -> Option<&Arc<Message>> {
        match &self.before {
            Some(snapshot) => newest_question(snapshot),
            None => self.running.messages.iter().rev().find(is_users),
        }
    }

    /// Whether all that the turn was asked with are results of the client's tools.
    fn brings_only_results(&self) -> bool {
        let stored = self.before.as_ref().map_or(&self.running.messages[..], |snapshot| &snapshot.messages);
        let mut own = stored.iter().filter(|message| message.turn == self.running.turn).peekable();
        let is_result = |message: &Arc<Message>| message.said.role == Role::Tool && message.said.call_end().is_none();
        own.peek().is_some_and(|first| is_result(first))
            && own.take_while(|message| message.said.role != Role::Assistant).all(is_result)
    }
}
