//! Requests that are not answered yet, and how they are told to stop. Prompts of one session wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::schema::{RequestId, SessionId};

/// Why a request is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopCause {
    /// `session/cancel`: the prompt answers that it was cancelled.
    Cancelled,
    /// `$/cancel_request`: the request fails.
    NotWanted,
    /// A new prompt of the session: a turn that no prompt waits for is to end if it waits for a person.
    Superseded,
}

/// Tells a request whether it is to stop.
#[derive(Debug, Clone)]
pub(crate) struct StopSignal(watch::Receiver<Option<StopCause>>);

impl StopSignal {
    /// Why the request is to stop, if it is.
    pub(crate) fn cause(&self) -> Option<StopCause> {
        *self.0.borrow()
    }

    /// Waits until the request is to stop. Cancel-safe.
    pub(crate) async fn stopped(&mut self) -> StopCause {
        self.stopped_after(None).await
    }

    /// Waits until the request is to stop for another cause than the one that is known. Cancel-safe.
    pub(crate) async fn stopped_after(&mut self, known: Option<StopCause>) -> StopCause {
        let cause = self.0.wait_for(|cause| cause.is_some() && *cause != known).await.ok().and_then(|cause| *cause);
        match cause {
            Some(cause) => cause,
            // The request is answered, so it cannot be stopped any more.
            None => std::future::pending().await,
        }
    }
}

struct Running {
    stop: watch::Sender<Option<StopCause>>,
    /// The session of a prompt, and whether the prompt has ended.
    prompt: Option<(SessionId, watch::Sender<bool>)>,
    /// The order of arrival.
    number: u64,
}

/// The requests of a connection that are not answered yet.
#[derive(Default)]
pub(crate) struct InFlight {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    running: HashMap<Work, Running>,
    arrived: u64,
}

/// What is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    /// A request of the editor.
    Request(RequestId),
    /// A turn that no request waits for, by its number in the order of arrival.
    Own(u64),
}

/// A place in the table. Dropping it takes the request out.
pub(crate) struct Place {
    table: Arc<InFlight>,
    work: Work,
    /// Tells the request to stop.
    pub(crate) stop: StopSignal,
    /// The prompt of the same session before this one.
    before: Option<watch::Receiver<bool>>,
}

