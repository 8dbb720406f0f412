//! Why a configuration was refused. Every message names the setting, where it came from, and what to do.
//!
//! No variant ever holds a secret: values are made presentable before they come here.

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
    /// The file that was asked for, or found, cannot be read.
    #[error("cannot read the configuration file {}: {source}; check that it exists and may be read, or name another with --config or HERMA_CONFIG", path.display())]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
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
        /// What the parser expected, without the text it found.
        problem: String,
    },
    /// A section that does not exist.
    #[error("unknown section [{name}] ({origin}); {advice}")]
    UnknownSection {
        /// Its name as given.
        name: String,
        /// Where it was given.
        origin: Origin,
        /// The nearest section, or all of them.
        advice: String,
    },
    /// A key that does not exist.
    #[error("unknown setting `{key}` ({origin}); {advice}")]
    UnknownKey {
        /// The full dotted key as given.
        key: String,
        /// Where it was given.
        origin: Origin,
        /// The nearest key, or all keys of the section.
        advice: String,
    },
    /// A value of the wrong type.
    #[error("`{key}` ({origin}) must be {expected}, but it is {found}")]
    WrongType {
        /// The full dotted key.
        key: String,
        /// Where it was given.
        origin: Origin,
        /// What is wanted, in words.
        expected: String,
        /// The type that was found, in words.
        found: &'static str,
    },
    /// A value of the right type that is not allowed.
    #[error("`{key}` ({origin}) is {value}, but it must be {allowed}")]
    InvalidValue {
        /// The full dotted key.
        key: String,
        /// Where it was given.
        origin: Origin,
        /// The value, quoted as in TOML and with secrets taken out.
        value: String,
        /// What is allowed, in words.
        allowed: String,
    },
    /// Settings that are fine alone but not together.
    #[error("{0}")]
    Conflict(String),
    /// No data directory was given and none can be derived.
    #[error("no data directory: {missing} is not set; name one with --data or HERMA_DATA")]
    NoDataDirectory {
        /// The environment variable that would have said where.
        missing: &'static str,
    },
}
