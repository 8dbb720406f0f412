//! `herma sessions delete`: asks first, because a deletion cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::bail;
use herma_gateway::now;
use herma_model::Alias;
use herma_store::{Children, ConversationRow, DeleteOutcome, Pin, Scope, Store};

use herma_wire::resource::DeletedSession;

use super::{id_prefix, local_store};
use crate::arguments::DeleteFlags;
use crate::failure::Misuse;
use crate::{excerpt, output};

/// The most characters of a title.
const TITLE: usize = 40;

/// Deletes a conversation, alone or with its descendants.
pub(super) async fn delete(store: &dyn Store, scope: &Scope, flags: &DeleteFlags) -> anyhow::Result<()> {
    let alias = if flags.yes { flags.session.id.clone() } else { confirmed(store, scope, flags).await? };
    match store.delete(scope, &alias, flags.children, now()).await? {
        DeleteOutcome::Deleted(id) if flags.session.shared.json => {
            output::answer(&serde_json::to_string(&DeletedSession::new(id))?)?;
            Ok(())
        }
        DeleteOutcome::Deleted(_) => {
            output::note(&format!("{alias} is deleted"));
            Ok(())
        }
        DeleteOutcome::Busy(running) => Err(local_store::busy(&alias, running)),
        DeleteOutcome::NotFound if flags.yes => Err(local_store::unknown(&alias)
            .context("with --yes it has to be named whole, not by a short id or a beginning")),
        DeleteOutcome::NotFound => Err(local_store::unknown(&alias)),
    }
}

/// The conversation that the user confirmed. Only here can the beginning of an id name it. A script that deletes `trip`
/// twice must not delete `trip-by-train` the second time.
async fn confirmed(store: &dyn Store, scope: &Scope, flags: &DeleteFlags) -> anyhow::Result<Alias> {
    if !io::stdin().is_terminal() {
        return Err(Misuse("nobody can be asked here; to delete it without a question, add --yes".to_owned()).into());
    }
    let alias = id_prefix::complete(store, scope, &flags.session.id).await?;
    let row = store.conversation(scope, &alias, Pin::Head).await?.ok_or_else(|| local_store::unknown(&alias))?;
    let mut stderr = io::stderr().lock();
    write!(stderr, "{} [y/N] ", question(&row, flags.children))?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    if !is_yes(&line) {
        bail!("nothing was deleted");
    }
    // The conversation's id can never lead to another conversation.
    Ok(Alias::parse(&row.facts.id.to_string())?)
}

/// Anything else is a no, also the end of the input.
fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

fn question(row: &ConversationRow, children: Children) -> String {
    let title = row.title.as_deref().map(|title| format!(" ({})", excerpt::line(title, TITLE))).unwrap_or_default();
    let more = match children {
        Children::Keep => "",
        Children::Delete => " and all that came from it",
    };
    format!("delete {}{title} with its {} messages{more}, for good?", row.session.id, row.message_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (line, confirmed) in
            [("y\n", true), (" YES \r\n", true), ("", false), ("\n", false), ("yo\n", false), ("n\n", false)]
        {
            assert_eq!(is_yes(line), confirmed, "{line:?}");
        }
    }
}
