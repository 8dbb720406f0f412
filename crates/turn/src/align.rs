//! What of a chat request is new, given what the conversation already knows.
//!
//! A client may send just its new message, or its whole history every time; both must leave the same transcript. System messages are
//! not part of this: they are replaced as a whole.

use std::sync::Arc;

use herma_model::{CallId, Digest, Message, MessageStatus, Role, TurnId, Utterance};

use crate::context::Transcript;
use crate::pairing::open_calls;

/// What a request adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// The request's messages from this one on are new.
    pub new_from: usize,
    /// Nothing is new because the request repeats the input of this unanswered last turn: it is a further attempt of it.
    pub retry_of: Option<TurnId>,
}

/// Finds where the new part of a request begins; `None` if the messages in hand do not reach far enough back to tell.
///
/// The longest run of the request that ends in an assistant message and equals the end of the transcript is known; of two equally long
/// runs the later counts. What was rewound may be in the request or missing from it. If none aligns, what follows the last assistant message is new. The input of trailing unanswered turns, sent
/// again in its place, is known too. A request without an assistant message is new as a whole, but for what was said before and is said
/// again in front of the results that the conversation waits for.
pub fn align(request: &[Utterance], transcript: Transcript<'_>) -> Option<Alignment> {
    let last_answer = request.iter().rposition(|said| said.role == Role::Assistant);
    let said = transcript.said();
    let known = match last_answer {
        None => said_before_results(request, transcript),
        Some(_) if said.is_empty() && transcript.whole => 0,
        Some(last) => match longest_run(request, Transcript { messages: &said, ..transcript }) {
            Longest::Run(end) => end + 1,
            Longest::None => last + 1,
            Longest::Unclear => return None,
        },
    };
    skip_unanswered(request, known, transcript)
}

