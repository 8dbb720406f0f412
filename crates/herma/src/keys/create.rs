//! `herma keys create`: prints only the key on stdout, so that a script can read it.

use std::process::ExitCode;

use herma_config::Overrides;
use herma_gateway::access;

use crate::arguments::{Common, CreateFlags};
use crate::{logging, output, setup};

/// Makes a key and prints it. It is never shown again.
pub(crate) fn run(common: Common, flags: &CreateFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(async {
        let store = setup::open_store(&config)?;
        let scope = flags.session_keys.clone().unwrap_or_default();
        let key = access::create_key(&*store, &flags.tenant, scope).await?;
        store.close().await;
        output::answer(&key.secret)?;
        output::note(&format!(
            "{} of tenant {}; it is shown only now. Clients send it as `Authorization: Bearer KEY`",
            key.id, flags.tenant
        ));
        Ok(ExitCode::SUCCESS)
    })
}
