//! `herma sessions rename`: sets the title of a conversation.

use herma_gateway::now;
use herma_store::{Change, Scope, Store};

use super::{id_prefix, local_store};
use crate::arguments::RenameFlags;
use crate::output;

/// Sets or removes the title.
pub(super) async fn change(store: &dyn Store, scope: &Scope, flags: &RenameFlags) -> anyhow::Result<()> {
    let alias = id_prefix::complete(store, scope, &flags.session.id).await?;
    let change = Change { title: Some(flags.title.0.clone()), ..Change::default() };
    let row = store.update(scope, &alias, change, now()).await?.ok_or_else(|| local_store::unknown(&alias))?;
    if flags.session.shared.json {
        return local_store::print_row(&row);
    }
    output::note(&match row.title {
        Some(title) => format!("{} is now called {title}", row.session.id),
        None => format!("{} has no title now", row.session.id),
    });
    Ok(())
}
