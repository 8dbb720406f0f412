//! Several model servers behind one gateway: which of them a request goes to, and what each is sent.

use std::time::{Duration, Instant};

use herma_testkit::{Launch, Recorded, Reply, ScriptedUpstream, ToolCall};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

use crate::support::{CHAT, TestGateway, chat, error, streamed, user, with};

/// What only the server of `[upstream]` may see.
const FIRST_SECRETS: [&str; 2] = ["first-key-0001", "first-header-0001"];
/// What only the other server may see.
const OTHER_SECRETS: [&str; 2] = ["other-key-0002", "other-header-0002"];

const UPSTREAM: &str = "[upstream]\napi_key = \"first-key-0001\"\nheaders = { X-First = \"first-header-0001\" }\n";
/// The settings of a model at the other server, after its `base_url`.
const OTHER: &str = "api_key = \"other-key-0002\"\nheaders = { X-Other = \"other-header-0002\" }\n";

/// A gateway with two model servers.
struct TwoServers {
    gateway: TestGateway,
    other: ScriptedUpstream,
    _config: NamedTempFile,
}

impl std::ops::Deref for TwoServers {
    type Target = TestGateway;

    fn deref(&self) -> &TestGateway {
        &self.gateway
    }
}

impl TwoServers {
    /// The model `local` is `llama` at the other server. `sections` are added to the configuration.
    async fn start(sections: &str) -> Self {
        let local = |url: &str| format!("[models.local]\nupstream_model = \"llama\"\nbase_url = \"{url}\"\n{OTHER}");
        Self::with(|url| format!("{UPSTREAM}{}{sections}", local(url))).await
    }

    /// `config` gets the base URL of the other server.
    async fn with(config: impl FnOnce(&str) -> String) -> Self {
        let other = ScriptedUpstream::start().await;
        let file = config_file(&config(&other.base_url()));
        let path = file.path().to_str().expect("a path");
        let gateway = TestGateway::with_settings(&[("HERMA_CONFIG", path), ("HERMA_UPSTREAM__RETRIES", "0")]).await;
        Self { gateway, other, _config: file }
    }

    async fn ask(&self, model: &str, text: &str) -> String {
        let body = with(chat(&[user(text)]), "model", json!(model));
        self.client().post_json(CHAT, &body).await.content()
    }

    async fn models(&self) -> Vec<String> {
        names(&self.client().get("/v1/models").await.expect(200))
    }

    /// Checks that neither server, nor the log, has seen a secret of the other server.
    fn check_secrets(&self) {
        let seen = |server: &ScriptedUpstream| format!("{:?}{:?}", server.requests(), server.list_requests());
        let (first, other, log) = (seen(&self.upstream), seen(&self.other), self.herma.stderr());
        for (secrets, is_for, is_not_for) in [(FIRST_SECRETS, &first, &other), (OTHER_SECRETS, &other, &first)] {
            for secret in secrets {
                assert!(is_for.contains(secret) && !is_not_for.contains(secret), "{secret}\n{is_not_for}");
                assert!(!log.contains(secret), "{log}");
            }
        }
    }
}

fn config_file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("a file that can be written");
    file
}

fn names(list: &Value) -> Vec<String> {
    list["data"].as_array().expect("a list").iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
}

/// The model and the last user text of each request.
fn asked(server: &ScriptedUpstream) -> Vec<(String, String)> {
    let asked = |request: &Recorded| (request.model().to_owned(), request.last_user_text());
    server.requests().iter().map(asked).collect()
}

#[tokio::test]
async fn each_model_is_answered_by_its_own_server_with_its_own_key() {
    let gateway = TwoServers::start("").await;
    gateway.models().await;
    gateway.ask("local", "one").await;
    gateway.ask("default", "two").await;
    gateway.ask("llama", "three").await;
    let body = with(streamed(chat(&[user("four")])), "model", json!("local"));
    assert_eq!(gateway.client().post_stream(CHAT, &body).await.text().await, "reply to: four");
    let client = gateway.client();
    client.post_json("/v1/responses", &json!({"model": "local", "input": "five"})).await.expect(200);
    let helper = with(chat(&[user("six")]), "model", json!("local"));
    client.header("x-hermes-session-kind", "auxiliary").post_json(CHAT, &helper).await.expect(200);
    let expected = |texts: &[(&str, &str)]| -> Vec<(String, String)> {
        texts.iter().map(|(model, text)| ((*model).to_owned(), (*text).to_owned())).collect()
    };
    let local = [("llama", "one"), ("llama", "four"), ("llama", "five"), ("llama", "six")];
    assert_eq!(asked(&gateway.other), expected(&local));
    assert_eq!(
        asked(&gateway.upstream),
        expected(&[("scripted", "two"), ("llama", "three")]),
        "a name that is not configured goes to [upstream]"
    );
    let sent = gateway.other.last_request();
    assert_eq!(sent.header("authorization"), Some("Bearer other-key-0002"));
    assert_eq!((sent.header("x-other"), sent.header("x-first")), (Some("other-header-0002"), None));
    gateway.check_secrets();
}

