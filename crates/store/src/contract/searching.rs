//! Search: what is found, in what order, and what is never found. Each search runs twice: before and after the index is
//! up to date.

use herma_model::provenance::CompactionMode::{InPlace, Split};
use herma_model::{KeyScope, Role, SessionKey, SessionKind, Timestamp, TurnState};

use super::World;
use super::fixture::{name, running};
use crate::search::{Grouping, Hit, Search, SearchFilter, Wanted};
use crate::{Scope, Store};

/// A search for a query as a person would type it.
pub fn search(typed: &str) -> Search {
    Search {
        wanted: Wanted::parse(typed).unwrap(),
        filter: SearchFilter::default(),
        grouping: Grouping::None,
        after: None,
        limit: 100,
        now: Timestamp(0),
    }
}

/// A hit's snippet, with the matches in brackets.
pub fn snippet(hit: &Hit) -> String {
    hit.snippet.iter().map(|it| if it.found { format!("[{}]", it.text) } else { it.text.clone() }).collect()
}

impl<S: Store> World<S> {
    /// The snippets of all hits of a search, best first, from all pages.
    pub async fn found(&self, scope: &Scope, mut search: Search) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            search.now = self.now();
            let page = self.two.search(scope, search.clone()).await.unwrap();
            assert!(page.hits.len() <= search.limit);
            found.extend(page.hits.iter().map(snippet));
            search.after = page.next;
            if search.after.is_none() {
                return found;
            }
        }
    }

    /// Checks what each search finds, sorted, before and after everything is indexed.
    pub async fn finds(&self, expected: &[(&str, &[&str])]) {
        for indexed in [false, true] {
            if indexed {
                self.one.index_all().await.unwrap();
            }
            for (typed, snippets) in expected {
                let mut found = self.found(&self.scope, search(typed)).await;
                found.sort();
                assert_eq!(found, *snippets, "{typed}, indexed: {indexed}");
            }
        }
    }
}

pub async fn what_was_said_is_found_by_its_words<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "Where is the Café de Flore?", "In Paris, near the café Les Deux Magots").await;
    world.talk(&world.two, "other", "paris in spring", "lovely").await;
    world
        .finds(&[
            ("cafe", &["In Paris, near the [café] Les Deux Magots", "Where is the [Café] de Flore?"]),
            ("PARIS", &["In [Paris], near the café Les Deux Magots", "[paris] in spring"]),
            ("paris spring", &["[paris] in [spring]"]),
            ("\"les deux\"", &["In Paris, near the café [Les Deux] Magots"]),
            ("\"deux les\"", &[]),
            ("flor*", &["Where is the Café de [Flore]?"]),
            ("s*", &["paris in [spring]"]),
            ("spring OR flore", &["Where is the Café de [Flore]?", "paris in [spring]"]),
            ("paris -spring", &["In [Paris], near the café Les Deux Magots"]),
            ("elsewhere", &[]),
        ])
        .await;
}

pub async fn parts_of_words_are_found_after_whole_words<S: Store>(world: &World<S>) {
    world.talk(&world.one, "one", "the lighthouse keeper", "a house").await;
    world.talk(&world.one, "two", "warehouses", "no").await;
    world
        .finds(&[
            ("house", &["a [house]", "the light[house] keeper", "ware[house]s"]),
            ("ighthous", &["the l[ighthous]e keeper"]),
            ("\"house kee\"", &["the light[house kee]per"]),
            ("house*", &["a [house]"]),
            ("us", &[]),
        ])
        .await;
    let found = world.found(&world.scope, search("house")).await;
    assert_eq!(found.first().map(String::as_str), Some("a [house]"));
}

pub async fn scripts_without_spaces_are_found_by_one_letter_or_more<S: Store>(world: &World<S>) {
    world.talk(&world.one, "japanese", "私は東京都に住んでいます", "カタカナとｶﾞ").await;
    world.talk(&world.one, "chinese", "我们用GPT模型", "好").await;
    world.talk(&world.one, "korean", "한글날은 언제입니까", "시월 구일").await;
    world
        .finds(&[
            ("京", &["私は東[京]都に住んでいます"]),
            ("京都", &["私は東[京都]に住んでいます"]),
            ("東京都", &["私は[東京都]に住んでいます"]),
            ("ガ", &["カタカナと[ｶﾞ]"]),
            ("好", &["[好]"]),
            ("模型", &["我们用GPT[模型]"]),
            ("gpt模", &["我们用[GPT模]型"]),
            ("한", &["[한]글날은 언제입니까"]),
            ("글날", &["한[글날]은 언제입니까"]),
            ("東都", &[]),
        ])
        .await;
}

pub async fn what_was_compacted_away_is_found_where_it_was_said<S: Store>(world: &World<S>) {
    world.talk(&world.one, "trip", "the harbour at dawn", "fog").await;
    world.compact(&world.one, "trip", Split, "a summary of the harbour").await;
    world.talk(&world.one, "trip", "the harbour at noon", "sun").await;
    world.compact(&world.one, "trip", InPlace, "another summary of the harbour").await;
    let failed = world.start(&world.one, "trip", "and at night?").await;
    world.leave(&world.one, &failed, TurnState::Failed, Some("the harbour at ni")).await;
    world
        .finds(&[
            ("harbour", &["the [harbour] at dawn", "the [harbour] at ni", "the [harbour] at noon"]),
            ("summary", &[]),
        ])
        .await;
    let mut hits = world.two.search(&world.scope, search("dawn")).await.unwrap().hits;
    let hit = hits.remove(0);
    let row = world.row("trip").await.unwrap();
    assert_eq!((hit.conversation, hit.session.as_str()), (row.facts.id, "trip"), "in the session of the message");
    assert_eq!((hit.kind, hit.origin_kind), (SessionKind::Main, SessionKind::Main));
    assert_eq!(hit.message.map(|message| message.role), Some(Role::User));
    let later = world.two.search(&world.scope, search("noon")).await.unwrap().hits.remove(0);
    assert_eq!((later.kind, later.session), (SessionKind::Continuation, row.facts.head.id.clone()));
}

pub async fn what_a_branch_inherits_is_found_once<S: Store>(world: &World<S>) {
    let turn = world.talk(&world.one, "trip", "the harbour", "fog").await;
    world.branch(&world.one, turn.turn, "and the lighthouse", "dark").await;
    world.finds(&[("harbour", &["the [harbour]"]), ("lighthouse", &["and the [lighthouse]"])]).await;
    world.one.delete(&world.scope, &name("trip"), crate::Children::Keep, world.now()).await.unwrap();
    world.finds(&[("harbour", &["the [harbour]"]), ("lighthouse", &["and the [lighthouse]"])]).await;
}

pub async fn a_search_finds_nothing_of_other_callers<S: Store>(world: &World<S>) {
    world.talk(&world.one, "open", "a secret", "yes").await;
    let mut ask = world.ask("keyed", "another secret");
    ask.session_key = Some(SessionKey::parse("agent:one").unwrap());
    let turn = running(world.admit(&world.one, ask).await);
    world.answer(&world.one, &turn, "no").await;
    for indexed in [false, true] {
        if indexed {
            world.one.index_all().await.unwrap();
        }
        let sees = async |keys: &str| {
            let scope = Scope { keys: KeyScope::parse(Some(keys)), ..world.scope.clone() };
            world.found(&scope, search("secret")).await.len()
        };
        assert_eq!((sees("agent:*").await, sees("agent:two").await), (2, 1), "indexed: {indexed}");
        assert_eq!(world.found(&world.stranger, search("secret")).await.len(), 0, "indexed: {indexed}");
    }
}
