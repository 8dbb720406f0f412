//! `herma sessions archive` and `unarchive`: hide a conversation in lists, or show it again.

use herma_gateway::Sessions;
use herma_model::Alias;
use herma_store::Change;

use super::local_store::print_change;
use crate::arguments::SessionName;
use crate::next_command;

/// Archives a conversation. One that is archived already stays so.
pub(super) async fn archive(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    let row = sessions.change(alias, Change { archived: Some(true), ..Change::default() }).await?;
    let back = next_command::of(&["sessions", "unarchive", alias.as_str()]);
    print_change(session, &row, &format!("is archived; to bring it back into lists: {back}"))
}

/// Shows a conversation in lists again.
pub(super) async fn unarchive(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    let row = sessions.change(alias, Change { archived: Some(false), ..Change::default() }).await?;
    print_change(session, &row, "is in lists again")
}
