//! Why something a server sent is no answer, before it is known who sent it.

use serde_json::Value;

/// An error that the server reported in a body or a frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reported {
    /// Its message, as sent.
    pub(crate) message: String,
    /// Its code and type, where they are words.
    pub(crate) words: Vec<String>,
    /// Its code, where it is an HTTP error status.
    pub(crate) status: Option<u16>,
}

impl Reported {
    /// Reads the `error` member of a body, an object or a text; absent when there is no error.
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

    /// Reads a whole body: `{"error": …}`, or the bare error objects of some servers.
    pub(crate) fn from_body(body: &Value) -> Option<Self> {
        let is_bare = body.get("object").is_some_and(|object| object == "error");
        body.get("error").and_then(Self::from_member).or_else(|| if is_bare { Self::from_member(body) } else { None })
    }
}

/// Why something a server sent is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// It is an error.
    Reported(Reported),
    /// It is not what the protocol says; what is wrong, for people.
    Nonsense(String),
    /// It broke off.
    CutOff,
    /// It is complete and says nothing.
    Nothing,
}

impl DecodeError {
    /// Says of text that should have been JSON what is wrong with it.
    pub(crate) fn not_json(text: &[u8], error: &serde_json::Error) -> Self {
        Self::Nonsense(match text.trim_ascii_start().first() {
            None => "an empty body".to_owned(),
            Some(b'<') => "a web page".to_owned(),
            Some(_) if error.is_data() => format!("JSON that is not a chat completion ({error})"),
            Some(_) => format!("text that is not JSON ({error})"),
        })
    }
}
