//! `herma sessions rename`: sets the title of a conversation.

use herma_gateway::Sessions;
use herma_model::Alias;
use herma_store::Change;

use super::local_store::print_change;
use crate::arguments::RenameFlags;

/// Sets or removes the title.
pub(super) async fn change(sessions: &Sessions<'_>, alias: &Alias, flags: &RenameFlags) -> anyhow::Result<()> {
    let change = Change { title: Some(flags.title.0.clone()), ..Change::default() };
    let row = sessions.change(alias, change).await?;
    let state = match &row.title {
        Some(title) => format!("is now called {title}"),
        None => "has no title now".to_owned(),
    };
    print_change(&flags.session, &row, &state)
}
