//! The OpenAPI description of the routes. It is written by hand because bodies have OpenAI's open-ended shapes. A test
//! checks that it lists exactly the routes of the router.

use serde_json::{Map, Value, json};

/// OpenAPI 3.1, as JSON.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

/// Every operation by its name, in the form that Hermes' clients expect.
pub(crate) fn endpoints() -> Value {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap_or_default();
    let mut endpoints = Map::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let name = operation["operationId"].as_str().unwrap_or_default();
            endpoints.insert(snake_case(name), json!({ "method": method.to_uppercase(), "path": path }));
        }
    }
    Value::Object(endpoints)
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_lists_exactly_the_routes_there_are() {
        let routes = include_str!("app.rs").split(".route(\"").skip(1).map(|rest| {
            let (path, handler) = rest.split_once("\", ").unwrap();
            let method = handler.split('(').next().unwrap();
            (path.replace("{*", "{"), method.to_owned())
        });
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let documented = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())).collect::<Vec<_>>()
        });
        assert_eq!(routes.collect::<BTreeSet<_>>(), documented.collect::<BTreeSet<_>>());
    }

    #[test]
    fn endpoints_have_names_in_snake_case() {
        assert_eq!(endpoints()["create_chat_completion"], json!({ "method": "POST", "path": "/v1/chat/completions" }));
    }
}
