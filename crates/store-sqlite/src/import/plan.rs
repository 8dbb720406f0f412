//! Turns an imported conversation into the pieces of a copy, so that one writer writes both.
//!
//! Entries are placed one after the other from place 1 on. All ids are derived from the conversation's id and the
//! numbers of the entries in their file. So the same import always makes the same pieces.

use std::collections::{HashMap, HashSet};

use herma_model::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger, MadeBy};
use herma_model::copy::{
    Copied, CopiedBase, CopiedCompaction, CopiedFailure, CopiedMessage, CopiedParent, CopiedSession, CopiedTurn,
};
use herma_model::provenance::CompactionMode;
use herma_model::turn::FailureCode;
use herma_model::{
    CompactionId, ConversationId, CreatorKind, Digest, EndReason, MessageId, ParentRelation, Resolution, Role, Seq,
    SessionId, SessionKind, TurnId, TurnState, Usage,
};
use herma_store::{ImportedCompaction, ImportedConversation, ImportedEntry, ImportedMessage};
use uuid::Uuid;

use super::known::{KnownConversation, KnownSession, StoredEntry};

const UNANSWERED: &str = "there was no answer when the conversation was imported";

/// A conversation as pieces.
pub(super) struct Plan {
    pub(super) whole: Copied<()>,
    /// The digest of its content.
    pub(super) content: [u8; 16],
}

impl Plan {
    /// Makes the pieces. Sessions that were imported before keep the ids that they have here.
    pub(super) fn of(id: ConversationId, new: &ImportedConversation, known: &[KnownSession]) -> Self {
        let known = known.iter().map(|session| &session.id);
        let further = new.sessions.iter().skip(known.len()).map(|session| &session.id);
        let mut layout = Layout {
            id,
            new,
            sessions: known.chain(further).collect(),
            places: places(new),
            turn: None,
            covered: 0,
            whole: Copied::new(()),
            marks: Vec::new(),
        };
        for (at, session) in new.sessions.iter().enumerate() {
            layout.session(at);
            for entry in &session.entries {
                match entry {
                    ImportedEntry::Said(message) => layout.say(at, message),
                    ImportedEntry::Compacted(compaction) => layout.compact(at, compaction),
                }
            }
            layout.whole.sessions[at].base_compaction = layout.whole.compactions.last().map(|last| last.id);
        }
        Self { content: digest(new, &layout.marks), whole: layout.whole }
    }

    /// Whether it begins with everything that is stored.
    pub(super) fn continues(&self, stored: &[StoredEntry], known: &KnownConversation) -> bool {
        let keys: HashMap<&SessionId, i64> = known.sessions.iter().map(|session| (&session.id, session.key)).collect();
        stored.len() <= self.whole.messages.len()
            && stored.iter().zip(&self.whole.messages).all(|(stored, message)| {
                (stored.id, stored.seq) == (message.id, message.place.0)
                    && keys.get(&message.session_id) == Some(&stored.session)
            })
    }

    /// What follows the first messages and sessions, including the turns that continue after them.
    pub(super) fn after(&self, messages: usize, sessions: usize) -> Copied<()> {
        let Copied { turns, compactions, .. } = &self.whole;
        let (last, messages) = self.whole.messages.split_at(messages);
        let last = last.last().map(|message| message.place);
        let new: HashSet<CompactionId> = messages.iter().filter_map(|message| message.compaction_id).collect();
        Copied {
            what: (),
            sessions: self.whole.sessions[sessions..].to_vec(),
            turns: turns.iter().filter(|turn| turn.last_place > last).cloned().collect(),
            messages: messages.to_vec(),
            compactions: compactions.iter().filter(|compaction| new.contains(&compaction.id)).cloned().collect(),
        }
    }
}

