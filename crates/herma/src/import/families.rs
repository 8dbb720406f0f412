//! Finds which sessions of a Hermes database form one conversation, its kind, and its parent.
//!
//! Hermes has one column for three relations: continuation, branch and delegation. Marks in the model settings and the
//! parent's end reason tell them apart. If neither does, nothing is guessed: the relation to the parent is `Import`,
//! and the kind follows from the source alone.

use std::collections::{HashMap, HashSet};

use herma_model::{ParentRelation, SessionKind};
use herma_store_sqlite::hermes::HermesSession;
use serde_json::Value;

/// A continuation may begin this long before its parent's end, because Hermes reads the clock more than once.
const SLACK_SECONDS: f64 = 1.0;
/// The end reason of a session that goes on in another.
const COMPRESSION: &str = "compression";
/// What Hermes writes in place of the lost parent of delegated work.
const ORPHANED: &str = "__orphaned__";
/// The source of delegated work. It is there even if the model settings were lost.
const SUBAGENT: &str = "subagent";
/// The end reason of a session that was branched.
const BRANCHED: &str = "branched";

/// The sessions of one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Family {
    /// The ids of the sessions, from the first to the head.
    pub(super) chain: Vec<String>,
    /// The kind of the first session.
    pub(super) kind: SessionKind,
    /// The parent of the first session.
    pub(super) parent: Option<(String, ParentRelation)>,
    /// Whether the parent is in the database.
    pub(super) parent_is_there: bool,
    /// Whether the head went on in a session that is not in the database.
    pub(super) lost_its_end: bool,
}

/// How a session is related to its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ParentLink {
    /// It has no parent.
    NoParent,
    /// It can be the continuation of this session. Only one session is.
    Continues(String),
    /// It came from this session.
    From(String, ParentRelation),
    /// It came from a session whose id is lost.
    FromUnknown(ParentRelation),
}

/// Groups the sessions into conversations. They are in the order of their first sessions, but parents come before their
/// children. `begins_with_summary` is called only if several sessions could continue the same one.
pub(super) fn group_sessions<E>(
    sessions: &[HermesSession],
    mut begins_with_summary: impl FnMut(&str) -> Result<bool, E>,
) -> Result<Vec<Family>, E> {
    let by_id: HashMap<&str, &HermesSession> = sessions.iter().map(|session| (&*session.id, session)).collect();
    let links: HashMap<&str, ParentLink> =
        sessions.iter().map(|session| (&*session.id, parent_link(session, &by_id))).collect();
    let next = continuations(sessions, &links, &mut begins_with_summary)?;
    let continued: HashSet<&str> = next.values().copied().collect();
    let mut families = Vec::new();
    let mut seen = HashSet::new();
    // Sessions in a cycle have no first one; their chain begins with the oldest.
    let firsts = sessions.iter().filter(|session| !continued.contains(&*session.id));
    for first in firsts.chain(sessions) {
        let mut chain = Vec::new();
        let mut at = Some(&*first.id);
        while let Some(id) = at.filter(|id| seen.insert(*id)) {
            chain.push(id.to_owned());
            at = next.get(id).copied();
        }
        if !chain.is_empty() {
            families.push(family(first, chain, &links, &by_id));
        }
    }
    Ok(parents_first(families))
}

fn parents_first(families: Vec<Family>) -> Vec<Family> {
    let members = families.iter().enumerate().flat_map(|(at, family)| family.chain.iter().map(move |id| (&**id, at)));
    let of_session: HashMap<&str, usize> = members.collect();
    let parent = |at: usize| families[at].parent.as_ref().and_then(|(id, _)| of_session.get(&**id)).copied();
    let mut order = Vec::with_capacity(families.len());
    let mut placed = HashSet::new();
    for at in 0..families.len() {
        let above = std::iter::successors(Some(at), |at| parent(*at));
        let new: Vec<usize> = above.take_while(|at| placed.insert(*at)).collect();
        order.extend(new.into_iter().rev());
    }
    let mut families: Vec<Option<Family>> = families.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| families[at].take()).collect()
}

fn family(
    first: &HermesSession,
    chain: Vec<String>,
    links: &HashMap<&str, ParentLink>,
    by_id: &HashMap<&str, &HermesSession>,
) -> Family {
    let (parent, relation) = match links.get(&*first.id) {
        None | Some(ParentLink::NoParent) => (None, None),
        Some(ParentLink::Continues(parent)) => (Some(parent.clone()), Some(ParentRelation::Import)),
        Some(ParentLink::From(parent, relation)) => (Some(parent.clone()), Some(*relation)),
        Some(ParentLink::FromUnknown(relation)) => (None, Some(*relation)),
    };
    let kind = match (relation, first.source.as_deref()) {
        (Some(ParentRelation::Branch), _) => SessionKind::Branch,
        (Some(ParentRelation::Delegate), _) | (_, Some("tool")) => SessionKind::Auxiliary,
        (_, Some("cron")) => SessionKind::Background,
        _ => SessionKind::Main,
    };
    let head = chain.last().and_then(|id| by_id.get(&**id));
    Family {
        kind,
        parent_is_there: parent.as_deref().is_none_or(|parent| by_id.contains_key(parent)),
        parent: parent.zip(relation),
        lost_its_end: head.is_some_and(|head| head.end_reason.as_deref() == Some(COMPRESSION)),
        chain,
    }
}

