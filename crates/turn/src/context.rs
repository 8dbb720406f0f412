//! What the model is shown: the system messages, the base of the last compaction, then the messages after it.
//!
//! Where a turn has no answer or a tool call has no result, a sentence of the gateway takes that place.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use herma_model::compaction::MadeBy;
use herma_model::tokens::estimate;
use herma_model::{Base, CallId, Message, MessageStatus, OwnCall, Payload, Role, Seq, TurnId, Unanswered};

use crate::words;

/// A conversation's messages and which of its turns have no answer.
#[derive(Debug, Clone, Copy)]
pub struct Transcript<'a> {
    /// The base of the last compaction. It replaces the messages up to its end.
    pub base: Option<&'a Base>,
    /// Messages in order: all after the base, and perhaps those before it.
    pub messages: &'a [Arc<Message>],
    /// Messages in order that rewinds hide from the model. A client that does not know of a rewind still sends them.
    pub rewound: &'a [Arc<Message>],
    /// Whether `messages` begins with the first message of the conversation.
    pub whole: bool,
    /// Turns that ended without an answer.
    pub unanswered: &'a HashMap<TurnId, Unanswered>,
    /// Turns that began anew at a later place, and the number of the first attempt there.
    pub begun_anew: &'a HashMap<TurnId, u32>,
}

impl<'a> Transcript<'a> {
    /// The messages after the base.
    pub fn since_base(&self) -> &'a [Arc<Message>] {
        let from = self.base.map_or(0, |base| self.messages.partition_point(|message| message.seq <= base.through));
        &self.messages[from..]
    }

    /// How a turn ended, if it ended without an answer.
    pub fn ending(&self, turn: TurnId) -> Option<Unanswered> {
        self.unanswered.get(&turn).copied()
    }

    /// All messages in order, rewound ones included. A client may have seen all of them.
    pub fn said(&self) -> Cow<'a, [Arc<Message>]> {
        if self.rewound.is_empty() {
            return Cow::Borrowed(self.messages);
        }
        let mut all = [self.messages, self.rewound].concat();
        all.sort_by_key(|message| message.seq);
        Cow::Owned(all)
    }

    /// Whether a rewind hides a message from the model.
    pub fn is_rewound(&self, message: &Message) -> bool {
        self.rewound.binary_search_by_key(&message.seq, |rewound| rewound.seq).is_ok()
    }

    /// Whether a message belongs to an attempt that failed before its turn began anew at a later place.
    pub fn is_left_behind(&self, message: &Message) -> bool {
        self.begun_anew.get(&message.turn).is_some_and(|first| message.attempt < *first)
    }

    /// Whether a message is a partial answer, and a later attempt of its turn has replaced it. Then the model is not
    /// shown it.
    pub fn is_superseded(&self, message: &Message) -> bool {
        message.said.status == MessageStatus::Partial
            && self.ending(message.turn).is_none_or(|ending| ending.attempt > message.attempt)
    }
}

/// Builds the context of a turn. `running` is that turn: failures of its own earlier attempts leave no note.
///
/// Every tool call in the result has its result, and every result has its call. A turn without an answer has a note in
/// place of it. As long as nothing is compacted, a later context begins with the bytes of an earlier one.
pub fn build(system: &[Payload], transcript: Transcript<'_>, running: Option<TurnId>) -> Vec<Payload> {
    let messages = transcript.since_base();
    let carried = transcript.base.map_or(&[][..], |base| &base.carried);
    let capacity = system.len() + carried.len() + messages.len() + 2;
    let mut context =
        Builder { payloads: Vec::with_capacity(capacity), open: Vec::new(), late: late_results(messages) };
    context.payloads.extend(system.iter().cloned());
    let summary = |made_by: MadeBy| transcript.base.filter(|base| base.made_by == made_by).map(summary_payload);
    context.payloads.extend(summary(MadeBy::Herma));
    let left = LeftBehind::of(&transcript, messages);
    let is_shown = |message: &&Arc<Message>| !transcript.is_left_behind(message) || left.stays(message);
    carried.iter().filter(is_shown).for_each(|message| context.push(message, false));
    if let Some(summary) = summary(MadeBy::Client) {
        context.close_calls();
        context.payloads.push(summary);
    }
    let mut shown: Option<&Message> = None;
    let mut messages = messages.iter().filter(is_shown).peekable();
    while let Some(message) = messages.next() {
        let is_left_behind = transcript.is_left_behind(message);
        let is_running = Some(message.turn) == running && !is_left_behind;
        if message.said.status == MessageStatus::Partial {
            if !is_running && !is_left_behind && !transcript.is_superseded(message) {
                shown = Some(message);
            }
        } else {
            context.push(message, is_running);
        }
        left.calls_after(message).for_each(|call| context.push(call, is_running));
        let ending = transcript.ending(message.turn);
        if !is_left_behind && ending.is_none() || is_running {
            continue;
        }
        let ends_attempt = messages
            .peek()
            .is_none_or(|next| next.turn != message.turn || transcript.is_left_behind(next) != is_left_behind);
        if !ends_attempt {
            continue;
        }
        if is_left_behind {
            context.close_calls();
            context.payloads.push(words::no_reply());
        } else if let Some(ending) = ending {
            let text = shown.take().and_then(|partial| words::text_of(&partial.said.payload));
            context.close_calls();
            context.payloads.push(words::note(text.as_deref(), ending.state));
        }
    }
    context.close_calls();
    context.payloads
}

