//! The large store. If its directory is given, a run reuses it as long as it has the expected size and schema.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use herma_store::Store as _;
use herma_store_sqlite::SqliteStore;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::landmarks::Landmarks;
use super::{copies, original};
use crate::bench::options::Options;
use crate::bench::testbed::{Testbed, database_bytes};

/// The version of the generated content. Raise it when the same size would give other content.
const FORM: u32 = 4;
/// The file beside the database that describes the store.
const ABOUT: &str = "about.json";
/// With this context window, nothing is compacted automatically while the store is made.
const WINDOW: [(&str, &str); 1] = [("HERMA_CONTEXT_WINDOW", "16000")];

/// The large store.
pub(super) struct LargeStore {
    pub(super) directory: PathBuf,
    pub(super) description: StoreDescription,
}

/// What the store contains, and what it cost to make.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoreDescription {
    form: u32,
    schema: i32,
    /// Conversations, without the landmarks.
    pub(super) conversations: u64,
    /// Messages in these conversations.
    pub(super) messages: u64,
    /// Bytes of the messages' texts.
    pub(super) text: u64,
    /// Bytes of the database before the search index was built, and after.
    pub(super) bytes: [u64; 2],
    /// Seconds for writing the rows, and for building the index.
    pub(super) seconds: [f64; 2],
    pub(super) landmarks: Landmarks,
}

impl LargeStore {
    /// Opens the existing store if it fits, or makes a new one.
    pub(super) async fn prepare(testbed: &Testbed, options: &Options) -> io::Result<Self> {
        let directory = options.scale_data().map_or_else(|| testbed.directory("scale"), Path::to_owned);
        let times = options.scale().div_ceil(original::CONVERSATIONS as u64);
        let description = match StoreDescription::read(&directory, times) {
            Some(description) => description,
            None => make(testbed, &directory, times).await?,
        };
        Ok(Self { directory, description })
    }

    /// Opens the database directly, beside the server.
    pub(super) fn database(&self) -> io::Result<Connection> {
        Connection::open(self.directory.join("herma.db")).map_err(io::Error::other)
    }
}

impl StoreDescription {
    fn read(directory: &Path, times: u64) -> Option<Self> {
        let description: Self = serde_json::from_slice(&std::fs::read(directory.join(ABOUT)).ok()?).ok()?;
        let is_same = description.form == FORM
            && description.schema == SqliteStore::schema_version()
            && description.conversations == times * original::CONVERSATIONS as u64;
        is_same.then_some(description)
    }
}

async fn make(testbed: &Testbed, directory: &Path, times: u64) -> io::Result<StoreDescription> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join("herma.db");
    for old in [ABOUT, "herma.db", "herma.db-wal", "herma.db-shm"].map(|name| directory.join(name)) {
        if old.exists() {
            std::fs::remove_file(old)?;
        }
    }
    original::make(&testbed.launch_herma_on(directory, &WINDOW)?).await?;
    original::set_sources(&path)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_millis();
    let began = Instant::now();
    let made = copies::multiply(&path, times, i64::try_from(now).map_err(io::Error::other)?)?;
    let rows = began.elapsed().as_secs_f64();
    let landmarks = Landmarks::make(&testbed.launch_herma_on(directory, &WINDOW)?).await?;
    let before = database_bytes(directory)?;
    let began = Instant::now();
    let store = SqliteStore::open(&path).map_err(io::Error::other)?;
    store.index_all().await.map_err(io::Error::other)?;
    store.close().await;
    let index = began.elapsed().as_secs_f64();
    let description = StoreDescription {
        form: FORM,
        schema: SqliteStore::schema_version(),
        conversations: times * original::CONVERSATIONS as u64,
        messages: made.messages + original::MESSAGES as u64,
        text: made.text,
        bytes: [before, database_bytes(directory)?],
        seconds: [rows, index],
        landmarks,
    };
    std::fs::write(directory.join(ABOUT), serde_json::to_vec_pretty(&description)?)?;
    Ok(description)
}
