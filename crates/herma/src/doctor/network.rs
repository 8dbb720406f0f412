//! Checks the address to listen on, and the model server.

use std::io;
use std::time::Duration;

use herma_config::{Config, ListenAddress};
use herma_model::ModelFailure;
use herma_upstream::ModelInfo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::check::Check;
use crate::setup;

const LISTEN: &str = "listen";
const MODEL: &str = "model server";
/// How long a server on our port may take to answer its health check.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);
/// How long the model server may take to list its models.
const MODELS_LIMIT: Duration = Duration::from_secs(5);
/// How many bytes of that answer are read.
const ANSWER_BYTES: u64 = 4096;

/// Whether the address is free. If not, whether a healthy server uses it.
pub(super) async fn listen(address: &ListenAddress) -> Check {
    match TcpListener::bind((address.host(), address.port())).await {
        Ok(_) if address.port() == 0 => Check::ok(LISTEN, format!("{address} picks a free port")),
        Ok(_) => Check::ok(LISTEN, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken(address).await,
        Err(error) => Check::problem(
            LISTEN,
            format!("cannot listen on {address}: {error}; choose another address with HERMA_LISTEN or `server.listen`"),
        ),
    }
}

async fn taken(address: &ListenAddress) -> Check {
    let answer = tokio::time::timeout(HEALTH_LIMIT, health(address)).await;
    match answer {
        Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200") => {
            Check::ok(LISTEN, format!("{address} is taken by a server that says it is well: herma is running"))
        }
        _ => Check::warning(
            LISTEN,
            format!(
                "{address} is taken by another program; stop it, or choose another port with HERMA_LISTEN or \
                 `server.listen`"
            ),
        ),
    }
}

async fn health(address: &ListenAddress) -> io::Result<String> {
    let mut stream = TcpStream::connect((address.host(), address.port())).await?;
    let request = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether the model server lists its models, and the configured model is one of them.
pub(super) async fn model_server(config: &Config) -> Check {
    let mut config = config.clone();
    config.upstream.retries = 0;
    let server = match setup::model_server(&config) {
        Ok(server) => server,
        Err(error) => return Check::problem(MODEL, error.to_string()),
    };
    if config.upstream.base_url.is_none() {
        return Check::ok(MODEL, setup::model_line(&config, &*server));
    }
    let described = server.describe();
    match tokio::time::timeout(MODELS_LIMIT, server.models()).await {
        Err(_) => Check::problem(
            MODEL,
            format!("{described} did not answer within {MODELS_LIMIT:?}; check that it runs and that the URL is right"),
        ),
        Ok(Err(failure)) => refused(&described, &failure),
        Ok(Ok(models)) => answered(&config, &described, &models),
    }
}

fn refused(described: &str, failure: &ModelFailure) -> Check {
    let reason = &failure.message;
    match failure.status {
        Some(401 | 403) => Check::problem(
            MODEL,
            format!("{described} refuses the key: {reason}; set HERMA_UPSTREAM_API_KEY or `upstream.api_key`"),
        ),
        Some(404 | 405) => Check::warning(
            MODEL,
            format!("{described} does not list its models: {reason}; if turns fail too, the URL may lack a /v1"),
        ),
        _ => Check::problem(
            MODEL,
            format!("{described} cannot be asked: {reason}; check that it runs and that the URL is right"),
        ),
    }
}

fn answered(config: &Config, described: &str, models: &[ModelInfo]) -> Check {
    let count = models.len();
    let Some(model) = &config.upstream.model else {
        let advice = "every request must name one, or set HERMA_MODEL";
        return Check::warning(
            MODEL,
            format!("{described} answers and offers {count} models, but none is set: {advice}"),
        );
    };
    let name = config.models.upstream_name(model);
    if models.is_empty() || models.iter().any(|offered| offered.id == name) {
        return Check::ok(MODEL, format!("{described} answers and offers {name}"));
    }
    let offered: Vec<_> = models.iter().take(5).map(|offered| offered.id.as_str()).collect();
    let more = if count > offered.len() { ", …" } else { "" };
    Check::warning(
        MODEL,
        format!("{described} answers but does not list {name}; it offers {}{more}", offered.join(", ")),
    )
}
