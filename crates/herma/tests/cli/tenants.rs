use serde_json::{Value, json};

use crate::Terminal;

#[test]
fn a_tenant_is_deleted_with_its_keys_and_all_that_was_said() {
    let terminal = Terminal::new();
    for tenant in ["web", "shop"] {
        terminal.run(&["keys", "create", "--tenant", tenant]).answer();
    }
    for tenant in ["web", "shop"] {
        let elsewhere = Terminal::new();
        elsewhere.run_with_input(&["chat", "--session", "trip"], "what does the quokka eat?\n").answer();
        let exported = elsewhere.run(&["sessions", "export", "trip", "--format", "jsonl"]);
        let file = elsewhere.home.path().join("trip.jsonl");
        std::fs::write(&file, exported.answer()).unwrap();
        terminal.run(&["sessions", "import", file.to_str().unwrap(), "--tenant", tenant]).answer();
    }
    terminal.run_with_input(&["chat", "--session", "trip"], "what does the quokka eat?\n").answer();
    assert_eq!(terminal.run(&["tenants", "list"]).answer(), "web\nshop\ndefault");
    assert_eq!(terminal.run(&["tenants", "delete", "web"]).code, 2, "there is no terminal to ask on");
    insta::assert_snapshot!(terminal.run(&["tenants", "delete", "web", "--yes"]).transcript(), @"
    exit 0
    --- stdout
    --- stderr
    tenant web is deleted: 1 conversation, 2 messages, 1 turn
    no file has the text any more
    ");
    insta::assert_snapshot!(terminal.run(&["tenants", "delete", "web", "--yes"]).transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: there is no tenant web; `herma tenants list` shows them
    ");
    let keys: Value = serde_json::from_str(terminal.run(&["keys", "list", "--json"]).answer()).unwrap();
    assert_eq!(keys.as_array().unwrap().iter().map(|key| &key["tenant"]).collect::<Vec<_>>(), [&json!("shop")]);
    assert!(terminal.run(&["sessions", "show", "trip", "--tenant", "shop"]).answer().contains("quokka"));

    let receipt = terminal.run(&["tenants", "delete", "shop", "--yes", "--json"]);
    let receipt: Value = serde_json::from_str(receipt.answer()).unwrap();
    assert_eq!((&receipt["removed"]["api_keys"], &receipt["left"]), (&json!(1), &json!(0)));
    terminal.run(&["tenants", "delete", "default", "--yes"]).answer();
    assert_eq!(terminal.run(&["tenants", "list"]).answer(), "default", "HERMA_API_KEY stands for it");
    let files = std::fs::read_dir(terminal.data()).unwrap().map(|entry| entry.unwrap().path());
    for path in files.filter(|path| path.is_file()) {
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("quokka") && !text.contains("shop"), "{}", path.display());
    }
}
