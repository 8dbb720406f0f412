//! Dotted keys, written so that they could be copied into a TOML file.

/// A key as TOML writes it: bare where it can be, else quoted.
pub(crate) fn quoted(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { key.to_owned() } else { toml::Value::from(key).to_string() }
}

/// A key below a path; the empty path is the document.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { quoted(key) } else { format!("{path}.{}", quoted(key)) }
}

/// What stands before the last dot, or nothing.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

/// What stands behind the last dot.
pub(crate) fn last(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, last)| last)
}
