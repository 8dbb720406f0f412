//! A bare proxy of axum and reqwest. It inspects nothing and stores nothing.

use std::io;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;

#[derive(Clone)]
struct Proxy {
    client: reqwest::Client,
    url: String,
}

/// Serves until it is killed.
pub(in crate::bench) fn serve(upstream: &str) -> io::Result<()> {
    super::serve(|| {
        let proxy = Proxy { client: super::client()?, url: super::chat_url(upstream) };
        Ok(Router::new().route("/v1/chat/completions", post(forward)).with_state(proxy))
    })
}

async fn forward(State(proxy): State<Proxy>, body: Bytes) -> Response {
    let request = proxy.client.post(&proxy.url).header(header::CONTENT_TYPE, "application/json").body(body);
    match request.send().await {
        Ok(answer) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = answer.status();
            for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
                if let Some(value) = answer.headers().get(&name) {
                    response.headers_mut().insert(name, value.clone());
                }
            }
            *response.body_mut() = Body::from_stream(answer.bytes_stream());
            response
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
