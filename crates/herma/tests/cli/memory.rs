use herma_gateway::{Memories, access};
use herma_model::{MemorySource, SessionKey};
use herma_store::Store;
use herma_store_sqlite::SqliteStore;
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
    let short = rest.stdout.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(short.len(), 8, "{}", rest.stdout);
    assert!(rest.stdout.contains("Bob plays chess") && !rest.stdout.contains("nuts"), "{}", rest.stdout);
    add("bob", "Bob is tall").answer();
    let unclear = terminal.run(&["memory", "forget", &id[4..7]]);
    assert!(unclear.code == 1 && unclear.stderr.contains("nothing was forgotten:\nID"), "{}", unclear.stderr);
    let unknown = terminal.run(&["memory", "forget", "nuts"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("no fact is known by \"nuts\""), "{}", unknown.stderr);
    assert_eq!(terminal.run(&["memory", "forget", &short]).code, 0);
    let last = terminal.run(&["memory", "list"]);
    assert!(last.stdout.contains("Bob is tall") && last.stdout.lines().count() == 2, "{}", last.stdout);
}

#[tokio::test]
async fn facts_go_with_the_conversation_they_come_from_unless_they_are_to_be_kept() {
    let terminal = Terminal::new();
    terminal.run(&["keys", "create"]).answer();
    for (name, flags, left) in [("gone", &[][..], 0), ("kept", &["--memories", "keep"][..], 1)] {
        terminal.run_with_input(&["chat", "--session", name], "hello\n").answer();
        let row = terminal.run(&["sessions", "show", name, "--json"]);
        let row: Value = serde_json::from_str(row.answer()).unwrap();
        let conversation = row["conversation_id"].as_str().unwrap().parse().unwrap();
        let store = SqliteStore::open(&terminal.data().join("herma.db")).unwrap();
        let principal = access::default_principal(&store).await.unwrap();
        let key = SessionKey::parse("ann").unwrap();
        let added = Memories::of(&store, &principal).add(key, name, MemorySource::Tool, Some(conversation)).await;
        added.unwrap();
        store.close().await;
        terminal.run(&[&["sessions", "delete", name, "--yes"], flags].concat()).answer();
        let listed = terminal.run(&["memory", "list", "--json"]);
        assert_eq!(listed.answer().lines().count(), left, "{name}: {}", listed.stdout);
    }
    let refused = terminal.run(&["sessions", "delete", "kept", "--yes", "--memories", "some"]);
    assert!(refused.code == 2 && refused.stderr.contains("[possible values: keep, delete]"), "{}", refused.stderr);
}
