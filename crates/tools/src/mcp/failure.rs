//! What went wrong, in sentences that say what to do; and whether a call can have been carried out.

use std::error::Error;
use std::io;
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::ErrorData;
use rmcp::service::ClientInitializeError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::process::Process;
use super::{TOO_LARGE, TOO_LARGE_CODE};
use crate::settings::{ServerSettings, Transport, shown_url};
use crate::tool::CallEnd;

/// How the library says that a session was renewed while a call was under way.
const SESSION_RENEWED: &str = "streamable HTTP session was re-initialized";

type HttpError = StreamableHttpError<reqwest::Error>;

/// Why a server is not ready.
pub(super) enum StartFailure {
    TooSlow(Duration),
    Handshake(Box<ClientInitializeError>),
    List(ServiceError),
}

/// How a call failed.
pub(super) struct CallFailure {
    pub(super) end: CallEnd,
    /// Whether the connection has to be made anew.
    pub(super) lost: bool,
}

/// The sentence about a server that could not be started.
pub(super) async fn of_start(settings: &ServerSettings, why: &StartFailure, process: Option<&mut Process>) -> String {
    match (&settings.transport, process) {
        (Transport::Command { .. }, Some(process)) => of_command(&settings.label, why, process).await,
        (Transport::Http { url, .. }, _) => of_http(&settings.label, &shown_url(url), why),
        (Transport::Command { .. }, None) => format!("The MCP server `{}` was not started.", settings.label),
    }
}

async fn of_command(label: &str, why: &StartFailure, process: &mut Process) -> String {
    let notes = process.notes();
    let happened = match why {
        StartFailure::TooSlow(limit) => format!("did not answer within {} s", limit.as_secs()),
        StartFailure::List(error) => format!("did not list its tools ({error})"),
        StartFailure::Handshake(error) => match process.exit_status().await {
            Some(status) => format!("ended ({status}) before it answered"),
            None if notes.stray_line().is_some() => "does not speak MCP".to_owned(),
            None => format!("did not complete the handshake ({})", handshake(error)),
        },
    };
    let advice = match notes.stray_line() {
        Some(line) => format!(
            "It prints text that is no MCP message on stdout, such as `{line}`. Check that `command` and `args` in \
             [tools.mcp.{label}] start an MCP server over stdio that logs to stderr only."
        ),
        None => format!("Run `command` and `args` of [tools.mcp.{label}] by hand to see why."),
    };
    with_last_line(format!("The MCP server `{label}` {happened}. {advice}"), notes.last_line().await.as_deref())
}

fn of_http(label: &str, url: &str, why: &StartFailure) -> String {
    let settings = format!("in [tools.mcp.{label}]");
    let error: &(dyn Error + 'static) = match why {
        StartFailure::TooSlow(limit) => {
            return format!(
                "The MCP server `{label}` at {url} did not answer within {} s. Check that `url` {settings} is the \
                 endpoint of an MCP server over streamable HTTP.",
                limit.as_secs()
            );
        }
        StartFailure::Handshake(error) => last_phase(error),
        StartFailure::List(error) => error,
    };
    match status(error) {
        Some(code @ (401 | 403)) => format!(
            "The MCP server `{label}` at {url} refused the credentials (HTTP {code}). Correct `headers` {settings}."
        ),
        Some(code) => format!(
            "The MCP server `{label}` at {url} answers HTTP {code}. Check that `url` {settings} is the endpoint of an \
             MCP server over streamable HTTP."
        ),
        None if herma_outbound::is_untrusted(client_error(error)) => format!(
            "The certificate of the MCP server `{label}` at {url} is not trusted: {}. Name a file with the \
             certificates that you trust in the environment variable SSL_CERT_FILE.",
            root(error)
        ),
        None if is_connect(error) => format!(
            "The MCP server `{label}` at {url} cannot be reached: {}. Check `url` {settings}, and that the server \
             runs.",
            root(error)
        ),
        None => format!(
            "The MCP server `{label}` at {url} does not speak MCP over streamable HTTP: {}. Check `url` {settings}.",
            root(error)
        ),
    }
}

/// The sentence about a process that ended or cannot be talked to any more.
pub(super) async fn of_process(process: &mut Process) -> String {
    let text = match process.exit_status().await {
        Some(status) => format!("It ended ({status})."),
        None => "It closed its connection.".to_owned(),
    };
    with_last_line(text, process.notes().last_line().await.as_deref())
}

/// Adds what a process said last.
pub(super) fn with_last_line(text: String, line: Option<&str>) -> String {
    match line {
        Some(line) => format!("{text} Its last line on stderr: {line}"),
        None => text,
    }
}

