//! `herma sessions delete`: asks first, because a deletion cannot be undone.

use anyhow::anyhow;
use herma_gateway::{GatewayError, Sessions};
use herma_model::{Alias, Principal};
use herma_store::{Children, ConversationRow, Pin, Store};

use super::{explain, id_prefix};
use crate::arguments::DeleteFlags;
use crate::{consent, excerpt, next_command, receipt, short_id};

/// The most characters of a title.
const TITLE: usize = 40;

/// Deletes a conversation, alone or with its descendants.
pub(super) async fn delete(store: &dyn Store, operator: &Principal, flags: &DeleteFlags) -> anyhow::Result<()> {
    let sessions = &Sessions::of(store, operator);
    let alias = if flags.yes { flags.session.id.clone() } else { confirmed(sessions, flags).await? };
    match sessions.delete(&alias, flags.children, flags.memories).await {
        Ok(deleted) => {
            receipt::print(store, operator, deleted, flags.session.id.as_str(), flags.session.shared.json).await
        }
        Err(GatewayError::NotFound(_)) if flags.yes => {
            let whole = id_prefix::complete(sessions, &alias).await.map_err(|_| explain::unknown(&alias))?;
            let rule = "with --yes, give a name or a whole id, not a short id or a beginning";
            // What only begins like a name may be meant for a conversation that is deleted already.
            let meant = short_id::is_one(alias.as_str())
                .then(|| next_command::with(&["sessions", "delete", "--yes"], &[], &[whole.as_str()]));
            let command = meant.map(|command| format!(": {command}")).unwrap_or_default();
            Err(anyhow!("no conversation is known by {alias}; {rule}{command}"))
        }
        Err(error) => Err(explain::explained(&alias)(error)),
    }
}

/// The conversation that the user confirmed. Only here can the beginning of an id name it. A script that deletes `trip`
/// twice must not delete `trip-by-train` the second time.
async fn confirmed(sessions: &Sessions<'_>, flags: &DeleteFlags) -> anyhow::Result<Alias> {
    consent::require_terminal()?;
    let alias = id_prefix::complete(sessions, &flags.session.id).await?;
    let row = sessions.find(&alias, Pin::Head).await.map_err(explain::explained(&alias))?;
    consent::ask(&question(&flags.session.id, &row, flags.children))?;
    // The conversation's id can never lead to another conversation.
    Ok(Alias::parse(&row.facts.id.to_string())?)
}

fn question(typed: &Alias, row: &ConversationRow, children: Children) -> String {
    let title = row.title.as_deref().map(|title| format!(" ({})", excerpt::line(title, TITLE))).unwrap_or_default();
    let more = match children {
        Children::Keep => "",
        Children::Delete => " and all that came from it",
    };
    format!("delete {typed}{title} with its {} messages{more}, for good?", row.message_count)
}
