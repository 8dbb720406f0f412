//! Tools that Herma runs, as people see them in a terminal.

use std::fs;

use herma_testkit::McpServer;
use serde_json::Value;

use crate::Terminal;

/// A terminal whose models are offered some tools of a server, and delegation.
fn terminal(server: &McpServer) -> Terminal {
    let terminal = Terminal::new();
    configure(&terminal, server, "");
    terminal
}

fn configure(terminal: &Terminal, server: &McpServer, more: &str) {
    fs::create_dir_all(terminal.data()).unwrap();
    let file = format!(
        "[tools]\nbuiltin = [\"delegate_task\"]\n[tools.mcp.notes]\ncommand = {:?}\nargs = {:?}\n\
         allow = [\"read_note\", \"echo\", \"broken\"]\napprovals = {{ broken = \"auto\" }}\n{more}",
        server.command(),
        server.args(),
    );
    fs::write(terminal.data().join("herma.toml"), file).unwrap();
}

/// The lines of stderr about tools.
fn tool_lines(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with(['→', '←'])).collect()
}

#[test]
fn tools_are_listed_with_their_server_and_approval() {
    let server = McpServer::stdio();
    let terminal = terminal(&server);
    insta::assert_snapshot!(terminal.run(&["tools", "list"]).transcript(), @"
    exit 0
    --- stdout
    NAME              SERVER  APPROVAL  STATUS  DESCRIPTION
    delegate_task     herma   auto      ready   Hands tasks to helpers. Each helper works in a conversation …
    notes__broken     notes   auto      ready   Answers with an error
    notes__echo       notes   ask       ready   Repeats a text
    notes__read_note  notes   auto      ready   Reads the note
    --- stderr
    ");
    let rows: Value = serde_json::from_str(terminal.run(&["tools", "list", "--json"]).answer()).unwrap();
    assert_eq!((&rows[2]["name"], &rows[2]["approval"]), (&"notes__echo".into(), &"ask".into()));
    assert_eq!(rows[2]["input_schema"]["properties"]["text"]["type"], "string");
}

#[test]
fn a_server_is_listed_for_its_tenants_and_session_keys_only() {
    let server = McpServer::stdio();
    let terminal = Terminal::new();
    configure(&terminal, &server, "tenants = [\"web\"]\nsession_keys = [\"agent:*\"]\n");
    let names = |flags: &[&str]| {
        let said = terminal.run(&[&["tools", "list", "--json"], flags].concat());
        let rows: Value = serde_json::from_str(said.answer()).unwrap();
        rows.as_array().unwrap().len()
    };
    assert_eq!(names(&[]), 1);
    assert_eq!(names(&["--tenant", "web"]), 1);
    assert_eq!(names(&["--tenant", "web", "--session-key", "agent:1"]), 4);
}

#[test]
fn a_server_that_fails_is_a_row_and_a_sentence() {
    let server = McpServer::stdio().with(&["--mode", "exit"]);
    let terminal = terminal(&server);
    let said = terminal.run(&["tools", "list"]);
    assert_eq!(said.answer().lines().last(), Some("-              notes   -         failed"));
    assert!(said.stderr.starts_with("notes failed: "), "{}", said.stderr);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    let rows: Value = serde_json::from_str(terminal.run(&["tools", "list", "--json"]).answer()).unwrap();
    assert_eq!((rows[1].get("name"), &rows[1]["status"]), (None, &"failed".into()));
    assert!(said.stderr.contains(rows[1]["error"].as_str().unwrap()));
    let called = terminal.run(&["tools", "call", "notes__echo"]);
    assert_eq!((called.code, called.stdout.as_str()), (1, ""));
    assert!(called.stderr.starts_with("error: there is no tool notes__echo; "), "{}", called.stderr);
    assert!(called.stderr.contains("\nnotes failed: "), "{}", called.stderr);
}

#[test]
fn without_tools_it_says_how_to_get_some() {
    insta::assert_snapshot!(Terminal::new().run(&["tools", "list"]).transcript(), @"
    exit 0
    --- stdout
    --- stderr
    no tools are configured; `herma tools --help` shows how
    ");
}

#[test]
fn a_call_prints_the_result_and_fails_if_the_tool_does() {
    let server = McpServer::stdio();
    let terminal = terminal(&server);
    insta::assert_snapshot!(terminal.run(&["tools", "call", "notes__echo", r#"{"text":"hello"}"#]).transcript(), @"
    exit 0
    --- stdout
    hello
    --- stderr
    ");
    let failed = terminal.run(&["tools", "call", "notes__broken"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, ""));
    assert!(failed.stderr.starts_with("error: "), "{}", failed.stderr);
    let odd = terminal.run(&["tools", "call", "notes__echo", "[]"]);
    insta::assert_snapshot!(odd.transcript(), @r#"
    exit 2
    --- stdout
    --- stderr
    error: the arguments must be a JSON object, such as '{"path":"x"}'
    "#);
    let built_in = terminal.run(&["tools", "call", "delegate_task"]);
    assert!(built_in.stderr.contains("is built in and works within a turn only"), "{}", built_in.stderr);

    configure(&terminal, &server, "approval = \"deny\"\n");
    let denied = terminal.run(&["tools", "call", "notes__echo"]);
    assert_eq!(denied.code, 1);
    assert!(denied.stderr.contains("notes__echo is denied by `approval`"), "{}", denied.stderr);
}

#[test]
fn a_script_sees_calls_and_results_and_is_denied_what_needs_a_person() {
    let server = McpServer::stdio();
    let terminal = terminal(&server);
    let read = terminal.run_with_input(&["chat", "--session", "trip"], "use notes__read_note\n");
    assert!(read.answer().starts_with("The tool answered: "), "{}", read.stdout);
    let said = terminal.run(&["chat", "--session", "trip", "use notes.echo {\"text\":\"x\"} and notes.broken"]);
    assert_eq!(said.answer().lines().count(), 1, "{}", said.stdout);
    let lines = [tool_lines(&read.stderr), tool_lines(&said.stderr)].concat();
    assert_eq!(lines[0], "→ notes.read_note {}");
    assert!(lines[1].starts_with("← ") && lines[1].contains(" characters, 0."), "{lines:?}");
    assert_eq!(lines[2..4], ["→ notes.echo {\"text\":\"x\"}", "→ notes.broken {}"]);
    let denied = "← notes.echo: denied: it needs an approval, and nobody can be asked here.";
    assert!(lines[4..].contains(&denied), "{lines:?}");
    assert!(lines[4..].iter().any(|line| line.starts_with("← notes.broken: failed: ")), "{lines:?}");

    let shown = terminal.run(&["sessions", "show", "trip"]);
    assert!(shown.answer().contains("\n2 model: → notes.read_note {}\n3 tool: ← "), "{}", shown.stdout);
    assert!(shown.stdout.contains("tool: ← denied: it needs an approval"), "{}", shown.stdout);
}

#[test]
fn delegated_work_is_shown_and_stands_in_the_tree() {
    let server = McpServer::stdio();
    let terminal = terminal(&server);
    let said = terminal.run_with_input(&["chat", "--session", "trip"], "delegate: write a poem; count to three\n");
    let lines = tool_lines(&said.stderr);
    assert_eq!(lines[0], "→ delegate 2 tasks: write a poem; count to three");
    assert!(lines[1].starts_with("← 2 helpers answered, "), "{lines:?}");
    assert!(said.answer().starts_with("The helpers answered: You said: write a poem"), "{}", said.stdout);
    let tree = terminal.run(&["sessions", "tree", "trip"]).transcript();
    let tree: Vec<&str> = tree.lines().filter(|line| line.contains('[')).collect();
    assert!(tree[0].starts_with("trip [main] delegate: write a poem; count to three (now, 4 messages, "), "{tree:?}");
    assert!(tree[0].ends_with("live)  ◀"), "{tree:?}");
    assert!(tree[1].starts_with("├─ delegate: SHORT_ID [auxiliary] write a poem (now, 2 messages, "), "{tree:?}");
    assert!(tree[2].starts_with("└─ delegate: SHORT_ID [auxiliary] count to three (now, 2 messages, "), "{tree:?}");
}

#[test]
fn nothing_is_granted_and_nothing_can_be_revoked_at_first() {
    let terminal = Terminal::new();
    terminal.run_with_input(&["chat"], "hello\n").answer();
    insta::assert_snapshot!(terminal.run(&["tools", "grants"]).transcript(), @"
    exit 0
    --- stdout
    --- stderr
    nothing was allowed for longer than one call
    ");
    assert_eq!(terminal.run(&["tools", "grants", "--json"]).answer(), "[]");
    insta::assert_snapshot!(terminal.run(&["tools", "revoke", "notes"]).transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: nothing was allowed for notes; `herma tools grants` shows what was
    ");
}
