//! The body of `POST /v1/runs/{id}/approval`, and its answer.

use herma_model::{ApprovalChoice, CallId, RunId};

use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Writer, flag};
use crate::responses::{read_field, read_object};

/// A person's answer to a run's questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunApproval {
    /// The answer.
    pub choice: ApprovalChoice,
    /// Which questions it is for.
    pub about: ApprovalTarget,
}

/// Which questions of a run an answer is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalTarget {
    /// The oldest open one.
    Oldest,
    /// The one about this call.
    Call(CallId),
    /// All open ones.
    All,
}

/// Reads an answer. Hermes' other words for `once` are understood.
pub fn parse_approval(body: &[u8]) -> Result<RunApproval, BadRequest> {
    Ok(read(body)?)
}

fn read(body: &[u8]) -> Result<RunApproval, Flaw> {
    let mut body = read_object(body)?;
    let choice = body.take_text("choice")?.ok_or_else(|| Flaw::at("choice", "is required"))?;
    let choice = match &*choice {
        "approve" | "approved" | "allow" => Some(ApprovalChoice::Once),
        other => ApprovalChoice::parse(other),
    };
    let choice = choice.ok_or_else(|| Flaw::at("choice", "must be once, session, always or deny"))?;
    let mut all = false;
    for name in ["all", "resolve_all"] {
        all |= read_field(&mut body, name, flag)?.unwrap_or_default();
    }
    let call = body.take_text("call_id")?.filter(|call| !call.is_empty());
    let about = match call {
        Some(_) if all => return Err(Flaw::at("call_id", "must not be given together with all")),
        Some(call) => ApprovalTarget::Call(CallId::from(&*call)),
        None if all => ApprovalTarget::All,
        None => ApprovalTarget::Oldest,
    };
    Ok(RunApproval { choice, about })
}

/// The answer to an approval. `call` is the call that was answered, the last one if there were several.
pub fn approval_response(run: RunId, call: &str, choice: ApprovalChoice, status: &str) -> Vec<u8> {
    let mut writer = Writer::with_capacity(192);
    writer.open_object();
    writer.field("object", "hermes.run.approval_response");
    writer.field("run_id", &run);
    writer.field("call_id", call);
    writer.field("choice", &choice);
    writer.field("status", status);
    writer.close_object();
    writer.into_bytes(b"")
}
