use std::fs;
use std::net::TcpListener;

use herma_testkit::Launch;

use crate::typed::{CTRL_C, TypedCommand};
use crate::{HERMA, Terminal, redacted};

fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_the_first_start_says_to_try_can_be_pasted_from_a_narrow_terminal() {
    let terminal = Terminal::new();
    let mut serve = TypedCommand::start_in(&terminal.command(&["serve", "--listen", "127.0.0.1:0"]), 40, 60);
    let before = serve.until("/v1/chat/completions -H \"Authorization: Bearer $(cat '");
    let rest = serve.until("herma listening on");
    assert!(before.contains("Try it:\r\n\r\n    curl http://"), "{before}");
    let shell = r#"-d '{"messages": [{"role": "user", "content": "Hello"}]}'"#;
    assert!(rest.contains("api-key')\" \\\r\n      -H 'Content-Type: application/json'"), "{rest}");
    assert!(rest.contains(shell), "{rest}");
    serve.types(CTRL_C);
    assert_eq!(serve.code(), Some(0));
}

#[tokio::test]
async fn the_first_start_makes_a_key_for_its_owner_alone_and_shows_it_once() {
    let terminal = Terminal::new();
    let data = terminal.data();
    let launch = || Launch::serve(HERMA).data(&data).without_key();
    let herma = launch().start().await;
    let key = fs::read_to_string(data.join("api-key")).unwrap();
    assert!(herma.stderr().contains(key.trim_end()), "{}", herma.stderr());
    assert_eq!((mode(&data), mode(&data.join("api-key"))), (0o700, 0o600));
    let shown = redacted(&herma.stderr(), &data).replace(herma.base_url(), "URL");
    insta::assert_snapshot!(shown, @r#"
    This is your API key. It is shown only now, and saved in DATA/api-key:

        hk-<1>

    Try it:

        curl URL/v1/chat/completions -H "Authorization: Bearer $(cat 'DATA/api-key')" \
          -H 'Content-Type: application/json' -d '{"messages": [{"role": "user", "content": "Hello"}]}'

    no model server is set, so the built-in offline model answers; to set one, for example Ollama: HERMA_UPSTREAM=http://localhost:11434/v1 HERMA_MODEL=llama3.2, or [upstream] in herma.toml, or `serve --upstream URL --model NAME`; a key goes into HERMA_UPSTREAM_API_KEY
    herma listening on URL
    "#);
    drop(herma);

    let herma = launch().start().await;
    assert!(!herma.stderr().contains("hk-"), "{}", herma.stderr());
    assert_eq!(fs::read_to_string(data.join("api-key")).unwrap(), key);
    let listed = terminal.run(&["keys", "list", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(listed.answer()).unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn a_key_is_not_written_into_the_journal_of_systemd() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::MetadataExt;
    let terminal = Terminal::new();
    let journal = tempfile::NamedTempFile::new().unwrap();
    let file = journal.as_file().metadata().unwrap();
    let mut command = terminal.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("JOURNAL_STREAM", format!("{}:{}", file.dev(), file.ino())).stderr(journal.reopen().unwrap());
    let mut herma = command.spawn().unwrap();
    let began = std::time::Instant::now();
    let written = loop {
        let lines = BufReader::new(journal.reopen().unwrap()).lines().map(Result::unwrap).collect::<Vec<_>>();
        if lines.iter().any(|line| line.starts_with("herma listening on ")) {
            break lines.join("\n");
        }
        assert!(began.elapsed() < herma_testkit::PATIENCE, "{lines:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    herma.kill().unwrap();
    herma.wait().unwrap();
    let key = fs::read_to_string(terminal.data().join("api-key")).unwrap();
    assert!(written.contains("api-key. It is not shown here") && !written.contains(key.trim_end()), "{written}");
}

#[tokio::test]
async fn a_key_from_the_environment_makes_another_one_needless() {
    let herma = Launch::serve(HERMA).start().await;
    assert!(!herma.data().join("api-key").exists());
    assert!(!herma.stderr().contains("API key"), "{}", herma.stderr());
}

#[test]
fn without_a_key_no_other_address_is_served() {
    let terminal = Terminal::new();
    let said = terminal.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(said.code, 1);
    let address = said.stderr.split_whitespace().find(|word| word.starts_with("0.0.0.0:")).unwrap();
    insta::assert_snapshot!(said.transcript().replace(address, "0.0.0.0:PORT"), @"
    exit 1
    --- stdout
    --- stderr
    error: there is no API key, and 0.0.0.0:PORT can be reached by others; make a key with `herma keys create --tenant default` (same --data and --store), set HERMA_API_KEY, or listen on 127.0.0.1
    ");
    assert!(!terminal.data().join("api-key").exists());
}

#[test]
fn a_stored_key_is_enough_for_any_address() {
    let terminal = Terminal::new();
    terminal.run(&["keys", "create", "--tenant", "default"]).answer();
    let mut command = terminal.command(&["serve", "--listen", "0.0.0.0:0"]);
    command.stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().starts_with("herma listening on http://0.0.0.0:")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn without_authentication_only_loopback_is_served() {
    let said = Terminal::new().run(&["serve", "--listen", "0.0.0.0:0", "--no-auth"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.starts_with("error: `server.no_auth` works on loopback only"), "{}", said.stderr);
}

#[test]
fn a_port_in_use_is_named_and_makes_no_key() {
    let terminal = Terminal::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = terminal.run(&["serve", "--listen", &address]);
    insta::assert_snapshot!(said.transcript().replace(&address, "ADDRESS"), @"
    exit 1
    --- stdout
    --- stderr
    error: ADDRESS is in use by another program, perhaps another herma; stop it, or choose another port, such as --listen 127.0.0.1:0
    ");
    assert!(!terminal.data().join("api-key").exists());
}

#[test]
fn an_address_of_another_machine_is_named() {
    let said = Terminal::new().run(&["serve", "--listen", "192.0.2.1:0"]);
    insta::assert_snapshot!(said.transcript(), @"
    exit 1
    --- stdout
    --- stderr
    error: 192.0.2.1:0 is not an address of this machine; choose one that is, such as --listen 127.0.0.1:8642
    ");
}

#[tokio::test]
async fn a_signal_to_stop_ends_with_success() {
    let mut herma = Launch::serve(HERMA).start().await;
    herma.terminate();
    assert_eq!(herma.wait().await.code(), Some(0));
    herma.until_stderr("herma is stopping\n").await;
}

#[tokio::test]
async fn a_model_server_without_a_model_is_served_with_a_note() {
    let herma = Launch::serve(HERMA).args(["--upstream", "http://127.0.0.1:9/v1"]).start().await;
    let note =
        "answers come from the model server at http://127.0.0.1:9/v1; no model is set, so every request must name one";
    assert!(herma.stderr().contains(note), "{}", herma.stderr());
}
