//! Requests that Herma passes on to the model server: `POST /v1/completions` and `POST /v1/embeddings`.
//!
//! Only the model's name is read and replaced. Everything else stays as the client wrote it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Object, Writer};

/// A request to pass on.
#[derive(Debug)]
pub struct PassedRequest<'a> {
    /// The model the client asks for, if it names one.
    pub model: Option<String>,
    fields: Vec<(String, &'a RawValue)>,
}

/// Reads the model's name and keeps the other fields as they are.
pub fn parse(body: &[u8]) -> Result<PassedRequest<'_>, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|error| Flaw::new(format!("is not valid UTF-8: {error}")))?;
    Ok(read(Object::from_text(text)?)?)
}

fn read(mut body: Object<'_>) -> Result<PassedRequest<'_>, Flaw> {
    let model = body.take_text("model")?.filter(|name| !name.is_empty()).map(String::from);
    let fields: Vec<_> = body.rest().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(PassedRequest { model, fields })
}

impl PassedRequest<'_> {
    /// The request for the model server, with that server's name for the model.
    pub fn to_json(&self, model: &str) -> Vec<u8> {
        let bytes: usize = self.fields.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum();
        let mut writer = Writer::with_capacity(bytes + model.len() + 16);
        writer.open_object();
        writer.field("model", model);
        for (name, value) in &self.fields {
            writer.raw_field(name, value.get());
        }
        writer.close_object();
        writer.into_bytes(b"")
    }
}

/// The tokens that the model server counted: of the prompt and of the answer. `None` if it counted none.
pub fn tokens(answer: &[u8]) -> Option<(u64, u64)> {
    #[derive(Deserialize)]
    struct Answer {
        usage: Option<Usage>,
    }
    #[derive(Deserialize)]
    struct Usage {
        #[serde(default)]
        prompt_tokens: u64,
        #[serde(default)]
        completion_tokens: u64,
    }
    let usage = serde_json::from_slice::<Answer>(answer).ok()?.usage?;
    Some((usage.prompt_tokens, usage.completion_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_model_is_changed() {
        let body = br#"{ "prompt": [1, 2.50], "model": "mine", "stream": true, "x": {"b":1, "a":2} }"#;
        let request = parse(body).unwrap();
        assert_eq!(request.model.as_deref(), Some("mine"));
        let sent = r#"{"model":"theirs","prompt":[1, 2.50],"stream":true,"x":{"b":1, "a":2}}"#;
        assert_eq!(String::from_utf8(request.to_json("theirs")).unwrap(), sent);
        assert_eq!(parse(br#"{"model": 1}"#).unwrap_err().param.as_deref(), Some("model"));
    }

    #[test]
    fn tokens_are_read_where_they_are_counted() {
        assert_eq!(tokens(br#"{"data":[],"usage":{"prompt_tokens":5,"total_tokens":5}}"#), Some((5, 0)));
        assert_eq!(tokens(br#"{"data":[]}"#), None);
    }
}
