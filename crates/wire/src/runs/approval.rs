//! The body of `POST /v1/runs/{id}/approval`.

use crate::bad_request::{BadRequest, Flaw};
use crate::json::flag;
use crate::responses::{read_field, read_object};

/// The allowed choices. The last three are other words for the first.
const CHOICES: [&str; 7] = ["once", "session", "always", "deny", "approve", "approved", "allow"];

/// Checks the answer to an approval question: its choice, and whether it holds for all open questions.
pub fn check_approval(body: &[u8]) -> Result<(), BadRequest> {
    Ok(check(body)?)
}

fn check(body: &[u8]) -> Result<(), Flaw> {
    let mut body = read_object(body)?;
    let choice = body.take_text("choice")?.ok_or_else(|| Flaw::at("choice", "is required"))?;
    if !CHOICES.contains(&&*choice) {
        return Err(Flaw::at("choice", "must be once, session, always or deny"));
    }
    for name in ["all", "resolve_all"] {
        read_field(&mut body, name, flag)?;
    }
    Ok(())
}
