//! `herma sessions branch`: begins a conversation with the history of another one.

use std::sync::Arc;

use anyhow::bail;
use herma_gateway::now;
use herma_model::{ConversationId, CreatorKind, SessionId, SessionKind};
use herma_store::{BranchOutcome, BranchPoint, Creation, NewBranch, Scope, Store};
use uuid::Uuid;

use super::{id_prefix, local_store};
use crate::arguments::BranchFlags;
use crate::output;

/// The source of branches that are made in the terminal.
const SOURCE: &str = "cli";

/// Makes a branch.
pub(super) async fn make(store: &dyn Store, scope: &Scope, flags: &BranchFlags) -> anyhow::Result<()> {
    let source = id_prefix::complete(store, scope, &flags.session.id).await?;
    let branch = NewBranch {
        scope: scope.clone(),
        source: source.clone(),
        at: flags.at.map_or(BranchPoint::End, BranchPoint::Message),
        alias: flags.name.clone(),
        creation: creation(),
        title: flags.title.clone(),
        metadata: None,
        now: now(),
    };
    match store.branch(branch).await? {
        BranchOutcome::Made(row) if flags.session.shared.json => local_store::print_row(&row),
        BranchOutcome::Made(row) => {
            let id = &row.session.id;
            output::answer(&id.to_string())?;
            output::note(&format!(
                "it has {} messages of {source}; to go on in it: herma chat --session {id}",
                row.message_count
            ));
            Ok(())
        }
        BranchOutcome::NotFound => Err(local_store::unknown(&source)),
        BranchOutcome::NoSuchMessage => bail!("nothing of the id that --at names was said in {source}"),
        BranchOutcome::Unanswered => bail!("no answer follows this message yet, so nothing can go on from it"),
        BranchOutcome::Exists => bail!("the name that --id gives leads somewhere already; choose another one"),
        BranchOutcome::Reserved => {
            bail!("the name that --id gives is of a form that only Herma makes; choose another one")
        }
    }
}

fn creation() -> Creation {
    Creation {
        conversation: ConversationId::from_uuid(Uuid::now_v7()),
        session: SessionId::from_uuid(Uuid::now_v7()),
        kind: SessionKind::Branch,
        creator: CreatorKind::Cli,
        source: Arc::from(SOURCE),
        owner: None,
        reason: None,
        parent: None,
        parent_tool_call: None,
        chat: None,
    }
}
