//! `GET /api/events`: the event feed of conversations, for any number of readers, from any event that is still kept.
//!
//! A reader is only a position in the feed. It reads page by page, as fast as its client takes the frames. So a slow
//! reader blocks no other. If it falls too far behind, it gets a gap.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use herma_store::{EventPage, EventsFrom};
use herma_wire::{feed, sse};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::app::Shared;
use crate::error::ApiError;
use crate::query::Parameters;
use crate::sockets::Closing;
use crate::stream::KEEP_ALIVE;
use crate::{auth, headers};

/// The most events that wait in memory for one reader.
const PAGE: usize = 100;
/// The `starting_after` that asks for all kept events.
const OLDEST: &str = "0";

/// Streams new events, or the events after the one that the client names. `Last-Event-ID` wins over `starting_after`,
/// because a browser that reconnects sends the header to the same URL.
pub(crate) async fn follow(
    State(app): State<Shared>,
    query: Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["starting_after"])?;
    let asked = parameters.parsed("starting_after", events_from, "the id of an event, or 0 for all that are kept")?;
    let from = headers::last_event(&headers, events_from)?.or(asked).unwrap_or(EventsFrom::Now);
    let mut reader = EventReader::new(app, headers, from);
    reader.read().await?;
    let mut response = Response::new(reader.into_body());
    let response_headers = response.headers_mut();
    response_headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response_headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn events_from(text: &str) -> Option<EventsFrom> {
    if text == OLDEST { Some(EventsFrom::Oldest) } else { text.parse().ok().map(EventsFrom::After) }
}

/// The stream of one client.
struct EventReader {
    app: Shared,
    /// The headers are authenticated again for each page, because the key may have been revoked.
    headers: HeaderMap,
    new_events: watch::Receiver<i64>,
    closing: Closing,
    from: EventsFrom,
    ready: VecDeque<Bytes>,
    /// When the next frame must be sent. If there is no event by then, the reader's position is sent. At first this is
    /// now.
    due: Instant,
    stage: Stage,
}

/// What a reader does when it has sent all that it has read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Reads the next page.
    Behind,
    /// Waits for new events.
    CaughtUp,
    /// Ends the stream.
    Ended,
}

impl EventReader {
    fn new(app: Shared, headers: HeaderMap, from: EventsFrom) -> Self {
        // Subscribe before the first page is read, so that no event is missed between the two.
        let new_events = app.gateway.watch_events();
        let closing = app.sockets.closing();
        Self {
            app,
            headers,
            new_events,
            closing,
            from,
            ready: VecDeque::new(),
            due: Instant::now(),
            stage: Stage::Behind,
        }
    }

    /// Reads a page. Events that the principal may not see make no frame, but the position moves past them.
    async fn read(&mut self) -> Result<(), ApiError> {
        self.new_events.mark_unchanged();
        let principal = auth::principal(&self.app, &self.headers).await?;
        let page = self.app.sessions(&principal).events(self.from, PAGE).await?;
        self.ready.extend(frames(self.from, &page));
        if self.ready.is_empty() && self.due <= Instant::now() {
            self.ready.push_back(feed::place(page.through));
        }
        if !self.ready.is_empty() {
            self.due = Instant::now() + KEEP_ALIVE;
        }
        self.from = EventsFrom::After(page.through);
        self.stage = if page.has_more { Stage::Behind } else { Stage::CaughtUp };
        Ok(())
    }

    /// Waits until there may be new events, a frame is due, or the server stops.
    async fn wait(&mut self) {
        self.stage = tokio::select! {
            () = self.closing.requested() => Stage::Ended,
            _ = timeout_at(self.due, self.new_events.changed()) => Stage::Behind,
        };
    }

    /// The next frame. `None` after the last one.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            match self.stage {
                Stage::Ended => return None,
                Stage::CaughtUp => {
                    self.wait().await;
                    if self.stage == Stage::Ended {
                        return Some(Bytes::from_static(sse::CLOSED));
                    }
                }
                Stage::Behind => {
                    if let Err(error) = self.read().await {
                        self.stage = Stage::Ended;
                        return Some(sse::error_frame(error.body()));
                    }
                }
            }
        }
    }

    fn into_body(self) -> Body {
        Body::from_stream(unfold(self, async |mut reader: Self| {
            let frame = reader.next().await?;
            Some((Ok::<_, Infallible>(frame), reader))
        }))
    }
}

/// The events of a page as frames. If events before it were missed, the first frame is a gap.
fn frames(from: EventsFrom, page: &EventPage) -> Vec<Bytes> {
    let gap = match (from, page.gap) {
        (EventsFrom::After(had), Some(gap)) => Some(feed::gap(had, gap)),
        _ => None,
    };
    let events = page.events.iter().map(|event| feed::event(event.id, event.kind, event.at, &event.data));
    gap.into_iter().chain(events).collect()
}