#[tokio::test]
async fn a_conversation_can_change_its_server_between_turns() {
    let gateway = TwoServers::start("").await;
    gateway.say("trip", "one").await.expect(200);
    let body = with(chat(&[user("two")]), "model", json!("local"));
    gateway.in_session("trip").post_json(CHAT, &body).await.expect(200);
    let context = ["user: one", "assistant: reply to: one", "user: two"];
    assert_eq!(gateway.other.last_request().transcript(), context);
}

#[tokio::test]
async fn embeddings_and_completions_go_to_the_server_of_their_model() {
    let gateway = TwoServers::start("").await;
    for (path, server) in [("/v1/embeddings", "local"), ("/v1/completions", "local"), ("/v1/embeddings", "scripted")] {
        let upstream = if server == "local" { &gateway.other } else { &gateway.upstream };
        upstream.push(Reply::garbage(json!({"object": "any"}).to_string()));
        let body = json!({"model": server, "input": "a", "prompt": "a"});
        gateway.client().post_json(path, &body).await.expect(200);
        assert_eq!((upstream.last_request().path.as_str(), upstream.replies_left()), (path, 0));
    }
    assert_eq!((gateway.other.requests().len(), gateway.upstream.requests().len()), (2, 1));
    gateway.check_secrets();
}

#[tokio::test]
async fn a_refusal_that_repeats_a_secret_does_not_reach_the_client() {
    let gateway = TwoServers::start("").await;
    gateway.ask("default", "hello").await;
    for secret in OTHER_SECRETS {
        gateway.other.push(Reply::status(401, &format!("{secret} is wrong")));
        let body = with(chat(&[user("hello")]), "model", json!("local"));
        let refused = error(&gateway.client().post_json(CHAT, &body).await, 502);
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains("is wrong") && !message.contains(secret), "{message}");
    }
    gateway.check_secrets();
}

#[tokio::test]
async fn azure_gets_its_deployment_its_version_and_its_key() {
    let azure = |url: &str| {
        let url = url.replace("/v1", "/openai/deployments/gpt?api-version=2024-10-21");
        format!("{UPSTREAM}[models.azure]\nbase_url = \"{url}\"\nheaders = {{ api-key = \"azure-key-0003\" }}\n")
    };
    let gateway = TwoServers::with(azure).await;
    assert_eq!(gateway.ask("azure", "hello").await, "reply to: hello");
    gateway.other.push(Reply::garbage("{}"));
    gateway.client().post_json("/v1/embeddings", &json!({"model": "azure", "input": "a"})).await.expect(200);
    let requests = gateway.other.requests();
    let paths: Vec<_> = requests.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/openai/deployments/gpt/chat/completions", "/openai/deployments/gpt/embeddings"]);
    for request in requests {
        assert_eq!(request.query.as_deref(), Some("api-version=2024-10-21"));
        assert_eq!((request.header("api-key"), request.header("authorization")), (Some("azure-key-0003"), None));
    }
    assert!(!gateway.herma.stderr().contains("azure-key"));
}

/// The stream of a deployment, as Azure documents it: first the filter's results for the prompt, without a choice and
/// with empty names; later a choice that has results of the filter and no delta.
fn azure_stream() -> String {
    let safe = json!({"hate": {"filtered": false, "severity": "safe"}});
    let chunk = |choices: Value| {
        json!({"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 1_772_582_400, "model": "gpt-4o-2024-11-20",
               "system_fingerprint": "fp_1", "choices": choices})
    };
    let said = |delta: Value, reason: Value| {
        let results = if delta["content"].is_string() { safe.clone() } else { json!({}) };
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": null,
                      "content_filter_results": results}]))
    };
    let nameless = |choices: Value| json!({"id": "", "object": "", "created": 0, "model": "", "choices": choices});
    let prompt = json!([{"prompt_index": 0, "content_filter_results": safe}]);
    let offsets = json!({"check_offset": 0, "start_offset": 0, "end_offset": 11});
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12});
    let chunks = [
        with(nameless(json!([])), "prompt_filter_results", prompt),
        said(json!({"role": "assistant", "content": "", "refusal": null}), Value::Null),
        said(json!({"content": "hello "}), Value::Null),
        said(json!({"content": "you"}), Value::Null),
        said(json!({}), json!("stop")),
        nameless(json!([{"index": 0, "finish_reason": null, "content_filter_results": safe,
                         "content_filter_offsets": offsets}])),
        with(chunk(json!([])), "usage", usage),
    ];
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    events + "data: [DONE]\n\n"
}

