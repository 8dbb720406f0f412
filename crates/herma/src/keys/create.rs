//! `herma keys create`: prints only the key on stdout, so that a script can read it.

use std::process::ExitCode;
use std::time::Duration;

use herma_config::Overrides;
use herma_gateway::access::{self, KeyGrant};
use herma_gateway::now;
use herma_model::{KeyLimits, Timestamp};

use crate::arguments::{Common, CreateFlags};
use crate::{logging, output, setup};

/// Makes a key and prints it. It is never shown again.
pub(crate) fn run(common: Common, flags: &CreateFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(async {
        let store = setup::open_store(&config)?;
        let key = access::create_key(&*store, grant(flags)).await?;
        store.close().await;
        output::answer(&key.secret)?;
        output::note(&format!(
            "{} of tenant {}; it is shown only now. Clients send it as `Authorization: Bearer KEY`",
            key.id, flags.tenant
        ));
        Ok(ExitCode::SUCCESS)
    })
}

fn grant(flags: &CreateFlags) -> KeyGrant {
    let end = |time: Duration| Timestamp(now().0.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)));
    KeyGrant {
        tenant: flags.tenant.clone(),
        session_keys: flags.session_keys.clone().unwrap_or_default(),
        limits: KeyLimits {
            read_only: flags.read_only,
            expires_at: flags.expires.map(end),
            rate: flags.rate,
            max_turns: flags.max_turns,
        },
    }
}
