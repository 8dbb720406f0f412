//! The line editor of the terminal, on a thread of its own: a read from a terminal cannot be cancelled.
//!
//! Enter sends; Alt-Enter, and Enter behind a backslash, begin a new line. A paste is inserted as it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{
    Behavior, Cmd, CompletionType, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler, KeyCode,
    KeyEvent, Modifiers, RepeatCount,
};
use tokio::sync::mpsc;

use super::completion::{ChatWords, Completion};

/// The prompt.
pub(super) const PROMPT: &str = "> ";
/// How many inputs the history keeps.
const HISTORY: usize = 1_000;

/// What a person did at a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Sent a text, of one line or more.
    Text(String),
    /// Pressed Ctrl-C at an empty prompt.
    Interrupt,
    /// Pressed Ctrl-C behind a text, which is gone.
    Cleared,
    /// Pressed Ctrl-D, or closed the terminal.
    End,
}

/// The editor of a chat, with its history.
pub(super) struct ChatEditor {
    asked: Sender<()>,
    typed: mpsc::Receiver<anyhow::Result<Typed>>,
    /// Whether a prompt is open.
    is_open: bool,
    words: Arc<Mutex<ChatWords>>,
}

impl ChatEditor {
    /// Starts the editor. Its history begins with these texts.
    pub(super) fn start(earlier: Vec<String>) -> anyhow::Result<Self> {
        let words = Arc::new(Mutex::new(ChatWords::default()));
        let continued = Continued::default();
        let mut editor: Editor<Completion, MemHistory> = editor()?;
        editor.bind_sequence(
            KeyEvent::from('\r'),
            EventHandler::Conditional(Box::new(BackslashEnter(Arc::clone(&continued)))),
        );
        let was_empty = Arc::new(AtomicBool::new(true));
        editor.bind_sequence(
            KeyEvent::ctrl('c'),
            EventHandler::Conditional(Box::new(CtrlC { was_empty: Arc::clone(&was_empty) })),
        );
        editor.set_helper(Some(Completion::of(Arc::clone(&words))));
        for text in earlier {
            editor.history_mut().add_owned(text)?;
        }
        let (asked, asks) = channel();
        let (sender, typed) = mpsc::channel(1);
        let work = move || read_lines(&mut editor, &continued, &was_empty, &asks, &sender);
        std::thread::Builder::new().name("herma-editor".to_owned()).spawn(work).context("cannot read the terminal")?;
        Ok(Self { asked, typed, is_open: false, words })
    }

    /// The next text. Cancel-safe: a prompt that is open stays open.
    pub(super) async fn next(&mut self) -> anyhow::Result<Typed> {
        if !self.is_open {
            self.is_open = true;
            // If the thread has ended, the channel of its answers says so.
            let _ = self.asked.send(());
        }
        let typed = self.typed.recv().await.unwrap_or(Ok(Typed::End));
        self.is_open = false;
        typed
    }

    /// Sets what the tab key completes.
    pub(super) fn complete_with(&self, words: ChatWords) {
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }
}

/// Asks one question outside of the chat's prompt. Nothing of it goes into the history.
pub(super) async fn ask(question: String) -> anyhow::Result<Typed> {
    let (sender, answer) = tokio::sync::oneshot::channel();
    let work = move || {
        let typed = editor::<()>().and_then(|mut editor| read_line(&mut editor, &question));
        // The chat may have ended while the question was open.
        let _ = sender.send(typed);
    };
    std::thread::Builder::new().name("herma-question".to_owned()).spawn(work).context("cannot read the terminal")?;
    answer.await.unwrap_or(Ok(Typed::End))
}

fn editor<H: rustyline::Helper>() -> anyhow::Result<Editor<H, MemHistory>> {
    let config = Config::builder()
        // The prompt is for the person, also if the answers go into a file.
        .behavior(Behavior::PreferTerm)
        .max_history_size(HISTORY)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .build();
    let mut editor =
        Editor::with_history(config.clone(), MemHistory::with_config(&config)).context("cannot use the terminal")?;
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
    Ok(editor)
}

/// What stood before each backslash that Enter made a new line of. One prompt is open at a time.
type Continued = Arc<Mutex<Vec<String>>>;

/// Enter behind a backslash at the end of the text begins a new line.
struct BackslashEnter(Continued);

impl ConditionalEventHandler for BackslashEnter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext<'_>) -> Option<Cmd> {
        let before = at.line().strip_suffix('\\').filter(|_| at.pos() == at.line().len())?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(before.to_owned());
        Some(Cmd::Newline)
    }
}

/// Remembers whether Ctrl-C was pressed at an empty prompt. What the key does stays as it is.
struct CtrlC {
    was_empty: Arc<AtomicBool>,
}

impl ConditionalEventHandler for CtrlC {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext<'_>) -> Option<Cmd> {
        self.was_empty.store(at.line().is_empty(), Ordering::Relaxed);
        None
    }
}

/// The text without the backslashes that stand for new lines. A backslash that was pasted stays.
fn without_backslashes(mut text: String, continued: &[String]) -> String {
    for before in continued.iter().rev() {
        if text.strip_prefix(before.as_str()).is_some_and(|rest| rest.starts_with("\\\n")) {
            text.remove(before.len());
        }
    }
    text
}

fn read_lines(
    editor: &mut Editor<Completion, MemHistory>,
    continued: &Continued,
    was_empty: &AtomicBool,
    asks: &Receiver<()>,
    sender: &mpsc::Sender<anyhow::Result<Typed>>,
) {
    while asks.recv().is_ok() {
        let typed = read_line(editor, PROMPT);
        let continued = std::mem::take(&mut *continued.lock().unwrap_or_else(PoisonError::into_inner));
        let typed = typed.map(|typed| match typed {
            Typed::Text(text) => Typed::Text(without_backslashes(text, &continued)),
            Typed::Interrupt if !was_empty.load(Ordering::Relaxed) => Typed::Cleared,
            other => other,
        });
        if let Ok(Typed::Text(text)) = &typed
            && !text.trim().is_empty()
        {
            // The history is in memory, so it always takes a text.
            let _ = editor.add_history_entry(text.as_str());
        }
        if sender.blocking_send(typed).is_err() {
            return;
        }
    }
}

fn read_line<H: rustyline::Helper>(editor: &mut Editor<H, MemHistory>, prompt: &str) -> anyhow::Result<Typed> {
    match editor.readline(prompt) {
        Ok(text) => Ok(Typed::Text(text)),
        Err(ReadlineError::Interrupted) => Ok(Typed::Interrupt),
        Err(ReadlineError::Eof) => Ok(Typed::End),
        Err(error) => Err(anyhow::Error::new(error).context("cannot read the terminal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_that_was_typed_for_a_new_line_goes_and_a_pasted_one_stays() {
        let text = "curl \\\n -v\\\nand\\\nso".to_owned();
        let continued = ["curl \\\n -v".to_owned(), "curl \\\n -v\\\nand".to_owned()];
        assert_eq!(without_backslashes(text, &continued), "curl \\\n -v\nand\nso");
        assert_eq!(without_backslashes("a\\\nb".to_owned(), &["x".to_owned()]), "a\\\nb");
    }
}
