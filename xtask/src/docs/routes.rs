//! The page of all routes, made from the OpenAPI document. Pure: a document in, Markdown out.

use std::fmt::Write as _;

use serde_json::Value;

/// A heading for each route, with its parameters and the fields of its body.
pub(super) fn page(openapi: &Value) -> String {
    let mut text = String::new();
    for (path, methods) in openapi["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let _ = writeln!(text, "## `{} {path}`\n", method.to_uppercase());
            for prose in [&operation["summary"], &operation["description"]].into_iter().filter_map(Value::as_str) {
                let _ = writeln!(text, "{prose}\n");
            }
            parameters(&mut text, operation);
            fields(&mut text, openapi, operation);
            answers(&mut text, operation);
        }
    }
    text
}

fn parameters(text: &mut String, operation: &Value) {
    let given = operation["parameters"].as_array().into_iter().flatten();
    let rows = given.map(|parameter| {
        let [name, place] = ["name", "in"].map(|key| parameter[key].as_str().unwrap_or_default());
        (name, format!("{place}: {}", kind(&parameter["schema"])), about(parameter))
    });
    table(text, "parameter", rows.collect());
}

fn fields(text: &mut String, openapi: &Value, operation: &Value) {
    let Some(content) = operation["requestBody"]["content"].as_object() else { return };
    let Some(schema) = content.values().next().map(|content| &content["schema"]) else { return };
    let schema = resolved(openapi, if schema["allOf"].is_array() { &schema["allOf"][0] } else { schema });
    let properties = schema["properties"].as_object().into_iter().flatten();
    let rows = properties.map(|(name, property)| {
        let property = resolved(openapi, property);
        (name.as_str(), kind(property), about(property))
    });
    table(text, "field", rows.collect());
}

/// The statuses of successes. Errors are alike everywhere.
fn answers(text: &mut String, operation: &Value) {
    let statuses = operation["responses"].as_object().into_iter().flatten();
    for (status, answer) in statuses.filter(|(status, _)| status.starts_with(['1', '2'])) {
        let _ = writeln!(text, "{status}: {}\n", answer["description"].as_str().unwrap_or_default());
    }
}

fn table(text: &mut String, heading: &str, rows: Vec<(&str, String, String)>) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "| {heading} | | |\n|---|---|---|");
    for (name, kind, about) in rows {
        let _ = writeln!(text, "| `{name}` | {kind} | {about} |");
    }
    text.push('\n');
}

/// The schema that a reference leads to, or the schema itself.
fn resolved<'a>(openapi: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    target.and_then(|pointer| openapi.pointer(pointer)).unwrap_or(schema)
}

/// What values a schema allows, in a few words.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values =
            values.iter().map(|value| format!("`{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        return values.collect::<Vec<_>>().join(", ");
    }
    match &schema["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => {
            ["oneOf", "anyOf"].into_iter().find_map(|key| schema[key].as_array()).map_or_else(String::new, |choices| {
                choices.iter().map(kind).filter(|kind| !kind.is_empty()).collect::<Vec<_>>().join(" or ")
            })
        }
    }
}

fn about(described: &Value) -> String {
    described["description"].as_str().unwrap_or_default().replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_route_has_its_parameters_the_fields_of_its_body_and_its_answers() {
        let openapi = json!({
            "components": { "schemas": { "Body": { "properties": {
                "id": { "type": ["string", "null"] },
                "view": { "enum": ["full", "model"], "description": "What to read." }
            } } } },
            "paths": { "/a": { "post": {
                "summary": "Reads.",
                "parameters": [{ "name": "q", "in": "query", "schema": { "type": "string" }, "description": "a|b" }],
                "requestBody": { "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Body" }
                } } },
                "responses": { "200": { "description": "All of it." }, "404": { "description": "None." } }
            } } }
        });
        let expected = "## `POST /a`\n\nReads.\n\n\
            | parameter | | |\n|---|---|---|\n| `q` | query: string | a\\|b |\n\n\
            | field | | |\n|---|---|---|\n| `id` | string or null |  |\n| `view` | `full`, `model` | What to read. |\n\n\
            200: All of it.\n\n";
        assert_eq!(page(&openapi), expected);
    }
}
