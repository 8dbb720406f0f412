//! `herma keys revoke`: revokes a key, named by its short id, its id, or a unique beginning of it.

use std::process::ExitCode;

use anyhow::bail;
use herma_config::Overrides;
use herma_gateway::now;
use herma_store::ApiKeyRow;

use super::list::as_table;
use crate::arguments::{Common, RevokeFlags};
use crate::{logging, output, setup, short_id};

/// Revokes a key. A key that was revoked before is not an error.
pub(crate) fn run(common: Common, flags: &RevokeFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(async {
        let Some(store) = setup::open_existing_store(&config)? else {
            bail!("there is no store at {} yet, and so no key", config.store.url);
        };
        let keys = store.keys().await?;
        let key = find(&keys, &flags.id)?;
        let revoked = store.revoke_key(key.id, now()).await?;
        store.close().await;
        let tenant = &key.tenant_name;
        output::note(&match revoked {
            true => format!("{} of tenant {tenant} is revoked; running servers notice within a second", key.id),
            false => format!("{} of tenant {tenant} was revoked before", key.id),
        });
        Ok(ExitCode::SUCCESS)
    })
}

fn find<'a>(keys: &'a [ApiKeyRow], asked: &str) -> anyhow::Result<&'a ApiKeyRow> {
    let found: Vec<_> = keys.iter().filter(|key| short_id::names(asked, key.id)).collect();
    match *found.as_slice() {
        [key] => Ok(key),
        [] => bail!("no key is known by {asked:?}; `herma keys list` shows them"),
        _ => {
            let candidates: Vec<_> = found.into_iter().cloned().collect();
            bail!("several keys fit {asked}, and nothing was revoked:\n{}", as_table(&candidates));
        }
    }
}
