//! `herma sessions end` and `reopen`: whether a conversation accepts turns.

use herma_gateway::now;
use herma_model::{Alias, EndReason};
use herma_store::{EndOutcome, Scope, Store};

use super::{id_prefix, local_store};
use crate::arguments::SessionName;
use crate::output;

/// Ends a conversation. One that has ended already does not change.
pub(super) async fn end(store: &dyn Store, scope: &Scope, session: &SessionName) -> anyhow::Result<()> {
    let alias = id_prefix::complete(store, scope, &session.id).await?;
    let outcome = store.end(scope, &alias, EndReason::Ended, now()).await?;
    print(session, &alias, outcome, "is ended; `herma sessions reopen` opens it again")
}

/// Reopens a conversation. One that is open does not change.
pub(super) async fn reopen(store: &dyn Store, scope: &Scope, session: &SessionName) -> anyhow::Result<()> {
    let alias = id_prefix::complete(store, scope, &session.id).await?;
    let outcome = store.reopen(scope, &alias, now()).await?;
    print(session, &alias, outcome, "is open")
}

fn print(session: &SessionName, alias: &Alias, outcome: EndOutcome, state: &str) -> anyhow::Result<()> {
    match outcome {
        EndOutcome::Done(row) if session.shared.json => local_store::print_row(&row),
        EndOutcome::Done(row) => {
            output::note(&format!("{} {state}", row.session.id));
            Ok(())
        }
        EndOutcome::Busy(running) => Err(local_store::busy(alias, running)),
        EndOutcome::NotFound => Err(local_store::unknown(alias)),
    }
}
