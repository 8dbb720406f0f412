use std::time::Duration;

use herma_config::{BaseUrl, CompactionMode, Keep, Secret, WebOrigin};

use crate::{load_env, load_file};

#[test]
fn the_usual_settings_have_short_names() {
    let config = load_env(&[
        ("HERMA_STORE", "sqlite:/tmp/x.db"),
        ("HERMA_LISTEN", "[::1]:1"),
        ("HERMA_UPSTREAM", "http://host/v1/"),
        ("HERMA_UPSTREAM_API_KEY", "sk-1234"),
        ("HERMA_MODEL", "m"),
        ("HERMA_CONTEXT_WINDOW", "4096"),
        ("HERMA_API_KEY", "herma-key"),
        ("HERMA_LOG", "debug"),
    ])
    .unwrap()
    .config;
    assert_eq!(config.store.url.to_string(), "sqlite:/tmp/x.db");
    assert_eq!(config.server.listen.to_string(), "[::1]:1");
    assert_eq!(config.upstream.base_url.as_ref().map(BaseUrl::expose), Some("http://host/v1".to_owned()));
    assert_eq!(config.upstream.api_key.as_ref().map(Secret::expose), Some("sk-1234"));
    assert_eq!((config.upstream.model.as_deref(), config.upstream.context_window), (Some("m"), Some(4096)));
    assert_eq!(config.api_key.as_ref().map(Secret::expose), Some("herma-key"));
    assert_eq!(config.telemetry.log, "debug");
}

#[test]
fn every_other_setting_is_reached_by_section_and_key() {
    let config = load_env(&[
        ("HERMA_ADMISSION__QUEUE_LIMIT", "8"),
        ("HERMA_COMPACTION__MODE", "in_place"),
        ("HERMA_COMPACTION__THRESHOLD", "0.5"),
        ("HERMA_SERVER__NO_AUTH", "1"),
        ("HERMA_SERVER__CORS_ORIGINS", "http://a:1, http://b"),
        ("HERMA_RETENTION__RESPONSES", "30d"),
        ("HERMA_UPSTREAM__TIMEOUT", "250ms"),
    ])
    .unwrap()
    .config;
    assert_eq!(config.admission.queue_limit, 8);
    assert_eq!(config.compaction.mode, CompactionMode::InPlace);
    assert_eq!(config.compaction.threshold.get(), 0.5);
    assert!(config.server.no_auth);
    assert_eq!(
        config.server.cors_origins.iter().map(WebOrigin::as_str).collect::<Vec<_>>(),
        ["http://a:1", "http://b"]
    );
    assert_eq!(config.retention.responses, Keep::For(Duration::from_secs(30 * 24 * 60 * 60)));
    assert_eq!(config.upstream.timeout, Duration::from_millis(250));
}

#[test]
fn an_empty_variable_is_an_absent_one() {
    let config = load_env(&[("HERMA_MODEL", ""), ("HERMA_CONFIG", ""), ("HERMA_NONSENSE__KEY", "")]).unwrap().config;
    assert_eq!(config.upstream.model, None);
}

#[test]
fn a_setting_whose_feature_is_not_there_yet_is_reported_and_not_refused() {
    let toml = r#"
        [upstream]
        model = "m"
        [models.m]
        context_window = 1
        [compaction]
        mode = "off"
        [memory]
        model = "m"
        [jobs]
        enabled = false
        [retention]
        responses = "1h"
        [telemetry]
        log = "warn"
        otlp_endpoint = "http://localhost:4318/"
        [tools]
        builtin = ["delegate_task", "memory"]
        [tools.mcp.files]
        command = "mcp-files"
        [budgets]
        turn_tokens = 1
    "#;
    let suffix = "not there yet: the setting has no effect";
    assert_eq!(load_file(toml).unwrap().notices, [format!("`jobs.enabled` is set, but scheduled jobs are {suffix}"),]);
}

#[test]
fn a_key_for_no_server_is_reported() {
    let notices = load_env(&[("HERMA_UPSTREAM_API_KEY", "sk-1234")]).unwrap().notices;
    assert!(notices.len() == 1 && notices[0].contains("`upstream.base_url`"), "{notices:?}");
    assert!(!notices[0].contains("sk-1234"));
}
