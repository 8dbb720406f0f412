//! `herma sessions import`: restores conversations from JSON Lines that `export` wrote, under the same ids.
//!
//! A conversation is read completely and restored in one transaction, so no partial conversation is stored. If a file
//! is damaged, the conversations before the damage are restored. [`report`] has the report.

mod report;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use herma_config::{Config, Overrides};
use herma_gateway::now;
use herma_model::{ConversationId, TenantId};
use herma_store::{Restoration, RestoreIntent, RestoreOutcome, Store};
use herma_wire::export::{Damage, Reader, Whole};

use self::report::Report;
use super::local_store;
use crate::arguments::{Common, ImportFlags};
use crate::progress::Progress;
use crate::{logging, setup};

/// Imports a file.
pub(super) fn run(common: Common, flags: &ImportFlags) -> anyhow::Result<ExitCode> {
    let config = setup::load(common, Overrides::default())?.config;
    logging::of_command(&config.telemetry)?;
    setup::on_this_thread(import(&config, flags))
}

async fn import(config: &Config, flags: &ImportFlags) -> anyhow::Result<ExitCode> {
    let mut lines = ImportLines::open(&flags.file)?;
    // Check the header before a store is made.
    lines.header()?;
    // A dry run makes no store. Without a store, nothing can conflict with the import.
    let store = if flags.dry_run { setup::open_existing_store(config)? } else { Some(setup::open_store(config)?) };
    let target = match &store {
        Some(store) => Some((store, local_store::tenant(&**store, &flags.tenant).await?)),
        None => None,
    };
    let mut importer = Importer { target, dry_run: flags.dry_run, would_be_made: HashSet::new() };
    let mut report = Report::new(flags.file.display().to_string(), flags.dry_run);
    let done = importer.import(&mut lines, &mut report).await;
    if let Some(store) = &store {
        store.close().await;
    }
    done?;
    report.print(flags.json)?;
    Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The lines of a file, read one at a time.
struct ImportLines {
    input: Box<dyn BufRead>,
    name: String,
    reader: Reader,
    line: Vec<u8>,
}

/// What was read from a line.
enum LineContent {
    Nothing,
    Whole(Box<Whole>),
    End,
}

impl ImportLines {
    fn open(file: &Path) -> anyhow::Result<Self> {
        let (input, name): (Box<dyn BufRead>, _) = if file == Path::new("-") {
            (Box::new(BufReader::new(io::stdin())), "standard input".to_owned())
        } else {
            let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
            (Box::new(BufReader::new(opened)), file.display().to_string())
        };
        Ok(Self { input, name, reader: Reader::default(), line: Vec::new() })
    }

    fn header(&mut self) -> anyhow::Result<()> {
        let read = self.next()?;
        read.map(drop).with_context(|| format!("cannot read {}", self.name)).context("nothing was imported")
    }

    /// Reads the next line. The outer error is a failed read, the inner one a damaged file.
    fn next(&mut self) -> anyhow::Result<Result<LineContent, Damage>> {
        self.line.clear();
        let read = self.input.read_until(b'\n', &mut self.line);
        if read.with_context(|| format!("cannot read {}", self.name))? == 0 {
            return Ok(self.reader.end().map(|()| LineContent::End));
        }
        // Bytes that are not UTF-8 are no valid JSON either, so the reader refuses the line.
        let text = String::from_utf8_lossy(&self.line);
        let whole = self.reader.line(text.trim_end_matches(['\n', '\r']));
        Ok(whole.map(|whole| whole.map_or(LineContent::Nothing, |whole| LineContent::Whole(Box::new(whole)))))
    }
}

struct Importer<'a> {
    /// The store and the tenant in it. `None` in a dry run without a store.
    target: Option<(&'a Arc<dyn Store>, TenantId)>,
    dry_run: bool,
    /// In a dry run, the conversations that branches would find.
    would_be_made: HashSet<ConversationId>,
}

impl Importer<'_> {
    async fn import(&mut self, lines: &mut ImportLines, report: &mut Report) -> anyhow::Result<()> {
        let mut progress = Progress::new("conversations", None);
        loop {
            match lines.next()? {
                Ok(LineContent::Nothing) => {}
                Ok(LineContent::End) => break,
                Ok(LineContent::Whole(whole)) => {
                    let (id, line) = (whole.conversation.what.id, whole.line);
                    let said =
                        whole.conversation.messages.iter().filter(|message| message.compaction_id.is_none()).count();
                    let outcome = self.restore(*whole).await?;
                    report.count(id, line, said as u64, outcome);
                    progress.advance(1);
                }
                Err(damage) => {
                    report.damaged(&damage);
                    break;
                }
            }
        }
        progress.end();
        Ok(())
    }

    async fn restore(&mut self, whole: Whole) -> anyhow::Result<RestoreOutcome> {
        let Whole { inherited, conversation, .. } = whole;
        let id = conversation.what.id;
        let Some((store, tenant)) = self.target else { return Ok(RestoreOutcome::Made) };
        let intent = if self.dry_run { RestoreIntent::Rehearse } else { RestoreIntent::Restore };
        let outcome = store.restore(Restoration { tenant, inherited, conversation, intent, now: now() }).await?;
        let outcome = match outcome {
            RestoreOutcome::NoSource(source) if self.would_be_made.contains(&source) => RestoreOutcome::Made,
            outcome => outcome,
        };
        if self.dry_run && outcome == RestoreOutcome::Made {
            self.would_be_made.insert(id);
        }
        Ok(outcome)
    }
}
