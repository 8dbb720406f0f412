//! A stored conversation as updates, from its first message to its last.

use std::sync::Arc;

use herma_model::{Message, Role, Step};
use herma_store::{Entry, MessageRange, Order, Pin};

use crate::agent::Agent;
use crate::compactions;
use crate::content::{chunk, parts};
use crate::error::of_session;
use crate::known::Shown;
use crate::schema::{Error, SessionUpdate};
use crate::session::OpenSession;
use crate::speech::Speech;
use crate::tool_calls::ToolCalls;

/// How many messages are read at a time.
const PAGE: usize = 100;

impl Agent {
    /// Sends everything that was said in a conversation. Reads the next page when the editor has taken the last one.
    pub(crate) async fn replay(&self, session: &OpenSession) -> Result<(), Error> {
        let id = &session.id;
        let (mut after, mut calls) = (None, ToolCalls::new(session.cwd.clone(), Arc::default()));
        loop {
            let range = MessageRange { order: Order::OldestFirst { after }, limit: PAGE, pin: Pin::Head };
            let page = self.sessions().messages(&session.alias, range).await;
            let page = page.map_err(|error| of_session(id, &error))?;
            for entry in &page.entries {
                after = Some(entry.seq());
                self.editor.updates(id, self.told(entry, &mut calls)).await;
                if let Entry::Summary(summary) = entry {
                    session.known.told.lock().await.show(summary.compaction, Shown::Replayed);
                }
            }
            if !page.has_more {
                return Ok(());
            }
        }
    }

    fn told(&self, entry: &Entry, calls: &mut ToolCalls) -> Vec<SessionUpdate> {
        match entry {
            Entry::Said(message) => said(message, calls),
            Entry::Summary(summary) if self.editor.shows_compactions() => vec![compactions::stored(summary)],
            Entry::Summary(_) => Vec::new(),
        }
    }
}

fn said(message: &Arc<Message>, calls: &mut ToolCalls) -> Vec<SessionUpdate> {
    match message.said.role {
        Role::User => {
            let parts = parts(&message.said).into_iter();
            parts.map(|part| SessionUpdate::UserMessageChunk(chunk(&message.id, part))).collect()
        }
        Role::Assistant => {
            let mut updates = Speech::new(message.id).rest(&message.said);
            updates.extend(calls.step(&Step::Said(Arc::clone(message))));
            updates
        }
        Role::Tool => calls.step(&Step::ToolResult(Arc::clone(message))),
    }
}
