//! `herma sessions`: one file per verb. They work on the local store and need no server.
//!
//! - [`local_store`]: opens the store and the tenant, and starts a gateway on them.
//! - [`id_prefix`]: completes ids of which only the beginning was typed.
//! - [`preview`]: prints a dry run.
//! - [`export`], [`import`]: conversations as files.

mod archive;
mod branch;
mod compact;
mod compactions;
mod delete;
mod end;
mod export;
pub(crate) mod id_prefix;
mod import;
mod list;
pub(crate) mod local_store;
mod preview;
mod rename;
mod rewind;
mod search;
mod show;
mod tree;
mod undo;

use std::process::ExitCode;

use crate::arguments::{Common, SessionsCommand};
use local_store::on_store;

/// Runs a verb.
pub(crate) fn run(common: Common, command: SessionsCommand) -> anyhow::Result<ExitCode> {
    match command {
        SessionsCommand::List(flags) => {
            on_store(common, &flags.shared.tenant, async |store, scope| list::print(store, scope, &flags).await)
        }
        SessionsCommand::Show(flags) => {
            on_store(common, &flags.session.shared.tenant, async |store, scope| show::print(store, scope, &flags).await)
        }
        SessionsCommand::Tree(session) => {
            on_store(common, &session.shared.tenant, async |store, scope| tree::print(store, scope, &session).await)
        }
        SessionsCommand::Search(flags) => {
            on_store(common, &flags.shared.tenant, async |store, scope| search::print(store, scope, &flags).await)
        }
        SessionsCommand::Branch(flags) => on_store(common, &flags.session.shared.tenant, async |store, scope| {
            branch::make(store, scope, &flags).await
        }),
        SessionsCommand::Rename(flags) => on_store(common, &flags.session.shared.tenant, async |store, scope| {
            rename::change(store, scope, &flags).await
        }),
        SessionsCommand::End(session) => {
            on_store(common, &session.shared.tenant, async |store, scope| end::end(store, scope, &session).await)
        }
        SessionsCommand::Reopen(session) => {
            on_store(common, &session.shared.tenant, async |store, scope| end::reopen(store, scope, &session).await)
        }
        SessionsCommand::Rewind(flags) => on_store(common, &flags.session.shared.tenant, async |store, scope| {
            rewind::rewind(store, scope, &flags).await
        }),
        SessionsCommand::Restore(session) => {
            on_store(common, &session.shared.tenant, async |store, scope| rewind::restore(store, scope, &session).await)
        }
        SessionsCommand::Archive(session) => on_store(common, &session.shared.tenant, async |store, scope| {
            archive::archive(store, scope, &session).await
        }),
        SessionsCommand::Unarchive(session) => on_store(common, &session.shared.tenant, async |store, scope| {
            archive::unarchive(store, scope, &session).await
        }),
        SessionsCommand::Delete(flags) => on_store(common, &flags.session.shared.tenant, async |store, scope| {
            delete::delete(store, scope, &flags).await
        }),
        SessionsCommand::Compact(flags) => compact::run(common, flags),
        SessionsCommand::Compactions(session) => on_store(common, &session.shared.tenant, async |store, scope| {
            compactions::print(store, scope, &session).await
        }),
        SessionsCommand::Undo(flags) => undo::run(common, flags),
        SessionsCommand::Export(flags) => {
            on_store(common, &flags.tenant, async |store, scope| export::run(store, scope, &flags).await)
        }
        SessionsCommand::Import(flags) => import::run(common, &flags),
    }
}
