//! Loads the configuration from all sources.

use std::path::{Path, PathBuf};

use super::data_dir::default_data_dir;
use super::environment::Environment;
use super::file;
use super::notices::notices;
use super::otel;
use super::overrides::Overrides;
use crate::config::Config;
use crate::error::{ConfigError, Origin};
use crate::reading::given::GivenValue;
use crate::reading::section::Section;
use crate::reading::setting::Setting;
use crate::values::secret::Secret;

/// A configuration and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The effective configuration.
    pub config: Config,
    /// The file that was read, if any.
    pub source_file: Option<PathBuf>,
    /// Lines for the operator at start-up: settings that have no effect yet, and unknown variables.
    pub notices: Vec<String>,
}

/// Reads the configuration from flags, the given variables, and at most one file.
///
/// A file that a flag or variable names must exist. If none is named, it is `herma.toml` in the data directory, else
/// in the working directory. The data directory need not exist and is not created.
pub fn load(env: impl IntoIterator<Item = (String, String)>, overrides: Overrides) -> Result<Loaded, ConfigError> {
    let environment = Environment::new(env);
    let path_from = |name| environment.get(name).map(PathBuf::from);
    let data_dir = match overrides.data.clone().or_else(|| path_from("HERMA_DATA")) {
        Some(directory) => directory,
        None => default_data_dir(&environment)?,
    };
    let named = overrides.config_file.clone().or_else(|| path_from("HERMA_CONFIG"));
    let (source_file, table) = file::read(named, &data_dir, Path::new(""))?.unzip();

    let (mut texts, mut lines) = environment.settings();
    overrides.apply_to(&mut texts);
    let origin = source_file.clone().unwrap_or_else(|| PathBuf::from(file::NAME));
    let mut document = Section::document(origin, table.unwrap_or_default(), texts);
    let mut config = Config::read(&mut document, data_dir, api_key(&environment)?);
    let set = document.finish()?;
    lines.extend(otel::apply(&environment, &mut config.telemetry, &set));
    lines.extend(notices(&config, &set));
    Ok(Loaded { config, source_file, notices: lines })
}

fn api_key(environment: &Environment) -> Result<Option<Secret>, ConfigError> {
    const NAME: &str = "HERMA_API_KEY";
    let Some(text) = environment.get(NAME) else { return Ok(None) };
    let given = GivenValue::Text(text.to_owned());
    Secret::read(&given).map(Some).map_err(|_| ConfigError::InvalidValue {
        key: NAME.to_owned(),
        origin: Origin::Variable(NAME.to_owned()),
        value: Secret::show(&given),
        allowed: Secret::ALLOWED.to_owned(),
    })
}
