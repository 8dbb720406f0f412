//! Accepts connections, serves them, and stops.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herma_gateway::Gateway;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::app::{App, HttpSettings, Shared, router};
use crate::body::Outlet;
use crate::body_budget::BodyBudget;
use crate::client_socket::ClientSocket;
use crate::failed_logins::{ClientAddress, FailedLogins};
use crate::malformed::RefusingSocket;
use crate::metrics::Metrics;
use crate::poll_again::PollAgain;
use crate::sockets::Sockets;

/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a request's head. Also the most bytes of a body that are read ahead.
const BUFFER_BYTES: usize = 64 * 1024;
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
    /// turns.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        serve(&self.0, listener, shutdown).await
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
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = router(app);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(BUFFER_BYTES);
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
        let socket = ClientSocket::new(socket);
        let (peer, routes) = (socket.connection(), TowerToHyperService::new(routes.clone()));
        let client = peer.client();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(client.clone());
            request.extensions_mut().insert(ClientAddress::of(address));
            let (answering, peer) = (routes.call(request), peer.clone());
            async move {
                answering.await.inspect(|answer| {
                    answer.extensions().get::<Outlet>().inspect(|outlet| outlet.set(&peer));
                })
            }
        });
        let connection = http.serve_connection(TokioIo::new(RefusingSocket::new(socket)), service);
        let mut stopping = stop.subscribe();
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection.with_upgrades());
            let ended = tokio::select! {
                biased;
                ended = PollAgain::new(connection.as_mut()) => ended,
                _ = stopping.changed() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
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