fn summary_payload(base: &Base) -> Payload {
    base.summary.said.payload.clone()
}

/// Results of calls that ended an earlier turn because a person had to be asked. There may be messages between such a
/// call and its result. The model is shown the result directly after the call.
fn late_results(messages: &[Arc<Message>]) -> HashMap<CallId, Payload> {
    let results = messages.iter().filter(|message| message.said.role == Role::Tool);
    let late = results.filter(|message| message.said.call_end().is_some_and(|end| end.call.is_some()));
    late.filter_map(|message| Some((message.said.calls.first()?.clone(), message.said.payload.clone()))).collect()
}

/// What the model is shown of attempts that failed before their turns began anew at a later place.
///
/// It has to know which calls of Herma's own tools were made already. It is shown them after the turn's input at the
/// later place, as if the turn had gone on there. So it sees that input once.
#[derive(Default)]
struct LeftBehind<'a> {
    /// The last message of each turn's input at the later place, and the calls and results of earlier attempts.
    moved: HashMap<Seq, Vec<&'a Arc<Message>>>,
    /// Attempts with such calls whose turns begin anew outside of these messages: in a part that is summarised.
    stay: HashSet<(TurnId, u32)>,
}

impl<'a> LeftBehind<'a> {
    fn of(transcript: &Transcript<'_>, messages: &'a [Arc<Message>]) -> Self {
        let mut left = Self::default();
        if transcript.begun_anew.is_empty() {
            return left;
        }
        let is_left_behind = |message: &&Arc<Message>| transcript.is_left_behind(message);
        let is_input = |message: &&Arc<Message>| message.said.role == Role::User && !is_left_behind(message);
        let inputs: HashMap<TurnId, Seq> =
            messages.iter().filter(is_input).map(|message| (message.turn, message.seq)).collect();
        for message in messages.iter().filter(is_left_behind) {
            let is_call = !message.said.own_calls().is_empty();
            if !is_call && message.said.call_end().is_none() {
                continue;
            }
            match inputs.get(&message.turn) {
                Some(input) => left.moved.entry(*input).or_default().push(message),
                None => drop(left.stay.insert((message.turn, message.attempt))),
            }
        }
        left
    }

    /// Whether a message that was left behind is shown at its own place.
    fn stays(&self, message: &Message) -> bool {
        self.stay.contains(&(message.turn, message.attempt))
    }

    /// The calls and results that are shown after this message.
    fn calls_after(&self, message: &Message) -> impl Iterator<Item = &'a Arc<Message>> {
        self.moved.get(&message.seq).into_iter().flatten().copied()
    }
}

