//! What is asked if no person types it at a line editor: the words of the command line, what stdin has, or both.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

use anyhow::Context;

use crate::arguments::ChatFlags;
use crate::failure::Misuse;

/// The prompt of a chat that answers once. `None` if a person is going to type.
pub(super) fn read(flags: &ChatFlags) -> anyhow::Result<Option<String>> {
    if flags.prompt.is_empty() && io::stdin().is_terminal() {
        return match flags.json {
            true => Err(Misuse("--json prints one answer; say what to ask, as words or on stdin".to_owned()).into()),
            false => Ok(None),
        };
    }
    let words = flags.prompt.join(" ");
    let piped = if flags.prompt.is_empty() || stdin_has_text() { stdin()? } else { String::new() };
    let parts = [words.trim(), piped.trim_end()];
    let prompt = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
    if prompt.trim().is_empty() {
        return Err(Misuse(
            "there is nothing to ask: the prompt is empty; write a question behind `chat`, or send it to stdin"
                .to_owned(),
        )
        .into());
    }
    Ok(Some(prompt))
}

/// Whether stdin is a pipe or a file. Behind words on the command line, nothing else is read: a script may have been
/// started with the stdin of a service, which never ends.
#[cfg(unix)]
fn stdin_has_text() -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    let kind = stdin.and_then(|stdin| File::from(stdin).metadata()).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file())
}

#[cfg(not(unix))]
fn stdin_has_text() -> bool {
    !io::stdin().is_terminal()
}

fn stdin() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).context("cannot read stdin")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
