use herma_config::Config;

use crate::{load_file, load_with};

const EVERYTHING: &str = r#"
    [server]
    listen = "localhost:0"
    cors_origins = ["http://localhost:3000"]
    max_body_bytes = 1
    max_websockets = 0
    websocket_lifetime = "2m"
    drain_timeout = "1h"
    [store]
    url = "sqlite:it's \"here\".db"
    cache_bytes = 0
    [upstream]
    base_url = "http://host:1/v1?api-version=1"
    model = "a \"model\""
    context_window = 2
    timeout = "90s"
    retries = 0
    [models."gpt-4.1"]
    context_window = 3
    [models."gpt-4.1".price]
    input = 2
    output = 0.5
    currency = "EUR"
    [models.fast]
    upstream_model = "other"
    base_url = "http://localhost:11434/v1"
    timeout = "5m"
    [models."local/*"]
    upstream_model = "*"
    [compaction]
    mode = "in_place"
    threshold = 0.9
    keep_recent = 0.1
    model = "small"
    timeout = "5s"
    [responses]
    hosted_tools = "pass_on"
    keep_chats = false
    [titles]
    by = "model"
    model = "small"
    timeout = "3s"
    [admission]
    max_running = 1
    queue_limit = 0
    queue_timeout = "0s"
    [memory]
    provider = "honcho"
    budget = 5
    timeout = "50ms"
    passages = false
    facts = false
    hermes_names = true
    base_url = "http://honcho"
    [tools]
    timeout = "250ms"
    max_rounds = 1
    builtin = ["session_read", "delegate_task", "session_read"]
    max_output = 10
    approval_timeout = "1h"
    [tools.mcp.files]
    command = "mcp-files"
    args = ["--root", "/"]
    allow = ["read_*"]
    deny = ["read_\"all\""]
    approval = "ask"
    approvals = { write_file = "deny", "dir.list" = "auto" }
    tenants = ["web"]
    session_keys = ["agent:*"]
    timeout = "3s"
    [tools.mcp."a b"]
    url = "http://mcp/"
    [tools.delegate]
    max_depth = 2
    max_children = 3
    max_rounds = 4
    [budgets]
    turn_tokens = 1
    conversation_tokens = 2
    tree_tokens = 3
    [jobs]
    enabled = false
    max_running = 9
    [retention]
    responses = "30d"
    [telemetry]
    log = "herma=debug,warn"
    otlp_endpoint = "http://otlp:4318"
    export = ["traces"]
    service_name = "gateway"
    resource = { "deployment.environment.name" = "test" }
    sample_ratio = 0.25
    sample_as_caller = false
    metrics_interval = "5s"
    pass_on_traceparent = false
"#;

#[test]
fn what_is_shown_reads_back_as_the_same_configuration() {
    for toml in ["", EVERYTHING] {
        let mut shown = load_file(toml).unwrap().config;
        for written in [shown.to_toml(), shown.to_whole_toml()] {
            let again = load_file(&written).unwrap().config;
            // The two loads differ in the data directory and the default store in it, and in what is not there yet.
            shown.data_dir = again.data_dir.clone();
            shown.store = again.store.clone();
            shown.memory = again.memory.clone();
            shown.jobs = again.jobs.clone();
            assert_eq!(again, shown, "{written}");
        }
    }
    assert_ne!(load_file(EVERYTHING).unwrap().config.tools.mcp.len(), 0);
}