/// The place of each message, by its number.
fn places(new: &ImportedConversation) -> HashMap<i64, Seq> {
    let entries = new.sessions.iter().flat_map(|session| &session.entries);
    let said = entries.zip(1..).filter_map(|(entry, place)| match entry {
        ImportedEntry::Said(message) => Some((message.origin, Seq(place))),
        ImportedEntry::Compacted(_) => None,
    });
    said.collect()
}

/// A plan that is being made.
struct Layout<'a> {
    id: ConversationId,
    new: &'a ImportedConversation,
    /// The ids of all sessions.
    sessions: Vec<&'a SessionId>,
    places: HashMap<i64, Seq>,
    /// The number of the turn that the last message belongs to.
    turn: Option<i64>,
    /// The last place that the last compaction covers.
    covered: i64,
    whole: Copied<()>,
    /// The session and the identity of each entry.
    marks: Vec<[u8; 24]>,
}

impl Layout<'_> {
    /// Adds the session at an index. All but the first continue the one before.
    fn session(&mut self, at: usize) {
        let session = &self.new.sessions[at];
        let before = at.checked_sub(1).map(|before| self.sessions[before]);
        let declared = self.new.parent.as_ref().map(|(parent, relation)| (parent, *relation));
        let parent = before.map(|before| (before, ParentRelation::Continuation)).or(declared);
        let has_ended = at + 1 < self.new.sessions.len();
        let place = Seq(self.whole.messages.len() as i64);
        self.whole.sessions.push(CopiedSession {
            id: self.sessions[at].clone(),
            kind: if before.is_some() { SessionKind::Continuation } else { self.new.kind },
            depth: u32::try_from(at).unwrap_or(u32::MAX),
            parent: parent.map(|(id, relation)| CopiedParent {
                session_id: id.clone(),
                relation,
                conversation_id: None,
            }),
            creator_kind: CreatorKind::Import,
            reason: before.map(|_| EndReason::Compression.as_str().into()),
            base: before.map(|id| CopiedBase { conversation_id: None, session_id: id.clone(), place }),
            base_compaction: None,
            created_at: session.created_at,
            ended_at: has_ended.then_some(session.ended_at),
            end_reason: has_ended.then_some(EndReason::Compression),
        });
    }

    fn say(&mut self, session: usize, message: &ImportedMessage) {
        let place = self.next_place();
        if self.turn.replace(message.turn) != Some(message.turn) {
            let turn = self.begin(message, place);
            self.whole.turns.push(turn);
        }
        let Some(turn) = self.whole.turns.last_mut() else { return };
        if turn.answer_place.is_none() && message.said.role != Role::User {
            (turn.answer_place, turn.state, turn.failure) = (Some(place), TurnState::Completed, None);
            turn.model.clone_from(&self.new.model);
        }
        turn.session_id.clone_from(self.sessions[session]);
        turn.finish_reason = turn.answer_place.map(|_| message.finish);
        (turn.last_place, turn.ended_at) = (Some(place), Some(message.created_at));
        let nth = |from: Option<Seq>| from.and_then(|from| usize::try_from(place.0 - from.0).ok()).unwrap_or_default();
        let id = match turn.answer_place {
            Some(_) => MessageId::answered(turn.id, 1, nth(turn.answer_place)),
            None => MessageId::brought(turn.id, 1, nth(turn.first_place)),
        };
        let written = CopiedMessage {
            id,
            session_id: self.sessions[session].clone(),
            place,
            turn_id: Some(turn.id),
            compaction_id: None,
            attempt: 1,
            created_at: message.created_at,
            rewound: false,
            said: message.said.clone(),
        };
        self.push(session, written);
    }

    /// A new turn of which only the input is known. Without an answer it counts as abandoned.
    fn begin(&self, message: &ImportedMessage, place: Seq) -> CopiedTurn {
        let (code, text) = (FailureCode::Abandoned, UNANSWERED.to_owned());
        CopiedTurn {
            id: TurnId::with_room(derived(self.id, "turn", message.turn)),
            attempt_of: None,
            session_id: self.sessions[0].clone(),
            api: "import".into(),
            state: code.ends_as(),
            attempt: 1,
            resolution: Resolution::Head,
            rotated: false,
            first_place: Some(place),
            answer_place: None,
            last_place: Some(place),
            model: None,
            finish_reason: None,
            usage: None,
            failure: Some(CopiedFailure { code, message: text, upstream_status: None }),
            stopped: None,
            kept: false,
            visible_while_queued: false,
            cut_off: false,
            unrecorded: false,
            recorded: false,
            echo: None,
            record: None,
            waiting: Vec::new(),
            created_at: message.created_at,
            ended_at: Some(message.created_at),
        }
    }

    /// Adds a compaction and its summary. The compaction before is its base, and it covers at least as much.
    fn compact(&mut self, session: usize, compaction: &ImportedCompaction) {
        let id = CompactionId::from_uuid(derived(self.id, "compaction", compaction.origin));
        let through = compaction.through.and_then(|origin| self.places.get(&origin));
        let through = through.map_or(self.covered, |place| place.0.max(self.covered));
        let before = match compaction.mode {
            CompactionMode::Split => session.saturating_sub(1),
            CompactionMode::InPlace => session,
        };
        let carried = compaction.carried.iter().filter_map(|origin| self.places.get(origin)).copied();
        self.whole.compactions.push(CopiedCompaction {
            id,
            action: CompactionAction::Compact,
            mode: compaction.mode,
            trigger: CompactionTrigger::Threshold,
            made_by: MadeBy::Herma,
            outcome: CompactionOutcome::Applied,
            session_before: self.sessions[before].clone(),
            session_after: self.sessions[session].clone(),
            base: self.whole.compactions.last().map(|last| last.id),
            first_place: Seq(self.covered + 1),
            last_place: Seq(through),
            carried: carried.filter(|place| place.0 <= through).collect(),
            model: None,
            tokens_before: compaction.sizes.before,
            tokens_after: compaction.sizes.after,
            usage: Usage::default(),
            duration_ms: 0,
            failure: None,
            undoes: None,
            undone_by: None,
            turn_id: None,
            created_at: compaction.created_at,
        });
        self.covered = through;
        let summary = CopiedMessage {
            id: MessageId::from_uuid(derived(self.id, "summary", compaction.origin)),
            session_id: self.sessions[session].clone(),
            place: self.next_place(),
            turn_id: None,
            compaction_id: Some(id),
            attempt: 0,
            created_at: compaction.created_at,
            rewound: false,
            said: compaction.summary.clone(),
        };
        self.push(session, summary);
    }

    fn next_place(&self) -> Seq {
        Seq(self.whole.messages.len() as i64 + 1)
    }

    fn push(&mut self, session: usize, message: CopiedMessage) {
        let mut mark = [0; 24];
        mark[..8].copy_from_slice(&(session as u64).to_le_bytes());
        mark[8..].copy_from_slice(message.id.uuid().as_bytes());
        self.marks.push(mark);
        self.whole.messages.push(message);
    }
}

/// The digest of a plan: equal for plans that would write the same. Sizes and times follow from the rest.
fn digest(new: &ImportedConversation, marks: &[[u8; 24]]) -> [u8; 16] {
    let origins = new.sessions.iter().map(|session| session.origin.as_bytes());
    let title = new.title.as_deref().unwrap_or_default().as_bytes();
    let usage = format!("{:?}", new.usage);
    let own = [title, usage.as_bytes()].into_iter().chain(origins);
    Digest::of_fields(own.chain(marks.iter().map(<[u8; 24]>::as_slice))).0
}

/// An id that is always the same for the same arguments.
fn derived(conversation: ConversationId, what: &str, origin: i64) -> Uuid {
    let fields = [conversation.uuid().into_bytes().to_vec(), what.as_bytes().to_vec(), origin.to_le_bytes().to_vec()];
    Uuid::from_bytes(Digest::of_fields(fields.iter().map(Vec::as_slice)).0)
}
