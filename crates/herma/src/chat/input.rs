//! What a typed text asks for.

use crate::text_width::named;

/// A command of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    New,
    Sessions,
    Switch,
    Branch,
    Compact,
    Undo,
    Title,
    Model,
    Copy,
    Help,
    Exit,
}

/// How a command is typed, and its line of the help.
pub(super) struct CommandWord {
    pub(super) name: &'static str,
    command: Command,
    /// What stands behind it, if anything.
    pub(super) takes: Option<&'static str>,
    /// Empty for a second name, which the first one's line tells.
    help: &'static str,
}

const fn word(name: &'static str, command: Command, takes: Option<&'static str>, help: &'static str) -> CommandWord {
    CommandWord { name, command, takes, help }
}

/// Every command, in the order of the help.
pub(super) const COMMANDS: [CommandWord; 13] = [
    word("help", Command::Help, None, "this list"),
    word("new", Command::New, Some("[TEXT]"), "a fresh conversation under the same session key; /reset too"),
    word("reset", Command::New, Some("[TEXT]"), ""),
    word("sessions", Command::Sessions, None, "the last conversations"),
    word("switch", Command::Switch, Some("ID"), "go on with another conversation, by its name or id"),
    word("branch", Command::Branch, Some("[TITLE]"), "go on in a copy; this conversation stays as it is"),
    word("compact", Command::Compact, None, "put a summary in place of what is old"),
    word(
        "undo",
        Command::Undo,
        Some("[TURNS]"),
        "take the last turn back, or some (`herma sessions undo` is for compactions)",
    ),
    word("title", Command::Title, Some("[TITLE]"), "show the title, or set it"),
    word("model", Command::Model, Some("[NAME]"), "show the model, or ask another one from now on"),
    word("copy", Command::Copy, None, "copy the last answer to the clipboard"),
    word("exit", Command::Exit, None, "leave the chat; /quit and Ctrl-D too"),
    word("quit", Command::Exit, None, ""),
];

/// What a text asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatInput<'a> {
    /// There is no text.
    Empty,
    /// A message to the model.
    Message(&'a str),
    /// A command, and what stands behind it.
    Command(Command, &'a str),
    /// A command with a text behind it, which it does not take.
    Superfluous(&'a str),
    /// A command that does not exist.
    UnknownCommand(&'a str),
}

impl<'a> ChatInput<'a> {
    /// Reads a text. One line that begins with a slash and a word is a command; a path is not.
    pub(super) fn read(text: &'a str) -> Self {
        let text = text.trim_end();
        if let Some(line) = text.strip_prefix('/').filter(|line| !line.contains('\n')) {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            if let Some(word) = COMMANDS.iter().find(|word| word.name == name || (name == "?" && word.name == "help")) {
                return match (word.takes, rest.trim()) {
                    (None, rest) if !rest.is_empty() => Self::Superfluous(&text[..=name.len()]),
                    (_, rest) => Self::Command(word.command, rest),
                };
            }
            if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                return Self::UnknownCommand(&text[..=name.len()]);
            }
        }
        match text.trim() {
            "" => Self::Empty,
            _ => Self::Message(text.strip_prefix(' ').unwrap_or(text)),
        }
    }
}

/// What keys do, as `/help` shows it.
const KEYS: [(&str, &str); 4] = [
    ("Alt-Enter", "a new line; Enter behind a backslash too; a paste is one message"),
    ("Up, Ctrl-R", "earlier messages, also of other chats"),
    ("Tab", "completes commands, and names behind /switch and /model; lists them if several fit"),
    ("Ctrl-C", "cancels the running answer, or clears the line; twice at an empty prompt, it leaves the chat"),
];
/// The column at which the explanations of `/help` begin.
const EXPLAINED_AT: usize = 21;

/// The text of `/help`, for a terminal of this width.
pub(super) fn help(width: Option<usize>) -> String {
    let explained = |typed: &str, help: &str| named(&format!("  {typed}"), help, EXPLAINED_AT, width);
    let mut lines = vec!["Commands:".to_owned()];
    for word in COMMANDS.iter().filter(|word| !word.help.is_empty()) {
        lines.extend(explained(&format!("/{} {}", word.name, word.takes.unwrap_or_default()), word.help));
    }
    lines.push("Keys:".to_owned());
    lines.extend(KEYS.iter().flat_map(|(keys, help)| explained(keys, help)));
    lines.push("A text that begins with a space is always a message.".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_after_a_slash_is_a_command_and_everything_else_a_message() {
        for (line, input) in [
            ("\n", ChatInput::Empty),
            ("hello there\r\n", ChatInput::Message("hello there")),
            ("/new\n", ChatInput::Command(Command::New, "")),
            ("/reset", ChatInput::Command(Command::New, "")),
            ("/title  Oslo in May ", ChatInput::Command(Command::Title, "Oslo in May")),
            ("/exit \n", ChatInput::Command(Command::Exit, "")),
            ("/?", ChatInput::Command(Command::Help, "")),
            ("/new What is Oslo?", ChatInput::Command(Command::New, "What is Oslo?")),
            ("/compact now", ChatInput::Superfluous("/compact")),
            ("/exit now", ChatInput::Superfluous("/exit")),
            ("/? me", ChatInput::Superfluous("/?")),
            ("/nwe\n", ChatInput::UnknownCommand("/nwe")),
            ("/swich trip", ChatInput::UnknownCommand("/swich")),
            (" /new\n", ChatInput::Message("/new")),
            ("/etc/passwd is what?\n", ChatInput::Message("/etc/passwd is what?")),
            ("/new\nis a command", ChatInput::Message("/new\nis a command")),
            ("/", ChatInput::Message("/")),
            ("  indented:\n    code", ChatInput::Message(" indented:\n    code")),
        ] {
            assert_eq!(ChatInput::read(line), input, "{line:?}");
        }
    }
}
