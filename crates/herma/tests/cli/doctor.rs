use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use herma_testkit::{Launch, ScriptedUpstream};
use serde_json::Value;

use crate::{CommandOutput, HERMA, Terminal};

/// Name and status of every check.
fn statuses(said: &CommandOutput) -> Vec<String> {
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap().iter();
    checks.map(|check| format!("{} {}", check["check"].as_str().unwrap(), check["status"].as_str().unwrap())).collect()
}

fn doctor(terminal: &Terminal, variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = terminal.command(&["doctor", "--json"]);
    command.env("HERMA_LISTEN", "127.0.0.1:0").envs(variables.iter().copied());
    terminal.say(command, "")
}

#[test]
fn before_the_first_start_nothing_is_wrong_and_nothing_is_made() {
    let terminal = Terminal::new();
    let mut command = terminal.command(&["doctor"]);
    command.env("HERMA_LISTEN", "127.0.0.1:0");
    insta::assert_snapshot!(terminal.say(command, "").transcript(), @"
    exit 0
    --- stdout
    ok  configuration   no file; defaults and variables apply
    ok  data directory  DATA is not there yet; the first start can make it
    ok  store           sqlite:DATA/herma.db is not there yet; the first start makes it
    ok  API keys        none yet; the first start makes one
    ok  listen          127.0.0.1:0 picks a free port
    ok  model server    no model server is set, so the built-in offline model answers; to set one, for example Ollama: HERMA_UPSTREAM=http://localhost:11434/v1 HERMA_MODEL=llama3.2, or [upstream] in herma.toml, or `serve --upstream URL --model NAME`; a key goes into HERMA_UPSTREAM_API_KEY
    --- stderr
    no problem found
    ");
    assert!(!terminal.data().exists());
}

#[tokio::test]
async fn a_running_gateway_and_its_model_server_are_recognised() {
    let upstream = ScriptedUpstream::start().await;
    let terminal = Terminal::new();
    let herma = Launch::serve(HERMA).data(terminal.data()).without_key().start().await;
    let address = herma.base_url().strip_prefix("http://").unwrap().to_owned();
    let url = upstream.base_url();
    let said = tokio::task::spawn_blocking(move || {
        doctor(&terminal, &[("HERMA_LISTEN", &address), ("HERMA_UPSTREAM", &url), ("HERMA_MODEL", "scripted")])
    });
    let said = said.await.unwrap();
    assert!(said.stdout.contains("with this store"), "{}", said.stdout);
    assert_eq!(
        statuses(&said),
        [
            "configuration ok",
            "data directory ok",
            "first key ok",
            "free space ok",
            "store ok",
            "API keys ok",
            "listen ok",
            "model server ok"
        ],
        "{}",
        said.stdout
    );
    assert_eq!(said.code, 0);
}

#[test]
fn what_is_open_to_others_is_found() {
    let terminal = Terminal::new();
    fs::create_dir(terminal.data()).unwrap();
    fs::set_permissions(terminal.data(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(terminal.data().join("api-key"), "hk-1\n").unwrap();
    fs::set_permissions(terminal.data().join("api-key"), fs::Permissions::from_mode(0o644)).unwrap();
    let said = doctor(&terminal, &[]);
    assert_eq!(said.code, 1);
    assert_eq!(statuses(&said)[1..3], ["data directory warning", "first key problem"], "{}", said.stdout);
    assert!(said.transcript().contains("chmod 600 'DATA/api-key'"), "{}", said.stdout);
}

#[test]
fn a_damaged_store_a_dead_model_server_and_a_bad_configuration_are_problems() {
    let terminal = Terminal::new();
    fs::create_dir(terminal.data()).unwrap();
    fs::write(terminal.data().join("herma.db"), "no database\n".repeat(500)).unwrap();
    let said = doctor(&terminal, &[("HERMA_UPSTREAM", "http://127.0.0.1:9/v1"), ("HERMA_MODEL", "m")]);
    assert_eq!(said.code, 1);
    let found = statuses(&said);
    assert!(
        found.contains(&"store problem".to_owned()) && found.contains(&"model server problem".to_owned()),
        "{found:?}"
    );

    let said = doctor(&terminal, &[("HERMA_SERVER__LISTN", "x")]);
    assert_eq!((said.code, statuses(&said)), (1, vec!["configuration problem".to_owned()]));
}

#[test]
fn an_open_address_without_a_key_is_a_problem() {
    let said = doctor(&Terminal::new(), &[("HERMA_LISTEN", "0.0.0.0:0")]);
    assert_eq!(said.code, 1);
    assert!(statuses(&said).contains(&"API keys problem".to_owned()), "{}", said.stdout);
}

#[tokio::test]
async fn every_model_server_is_checked() {
    let [first, second] = [ScriptedUpstream::start().await, ScriptedUpstream::start().await];
    second.offer(&["llama:latest", "qwen"]);
    let terminal = Terminal::new();
    fs::create_dir(terminal.data()).unwrap();
    let config = format!(
        "[upstream]\nbase_url = \"{}\"\nmodel = \"scripted\"\n[models.a]\nupstream_model = \"llama\"\nbase_url = \
         \"{second}\"\n[models.b]\nbase_url = \"{second}\"\n[models.c]\nbase_url = \"http://127.0.0.1:9/v1\"\n",
        first.base_url(),
        second = second.base_url(),
    );
    fs::write(terminal.data().join("herma.toml"), config).unwrap();
    let said = tokio::task::spawn_blocking(move || doctor(&terminal, &[])).await.unwrap();
    let servers: Vec<_> = statuses(&said).into_iter().filter(|status| status.starts_with("model server")).collect();
    assert_eq!(servers, ["model server ok", "model server warning", "model server problem"], "{}", said.stdout);
    for found in [
        format!("the model server at {} answers and offers scripted", first.base_url()),
        format!("the model server at {} answers but does not list b; it offers llama:latest, qwen", second.base_url()),
        "the model server at http://127.0.0.1:9/v1 cannot be asked".to_owned(),
    ] {
        assert!(said.stdout.contains(&found), "{found}\n{}", said.stdout);
    }
    assert_eq!(said.code, 1);
}

#[tokio::test]
async fn a_gateway_with_another_store_is_told_from_this_one() {
    let (here, there) = (Terminal::new(), Terminal::new());
    let herma = Launch::serve(HERMA).data(there.data()).without_key().start().await;
    let address = herma.base_url().strip_prefix("http://").unwrap().to_owned();
    let said = tokio::task::spawn_blocking(move || doctor(&here, &[("HERMA_LISTEN", &address)])).await.unwrap();
    assert!(statuses(&said).contains(&"listen warning".to_owned()), "{}", said.stdout);
    assert!(said.stdout.contains("with another store than sqlite:"), "{}", said.stdout);
}

#[test]
fn a_place_that_cannot_be_made_is_a_problem_before_the_first_start() {
    let terminal = Terminal::new();
    let mut command = std::process::Command::new(HERMA);
    command.args(["doctor", "--json", "--store", "sqlite:/nowhere/at/all.db", "--data", "/proc/herma"]);
    command.env("HERMA_LISTEN", "127.0.0.1:0").current_dir(terminal.data().parent().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = terminal.say(command, "");
    let found = statuses(&said);
    assert!(found.contains(&"data directory problem".to_owned()), "{}", said.stdout);
    assert!(found.contains(&"store problem".to_owned()), "{}", said.stdout);

    let mut command = std::process::Command::new(HERMA);
    command.args(["doctor", "--json", "--data", "/proc/herma"]).env("HERMA_LISTEN", "127.0.0.1:0");
    command.current_dir(terminal.home.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = terminal.say(command, "");
    assert!(statuses(&said).contains(&"store problem".to_owned()), "nothing makes it there: {}", said.stdout);
    assert!(!said.stdout.contains("the first start makes"), "{}", said.stdout);
}

#[test]
fn every_mistake_of_the_configuration_is_found_at_once() {
    let terminal = Terminal::new();
    fs::create_dir(terminal.data()).unwrap();
    fs::write(terminal.data().join("herma.toml"), "[server]\nlisten = 1\n[titles]\nby = \"x\"\n[sever]\n").unwrap();
    let said = terminal.run(&["doctor", "--json"]);
    assert_eq!((said.code, statuses(&said)), (1, vec!["configuration problem".to_owned(); 3]), "{}", said.stdout);
    let refused = terminal.run(&["serve"]);
    assert_eq!((refused.code, refused.stderr.lines().count()), (2, 3), "{}", refused.stderr);
}
