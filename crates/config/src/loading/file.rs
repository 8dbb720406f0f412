//! Finds and parses the configuration file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::ConfigError;

/// The name of the file if the operator names none.
pub(crate) const NAME: &str = "herma.toml";

/// Reads the named file, which must exist. If none is named, reads `herma.toml` in the data directory, else in the
/// working directory.
pub(crate) fn read(
    named: Option<PathBuf>,
    data_dir: &Path,
    working_dir: &Path,
) -> Result<Option<(PathBuf, toml::Table)>, ConfigError> {
    let must_exist = named.is_some();
    let candidates = match named {
        Some(path) => vec![path],
        None => vec![data_dir.join(NAME), working_dir.join(NAME)],
    };
    for path in candidates {
        match fs::read_to_string(&path) {
            Ok(text) => {
                let table = parse(&path, &text)?;
                return Ok(Some((path, table)));
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => {}
            Err(source) => return Err(ConfigError::UnreadableFile { path, source }),
        }
    }
    Ok(None)
}

/// Parses TOML. The parser's full message quotes the line, which may hold a secret. So the error has only the position.
fn parse(path: &Path, text: &str) -> Result<toml::Table, ConfigError> {
    text.parse::<toml::Table>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ConfigError::Syntax {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem: error.message().to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_comes_before_the_working_directory() {
        let [data, here] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let found = || read(None, data.path(), here.path()).unwrap().map(|(path, _)| path);
        assert_eq!(found(), None);
        fs::write(here.path().join(NAME), "").unwrap();
        assert_eq!(found(), Some(here.path().join(NAME)));
        fs::write(data.path().join(NAME), "").unwrap();
        assert_eq!(found(), Some(data.path().join(NAME)));
    }

    #[test]
    fn a_syntax_error_names_the_line_and_not_what_stands_there() {
        let error = parse(Path::new("herma.toml"), "[upstream]\napi_key = \"sk-1234\nmodel = \"m\"\n").unwrap_err();
        let ConfigError::Syntax { line, ref problem, .. } = error else { panic!("{error}") };
        assert_eq!(line, 2, "{error}");
        assert!(!problem.is_empty() && !error.to_string().contains("sk-1234"), "{error}");
    }
}
