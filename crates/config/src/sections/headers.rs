//! `headers` of a model server: sent with every request to it. Their values may be secrets.

use std::collections::BTreeMap;

use crate::page::Page;
use crate::reading::section::Section;
use crate::values::secret::Secret;

/// Headers by their name in lower case.
pub type Headers = BTreeMap<String, Secret>;

/// Headers that belong to Herma's own requests.
const RESERVED: [&str; 6] = ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding"];
/// The `allowed` text for one header.
const HEADER: &str = "one line of ASCII for a header whose name has letters, digits and dashes, and which is none of \
                      Accept, Connection, Content-Length, Content-Type, Host and Transfer-Encoding";

/// Reads the table `headers` of a section.
pub(super) fn read(section: &mut Section) -> Headers {
    read_table(section, "headers")
}

/// Reads a table of headers.
pub(super) fn read_table(section: &mut Section, key: &str) -> Headers {
    section.within(key, |section| {
        let mut headers = Headers::new();
        for given in section.names() {
            let name = given.to_ascii_lowercase();
            let is_name = is_token(&name) && !RESERVED.contains(&name.as_str());
            let can_be_sent =
                |value: &Secret| is_name && value.expose().bytes().all(|byte| matches!(byte, b' '..=b'~'));
            if let Some(value) = section.read_where(&given, HEADER, can_be_sent) {
                headers.insert(name, value);
            }
        }
        headers
    })
}

/// Names the headers without their values.
pub(super) fn write(headers: &Headers, page: &mut Page) {
    write_table(headers, page, "headers");
}

/// The same, for a table of another name.
pub(super) fn write_table(headers: &Headers, page: &mut Page, key: &str) {
    const ABOUT: &str = "Headers sent with every request. Their values are not shown here.";
    if headers.is_empty() {
        let example = toml::Table::from_iter([("api-key".to_owned(), "…".into())]);
        return page.unset(key, example, ABOUT);
    }
    page.secrets(key, headers.keys(), ABOUT);
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte))
}
