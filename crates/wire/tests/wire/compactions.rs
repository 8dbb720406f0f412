//! The ledger, its summaries in the transcript, a preview, and the event of a compaction.

use std::sync::Arc;

use herma_model::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger, MadeBy, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{
    Compaction, CompactionId, Message, MessageId, Provenance, Seq, SessionId, Summary, Timestamp, TurnId, Usage,
};
use herma_wire::chat::simple_user;
use herma_wire::resource::{CompactionPreview, CompactionRow, MessageRow};
use herma_wire::sse;
use serde_json::Value;
use uuid::Uuid;

use crate::{facts, session};

const AT: Timestamp = Timestamp(1_772_582_400_050);

fn summary() -> Summary {
    Summary {
        id: MessageId::from_uuid(Uuid::from_u128(4)),
        seq: Seq(9),
        session: SessionId::from_name("s2"),
        compaction: CompactionId::from_uuid(Uuid::from_u128(5)),
        created_at: AT,
        said: simple_user("They went to Rome."),
    }
}

fn applied() -> Compaction {
    Compaction {
        id: CompactionId::from_uuid(Uuid::from_u128(5)),
        action: CompactionAction::Compact,
        mode: CompactionMode::Split,
        trigger: CompactionTrigger::Threshold,
        made_by: MadeBy::Herma,
        outcome: CompactionOutcome::Undone,
        session_before: SessionId::from_name("s1"),
        session_after: SessionId::from_name("s2"),
        first: Seq(1),
        through: Seq(8),
        carried: vec![Seq(3), Seq(4)],
        summary: Some(summary()),
        model: Some("m".to_owned()),
        sizes: Sizes { before: 900, after: 100 },
        usage: Usage { input: 800, output: 20, cached: 10, reasoning: 5, ..Usage::default() },
        duration_ms: 1_200,
        failure: None,
        undoes: None,
        undone_by: Some(CompactionId::from_uuid(Uuid::from_u128(6))),
        turn: Some(TurnId::from_uuid(Uuid::from_u128(3))),
        created_at: AT,
    }
}

fn failed() -> Compaction {
    Compaction {
        mode: CompactionMode::InPlace,
        outcome: CompactionOutcome::Failed,
        session_after: SessionId::from_name("s1"),
        carried: Vec::new(),
        summary: None,
        model: None,
        sizes: Sizes { before: 900, after: 0 },
        usage: Usage::default(),
        failure: Some("the summary was empty".to_owned()),
        undone_by: None,
        turn: None,
        ..applied()
    }
}

fn json(row: &impl serde::Serialize) -> String {
    serde_json::to_string(row).unwrap()
}