fn parent_link(session: &HermesSession, by_id: &HashMap<&str, &HermesSession>) -> ParentLink {
    let config: Option<Value> = session.model_config.as_deref().and_then(|json| serde_json::from_str(json).ok());
    for (mark, relation) in [("_delegate_from", ParentRelation::Delegate), ("_branched_from", ParentRelation::Branch)] {
        let marked = config.as_ref().and_then(|config| config.get(mark));
        if let Some(marked) = marked.filter(|value| !matches!(value, Value::Null | Value::Bool(false))) {
            let parent =
                session.parent.as_deref().or_else(|| marked.as_str().filter(|id| !matches!(*id, "" | ORPHANED)));
            return parent
                .map_or(ParentLink::FromUnknown(relation), |parent| ParentLink::From(parent.to_owned(), relation));
        }
    }
    if session.source.as_deref() == Some(SUBAGENT) {
        let delegate = ParentRelation::Delegate;
        let from = |parent: String| ParentLink::From(parent, delegate);
        return session.parent.clone().map_or(ParentLink::FromUnknown(delegate), from);
    }
    let Some(parent) = session.parent.clone() else { return ParentLink::NoParent };
    let Some(source) = by_id.get(&*parent).filter(|source| follows(session, source)) else {
        return ParentLink::From(parent, ParentRelation::Import);
    };
    match source.end_reason.as_deref() {
        Some(COMPRESSION) if session.source.as_deref() != Some("tool") => ParentLink::Continues(parent),
        Some(BRANCHED) if !matches!(session.source.as_deref(), Some("tool" | "cron")) => {
            ParentLink::From(parent, ParentRelation::Branch)
        }
        _ => ParentLink::From(parent, ParentRelation::Import),
    }
}

/// Whether a session began after its parent had ended.
fn follows(session: &HermesSession, parent: &HermesSession) -> bool {
    session.started_at.zip(parent.ended_at).is_none_or(|(began, ended)| began >= ended - SLACK_SECONDS)
}

