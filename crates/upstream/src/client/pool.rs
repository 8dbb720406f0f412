//! The idle connections of each model server, and the way of a request to one of them.
//!
//! A connection serves requests of the runtime that made it. From another runtime it could be used too, but everything
//! that arrives on it would wake two threads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};

use super::answer_body::Answer;
use super::certificates::Certificates;
use super::connection::{ModelRequest, OpenConnection, this_runtime};
use super::connector::{ConnectError, Connector};
use super::settings::Origin;

/// Common servers and load balancers keep an idle connection longer than this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often connections that are too old, or that their server has closed, are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The connections to all model servers. Servers at the same address share their connections.
#[derive(Debug, Default)]
pub struct Connections {
    pools: Mutex<HashMap<String, Arc<Pool>>>,
    certificates: OnceLock<Certificates>,
}

impl Connections {
    /// The connections to this server. The first server with `https` starts to load certificates.
    pub(super) fn to(&self, origin: &Origin) -> Arc<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.entry(origin.address.to_string()).or_insert_with(|| {
            let certificates = || self.certificates.get_or_init(Certificates::of_the_machine).clone();
            Arc::new(Pool { connector: Connector::new(origin, certificates), idle: Mutex::default() })
        });
        Arc::clone(pool)
    }
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// There is no connection, so nothing was sent.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection broke, or the server did not answer in HTTP. It may have got the request.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

/// The connections to one model server.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    of_runtime: HashMap<Option<Id>, Vec<IdleConnection>>,
    is_swept: bool,
}

/// Since when a connection is idle. In a list of them, the last one was used last.
type IdleConnection = (Instant, OpenConnection);

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let connections: usize = self.of_runtime.values().map(Vec::len).sum();
        f.debug_struct("Idle").field("connections", &connections).finish_non_exhaustive()
    }
}

impl Pool {
    /// Sends a request and returns when the answer begins. Cancel-safe: dropping the future ends the call.
    ///
    /// If an idle connection turns out to be closed before anything was sent, the request goes to another one.
    pub(super) async fn send(self: &Arc<Self>, mut request: ModelRequest) -> Result<Answer, SendError> {
        while let Some(mut connection) = self.take_idle() {
            match connection.send(request).await {
                Ok(response) => return Ok(Answer::new(response, connection, self)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failed.into_error().into()),
                },
            }
        }
        let mut connection = self.connector.connect().await?;
        match connection.send(request).await {
            Ok(response) => Ok(Answer::new(response, connection, self)),
            Err(failed) => Err(failed.into_error().into()),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The idle connection of this runtime that was used last.
    fn take_idle(&self) -> Option<OpenConnection> {
        let runtime = this_runtime();
        loop {
            let (since, mut connection) = self.idle().of_runtime.get_mut(&runtime)?.pop()?;
            if since.elapsed() < IDLE_TIMEOUT && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request, unless it is closed.
    pub(super) fn keep(self: &Arc<Self>, mut connection: OpenConnection) {
        if !connection.is_usable() {
            return;
        }
        let mut idle = self.idle();
        idle.of_runtime.entry(connection.runtime()).or_default().push((Instant::now(), connection));
        if !idle.is_swept
            && let Ok(runtime) = Handle::try_current()
        {
            idle.is_swept = true;
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Closes connections that are too old or that their server has closed. Says whether any are left.
    fn sweep(&self) -> bool {
        let mut idle = self.idle();
        idle.of_runtime.retain(|_, connections| {
            connections.retain_mut(|(since, connection)| since.elapsed() < IDLE_TIMEOUT && connection.is_usable());
            !connections.is_empty()
        });
        idle.is_swept = !idle.of_runtime.is_empty();
        idle.is_swept
    }
}

/// Sweeps until no connection is idle.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        if !pool.upgrade().is_some_and(|pool| pool.sweep()) {
            return;
        }
    }
}
