//! Ids and places of what is brought. All of them follow from the conversation's id and the numbers of its rows.

use std::collections::HashMap;

use herma_model::{CompactionId, ConversationId, Digest, FinishReason, MessageId, Role, Timestamp, TurnId};
use herma_store::{ImportedCompaction, ImportedConversation, ImportedEntry, ImportedMessage};
use uuid::Uuid;

use super::known::{Known, Stored};

/// A conversation, laid out: entries stand one after the other from place 1 on.
pub(super) struct Plan<'a> {
    pub(super) entries: Vec<Placed<'a>>,
    pub(super) turns: Vec<Turn>,
    /// What it says, digested.
    pub(super) content: [u8; 16],
}

/// An entry at its place.
pub(super) struct Placed<'a> {
    /// Which of the sessions.
    pub(super) session: usize,
    pub(super) seq: i64,
    pub(super) id: MessageId,
    pub(super) what: What<'a>,
}

/// What an entry is.
pub(super) enum What<'a> {
    /// A message, of the turn at that index.
    Said(&'a ImportedMessage, usize),
    Compacted(&'a ImportedCompaction, CompactionId),
}

/// A turn and where its messages lie.
pub(super) struct Turn {
    pub(super) id: TurnId,
    /// The session in which it ended.
    pub(super) session: usize,
    pub(super) first: i64,
    /// Where its answer begins, if it has one.
    pub(super) answer: Option<i64>,
    pub(super) last: i64,
    pub(super) finish: FinishReason,
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
}

impl<'a> Plan<'a> {
    /// Lays a conversation out.
    pub(super) fn of(id: ConversationId, new: &'a ImportedConversation) -> Self {
        let mut plan = Self { entries: Vec::new(), turns: Vec::new(), content: [0; 16] };
        let mut origin = None;
        let entries =
            new.sessions.iter().enumerate().flat_map(|(at, session)| session.entries.iter().map(move |it| (at, it)));
        for ((session, entry), seq) in entries.zip(1..) {
            let placed = match entry {
                ImportedEntry::Said(message) => {
                    if origin != Some(message.turn) {
                        origin = Some(message.turn);
                        plan.turns.push(Turn::beginning(id, message, seq));
                    }
                    plan.say(session, seq, message)
                }
                ImportedEntry::Compacted(compaction) => Placed {
                    session,
                    seq,
                    id: MessageId::from_uuid(derived(id, "summary", compaction.origin)),
                    what: What::Compacted(
                        compaction,
                        CompactionId::from_uuid(derived(id, "compaction", compaction.origin)),
                    ),
                },
            };
            plan.entries.push(placed);
        }
        plan.content = plan.digest(new);
        plan
    }

    fn say(&mut self, session: usize, seq: i64, message: &'a ImportedMessage) -> Placed<'a> {
        let at = self.turns.len() - 1;
        let turn = &mut self.turns[at];
        if turn.answer.is_none() && message.said.role != Role::User {
            turn.answer = Some(seq);
        }
        (turn.session, turn.last, turn.ended, turn.finish) = (session, seq, message.created_at, message.finish);
        let nth = |from: i64| usize::try_from(seq - from).unwrap_or_default();
        let id = match turn.answer {
            Some(answer) => MessageId::answered(turn.id, 1, nth(answer)),
            None => MessageId::brought(turn.id, 1, nth(turn.first)),
        };
        Placed { session, seq, id, what: What::Said(message, at) }
    }

    /// Says the same of two plans that would be written the same. Sizes and times follow from the rest.
    fn digest(&self, new: &ImportedConversation) -> [u8; 16] {
        let origins = new.sessions.iter().map(|session| session.origin.as_bytes());
        let marks: Vec<[u8; 24]> = self.entries.iter().map(Placed::mark).collect();
        let title = new.title.as_deref().unwrap_or_default().as_bytes();
        let usage = format!("{:?}", new.usage);
        let own = [title, usage.as_bytes()].into_iter().chain(origins);
        Digest::of_fields(own.chain(marks.iter().map(<[u8; 24]>::as_slice))).0
    }

    /// Whether it begins with all that is stored.
    pub(super) fn goes_on_from(&self, stored: &[Stored], known: &Known) -> bool {
        stored.len() <= self.entries.len()
            && stored.iter().zip(&self.entries).all(|(stored, placed)| {
                (stored.id, stored.seq) == (placed.id, placed.seq)
                    && known.sessions.get(placed.session).is_some_and(|session| session.key == stored.session)
            })
    }

    /// Where the message of each number stands.
    pub(super) fn places(&self) -> HashMap<i64, i64> {
        let said = self.entries.iter().filter_map(|placed| match placed.what {
            What::Said(message, _) => Some((message.origin, placed.seq)),
            What::Compacted(..) => None,
        });
        said.collect()
    }
}

impl Placed<'_> {
    /// The session and the identity of an entry.
    fn mark(&self) -> [u8; 24] {
        let mut mark = [0; 24];
        mark[..8].copy_from_slice(&(self.session as u64).to_le_bytes());
        mark[8..].copy_from_slice(self.id.uuid().as_bytes());
        mark
    }
}

impl Turn {
    fn beginning(conversation: ConversationId, message: &ImportedMessage, seq: i64) -> Self {
        Self {
            id: TurnId::with_room(derived(conversation, "turn", message.turn)),
            session: 0,
            first: seq,
            answer: None,
            last: seq,
            finish: FinishReason::Stop,
            began: message.created_at,
            ended: message.created_at,
        }
    }
}

/// A unique value that is the same whenever it is made of the same.
fn derived(conversation: ConversationId, what: &str, origin: i64) -> Uuid {
    let fields = [conversation.uuid().into_bytes().to_vec(), what.as_bytes().to_vec(), origin.to_le_bytes().to_vec()];
    Uuid::from_bytes(Digest::of_fields(fields.iter().map(Vec::as_slice)).0)
}
