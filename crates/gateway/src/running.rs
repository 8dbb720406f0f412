//! The state of a turn that holds its lease: its conversation, its steps and its usage.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::tokens::Counted;
use herma_model::{
    Alias, ApprovalChoice, Base, CallId, Decision, Digest, HistoryDigest, HistoryEnd, Message, MessageId,
    MessageStatus, NewMessage, OwnCall, Payload, Recall, Role, SessionKind, Step, TurnId, TurnState, Unanswered, Usage,
    Utterance, tool,
};
use herma_store::{Committed, Compacted, PendingApproval, Resumed, Revision, Running, Snapshot, TurnRecord};
use herma_turn::words::put_before;
use herma_turn::{Replacement, Transcript, build, truncated};
use herma_wire::chat::answer_of;

use crate::admission::AdmittedTurn;
use crate::answer::unknown_finish;
use crate::compaction::transcript;
use crate::log::{SessionView, TurnEvent};
use crate::replay::first_message;
use crate::request::TurnRequest;
use crate::tools::decisions::decided_calls;
use crate::tools::{PlannedCall, TurnTools};

/// A running turn and its conversation.
pub(crate) struct RunningTurn {
    pub(crate) running: Running,
    pub(crate) alias: Alias,
    pub(crate) session: SessionView,
    /// The conversation with the turn's own messages so far. `None` while a new conversation has no step.
    pub(crate) before: Option<Snapshot>,
    pub(crate) new_system: Option<Arc<[Payload]>>,
    /// The message that replaces all system messages for this turn.
    instructions: Option<Payload>,
    /// Messages that this attempt has appended.
    appended: usize,
    /// Most tokens of its context, if the context is cut.
    pub(crate) context_limit: Option<u64>,
    /// Its steps so far, those of earlier attempts included.
    pub(crate) steps: Vec<Step>,
    /// Tokens of the model calls whose messages are appended, those of earlier attempts included.
    pub(crate) usage: Option<Usage>,
    /// How the last appended model message ended.
    pub(crate) last_finish: Option<Finish>,
    /// Results of tool calls that came after the turn was asked to stop. They are written with the turn's end.
    pub(crate) unwritten: Vec<NewMessage>,
    /// Whether its listeners know that it runs.
    pub(crate) is_told: bool,
    /// What its client has seen and said up to now. `None` if that is not known.
    pub(crate) history: Option<HistoryDigest>,
    /// What its client has put in place of a part of the history. It is written before the model is called.
    pub(crate) replacement: Option<Box<Replacement>>,
    /// What memory did for it. `None` without a session key.
    pub(crate) recall: Option<Arc<Recall>>,
    /// Whether that is stored.
    recall_is_stored: bool,
}

impl RunningTurn {
    pub(crate) fn of(admitted: AdmittedTurn, request: &TurnRequest) -> Self {
        let AdmittedTurn { running, is_anew, mut before, alias, client_history, replacement } = admitted;
        let history = client_history.or_else(|| history_before_answer(before.as_ref(), &running, is_anew));
        if let Some(snapshot) = &mut before {
            forget_summarised(snapshot);
            if request.shows_its_own_history_alone() {
                forget_unrepeated(snapshot, running.turn, &request.input.messages);
                forget_thoughts(snapshot, &request.input.messages);
            }
            if is_anew {
                snapshot.begun_anew.insert(running.turn, running.attempt);
            }
            snapshot.messages.extend(running.messages.iter().cloned());
        }
        let has_earlier_steps = running.attempt > 1 && !is_anew;
        let steps = if has_earlier_steps { earlier_steps(before.as_ref(), running.turn) } else { Vec::new() };
        let session = SessionView {
            facts: Arc::clone(&running.facts),
            requested: request.destination.conversation.name(),
            resolution: running.resolution,
            rotated: false,
            revision: Some(running.revision),
        };
        let earlier_usage = running.usage;
        let new_system = request.new_system().map(Arc::from);
        let instructions = request.input.instructions.clone();
        Self {
            running,
            alias,
            session,
            before,
            new_system,
            instructions,
            appended: 0,
            context_limit: None,
            steps,
            usage: earlier_usage,
            last_finish: None,
            unwritten: Vec::new(),
            is_told: false,
            history,
            replacement,
            recall: None,
            recall_is_stored: false,
        }
    }

