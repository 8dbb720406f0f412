//! Checks whether a copy is plausible: its places, counts, kinds of sessions, parents and title.

use herma_model::copy::{Copied, CopiedConversation, CopiedSession, CopiedSource};
use herma_model::limits::MAX_TITLE;
use herma_model::text::breaks_a_line;
use herma_model::{ConversationId, Cost, CreatorKind, ParentRelation, Seq, SessionKind, Usage};

use super::restore::{RestoreResult, broken};

/// The largest count that is accepted. Sums of such counts do not overflow.
const MOST: u64 = 1 << 53;

/// Checks a whole conversation.
pub(super) fn conversation(copied: &Copied<CopiedConversation>) -> RestoreResult<()> {
    let what = &copied.what;
    let Some(last) = what.next_place.0.checked_sub(1).filter(|last| is_countable(*last)) else {
        return broken("its next place cannot be one".to_owned());
    };
    let counted = what.counted.map_or(0, |counted| counted.tokens);
    if [what.message_count, what.turn_count, counted].iter().any(|count| *count > MOST)
        || !is_true(what.usage)
        || !is_true(what.side_usage)
        || !what.cost.is_none_or(|cost| (Cost::default()..=Cost::MOST).contains(&cost))
    {
        return broken("its counts cannot be true".to_owned());
    }
    if what.title.as_ref().is_some_and(|title| !is_title(title)) {
        return broken("its title is too long, or has line breaks or other control characters".to_owned());
    }
    let mut before = Seq(0);
    for range in what.rewinds.ranges() {
        if range.after < Seq(0) || range.after >= range.through || range.through <= before || range.through.0 > last {
            return broken("its rewinds cannot be true".to_owned());
        }
        before = range.through;
    }
    kinds(what.id, what.origin_kind, &copied.sessions)?;
    belongings(copied, last)
}

/// Checks the kinds of sessions. The first session has the conversation's kind of origin, and a matching parent or
/// none. Each later session continues the one before.
fn kinds(own: ConversationId, origin: SessionKind, sessions: &[CopiedSession]) -> RestoreResult<()> {
    let mut before: Option<&CopiedSession> = None;
    for session in sessions {
        let parent = session.parent.as_ref();
        let relation = parent.map(|parent| parent.relation);
        let elsewhere = parent.and_then(|parent| parent.conversation_id);
        let can_be = match before {
            None => session.kind == origin && elsewhere != Some(own) && is_declared(session, relation),
            Some(before) => {
                session.kind == SessionKind::Continuation
                    && relation == Some(ParentRelation::Continuation)
                    && elsewhere.is_none()
                    && parent.is_some_and(|parent| parent.session_id == before.id)
            }
        };
        if !can_be {
            return broken(format!("session {} cannot be what it says with that parent", session.id));
        }
        before = Some(session);
    }
    Ok(())
}

/// Whether a first session can have been made like this. An imported session may lack details.
fn is_declared(session: &CopiedSession, relation: Option<ParentRelation>) -> bool {
    let is_imported = session.creator_kind == CreatorKind::Import;
    match relation {
        Some(ParentRelation::Import) => is_imported && session.kind != SessionKind::Continuation,
        Some(_) => session.kind.declare(true) == Ok(relation),
        None if session.kind == SessionKind::Branch => is_imported,
        None => session.kind.declare(false).is_ok(),
    }
}

/// Checks what is inherited of a conversation.
pub(super) fn source(copied: &Copied<CopiedSource>) -> RestoreResult<()> {
    if !is_countable(copied.what.through.0) {
        return broken("what is inherited ends at no place".to_owned());
    }
    kinds(copied.what.id, copied.what.origin_kind, &copied.sessions)?;
    belongings(copied, i64::MAX >> 10)
}

fn belongings<T>(copied: &Copied<T>, last: i64) -> RestoreResult<()> {
    let bases = copied.sessions.iter().filter_map(|session| session.base.as_ref()).map(|base| base.place);
    let turns = copied.turns.iter().flat_map(|turn| [turn.first_place, turn.answer_place, turn.last_place]).flatten();
    let ranges = copied.compactions.iter().flat_map(|compaction| [compaction.first_place, compaction.last_place]);
    let messages = copied.messages.iter().map(|message| message.place);
    let mut places = bases.chain(turns).chain(ranges).chain(messages);
    if let Some(Seq(place)) = places.find(|place| !(0..=last).contains(&place.0)) {
        return broken(format!("{place} is none of its places"));
    }
    let costs = copied.compactions.iter().map(|compaction| compaction.usage);
    if !copied.turns.iter().filter_map(|turn| turn.usage).chain(costs).all(is_true) {
        return broken("its counts cannot be true".to_owned());
    }
    Ok(())
}

fn is_title(title: &str) -> bool {
    title.chars().count() <= MAX_TITLE && !title.chars().any(breaks_a_line)
}

fn is_countable(place: i64) -> bool {
    u64::try_from(place).is_ok_and(|place| place <= MOST)
}

fn is_true(usage: Usage) -> bool {
    [usage.input, usage.output, usage.cached, usage.reasoning].iter().all(|tokens| *tokens <= MOST)
}
