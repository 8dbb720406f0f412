//! `herma config`: prints what is configured, and the file it was read from.

use std::process::ExitCode;

use herma_config::Overrides;

use crate::arguments::{Common, ConfigFlags};
use crate::{output, setup};

/// Prints the configuration as TOML that can be read back.
pub(crate) fn run(common: Common, flags: &ConfigFlags) -> anyhow::Result<ExitCode> {
    let loaded = setup::load(common, Overrides::default())?;
    match &loaded.source_file {
        Some(file) => output::note(&format!("read from {}", file.display())),
        None => output::note("no configuration file; defaults and variables apply"),
    }
    output::note(&format!("the data directory is {}", loaded.config.data_dir.display()));
    output::notices(&loaded.notices);
    let toml = if flags.all { loaded.config.to_whole_toml() } else { loaded.config.to_toml() };
    match toml.trim() {
        "" => output::note("nothing differs from the defaults; --all shows every setting"),
        toml => output::answer(toml)?,
    }
    Ok(ExitCode::SUCCESS)
}
