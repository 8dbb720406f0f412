//! Says why a turn has no answer, and what to do about it.

use herma_model::TurnFailure;
use herma_model::turn::FailureCode;

use crate::next_command;

/// The message of a failed turn, and what to do if something can be done. `key` is the setting that has the key of the
/// model server.
pub(super) fn explained(failure: &TurnFailure, key: &str) -> String {
    let advice = match (failure.code, failure.upstream_status) {
        (FailureCode::UpstreamError, Some(401 | 403)) => format!("set the right key in {key}"),
        // The check says whether the server runs, and which models it has.
        (FailureCode::UpstreamError, None | Some(404)) | (FailureCode::UpstreamTimeout, _) => {
            format!("to check the model server: {}", next_command::of(&["doctor"]))
        }
        _ => return failure.message.clone(),
    };
    format!("{}; {advice}", failure.message.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: FailureCode, upstream_status: Option<u16>) -> String {
        explained(&TurnFailure { upstream_status, ..TurnFailure::new(code, "it failed.") }, "KEY")
    }

    #[test]
    fn a_refused_key_names_its_setting_and_a_silent_server_the_check() {
        assert_eq!(failed(FailureCode::UpstreamError, Some(401)), "it failed; set the right key in KEY");
        for (code, status) in [
            (FailureCode::UpstreamError, None),
            (FailureCode::UpstreamError, Some(404)),
            (FailureCode::UpstreamTimeout, None),
        ] {
            assert_eq!(failed(code, status), "it failed; to check the model server: herma doctor");
        }
        assert_eq!(failed(FailureCode::UpstreamError, Some(429)), "it failed.");
        assert_eq!(failed(FailureCode::BudgetExceeded, None), "it failed.");
    }
}
