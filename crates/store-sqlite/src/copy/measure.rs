//! What of a copy can be true: places that lie where they can, counts that can be counted on, parents that a session can have.

use herma_model::copy::{Copied, CopiedConversation, CopiedSession, CopiedSource};
use herma_model::{ConversationId, Seq, Usage};

use super::restore::{Attempt, broken};

/// More than anybody counts to, and few enough to be added up.
const MOST: u64 = 1 << 53;

/// All numbers and parents of a conversation.
pub(super) fn conversation(copied: &Copied<CopiedConversation>) -> Attempt<()> {
    let what = &copied.what;
    let Some(last) = what.next_place.0.checked_sub(1).filter(|last| is_countable(*last)) else {
        return broken("its next place cannot be one".to_owned());
    };
    let counted = what.counted.map_or(0, |counted| counted.tokens);
    if [what.message_count, what.turn_count, counted].iter().any(|count| *count > MOST) || !is_true(what.usage) {
        return broken("its counts cannot be true".to_owned());
    }
    parents(what.id, &copied.sessions)?;
    belongings(copied, last)
}

/// Only the first session comes from elsewhere.
fn parents(own: ConversationId, sessions: &[CopiedSession]) -> Attempt<()> {
    for (index, session) in sessions.iter().enumerate() {
        let elsewhere = session.parent.as_ref().and_then(|parent| parent.conversation_id);
        if elsewhere == Some(own) || (elsewhere.is_some() && index > 0) {
            return broken(format!("session {} cannot have such a parent", session.id));
        }
    }
    Ok(())
}

/// All numbers of what is inherited of one.
pub(super) fn source(copied: &Copied<CopiedSource>) -> Attempt<()> {
    if !is_countable(copied.what.through.0) {
        return broken("what is inherited ends at no place".to_owned());
    }
    belongings(copied, i64::MAX >> 10)
}

fn belongings<T>(copied: &Copied<T>, last: i64) -> Attempt<()> {
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

fn is_countable(place: i64) -> bool {
    u64::try_from(place).is_ok_and(|place| place <= MOST)
}

fn is_true(usage: Usage) -> bool {
    [usage.input, usage.output, usage.cached, usage.reasoning].iter().all(|tokens| *tokens <= MOST)
}
