//! The error envelope of every HTTP answer that is not a success.

use serde::Serialize;

use crate::json::Writer;

/// An error as clients see it. All four fields are always present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    /// What happened and what to do about it, for people. It holds no secrets.
    pub message: String,
    /// The class of the error, by OpenAI's names: `invalid_request_error`, `server_error` and the like.
    #[serde(rename = "type")]
    pub kind: String,
    /// The field or header at fault.
    pub param: Option<String>,
    /// The error, for programs.
    pub code: String,
}

impl ErrorBody {
    /// The JSON body.
    pub fn to_json(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(self.message.len() + 128);
        writer.open_object();
        writer.field("error", self);
        writer.close_object();
        writer.into_bytes(b"")
    }

    /// The JSON of an `error` event in place of a response. `status` is the HTTP status that an answer would have had.
    pub fn to_event(&self, status: u16) -> String {
        self.event(status, None)
    }

    /// Like [`Self::to_event`], with sequence number 0: the first and only event of a stream.
    pub fn to_first_event(&self, status: u16) -> String {
        self.event(status, Some(0))
    }

    fn event(&self, status: u16, number: Option<u64>) -> String {
        let mut writer = Writer::with_capacity(self.message.len() + 160);
        writer.open_object();
        writer.field("type", "error");
        if let Some(number) = number {
            writer.field("sequence_number", &number);
        }
        writer.field("status", &status);
        writer.field("error", self);
        writer.close_object();
        writer.into_text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_type_its_status_and_the_whole_error() {
        let error = ErrorBody {
            message: "no".to_owned(),
            kind: "invalid_request_error".to_owned(),
            param: None,
            code: "invalid_request".to_owned(),
        };
        assert_eq!(
            error.to_event(400),
            r#"{"type":"error","status":400,"error":{"message":"no","type":"invalid_request_error","param":null,"code":"invalid_request"}}"#
        );
        assert_eq!(
            error.to_first_event(400),
            r#"{"type":"error","sequence_number":0,"status":400,"error":{"message":"no","type":"invalid_request_error","param":null,"code":"invalid_request"}}"#
        );
    }
}
