//! Compactions as the editor is told of them.
//!
//! Each has one beginning and one end. An editor that does not show compactions is told only what they changed: the
//! provenance and the usage.

use herma_model::{CompactionId, Summary};
use herma_turn::words::summary_text;
use herma_wire::chat::shown_text;

use crate::agent::Agent;
use crate::content::text_block;
use crate::known::Shown;
use crate::schema::{CompactionStatus, CompactionUpdate, Cost, Meta, SessionInfoUpdate, SessionUpdate, UsageUpdate};
use crate::session::OpenSession;

/// How many rows of the ledger are looked at for a compaction that was just made.
const NEWEST: usize = 8;

/// How a compaction ended that changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmade {
    /// There was no summary.
    Failed,
    /// The prompt was cancelled.
    Cancelled,
}

/// A compaction of a session, from its beginning to its end.
pub(crate) struct CompactionTeller<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) session: &'a OpenSession,
    /// The model whose window counts.
    pub(crate) model: Option<&'a str>,
    /// The compaction that has begun and not ended.
    pub(crate) begun: Option<CompactionId>,
}

impl CompactionTeller<'_> {
    /// A summary is asked for.
    pub(crate) async fn begun(&mut self, id: CompactionId) {
        self.unmade(Unmade::Failed).await;
        if self.session.known.told.lock().await.shown(id).is_some() {
            return;
        }
        self.begun = Some(id);
        self.tell(update(id, CompactionStatus::InProgress)).await;
    }

    /// The conversation was compacted. Tells the new provenance and the usage, unless the editor was told already.
    pub(crate) async fn made(&mut self, id: CompactionId, provenance: Meta) {
        let mut told = self.session.known.told.lock().await;
        let shown = told.shown(id);
        if shown == Some(Shown::Live) {
            return;
        }
        told.show(id, Shown::Live);
        told.is_new_provenance(&provenance);
        if shown.is_none() && self.begun.take_if(|begun| *begun == id).is_none() {
            self.unmade(Unmade::Failed).await;
            self.tell(update(id, CompactionStatus::InProgress)).await;
        }
        if shown.is_none() && self.agent.editor.shows_compactions() {
            let summary = self.summary(id).await;
            self.tell(completed(id, summary.as_deref())).await;
        }
        let info = SessionInfoUpdate::new().meta(provenance);
        self.agent.editor.update(&self.session.id, SessionUpdate::SessionInfoUpdate(info)).await;
        self.usage().await;
    }

    /// The compaction that has begun came to nothing, if there is one.
    pub(crate) async fn unmade(&mut self, how: Unmade) {
        let Some(id) = self.begun.take() else { return };
        self.tell(match how {
            Unmade::Failed => {
                update(id, CompactionStatus::Failed).error("the conversation could not be summarised".to_owned())
            }
            Unmade::Cancelled => update(id, CompactionStatus::Cancelled),
        })
        .await;
    }

    /// Tells how full the context is, if the size of the window is known.
    pub(crate) async fn usage(&self) {
        let Agent { gateway, principal, editor, .. } = self.agent;
        let Ok(size) = gateway.context_size(principal, &self.session.alias, self.model).await else { return };
        if let Some(window) = size.window {
            let usage = UsageUpdate::new(size.used, window).cost(self.cost().await);
            editor.update(&self.session.id, SessionUpdate::UsageUpdate(usage)).await;
        }
    }

    /// What the session has cost, if the currency of the prices is set.
    async fn cost(&self) -> Option<Cost> {
        let currency = self.agent.gateway.settings().currency.clone()?;
        let cost = self.agent.find(&self.session.id).await.ok()?.cost?;
        Some(Cost::new(cost.units(), currency))
    }

    async fn tell(&self, update: CompactionUpdate) {
        if self.agent.editor.shows_compactions() {
            self.agent.editor.update(&self.session.id, SessionUpdate::CompactionUpdate(update)).await;
        }
    }

    /// The text of the summary.
    async fn summary(&self, id: CompactionId) -> Option<String> {
        let ledger = self.agent.sessions().compactions(&self.session.alias, None, NEWEST).await.ok()?;
        let row = ledger.rows.into_iter().find(|row| row.id == id)?;
        shown_text(&row.summary?.said)
    }
}

fn update(id: CompactionId, status: CompactionStatus) -> CompactionUpdate {
    CompactionUpdate::new(id.to_string(), status)
}

fn completed(id: CompactionId, summary: Option<&str>) -> CompactionUpdate {
    let done = update(id, CompactionStatus::Completed);
    match summary {
        Some(text) => done.summary(vec![text_block(summary_text(text))]),
        None => done,
    }
}

/// A compaction of a stored conversation, as one entity in its final state.
pub(crate) fn stored(summary: &Summary) -> SessionUpdate {
    SessionUpdate::CompactionUpdate(completed(summary.compaction, shown_text(&summary.said).as_deref()))
}
