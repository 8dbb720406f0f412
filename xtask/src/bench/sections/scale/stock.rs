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
use crate::bench::field::{Field, database_bytes};
use crate::bench::options::Options;

/// The version of the generated content. Raise it when the same size would give other content.
const FORM: u32 = 2;
/// The file beside the database that describes the store.
const ABOUT: &str = "about.json";
/// With this context window, nothing is compacted automatically while the store is made.
const WINDOW: [(&str, &str); 1] = [("HERMA_CONTEXT_WINDOW", "16000")];

/// The large store.
pub(super) struct Stock {
    pub(super) directory: PathBuf,
    pub(super) about: About,
}

/// What the store contains, and what it cost to make.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
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

impl Stock {
    /// Opens the existing store if it fits, or makes a new one.
    pub(super) async fn prepare(field: &Field, options: &Options) -> io::Result<Self> {
        let directory = options.scale_data().map_or_else(|| field.directory("scale"), Path::to_owned);
        let times = options.scale().div_ceil(original::CONVERSATIONS as u64);
        let about = match About::read(&directory, times) {
            Some(about) => about,
            None => make(field, &directory, times).await?,
        };
        Ok(Self { directory, about })
    }

    /// Opens the database directly, beside the server.
    pub(super) fn database(&self) -> io::Result<Connection> {
        Connection::open(self.directory.join("herma.db")).map_err(io::Error::other)
    }
}

impl About {
    fn read(directory: &Path, times: u64) -> Option<Self> {
        let about: Self = serde_json::from_slice(&std::fs::read(directory.join(ABOUT)).ok()?).ok()?;
        let is_same = about.form == FORM
            && about.schema == SqliteStore::schema_version()
            && about.conversations == times * original::CONVERSATIONS as u64;
        is_same.then_some(about)
    }
}

async fn make(field: &Field, directory: &Path, times: u64) -> io::Result<About> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join("herma.db");
    for old in [ABOUT, "herma.db", "herma.db-wal", "herma.db-shm"].map(|name| directory.join(name)) {
        if old.exists() {
            std::fs::remove_file(old)?;
        }
    }
    original::make(&field.launch_herma_on(directory, &WINDOW)?).await?;
    original::give_doors(&path)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_millis();
    let began = Instant::now();
    let made = copies::multiply(&path, times, i64::try_from(now).map_err(io::Error::other)?)?;
    let rows = began.elapsed().as_secs_f64();
    let landmarks = Landmarks::make(&field.launch_herma_on(directory, &WINDOW)?).await?;
    let before = database_bytes(directory)?;
    let began = Instant::now();
    let store = SqliteStore::open(&path).map_err(io::Error::other)?;
    store.index_all().await.map_err(io::Error::other)?;
    store.close().await;
    let index = began.elapsed().as_secs_f64();
    let about = About {
        form: FORM,
        schema: SqliteStore::schema_version(),
        conversations: times * original::CONVERSATIONS as u64,
        messages: made.messages + original::MESSAGES as u64,
        text: made.text,
        bytes: [before, database_bytes(directory)?],
        seconds: [rows, index],
        landmarks,
    };
    std::fs::write(directory.join(ABOUT), serde_json::to_vec_pretty(&about)?)?;
    Ok(about)
}
