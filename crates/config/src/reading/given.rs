//! One value as it was given: typed in the file, plain text in a variable or a flag.

/// A value before anybody has said what it should be.
#[derive(Debug, Clone)]
pub(crate) enum Given {
    /// From the file.
    Toml(toml::Value),
    /// From a variable or a flag, where numbers and booleans are text too.
    Text(String),
}

/// Why a value cannot be what a setting wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is of another type.
    Type,
    /// It is of the right type, but not allowed.
    Value,
}

impl Given {
    /// The value as text.
    pub(crate) fn text(&self) -> Result<&str, Refusal> {
        match self {
            Self::Toml(toml::Value::String(text)) | Self::Text(text) => Ok(text),
            Self::Toml(_) => Err(Refusal::Type),
        }
    }

    /// The value as a whole number.
    pub(crate) fn integer(&self) -> Result<i64, Refusal> {
        match self {
            Self::Toml(toml::Value::Integer(number)) => Ok(*number),
            Self::Toml(_) => Err(Refusal::Type),
            Self::Text(text) => text.trim().replace('_', "").parse().map_err(|_| Refusal::Value),
        }
    }

    /// The value as a number, whole or not.
    pub(crate) fn number(&self) -> Result<f64, Refusal> {
        match self {
            Self::Toml(toml::Value::Float(number)) => Ok(*number),
            // Only fractions are read this way, and no integer is one: precision does not matter.
            Self::Toml(toml::Value::Integer(number)) => Ok(*number as f64),
            Self::Toml(_) => Err(Refusal::Type),
            Self::Text(text) => text.trim().parse().map_err(|_| Refusal::Value),
        }
    }

    /// The value as a boolean.
    pub(crate) fn boolean(&self) -> Result<bool, Refusal> {
        match self {
            Self::Toml(toml::Value::Boolean(value)) => Ok(*value),
            Self::Toml(_) => Err(Refusal::Type),
            Self::Text(text) => match text.trim() {
                "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(Refusal::Value),
            },
        }
    }

    /// The value as a list of texts; commas separate the items of plain text.
    pub(crate) fn list(&self) -> Result<Vec<&str>, Refusal> {
        match self {
            Self::Toml(toml::Value::Array(items)) => {
                items.iter().map(|item| item.as_str().ok_or(Refusal::Type)).collect()
            }
            Self::Toml(_) => Err(Refusal::Type),
            Self::Text(text) => Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()),
        }
    }

    /// The type of the value, in words.
    pub(crate) fn type_name(&self) -> &'static str {
        let Self::Toml(value) = self else { return "text" };
        match value {
            toml::Value::String(_) => "text",
            toml::Value::Integer(_) => "a whole number",
            toml::Value::Float(_) => "a number",
            toml::Value::Boolean(_) => "a boolean",
            toml::Value::Datetime(_) => "a date",
            toml::Value::Array(items) if items.iter().all(toml::Value::is_str) => "a list",
            toml::Value::Array(_) => "a list of something else",
            toml::Value::Table(_) => "a table",
        }
    }

    /// The value as TOML would write it.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Toml(value) => value.to_string(),
            Self::Text(text) => toml::Value::from(text.as_str()).to_string(),
        }
    }
}