impl Place {
    /// Waits until the prompts of the same session that came earlier have ended. Cancel-safe.
    pub(crate) async fn turn_comes(&mut self) {
        if let Some(before) = &mut self.before {
            // An error means that the earlier prompt is gone.
            let _ = before.wait_for(|ended| *ended).await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.table.lock().running.remove(&self.work);
    }
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request in; a prompt with its session. `None` if a request with this id is not answered yet.
    pub(crate) fn enter(self: &Arc<Self>, id: &RequestId, prompt_of: Option<SessionId>) -> Option<Place> {
        let mut table = self.lock();
        let work = Work::Request(id.clone());
        if table.running.contains_key(&work) {
            return None;
        }
        Some(self.insert(&mut table, work, prompt_of))
    }

    /// Takes in a turn that no request waits for. Prompts of its session wait for it as for a prompt.
    pub(crate) fn enter_own(self: &Arc<Self>, session: SessionId) -> Place {
        let mut table = self.lock();
        let work = Work::Own(table.arrived + 1);
        self.insert(&mut table, work, Some(session))
    }

    fn insert(self: &Arc<Self>, table: &mut Table, work: Work, prompt_of: Option<SessionId>) -> Place {
        table.arrived += 1;
        let number = table.arrived;
        let before = prompt_of.as_ref().and_then(|session| table.last_prompt(session));
        let (stop, signal) = watch::channel(None);
        let prompt = prompt_of.map(|session| (session, watch::Sender::new(false)));
        table.running.insert(work.clone(), Running { stop, prompt, number });
        Place { table: Arc::clone(self), work, stop: StopSignal(signal), before }
    }

    /// How many requests are not answered yet.
    pub(crate) fn count(&self) -> usize {
        self.lock().running.len()
    }

    /// Stops one request.
    pub(crate) fn stop(&self, id: &RequestId) {
        if let Some(running) = self.lock().running.get(&Work::Request(id.clone())) {
            stop(running, StopCause::NotWanted);
        }
    }

    /// Tells the turns of a session that no prompt waits for that there is a new prompt.
    pub(crate) fn supersede(&self, session: &SessionId) {
        let table = self.lock();
        let own = table.running.iter().filter(|(work, _)| matches!(work, Work::Own(_)));
        let of_session = own.filter(|(_, running)| running.prompt.as_ref().is_some_and(|(of, _)| of == session));
        of_session.for_each(|(_, running)| stop(running, StopCause::Superseded));
    }

    /// Stops the running prompt of a session and all that wait.
    pub(crate) fn stop_prompts(&self, session: &SessionId) {
        let table = self.lock();
        table.prompts(session).for_each(|(running, _)| stop(running, StopCause::Cancelled));
    }

    /// Waits until a session has no prompt. Cancel-safe.
    pub(crate) async fn prompts_end(&self, session: &SessionId) {
        loop {
            let last = self.lock().last_prompt(session);
            let Some(mut last) = last else { return };
            let _ = last.wait_for(|ended| *ended).await;
        }
    }
}

/// The first cause counts, but a turn that was superseded can still be cancelled.
fn stop(running: &Running, cause: StopCause) {
    running.stop.send_if_modified(|stop| {
        let counts = matches!(stop, None | Some(StopCause::Superseded));
        if counts {
            *stop = Some(cause);
        }
        counts
    });
}

impl Table {
    fn prompts(&self, session: &SessionId) -> impl Iterator<Item = (&Running, &watch::Sender<bool>)> {
        let of_session = move |running: &Running| running.prompt.as_ref().is_some_and(|(id, _)| id == session);
        let prompts = self.running.values().filter(move |running| of_session(running));
        prompts.filter_map(|running| Some((running, &running.prompt.as_ref()?.1)))
    }

    /// Tells when the prompt that arrived last has ended.
    fn last_prompt(&self, session: &SessionId) -> Option<watch::Receiver<bool>> {
        let last = self.prompts(session).max_by_key(|(running, _)| running.number);
        last.map(|(_, ended)| ended.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    fn session(name: &'static str) -> Option<SessionId> {
        Some(SessionId::from(name))
    }

    #[tokio::test]
    async fn prompts_of_a_session_wait_for_each_other() {
        let table = Arc::new(InFlight::default());
        let first = table.enter(&number(1), session("a")).unwrap();
        let mut second = table.enter(&number(2), session("a")).unwrap();
        let mut other = table.enter(&number(3), session("b")).unwrap();
        other.turn_comes().await;
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(1), second.turn_comes()).await;
        assert!(waiting.is_err(), "the first prompt has not ended");
        drop(first);
        second.turn_comes().await;
        assert_eq!(table.count(), 2);
    }

    #[tokio::test]
    async fn a_cancel_stops_all_prompts_of_its_session_and_nothing_else() {
        let table = Arc::new(InFlight::default());
        let places: Vec<Place> = [(1, session("a")), (2, session("a")), (3, session("b")), (4, None)]
            .into_iter()
            .map(|(id, session)| table.enter(&number(id), session).unwrap())
            .collect();
        table.stop_prompts(&SessionId::from("a"));
        table.stop(&number(4));
        table.stop(&number(1));
        let causes: Vec<_> = places.iter().map(|place| place.stop.cause()).collect();
        let cancelled = Some(StopCause::Cancelled);
        assert_eq!(causes, [cancelled, cancelled, None, Some(StopCause::NotWanted)]);
        drop(places);
        table.prompts_end(&SessionId::from("a")).await;
    }

    #[test]
    fn an_id_that_is_in_use_is_refused() {
        let table = Arc::new(InFlight::default());
        let place = table.enter(&number(1), None);
        assert!(place.is_some() && table.enter(&number(1), None).is_none());
        drop(place);
        assert!(table.enter(&number(1), None).is_some());
    }
}
