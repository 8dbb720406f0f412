//! What holds for every stream.

use herma_model::generation::{Answer, Finish, FinishReason, ToolCall};
use herma_model::{Delta, MessageStatus};
use herma_wire::chat::assistant_utterance;
use herma_wire::responses::{Echo, IncompleteReason, ItemStatus, ResponseError, ResponseOutcome, output_items, parse};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::{MESSAGE, about, call, data, ending, failed, reasoning, refusal, stream, text};

/// Pieces of an answer in any order. Some arguments are whole objects.
fn pieces() -> impl Strategy<Value = Vec<Delta>> {
    let piece = prop_oneof![
        "\\PC{0,4}".prop_map(|piece| text(&piece)),
        "\\PC{1,4}".prop_map(|piece| reasoning(&piece)),
        "\\PC{1,4}".prop_map(|piece| refusal(&piece)),
        (0..3_u32, "\\PC{0,3}").prop_map(|(index, piece)| call(index, None, &piece)),
        (0..3_u32).prop_map(|index| call(index, None, "{}")),
    ];
    vec(piece, 0..12).prop_map(|mut deltas| {
        // The first piece of each call has its name, and calls are numbered without gaps.
        let mut begun = 0;
        for piece in deltas.iter_mut().flat_map(|delta| &mut delta.tool_calls) {
            piece.index = piece.index.min(begun);
            if piece.index == begun {
                begun += 1;
                piece.id = Some(format!("call_{}", piece.index));
                piece.name = Some("f".to_owned());
            }
        }
        deltas
    })
}

/// Every way in which a response can end.
fn outcomes() -> impl Strategy<Value = ResponseOutcome> {
    let cancelled = ResponseError { code: "cancelled".into(), message: "the turn was cancelled".into() };
    let incomplete = ResponseOutcome::Incomplete(IncompleteReason::MaxOutputTokens);
    select(vec![ResponseOutcome::Completed, incomplete, failed(), ResponseOutcome::Cancelled(cancelled)])
}

/// The answer that the pieces make.
fn whole(deltas: &[Delta]) -> Answer {
    let finish = Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Map::new() };
    let mut answer = Answer { finish, ..crate::text_answer("") };
    let (mut content, mut refusal, mut thought) = (String::new(), String::new(), String::new());
    for delta in deltas {
        content.push_str(delta.content.as_deref().unwrap_or(""));
        refusal.push_str(delta.refusal.as_deref().unwrap_or(""));
        thought.push_str(delta.extra.get("reasoning_content").and_then(Value::as_str).unwrap_or(""));
        for piece in &delta.tool_calls {
            if piece.index as usize == answer.tool_calls.len() {
                answer.tool_calls.push(ToolCall {
                    id: piece.id.clone().unwrap(),
                    name: "f".into(),
                    ..ToolCall::default()
                });
            }
            answer.tool_calls[piece.index as usize].arguments.push_str(piece.arguments.as_deref().unwrap_or(""));
        }
    }
    answer.content = Some(content).filter(|text| !text.is_empty());
    answer.refusal = Some(refusal).filter(|text| !text.is_empty());
    if !thought.is_empty() {
        answer.extra.insert("reasoning_content".into(), thought.into());
    }
    answer
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(body in vec(any::<u8>(), 0..256)) {
        let _ = parse(&body);
    }

    #[test]
    fn every_split_of_an_answer_gives_the_same_items(
        thought in "\\PC{1,12}", said in "\\PC{1,12}", cuts in vec(any::<proptest::sample::Index>(), 0..6),
    ) {
        let split = |whole: &str| {
            let mut borders: Vec<usize> = whole.char_indices().map(|(at, _)| at).collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| borders[cut.index(borders.len())]).collect();
            at.extend([0, whole.len()]);
            at.sort_unstable();
            borders.clear();
            at.windows(2).map(|pair| whole[pair[0]..pair[1]].to_owned()).collect::<Vec<_>>()
        };
        let mut deltas: Vec<Delta> = split(&thought).iter().map(|piece| reasoning(piece)).collect();
        deltas.extend(split(&said).iter().map(|piece| text(piece)));
        deltas.push(call(0, Some("f"), ""));
        deltas.extend(split("{\"a\":[1,2]}").iter().map(|piece| call(0, None, piece)));
        let frames = stream(about(&json!({})), None, &deltas, &ending(ResponseOutcome::Completed));
        let last = data(frames.last().unwrap());
        let utterance = assistant_utterance(&whole(&deltas), MessageStatus::Complete);
        let stored = serde_json::to_value(output_items(MESSAGE, &utterance, ItemStatus::Completed)).unwrap();
        assert_eq!(last["response"]["output"], stored);
        let is_done = |event: &Value| event["type"] == "response.output_item.done";
        let done: Vec<Value> = frames.iter().map(data).filter(is_done).collect();
        assert_eq!(json!(done.iter().map(|event| &event["item"]).collect::<Vec<_>>()), stored);
    }

    #[test]
    fn every_stream_keeps_the_rules(deltas in pieces(), outcome in outcomes()) {
        stream(about(&json!({})), None, &deltas, &ending(outcome));
    }

    #[test]
    fn an_echo_reads_back(temperature in 0.0..2.0_f64, user: String, store: bool) {
        let metadata = json!({"a": user});
        let body =
            json!({"input": "hi", "temperature": temperature, "user": user, "store": store, "metadata": metadata});
        if let Ok(request) = parse(body.to_string().as_bytes()) {
            assert_eq!(Echo::from_json(&request.echo.to_json()), Some(request.echo));
        }
    }
}
