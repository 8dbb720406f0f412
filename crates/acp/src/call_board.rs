//! What the editor shows of tool calls while they run, shared by the turn that tells of a call and the call itself.
//!
//! A call may begin before the editor knows of it. So its content is put here. If the editor knows the call, the call
//! sends the content itself. Otherwise the turn sends it with the call.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::schema::ToolCallContent;

/// Most calls whose content is kept. Calls of delegated work are never told, so theirs is given up in time.
const MOST_KEPT: usize = 64;

/// The calls of a session, by the protocol's ids.
#[derive(Default)]
pub(crate) struct CallBoard(Mutex<Board>);

#[derive(Default)]
struct Board {
    told: HashSet<String>,
    content: HashMap<String, ToolCallContent>,
    /// The ids that have content, oldest first.
    order: VecDeque<String>,
}

impl CallBoard {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the content of a call. True if the editor knows the call, so that the content has to be sent now.
    pub(crate) fn put(&self, id: &str, content: ToolCallContent) -> bool {
        let mut board = self.lock();
        if board.content.insert(id.to_owned(), content).is_none() {
            board.order.push_back(id.to_owned());
        }
        if board.order.len() > MOST_KEPT
            && let Some(oldest) = board.order.pop_front()
        {
            board.content.remove(&oldest);
        }
        board.told.contains(id)
    }

    /// The content of a call.
    pub(crate) fn content(&self, id: &str) -> Option<ToolCallContent> {
        self.lock().content.get(id).cloned()
    }

    /// Notes that the editor knows a call. Returns its content, if that was put since `sent`, which the editor has.
    pub(crate) fn told(&self, id: &str, sent: Option<&ToolCallContent>) -> Option<ToolCallContent> {
        let mut board = self.lock();
        board.told.insert(id.to_owned());
        board.content.get(id).filter(|content| Some(*content) != sent).cloned()
    }

    /// Forgets a call that has ended.
    pub(crate) fn forget(&self, id: &str) {
        let mut board = self.lock();
        board.told.remove(id);
        if board.content.remove(id).is_some() {
            board.order.retain(|known| known != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::text_block;
    use crate::schema::ToolContent;

    fn content(text: &str) -> ToolCallContent {
        ToolCallContent::Content(ToolContent::new(text_block(text)))
    }

    #[test]
    fn content_is_sent_by_the_call_or_by_the_turn_and_never_by_both() {
        let board = CallBoard::default();
        assert!(!board.put("early", content("a")), "the editor does not know the call yet");
        assert_eq!(board.told("early", None), Some(content("a")));
        assert_eq!(board.told("early", Some(&content("a"))), None);
        assert_eq!(board.told("late", None), None);
        assert!(board.put("late", content("b")));
        board.forget("late");
        assert_eq!(board.content("late"), None);
    }

    #[test]
    fn calls_that_are_never_told_are_given_up() {
        let board = CallBoard::default();
        for number in 0..=MOST_KEPT {
            board.put(&number.to_string(), content("x"));
        }
        assert_eq!((board.content("0"), board.content("1")), (None, Some(content("x"))));
    }
}
