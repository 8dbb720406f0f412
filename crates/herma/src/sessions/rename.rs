//! `herma sessions rename`: sets the title of a conversation.

use herma_gateway::now;
use herma_store::{Change, Scope, Store};

use super::{beginning, place};
use crate::arguments::RenameFlags;
use crate::output;

/// Sets or removes the title.
pub(super) async fn change(store: &dyn Store, scope: &Scope, flags: &RenameFlags) -> anyhow::Result<()> {
    let alias = beginning::complete(store, scope, &flags.place.id).await?;
    let change = Change { title: Some(flags.title.0.clone()), ..Change::default() };
    let row = store.update(scope, &alias, change, now()).await?.ok_or_else(|| place::unknown(&alias))?;
    if flags.place.room.json {
        return place::print_row(&row);
    }
    output::note(&match row.title {
        Some(title) => format!("{} is now called {title}", row.session.id),
        None => format!("{} has no title now", row.session.id),
    });
    Ok(())
}
