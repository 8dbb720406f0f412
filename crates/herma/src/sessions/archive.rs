//! `herma sessions archive` and `unarchive`: hide a conversation in lists, or show it again.

use herma_gateway::now;
use herma_store::{Change, Scope, Store};

use super::{id_prefix, local_store};
use crate::arguments::SessionName;
use crate::output;

/// Archives a conversation. One that is archived already stays so.
pub(super) async fn archive(store: &dyn Store, scope: &Scope, session: &SessionName) -> anyhow::Result<()> {
    change(store, scope, session, true, "is archived; `herma sessions unarchive` brings it back into lists").await
}

/// Shows a conversation in lists again.
pub(super) async fn unarchive(store: &dyn Store, scope: &Scope, session: &SessionName) -> anyhow::Result<()> {
    change(store, scope, session, false, "is in lists again").await
}

async fn change(
    store: &dyn Store,
    scope: &Scope,
    session: &SessionName,
    archived: bool,
    state: &str,
) -> anyhow::Result<()> {
    let alias = id_prefix::complete(store, scope, &session.id).await?;
    let change = Change { archived: Some(archived), ..Change::default() };
    let row = store.update(scope, &alias, change, now()).await?.ok_or_else(|| local_store::unknown(&alias))?;
    if session.shared.json {
        return local_store::print_row(&row);
    }
    output::note(&format!("{} {state}", row.session.id));
    Ok(())
}
