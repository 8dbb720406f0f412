//! `herma chat`: a conversation in the terminal, with its own gateway on the local store.
//!
//! - [`approval`]: the question whether a call may be made.
//! - [`conversation`]: which conversation it is, and what is printed of it at the start.
//! - [`input`]: lines of stdin, and what they ask for.
//! - [`printer`]: the texts of an answer while it streams.
//! - [`talk`]: the loop.

mod approval;
mod conversation;
mod input;
mod printer;
mod talk;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use herma_config::{Config, Overrides};
use herma_gateway::models::ServerId;
use herma_gateway::{Gateway, Sessions, access};

use self::conversation::Conversation;
use self::input::StdinLines;
use self::talk::Talk;
use crate::arguments::{ChatFlags, Common};
use crate::failure::Misuse;
use crate::signals::Signals;
use crate::{logging, output, setup};

/// How long a cancelled turn gets to be stored.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Chats until the input ends. If stdin is no terminal, a failed answer makes the exit code 1.
pub(crate) fn run(common: Common, flags: ChatFlags) -> anyhow::Result<ExitCode> {
    let loaded = setup::load(common, Overrides::default())?;
    logging::of_command(&loaded.config.telemetry)?;
    output::notices(&loaded.notices);
    setup::on_this_thread(chat(loaded.config, flags))
}

async fn chat(config: Config, flags: ChatFlags) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch().context("cannot catch signals")?;
    let servers = setup::ConfiguredServers::of(&config)?;
    let settings = setup::gateway_settings(&config, &servers);
    if flags.model.is_none() && settings.default_model.is_empty() {
        return Err(Misuse("no model is set; name one with --model or HERMA_MODEL".to_owned()).into());
    }
    let store = setup::open_store(&config)?;
    let principal = access::default_principal(&*store).await?;
    let sessions = Sessions::of(&*store, &principal);
    let conversation = Conversation::choose(&sessions, flags.session, flags.session_key).await?;
    let is_upstream = settings.resolve_model(flags.model.as_deref()).server == ServerId::Upstream;
    if config.upstream.base_url.is_none() && is_upstream {
        servers.lines(&config).iter().for_each(|line| output::note(line));
    }
    conversation.introduce();
    let gateway = Gateway::start(store, servers.servers, settings);
    let lines = StdinLines::from_stdin()?;
    let mut talk =
        Talk { gateway: &gateway, principal, model: flags.model, conversation, lines, signals, failed: false };
    let outcome = talk.run().await;
    let code = if talk.failed && !talk.lines.is_terminal { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    gateway.drain(DRAIN_TIMEOUT).await;
    outcome.map(|()| code)
}
