//! Tests start, end and signals of a child, with shell scripts in place of the binary.

use std::path::PathBuf;

use herma_testkit::Launch;

fn child(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/children").join(name)
}

#[tokio::test]
async fn the_ready_line_gives_the_address_and_kill_ends_it() {
    let mut herma = Launch::serve(child("stays.sh")).start().await;
    assert_eq!(herma.base_url(), "http://127.0.0.1:4242");
    assert!(herma.stderr().starts_with("first\nkey test-key\n"));
    let data = herma.data().to_owned();
    assert!(data.is_dir());
    herma.kill();
    assert!(!herma.wait().await.success());
    drop(herma);
    assert!(!data.exists());
}

#[tokio::test]
async fn a_child_that_refuses_to_start_tells_why() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::serve(child("refuses.sh")).data(directory.path()).arg("--no-auth");
    let ended = launch.try_start().await.unwrap_err();
    assert_eq!(ended.status.code(), Some(3));
    let data = directory.path().display();
    assert_eq!(ended.stderr, format!("no port: serve --listen 127.0.0.1:0 --no-auth --data {data}\n"));
    assert!(directory.path().is_dir());
}

#[tokio::test]
async fn a_terminated_child_drains_and_ends_by_itself() {
    let mut herma = Launch::serve(child("drains.sh")).start().await;
    herma.terminate();
    assert!(herma.wait().await.success());
    herma.until_stderr("draining").await;
}
