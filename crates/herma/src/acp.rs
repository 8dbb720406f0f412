//! `herma acp`: the ACP agent on stdin and stdout, with its own gateway on the local store.

use std::fs::File;
use std::io::{self, BufReader};
use std::process::ExitCode;

use anyhow::Context;
use herma_acp::{AgentSettings, Streams};
use herma_config::{Config, Overrides};
use herma_gateway::{Gateway, Settings, access};

use crate::arguments::Common;
use crate::signals::Signals;
use crate::telemetry::Telemetry;
use crate::{logging, output, setup};

/// Serves an editor until it closes stdin, or until a signal comes.
pub(crate) fn run(common: Common) -> anyhow::Result<ExitCode> {
    let stdout = protocol_stream().context("cannot use stdout")?;
    let loaded = setup::load(common, Overrides::default())?;
    logging::of_command(&loaded.config.telemetry)?;
    output::notices(&loaded.notices);
    setup::on_this_thread(serve(&loaded.config, stdout))
}

async fn serve(config: &Config, stdout: File) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::catch().context("cannot catch signals")?;
    let servers = setup::ConfiguredServers::of(config)?;
    let telemetry = Telemetry::of(&config.telemetry, &servers.connections)?;
    let settings = Settings { tracer: telemetry.tracer(), ..setup::gateway_settings(config, &servers) };
    let store = setup::open_store(config)?;
    let principal = access::default_principal(&*store).await?;
    let export = telemetry.start_traces();
    let gateway = Gateway::start(store, servers.servers, settings);
    let agent = AgentSettings { version: env!("CARGO_PKG_VERSION"), cwd: std::env::current_dir()? };
    let stop = async {
        signals.next().await;
    };
    let streams = Streams { input: BufReader::new(io::stdin()), output: stdout, is_input_closed };
    let served = herma_acp::serve(gateway, principal, agent, streams, stop).await;
    export.shut_down().await;
    served?;
    Ok(ExitCode::SUCCESS)
}

/// The stream of the protocol. Other output to stdout, of this process or a child, goes to stderr.
#[cfg(unix)]
fn protocol_stream() -> io::Result<File> {
    use std::os::fd::AsFd;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(stdout))
}

/// Whether the other end of stdin is closed, although there may be more to read.
#[cfg(unix)]
fn is_input_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    // A socket whose other end is closed only for writing has no hang-up of its own everywhere.
    #[cfg(target_os = "linux")]
    let asked = PollFlags::RDHUP;
    #[cfg(not(target_os = "linux"))]
    let asked = PollFlags::empty();
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, asked)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let closed = PollFlags::HUP | PollFlags::ERR | asked;
    poll(&mut fds, Some(&now)).is_ok_and(|found| found > 0) && fds[0].revents().intersects(closed)
}

/// Windows does not say whether a pipe was closed before all of it is read.
#[cfg(windows)]
fn is_input_closed() -> bool {
    false
}

#[cfg(windows)]
fn protocol_stream() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}