    /// What memory did for it, if that has to be written.
    pub(crate) fn unstored_recall(&self) -> Option<Arc<Recall>> {
        self.recall.clone().filter(|_| !self.recall_is_stored)
    }

    /// A parked turn that this process resumes, its record, and what people answered.
    pub(crate) fn resumed(
        resumed: Resumed,
        alias: Alias,
        request: &TurnRequest,
    ) -> (Self, TurnRecord, Vec<PendingApproval>) {
        let Resumed { running, snapshot, record, approvals, .. } = resumed;
        let own = snapshot.messages.iter().filter(|message| message.turn == running.turn);
        let is_step =
            |message: &Message| record.steps.iter().filter_map(Step::stored_message).any(|s| s.id == message.id);
        let input: Vec<_> = own.filter(|message| !is_step(message)).cloned().collect();
        let client_history = history_after(Some(&snapshot), &input);
        let admitted = AdmittedTurn { running, is_anew: true, before: None, alias, client_history, replacement: None };
        let mut turn = Self::of(admitted, request);
        let is_own =
            |step: &&Step| step.stored_message().is_some_and(|message| message.attempt == turn.running.attempt);
        turn.appended = record.steps.iter().filter(is_own).count();
        turn.steps.clone_from(&record.steps);
        turn.recall.clone_from(&record.recall);
        turn.recall_is_stored = true;
        turn.before = Some(snapshot);
        (turn, record, approvals)
    }

    /// The calls of a resumed turn's last message, and what people decided about them.
    pub(crate) fn decided_by_people(&self, approvals: &[PendingApproval], tools: &TurnTools) -> Vec<PlannedCall> {
        let Some(said) = self.last_said().map(|message| &message.said) else { return Vec::new() };
        let open = self.unsettled_calls();
        let calls = answer_of(said, unknown_finish()).tool_calls;
        let planned = open.into_iter().filter_map(|own| {
            let call = calls.iter().find(|call| *call.id == *own.id)?;
            let asked = approvals.iter().find(|asked| asked.call.id == own.id);
            let answer = asked.and_then(|asked| asked.answer);
            // A question without an answer is too old, which means no.
            let choice = answer.map(|answer| answer.choice).or(asked.map(|_| ApprovalChoice::Deny));
            Some(PlannedCall::decided(own, call, choice, answer, tools))
        });
        planned.collect()
    }

    /// The calls with which the last response ended, and what this request decides about them. Empty in a further
    /// attempt: the attempt before has settled them.
    pub(crate) fn decided_by_request(&self, given: &[(CallId, bool)], tools: &TurnTools) -> Vec<PlannedCall> {
        if self.decisions().next().is_none() {
            return Vec::new();
        }
        let before = self.before.as_ref().map_or(&[][..], |snapshot| &snapshot.messages);
        let earlier = before.iter().filter(|message| message.turn != self.running.turn);
        let planned = decided_calls(given, earlier).into_iter().map(|decided| {
            let choice = decided.answer.map(|answer| answer.choice);
            let planned = PlannedCall::decided(decided.own, &decided.call, choice, decided.answer, tools);
            PlannedCall { is_earlier: true, ..planned }
        });
        planned.collect()
    }

    /// What its request decided about calls of an earlier turn.
    fn decisions(&self) -> impl Iterator<Item = Decision> {
        self.running.messages.iter().filter_map(|message| message.said.decision())
    }

    /// Results for calls of an earlier turn that were decided about and have no result.
    pub(crate) fn cut_off_decisions(&self) -> Vec<Utterance> {
        let results: Vec<_> = self.steps.iter().filter_map(Step::stored_message).collect();
        let is_settled = |call: &CallId| results.iter().any(|result| result.said.calls.contains(call));
        self.decisions().filter(|decided| !is_settled(&decided.id)).map(|decided| decided.cut_off()).collect()
    }

    /// The id that its next message will have.
    pub(crate) fn next_id(&self) -> MessageId {
        MessageId::answered(self.running.turn, self.running.attempt, self.appended)
    }

    /// The ids that its next messages will have.
    pub(crate) fn next_ids(&self) -> impl Iterator<Item = MessageId> {
        let (turn, attempt) = (self.running.turn, self.running.attempt);
        (self.appended..).map(move |nth| MessageId::answered(turn, attempt, nth))
    }

