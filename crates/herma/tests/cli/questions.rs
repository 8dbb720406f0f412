//! Questions of `herma chat` whether a tool may be called, answered at a terminal.

use std::fs;

use herma_testkit::McpServer;

use crate::Terminal;
use crate::typed::{CTRL_C, CTRL_D, TypedCommand};

const QUESTION: &str = "Allow notes.count {}? [y]es, [n]o, in this [c]onversation, [a]lways: ";

/// A chat in a terminal with a tool that a person has to allow. The tool writes down that it was called.
struct AskedChat {
    terminal: Terminal,
    _server: McpServer,
    chat: TypedCommand,
}

impl AskedChat {
    fn begin() -> Self {
        let (terminal, server) = (Terminal::new(), McpServer::stdio());
        fs::create_dir_all(terminal.data()).unwrap();
        let file = format!(
            "[tools.mcp.notes]\ncommand = {:?}\nargs = {:?}\napproval = \"ask\"\nenv = {{ COUNT_FILE = {:?} }}\n",
            server.command(),
            server.args(),
            terminal.data().join("count"),
        );
        fs::write(terminal.data().join("herma.toml"), file).unwrap();
        let mut chat = TypedCommand::start(&terminal.command(&["chat", "--session", "trip"]));
        chat.until("> ");
        Self { terminal, _server: server, chat }
    }

    /// Asks the model to call the tool.
    fn ask(&mut self) {
        self.chat.types("use notes__count\n");
        self.chat.until("→ notes.count {}");
    }

    fn calls(&self) -> usize {
        fs::read_to_string(self.terminal.data().join("count")).map_or(0, |text| text.lines().count())
    }

    /// The chat goes on after a question.
    fn goes_on(&mut self) {
        self.chat.until("> ");
        self.chat.types("hello\n");
        self.chat.until("You said: hello");
    }

    /// Ends the chat at its prompt. Returns the transcript.
    fn end(mut self) -> String {
        self.chat.until("> ");
        self.chat.types(CTRL_D);
        assert_eq!(self.chat.code(), Some(0));
        self.terminal.run(&["sessions", "show", "trip"]).answer().to_owned()
    }
}

#[test]
fn a_person_allows_a_call_and_sees_what_came_of_it() {
    let mut asked = AskedChat::begin();
    asked.ask();
    asked.chat.until(QUESTION);
    assert_eq!(asked.calls(), 0, "nothing is called before the answer");
    asked.chat.types("perhaps\n");
    asked.chat.until("please answer y, n, c or a");
    asked.chat.until(QUESTION);
    asked.chat.types("y\n");
    asked.chat.until("← ");
    asked.chat.until("The tool answered: ");
    assert_eq!(asked.calls(), 1);
    asked.chat.until("> ");

    asked.ask();
    asked.chat.until(QUESTION);
    asked.chat.types("c\n");
    asked.chat.until("The tool answered: ");
    asked.chat.until("> ");
    asked.ask();
    let before = asked.chat.until("The tool answered: ");
    assert!(!before.contains("Allow"), "it was allowed for the conversation: {before:?}");
    assert_eq!(asked.calls(), 3);
    asked.goes_on();
    asked.end();
}

#[test]
fn a_denied_call_is_not_made_and_the_model_is_told() {
    let mut asked = AskedChat::begin();
    asked.ask();
    asked.chat.until(QUESTION);
    asked.chat.types("n\n");
    asked.chat.until("← denied");
    asked.goes_on();
    assert_eq!(asked.calls(), 0);
    let shown = asked.end();
    assert!(shown.contains("tool: ← denied"), "{shown}");
}

#[test]
fn ctrl_c_at_the_question_cancels_the_turn_and_not_the_chat() {
    let mut asked = AskedChat::begin();
    asked.ask();
    asked.chat.until(QUESTION);
    asked.chat.types(CTRL_C);
    asked.chat.until("(cancelled)");
    asked.goes_on();
    assert_eq!(asked.calls(), 0);
    let shown = asked.end();
    assert!(shown.contains("not executed"), "{shown}");
}

#[test]
fn what_was_typed_before_a_question_does_not_answer_it() {
    let mut asked = AskedChat::begin();
    asked.chat.types("use notes__count\ry\r");
    asked.chat.until(QUESTION);
    asked.chat.types("n\r");
    asked.chat.until("← denied");
    assert_eq!(asked.calls(), 0);
}

#[test]
fn a_question_that_is_left_by_ctrl_d_is_denied() {
    let mut asked = AskedChat::begin();
    asked.ask();
    asked.chat.until(QUESTION);
    asked.chat.types(CTRL_D);
    asked.chat.until("← denied");
    asked.goes_on();
    assert_eq!(asked.calls(), 0);
    asked.end();
}
