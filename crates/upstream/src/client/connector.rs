//! Makes connections to one model server: name look-up, TCP, and TLS for `https`.
//!
//! Proxies of the environment are not used.

use std::error::Error;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::client::conn::http1;
use hyper::service::Service;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificates::Certificates;
use super::connection::OpenConnection;
use super::settings::{Origin, SettingsError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that vanished without a word is noticed after about a minute, also while a connection is idle.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 3;
/// How long sent bytes may wait for the server's acknowledgement.
#[cfg(target_os = "linux")]
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// The certificates of the machine cannot be loaded. Another attempt is useless.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The server cannot be found, refuses the connection, or has no valid certificate.
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
}

impl ConnectError {
    fn refused(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Refused(error.into())
    }
}

/// Makes connections to one model server.
#[derive(Debug)]
pub(super) struct Connector {
    address: Uri,
    tcp: TowerToHyperService<HttpConnector>,
    tls: Option<(ServerName<'static>, Certificates)>,
    timeout: Duration,
}

impl Connector {
    /// `certificates` decide whom to trust. They are used for `https` only.
    pub(super) fn new(origin: &Origin, certificates: impl FnOnce() -> Certificates) -> Self {
        let mut tcp = HttpConnector::new();
        // The address may be one of `https`.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE_PROBES));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(ACKNOWLEDGED_WITHIN));
        let tls = origin.certified_name.clone().map(|name| (name, certificates()));
        Self { address: origin.address.clone(), tcp: TowerToHyperService::new(tcp), tls, timeout: CONNECT_TIMEOUT }
    }

    /// Makes a connection. Cancel-safe: dropping the future gives the attempt up.
    pub(super) async fn connect(&self) -> Result<OpenConnection, ConnectError> {
        let socket = tokio::time::timeout(self.timeout, self.socket()).await.map_err(|_| {
            let message = format!("there was no connection within {:?}", self.timeout);
            ConnectError::refused(io::Error::new(io::ErrorKind::TimedOut, message))
        })??;
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(ConnectError::refused)?;
        Ok(OpenConnection::new(sender, connection))
    }

    async fn socket(&self) -> Result<Socket, ConnectError> {
        let tls = match &self.tls {
            Some((name, certificates)) => Some((name.clone(), certificates.loaded().await?)),
            None => None,
        };
        let stream = self.tcp.call(self.address.clone()).await.map_err(ConnectError::refused)?.into_inner();
        match tls {
            None => Ok(Socket::Plain(stream)),
            Some((name, settings)) => {
                let secured = TlsConnector::from(settings).connect(name, stream).await;
                Ok(Socket::Tls(Box::new(secured.map_err(ConnectError::refused)?)))
            }
        }
    }
}

/// A connected socket, with or without TLS.
#[derive(Debug)]
pub(super) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpSocket;

    use super::super::settings::Endpoints;
    use super::*;

    #[tokio::test]
    async fn a_connection_that_is_not_made_in_time_is_given_up() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // The kernel keeps one or two connections for this listener, and lets all others wait.
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let origin = Endpoints::parse(&format!("http://{address}")).unwrap().origin;
        let limit = Duration::from_millis(50);
        let connector = Connector { timeout: limit, ..Connector::new(&origin, Certificates::default) };
        let mut open = Vec::new();
        let refused = loop {
            match connector.connect().await {
                Ok(connection) => open.push(connection),
                Err(error) => break error,
            }
            assert!(open.len() < 10, "the queue of the listener never fills");
        };
        assert_eq!(refused.to_string(), "there was no connection within 50ms");
    }
}
