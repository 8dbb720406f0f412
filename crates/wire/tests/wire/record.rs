//! Streams that are recorded and replayed.

use std::borrow::Cow;

use herma_model::generation::{Finish, ToolCallDelta};
use herma_model::{Answer, CompactionId, Delta, FinishReason, MessageStatus, ModelEvent, RunId, SessionId};
use herma_turn::{ContextFit, Effect, Ending, Event, Machine, ToolRules};
use herma_wire::chat::{answer_of, assistant_utterance};
use herma_wire::record::{Piece, join, of_answered, of_shown, parts, shown_steps, steps};
use herma_wire::responses::{Events, ResponseOutcome, compaction_item};
use herma_wire::runs::{RunEnding, RunEvents, RunOutput};
use herma_wire::sse::{self, Frame};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use serde_json::{Map, json};
use uuid::Uuid;

use crate::responses::{MESSAGE, about, call, ending, failed, reasoning, refusal, text};

fn compacted(number: u128) -> Piece<'static> {
    Piece::Compacted(CompactionId::from_uuid(Uuid::from_u128(number)))
}

fn piece(delta: Delta) -> Piece<'static> {
    Piece::Delta(Cow::Owned(delta))
}

fn run<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Piece<'static> {
    Piece::Text(Cow::Owned(pieces.into_iter().collect()))
}

/// Any delta, with anything in it that a model server may send.
fn delta() -> impl Strategy<Value = Delta> {
    let some_text = || option::weighted(0.4, "\\PC{0,4}");
    let call = (0..4_u32, option::of("[a-c]{0,3}"), option::of("[f-h]{0,2}"), option::of("\\PC{0,3}|\\{\\}|\\{|\\}"))
        .prop_map(|(index, id, name, arguments)| ToolCallDelta {
            index,
            id,
            name,
            arguments,
            custom: false,
            extra: crate::map(json!({"x": 1})),
        });
    let calls = prop_oneof![2 => Just(Vec::new()), 1 => vec(call, 1..4)];
    (some_text(), some_text(), some_text(), some_text(), calls, vec(any::<u8>(), 0..2)).prop_map(
        |(content, refusal, reasoning_content, reasoning, tool_calls, logprobs)| {
            let mut extra = Map::new();
            extra.extend(reasoning_content.map(|text| ("reasoning_content".to_owned(), json!(text))));
            extra.extend(reasoning.map(|text| ("reasoning".to_owned(), json!(text))));
            let logprobs = json!({"logprobs": {"content": logprobs, "refusal": []}});
            Delta { content, refusal, tool_calls, extra, choice_extra: crate::map(logprobs) }
        },
    )
}

fn stream() -> impl Strategy<Value = Vec<Piece<'static>>> {
    let step = prop_oneof![
        2 => "\\PC{0,4}".prop_map(|said| piece(text(&said))),
        2 => vec("\\PC{1,4}", 1..5).prop_map(|said| run(said.iter().map(String::as_str))),
        4 => delta().prop_map(piece),
        1 => any::<u128>().prop_map(compacted),
    ];
    vec(step, 0..16)
}

/// The answer of these steps, as a turn assembles it and the store gives it back.
fn stored_answer(steps: &[Piece<'_>]) -> Answer {
    let (mut machine, _) = Machine::begin(ToolRules::default());
    machine.on(Event::ContextFit(ContextFit::Fits));
    for step in steps {
        match step {
            Piece::Text(run) => drop(machine.on(Event::Model(ModelEvent::Text(run.clone().into_owned())))),
            Piece::Delta(delta) => drop(machine.on(Event::Model(ModelEvent::Delta(delta.clone().into_owned())))),
            Piece::Compacted(_) => {}
        }
    }
    let finish = Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Map::new() };
    let end = machine.on(Event::Model(ModelEvent::Finished(finish.clone())));
    let Some(Effect::End(Ending::Answered(answer))) = end else { unreachable!("no answer but {end:?}") };
    answer_of(&assistant_utterance(&answer, MessageStatus::Complete), finish)
}

