//! Turns a family of Hermes' sessions into a conversation to import.

use std::sync::Arc;

use herma_model::text::breaks_a_line;
use herma_model::{Alias, ConversationId, SessionId, SessionKey, Timestamp, Usage};
use herma_store::ImportedConversation;
use herma_store_sqlite::hermes::{HermesMessage, HermesSession};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::families::Family;
use super::report::Problem;
use super::transcript::{self, ImportedTranscript};

/// The source of a session that names none.
const UNKNOWN_SOURCE: &str = "hermes";
/// The most characters of a title.
const MAX_TITLE: usize = 200;
/// The most characters of a metadata value.
const MAX_VALUE: usize = 512;

/// A conversation, and what could not be imported of it.
pub(super) struct Mapped {
    pub(super) conversation: ImportedConversation,
    pub(super) problems: Vec<Problem>,
    pub(super) taken_back: u64,
}

/// Builds a conversation. `names` are additional names that lead to it. `None` if the chain is empty.
pub(super) fn map(family: &Family, chain: &[(HermesSession, Vec<HermesMessage>)], names: Vec<Alias>) -> Option<Mapped> {
    let (first, _) = chain.first()?;
    let (head, _) = chain.last()?;
    let ImportedTranscript { mut sessions, skipped, taken_back, without_summary, last_said } = transcript::read(chain);
    let mut problems: Vec<Problem> =
        skipped.into_iter().map(|skipped| Problem::row(&skipped.session, skipped.row, skipped.why)).collect();
    for session in &mut sessions {
        if Alias::parse(&session.origin).is_err() {
            session.id = SessionId::from_uuid(Uuid::now_v7());
            problems.push(Problem::session(
                &session.origin,
                "this cannot be an id in Herma; the session has one of Herma's own here",
            ));
        }
    }
    problems.extend(without_summary.iter().map(|id| {
        Problem::session(
            id,
            "it goes on from another session without a summary, so all that was said before is shown to the model",
        )
    }));
    problems.extend(remarks(family));
    problems.extend(chain.iter().filter_map(|(session, _)| unreadable(session)));
    let (session_key, refused) = session_key(chain);
    problems.extend(refused);
    let began = sessions.first().map_or(Timestamp(0), |session| session.created_at);
    let conversation = ImportedConversation {
        id: ConversationId::from_uuid(Uuid::now_v7()),
        kind: family.kind,
        parent: family.parent.as_ref().map(|(parent, relation)| (SessionId::from_name(parent), *relation)),
        source: Arc::from(first.source.as_deref().unwrap_or(UNKNOWN_SOURCE)),
        session_key,
        title: latest(chain, |session| session.title.as_deref()).and_then(title),
        cwd: latest(chain, |session| session.cwd.as_deref()).map(str::to_owned),
        metadata: metadata(head, chain),
        archived: head.archived,
        model: latest(chain, |session| session.model.as_deref()).map(str::to_owned),
        usage: usage(chain),
        updated_at: last_said.map_or(began, |said| said.max(began)),
        sessions,
        names,
    };
    Some(Mapped { conversation, problems, taken_back })
}

/// Reports a parent or a continuation that is not in the database.
fn remarks(family: &Family) -> Vec<Problem> {
    let mut remarks = Vec::new();
    if let (Some(first), Some((parent, _)), false) = (family.chain.first(), &family.parent, family.parent_is_there) {
        remarks.push(Problem::session(
            first,
            format!("its parent {parent} is not in the database; only its name is kept"),
        ));
    }
    if let (Some(head), true) = (family.chain.last(), family.lost_its_end) {
        remarks.push(Problem::session(
            head,
            "it was compressed into a session that is not there; the conversation goes on here",
        ));
    }
    remarks
}

/// Reports broken model settings, or a session that is its own parent.
fn unreadable(session: &HermesSession) -> Option<Problem> {
    let is_json = |text: &String| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if session.model_config.as_ref().is_some_and(|config| !config.trim().is_empty() && !is_json(config)) {
        let what = "its model_config is no JSON; if it was marked there as a branch or as delegated, that is not known";
        return Some(Problem::session(&session.id, what));
    }
    let is_own = session.parent.as_deref() == Some(&*session.id);
    is_own.then(|| Problem::session(&session.id, "it is its own parent in the database; only the name is kept"))
}

type Chain = [(HermesSession, Vec<HermesMessage>)];

/// The value of the latest session that has one.
fn latest<'a>(chain: &'a Chain, read: impl Fn(&'a HermesSession) -> Option<&'a str>) -> Option<&'a str> {
    chain.iter().rev().find_map(|(session, _)| read(session))
}

fn session_key(chain: &Chain) -> (Option<SessionKey>, Option<Problem>) {
    let Some((session, key)) =
        chain.iter().rev().find_map(|(session, _)| session.session_key.as_deref().map(|key| (session, key)))
    else {
        return (None, None);
    };
    match SessionKey::parse(key) {
        Ok(key) => (Some(key), None),
        Err(why) => (None, Some(Problem::session(&session.id, format!("its session key is left out: it {why}")))),
    }
}

/// A title without the characters that titles may not have.
fn title(title: &str) -> Option<String> {
    let title: String = title.chars().filter(|letter| !breaks_a_line(*letter)).take(MAX_TITLE).collect();
    Some(title.trim().to_owned()).filter(|title| !title.is_empty())
}

fn usage(chain: &Chain) -> Usage {
    let mut sum = Usage::default();
    for (session, _) in chain {
        sum += Usage {
            input: session.input_tokens + session.cache_read_tokens + session.cache_write_tokens,
            output: session.output_tokens,
            cached: session.cache_read_tokens,
            reasoning: session.reasoning_tokens,
            ..Usage::default()
        };
    }
    sum
}

