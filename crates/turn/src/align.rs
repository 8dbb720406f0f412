//! Which messages of a chat request are new to its conversation.
//!
//! A client may send only its new message, or its whole history every time. Both must lead to the same transcript.
//! System messages are not aligned: a request replaces all of them.

use std::sync::Arc;

use herma_model::{CallId, Digest, Message, MessageStatus, Role, TurnId, Utterance};

use crate::context::Transcript;
use crate::pairing::open_calls;

/// What a request adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// The request's messages from this one on are new.
    pub new_from: usize,
    /// The last turn, if it has no answer and the request repeats its input. Then nothing is new, and the request is a
    /// further attempt of that turn.
    pub retry_of: Option<TurnId>,
}

/// Finds where the new part of a request begins. `None` if older messages than those in hand are needed to decide.
///
/// - A run of the request is known if it ends with an assistant message and equals the end of the transcript. The
///   longest run counts, and the later one of two equally long runs. Rewound messages may be in the request or missing.
/// - If there is no such run, all messages after the last assistant message are new.
/// - Inputs of the unanswered turns at the end are known too, if the request repeats them in their place.
/// - In a request without an assistant message all messages are new, with one exception: see
///   `known_before_results`.
pub fn align(request: &[Utterance], transcript: Transcript<'_>) -> Option<Alignment> {
    let last_answer = request.iter().rposition(|said| said.role == Role::Assistant);
    let said = transcript.said();
    let known = match last_answer {
        None => known_before_results(request, transcript),
        Some(_) if said.is_empty() && transcript.whole => 0,
        Some(last) => match longest_run(request, Transcript { messages: &said, ..transcript }) {
            LongestRun::EndsAt(end) => end + 1,
            LongestRun::None => last + 1,
            LongestRun::Unclear => return None,
        },
    };
    skip_unanswered(request, known, transcript)
}

/// The alignment of a request whose first `known` messages are known. `None` as with [`align`].
pub fn align_after(request: &[Utterance], known: usize, transcript: Transcript<'_>) -> Option<Alignment> {
    skip_unanswered(request, known, transcript)
}

/// How many messages at the beginning of a request without answers are known: all before the first result of an open
/// call, if the transcript has them in that order. A client that leaves the answers out sends such requests.
fn known_before_results(request: &[Utterance], transcript: Transcript<'_>) -> usize {
    let answers_open_call = |open: &[CallId], said: &Utterance| {
        said.role == Role::Tool && said.calls.first().is_some_and(|call| open.contains(call))
    };
    if request.first().is_none_or(|said| said.role == Role::Tool) || !request.iter().any(|said| said.role == Role::Tool)
    {
        return 0;
    }
    let open = open_calls(transcript.messages.iter());
    let Some(first) = request.iter().position(|said| answers_open_call(&open, said)) else { return 0 };
    let mut stored = transcript.messages.iter();
    let all_known = request[..first].iter().all(|said| stored.any(|message| message.said.digest == said.digest));
    if all_known { first } else { 0 }
}

/// Messages of the request up to `end` that equal the end of the transcript.
#[derive(Clone, Copy)]
pub(crate) struct KnownRun {
    pub(crate) end: usize,
    pub(crate) length: usize,
    /// The index of its first message in the transcript.
    pub(crate) start: usize,
    /// Whether older messages than those in hand may belong to it.
    open: bool,
}

enum LongestRun {
    None,
    /// The index of its last message.
    EndsAt(usize),
    /// Older messages than those in hand are needed to decide.
    Unclear,
}

fn longest_run(request: &[Utterance], transcript: Transcript<'_>) -> LongestRun {
    let ends = request.iter().enumerate().filter(|(_, said)| said.role == Role::Assistant);
    let runs: Vec<KnownRun> = ends.map(|(end, _)| run_to(end, request, transcript)).filter(KnownRun::counts).collect();
    let Some(longest) = runs.iter().max_by_key(|run| (run.length, run.end)) else { return LongestRun::None };
    // An open run may be longer than its known length. So it surely is the longest only if it is the only open run and
    // already has the largest known length.
    let mut open = runs.iter().filter(|run| run.open);
    match (open.next(), open.next()) {
        (Some(_), Some(_)) => LongestRun::Unclear,
        (Some(only), None) if only.end != longest.end => LongestRun::Unclear,
        _ => LongestRun::EndsAt(longest.end),
    }
}

