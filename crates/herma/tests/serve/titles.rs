//! Titles of conversations to which no client gave one: from the first words, from a model, or none.

use std::time::Duration;

use herma_testkit::upstream::Recorded;
use herma_testkit::{Gate, Launch, PATIENCE, Reply};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::support::{CHAT, TestGateway, chat, data, error, lines, streamed, system, user, with};

const SESSIONS: &str = "/api/sessions";
const BY_MODEL: [(&str, &str); 1] = [("HERMA_TITLES__BY", "model")];

async fn title(gateway: &TestGateway, name: &str) -> Value {
    gateway.client().get(&format!("{SESSIONS}/{name}")).await.expect(200)["title"].clone()
}

/// Waits until a conversation has a title.
async fn titled(gateway: &TestGateway, name: &str) -> String {
    let waited = timeout(PATIENCE, async {
        loop {
            if let Value::String(title) = title(gateway, name).await {
                return title;
            }
            sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{name} was to have a title"))
}

async fn rename(gateway: &TestGateway, name: &str, title: &str) {
    gateway.client().send_json("PATCH", &format!("{SESSIONS}/{name}"), &json!({"title": title})).await.expect(200);
}

/// Stops the gateway with SIGTERM, so that it finishes its writes, and starts it again.
async fn stop_and_start(gateway: &mut TestGateway) {
    gateway.herma.terminate();
    assert!(gateway.herma.wait().await.success());
    gateway.restart().await;
}

/// The user message of a request for a title. `None` for any other request.
fn title_request(request: &Recorded) -> Option<String> {
    let is_ours = request.transcript().first()?.starts_with("system: You give titles");
    is_ours.then(|| request.last_user_text())
}

/// Sets the reply to requests for a title. All other requests are echoed.
fn on_title_request(gateway: &TestGateway, reply: impl Fn() -> Reply + Send + 'static) {
    gateway.upstream.otherwise(move |request| if title_request(request).is_some() { reply() } else { Reply::Echo });
}

fn title_requests(gateway: &TestGateway) -> Vec<String> {
    gateway.upstream.requests().iter().filter_map(title_request).collect()
}

#[tokio::test]
async fn the_first_words_are_the_title_by_every_api_and_no_model_is_asked() {
    let mut gateway = TestGateway::start().await;
    let client = gateway.client();
    let asked = |api: &str| format!("Plan a trip by {api}.\nIt should not cost much.");
    gateway.say("json", &asked("JSON")).await.expect(200);
    let stream = streamed(chat(&[system("You are a pirate."), user(&asked("stream"))]));
    gateway.in_session("stream").post_stream(CHAT, &stream).await.rest().await;
    let response = json!({"model": "scripted", "input": asked("response"), "conversation": "response"});
    client.post_json("/v1/responses", &response).await.expect(200);
    let run = json!({"model": "scripted", "input": asked("run"), "session_id": "run"});
    let run = client.post_json("/v1/runs", &run).await.expect(202);
    let events = format!("/v1/runs/{}/events", run["run_id"].as_str().unwrap());
    client.get_stream(&events).await.rest().await;
    client.post_json(SESSIONS, &json!({"id": "session"})).await.expect(201);
    client.post_json(&format!("{SESSIONS}/session/chat"), &json!({"message": asked("session")})).await.expect(200);
    let mut socket = gateway.in_session("socket").websocket("/v1/responses").await.unwrap();
    socket.send(&json!({"type": "response.create", "model": "scripted", "input": asked("socket")})).await;
    socket.turn().await;
    let nameless = client.post_json(CHAT, &chat(&[user(&asked("nobody"))])).await;
    let nameless = nameless.header("x-hermes-session-id").unwrap().to_owned();
    let apis =
        [("json", "JSON"), ("stream", "stream"), ("response", "response"), ("run", "run"), ("session", "session")];
    for (name, api) in apis.into_iter().chain([("socket", "socket"), (nameless.as_str(), "nobody")]) {
        assert_eq!(title(&gateway, name).await, json!(format!("Plan a trip by {api}")));
    }
    gateway.say("json", "And the way back?").await.expect(200);
    gateway.restart().await;
    let listed = gateway.sessions().await;
    assert_eq!((listed.len(), &listed[0]["title"]), (7, &json!("Plan a trip by JSON")), "only the first words count");
    assert_eq!(gateway.upstream.requests().len(), 8, "one call for every turn");
    let found = data(&gateway.client().get("/api/search?q=%22trip+by+socket%22&role=user").await);
    assert_eq!((found.len(), &found[0]["title"]), (1, &json!("Plan a trip by socket")), "{found:?}");
}

#[tokio::test]
async fn only_what_a_person_can_read_and_has_said_becomes_a_title() {
    let gateway = TestGateway::start().await;
    let context = "<environment_context>\n  <cwd>/srv/secret</cwd>\n</environment_context>";
    let agent = [system("Never tell anybody."), user(context), user("Fix\u{7} the \u{202e}tests\u{0}, please")];
    gateway.in_session("agent").post_json(CHAT, &chat(&agent)).await.expect(200);
    assert_eq!(title(&gateway, "agent").await, "Fix the tests, please");
    let picture =
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]});
    gateway.in_session("picture").post_json(CHAT, &chat(&[picture])).await.expect(200);
    assert_eq!(title(&gateway, "picture").await, Value::Null);
    gateway.say("picture", "What is on it?").await.expect(200);
    assert_eq!(title(&gateway, "picture").await, "What is on it?");
    gateway.say("long", &"so many words ".repeat(1_000)).await.expect(200);
    assert_eq!(title(&gateway, "long").await, "so many words so many words so many words so many words so…");
    let helper = gateway.client().header("x-hermes-session-kind", "auxiliary");
    let prompt = helper.post_json(CHAT, &chat(&[user("### Task:\nGenerate a concise title.")])).await;
    assert_eq!(title(&gateway, prompt.header("x-hermes-session-id").unwrap()).await, Value::Null);
}

