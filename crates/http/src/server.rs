//! Accepts connections, serves them, and stops.

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use herma_gateway::Gateway;
use http::header::UPGRADE;
use hyper::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::app::{App, HttpSettings, Shared, router};
use crate::body::Outlet;
use crate::body_budget::BodyBudget;
use crate::client_socket::{ClientSocket, Peer};
use crate::failed_logins::{ClientAddress, FailedLogins};
use crate::malformed::RefusingSocket;
use crate::metrics::Metrics;
use crate::poll_again::PollAgain;
use crate::sockets::Sockets;
use crate::workers::{Workers, run_on};

/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a request's head. Also the most bytes of a body that are read ahead.
const BUFFER_BYTES: usize = 64 * 1024;
/// A request with more bytes than this, or with an unknown number, does not hold up the other connections of its thread.
const LARGE_REQUEST: u64 = 256 * 1024;
/// How long to pause after a failed accept, for example when there are no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The HTTP server before it listens.
pub struct Server(Arc<App>);

impl Server {
    /// Makes a server. It counts from now on.
    pub fn new(gateway: Arc<Gateway>, settings: HttpSettings) -> Self {
        Self(Arc::new(app(gateway, settings)))
    }

    /// Reads all metrics, in the text format of Prometheus, while the server runs and after.
    pub fn metrics(&self) -> impl Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync + use<> {
        let app = Arc::clone(&self.0);
        move || {
            let app = Arc::clone(&app);
            Box::pin(async move { app.metrics_text().await })
        }
    }

    /// Serves until `shutdown` resolves. Then it accepts no more connections, and open ones finish their requests and
    /// turns. This runtime accepts connections and serves large requests and WebSockets, `workers` serve the rest.
    pub async fn serve(
        self,
        listener: TcpListener,
        workers: Workers,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        serve(&self.0, listener, &workers, shutdown).await
    }
}

fn app(gateway: Arc<Gateway>, settings: HttpSettings) -> App {
    let sockets = Sockets::new(settings.max_websockets);
    let bodies = BodyBudget::new(settings.body_budget);
    let metrics = Metrics::with(gateway.counters());
    let failed_logins = FailedLogins::default();
    App { gateway, settings, metrics, sockets, bodies, failed_logins, started: Instant::now() }
}

async fn serve(
    app: &Shared,
    listener: TcpListener,
    workers: &Workers,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let connections = Arc::new(Connections::to(app, Handle::current()));
    let stop = watch::Sender::new(false);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let Ok((socket, address)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let _ = socket.set_nodelay(true);
        // The runtime that serves the connection registers the socket anew.
        let Ok(socket) = socket.into_std() else { continue };
        let (connections, stopping) = (Arc::clone(&connections), stop.subscribe());
        workers.spawn(async move {
            if let Err(error) = connections.serve(socket, address, stopping).await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    app.sockets.close();
    stop.send_replace(true);
    stop.closed().await;
    app.sockets.closed().await;
    Ok(())
}

/// What all connections share.
struct Connections {
    http: http1::Builder,
    routes: Router,
    /// Serves WebSockets, and the requests that take long to read.
    large_requests: Handle,
}

impl Connections {
    fn to(app: &Shared, large_requests: Handle) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(BUFFER_BYTES);
        Self { http, routes: router(app), large_requests }
    }

    /// Serves a connection until it ends, or until it has finished its requests after `stopping` has changed.
    async fn serve(
        &self,
        socket: std::net::TcpStream,
        address: SocketAddr,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let socket = ClientSocket::new(TcpStream::from_std(socket)?);
        let (peer, routes) = (Peer::of(&socket), TowerToHyperService::new(self.routes.clone()));
        let large_requests = self.large_requests.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            if !request.method().is_safe() {
                peer.connection.begin_intake();
            }
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(ClientAddress::of(address));
            let is_large = request.body().size_hint().exact().is_none_or(|bytes| bytes > LARGE_REQUEST);
            // The messages of a WebSocket may be as large as a body.
            let elsewhere = (is_large || request.headers().contains_key(UPGRADE)).then(|| large_requests.clone());
            let (answering, connection) = (routes.call(request), peer.connection.clone());
            async move {
                let answered = match elsewhere {
                    Some(runtime) => run_on(&runtime, answering).await,
                    None => answering.await,
                };
                connection.end_intake();
                answered.inspect(|answer| {
                    answer.extensions().get::<Outlet>().inspect(|outlet| outlet.set(&connection));
                })
            }
        });
        let serving = self.http.serve_connection(TokioIo::new(RefusingSocket::new(socket)), service);
        let mut serving = std::pin::pin!(serving.with_upgrades());
        tokio::select! {
            biased;
            ended = PollAgain::new(serving.as_mut()) => return Ok(ended?),
            _ = stopping.changed() => serving.as_mut().graceful_shutdown(),
        }
        Ok(serving.await?)
    }
}
