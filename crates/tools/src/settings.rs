//! How a server is reached, which of its tools are offered, and who may use it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long a call may take unless the configuration says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a server may take from its start to its list of tools.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long turns wait for a server, counted from its start.
const TURNS_WAIT: Duration = Duration::from_secs(5);

/// How one MCP server is reached and who may use it.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The server's name in the configuration.
    pub label: String,
    /// How it is reached.
    pub transport: Transport,
    /// Names or patterns of the tools that are offered. Empty: all.
    pub allow: Vec<String>,
    /// Names or patterns of tools that are not offered. Wins over `allow`.
    pub deny: Vec<String>,
    /// The approval of tools that `approvals` does not name.
    pub approval: Option<Approval>,
    /// The approval of single tools, by the server's name for them.
    pub approvals: BTreeMap<String, Approval>,
    /// The tenants whose turns may use it. Empty: all.
    pub tenants: Vec<String>,
    /// Patterns of the session keys whose turns may use it. Empty: all turns, also those without a key.
    pub session_keys: Vec<String>,
    /// How long one call may take.
    pub timeout: Duration,
    /// How long it may take from its start to its list of tools.
    pub start_limit: Duration,
    /// How long turns wait for it, counted from its start.
    pub turns_wait: Duration,
    /// The directory in which a command is started. `None`: that of Herma.
    pub directory: Option<PathBuf>,
}

impl ServerSettings {
    /// A server that everybody may use, with all its tools.
    pub fn new(label: impl Into<String>, transport: Transport) -> Self {
        Self {
            label: label.into(),
            transport,
            allow: Vec::new(),
            deny: Vec::new(),
            approval: None,
            approvals: BTreeMap::new(),
            tenants: Vec::new(),
            session_keys: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            start_limit: START_LIMIT,
            turns_wait: TURNS_WAIT,
            directory: None,
        }
    }
}

/// How a server is reached. `Debug` shows no argument, no value of a variable and no header.
#[derive(Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks MCP on stdin and stdout.
    Command {
        /// The program, found as the shell would find it.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables that are added to Herma's own environment.
        env: Vec<(String, String)>,
    },
    /// A server that speaks MCP over streamable HTTP.
    Http {
        /// Its endpoint.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |pairs: &[(String, String)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match self {
            Self::Command { command, args, env } => f
                .debug_struct("Command")
                .field("command", command)
                .field("args", &args.len())
                .field("env", &names(env))
                .finish(),
            Self::Http { url, headers } => {
                f.debug_struct("Http").field("url", &shown_url(url)).field("headers", &names(headers)).finish()
            }
        }
    }
}

/// An address without user, password, query and fragment.
pub(crate) fn shown_url(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.find('/').unwrap_or(rest.len());
    let host = rest[..authority].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host..])
}

/// Whether a tool may be called without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// It is called.
    Auto,
    /// Somebody is asked first.
    Ask,
    /// It is not offered and not called.
    Deny,
}

impl Approval {
    /// The word in the configuration and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Reads the word; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Auto, Self::Ask, Self::Deny].into_iter().find(|approval| approval.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_names_and_no_values() {
        let env = vec![("TOKEN".to_owned(), "hunter22".to_owned())];
        let args = vec!["--key=hunter22".to_owned()];
        let command = ServerSettings::new("a", Transport::Command { command: "run".to_owned(), args, env });
        let headers = vec![("Authorization".to_owned(), "Bearer hunter22".to_owned())];
        let url = "https://me:hunter22@host:1/mcp?key=hunter22#hunter22".to_owned();
        let http = ServerSettings::new("b", Transport::Http { url, headers });
        let shown = format!("{command:?} {http:?}");
        assert!(!shown.contains("hunter22"), "{shown}");
        for part in ["TOKEN", "Authorization", "run", "https://host:1/mcp"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn approvals_are_read_back() {
        for approval in [Approval::Auto, Approval::Ask, Approval::Deny] {
            assert_eq!(Approval::parse(approval.as_str()), Some(approval));
        }
        assert_eq!(Approval::parse("Auto"), None);
    }
}
