use herma_testkit::{Launch, Reply, ScriptedUpstream, ToolCall};
use serde_json::json;

use crate::sessions::{json, trip};
use crate::{HERMA, Terminal};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_a_page_that_people_read() {
    let terminal = Terminal::new();
    let upstream = ScriptedUpstream::start().await;
    let mut herma = Launch::serve(HERMA).data(terminal.data()).upstream(&upstream.base_url()).start().await;
    let client = herma.client().header("x-hermes-session-id", "trip");
    let chat = |messages| json!({"model": "scripted", "messages": messages});
    upstream.push(Reply::tool_calls([ToolCall::new("call_1", "look", "{\"at\": \"```\"}")]));
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let parts = [
        json!({"type": "text", "text": "# where?\n\n```\nan open fence"}),
        image("data:image/png;base64,AAAA"),
        image("https://example.com/fjord.png"),
    ];
    let system = json!({"role": "system", "content": "be brief"});
    let asked = chat(json!([system, {"role": "user", "content": parts}]));
    client.post_json(CHAT, &asked).await.expect(200);
    let result = chat(json!([{"role": "tool", "tool_call_id": "call_1", "content": "````\n# a tree"}]));
    client.post_json(CHAT, &result).await.expect(200);
    upstream.push(Reply::cut_off_after(2));
    let mut streamed = chat(json!([{"role": "user", "content": "tell me a story"}]));
    streamed["stream"] = true.into();
    client.post_stream(CHAT, &streamed).await.rest().await;
    upstream.push(Reply::status(400, "no"));
    client.post_json(CHAT, &chat(json!([{"role": "user", "content": "something else"}]))).await;
    herma.kill();
    terminal.run(&["sessions", "rename", "trip", "Oslo *in* May"]).answer();
    terminal.sessions("branch trip --id twig").answer();
    insta::assert_snapshot!(terminal.sessions("export trip").transcript(), @r#"
    exit 0
    --- stdout
    # Oslo \*in\* May

    - name: `trip`
    - session: `trip`
    - conversation: `conv_<1>`
    - kind: `main`
    - state: `open`
    - source: `api`
    - made by: `api`
    - created: `MOMENT`
    - changed: `MOMENT`
    - messages: `7 in 4 turns`
    - tokens: `26 in, 10 out`

    ## system

    > be brief

    ## 1 · user · MOMENT

    > # where?
    >
    > ```
    > an open fence

    > *(image/png, 4 bytes as text, left out)*

    > *(image)* <https://example.com/fjord.png>

    ## 2 · assistant · MOMENT

    Calls `look` as `call_1`:

    ````json
    {"at": "```"}
    ````

    ## 3 · tool · MOMENT · answers `call_1`

    `````
    ````
    # a tree
    `````

    ## 4 · assistant · MOMENT

    > reply to: # where?
    >
    > ```
    > an open fence

    ## 5 · user · MOMENT · without an answer: the turn failed

    > tell me a story

    ## 6 · assistant · MOMENT · cut off: the turn failed

    > chunk1 chunk2 

    ## 7 · user · MOMENT · without an answer: the turn failed

    > something else
    --- stderr
    "#);
    let twig = terminal.sessions("export twig");
    assert!(
        twig.answer().contains("- parent: `trip (branch)`") && twig.answer().contains("*What it inherits of `conv_")
    );
    let both = terminal.sessions("export trip twig");
    assert_eq!(both.answer().lines().filter(|line| line.starts_with("- conversation: ")).count(), 2);
}

#[test]
fn a_summary_is_a_boundary_that_says_what_it_stands_for() {
    let terminal = trip();
    let done = json(&terminal.sessions("compact trip --json"));
    let id = done["id"].as_str().unwrap();
    let (first, last) = (&done["range"]["first_seq"], &done["range"]["last_seq"]);
    let page = terminal.sessions("export trip");
    let stands_for =
        format!("*Compaction `{id}`: from here on the model was shown this summary of messages {first} to {last}");
    assert!(page.answer().contains(&stands_for), "{}", page.stdout);
    assert!(page.answer().contains("(split).*\n\n> "), "{}", page.stdout);
    assert!(page.answer().contains("## 1 · user · ") && page.answer().contains("> message 1: "), "all that was said");
    terminal.sessions(&format!("undo trip {id}")).answer();
    let page = terminal.sessions("export trip");
    assert!(page.answer().contains("(split, undone later).*"), "{}", page.stdout);
}
