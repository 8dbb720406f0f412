//! `herma config`: prints the effective configuration, and the file it was read from.

use std::process::ExitCode;

use herma_config::Overrides;

use crate::arguments::Common;
use crate::{output, setup};

/// Prints the configuration as TOML that can be read back.
pub(crate) fn run(common: Common) -> anyhow::Result<ExitCode> {
    let loaded = setup::load(common, Overrides::default())?;
    match &loaded.source_file {
        Some(file) => output::note(&format!("read from {}", file.display())),
        None => output::note("no configuration file; defaults and variables apply"),
    }
    output::notices(&loaded.notices);
    output::answer(loaded.config.to_toml().trim_end())?;
    Ok(ExitCode::SUCCESS)
}
