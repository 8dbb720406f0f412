//! Reads lines from stdin, and what they ask for.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Context;
use tokio::sync::mpsc;

/// The lines of stdin.
pub(super) struct StdinLines {
    lines: mpsc::Receiver<io::Result<String>>,
    /// Whether a person types the lines.
    pub(super) is_terminal: bool,
}

impl StdinLines {
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
pub(super) enum ChatInput<'a> {
    /// The line is empty.
    Empty,
    /// A message to the model.
    Message(&'a str),
    /// Begin a new conversation under the same session key.
    NewConversation,
    /// Print the commands.
    Help,
    /// End the chat.
    Exit,
    /// A command that does not exist.
    UnknownCommand(&'a str),
}

impl<'a> ChatInput<'a> {
    /// Reads a line. A single word after a slash is a command; a line that begins with a path is a message.
    pub(super) fn read(line: &'a str) -> Self {
        let line = line.trim_end();
        match line {
            "/new" | "/reset" => Self::NewConversation,
            "/help" | "/?" => Self::Help,
            "/exit" | "/quit" => Self::Exit,
            _ if is_command(line) => Self::UnknownCommand(line),
            _ => match line.trim_start() {
                "" => Self::Empty,
                text => Self::Message(text),
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
        for (line, input) in [
            ("\n", ChatInput::Empty),
            ("hello there\r\n", ChatInput::Message("hello there")),
            ("/new\n", ChatInput::NewConversation),
            ("/reset", ChatInput::NewConversation),
            ("/exit \n", ChatInput::Exit),
            ("/help", ChatInput::Help),
            ("/nwe\n", ChatInput::UnknownCommand("/nwe")),
            (" /new\n", ChatInput::Message("/new")),
            ("/etc/passwd is what?\n", ChatInput::Message("/etc/passwd is what?")),
            ("/", ChatInput::Message("/")),
        ] {
            assert_eq!(ChatInput::read(line), input, "{line:?}");
        }
    }
}
