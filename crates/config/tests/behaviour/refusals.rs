use herma_config::Overrides;

use crate::{load_env, load_file, load_with};

#[test]
fn unknown_keys_are_named_with_their_nearest_match() {
    for (toml, expected) in [
        ("[server]\nlisen = 1", "unknown setting `server.lisen` (in DATA/herma.toml); did you mean `server.listen`?"),
        ("[servr]\nlisten = 1", "unknown section [servr] (in DATA/herma.toml); did you mean [server]?"),
        (
            "[colours]",
            "unknown section [colours] (in DATA/herma.toml); the sections are server, store, upstream, models, \
             compaction, responses, titles, admission, memory, tools, budgets, jobs, retention, telemetry",
        ),
        ("listen = 1", "unknown setting `listen` (in DATA/herma.toml); did you mean `server.listen`?"),
        (
            "zzz = 1",
            "unknown setting `zzz` (in DATA/herma.toml); every setting stands in a section, such as `listen` in [server]",
        ),
        (
            "[server]\nbase_url = 1",
            "unknown setting `server.base_url` (in DATA/herma.toml); did you mean `upstream.base_url`?",
        ),
        (
            "[store]\nzzz = 1",
            "unknown setting `store.zzz` (in DATA/herma.toml); the settings of [store] are url, cache_bytes",
        ),
        (
            "[models.\"gpt-4.1\"]\ncontxt_window = 1",
            "unknown setting `models.\"gpt-4.1\".contxt_window` (in DATA/herma.toml); \
             did you mean `models.\"gpt-4.1\".context_window`?",
        ),
        (
            "[tools.mcp.a]\ncommand = 'x'\narg = ['y']",
            "unknown setting `tools.mcp.a.arg` (in DATA/herma.toml); did you mean `tools.mcp.a.args`?",
        ),
        (
            "[tools.delegate]\nmax_dept = 1",
            "unknown setting `tools.delegate.max_dept` (in DATA/herma.toml); did you mean `tools.delegate.max_depth`?",
        ),
        (
            "[budgets]\nturn_token = 1",
            "unknown setting `budgets.turn_token` (in DATA/herma.toml); did you mean `budgets.turn_tokens`?",
        ),
        (
            "[models.m.price]\ninputs = 1",
            "unknown setting `models.m.price.inputs` (in DATA/herma.toml); did you mean `models.m.price.input`?",
        ),
        (
            "[server.tls]",
            "unknown setting `server.tls` (in DATA/herma.toml); the settings of [server] are listen, \
             cors_origins, max_body_bytes, body_budget, max_websockets, websocket_lifetime, drain_timeout, chat_headers, no_auth",
        ),
    ] {
        assert_eq!(load_file(toml).unwrap_err(), expected);
    }
}

