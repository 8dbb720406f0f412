//! `herma sessions end` and `reopen`: whether a conversation accepts turns.

use herma_gateway::now;
use herma_model::{Alias, EndReason};
use herma_store::{EndOutcome, Scope, Store};

use super::{beginning, place};
use crate::arguments::SessionName;
use crate::output;

/// Ends a conversation. One that has ended already does not change.
pub(super) async fn end(store: &dyn Store, scope: &Scope, place: &SessionName) -> anyhow::Result<()> {
    let alias = beginning::complete(store, scope, &place.id).await?;
    let outcome = store.end(scope, &alias, EndReason::Ended, now()).await?;
    print(place, &alias, outcome, "is ended; `herma sessions reopen` opens it again")
}

/// Reopens a conversation. One that is open does not change.
pub(super) async fn reopen(store: &dyn Store, scope: &Scope, place: &SessionName) -> anyhow::Result<()> {
    let alias = beginning::complete(store, scope, &place.id).await?;
    let outcome = store.reopen(scope, &alias, now()).await?;
    print(place, &alias, outcome, "is open")
}

fn print(place: &SessionName, alias: &Alias, outcome: EndOutcome, state: &str) -> anyhow::Result<()> {
    match outcome {
        EndOutcome::Done(row) if place.room.json => place::print_row(&row),
        EndOutcome::Done(row) => {
            output::note(&format!("{} {state}", row.session.id));
            Ok(())
        }
        EndOutcome::Busy(running) => Err(place::busy(alias, running)),
        EndOutcome::NotFound => Err(place::unknown(alias)),
    }
}
