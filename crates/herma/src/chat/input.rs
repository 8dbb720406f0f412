//! Reads lines from stdin, and what they ask for.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Context;
use tokio::sync::mpsc;

/// The lines of stdin.
pub(super) struct Lines {
    lines: mpsc::Receiver<io::Result<String>>,
    /// Whether a person types the lines.
    pub(super) is_terminal: bool,
}

impl Lines {
    /// Reads stdin on a thread that ends with the process, because a read from a terminal cannot be cancelled.
    pub(super) fn from_stdin() -> anyhow::Result<Self> {
        let (sender, lines) = mpsc::channel(1);
        let reader = move || {
            let mut stdin = io::stdin().lock();
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = match stdin.read_until(b'\n', &mut line) {
                    Ok(0) => return,
                    Ok(_) => Ok(String::from_utf8_lossy(&line).into_owned()),
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.blocking_send(read).is_err() || failed {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("herma-stdin".to_owned()).spawn(reader).context("cannot read stdin")?;
        Ok(Self { lines, is_terminal: io::stdin().is_terminal() })
    }

    /// The next line. `None` at the end of the input. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        self.lines.recv().await.transpose()
    }

    /// Prints a prompt if stdin is a terminal.
    pub(super) fn prompt(&self) {
        if self.is_terminal {
            let mut stderr = io::stderr().lock();
            let _ = stderr.write_all(b"> ").and_then(|()| stderr.flush());
        }
    }
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish<'a> {
    /// The line is empty.
    Nothing,
    /// A message to the model.
    Say(&'a str),
    /// Begin a new conversation under the same session key.
    Renew,
    /// Print the commands.
    Help,
    /// End the chat.
    Leave,
    /// A command that does not exist.
    Unknown(&'a str),
}

impl<'a> Wish<'a> {
    /// Reads a line. A single word after a slash is a command; a line that begins with a path is a message.
    pub(super) fn read(line: &'a str) -> Self {
        let line = line.trim_end();
        match line {
            "/new" | "/reset" => Self::Renew,
            "/help" | "/?" => Self::Help,
            "/exit" | "/quit" => Self::Leave,
            _ if is_command(line) => Self::Unknown(line),
            _ => match line.trim_start() {
                "" => Self::Nothing,
                text => Self::Say(text),
            },
        }
    }
}

fn is_command(line: &str) -> bool {
    line.strip_prefix('/').is_some_and(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic()))
}

/// The text of `/help`.
pub(super) const HELP: &str = "\
Commands:
  /new, /reset   a fresh conversation under the same session key
  /help          this list
  /exit          the end; Ctrl-D too
  Ctrl-C         cancels the running answer; twice while nothing runs, it ends
A line that begins with a space is always a message.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_after_a_slash_is_a_command_and_everything_else_a_message() {
        for (line, wish) in [
            ("\n", Wish::Nothing),
            ("hello there\r\n", Wish::Say("hello there")),
            ("/new\n", Wish::Renew),
            ("/reset", Wish::Renew),
            ("/exit \n", Wish::Leave),
            ("/help", Wish::Help),
            ("/nwe\n", Wish::Unknown("/nwe")),
            (" /new\n", Wish::Say("/new")),
            ("/etc/passwd is what?\n", Wish::Say("/etc/passwd is what?")),
            ("/", Wish::Say("/")),
        ] {
            assert_eq!(Wish::read(line), wish, "{line:?}");
        }
    }
}
