//! Errors of decoding. They name neither the host nor any secret.

use serde_json::Value;

/// An error that the server reported in a body or a frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ReportedError {
    /// The message, as sent.
    pub(crate) message: String,
    /// The code and the type, if they are strings.
    pub(crate) words: Vec<String>,
    /// The code, if it is an HTTP error status.
    pub(crate) status: Option<u16>,
}

impl ReportedError {
    /// Reads the `error` member of a body, an object or a string. `None` if there is no error.
    pub(crate) fn from_member(error: &Value) -> Option<Self> {
        match error {
            Value::Object(fields) => {
                let word = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
                let status = fields.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
                Some(Self {
                    message: word("message").unwrap_or_else(|| error.to_string()),
                    words: ["code", "type"].into_iter().filter_map(word).collect(),
                    status: status.filter(|status| (400..600).contains(status)),
                })
            }
            Value::String(message) if !message.is_empty() => Some(Self { message: message.clone(), ..Self::default() }),
            _ => None,
        }
    }

    /// Reads a whole body: `{"error": …}`, or an error object without that wrapper, as some servers send it.
    pub(crate) fn from_body(body: &Value) -> Option<Self> {
        let is_bare = body.get("object").is_some_and(|object| object == "error");
        body.get("error").and_then(Self::from_member).or_else(|| if is_bare { Self::from_member(body) } else { None })
    }
}

/// Why the bytes that a server sent are not an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The server reported an error.
    Reported(ReportedError),
    /// The bytes do not follow the protocol. The text says what they are instead, for people.
    Nonsense(String),
    /// The answer broke off.
    CutOff,
    /// The answer is complete but empty.
    EmptyAnswer,
}

impl DecodeError {
    /// Says what is wrong with text that should have been JSON.
    pub(crate) fn not_json(text: &[u8], error: &serde_json::Error) -> Self {
        Self::Nonsense(match text.trim_ascii_start().first() {
            None => "an empty body".to_owned(),
            Some(b'<') => "a web page".to_owned(),
            Some(_) if error.is_data() => format!("JSON that is not a chat completion ({error})"),
            Some(_) => format!("text that is not JSON ({error})"),
        })
    }
}
