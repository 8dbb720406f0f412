use serde_json::Value;

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
    assert_eq!(keys[1]["session_keys"], serde_json::json!(["agent:*", "x"]));
    let id = keys[0]["id"].as_str().unwrap();

    // Ids begin with the time, so one digit cannot distinguish two keys of the same day.
    let unclear = terminal.run(&["keys", "revoke", &id[..5]]);
    assert_eq!(unclear.code, 1);
    assert!(
        unclear.stderr.contains("not enough to tell these keys apart, nothing was revoked:\nID"),
        "{}",
        unclear.stderr
    );
    assert!(unclear.stderr.contains(id) && unclear.stderr.contains(keys[1]["id"].as_str().unwrap()));

    let revoked = terminal.run(&["keys", "revoke", &id[..id.len() - 4]]);
    insta::assert_snapshot!(revoked.transcript(), @"
    exit 0
    --- stdout
    --- stderr
    key_<1> of tenant default is revoked; running servers notice within two seconds
    ");
    let again = terminal.run(&["keys", "revoke", id]);
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
    ID | TENANT | BEGINS WITH | SESSION KEYS | CREATED | REVOKED
    key_<1> | default | hk-<1> | all | MOMENT | MOMENT
    key_<2> | web | hk-<2> | agent:*,x | MOMENT | -
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
    there are no keys; make one with `herma keys create --tenant default`
    ");
    assert_eq!(terminal.run(&["keys", "list", "--json"]).answer(), "[]");
    assert_eq!(terminal.run(&["keys", "revoke", "key_1"]).code, 1);
    assert!(!terminal.data().exists());
}

#[test]
fn a_key_that_is_not_there_cannot_be_revoked() {
    let terminal = Terminal::new();
    terminal.run(&["keys", "create", "--tenant", "default"]).answer();
    insta::assert_snapshot!(terminal.run(&["keys", "revoke", "key_ff"]).transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: no key's id begins with key_ff; `herma keys list` shows them
    ");
}

#[test]
fn an_empty_pattern_is_refused_rather_than_read_as_all() {
    let said = Terminal::new().run(&["keys", "create", "--tenant", "web", "--session-keys", " , "]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.contains("leave the flag out to allow every session key"), "{}", said.stderr);
}
