//! `herma chat` without a terminal: one prompt, one answer, an exit code.

use serde_json::Value;

use crate::Terminal;

#[test]
fn all_of_stdin_is_one_message_and_the_answer_is_on_stdout() {
    let said = Terminal::new().run_with_input(&["chat"], "hello\n\n/new\nagain\n");
    insta::assert_snapshot!(said.transcript(), @"
    exit 0
    --- stdout
    You said: hello

    /new
    again (message 1 of this conversation; I am Herma's offline model.)
    --- stderr
    the built-in offline model answers; how to set a real one: herma doctor --data DATA
    to continue: herma chat --session SHORT_ID --data DATA
    ");
}

#[test]
fn the_words_of_the_command_line_stand_before_what_stdin_has() {
    let terminal = Terminal::new();
    let said = terminal.run_with_input(&["chat", "Review", "this:"], "+ one line\n");
    assert!(said.answer().starts_with("You said: Review this:\n\n+ one line (message 1"), "{}", said.stdout);
    let alone = terminal.run(&["chat", "just this"]);
    assert!(alone.answer().starts_with("You said: just this (message 1"), "{}", alone.stdout);
}

#[test]
fn nothing_to_ask_is_a_mistake_of_the_command_line() {
    insta::assert_snapshot!(Terminal::new().run_with_input(&["chat"], " \n").transcript(), @"
    exit 2
    --- stdout
    --- stderr
    error: there is nothing to ask: the prompt is empty; write a question behind `chat`, or send it to stdin
    ");
}

#[test]
fn json_is_the_chat_completion_object_of_http() {
    let said = Terminal::new().run(&["chat", "--json", "--session", "trip", "hello"]);
    let object: Value = serde_json::from_str(said.answer()).unwrap();
    assert_eq!((&object["object"], &object["model"]), (&"chat.completion".into(), &"offline".into()));
    assert!(object["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(object["choices"][0]["message"]["content"].as_str().unwrap().starts_with("You said: hello"));
    assert!(object["usage"]["total_tokens"].as_u64().unwrap() > 0);
    assert_eq!(
        (&object["session"]["session_id"], &object["session"]["resolution"]),
        (&"trip".into(), &"created".into())
    );
    let misused = Terminal::new().run_with_input(&["chat", "--json"], "");
    assert_eq!(misused.code, 2, "{}", misused.stderr);
}

#[test]
fn another_question_after_a_failed_one_is_a_conversation_of_its_own_and_the_same_one_tries_again() {
    let terminal = Terminal::new();
    let failing = || {
        let mut command = terminal.command(&["chat", "first"]);
        command.env("HERMA_UPSTREAM", "http://127.0.0.1:9/v1").env("HERMA_MODEL", "scripted");
        command.output().unwrap().status.code()
    };
    assert_eq!(failing(), Some(1));
    let other = terminal.run(&["chat", "second"]);
    assert!(other.answer().starts_with("You said: second (message 1"), "{}", other.stdout);
    let again = terminal.run(&["chat", "first"]);
    assert!(again.answer().starts_with("You said: first (message 1"), "{}", again.stdout);
    assert_eq!(terminal.sessions("list --all --json").answer().lines().count(), 2);
}

#[test]
fn what_it_says_to_type_next_can_be_pasted_back() {
    let terminal = Terminal::new();
    let first = terminal.run(&["chat", "my name is Ada"]);
    let command = first.stderr.lines().find_map(|line| line.strip_prefix("to continue: ")).unwrap();
    let mut shell = terminal.command(&[]);
    let pasted = std::process::Command::new("sh")
        .args(["-c", &format!("{command} 'and then?'")])
        .envs(shell.env_clear().get_envs().filter_map(|(name, value)| value.map(|value| (name, value))))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let answer = String::from_utf8(pasted.stdout).unwrap();
    assert!(answer.contains("(message 2 of this conversation"), "{answer}");
}

#[test]
fn a_name_with_spaces_is_quoted_where_it_is_to_be_typed() {
    let said = Terminal::new().run(&["chat", "--session", "my trip", "hello"]);
    assert!(said.transcript().contains("to continue: herma chat --session 'my trip' --data DATA"), "{}", said.stderr);
}

#[test]
fn the_last_conversation_goes_on() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "--session", "first", "one"]).answer();
    terminal.run(&["chat", "--session", "second", "two"]).answer();
    let said = terminal.run(&["chat", "--continue", "three"]);
    assert!(said.answer().contains("(message 2 of this conversation"), "{}", said.stdout);
    assert!(said.stderr.contains("--session second"), "{}", said.stderr);
    terminal.run(&["chat", "--session", "keyed", "--session-key", "dm:ada", "four"]).answer();
    terminal.run(&["chat", "--session", "first", "five"]).answer();
    let keyed = terminal.run(&["chat", "--continue", "--session-key", "dm:ada", "six"]);
    assert!(keyed.stderr.contains("--session keyed"), "{}", keyed.stderr);
}

#[test]
fn a_chosen_name_begins_a_conversation_and_finds_it_again() {
    let terminal = Terminal::new();
    terminal.run_with_input(&["chat", "--session", "trip"], "one\n").answer();
    let again = terminal.run_with_input(&["chat", "--session", "trip"], "two\n");
    assert!(again.answer().contains("(message 2 of this conversation"), "{}", again.stdout);
}

#[test]
fn an_id_of_our_own_form_that_leads_nowhere_is_refused() {
    let id = format!("sess_{}", "0".repeat(32));
    let terminal = Terminal::new();
    terminal.run(&["chat", "hello"]).answer();
    let said = terminal.run_with_input(&["chat", "--session", &id], "hello\n");
    insta::assert_snapshot!(said.transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: no conversation is known by sess_<1>; check the id, --data and --store; for a new conversation, leave out --session, or choose a name that does not look like an id
    ");
}

#[test]
fn a_session_key_stays_with_its_conversation() {
    let terminal = Terminal::new();
    terminal.run_with_input(&["chat", "--session", "a", "--session-key", "dm:ada"], "one\n").answer();
    let other = terminal.run_with_input(&["chat", "--session", "a", "--session-key", "dm:bob"], "two\n");
    insta::assert_snapshot!(other.transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: a belongs to the session key dm:ada, not dm:bob; leave out --session-key to go on with it
    ");
}

#[test]
fn a_name_that_cannot_be_one_is_a_mistake_of_the_command_line() {
    let said = Terminal::new().run(&["chat", "--session", "../x"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("must not contain '/'"), "{}", said.stderr);
}

#[tokio::test]
async fn a_failed_answer_is_one_line_and_exit_code_1() {
    let upstream = herma_testkit::ScriptedUpstream::start().await;
    upstream.push(herma_testkit::Reply::status(400, "no such model"));
    let terminal = Terminal::new();
    let mut command = terminal.command(&["chat", "--model", "other"]);
    command.env("HERMA_UPSTREAM", upstream.base_url());
    let said = tokio::task::spawn_blocking(move || terminal.say(command, "one\n")).await.unwrap();
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{}", said.stderr);
    let errors: Vec<_> = said.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(matches!(errors[..], [line] if line.contains("no such model")), "{}", said.stderr);
    assert_eq!(upstream.last_request().body["model"], Value::from("other"));
}

#[test]
fn a_model_server_that_is_not_there_is_told_once_and_without_lines_of_the_log() {
    let terminal = Terminal::new();
    let mut command = terminal.command(&["chat", "hello"]);
    // Nothing listens on this port.
    let said = command.env("HERMA_UPSTREAM", "http://127.0.0.1:9/v1").env("HERMA_MODEL", "x").output().unwrap();
    let told = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(told.contains("; to check the model server: ") && told.contains("herma doctor --data "), "{told}");
    assert!(told.starts_with("error: the model server at 127.0.0.1:9 cannot be reached"), "{told}");
    assert_eq!(told.matches("cannot be reached").count(), 1, "{told}");
}

#[test]
fn a_model_server_without_a_model_needs_one_named() {
    let terminal = Terminal::new();
    let mut command = terminal.command(&["chat"]);
    command.env("HERMA_UPSTREAM", "http://127.0.0.1:9/v1");
    insta::assert_snapshot!(terminal.say(command, "").transcript(), @"
    exit 2
    --- stdout
    --- stderr
    error: no model is set; name one with --model or HERMA_MODEL
    ");
}

#[test]
fn a_continuation_makes_no_store_and_says_how_to_begin_under_the_same_key() {
    let terminal = Terminal::new();
    for arguments in [["--continue", "hi"], ["--session=0163541e", "hi"]] {
        let said = terminal.run(&[&["chat"], &arguments[..]].concat());
        assert_eq!(said.code, 1);
        assert!(said.stderr.contains("there is no store at "), "{}", said.stderr);
        assert!(!terminal.data().exists(), "a mistyped --data leaves nothing behind");
    }
    terminal.run(&["chat", "--session", "trip", "hello"]).answer();
    let none = terminal.run(&["chat", "--continue", "--session-key", "-dm", "hi"]);
    assert_eq!(none.code, 2, "a value that looks like a flag is refused\n{}", none.stderr);
    insta::assert_snapshot!(terminal.run(&["chat", "--continue", "--session-key=-dm", "hi"]).transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: there is no conversation to continue; to begin one: herma chat --session-key=-dm --data DATA
    ");
}

#[test]
fn an_ended_conversation_names_the_command_that_opens_it_and_none_that_fails() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "--session", "trip", "hello"]).answer();
    terminal.sessions("end trip").answer();
    insta::assert_snapshot!(terminal.run(&["chat", "--session", "trip", "more"]).transcript(), @"
    exit 1
    --- stdout
    --- stderr
    the built-in offline model answers; how to set a real one: herma doctor --data DATA
    error: trip was ended; to open it again: herma sessions reopen trip --data DATA
    ");
}

#[test]
fn a_new_name_is_told_and_a_mistyped_short_id_is_refused() {
    let terminal = Terminal::new();
    let date = terminal.run(&["chat", "--session", "20261119", "hello"]);
    assert!(date.stderr.contains("\na new conversation, 20261119\n"), "{}", date.stderr);
    let again = terminal.run(&["chat", "--session", "20261119", "hello"]);
    assert!(!again.stderr.contains("a new conversation"), "{}", again.stderr);
    for typed in ["0163541e", "sess_01a1"] {
        let said = terminal.run(&["chat", "--session", typed, "Hi"]);
        assert_eq!(said.code, 1, "{}", said.stdout);
        assert!(said.stderr.contains(&format!("no conversation is known by {typed}")), "{}", said.stderr);
    }
    assert_eq!(terminal.sessions("list --all --json").answer().lines().count(), 1);
}

#[test]
fn a_name_that_begins_with_a_dash_can_be_pasted_back() {
    let terminal = Terminal::new();
    let said = terminal.run(&["chat", "--session=-x", "hello"]);
    assert!(said.transcript().contains("to continue: herma chat --session=-x --data DATA"), "{}", said.stderr);
}

#[tokio::test]
async fn a_refused_key_names_the_setting_that_has_it() {
    let upstream = herma_testkit::ScriptedUpstream::start().await;
    upstream.push(herma_testkit::Reply::status(401, "Incorrect API key provided."));
    let terminal = Terminal::new();
    let mut command = terminal.command(&["chat", "--model", "other"]);
    command.env("HERMA_UPSTREAM", upstream.base_url());
    let said = tokio::task::spawn_blocking(move || terminal.say(command, "one\n")).await.unwrap();
    let advice = "; set the right key in HERMA_UPSTREAM_API_KEY or `upstream.api_key`\n";
    assert!(said.code == 1 && said.stderr.contains(advice), "{}", said.stderr);
}
