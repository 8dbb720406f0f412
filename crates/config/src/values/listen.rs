//! The address that the server listens on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// A host, by address or name, and a port. Port 0 means any free port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    host: String,
    port: u16,
}

impl ListenAddress {
    /// Loopback at this port.
    pub fn loopback(port: u16) -> Self {
        Self { host: Ipv4Addr::LOCALHOST.to_string(), port }
    }

    /// Reads `HOST:PORT`. An IPv6 address must be in brackets.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.trim().rsplit_once(':')?;
        // `u16::parse` would also accept "+80".
        let port = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok())??;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<Ipv6Addr>().ok()?.to_string(),
            None => named(host)?,
        };
        Some(Self { host, port })
    }

    /// The host without brackets: an address or a name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 0 means any free port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether only this machine can reach it. Assumes that others can reach any name except `localhost`.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

/// Reads a host without brackets, a name or an IPv4 address. A host of digits and dots must be an IPv4 address.
fn named(host: &str) -> Option<String> {
    let is_name =
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    let is_number = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (is_name && (!is_number || host.parse::<Ipv4Addr>().is_ok())).then(|| host.to_owned())
}

/// Writes `HOST:PORT` as a socket or a URL needs it.
impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Setting for ListenAddress {
    const ALLOWED: &'static str =
        r#"HOST:PORT, such as "127.0.0.1:8642", "localhost:8642", "[::1]:8642" or "127.0.0.1:0" for any free port"#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Self::parse(given.text()?).ok_or(ValueError::NotAllowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_read_back_what_they_print() {
        for (text, loopback) in [
            ("127.0.0.1:8642", true),
            ("127.8.0.1:0", true),
            ("localhost:8642", true),
            ("[::1]:8642", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
            ("10.0.0.3:80", false),
            ("herma.internal:80", false),
            ("localhost.example.com:80", false),
        ] {
            let address = ListenAddress::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(address.to_string(), text);
            assert_eq!(address.is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "8642",
            ":8642",
            "localhost",
            "localhost:",
            "localhost:65536",
            "localhost:+80",
            "::1:8642",
            "http://localhost:8642",
            "a b:1",
            "127.0.0:1",
            "[localhost]:1",
        ] {
            assert_eq!(ListenAddress::parse(text), None, "{text}");
        }
    }
}
