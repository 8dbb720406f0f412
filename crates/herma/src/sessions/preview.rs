//! Prints a dry run of a compaction: what would be kept, summarised and written.

use herma_gateway::Preview;
use herma_model::Message;
use herma_wire::chat::shown_text;
use herma_wire::resource::CompactionPreview;

use crate::{excerpt, output};

/// Prints a preview, for people or as JSON.
pub(super) fn print(preview: &Preview, json: bool) -> anyhow::Result<()> {
    if json {
        output::answer(&serde_json::to_string(&CompactionPreview::from(preview))?)?;
    } else {
        output::answer(&as_text(preview))?;
        output::note("nothing was changed; to do it, leave out --dry-run (the summary is then made anew)");
    }
    Ok(())
}

fn as_text(preview: &Preview) -> String {
    let Preview { first, through, summarised, sizes, .. } = preview;
    let mut lines = vec![format!("summarised: {summarised} messages, from {} to {}", first.0, through.0)];
    lines.push(format!("kept word for word: {} messages", preview.carried.len() + preview.kept.len()));
    let line = |message: &Message| format!("  {} {}", message.seq.0, excerpt::of(message));
    lines.extend(preview.carried.iter().map(|message| format!("{} (summarised too)", line(message))));
    lines.extend(preview.kept.iter().map(|message| line(message)));
    let model = preview.model.as_deref().map(|name| format!(" by {name}")).unwrap_or_default();
    lines.push(format!("written{model} ({}):", preview.mode.as_str()));
    let summary = output::printable(&shown_text(&preview.summary).unwrap_or_default());
    lines.extend(summary.lines().map(|line| format!("  {line}").trim_end().to_owned()));
    lines.push(format!("about {} → {} tokens", sizes.before, sizes.after));
    lines.join("\n")
}
