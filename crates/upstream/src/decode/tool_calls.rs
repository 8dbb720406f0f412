//! Reads tool calls, whole or in pieces, as different servers write them.
//!
//! Each call gets exactly one index and one id, even if the server omits or repeats them. Its name is passed on once.

use herma_model::generation::{ToolCall, ToolCallDelta};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A call object as it was sent.
#[derive(Debug, Default)]
struct WireCall {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    custom: bool,
    extra: Map<String, Value>,
}

fn read(call: Map<String, Value>) -> WireCall {
    let mut sent = WireCall::default();
    for (field, value) in call {
        match (field.as_str(), value) {
            (_, Value::Null) => {}
            ("index", value) => sent.index = value.as_u64(),
            ("id", Value::String(id)) => sent.id = Some(id).filter(|id| !id.is_empty()),
            ("type", Value::String(kind)) if matches!(kind.as_str(), "function" | "custom" | "") => {}
            ("function", Value::Object(function)) => sent.read_tool(function, "arguments"),
            ("custom", Value::Object(custom)) => {
                sent.read_tool(custom, "input");
                sent.custom = true;
            }
            (field, value) => {
                sent.extra.insert(field.to_owned(), value);
            }
        }
    }
    sent
}

impl WireCall {
    fn read_tool(&mut self, mut tool: Map<String, Value>, arguments: &str) {
        let name = tool.get("name").and_then(Value::as_str);
        self.name = name.filter(|name| !name.is_empty()).map(str::to_owned);
        self.arguments = tool.get_mut(arguments).map(Value::take).and_then(argument_text);
    }
}

/// The arguments as text. Some servers send them as a JSON object instead of a string.
fn argument_text(arguments: Value) -> Option<String> {
    match arguments {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn new_call_id() -> String {
    format!("call_{}", Uuid::new_v4().simple())
}

/// Reads a call of a whole answer. A call gets a new id if it has none or the id of an earlier call.
pub(super) fn whole_call(call: Map<String, Value>, before: &[ToolCall]) -> ToolCall {
    let sent = read(call);
    let own = sent.id.filter(|id| before.iter().all(|call| call.id != *id));
    ToolCall {
        id: own.unwrap_or_else(new_call_id),
        name: sent.name.unwrap_or_default(),
        arguments: sent.arguments.unwrap_or_default(),
        custom: sent.custom,
        extra: sent.extra,
    }
}

/// The calls of a streamed answer so far. The position in the list is the index that Herma gives a call.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<StartedCall>);

#[derive(Debug)]
struct StartedCall {
    wire_index: Option<u64>,
    wire_id: String,
    named: bool,
}

impl Calls {
    /// Whether no call has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a piece of a call. `None` if it adds nothing. The first piece of a call has its id.
    pub(super) fn piece(&mut self, call: Map<String, Value>) -> Option<ToolCallDelta> {
        let sent = read(call);
        if let Some(at) = self.continued_by(&sent) {
            let call = &mut self.0[at];
            let name = sent.name.filter(|_| !std::mem::replace(&mut call.named, true));
            let adds = name.is_some() || sent.arguments.is_some() || !sent.extra.is_empty();
            let index = call_index(at);
            return adds.then_some(ToolCallDelta {
                index,
                id: None,
                name,
                arguments: sent.arguments,
                custom: sent.custom,
                extra: sent.extra,
            });
        }
        let wire_id = sent.id.unwrap_or_else(new_call_id);
        let is_taken = self.0.iter().any(|call| call.wire_id == wire_id);
        let id = if is_taken { new_call_id() } else { wire_id.clone() };
        self.0.push(StartedCall { wire_index: sent.index, wire_id, named: sent.name.is_some() });
        Some(ToolCallDelta {
            index: call_index(self.0.len() - 1),
            id: Some(id),
            name: sent.name,
            arguments: sent.arguments,
            custom: sent.custom,
            extra: sent.extra,
        })
    }

    /// The position of the call that a piece continues. `None` if the piece begins a new call.
    ///
    /// Some servers give every call the same index or none. Then a new id together with a name begins a new call.
    /// Other servers repeat the id and name in every piece of one call.
    fn continued_by(&self, sent: &WireCall) -> Option<usize> {
        let at = match (sent.index, &sent.id) {
            (Some(index), _) => self.0.iter().rposition(|call| call.wire_index == Some(index))?,
            (None, Some(id)) => return self.0.iter().rposition(|call| &call.wire_id == id),
            (None, None) if sent.name.is_some() => return None,
            (None, None) => self.0.len().checked_sub(1)?,
        };
        let is_another = sent.name.is_some() && sent.id.as_ref().is_some_and(|id| *id != self.0[at].wire_id);
        (!is_another).then_some(at)
    }
}

fn call_index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Index, id, name and arguments of each piece.
    fn pieces(wire: Vec<Value>) -> Vec<(u32, String, String, String)> {
        let mut calls = Calls::default();
        let pieces = wire.into_iter().filter_map(|piece| calls.piece(piece.as_object().unwrap().clone()));
        let text = Option::unwrap_or_default;
        pieces.map(|piece| (piece.index, text(piece.id), text(piece.name), text(piece.arguments))).collect()
    }

    fn piece(index: u32, id: &str, name: &str, arguments: &str) -> (u32, String, String, String) {
        (index, id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn pieces_of_one_call_name_it_once() {
        let seen = pieces(vec![
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}),
            json!({"index": 0, "function": {"arguments": "{"}}),
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}}),
            json!({"index": 0, "id": "", "function": {"name": ""}}),
            json!({"index": 3, "id": "b", "function": {"name": "g", "arguments": "{}"}}),
        ]);
        let expected =
            vec![piece(0, "a", "f", ""), piece(0, "", "", "{"), piece(0, "", "", "}"), piece(1, "b", "g", "{}")];
        assert_eq!(seen, expected);
    }

    #[test]
    fn calls_with_the_same_index_or_none_are_told_apart_by_their_ids() {
        for index in [json!(0), json!(null)] {
            let seen = pieces(vec![
                json!({"index": index, "id": "a", "function": {"name": "f", "arguments": "1"}}),
                json!({"index": index, "id": "b", "function": {"name": "f", "arguments": "2"}}),
                json!({"function": {"arguments": "3"}}),
            ]);
            assert_eq!(seen, vec![piece(0, "a", "f", "1"), piece(1, "b", "f", "2"), piece(1, "", "", "3")]);
        }
    }

    #[test]
    fn calls_with_the_same_id_get_ids_of_their_own() {
        let seen = pieces(vec![
            json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "1"}}),
            json!({"index": 1, "id": "a", "function": {"name": "f", "arguments": "2"}}),
            json!({"index": 1, "id": "a", "function": {"name": "f", "arguments": "3"}}),
        ]);
        assert!(seen[1].1.starts_with("call_"));
        assert_eq!(seen[2], piece(1, "", "", "3"));
    }

    #[test]
    fn a_call_without_an_id_gets_one_of_its_own() {
        let call = json!({"function": {"name": "f", "arguments": {"x": 1}}, "extra_content": {"y": 2}});
        let one = whole_call(call.as_object().unwrap().clone(), &[]);
        let other = whole_call(call.as_object().unwrap().clone(), &[]);
        assert!(one.id.starts_with("call_") && one.id != other.id);
        assert_eq!((one.name.as_str(), one.arguments.as_str()), ("f", r#"{"x":1}"#));
        assert_eq!(Value::Object(one.extra), json!({"extra_content": {"y": 2}}));
        assert!(pieces(vec![call])[0].1.starts_with("call_"));
    }
}
