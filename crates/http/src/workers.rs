//! The runtimes that serve connections. Each has one thread.
//!
//! A connection stays on its thread, with its turns and their connections to model servers. A runtime of several threads
//! would wake a second one whenever the first begins to work, and mostly for nothing. That costs a fifth of a turn.
//!
//! A thread that is busy holds up all its connections. So a request that takes long to read is not served here: see
//! [`run_on`].

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// So many connections are served by one thread. Their turns are written together, and no turn waits until another
/// thread wakes up.
const FEW: usize = 16;

/// The runtimes that serve connections.
pub struct Workers(Vec<Worker>);

struct Worker {
    runtime: Handle,
    /// How many connections it serves.
    connections: Arc<AtomicUsize>,
}

impl Workers {
    /// These runtimes. There must be at least one.
    pub fn new(runtimes: impl IntoIterator<Item = Handle>) -> Self {
        let worker = |runtime| Worker { runtime, connections: Arc::default() };
        Self(runtimes.into_iter().map(worker).collect())
    }

    /// Serves a connection on the first runtime that has few, else on the one that has the fewest.
    pub(crate) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let open = |worker: &&Worker| worker.connections.load(Ordering::Relaxed);
        let first = self.0.iter().find(|worker| open(worker) < FEW);
        let Some(Worker { runtime, connections }) = first.or_else(|| self.0.iter().min_by_key(open)) else { return };
        let open = Open::count(connections);
        runtime.spawn(async move {
            connection.await;
            drop(open);
        });
    }
}

/// Counts a connection while it exists.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn count(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `work` on another runtime and returns what it returns. Dropping this future drops `work`, and a panic of `work`
/// is a panic of this future.
pub(crate) async fn run_on<T: Send + 'static>(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> T {
    let mut task = AbortOnDrop(runtime.spawn(work));
    match (&mut task.0).await {
        Ok(output) => output,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The other runtime has shut down, and so will this one.
            Err(_) => pending().await,
        },
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::Runtime;
    use tokio::sync::oneshot;

    use super::*;

    /// A runtime with one thread of its own.
    fn started() -> Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// Serves a connection that tells its runtime, and then waits until it is told to end.
    async fn connected(workers: &Workers) -> (tokio::runtime::Id, oneshot::Sender<()>) {
        let (tell, told) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        workers.spawn(async move {
            tell.send(Handle::current().id()).unwrap();
            let _ = ended.await;
        });
        (told.await.unwrap(), end)
    }

    #[tokio::test]
    async fn few_connections_share_a_runtime_and_many_are_spread() {
        let runtimes = [started(), started()];
        let [first, second] = [runtimes[0].handle().id(), runtimes[1].handle().id()];
        let workers = Workers::new(runtimes.iter().map(|runtime| runtime.handle().clone()));
        let mut open = Vec::new();
        for number in 0..2 * FEW + 4 {
            let expected = match number {
                0..FEW => first,
                _ if number < 2 * FEW => second,
                _ => [first, second][number % 2],
            };
            let (runtime, end) = connected(&workers).await;
            assert_eq!(runtime, expected, "connection {number}");
            open.push(end);
        }
        open.truncate(FEW - 1);
        tokio::time::timeout(Duration::from_secs(10), async {
            while workers.0.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum::<usize>() >= FEW {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        assert_eq!(connected(&workers).await.0, first);
        runtimes.into_iter().for_each(Runtime::shutdown_background);
    }

    #[tokio::test]
    async fn work_on_another_runtime_is_dropped_with_the_future_that_waits_for_it() {
        let other = started();
        let handle = other.handle().clone();
        assert_eq!(run_on(&handle, async { Handle::current().id() }).await, handle.id());
        let (kept, dropped) = oneshot::channel::<()>();
        let waiting = run_on(&handle, async move {
            let _kept = kept;
            pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
        assert!(tokio::time::timeout(Duration::from_secs(10), dropped).await.unwrap().is_err());
        other.shutdown_background();
    }
}