    /// Adds messages that were appended to the state. `usage` is that of the model call that said them.
    pub(crate) fn appended(&mut self, committed: &Committed, usage: Option<Usage>) {
        self.appended += committed.messages.len();
        self.recall_is_stored = true;
        self.running.version = committed.version;
        let snapshot = self.before.get_or_insert_with(|| first_snapshot(&self.running));
        snapshot.version = committed.version;
        snapshot.messages.extend(committed.messages.iter().cloned());
        let last = committed.messages.last().map(|message| message.seq);
        snapshot.counted = usage.zip(last).and_then(|(usage, last)| Counted::of(usage, last)).or(snapshot.counted);
        if let Some(usage) = usage {
            *self.usage.get_or_insert_default() += usage;
        }
        self.steps.extend(Step::of_messages(&committed.messages, &[]));
    }

    /// The calls of Herma's own tools that have no result yet.
    pub(crate) fn unsettled_calls(&self) -> Vec<OwnCall> {
        let messages = self.steps.iter().filter_map(Step::stored_message);
        tool::unsettled(messages.map(|message| &message.said))
    }

    /// The last model message that is stored.
    pub(crate) fn last_said(&self) -> Option<&Arc<Message>> {
        self.steps.iter().rev().find_map(Step::model_message)
    }

    pub(crate) fn started(&self) -> TurnEvent {
        TurnEvent::Started {
            turn: self.running.turn,
            started_at: self.running.started_at,
            session: Some(self.session.clone()),
            message: first_message(&self.steps).unwrap_or_else(|| self.next_id()),
        }
    }

    /// Whether its conversation has no title yet.
    pub(crate) fn is_untitled(&self) -> bool {
        self.before.as_ref().is_none_or(|snapshot| snapshot.untitled)
    }

    /// The messages from which a title is made: those of the conversation. In a branch, only those of this turn.
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
        let mut context = match &self.before {
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
        if let Some(block) = self.recall.as_ref().and_then(|recall| recall.block.as_deref())
            && let Some(question) = self.newest_question()
        {
            put_before(&mut context, &question.said.payload, block);
        }
        match self.context_limit {
            Some(limit) => truncated(context, system.len(), limit),
            None => context,
        }
    }

