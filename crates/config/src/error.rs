//! Why a configuration was refused. Each message names the setting, where it came from, and what to do.
//!
//! No variant holds a secret. The caller redacts a value before it puts it into an error.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A key of this configuration file.
    File(PathBuf),
    /// This environment variable.
    Variable(String),
    /// This command-line flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "in {}", path.display()),
            Self::Variable(name) => write!(f, "from {name}"),
            Self::Flag(name) => write!(f, "from {name}"),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {}: {source}; check that it exists and may be read, \
             or name another with --config or HERMA_CONFIG", path.display())]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("{} is not valid TOML at line {line}, column {column}: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The parser's message, without the text of the file.
        problem: String,
    },
    /// There is no such section.
    #[error("unknown section [{name}] ({origin}); {advice}")]
    UnknownSection {
        /// The section's name as given.
        name: String,
        /// Where it was given.
        origin: Origin,
        /// The nearest section, or all of them.
        advice: String,
    },
    /// There is no such key.
    #[error("unknown setting `{key}` ({origin}); {advice}")]
    UnknownKey {
        /// The full dotted key as given.
        key: String,
        /// Where it was given.
        origin: Origin,
        /// The nearest key, or all keys of the section.
        advice: String,
    },
    /// The value has the wrong type.
    #[error("`{key}` ({origin}) must be {expected}, but it is {found}")]
    WrongType {
        /// The full dotted key.
        key: String,
        /// Where it was given.
        origin: Origin,
        /// What is allowed, in words.
        expected: String,
        /// The type that was found, in words.
        found: &'static str,
    },
    /// The value has the right type but is not allowed.
    #[error("`{key}` ({origin}) is {value}, but it must be {allowed}")]
    InvalidValue {
        /// The full dotted key.
        key: String,
        /// Where it was given.
        origin: Origin,
        /// The value, quoted as in TOML, without secrets.
        value: String,
        /// What is allowed, in words.
        allowed: String,
    },
    /// Each setting is allowed, but not together with the other.
    #[error("{0}")]
    Conflict(String),
    /// There are several mistakes; at least two, none of them this variant.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<ConfigError>),
    /// No data directory was given and none can be derived.
    #[error("no data directory: {missing} is not set; name one with --data or HERMA_DATA")]
    NoDataDirectory {
        /// The environment variable that would have named it.
        missing: &'static str,
    },
}

impl ConfigError {
    /// One error for all mistakes. `None` if there is no mistake.
    pub(crate) fn of_all(mut mistakes: Vec<Self>) -> Option<Self> {
        match mistakes.len() {
            0 | 1 => mistakes.pop(),
            _ => Some(Self::Several(mistakes)),
        }
    }

    /// Each mistake by itself.
    pub fn mistakes(&self) -> &[Self] {
        match self {
            Self::Several(mistakes) => mistakes,
            mistake => std::slice::from_ref(mistake),
        }
    }
}
