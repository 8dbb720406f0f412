//! Dotted keys, written as in a TOML file.

/// A key as TOML writes it: bare if possible, else quoted.
pub(crate) fn quoted(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { key.to_owned() } else { toml::Value::from(key).to_string() }
}

/// The path of a key inside a table. The empty path is the document.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { quoted(key) } else { format!("{path}.{}", quoted(key)) }
}

/// The part before the last dot; empty if there is no dot.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

/// The part after the last dot.
pub(crate) fn last(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, last)| last)
}
