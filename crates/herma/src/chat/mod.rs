//! `herma chat`: a conversation in the terminal, or one answer, with its own gateway on the local store.
//!
//! - [`prompt`]: what is asked, if it does not come from a line editor.
//! - [`editor`], [`earlier`], [`completion`], [`quiet`]: the line editor, its history, the tab key, and the terminal
//!   between two prompts.
//! - [`input`], [`commands`]: what a text asks for, and the commands.
//! - [`conversation`]: which conversation it is, and what is printed of it at the start.
//! - [`talk`], [`turn`], [`failure`]: the loop, one turn of it, and why a turn has no answer.
//! - [`printer`], [`spinner`], [`approval`], [`clipboard`]: what a turn shows and asks.

mod approval;
mod clipboard;
mod commands;
mod completion;
mod conversation;
mod earlier;
mod editor;
mod failure;
mod input;
mod printer;
mod prompt;
mod quiet;
mod spinner;
mod talk;
mod turn;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use herma_config::{Config, Overrides};
use herma_gateway::models::ServerId;
use herma_gateway::{Gateway, Sessions, Settings, access};
use herma_store::Store;

use self::conversation::{Conversation, begin_command, may_begin};
use self::editor::ChatEditor;
use self::quiet::QuietTerminal;
use self::talk::{AnswerFormat, Talk};
use self::turn::TurnOutcome;
use crate::arguments::{ChatFlags, Common};
use crate::failure::Misuse;
use crate::signals::Signals;
use crate::telemetry::Telemetry;
use crate::terminal::Stream;
use crate::{logging, next_command, output, setup};

/// How long a cancelled turn gets to be stored.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The exit codes of an answer that a signal ended, as shells have them.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// Answers once if there is a prompt or stdin is no terminal; otherwise chats until the person leaves.
pub(crate) fn run(common: Common, flags: ChatFlags) -> anyhow::Result<ExitCode> {
    let loaded = setup::load(common, Overrides::default())?;
    logging::of_chat(&loaded.config.telemetry)?;
    output::notices(&loaded.notices);
    setup::on_this_thread(chat(loaded.config, flags))
}

async fn chat(config: Config, flags: ChatFlags) -> anyhow::Result<ExitCode> {
    let signals = Signals::catch().context("cannot catch signals")?;
    let servers = setup::ConfiguredServers::of(&config)?;
    let telemetry = Telemetry::of(&config.telemetry, &servers.connections)?;
    let settings = Settings { tracer: telemetry.tracer(), ..setup::gateway_settings(&config, &servers) };
    if flags.model.is_none() && settings.default_model.is_empty() {
        return Err(Misuse("no model is set; name one with --model or HERMA_MODEL".to_owned()).into());
    }
    let can_ask = io::stdin().is_terminal() && Stream::Stderr.is_terminal();
    let prompt = prompt::read(&flags)?;
    let quiet = QuietTerminal::begin();
    let store = open_store(&config, &flags)?;
    let principal = access::default_principal(&*store).await?;
    let conversation = {
        let sessions = Sessions::of(&*store, &principal);
        match (flags.session, flags.continue_last) {
            (Some(named), _) => Conversation::choose(&sessions, named, flags.session_key).await?,
            (None, true) => {
                let begin = begin_command(flags.session_key.as_ref(), flags.model.as_deref());
                Conversation::last_used(&sessions, flags.session_key, &begin).await?
            }
            (None, false) => Conversation::begin(None, flags.session_key),
        }
    };
    let is_upstream = settings.resolve_model(flags.model.as_deref()).server == ServerId::Upstream;
    if config.upstream.base_url.is_none() && is_upstream {
        let doctor = next_command::of(&["doctor"]);
        output::dim(&format!("the built-in offline model answers; how to set a real one: {doctor}"));
    }
    let export = telemetry.start_traces();
    let gateway = Gateway::start(Arc::clone(&store), servers.servers, settings);
    let format = if flags.json { AnswerFormat::Json } else { AnswerFormat::Text };
    let mut talk = Talk {
        gateway: &gateway,
        store,
        principal,
        model: flags.model,
        conversation,
        signals,
        format,
        can_ask,
        others: servers.others,
        quiet,
    };
    let outcome = match prompt {
        Some(prompt) => {
            talk.conversation.introduce_new_name();
            talk.say(&prompt).await.map(once)
        }
        None => interactively(&mut talk).await,
    };
    if let Some(command) = talk.conversation.continue_command(talk.model.as_deref()) {
        output::dim(&format!("to continue: {command}"));
    }
    gateway.drain(DRAIN_TIMEOUT).await;
    if !export.shut_down().await {
        output::dim("not all traces could be sent to the collector; --verbose says why");
    }
    outcome
}

/// Opens the store. A conversation that must be there is in a store that is there, so none is made for it: `--data` may
/// be mistyped.
fn open_store(config: &Config, flags: &ChatFlags) -> anyhow::Result<Arc<dyn Store>> {
    let must_exist = flags.continue_last || flags.session.as_ref().is_some_and(|typed| !may_begin(typed));
    if !must_exist {
        return setup::open_store(config);
    }
    setup::open_existing_store(config)?.ok_or_else(|| {
        let begin = begin_command(flags.session_key.as_ref(), flags.model.as_deref());
        anyhow!(
            "there is no store at {} yet, and so no conversation; check --data and --store, or begin one: {begin}",
            config.store.url
        )
    })
}

async fn interactively(talk: &mut Talk<'_>) -> anyhow::Result<ExitCode> {
    talk.conversation.introduce();
    output::dim("/help lists the commands, Ctrl-D leaves the chat");
    let earlier = earlier::texts(&Sessions::of(&*talk.store, &talk.principal)).await?;
    let mut editor = ChatEditor::start(earlier)?;
    talk.run(&mut editor).await?;
    Ok(ExitCode::SUCCESS)
}

fn once(outcome: TurnOutcome) -> ExitCode {
    match outcome {
        TurnOutcome::Answered => ExitCode::SUCCESS,
        TurnOutcome::Failed => ExitCode::FAILURE,
        TurnOutcome::Cancelled => ExitCode::from(INTERRUPTED),
        TurnOutcome::Terminated => ExitCode::from(TERMINATED),
    }
}
