//! Multiplies a store: copies every row that Herma has written, with new keys, ids, names, times and texts.
//!
//! A copy looks as if Herma had written it, and new columns need no change here. The first rows of a file are the
//! original. In every table, the keys of a copy follow those of the copy before.

use std::io;
use std::path::Path;

use herma_model::message::Utterance;
use herma_model::{Role, tokens};
use rusqlite::types::Value;
use rusqlite::{Connection, Statement};

use super::columns::{COPIED, Rule, Table, rule};
use super::words::Language;
use crate::random::Random;

/// The time that the whole store covers, and the time that one copy covers, in milliseconds.
const YEAR: i64 = 365 * 24 * 3600 * 1000;
const SPAN: i64 = 3 * 24 * 3600 * 1000;

/// A session key that all copies share, and a source that only one of [`RARELY`] copies has.
pub(super) const SHARED_KEY: &str = "agent:main:webui:dm:everybody";
pub(super) const RARE_SOURCE: &str = "telegram";
pub(super) const USUAL_SOURCE: &str = "api";
const RARELY: u64 = 100;

/// The bits of an id that differ between copies. They are random in the original and do not hold a message's place in
/// its turn.
const TELLING: u128 = (0xfff << 64) | (((1 << 31) - 1) << 31);
/// The bit positions of the timestamp and of the version in an id (UUID version 7).
const CLOCK: u32 = 80;
const VERSION: u32 = 76;

/// Copies per transaction.
const TOGETHER: u64 = 16;

/// How much was written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    /// Messages, without summaries.
    pub(super) messages: u64,
    /// Bytes of their texts.
    pub(super) text: u64,
}

/// Rows of one table.
struct Rows {
    table: Table,
    columns: Vec<(String, Rule)>,
    rows: Vec<Vec<Value>>,
    /// For each message, its JSON around the text. `None` for a summary, which is copied unchanged.
    frame: Vec<Option<MessageFrame>>,
    /// The difference between the keys of a row in one copy and in the next.
    stride: i64,
}

impl Rows {
    fn read(database: &Connection, table: Table) -> rusqlite::Result<Self> {
        let name = table.name();
        let mut select = database.prepare(&format!("SELECT * FROM {name}"))?;
        let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
        let columns: Vec<_> = columns.into_iter().map(|column| (column.clone(), rule(table, &column))).collect();
        let read = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|at| row.get(at)).collect();
        let rows = select.query_map([], read)?.collect::<rusqlite::Result<Vec<Vec<Value>>>>()?;
        let stride = match columns.iter().any(|(column, _)| column == "pk") {
            true => database.query_row(&format!("SELECT coalesce(max(pk), 0) FROM {name}"), [], |row| row.get(0))?,
            false => 0,
        };
        let payload = columns.iter().position(|(_, rule)| *rule == Rule::Payload);
        let summary = columns.iter().position(|(column, _)| column == "compaction_pk");
        let frame = rows.iter().map(|row| match (payload.map(|at| &row[at]), summary.map(|at| &row[at])) {
            (Some(Value::Text(payload)), Some(Value::Null)) => MessageFrame::of(payload),
            _ => None,
        });
        Ok(Self { table, frame: frame.collect(), columns, rows, stride })
    }

    fn insert(&self) -> String {
        let columns: Vec<&str> = self.columns.iter().map(|(column, _)| column.as_str()).collect();
        let places = vec!["?"; columns.len()].join(", ");
        format!("INSERT INTO {} ({}) VALUES ({places})", self.table.name(), columns.join(", "))
    }

    fn place(&self, wanted: Rule) -> Option<usize> {
        self.columns.iter().position(|(_, rule)| *rule == wanted)
    }
}

/// Multiplies the rows in a file to this many times in all. No other process may have the file open.
pub(super) fn multiply(path: &Path, times: u64, now: i64) -> io::Result<Written> {
    let database = Connection::open(path).map_err(io::Error::other)?;
    write(&database, times, now).map_err(io::Error::other)
}