/// Cuts the beginning of a context so that it fits into about `budget` tokens. The first `system` messages stay. The
/// rest begins with a user message. The last user message and all after it stay even if they do not fit.
pub fn truncated(mut context: Vec<Payload>, system: usize, budget: u64) -> Vec<Payload> {
    let tokens = |payload: &Payload| u64::from(estimate(payload.as_json()));
    let mut total: u64 = context.iter().map(tokens).sum();
    let mut start = system;
    for (at, payload) in context.iter().enumerate().skip(system) {
        if words::is_users(payload) {
            start = at;
            if total <= budget {
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
    open: Vec<OpenCall>,
    /// Results that do not come directly after their calls; see [`late_results`].
    late: HashMap<CallId, Payload>,
}

/// A call whose result is not in the context yet.
struct OpenCall {
    id: CallId,
    /// Whether it is a call of Herma's own tools that may have been made. Without a result it is uncertain.
    may_be_made: bool,
}

impl Builder {
    /// Adds a message. Within the running turn it has its reasoning, which some model servers want back.
    fn push(&mut self, message: &Message, is_running: bool) {
        let said = &message.said;
        match said.role {
            Role::Tool => {
                let answered = said.calls.first().and_then(|call| self.open.iter().position(|open| open.id == *call));
                let Some(at) = answered else { return };
                self.open.remove(at);
            }
            Role::User => self.close_calls(),
            Role::Assistant if said.calls.is_empty() => self.close_calls(),
            Role::Assistant => {
                self.close_calls();
                let own = said.own_calls();
                self.open = said.calls.iter().map(|id| OpenCall::of(id, &own)).collect();
                let payload = match is_running && !own.is_empty() {
                    true => words::with_reasoning(&said.payload, said.extra.as_deref()),
                    false => said.payload.clone(),
                };
                self.payloads.push(payload);
                return self.close_with_late_results();
            }
        }
        self.payloads.push(said.payload.clone());
    }

    /// Adds the late results of the open calls.
    fn close_with_late_results(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let (payloads, late) = (&mut self.payloads, &mut self.late);
        self.open.retain(|call| late.remove(&call.id).map(|result| payloads.push(result)).is_none());
    }

    /// Adds a result for every open call: that it was not made, or that this is not known.
    fn close_calls(&mut self) {
        if self.open.is_empty() {
            return;
        }
        self.payloads.extend(self.open.drain(..).map(|call| match call.may_be_made {
            true => words::uncertain(&call.id),
            false => words::not_executed(&call.id),
        }));
    }
}

impl OpenCall {
    /// A call that a person was asked about and that has no result was not made.
    fn of(id: &CallId, own: &[OwnCall]) -> Self {
        let may_be_made = own.iter().any(|own| own.id == *id && !own.asks && !own.waits);
        Self { id: id.clone(), may_be_made }
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
    fn streamed_text_and_the_note_are_one_message() {
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
    fn a_tool_round_is_shown_whole_and_a_call_that_was_cut_off_is_uncertain() {
        let mut story = Story::default();
        story.own_round("look", &["x", "y"], &[("x", "found")]);
        story.fail_last_turn();
        story.input("and now?");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        let uncertain = format!("tool y: {}", herma_model::tool::UNCERTAIN);
        assert_eq!(
            contents(&context),
            [
                "user: look",
                "assistant: calls x y",
                "tool x: found",
                &uncertain,
                "assistant: [No reply was given: the model server failed.]",
                "user: and now?"
            ]
        );
    }

    #[test]
    fn a_turn_that_begins_anew_shows_its_input_once_and_the_calls_that_it_had_made() {
        let mut story = Story::default();
        story.own_round("look", &["x", "y"], &[("x", "found")]);
        let failed = story.fail_last_turn();
        story.turn("d", "e");
        story.begin_anew(failed, "look");
        let context = build(&[], story.transcript(), Some(failed));
        let uncertain = format!("tool y: {}", herma_model::tool::UNCERTAIN);
        let anew = ["user: look", "assistant: calls x y", "tool x: found", &uncertain];
        assert_eq!(contents(&context), [&["user: d", "assistant: e"], &anew[..]].concat());
        story.answer_anew(failed, "there");
        story.input("f");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(
            contents(&context),
            [&["user: d", "assistant: e"], &anew[..], &["assistant: there", "user: f"]].concat()
        );
    }

    #[test]
    fn a_summary_is_told_of_calls_whose_turn_begins_anew_later() {
        let mut story = Story::default();
        story.own_round("look", &["x"], &[("x", "found")]);
        let failed = story.fail_last_turn();
        story.turn("d", "e");
        story.begin_anew(failed, "look");
        let transcript = story.transcript();
        let covered = Transcript { messages: &transcript.messages[..5], ..transcript };
        assert_eq!(
            contents(&build(&[], covered, None)),
            [
                "user: look",
                "assistant: calls x",
                "tool x: found",
                "assistant: [No reply was given.]",
                "user: d",
                "assistant: e"
            ]
        );
    }

    #[test]
    fn a_result_that_came_with_a_later_turn_stands_beside_its_call() {
        let mut story = Story::default();
        story.own_round("write it", &["x"], &[]);
        story.input("yes, do");
        story.late_result("x", "written");
        let context = build(&[], story.transcript(), Some(story.last_turn()));
        assert_eq!(contents(&context), ["user: write it", "assistant: calls x", "tool x: written", "user: yes, do"]);
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
        let firsts = |budget| {
            let cut: Vec<String> = contents(&truncated(whole.clone(), 1, budget));
            assert_eq!((cut[0].as_str(), cut.last().map(String::as_str)), ("system: s", Some("user: d")));
            cut[1].clone()
        };
        assert_eq!(firsts(10_000), "user: a");
        assert_eq!(firsts(300), "user: c", "never in the middle of an exchange");
        assert_eq!(firsts(0), "user: d", "the last question stays, however long it is");
    }
}
