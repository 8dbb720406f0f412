//! Calls of Herma's own tools, as they are stored in the transcript.
//!
//! A call is part of the assistant message that makes it, and its result is a `tool` message. Herma stores more about
//! them in [`Utterance::extra`], beside the payload. There, `calls` of an assistant message says which of its calls are
//! Herma's, and `result` of a tool message says how the call ended. A tool message with `decision` is no result: it has
//! what a person decided about a call of an earlier turn. Model servers are never sent these fields.

use std::ops::Not;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ids::{ConversationId, MessageId};
use crate::kind::stored_enum;
use crate::message::{CallId, Digest, MessageStatus, Payload, Role, Utterance};
use crate::tokens;
use crate::turn::TurnState;

/// The label under which built-in tools are shown.
pub const BUILT_IN: &str = "herma";

/// The built-in tool that runs tasks in conversations of their own.
pub const DELEGATE_TASK: &str = "delegate_task";

/// What the model is told of a call that may or may not have been carried out.
pub const UNCERTAIN: &str = "[It is not known whether this call was carried out.]";

/// What the model is told of a call that a person denied, if the turn ended before it could be told more.
pub const DENIED: &str = "[This call was not allowed, so it was not carried out.]";

/// What the model is told of a call that a person was asked about, if the turn ended before the call was allowed.
pub const NOT_ALLOWED_YET: &str = "[This call was not executed: its turn ended before it was allowed.]";

/// A call of one of Herma's own tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCall {
    /// The id of the call in its message.
    pub id: CallId,
    /// The label of the server that has the tool.
    pub server: Arc<str>,
    /// The tool, by its server's own name.
    pub tool: Arc<str>,
    /// Whether a person has to allow it before it is made.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub asks: bool,
    /// Whether it is not made before all questions about calls of the same message are answered.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub waits: bool,
    /// Most characters of its result. Only for calls of [`DELEGATE_TASK`]: if the turn's process dies, another process
    /// writes their result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<usize>,
}

stored_enum!(
    /// How a call of Herma's own tools ended.
    CallStatus {
        /// The tool answered.
        Done = "done",
        /// The tool answered that it failed.
        Failed = "failed",
        /// The call was not allowed, so it was not made.
        Denied = "denied",
        /// The call could not be made.
        NotMade = "not_made",
        /// The call was made, and no answer came.
        Uncertain = "uncertain",
    }
);

stored_enum!(
    /// The answer of a person who is asked to allow a call.
    ApprovalChoice {
        /// This call alone.
        Once = "once",
        /// Every call of this tool in this conversation.
        Session = "session",
        /// Every call of this tool in this tenant.
        Always = "always",
        /// Not this call.
        Deny = "deny",
    }
);

impl ApprovalChoice {
    /// Whether the call may be made.
    pub const fn allows(self) -> bool {
        !matches!(self, Self::Deny)
    }
}

impl OwnCall {
    /// What the model is told of a call whose turn was cut off before the call had a result. Of a delegation, it is
    /// told what the children had answered.
    pub fn cut_off(&self, children: &[ChildAnswer]) -> String {
        match (children, self.max_output) {
            ([], _) => UNCERTAIN.to_owned(),
            (children, Some(most)) => cut(delegated(children), most),
            (children, None) => delegated(children),
        }
    }

    /// Whether it is a call of [`DELEGATE_TASK`].
    pub fn delegates(&self) -> bool {
        &*self.server == BUILT_IN && &*self.tool == DELEGATE_TASK
    }

    /// The result of a call whose turn ended while people were asked about its message. `answer` is what a person
    /// answered about this call. No call of such a message was made.
    pub fn not_allowed_yet(&self, answer: Option<ApprovalAnswer>) -> Utterance {
        let is_denied = answer.map_or(self.asks, |answer| !answer.choice.allows());
        let text = if answer.is_some() && is_denied { DENIED } else { NOT_ALLOWED_YET };
        let status = if is_denied { CallStatus::Denied } else { CallStatus::NotMade };
        Utterance::tool_result(&self.id, text, &CallEnd { answer, ..CallEnd::at_once(status) })
    }
}

/// What is known of a call that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnd {
    /// How it ended.
    pub status: CallStatus,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// What a person answered who was asked to allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ApprovalAnswer>,
    /// The call, if an earlier turn made it: then the result does not stand beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<EarlierCall>,
    /// The text that the call replaced, if it changed a file. Front doors show it; the model does not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<Arc<str>>,
}

