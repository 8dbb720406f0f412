//! What the model is shown: system messages, what stands for the messages that were compacted away, then the transcript, made whole
//! where a turn or a tool call was left open.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use herma_model::tokens::estimate;
use herma_model::{Base, CallId, Message, MessageStatus, Payload, Role, TurnId, Unanswered};

use crate::words;

/// A conversation's messages and which of its turns have no answer.
#[derive(Debug, Clone, Copy)]
pub struct Transcript<'a> {
    /// What stands for the messages up to its end.
    pub base: Option<&'a Base>,
    /// Messages in order: every one after the base, and those before it if they are in hand.
    pub messages: &'a [Arc<Message>],
    /// Messages in order that rewinds have taken out of the model's view. They are never shown, but a client that does
    /// not know of a rewind still sends them.
    pub rewound: &'a [Arc<Message>],
    /// Whether `messages` begins with the conversation's first.
    pub whole: bool,
    /// Turns that ended without an answer.
    pub unanswered: &'a HashMap<TurnId, Unanswered>,
    /// Turns that began anew at a later place, and the first attempt there.
    pub begun_anew: &'a HashMap<TurnId, u32>,
}

impl<'a> Transcript<'a> {
    /// The messages that the model is shown themselves.
    pub fn since_base(&self) -> &'a [Arc<Message>] {
        let from = self.base.map_or(0, |base| self.messages.partition_point(|message| message.seq <= base.through));
        &self.messages[from..]
    }

    /// How a turn ended, if it ended without an answer.
    pub fn ending(&self, turn: TurnId) -> Option<Unanswered> {
        self.unanswered.get(&turn).copied()
    }

    /// All messages, what was rewound included, in order: what a client may have seen.
    pub fn said(&self) -> Cow<'a, [Arc<Message>]> {
        if self.rewound.is_empty() {
            return Cow::Borrowed(self.messages);
        }
        let mut all = [self.messages, self.rewound].concat();
        all.sort_by_key(|message| message.seq);
        Cow::Owned(all)
    }

    /// Whether a rewind has taken a message out of the model's view.
    pub fn is_rewound(&self, message: &Message) -> bool {
        self.rewound.binary_search_by_key(&message.seq, |rewound| rewound.seq).is_ok()
    }

    /// Whether a message was said by an attempt that failed before its turn began anew, so that it is history for
    /// people only.
    pub fn is_left_behind(&self, message: &Message) -> bool {
        self.begun_anew.get(&message.turn).is_some_and(|first| message.attempt < *first)
    }

    /// Whether a partial answer was replaced by a later attempt of its turn, so that it is history for people only.
    pub fn is_superseded(&self, message: &Message) -> bool {
        message.said.status == MessageStatus::Partial
            && self.ending(message.turn).is_none_or(|ending| ending.attempt > message.attempt)
    }
}

/// Builds the context of a turn. `running` is the turn it is for: an earlier failure of its own leaves no note.
///
/// The result never has a tool call without its result, a result without its call, or two user messages around a turn that was
/// not answered; and as long as nothing is compacted, a later context begins with an earlier one byte for byte.
pub fn build(system: &[Payload], transcript: Transcript<'_>, running: Option<TurnId>) -> Vec<Payload> {
    let messages = transcript.since_base();
    let carried = transcript.base.map_or(&[][..], |base| &base.carried);
    let mut context =
        Builder { payloads: Vec::with_capacity(system.len() + carried.len() + messages.len() + 2), open: Vec::new() };
    context.payloads.extend(system.iter().cloned());
    context.payloads.extend(transcript.base.map(|base| base.summary.said.payload.clone()));
    let is_shown = |message: &&Arc<Message>| !transcript.is_left_behind(message);
    carried.iter().filter(is_shown).for_each(|message| context.push(message));
    let mut shown: Option<&Message> = None;
    let mut messages = messages.iter().filter(is_shown).peekable();
    while let Some(message) = messages.next() {
        let is_running = Some(message.turn) == running;
        if message.said.status == MessageStatus::Partial {
            if !is_running && !transcript.is_superseded(message) {
                shown = Some(message);
            }
        } else {
            context.push(message);
        }
        let ends_turn = messages.peek().is_none_or(|next| next.turn != message.turn);
        if ends_turn
            && !is_running
            && let Some(ending) = transcript.ending(message.turn)
        {
            let text = shown.take().and_then(|partial| words::text_of(&partial.said.payload));
            context.close_calls();
            context.payloads.push(words::note(text.as_deref(), ending.state));
        }
    }
    context.close_calls();
    context.payloads
}

/// A context without its beginning, so that about `room` tokens are left: system messages stay, and what stays begins with a user's
/// message, the last one at the latest.
pub fn truncated(mut context: Vec<Payload>, system: usize, room: u64) -> Vec<Payload> {
    let tokens = |payload: &Payload| u64::from(estimate(payload.as_json()));
    let mut total: u64 = context.iter().map(tokens).sum();
    let mut start = system;
    for (at, payload) in context.iter().enumerate().skip(system) {
        if words::is_users(payload) {
            start = at;
            if total <= room {
                break;
            }
        }
        total -= tokens(payload);
    }
    context.drain(system..start);
    context
}

