//! Asks the person at the terminal whether a call may be made.

use herma_model::ApprovalChoice;

use super::editor::{self, Typed};
use super::quiet::QuietTerminal;
use crate::output;
use crate::signals::{Caught, Signals};

/// What the person did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Consent {
    /// Answered. The end of the input counts as no.
    Chosen(ApprovalChoice),
    /// Pressed Ctrl-C, or the system asked the process to end.
    Interrupted(Caught),
}

/// Asks about a call, until there is an answer. What was typed before the question does not answer it.
pub(super) async fn ask(quiet: Option<&QuietTerminal>, signals: &mut Signals, call: &str) -> anyhow::Result<Consent> {
    if let Some(quiet) = quiet {
        quiet.drop_typed();
    }
    loop {
        let question = format!("Allow {call}? [y]es, [n]o, in this [c]onversation, [a]lways: ");
        let typed = tokio::select! {
            typed = editor::ask(question) => typed?,
            caught = signals.next() => {
                output::note("");
                return Ok(Consent::Interrupted(caught));
            }
        };
        match typed {
            Typed::Interrupt | Typed::Cleared => return Ok(Consent::Interrupted(Caught::Interrupt)),
            Typed::End => return Ok(Consent::Chosen(ApprovalChoice::Deny)),
            Typed::Text(line) => match choice(&line) {
                Some(choice) => return Ok(Consent::Chosen(choice)),
                None => output::note("please answer y, n, c or a"),
            },
        }
    }
}

fn choice(line: &str) -> Option<ApprovalChoice> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(ApprovalChoice::Once),
        "n" | "no" => Some(ApprovalChoice::Deny),
        "c" | "conversation" | "s" | "session" => Some(ApprovalChoice::Session),
        "a" | "always" => Some(ApprovalChoice::Always),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_or_a_word_answers() {
        for (line, expected) in [
            ("y\n", Some(ApprovalChoice::Once)),
            (" No \r\n", Some(ApprovalChoice::Deny)),
            ("c", Some(ApprovalChoice::Session)),
            ("conversation", Some(ApprovalChoice::Session)),
            ("s", Some(ApprovalChoice::Session)),
            ("ALWAYS", Some(ApprovalChoice::Always)),
            ("", None),
            ("yess", None),
        ] {
            assert_eq!(choice(line), expected, "{line:?}");
        }
    }
}