/// The run of the request that ends at `end`. The request may leave out the messages that [`may_be_missing`] names.
pub(crate) fn run_to(end: usize, request: &[Utterance], transcript: Transcript<'_>) -> KnownRun {
    let mut wanted = request[..=end].iter().rev();
    let mut next = wanted.next();
    let (mut length, mut start) = (0, transcript.messages.len());
    for (at, message) in transcript.messages.iter().enumerate().rev() {
        let Some(said) = next else { break };
        if message.said.is_repeated_by(said) {
            (length, start) = (length + 1, at);
            next = wanted.next();
        } else if !may_be_missing(message, transcript) {
            return KnownRun { end, length, start, open: false };
        }
    }
    KnownRun { end, length, start, open: next.is_some() && !transcript.whole }
}

impl KnownRun {
    const fn counts(&self) -> bool {
        self.length > 0 || self.open
    }
}

/// Whether a client that sends its history may leave this message out.
pub fn may_be_missing(message: &Message, transcript: Transcript<'_>) -> bool {
    message.said.status == MessageStatus::Partial
        || message.said.is_inner_step()
        || transcript.ending(message.turn).is_some()
        || transcript.is_left_behind(message)
        || transcript.is_rewound(message)
}

/// Skips the inputs of the unanswered turns at the end of the transcript, if the client sent them again in their place.
///
/// The last of these turns is checked first: if the request ends with its input, the request is a further attempt of
/// that turn, even if an older one has the same input.
fn skip_unanswered(request: &[Utterance], known: usize, transcript: Transcript<'_>) -> Option<Alignment> {
    let is_unanswered = |message: &Message| transcript.ending(message.turn).is_some();
    let said = transcript.said();
    // Rewound messages of turns with an answer are not part of the conversation any more.
    let mut from_the_end =
        said.iter().rev().filter(|message| !transcript.is_rewound(message) || is_unanswered(message)).peekable();
    let mut trailing: Vec<_> =
        std::iter::from_fn(|| from_the_end.next_if(|message| is_unanswered(message))).cloned().collect();
    trailing.reverse();
    if from_the_end.peek().is_none() && !transcript.whole {
        return None;
    }
    let turns = || trailing.chunk_by(|one, other| one.turn == other.turn);
    let unanswered: Vec<_> = turns().map(UnansweredInput::of).collect();
    let shown: Vec<_> = turns().filter(|turn| !transcript.is_rewound(&turn[0])).map(UnansweredInput::of).collect();
    if let Some((last, earlier)) = shown.split_last()
        && let Some(before) = request.len().checked_sub(last.input.len()).filter(|before| *before >= known)
        && last.is_repeated(&request[before..])
        && skip_repeated(earlier, &request[..before], known).end == before
    {
        return Some(Alignment { new_from: request.len(), retry_of: Some(last.turn) });
    }
    let skipped = skip_repeated(&unanswered, request, known);
    // If the request ends with the input of an earlier unanswered turn, that is a new message with the same text.
    let new_from = if skipped.end == request.len() { skipped.last_start } else { skipped.end };
    Some(Alignment { new_from, retry_of: None })
}

/// The input of an unanswered turn.
struct UnansweredInput {
    turn: TurnId,
    input: Vec<Digest>,
}

impl UnansweredInput {
    fn of(turn: &[Arc<Message>]) -> Self {
        let is_input =
            |message: &&Arc<Message>| message.said.status == MessageStatus::Complete && !message.said.is_inner_step();
        Self { turn: turn[0].turn, input: turn.iter().filter(is_input).map(|message| message.said.digest).collect() }
    }

    /// Whether these messages of a request begin with it.
    fn is_repeated(&self, request: &[Utterance]) -> bool {
        !self.input.is_empty()
            && request.len() >= self.input.len()
            && request.iter().zip(&self.input).all(|(said, digest)| said.digest == *digest)
    }
}

/// The part of a request that repeats inputs of unanswered turns.
struct Skipped {
    /// The index after the last repeated input.
    end: usize,
    /// The index at which that input begins.
    last_start: usize,
}

/// Skips the inputs that a request repeats in order, from index `from` on. The request may leave inputs out.
fn skip_repeated(unanswered: &[UnansweredInput], request: &[Utterance], from: usize) -> Skipped {
    let mut skipped = Skipped { end: from, last_start: from };
    for turn in unanswered {
        if turn.is_repeated(&request[skipped.end..]) {
            skipped = Skipped { end: skipped.end + turn.input.len(), last_start: skipped.end };
        }
    }
    skipped
}

#[cfg(test)]
mod tests {
    use herma_model::TurnState;

    use super::*;
    use crate::testing::{Story, assistant, tool, user};

    fn new_from(request: &[Utterance], story: &Story) -> usize {
        align(request, story.transcript()).unwrap().new_from
    }

    fn two_turns() -> Story {
        let mut story = Story::default();
        story.turn("a", "b");
        story.turn("c", "d");
        story
    }

    #[test]
    fn a_list_without_an_answer_is_new_as_a_whole() {
        assert_eq!(new_from(&[user("c"), user("e")], &two_turns()), 0);
    }

