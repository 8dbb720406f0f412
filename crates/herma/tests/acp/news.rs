//! What another process does to a session that an editor has open: told once, and only if the editor does not know it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::herma;
use crate::{Agent, updates_of};

/// Far more than the agent needs, and the most that it may take.
const A_SECOND: Duration = Duration::from_secs(1);

/// An agent whose model has this window, with a session of six turns.
fn agent(capabilities: Value, window: u32) -> (Agent, String) {
    let mut first = Agent::start(&[]);
    std::fs::write(first.data.path().join("herma.toml"), format!("[upstream]\ncontext_window = {window}\n")).unwrap();
    first.capabilities = capabilities;
    let mut agent = first.another();
    let session = agent.new_session();
    for turn in 1..=6 {
        let text = format!("turn {turn}: {}", "all work and no play makes a long conversation ".repeat(6));
        assert_eq!(agent.prompt(&session, &text).1["result"]["stopReason"], "end_turn");
    }
    (agent, session)
}

fn shows_compactions() -> Value {
    json!({ "session": { "compaction": {} } })
}

fn run(agent: &Agent, arguments: &[&str]) -> String {
    herma(agent.data.path(), &[&["sessions"], arguments].concat())
}

/// All updates until a title that another process now sets. Events are told in order, so all earlier ones are there.
fn told_so_far(agent: &Agent, session: &str) -> Vec<Value> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let title = format!("title {}", COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    run(agent, &["rename", session, &title]);
    let mut told = Vec::new();
    loop {
        let update = updates_of(&[agent.next()]).remove(0);
        if update["title"] == title {
            return told;
        }
        told.push(update);
    }
}

fn kinds(updates: &[Value]) -> Vec<&str> {
    updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect()
}

fn provenance(update: &Value) -> &Value {
    &update["_meta"]["hermes"]["sessionProvenance"]
}

const WHOLE: [&str; 4] = ["compaction_update", "compaction_update", "session_info_update", "usage_update"];

#[test]
fn a_split_by_another_process_is_told_once_within_a_second() {
    let (mut agent, session) = agent(shows_compactions(), 9000);
    assert_eq!(told_so_far(&agent, &session), Vec::<Value>::new());
    run(&agent, &["compact", &session, "--mode", "split"]);
    let begun = Instant::now();
    let told: Vec<Value> = (0..4).map(|_| updates_of(&[agent.next()]).remove(0)).collect();
    assert!(begun.elapsed() < A_SECOND, "{:?}", begun.elapsed());
    assert_eq!(kinds(&told), WHOLE);
    assert_eq!((&told[0]["status"], &told[1]["status"]), (&json!("in_progress"), &json!("completed")));
    assert_eq!(told[0]["compactionId"], told[1]["compactionId"]);
    assert!(!told[1]["summary"][0]["text"].as_str().unwrap().is_empty());
    let facts = provenance(&told[2]);
    assert_eq!((&facts["acpSessionId"], &facts["compactionMode"]), (&json!(session), &json!("split")));
    assert_eq!((&facts["compressionDepth"], &facts["sessionKind"]), (&json!(1), &json!("continuation")));
    assert_eq!(facts["previousHermesSessionId"], facts["rootHermesSessionId"]);
    assert!(told[2].get("title").is_none(), "{}", told[2]);
    assert_eq!(told[3]["size"], 9000);
    assert_eq!(told_so_far(&agent, &session), Vec::<Value>::new(), "it is told once");
    let listed = agent.call("session/list", json!({}));
    assert_eq!(provenance(&listed["sessions"][0]), facts);
    for method in ["session/load", "session/resume"] {
        let mut later = agent.another();
        let asked = later.take_up(method, &session);
        assert_eq!(provenance(&later.until(asked).1["result"]), facts);
        later.next();
        assert_eq!(told_so_far(&later, &session), Vec::<Value>::new(), "{method} has shown it");
    }
}

#[test]
fn a_compaction_in_place_by_another_process_claims_no_new_head() {
    let (agent, session) = agent(json!({}), 9000);
    run(&agent, &["compact", &session, "--mode", "in_place"]);
    let told = told_so_far(&agent, &session);
    assert_eq!(kinds(&told), ["session_info_update", "usage_update"], "this editor shows no compactions");
    let facts = provenance(&told[0]);
    assert_eq!((&facts["compactionMode"], &facts["compactionCount"]), (&json!("in_place"), &json!(1)));
    assert_eq!(facts["currentHermesSessionId"], facts["rootHermesSessionId"]);
    assert!(facts.get("previousHermesSessionId").is_none(), "{facts}");
    let ledger = run(&agent, &["compactions", &session]);
    let compaction = ledger.lines().nth(1).and_then(|line| line.split_whitespace().next()).unwrap();
    run(&agent, &["undo", &session, compaction]);
    let told = told_so_far(&agent, &session);
    assert_eq!(kinds(&told), ["usage_update"], "an undo moves no head, and makes the context longer");
}