struct Builder {
    payloads: Vec<Payload>,
    open: Vec<CallId>,
}

impl Builder {
    fn push(&mut self, message: &Message) {
        match message.said.role {
            Role::Tool => {
                let answered =
                    message.said.calls.first().and_then(|call| self.open.iter().position(|open| open == call));
                let Some(at) = answered else { return };
                self.open.remove(at);
            }
            Role::User => self.close_calls(),
            Role::Assistant => {
                self.close_calls();
                self.open = message.said.calls.to_vec();
            }
        }
        self.payloads.push(message.said.payload.clone());
    }

    /// Gives every call that has no result a short, true one.
    fn close_calls(&mut self) {
        self.payloads.extend(self.open.drain(..).map(|call| words::not_executed(&call)));
    }
}

#[cfg(test)]
mod tests {
    use herma_model::TurnState;

    use super::*;
    use crate::testing::{Story, payloads};

    fn contents(context: &[Payload]) -> Vec<String> {
        payloads(context)
    }

    #[test]
    fn an_unanswered_turn_leaves_its_message_and_one_note() {
        let mut story = Story::default();
        story.turn("a", "b");
        story.unanswered("c", None, TurnState::Failed);
        story.input("d");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(
            contents(&context),
            [
                "user: a",
                "assistant: b",
                "user: c",
                "assistant: [No reply was given: the model server failed.]",
                "user: d"
            ]
        );
    }

    #[test]
    fn what_was_shown_stands_before_the_note_in_one_message() {
        let mut story = Story::default();
        story.unanswered("c", Some("half an"), TurnState::Interrupted);
        story.input("d");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(
            contents(&context),
            ["user: c", "assistant: half an\n\n[The reply ends here: it was interrupted.]", "user: d"]
        );
    }

    #[test]
    fn a_further_attempt_sees_neither_note_nor_partial_of_the_failed_one() {
        let mut story = Story::default();
        story.unanswered("c", Some("half an"), TurnState::Failed);
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(contents(&context), ["user: c"]);
    }

    #[test]
    fn a_partial_that_a_later_attempt_replaced_is_never_shown() {
        let mut story = Story::default();
        story.unanswered("c", Some("half an"), TurnState::Failed);
        story.answer_again("whole");
        story.input("d");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(contents(&context), ["user: c", "assistant: whole", "user: d"]);
    }

    #[test]
    fn a_turn_that_began_anew_is_shown_at_its_last_place_alone() {
        let mut story = Story::default();
        story.turn("a", "b");
        story.unanswered("c", Some("half an"), TurnState::Failed);
        let failed = story.last_turn();
        story.turn("d", "e");
        story.begin_anew(failed, "c");
        let context = build(&[], story.transcript(), Some(failed));
        let shown = ["user: a", "assistant: b", "user: d", "assistant: e", "user: c"];
        assert_eq!(contents(&context), shown);
        story.answer_anew(failed, "whole");
        story.input("f");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(contents(&context), [&shown[..], &["assistant: whole", "user: f"]].concat());
    }

    #[test]
    fn calls_without_a_result_get_one_that_says_so() {
        let mut story = Story::default();
        story.calls("look", &["x", "y"]);
        story.result("x", "found");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(
            contents(&context),
            ["user: look", "assistant: calls x y", "tool x: found", "tool y: [This call was not executed.]"]
        );
        story.input("never mind");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(contents(&context).last().map(String::as_str), Some("user: never mind"));
        assert_eq!(context.len(), 5);
    }

    #[test]
    fn after_a_compaction_the_summary_and_what_is_carried_stand_for_the_rest() {
        let mut story = Story::default();
        story.turn("a", "b");
        story.turn("c", "d");
        story.input("e");
        story.compact("they spoke", 3, &[3]);
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(contents(&context), ["user: they spoke", "user: c", "assistant: d", "user: e"]);
    }

    #[test]
    fn a_later_context_begins_with_the_earlier_one() {
        let mut story = Story::default();
        story.turn("a", "b");
        story.input("c");
        let earlier = build(&[], story.transcript(), Some(story.last_turn()));
        story.answer("d");
        story.input("e");
        let later = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(later[..earlier.len()], earlier[..]);
    }

    #[test]
    fn a_context_is_cut_before_a_question_and_keeps_system_messages_and_the_last_one() {
        let mut story = Story::default();
        for question in ["a", "b", "c"] {
            story.turn(question, &"long ".repeat(100));
        }
        story.input("d");
        let system = [Payload::from_json(r#"{"role":"system","content":"s"}"#)];
        let whole = build(&system, story.transcript(), Some(story.last_turn()));
        let firsts = |room| {
            let cut: Vec<String> = contents(&truncated(whole.clone(), 1, room));
            assert_eq!((cut[0].as_str(), cut.last().map(String::as_str)), ("system: s", Some("user: d")));
            cut[1].clone()
        };
        assert_eq!(firsts(10_000), "user: a");
        assert_eq!(firsts(300), "user: c", "never in the middle of an exchange");
        assert_eq!(firsts(0), "user: d", "what is asked now stays, whatever it costs");
    }
}