    #[test]
    fn messages_before_the_results_of_open_calls_are_known() {
        let mut story = two_turns();
        story.calls("e", &["one", "two"]);
        story.result("one", "1");
        assert_eq!(new_from(&[user("e"), tool("two", "2")], &story), 1);
        assert_eq!(new_from(&[user("e"), tool("one", "1"), tool("two", "2")], &story), 2);
        assert_eq!(new_from(&[user("f"), tool("two", "2")], &story), 0, "that was not said");
        assert_eq!(new_from(&[user("e"), tool("three", "3")], &story), 0, "that call is not open");
        assert_eq!(new_from(&[tool("two", "2"), user("e")], &story), 0);
    }

    #[test]
    fn a_turn_of_several_steps_is_one_message_to_a_chat_client() {
        let mut story = two_turns();
        story.own_round("look", &["x"], &[("x", "found")]);
        let shown = Utterance::text_digest(Role::Assistant, "Let me see.\n\nIt is there.");
        story.answer("It is there.");
        let last = Arc::make_mut(story.messages.last_mut().unwrap());
        last.said = last.said.clone().with_shown_digest(shown);
        let whole = [user("c"), assistant("d"), user("look"), assistant("Let me see.\n\nIt is there."), user("e")];
        assert_eq!(new_from(&whole, &story), 4);
        let steps = [user("c"), assistant("d"), user("look"), assistant("It is there."), user("e")];
        assert_eq!(new_from(&steps, &story), 4, "a client of responses sends the last message alone");
    }

    #[test]
    fn a_failed_turn_that_had_called_tools_is_tried_again() {
        let mut story = two_turns();
        story.own_round("look", &["x"], &[("x", "found")]);
        let failed = story.fail_last_turn();
        let alignment = align(&[user("look")], story.transcript()).unwrap();
        assert_eq!(alignment.retry_of, Some(failed));
    }

    #[test]
    fn on_a_new_conversation_everything_is_new() {
        assert_eq!(new_from(&[user("a"), assistant("b"), user("c")], &Story::default()), 0);
    }

    #[test]
    fn the_whole_history_is_known_and_the_rest_is_new() {
        let request = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")];
        assert_eq!(new_from(&request, &two_turns()), 4);
    }

    #[test]
    fn a_client_may_have_cut_the_beginning() {
        assert_eq!(new_from(&[assistant("d"), user("e")], &two_turns()), 1);
        assert_eq!(new_from(&[user("c"), assistant("d"), user("e"), user("f")], &two_turns()), 2);
    }

    #[test]
    fn an_edited_beginning_does_not_matter() {
        let request = [user("A"), assistant("b"), user("c"), assistant("d"), user("e")];
        assert_eq!(new_from(&request, &two_turns()), 4);
    }

    #[test]
    fn if_nothing_aligns_what_follows_the_last_answer_is_new() {
        let request = [user("x"), assistant("y"), user("e")];
        assert_eq!(new_from(&request, &two_turns()), 2);
    }

    #[test]
    fn of_two_equally_long_runs_the_later_counts() {
        let mut story = Story::default();
        story.turn("a", "b");
        let request = [user("a"), assistant("b"), user("a"), assistant("b"), user("c")];
        assert_eq!(new_from(&request, &story), 4);
    }

    #[test]
    fn an_unanswered_message_sent_again_in_its_place_is_a_further_attempt() {
        let mut story = two_turns();
        story.unanswered("e", None, TurnState::Failed);
        let whole = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")];
        let expected = |at| Alignment { new_from: at, retry_of: Some(story.last_turn()) };
        assert_eq!(align(&whole, story.transcript()), Some(expected(5)));
        assert_eq!(align(&[user("e")], story.transcript()), Some(expected(1)));
    }

    #[test]
    fn after_an_unanswered_message_only_what_follows_it_is_new() {
        let mut story = two_turns();
        story.unanswered("e", Some("par"), TurnState::Interrupted);
        let kept = [user("a"), assistant("b"), user("c"), assistant("d"), user("e"), user("f")];
        assert_eq!(align(&kept, story.transcript()), Some(Alignment { new_from: 5, retry_of: None }));
        let with_partial = [user("c"), assistant("d"), user("e"), assistant("par"), user("f")];
        assert_eq!(align(&with_partial, story.transcript()), Some(Alignment { new_from: 4, retry_of: None }));
        let dropped = [user("c"), assistant("d"), user("f")];
        assert_eq!(align(&dropped, story.transcript()), Some(Alignment { new_from: 2, retry_of: None }));
    }

