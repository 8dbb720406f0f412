//! The driver of a turn: it carries out what the machine decides, and reports what happened.
//!
//! There is one driver for stored turns ([`crate::stored_turn`]), turns without a conversation ([`crate::stateless`])
//! and Herma's own calls ([`crate::own_call`]). Each of them is a [`Host`].

use std::ops::ControlFlow;

use futures_util::{StreamExt, TryFutureExt};
use herma_model::generation::ModelFailureKind;
use herma_model::{ModelCall, ModelEvent, ModelFailure};
use herma_turn::{CallPlace, Effect, Ending, Event, Machine, Stop, Task, ToolRules};
use herma_upstream::ModelServer;
use tokio::sync::watch;

use crate::log::TurnEvent;
use crate::spans::{ModelSpan, Traced};

/// What a kind of turn does with the machine's effects.
pub(crate) trait Host {
    /// Why a turn cannot go on: for a stored turn, the store failed.
    type Error;

    /// Does a task. The outcome is the event of the task, or [`Event::Stop`] if the turn has to end.
    ///
    /// A host without a conversation does nothing: it has no history to compact. It has no own tools either, because
    /// a call has to be stored before it is made.
    async fn carry_out(&mut self, task: Task) -> Result<Event, Self::Error> {
        Ok(task.nothing_done())
    }

    /// The call of the model with the context as it is now. `place` decides about `tool_choice`.
    fn call(&self, place: CallPlace) -> ModelCall;

    /// Waits for other events of the turn while the model answers, such as a request to stop. `None` if the turn goes
    /// on. Cancel-safe.
    async fn wait(&mut self, shown: &str) -> Result<Option<Stop>, Self::Error>;

    /// Waits until the turn may show something. Called after each event that has an effect.
    async fn may_show(&mut self) -> Result<(), Self::Error>;

    /// Shows pieces of the answer that came together. `shown` is all text so far. `Break` if the host needs no more.
    async fn show(&mut self, pieces: Vec<TurnEvent>, shown: &str) -> Result<ControlFlow<()>, Self::Error>;

    /// Where a call belongs in a trace.
    fn traced(&self) -> Traced<'_>;

    /// Notes that a call of this model of this server failed.
    fn call_failed(&mut self, failure: &ModelFailure, server: &dyn ModelServer, model: &str);
}

/// Runs a turn from its beginning to its end. Cancel-safe if the host's methods are.
pub(crate) async fn drive<H: Host>(
    upstream: &dyn ModelServer,
    rules: ToolRules,
    host: &mut H,
) -> Result<Ending, H::Error> {
    let (mut machine, first) = Machine::begin(rules);
    drive_from(upstream, &mut machine, first, host).await
}

/// Runs a turn from where its machine is to its end. Cancel-safe if the host's methods are.
///
/// The machine is borrowed, because a future that owns an argument keeps room for it twice.
pub(crate) async fn drive_from<H: Host>(
    upstream: &dyn ModelServer,
    machine: &mut Machine,
    mut effect: Effect,
    host: &mut H,
) -> Result<Ending, H::Error> {
    loop {
        effect = match effect {
            Effect::End(ending) => {
                if let Some(held) = machine.take_held() {
                    host.may_show().await?;
                    // The turn has ended, so a `Break` changes nothing.
                    let _ = host.show(vec![TurnEvent::delta(held)], machine.shown()).await?;
                }
                return Ok(ending);
            }
            Effect::CallModel(place) => call_model(upstream, machine, host, place).await?,
            Effect::Do(task) => {
                let event = host.carry_out(task).await?;
                next(machine, event)
            }
            // `call_model` shows the pieces, so this is a defect.
            Effect::ShowText(_) | Effect::Show(_) => Effect::End(defect()),
        };
    }
}

/// Calls the model and shows what comes. Returns what the turn does after the call.
async fn call_model<H: Host>(
    upstream: &dyn ModelServer,
    machine: &mut Machine,
    host: &mut H,
    place: CallPlace,
) -> Result<Effect, H::Error> {
    let mut call = host.call(place);
    let model = call.model.clone();
    let mut span = ModelSpan::begin(&host.traced(), upstream, "chat", &model);
    call.trace = span.passed_on();
    let mut events = std::pin::pin!(upstream.call(call).try_flatten_stream());
    loop {
        let (pieces, effect) = tokio::select! {
            biased;
            stop = host.wait(machine.shown()) => match stop? {
                Some(stop) => (Vec::new(), machine.on(Event::Stop(stop))),
                None => continue,
            },
            arrived = events.next() => match arrived.unwrap_or_else(|| Err(cut_off())) {
                Ok(events) => {
                    span.see(&events);
                    take_all(machine, events)
                }
                Err(failure) => {
                    span.failed(&failure);
                    host.call_failed(&failure, upstream, &model);
                    (Vec::new(), machine.on(Event::Failed(failure)))
                }
            },
        };
        if pieces.is_empty() && effect.is_none() {
            continue;
        }
        host.may_show().await?;
        if !pieces.is_empty() && host.show(pieces, machine.shown()).await?.is_break() {
            return Ok(next(machine, Event::Stop(Stop::Cancel)));
        }
        if let Some(effect) = effect {
            return Ok(effect);
        }
    }
}

/// Gives the machine events that came together. Returns the pieces to show, and the effect that ends the call.
fn take_all(machine: &mut Machine, events: Vec<ModelEvent>) -> (Vec<TurnEvent>, Option<Effect>) {
    let mut pieces = Vec::with_capacity(events.len());
    for event in events {
        match machine.on(Event::Model(event)) {
            None => {}
            Some(Effect::ShowText(run)) => pieces.push(TurnEvent::text(run)),
            Some(Effect::Show(delta)) => pieces.push(TurnEvent::delta(delta)),
            Some(effect) => return (pieces, Some(effect)),
        }
    }
    (pieces, None)
}

/// The next effect after an event that always has one.
fn next(machine: &mut Machine, event: Event) -> Effect {
    machine.on(event).unwrap_or_else(|| Effect::End(defect()))
}

fn defect() -> Ending {
    Ending::Refused(crate::admission::defect())
}

/// Waits until the turn is told to stop. Cancel-safe.
pub(crate) async fn stopped(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    stop.wait_for(Option::is_some).await.ok().and_then(|stop| *stop).unwrap_or(Stop::Cancel)
}

fn cut_off() -> ModelFailure {
    ModelFailure::new(ModelFailureKind::CutOff, "the model server stopped without finishing its answer")
}