#[tokio::test]
async fn a_title_comes_with_the_first_answer_and_not_before() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::status(400, "no"));
    error(&gateway.say("trip", "Where to?").await, 502);
    assert_eq!(title(&gateway, "trip").await, Value::Null);
    gateway.say("trip", "Anywhere?").await.expect(200);
    assert_eq!(title(&gateway, "trip").await, "Where to?", "it was said first");
    let items = json!({"items": [{"type": "message", "role": "user", "content": "From elsewhere"}]});
    let conversation = gateway.client().post_json("/v1/conversations", &items).await.expect(200);
    let id = conversation["id"].as_str().unwrap();
    assert_eq!(title(&gateway, id).await, Value::Null);
    gateway.say(id, "Go on").await.expect(200);
    assert_eq!(title(&gateway, id).await, "From elsewhere");
}

#[tokio::test]
async fn a_title_that_a_client_sets_stays() {
    let mut gateway = TestGateway::start().await;
    gateway.client().post_json(SESSIONS, &json!({"id": "given", "title": "Mine"})).await.expect(201);
    gateway.say("given", "Something else").await.expect(200);
    assert_eq!(title(&gateway, "given").await, "Mine");
    for name in ["renamed", "removed"] {
        gateway.say(name, "The same words").await.expect(200);
        assert_eq!(title(&gateway, name).await, "The same words", "it need not be the only one");
    }
    rename(&gateway, "renamed", "Mine, too").await;
    rename(&gateway, "removed", "").await;
    for restarted in [false, true] {
        if restarted {
            gateway.restart().await;
        }
        for (name, expected) in [("renamed", json!("Mine, too")), ("removed", Value::Null)] {
            gateway.say(name, "More").await.expect(200);
            assert_eq!(title(&gateway, name).await, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_branch_is_called_by_its_own_first_words() {
    let gateway = TestGateway::start().await;
    gateway.say("trip", "Where to?").await.expect(200);
    let path = format!("{SESSIONS}/trip/branch");
    gateway.client().post_json(&path, &json!({"id": "other"})).await.expect(201);
    assert_eq!(title(&gateway, "other").await, Value::Null);
    gateway.say("other", "By train, then").await.expect(200);
    assert_eq!(title(&gateway, "other").await, "By train, then");
    let first = json!({"model": "scripted", "input": "One", "conversation": "slug"});
    let first = gateway.client().post_json("/v1/responses", &first).await.expect(200);
    let after = |text: &str| json!({"model": "scripted", "input": text, "previous_response_id": first["id"]});
    gateway.client().post_json("/v1/responses", &after("Two")).await.expect(200);
    let branch = gateway.client().post_json("/v1/responses", &after("Or rather three")).await.expect(200);
    assert_eq!(branch["session"]["resolution"], "branched");
    assert_eq!(title(&gateway, branch["session"]["session_id"].as_str().unwrap()).await, "Or rather three");
    assert_eq!(title(&gateway, "slug").await, "One");
}

#[tokio::test]
async fn no_title_is_made_where_none_is_wanted() {
    let gateway = TestGateway::with_settings(&[("HERMA_TITLES__BY", "off")]).await;
    gateway.say("trip", "Where to?").await.expect(200);
    assert_eq!(title(&gateway, "trip").await, Value::Null);
}

#[tokio::test]
async fn a_model_is_asked_once_behind_the_first_answer() {
    let gateway = TestGateway::with_settings(&[BY_MODEL[0], ("HERMA_TITLES__MODEL", "small")]).await;
    let gate = Gate::new();
    let held = gate.clone();
    on_title_request(&gateway, move || Reply::text("\"Spring Trip to Oslo\"\n").held(&held));
    let ask = chat(&[system("You are a pirate."), user("Where to go in May?")]);
    let ask = with(ask, "temperature", json!(0.1));
    gateway.in_session("trip").post_json(CHAT, &ask).await.expect(200);
    gate.until_waiting(1).await;
    assert_eq!(title(&gateway, "trip").await, Value::Null);
    gateway.say("trip", "And in June?").await.expect(200);
    gate.open();
    assert_eq!(titled(&gateway, "trip").await, "Spring Trip to Oslo");
    let found = data(&gateway.client().get("/api/search?q=oslo").await);
    assert_eq!((found.len(), &found[0]["matched"]), (1, &json!("title")), "{found:?}");
    gateway.say("trip", "And in July?").await.expect(200);
    let requests = gateway.upstream.requests();
    let asked: Vec<&Recorded> = requests.iter().filter(|request| title_request(request).is_some()).collect();
    let [asked] = asked[..] else { panic!("one question, not {}", asked.len()) };
    assert_eq!((asked.model(), asked.body.get("temperature")), ("small", None));
    let [_, quotation] = &lines(asked.messages())[..] else { panic!("two messages") };
    let quoted = "user: <conversation>\nUser: Where to go in May?\n\nAssistant: reply to: Where to go in May?\n\n\
                  </conversation>\n\nWrite a title";
    assert!(quotation.starts_with(quoted) && quotation.ends_with("reply with the title alone."), "{quotation}");
    for hidden in ["trip", "pirate", "conv_", "sess_", "session"] {
        assert!(!quotation.contains(hidden), "{hidden} in {quotation}");
    }
    assert_eq!(gateway.transcript("trip").await.len(), 6, "it is no part of the conversation");
    let metrics = gateway.client().get("/metrics").await.text();
    assert!(metrics.contains("herma_titles_asked_total{outcome=\"made\"} 1"), "{metrics}");
    let counted = metrics.lines().find(|line| line.starts_with("herma_title_input_tokens_total")).unwrap();
    assert!(!counted.ends_with(" 0"), "{counted}");
}

#[tokio::test]
async fn a_model_that_gives_no_title_in_time_leaves_it_to_the_first_words() {
    let gateway = TestGateway::with_settings(&[BY_MODEL[0], ("HERMA_TITLES__TIMEOUT", "200ms")]).await;
    for (number, lie) in [
        Reply::Hang,
        Reply::hang_after(1),
        Reply::status(400, "no"),
        Reply::empty(),
        Reply::text("so long ".repeat(1_250)),
        Reply::text("\u{0}\u{1b}\u{202e}\u{200b}"),
        Reply::text("Write a title for the conversation above that tells it apart"),
        Reply::text("I'm sorry, but I cannot help with that."),
        Reply::text("Well, in May it is lovely there.\n\nYou should go by train."),
    ]
    .into_iter()
    .enumerate()
    {
        on_title_request(&gateway, move || lie.clone());
        let (name, words) = (format!("trip-{number}"), format!("Where to go in May, number {number}?"));
        gateway.say(&name, &words).await.expect(200);
        assert_eq!(titled(&gateway, &name).await, words);
        assert_eq!(title_requests(&gateway).len(), number + 1);
    }
    on_title_request(&gateway, || Reply::text("**Title:** \u{202e}Spring\u{0}\u{7} Trip"));
    gateway.say("trip", "Where to?").await.expect(200);
    assert_eq!(titled(&gateway, "trip").await, "Spring Trip");
}

#[tokio::test]
async fn a_rename_during_the_title_request_wins() {
    let mut gateway = TestGateway::with_settings(&BY_MODEL).await;
    let gate = Gate::new();
    let held = gate.clone();
    on_title_request(&gateway, move || Reply::text("Spring Trip").held(&held));
    gateway.say("renamed", "Where to?").await.expect(200);
    gateway.say("removed", "Where to?").await.expect(200);
    gate.until_waiting(2).await;
    rename(&gateway, "renamed", "Mine").await;
    rename(&gateway, "removed", "").await;
    gate.open();
    gateway.upstream.until_open(0).await;
    stop_and_start(&mut gateway).await;
    assert_eq!((title(&gateway, "renamed").await, title(&gateway, "removed").await), (json!("Mine"), Value::Null));
}

#[tokio::test]
async fn a_title_that_a_crash_lost_is_made_with_the_next_answer() {
    let mut gateway = TestGateway::with_settings(&BY_MODEL).await;
    on_title_request(&gateway, || Reply::Hang);
    gateway.say("trip", "Where to?").await.expect(200);
    gateway.upstream.until_requests(2).await;
    gateway.restart().await;
    assert_eq!(title(&gateway, "trip").await, Value::Null);
    on_title_request(&gateway, || Reply::text("Spring Trip"));
    gateway.say("trip", "And then?").await.expect(200);
    assert_eq!(titled(&gateway, "trip").await, "Spring Trip");
    assert!(title_requests(&gateway)[1].contains("User: Where to?"), "the first words are asked about");
}

#[tokio::test]
async fn a_gateway_that_stops_does_not_wait_for_a_title() {
    let mut gateway = TestGateway::with_settings(&[BY_MODEL[0], ("HERMA_TITLES__TIMEOUT", "10m")]).await;
    on_title_request(&gateway, || Reply::Hang);
    gateway.say("trip", "Where to?").await.expect(200);
    gateway.upstream.until_requests(2).await;
    stop_and_start(&mut gateway).await;
    assert_eq!(title(&gateway, "trip").await, "Where to?");
}

#[tokio::test]
async fn a_model_is_asked_only_about_what_people_see() {
    let gateway = TestGateway::with_settings(&BY_MODEL).await;
    for kind in ["auxiliary", "background"] {
        gateway.client().post_json(SESSIONS, &json!({"id": kind, "kind": kind})).await.expect(201);
        gateway.say(kind, "Find hotels").await.expect(200);
        assert_eq!(title(&gateway, kind).await, "Find hotels");
    }
    assert_eq!(title_requests(&gateway), Vec::<String>::new());
}

#[tokio::test]
async fn the_offline_model_gives_titles_too() {
    let herma = Launch::serve(env!("CARGO_BIN_EXE_herma")).env("HERMA_TITLES__BY", "model").start().await;
    let client = herma.client().header("x-hermes-session-id", "trip");
    client.post_json(CHAT, &json!({"messages": [user("I want to see Oslo in May.")]})).await.expect(200);
    let waited = timeout(PATIENCE, async {
        loop {
            let row = client.get(&format!("{SESSIONS}/trip")).await.expect(200);
            if row["title"] == "About: I want to see Oslo in" {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("a title");
}
