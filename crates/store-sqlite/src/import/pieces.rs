//! An imported conversation as pieces: the same that a restored one is written from.

use std::collections::HashMap;

use herma_model::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger};
use herma_model::copy::{
    Copied, CopiedBase, CopiedCompaction, CopiedFailure, CopiedMessage, CopiedParent, CopiedSession, CopiedTurn,
};
use herma_model::provenance::CompactionMode;
use herma_model::turn::FailureCode;
use herma_model::{
    CompactionId, CreatorKind, EndReason, ParentRelation, Resolution, Seq, SessionId, SessionKind, TurnState, Usage,
};
use herma_store::{ImportedCompaction, ImportedConversation, ImportedMessage};

use super::plan::{Placed, Plan, Turn, What};

const UNANSWERED: &str = "there was no answer when the conversation was imported";

/// What is to be written of a conversation.
pub(super) struct Pieces {
    /// Sessions, turns, messages and compactions that are not stored yet, and turns that went on.
    pub(super) copied: Copied<()>,
    /// The ids of all sessions, in order.
    pub(super) sessions: Vec<SessionId>,
    /// For each session, the last compaction up to its end.
    pub(super) bases: Vec<Option<CompactionId>>,
    /// The number of compactions of the whole conversation, and the mode of the last one.
    pub(super) compactions: (u32, Option<CompactionMode>),
}

impl Pieces {
    /// The pieces from an entry on. `stored` are the ids of the sessions that are stored.
    pub(super) fn of(new: &ImportedConversation, plan: &Plan<'_>, stored: &[SessionId], from: usize) -> Self {
        let further = new.sessions.iter().skip(stored.len()).map(|session| session.id.clone());
        let ids: Vec<SessionId> = stored.iter().cloned().chain(further).collect();
        let mut ledger = Ledger::new(plan, &ids);
        let mut copied = Copied::new(());
        for (at, placed) in plan.entries.iter().enumerate() {
            let compaction = ledger.next(placed);
            if at >= from {
                copied.messages.push(message(placed, plan, &ids));
                copied.compactions.extend(compaction);
            }
        }
        let done = i64::try_from(from).unwrap_or(i64::MAX);
        let turns = plan.turns.iter().filter(|turn| turn.last > done);
        copied.turns = turns.map(|turn| self::turn(turn, new, &ids)).collect();
        let bases = ledger.bases(new.sessions.len());
        copied.sessions = (stored.len()..ids.len()).map(|at| session(new, plan, &ids, at, bases[at])).collect();
        Self { copied, bases, compactions: (ledger.count, ledger.mode), sessions: ids }
    }
}

/// The session at an index. All but the first go on from the one before.
fn session(
    new: &ImportedConversation,
    plan: &Plan<'_>,
    ids: &[SessionId],
    at: usize,
    base_compaction: Option<CompactionId>,
) -> CopiedSession {
    let session = &new.sessions[at];
    let before = at.checked_sub(1).map(|before| &ids[before]);
    let declared = new.parent.as_ref().map(|(parent, relation)| (parent, *relation));
    let parent = before.map(|before| (before, ParentRelation::Continuation)).or(declared);
    let has_ended = at + 1 < ids.len();
    CopiedSession {
        id: ids[at].clone(),
        kind: if before.is_some() { SessionKind::Continuation } else { new.kind },
        depth: u32::try_from(at).unwrap_or(u32::MAX),
        parent: parent.map(|(id, relation)| CopiedParent { session_id: id.clone(), relation, conversation_id: None }),
        creator_kind: CreatorKind::Import,
        reason: before.map(|_| EndReason::Compression.as_str().into()),
        base: before.map(|before| CopiedBase {
            conversation_id: None,
            session_id: before.clone(),
            place: Seq(plan.entries.partition_point(|placed| placed.session < at) as i64),
        }),
        base_compaction,
        created_at: session.created_at,
        ended_at: has_ended.then_some(session.ended_at),
        end_reason: has_ended.then_some(EndReason::Compression),
    }
}