#[test]
fn everything_that_can_be_set_is_shown_if_that_is_asked_for() {
    let shown = Config::defaults("/data".as_ref()).to_whole_toml();
    for line in [
        "# listen = \"127.0.0.1:8642\"",
        "# cors_origins = []",
        "# url = \"sqlite:/srv/herma/herma.db\"  # an example; not set",
        "# base_url = \"https://api.openai.com/v1\"  # an example; not set",
        "# timeout = \"120s\"",
        "# threshold = 0.75",
        "# builtin = []",
        "# max_output = 50000",
        "# approval_timeout = \"10m\"",
        "# tree_tokens = 0",
        "# responses = \"forever\"",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(shown.lines().all(|line| line.is_empty() || line.starts_with(['#', '['])), "{shown}");
    for example in [
        "# [models.NAME]",
        "# upstream_model = \"NAME\"",
        "# [models.NAME.price]",
        "# input = 0.25  # an example; not set",
        "# [tools.mcp.NAME]",
        "# command = \"mcp-files\"  # an example; not set",
        "# url = \"http://localhost:9000/mcp\"  # an example; not set",
        "# allow = []",
    ] {
        assert!(shown.lines().any(|line| line == example), "{example}\n{shown}");
    }
    assert!(!shown.contains("postgres"), "a store that is refused is not offered");
    for missing in ["/data", "[jobs]"] {
        assert!(!shown.contains(missing), "{missing}\n{shown}");
    }
}

#[test]
fn only_what_differs_is_shown() {
    assert_eq!(Config::defaults("/data".as_ref()).to_toml(), "");
    let toml = "[server]\nlisten = \"127.0.0.1:1\"\ndrain_timeout = \"30s\"\n[models.a]\n[jobs]\nmax_running = 9\n";
    let shown = load_file(toml).unwrap().config.to_toml();
    let settings: Vec<&str> = shown.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(settings, ["[server]", "listen = \"127.0.0.1:1\"", "[models.a]"], "{shown}");
    assert!(shown.contains("# HOST:PORT; port 0 picks a free one.\nlisten"), "{shown}");
}

#[test]
fn a_model_or_a_server_of_tools_is_shown_without_its_defaults() {
    let toml = r#"
[models.NAME]
context_window = 1000
[tools.mcp.hours]
command = "hours"
args = ["--utc"]
"#;
    let config = load_file(toml).unwrap().config;
    let settings = |shown: &str| {
        let lines = shown.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(settings(&config.to_toml()), toml.trim_start());
    let whole = config.to_whole_toml();
    let server = "[tools.mcp.hours]\ncommand = \"hours\"\nargs = [\"--utc\"]\n[budgets]\n";
    assert!(settings(&whole).contains(server), "{whole}");
    assert!(whole.contains("\n# timeout = \"60s\"\n"), "{whole}");
}

#[test]
fn every_mistake_is_told_at_once() {
    let toml =
        "[server]\nlisten = 1\nlissten = \"x\"\n[compaction]\nmode = \"of\"\n[models.a.price]\ninput = 1\n[sever]\n";
    let error = load_file(toml).unwrap_err();
    let told: Vec<&str> = error.lines().collect();
    for part in ["`server.listen`", "`server.lissten`", "`compaction.mode`", "[models.a.price] needs both", "[sever]"] {
        assert!(told.iter().any(|told| told.contains(part)), "{part} in {told:#?}");
    }
    assert_eq!(told.len(), 5, "{told:#?}");
}

#[test]
fn no_secret_is_shown() {
    let toml = r#"
        [upstream]
        base_url = "http://host/v1"
        api_key = "hunter2"
        headers = { api-key = "hunter2" }
        [models.a]
        base_url = "https://host/v1?key=hunter2"
        api_key = "hunter2"
        headers = { "X-Token" = "hunter2" }
        [store]
        url = "postgres://me:hunter2@host/db?password=hunter2"
        [memory]
        api_key = "hunter2"
        [tools.mcp.a]
        command = "x"
        env = { "TO KEN" = "hunter2" }
        [tools.mcp.b]
        url = "http://mcp"
        headers = { Authorization = "hunter2" }
    "#;
    let loaded = load_with(toml, &[("HERMA_API_KEY", "hunter2")], Default::default()).unwrap();
    let shown = loaded.config.to_toml();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!format!("{loaded:?}").contains("hunter2"));
    assert!(shown.contains("postgres://me:[redacted]@host/db?password=[redacted]"), "{shown}");
    assert!(shown.contains("# base_url = \"https://host/v1?[redacted]\""), "{shown}");
    assert!(shown.contains("# headers.x-token = \"[redacted]\""), "{shown}");
    assert!(shown.contains("# env.\"TO KEN\" = \"[redacted]\""), "{shown}");

    let again = load_file(&shown).unwrap().config;
    assert_eq!(again.upstream.api_key, None, "a secret that was not shown must not come back as a false one");
}