fn write(database: &Connection, times: u64, now: i64) -> rusqlite::Result<Written> {
    // Fast but not crash-safe. If it is interrupted, the file is made again.
    for (pragma, value) in [("journal_mode", "OFF"), ("synchronous", "OFF"), ("locking_mode", "EXCLUSIVE")] {
        database.pragma_update(None, pragma, value)?;
    }
    database.pragma_update(None, "cache_size", -1_000_000)?;
    database.pragma_update(None, "foreign_keys", false)?;
    let tables = COPIED.map(|table| Rows::read(database, table));
    let tables = tables.into_iter().collect::<rusqlite::Result<Vec<_>>>()?;
    let began: i64 = database.query_row("SELECT min(created_at) FROM conversations", [], |row| row.get(0))?;
    let ended: i64 = database.query_row("SELECT max(updated_at) FROM conversations", [], |row| row.get(0))?;
    let stretch = SPAN / (ended - began).max(1);
    let mut copying = Copying {
        strides: COPIED.map(|table| tables.iter().find(|rows| rows.table == table).map_or(0, |rows| rows.stride)),
        number: 0,
        began,
        stretch,
        first: now - YEAR - SPAN,
        step: YEAR / i64::try_from(times).unwrap_or(i64::MAX).max(1),
        mask: 0,
        language: Language::new(5),
        made: Written::default(),
    };
    let mut inserts = Vec::new();
    for rows in &tables {
        inserts.push(database.prepare(&rows.insert())?);
    }
    let mut random = Random::new(9);
    database.execute_batch("BEGIN")?;
    for number in 1..times {
        copying.number = number;
        copying.mask = ((u128::from(random.next()) << 64) | u128::from(random.next())) & TELLING;
        for (rows, insert) in tables.iter().zip(&mut inserts) {
            copying.copy(rows, insert)?;
        }
        if number % TOGETHER == 0 {
            database.execute_batch("COMMIT; BEGIN")?;
        }
    }
    database.execute_batch("COMMIT")?;
    drop(inserts);
    database.pragma_update(None, "locking_mode", "NORMAL")?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    Ok(copying.made)
}

/// The state while copies are written.
struct Copying {
    /// In the order of [`COPIED`].
    strides: [i64; COPIED.len()],
    number: u64,
    began: i64,
    stretch: i64,
    first: i64,
    step: i64,
    mask: u128,
    language: Language,
    made: Written,
}

impl Copying {
    fn copy(&mut self, rows: &Rows, insert: &mut Statement<'_>) -> rusqlite::Result<()> {
        let said = [Rule::Payload, Rule::Digest, Rule::Tokens].map(|rule| rows.place(rule).map(|at| at + 1));
        for (row, frame) in rows.rows.iter().zip(&rows.frame) {
            for (at, ((_, rule), value)) in rows.columns.iter().zip(row).enumerate() {
                insert.raw_bind_parameter(at + 1, self.value(*rule, value))?;
            }
            if let ([Some(payload), Some(digest), Some(tokens)], Some(frame)) = (said, frame) {
                let text = self.language.message();
                self.made.messages += 1;
                self.made.text += text.len() as u64;
                let json = frame.json(&text);
                insert.raw_bind_parameter(digest, Utterance::text_digest(frame.role, &text).0)?;
                insert.raw_bind_parameter(tokens, tokens::estimate(&json))?;
                insert.raw_bind_parameter(payload, json)?;
            }
            insert.raw_execute()?;
        }
        Ok(())
    }

    fn value(&mut self, rule: Rule, value: &Value) -> Value {
        match (rule, value) {
            (Rule::Key(table), Value::Integer(key)) if *key > 0 => Value::Integer(self.key(table, *key)),
            (Rule::Time, Value::Integer(at)) => Value::Integer(self.time(*at)),
            (Rule::Id, Value::Blob(bytes)) => <[u8; 16]>::try_from(bytes.as_slice()).map_or_else(
                |_| value.clone(),
                |id| Value::Blob(self.id(u128::from_be_bytes(id)).to_be_bytes().into()),
            ),
            (Rule::Name, Value::Text(name)) => Value::Text(self.name(name)),
            (Rule::SessionKey, Value::Text(key)) if key != SHARED_KEY => Value::Text(self.name(key)),
            (Rule::Source, Value::Text(source)) if source == RARE_SOURCE && !self.number.is_multiple_of(RARELY) => {
                Value::Text(USUAL_SOURCE.to_owned())
            }
            (Rule::Title, Value::Text(_)) => Value::Text(self.language.title()),
            _ => value.clone(),
        }
    }

    fn key(&self, table: Table, key: i64) -> i64 {
        let stride = COPIED.iter().position(|other| *other == table).map_or(0, |at| self.strides[at]);
        key + stride * i64::try_from(self.number).unwrap_or_default()
    }

    fn time(&self, at: i64) -> i64 {
        self.first + self.step * i64::try_from(self.number).unwrap_or_default() + (at - self.began) * self.stretch
    }

    /// The id with the time of this copy, if it has a timestamp, and with other random bits.
    fn id(&self, id: u128) -> u128 {
        let told = id ^ self.mask;
        if (id >> VERSION) & 0xf != 7 {
            return told;
        }
        let clock = self.time(i64::try_from(id >> CLOCK).unwrap_or_default());
        (told & ((1 << CLOCK) - 1)) | (u128::from(clock.unsigned_abs()) << CLOCK)
    }