/// The continuation of each session.
fn continuations<'a, E>(
    sessions: &'a [HermesSession],
    links: &'a HashMap<&str, ParentLink>,
    begins_with_summary: &mut impl FnMut(&str) -> Result<bool, E>,
) -> Result<HashMap<&'a str, &'a str>, E> {
    let mut candidates: HashMap<&str, Vec<&HermesSession>> = HashMap::new();
    for session in sessions {
        if let Some(ParentLink::Continues(parent)) = links.get(&*session.id) {
            candidates.entry(parent).or_default().push(session);
        }
    }
    let mut next = HashMap::new();
    for (parent, candidates) in candidates {
        let mut best: Option<((bool, bool, bool), &HermesSession)> = None;
        for session in &candidates {
            let summary = candidates.len() > 1 && begins_with_summary(&session.id)?;
            let went_on = session.end_reason.as_deref() == Some(COMPRESSION);
            let rank = (summary, went_on, session.ended_at.is_none());
            // Of equal candidates, take the later one.
            if best.is_none_or(|(highest, _)| rank >= highest) {
                best = Some((rank, session));
            }
        }
        next.extend(best.map(|(_, session)| (parent, &*session.id)));
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A session that began at a time.
    fn session(id: &str, parent: Option<&str>, began: f64) -> HermesSession {
        HermesSession {
            id: id.to_owned(),
            source: Some("cli".to_owned()),
            parent: parent.map(str::to_owned),
            started_at: Some(began),
            ..HermesSession::default()
        }
    }

    fn ended(session: HermesSession, reason: &str, at: f64) -> HermesSession {
        HermesSession { end_reason: Some(reason.to_owned()), ended_at: Some(at), ..session }
    }

    fn marked(session: HermesSession, config: &str) -> HermesSession {
        HermesSession { model_config: Some(config.to_owned()), ..session }
    }

    fn from(session: HermesSession, source: &str) -> HermesSession {
        HermesSession { source: Some(source.to_owned()), ..session }
    }

    fn families(sessions: &[HermesSession]) -> Vec<Family> {
        let Ok(families) = group_sessions(sessions, |id| Ok::<_, Infallible>(id.starts_with("real")));
        families
    }

    #[test]
    fn a_chain_of_compressions_is_one_conversation() {
        let sessions = [
            ended(session("a", None, 1.0), "compression", 5.0),
            ended(session("b", Some("a"), 5.0), "compression", 9.0),
            session("c", Some("b"), 9.0),
        ];
        let found = families(&sessions);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].chain, ["a", "b", "c"]);
        assert_eq!((found[0].kind, found[0].lost_its_end), (SessionKind::Main, false));
    }

    #[test]
    fn marks_and_ends_tell_what_a_child_is() {
        let compressed = || ended(session("a", None, 1.0), "compression", 5.0);
        let branched = || ended(session("a", None, 1.0), "branched", 5.0);
        let child = || session("b", Some("a"), 6.0);
        let import = ParentRelation::Import;
        for (sessions, kind, relation) in [
            ([compressed(), marked(child(), r#"{"_branched_from":"a"}"#)], SessionKind::Branch, ParentRelation::Branch),
            (
                [compressed(), marked(child(), r#"{"_delegate_from":"a"}"#)],
                SessionKind::Auxiliary,
                ParentRelation::Delegate,
            ),
            ([branched(), child()], SessionKind::Branch, ParentRelation::Branch),
            ([branched(), from(child(), "cron")], SessionKind::Background, import),
            ([branched(), from(child(), "tool")], SessionKind::Auxiliary, import),
            ([branched(), session("b", Some("a"), 2.0)], SessionKind::Main, import),
            ([compressed(), session("b", Some("a"), 2.0)], SessionKind::Main, import),
            ([compressed(), from(child(), "tool")], SessionKind::Auxiliary, import),
            ([session("a", None, 1.0), child()], SessionKind::Main, import),
            ([session("a", None, 1.0), marked(child(), "not json")], SessionKind::Main, import),
            ([session("a", None, 1.0), from(child(), "cron")], SessionKind::Background, import),
            ([session("a", None, 1.0), from(child(), "subagent")], SessionKind::Auxiliary, ParentRelation::Delegate),
        ] {
            let found = families(&sessions);
            let found = found.iter().find(|family| family.chain == ["b"]).unwrap();
            assert_eq!((found.kind, found.parent.clone()), (kind, Some(("a".to_owned(), relation))), "{sessions:?}");
        }
    }

    #[test]
    fn a_row_without_any_mark_is_main() {
        let bare = HermesSession { id: "a".to_owned(), ..HermesSession::default() };
        let found = families(&[bare]);
        assert_eq!((found[0].kind, &found[0].parent), (SessionKind::Main, &None));
    }

    #[test]
    fn a_parent_that_is_gone_is_still_named() {
        let [orphan, marked] =
            [session("a", Some("gone"), 1.0), marked(session("b", None, 1.0), r#"{"_branched_from":"gone"}"#)];
        let found = families(&[orphan, marked]);
        for (family, relation) in found.iter().zip([ParentRelation::Import, ParentRelation::Branch]) {
            assert_eq!(family.parent, Some(("gone".to_owned(), relation)));
            assert!(!family.parent_is_there);
        }
    }

    #[test]
    fn parents_come_before_their_children_whatever_their_times() {
        let child = marked(session("child", Some("parent"), 1.0), r#"{"_delegate_from":"parent"}"#);
        let found = families(&[child, session("other", None, 2.0), session("parent", None, 3.0)]);
        let firsts: Vec<&str> = found.iter().map(|family| &*family.chain[0]).collect();
        assert_eq!(firsts, ["parent", "child", "other"]);
        let cycle = [session("a", Some("b"), 1.0), session("b", Some("a"), 2.0)];
        assert_eq!(families(&cycle).len(), 2, "also in a cycle");
    }

    #[test]
    fn delegated_work_that_lost_its_parent_is_delegated_work() {
        let orphan = || session("a", None, 1.0);
        for orphan in [marked(orphan(), r#"{"_delegate_from":"__orphaned__"}"#), from(orphan(), "subagent")] {
            let found = families(&[orphan]);
            assert_eq!((found[0].kind, &found[0].parent), (SessionKind::Auxiliary, &None));
        }
    }

    #[test]
    fn a_missing_continuation_is_reported() {
        let found = families(&[ended(session("a", None, 1.0), "compression", 5.0)]);
        assert!(found[0].lost_its_end);
    }

    #[test]
    fn of_several_continuations_the_one_with_the_summary_goes_on() {
        let sessions = [
            ended(session("a", None, 1.0), "compression", 5.0),
            session("real", Some("a"), 5.0),
            session("api_1_fork", Some("a"), 8.0),
        ];
        let found = families(&sessions);
        assert_eq!(found[0].chain, ["a", "real"]);
        assert_eq!((&*found[1].chain[0], found[1].kind), ("api_1_fork", SessionKind::Main));
        assert_eq!(found[1].parent, Some(("a".to_owned(), ParentRelation::Import)));
    }

    #[test]
    fn sessions_in_a_cycle_are_imported_too() {
        let sessions = [
            ended(session("a", Some("b"), 5.0), "compression", 5.0),
            ended(session("b", Some("a"), 5.0), "compression", 5.0),
        ];
        let found = families(&sessions);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].chain, ["a", "b"]);
    }
}
