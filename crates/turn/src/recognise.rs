//! How the history of a client that names no conversation differs from a transcript that it may continue.
//!
//! A client that sends exactly what it was shown is found by the digest of its history. This module is for the others:
//! clients that change their own messages afterwards, and clients that compact their context themselves.

use std::sync::Arc;

use herma_model::{Message, MessageStatus, Role, TurnId, Utterance};

use crate::align::{KnownRun, may_be_missing, run_to};
use crate::context::Transcript;

/// An answer of at least this many words identifies the message that it answers.
const TELLING_WORDS: usize = 12;

/// What connects a request with a conversation besides its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection<'a> {
    /// Nothing. At least one stored answer must be in the request.
    None,
    /// Both came under the same chat of a front end.
    Chat {
        /// The summary that the client has last asked for in this chat.
        summary: Option<&'a str>,
    },
}

/// What was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognised {
    /// The request repeats the transcript from its beginning.
    Known {
        /// How many messages of the request are known.
        messages: usize,
        /// The turn whose answer is the last of them.
        after: TurnId,
    },
    /// The client has compacted its context itself.
    Replaced(Replacement),
}

/// A context that its client has put in place of the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The request's messages from this one on are new.
    pub new_from: usize,
    /// The last message that is replaced or carried. All later ones are in the request.
    pub last: Arc<Message>,
    /// Earlier messages that are still in the request, in the order of the transcript.
    pub carried: Vec<Arc<Message>>,
    /// The indices of the request's messages that stand in place of the others.
    pub summary: Vec<usize>,
}

/// Compares a request with a whole transcript. `None` if the request does not continue it.
pub fn recognise(request: &[Utterance], transcript: Transcript<'_>, by: Connection<'_>) -> Option<Recognised> {
    let said = transcript.said();
    let transcript = Transcript { messages: &said, ..transcript };
    let known = known_beginning(request, transcript);
    if let Some(known @ Recognised::Known { messages, .. }) = &known
        && !request[*messages..].iter().any(|said| said.role == Role::Assistant)
    {
        return Some(known.clone());
    }
    let replaced = replaced_before_end(request, transcript).or_else(|| match by {
        Connection::None => None,
        Connection::Chat { summary } => replaced_as_whole(request, transcript, summary),
    });
    replaced.map(Recognised::Replaced).or(known)
}

/// The messages that clients have seen, without those of turns that have no answer.
fn shown<'a>(messages: &'a [Arc<Message>], transcript: Transcript<'a>) -> impl Iterator<Item = &'a Arc<Message>> {
    messages.iter().filter(move |message| !may_be_missing(message, transcript))
}

/// The part of the request that repeats the transcript from its beginning, up to the end of a turn. An answer inside a
/// turn was brought by its client as an example or a greeting: what follows it in the transcript may differ.
///
/// A user's message is known although its words differ, if the same answer follows it in both, that answer is long, and
/// one text contains the other: some clients take out of a message what they had added for the model.
fn known_beginning(request: &[Utterance], transcript: Transcript<'_>) -> Option<Recognised> {
    let mut known = None;
    let mut at = 0;
    let mut stored = transcript.messages.iter().peekable();
    while let (Some(message), Some(said)) = (stored.next(), request.get(at)) {
        let is_same = message.said.is_repeated_by(said);
        if !is_same && may_be_missing(message, transcript) {
            continue;
        }
        let next = stored.clone().find(|next| !may_be_missing(next, transcript));
        let answered_alike = || next.zip(request.get(at + 1)).is_some_and(|(next, said)| is_telling(&next.said, said));
        let is_known = is_same || is_shortened(&message.said, said) && answered_alike();
        if !is_known {
            break;
        }
        at += 1;
        let ends_turn = stored.peek().is_none_or(|later| later.turn != message.turn);
        if said.role == Role::Assistant && ends_turn {
            known = Some(Recognised::Known { messages: at, after: message.turn });
        }
    }
    known
}

/// Whether one of two user messages contains the other.
fn is_shortened(stored: &Utterance, said: &Utterance) -> bool {
    let is_user = stored.role == Role::User && said.role == Role::User;
    let texts = || stored.payload.text().zip(said.payload.text());
    is_user && texts().is_some_and(|(stored, said)| contains(&stored, &said) || contains(&said, &stored))
}

fn contains(longer: &str, shorter: &str) -> bool {
    let shorter = shorter.trim();
    !shorter.is_empty() && longer.contains(shorter)
}

/// Whether both are the same answer, and it is long enough to identify its question.
fn is_telling(stored: &Utterance, said: &Utterance) -> bool {
    stored.role == Role::Assistant
        && stored.status == MessageStatus::Complete
        && stored.is_repeated_by(said)
        && has_words(said)
}

fn has_words(said: &Utterance) -> bool {
    said.payload.text().is_some_and(|text| text.split_whitespace().nth(TELLING_WORDS - 1).is_some())
}

