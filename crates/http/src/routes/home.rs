//! `GET /`: says what this is, that it runs, and where the documents are. A browser gets a page, a program gets JSON.
//!
//! It needs no key. So it must show nothing that a client has written, and nothing about conversations.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use crate::app::Shared;
use crate::json::Json;

const PAGE: &str = include_str!("home.html");

/// The headers of both forms. The page may load nothing, run nothing, and be shown in no frame.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (VARY, HeaderValue::from_static("accept")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
];

/// What this server is.
pub(crate) async fn show(State(app): State<Shared>, request: HeaderMap) -> Response {
    let state = if app.gateway.is_draining() { "stopping" } else { "running" };
    let version = env!("CARGO_PKG_VERSION");
    if prefers_html(&request) {
        let page = PAGE.replace("{version}", version).replace("{state}", state);
        return (HEADERS, [(CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response();
    }
    let links = json!({ "api": "/v1", "openapi": "/openapi.json", "health": "/health" });
    (HEADERS, Json(json!({ "name": "herma", "version": version, "status": state, "links": links }))).into_response()
}

/// Whether a client wants HTML more than JSON. One that takes anything gets JSON: it is no browser.
fn prefers_html(request: &HeaderMap) -> bool {
    let accepted = request.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",");
    quality(&accepted, "text/html") > quality(&accepted, "application/json")
}

/// How much an `Accept` header wants a media type that it names, from 0 to 1. Ranges with `*` do not count.
fn quality(accepted: &str, media_type: &str) -> f32 {
    let of_range = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(media_type));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        is_named.then(|| weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
    };
    accepted.split(',').filter_map(of_range).fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_a_page_and_programs_get_json() {
        for (accept, html) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", true),
            ("Text/HTML;q=0.5", true),
            ("application/json;q=0.2, text/html;level=1;q=0.3", true),
            ("*/*", false),
            ("", false),
            ("application/json", false),
            ("application/json, text/html", false),
            ("text/html;q=0", false),
            ("text/html;q=nonsense", false),
            ("text/plain, text/htmlx", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_html(&headers), html, "{accept}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}
