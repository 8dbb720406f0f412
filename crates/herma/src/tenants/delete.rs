//! `herma tenants delete`: erases everything of a tenant, its API keys included.

use std::process::ExitCode;

use anyhow::bail;
use herma_config::Overrides;
use herma_gateway::access::DEFAULT_TENANT;
use herma_gateway::now;
use herma_model::{KeyScope, Principal};
use herma_store::erasure::ERASED_TENANT;
use herma_store::{AskedBy, EraseOutcome, Erasure, Scope, Store, TenantName};

use crate::arguments::{Common, DeleteTenantFlags};
use crate::{consent, logging, receipt, setup};

/// Deletes a tenant after a question.
pub(crate) fn run(common: Common, flags: &DeleteTenantFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    if !flags.yes {
        consent::require_terminal()?;
    }
    setup::on_this_thread(async {
        let Some(store) = setup::open_existing_store(&config)? else {
            bail!("there is no store at {} yet; check --data and --store", config.store.url);
        };
        let outcome = delete(&*store, flags).await;
        store.close().await;
        outcome.map(|()| ExitCode::SUCCESS)
    })
}

async fn delete(store: &dyn Store, flags: &DeleteTenantFlags) -> anyhow::Result<()> {
    let name = &flags.name;
    let is_known = store.tenants().await?.iter().any(|known| **known == **name);
    let Some(tenant) = store.find_tenant(name).await?.filter(|_| is_known) else {
        bail!("there is no tenant {name}; `herma tenants list` shows them");
    };
    if !flags.yes {
        consent::ask(&format!("delete tenant {name} with its keys and all its conversations, for good?"))?;
    }
    // HERMA_API_KEY stands for the default tenant, so that one stays, empty.
    let stays = if name == DEFAULT_TENANT { TenantName::Keep } else { TenantName::Forget };
    let scope = Scope { tenant, keys: KeyScope::All, expected: None };
    match store.erase(&scope, Erasure::Tenant(stays), AskedBy(None), now()).await? {
        EraseOutcome::Erased(erased) => {
            let reader = Principal::operator(ERASED_TENANT, "".into());
            receipt::print(store, &reader, erased, &format!("tenant {name}"), flags.print.json).await
        }
        EraseOutcome::Busy(turn) => bail!("{turn} is running for this tenant; wait until it ends, then try again"),
        EraseOutcome::NotFound => bail!("there is no tenant {name}; `herma tenants list` shows them"),
    }
}
