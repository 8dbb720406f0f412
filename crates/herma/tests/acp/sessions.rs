//! Sessions: made, listed, loaded, resumed, forked, closed and deleted.

use serde_json::{Value, json};

use crate::support::herma;
use crate::{Agent, text_of, updates_of};

fn provenance(answer: &Value) -> &Value {
    &answer["_meta"]["hermes"]["sessionProvenance"]
}

#[test]
fn a_session_says_where_it_comes_from_live_in_a_list_and_after_a_restart() {
    let mut agent = Agent::ready(&[]);
    let cwd = agent.cwd().to_owned();
    let made = agent.call("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
    let id = made["sessionId"].as_str().unwrap().to_owned();
    let facts = provenance(&made).clone();
    assert_eq!(facts["acpSessionId"], *id);
    for (name, value) in [("sessionKind", "main"), ("originKind", "main"), ("creatorKind", "acp")] {
        assert_eq!(facts[name], value, "{facts}");
    }
    assert_eq!((&facts["compressionDepth"], &facts["isUserFacing"]), (&json!(0), &json!(true)));
    assert!(facts.get("previousHermesSessionId").is_none(), "{facts}");
    assert_eq!(made["modes"]["currentModeId"], "ask");
    assert_eq!(made["configOptions"][0]["id"], "model");
    agent.prompt(&id, "hello");
    agent.kill();
    let mut later = agent.another();
    let listed = later.call("session/list", json!({ "cwd": cwd }));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
    let row = &listed["sessions"][0];
    assert_eq!((&row["sessionId"], &row["cwd"], &row["title"]), (&json!(id), &json!(cwd), &json!("hello")));
    assert_eq!(provenance(row), &facts);
    let resumed = later.call("session/resume", json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] }));
    assert_eq!(provenance(&resumed), &facts);
    let by_session = facts["currentHermesSessionId"].clone();
    let resumed = later.call("session/resume", json!({ "sessionId": by_session, "cwd": cwd, "mcpServers": [] }));
    assert_eq!(provenance(&resumed)["acpSessionId"], by_session, "any older id works too");
    assert_eq!(later.call("session/list", json!({ "cwd": "/nowhere" }))["sessions"], json!([]));
}

#[test]
fn load_replays_all_that_was_said_and_then_answers_with_the_same_ids() {
    let mut agent = Agent::ready(&[]);
    let id = agent.new_session();
    let (live, _) = agent.prompt(&id, "one");
    agent.prompt(&id, "two");
    let mut later = agent.another();
    let cwd = later.cwd().to_owned();
    let asked = later.ask("session/load", json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] }));
    let (before, answer) = later.until(asked);
    let replayed = updates_of(&before);
    let kinds: Vec<_> = replayed.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    let pair = ["user_message_chunk", "agent_message_chunk"];
    assert_eq!(kinds, [pair, pair].concat());
    assert_eq!(text_of(&replayed, "user_message_chunk"), "onetwo");
    let spoken = |updates: &[Value]| {
        let mut spoken = updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        spoken.next().unwrap()["messageId"].clone()
    };
    assert_eq!(spoken(&replayed), spoken(&live));
    assert_eq!(provenance(&answer["result"])["acpSessionId"], *id);
}

#[test]
fn conversations_of_other_front_doors_are_listed_and_loaded_and_the_other_way_round() {
    let mut agent = Agent::ready(&[]);
    let id = agent.new_session();
    agent.prompt(&id, "from the editor");
    let shown = herma(agent.data.path(), &["sessions", "show", &id]);
    assert!(shown.contains("from the editor"), "{shown}");
    let made = herma(agent.data.path(), &["sessions", "branch", &id, "--id", "trip"]);
    assert!(made.contains("trip"), "{made}");
    let cwd = agent.cwd().to_owned();
    let asked = agent.ask("session/load", json!({ "sessionId": "trip", "cwd": cwd, "mcpServers": [] }));
    let (before, answer) = agent.until(asked);
    assert_eq!(text_of(&updates_of(&before), "user_message_chunk"), "from the editor");
    assert_eq!(provenance(&answer["result"])["sessionKind"], "branch");
    let listed = agent.call("session/list", json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2), "the branch inherits the directory");
}

#[test]
fn a_fork_is_a_branch_and_its_source_stays() {
    let mut agent = Agent::ready(&[]);
    let id = agent.new_session();
    agent.prompt(&id, "one");
    let cwd = agent.cwd().to_owned();
    let forked = agent.call("session/fork", json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] }));
    let branch = forked["sessionId"].as_str().unwrap().to_owned();
    let facts = provenance(&forked);
    assert_eq!((&facts["sessionKind"], &facts["parentRelation"]), (&json!("branch"), &json!("branch")));
    assert_ne!(branch, id);
    let (updates, _) = agent.prompt(&branch, "two");
    assert!(text_of(&updates, "agent_message_chunk").contains("message 2 of this conversation"), "{updates:?}");
    let (updates, _) = agent.prompt(&id, "two");
    assert!(text_of(&updates, "agent_message_chunk").contains("message 2 of this conversation"), "{updates:?}");
}

