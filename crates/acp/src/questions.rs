//! Requests to the editor that it has not answered yet.
//!
//! Dropping a question that has no answer tells the editor that it is not wanted any more. At the end of the input
//! all questions end without an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::message;
use crate::schema::{CancelRequestNotification, Error, RequestId, method};

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The editor answered with an error, or with something else than the method's result.
    Refused(Error),
    /// The input has ended, so no answer can come.
    Gone,
}

/// What the editor answers.
type EditorAnswer = Result<Box<RawValue>, Error>;

/// The questions of a connection.
pub(crate) struct Questions {
    lines: mpsc::Sender<Vec<u8>>,
    open: Mutex<OpenQuestions>,
}

#[derive(Default)]
struct OpenQuestions {
    asked: i64,
    is_closed: bool,
    waiting: HashMap<RequestId, oneshot::Sender<EditorAnswer>>,
}

impl Questions {
    pub(crate) fn new(lines: mpsc::Sender<Vec<u8>>) -> Arc<Self> {
        Arc::new(Self { lines, open: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, OpenQuestions> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the editor, and waits for its answer. If the future is dropped, the editor is told to stop.
    pub(crate) async fn ask<T: DeserializeOwned>(
        self: &Arc<Self>,
        method: &'static str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, NoAnswer> {
        let (question, answer) = self.begin().ok_or(NoAnswer::Gone)?;
        let line = message::request(&question.id, method, params);
        if self.lines.send(line).await.is_err() {
            return Err(NoAnswer::Gone);
        }
        let answer = answer.await.map_err(|_| NoAnswer::Gone)?;
        let result = answer.map_err(NoAnswer::Refused)?;
        let unreadable = || Error::internal_error().data("the answer has not the form of this method's result");
        serde_json::from_str(result.get()).map_err(|_| NoAnswer::Refused(unreadable()))
    }

    fn begin(self: &Arc<Self>) -> Option<(Question, oneshot::Receiver<EditorAnswer>)> {
        let mut open = self.lock();
        if open.is_closed {
            return None;
        }
        open.asked += 1;
        let id = RequestId::Number(open.asked);
        let (send, answer) = oneshot::channel();
        open.waiting.insert(id.clone(), send);
        Some((Question { questions: Arc::clone(self), id }, answer))
    }

    /// Takes an answer of the editor. An answer to no open question is dropped.
    pub(crate) fn answered(&self, id: &RequestId, answer: EditorAnswer) {
        if let Some(waiting) = self.lock().waiting.remove(id) {
            // The question may not be waited for any more.
            let _ = waiting.send(answer);
        }
    }

    /// Ends all questions, and those that are still to come.
    pub(crate) fn close(&self) {
        let mut open = self.lock();
        open.is_closed = true;
        open.waiting.clear();
    }
}

/// A question that was asked.
struct Question {
    questions: Arc<Questions>,
    id: RequestId,
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.questions.lock().waiting.remove(&self.id).is_none() {
            return;
        }
        let line = message::notification(method::CANCEL_REQUEST, CancelRequestNotification::new(self.id.clone()));
        let lines = self.questions.lines.clone();
        if let Err(mpsc::error::TrySendError::Full(line)) = lines.try_send(line)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // The editor reads slowly. A drop cannot wait for it.
            runtime.spawn(async move { lines.send(line).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sent(lines: &mut mpsc::Receiver<Vec<u8>>) -> Value {
        serde_json::from_slice(&lines.try_recv().unwrap()).unwrap()
    }

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    #[tokio::test]
    async fn an_answer_finds_its_question() {
        let (send, mut lines) = mpsc::channel(4);
        let questions = Questions::new(send);
        let (first, second) = (questions.ask::<Value>("m", &1), questions.ask::<Value>("m", &2));
        tokio::pin!(first, second);
        assert!(futures_util::poll!(&mut first).is_pending() && futures_util::poll!(&mut second).is_pending());
        assert_eq!(sent(&mut lines), json!({ "jsonrpc": "2.0", "id": 1, "method": "m", "params": 1 }));
        questions.answered(&RequestId::Number(2), Ok(raw(&json!("two"))));
        questions.answered(&RequestId::Number(1), Err(Error::internal_error()));
        questions.answered(&RequestId::Number(9), Ok(raw(&json!("of nothing"))));
        assert_eq!(second.await.unwrap(), json!("two"));
        assert!(matches!(first.await, Err(NoAnswer::Refused(_))));
    }

    #[tokio::test]
    async fn a_dropped_question_is_taken_back_once_and_an_answered_one_is_not() {
        let (send, mut lines) = mpsc::channel(4);
        let questions = Questions::new(send);
        {
            let asked = questions.ask::<Value>("m", &1);
            tokio::pin!(asked);
            assert!(futures_util::poll!(&mut asked).is_pending());
        }
        sent(&mut lines);
        let taken_back = sent(&mut lines);
        assert_eq!(
            (&taken_back["method"], &taken_back["params"]["requestId"]),
            (&json!("$/cancel_request"), &json!(1))
        );
        questions.close();
        assert!(matches!(questions.ask::<Value>("m", &1).await, Err(NoAnswer::Gone)));
        assert!(lines.try_recv().is_err());
    }
}