    #[test]
    fn several_unanswered_turns_are_skipped_in_order() {
        let mut story = Story::default();
        story.unanswered("a", None, TurnState::Failed);
        story.unanswered("b", None, TurnState::Failed);
        assert_eq!(align(&[user("a"), user("b"), user("c")], story.transcript()).unwrap().new_from, 2);
        assert_eq!(align(&[user("a"), user("b")], story.transcript()).unwrap().retry_of, Some(story.last_turn()));
        assert_eq!(align(&[user("a")], story.transcript()), Some(Alignment { new_from: 0, retry_of: None }));
    }

    #[test]
    fn the_last_unanswered_turn_is_tried_again_although_an_older_one_said_the_same() {
        let mut story = two_turns();
        story.unanswered("x", None, TurnState::Failed);
        story.unanswered("y", None, TurnState::Failed);
        story.unanswered("x", None, TurnState::Failed);
        let retry = |at| Some(Alignment { new_from: at, retry_of: Some(story.last_turn()) });
        let whole = [user("c"), assistant("d"), user("x"), user("y"), user("x")];
        assert_eq!(align(&[user("x")], story.transcript()), retry(1));
        assert_eq!(align(&[user("y"), user("x")], story.transcript()), retry(2));
        assert_eq!(align(&whole, story.transcript()), retry(5));
        let new = |at| Some(Alignment { new_from: at, retry_of: None });
        assert_eq!(align(&[user("y")], story.transcript()), new(0), "that one is not the last");
        assert_eq!(align(&[user("z"), user("x")], story.transcript()), new(0), "something new comes before it");
        assert_eq!(align(&[user("x"), user("z")], story.transcript()), new(1));
    }

    #[test]
    fn what_an_attempt_said_before_its_turn_began_anew_may_be_missing() {
        let mut story = two_turns();
        story.unanswered("x", None, TurnState::Failed);
        let failed = story.last_turn();
        story.turn("e", "f");
        story.begin_anew(failed, "x");
        story.answer_anew(failed, "y");
        let rest = [user("e"), assistant("f"), user("x"), assistant("y"), user("new")];
        let both = [&[user("c"), assistant("d"), user("x")], &rest[..]].concat();
        let last = [&[user("c"), assistant("d")], &rest[..]].concat();
        assert_eq!(new_from(&both, &story), 7);
        assert_eq!(new_from(&last, &story), 6);
    }

    #[test]
    fn what_was_rewound_may_be_in_the_request_or_missing_from_it() {
        let mut story = two_turns();
        story.rewind(2);
        assert_eq!(new_from(&[user("a"), assistant("b"), user("c"), assistant("d"), user("e")], &story), 4);
        assert_eq!(new_from(&[user("a"), assistant("b"), user("e")], &story), 2);
        assert_eq!(new_from(&[user("a"), assistant("b"), user("c")], &story), 2, "it is asked again");
        story.unanswered("x", None, TurnState::Failed);
        let retry = Some(Alignment { new_from: 3, retry_of: Some(story.last_turn()) });
        assert_eq!(align(&[user("a"), assistant("b"), user("x")], story.transcript()), retry);
        story.rewind(2);
        assert_eq!(new_from(&[user("a"), assistant("b"), user("x"), user("y")], &story), 3);
        let again = Some(Alignment { new_from: 2, retry_of: None });
        assert_eq!(align(&[user("a"), assistant("b"), user("x")], story.transcript()), again);
        story.rewind(0);
        assert_eq!(new_from(&[user("a"), assistant("b"), user("c"), assistant("d"), user("e")], &story), 4);
    }

    #[test]
    fn what_the_model_is_shown_is_enough_to_align_a_whole_history() {
        let mut story = two_turns();
        story.compact("they spoke", 2, &[]);
        story.forget();
        let whole = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")];
        assert_eq!(new_from(&whole, &story), 4);
        assert_eq!(new_from(&[user("e")], &story), 0);
        assert_eq!(new_from(&[user("x"), assistant("y"), user("e")], &story), 2);
    }

    #[test]
    fn if_older_messages_are_needed_to_decide_nothing_is_aligned() {
        let mut story = Story::default();
        for _ in 0..3 {
            story.turn("go on", "done");
        }
        story.compact("they spoke", 4, &[]);
        let twice = [user("x"), assistant("done"), user("go on"), assistant("done"), user("go on"), assistant("done")];
        let twice = [&twice[..], &[user("go on"), assistant("done"), user("e")]].concat();
        let expected = align(&twice, story.transcript());
        assert_eq!(expected, Some(Alignment { new_from: 8, retry_of: None }));
        story.forget();
        assert_eq!(align(&twice, story.transcript()), None);
    }

    #[test]
    fn unanswered_turns_alone_are_not_enough_to_align_with() {
        let mut story = two_turns();
        story.unanswered("e", None, TurnState::Failed);
        story.compact("they spoke", 4, &[]);
        story.forget();
        assert_eq!(align(&[user("e")], story.transcript()), None);
    }
}
