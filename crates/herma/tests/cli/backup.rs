//! `herma backup` and `herma restore`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use herma_testkit::{Launch, ScriptedUpstream};
use serde_json::json;

use crate::{HERMA, Terminal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_while_a_server_writes_is_whole_and_can_be_restored() {
    let upstream = ScriptedUpstream::start().await;
    let (here, there) = (Terminal::new(), Terminal::new());
    let herma = Launch::serve(HERMA).data(here.data()).upstream(&upstream.base_url()).start().await;
    let say = async |text: &str| {
        let client = herma.client().header("x-hermes-session-id", "trip");
        let body = json!({"model": "scripted", "messages": [{"role": "user", "content": text}]});
        client.post_json("/v1/chat/completions", &body).await.expect(200);
    };
    say("where is the fjord?").await;
    let file = there.data().with_file_name("copy.db").display().to_string();
    tokio::task::block_in_place(|| here.run(&["backup", &file]).answer().to_owned());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    say("and after the copy?").await;

    tokio::task::block_in_place(|| {
        let again = here.run(&["backup", &file]);
        assert!(again.code == 1 && again.stderr.contains("--force writes over it"), "{}", again.stderr);
        let in_use = here.run(&["restore", &file, "--force"]);
        assert!(in_use.code == 1 && in_use.stderr.contains("is in use"), "{}", in_use.stderr);
        there.run(&["restore", &file]).answer();
        let shown = there.run(&["sessions", "show", "trip"]);
        assert!(shown.answer().contains("where is the fjord?"), "{}", shown.stdout);
        assert!(!shown.stdout.contains("after the copy"), "{}", shown.stdout);
        let found = there.run(&["sessions", "search", "fjord"]);
        assert!(found.answer().contains("trip"), "{}", found.stdout);
        there.run(&["chat", "--session", "trip", "hello again"]).answer();
    });
    assert!(herma.client().get("/health").await.status == 200, "the server goes on");
}

#[test]
fn a_store_that_is_there_is_put_aside_and_a_file_that_is_no_copy_is_refused() {
    let terminal = Terminal::new();
    terminal.run(&["chat", "--session", "old", "hello"]).answer();
    let file = terminal.data().with_file_name("copy.db").display().to_string();
    terminal.run(&["backup", &file]).answer();
    terminal.run(&["chat", "--session", "new", "hello"]).answer();
    let refused = terminal.run(&["restore", &file]);
    assert!(refused.code == 1 && refused.stderr.contains("--force puts it aside"), "{}", refused.stderr);
    terminal.run(&["restore", &file, "--force"]).answer();
    let listed = terminal.run(&["sessions", "list"]);
    assert!(listed.answer().contains("old") && !listed.stdout.contains("new"), "{}", listed.stdout);
    let names = fs::read_dir(terminal.data()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("herma.db.before-")).count(), 1);

    let nonsense = terminal.data().with_file_name("nonsense.db");
    fs::write(&nonsense, "no database\n".repeat(500)).unwrap();
    let refused = terminal.run(&["restore", &nonsense.display().to_string(), "--force"]);
    assert!(refused.code == 1 && refused.stderr.contains("damaged"), "{}", refused.stderr);
    assert!(terminal.run(&["sessions", "list"]).answer().contains("old"), "nothing was changed");
}
