//! `herma sessions branch`: begins a conversation with the history of another one.

use herma_gateway::{NewFork, Sessions};
use herma_model::Alias;
use herma_store::BranchPoint;

use super::id_prefix::short_id;
use super::{local_store, message};
use crate::arguments::BranchFlags;
use crate::{ORIGIN, next_command, output};

/// Makes a branch.
pub(super) async fn make(sessions: &Sessions<'_>, source: &Alias, flags: &BranchFlags) -> anyhow::Result<()> {
    let at = match flags.at {
        Some(typed) => BranchPoint::Message(message::named(sessions, source, typed, "--at").await?),
        None => BranchPoint::End,
    };
    let branch = NewFork {
        origin: ORIGIN,
        source: source.clone(),
        at,
        alias: flags.name.clone(),
        title: flags.title.clone(),
        metadata: None,
        cwd: None,
    };
    let row = sessions.branch(branch).await?;
    if flags.session.shared.json {
        return local_store::print_row(&row);
    }
    output::answer(&row.session.id.to_string())?;
    let count = row.message_count;
    let name = row.facts.name().map_or_else(|| short_id(row.facts.id), str::to_owned);
    let chat = next_command::of(&["chat", "--session", &name]);
    output::note(&format!("it has {count} messages of {source}; to go on in it: {chat}"));
    Ok(())
}
