//! Whether a request shows that its client has not seen the answer to it.

use herma_model::{Message, Role, Utterance};
use std::sync::Arc;

use crate::align::may_be_missing;
use crate::context::Transcript;

/// Whether the transcript has the request's last answer and all that follows it, in that order.
///
/// If so, the request was made before, and its client sends its history. If the client had seen the answer that comes
/// after these messages in the transcript, the answer would be in the request. A request without an answer proves
/// nothing: its client may send only new messages.
pub fn repeats_history(request: &[Utterance], transcript: Transcript<'_>) -> bool {
    let Some(last_answer) = request.iter().rposition(|said| said.role == Role::Assistant) else { return false };
    let end = &request[last_answer..];
    let messages = transcript.said();
    end.len() > 1 && (0..messages.len()).any(|from| begins_with(&messages[from..], end, transcript))
}

/// Whether `messages` begins with `wanted`. Messages that a client may leave out can stand between.
fn begins_with(messages: &[Arc<Message>], wanted: &[Utterance], transcript: Transcript<'_>) -> bool {
    let mut wanted = wanted.iter().peekable();
    for message in messages {
        let Some(said) = wanted.peek() else { break };
        if message.said.is_repeated_by(said) {
            wanted.next();
        } else if !may_be_missing(message, transcript) {
            return false;
        }
    }
    wanted.peek().is_none()
}

#[cfg(test)]
mod tests {
    use herma_model::TurnState;

    use super::*;
    use crate::testing::{Story, assistant, user};

    #[test]
    fn a_history_without_the_answer_is_told_from_a_new_message() {
        let mut story = Story::default();
        story.turn("a", "b");
        let repeats = |request: &[Utterance], story: &Story| repeats_history(request, story.transcript());
        let asked = [user("a"), assistant("b"), user("c")];
        assert!(!repeats(&asked, &story), "this was never asked");
        story.unanswered("x", None, TurnState::Failed);
        story.turn("c", "d");
        assert!(repeats(&asked, &story));
        assert!(repeats(&asked[1..], &story), "the client may have cut the beginning");
        assert!(repeats(&[assistant("b"), user("x"), user("c")], &story));
        for shows_nothing in [
            vec![user("c")],
            vec![user("a"), assistant("b")],
            vec![user("a"), assistant("other"), user("c")],
            vec![user("a"), assistant("b"), user("c"), user("e")],
            vec![user("c"), assistant("d"), user("c")],
        ] {
            assert!(!repeats(&shows_nothing, &story));
        }
    }
}
