//! `herma sessions archive` and `unarchive`: hide a conversation in lists, or show it again.

use herma_gateway::now;
use herma_store::{Change, Scope, Store};

use super::{beginning, place};
use crate::arguments::SessionName;
use crate::output;

/// Archives a conversation. One that is archived already stays so.
pub(super) async fn archive(store: &dyn Store, scope: &Scope, place: &SessionName) -> anyhow::Result<()> {
    change(store, scope, place, true, "is archived; `herma sessions unarchive` brings it back into lists").await
}

/// Shows a conversation in lists again.
pub(super) async fn unarchive(store: &dyn Store, scope: &Scope, place: &SessionName) -> anyhow::Result<()> {
    change(store, scope, place, false, "is in lists again").await
}

async fn change(
    store: &dyn Store,
    scope: &Scope,
    place: &SessionName,
    archived: bool,
    state: &str,
) -> anyhow::Result<()> {
    let alias = beginning::complete(store, scope, &place.id).await?;
    let change = Change { archived: Some(archived), ..Change::default() };
    let row = store.update(scope, &alias, change, now()).await?.ok_or_else(|| place::unknown(&alias))?;
    if place.room.json {
        return place::print_row(&row);
    }
    output::note(&format!("{} {state}", row.session.id));
    Ok(())
}
