use std::time::Duration;

use herma_config::{ModelServerConfig, Secret};

use crate::load_file;

/// The server of the model `m`. The file has a `[upstream]` with a key and a header, and this as `[models.m]`.
fn server(model: &str) -> Option<ModelServerConfig> {
    let upstream = r#"
        [upstream]
        base_url = "https://api.example.com/v1/"
        api_key = "sk-upstream"
        headers = { X-Org = "org", Authorization = "Basic upstream" }
        timeout = "7s"
        retries = 4
        [models.m]
    "#;
    let config = load_file(&format!("{upstream}\n{model}")).ok()?.config;
    let (_, model) = config.models.iter().next()?;
    config.server_of(model)
}

/// The key and the headers, exposed.
fn sent(server: &ModelServerConfig) -> (Option<&str>, Vec<(&str, &str)>) {
    let headers = server.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    (server.api_key.as_ref().map(Secret::expose), headers)
}

#[test]
fn a_model_has_everything_that_it_does_not_set_from_the_upstream() {
    for model in ["", "base_url = 'https://api.example.com/v1'", "base_url = ' https://api.example.com/v1// '"] {
        let server = server(model).unwrap();
        assert_eq!(server.base_url.expose(), "https://api.example.com/v1");
        let headers = vec![("authorization", "Basic upstream"), ("x-org", "org")];
        assert_eq!(sent(&server), (Some("sk-upstream"), headers), "{model}");
        assert_eq!((server.timeout, server.retries), (Duration::from_secs(7), 4));
    }
    assert_eq!(server("timeout = '1m'").unwrap().timeout, Duration::from_secs(60));
}

#[test]
fn the_key_and_the_headers_of_the_upstream_go_to_no_other_url() {
    for url in [
        "http://localhost:11434/v1",
        "http://api.example.com/v1",
        "https://api.example.com:8443/v1",
        "https://api.example.com.evil.example/v1",
        "https://api.example.com/other",
        "https://api.example.com/v1?api-version=1",
    ] {
        let server = server(&format!("base_url = '{url}'")).unwrap();
        assert_eq!(sent(&server), (None, Vec::new()), "{url}");
        assert_eq!((server.base_url.expose(), server.timeout), (url.to_owned(), Duration::from_secs(7)));
    }
}

#[test]
fn the_key_and_the_headers_of_a_model_are_its_own() {
    let other = server("base_url = 'http://other/v1'\napi_key = 'sk-other'\nheaders = { Api-Key = 'azure' }").unwrap();
    assert_eq!(sent(&other), (Some("sk-other"), vec![("api-key", "azure")]));
    let same = server("api_key = 'sk-mine'\nheaders = { x-ORG = 'mine' }").unwrap();
    assert_eq!(sent(&same), (Some("sk-mine"), vec![("x-org", "mine")]), "its key replaces the header of the upstream");
}

#[test]
fn a_model_can_have_the_only_server() {
    let config =
        load_file("[models.m]\nbase_url = 'http://host/v1'\napi_key = 'k'\n[models.n]\napi_key = 'k'").unwrap();
    let mut models = config.config.models.iter();
    assert!(config.config.upstream_server().is_none());
    assert!(config.config.server_of(models.next().unwrap().1).is_some());
    assert!(config.config.server_of(models.next().unwrap().1).is_none());
    let [notice] = config.notices.as_slice() else { panic!("{:?}", config.notices) };
    assert!(notice.starts_with("`models.n` has a key or headers but no `base_url`"), "{notice}");
}

#[test]
fn what_cannot_be_sent_is_refused_with_its_key() {
    for (toml, starts) in [
        ("[models.m]\nbase_url = 'localhost:11434'", "`models.m.base_url` (in DATA/herma.toml) is \"localhost:11434\""),
        (
            "[models.\"a.b\"]\nbase_url = 'https://me:hunter2@host'",
            "`models.\"a.b\".base_url` (in DATA/herma.toml) is a URL with a user",
        ),
        ("[upstream]\nbase_url = 'ftp://host'", "`upstream.base_url` (in DATA/herma.toml) is \"ftp://host\""),
        (
            "[models.m]\nbas_url = 'x'",
            "unknown setting `models.m.bas_url` (in DATA/herma.toml); did you mean `models.m.base_url`?",
        ),
        (
            "[models.m]\nheader = {}",
            "unknown setting `models.m.header` (in DATA/herma.toml); did you mean `models.m.headers`?",
        ),
        (
            "[models.m.headers]\nHost = 'hunter2'",
            "`models.m.headers.Host` (in DATA/herma.toml) is [redacted], but it must be",
        ),
        ("[models.m.headers]\n'a b' = 'hunter2'", "`models.m.headers.\"a b\"` (in DATA/herma.toml) is [redacted]"),
        ("[upstream.headers]\nx = 'hunter2ä'", "`upstream.headers.x` (in DATA/herma.toml) is [redacted]"),
        ("[models.m]\nheaders = 'hunter2'", "`models.m.headers` (in DATA/herma.toml) must be a table"),
        ("[models.m]\ntimeout = '0s'", "`models.m.timeout` (in DATA/herma.toml) is \"0s\", but it must be"),
        ("[models.\"*\"]", "a model in [models] is named \"*\"; a `*` may only end a name"),
        ("[models.\"a*b\"]", "a model in [models] is named \"a*b\"; a `*` may only end a name"),
        ("[models.a]\nupstream_model = '*'", "`models.a.upstream_model` (in DATA/herma.toml) is \"*\", but it must be"),
        ("[models.\"a*\"]\nupstream_model = 'b*'", "`models.\"a*\".upstream_model` (in DATA/herma.toml) is \"b*\""),
    ] {
        let refusal = load_file(toml).unwrap_err();
        assert!(refusal.starts_with(starts) && !refusal.contains("hunter2"), "{toml}\n{refusal}");
    }
}