/// A call that ended an earlier turn, because a person had to be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierCall {
    /// The label of the server that has the tool.
    pub server: Arc<str>,
    /// The tool, by its server's own name.
    pub tool: Arc<str>,
    /// The arguments, JSON text as the model wrote it.
    pub arguments: Arc<str>,
}

impl CallEnd {
    /// An end that took no time, without a question.
    pub const fn at_once(status: CallStatus) -> Self {
        Self { status, duration_ms: 0, answer: None, call: None, old_text: None }
    }
}

/// The answer to the question whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The answer.
    pub choice: ApprovalChoice,
    /// Its place among the answers of the same message, from 0.
    pub order: u32,
    /// Whether nobody answered in time. Then the choice is to deny.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub expired: bool,
}

impl ApprovalAnswer {
    /// The answer of a person.
    pub const fn given(choice: ApprovalChoice, order: u32) -> Self {
        Self { choice, order, expired: false }
    }
}

/// What a person decided about a call that ended an earlier turn. It is input of the turn that makes the call.
///
/// The decision is stored before the call is made. So a turn that ended without a result of this call may have made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The id of the call in its message.
    pub id: CallId,
    /// The message that makes the call.
    pub message: MessageId,
    /// Its place among the calls of Herma's own tools in that message, from 0.
    pub place: usize,
    /// The call.
    pub call: EarlierCall,
    /// The answer. `None` if the call only waited for an answer about another call of its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ApprovalAnswer>,
}

impl Decision {
    /// The result of a call whose turn ended before the call had one.
    pub fn cut_off(&self) -> Utterance {
        let (status, text) = match self.answer {
            Some(answer) if !answer.choice.allows() => (CallStatus::Denied, DENIED),
            Some(_) | None => (CallStatus::Uncertain, UNCERTAIN),
        };
        let end = CallEnd { answer: self.answer, call: Some(self.call.clone()), ..CallEnd::at_once(status) };
        Utterance::tool_result(&self.id, text, &end)
    }
}

/// The fields of `extra` that are about tools. Its other fields belong to the wire formats.
#[derive(Default, Deserialize)]
struct ToolExtra {
    #[serde(default)]
    calls: Vec<OwnCall>,
    result: Option<CallEnd>,
    shown: Option<Digest>,
    decision: Option<Decision>,
}

impl ToolExtra {
    fn of(said: &Utterance, field: &str) -> Option<Self> {
        let extra = said.extra.as_deref().filter(|json| json.contains(field))?;
        serde_json::from_str(extra).ok()
    }
}

impl Utterance {
    /// The calls of Herma's own tools that an assistant message makes.
    pub fn own_calls(&self) -> Vec<OwnCall> {
        if self.role != Role::Assistant || self.calls.is_empty() {
            return Vec::new();
        }
        ToolExtra::of(self, "\"calls\"").unwrap_or_default().calls
    }

    /// How the call ended that this message is the result of, if it is the result of one of Herma's own tools.
    pub fn call_end(&self) -> Option<CallEnd> {
        if self.role != Role::Tool {
            return None;
        }
        ToolExtra::of(self, "\"result\"")?.result
    }

    /// What a person decided about a call of an earlier turn, if this message says that.
    pub fn decision(&self) -> Option<Decision> {
        if self.role != Role::Tool {
            return None;
        }
        ToolExtra::of(self, "\"decision\"")?.decision
    }

    /// The digest of the whole turn's answer as clients were shown it, if this message ended a turn of several.
    pub fn shown_digest(&self) -> Option<Digest> {
        ToolExtra::of(self, "\"shown\"")?.shown
    }

    /// The digest of what clients were shown: of the whole turn's answer, if this message ended a turn of several.
    pub fn digest_shown(&self) -> Digest {
        self.shown_digest().unwrap_or(self.digest)
    }

    /// Whether clients never see this message by itself: it calls Herma's own tools, is the result of such a call, or a
    /// decision about one.
    ///
    /// A message that also calls tools of the client ends its turn, and clients see it.
    pub fn is_inner_step(&self) -> bool {
        match self.role {
            Role::User => false,
            Role::Tool => self.call_end().is_some() || self.decision().is_some(),
            Role::Assistant => {
                let own = self.own_calls();
                !own.is_empty() && own.len() == self.calls.len()
            }
        }
    }

