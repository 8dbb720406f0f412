//! `herma tools grants`: what people allowed for longer than one call.

use std::process::ExitCode;

use herma_config::Config;
use herma_model::ApprovalChoice;
use herma_store::Grant;
use herma_wire::resource::rfc3339;
use serde_json::{Value, json};

use crate::arguments::GrantsFlags;
use crate::sessions::local_store;
use crate::table::Table;
use crate::terminal::Stream;
use crate::{output, setup, short_id, table};

/// Lists what was allowed, oldest first.
pub(super) async fn run(config: &Config, flags: &GrantsFlags) -> anyhow::Result<ExitCode> {
    let grants = match setup::open_existing_store(config)? {
        Some(store) => {
            let tenant = match &flags.tenant {
                Some(name) => Some(local_store::tenant(&*store, name).await?),
                None => None,
            };
            let grants = store.grants(tenant).await?;
            store.close().await;
            grants
        }
        None => Vec::new(),
    };
    if flags.json {
        output::answer(&Value::Array(grants.iter().map(json).collect()).to_string())?;
    } else if grants.is_empty() {
        output::note("nothing was allowed for longer than one call");
    } else {
        let rows: Vec<_> = grants.iter().map(row).collect();
        let table = Table::new(["TOOL", "FOR", "TENANT", "SINCE"])
            .cutting("FOR")
            .cutting("TENANT")
            .sparing("SINCE")
            .sparing("TENANT");
        output::answer(&table.layout(&rows, Stream::Stdout))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The name by which a granted tool is shown and revoked.
pub(super) fn name(grant: &Grant) -> String {
    format!("{}.{}", grant.server, grant.tool)
}

fn choice(grant: &Grant) -> ApprovalChoice {
    if grant.conversation.is_some() { ApprovalChoice::Session } else { ApprovalChoice::Always }
}

fn row(grant: &Grant) -> [String; 4] {
    let word = choice(grant).as_str();
    let held = grant.conversation.map(|conversation| format!("{word} {}", short_id::of(conversation)));
    let held = held.unwrap_or_else(|| word.to_owned());
    [output::printable(&name(grant)), held, grant.tenant_name.to_string(), table::minute(grant.created_at)]
}

/// A grant that holds for the whole tenant has no `conversation_id`.
fn json(grant: &Grant) -> Value {
    let mut object = json!({
        "tenant": &*grant.tenant_name,
        "server": &*grant.server,
        "tool": &*grant.tool,
        "choice": choice(grant).as_str(),
        "created_at": rfc3339(grant.created_at),
    });
    if let Some(conversation) = grant.conversation {
        object["conversation_id"] = json!(conversation.to_string());
    }
    object
}