#[test]
fn unknown_variables_of_the_section_form_are_refused_too() {
    for (name, expected) in [
        (
            "HERMA_ADMISSION__QUEUE_LIMT",
            "unknown setting `admission.queue_limt` (from HERMA_ADMISSION__QUEUE_LIMT); \
             did you mean `admission.queue_limit`, HERMA_ADMISSION__QUEUE_LIMIT?",
        ),
        (
            "HERMA_ADMISION__QUEUE_LIMIT",
            "unknown section [admision] (from HERMA_ADMISION__QUEUE_LIMIT); did you mean [admission]?",
        ),
        (
            "HERMA_MODELS__FAST",
            "unknown setting `models.fast` (from HERMA_MODELS__FAST); its settings stand in tables of the file, \
             written [models.NAME]",
        ),
    ] {
        assert_eq!(load_env(&[(name, "1")]).unwrap_err(), expected);
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named() {
    for (toml, expected) in [
        (
            "[upstream]\nmodel = 5",
            "`upstream.model` (in DATA/herma.toml) must be text that is not empty, but it is a whole number",
        ),
        (
            "[upstream]\ntimeout = 120",
            "`upstream.timeout` (in DATA/herma.toml) must be a duration above zero, such as \"250ms\", \"120s\", \"2m\", \
             \"1h\" or \"7d\", but it is a whole number",
        ),
        ("[server]\nno_auth = 'yes'", "`server.no_auth` (in DATA/herma.toml) must be true or false, but it is text"),
        ("server = 1", "`server` (in DATA/herma.toml) must be a table, written [server], but it is a whole number"),
        ("[models]\nm = 'x'", "`models.m` (in DATA/herma.toml) must be a table, written [models.m], but it is text"),
        (
            "[server.listen]\nhost = 'x'",
            "`server.listen` (in DATA/herma.toml) must be HOST:PORT, such as \"127.0.0.1:8642\", \
             \"localhost:8642\", \"[::1]:8642\" or \"127.0.0.1:0\" for any free port, but it is a table",
        ),
    ] {
        assert_eq!(load_file(toml).unwrap_err(), expected);
    }
}

#[test]
fn a_value_that_is_not_allowed_is_named_with_what_is() {
    for (name, value, expected) in [
        ("HERMA_COMPACTION__MODE", "inplace", "must be \"split\", \"in_place\" or \"off\""),
        ("HERMA_COMPACTION__THRESHOLD", "75", "must be a number above 0 and below 1, such as 0.75"),
        ("HERMA_ADMISSION__QUEUE_LIMIT", "many", "must be a whole number of at least 0"),
        ("HERMA_ADMISSION__MAX_RUNNING", "0", "must be a whole number of at least 1"),
        ("HERMA_CONTEXT_WINDOW", "-1", "must be a whole number of at least 1"),
        (
            "HERMA_SERVER__DRAIN_TIMEOUT",
            "30",
            "must be a duration such as \"250ms\", \"120s\", \"2m\", \"1h\" or \"7d\"",
        ),
        (
            "HERMA_UPSTREAM__TIMEOUT",
            "0s",
            "must be a duration above zero, such as \"250ms\", \"120s\", \"2m\", \"1h\" or \"7d\"",
        ),
        ("HERMA_STORE", "herma.db", "must be \"sqlite:PATH\" with the path of a file"),
        (
            "HERMA_RETENTION__RESPONSES",
            "0s",
            "must be \"forever\" or a duration above zero, such as \"30d\" or \"12h\"",
        ),
        ("HERMA_MODEL", " ", "must be text that is not empty"),
        ("HERMA_LOG", "a=b=c", "must be a level (error, warn, info, debug, trace or off), or a list"),
        ("HERMA_LOG", "blah blah", "must be a level"),
        ("HERMA_LOG", "warning", "must be a level"),
        ("HERMA_LOG", "herma=info,", "must be a level"),
    ] {
        let error = load_env(&[(name, value)]).unwrap_err();
        assert!(error.contains(&format!("(from {name}) is \"{value}\", but it {expected}")), "{error}");
    }
}

#[test]
fn a_setting_of_tools_that_is_not_allowed_is_named() {
    for (toml, expected) in [
        (
            "[tools]\nbuiltin = ['delegate']",
            "`tools.builtin` (in DATA/herma.toml) is [\"delegate\"], but it must be a list of \"delegate_task\", \
             \"session_search\", \"session_read\" and \"memory\"",
        ),
        (
            "[tools.mcp.a]\ncommand = 'x'\napproval = 'always'",
            "`tools.mcp.a.approval` (in DATA/herma.toml) is \"always\", but it must be \"auto\", \"ask\" or \"deny\"",
        ),
        (
            "[tools.mcp.a]\ncommand = 'x'\napprovals = { rm = 1 }",
            "`tools.mcp.a.approvals.rm` (in DATA/herma.toml) must be \"auto\", \"ask\" or \"deny\", but it is a whole \
             number",
        ),
        (
            "[tools.mcp.a]\ncommand = 'x'\nallow = ['']",
            "`tools.mcp.a.allow` (in DATA/herma.toml) is [\"\"], but it must be a list of texts that are not empty",
        ),
        (
            "[models.m.price]\ninput = -1",
            "`models.m.price.input` (in DATA/herma.toml) is -1, but it must be a number of at least 0, such as 0.25",
        ),
        (
            "[models.m.price]\ninput = nan",
            "`models.m.price.input` (in DATA/herma.toml) is nan, but it must be a number of at least 0, such as 0.25",
        ),
        (
            "[budgets]\ntree_tokens = -1",
            "`budgets.tree_tokens` (in DATA/herma.toml) is -1, but it must be a whole number of at least 0",
        ),
    ] {
        assert_eq!(load_file(toml).unwrap_err(), expected);
    }
}

#[test]
fn settings_that_exclude_each_other_are_refused() {
    for (toml, expected) in [
        ("[compaction]\nthreshold = 0.2", "`compaction.keep_recent` (0.2) must be below `compaction.threshold` (0.2)"),
        ("[memory]\nprovider = 'honcho'", "needs `memory.base_url`"),
        ("[tools.mcp.a]\ncommand = 'x'\nurl = 'http://h'", "[tools.mcp.a] needs either `command`"),
        ("[tools.mcp.a]", "[tools.mcp.a] needs either `command`"),
        ("[tools.mcp.' ']\ncommand = 'x'", "a server in [tools.mcp] is named \" \""),
        ("[tools.mcp.\"a\\n\"]\ncommand = 'x'", "a server in [tools.mcp] is named \"a\\n\""),
        ("[tools.mcp.herma]\ncommand = 'x'", "has the label of the built-in tools"),
        ("[models.m.price]\ninput = 1", "[models.m.price] needs both `input` and `output`"),
        ("[models.m.price]\ncurrency = 'EUR'", "[models.m.price] needs both `input` and `output`"),
        ("[server]\nno_auth = true\ncors_origins = ['*']", "any web page you visit could read every conversation"),
    ] {
        let error = load_file(toml).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn every_mistake_of_tools_and_their_servers_is_told_at_once() {
    let toml = r#"
        [tools]
        builtin = ["x"]
        max_round = 4
        [tools.mcp.files]
        comand = "x"
        [tools.mcp.b]
        approval = "maybe"
        url = 3
        [tools.mcp.herma]
        command = "x"
        timeout = "soon"
    "#;
    let error = load_file(toml).unwrap_err();
    let told: Vec<&str> = error.lines().collect();
    for part in [
        "`tools.builtin` (in DATA/herma.toml) is [\"x\"]",
        "`tools.max_round` (in DATA/herma.toml); did you mean `tools.max_rounds`?",
        "`tools.mcp.files.comand` (in DATA/herma.toml); did you mean `tools.mcp.files.command`?",
        "[tools.mcp.files] needs either `command`",
        "`tools.mcp.b.approval` (in DATA/herma.toml) is \"maybe\"",
        "`tools.mcp.b.url` (in DATA/herma.toml) must be",
        "[tools.mcp.herma] has the label of the built-in tools",
        "`tools.mcp.herma.timeout` (in DATA/herma.toml) is \"soon\"",
    ] {
        assert!(told.iter().any(|told| told.contains(part)), "{part} in {told:#?}");
    }
    assert_eq!(told.len(), 8, "{told:#?}");
}

#[test]
fn a_conflict_hides_no_unknown_setting_of_its_section() {
    let error = load_file("[compaction]\nthreshold = 0.5\nkeep_recent = 0.9\nmodus = 'x'").unwrap_err();
    assert!(error.contains("`compaction.keep_recent` (0.9) must be below"), "{error}");
    assert!(error.contains("unknown setting `compaction.modus` (in DATA/herma.toml); the settings"), "{error}");
}

#[test]
fn a_value_that_cannot_be_used_is_not_told_as_a_conflict_too() {
    let error = load_file("[tools.mcp]\nfiles = 3\n[compaction]\nthreshold = 0.1\nkeep_recent = 'x'").unwrap_err();
    assert_eq!(error.lines().count(), 2, "{error}");
    assert!(error.contains("`tools.mcp.files` (in DATA/herma.toml) must be a table"), "{error}");
}

#[test]
fn a_section_with_mistakes_is_still_suggested() {
    let error = load_file("[tool]\n[tools]\nbuiltin = 1\n[compaction]\nthreshold = 2\n[colours]").unwrap_err();
    assert!(error.contains("unknown section [tool] (in DATA/herma.toml); did you mean [tools]?"), "{error}");
    assert!(error.contains("compaction, responses, titles, admission, memory, tools, budgets"), "{error}");
}

#[test]
fn serving_without_keys_is_refused_where_others_can_reach_it() {
    let flags =
        |listen: &str| Overrides { listen: Some(listen.to_owned()), no_auth: Some(true), ..Overrides::default() };
    for listen in ["0.0.0.0:8642", "[::]:8642", "192.168.0.2:0", "example.com:80"] {
        let error = load_with("", &[], flags(listen)).unwrap_err();
        assert!(error.contains("works on loopback only") && error.contains(listen), "{error}");
    }
    for listen in ["127.0.0.1:0", "localhost:8642", "[::1]:8642"] {
        load_with("", &[], flags(listen)).unwrap();
    }
}

#[test]
fn a_refusal_never_shows_a_secret() {
    for (toml, variables) in [
        ("[upstream]\napi_key = \"\"\"hunter2\n\u{1F}\"\"\"", vec![]),
        ("[upstream]\napi_key = ['hunter2']", vec![]),
        ("[upstream]\napi_key = \"hunter2\n", vec![]),
        ("[upstream]\napi_key = hunter2\n", vec![]),
        ("[upstream]\napi_key = 'hunter2\\''\n", vec![]),
        ("[upstream]\napi_key : hunter2\n", vec![]),
        ("", vec![("HERMA_API_KEY", "hunter2\nhunter2")]),
        ("", vec![("HERMA_UPSTREAM", "https://me:hunter2@host/v1")]),
        ("", vec![("HERMA_UPSTREAM", "https://host/v1?key=hunter2#")]),
        ("", vec![("HERMA_STORE", "postgers://me:hunter2@host/db")]),
        ("", vec![("HERMA_STORE", "me:hunter2@host/db")]),
        ("[tools.mcp.a]\ncommand = 'x'\n[tools.mcp.a.env]\nTOKEN = ['hunter2']", vec![]),
    ] {
        let error = load_with(toml, &variables, Overrides::default()).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
