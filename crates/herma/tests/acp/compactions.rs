//! Compactions: told once each, at the moment they happen, and the same afterwards.

use herma_testkit::{Gate, Reply, ScriptedUpstream};
use serde_json::{Value, json};

use crate::Agent;

const SMALL: [(&str, &str); 1] = [("HERMA_CONTEXT_WINDOW", "1200")];

fn long(text: &str) -> String {
    format!("{text}: {}", "all work and no play makes a long conversation ".repeat(12))
}

/// Prompts until a compaction happens. Its updates, and all of that prompt.
fn until_compacted(agent: &mut Agent, id: &str) -> Vec<Value> {
    for turn in 1..20 {
        let (updates, answer) = agent.prompt(id, &long(&format!("turn {turn}")));
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        let is_told = |update: &Value| update["_meta"]["hermes"]["sessionProvenance"].is_object();
        if updates.iter().any(is_told) {
            return updates;
        }
        let compactions = updates.iter().filter(|update| update["sessionUpdate"] == "compaction_update");
        assert_eq!(compactions.count(), 0, "nothing is told if nothing moved: {updates:?}");
    }
    panic!("there was no compaction");
}

#[test]
fn a_split_is_told_once_and_the_editors_id_leads_to_the_new_head_after_a_kill() {
    let mut agent = Agent::ready(&SMALL);
    let id = agent.new_session();
    let updates = until_compacted(&mut agent, &id);
    let kinds: Vec<&str> = updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    let before: Vec<&str> = kinds.iter().copied().take_while(|kind| *kind != "agent_message_chunk").collect();
    assert_eq!(before, ["compaction_update", "compaction_update", "session_info_update", "usage_update"]);
    assert_eq!((&updates[0]["status"], &updates[1]["status"]), (&json!("in_progress"), &json!("completed")));
    assert_eq!(updates[0]["compactionId"], updates[1]["compactionId"]);
    let summary = updates[1]["summary"][0]["text"].as_str().unwrap();
    assert!(!summary.is_empty() && !summary.contains("in place of its earlier messages"), "{summary}");
    let facts = updates[2]["_meta"]["hermes"]["sessionProvenance"].clone();
    for (name, value) in
        [("compressionDepth", json!(1)), ("compactionCount", json!(1)), ("compactionMode", json!("split"))]
    {
        assert_eq!(facts[name], value, "{facts}");
    }
    assert_eq!((&facts["acpSessionId"], &facts["sessionKind"]), (&json!(id), &json!("continuation")));
    assert_eq!(facts["previousHermesSessionId"], facts["rootHermesSessionId"]);
    assert_eq!(updates[3]["size"], 1200);
    agent.kill();
    let mut later = agent.another();
    let cwd = later.cwd().to_owned();
    let listed = later.call("session/list", json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["sessions"][0]["_meta"]["hermes"]["sessionProvenance"], facts);
    let asked = later.ask("session/load", json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] }));
    let (replayed, loaded) = later.until(asked);
    assert_eq!(loaded["result"]["_meta"]["hermes"]["sessionProvenance"], facts);
    let replayed = crate::updates_of(&replayed);
    let compactions: Vec<_> = replayed.iter().filter(|update| update["sessionUpdate"] == "compaction_update").collect();
    assert!(matches!(compactions[..], [one] if one["status"] == "completed"), "{compactions:?}");
    assert_eq!(later.prompt(&id, "and now?").1["result"]["stopReason"], "end_turn");
}

#[test]
fn a_compaction_in_place_moves_no_head() {
    let agent = Agent::start(&SMALL);
    std::fs::write(agent.data.path().join("herma.toml"), "[compaction]\nmode = \"in_place\"\n").unwrap();
    let mut agent = agent.another();
    let id = agent.new_session();
    let updates = until_compacted(&mut agent, &id);
    let told = updates.iter().find(|update| update["_meta"]["hermes"]["sessionProvenance"].is_object()).unwrap();
    let facts = &told["_meta"]["hermes"]["sessionProvenance"];
    assert_eq!((&facts["compactionMode"], &facts["compressionDepth"]), (&json!("in_place"), &json!(0)));
    assert_eq!(facts["currentHermesSessionId"], facts["rootHermesSessionId"]);
    assert!(facts.get("previousHermesSessionId").is_none(), "{facts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_by_command_can_be_cancelled_and_then_changes_nothing() {
    let upstream = ScriptedUpstream::start().await;
    let mut agent = Agent::scripted(&upstream, "[upstream]\ncontext_window = 9000\n");
    let id = agent.new_session();
    for turn in 0..6 {
        agent.prompt(&id, &long(&format!("turn {turn}")));
    }
    let gate = Gate::new();
    upstream.push(Reply::text("a summary").held(&gate));
    let asked = agent.ask_prompt(&id, "/compact");
    let (_, begun) = agent.until_asked("session/update");
    assert_eq!(begun["params"]["update"]["status"], "in_progress", "{begun}");
    gate.until_waiting(1).await;
    agent.notify("session/cancel", json!({ "sessionId": id }));
    let (before, answer) = agent.until(asked);
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    let told = crate::updates_of(&before);
    assert!(matches!(&told[..], [one] if one["status"] == "cancelled"), "{told:?}");
    gate.open();
    let listed = agent.call("session/list", json!({}));
    assert_eq!(listed["sessions"][0]["_meta"]["hermes"]["sessionProvenance"]["compactionCount"], 0);
    let (updates, answer) = agent.prompt(&id, "/branch Another way");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(crate::text_of(&updates, "agent_message_chunk").contains("You are still in this session"));
    let listed = agent.call("session/list", json!({}));
    let titles: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|row| &row["title"]).collect();
    assert!(titles.len() == 2 && titles.contains(&&json!("Another way")), "{titles:?}");
}
