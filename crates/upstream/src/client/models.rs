//! The list of models that a server offers.

use serde_json::Value;

use crate::decode::DecodeError;
use crate::server::ModelInfo;

/// Reads the OpenAI list, or the bare array of some servers. Entries without an id are left out.
pub(super) fn decode_models(body: &[u8]) -> Result<Vec<ModelInfo>, DecodeError> {
    let body: Value = serde_json::from_slice(body).map_err(|error| DecodeError::not_json(body, &error))?;
    let list = body.get("data").unwrap_or(&body).as_array();
    let list = list.ok_or_else(|| DecodeError::Nonsense("JSON that is not a list of models".to_owned()))?;
    Ok(list.iter().filter_map(model).collect())
}

fn model(entry: &Value) -> Option<ModelInfo> {
    Some(ModelInfo {
        id: entry.get("id")?.as_str()?.to_owned(),
        created: entry.get("created").and_then(Value::as_i64).unwrap_or(0),
        owned_by: entry.get("owned_by").and_then(Value::as_str).unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_different_servers_are_read() {
        let model =
            |id: &str, created, owned_by: &str| ModelInfo { id: id.to_owned(), created, owned_by: owned_by.to_owned() };
        let openai = br#"{"object":"list","data":[{"id":"a","object":"model","created":7,"owned_by":"x"},{}]}"#;
        assert_eq!(decode_models(openai), Ok(vec![model("a", 7, "x")]));
        assert_eq!(decode_models(br#"[{"id":"b"}]"#), Ok(vec![model("b", 0, "")]));
        assert!(matches!(decode_models(b"{}"), Err(DecodeError::Nonsense(_))));
        assert!(matches!(decode_models(b"<html>"), Err(DecodeError::Nonsense(_))));
    }
}