#[tokio::test]
async fn a_stream_of_azure_with_results_of_its_filter_is_an_answer_like_any_other() {
    let gateway = TwoServers::with(|url| format!("{UPSTREAM}[models.azure]\nbase_url = \"{url}\"\n")).await;
    gateway.other.push(Reply::garbage(azure_stream()));
    let body = with(streamed(chat(&[user("hi")])), "model", json!("azure"));
    let chunks = gateway.client().post_stream(CHAT, &body).await.chunks().await;
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "hello you");
    for chunk in &chunks {
        assert!(!chunk["id"].as_str().unwrap().is_empty() && !chunk["model"].as_str().unwrap().is_empty(), "{chunk}");
    }
    let reasons: Vec<_> = chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, ["stop"]);
    let rows = gateway.sessions().await;
    let messages = gateway.transcript(rows[0]["id"].as_str().unwrap()).await;
    assert_eq!(messages, ["user: hi", "assistant: hello you"]);
    assert_eq!(rows[0]["usage"]["total_tokens"], 12);
}

#[tokio::test]
async fn a_question_that_azure_filters_is_refused_with_its_words() {
    let gateway = TwoServers::with(|url| format!("{UPSTREAM}[models.azure]\nbase_url = \"{url}\"\n")).await;
    let filtered = json!({"error": {
        "message": "The response was filtered by the content management policy.", "type": null, "param": "prompt",
        "code": "content_filter", "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": true}}}}});
    for stream in [false, true] {
        gateway.other.push(Reply::Status { code: 400, body: filtered.clone(), headers: Vec::new() });
        let body = with(with(chat(&[user("something bad")]), "model", json!("azure")), "stream", json!(stream));
        let refused = error(&gateway.client().post_json(CHAT, &body).await, 502);
        assert_eq!(refused["code"], "upstream_error");
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.ends_with("answered 400: The response was filtered by the content management policy."),
            "{message}"
        );
    }
}

#[tokio::test]
async fn titles_and_delegated_work_go_to_the_server_of_their_model() {
    let sections = "[titles]\nby = \"model\"\nmodel = \"local\"\n[tools]\nbuiltin = [\"delegate_task\"]\n";
    let gateway = TwoServers::start(sections).await;
    gateway.ask("default", "hello").await;
    let titles = gateway.other.until_requests(1).await;
    assert!(titles[0].transcript()[0].starts_with("system: You give titles"), "{titles:?}");
    gateway.other.until_open(0).await;

    let tasks = json!({"tasks": [{"goal": "count", "context": "be brief"}]}).to_string();
    gateway.other.push(Reply::tool_calls([ToolCall::new("call_0", "delegate_task", tasks)]));
    gateway.ask("local", "plan").await;
    assert_eq!(gateway.upstream.requests().len(), 1, "only the first turn");
    let children = gateway.other.requests().into_iter().filter(|request| request.last_user_text().starts_with("count"));
    assert_eq!(children.map(|child| child.model().to_owned()).collect::<Vec<_>>(), ["llama"]);
}

#[tokio::test]
async fn the_models_of_all_servers_are_listed_by_names_that_lead_to_them() {
    let pattern = |url: &str| {
        let models = format!("[models.\"home/*\"]\nupstream_model = \"*\"\nbase_url = \"{url}\"\n{OTHER}");
        format!("{UPSTREAM}{models}[models.local]\nupstream_model = \"llama\"\nbase_url = \"{url}\"\n{OTHER}")
    };
    let gateway = TwoServers::with(pattern).await;
    gateway.other.offer(&["llama", "qwen3:8b", "scripted"]);
    gateway.upstream.offer(&["scripted", "gpt-5", "gpt-5"]);
    let models = ["scripted", "local", "gpt-5", "home/llama", "home/qwen3:8b", "home/scripted"];
    assert_eq!(gateway.models().await, models);
    for model in models {
        gateway.ask(model, model).await;
        assert_eq!(gateway.client().get(&format!("/v1/models/{model}")).await.expect(200)["id"], model);
    }
    let models = |server| asked(server).into_iter().map(|(model, _)| model).collect::<Vec<_>>();
    assert_eq!(models(&gateway.upstream), ["scripted", "gpt-5"]);
    assert_eq!(models(&gateway.other), ["llama", "llama", "qwen3:8b", "scripted"]);
    assert_eq!(gateway.other.list_requests().len(), 1, "two models share their server");
    gateway.check_secrets();
}

