//! `herma tenants list`: the names of all tenants.

use std::process::ExitCode;

use herma_config::Overrides;
use serde_json::json;

use crate::arguments::{Common, PrintFlags};
use crate::{logging, output, setup};

/// Lists the tenants, oldest first.
pub(crate) fn run(common: Common, flags: &PrintFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(async {
        let mut names = Vec::new();
        if let Some(store) = setup::open_existing_store(&config)? {
            names = store.tenants().await?;
            store.close().await;
        }
        if flags.json {
            output::answer(
                &json!(names.iter().map(|name| json!({ "name": &**name })).collect::<Vec<_>>()).to_string(),
            )?;
        } else if names.is_empty() {
            output::note("there are no tenants; `herma keys create --tenant NAME` makes one");
        }
        for name in names.iter().filter(|_| !flags.json) {
            output::answer(name)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