#[test]
fn an_unknown_session_is_named_and_its_deletion_succeeds() {
    let mut agent = Agent::ready(&[]);
    let cwd = agent.cwd().to_owned();
    for id in ["nobody", "conv_00000000000000000000000000000000", "../x"] {
        let setup = json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] });
        for (method, params) in [
            ("session/load", setup.clone()),
            ("session/resume", setup.clone()),
            ("session/fork", setup),
            ("session/close", json!({ "sessionId": id })),
            ("session/set_mode", json!({ "sessionId": id, "modeId": "auto" })),
            ("session/prompt", json!({ "sessionId": id, "prompt": [{ "type": "text", "text": "x" }] })),
        ] {
            let answer = agent.answer(method, params);
            assert_eq!(answer["error"]["code"], -32002, "{method}: {answer}");
            assert_eq!(answer["error"]["data"]["sessionId"], id, "{method}");
        }
        assert_eq!(agent.call("session/delete", json!({ "sessionId": id })), json!({}));
    }
}

#[test]
fn a_deleted_session_is_gone_and_a_closed_one_is_not() {
    let mut agent = Agent::ready(&[]);
    let (kept, gone) = (agent.new_session(), agent.new_session());
    agent.prompt(&kept, "one");
    assert_eq!(agent.call("session/close", json!({ "sessionId": kept })), json!({}));
    agent.call("session/delete", json!({ "sessionId": gone }));
    let listed = agent.call("session/list", json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["sessions"][0]["sessionId"], *kept);
    assert_eq!(agent.answer("session/prompt", json!({ "sessionId": gone, "prompt": [] }))["error"]["code"], -32002);
}

#[test]
fn a_mode_is_stored_and_a_session_key_cannot_change() {
    let mut agent = Agent::ready(&[]);
    let cwd = agent.cwd().to_owned();
    let keyed = |key: &str| json!({ "hermes": { "sessionKey": key } });
    let made = agent.call("session/new", json!({ "cwd": cwd, "mcpServers": [], "_meta": keyed("agent:ada") }));
    let id = made["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(agent.answer("session/set_mode", json!({ "sessionId": id, "modeId": "king" }))["error"]["code"], -32602);
    agent.call("session/set_mode", json!({ "sessionId": id, "modeId": "read_only" }));
    let mut later = agent.another();
    let resume = |key: &str| json!({ "sessionId": id, "cwd": cwd, "mcpServers": [], "_meta": keyed(key) });
    let refused = later.answer("session/resume", resume("agent:bob"));
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["code"]),
        (&json!(-32602), &json!("session_key_conflict"))
    );
    assert_eq!(later.call("session/resume", resume("agent:ada"))["modes"]["currentModeId"], "read_only");
}

#[test]
fn load_resume_and_fork_store_the_session_key_before_any_prompt() {
    let mut agent = Agent::ready(&[]);
    let cwd = agent.cwd().to_owned();
    let (loaded, resumed, forked) = (agent.new_session(), agent.new_session(), agent.new_session());
    agent.prompt(&forked, "hello");
    let asked = |id: &str, key: &str| {
        let meta = json!({ "hermes": { "sessionKey": key } });
        json!({ "sessionId": id, "cwd": cwd, "mcpServers": [], "_meta": meta })
    };
    agent.call("session/load", asked(&loaded, "agent:ada"));
    agent.call("session/resume", asked(&resumed, "agent:ada"));
    let fork = agent.call("session/fork", asked(&forked, "agent:ada"))["sessionId"].as_str().unwrap().to_owned();
    let mut later = agent.another();
    for id in [&loaded, &resumed, &fork] {
        let refused = later.answer("session/load", asked(id, "agent:bob"));
        assert_eq!(refused["error"]["data"]["code"], "session_key_conflict", "{refused}");
        later.call("session/load", asked(id, "agent:ada"));
    }
    later.call("session/load", asked(&forked, "agent:bob"));
}

#[test]
fn commands_answer_without_the_model_and_are_not_stored() {
    let mut agent = Agent::ready(&[]);
    let id = agent.new_session();
    for (typed, shown) in [
        ("/help", "/compact"),
        ("/title My work", "The title was set."),
        ("/model", "offline"),
        ("/sessions", "My work"),
        ("/compact", "Nothing was changed"),
    ] {
        let (updates, answer) = agent.prompt(&id, typed);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{typed}: {answer}");
        let text = text_of(&updates, "agent_message_chunk");
        assert!(text.contains(shown), "{typed}: {text}");
        assert!(updates.iter().all(|update| update["sessionUpdate"] != "compaction_update"), "{updates:?}");
    }
    let (updates, _) = agent.prompt(&id, "/unknown word");
    let text = text_of(&updates, "agent_message_chunk");
    assert!(text.contains("You said: /unknown word (message 1"), "{text}");
}
