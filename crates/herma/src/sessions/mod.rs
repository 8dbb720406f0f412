//! `herma sessions`: one file per verb. They work on the local store and need no server.
//!
//! Verbs read and change conversations by [`herma_gateway::Sessions`], as all front doors do. Only `export` and
//! `import` need the store itself, because they move whole conversations.
//!
//! - [`local_store`]: opens the store and the tenant, as the conversations of that tenant or with a gateway.
//! - [`explain`]: says what to do about an error.
//! - [`id_prefix`]: completes ids of which only the beginning was typed.
//! - [`message`]: finds a message by its number.
//! - [`preview`]: prints a dry run.
//! - [`export`], [`import`]: conversations as files.

mod archive;
mod branch;
mod compact;
mod compactions;
mod delete;
mod end;
pub(crate) mod explain;
mod export;
pub(crate) mod id_prefix;
mod import;
pub(crate) mod list;
pub(crate) mod local_store;
mod message;
mod preview;
mod rename;
mod rewind;
mod search;
mod show;
mod tree;
mod undo;

use std::process::ExitCode;

use crate::arguments::{Common, SessionsCommand};
use local_store::{on_session, on_sessions, on_store};

/// Runs a verb.
pub(crate) fn run(common: Common, command: SessionsCommand) -> anyhow::Result<ExitCode> {
    match command {
        SessionsCommand::List(flags) => {
            on_sessions(common, &flags.shared.tenant, async |sessions| list::print(sessions, &flags).await)
        }
        SessionsCommand::Show(flags) => {
            on_session(common, &flags.session, async |sessions, alias| show::print(sessions, alias, &flags).await)
        }
        SessionsCommand::Tree(session) => {
            on_session(common, &session, async |sessions, alias| tree::print(sessions, alias, &session).await)
        }
        SessionsCommand::Search(flags) => {
            on_sessions(common, &flags.shared.tenant, async |sessions| search::print(sessions, &flags).await)
        }
        SessionsCommand::Branch(flags) => {
            on_session(common, &flags.session, async |sessions, alias| branch::make(sessions, alias, &flags).await)
        }
        SessionsCommand::Rename(flags) => {
            on_session(common, &flags.session, async |sessions, alias| rename::change(sessions, alias, &flags).await)
        }
        SessionsCommand::End(session) => {
            on_session(common, &session, async |sessions, alias| end::end(sessions, alias, &session).await)
        }
        SessionsCommand::Reopen(session) => {
            on_session(common, &session, async |sessions, alias| end::reopen(sessions, alias, &session).await)
        }
        SessionsCommand::Rewind(flags) => {
            on_session(common, &flags.session, async |sessions, alias| rewind::rewind(sessions, alias, &flags).await)
        }
        SessionsCommand::Restore(session) => {
            on_session(common, &session, async |sessions, alias| rewind::restore(sessions, alias, &session).await)
        }
        SessionsCommand::Archive(session) => {
            on_session(common, &session, async |sessions, alias| archive::archive(sessions, alias, &session).await)
        }
        SessionsCommand::Unarchive(session) => {
            on_session(common, &session, async |sessions, alias| archive::unarchive(sessions, alias, &session).await)
        }
        SessionsCommand::Delete(flags) => {
            let tenant = &flags.session.shared.tenant;
            on_store(common, tenant, async |store, operator| delete::delete(store, operator, &flags).await)
        }
        SessionsCommand::Compact(flags) => compact::run(common, flags),
        SessionsCommand::Compactions(session) => {
            on_session(common, &session, async |sessions, alias| compactions::print(sessions, alias, &session).await)
        }
        SessionsCommand::Undo(flags) => undo::run(common, flags),
        SessionsCommand::Export(flags) => {
            on_store(common, &flags.tenant, async |store, operator| export::run(store, operator, &flags).await)
        }
        SessionsCommand::Import(flags) => import::run(common, &flags),
    }
}
