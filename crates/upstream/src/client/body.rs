//! The body of a request, built from texts that are already JSON.
//!
//! Messages and parameters are sent byte for byte as they are stored. Otherwise a provider's prompt cache
//! would miss. Nothing is serialised twice.

use bytes::Bytes;
use herma_model::ModelCall;

const STREAMING: &[u8] = br#","stream":true,"stream_options":{"include_usage":true}"#;

/// The chat-completions request for a call.
pub(super) fn request_body(call: &ModelCall) -> Bytes {
    let messages: usize = call.messages.iter().map(|message| message.as_json().len() + 1).sum();
    let params: usize = call.params.0.iter().map(|(name, json)| name.len() + json.len() + 8).sum();
    let mut body = Vec::with_capacity(messages + params + call.model.len() + 128);
    body.extend_from_slice(br#"{"model":"#);
    push_string(&mut body, &call.model);
    body.extend_from_slice(br#","messages":["#);
    for (at, message) in call.messages.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        body.extend_from_slice(message.as_json().as_bytes());
    }
    body.push(b']');
    for (name, json) in &call.params.0 {
        body.push(b',');
        push_string(&mut body, name);
        body.push(b':');
        body.extend_from_slice(json.as_bytes());
    }
    if call.streaming {
        body.extend_from_slice(STREAMING);
    }
    body.push(b'}');
    body.into()
}

fn push_string(body: &mut Vec<u8>, text: &str) {
    // Writing a string into a vector cannot fail.
    drop(serde_json::to_writer(body, text));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use herma_model::{Params, Payload, Retries};

    use super::*;

    #[test]
    fn stored_texts_are_sent_unchanged() {
        let mut call = ModelCall {
            model: "a \"model\"".to_owned(),
            messages: vec![
                Payload::from_json(r#"{"role":"system",  "content":"ä"}"#),
                Payload::from_json(r#"{"content":"\u00e4","role":"user"}"#),
            ],
            params: Arc::new(Params(vec![("temperature".into(), "1.0".into()), ("tools".into(), "[ ]".into())])),
            streaming: false,
            retries: Retries::AsConfigured,
            trace: None,
        };
        let plain = r#"{"model":"a \"model\"","messages":[{"role":"system",  "content":"ä"},{"content":"\u00e4","role":"user"}],"temperature":1.0,"tools":[ ]}"#;
        assert_eq!(request_body(&call), plain.as_bytes());
        call.streaming = true;
        call.messages.clear();
        call.params = Arc::default();
        let streaming =
            r#"{"model":"a \"model\"","messages":[],"stream":true,"stream_options":{"include_usage":true}}"#;
        assert_eq!(request_body(&call), streaming.as_bytes());
    }
}
