//! What the prompt says and refuses: commands, the tab key, Ctrl-C, ended conversations.

use super::{answered, begin, chat, is_at_prompt};
use crate::Terminal;
use crate::typed::{CTRL_C, CTRL_D, ENTER, TypedCommand};

/// Sends a line, and waits for a text and the next prompt.
fn say(chat: &mut TypedCommand, line: &str, wanted: &str) -> String {
    chat.types(line);
    chat.types(ENTER);
    answered(chat, wanted)
}

#[test]
fn text_behind_new_is_the_first_message_and_commands_that_take_no_text_refuse_it() {
    let terminal = Terminal::new();
    let mut chat = chat(&terminal, &["--session", "trip"]);
    say(&mut chat, "hello", "You said: hello (message 1");
    for command in ["/compact", "/copy", "/exit", "/sessions", "/help"] {
        say(&mut chat, &format!("{command} now"), &format!("{command} takes no text behind it, so nothing was done"));
    }
    say(&mut chat, "/new What is Oslo?", "You said: What is Oslo? (message 1");
    say(&mut chat, "/reset And Bergen?", "You said: And Bergen? (message 1");
    assert_eq!(terminal.sessions("list --json").answer().lines().count(), 3);
}

#[test]
fn tab_lists_commands_and_conversations_with_their_titles() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "--session", "recipe", "flour and water"]).answer();
    terminal.run(&["chat", "--session", "trip", "Oslo in May"]).answer();
    let mut chat = chat(&terminal, &[]);
    chat.types("/\t");
    chat.shows(|screen| {
        screen.contains("/sessions") && screen.contains("/switch ID") && screen.contains("/new [TEXT]")
    });
    chat.types("switch \t");
    chat.shows(|screen| screen.contains("recipe  flour and water") && screen.contains("trip    Oslo in May"));
    chat.types("re\t");
    chat.shows(|screen| screen.contains("> /switch recipe"));
    say(&mut chat, "", "continuing recipe");
    say(&mut chat, "/switch nosuch", "error: no conversation is known by nosuch; /sessions lists them");
}

#[test]
fn a_text_that_is_typed_after_ctrl_c_is_not_lost_with_the_chat() {
    let terminal = Terminal::new();
    let mut chat = chat(&terminal, &[]);
    for text in ["first", "second", "third"] {
        chat.types(text);
        chat.shows(|screen| screen.ends_with(&format!("> {text}")));
        chat.types(CTRL_C);
        chat.shows(|screen| screen.contains("Ctrl-D or /exit leaves the chat") && is_at_prompt(screen));
    }
    say(&mut chat, "still here", "You said: still here (message 1");
    chat.types(CTRL_C);
    chat.until("leaves the chat");
    chat.until("> ");
    chat.types(CTRL_C);
    assert_eq!(chat.code(), Some(0));
}

#[test]
fn an_ended_conversation_says_how_it_is_opened_and_goes_on_when_it_is() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "--session", "trip", "hello"]).answer();
    terminal.sessions("end trip").answer();
    let mut chat = chat(&terminal, &["--session", "trip"]);
    let screen = chat.shows(is_at_prompt);
    assert!(screen.contains("trip was ended; to open it again:"), "{screen}");
    say(&mut chat, "and then?", "error: trip was ended; to open it again:");
    terminal.sessions("reopen trip").answer();
    say(&mut chat, "and then?", "You said: and then? (message 2");
    terminal.sessions("end trip").answer();
    say(&mut chat, "more", "error: trip was ended");
    chat.types(CTRL_D);
    let end = chat.rest();
    assert!(!end.contains("to continue"), "{end}");
}

#[test]
fn notes_are_broken_between_words_in_a_narrow_terminal() {
    let terminal = Terminal::new();
    let mut chat = TypedCommand::start_in(&terminal.command(&["chat"]), 24, 40);
    let screen = chat.shows(is_at_prompt);
    assert!(screen.contains("the built-in offline model answers; how\nto set a real one:\n"), "{screen}");
    let screen = say(&mut chat, "/copy now", "with a space");
    assert!(screen.contains("/copy takes no text behind it, so\nnothing was done;"), "{screen}");
}

#[test]
fn a_summary_that_fails_names_the_check_of_the_model_server_as_an_answer_does() {
    let terminal = Terminal::new();
    terminal.talk_long("trip");
    let mut command = terminal.command(&["chat", "--session", "trip"]);
    // Nothing listens on this port.
    command.env("HERMA_UPSTREAM", "http://127.0.0.1:9/v1").env("HERMA_MODEL", "x");
    command.env("HERMA_CONTEXT_WINDOW", "8000");
    let mut chat = begin(&command);
    say(&mut chat, "/compact", "to check the model server:");
}
