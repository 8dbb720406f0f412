//! The URL of the store.

use std::fmt;
use std::path::PathBuf;

use super::secret::{REDACTED, Secret};
use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// A store: a SQLite file or a PostgreSQL database. `Debug` and `Display` show no password.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A file on this machine. A relative path counts from the working directory.
    Sqlite(PathBuf),
    /// A `postgres://` or `postgresql://` URL. All of it is secret, because it may hold a password.
    Postgres(Secret),
}

impl StoreUrl {
    /// Reads `sqlite:PATH` (`sqlite://PATH` too) or `postgres://…`. Refuses a database in memory, because several
    /// connections and processes must see the same database.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let is_file =
                !path.is_empty() && !path.contains(":memory:") && !path.ends_with('/') && !path.contains('\0');
            return is_file.then(|| Self::Sqlite(PathBuf::from(path)));
        }
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))?;
        (!rest.is_empty() && !rest.chars().any(char::is_whitespace)).then(|| Self::Postgres(Secret::new(text)))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => f.write_str(&redacted(url.expose())),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The URL without the password before `@` and without passwords in the query. It may remove more than that, because
/// a password may contain unescaped `/`, `?` and `@`.
fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.contains(['@', '=']) { REDACTED.to_owned() } else { url.to_owned() };
    };
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:{REDACTED}@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let pieces: Vec<String> = rest.split_inclusive(['?', '&']).map(redacted_parameter).collect();
    format!("{scheme}://{}", pieces.concat())
}

fn redacted_parameter(piece: &str) -> String {
    match piece.split_once('=') {
        Some((name, value)) if name.to_ascii_lowercase().contains("pass") => {
            let end = if value.ends_with('&') { "&" } else { "" };
            format!("{name}={REDACTED}{end}")
        }
        _ => piece.to_owned(),
    }
}

impl Setting for StoreUrl {
    const ALLOWED: &'static str = r#""sqlite:PATH" with the path of a file"#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Self::parse(given.text()?).ok_or(ValueError::NotAllowed)
    }

    fn show(given: &GivenValue) -> String {
        match given {
            GivenValue::Toml(toml::Value::String(text)) | GivenValue::Text(text) => {
                toml::Value::from(redacted(text)).to_string()
            }
            GivenValue::Toml(_) => given.show(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_has_a_path() {
        for (text, path) in [
            ("sqlite:herma.db", Some("herma.db")),
            ("sqlite:/var/lib/herma.db", Some("/var/lib/herma.db")),
            ("sqlite:///var/lib/herma.db", Some("/var/lib/herma.db")),
            ("sqlite:C:\\herma\\herma.db", Some("C:\\herma\\herma.db")),
            ("sqlite:", None),
            ("sqlite::memory:", None),
            ("sqlite:data/", None),
            ("herma.db", None),
            ("mysql://host/db", None),
            ("postgres://", None),
        ] {
            assert_eq!(StoreUrl::parse(text), path.map(|path| StoreUrl::Sqlite(path.into())), "{text}");
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        for (url, shown) in [
            ("postgres://host/db", "postgres://host/db"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("postgres://me:hunter2@host:5432/db", "postgres://me:[redacted]@host:5432/db"),
            ("postgres://me:hunter2/@?&hunter2@host/db", "postgres://me:[redacted]@host/db"),
            (
                "postgresql://host/db?user=me&password=hunter2&a=b",
                "postgresql://host/db?user=me&password=[redacted]&a=b",
            ),
            ("postgres://host/db?sslpassword=hunter2", "postgres://host/db?sslpassword=[redacted]"),
        ] {
            let parsed = StoreUrl::parse(url).unwrap();
            assert_eq!(format!("{parsed} {parsed:?}"), format!("{shown} {shown}"));
            let StoreUrl::Postgres(whole) = parsed else { panic!("{url}") };
            assert_eq!(whole.expose(), url);
        }
    }
}
