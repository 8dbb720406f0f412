//! `herma sessions delete`: asks first, because a deletion cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::bail;
use herma_gateway::{GatewayError, Sessions};
use herma_model::Alias;
use herma_store::{Children, ConversationRow, Pin};
use herma_wire::resource::DeletedSession;

use super::{explain, id_prefix};
use crate::arguments::DeleteFlags;
use crate::failure::Misuse;
use crate::{excerpt, output};

/// The most characters of a title.
const TITLE: usize = 40;

/// Deletes a conversation, alone or with its descendants.
pub(super) async fn delete(sessions: &Sessions<'_>, flags: &DeleteFlags) -> anyhow::Result<()> {
    let alias = if flags.yes { flags.session.id.clone() } else { confirmed(sessions, flags).await? };
    let id = match sessions.delete(&alias, flags.children).await {
        Ok(id) => id,
        Err(GatewayError::NotFound(_)) if flags.yes => {
            let context = "with --yes it has to be named whole, not by a short id or a beginning";
            return Err(explain::unknown(&alias).context(context));
        }
        Err(error) => return Err(explain::explained(&alias)(error)),
    };
    if flags.session.shared.json {
        output::answer(&serde_json::to_string(&DeletedSession::new(id))?)?;
    } else {
        output::note(&format!("{alias} is deleted"));
    }
    Ok(())
}

/// The conversation that the user confirmed. Only here can the beginning of an id name it. A script that deletes `trip`
/// twice must not delete `trip-by-train` the second time.
async fn confirmed(sessions: &Sessions<'_>, flags: &DeleteFlags) -> anyhow::Result<Alias> {
    if !io::stdin().is_terminal() {
        return Err(Misuse("nobody can be asked here; to delete it without a question, add --yes".to_owned()).into());
    }
    let alias = id_prefix::complete(sessions, &flags.session.id).await?;
    let row = sessions.find(&alias, Pin::Head).await.map_err(explain::explained(&alias))?;
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
