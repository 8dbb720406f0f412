//! Starts the MCP servers of the configuration, and waits for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use herma_config::Config;
use herma_tools::{Audience, Status, ToolRow, Toolbox};
use tokio::time::Instant;

use crate::arguments::AudienceFlags;
use crate::{output, setup};

/// How long servers get to start.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How often a starting server is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often people are told which servers still start.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// The servers, and what turns of an audience see of them.
pub(super) struct Started {
    pub(super) toolbox: Arc<Toolbox>,
    /// The rows when all servers had started or failed, or when the time was over.
    pub(super) rows: Vec<ToolRow>,
}

/// Starts the servers that an audience may use. Tells on stderr what it waits for.
pub(super) async fn start(config: &Config, flags: &AudienceFlags) -> Started {
    let toolbox = Toolbox::new(setup::tool_servers(&config.tools));
    let audience = audience(flags);
    let began = Instant::now();
    let mut told = began;
    // This starts the servers and would wait for them. A start goes on without it, and the loop tells the progress.
    let _ = tokio::time::timeout(LOOK_EVERY, toolbox.rows(audience, true)).await;
    let rows = loop {
        let rows = toolbox.rows(audience, false).await;
        let waiting = starting_labels(&rows);
        if waiting.is_empty() || began.elapsed() >= START_LIMIT {
            break rows;
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            output::note(&format!("waiting for {} to start", waiting.join(", ")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    Started { toolbox, rows }
}

/// Whose turns the flags mean.
pub(super) fn audience(flags: &AudienceFlags) -> Audience<'_> {
    Audience { tenant: &flags.tenant, session_key: flags.session_key.as_ref().map(|key| key.as_str()) }
}

/// A sentence for each server that failed or has not started in time.
pub(super) fn problems(rows: &[ToolRow]) -> Vec<String> {
    let problem = |row: &ToolRow| match &row.status {
        Status::Ready => None,
        Status::Failed(why) => Some(format!("{} failed: {}", label(row), output::printable(why))),
        Status::Idle => Some(format!("{} ended; the next turn that may use it starts it again", label(row))),
        Status::Starting => Some(format!(
            "{} has not started within {} seconds; turns go on without it until it has",
            label(row),
            START_LIMIT.as_secs()
        )),
    };
    rows.iter().filter_map(problem).collect()
}

fn label(row: &ToolRow) -> String {
    output::printable(&row.server)
}

fn starting_labels(rows: &[ToolRow]) -> Vec<String> {
    let starting = rows.iter().filter(|row| row.status == Status::Starting);
    starting.map(label).collect::<BTreeSet<String>>().into_iter().collect()
}
