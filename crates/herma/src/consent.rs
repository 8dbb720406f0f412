//! Asks before something is deleted for good.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::bail;

use crate::failure::Misuse;

/// Fails unless a person can be asked.
pub(crate) fn require_terminal() -> Result<(), Misuse> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Misuse("nobody can be asked here; to delete it without a question, add --yes".to_owned()))
}

/// Asks a question, and fails if the answer is not yes.
pub(crate) fn ask(question: &str) -> anyhow::Result<()> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    if !is_yes(&line) {
        bail!("nothing was deleted");
    }
    Ok(())
}

/// Anything else is a no, also the end of the input.
fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (line, confirmed) in
            [("y\n", true), (" YES \r\n", true), ("", false), ("\n", false), ("yo\n", false), ("n\n", false)]
        {
            assert_eq!(is_yes(line), confirmed, "{line:?}");
        }
    }
}
