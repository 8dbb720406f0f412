//! Reading conversations. All of it is cancel-safe.

use herma_model::alias::Namespace;
use herma_model::{Alias, Payload};
use herma_store::{
    ConversationRow, EventPage, EventsFrom, Extent, LedgerPage, LineageOutcome, LineagePage, LineageRange, ListFilter,
    MessagePage, MessageRange, Page, Pin, Search, SearchPage, Snapshot,
};
use herma_turn::build;
use herma_turn::words::put_before;

use super::Sessions;
use crate::compaction::transcript;
use crate::error::{GatewayError, InvalidRequest};
use crate::memory::newest_question;

impl Sessions<'_> {
    /// The conversation of a name, at its head or at exactly the session that has this name.
    pub async fn find(&self, alias: &Alias, pin: Pin) -> Result<ConversationRow, GatewayError> {
        self.store.conversation(&self.scope, alias, pin).await?.ok_or(GatewayError::unknown())
    }

    /// A page of conversations, or of their sessions.
    pub async fn list(&self, filter: ListFilter) -> Result<Page<ConversationRow>, GatewayError> {
        Ok(self.store.conversations(&self.scope, filter).await?)
    }

    /// A page of a conversation's messages.
    pub async fn messages(&self, alias: &Alias, range: MessageRange) -> Result<MessagePage, GatewayError> {
        self.store.messages(&self.scope, alias, range).await?.ok_or(GatewayError::unknown())
    }

    /// A conversation as the next turn would find it, or exactly the session that has this name as its last turn did.
    pub async fn snapshot(&self, alias: &Alias, pin: Pin) -> Result<Snapshot, GatewayError> {
        let extent = match pin {
            Pin::Head => Extent::View,
            Pin::Exact => Extent::Session,
        };
        let opened = self.store.open(&self.scope, alias, Namespace::Session, extent).await?;
        opened.ok_or(GatewayError::unknown())
    }

    /// What the model would be shown of a conversation, or was last shown of exactly the session that has this name.
    /// The last turn has what was recalled into it.
    pub async fn model_view(&self, alias: &Alias, pin: Pin) -> Result<Vec<Payload>, GatewayError> {
        let snapshot = self.snapshot(alias, pin).await?;
        let mut context = build(&snapshot.system, transcript(&snapshot), None);
        if let Some(block) = snapshot.recall.as_ref().and_then(|recall| recall.block.as_deref())
            && let Some(question) = newest_question(&snapshot)
        {
            put_before(&mut context, &question.said.payload, block);
        }
        Ok(context)
    }

    /// A page of the graph around a conversation: its ancestors, its sessions, its descendants.
    pub async fn lineage(&self, alias: &Alias, range: LineageRange) -> Result<LineagePage, GatewayError> {
        match self.store.lineage(&self.scope, alias, range).await? {
            LineageOutcome::Page(page) => Ok(page),
            LineageOutcome::NotFound => Err(GatewayError::unknown()),
            LineageOutcome::CursorGone => Err(GatewayError::Invalid(InvalidRequest::CursorGone)),
        }
    }

    /// A page of a conversation's compactions, newest first.
    pub async fn compactions(
        &self,
        alias: &Alias,
        before: Option<i64>,
        limit: usize,
    ) -> Result<LedgerPage, GatewayError> {
        self.store.compactions(&self.scope, alias, before, limit).await?.ok_or(GatewayError::unknown())
    }

    /// A page of messages and titles that contain some words, best match first.
    pub async fn search(&self, search: Search) -> Result<SearchPage, GatewayError> {
        Ok(self.store.search(&self.scope, search).await?)
    }

    /// A page of the events of conversations, of all processes.
    pub async fn events(&self, from: EventsFrom, limit: usize) -> Result<EventPage, GatewayError> {
        Ok(self.store.events(&self.scope, from, limit).await?)
    }
}
