//! `herma tools call`: one call, made by the operator.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use herma_config::Config;
use herma_gateway::BuiltIn;
use herma_tools::{Approval, CallEnd, Tool};
use serde_json::Value;

use super::start::{Started, audience, problems, start};
use crate::arguments::ToolsCallFlags;
use crate::failure::Misuse;
use crate::output;

/// Calls a tool and prints its result. Nobody is asked for approval; denied tools are refused.
pub(super) async fn run(config: &Config, flags: &ToolsCallFlags) -> anyhow::Result<ExitCode> {
    match serde_json::from_str(&flags.arguments) {
        Ok(Value::Object(_)) => {}
        Ok(_) => {
            return Err(Misuse("the arguments must be a JSON object, such as '{\"path\":\"x\"}'".to_owned()).into());
        }
        Err(error) => return Err(Misuse(format!("the arguments are not JSON: {error}")).into()),
    }
    if BuiltIn::parse(&flags.name).is_some() {
        bail!("{} is built in and works within a turn only; ask a model to use it, with `herma chat`", flags.name);
    }
    let started = start(config, &flags.audience).await;
    let outcome = match find(&started, flags) {
        Ok(tool) => print(started.toolbox.call(&tool, &flags.arguments).await),
        Err(error) => Err(error),
    };
    started.toolbox.close().await;
    outcome
}

fn find(started: &Started, flags: &ToolsCallFlags) -> anyhow::Result<Arc<Tool>> {
    let name = &flags.name;
    match started.toolbox.find(audience(&flags.audience), name) {
        Some(tool) if tool.approval == Approval::Deny => Err(anyhow!(
            "{name} is denied by `approval` or `approvals` of [tools.mcp.{}]; change that to call it",
            tool.server
        )),
        Some(tool) => Ok(tool),
        None => {
            let problems: String = problems(&started.rows).iter().map(|problem| format!("\n{problem}")).collect();
            Err(anyhow!("there is no tool {name}; `herma tools list` shows the tools there are{problems}"))
        }
    }
}

fn print(end: CallEnd) -> anyhow::Result<ExitCode> {
    match end {
        CallEnd::Result { text, is_error: false } => {
            output::piece(text.trim_end_matches('\n'))?;
            output::piece("\n")?;
            Ok(ExitCode::SUCCESS)
        }
        CallEnd::Result { text, is_error: true } => bail!("the tool failed: {}", output::printable(text.trim_end())),
        CallEnd::NotMade(why) => bail!("the call was not made: {}", output::printable(&why)),
        CallEnd::Uncertain(why) => {
            bail!("it is not known whether the call was carried out: {}", output::printable(&why))
        }
    }
}