    /// Whether a client's message says what this stored one says, alone or as the end of its turn.
    pub fn is_repeated_by(&self, said: &Self) -> bool {
        self.digest == said.digest || self.shown_digest().is_some_and(|shown| shown == said.digest)
    }

    /// Notes which calls of this message are Herma's own.
    #[must_use]
    pub fn with_own_calls(self, calls: &[OwnCall]) -> Self {
        if calls.is_empty() { self } else { self.with_extra("calls", json!(calls)) }
    }

    /// Notes what clients were shown of the turn that this message ended.
    #[must_use]
    pub fn with_shown_digest(self, digest: Digest) -> Self {
        self.with_extra("shown", json!(digest))
    }

    fn with_extra(mut self, name: &str, value: Value) -> Self {
        let stored = self.extra.as_deref().and_then(|json| serde_json::from_str(json).ok());
        let mut extra: Value = stored.unwrap_or_else(|| json!({}));
        extra[name] = value;
        self.extra = Some(Arc::from(extra.to_string()));
        self
    }

    /// The result of a call of one of Herma's own tools.
    pub fn tool_result(call: &str, text: &str, end: &CallEnd) -> Self {
        let payload = json!({ "role": Role::Tool.as_str(), "tool_call_id": call, "content": text }).to_string();
        Self {
            role: Role::Tool,
            status: MessageStatus::Complete,
            extra: Some(Arc::from(json!({ "result": end }).to_string())),
            digest: Digest::of_fields([Role::Tool.as_str().as_bytes(), call.as_bytes(), text.as_bytes()]),
            calls: Arc::from([CallId::from(call)]),
            tokens: tokens::estimate(&payload),
            payload: Payload::from_json(payload),
        }
    }
}

impl From<&Decision> for Utterance {
    /// The decision as a message. The message answers no call, so the model is not shown it.
    fn from(decision: &Decision) -> Self {
        let text = match decision.answer {
            Some(answer) if answer.choice.allows() => "[This call was allowed.]",
            Some(_) => "[This call was not allowed.]",
            None => "[This call waited until another one was decided about.]",
        };
        let said = Self::tool_result(&decision.id, text, &CallEnd::at_once(CallStatus::Uncertain));
        Self { calls: Arc::from([]), extra: Some(Arc::from(json!({ "decision": decision }).to_string())), ..said }
    }
}

/// The answer of a child: a conversation that a call of [`DELEGATE_TASK`] made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChildAnswer {
    /// The conversation. Absent if none could be made.
    #[serde(rename = "conversation_id")]
    pub conversation: Option<ConversationId>,
    /// How its last turn ended. Never `queued` or `running`.
    pub status: TurnState,
    /// The text of its last answer, if it has one.
    pub answer: Option<String>,
}

impl ChildAnswer {
    /// The answer of a child that does not run any more. If it has no turn, or its last turn has not ended, the process
    /// that ran it is gone: the child counts as interrupted.
    pub fn ended(conversation: ConversationId, last_turn: Option<TurnState>, answer: Option<String>) -> Self {
        let status = last_turn.filter(|state| !state.is_live()).unwrap_or(TurnState::Interrupted);
        Self { conversation: Some(conversation), status, answer }
    }
}

/// The result of a call of [`DELEGATE_TASK`]: a JSON list of the children's answers, in order.
pub fn delegated(children: &[ChildAnswer]) -> String {
    serde_json::to_string(children).unwrap_or_else(|_| UNCERTAIN.to_owned())
}

/// A result of at most this many characters. What is left out is said.
pub fn cut(mut text: String, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else { return text };
    let all = text.chars().count();
    text.truncate(end);
    text.push_str(&format!("\n[The result was cut here: {most} of {all} characters are shown.]"));
    text
}

