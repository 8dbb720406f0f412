//! The `herma` program: parses the command line and runs a command.
//!
//! - [`arguments`]: the command line and its help.
//! - [`setup`]: builds configuration, store, model server and gateway settings.
//! - [`serve`], [`acp`], [`chat`], [`sessions`], [`memory`], [`tools`], [`import`], [`keys`], [`tenants`], [`backup`],
//!   [`config`], [`doctor`], [`manual`]: one command each.
//! - [`output`], [`terminal`], [`text_width`], [`local_time`], [`markdown`], [`table`], [`progress`], [`excerpt`],
//!   [`tool_lines`], [`next_command`], [`listening`], [`consent`], [`receipt`], [`logging`], [`failure`], [`signals`]:
//!   shared by the commands, for the terminal and the operating system.
//!
//! No rule about conversations is here. Answers go to stdout, everything else to stderr.

mod acp;
mod arguments;
mod backup;
mod chat;
mod config;
mod consent;
mod doctor;
mod excerpt;
mod failure;
mod import;
mod keys;
mod listening;
mod local_time;
mod logging;
mod manual;
mod markdown;
mod memory;
mod next_command;
mod output;
mod progress;
mod receipt;
mod serve;
mod sessions;
mod setup;
mod short_id;
mod signals;
mod table;
mod telemetry;
mod tenants;
mod terminal;
mod text_width;
mod tool_lines;
mod tools;

use std::process::ExitCode;

use clap::Parser;
use herma_gateway::Origin;
use herma_model::CreatorKind;

use crate::arguments::{Arguments, Command, ImportCommand, KeysCommand, TenantsCommand};

/// The allocator of the process. `.cargo/config.toml` has its settings.
#[cfg(all(feature = "jemalloc", target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The origin that is stored with conversations of the terminal.
const ORIGIN: Origin = Origin { creator: CreatorKind::Cli, source: "cli" };

fn main() -> ExitCode {
    let Arguments { common, command } = Arguments::parse();
    next_command::remember(&common);
    let outcome = match command {
        Command::Serve(flags) => serve::run(common, flags),
        Command::Chat(flags) => chat::run(common, flags),
        Command::Acp => acp::run(common),
        Command::Sessions { command } => sessions::run(common, command),
        Command::Memory { command } => memory::run(common, command),
        Command::Tools { command } => tools::run(common, command),
        Command::Import { command: ImportCommand::Hermes(flags) } => import::run(common, &flags),
        Command::Keys { command: KeysCommand::Create(flags) } => keys::create::run(common, &flags),
        Command::Keys { command: KeysCommand::List(flags) } => keys::list::run(common, &flags),
        Command::Keys { command: KeysCommand::Revoke(flags) } => keys::revoke::run(common, &flags),
        Command::Tenants { command: TenantsCommand::List(flags) } => tenants::list::run(common, &flags),
        Command::Tenants { command: TenantsCommand::Delete(flags) } => tenants::delete::run(common, &flags),
        Command::Backup(flags) => backup::back_up(common, &flags),
        Command::Restore(flags) => backup::restore(common, &flags),
        Command::Config(flags) => config::run(common, &flags),
        Command::Doctor(flags) => doctor::run(common, &flags),
        Command::Completions(flags) => manual::completions(&flags),
        Command::Man(flags) => manual::pages(&flags),
    };
    outcome.unwrap_or_else(|error| failure::report(&error))
}
