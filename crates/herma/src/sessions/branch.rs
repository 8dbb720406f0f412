//! `herma sessions branch`: begins a conversation with the history of another one.

use herma_gateway::{NewFork, Sessions};
use herma_model::Alias;
use herma_store::BranchPoint;

use super::local_store;
use crate::arguments::BranchFlags;
use crate::{ORIGIN, output};

/// Makes a branch.
pub(super) async fn make(sessions: &Sessions<'_>, source: &Alias, flags: &BranchFlags) -> anyhow::Result<()> {
    let branch = NewFork {
        origin: ORIGIN,
        source: source.clone(),
        at: flags.at.map_or(BranchPoint::End, BranchPoint::Message),
        alias: flags.name.clone(),
        title: flags.title.clone(),
        metadata: None,
        cwd: None,
    };
    let row = sessions.branch(branch).await?;
    if flags.session.shared.json {
        return local_store::print_row(&row);
    }
    let id = &row.session.id;
    output::answer(&id.to_string())?;
    let count = row.message_count;
    output::note(&format!("it has {count} messages of {source}; to go on in it: herma chat --session {id}"));
    Ok(())
}
