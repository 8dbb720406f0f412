//! A database file for one test, and the invariants of its tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use herma_store::contract::{Engine, World};
use herma_store_sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;

/// A database file in a temporary directory. Dropping this removes the directory.
pub(crate) struct Database {
    directory: TempDir,
}

impl Database {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("herma.db")
    }

    /// The sorted names of the files in the directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) async fn world(&self) -> World<SqliteStore> {
        World::new(self).await
    }
}

impl Engine for Database {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Existing(self.path()).open().await
    }
}

/// A database file that the test of another process owns.
pub(crate) struct Existing(pub(crate) PathBuf);

impl Engine for Existing {
    type Store = SqliteStore;

    async fn open(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(&self.0).unwrap())
    }
}

/// The number that a query yields.
pub(crate) fn number(path: &Path, sql: &str) -> i64 {
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Waits until the number that a query yields is zero, because a thread of the store works on it.
pub(crate) async fn until_zero(path: &Path, sql: &str) {
    let began = Instant::now();
    while number(path, sql) > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "still not zero: {sql}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The parts of each conversation's transcript: the conversation itself, and for a branch its sources up to a place.
const LINEAGE: &str = "CREATE TEMP VIEW lineage AS WITH RECURSIVE parts (whole, part, through) AS (
    SELECT pk, pk, 9223372036854775807 FROM conversations
    UNION ALL SELECT p.whole, b.conversation_pk, r.base_seq FROM parts p
    JOIN conversations c ON c.pk = p.part JOIN sessions r ON r.pk = c.root_pk
    JOIN sessions b ON b.pk = r.base_session_pk) SELECT whole, part, through FROM parts";

/// Invariants of the tables. Each query counts the rows that violate one, so it must return zero.
const INVARIANTS: &[(&str, &str)] = &[
    (
        "waiting turns are counted",
        "SELECT count(*) FROM conversations c
         WHERE waiting <> (SELECT count(*) FROM turns t WHERE t.conversation_pk = c.pk AND t.state = 'queued')",
    ),
    (
        "running_turn names the turn that runs",
        "SELECT count(*) FROM conversations c
         WHERE running_turn IS NOT (SELECT pk FROM turns t WHERE t.conversation_pk = c.pk AND t.state = 'running')",
    ),
    (
        "a turn that is not written out is the only one of its conversation that runs, and its number is unused",
        "SELECT count(*) FROM live_admissions a JOIN conversations c ON c.pk = a.conversation_pk
         WHERE c.running_turn IS NOT NULL OR c.fence + 1 <> a.fence OR c.deleted
           OR a.turn_pk IN (SELECT pk FROM turns)",
    ),
    (
        "an admission that was left behind is one of a turn that was written",
        "SELECT count(*) FROM admissions WHERE turn_pk NOT IN (SELECT pk FROM turns)
           AND turn_pk NOT IN (SELECT turn_pk FROM live_admissions)",
    ),
    (
        "at most one turn of a conversation runs",
        "SELECT count(*) FROM (SELECT 1 FROM turns WHERE state = 'running'
         GROUP BY conversation_pk HAVING count(*) > 1)",
    ),
    (
        "turns have a conversation",
        "SELECT count(*) FROM turns WHERE conversation_pk NOT IN (SELECT pk FROM conversations)",
    ),
    (
        "messages have a turn, or are summaries",
        "SELECT count(*) FROM messages WHERE (compaction_pk IS NULL AND turn_pk NOT IN (SELECT pk FROM turns))
         OR (compaction_pk IS NOT NULL AND (turn_pk, attempt, role) <> (0, 0, 'user'))",
    ),
    (
        "only running turns have a journal",
        "SELECT count(*) FROM turn_journal WHERE turn_pk NOT IN (SELECT pk FROM turns WHERE state = 'running')",
    ),
    (
        "parked turns run and belong to no process",
        "SELECT (SELECT count(*) FROM parked_turns WHERE turn_pk NOT IN (SELECT pk FROM turns WHERE state = 'running'
         AND owner = 0)) + (SELECT count(*) FROM turns WHERE (state = 'running' OR state = 'queued') AND owner = 0
         AND pk NOT IN (SELECT turn_pk FROM parked_turns))",
    ),
    (
        "only running turns have questions, and only parked ones have open questions",
        "SELECT (SELECT count(*) FROM approvals WHERE turn_pk NOT IN (SELECT pk FROM turns WHERE state = 'running'))
         + (SELECT count(*) FROM approvals WHERE choice IS NULL AND turn_pk NOT IN (SELECT turn_pk FROM parked_turns))",
    ),
    (
        "grants belong to conversations of their tenant that are not deleted",
        "SELECT count(*) FROM grants WHERE conversation_pk IS NOT NULL AND (conversation_pk, tenant_pk) NOT IN
         (SELECT pk, tenant_pk FROM conversations WHERE deleted = 0)",
    ),
    (
        "heads are sessions of their conversation",
        "SELECT count(*) FROM conversations c LEFT JOIN sessions s ON s.pk = c.head_pk AND s.conversation_pk = c.pk
         WHERE s.pk IS NULL",
    ),
    (
        "names lead to sessions of their conversation",
        "SELECT count(*) FROM aliases a LEFT JOIN sessions s ON s.pk = a.session_pk
         AND s.conversation_pk = a.conversation_pk WHERE a.session_pk IS NOT NULL AND s.pk IS NULL",
    ),
    (
        "next_seq follows the last place",
        "SELECT count(*) FROM conversations c WHERE deleted = 0
         AND next_seq <> 1 + max((SELECT coalesce(max(m.seq), 0) FROM lineage l
         JOIN sessions s ON s.conversation_pk = l.part JOIN messages m ON m.session_pk = s.pk AND m.seq <= l.through
         WHERE l.whole = c.pk),
         (SELECT coalesce(max(t.last_seq), 0) FROM turns t WHERE t.conversation_pk = c.pk),
         (SELECT coalesce(r.base_seq, 0) FROM sessions r WHERE r.pk = c.root_pk))",
    ),
    (
        "messages are counted",
        "SELECT count(*) FROM conversations c WHERE deleted = 0 AND message_count <> (SELECT count(*) FROM lineage l
         JOIN sessions s ON s.conversation_pk = l.part JOIN messages m ON m.session_pk = s.pk AND m.seq <= l.through
         AND m.compaction_pk IS NULL WHERE l.whole = c.pk)",
    ),
    (
        "a conversation is answered if a turn of its own has an answer, or one that it inherits and that left messages",
        "SELECT count(*) FROM conversations c WHERE deleted = 0 AND answered <> EXISTS (SELECT 1 FROM lineage l
         JOIN turns t ON t.conversation_pk = l.part AND t.state = 'completed'
         AND t.answer_seq <= min(t.last_seq, l.through) WHERE l.whole = c.pk AND (l.part = c.pk OR EXISTS (SELECT 1
         FROM sessions s JOIN messages m ON m.session_pk = s.pk AND m.seq <= l.through
         WHERE s.conversation_pk = l.part AND m.turn_pk = t.pk)))",
    ),
    (
        "only the head has not ended",
        "SELECT count(*) FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk AND c.deleted = 0
         WHERE (s.ended_at IS NULL) <> (s.pk = c.head_pk)",
    ),
    (
        "sessions are a chain",
        "SELECT count(*) FROM sessions s WHERE kind = 'continuation' AND NOT EXISTS (SELECT 1 FROM sessions p
         WHERE p.pk = s.base_session_pk AND p.conversation_pk = s.conversation_pk AND p.pk < s.pk
         AND p.id = s.parent_id AND p.depth + 1 = s.depth AND p.end_reason = 'compression')",
    ),
    (
        "branches begin where an answer ended, in an older session",
        "SELECT count(*) FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk
         WHERE (s.kind = 'branch') <> (s.pk = c.root_pk AND c.origin_kind = 'branch') OR (s.kind = 'branch'
         AND NOT EXISTS (SELECT 1 FROM sessions p JOIN conversations o ON o.pk = p.conversation_pk
         JOIN sessions r ON r.pk = o.root_pk WHERE p.pk = s.base_session_pk AND p.pk < s.pk
         AND p.tenant_pk = s.tenant_pk AND s.parent_relation = 'branch' AND (s.base_seq = coalesce(r.base_seq, 0)
         OR EXISTS (SELECT 1 FROM turns t WHERE t.session_pk = p.pk AND t.state = 'completed'
         AND t.last_seq = s.base_seq) OR EXISTS (SELECT 1 FROM messages m LEFT JOIN turns t ON t.pk = m.turn_pk
         WHERE m.session_pk = p.pk AND m.seq = s.base_seq AND (m.compaction_pk IS NOT NULL
         OR t.state = 'completed')))))",
    ),
    (
        "parent_pk names a parent that exists and agrees with parent_id",
        "SELECT count(*) FROM sessions s LEFT JOIN sessions p ON p.pk = s.parent_pk
         LEFT JOIN conversations c ON c.pk = p.conversation_pk WHERE s.parent_pk IS NOT NULL AND (p.pk IS NULL
         OR p.id <> s.parent_id OR c.deleted = 1)",
    ),
    (
        "a missing parent has an id but no row",
        "SELECT count(*) FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk
         WHERE s.missing_parent IS NOT NULL AND (s.parent_pk IS NOT NULL OR s.parent_id IS NULL OR c.deleted = 1)",
    ),
    (
        "no session is its own ancestor",
        "WITH RECURSIVE below (pk) AS (SELECT pk FROM sessions WHERE parent_pk IS NULL
         UNION ALL SELECT s.pk FROM below b JOIN sessions s ON s.parent_pk = b.pk)
         SELECT (SELECT count(*) FROM sessions) - count(*) FROM below",
    ),
    (
        "the parent of a conversation is that of its first session",
        "SELECT count(*) FROM conversations c WHERE parent_pk IS NOT (SELECT p.conversation_pk FROM sessions r
         JOIN sessions p ON p.pk = r.parent_pk WHERE r.pk = c.root_pk AND p.conversation_pk <> c.pk)",
    ),
    (
        "messages of a branch follow the inherited messages",
        "SELECT count(*) FROM sessions r JOIN sessions s ON s.conversation_pk = r.conversation_pk
         JOIN messages m ON m.session_pk = s.pk WHERE r.kind = 'branch' AND m.seq <= r.base_seq",
    ),
    (
        "a session has at most one continuation",
        "SELECT count(*) FROM (SELECT 1 FROM sessions GROUP BY conversation_pk, depth HAVING count(*) > 1)",
    ),
    (
        "every session has its id as an alias",
        "SELECT count(*) FROM sessions s JOIN conversations c ON c.pk = s.conversation_pk AND c.deleted = 0
         WHERE NOT EXISTS (SELECT 1 FROM aliases a WHERE a.tenant_pk = s.tenant_pk AND a.namespace = 'session'
         AND a.alias = s.id AND a.session_pk = s.pk)",
    ),
    (
        "the base of a session is a compaction of its lineage, and that of a head is applied if it is its own",
        "SELECT count(*) FROM sessions s LEFT JOIN compactions k ON k.pk = s.base_compaction_pk
         AND k.action = 'compact' AND k.outcome <> 'failed' LEFT JOIN lineage l ON l.whole = s.conversation_pk
         AND l.part = k.conversation_pk WHERE s.base_compaction_pk IS NOT NULL AND (l.part IS NULL
         OR (k.outcome <> 'applied' AND s.ended_at IS NULL AND k.conversation_pk = s.conversation_pk) OR (SELECT m.seq
         FROM messages m WHERE m.pk = k.summary_pk) > l.through)",
    ),
    (
        "a compaction has an earlier one as its base, and reaches further",
        "SELECT count(*) FROM compactions k LEFT JOIN compactions b ON b.pk = k.base_pk AND b.summary_pk IS NOT NULL
         AND b.pk < k.pk AND EXISTS (SELECT 1 FROM lineage l WHERE l.whole = k.conversation_pk
         AND l.part = b.conversation_pk) WHERE k.summary_pk IS NOT NULL AND k.base_pk IS NOT NULL AND (b.pk IS NULL
         OR b.through_seq > k.through_seq OR k.first_seq <> b.through_seq + 1)",
    ),
    (
        "the applied compactions are the base of the head and the bases below it",
        "WITH RECURSIVE below (head, pk) AS (SELECT c.pk, s.base_compaction_pk FROM conversations c
         JOIN sessions s ON s.pk = c.head_pk UNION SELECT below.head, k.base_pk FROM below
         JOIN compactions k ON k.pk = below.pk)
         SELECT count(*) FROM compactions k
         JOIN conversations c ON c.pk = k.conversation_pk AND c.deleted = 0 WHERE action = 'compact'
         AND (outcome = 'applied') <> EXISTS (SELECT 1 FROM below WHERE below.head = k.conversation_pk
         AND below.pk = k.pk)",
    ),
    (
        "a summary and its compaction refer to each other",
        "SELECT (SELECT count(*) FROM messages m LEFT JOIN compactions k ON k.pk = m.compaction_pk
         AND k.summary_pk = m.pk WHERE m.compaction_pk IS NOT NULL AND k.pk IS NULL)
         + (SELECT count(*) FROM compactions k LEFT JOIN messages m ON m.pk = k.summary_pk AND m.compaction_pk = k.pk
         AND m.session_pk = k.session_after_pk WHERE (m.pk IS NULL) <> (k.action = 'undo' OR k.outcome = 'failed'))",
    ),
    (
        "an undo and the undone compaction refer to each other",
        "SELECT count(*) FROM compactions k JOIN conversations c ON c.pk = k.conversation_pk AND c.deleted = 0
         WHERE (k.outcome = 'undone') <> EXISTS (SELECT 1 FROM compactions u WHERE u.pk = k.undone_by_pk
         AND u.undoes_pk = k.pk AND u.action = 'undo')",
    ),
    (
        "messages after a summarised range are not before its tail session",
        "SELECT count(*) FROM compactions k JOIN lineage l ON l.whole = k.conversation_pk
         JOIN sessions s ON s.conversation_pk = l.part AND s.pk < k.tail_session_pk
         JOIN messages m ON m.session_pk = s.pk AND m.seq > k.through_seq AND m.seq <= l.through
         AND m.compaction_pk IS NULL",
    ),
    (
        "carried and pinned messages belong to the conversation",
        "SELECT count(*) FROM (SELECT k.conversation_pk, c.seq, c.message_pk FROM carried c
         JOIN compactions k ON k.pk = c.compaction_pk 
         UNION ALL SELECT conversation_pk, seq, message_pk FROM pins) kept
         WHERE NOT EXISTS (SELECT 1 FROM messages m JOIN sessions s ON s.pk = m.session_pk
         JOIN lineage l ON l.part = s.conversation_pk AND m.seq <= l.through WHERE m.pk = kept.message_pk
         AND m.seq = kept.seq AND m.compaction_pk IS NULL AND l.whole = kept.conversation_pk)",
    ),
    (
        "a deleted conversation keeps only what branches inherit",
        "SELECT count(*) FROM conversations c
         LEFT JOIN (SELECT s.conversation_pk, max(b.base_session_pk) AS session, max(b.base_seq) AS through
         FROM sessions b JOIN sessions s ON s.pk = b.base_session_pk WHERE b.kind = 'branch'
         GROUP BY s.conversation_pk) rest ON rest.conversation_pk = c.pk
         WHERE c.deleted = 1 AND (rest.through IS NULL OR c.head_pk <> rest.session
         OR EXISTS (SELECT 1 FROM sessions s WHERE s.conversation_pk = c.pk AND s.pk > rest.session)
         OR EXISTS (SELECT 1 FROM sessions s JOIN messages m ON m.session_pk = s.pk
            WHERE s.conversation_pk = c.pk AND m.seq > rest.through)
         OR EXISTS (SELECT 1 FROM turns t WHERE t.conversation_pk = c.pk
            AND (t.first_seq IS NULL OR t.first_seq > rest.through))
         OR EXISTS (SELECT 1 FROM compactions k LEFT JOIN messages m ON m.pk = k.summary_pk
            WHERE k.conversation_pk = c.pk AND m.pk IS NULL))",
    ),
    (
        "nothing refers to a deleted conversation",
        "SELECT (SELECT count(*) FROM aliases JOIN conversations c ON c.pk = conversation_pk WHERE c.deleted = 1)
         + (SELECT count(*) FROM pins JOIN conversations c ON c.pk = conversation_pk WHERE c.deleted = 1)
         + (SELECT count(*) FROM turns t JOIN conversations c ON c.pk = t.conversation_pk WHERE c.deleted = 1
            AND (t.kept = 1 OR t.echo IS NOT NULL OR t.joinable = 1
            OR EXISTS (SELECT 1 FROM idempotency i WHERE i.turn_pk = t.pk)))",
    ),
    (
        "idempotency keys are bound to turns",
        "SELECT count(*) FROM idempotency WHERE turn_pk NOT IN (SELECT pk FROM turns)",
    ),
    (
        "first_seq of a turn is not after its messages",
        "SELECT count(*) FROM turns t JOIN messages m ON m.turn_pk = t.pk WHERE t.first_seq IS NULL
         OR m.seq < t.first_seq",
    ),
    (
        "the search index has all indexed rows and no deleted ones",
        "SELECT (SELECT count(*) FROM search_state WHERE through > (SELECT coalesce(max(pk), 0) FROM messages))
         + (SELECT count(*) FROM search_index_docsize WHERE id NOT IN (SELECT key FROM search_forget)
            AND (id > 0 AND id NOT IN (SELECT pk FROM messages WHERE compaction_pk IS NULL)
                OR id < 0 AND -id NOT IN (SELECT pk FROM conversations WHERE title IS NOT NULL AND title_is_excerpt = 0)
                OR id > (SELECT through FROM search_state) OR id IN (SELECT key FROM search_again)))
         + (SELECT count(*) FROM search_forget WHERE key NOT IN (SELECT id FROM search_index_docsize))
         + (SELECT count(*) - count(DISTINCT key) FROM search_forget)
         + (SELECT count(*) FROM messages WHERE compaction_pk IS NULL AND pk <= (SELECT through FROM search_state)
            AND pk NOT IN (SELECT id FROM search_index_docsize UNION ALL SELECT key FROM search_again))
         + (SELECT count(*) FROM conversations WHERE title IS NOT NULL AND title_is_excerpt = 0
            AND -pk NOT IN (SELECT id FROM search_index_docsize UNION ALL SELECT key FROM search_again))",
    ),
    (
        "facts have their words, and deleted ones have none",
        "SELECT (SELECT count(*) FROM memories WHERE text GLOB '*[a-z]*'
            AND pk NOT IN (SELECT memory_pk FROM memory_words))
         + (SELECT count(*) FROM memory_words WHERE memory_pk NOT IN (SELECT pk FROM memories))
         + (SELECT count(*) FROM memories WHERE conversation_pk IS NOT NULL
            AND conversation_pk NOT IN (SELECT pk FROM conversations WHERE deleted = 0))",
    ),
    (
        "a recall belongs to a turn",
        "SELECT count(*) FROM recalls r LEFT JOIN turns t ON t.pk = r.turn_pk
         WHERE t.pk IS NULL OR t.conversation_pk <> r.conversation_pk",
    ),
    (
        "an event has a conversation that exists, unless it tells of a deletion",
        "SELECT count(*) FROM events e LEFT JOIN conversations c ON c.pk = e.conversation_pk AND c.deleted = 0
         WHERE (e.kind = 'session.deleted') <> (c.pk IS NULL)
         OR (e.kind = 'session.deleted') <> (e.conversation_pk IS NULL) OR c.tenant_pk <> e.tenant_pk",
    ),
    (
        "events are numbered after the forgotten ones, and only the last are kept",
        "SELECT count(*) FROM events e JOIN tenants t ON t.pk = e.tenant_pk
         WHERE e.number <= t.events_forgotten
           OR e.number <= (SELECT max(n.number) FROM events n WHERE n.tenant_pk = t.pk) - 10000",
    ),
    (
        "a provisional conversation has a turn",
        "SELECT count(*) FROM conversations c WHERE provisional = 1 AND NOT EXISTS (SELECT 1 FROM turns t
         WHERE t.conversation_pk = c.pk)",
    ),
];

/// Checks the integrity of a file and the invariants of its tables.
pub(crate) fn check_file(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let whole: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    let dangling = connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
    assert!(!dangling, "a foreign key has no row");
    connection.execute_batch(LINEAGE).unwrap();
    for (invariant, sql) in INVARIANTS {
        let violations: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(violations, 0, "{invariant}");
    }
}