/// The calls of Herma's own tools that have no result among the messages of one attempt of a turn, in order.
///
/// After a crash it is not known whether they were made.
pub fn unsettled<'a>(messages: impl IntoIterator<Item = &'a Utterance>) -> Vec<OwnCall> {
    let mut open: Vec<OwnCall> = Vec::new();
    for said in messages {
        match said.role {
            Role::Assistant => open = said.own_calls(),
            Role::Tool => open.retain(|call| !said.calls.contains(&call.id)),
            Role::User => open.clear(),
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn call(id: &str) -> OwnCall {
        OwnCall {
            id: id.into(),
            server: "files".into(),
            tool: "read".into(),
            asks: false,
            waits: false,
            max_output: None,
        }
    }

    fn calling(ids: &[&str]) -> Utterance {
        let payload = json!({ "role": "assistant", "content": null }).to_string();
        let said = Utterance {
            role: Role::Assistant,
            status: MessageStatus::Complete,
            extra: Some(Arc::from(r#"{"message":{"reasoning":"hm"}}"#)),
            digest: Utterance::text_digest(Role::Assistant, ""),
            calls: ids.iter().map(|id| CallId::from(*id)).collect(),
            tokens: 1,
            payload: Payload::from_json(payload),
        };
        said.with_own_calls(&ids.iter().map(|id| call(id)).collect::<Vec<_>>())
    }

    #[test]
    fn fields_of_extra_read_back_and_other_fields_stay() {
        let said = calling(&["a", "b"]).with_shown_digest(Digest([7; 16]));
        assert_eq!(said.own_calls(), [call("a"), call("b")]);
        assert_eq!(said.shown_digest(), Some(Digest([7; 16])));
        assert!(said.extra.as_deref().unwrap().contains(r#""reasoning":"hm""#));
        assert_eq!(said.call_end(), None);
    }

    #[test]
    fn a_result_says_how_its_call_ended() {
        let answer = ApprovalAnswer::given(ApprovalChoice::Once, 1);
        let end = CallEnd { duration_ms: 12, answer: Some(answer), ..CallEnd::at_once(CallStatus::Failed) };
        let said = Utterance::tool_result("a", "no such file", &end);
        assert_eq!(said.call_end(), Some(end));
        assert_eq!(said.payload.as_json(), r#"{"role":"tool","tool_call_id":"a","content":"no such file"}"#);
    }

    #[test]
    fn a_decision_is_no_result_of_its_call() {
        let earlier = EarlierCall { server: "files".into(), tool: "write".into(), arguments: "{}".into() };
        let answer = ApprovalAnswer::given(ApprovalChoice::Deny, 0);
        let message = MessageId::from_uuid(Uuid::from_u128(7));
        let decision = Decision { id: "a".into(), message, place: 0, call: earlier, answer: Some(answer) };
        let said = Utterance::from(&decision);
        assert_eq!((said.decision().as_ref(), said.call_end(), said.is_inner_step()), (Some(&decision), None, true));
        assert_eq!(unsettled([&calling(&["a"]), &said]), [call("a")]);
        let result = decision.cut_off();
        assert_eq!(result.call_end().map(|end| (end.status, end.answer)), Some((CallStatus::Denied, Some(answer))));
        assert_eq!(unsettled([&calling(&["a"]), &said, &result]), []);
    }

    #[test]
    fn a_result_of_delegation_lists_what_each_child_has_answered() {
        let child = |n: u128, state, answer: Option<&str>| {
            ChildAnswer::ended(ConversationId::from_uuid(Uuid::from_u128(n)), state, answer.map(str::to_owned))
        };
        let children = [
            child(1, Some(TurnState::Completed), Some("\"two\"")),
            child(2, Some(TurnState::Running), None),
            child(3, None, None),
        ];
        assert_eq!(
            delegated(&children),
            r#"[{"conversation_id":"conv_00000000000000000000000000000001","status":"completed","answer":"\"two\""},"#
                .to_owned()
                + r#"{"conversation_id":"conv_00000000000000000000000000000002","status":"interrupted","answer":null},"#
                + r#"{"conversation_id":"conv_00000000000000000000000000000003","status":"interrupted","answer":null}]"#
        );
        assert_eq!(delegated(&[]), "[]");
    }

    #[test]
    fn a_result_is_cut_between_characters_and_says_so() {
        assert_eq!(cut("äöü".to_owned(), 3), "äöü");
        assert_eq!(cut("äöü".to_owned(), 2), "äö\n[The result was cut here: 2 of 3 characters are shown.]");
    }

    #[test]
    fn a_call_without_a_result_is_unsettled() {
        let result = Utterance::tool_result("a", "1", &CallEnd::at_once(CallStatus::Done));
        assert_eq!(unsettled([&calling(&["a", "b"]), &result]), [call("b")]);
        assert_eq!(unsettled([&calling(&["a"]), &result]), []);
        assert_eq!(unsettled([&calling(&["a"]), &result, &calling(&["c"])]), [call("c")]);
    }
}
