//! `herma tools revoke`: takes back what people allowed for longer than one call.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::bail;
use herma_config::Config;
use herma_store::Grant;

use super::grants;
use crate::arguments::RevokeToolFlags;
use crate::sessions::local_store;
use crate::{output, setup};

/// Revokes the grants of a tool, or of all tools of a server.
pub(super) async fn run(config: &Config, flags: &RevokeToolFlags) -> anyhow::Result<ExitCode> {
    let Some(store) = setup::open_existing_store(config)? else {
        bail!("there is no store at {} yet, and so nothing was allowed", config.store.url);
    };
    let tenant = local_store::tenant(&*store, &flags.tenant).await?;
    let granted = store.grants(Some(tenant)).await?;
    let meant = granted.iter().filter(|grant| is_meant(grant, &flags.name));
    let tools: BTreeSet<(&str, &str)> = meant.map(|grant| (&*grant.server, &*grant.tool)).collect();
    let mut revoked = 0;
    for (server, tool) in tools {
        revoked += store.revoke_grants(tenant, server, tool).await?;
    }
    store.close().await;
    match revoked {
        0 => bail!("nothing was allowed for {}; `herma tools grants` shows what was", flags.name),
        1 => output::note("1 grant is revoked; the next call asks again"),
        many => output::note(&format!("{many} grants are revoked; the next calls ask again")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the text names the tool or its server. Tools have the name that `grants` shows and the one that models see.
fn is_meant(grant: &Grant, text: &str) -> bool {
    let offered = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
    };
    let is_offered_name = || text == format!("{}__{}", offered(&grant.server), offered(&grant.tool));
    *grant.server == *text || grants::name(grant) == text || is_offered_name()
}