/// A turn without an answer was cut off.
fn turn(turn: &Turn, new: &ImportedConversation, ids: &[SessionId]) -> CopiedTurn {
    let is_answered = turn.answer.is_some();
    let failure =
        || CopiedFailure { code: FailureCode::Abandoned, message: UNANSWERED.to_owned(), upstream_status: None };
    CopiedTurn {
        id: turn.id,
        attempt_of: None,
        session_id: ids[turn.session].clone(),
        api: "import".into(),
        state: if is_answered { TurnState::Completed } else { TurnState::Interrupted },
        attempt: 1,
        resolution: Resolution::Head,
        rotated: false,
        first_place: Some(Seq(turn.first)),
        answer_place: turn.answer.map(Seq),
        last_place: Some(Seq(turn.last)),
        model: new.model.clone().filter(|_| is_answered),
        finish_reason: is_answered.then_some(turn.finish),
        usage: None,
        failure: (!is_answered).then(failure),
        stopped: None,
        kept: false,
        promised: false,
        cut_off: false,
        echo: None,
        record: None,
        waiting: Vec::new(),
        created_at: turn.began,
        ended_at: Some(turn.ended),
    }
}

/// Something that was said, or the summary of a compaction.
fn message(placed: &Placed<'_>, plan: &Plan<'_>, ids: &[SessionId]) -> CopiedMessage {
    let (turn_id, compaction_id, attempt, created_at, said) = match placed.what {
        What::Said(ImportedMessage { created_at, said, .. }, turn) => {
            (Some(plan.turns[turn].id), None, 1, *created_at, said)
        }
        What::Compacted(ImportedCompaction { created_at, summary, .. }, id) => {
            (None, Some(id), 0, *created_at, summary)
        }
    };
    let (session_id, place, said) = (ids[placed.session].clone(), Seq(placed.seq), said.clone());
    CopiedMessage { id: placed.id, session_id, place, turn_id, compaction_id, attempt, created_at, said }
}

/// The compactions of a plan, read in order: each stands on the one before.
struct Ledger<'a> {
    ids: &'a [SessionId],
    /// Where the message of each number stands.
    places: HashMap<i64, i64>,
    /// The last compaction, the session it was made in, and the last place it stands for.
    last: Option<(CompactionId, i64)>,
    /// For each session in which there is one, its last.
    made: Vec<(usize, CompactionId)>,
    count: u32,
    mode: Option<CompactionMode>,
}

impl<'a> Ledger<'a> {
    fn new(plan: &Plan<'_>, ids: &'a [SessionId]) -> Self {
        Self { ids, places: plan.places(), last: None, made: Vec::new(), count: 0, mode: None }
    }

    /// The compaction that an entry is, if it is one.
    fn next(&mut self, placed: &Placed<'_>) -> Option<CopiedCompaction> {
        let What::Compacted(compaction, id) = placed.what else { return None };
        let (base, covered) = self.last.map_or((None, 0), |(id, through)| (Some(id), through));
        // Never before the last place of the one beneath it.
        let through =
            compaction.through.and_then(|origin| self.places.get(&origin)).map_or(covered, |at| covered.max(*at));
        let session = &self.ids[placed.session];
        let before = match compaction.mode {
            CompactionMode::Split => placed.session.checked_sub(1).map_or(session, |before| &self.ids[before]),
            CompactionMode::InPlace => session,
        };
        let carried = compaction.carried.iter().filter_map(|origin| self.places.get(origin));
        self.last = Some((id, through));
        self.made.push((placed.session, id));
        (self.count, self.mode) = (self.count + 1, Some(compaction.mode));
        Some(CopiedCompaction {
            id,
            action: CompactionAction::Compact,
            mode: compaction.mode,
            trigger: CompactionTrigger::Threshold,
            outcome: CompactionOutcome::Applied,
            session_before: before.clone(),
            session_after: session.clone(),
            base,
            first_place: Seq(covered + 1),
            last_place: Seq(through),
            carried: carried.filter(|place| **place <= through).map(|place| Seq(*place)).collect(),
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
        })
    }

    /// For each session, the last compaction up to its end.
    fn bases(&self, sessions: usize) -> Vec<Option<CompactionId>> {
        let last_in = |session| self.made.iter().rev().find(|(made_in, _)| *made_in <= session).map(|(_, id)| *id);
        (0..sessions).map(last_in).collect()
    }
}
