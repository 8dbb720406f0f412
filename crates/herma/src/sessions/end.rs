//! `herma sessions end` and `reopen`: whether a conversation accepts turns.

use herma_gateway::Sessions;
use herma_model::Alias;

use super::local_store::print_change;
use crate::arguments::SessionName;
use crate::next_command;

/// Ends a conversation. One that has ended already does not change.
pub(super) async fn end(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    let row = sessions.end(alias).await?;
    let back = next_command::of(&["sessions", "reopen", alias.as_str()]);
    print_change(session, &row, &format!("is ended; to open it again: {back}"))
}

/// Reopens a conversation. One that is open does not change.
pub(super) async fn reopen(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    print_change(session, &sessions.reopen(alias).await?, "is open")
}