#[test]
fn a_compaction_by_this_editor_is_told_once() {
    let (mut agent, session) = agent(shows_compactions(), 9000);
    let (updates, answer) = agent.prompt(&session, "/compact");
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(kinds(&updates), [&WHOLE[..], &["agent_message_chunk"]].concat());
    assert_eq!(told_so_far(&agent, &session), Vec::<Value>::new());
    let (mut agent, session) = self::agent(shows_compactions(), 1500);
    let mut compactions = 0;
    for turn in 0..12 {
        let text = format!("more {turn}: {}", "a long way to the next compaction ".repeat(20));
        let (mut updates, answer) = agent.prompt(&session, &text);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        let is_moved = updates.iter().any(|update| provenance(update).is_object());
        compactions += usize::from(is_moved);
        updates.retain(|update| update["sessionUpdate"] != "agent_message_chunk");
        assert_eq!(kinds(&updates).len(), if is_moved { 5 } else { 1 }, "the usage comes at the end, too: {updates:?}");
        assert_eq!(told_so_far(&agent, &session), Vec::<Value>::new());
    }
    assert!(compactions > 1);
}

#[test]
fn compactions_by_turns_of_another_editor_are_told_to_this_one() {
    let (agent, session) = agent(shows_compactions(), 1500);
    let mut other = agent.another();
    let asked = other.take_up("session/resume", &session);
    other.until(asked);
    let mut theirs = Vec::new();
    while theirs.len() < 2 {
        let (updates, _) =
            other.prompt(&session, &format!("more: {}", "a long way to the next compaction ".repeat(20)));
        theirs.extend(updates.into_iter().filter(|update| provenance(update).is_object()));
    }
    let told = told_so_far(&agent, &session);
    assert_eq!(kinds(&told), [WHOLE, WHOLE].concat());
    let mine: Vec<Value> = told.into_iter().filter(|update| provenance(update).is_object()).collect();
    assert_eq!(mine, theirs);
}

#[test]
fn a_session_that_is_open_by_two_ids_is_told_of_by_both() {
    let (mut agent, session) = agent(json!({}), 9000);
    let listed = agent.call("session/list", json!({}));
    let head = provenance(&listed["sessions"][0])["currentHermesSessionId"].as_str().unwrap().to_owned();
    let asked = agent.take_up("session/resume", &head);
    agent.until(asked);
    agent.next();
    let asked = agent.ask_prompt(&session, "/compact");
    agent.until(asked);
    let told = [agent.next(), agent.next()];
    assert!(told.iter().all(|message| message["params"]["sessionId"] == head), "{told:?}");
    assert_eq!(kinds(&updates_of(&told)), ["session_info_update", "usage_update"]);
    assert_eq!(provenance(&updates_of(&told)[0])["acpSessionId"], head);
}

#[test]
fn a_load_of_a_session_that_is_open_repeats_no_news() {
    let (mut agent, session) = agent(shows_compactions(), 9000);
    run(&agent, &["compact", &session]);
    assert_eq!(kinds(&told_so_far(&agent, &session)), WHOLE);
    for method in ["session/load", "session/resume"] {
        let asked = agent.take_up(method, &session);
        agent.until(asked);
        agent.next();
        assert_eq!(told_so_far(&agent, &session), Vec::<Value>::new(), "{method}");
    }
    agent.call("session/close", json!({ "sessionId": session }));
    run(&agent, &["rename", &session, "of nobody"]);
    let other = agent.new_session();
    assert_eq!(told_so_far(&agent, &other), Vec::<Value>::new(), "a closed session has no news");
}

#[test]
fn a_title_by_another_process_is_told_without_provenance() {
    let (agent, session) = agent(json!({}), 9000);
    run(&agent, &["rename", &session, "Harbour"]);
    let told = updates_of(&[agent.next()]);
    assert_eq!(told, [json!({ "sessionUpdate": "session_info_update", "title": "Harbour" })]);
}

#[test]
fn a_deletion_is_a_notice_to_editors_that_show_notices_and_the_session_is_gone() {
    for (capabilities, is_told) in [(json!({ "session": { "notices": {} } }), true), (json!({}), false)] {
        let (mut agent, session) = agent(capabilities, 9000);
        let other = agent.new_session();
        run(&agent, &["delete", &session, "--yes"]);
        if is_told {
            let notice = updates_of(&[agent.next()]).remove(0);
            assert_eq!((&notice["sessionUpdate"], &notice["severity"]), (&json!("notice"), &json!("warning")));
        }
        assert_eq!(told_so_far(&agent, &other), Vec::<Value>::new());
        let (_, answer) = agent.prompt(&session, "still there?");
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"]["sessionId"]),
            (&json!(-32002), &json!(session))
        );
    }
}
