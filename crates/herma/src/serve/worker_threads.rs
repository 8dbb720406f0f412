//! The threads that serve connections, each with a runtime of its own. They end with the process, or when this is
//! dropped.

use std::io;
use std::thread;

use herma_http::Workers;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

use super::{BLOCKING_THREADS, THREAD_STACK};

/// One thread for each processor.
pub(super) struct WorkerThreads {
    runtimes: Vec<Handle>,
    /// The threads end when this is dropped.
    _kept: watch::Sender<()>,
}

impl WorkerThreads {
    pub(super) fn start() -> io::Result<Self> {
        let (kept, _) = watch::channel(());
        let count = thread::available_parallelism().map_or(1, usize::from);
        let start = |_| {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(BLOCKING_THREADS)
                .thread_stack_size(THREAD_STACK)
                .thread_name("herma-blocking")
                .build()?;
            let handle = runtime.handle().clone();
            let until_dropped = kept.subscribe();
            let thread = thread::Builder::new().name("herma-worker".to_owned()).stack_size(THREAD_STACK);
            thread.spawn(move || run(runtime, until_dropped))?;
            Ok(handle)
        };
        let runtimes = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Self { runtimes, _kept: kept })
    }

    pub(super) fn workers(&self) -> Workers {
        Workers::new(self.runtimes.iter().cloned())
    }
}

/// Serves what is spawned, until the sender is dropped.
fn run(runtime: Runtime, mut until_dropped: watch::Receiver<()>) {
    runtime.block_on(async {
        let _dropped = until_dropped.changed().await;
    });
    runtime.shutdown_background();
}
