//! Questions to the person whether calls of a turn may be made: one after the other, in the order of the calls.
//!
//! They are asked of the editor only. What an answer means for the turn is the gateway's matter.

use std::collections::VecDeque;
use std::pin::Pin;

use herma_model::{ApprovalChoice, CallId, OwnCall};

use crate::editor::Editor;
use crate::questions::NoAnswer;
use crate::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionId, ToolCallUpdate, method,
};

/// The options: choice, text for the person, and kind.
const OPTIONS: [(ApprovalChoice, &str, PermissionOptionKind); 4] = [
    (ApprovalChoice::Once, "Allow once", PermissionOptionKind::AllowOnce),
    (ApprovalChoice::Session, "Allow for this session", PermissionOptionKind::AllowAlways),
    (ApprovalChoice::Always, "Always allow", PermissionOptionKind::AllowAlways),
    (ApprovalChoice::Deny, "No", PermissionOptionKind::RejectOnce),
];

/// The end of a question.
#[derive(Debug)]
pub(crate) enum Consent {
    /// The person has decided. An answer that cannot be read, and `cancelled`, count as no.
    Chosen(ApprovalChoice),
    /// The editor is gone. The question stays open.
    Gone,
}

/// A question that the editor has not answered.
type Asking = Pin<Box<dyn Future<Output = Consent> + Send + Sync>>;

/// The questions about the calls of one message.
#[derive(Default)]
pub(crate) struct Permissions {
    waiting: VecDeque<(OwnCall, ToolCallUpdate)>,
    /// The call that the person is asked about.
    asked: Option<(OwnCall, Asking)>,
    /// What the person has allowed for longer than one call.
    granted: Vec<(OwnCall, ApprovalChoice)>,
}

impl Permissions {
    /// Adds a question. `shown` is what the editor shows of the call.
    pub(crate) fn add(&mut self, call: OwnCall, shown: ToolCallUpdate) {
        self.waiting.push_back((call, shown));
    }

    /// Takes the question about a call back, because it is answered.
    pub(crate) fn remove(&mut self, call: &CallId) {
        self.waiting.retain(|(waiting, _)| waiting.id != *call);
        self.asked.take_if(|(asked, _)| asked.id == *call);
    }

    /// Takes all questions back.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.asked = None;
    }

    /// Whether a question is open.
    pub(crate) fn is_open(&self) -> bool {
        self.asked.is_some() || !self.waiting.is_empty()
    }

    /// Asks the next question, and waits for its end. Never resolves if no question is open. Cancel-safe.
    pub(crate) async fn next(&mut self, editor: &Editor, session: &SessionId) -> (OwnCall, Consent) {
        if self.asked.is_none() {
            let Some((call, shown)) = self.waiting.pop_front() else { return std::future::pending().await };
            let granted = self.granted.iter().find(|(known, _)| known.server == call.server && known.tool == call.tool);
            if let Some((_, choice)) = granted {
                return (call, Consent::Chosen(*choice));
            }
            let asking = Box::pin(ask(editor.clone(), session.clone(), shown));
            self.asked = Some((call, asking));
        }
        let Some((_, asking)) = &mut self.asked else { return std::future::pending().await };
        let consent = asking.await;
        let Some((call, _)) = self.asked.take() else { return std::future::pending().await };
        if let Consent::Chosen(choice @ (ApprovalChoice::Session | ApprovalChoice::Always)) = consent {
            self.granted.push((call.clone(), choice));
        }
        (call, consent)
    }
}

async fn ask(editor: Editor, session: SessionId, shown: ToolCallUpdate) -> Consent {
    let option = |(choice, name, kind): (ApprovalChoice, &str, _)| PermissionOption::new(choice.as_str(), name, kind);
    let request = RequestPermissionRequest::new(session, shown, OPTIONS.map(option).to_vec());
    let answer: Result<RequestPermissionResponse, _> = editor.ask(method::REQUEST_PERMISSION, &request).await;
    match answer.map(|response| response.outcome) {
        Err(NoAnswer::Gone) => Consent::Gone,
        Ok(RequestPermissionOutcome::Selected(selected)) => {
            Consent::Chosen(ApprovalChoice::parse(&selected.option_id.0).unwrap_or(ApprovalChoice::Deny))
        }
        Ok(_) => Consent::Chosen(ApprovalChoice::Deny),
        Err(NoAnswer::Refused(error)) => {
            tracing::warn!(code = i32::from(error.code), "the editor could not ask for a permission");
            Consent::Chosen(ApprovalChoice::Deny)
        }
    }
}
