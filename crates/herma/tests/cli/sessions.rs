mod browse;
mod manage;
mod transfer;

use serde_json::Value;

use crate::{CommandOutput, Terminal};

/// A message that is longer than its summary.
fn long(number: usize) -> String {
    format!("message {number}: {}", "we went on and saw one more thing. ".repeat(16))
}

impl Terminal {
    /// Runs a command with a context window that just fits a dozen long messages.
    fn in_window(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        command.env("HERMA_CONTEXT_WINDOW", "8000");
        self.say(command, input)
    }

    /// Has a conversation that is long enough for a summary.
    pub(crate) fn talk_long(&self, name: &str) {
        for number in 1..=12 {
            self.in_window(&["chat", "--session", name], &long(number)).answer();
        }
    }

    pub(crate) fn sessions(&self, line: &str) -> CommandOutput {
        let arguments: Vec<&str> = ["sessions"].into_iter().chain(line.split(' ')).collect();
        self.in_window(&arguments, "")
    }
}

/// A conversation that is long enough for a summary.
fn trip() -> Terminal {
    let terminal = Terminal::new();
    terminal.talk_long("trip");
    terminal
}

fn json(said: &CommandOutput) -> Value {
    serde_json::from_str(said.answer()).unwrap()
}

#[test]
fn a_dry_run_shows_what_would_be_and_changes_nothing() {
    let terminal = trip();
    let said = terminal.sessions("compact trip --dry-run");
    let shown = said.answer();
    for part in
        ["summarised: ", "kept word for word: ", "  24 model: You said: message 12", "written by offline (split):"]
    {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    assert!(said.stderr.contains("is making a summary"), "{}", said.stderr);
    assert!(said.stderr.contains("nothing was changed"), "{}", said.stderr);
    let preview = json(&terminal.sessions("compact trip --dry-run --json"));
    assert_eq!(preview["object"], "compaction.preview");
    assert_eq!(terminal.sessions("compactions trip --json").answer(), "[]");
    assert!(terminal.sessions("compactions trip").stderr.contains("was never compacted"));
}

#[test]
fn a_conversation_is_compacted_listed_and_restored() {
    let terminal = trip();
    let done = terminal.sessions("compact trip");
    assert!(done.answer().contains("are now a summary (split)"), "{}", done.stdout);
    assert!(done.stderr.contains("the conversation goes on in sess_"), "{}", done.stderr);
    let listed = json(&terminal.sessions("compactions trip --json"));
    let id = listed[0]["id"].as_str().unwrap();
    assert!(done.stdout.starts_with(id) && done.stderr.contains(&format!("herma sessions undo trip {id}")));
    let table = terminal.sessions("compactions trip");
    let columns: Vec<&str> = table.answer().lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["ID", "WHEN", "ACTION", "MODE", "TRIGGER", "OUTCOME", "MESSAGES", "TOKENS", "MODEL"]);

    let short = table.answer().lines().nth(1).and_then(|row| row.split(' ').next()).unwrap();
    assert_eq!(short, &id[id.len() - 8..]);
    let undone = terminal.sessions(&format!("undo trip {short}"));
    assert!(undone.answer().contains(&format!("{id} is undone")), "{}", undone.stdout);
    let again = terminal.sessions(&format!("undo trip {id}"));
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("undone already"), "{}", again.stderr);
    let listed = json(&terminal.sessions("compactions trip --json"));
    assert_eq!((&listed[0]["action"], &listed[1]["outcome"]), (&Value::from("undo"), &Value::from("undone")));
}

#[test]
fn a_compacted_conversation_is_one_of_several_that_fit_only_once() {
    let terminal = trip();
    terminal.run(&["chat", "--session", "recipe", "flour and water"]).answer();
    terminal.sessions("compact trip").answer();
    let said = terminal.sessions("show conv_").stderr;
    assert!(said.contains("several conversations fit conv_"), "{said}");
    for name in ["trip", "recipe"] {
        assert_eq!(said.lines().filter(|line| line.split_whitespace().next() == Some(name)).count(), 1, "{said}");
    }
    let export = terminal.sessions("export trip").answer().to_owned();
    let created = export.lines().find(|line| line.starts_with("- created: ")).expect("when it was made");
    assert!(created.trim_end_matches('`').ends_with('Z'), "all times of an export are in UTC: {created}");
}

