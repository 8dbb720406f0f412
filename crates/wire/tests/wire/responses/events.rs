//! Golden streams of every shape of a turn.

use herma_wire::responses::{Events, IncompleteReason, ResponseError, ResponseOutcome};
use serde_json::json;

use super::{MESSAGE, about, call, compaction, data, ending, failed, reasoning, refusal, shown, stream, text};

#[test]
fn a_text_in_full() {
    let mut about = about(&json!({}));
    about.conversation = Some("conv_1".into());
    let frames = stream(about, None, &[text("Grüß \"dich\"\n"), text("!")], &ending(ResponseOutcome::Completed));
    let whole: String = frames.iter().map(|frame| std::str::from_utf8(&frame.bytes).unwrap()).collect();
    insta::assert_snapshot!(whole, @r#"
    event: response.created
    data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1772582400,"completed_at":null,"status":"in_progress","error":null,"incomplete_details":null,"model":"gpt-5","previous_response_id":null,"conversation":{"id":"conv_1"},"output":[],"usage":null,"instructions":null,"metadata":{},"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"text":{"format":{"type":"text"}},"reasoning":{"effort":null,"summary":null},"temperature":1.0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"top_logprobs":0,"max_output_tokens":null,"max_tool_calls":null,"truncation":"disabled","store":true,"background":false,"service_tier":"default","prompt_cache_key":null,"safety_identifier":null,"user":null,"session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}}

    event: response.in_progress
    data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","object":"response","created_at":1772582400,"completed_at":null,"status":"in_progress","error":null,"incomplete_details":null,"model":"gpt-5","previous_response_id":null,"conversation":{"id":"conv_1"},"output":[],"usage":null,"instructions":null,"metadata":{},"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"text":{"format":{"type":"text"}},"reasoning":{"effort":null,"summary":null},"temperature":1.0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"top_logprobs":0,"max_output_tokens":null,"max_tool_calls":null,"truncation":"disabled","store":true,"background":false,"service_tier":"default","prompt_cache_key":null,"safety_identifier":null,"user":null}}

    event: response.output_item.added
    data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"type":"message","id":"msg_0000000000000000000000000000000a","status":"in_progress","role":"assistant","content":[]}}

    event: response.content_part.added
    data: {"type":"response.content_part.added","sequence_number":3,"item_id":"msg_0000000000000000000000000000000a","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}

    event: response.output_text.delta
    data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_0000000000000000000000000000000a","output_index":0,"content_index":0,"delta":"Grüß \"dich\"\n","logprobs":[]}

    event: response.output_text.delta
    data: {"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_0000000000000000000000000000000a","output_index":0,"content_index":0,"delta":"!","logprobs":[]}

    event: response.output_text.done
    data: {"type":"response.output_text.done","sequence_number":6,"item_id":"msg_0000000000000000000000000000000a","output_index":0,"content_index":0,"text":"Grüß \"dich\"\n!","logprobs":[]}

    event: response.content_part.done
    data: {"type":"response.content_part.done","sequence_number":7,"item_id":"msg_0000000000000000000000000000000a","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Grüß \"dich\"\n!","annotations":[],"logprobs":[]}}

    event: response.output_item.done
    data: {"type":"response.output_item.done","sequence_number":8,"output_index":0,"item":{"type":"message","id":"msg_0000000000000000000000000000000a","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Grüß \"dich\"\n!","annotations":[],"logprobs":[]}]}}

    event: response.completed
    data: {"type":"response.completed","sequence_number":9,"response":{"id":"resp_1","object":"response","created_at":1772582400,"completed_at":1772582402,"status":"completed","error":null,"incomplete_details":null,"model":"gpt-5","previous_response_id":null,"conversation":{"id":"conv_1"},"output":[{"type":"message","id":"msg_0000000000000000000000000000000a","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Grüß \"dich\"\n!","annotations":[],"logprobs":[]}]}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15},"instructions":null,"metadata":{},"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"text":{"format":{"type":"text"}},"reasoning":{"effort":null,"summary":null},"temperature":1.0,"top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"top_logprobs":0,"max_output_tokens":null,"max_tool_calls":null,"truncation":"disabled","store":true,"background":false,"service_tier":"default","prompt_cache_key":null,"safety_identifier":null,"user":null,"session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}}
    "#);
}

