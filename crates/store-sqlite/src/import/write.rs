//! Writing what is brought.

use std::collections::HashMap;

use herma_model::compaction::CompactionTrigger;
use herma_model::provenance::CompactionMode;
use herma_model::turn::FailureCode;
use herma_model::{
    CompactionId, ConversationId, CreatorKind, EndReason, NewMessage, ParentRelation, Resolution, SessionKey,
    SessionKind, TurnState,
};
use herma_store::{Import, ImportedCompaction, ImportedConversation, ImportedMessage};
use rusqlite::{Connection, params};

use super::known::{Known, Stored};
use super::plan::{Placed, Plan, Turn, What};
use super::remember;
use crate::failure::{Outcome, Translate};
use crate::lineage::Segment;
use crate::tables::{Names, insert_message};

/// What is written, and where.
pub(super) struct Target<'a> {
    pub(super) import: &'a Import,
    pub(super) new: &'a ImportedConversation,
    pub(super) plan: &'a Plan<'a>,
    pub(super) conversation: i64,
    pub(super) id: ConversationId,
}

/// Makes a conversation in which nothing was said.
pub(super) fn conversation(connection: &Connection, import: &Import, new: &ImportedConversation) -> Outcome<i64> {
    connection
        .prepare_cached(
            "INSERT INTO conversations (tenant_pk, id, head_pk, root_pk, origin_kind, session_key, source, title, cwd, metadata, archived, version, fence,
             next_seq, created_at, updated_at) VALUES (?1, ?2, 0, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0, 1, ?10, ?11)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                import.tenant.0,
                new.id.uuid().as_bytes(),
                new.kind.as_str(),
                new.session_key.as_ref().map(SessionKey::as_str),
                new.source,
                new.title,
                new.cwd,
                new.metadata,
                new.archived,
                new.sessions.first().map_or(import.now, |first| first.created_at).0,
                new.updated_at.0
            ])
        })
        .translated()?;
    Ok(connection.last_insert_rowid())
}

/// Writes everything into a conversation that is empty.
pub(super) fn all(connection: &Connection, target: &Target<'_>) -> Outcome<()> {
    let tenant = target.import.tenant;
    Names { connection, tenant, conversation: target.conversation }.of_conversation(target.id)?;
    Writing::new(connection, target).write(0).map(drop)
}

/// Writes what is not stored yet. Says how many messages that were.
pub(super) fn rest(connection: &Connection, target: &Target<'_>, stored: &[Stored], known: &Known) -> Outcome<u64> {
    let mut writing = Writing::new(connection, target);
    writing.sessions = known.sessions.iter().map(|session| session.key).collect();
    writing.messages = stored.iter().map(|stored| (stored.seq, stored.key)).collect();
    writing.write(stored.len())
}

/// How far the writing is.
struct Writing<'a> {
    connection: &'a Connection,
    target: &'a Target<'a>,
    /// Where the message of each number stands.
    places: HashMap<i64, i64>,
    /// The keys of the sessions, as far as they are there.
    sessions: Vec<i64>,
    /// The keys of the messages at each place that is written.
    messages: HashMap<i64, i64>,
    /// The keys of the turns, from the first that is written on.
    turns: HashMap<usize, i64>,
    /// The last compaction, and the last place it stands for.
    ground: Option<(i64, i64)>,
}

impl<'a> Writing<'a> {
    fn new(connection: &'a Connection, target: &'a Target<'a>) -> Self {
        let places = target.plan.places();
        let (sessions, messages, turns) = (Vec::new(), HashMap::new(), HashMap::new());
        Self { connection, target, places, sessions, messages, turns, ground: None }
    }

    /// Writes all entries from one on, and brings the conversation's row up to date.
    fn write(mut self, from: usize) -> Outcome<u64> {
        let plan = self.target.plan;
        self.end_old_head()?;
        for at in self.sessions.len()..self.target.new.sessions.len() {
            self.session(at)?;
        }
        let done = i64::try_from(from).unwrap_or(i64::MAX);
        for (at, turn) in plan.turns.iter().enumerate().filter(|(_, turn)| turn.last > done) {
            let key = if turn.first > done { self.turn(turn)? } else { self.end(turn)? };
            self.turns.insert(at, key);
        }
        let mut said = 0;
        for (at, placed) in plan.entries.iter().enumerate() {
            match placed.what {
                What::Said(..) if at < from => {}
                What::Said(message, turn) => {
                    self.message(placed, message, turn)?;
                    said += 1;
                }
                What::Compacted(compaction, id) if at < from => self.stand_on_stored(compaction, id)?,
                What::Compacted(compaction, id) => self.compaction(placed, compaction, id)?,
            }
            if plan.entries.get(at + 1).is_none_or(|next| next.session != placed.session) && at + 1 > from {
                self.settle(placed.session)?;
            }
        }
        self.settle_empty()?;
        self.head()?;
        remember(self.connection, self.target, &self.sessions)?;
        Ok(said)
    }

