//! Prints the receipt of an erasure, when no file has the text any more.

use std::time::{Duration, Instant};

use herma_gateway::rows;
use herma_model::Principal;
use herma_store::{AskedBy, ErasureReceipt, Scope, Store};

use crate::output;

/// How long a command waits until no file has the text. Other processes may read for longer.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until nothing is pending, or until patience is up, and prints the receipt.
pub(crate) async fn print(
    store: &dyn Store,
    reader: &Principal,
    receipt: ErasureReceipt,
    what: &str,
    json: bool,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut now = receipt;
    while now.pending > 0 && began.elapsed() < PATIENCE {
        tokio::time::sleep(PAUSE).await;
        let read = store.erasure(&Scope::of(reader), AskedBy(reader.key), receipt.id).await?;
        now = read.unwrap_or(now);
    }
    let receipt = ErasureReceipt { conversation: receipt.conversation, ..now };
    if json {
        output::answer(&serde_json::to_string(&rows::erasure(&receipt))?)?;
    } else {
        words(&receipt, what).iter().for_each(|line| output::note(line));
    }
    Ok(())
}

fn words(receipt: &ErasureReceipt, what: &str) -> Vec<String> {
    let removed = &receipt.removed;
    let mut lines = vec![format!(
        "{what} is deleted: {}, {}, {}",
        counted(removed.conversations, "conversation"),
        counted(removed.messages, "message"),
        counted(removed.turns, "turn"),
    )];
    if receipt.kept > 0 {
        lines.push(format!("kept, because branches inherit them: {}", counted(receipt.kept, "message")));
    }
    if receipt.left > 0 {
        lines.push(format!("a second look still found {}; please report this", counted(receipt.left, "row")));
    }
    lines.push(match receipt.pending {
        0 => "no file has the text any more".to_owned(),
        _ => format!(
            "files or an outside memory provider may still have the text for a while; GET /api/erasures/{} tells",
            receipt.id
        ),
    });
    lines
}

fn counted(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