#[test]
fn a_tool_call_after_some_text() {
    let deltas = [text("Let me see."), call(0, Some("weather"), ""), call(0, None, "{\"city\":"), call(0, None, "1}")];
    insta::assert_snapshot!(shown(&stream(about(&json!({})), None, &deltas, &ending(ResponseOutcome::Completed))), @r#"
     0 created {"response":{"status":"in_progress","output":[],"session":true}}
     1 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
     2 output_item.added {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
     3 content_part.added {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
     4 output_text.delta {"item_id":"msg_<hex>","output_index":0,"content_index":0,"delta":"Let me see.","logprobs":[]}
     5 output_text.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"text":"Let me see.","logprobs":[]}
     6 content_part.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Let me see.","annotations":[],"logprobs":[]}}
     7 output_item.done {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Let me see.","annotations":[],"logprobs":[]}]}}
     8 output_item.added {"output_index":1,"item":{"type":"function_call","id":"fc_<hex>_0","status":"in_progress","call_id":"call_0","name":"weather","arguments":""}}
     9 function_call_arguments.delta {"item_id":"fc_<hex>_0","output_index":1,"delta":"{\"city\":"}
    10 function_call_arguments.delta {"item_id":"fc_<hex>_0","output_index":1,"delta":"1}"}
    11 function_call_arguments.done {"item_id":"fc_<hex>_0","output_index":1,"name":"weather","arguments":"{\"city\":1}"}
    12 output_item.done {"output_index":1,"item":{"type":"function_call","id":"fc_<hex>_0","status":"completed","call_id":"call_0","name":"weather","arguments":"{\"city\":1}"}}
    13 completed {"response":{"status":"completed","output":[{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Let me see.","annotations":[],"logprobs":[]}]},{"type":"function_call","id":"fc_<hex>_0","status":"completed","call_id":"call_0","name":"weather","arguments":"{\"city\":1}"}],"completed_at":1772582402,"session":true}}
    "#);
}

#[test]
fn several_calls_end_one_by_one_unless_they_come_in_turns() {
    let deltas = [
        call(0, Some("a"), "{}"),
        call(1, Some("b"), "{"),
        call(2, Some("c"), "{"),
        call(1, None, "}"),
        call(2, None, "}"),
    ];
    insta::assert_snapshot!(shown(&stream(about(&json!({})), None, &deltas, &ending(ResponseOutcome::Completed))), @r#"
     0 created {"response":{"status":"in_progress","output":[],"session":true}}
     1 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
     2 output_item.added {"output_index":0,"item":{"type":"function_call","id":"fc_<hex>_0","status":"in_progress","call_id":"call_0","name":"a","arguments":""}}
     3 function_call_arguments.delta {"item_id":"fc_<hex>_0","output_index":0,"delta":"{}"}
     4 function_call_arguments.done {"item_id":"fc_<hex>_0","output_index":0,"name":"a","arguments":"{}"}
     5 output_item.done {"output_index":0,"item":{"type":"function_call","id":"fc_<hex>_0","status":"completed","call_id":"call_0","name":"a","arguments":"{}"}}
     6 output_item.added {"output_index":1,"item":{"type":"function_call","id":"fc_<hex>_1","status":"in_progress","call_id":"call_1","name":"b","arguments":""}}
     7 function_call_arguments.delta {"item_id":"fc_<hex>_1","output_index":1,"delta":"{"}
     8 output_item.added {"output_index":2,"item":{"type":"function_call","id":"fc_<hex>_2","status":"in_progress","call_id":"call_2","name":"c","arguments":""}}
     9 function_call_arguments.delta {"item_id":"fc_<hex>_2","output_index":2,"delta":"{"}
    10 function_call_arguments.delta {"item_id":"fc_<hex>_1","output_index":1,"delta":"}"}
    11 function_call_arguments.delta {"item_id":"fc_<hex>_2","output_index":2,"delta":"}"}
    12 function_call_arguments.done {"item_id":"fc_<hex>_1","output_index":1,"name":"b","arguments":"{}"}
    13 output_item.done {"output_index":1,"item":{"type":"function_call","id":"fc_<hex>_1","status":"completed","call_id":"call_1","name":"b","arguments":"{}"}}
    14 function_call_arguments.done {"item_id":"fc_<hex>_2","output_index":2,"name":"c","arguments":"{}"}
    15 output_item.done {"output_index":2,"item":{"type":"function_call","id":"fc_<hex>_2","status":"completed","call_id":"call_2","name":"c","arguments":"{}"}}
    16 completed {"response":{"status":"completed","output":[{"type":"function_call","id":"fc_<hex>_0","status":"completed","call_id":"call_0","name":"a","arguments":"{}"},{"type":"function_call","id":"fc_<hex>_1","status":"completed","call_id":"call_1","name":"b","arguments":"{}"},{"type":"function_call","id":"fc_<hex>_2","status":"completed","call_id":"call_2","name":"c","arguments":"{}"}],"completed_at":1772582402,"session":true}}
    "#);
}

#[test]
fn reasoning_comes_first_and_ends_when_the_text_begins() {
    let deltas = [reasoning("They "), reasoning("greet."), text("Hi")];
    insta::assert_snapshot!(shown(&stream(about(&json!({})), None, &deltas, &ending(ResponseOutcome::Completed))), @r#"
     0 created {"response":{"status":"in_progress","output":[],"session":true}}
     1 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
     2 output_item.added {"output_index":0,"item":{"type":"reasoning","id":"rs_<hex>","status":"in_progress","summary":[]}}
     3 reasoning_summary_part.added {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}
     4 reasoning_summary_text.delta {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"delta":"They "}
     5 reasoning_summary_text.delta {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"delta":"greet."}
     6 reasoning_summary_text.done {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"text":"They greet."}
     7 reasoning_summary_part.done {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"They greet."}}
     8 output_item.done {"output_index":0,"item":{"type":"reasoning","id":"rs_<hex>","status":"completed","summary":[{"type":"summary_text","text":"They greet."}]}}
     9 output_item.added {"output_index":1,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
    10 content_part.added {"item_id":"msg_<hex>","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
    11 output_text.delta {"item_id":"msg_<hex>","output_index":1,"content_index":0,"delta":"Hi","logprobs":[]}
    12 output_text.done {"item_id":"msg_<hex>","output_index":1,"content_index":0,"text":"Hi","logprobs":[]}
    13 content_part.done {"item_id":"msg_<hex>","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}}
    14 output_item.done {"output_index":1,"item":{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}}
    15 completed {"response":{"status":"completed","output":[{"type":"reasoning","id":"rs_<hex>","status":"completed","summary":[{"type":"summary_text","text":"They greet."}]},{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}],"completed_at":1772582402,"session":true}}
    "#);
}

#[test]
fn a_refusal_is_a_part_of_its_own() {
    let deltas = [text("Well,"), refusal("I can"), refusal("not.")];
    insta::assert_snapshot!(shown(&stream(about(&json!({})), None, &deltas, &ending(ResponseOutcome::Completed))), @r#"
     0 created {"response":{"status":"in_progress","output":[],"session":true}}
     1 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
     2 output_item.added {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
     3 content_part.added {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
     4 output_text.delta {"item_id":"msg_<hex>","output_index":0,"content_index":0,"delta":"Well,","logprobs":[]}
     5 output_text.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"text":"Well,","logprobs":[]}
     6 content_part.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Well,","annotations":[],"logprobs":[]}}
     7 content_part.added {"item_id":"msg_<hex>","output_index":0,"content_index":1,"part":{"type":"refusal","refusal":""}}
     8 refusal.delta {"item_id":"msg_<hex>","output_index":0,"content_index":1,"delta":"I can"}
     9 refusal.delta {"item_id":"msg_<hex>","output_index":0,"content_index":1,"delta":"not."}
    10 refusal.done {"item_id":"msg_<hex>","output_index":0,"content_index":1,"refusal":"I cannot."}
    11 content_part.done {"item_id":"msg_<hex>","output_index":0,"content_index":1,"part":{"type":"refusal","refusal":"I cannot."}}
    12 output_item.done {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Well,","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"I cannot."}]}}
    13 completed {"response":{"status":"completed","output":[{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Well,","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"I cannot."}]}],"completed_at":1772582402,"session":true}}
    "#);
}

#[test]
fn a_failure_ends_the_text_as_incomplete_and_never_ends_a_call() {
    let deltas = [reasoning("Hm."), text("So far"), call(0, Some("f"), "{\"a\"")];
    insta::assert_snapshot!(shown(&stream(about(&json!({})), None, &deltas, &ending(failed()))), @r#"
     0 created {"response":{"status":"in_progress","output":[],"session":true}}
     1 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
     2 output_item.added {"output_index":0,"item":{"type":"reasoning","id":"rs_<hex>","status":"in_progress","summary":[]}}
     3 reasoning_summary_part.added {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}
     4 reasoning_summary_text.delta {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"delta":"Hm."}
     5 reasoning_summary_text.done {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"text":"Hm."}
     6 reasoning_summary_part.done {"item_id":"rs_<hex>","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"Hm."}}
     7 output_item.done {"output_index":0,"item":{"type":"reasoning","id":"rs_<hex>","status":"completed","summary":[{"type":"summary_text","text":"Hm."}]}}
     8 output_item.added {"output_index":1,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
     9 content_part.added {"item_id":"msg_<hex>","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
    10 output_text.delta {"item_id":"msg_<hex>","output_index":1,"content_index":0,"delta":"So far","logprobs":[]}
    11 output_text.done {"item_id":"msg_<hex>","output_index":1,"content_index":0,"text":"So far","logprobs":[]}
    12 content_part.done {"item_id":"msg_<hex>","output_index":1,"content_index":0,"part":{"type":"output_text","text":"So far","annotations":[],"logprobs":[]}}
    13 output_item.done {"output_index":1,"item":{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"So far","annotations":[],"logprobs":[]}]}}
    14 output_item.added {"output_index":2,"item":{"type":"function_call","id":"fc_<hex>_0","status":"in_progress","call_id":"call_0","name":"f","arguments":""}}
    15 function_call_arguments.delta {"item_id":"fc_<hex>_0","output_index":2,"delta":"{\"a\""}
    16 failed {"response":{"status":"failed","output":[{"type":"message","id":"msg_<hex>","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"So far","annotations":[],"logprobs":[]}]}],"error":{"code":"upstream_error","message":"the model server answered 500"},"session":true}}
    "#);
}

#[test]
fn a_cancellation_fails_with_the_status_cancelled() {
    let cancelled = ResponseError { code: "cancelled".into(), message: "the turn was cancelled".into() };
    let frames = stream(about(&json!({})), None, &[text("So")], &ending(ResponseOutcome::Cancelled(cancelled)));
    insta::assert_snapshot!(shown(&frames), @r#"
    0 created {"response":{"status":"in_progress","output":[],"session":true}}
    1 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
    2 output_item.added {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
    3 content_part.added {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
    4 output_text.delta {"item_id":"msg_<hex>","output_index":0,"content_index":0,"delta":"So","logprobs":[]}
    5 output_text.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"text":"So","logprobs":[]}
    6 content_part.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"So","annotations":[],"logprobs":[]}}
    7 output_item.done {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"So","annotations":[],"logprobs":[]}]}}
    8 failed {"response":{"status":"cancelled","output":[{"type":"message","id":"msg_<hex>","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"So","annotations":[],"logprobs":[]}]}],"error":{"code":"cancelled","message":"the turn was cancelled"},"session":true}}
    "#);
}

#[test]
fn a_compaction_is_an_item_before_the_message() {
    let frames = stream(about(&json!({})), Some(compaction()), &[text("Hi")], &ending(ResponseOutcome::Completed));
    insta::assert_snapshot!(shown(&frames), @r#"
     0 created {"response":{"status":"in_progress","output":[],"session":true}}
     1 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
     2 output_item.added {"output_index":0,"item":{"type":"compaction","id":"cmp_00000000000000000000000000000007","status":"in_progress","encrypted_content":"opaque"}}
     3 output_item.done {"output_index":0,"item":{"type":"compaction","id":"cmp_00000000000000000000000000000007","status":"completed","encrypted_content":"opaque"}}
     4 output_item.added {"output_index":1,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
     5 content_part.added {"item_id":"msg_<hex>","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
     6 output_text.delta {"item_id":"msg_<hex>","output_index":1,"content_index":0,"delta":"Hi","logprobs":[]}
     7 output_text.done {"item_id":"msg_<hex>","output_index":1,"content_index":0,"text":"Hi","logprobs":[]}
     8 content_part.done {"item_id":"msg_<hex>","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}}
     9 output_item.done {"output_index":1,"item":{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}}
    10 completed {"response":{"status":"completed","output":[{"type":"compaction","id":"cmp_00000000000000000000000000000007","status":"completed","encrypted_content":"opaque"},{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}],"completed_at":1772582402,"session":true}}
    "#);
}

#[test]
fn a_background_response_is_queued_first() {
    let about = about(&json!({"background": true}));
    insta::assert_snapshot!(shown(&stream(about, None, &[text("Hi")], &ending(ResponseOutcome::Completed))), @r#"
    0 created {"response":{"status":"queued","output":[],"session":true}}
    1 queued {"response":{"status":"queued","output":[],"session":false}}
    2 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
    3 output_item.added {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
    4 content_part.added {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
    5 output_text.delta {"item_id":"msg_<hex>","output_index":0,"content_index":0,"delta":"Hi","logprobs":[]}
    6 output_text.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"text":"Hi","logprobs":[]}
    7 content_part.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}}
    8 output_item.done {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}}
    9 completed {"response":{"status":"completed","output":[{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}],"completed_at":1772582402,"session":true}}
    "#);
}

#[test]
fn a_background_response_can_be_cancelled_while_it_waits() {
    let (events, mut frames) = Events::begin(about(&json!({"background": true})), MESSAGE, None);
    let cancelled = ResponseError { code: "cancelled".into(), message: "the turn was cancelled".into() };
    frames.extend(events.end(&ending(ResponseOutcome::Cancelled(cancelled)), None));
    insta::assert_snapshot!(shown(&frames), @r#"
    0 created {"response":{"status":"queued","output":[],"session":false}}
    1 queued {"response":{"status":"queued","output":[],"session":false}}
    2 failed {"response":{"status":"cancelled","output":[],"error":{"code":"cancelled","message":"the turn was cancelled"},"session":false}}
    "#);
}

#[test]
fn a_compaction_in_between_ends_what_was_being_said() {
    let (mut events, _) = Events::begin(about(&json!({})), MESSAGE, None);
    let mut frames = events.delta(&text("Hi"));
    frames.extend(events.compacted(compaction()));
    frames.extend(events.delta(&text(" there")));
    insta::assert_snapshot!(shown(&frames), @r#"
     1 output_item.added {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
     2 content_part.added {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
     3 output_text.delta {"item_id":"msg_<hex>","output_index":0,"content_index":0,"delta":"Hi","logprobs":[]}
     4 output_text.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"text":"Hi","logprobs":[]}
     5 content_part.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}}
     6 output_item.done {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[],"logprobs":[]}]}}
     7 output_item.added {"output_index":1,"item":{"type":"compaction","id":"cmp_00000000000000000000000000000007","status":"in_progress","encrypted_content":"opaque"}}
     8 output_item.done {"output_index":1,"item":{"type":"compaction","id":"cmp_00000000000000000000000000000007","status":"completed","encrypted_content":"opaque"}}
     9 output_item.added {"output_index":2,"item":{"type":"message","id":"msg_<hex>_1","status":"in_progress","role":"assistant","content":[]}}
    10 content_part.added {"item_id":"msg_<hex>_1","output_index":2,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
    11 output_text.delta {"item_id":"msg_<hex>_1","output_index":2,"content_index":0,"delta":" there","logprobs":[]}
    "#);
}

#[test]
fn an_answer_that_ran_out_of_tokens_is_incomplete() {
    let outcome = ResponseOutcome::Incomplete(IncompleteReason::MaxOutputTokens);
    insta::assert_snapshot!(shown(&stream(about(&json!({})), None, &[text("Once upon")], &ending(outcome))), @r#"
    0 created {"response":{"status":"in_progress","output":[],"session":true}}
    1 in_progress {"response":{"status":"in_progress","output":[],"session":false}}
    2 output_item.added {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"in_progress","role":"assistant","content":[]}}
    3 content_part.added {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
    4 output_text.delta {"item_id":"msg_<hex>","output_index":0,"content_index":0,"delta":"Once upon","logprobs":[]}
    5 output_text.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"text":"Once upon","logprobs":[]}
    6 content_part.done {"item_id":"msg_<hex>","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Once upon","annotations":[],"logprobs":[]}}
    7 output_item.done {"output_index":0,"item":{"type":"message","id":"msg_<hex>","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"Once upon","annotations":[],"logprobs":[]}]}}
    8 incomplete {"response":{"status":"incomplete","output":[{"type":"message","id":"msg_<hex>","status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"Once upon","annotations":[],"logprobs":[]}]}],"incomplete_details":{"reason":"max_output_tokens"},"session":true}}
    "#);
}

#[test]
fn text_after_a_call_is_a_further_message() {
    let deltas = [text("A"), call(0, Some("f"), "{}"), text("B")];
    let frames = stream(about(&json!({})), None, &deltas, &ending(ResponseOutcome::Completed));
    insta::assert_snapshot!(shown(&frames[frames.len() - 5..]), @r#"
    14 output_text.delta {"item_id":"msg_<hex>_1","output_index":2,"content_index":0,"delta":"B","logprobs":[]}
    15 output_text.done {"item_id":"msg_<hex>_1","output_index":2,"content_index":0,"text":"B","logprobs":[]}
    16 content_part.done {"item_id":"msg_<hex>_1","output_index":2,"content_index":0,"part":{"type":"output_text","text":"B","annotations":[],"logprobs":[]}}
    17 output_item.done {"output_index":2,"item":{"type":"message","id":"msg_<hex>_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"B","annotations":[],"logprobs":[]}]}}
    18 completed {"response":{"status":"completed","output":[{"type":"message","id":"msg_<hex>","status":"completed","role":"assistant","content":[{"type":"output_text","text":"A","annotations":[],"logprobs":[]}]},{"type":"function_call","id":"fc_<hex>_0","status":"completed","call_id":"call_0","name":"f","arguments":"{}"},{"type":"message","id":"msg_<hex>_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"B","annotations":[],"logprobs":[]}]}],"completed_at":1772582402,"session":true}}
    "#);
}

#[test]
fn log_probabilities_stand_beside_the_whole_text_with_every_list_there() {
    let said = json!([{"token": "Hi", "logprob": -0.5, "bytes": null, "top_logprobs": [{"token": "Ho", "logprob": -1, "bytes": null}]}]);
    let mut delta = text("Hi");
    delta.choice_extra = crate::map(json!({"logprobs": {"content": said, "refusal": null}}));
    let frames = stream(about(&json!({})), None, &[delta], &ending(ResponseOutcome::Completed));
    let events: Vec<_> = frames.iter().map(data).collect();
    let logprobs = json!([{"token": "Hi", "logprob": -0.5, "bytes": [], "top_logprobs": [{"token": "Ho", "logprob": -1, "bytes": []}]}]);
    assert_eq!(events[4]["logprobs"], json!([]));
    assert_eq!(events[5]["logprobs"], logprobs);
    assert_eq!(events[8]["response"]["output"][0]["content"][0]["logprobs"], logprobs);
}