#[test]
fn an_undo_without_an_id_takes_back_the_last_compaction_that_stands() {
    let terminal = trip();
    terminal.sessions("compact trip").answer();
    let listed = json(&terminal.sessions("compactions trip --json"));
    let undone = terminal.sessions("undo trip");
    assert!(undone.answer().contains(&format!("{} is undone", listed[0]["id"].as_str().unwrap())), "{}", undone.stdout);
    let again = terminal.sessions("undo trip");
    assert_eq!(again.code, 1);
    assert_eq!(again.stderr, "error: trip has no compaction that can be undone\n");
}

#[test]
fn json_says_where_the_head_is() {
    let terminal = trip();
    let done = json(&terminal.sessions("compact trip --mode in_place --json"));
    assert_eq!((&done["mode"], &done["session"]["session_id"]), (&Value::from("in_place"), &Value::from("trip")));
    let id = done["id"].as_str().unwrap();
    let undone = json(&terminal.sessions(&format!("undo trip {id} --json")));
    assert_eq!(undone["undoes"].as_str(), Some(id));
    let other = terminal.sessions(&format!("undo trip cmp_{}", "0".repeat(32)));
    insta::assert_snapshot!(other.transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: trip has no compaction cmp_<1>; to list them: herma sessions compactions trip --data DATA
    ");
}

#[test]
fn a_short_conversation_has_nothing_to_compact() {
    let terminal = Terminal::new();
    terminal.in_window(&["chat", "--session", "trip"], "hello\n").answer();
    let said = terminal.sessions("compact trip");
    assert_eq!((said.code, said.stdout.as_str()), (1, ""));
    assert!(
        said.stderr.contains("there is nothing to summarise in trip") && said.stderr.contains("Nothing was changed")
    );
}

#[test]
fn looking_for_a_conversation_makes_no_store() {
    let terminal = Terminal::new();
    let id = format!("cmp_{}", "0".repeat(32));
    for line in ["compact trip", "compactions trip", &format!("undo trip {id}")] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(terminal.sessions(line).transcript(), @"
            exit 1
            --- stdout
            --- stderr
            error: there is no store at sqlite:DATA/herma.db yet, and so no conversation. To begin one: herma chat --data DATA. If there should be one, check --data and --store
            ");
        }
    }
    assert!(!terminal.data().exists());
}

#[test]
fn a_name_or_a_tenant_that_leads_nowhere_is_said_so() {
    let terminal = Terminal::new();
    terminal.in_window(&["chat", "--session", "trip"], "hello\n").answer();
    terminal.run(&["keys", "create", "--tenant", "web"]).answer();
    let id = format!("cmp_{}", "0".repeat(32));
    for line in ["compact", "compactions", "undo"] {
        let last = if line == "undo" { format!(" {id}") } else { String::new() };
        insta::allow_duplicates! {
            insta::assert_snapshot!(terminal.sessions(&format!("{line} nobody{last}")).transcript(), @"
            exit 1
            --- stdout
            --- stderr
            error: no conversation is known by nobody; check the id, --tenant, --data and --store, or see all: herma sessions list --all --data DATA
            ");
            insta::assert_snapshot!(terminal.sessions(&format!("{line} trip{last} --tenant wbe")).transcript(), @"
            exit 1
            --- stdout
            --- stderr
            error: there is no tenant wbe; to list them: herma tenants list --data DATA
            ");
        }
        let other = terminal.sessions(&format!("{line} trip{last} --tenant web"));
        assert!(other.stderr.contains("no conversation is known by trip"), "{}", other.stderr);
    }
}

#[test]
fn a_model_server_without_a_model_needs_one_named() {
    let terminal = Terminal::new();
    let mut command = terminal.command(&["sessions", "compact", "trip"]);
    command.env("HERMA_UPSTREAM", "http://127.0.0.1:9/v1");
    insta::assert_snapshot!(terminal.say(command, "").transcript(), @"
    exit 2
    --- stdout
    --- stderr
    error: no model is set; name one with --model or HERMA_MODEL
    ");
}
