//! `herma sessions end` and `reopen`: whether a conversation accepts turns.

use herma_gateway::Sessions;
use herma_model::Alias;

use super::local_store::print_change;
use crate::arguments::SessionName;

/// Ends a conversation. One that has ended already does not change.
pub(super) async fn end(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    let row = sessions.end(alias).await?;
    print_change(session, &row, "is ended; `herma sessions reopen` opens it again")
}

/// Reopens a conversation. One that is open does not change.
pub(super) async fn reopen(sessions: &Sessions<'_>, alias: &Alias, session: &SessionName) -> anyhow::Result<()> {
    print_change(session, &sessions.reopen(alias).await?, "is open")
}
