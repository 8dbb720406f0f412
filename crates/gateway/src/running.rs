//! A turn that holds its lease, and its conversation as far as it is known.

use std::collections::HashMap;
use std::sync::Arc;

use herma_model::tokens::Counted;
use herma_model::{Base, Message, MessageId, Payload, SessionKind, Step, TurnState, Unanswered, Usage};
use herma_store::{Committed, Compacted, Revision, Snapshot};
use herma_turn::{Transcript, build, truncated};

use crate::admission::AdmittedTurn;
use crate::compaction::transcript;
use crate::log::{SessionView, TurnEvent};
use crate::request::TurnRequest;

/// A running turn and its conversation.
pub(crate) struct RunningTurn {
    pub(crate) running: herma_store::Running,
    pub(crate) alias: herma_model::Alias,
    pub(crate) session: SessionView,
    /// The conversation before this turn, and from its start on with what the turn brought.
    pub(crate) before: Option<Snapshot>,
    pub(crate) new_system: Option<Arc<[Payload]>>,
    /// What stands in place of all system messages this once.
    instructions: Option<Payload>,
    /// The id that its answer will have.
    pub(crate) answer_id: MessageId,
    /// Tokens to which its context is cut, if it is.
    pub(crate) room: Option<u64>,
    /// Its steps so far.
    pub(crate) steps: Vec<Step>,
    /// Whether its listeners know that it runs.
    pub(crate) is_told: bool,
}

impl RunningTurn {
    pub(crate) fn of(admitted: AdmittedTurn, request: &TurnRequest) -> Self {
        let AdmittedTurn { running, is_anew, mut before, alias } = admitted;
        if let Some(snapshot) = &mut before {
            forget_summarised(snapshot);
            if is_anew {
                snapshot.begun_anew.insert(running.turn, running.attempt);
            }
            snapshot.messages.extend(running.messages.iter().cloned());
        }
        let session = SessionView {
            facts: Arc::clone(&running.facts),
            requested: request.destination.conversation.name(),
            resolution: running.resolution,
            rotated: false,
            revision: Some(running.revision),
        };
        let new_system = (!request.input.system.is_empty()).then(|| Arc::from(request.input.system.as_slice()));
        let instructions = request.input.instructions.clone();
        let answer_id = MessageId::answered(running.turn, running.attempt, 0);
        Self {
            running,
            alias,
            session,
            before,
            new_system,
            instructions,
            answer_id,
            room: None,
            steps: Vec::new(),
            is_told: false,
        }
    }

    pub(crate) fn started(&self) -> TurnEvent {
        TurnEvent::Started {
            turn: self.running.turn,
            started_at: self.running.started_at,
            session: Some(self.session.clone()),
            message: self.answer_id,
        }
    }

    /// Whether nobody has said yet what its conversation is called.
    pub(crate) fn is_untitled(&self) -> bool {
        self.before.as_ref().is_none_or(|snapshot| snapshot.untitled)
    }

    /// What was said in its conversation, as far as it is known; in a branch what this turn brought, for the rest was said elsewhere.
    pub(crate) fn own_words(&self) -> &[Arc<Message>] {
        match &self.before {
            Some(snapshot) if self.running.facts.origin_kind != SessionKind::Branch => &snapshot.messages,
            _ => &self.running.messages,
        }
    }

    /// What the model is shown.
    pub(crate) fn context(&self) -> Vec<Payload> {
        let running = Some(self.running.turn);
        let stored: &[Payload] = self.before.as_ref().map_or(&[], |snapshot| &snapshot.system);
        let system = match &self.instructions {
            Some(instructions) => std::slice::from_ref(instructions),
            None => self.new_system.as_deref().unwrap_or(stored),
        };
        let context = match &self.before {
            Some(snapshot) => build(system, transcript(snapshot), running),
            None => {
                let (messages, unanswered, begun_anew) = (&self.running.messages, HashMap::new(), HashMap::new());
                let (unanswered, begun_anew) = (&unanswered, &begun_anew);
                build(
                    system,
                    Transcript { base: None, messages, rewound: &[], whole: true, unanswered, begun_anew },
                    running,
                )
            }
        };
        match self.room {
            Some(room) => truncated(context, system.len(), room),
            None => context,
        }
    }

    /// Goes on with a conversation that was compacted.
    pub(crate) fn compacted(&mut self, compacted: &Compacted, base: Arc<Base>) {
        let moved = compacted.facts.head.id != self.session.facts.head.id;
        self.steps.push(Step::Compacted(compacted.record.id));
        self.session.facts = Arc::clone(&compacted.facts);
        self.session.rotated |= moved;
        let changes = compacted.revision.changes;
        self.session.revision = Some(Revision::after_turn(self.running.lease.fence, changes));
        self.running.facts = Arc::clone(&compacted.facts);
        self.running.version = compacted.version;
        if let Some(snapshot) = &mut self.before {
            snapshot.base = Some(base);
            snapshot.counted = None;
            snapshot.auto_compaction_paused = false;
            forget_summarised(snapshot);
        }
    }

    /// The conversation as it is after the turn's end.
    pub(crate) fn into_snapshot(self, committed: &Committed, end: End) -> Snapshot {
        let mut snapshot = self.before.unwrap_or_else(|| Snapshot {
            facts: Arc::clone(&self.running.facts),
            version: committed.version,
            system: Arc::from([]),
            base: None,
            messages: self.running.messages,
            rewound: Vec::new(),
            whole: true,
            counted: None,
            auto_compaction_paused: false,
            rewrites: 0,
            untitled: true,
            unanswered: HashMap::new(),
            begun_anew: HashMap::new(),
            ended: false,
        });
        snapshot.facts = self.running.facts;
        snapshot.version = committed.version;
        if let Some(system) = self.new_system {
            snapshot.system = system;
        }
        snapshot.messages.extend(committed.messages.iter().cloned());
        match end {
            End::Unanswered(state) => {
                snapshot.unanswered.insert(self.running.turn, Unanswered { state, attempt: self.running.attempt });
            }
            End::Answered(usage) => {
                snapshot.unanswered.remove(&self.running.turn);
                let last = snapshot.messages.last().map(|message| message.seq);
                snapshot.counted =
                    usage.zip(last).and_then(|(usage, last)| Counted::of(usage, last)).or(snapshot.counted);
            }
        }
        snapshot
    }
}

/// Lets go of messages that the base stands for.
fn forget_summarised(snapshot: &mut Snapshot) {
    let Some(base) = &snapshot.base else { return };
    let summarised = snapshot.messages.partition_point(|message| message.seq <= base.through);
    snapshot.messages.drain(..summarised);
    snapshot.rewound.retain(|message| message.seq > base.through);
    snapshot.whole = false;
}

/// How a turn ended.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// With an answer, and what the model server counted.
    Answered(Option<Usage>),
    /// Without one.
    Unanswered(TurnState),
}
