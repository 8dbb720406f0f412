//! Base URLs of model servers.

use std::fmt;

use super::http_url::HttpUrl;
use super::secret::REDACTED;
use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// The only query parameter whose value is shown. Azure wants it in every request.
const HARMLESS: &str = "api-version";

/// An `http` or `https` URL, without slashes at its end, and the query that some servers want in every request.
///
/// The query may hold a key, so `Debug` and `Display` leave it out.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    url: HttpUrl,
    query: Option<String>,
}

impl BaseUrl {
    /// Checks the form.
    pub fn parse(text: &str) -> Option<Self> {
        let (url, query) = text.trim().split_once('?').map_or((text, None), |(url, query)| (url, Some(query)));
        if query.is_some_and(|query| query.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#')) {
            return None;
        }
        let query = query.filter(|query| !query.is_empty()).map(str::to_owned);
        Some(Self { url: HttpUrl::parse(url)?.trimmed(), query })
    }

    /// The whole URL. Call it only to send requests.
    pub fn expose(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.url),
            None => self.url.to_string(),
        }
    }

    /// The whole URL if its query holds no secret.
    pub(crate) fn shown(&self) -> Option<String> {
        let is_harmless = |parameter: &str| parameter.split('=').next() == Some(HARMLESS);
        self.query.iter().flat_map(|query| query.split('&')).all(is_harmless).then(|| self.expose())
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.query {
            Some(_) => write!(f, "{}?{REDACTED}", self.url),
            None => self.url.fmt(f),
        }
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl Setting for BaseUrl {
    const ALLOWED: &'static str =
        r#"an http or https URL without user, password and fragment, such as "https://api.openai.com/v1""#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Self::parse(given.text()?).ok_or(ValueError::NotAllowed)
    }

    fn show(given: &GivenValue) -> String {
        HttpUrl::show(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_kept_and_shown_only_if_it_is_a_version() {
        let azure = "https://host/openai/deployments/x?api-version=2024-10-21";
        for (text, whole, shown, printed) in [
            ("http://host/v1//", "http://host/v1", Some("http://host/v1"), "http://host/v1"),
            (" http://host/v1? ", "http://host/v1", Some("http://host/v1"), "http://host/v1"),
            (azure, azure, Some(azure), "https://host/openai/deployments/x?[redacted]"),
            ("https://host/v1/?key=1", "https://host/v1?key=1", None, "https://host/v1?[redacted]"),
            ("https://host?api-version=1&k=2", "https://host?api-version=1&k=2", None, "https://host?[redacted]"),
        ] {
            let url = BaseUrl::parse(text).unwrap();
            assert_eq!((url.expose().as_str(), url.shown().as_deref()), (whole, shown), "{text}");
            assert_eq!((url.to_string(), format!("{url:?}")), (printed.to_owned(), format!("{printed:?}")));
        }
    }

    #[test]
    fn other_parts_of_a_url_are_refused() {
        for text in [
            "",
            "host/v1",
            "?a=b",
            "https://me:pw@host/v1",
            "https://host/v1#a",
            "https://host/v1?a=b#c",
            "https://host?a b",
        ] {
            assert_eq!(BaseUrl::parse(text), None, "{text}");
        }
    }
}