    fn name(&self, name: &str) -> String {
        let own = name.split_once('_').filter(|(_, digits)| digits.len() == 32);
        match own.and_then(|(prefix, digits)| Some((prefix, u128::from_str_radix(digits, 16).ok()?))) {
            Some((prefix, id)) => format!("{prefix}_{:032x}", self.id(id)),
            None => format!("{name}-{}", self.number),
        }
    }
}

/// A message as JSON, without its text.
struct MessageFrame {
    role: Role,
    before: String,
    after: String,
}

impl MessageFrame {
    /// Splits a user or assistant message around its text. `None` for any other content.
    fn of(payload: &str) -> Option<Self> {
        const CONTENT: &str = "\"content\":\"";
        let begins = |role: &Role| payload.starts_with(&format!("{{\"role\":\"{}\"", role.as_str()));
        let role = [Role::User, Role::Assistant].into_iter().find(begins)?;
        let (before, rest) = payload.split_at(payload.find(CONTENT)? + CONTENT.len());
        let (text, _) = rest.split_once('"')?;
        (!text.contains('\\')).then(|| Self { role, before: before.to_owned(), after: rest[text.len()..].to_owned() })
    }

    fn json(&self, text: &str) -> String {
        [&self.before, text, &self.after].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use herma_model::SessionKind;
    use herma_model::provenance::CompactionMode;
    use herma_store::contract::fixture::{name, texts};
    use herma_store::contract::{Engine, World};
    use herma_store::search::{Search, Wanted};
    use herma_store::{Archived, ListFilter, Store as _};
    use herma_store_sqlite::SqliteStore;
    use tempfile::TempDir;

    use super::*;

    const TIMES: u64 = 8;

    struct File(TempDir);

    impl Engine for File {
        type Store = SqliteStore;

        async fn open(&self) -> Arc<SqliteStore> {
            Arc::new(SqliteStore::open(&self.0.path().join("herma.db")).unwrap())
        }
    }

    /// A file in which Herma's store has written a conversation with a split and a branch, multiplied.
    async fn multiplied() -> (File, Written) {
        let file = File(tempfile::tempdir().unwrap());
        let world = World::new(&file).await;
        world.talk(&world.one, "trip", "question", "answer").await;
        world.compact(&world.one, "trip", CompactionMode::Split, "summary").await;
        let turn = world.talk(&world.one, "trip", "question", "answer").await;
        world.branch(&world.one, turn.turn, "elsewhere", "there").await;
        world.holds_together().await;
        let made = multiply(&file.0.path().join("herma.db"), TIMES, world.now().0).unwrap();
        (file, made)
    }

    #[tokio::test]
    async fn a_copy_is_what_the_store_would_have_written() {
        let (file, made) = multiplied().await;
        assert_eq!(made.messages, 6 * (TIMES - 1));
        let world = World::new(&file).await;
        let all = world.all(&world.scope).await;
        assert_eq!(all.len() as u64, 2 * TIMES);
        let first = world.row("trip").await.unwrap();
        for copy in 1..TIMES {
            let row = world.row(&format!("trip-{copy}")).await.unwrap();
            assert_eq!(row.facts.compaction_count, first.facts.compaction_count);
            assert_eq!(row.message_count, first.message_count);
            assert!(row.updated_at < first.updated_at);
        }
        world.holds_together().await;
    }

    #[tokio::test]
    async fn a_copy_continues_under_its_names_and_is_found_by_its_words() {
        let (file, _) = multiplied().await;
        let world = World::new(&file).await;
        world.talk(&world.one, "trip-3", "and now", "this").await;
        let view = world.read("trip-3").await.unwrap();
        assert_eq!(texts(&view).last().map(String::as_str), Some("this"));
        let branches = ListFilter {
            parent: Some(name("trip-5")),
            kind: Some(SessionKind::Branch),
            archived: Archived::Any,
            limit: 10,
            ..ListFilter::default()
        };
        assert_eq!(world.one.conversations(&world.scope, branches).await.unwrap().rows.len(), 1);
        world.one.index_all().await.unwrap();
        let said = texts(&world.read("trip-7").await.unwrap());
        let wanted = said.iter().flat_map(|text| text.split(' ')).max_by_key(|word| word.len()).unwrap();
        let search = Search {
            wanted: Wanted::parse(wanted).unwrap(),
            filter: Default::default(),
            grouping: Default::default(),
            after: None,
            limit: 20,
            now: world.now(),
        };
        let found = world.one.search(&world.scope, search).await.unwrap();
        let id = world.row("trip-7").await.unwrap().facts.id;
        assert!(found.hits.iter().any(|hit| hit.conversation == id), "{wanted}");
        world.holds_together().await;
    }
}