/// How many messages at the beginning of a request without answers the conversation has: those in front of the first result of an open
/// call, if all of them were said in that order. Only a client that leaves the answers out sends them.
fn said_before_results(request: &[Utterance], transcript: Transcript<'_>) -> usize {
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

/// Messages at the end of a part of the request that equal the end of the transcript.
#[derive(Clone, Copy)]
struct Run {
    end: usize,
    length: usize,
    /// Whether it may go on before the first message in hand.
    open: bool,
}

enum Longest {
    None,
    /// It ends here.
    Run(usize),
    /// It depends on messages that are not in hand.
    Unclear,
}

fn longest_run(request: &[Utterance], transcript: Transcript<'_>) -> Longest {
    let ends = request.iter().enumerate().filter(|(_, said)| said.role == Role::Assistant);
    let runs: Vec<Run> = ends.map(|(end, _)| run_to(end, request, transcript)).filter(Run::counts).collect();
    let Some(longest) = runs.iter().max_by_key(|run| (run.length, run.end)) else { return Longest::None };
    // An open run is at least as long as it looks. It is the longest for sure only if it is the only one, and looks the longest.
    let mut open = runs.iter().filter(|run| run.open);
    match (open.next(), open.next()) {
        (Some(_), Some(_)) => Longest::Unclear,
        (Some(only), None) if only.end != longest.end => Longest::Unclear,
        _ => Longest::Run(longest.end),
    }
}

/// How many messages up to `end` equal the end of the transcript. What belongs to unanswered turns or was replaced by a later attempt may
/// be missing from the request.
fn run_to(end: usize, request: &[Utterance], transcript: Transcript<'_>) -> Run {
    let mut wanted = request[..=end].iter().rev();
    let mut next = wanted.next();
    let mut length = 0;
    for message in transcript.messages.iter().rev() {
        let Some(said) = next else { break };
        if message.said.digest == said.digest {
            length += 1;
            next = wanted.next();
        } else if !may_be_missing(message, transcript) {
            return Run { end, length, open: false };
        }
    }
    Run { end, length, open: next.is_some() && !transcript.whole }
}

impl Run {
    const fn counts(&self) -> bool {
        self.length > 0 || self.open
    }
}

pub(crate) fn may_be_missing(message: &Message, transcript: Transcript<'_>) -> bool {
    message.said.status == MessageStatus::Partial
        || transcript.ending(message.turn).is_some()
        || transcript.is_left_behind(message)
        || transcript.is_rewound(message)
}

/// Steps over the input of trailing unanswered turns that the client sent again in its place. The last of them decides
/// first: if the request ends with its input, it is a further attempt of that turn, even if an older one was asked the
/// same.
fn skip_unanswered(request: &[Utterance], known: usize, transcript: Transcript<'_>) -> Option<Alignment> {
    let is_unanswered = |message: &Message| transcript.ending(message.turn).is_some();
    let said = transcript.said();
    // What was rewound with its answer is not part of the conversation any more.
    let messages: Vec<_> =
        said.iter().filter(|message| !transcript.is_rewound(message) || is_unanswered(message)).cloned().collect();
    let answered = messages.iter().rposition(|message| !is_unanswered(message));
    if answered.is_none() && !transcript.whole {
        return None;
    }
    let trailing = &messages[answered.map_or(0, |at| at + 1)..];
    let turns = || trailing.chunk_by(|one, other| one.turn == other.turn);
    let unanswered: Vec<_> = turns().map(Asked::of).collect();
    let shown: Vec<_> = turns().filter(|turn| !transcript.is_rewound(&turn[0])).map(Asked::of).collect();
    if let Some((last, earlier)) = shown.split_last()
        && let Some(before) = request.len().checked_sub(last.input.len()).filter(|before| *before >= known)
        && last.is_repeated(&request[before..])
        && step_over(earlier, &request[..before], known).end == before
    {
        return Some(Alignment { new_from: request.len(), retry_of: Some(last.turn) });
    }
    let stepped = step_over(&unanswered, request, known);
    // An earlier unanswered turn's input at the very end is a new message of the same wording.
    let new_from = if stepped.end == request.len() { stepped.last } else { stepped.end };
    Some(Alignment { new_from, retry_of: None })
}

/// What an unanswered turn was asked.
struct Asked {
    turn: TurnId,
    input: Vec<Digest>,
}

impl Asked {
    fn of(turn: &[Arc<Message>]) -> Self {
        let input = turn.iter().filter(|message| message.said.status == MessageStatus::Complete);
        Self { turn: turn[0].turn, input: input.map(|message| message.said.digest).collect() }
    }

    /// Whether a request begins with it.
    fn is_repeated(&self, request: &[Utterance]) -> bool {
        !self.input.is_empty()
            && request.len() >= self.input.len()
            && request.iter().zip(&self.input).all(|(said, digest)| said.digest == *digest)
    }
}

/// How far a request repeats unanswered turns.
struct Stepped {
    /// After the last input that was repeated.
    end: usize,
    /// Where that input begins.
    last: usize,
}

/// Steps over the inputs that a request repeats in order, from a place on. Inputs may be missing from it.
fn step_over(unanswered: &[Asked], request: &[Utterance], from: usize) -> Stepped {
    let mut stepped = Stepped { end: from, last: from };
    for asked in unanswered {
        if asked.is_repeated(&request[stepped.end..]) {
            stepped = Stepped { end: stepped.end + asked.input.len(), last: stepped.end };
        }
    }
    stepped
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
    fn what_is_said_again_in_front_of_results_that_are_waited_for_is_known() {
        let mut story = two_turns();
        story.calls("e", &["one", "two"]);
        story.result("one", "1");
        assert_eq!(new_from(&[user("e"), tool("two", "2")], &story), 1);
        assert_eq!(new_from(&[user("e"), tool("one", "1"), tool("two", "2")], &story), 2);
        assert_eq!(new_from(&[user("f"), tool("two", "2")], &story), 0, "that was not said");
        assert_eq!(new_from(&[user("e"), tool("three", "3")], &story), 0, "that is not waited for");
        assert_eq!(new_from(&[tool("two", "2"), user("e")], &story), 0);
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
    fn several_unanswered_turns_are_stepped_over_in_order() {
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
    fn where_the_forgotten_messages_decide_they_are_asked_for() {
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
