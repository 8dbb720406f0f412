//! Checks the address to listen on.

use std::io;
use std::time::Duration;

use herma_config::{Config, ListenAddress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::check::Check;
use crate::listening::Listening;

const LISTEN: &str = "listen";
/// How long a server on our port may take to answer its health check.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);
/// How many bytes of that answer are read.
const ANSWER_BYTES: u64 = 4096;

/// Whether the address is free. If not, whether a healthy server uses it.
pub(super) async fn listen(config: &Config) -> Check {
    let address = &config.server.listen;
    match TcpListener::bind((address.host(), address.port())).await {
        Ok(_) if address.port() == 0 => Check::ok(LISTEN, format!("{address} picks a free port")),
        Ok(_) => Check::ok(LISTEN, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken(config).await,
        Err(error) => Check::problem(
            LISTEN,
            format!("cannot listen on {address}: {error}; choose another address with HERMA_LISTEN or `server.listen`"),
        ),
    }
}

async fn taken(config: &Config) -> Check {
    let address = &config.server.listen;
    let answer = tokio::time::timeout(HEALTH_LIMIT, health(address)).await;
    match answer {
        Ok(Ok(answer)) if is_herma(&answer) && Listening::is_on(config, address.port()) => {
            Check::ok(LISTEN, format!("herma is running on {address}, with this store"))
        }
        Ok(Ok(answer)) if is_herma(&answer) => Check::warning(
            LISTEN,
            format!(
                "herma is running on {address}, but with another store than {}; stop it, choose another port with \
                 HERMA_LISTEN or `server.listen`, or name its --data or --store here",
                config.store.url
            ),
        ),
        _ if Listening::is_on(config, address.port()) => Check::problem(
            LISTEN,
            format!("herma runs on {address} with this store, but does not answer; look at its log, or start it anew"),
        ),
        _ => Check::warning(
            LISTEN,
            format!(
                "{address} is taken by another program; stop it, or choose another port with HERMA_LISTEN or \
                 `server.listen`"
            ),
        ),
    }
}

/// Whether the answer to a health check is that of a Herma.
fn is_herma(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200") && answer.contains(r#""platform":"herma""#)
}

async fn health(address: &ListenAddress) -> io::Result<String> {
    let mut stream = TcpStream::connect((address.host(), address.port())).await?;
    let request = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
