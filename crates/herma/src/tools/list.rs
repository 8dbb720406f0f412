//! `herma tools list`: the tools that turns are offered.

use std::process::ExitCode;

use herma_config::Config;
use herma_gateway::{BuiltIn, rows};
use herma_tools::ToolRow;

use super::start::{problems, start};
use crate::arguments::ToolsListFlags;
use crate::table::Table;
use crate::terminal::Stream;
use crate::{excerpt, output, setup};

/// The most characters of a description.
const DESCRIPTION: usize = 60;

/// Starts the servers and lists their tools, after the built-in ones. A failed server is a row and a sentence.
pub(super) async fn run(config: &Config, flags: &ToolsListFlags) -> anyhow::Result<ExitCode> {
    let built_in = setup::tool_settings(&config.tools).built_in;
    if built_in.is_empty() && config.tools.mcp.is_empty() {
        if flags.json {
            output::answer("[]")?;
        }
        output::note("no tools are configured; `herma tools --help` shows how");
        return Ok(ExitCode::SUCCESS);
    }
    let started = start(config, &flags.audience).await;
    let rows: Vec<ToolRow> = built_in.into_iter().map(BuiltIn::row).chain(started.rows).collect();
    let shown: Vec<_> = rows.iter().map(rows::tool).collect();
    if flags.json {
        output::answer(&serde_json::to_string(&shown)?)?;
    } else {
        let cells: Vec<_> = shown.iter().map(cells).collect();
        let table = Table::new(["NAME", "SERVER", "APPROVAL", "STATUS", "DESCRIPTION"])
            .cutting("DESCRIPTION")
            .sparing("SERVER")
            .sparing("DESCRIPTION")
            .sparing("APPROVAL");
        output::answer(&table.layout(&cells, Stream::Stdout))?;
    }
    for problem in problems(&rows) {
        output::note(&problem);
    }
    started.toolbox.close().await;
    Ok(ExitCode::SUCCESS)
}

fn cells(row: &herma_wire::resource::ToolRow<'_>) -> [String; 5] {
    [
        row.name.unwrap_or("-").to_owned(),
        output::printable(row.server),
        row.approval.unwrap_or("-").to_owned(),
        row.status.to_owned(),
        row.description.map(|text| excerpt::line(text, DESCRIPTION)).unwrap_or_default(),
    ]
}