/// A context of which the end repeats the end of the transcript. What comes before that repeats other messages of it,
/// or stands in place of them.
fn replaced_before_end(request: &[Utterance], transcript: Transcript<'_>) -> Option<Replacement> {
    let answers = request.iter().enumerate().filter(|(_, said)| said.role == Role::Assistant);
    let runs = answers.map(|(end, _)| run_to(end, request, transcript));
    let run: KnownRun = runs.filter(|run| run.length > 0).max_by_key(|run| (run.length, run.end))?;
    let is_enough = run.length > 1 || has_words(&request[run.end]);
    if !is_enough {
        return None;
    }
    let first = run.end + 1 - run.length;
    let parts = Parts::of(&request[..first], shown(&transcript.messages[..run.start], transcript));
    replacement(request, run.end + 1, parts.known, &parts.missing, parts.unknown)
}

/// A context in which messages of the transcript are repeated, but not its end. The last message is new. The other
/// unknown messages stand in place of what is missing. A message with the summary that the client has asked for is
/// never new. If it is the last one, nothing is: the client has compacted its context in the middle of its work.
fn replaced_as_whole(request: &[Utterance], transcript: Transcript<'_>, summary: Option<&str>) -> Option<Replacement> {
    let mut parts = Parts::of(request, shown(transcript.messages, transcript));
    let has_summary = |at: &usize| {
        let text = request[*at].payload.text();
        summary.is_some_and(|summary| text.is_some_and(|text| contains(&text, summary)))
    };
    let is_certain = parts.unknown.iter().any(has_summary);
    let new_from = match parts.unknown.last() {
        Some(last) if last + 1 == request.len() && !has_summary(last) => parts.unknown.pop()?,
        _ if is_certain => request.len(),
        _ => return None,
    };
    if parts.known.is_empty() || parts.unknown.is_empty() {
        return None;
    }
    match is_certain {
        true => certain_replacement(request, new_from, parts.known, &parts.missing, parts.unknown),
        false => replacement(request, new_from, parts.known, &parts.missing, parts.unknown),
    }
}

/// A compaction puts fewer messages in place of more others. Anything else is an edit.
fn replacement(
    request: &[Utterance],
    new_from: usize,
    carried: Vec<Arc<Message>>,
    missing: &[Arc<Message>],
    summary: Vec<usize>,
) -> Option<Replacement> {
    let is_shorter = missing.len() > summary.len();
    is_shorter.then(|| certain_replacement(request, new_from, carried, missing, summary))?
}

/// What a client has put in place of messages, if it is known to be a compaction.
fn certain_replacement(
    request: &[Utterance],
    new_from: usize,
    mut carried: Vec<Arc<Message>>,
    missing: &[Arc<Message>],
    summary: Vec<usize>,
) -> Option<Replacement> {
    let is_compaction = !missing.is_empty() && summary.iter().all(|at| request[*at].role == Role::User);
    let last = carried.iter().chain(missing).max_by_key(|message| message.seq).filter(|_| is_compaction)?;
    let last = Arc::clone(last);
    carried.sort_by_key(|message| message.seq);
    Some(Replacement { new_from, last, carried, summary })
}

/// How messages of a request and of a transcript correspond, in any order.
struct Parts {
    /// Messages of the transcript that are in the request.
    known: Vec<Arc<Message>>,
    /// Messages of the transcript that are not.
    missing: Vec<Arc<Message>>,
    /// Indices of messages of the request that are not in the transcript.
    unknown: Vec<usize>,
}

impl Parts {
    fn of<'a>(request: &[Utterance], stored: impl Iterator<Item = &'a Arc<Message>>) -> Self {
        let mut missing: Vec<Arc<Message>> = stored.cloned().collect();
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (at, said) in request.iter().enumerate() {
            match missing.iter().position(|message| message.said.is_repeated_by(said)) {
                Some(found) => known.push(missing.remove(found)),
                None => unknown.push(at),
            }
        }
        Self { known, missing, unknown }
    }
}

#[cfg(test)]
mod tests {
    use herma_model::TurnState;

    use super::*;
    use crate::testing::{Story, assistant, user};

    const LONG: &str = "one two three four five six seven eight nine ten eleven twelve";

    fn story(turns: usize) -> Story {
        let mut story = Story::default();
        for turn in 1..=turns {
            story.turn(&format!("u{turn}"), &format!("a{turn}"));
        }
        story
    }

    const CHAT: Connection<'_> = Connection::Chat { summary: None };

    fn replaced(
        request: &[Utterance],
        story: &Story,
        by: Connection<'_>,
    ) -> Option<(usize, i64, Vec<i64>, Vec<usize>)> {
        match recognise(request, story.transcript(), by)? {
            Recognised::Replaced(Replacement { new_from, last, carried, summary }) => {
                Some((new_from, last.seq.0, carried.iter().map(|message| message.seq.0).collect(), summary))
            }
            Recognised::Known { .. } => None,
        }
    }