fn frames(steps: &[Piece<'_>], outcome: ResponseOutcome) -> Vec<Frame> {
    let (mut events, mut frames) = Events::begin(about(&json!({})), MESSAGE, None);
    for step in steps {
        frames.extend(match step {
            Piece::Text(run) => run.pieces().flat_map(|piece| events.delta(&text(piece))).collect(),
            Piece::Delta(delta) => events.delta(delta),
            Piece::Compacted(id) => events.compacted(compaction_item(*id, id.to_string())),
        });
    }
    frames.extend(events.end(&ending(outcome), None));
    frames
}

fn run_frames(steps: &[Piece<'_>]) -> Vec<Frame> {
    let mut events = RunEvents::new(RunId::from_uuid(Uuid::from_u128(3)));
    let mut frames = Vec::new();
    for step in steps {
        frames.extend(match step {
            Piece::Text(run) => run.pieces().flat_map(|piece| events.delta(&text(piece))).collect(),
            Piece::Delta(delta) => events.delta(delta),
            Piece::Compacted(id) => events.compacted(*id, &SessionId::from_name("s")),
        });
    }
    frames.extend(events.end(&RunEnding::Cancelled, &RunOutput::default(), None));
    frames
}

/// The bytes of both streams to a client that has the events up to `after`, with the texts of a run written together.
fn written_together(steps: &[Piece<'_>], after: Option<u64>) -> [Vec<u8>; 2] {
    let (mut events, begun) = Events::begin(about(&json!({})), MESSAGE, None);
    let mut runs = RunEvents::new(RunId::from_uuid(Uuid::from_u128(3)));
    let mut out = [Vec::new(), Vec::new()];
    let [response, run] = &mut out;
    sse::write_frames(&begun, after, response);
    for step in steps {
        match step {
            Piece::Text(texts) => {
                events.text(texts, after, response);
                runs.text(texts, after, run);
            }
            Piece::Delta(delta) => {
                sse::write_frames(&events.delta(delta), after, response);
                sse::write_frames(&runs.delta(delta), after, run);
            }
            Piece::Compacted(id) => {
                sse::write_frames(&events.compacted(compaction_item(*id, id.to_string())), after, response);
                sse::write_frames(&runs.compacted(*id, &SessionId::from_name("s")), after, run);
            }
        }
    }
    sse::write_frames(&events.end(&ending(ResponseOutcome::Completed), None), after, response);
    sse::write_frames(&runs.end(&RunEnding::Cancelled, &RunOutput::default(), None), after, run);
    out
}

/// Compares the streams of both APIs that replay: responses and runs.
fn assert_same(again: &[Piece<'_>], shown: &[Piece<'_>], outcome: &ResponseOutcome) {
    for (again, shown) in
        [(frames(again, outcome.clone()), frames(shown, outcome.clone())), (run_frames(again), run_frames(shown))]
    {
        for (again, shown) in again.iter().zip(&shown) {
            assert_eq!(again, shown);
        }
        assert_eq!(again.len(), shown.len());
    }
}

proptest::proptest! {
    #[test]
    fn an_answered_turn_gives_the_same_events_again(shown in stream()) {
        let answer = stored_answer(&shown);
        let again = steps(&of_answered(shown.iter().cloned()), &answer).expect("a record of this answer");
        assert_same(&again, &shown, &ResponseOutcome::Completed);
    }

    #[test]
    fn a_turn_without_an_answer_gives_the_same_events_again(
        shown in stream(), cuts in vec(any::<proptest::sample::Index>(), 0..4),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(shown.len() + 1)).collect();
        cuts.extend([0, shown.len()]);
        cuts.sort_unstable();
        let record: String =
            cuts.windows(2).map(|pair| of_shown(shown[pair[0]..pair[1]].iter().cloned())).collect();
        let content = stored_answer(&shown).content.unwrap_or_default();
        let again = shown_steps(&record, &content).expect("a record of this text");
        assert_same(&again, &shown, &failed());
        // The turn may still succeed after the record was read.
        assert_same(&again, &shown, &ResponseOutcome::Completed);
    }

    #[test]
    fn texts_that_are_written_together_are_the_same_bytes(shown in stream(), after in option::of(0_u64..40)) {
        let one_by_one = [frames(&shown, ResponseOutcome::Completed), run_frames(&shown)];
        for (frames, together) in one_by_one.iter().zip(written_together(&shown, after)) {
            let mut expected = Vec::new();
            sse::write_frames(frames, after, &mut expected);
            assert_eq!(String::from_utf8(together).unwrap(), String::from_utf8(expected).unwrap());
        }
    }

    #[test]
    fn nothing_stored_makes_the_reader_panic(
        record in "\\PC*|(\\{\"[tfrshcalk]\":(\\[?[0-9]{1,20}\\]?)\\}\n){0,3}", text: String,
    ) {
        let _ = shown_steps(&record, &text);
        let _ = steps(&record, &crate::text_answer(&text));
    }
}

#[test]
fn an_answered_turn_is_recorded_by_lengths() {
    let with_logprobs = |said: &str, logprobs: serde_json::Value| Delta {
        choice_extra: crate::map(json!({"logprobs": {"content": logprobs}})),
        ..text(said)
    };
    let mut both = reasoning("Hm.");
    both.extra.extend(crate::map(json!({"reasoning": "Hm"})));
    let shown = [
        compacted(7),
        piece(reasoning("They ")),
        piece(both),
        piece(with_logprobs("Grüß ", json!([1]))),
        piece(with_logprobs("dich", json!([2, 3]))),
        piece(text("")),
        piece(call(0, Some("weather"), "")),
        piece(call(0, None, "{\"city\":")),
        piece(call(1, Some("time"), "{}")),
        piece(call(0, None, "1}")),
        piece(refusal("No.")),
    ];
    insta::assert_snapshot!(of_answered(shown.iter().cloned()), @r#"
    {"k":"cmp_00000000000000000000000000000007"}
    {"r":[5,3]}
    {"l":3}
    {"t":[7,4]}
    {"c":[0,"call_0","weather",null]}
    {"a":[0,[8]]}
    {"c":[1,"call_1","time",2]}
    {"a":[0,[2]]}
    {"f":[3]}
    {"h":2}
    "#);
    insta::assert_snapshot!(of_shown(shown), @r#"
    {"k":"cmp_00000000000000000000000000000007"}
    {"r":["They ","Hm."]}
    {"l":[1,2,3]}
    {"t":[7,4]}
    {"c":[0,"call_0","weather",null]}
    {"a":[0,["{\"city\":"]]}
    {"c":[1,"call_1","time","{}"]}
    {"a":[0,["1}"]]}
    {"f":["No."]}
    "#);
}

#[test]
fn the_records_of_several_messages_are_told_apart() {
    let records = [of_answered([piece(text("Let me look."))]), of_shown([piece(text("It is"))])];
    for count in [1, 2] {
        let whole = join(records[..count].to_vec());
        assert_eq!(parts(&whole).collect::<Vec<_>>(), records[..count]);
    }
    let empty = join([String::new(), records[1].clone()]);
    assert_eq!(parts(&empty).collect::<Vec<_>>(), ["", &records[1]]);
}

#[test]
fn a_long_text_costs_about_two_bytes_a_piece() {
    let record = of_answered((0..300).map(|_| piece(text("word "))));
    assert!(record.len() < 650, "{} bytes", record.len());
    assert_eq!(of_answered([run(["word "; 300])]), record);
}

#[test]
fn a_record_that_does_not_fit_gives_nothing() {
    let whole = of_answered([piece(text("Grüß")), piece(text(" dich"))]);
    let fits = |said: &str| steps(&whole, &crate::text_answer(said)).is_some();
    assert!(fits("Grüß dich"));
    for other in ["", "Grüß", "Grüß dich!", "Gruessü dich"] {
        assert!(!fits(other), "{other}");
    }
    for damaged in
        ["{\"t\":[1]", "{\"t\":[-1]}", "{\"x\":[1]}", "{\"k\":\"cmp_1\"}", "{\"a\":[0,[1]]}", "{\"l\":1}", "7"]
    {
        assert_eq!(shown_steps(damaged, "Grüß"), None, "{damaged}");
    }
}

#[test]
fn text_after_the_record_is_left_out() {
    let record = of_shown([piece(text("So"))]);
    assert_eq!(shown_steps(&record, "So far"), Some(vec![run(["So"])]));
}

#[test]
fn skipped_numbers_are_never_used_again() {
    let (mut events, begun) = Events::begin(about(&json!({})), MESSAGE, None);
    events.skip(1000);
    let ended = events.end(&ending(failed()), None);
    assert_eq!((begun[0].number, ended[0].number), (0, 1001));
    assert!(ended[0].bytes.windows(23).any(|bytes| bytes == b"\"sequence_number\":1001,\""[..23].as_ref()));
}
