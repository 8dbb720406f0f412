use serde_json::{Value, json};

use crate::Terminal;

#[test]
fn a_new_key_stands_alone_on_stdout() {
    let said = Terminal::new().run(&["keys", "create", "--tenant", "web", "--session-keys", "agent:*, x"]);
    insta::assert_snapshot!(said.transcript(), @"
    exit 0
    --- stdout
    hk-<1>
    --- stderr
    key_<1> of tenant web; it is shown only now. Clients send it as `Authorization: Bearer KEY`
    ");
}

#[test]
fn keys_are_listed_without_their_secrets_and_revoked_by_a_unique_beginning() {
    let terminal = Terminal::new();
    let secret = terminal.run(&["keys", "create", "--tenant", "default"]).answer().to_owned();
    terminal.run(&["keys", "create", "--tenant", "web", "--session-keys", "agent:*,x"]).answer();
    let listed = terminal.run(&["keys", "list", "--json"]);
    let keys: Value = serde_json::from_str(listed.answer()).unwrap();
    assert!(!listed.stdout.contains(&secret));
    assert_eq!(keys[0]["begins_with"].as_str().unwrap(), &secret[..9]);
    assert_eq!(keys[0].get("session_keys"), None);
    assert_eq!(keys[1]["session_keys"], json!(["agent:*", "x"]));
    let id = keys[0]["id"].as_str().unwrap();

    // Ids begin with the time, so one digit cannot distinguish two keys of the same day.
    let unclear = terminal.run(&["keys", "revoke", &id[..5]]);
    assert_eq!(unclear.code, 1);
    assert!(unclear.stderr.contains("and nothing was revoked:\nID"), "{}", unclear.stderr);
    let short = |key: &Value| key["id"].as_str().map(|id| id[id.len() - 8..].to_owned()).unwrap();
    assert!(unclear.stderr.contains(&short(&keys[0])) && unclear.stderr.contains(&short(&keys[1])));

    let revoked = terminal.run(&["keys", "revoke", &id[..id.len() - 4]]);
    insta::assert_snapshot!(revoked.transcript(), @"
    exit 0
    --- stdout
    --- stderr
    key_<1> of tenant default is revoked; running servers notice within a second
    ");
    let again = terminal.run(&["keys", "revoke", &short(&keys[0])]);
    insta::assert_snapshot!(again.transcript(), @"
    exit 0
    --- stdout
    --- stderr
    key_<1> of tenant default was revoked before
    ");
    let columns =
        |line: &str| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect::<Vec<_>>().join(" | ");
    let listed = terminal.run(&["keys", "list"]).transcript();
    let listed: Vec<_> = listed.lines().map(columns).collect();
    insta::assert_snapshot!(listed.join("\n"), @"
    exit 0
    --- stdout
    ID | TENANT | BEGINS WITH | SESSION KEYS | LIMITS | CREATED | EXPIRES | REVOKED
    SHORT_ID | default | hk-<1> | all | - | MOMENT | - | MOMENT
    SHORT_ID | web | hk-<2> | agent:*,x | - | MOMENT | - | -
    --- stderr
    ");
}

#[test]
fn looking_for_keys_makes_no_store() {
    let terminal = Terminal::new();
    insta::assert_snapshot!(terminal.run(&["keys", "list"]).transcript(), @"
    exit 0
    --- stdout
    --- stderr
    there are no keys; make one with `herma keys create`
    ");
    assert_eq!(terminal.run(&["keys", "list", "--json"]).answer(), "[]");
    assert_eq!(terminal.run(&["keys", "revoke", "key_1"]).code, 1);
    assert!(!terminal.data().exists());
}

#[test]
fn a_key_that_is_not_there_cannot_be_revoked() {
    let terminal = Terminal::new();
    terminal.run(&["keys", "create", "--tenant", "default"]).answer();
    insta::assert_snapshot!(terminal.run(&["keys", "revoke", "key_ff"]).transcript(), @r#"
    exit 1
    --- stdout
    --- stderr
    error: no key is known by "key_ff"; `herma keys list` shows them
    "#);
}

#[test]
fn an_empty_pattern_is_refused_rather_than_read_as_all() {
    let said = Terminal::new().run(&["keys", "create", "--tenant", "web", "--session-keys", " , "]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.contains("leave the flag out to allow every session key"), "{}", said.stderr);
}

#[test]
fn a_key_with_limits_is_listed_with_them() {
    let terminal = Terminal::new();
    let limits = ["--read-only", "--expires", "30d", "--rate", "60/min", "--max-turns", "4"];
    terminal.run(&[&["keys", "create"], &limits[..]].concat()).answer();
    let listed: Value = serde_json::from_str(terminal.run(&["keys", "list", "--json"]).answer()).unwrap();
    let key = &listed[0];
    for (field, value) in
        [("tenant", json!("default")), ("read_only", json!(true)), ("rate", json!("60/min")), ("max_turns", json!(4))]
    {
        assert_eq!(key[field], value, "{key}");
    }
    assert!(key["expires_at"].as_str() > key["created_at"].as_str(), "{key}");
    let table = terminal.run(&["keys", "list"]).transcript();
    assert!(table.contains("read only, 60/min, 4 turns"), "{table}");
    for wrong in [["--rate", "60"], ["--expires", "soon"], ["--expires", "0d"], ["--max-turns", "0"]] {
        assert_eq!(terminal.run(&[&["keys", "create"], &wrong[..]].concat()).code, 2, "{wrong:?}");
    }
}
