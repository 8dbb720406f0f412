//! The floor's storage: one thread writes, and commits all queued messages together, with `synchronous=FULL` and WAL.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

/// The most jobs in one commit.
const BATCH: usize = 256;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, turn_began_at INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS messages (
        session TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;";

/// A handle to the writer thread.
#[derive(Debug, Clone)]
pub(super) struct Journal(Sender<Job>);

#[derive(Debug)]
struct Job {
    session: String,
    first: u32,
    messages: Vec<Box<str>>,
    committed: oneshot::Sender<()>,
}

impl Journal {
    /// Opens the database and starts its writer.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let mut database = Connection::open(directory.join("floor.db")).map_err(io::Error::other)?;
        database.execute_batch(SCHEMA).map_err(io::Error::other)?;
        #[cfg(feature = "counts")]
        herma_store_sqlite::counts::watch(&mut database).map_err(io::Error::other)?;
        let (sender, jobs) = channel();
        std::thread::spawn(move || {
            if let Err(error) = write(&mut database, &jobs) {
                eprintln!("floor: {error}");
            }
        });
        Ok(Self(sender))
    }

    /// Appends messages to a session; returns when they are on disk.
    pub(super) async fn append(&self, session: &str, first: usize, messages: Vec<Box<str>>) -> io::Result<()> {
        let (committed, done) = oneshot::channel();
        let first = u32::try_from(first).map_err(io::Error::other)?;
        let job = Job { session: session.to_owned(), first, messages, committed };
        self.0.send(job).map_err(|_| io::Error::other("the writer is gone"))?;
        done.await.map_err(io::Error::other)
    }
}

fn write(database: &mut Connection, jobs: &Receiver<Job>) -> rusqlite::Result<()> {
    while let Ok(first) = jobs.recv() {
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut written = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            insert(&transaction, &job)?;
            written.push(job.committed);
            next = if written.len() < BATCH { jobs.try_recv().ok() } else { None };
        }
        transaction.commit()?;
        for committed in written {
            let _client_gone = committed.send(());
        }
    }
    Ok(())
}

fn insert(database: &Connection, job: &Job) -> rusqlite::Result<()> {
    let upsert = "INSERT INTO sessions VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET turn_began_at = ?2";
    database.prepare_cached(upsert)?.execute((&job.session, job.first))?;
    let mut insert = database.prepare_cached("INSERT INTO messages VALUES (?1, ?2, ?3)")?;
    for (seq, message) in (job.first..).zip(&job.messages) {
        insert.execute((&job.session, seq, message))?;
    }
    Ok(())
}
