//! One value as the operator gave it: typed in the file, plain text in a variable or a flag.

/// A value before it is read as the type of its setting.
#[derive(Debug, Clone)]
pub(crate) enum GivenValue {
    /// From the file.
    Toml(toml::Value),
    /// From a variable or a flag. Numbers and booleans are text there.
    Text(String),
}

/// Why a value cannot be used for a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueError {
    /// The value has the wrong type.
    WrongType,
    /// The value has the right type but is not allowed.
    NotAllowed,
}

impl GivenValue {
    /// The value as text.
    pub(crate) fn text(&self) -> Result<&str, ValueError> {
        match self {
            Self::Toml(toml::Value::String(text)) | Self::Text(text) => Ok(text),
            Self::Toml(_) => Err(ValueError::WrongType),
        }
    }

    /// The value as a whole number.
    pub(crate) fn integer(&self) -> Result<i64, ValueError> {
        match self {
            Self::Toml(toml::Value::Integer(number)) => Ok(*number),
            Self::Toml(_) => Err(ValueError::WrongType),
            Self::Text(text) => text.trim().replace('_', "").parse().map_err(|_| ValueError::NotAllowed),
        }
    }

    /// The value as a number, whole or not.
    pub(crate) fn number(&self) -> Result<f64, ValueError> {
        match self {
            Self::Toml(toml::Value::Float(number)) => Ok(*number),
            // Fractions refuse every integer, and a price above 2^53 is not in use. So lost precision does not matter.
            Self::Toml(toml::Value::Integer(number)) => Ok(*number as f64),
            Self::Toml(_) => Err(ValueError::WrongType),
            Self::Text(text) => text.trim().parse().map_err(|_| ValueError::NotAllowed),
        }
    }

    /// The value as a boolean.
    pub(crate) fn boolean(&self) -> Result<bool, ValueError> {
        match self {
            Self::Toml(toml::Value::Boolean(value)) => Ok(*value),
            Self::Toml(_) => Err(ValueError::WrongType),
            Self::Text(text) => match text.trim() {
                "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(ValueError::NotAllowed),
            },
        }
    }

    /// The value as a list of texts. In plain text, commas separate the items.
    pub(crate) fn list(&self) -> Result<Vec<&str>, ValueError> {
        match self {
            Self::Toml(toml::Value::Array(items)) => {
                items.iter().map(|item| item.as_str().ok_or(ValueError::WrongType)).collect()
            }
            Self::Toml(_) => Err(ValueError::WrongType),
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
