//! The environment as text.

use crate::failure::Misuse;

/// All variables that are valid UTF-8. A `HERMA_` variable that is not is an error, because ignoring it would change
/// the configuration.
pub(super) fn variables() -> Result<Vec<(String, String)>, Misuse> {
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => variables.push((name, value)),
            (Ok(name), Err(_)) if name.starts_with("HERMA_") => {
                return Err(Misuse(format!("{name} is not valid UTF-8; correct it or unset it")));
            }
            _ => {}
        }
    }
    Ok(variables)
}
