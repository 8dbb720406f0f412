//! What a person sees who tries the offline model.

use std::sync::Arc;

use futures_util::StreamExt;
use herma_model::{Params, Payload, Retries};
use serde_json::{Value, json};

use super::*;

fn call(messages: &[Value], params: &Value) -> ModelCall {
    let params = params.as_object().unwrap().iter();
    ModelCall {
        model: NAME.to_owned(),
        messages: messages.iter().map(|message| Payload::from_json(message.to_string())).collect(),
        params: Arc::new(Params(params.map(|(name, json)| (name.as_str().into(), json.to_string().into())).collect())),
        streaming: false,
        retries: Retries::AsConfigured,
        trace: None,
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn text_of(messages: &[Value], params: &Value) -> String {
    answer_to(&call(messages, params)).content.unwrap()
}

fn weather() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!([{"type": "function", "function": {"name": "get_time"}},
           {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}])
}

/// The names and arguments of the tool calls.
fn calls_of(messages: &[Value], params: &Value) -> Vec<(String, String)> {
    let answer = answer_to(&call(messages, params));
    assert_eq!(answer.finish.reason == FinishReason::ToolCalls, !answer.tool_calls.is_empty());
    answer.tool_calls.into_iter().map(|call| (call.name, call.arguments)).collect()
}

#[test]
fn asked_what_was_said_it_quotes_the_person() {
    let first = user("I want to see Oslo in May.");
    let answer = json!({"role": "assistant", "content": "Good."});
    assert_eq!(
        text_of(&[first.clone(), answer.clone(), user("What did I say?")], &json!({})),
        "You said: \"I want to see Oslo in May.\" (message 2 of this conversation; I am Herma's offline model.)"
    );
    let three = [first, answer.clone(), user("And\nBergen"), answer, user("tell me again what I said")];
    let said = text_of(&three, &json!({}));
    assert!(said.starts_with("You said: \"I want to see Oslo in May.\", then \"And Bergen\" (message 3"), "{said}");
    let nothing = text_of(&[user("what did I say?")], &json!({}));
    assert!(nothing.starts_with("You said: nothing before this (message 1"), "{nothing}");
}

#[test]
fn common_questions_about_the_conversation_are_understood_and_other_messages_are_not() {
    let said = |asked: &str| {
        let messages = [user("one"), user("two"), user("three"), user(asked)];
        let text = text_of(&messages, &json!({}));
        text.strip_suffix(" (message 4 of this conversation; I am Herma's offline model.)").unwrap().to_owned()
    };
    let all = "You said: \"one\", then \"two\", then \"three\"";
    for (asked, expected) in [
        ("what did I just say?", "You said: \"three\""),
        ("What was the last thing that I told you?", "You said: \"three\""),
        ("Repeat the last thing I said.", "You said: \"three\""),
        ("What was the first thing I said?", "You said: \"one\""),
        ("What did I say first?", "You said: \"one\""),
        ("What was my first message?", "You said: \"one\""),
        ("What have I told you so far?", all),
        ("Repeat what I told you", all),
        ("What were my questions?", all),
        ("Please improve my first message.", "You said: Please improve my first message."),
        ("What did Ida say?", "You said: What did Ida say?"),
    ] {
        assert_eq!(said(asked), expected, "{asked}");
    }
}

#[test]
fn it_repeats_what_was_said_and_counts_the_messages() {
    let messages = [
        json!({"role": "system", "content": "Be kind."}),
        user("My name is Ada."),
        json!({"role": "assistant", "content": "Hello."}),
        json!({"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {}}]}),
    ];
    assert_eq!(
        text_of(&messages, &json!({})),
        "You said: Look: [image_url] (message 2 of this conversation; I am Herma's offline model.)"
    );
    assert_eq!(text_of(&[], &json!({})), "Nothing was said to me yet. (I am Herma's offline model.)");
    assert!(text_of(&[user("  ")], &json!({})).starts_with("You said nothing."));
    assert!(text_of(&[user(&"long ".repeat(1000))], &json!({})).len() < 1000);
}

#[test]
fn tokens_are_counted_and_limited() {
    let answer = answer_to(&call(&[user("Hello, world!")], &json!({})));
    let usage = answer.finish.usage.unwrap();
    assert_eq!(usage.input, 8);
    assert_eq!(usage.output, tokens::count(answer.content.as_deref().unwrap()));
    for name in ["max_tokens", "max_completion_tokens"] {
        let cut = answer_to(&call(&[user("Hello, world!")], &json!({ name: 3 })));
        assert_eq!(cut.content.as_deref(), Some("You said:"));
        assert_eq!((cut.finish.reason, cut.finish.usage.unwrap().output), (FinishReason::Length, 3));
    }
}

#[test]
fn it_calls_the_tools_that_are_asked_for() {
    let tools = json!({"tools": weather()});
    let one = |name: &str, arguments: &str| vec![(name.to_owned(), arguments.to_owned())];
    let asked = |text: &str| calls_of(&[user(text)], &tools);
    assert_eq!(asked("Please call get_weather."), one("get_weather", r#"{"city":"city"}"#));
    assert_eq!(asked("use the tool `get_time`, please"), one("get_time", "{}"));
    assert_eq!(asked(r#"Call get_weather with {"city": "Rome"}!"#), one("get_weather", r#"{"city":"Rome"}"#));
    let both = asked(r#"call get_time and get_weather {"city":"Oslo"}"#);
    assert_eq!(both, [one("get_time", "{}"), one("get_weather", r#"{"city":"Oslo"}"#)].concat());
    assert!(asked("What does get_weather do? I could use some help.").is_empty());
    assert!(calls_of(&[user("call get_time")], &json!({})).is_empty());
}

#[test]
fn it_calls_several_tools_each_with_the_arguments_that_follow_its_name() {
    let function = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {}}});
    let tools = json!({"tools": [function("files__read"), function("files__write"), function("get_time")]});
    let asked = |text: &str| -> Vec<String> {
        let calls = calls_of(&[user(text)], &tools);
        calls.into_iter().map(|(name, arguments)| format!("{name} {arguments}")).collect()
    };
    let both = [r#"files__read {"path":"a"}"#, r#"files__write {"path":"use get_time","text":"x; {"}"#];
    for text in [
        r#"use files__read {"path":"a"} and files__write {"path":"use get_time","text":"x; {"}"#,
        r#"use files__read {"path":"a"}, then use files__write {"path":"use get_time","text":"x; {"}"#,
        r#"Please run files.read with {"path":"a"} and `files.write` {"path":"use get_time","text":"x; {"}."#,
        r#"files__read {"path":"a"} files__write {"path":"use get_time","text":"x; {"}"#,
    ] {
        assert_eq!(asked(text), both, "{text}");
    }
    assert_eq!(asked(r#"I like {"path":"a"} and files__read."#), Vec::<String>::new());
}

#[test]
fn it_hands_tasks_to_helpers() {
    let delegate = json!({"type": "function", "function": {"name": "delegate_task", "parameters": {}}});
    let tools = json!({"tools": [delegate, weather()[0]]});
    let goals = |text: &str| -> Vec<String> {
        let calls = calls_of(&[user(text)], &tools);
        let arguments: Value = calls.first().map(|call| serde_json::from_str(&call.1).unwrap()).unwrap_or_default();
        let tasks = arguments["tasks"].as_array().cloned().unwrap_or_default();
        tasks.iter().map(|task| task["goal"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(goals("delegate: write a poem; count to three."), ["write a poem", "count to three"]);
    assert_eq!(
        goals("Two things.\nDelegate:\n- a\n- call get_time {\"x\":\";\"}\n"),
        ["a", "call get_time {\"x\":\";\"}"]
    );
    assert_eq!(goals(r#"use delegate_task {"tasks":[{"goal":"sing"}]}"#), ["sing"]);
    assert_eq!(goals("delegate: ;"), Vec::<String>::new());
    assert!(calls_of(&[user("delegate: sing")], &json!({"tools": weather()})).is_empty());
}

#[test]
fn tool_choice_is_obeyed() {
    let with = |text: &str, choice: Value| calls_of(&[user(text)], &json!({"tools": weather(), "tool_choice": choice}));
    assert!(with("call get_time", json!("none")).is_empty());
    assert_eq!(with("hello", json!("required"))[0].0, "get_time");
    assert_eq!(with("call get_weather", json!("required"))[0].0, "get_weather");
    let forced = with("hello", json!({"type": "function", "function": {"name": "get_weather"}}));
    assert_eq!(forced[0].0, "get_weather");
    let allowed = |mode: &str| {
        let tools = json!([{"type": "function", "function": {"name": "get_weather"}}]);
        with("call get_time", json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}))
    };
    assert_eq!(allowed("required")[0].0, "get_weather");
    assert!(allowed("auto").is_empty() && allowed("none").is_empty());
}

#[test]
fn call_ids_differ_between_calls_and_are_the_same_for_the_same_context() {
    let ids = |text: &str| -> Vec<String> {
        let answer = answer_to(&call(&[user(text)], &json!({"tools": weather()})));
        answer.tool_calls.into_iter().map(|call| call.id).collect()
    };
    let both = ids("call get_time and get_weather");
    assert_ne!(both[0], both[1]);
    assert_eq!(both, ids("call get_time and get_weather"));
    assert_ne!(both, ids("call get_time and get_weather!"));
}

#[test]
fn it_answers_with_the_result_of_a_tool() {
    let result = |text: &str| json!({"role": "tool", "tool_call_id": "x", "content": text});
    let params = json!({"tools": weather(), "tool_choice": "required"});
    assert_eq!(text_of(&[user("call get_time"), result("noon")], &params), "The tool answered: noon");
    assert_eq!(text_of(&[user("go"), result("1"), result("2")], &params), "The tools answered: 1; 2");
    let helpers = |list: Value| text_of(&[user("delegate: a; b"), result(&list.to_string())], &params);
    let done = json!({"conversation_id": "conv_1", "status": "completed", "answer": "A poem."});
    assert_eq!(helpers(json!([done])), "The helper answered: A poem.");
    let failed = json!({"conversation_id": "conv_2", "status": "failed"});
    assert_eq!(helpers(json!([done, failed])), "The helpers answered: A poem.; [failed]");
    assert_eq!(helpers(json!([1])), "The tool answered: [1]");
}

#[test]
fn it_answers_in_json_when_it_must() {
    let json = |format: Value| -> Value {
        serde_json::from_str(&text_of(&[user("hi")], &json!({ "response_format": format }))).unwrap()
    };
    assert!(json(json!({"type": "json_object"}))["answer"].as_str().unwrap().starts_with("You said: hi"));
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    assert_eq!(json(json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})), json!({"n": 1}));
}

#[test]
fn a_summary_keeps_what_was_said() {
    let mut messages = vec![json!({"role": "system", "content": "secret rules"}), user("My name\nis Ada.")];
    messages.extend((0..60).map(|n| user(&format!("filler {n}"))));
    messages.push(user("Summarise the conversation above."));
    let summary = text_of(&messages, &json!({}));
    assert!(summary.starts_with("Summary of 61 messages:\n- user: My name is Ada.\n"), "{summary}");
    assert!(summary.contains("(37 more)") && summary.ends_with("- user: filler 59"), "{summary}");
    assert!(!summary.contains("secret"));
}

#[test]
fn a_quoted_conversation_is_summarised_within_the_words_asked_for() {
    let said: String = (0..30).map(|n| format!("User: question {n} of many\n\nAssistant: answer {n}\n\n")).collect();
    let asking = |limit| {
        format!(
            "<conversation>\nUser: [Summary of what was]\n\nSummary of 1 messages:\n- user: I am Ada\n\n{said}</conversation>\n\nWrite a summary, at most {limit} words."
        )
    };
    let summary = text_of(&[user(&asking(1_000))], &json!({}));
    assert!(summary.starts_with("Summary of 61 messages:\n- user: I am Ada\n- user: question 0 of many"), "{summary}");
    let short = text_of(&[user(&asking(30))], &json!({}));
    assert!(short.split_whitespace().count() <= 36 && short.ends_with("- assistant: answer 29"), "{short}");
}

#[test]
fn a_quoted_conversation_gets_a_title_of_its_first_words() {
    let asking = |said: &str| format!("<conversation>\n{said}</conversation>\n\nWrite a title for the conversation.");
    let title = |said: &str| text_of(&[user(&asking(said))], &json!({}));
    assert_eq!(
        title("User: Where can I see a fjord in May?\n\nAssistant: In Norway.\n\n"),
        "About: Where can I see a fjord"
    );
    assert_eq!(title("User: Hello!\n\n"), "About: Hello");
    let own = text_of(&[user("Write a title for my essay.")], &json!({}));
    assert!(own.starts_with("You said: Write a title"), "{own}");
}

#[tokio::test]
async fn a_streamed_answer_is_the_same_answer_word_by_word() {
    for text in ["hello there", "call get_weather"] {
        let mut asked = call(&[user(text)], &json!({"tools": weather()}));
        let whole = answer_to(&asked);
        asked.streaming = true;
        let arrived: Vec<Vec<ModelEvent>> = OfflineModel.call(asked).await.unwrap().map(Result::unwrap).collect().await;
        let events = arrived.concat();
        let (Some(ModelEvent::Finished(finish)), deltas) = (events.last(), &events[..events.len() - 1]) else {
            panic!("no end: {events:?}");
        };
        assert_eq!(*finish, whole.finish);
        let mut content = String::new();
        let mut arguments = String::new();
        let mut pieces = 0;
        for event in deltas {
            match event {
                ModelEvent::Text(run) => {
                    pieces += run.count();
                    content.push_str(run.whole());
                }
                ModelEvent::Delta(delta) => {
                    pieces += 1;
                    arguments.extend(delta.tool_calls.iter().filter_map(|call| call.arguments.as_deref()));
                }
                ModelEvent::Finished(_) | ModelEvent::Answered(_) => panic!("{event:?}"),
            }
        }
        assert_eq!(content, whole.content.unwrap_or_default());
        assert_eq!(arguments, whole.tool_calls.first().map(|call| call.arguments.clone()).unwrap_or_default());
        assert!(pieces > 1);
    }
}
