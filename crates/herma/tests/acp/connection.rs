//! The beginning and the end of a connection, and what goes wrong on it.

use serde_json::{Value, json};

use crate::Agent;

#[test]
fn initialize_says_what_the_agent_can_do() {
    let mut agent = Agent::start(&[]);
    let answer = agent.call("initialize", json!({ "protocolVersion": 2, "clientCapabilities": {} }));
    assert_eq!(answer["protocolVersion"], 1);
    let capabilities = &answer["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(capabilities["_meta"]["hermes"]["sessionProvenance"], true);
    for name in ["list", "resume", "close", "delete", "fork"] {
        assert_eq!(capabilities["sessionCapabilities"][name], json!({}), "{name}");
    }
    assert_eq!(agent.call("authenticate", json!({ "methodId": "any" })), json!({}));
}

#[test]
fn errors_have_their_codes_repeat_no_parameter_and_end_nothing() {
    let mut agent = Agent::start(&[]);
    assert_eq!(agent.answer("session/list", json!({}))["error"]["code"], -32600, "before initialize");
    agent.call("initialize", json!({ "protocolVersion": 1 }));
    agent.write("this is no JSON hunter22");
    let error = agent.next();
    assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(-32700)));
    let secret = json!({ "cwd": "hunter22", "mcpServers": [{ "env": [{ "name": "T", "value": "hunter22" }] }] });
    for (method, params, code) in [
        ("no/such_method", json!({ "a": "hunter22" }), -32601),
        ("session/new", json!({ "cwd": 7, "mcpServers": "hunter22" }), -32602),
        ("session/new", secret, -32602),
        ("session/new", json!({ "cwd": "/tmp" }), -32602),
        ("session/list", json!({ "cursor": "hunter22" }), -32602),
        ("session/list", json!({ "cwd": "hunter22" }), -32602),
        ("session/prompt", json!({ "prompt": "hunter22" }), -32602),
    ] {
        let answer = agent.answer(method, params);
        assert_eq!(answer["error"]["code"], code, "{method}: {answer}");
        assert!(!answer.to_string().contains("hunter22"), "{answer}");
    }
    agent.notify("no/such_notification", json!({}));
    agent.new_session();
}

#[test]
fn the_end_of_input_ends_the_agent_with_0() {
    let mut agent = Agent::ready(&[]);
    agent.new_session();
    assert_eq!(agent.end().code(), Some(0));
}
