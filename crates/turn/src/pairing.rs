//! Which tool calls are open, and whether results answer them.

use std::sync::Arc;

use herma_model::{CallId, Message, MessageStatus, Role, Utterance};

use crate::context::Transcript;

/// A tool result that answers no open call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BadToolResult {
    /// Its index among the new messages.
    pub index: usize,
    /// What is wrong with it, for people.
    pub reason: String,
}

/// The calls of the client's tools in the last answer that have no result yet. Herma answers calls of its own tools.
pub fn open_calls<'a>(messages: impl DoubleEndedIterator<Item = &'a Arc<Message>>) -> Vec<CallId> {
    let mut answered: Vec<&CallId> = Vec::new();
    for message in messages.rev().filter(|message| message.said.status == MessageStatus::Complete) {
        match message.said.role {
            Role::Tool => answered.extend(message.said.calls.first()),
            Role::User => return Vec::new(),
            Role::Assistant => {
                let own = message.said.own_calls();
                let is_own = |call: &CallId| own.iter().any(|own| own.id == *call);
                let is_open = |call: &&CallId| !answered.contains(call) && !is_own(call);
                return message.said.calls.iter().filter(is_open).cloned().collect();
            }
        }
    }
    Vec::new()
}

/// Checks that every new tool result answers an open call, and no call twice. A call is not open if it was summarised.
pub fn check_tool_results(transcript: Transcript<'_>, new: &[Utterance]) -> Result<(), BadToolResult> {
    if !new.iter().any(|said| said.role == Role::Tool) {
        return Ok(());
    }
    let carried = transcript.base.map_or(&[][..], |base| &base.carried);
    let mut open = open_calls(carried.iter().chain(transcript.since_base()));
    let mut answered: Vec<&CallId> = Vec::new();
    for (index, said) in new.iter().enumerate() {
        match said.role {
            Role::User => open.clear(),
            Role::Assistant => {
                open = said.calls.to_vec();
                answered.clear();
            }
            Role::Tool => {
                let Some(call) = said.calls.first() else { continue };
                let Some(at) = open.iter().position(|open| open == call) else {
                    let reason = if answered.contains(&call) {
                        format!("tool call '{call}' has more than one result")
                    } else {
                        format!("tool call '{call}' is not one that the conversation waits for")
                    };
                    return Err(BadToolResult { index, reason });
                };
                open.remove(at);
                answered.push(call);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, tool};

    #[test]
    fn results_must_answer_open_calls_once() {
        let mut story = Story::default();
        story.calls("look", &["x", "y"]);
        let known = story.transcript();
        assert_eq!(check_tool_results(known, &[tool("y", "1"), tool("x", "2")]), Ok(()));
        let doubled = check_tool_results(known, &[tool("x", "1"), tool("x", "2")]).unwrap_err();
        assert_eq!((doubled.index, doubled.reason.as_str()), (1, "tool call 'x' has more than one result"));
        assert_eq!(check_tool_results(known, &[tool("z", "1")]).unwrap_err().index, 0);
    }

    #[test]
    fn a_client_cannot_answer_calls_of_hermas_tools() {
        let mut story = Story::default();
        story.own_round("look", &["x"], &[]);
        assert!(check_tool_results(story.transcript(), &[tool("x", "1")]).is_err());
    }

    #[test]
    fn a_message_in_between_closes_the_calls() {
        let mut story = Story::default();
        story.calls("look", &["x"]);
        story.turn("never mind", "fine");
        assert!(check_tool_results(story.transcript(), &[tool("x", "1")]).is_err());
    }

    #[test]
    fn a_call_that_was_summarised_is_not_open() {
        let mut story = Story::default();
        story.calls("look", &["x"]);
        assert_eq!(check_tool_results(story.transcript(), &[tool("x", "1")]), Ok(()));
        story.compact("they spoke", 2, &[]);
        assert!(check_tool_results(story.transcript(), &[tool("x", "1")]).is_err());
        story.compact("they spoke", 2, &[2]);
        assert_eq!(check_tool_results(story.transcript(), &[tool("x", "1")]), Ok(()));
    }
}
