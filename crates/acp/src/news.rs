//! News of open sessions: what other processes did to them, from the event feed of the store.
//!
//! The feed is followed from the first open session on. A process that has nothing to tell only looks whether the
//! store has changed, as it does for other notices.

use std::sync::Arc;
use std::time::Duration;

use herma_gateway::GatewayError;
use herma_model::compaction::CompactionAction;
use herma_model::{CompactionId, ConversationId, EventId, EventKind};
use herma_store::{ConversationRow, Event, EventsFrom};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};

use crate::agent::Agent;
use crate::compactions::CompactionTeller;
use crate::error::of_gateway;
use crate::known::Changes;
use crate::provenance::provenance_of_event;
use crate::schema::{Error, Notice, NoticeSeverity, SessionId, SessionInfoUpdate, SessionUpdate};
use crate::session::OpenSession;
use crate::setup::described;

/// How many events are read at a time.
const PAGE: usize = 100;
/// How long the agent waits after the store has failed.
const AGAIN: Duration = Duration::from_secs(1);

/// The agent's place in the event feed.
#[derive(Default)]
pub(crate) struct News {
    /// What was read last. Held until what was read is told. `None` before the first session is opened.
    place: Mutex<Option<EventId>>,
    /// Sent when there may be something to tell, beside new events.
    wake: Notify,
}

impl News {
    /// Reads the feed again from this place, if it was read beyond it. A session that was opened at this place may have
    /// missed events that were read before it was there. What others were told already is not told again.
    pub(crate) async fn return_to(&self, opened_at: EventId) {
        let mut place = self.place.lock().await;
        *place = place.filter(|read| read.number <= opened_at.number).or(Some(opened_at));
    }

    /// Has the news told that waited for this moment.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }
}

/// The fields of an event's data that count here, beside the provenance.
#[derive(Deserialize)]
struct Subject {
    conversation_id: ConversationId,
    compaction_id: Option<CompactionId>,
    action: Option<CompactionAction>,
}

impl Agent {
    /// The newest event. All later ones will be told of sessions that are opened with this place.
    pub(crate) async fn newest_event(&self) -> Result<EventId, Error> {
        let page = self.sessions().events(EventsFrom::Now, 1).await.map_err(|error| of_gateway(&error))?;
        let mut place = self.news.place.lock().await;
        if place.is_none() {
            *place = Some(page.through);
            self.news.wake();
        }
        Ok(page.through)
    }

    /// The conversation that an id leads to, and a place of the feed at which it was so.
    pub(crate) async fn find_with_place(&self, id: &SessionId) -> Result<(ConversationRow, EventId), Error> {
        let mut before = self.find(id).await?;
        loop {
            let place = self.newest_event().await?;
            let after = self.find(id).await?;
            if (&before.facts, &before.title) == (&after.facts, &after.title) {
                return Ok((after, place));
            }
            before = after;
        }
    }

    /// Tells news until the store is closed. Begins when the first session is opened.
    pub(crate) async fn follow_news(self: Arc<Self>) {
        self.news.wake.notified().await;
        let mut new_events = self.gateway.watch_events();
        loop {
            // What comes while the feed is read wakes the agent again.
            new_events.mark_unchanged();
            if let Err(error) = self.tell_news().await {
                tracing::debug!(%error, "the events could not be read");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            tokio::select! {
                changed = new_events.changed() => if changed.is_err() { return },
                () = self.news.wake.notified() => {}
            }
        }
    }

    /// Reads all new events, and tells the editor what they change.
    pub(crate) async fn tell_news(&self) -> Result<(), GatewayError> {
        let mut place = self.news.place.lock().await;
        let Some(mut read) = *place else { return Ok(()) };
        loop {
            let page = self.sessions().events(EventsFrom::After(read), PAGE).await?;
            if page.gap.is_some() {
                // Events were lost. Titles and provenance are compared with what the editor knows.
                for session in self.open.all() {
                    session.known.note(page.through, |changes| (changes.is_moved, changes.is_renamed) = (true, true));
                }
            }
            page.events.iter().for_each(|event| self.note_event(event));
            read = page.through;
            *place = Some(read);
            if !page.has_more {
                break;
            }
        }
        for session in self.open.all() {
            let changes = session.known.take();
            if changes != Changes::default() {
                self.tell_changes(&session, changes).await;
            }
        }
        Ok(())
    }

    /// Notes an event for the sessions of its conversation.
    fn note_event(&self, event: &Event) {
        let kinds = [EventKind::Compacted, EventKind::HeadMoved, EventKind::Renamed, EventKind::Deleted];
        if !kinds.contains(&event.kind) {
            return;
        }
        let Ok(data) = serde_json::from_str::<Value>(&event.data) else { return };
        let Ok(subject) = Subject::deserialize(&data) else { return };
        for session in self.open.of(subject.conversation_id) {
            session.known.note(event.id, |changes| match (event.kind, subject.compaction_id, subject.action) {
                (EventKind::Compacted, Some(id), Some(CompactionAction::Compact)) => {
                    changes.compactions.push((id, provenance_of_event(&session.id, &data)));
                }
                (EventKind::Compacted, ..) => changes.is_undone = true,
                (EventKind::HeadMoved, ..) => changes.is_moved = true,
                (EventKind::Renamed, ..) => changes.is_renamed = true,
                _ => changes.is_deleted = true,
            });
        }
    }

    async fn tell_changes(&self, session: &Arc<OpenSession>, changes: Changes) {
        if changes.is_deleted {
            return self.tell_deletion(session).await;
        }
        let Ok(row) = self.find(&session.id).await else { return };
        let mut teller = CompactionTeller { agent: self, session, model: row.editor.model.as_deref(), begun: None };
        for (id, provenance) in changes.compactions {
            teller.made(id, provenance).await;
        }
        let is_moved = changes.is_moved && self.tell_provenance(session, &row).await;
        if is_moved || changes.is_undone {
            teller.usage().await;
        }
        if changes.is_renamed {
            self.tell_title(session).await;
        }
    }

    /// Tells the provenance, if the editor knows another one. True if it did.
    async fn tell_provenance(&self, session: &OpenSession, row: &ConversationRow) -> bool {
        let mut told = session.known.told.lock().await;
        let provenance = described(&session.id, row);
        let is_new = told.is_new_provenance(&provenance);
        if is_new {
            let info = SessionInfoUpdate::new().meta(provenance);
            self.editor.update(&session.id, SessionUpdate::SessionInfoUpdate(info)).await;
        }
        is_new
    }

    /// Closes a session whose conversation was deleted. The protocol has no update for that, only notices for people.
    async fn tell_deletion(&self, session: &OpenSession) {
        if self.editor.shows_notices() {
            let notice = Notice::new(NoticeSeverity::Warning, "This session was deleted")
                .description("It was deleted outside of this editor. It takes no more prompts.".to_owned());
            self.editor.update(&session.id, SessionUpdate::Notice(notice)).await;
        }
        self.open.close(&session.id).await;
    }
}
