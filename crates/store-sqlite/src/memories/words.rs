//! The words of facts: the rows of `memory_words`. Each fact has a row for each of its words.
//!
//! The newest facts with a word under a key are next to each other there. So a look-up costs the same, however many
//! facts there are.

use std::collections::HashSet;

use herma_model::{Digest, SessionKey, TenantId};
use herma_store::search::{fold, words};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ToSql, params};

use crate::failure::{StoreResult, Translate};
use crate::search::terms;

/// The session key of a tenant, as the rows have it. Two keys may share a number, so readers check the key of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WordScope(i64);

impl WordScope {
    /// Keys contain any characters, so the number is made of a digest.
    pub(crate) fn of(tenant: TenantId, session_key: &SessionKey) -> Self {
        let Digest(digest) = Digest::of_fields([&tenant.0.to_le_bytes()[..], session_key.as_str().as_bytes()]);
        Self(digest[..8].iter().fold(0, |number, byte| (number << 8) | i64::from(*byte)))
    }
}

impl ToSql for WordScope {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

/// The word of a text by which the same text can be found. `None` if it has no word.
pub(super) fn longest(text: &str) -> Option<String> {
    words_of(text).into_iter().max_by_key(String::len)
}

/// Adds the words of a fact.
pub(super) fn add(connection: &Connection, scope: WordScope, fact: i64, text: &str) -> StoreResult<()> {
    let mut insert = connection.prepare_cached("INSERT INTO memory_words VALUES (?1, ?2, ?3)").translated()?;
    for word in words_of(text) {
        insert.execute(params![scope, word, fact]).translated()?;
    }
    Ok(())
}

/// Removes the words of a fact with this text.
pub(super) fn remove(connection: &Connection, scope: WordScope, fact: i64, text: &str) -> StoreResult<()> {
    let mut delete = connection
        .prepare_cached("DELETE FROM memory_words WHERE scope = ?1 AND word = ?2 AND memory_pk = ?3")
        .translated()?;
    for word in words_of(text) {
        delete.execute(params![scope, word, fact]).translated()?;
    }
    Ok(())
}

/// Adds the words of all facts. The migration that makes the table calls it.
pub(crate) fn add_all(connection: &Connection) -> StoreResult<()> {
    let mut select = connection.prepare("SELECT pk, tenant_pk, session_key, text FROM memories").translated()?;
    let mut facts = select.query([]).translated()?;
    while let Some(fact) = facts.next().translated()? {
        let (key, tenant): (i64, i64) = (fact.get(0).translated()?, fact.get(1).translated()?);
        let session_key = crate::rows::word(fact, 2, |key| SessionKey::parse(key).ok()).translated()?;
        let text = fact.get_ref(3).and_then(|text| Ok(text.as_str()?.to_owned())).translated()?;
        add(connection, WordScope::of(TenantId(tenant), &session_key), key, &text)?;
    }
    Ok(())
}

/// The newest facts under a key that have a word, in the singular or in the plural. Newest first.
pub(crate) fn newest(connection: &Connection, scope: WordScope, word: &str, limit: usize) -> StoreResult<Vec<i64>> {
    let word = terms::cut(word);
    let mut found = newest_with(connection, scope, &word, limit)?;
    if let Some(other) = terms::other_number(&word) {
        let others = newest_with(connection, scope, &other, limit)?;
        if !others.is_empty() {
            found.extend(others);
            found.sort_unstable_by(|one, other| other.cmp(one));
            found.dedup();
            found.truncate(limit);
        }
    }
    Ok(found)
}

fn newest_with(connection: &Connection, scope: WordScope, word: &str, limit: usize) -> StoreResult<Vec<i64>> {
    connection
        .prepare_cached(
            "SELECT memory_pk FROM memory_words WHERE scope = ?1 AND word = ?2 ORDER BY memory_pk DESC LIMIT ?3",
        )
        .and_then(|mut select| select.query_map(params![scope, word, limit as i64], |row| row.get(0))?.collect())
        .translated()
}

/// The words that a fact can be found by. Of a script without spaces: letters, and pairs of them.
fn words_of(text: &str) -> HashSet<String> {
    let folded = fold(text);
    let mut found = HashSet::new();
    for word in words(&folded) {
        if word.cjk {
            let letters: Vec<char> = word.text.chars().collect();
            found.extend(letters.iter().map(char::to_string));
            found.extend(letters.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else {
            found.insert(terms::cut(word.text));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tenants_have_numbers_of_their_own() {
        let scope = |tenant, key| WordScope::of(TenantId(tenant), &SessionKey::parse(key).unwrap());
        let scopes = [scope(1, "a:b"), scope(1, "a-b"), scope(2, "a:b"), scope(1, "A:b"), scope(1, "a b")];
        assert_eq!(scopes.iter().collect::<HashSet<_>>().len(), scopes.len());
    }

    #[test]
    fn a_fact_is_found_by_its_words_in_either_number_and_by_pairs_of_letters() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(include_str!("../../migrations/0038_memory_words.sql").split("DROP").next().unwrap())
            .unwrap();
        let [ann, bob] = ["ann", "bob"].map(|key| WordScope::of(TenantId(1), &SessionKey::parse(key).unwrap()));
        let long = "x".repeat(100);
        for (fact, text) in [(1, "Dogs, dogs"), (2, "A DOG"), (3, "黒猫がいる"), (4, &*long), (5, "dog dogs")] {
            add(&connection, ann, fact, text).unwrap();
        }
        add(&connection, bob, 6, "dog").unwrap();
        let found = |word: &str, limit| newest(&connection, ann, word, limit).unwrap();
        assert_eq!(found("dog", 9), [5, 2, 1]);
        assert_eq!(found("dogs", 2), [5, 2]);
        assert_eq!((found("猫", 9), found("黒猫", 9), found("猫黒", 9)), (vec![3], vec![3], vec![]));
        assert_eq!(found(&long, 9), [4]);
        for (fact, text) in [(1, "Dogs, dogs"), (2, "A DOG"), (3, "黒猫がいる"), (4, &*long), (5, "dog dogs")] {
            remove(&connection, ann, fact, text).unwrap();
        }
        let left: i64 = connection.query_row("SELECT count(*) FROM memory_words", [], |row| row.get(0)).unwrap();
        assert_eq!((left, newest(&connection, bob, "dog", 9).unwrap()), (1, vec![6]));
    }
}
