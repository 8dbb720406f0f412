//! The user's data directory, by the conventions of each operating system.

use std::path::PathBuf;

use super::environment::Environment;
use crate::error::ConfigError;

/// The operating system whose conventions apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Unix,
    MacOs,
    Windows,
}

const CURRENT: System = if cfg!(target_os = "macos") {
    System::MacOs
} else if cfg!(windows) {
    System::Windows
} else {
    System::Unix
};

/// The directory for Herma's data if the operator names none.
pub(crate) fn default_data_dir(environment: &Environment) -> Result<PathBuf, ConfigError> {
    data_dir_on(CURRENT, environment)
}

fn data_dir_on(system: System, environment: &Environment) -> Result<PathBuf, ConfigError> {
    let directory = |name: &'static str| {
        environment.get(name).map(PathBuf::from).ok_or(ConfigError::NoDataDirectory { missing: name })
    };
    match system {
        System::Unix => match environment.get("XDG_DATA_HOME") {
            // The XDG specification says that relative paths are ignored.
            Some(path) if path.starts_with('/') => Ok(PathBuf::from(path).join("herma")),
            _ => Ok(directory("HOME")?.join(".local/share/herma")),
        },
        System::MacOs => Ok(directory("HOME")?.join("Library/Application Support/herma")),
        System::Windows => Ok(directory("APPDATA")?.join("herma")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_its_place_for_data() {
        let home = ("HOME", "/home/ada");
        for (system, variables, expected) in [
            (System::Unix, vec![home], Ok("/home/ada/.local/share/herma")),
            (System::Unix, vec![home, ("XDG_DATA_HOME", "/data")], Ok("/data/herma")),
            (System::Unix, vec![home, ("XDG_DATA_HOME", "data")], Ok("/home/ada/.local/share/herma")),
            (System::Unix, vec![], Err("no data directory: HOME is not set; name one with --data or HERMA_DATA")),
            (System::MacOs, vec![home], Ok("/home/ada/Library/Application Support/herma")),
            (System::Windows, vec![("APPDATA", "/Roaming")], Ok("/Roaming/herma")),
        ] {
            let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            let directory = data_dir_on(system, &Environment::new(variables)).map_err(|error| error.to_string());
            assert_eq!(directory, expected.map(PathBuf::from).map_err(str::to_owned), "{system:?}");
        }
    }
}
