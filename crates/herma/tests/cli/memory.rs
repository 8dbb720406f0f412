use serde_json::Value;

use crate::Terminal;

#[test]
fn facts_are_added_listed_and_forgotten() {
    let terminal = Terminal::new();
    terminal.run(&["keys", "create"]).answer();
    let add = |key: &str, text: &str| terminal.run(&["memory", "add", "--session-key", key, text]);
    let id = add("ann", "Ann is allergic to nuts").answer().to_owned();
    assert!(id.starts_with("mem_"));
    add("bob", "Bob plays chess").answer();
    let listed = terminal.run(&["memory", "list", "--session-key", "ann", "--json"]);
    let row: Value = serde_json::from_str(listed.answer()).unwrap();
    assert_eq!((row["id"].as_str(), row["text"].as_str()), (Some(id.as_str()), Some("Ann is allergic to nuts")));
    let all = terminal.run(&["memory", "list"]);
    assert!(all.stdout.starts_with("ID ") && all.stdout.lines().count() == 3, "{}", all.stdout);
    let forgotten = terminal.run(&["memory", "forget", &id]);
    assert_eq!((forgotten.code, forgotten.stderr.contains("is forgotten")), (0, true));
    let again = terminal.run(&["memory", "forget", &id]);
    assert!(again.code == 1 && again.stderr.contains("no memory is known by this id"), "{}", again.stderr);
    let rest = terminal.run(&["memory", "list"]);
    assert!(rest.stdout.contains("Bob plays chess") && !rest.stdout.contains("nuts"), "{}", rest.stdout);
}