    fn known(request: &[Utterance], story: &Story) -> Option<usize> {
        match recognise(request, story.transcript(), Connection::None)? {
            Recognised::Known { messages, .. } => Some(messages),
            Recognised::Replaced(_) => None,
        }
    }

    #[test]
    fn a_message_is_known_without_what_its_client_had_added() {
        let mut story = Story::default();
        story.turn("fix it\n\nReply in English.", LONG);
        let request = |first: &str| [user(first), assistant(LONG), user("more")];
        assert_eq!(known(&request("fix it"), &story), Some(2));
        assert_eq!(known(&request("mend it"), &story), None, "the words are others");
        let mut short = Story::default();
        short.turn("fix it\n\nReply in English.", "done");
        assert_eq!(known(&[user("fix it"), assistant("done"), user("more")], &short), None, "many say that");
    }

    #[test]
    fn a_history_that_was_cut_is_a_compaction_without_a_summary() {
        let cut = [user("u2"), assistant("a2"), user("u3"), assistant("a3"), user("new")];
        assert_eq!(replaced(&cut, &story(3), Connection::None), Some((4, 2, vec![], vec![])));
        let middle = [user("u1"), assistant("a1"), user("u3"), assistant("a3"), user("new")];
        assert_eq!(replaced(&middle, &story(3), Connection::None), Some((4, 4, vec![1, 2], vec![])));
    }

    #[test]
    fn a_summary_stands_in_place_of_what_is_missing() {
        let request = [user("summary"), user("u3"), assistant("a3"), user("new")];
        assert_eq!(replaced(&request, &story(3), Connection::None), Some((3, 4, vec![], vec![0])));
    }

    #[test]
    fn in_a_chat_a_context_without_answers_is_recognised() {
        let request = [user("u1"), user("u2"), user("u3"), user("summary"), user("new")];
        let expected = Some((4, 6, vec![1, 3, 5], vec![3]));
        assert_eq!(replaced(&request, &story(3), CHAT), expected);
        assert_eq!(replaced(&request, &story(3), Connection::None), None, "no answer is in it");
        let moved = [user("u1"), user("u3"), user("u2"), user("summary"), user("new")];
        assert_eq!(replaced(&moved, &story(3), CHAT), expected);
        let mut failed = story(3);
        failed.unanswered("new", None, TurnState::Failed);
        assert_eq!(replaced(&request, &failed, CHAT), expected, "it is tried again");
    }

    #[test]
    fn a_summary_that_was_asked_for_is_recognised_however_little_it_replaces() {
        let by = Connection::Chat { summary: Some("they counted") };
        let request = [user("u1"), user("In short: they counted."), user("new")];
        assert_eq!(replaced(&request, &story(1), by), Some((2, 2, vec![1], vec![1])));
        assert_eq!(replaced(&request, &story(1), CHAT), None, "that could be an edit");
        let mut working = story(1);
        working.calls("u2", &["x"]);
        let request = [user("u1"), user("u2"), user("In short: they counted.")];
        assert_eq!(replaced(&request, &working, by), Some((3, 4, vec![1, 3], vec![2])), "nothing is new");
    }

    #[test]
    fn what_another_program_has_answered_since_is_new() {
        let request = [user("summary"), assistant(LONG), user("aside"), assistant("noted"), user("new")];
        let mut story = story(2);
        story.turn("u3", LONG);
        assert_eq!(replaced(&request, &story, Connection::None), Some((2, 5, vec![], vec![0])));
    }

    #[test]
    fn an_edit_is_no_compaction() {
        for request in [
            vec![user("U1"), assistant("a1"), user("u2"), assistant("a2"), user("new")],
            vec![user("u1"), assistant("A1"), user("new")],
            vec![user("u1"), user("new")],
            vec![user("new")],
            vec![user("u1")],
        ] {
            assert_eq!(replaced(&request, &story(2), CHAT), None, "{request:?}");
        }
    }

    #[test]
    fn an_answer_that_the_client_brought_is_no_end_of_a_turn() {
        let mut story = Story::default();
        story.input("example");
        story.answer("b");
        story.push(user("mine"), 1);
        story.answer("a");
        assert_eq!(known(&[user("example"), assistant("b"), user("other")], &story), None);
        let whole = [user("example"), assistant("b"), user("mine"), assistant("a"), user("new")];
        assert_eq!(known(&whole, &story), Some(4));
    }

    #[test]
    fn what_leaves_the_transcript_is_known_up_to_there() {
        let request = [user("u1"), assistant("a1"), user("u2"), assistant("A2"), user("new")];
        assert_eq!(known(&request, &story(3)), Some(2));
    }
}
