//! `herma import hermes`: imports the conversations of a Hermes database.
//!
//! - [`families`]: which sessions form one conversation, and its kind.
//! - [`message`], [`transcript`], [`conversation`]: its messages in Herma's form.
//! - [`names`]: additional names that lead to it.
//! - [`report`]: the report of the import.
//!
//! A conversation is read from one snapshot and written as a whole. One transaction writes several conversations. So an
//! interrupted import leaves no partial conversation, and the next run imports the rest.

mod conversation;
mod families;
mod message;
mod names;
mod report;
mod transcript;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use herma_config::{Config, Overrides};
use herma_gateway::now;
use herma_model::TenantId;
use herma_store::{Import, ImportOutcome, ImportedConversation, ImportedEntry, Store, StoreError};
use herma_store_sqlite::hermes::HermesFile;
use tokio::task::JoinHandle;

use self::families::Family;
use self::names::Names;
use self::report::{Problem, Report};
use crate::arguments::{Common, HermesFlags};
use crate::progress::Progress;
use crate::sessions::local_store;
use crate::{logging, output, setup};

/// How much one transaction writes.
const BATCH_MESSAGES: u64 = 2_000;
const BATCH_CONVERSATIONS: usize = 200;

/// Imports a database.
pub(crate) fn run(common: Common, flags: &HermesFlags) -> anyhow::Result<ExitCode> {
    let loaded = setup::load(common, Overrides::default())?;
    logging::of_command(&loaded.config.telemetry)?;
    output::notices(&loaded.notices);
    setup::on_this_thread(import(&loaded.config, flags))
}

async fn import(config: &Config, flags: &HermesFlags) -> anyhow::Result<ExitCode> {
    // Check the files before a store is made.
    let file = HermesFile::open(&flags.state).context("nothing was imported")?;
    let (names, problems) = match Names::read(&flags.state, flags.responses.as_deref()) {
        // The user did not name this file, so a failure to read it does not stop the import.
        Err(error) if flags.responses.is_none() => (Names::default(), vec![Problem::other(error.to_string())]),
        read => read.context("nothing was imported")?,
    };
    let sessions = file.sessions()?;
    let families = families::group_sessions(&sessions, |session| {
        file.has_message_beginning(session, &message::SUMMARY_BEGINNINGS)
    })?;
    let total = file.message_count()?;
    output::note(&format!("reading {}: {} sessions, {total} messages", flags.state.display(), sessions.len()));
    let mut report = Report::new(flags.state.display().to_string(), file.schema(), sessions.len());
    report.add_problems(problems);
    let store = setup::open_store(config)?;
    let tenant = local_store::tenant(&*store, &flags.tenant).await?;
    let identity = identity(&flags.state)?;
    let importer = HermesImporter { file: &file, store: Arc::clone(&store), tenant, identity, total };
    let done = importer.import(&families, names, &mut report).await;
    store.close().await;
    done.with_context(|| format!("stopped after {} conversations; run it again to go on", report.conversations()))?;
    report.print(flags.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Identifies the database, so that another import of it is recognised.
fn identity(state: &Path) -> anyhow::Result<Arc<str>> {
    let path = std::fs::canonicalize(state).with_context(|| format!("cannot find {}", state.display()))?;
    Ok(Arc::from(format!("hermes:{}", path.display())))
}

struct HermesImporter<'a> {
    file: &'a HermesFile,
    store: Arc<dyn Store>,
    tenant: TenantId,
    identity: Arc<str>,
    total: u64,
}

impl HermesImporter<'_> {
    async fn import(&self, families: &[Family], mut names: Names, report: &mut Report) -> anyhow::Result<()> {
        let mut progress = Progress::new("messages", Some(self.total));
        let mut batch = Batch::default();
        let mut pending = None;
        for family in families {
            let ids: Vec<&str> = family.chain.iter().map(String::as_str).collect();
            let chain = self.file.transcripts(&ids)?;
            let rows = chain.iter().map(|(_, rows)| rows.len() as u64).sum();
            if let Some(mapped) = conversation::map(family, &chain, names.take(&family.chain)) {
                report.add_problems(mapped.problems);
                report.count_taken_back(mapped.taken_back);
                batch.add(mapped.conversation, rows);
            }
            if batch.is_full() {
                PendingBatch::end(pending.take(), report, &mut progress).await?;
                pending = Some(self.write(std::mem::take(&mut batch)).await);
            }
        }
        PendingBatch::end(pending, report, &mut progress).await?;
        if !batch.conversations.is_empty() {
            PendingBatch::end(Some(self.write(batch).await), report, &mut progress).await?;
        }
        progress.end();
        report.add_problems(names.left_over());
        Ok(())
    }

    /// Begins to write a batch. The store writes on its own thread, while the next batch is read here.
    async fn write(&self, batch: Batch) -> PendingBatch {
        let imported = batch.conversations.iter().map(imported).collect();
        let (store, conversations) = (Arc::clone(&self.store), batch.conversations);
        let import = Import { tenant: self.tenant, file: Arc::clone(&self.identity), conversations, now: now() };
        let done = tokio::spawn(async move { store.import(import).await });
        tokio::task::yield_now().await;
        PendingBatch { imported, rows: batch.rows, done }
    }
}

/// A batch that is being written.
struct PendingBatch {
    imported: Vec<(Arc<str>, u64)>,
    rows: u64,
    done: JoinHandle<Result<ImportOutcome, StoreError>>,
}

impl PendingBatch {
    /// Waits until the batch is written.
    async fn end(pending: Option<Self>, report: &mut Report, progress: &mut Progress) -> anyhow::Result<()> {
        let Some(Self { imported, rows, done }) = pending else { return Ok(()) };
        let outcome = done.await??;
        for ((first, messages), arrival) in imported.iter().zip(&outcome.arrivals) {
            report.count(first, *messages, arrival);
        }
        progress.advance(rows);
        Ok(())
    }
}

/// The first session of a conversation, and its number of messages.
fn imported(conversation: &ImportedConversation) -> (Arc<str>, u64) {
    let entries = conversation.sessions.iter().flat_map(|session| &session.entries);
    let said = entries.filter(|entry| matches!(entry, ImportedEntry::Said(_))).count();
    (conversation.sessions.first().map_or_else(|| Arc::from(""), |first| Arc::clone(&first.origin)), said as u64)
}

/// Conversations that one transaction writes.
#[derive(Default)]
struct Batch {
    conversations: Vec<ImportedConversation>,
    rows: u64,
}

impl Batch {
    fn add(&mut self, conversation: ImportedConversation, rows: u64) {
        self.conversations.push(conversation);
        self.rows += rows;
    }

    fn is_full(&self) -> bool {
        self.rows >= BATCH_MESSAGES || self.conversations.len() >= BATCH_CONVERSATIONS
    }
}