#[test]
fn a_row_of_the_ledger_says_what_became_what() {
    insta::assert_snapshot!(json(&CompactionRow::from(&applied())), @r#"{"id":"cmp_00000000000000000000000000000005","object":"compaction","action":"compact","mode":"split","trigger":"threshold","made_by":"herma","outcome":"undone","session_before":"s1","session_after":"s2","range":{"first_seq":1,"last_seq":8},"carried":[3,4],"summary":"They went to Rome.","summary_message_id":"msg_00000000000000000000000000000004","model":"m","tokens_before":900,"tokens_after":100,"usage":{"input_tokens":800,"output_tokens":20,"total_tokens":820,"cached_tokens":10,"reasoning_tokens":5},"duration_ms":1200,"error":null,"undoes":null,"undone_by":"cmp_00000000000000000000000000000006","turn_id":"turn_00000000000000000000000000000003","created_at":"2026-03-04T00:00:00.050Z"}"#);
}

#[test]
fn a_row_of_the_ledger_always_has_the_same_fields() {
    let names = |row: &Compaction| {
        let Value::Object(object) = serde_json::to_value(CompactionRow::from(row)).unwrap() else { panic!("a row") };
        object.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&failed()), names(&applied()));
    insta::assert_snapshot!(json(&CompactionRow::from(&failed())), @r#"{"id":"cmp_00000000000000000000000000000005","object":"compaction","action":"compact","mode":"in_place","trigger":"threshold","made_by":"herma","outcome":"failed","session_before":"s1","session_after":"s1","range":{"first_seq":1,"last_seq":8},"carried":[],"summary":null,"summary_message_id":null,"model":null,"tokens_before":900,"tokens_after":null,"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"cached_tokens":0,"reasoning_tokens":0},"duration_ms":1200,"error":"the summary was empty","undoes":null,"undone_by":null,"turn_id":null,"created_at":"2026-03-04T00:00:00.050Z"}"#);
}

#[test]
fn the_answer_to_a_compaction_also_says_where_the_head_is() {
    let (facts, record) = (facts(), applied());
    let provenance = Provenance::of(&facts, &facts.head);
    let row = serde_json::to_value(CompactionRow::from(&record).led_to(provenance.clone())).unwrap();
    assert_eq!(row["session"], serde_json::to_value(provenance).unwrap());
    assert_eq!(row["id"], record.id.to_string());
}

#[test]
fn a_summary_is_a_row_of_the_transcript_that_says_what_it_is() {
    insta::assert_snapshot!(json(&MessageRow::from(&summary())), @r#"{"id":"msg_00000000000000000000000000000004","object":"message","seq":9,"role":"user","content":"They went to Rome.","status":"complete","session_id":"s2","kind":"summary","compaction_id":"cmp_00000000000000000000000000000005","created_at":"2026-03-04T00:00:00.050Z"}"#);
}

#[test]
fn a_preview_shows_what_would_be_kept_and_written() {
    let message = |seq: i64, text: &str| {
        Arc::new(Message {
            id: MessageId::from_uuid(Uuid::from_u128(2)),
            seq: Seq(seq),
            session: SessionId::from_name("s1"),
            turn: TurnId::from_uuid(Uuid::from_u128(3)),
            attempt: 1,
            created_at: AT,
            said: simple_user(text),
        })
    };
    let preview = CompactionPreview {
        mode: CompactionMode::InPlace,
        first: Seq(1),
        through: Seq(8),
        summarised: 7,
        carried: &[message(3, "carried")],
        kept: &[message(9, "recent")],
        summary: &simple_user("They went to Rome."),
        model: Some("m"),
        sizes: Sizes { before: 900, after: 100 },
        usage: Usage { input: 800, output: 20, cached: 0, reasoning: 0, ..Usage::default() },
        duration_ms: 1_200,
    };
    insta::assert_snapshot!(json(&preview), @r#"{"object":"compaction.preview","dry_run":true,"mode":"in_place","range":{"first_seq":1,"last_seq":8},"summarised":7,"kept":[{"id":"msg_00000000000000000000000000000002","object":"message","seq":3,"role":"user","content":"carried","status":"complete","session_id":"s1","turn_id":"turn_00000000000000000000000000000003","created_at":"2026-03-04T00:00:00.050Z"},{"id":"msg_00000000000000000000000000000002","object":"message","seq":9,"role":"user","content":"recent","status":"complete","session_id":"s1","turn_id":"turn_00000000000000000000000000000003","created_at":"2026-03-04T00:00:00.050Z"}],"summary":"They went to Rome.","model":"m","tokens_before":900,"tokens_after":100,"usage":{"input_tokens":800,"output_tokens":20,"total_tokens":820,"cached_tokens":0,"reasoning_tokens":0},"duration_ms":1200}"#);
}

#[test]
fn a_compaction_in_a_stream_is_a_named_event() {
    let frame = sse::compacted_frame(&session());
    let text = std::str::from_utf8(&frame).unwrap();
    let data = text.strip_prefix("event: session.compacted\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(data).unwrap(), serde_json::to_value(session()).unwrap());
    assert!(!data.contains('\n'));
}