/// Facts for which Herma has no field of its own. Values of metadata are text.
fn metadata(head: &HermesSession, chain: &Chain) -> Option<Arc<str>> {
    let cost: f64 = chain.iter().filter_map(|(session, _)| session.cost).sum();
    let cost = (cost > 0.0).then(|| format!("{cost:.6}"));
    let model = latest(chain, |session| session.model.as_deref());
    let ended = head.end_reason.as_deref().filter(|reason| *reason != "compression");
    let fields = [
        ("hermes_model", model),
        ("hermes_end_reason", ended),
        ("hermes_user_id", head.user_id.as_deref()),
        ("hermes_chat_id", head.chat_id.as_deref()),
        ("hermes_chat_type", head.chat_type.as_deref()),
        ("hermes_thread_id", head.thread_id.as_deref()),
        ("hermes_display_name", head.display_name.as_deref()),
        ("hermes_git_branch", head.git_branch.as_deref()),
        ("hermes_profile", head.profile_name.as_deref()),
        ("hermes_cost_usd", cost.as_deref()),
    ];
    let fields: Map<String, Value> = fields
        .into_iter()
        .filter_map(|(name, value)| {
            let value: String = value?.chars().take(MAX_VALUE).collect();
            Some((name.to_owned(), value.into()))
        })
        .collect();
    (!fields.is_empty()).then(|| Arc::from(Value::Object(fields).to_string()))
}

#[cfg(test)]
mod tests {
    use herma_model::{ParentRelation, SessionKind};
    use serde_json::json;

    use super::*;

    fn family(chain: &[&str]) -> Family {
        Family {
            chain: chain.iter().map(|id| (*id).to_owned()).collect(),
            kind: SessionKind::Main,
            parent: None,
            parent_is_there: true,
            lost_its_end: false,
        }
    }

    fn session(id: &str) -> HermesSession {
        HermesSession { id: id.to_owned(), started_at: Some(2.5), ..HermesSession::default() }
    }

    #[test]
    fn titles_times_tokens_and_metadata_are_taken_over() {
        let first = HermesSession {
            title: Some("A\u{7} trip ".to_owned()),
            source: Some("telegram".to_owned()),
            input_tokens: 10,
            cache_read_tokens: 5,
            output_tokens: 3,
            cost: Some(0.5),
            ..session("a")
        };
        let second = HermesSession {
            model: Some("m".to_owned()),
            session_key: Some("agent:main".to_owned()),
            end_reason: Some("cli_close".to_owned()),
            output_tokens: 4,
            archived: true,
            ..session("b")
        };
        let said = HermesMessage {
            row: 1,
            role: "user".to_owned(),
            content: Some("hi".to_owned()),
            timestamp: Some(9.0),
            active: true,
            ..HermesMessage::default()
        };
        let mapped = map(&family(&["a", "b"]), &[(first, vec![said]), (second, Vec::new())], Vec::new()).unwrap();
        let made = mapped.conversation;
        assert_eq!((made.title.as_deref(), &*made.source, made.archived), (Some("A trip"), "telegram", true));
        assert_eq!(made.usage, Usage { input: 15, output: 7, cached: 5, reasoning: 0, ..Usage::default() });
        assert_eq!((made.sessions[0].created_at, made.updated_at), (Timestamp(2_500), Timestamp(9_000)));
        assert_eq!(made.session_key.unwrap().as_str(), "agent:main");
        let metadata: Value = serde_json::from_str(&made.metadata.unwrap()).unwrap();
        assert_eq!(
            metadata,
            json!({ "hermes_model": "m", "hermes_end_reason": "cli_close", "hermes_cost_usd": "0.500000" })
        );
    }

    #[test]
    fn an_invalid_id_is_replaced_and_reported() {
        let mapped = map(&family(&["../etc"]), &[(session("../etc"), Vec::new())], Vec::new()).unwrap();
        let made = &mapped.conversation.sessions[0];
        assert!(made.id.as_str().starts_with("sess_") && &*made.origin == "../etc");
        assert!(mapped.problems[0].to_string().contains("cannot be an id"), "{}", mapped.problems[0]);
    }

    #[test]
    fn a_missing_parent_and_a_missing_continuation_are_reported() {
        let lost = Family {
            parent: Some(("gone".to_owned(), ParentRelation::Branch)),
            parent_is_there: false,
            lost_its_end: true,
            ..family(&["a"])
        };
        let mapped = map(&lost, &[(session("a"), Vec::new())], Vec::new()).unwrap();
        let told: Vec<String> = mapped.problems.iter().map(ToString::to_string).collect();
        assert!(told[0].contains("parent gone is not in the database") && told[1].contains("goes on here"), "{told:?}");
    }

    #[test]
    fn contradictions_are_reported() {
        let broken = HermesSession { model_config: Some("{\"_branched_from".to_owned()), ..session("a") };
        let own = HermesSession { parent: Some("b".to_owned()), ..session("b") };
        let whole = HermesSession { model_config: Some("{}".to_owned()), ..session("c") };
        for (told, why) in [(broken, Some("no JSON")), (own, Some("its own parent")), (whole, None)] {
            let family = family(&[&told.id]);
            let mapped = map(&family, &[(told, Vec::new())], Vec::new()).unwrap();
            let problems: Vec<String> = mapped.problems.iter().map(ToString::to_string).collect();
            assert_eq!(problems.len(), usize::from(why.is_some()), "{problems:?}");
            assert!(why.is_none_or(|why| problems[0].contains(why)), "{problems:?}");
        }
    }

    #[test]
    fn an_empty_chain_makes_no_conversation() {
        assert!(map(&family(&["a"]), &[], Vec::new()).is_none());
    }
}
