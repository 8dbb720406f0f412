//! The configuration as an operator sees it: files, variables and flags in, values and messages out.

mod effective;
mod environment;
mod model_servers;
mod otel;
mod precedence;
mod refusals;

use std::fs;

use herma_config::{Loaded, Overrides, load};

/// Loads with this text as the only `herma.toml`. Messages show the data directory as `DATA`.
fn load_with(toml: &str, variables: &[(&str, &str)], overrides: Overrides) -> Result<Loaded, String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    fs::write(data.path().join("herma.toml"), toml).map_err(|error| error.to_string())?;
    let env = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    load(env, Overrides { data: Some(data.path().to_owned()), ..overrides })
        .map_err(|error| error.to_string().replace(&data.path().display().to_string(), "DATA"))
}

fn load_file(toml: &str) -> Result<Loaded, String> {
    load_with(toml, &[], Overrides::default())
}

fn load_env(variables: &[(&str, &str)]) -> Result<Loaded, String> {
    load_with("", variables, Overrides::default())
}