    /// Ends the session that was the head, if another follows it now.
    fn end_old_head(&self) -> Outcome<()> {
        let Some(at) = self.sessions.len().checked_sub(1) else { return Ok(()) };
        let sessions = &self.target.new.sessions;
        if at + 1 < sessions.len() {
            let set = params![self.sessions[at], sessions[at].ended_at.0, EndReason::Compression.as_str()];
            self.connection
                .execute("UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE pk = ?1", set)
                .translated()?;
        }
        Ok(())
    }

    fn session(&mut self, at: usize) -> Outcome<()> {
        let Target { import, new, conversation, .. } = self.target;
        let session = &new.sessions[at];
        let before = at.checked_sub(1).map(|before| (self.sessions[before], new.sessions[before].id.clone()));
        let parent = match &before {
            Some((key, _)) => Some((self.name_of(*key)?, ParentRelation::Continuation)),
            None => new.parent.as_ref().map(|(parent, relation)| (parent.to_string(), *relation)),
        };
        let ended = (at + 1 < new.sessions.len()).then_some(session.ended_at.0);
        self.connection
            .prepare_cached(
                "INSERT INTO sessions (tenant_pk, conversation_pk, id, kind, depth, parent_id, parent_relation, creator_kind, reason, base_session_pk,
                 base_seq, created_at, ended_at, end_reason, parent_pk) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?10)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    import.tenant.0,
                    conversation,
                    session.id.as_str(),
                    if before.is_some() { SessionKind::Continuation } else { new.kind }.as_str(),
                    at as i64,
                    parent.as_ref().map(|(parent, _)| parent),
                    parent.as_ref().map(|(_, relation)| relation.as_str()),
                    CreatorKind::Import.as_str(),
                    before.as_ref().map(|_| EndReason::Compression.as_str()),
                    before.as_ref().map(|(key, _)| key),
                    before.as_ref().map(|_| self.end_of(at - 1)),
                    session.created_at.0,
                    ended,
                    ended.map(|_| EndReason::Compression.as_str())
                ])
            })
            .translated()?;
        let key = self.connection.last_insert_rowid();
        let names = Names { connection: self.connection, tenant: import.tenant, conversation: *conversation };
        names.of_session(&session.id, key)?;
        self.sessions.push(key);
        Ok(())
    }

    /// The id that a session has here.
    fn name_of(&self, session: i64) -> Outcome<String> {
        self.connection
            .prepare_cached("SELECT id FROM sessions WHERE pk = ?1")
            .and_then(|mut select| select.query_row([session], |row| row.get(0)))
            .translated()
    }

    /// The last place in the sessions up to one.
    fn end_of(&self, session: usize) -> i64 {
        self.target.plan.entries.partition_point(|placed| placed.session <= session) as i64
    }

    fn turn(&self, turn: &Turn) -> Outcome<i64> {
        let Target { import, conversation, new, .. } = self.target;
        let End { state, failure } = End::of(turn);
        // Whole in one statement that returns nothing: SQLite keeps a journal for one that does, which grows with the transaction.
        self.connection
            .prepare_cached(
                "INSERT INTO turns (tenant_pk, id, conversation_pk, session_pk, api, state, fence, owner, resolution, fingerprint, delivered, first_seq,
                 created_at, answer_seq, last_seq, model, finish_reason, failure_code, failure_message, ended_at)
                 VALUES (?1, ?2, ?3, ?4, 'import', ?8, 0, 0, ?5, x'', 1, ?6, ?7, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    import.tenant.0,
                    turn.id.uuid().as_bytes(),
                    conversation,
                    self.sessions[turn.session],
                    Resolution::Head.as_str(),
                    turn.first,
                    turn.began.0,
                    state.as_str(),
                    turn.answer,
                    turn.last,
                    turn.answer.and(new.model.as_ref()),
                    turn.answer.map(|_| turn.finish.as_str()),
                    failure.map(|(code, _)| code.as_str()),
                    failure.map(|(_, message)| message),
                    turn.ended.0
                ])
            })
            .translated()?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Writes down how a turn ended that was there when it was not over.
    fn end(&self, turn: &Turn) -> Outcome<i64> {
        let End { state, failure } = End::of(turn);
        self.connection
            .prepare_cached(
                "UPDATE turns SET state = ?2, session_pk = ?3, answer_seq = ?4, last_seq = ?5, model = ?6, finish_reason = ?7, failure_code = ?8,
                 failure_message = ?9, ended_at = ?10 WHERE id = ?1 RETURNING pk",
            )
            .and_then(|mut update| {
                let id = turn.id.uuid();
                let set = params![
                    id.as_bytes(),
                    state.as_str(),
                    self.sessions[turn.session],
                    turn.answer,
                    turn.last,
                    turn.answer.and(self.target.new.model.as_ref()),
                    turn.answer.map(|_| turn.finish.as_str()),
                    failure.map(|(code, _)| code.as_str()),
                    failure.map(|(_, message)| message),
                    turn.ended.0
                ];
                update.query_row(set, |row| row.get(0))
            })
            .translated()
    }

    fn message(&mut self, placed: &Placed<'_>, message: &ImportedMessage, turn: usize) -> Outcome<()> {
        let session = self.sessions[placed.session];
        let turn = self.turns.get(&turn).copied().unwrap_or_default();
        let new = NewMessage { id: placed.id, said: message.said.clone() };
        insert_message(self.connection, session, placed.seq, turn, 1, &new, message.created_at)?;
        self.messages.insert(placed.seq, self.connection.last_insert_rowid());
        Ok(())
    }

    /// The last place that a compaction stands for: never before that of the one beneath it.
    fn reach(&self, compaction: &ImportedCompaction) -> i64 {
        let place = compaction.through.and_then(|origin| self.places.get(&origin)).copied().unwrap_or(0);
        place.max(self.ground.map_or(0, |(_, through)| through))
    }

    /// Goes on from a compaction that is written already.
    fn stand_on_stored(&mut self, compaction: &ImportedCompaction, id: CompactionId) -> Outcome<()> {
        let key = self
            .connection
            .prepare_cached("SELECT pk FROM compactions WHERE id = ?1")
            .and_then(|mut select| select.query_row([id.uuid().as_bytes()], |row| row.get(0)))
            .translated()?;
        self.ground = Some((key, self.reach(compaction)));
        Ok(())
    }

    fn compaction(&mut self, placed: &Placed<'_>, compaction: &ImportedCompaction, id: CompactionId) -> Outcome<()> {
        let session = self.sessions[placed.session];
        let through = self.reach(compaction);
        let message = NewMessage { id: placed.id, said: compaction.summary.clone() };
        insert_message(self.connection, session, placed.seq, 0, 0, &message, compaction.created_at)?;
        let summary = self.connection.last_insert_rowid();
        self.messages.insert(placed.seq, summary);
        let before = match compaction.mode {
            CompactionMode::Split => placed.session.checked_sub(1).map_or(session, |before| self.sessions[before]),
            CompactionMode::InPlace => session,
        };
        self.connection
            .prepare_cached(
                "INSERT INTO compactions (tenant_pk, conversation_pk, id, action, mode, trigger, outcome, session_before_pk, session_after_pk, base_pk,
                 first_seq, through_seq, tail_session_pk, summary_pk, tokens_before, tokens_after, created_at)
                 VALUES (?1, ?2, ?3, 'compact', ?4, ?5, 'applied', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    self.target.import.tenant.0,
                    self.target.conversation,
                    id.uuid().as_bytes(),
                    compaction.mode.as_str(),
                    CompactionTrigger::Threshold.as_str(),
                    before,
                    session,
                    self.ground.map(|(key, _)| key),
                    self.ground.map_or(0, |(_, through)| through) + 1,
                    through,
                    self.tail(placed, through),
                    summary,
                    compaction.sizes.before as i64,
                    compaction.sizes.after as i64,
                    compaction.created_at.0
                ])
            })
            .translated()?;
        let key = self.connection.last_insert_rowid();
        self.connection
            .prepare_cached("UPDATE messages SET compaction_pk = ?2 WHERE pk = ?1")
            .and_then(|mut update| update.execute([summary, key]))
            .translated()?;
        self.carry(key, through, compaction)?;
        self.ground = Some((key, through));
        Ok(())
    }

    /// The session in which the first message after a place lies; if there is none yet, that of the summary.
    fn tail(&self, placed: &Placed<'_>, through: i64) -> i64 {
        let said = |entry: &&Placed<'_>| matches!(entry.what, What::Said(..));
        let after = usize::try_from(through).unwrap_or_default();
        let between = self.target.plan.entries[after..].iter().take_while(|entry| entry.seq < placed.seq);
        self.sessions[between.filter(said).map(|entry| entry.session).next().unwrap_or(placed.session)]
    }

    fn carry(&self, key: i64, through: i64, compaction: &ImportedCompaction) -> Outcome<()> {
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO carried (compaction_pk, seq, message_pk) VALUES (?1, ?2, ?3)")
            .translated()?;
        let places = compaction.carried.iter().filter_map(|origin| self.places.get(origin));
        for place in places.filter(|place| **place <= through) {
            if let Some(message) = self.messages.get(place) {
                insert.execute([key, *place, *message]).translated()?;
            }
        }
        Ok(())
    }

    /// Has a session stand on the last compaction up to its end.
    fn settle(&self, session: usize) -> Outcome<()> {
        self.connection
            .prepare_cached("UPDATE sessions SET base_compaction_pk = ?2 WHERE pk = ?1")
            .and_then(|mut update| update.execute(params![self.sessions[session], self.ground.map(|(key, _)| key)]))
            .map(drop)
            .translated()
    }

    /// The same for sessions at the end in which nothing happened.
    fn settle_empty(&self) -> Outcome<()> {
        let last = self.target.plan.entries.last().map_or(0, |placed| placed.session + 1);
        (last..self.sessions.len()).try_for_each(|session| self.settle(session))
    }

    /// The row of the conversation.
    fn head(&self) -> Outcome<()> {
        let Target { new, plan, conversation, .. } = self.target;
        let said = plan.entries.iter().filter(|placed| matches!(placed.what, What::Said(..))).count();
        let modes = plan.entries.iter().filter_map(|placed| match placed.what {
            What::Compacted(compaction, _) => Some(compaction.mode),
            What::Said(..) => None,
        });
        let (count, mode) = modes.fold((0, None), |(count, _), mode| (count + 1, Some(mode)));
        let previous = self.sessions.len().checked_sub(2).map(|at| self.sessions[at]);
        let answered = Segment::whole(*conversation).has_answer(self.connection)?;
        self.connection
            .prepare_cached(
                "UPDATE conversations SET root_pk = ?2, head_pk = ?3, previous_pk = ?4, next_seq = ?5, message_count = ?6, turn_count = ?7, input_tokens = ?8,
                 output_tokens = ?9, cached_tokens = ?10, reasoning_tokens = ?11, compaction_count = ?12, compaction_mode = ?13,
                 updated_at = max(updated_at, ?14), title = iif(nameless, NULL, coalesce(title, ?15)), version = version + 1,
                 answered = ?16 WHERE pk = ?1",
            )
            .and_then(|mut update| {
                update.execute(params![
                    conversation,
                    self.sessions.first(),
                    self.sessions.last(),
                    previous,
                    plan.entries.len() as i64 + 1,
                    said as i64,
                    plan.turns.len() as i64,
                    new.usage.input as i64,
                    new.usage.output as i64,
                    new.usage.cached as i64,
                    new.usage.reasoning as i64,
                    count,
                    mode.map(CompactionMode::as_str),
                    new.updated_at.0,
                    new.title,
                    answered
                ])
            })
            .map(drop)
            .translated()
    }
}

/// How a turn ended: without an answer it was cut off.
struct End {
    state: TurnState,
    failure: Option<(FailureCode, &'static str)>,
}

impl End {
    fn of(turn: &Turn) -> Self {
        match turn.answer {
            Some(_) => Self { state: TurnState::Completed, failure: None },
            None => Self { state: TurnState::Interrupted, failure: Some((FailureCode::Abandoned, UNANSWERED)) },
        }
    }
}

const UNANSWERED: &str = "there was no answer when the conversation was imported";