#[tokio::test]
async fn models_are_listed_in_time_while_servers_are_away_or_silent() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let [silent_url, away] =
        [silent.local_addr().expect("an address"), dead_address()].map(|at| format!("http://{at}/v1"));
    let model = |name: &str, url: &str| format!("[models.{name}]\nbase_url = \"{url}\"\n");
    let gateway = TwoServers::with(|_| model("silent", &silent_url) + &model("away", &away)).await;
    let began = Instant::now();
    assert_eq!(gateway.models().await, ["scripted", "away", "silent"]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    gateway.herma.until_stderr("could not be listed").await;
    let log = gateway.herma.stderr();
    for url in [&silent_url, &away] {
        let line = |line: &&str| line.contains("could not be listed") && line.contains(url.as_str());
        assert!(log.lines().any(|text| line(&text)), "{url}\n{log}");
    }
    let again = Instant::now();
    gateway.models().await;
    assert!(again.elapsed() < Duration::from_secs(1), "an unreachable server is not asked for every list");
}

#[tokio::test]
async fn a_server_that_is_away_fails_its_own_models_only() {
    let away = format!("http://{}/v1", dead_address());
    let gateway = TwoServers::start(&format!("[models.away]\nbase_url = \"{away}\"\n")).await;
    let body = with(chat(&[user("hello")]), "model", json!("away"));
    let refused = error(&gateway.client().post_json(CHAT, &body).await, 502);
    assert!(refused["message"].as_str().expect("a message").contains("cannot be reached"), "{refused}");
    gateway.herma.until_stderr("a call of the model server failed").await;
    let log = gateway.herma.stderr();
    let failed = log.lines().find(|line| line.contains("a call of the model server failed")).expect("a warning");
    assert!(failed.contains(&away) && failed.contains("model=\"away\""), "{failed}");
    assert_eq!(gateway.ask("local", "hello").await, "reply to: hello");
    assert_eq!(gateway.ask("default", "hello").await, "reply to: hello");
}

#[tokio::test]
async fn the_detailed_health_names_all_servers_and_no_secret() {
    let gateway = TwoServers::start("").await;
    let health = gateway.client().get("/health/detailed").await.expect(200);
    let named = |server: &ScriptedUpstream| format!("the model server at {}", server.base_url());
    assert_eq!(health["model_servers"], json!([named(&gateway.upstream), named(&gateway.other)]));
    assert_eq!(health["upstream"], json!(named(&gateway.upstream)));
    assert!(FIRST_SECRETS.iter().chain(&OTHER_SECRETS).all(|secret| !health.to_string().contains(secret)), "{health}");
}

#[tokio::test]
async fn the_start_says_which_servers_there_are_and_which_cannot_be_used() {
    let gateway = TwoServers::start("[models.again]\nupstream_model = \"gpt-5\"\n").await;
    let (log, first, other) = (gateway.herma.stderr(), gateway.upstream.base_url(), gateway.other.base_url());
    for line in [
        format!(
            "answers of all models without a server of their own come from the model server at {first}; a request \
             that names no model gets scripted"
        ),
        format!("answers of local come from the model server at {other}"),
    ] {
        assert!(log.lines().any(|shown| shown == line), "{line}\n{log}");
    }
    for (toml, said) in [
        ("[models.m]\nbase_url = \"host:1/v1\"", "`models.m.base_url` (in "),
        ("[models.m]\nbase_ur = \"http://host\"", "did you mean `models.m.base_url`?"),
    ] {
        let data = TempDir::new().expect("a directory");
        std::fs::write(data.path().join("herma.toml"), toml).expect("a file");
        let ended = Launch::serve(env!("CARGO_BIN_EXE_herma")).data(data.path()).try_start().await;
        let ended = ended.map(|_| ()).expect_err("a refusal");
        assert!(!ended.status.success() && ended.stderr.contains(said), "{}", ended.stderr);
    }
}

/// An address that refuses connections.
fn dead_address() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address")
}
