//! `herma doctor`: prints one line per check, with what to do. It repairs nothing and makes no store.
//!
//! - [`check`]: the result of a check.
//! - [`data`]: the data directory and its files.
//! - [`store`]: the store and its keys.
//! - [`network`]: the address to listen on.
//! - [`model_servers`]: each model server. [`memory`]: the outside memory provider.

mod check;
mod data;
mod memory;
mod model_servers;
mod network;
mod store;

use std::process::ExitCode;

use herma_config::{Config, ConfigError, Loaded, Overrides};
use serde_json::json;

use self::check::{Check, Status};
use crate::arguments::{Common, PrintFlags};
use crate::{logging, output, setup};

const CONFIGURATION: &str = "configuration";

/// Runs and prints all checks. Exit code 1 if there is a problem.
pub(crate) fn run(common: Common, flags: &PrintFlags) -> anyhow::Result<ExitCode> {
    let checks = match setup::load(common, Overrides::default()) {
        Ok(loaded) => setup::on_this_thread(async { Ok(all(&loaded).await) })?,
        Err(error) => mistakes(&error),
    };
    let problems = checks.iter().filter(|check| check.status == Status::Problem).count();
    if flags.json {
        output::answer(&json!({ "problems": problems, "checks": checks }).to_string())?;
    } else {
        output::answer(&check::layout(&checks))?;
        let warnings = checks.iter().filter(|check| check.status == Status::Warning).count();
        output::note(&found(problems, warnings));
    }
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many problems and warnings were found, in words.
fn found(problems: usize, warnings: usize) -> String {
    let problems = match problems {
        0 => "no problem found".to_owned(),
        1 => "1 problem found".to_owned(),
        many => format!("{many} problems found"),
    };
    match warnings {
        0 => problems,
        1 => format!("{problems}, and 1 warning"),
        many => format!("{problems}, and {many} warnings"),
    }
}

/// One check for each mistake of the configuration.
fn mistakes(error: &anyhow::Error) -> Vec<Check> {
    match error.downcast_ref::<ConfigError>() {
        Some(error) => {
            error.mistakes().iter().map(|mistake| Check::problem(CONFIGURATION, mistake.to_string())).collect()
        }
        None => vec![Check::problem(CONFIGURATION, error.to_string())],
    }
}

async fn all(loaded: &Loaded) -> Vec<Check> {
    let Loaded { config, .. } = loaded;
    let mut checks = configuration(loaded);
    let data = data::checks(&config.data_dir);
    let can_be_made = data.iter().all(|check| check.status != Status::Problem);
    checks.extend(data);
    checks.extend(store::checks(config, can_be_made).await);
    checks.push(network::listen(config).await);
    checks.extend(model_servers::checks(config).await);
    checks.extend(memory::check(config).await);
    checks
}

fn configuration(loaded: &Loaded) -> Vec<Check> {
    const NAME: &str = CONFIGURATION;
    let Config { telemetry, .. } = &loaded.config;
    let mut checks = vec![match &loaded.source_file {
        Some(file) => Check::ok(NAME, format!("{} is read", file.display())),
        None => Check::ok(NAME, "no file; defaults and variables apply"),
    }];
    checks.extend(loaded.notices.iter().map(|notice| Check::warning(NAME, notice)));
    checks.extend(logging::filter(&telemetry.log).err().map(|error| Check::problem(NAME, error.to_string())));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_problems_and_warnings() {
        for (problems, warnings, line) in [
            (0, 0, "no problem found"),
            (0, 1, "no problem found, and 1 warning"),
            (1, 0, "1 problem found"),
            (2, 3, "2 problems found, and 3 warnings"),
        ] {
            assert_eq!(found(problems, warnings), line);
        }
    }
}
