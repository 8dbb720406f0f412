//! `herma serve`: starts the server, and stops it after a signal.

mod authentication;
mod first_key;
mod listen;
mod worker_threads;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use herma_config::Config;
use herma_gateway::{Gateway, Settings};
use herma_http::{Server, Workers};
use tokio::sync::oneshot;

use crate::arguments::{Common, ServeFlags};
use crate::listening::Listening;
use crate::signals::Signals;
use crate::telemetry::Telemetry;
use crate::{logging, output, setup};

pub(crate) use first_key::FILE as API_KEY_FILE;
use worker_threads::WorkerThreads;

/// The exit code after a second signal, as shells use it.
const INTERRUPTED: u8 = 130;
/// How long connections get to close after the last turn has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// These threads of a runtime do store reads and name look-ups. More of them would only cost memory.
const BLOCKING_THREADS: usize = 8;
const THREAD_STACK: usize = 1024 * 1024;

/// Serves until a signal comes.
pub(crate) fn run(common: Common, flags: ServeFlags) -> anyhow::Result<ExitCode> {
    let loaded = setup::load(common, flags.into_overrides())?;
    let _flushed_at_the_end = logging::of_server(&loaded.config.telemetry)?;
    output::notices(&loaded.notices);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_stack_size(THREAD_STACK)
        .thread_name("herma-main")
        .build()
        .context("cannot start the runtime")?;
    let workers = WorkerThreads::start().context("cannot start the runtime")?;
    let outcome = runtime.block_on(serve(&loaded.config, workers.workers()));
    runtime.shutdown_background();
    outcome
}

async fn serve(config: &Config, workers: Workers) -> anyhow::Result<ExitCode> {
    // Catch signals before clients can know that the server is there.
    let mut signals = Signals::catch().context("cannot catch signals")?;
    let servers = setup::ConfiguredServers::of(config)?;
    let store = setup::open_store(config)?;
    let listener = listen::bind(&config.server.listen).await?;
    let address = listener.local_addr()?;
    let _listening = Listening::begin(config, address.port());
    let authentication = authentication::set_up(config, &store, address).await?;
    for line in servers.lines(config) {
        output::note(&line);
    }
    if let Some(line) = setup::window_line(config) {
        output::note(line);
    }
    let telemetry = Telemetry::of(&config.telemetry, &servers.connections)?;
    if let Some(line) = telemetry.line() {
        output::note(&line);
    }
    let settings = Settings { tracer: telemetry.tracer(), ..setup::gateway_settings(config, &servers) };
    let gateway = Gateway::start(store, servers.servers, settings);
    let http = Server::new(Arc::clone(&gateway), setup::http_settings(config, authentication));
    let export = telemetry.start(http.metrics());
    let (stop, stopped) = oneshot::channel::<()>();
    let mut server = tokio::spawn(http.serve(listener, workers, async move {
        let _ = stopped.await;
    }));
    output::note(&format!("herma listening on http://{address}"));

    tokio::select! {
        ended = &mut server => {
            ended.context("the server failed")?.context("the server failed")?;
            bail!("the server ended by itself");
        }
        _ = signals.next() => {}
    }
    output::note(&stopping(&gateway, config.server.drain_timeout));
    drop(stop);
    let drain = async {
        gateway.drain(config.server.drain_timeout).await;
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut server).await;
        export.shut_down().await;
    };
    tokio::select! {
        () = drain => Ok(ExitCode::SUCCESS),
        _ = signals.next() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

fn stopping(gateway: &Gateway, limit: Duration) -> String {
    match gateway.live_turns() {
        0 => "herma is stopping".to_owned(),
        turns => {
            format!("herma is stopping; running turns: {turns}, they get up to {limit:?}; signal again to end at once")
        }
    }
}