/// How a call ended that has no result.
pub(super) fn of_call(label: &str, error: ServiceError) -> CallFailure {
    let keep = |end| CallFailure { end, lost: false };
    match error {
        ServiceError::McpError(error) if error.code.0 == TOO_LARGE_CODE && error.message == TOO_LARGE => {
            keep(CallEnd::Uncertain(TOO_LARGE.to_owned()))
        }
        ServiceError::McpError(error) if error.message.starts_with(SESSION_RENEWED) => {
            keep(CallEnd::Uncertain(format!("The MCP server `{label}` forgot the session before it answered.")))
        }
        ServiceError::McpError(error) => keep(CallEnd::Result { text: refusal(&error), is_error: true }),
        ServiceError::TransportSend(error) => of_sending(label, error.error.as_ref()),
        ServiceError::TransportClosed => {
            keep(CallEnd::Uncertain(format!("The MCP server `{label}` ended before it answered.")))
        }
        ServiceError::UnexpectedResponse => {
            keep(CallEnd::Uncertain(format!("The MCP server `{label}` answered with something that is no result.")))
        }
        error => keep(CallEnd::Uncertain(format!("The MCP server `{label}` did not answer: {error}."))),
    }
}

fn refusal(error: &ErrorData) -> String {
    if error.message.is_empty() {
        format!("The server refused the call ({}).", error.code.0)
    } else {
        error.message.to_string()
    }
}

/// A message that could not be sent. Over pipes its end was certainly not written; over HTTP it depends.
///
/// The connection is made anew where another call could not succeed either.
fn of_sending(label: &str, error: &(dyn Error + Send + Sync + 'static)) -> CallFailure {
    let error: &(dyn Error + 'static) = error;
    let not_made = |lost, why: String| CallFailure { end: CallEnd::NotMade(why), lost };
    let uncertain = |why: String| CallFailure { end: CallEnd::Uncertain(why), lost: false };
    if error.is::<io::Error>() {
        return not_made(true, format!("The MCP server `{label}` does not take calls any more."));
    }
    match (status(error), error.downcast_ref::<HttpError>()) {
        (Some(code @ (401 | 403)), _) => {
            not_made(false, format!("The MCP server `{label}` refused the credentials (HTTP {code})."))
        }
        // Some servers answer 400 for a session that they have forgotten.
        (Some(code @ 400..=499), _) => {
            not_made(code <= 404, format!("The MCP server `{label}` refused the call (HTTP {code})."))
        }
        (Some(code), _) => uncertain(format!("The MCP server `{label}` answered HTTP {code}.")),
        (None, Some(HttpError::SessionExpired | HttpError::ReinitializationFailed(_))) => {
            not_made(true, format!("The MCP server `{label}` has forgotten the session."))
        }
        _ if is_connect(error) => {
            not_made(true, format!("The MCP server `{label}` cannot be reached: {}.", root(error)))
        }
        _ => uncertain(format!("The connection to the MCP server `{label}` broke: {}.", root(error))),
    }
}

/// The error of the last phase that was tried.
fn last_phase(error: &ClientInitializeError) -> &(dyn Error + 'static) {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => last_phase(fallback),
        ClientInitializeError::TransportError { error, .. } => error.error.as_ref(),
        error => error,
    }
}

/// An error of the handshake in short. The library's own words contain whole messages.
fn handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake(fallback),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => "it knows no revision that Herma knows".to_owned(),
        ClientInitializeError::ConnectionClosed(_) => "it closed its stdout".to_owned(),
        ClientInitializeError::TransportError { error, .. } => root(error.error.as_ref()),
        _ => "it answered something else than what it was asked".to_owned(),
    }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The HTTP status that an error stands for.
fn status(error: &(dyn Error + 'static)) -> Option<u16> {
    chain(error).find_map(|error| match error.downcast_ref::<HttpError>()? {
        HttpError::HttpStatus(error) => Some(error.status),
        HttpError::AuthRequired(_) => Some(401),
        HttpError::InsufficientScope(_) => Some(403),
        _ => None,
    })
}

/// Whether no connection could be made, so that nothing was sent.
fn is_connect(error: &(dyn Error + 'static)) -> bool {
    let connect = |error: &reqwest::Error| error.is_connect() || error.is_builder();
    chain(error).any(|error| match error.downcast_ref::<HttpError>() {
        Some(HttpError::Client(error)) => connect(error),
        _ => error.downcast_ref().is_some_and(connect),
    })
}

/// The innermost cause, without the address that outer ones repeat.
fn root(error: &(dyn Error + 'static)) -> String {
    chain(client_error(error)).last().map(ToString::to_string).unwrap_or_default()
}

/// The error of the HTTP client, if it is one.
fn client_error<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    match error.downcast_ref::<HttpError>() {
        Some(HttpError::Client(error)) => error,
        _ => error,
    }
}
