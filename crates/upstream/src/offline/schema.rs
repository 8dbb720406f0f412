//! Makes an example that matches a JSON schema. The same schema always gives the same example.

use serde_json::{Map, Value, json};

/// How deep a schema is followed. A schema that refers to itself ends there.
const MAX_DEPTH: usize = 12;
/// The most elements or characters that are made, even if the schema asks for more.
const MAX_LENGTH: u64 = 64;

/// A value that matches the schema. A string without a format is `name`.
pub(super) fn example(schema: &Value, name: &str) -> Value {
    value(schema, schema, name, MAX_DEPTH)
}

fn value(schema: &Value, root: &Value, name: &str, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    if let Some(given) = given(schema) {
        return given.clone();
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|path| root.pointer(path.strip_prefix('#')?)) {
        return value(target, root, name, depth);
    }
    let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|key| schema[key].get(0));
    match (kind(schema), alternatives) {
        (None, Some(first)) => value(first, root, name, depth),
        (Some("string"), _) => text(schema, name),
        (Some("integer" | "number"), _) => number(schema),
        (Some("boolean"), _) => Value::Bool(true),
        (Some("null"), _) => Value::Null,
        (Some("array"), _) => {
            let least = schema["minItems"].as_u64().unwrap_or(1).clamp(1, MAX_LENGTH);
            let describes = schema["items"].is_object();
            let item = || value(&schema["items"], root, name, depth);
            (0..least).filter(|_| describes).map(|_| item()).collect()
        }
        _ => object(schema, root, depth),
    }
}

/// A value that the schema contains: a constant, default, enum member or example.
fn given(schema: &Value) -> Option<&Value> {
    let named = ["const", "default"].into_iter().find_map(|key| schema.get(key));
    named.or_else(|| schema["enum"].get(0)).or_else(|| schema["examples"].get(0))
}

/// The first type that is not null.
fn kind(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ if schema["properties"].is_object() => Some("object"),
        _ => None,
    }
}

/// An object with the required properties, or with all if the schema has no `required`.
fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(properties) = schema["properties"].as_object() else { return Value::Object(Map::new()) };
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_none_or(|names| names.iter().any(|required| required == name));
    let fields = properties.iter().filter(|(name, _)| is_required(name));
    fields.map(|(name, schema)| (name.clone(), value(schema, root, name, depth))).collect()
}

fn text(schema: &Value, name: &str) -> Value {
    let formatted = match schema["format"].as_str() {
        Some("date-time") => "2020-01-01T00:00:00Z",
        Some("date") => "2020-01-01",
        Some("time") => "00:00:00Z",
        Some("email") => "someone@example.com",
        Some("uri" | "url") => "https://example.com/",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => name,
    };
    let least = schema["minLength"].as_u64().unwrap_or(0).min(MAX_LENGTH) as usize;
    let most = schema["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let padding = std::iter::repeat_n('x', least.saturating_sub(formatted.chars().count()));
    Value::String(formatted.chars().chain(padding).take(most).collect())
}

fn number(schema: &Value) -> Value {
    let least = &schema["minimum"];
    let most = &schema["maximum"];
    if let Some(above) = schema["exclusiveMinimum"].as_i64() {
        return json!(above.saturating_add(1));
    }
    match (least.as_f64(), most.as_f64()) {
        (Some(least_number), _) if least_number > 1.0 => least.clone(),
        (_, Some(most_number)) if most_number < 1.0 => most.clone(),
        _ => json!(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_fit_their_schemas() {
        for (schema, expected) in [
            (json!({"type": "string"}), json!("n")),
            (json!({"type": "string", "minLength": 3}), json!("nxx")),
            (json!({"type": ["null", "string"], "format": "date"}), json!("2020-01-01")),
            (json!({"type": "string", "enum": ["b", "a"]}), json!("b")),
            (json!({"const": 7}), json!(7)),
            (json!({"type": "integer", "minimum": 5}), json!(5)),
            (json!({"type": "number", "maximum": 0.5}), json!(0.5)),
            (json!({"type": "boolean"}), json!(true)),
            (json!({"type": "array", "items": {"type": "integer"}, "minItems": 2}), json!([1, 1])),
            (json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}), json!(true)),
            (json!({"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}), json!({"a": "a"})),
            (json!({"type": "object", "properties": {"a": {"type": "string"}}}), json!({"a": "a"})),
            (json!({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}}), json!(1)),
            (json!(null), json!({})),
            (json!({}), json!({})),
        ] {
            assert_eq!(example(&schema, "n"), expected, "{schema}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(example(&schema, "n").is_object());
        assert_eq!(example(&json!({"$ref": "#"}), "n"), Value::Null);
    }
}