    /// Puts a compaction of the conversation into the state.
    pub(crate) fn compacted(&mut self, compacted: &Compacted, base: Arc<Base>) {
        let moved = compacted.facts.head.id != self.session.facts.head.id;
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
    pub(crate) fn into_snapshot(self, committed: &Committed, end: End, seen: Option<HistoryEnd>) -> Snapshot {
        let mut snapshot = self.before.unwrap_or_else(|| first_snapshot(&self.running));
        snapshot.facts = self.running.facts;
        snapshot.version = committed.version;
        snapshot.recall = self.recall;
        if let Some(system) = self.new_system {
            snapshot.system = system;
        }
        snapshot.messages.extend(committed.messages.iter().cloned());
        match end {
            End::Unanswered(state) => {
                snapshot.unanswered.insert(self.running.turn, Unanswered { state, attempt: self.running.attempt });
            }
            End::Answered(usage) => {
                snapshot.history = seen.map(|seen| seen.history);
                snapshot.unanswered.remove(&self.running.turn);
                let last = snapshot.messages.last().map(|message| message.seq);
                snapshot.counted =
                    usage.zip(last).and_then(|(usage, last)| Counted::of(usage, last)).or(snapshot.counted);
            }
        }
        snapshot
    }
}

/// The history of a turn's client up to the turn's answer.
fn history_before_answer(before: Option<&Snapshot>, running: &Running, is_anew: bool) -> Option<HistoryDigest> {
    if !running.messages.is_empty() || is_anew {
        return history_after(before, &running.messages);
    }
    // A further attempt: its input is stored already.
    let stored = before.map_or(&[][..], |snapshot| &snapshot.messages);
    let input: Vec<_> = stored.iter().filter(|message| message.turn == running.turn).cloned().collect();
    history_after(before, &input)
}

/// The history of a conversation's clients, followed by further messages. `None` if it is not known.
pub(crate) fn history_after(before: Option<&Snapshot>, input: &[Arc<Message>]) -> Option<HistoryDigest> {
    let seen = match before {
        None => HistoryDigest::EMPTY,
        Some(snapshot) => snapshot.history.or_else(|| history_of_whole(snapshot, input))?,
    };
    let complete = input.iter().map(|message| &message.said).filter(|said| said.status == MessageStatus::Complete);
    Some(seen.followed_by(complete))
}

/// The history up to a turn's input, if all messages of the conversation are in hand.
fn history_of_whole(snapshot: &Snapshot, input: &[Arc<Message>]) -> Option<HistoryDigest> {
    let transcript = transcript(snapshot);
    let is_answered = |message: &&Arc<Message>| {
        message.said.status == MessageStatus::Complete
            && transcript.ending(message.turn).is_none()
            && !transcript.is_left_behind(message)
            && !input.iter().any(|own| own.id == message.id)
    };
    let said = snapshot.messages.iter().filter(is_answered).map(|message| &message.said);
    snapshot.whole.then(|| HistoryDigest::EMPTY.followed_by(said))
}

/// A new conversation with the input of its first turn.
fn first_snapshot(running: &Running) -> Snapshot {
    Snapshot {
        facts: Arc::clone(&running.facts),
        version: running.version,
        system: Arc::from([]),
        base: None,
        messages: running.messages.clone(),
        rewound: Vec::new(),
        whole: true,
        counted: None,
        auto_compaction_paused: false,
        rewrites: 0,
        untitled: true,
        unanswered: HashMap::new(),
        begun_anew: HashMap::new(),
        ended: false,
        history: None,
        recall: None,
    }
}

/// The steps of earlier attempts of a turn at its place: they called Herma's own tools, so the turn goes on after them.
/// Attempts at an older place count in the context alone.
fn earlier_steps(before: Option<&Snapshot>, turn: TurnId) -> Vec<Step> {
    let Some(before) = before else { return Vec::new() };
    let known = transcript(before);
    let own = before.messages.iter().filter(|message| message.turn == turn && !known.is_left_behind(message));
    let own = own.filter(|message| message.said.status == MessageStatus::Complete);
    let own = own.filter(|message| message.said.decision().is_none());
    let own: Vec<_> = own.skip_while(|message| !message.said.is_inner_step()).cloned().collect();
    Step::of_messages(&own, &[])
}

/// Drops messages that the base's summary replaces.
fn forget_summarised(snapshot: &mut Snapshot) {
    let Some(base) = &snapshot.base else { return };
    let summarised = snapshot.messages.partition_point(|message| message.seq <= base.through);
    snapshot.messages.drain(..summarised);
    snapshot.rewound.retain(|message| message.seq > base.through);
    snapshot.whole = false;
}

/// Drops turns without an answer whose input the request does not repeat. Another client with the same history may have
/// asked them. They stay in the transcript.
fn forget_unrepeated(snapshot: &mut Snapshot, own: TurnId, request: &[Utterance]) {
    let unanswered = &snapshot.unanswered;
    if unanswered.is_empty() {
        return;
    }
    let sent: HashSet<Digest> = request.iter().map(|said| said.digest).collect();
    let is_repeated = |message: &&Arc<Message>| sent.contains(&message.said.digest);
    let repeated: HashSet<TurnId> = snapshot.messages.iter().filter(is_repeated).map(|message| message.turn).collect();
    snapshot.messages.retain(|message| {
        message.turn == own || repeated.contains(&message.turn) || !unanswered.contains_key(&message.turn)
    });
}

/// Takes the thoughts out of answers that the request has without them. They may be about words of another client.
fn forget_thoughts(snapshot: &mut Snapshot, request: &[Utterance]) {
    let answers = || request.iter().filter(|said| said.role == Role::Assistant).map(|said| &said.payload);
    // Most answers come back as they are stored. Only for the others all texts are read.
    let payloads = LazyCell::new(|| answers().map(Payload::as_json).collect::<HashSet<_>>());
    let texts = LazyCell::new(|| answers().filter_map(Payload::text).collect::<HashSet<_>>());
    for message in &mut snapshot.messages {
        if !message.said.begins_with_thoughts() || payloads.contains(message.said.payload.as_json()) {
            continue;
        }
        let Some(said) = message.said.without_thoughts() else { continue };
        if !message.said.payload.text().is_some_and(|text| texts.contains(&text)) {
            Arc::make_mut(message).said = said;
        }
    }
}

/// How a turn ended.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// With an answer, and what the model server counted.
    Answered(Option<Usage>),
    /// Without one.
    Unanswered(TurnState),
}
