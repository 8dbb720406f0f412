use serde_json::Value;

use crate::Terminal;

#[test]
fn a_script_talks_line_by_line_and_begins_afresh() {
    let said = Terminal::new().run_with_input(&["chat"], "hello\n\nagain\n/new\nfresh\n/nwe\n/exit\nnot read\n");
    insta::assert_snapshot!(said.transcript(), @"
    exit 0
    --- stdout
    You said: hello (message 1 of this conversation; I am Herma's offline model.)
    You said: again (message 2 of this conversation; I am Herma's offline model.)
    You said: fresh (message 1 of this conversation; I am Herma's offline model.)
    --- stderr
    no model server is set, so the built-in offline model answers; to set one, for example Ollama: HERMA_UPSTREAM=http://localhost:11434/v1 HERMA_MODEL=llama3.2, or [upstream] in herma.toml, or `serve --upstream URL --model NAME`; a key goes into HERMA_UPSTREAM_API_KEY
    a new conversation; its id comes with the first answer
    this is sess_<1>; to continue it later: herma chat --session sess_<1>
    a new conversation; its id comes with the first answer
    this is sess_<2>; to continue it later: herma chat --session sess_<2>
    there is no command /nwe; /help lists them
    ");
}

#[test]
fn an_old_conversation_goes_on_where_it_was() {
    let terminal = Terminal::new();
    let first = terminal.run_with_input(&["chat"], "my name is Ada\n");
    let at = first.stderr.rfind("sess_").unwrap();
    let said = terminal.run_with_input(&["chat", "--session", first.stderr[at..].trim_end()], "who am I?\n");
    let told = said.transcript();
    let (_, told) = told.split_once("--- stdout\n").unwrap();
    let told: Vec<_> = told.lines().filter(|line| !line.starts_with("no model server")).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    You said: who am I? (message 2 of this conversation; I am Herma's offline model.)
    --- stderr
    continuing sess_<1>; to continue it later: herma chat --session sess_<1>
      you: my name is Ada
      model: You said: my name is Ada (message 1 of this conversation; I am Herma's offline model.)
    ");
}

#[test]
fn a_chosen_name_begins_a_conversation_and_finds_it_again() {
    let terminal = Terminal::new();
    let begun = terminal.run_with_input(&["chat", "--session", "trip"], "one\n");
    assert!(begun.stderr.contains("a new conversation; to continue it later: herma chat --session trip\n"));
    let again = terminal.run_with_input(&["chat", "--session", "trip"], "two\n");
    assert!(again.answer().contains("(message 2 of this conversation"), "{}", again.stdout);
    assert!(again.stderr.contains("continuing trip;"), "{}", again.stderr);
}

#[test]
fn an_id_of_our_own_form_that_leads_nowhere_is_refused() {
    let id = format!("sess_{}", "0".repeat(32));
    let said = Terminal::new().run_with_input(&["chat", "--session", &id], "hello\n");
    insta::assert_snapshot!(said.transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: no conversation is known by sess_<1>; check the id, --data and --store, or leave out --session for a new conversation
    ");
}

#[test]
fn a_session_key_stays_with_its_conversation_and_with_the_fresh_ones() {
    let terminal = Terminal::new();
    terminal.run_with_input(&["chat", "--session", "a", "--session-key", "dm:ada"], "one\n").answer();
    let other = terminal.run_with_input(&["chat", "--session", "a", "--session-key", "dm:bob"], "two\n");
    insta::assert_snapshot!(other.transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: a belongs to the session key dm:ada, not dm:bob; leave out --session-key to go on with it
    ");
    let fresh = terminal.run_with_input(&["chat", "--session", "a"], "two\n/reset\nthree\n");
    fresh.answer();
    let at = fresh.stderr.rfind("sess_").unwrap();
    let fresh = fresh.stderr[at..].trim_end();
    let other = terminal.run_with_input(&["chat", "--session", fresh, "--session-key", "dm:bob"], "four\n");
    assert!(other.stderr.contains("belongs to the session key dm:ada"), "{}", other.stderr);
}

#[test]
fn a_name_that_cannot_be_one_is_a_mistake_of_the_command_line() {
    let said = Terminal::new().run(&["chat", "--session", "../x"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("must not contain '/'"), "{}", said.stderr);
}

#[tokio::test]
async fn a_failed_answer_is_one_line_and_the_conversation_goes_on() {
    let upstream = herma_testkit::ScriptedUpstream::start().await;
    upstream.push(herma_testkit::Reply::status(400, "no such model"));
    let terminal = Terminal::new();
    let mut command = terminal.command(&["chat", "--model", "other"]);
    command.env("HERMA_UPSTREAM", upstream.base_url());
    let said = tokio::task::spawn_blocking(move || terminal.say(command, "one\ntwo\n")).await.unwrap();
    assert_eq!((said.code, said.stdout.as_str()), (1, "reply to: two\n"), "{}", said.stderr);
    let errors: Vec<_> = said.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(matches!(errors[..], [line] if line.contains("no such model")), "{}", said.stderr);
    assert_eq!(upstream.last_request().body["model"], Value::from("other"));
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
