use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use herma_config::{BaseUrl, Config, ListenAddress, Overrides, StoreUrl, load};

use crate::{load_env, load_file, load_with};

const FILE: &str = r#"
    [server]
    listen = "127.0.0.1:1"
    [upstream]
    base_url = "http://file/v1/"
    model = "file"
    context_window = 1000
"#;

#[test]
fn nothing_set_is_the_defaults_in_the_data_directory() {
    let loaded = load_file("").unwrap();
    assert_eq!(loaded.config, Config::defaults(&loaded.config.data_dir));
    assert_eq!(loaded.config.server.listen, ListenAddress::loopback(8642));
    assert_eq!(loaded.config.server.max_body_bytes, 10_000_000);
    assert_eq!(loaded.config.store.url, StoreUrl::Sqlite(loaded.config.data_dir.join("herma.db")));
    assert_eq!(loaded.config.upstream.timeout, Duration::from_secs(120));
    assert_eq!(loaded.notices, Vec::<String>::new());
}

#[test]
fn flags_go_before_variables_and_those_before_the_file() {
    let variables = [("HERMA_LISTEN", "127.0.0.1:2"), ("HERMA_MODEL", "variable")];
    let flags = Overrides { listen: Some("localhost:0".to_owned()), ..Overrides::default() };
    let config = load_with(FILE, &variables, flags).unwrap().config;
    assert_eq!(config.server.listen.to_string(), "localhost:0");
    assert_eq!(config.upstream.model.as_deref(), Some("variable"));
    assert_eq!(config.upstream.context_window, Some(1000));
    assert_eq!(config.upstream.base_url.as_ref().map(BaseUrl::expose), Some("http://file/v1".to_owned()));
}

#[test]
fn every_flag_reaches_its_setting() {
    let flags = Overrides {
        data: None,
        config_file: None,
        store: Some("postgres://me:pw@db/herma".to_owned()),
        listen: Some("127.0.0.1:9".to_owned()),
        upstream: Some("https://flag/v1".to_owned()),
        model: Some("flag".to_owned()),
        context_window: Some(7),
        no_auth: Some(true),
        log: Some("debug".to_owned()),
    };
    let config = load_with(FILE, &[], flags).unwrap().config;
    assert_eq!(config.store.url, StoreUrl::parse("postgres://me:pw@db/herma").unwrap());
    assert_eq!(config.server.listen, ListenAddress::loopback(9));
    assert_eq!(config.upstream.base_url, BaseUrl::parse("https://flag/v1"));
    assert_eq!((config.upstream.model.as_deref(), config.upstream.context_window), (Some("flag"), Some(7)));
    assert!(config.server.no_auth);
    assert_eq!(config.telemetry.log, "debug");
}

#[test]
fn a_value_in_the_file_that_is_overridden_is_still_a_known_key() {
    load_with(FILE, &[("HERMA_UPSTREAM__CONTEXT_WINDOW", "2_000")], Overrides::default()).unwrap();
}

#[test]
fn a_named_file_is_read_instead_of_the_one_in_the_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let named = directory.path().join("other.toml");
    fs::write(&named, "[upstream]\nmodel = 'other'").unwrap();
    let path = named.display().to_string();
    for (variables, flag) in [(vec![("HERMA_CONFIG", path.as_str())], None), (vec![], Some(named.clone()))] {
        let flags = Overrides { config_file: flag, ..Overrides::default() };
        let loaded = load_with(FILE, &variables, flags).unwrap();
        assert_eq!(loaded.config.upstream.model.as_deref(), Some("other"));
        assert_eq!(loaded.source_file, Some(named.clone()));
    }
}

#[test]
fn a_named_file_that_is_missing_is_refused() {
    let error = load_env(&[("HERMA_CONFIG", "/nowhere/herma.toml")]).unwrap_err();
    assert!(error.starts_with("cannot read the configuration file /nowhere/herma.toml: "), "{error}");
    assert!(error.ends_with("or name another with --config or HERMA_CONFIG"), "{error}");
}

#[test]
fn the_data_directory_comes_from_the_flag_then_the_variable_then_the_user() {
    let variables = || [("HOME", "/home/ada"), ("HERMA_DATA", "/srv/herma")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let directory = |skip: usize, data: Option<&str>| {
        let flags = Overrides { data: data.map(PathBuf::from), ..Overrides::default() };
        let variables = variables().into_iter().take(2 - skip);
        load(variables, flags).map(|loaded| loaded.config.data_dir)
    };
    assert_eq!(directory(0, Some("/flag")).unwrap(), Path::new("/flag"));
    assert_eq!(directory(0, None).unwrap(), Path::new("/srv/herma"));
    #[cfg(target_os = "linux")]
    assert_eq!(directory(1, None).unwrap(), Path::new("/home/ada/.local/share/herma"));
}

#[test]
fn a_server_has_its_own_time_or_that_of_all_tools() {
    let toml = r#"
        [tools]
        timeout = "5s"
        [tools.mcp.slow]
        command = "slow"
        timeout = "2m"
        [tools.mcp.plain]
        command = "plain"
    "#;
    let mcp = load_file(toml).unwrap().config.tools.mcp;
    let times = mcp.iter().map(|(label, server)| (label.as_str(), server.timeout.as_secs()));
    assert_eq!(times.collect::<Vec<_>>(), [("plain", 5), ("slow", 120)]);
}
