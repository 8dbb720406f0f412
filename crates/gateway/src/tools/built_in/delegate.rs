//! `delegate_task`: work for helpers, each in a conversation of its own.
//!
//! A child is an auxiliary conversation that names the session and the call that made it. It runs in this process and
//! waits for nothing of its parent: no lease, no place among the live turns. If the call is dropped, its children are
//! cancelled.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use herma_model::tool::{ChildAnswer, delegated};
use herma_model::{Alias, ConversationId, CreatorKind, OwnCall, SessionKind, TurnState};
use herma_tools::CallEnd;
use herma_wire::chat::simple_user;
use serde_json::Value;

use super::CallContext;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::log::TurnEvent;
use crate::request::{Caller, ConversationRef, MemoryUse, OnDisconnect, ToolOffer, TurnHandle, TurnRequest};
use crate::running::RunningTurn;
use crate::sessions::Origin;

/// How children are stored.
const ORIGIN: Origin = Origin { creator: CreatorKind::DelegateTask, source: "delegate_task" };

/// Runs tasks at the same time and tells what each helper answered.
pub(super) async fn run(gateway: &Arc<Gateway>, context: &CallContext, arguments: &Value) -> CallEnd {
    let tasks = match tasks(arguments) {
        Ok(tasks) => tasks,
        Err(why) => return CallEnd::NotMade(why.to_owned()),
    };
    let most = gateway.settings.tools.delegate.max_children;
    let wanted = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    let taken =
        context.children_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(wanted));
    if taken.is_err() {
        return CallEnd::NotMade(format!("a turn may have at most {most} children, and this call would exceed that"));
    }
    let parent = match Alias::parse(context.facts.head.id.as_str()) {
        Ok(parent) => parent,
        Err(error) => return CallEnd::NotMade(error.to_string()),
    };
    // One after the other, so that they are stored in the order of their tasks. Each runs from then on.
    let mut children = Vec::with_capacity(tasks.len());
    for task in &tasks {
        children.push(Child::begin(gateway, request(context, &parent, task)).await);
    }
    let answers = join_all(children.into_iter().map(Child::end)).await;
    CallEnd::Result { text: delegated(&answers), is_error: false }
}

impl Gateway {
    /// What the model is told of a call whose turn was stopped before the call had a result. Of a delegation, it is
    /// told what the children had answered. Those that still run are cancelled with the call.
    pub(crate) async fn cut_off_call(&self, turn: &RunningTurn, call: &OwnCall) -> String {
        if !call.delegates() {
            return call.cut_off(&[]);
        }
        let (tenant, conversation) = (turn.running.lease.tenant, turn.session.facts.id);
        let mut children = match self.store.children_of_call(tenant, conversation, &call.id).await {
            Ok(children) => children,
            Err(error) => {
                tracing::warn!(%error, "what delegated work had answered could not be read");
                Vec::new()
            }
        };
        for child in children.iter_mut().filter(|child| child.status == TurnState::Interrupted) {
            child.status = TurnState::Cancelled;
        }
        call.cut_off(&children)
    }
}

/// What each child is asked: its goal, a blank line and its context.
fn tasks(arguments: &Value) -> Result<Vec<String>, &'static str> {
    let tasks = arguments["tasks"].as_array().ok_or("`tasks` has to be a list")?;
    let text = |task: &Value| {
        let goal = task["goal"].as_str().map(str::trim).filter(|goal| !goal.is_empty());
        let goal = goal.ok_or("each task needs a `goal`")?;
        Ok(match task["context"].as_str().map(str::trim).filter(|context| !context.is_empty()) {
            Some(context) => format!("{goal}\n\n{context}"),
            None => goal.to_owned(),
        })
    };
    if tasks.is_empty() {
        return Err("`tasks` is empty");
    }
    tasks.iter().map(text).collect()
}

fn request(context: &CallContext, parent: &Alias, task: &str) -> TurnRequest {
    let depth = match context.tools {
        ToolOffer::Delegated { depth } => depth + 1,
        ToolOffer::AsConfigured | ToolOffer::Off => 1,
    };
    let (principal, session_key) = (context.principal.clone(), context.session_key.clone());
    let caller = Caller { principal, session_key, origin: ORIGIN };
    let mut request = TurnRequest::new(caller, ConversationRef::New, ORIGIN.source);
    request.trace = context.trace.clone();
    request.destination.kind = SessionKind::Auxiliary;
    request.destination.parent = Some(parent.clone());
    request.destination.parent_tool_call = Some(Arc::clone(&context.call));
    request.input.messages = vec![simple_user(task)];
    request.input.indices = vec![0];
    request.options.model.clone_from(&context.model);
    request.options.on_disconnect = OnDisconnect::Cancel;
    // A streamed turn tells when its conversation is stored.
    request.options.streaming = true;
    request.options.tools = ToolOffer::Delegated { depth };
    request.options.obeys_tool_mode = context.obeys_tool_mode;
    request.options.session_tools.clone_from(&context.session_tools);
    if context.memory == MemoryUse::Off {
        request.options.memory = MemoryUse::Off;
    }
    request
}

/// A child that has begun. If it is dropped, it is cancelled.
struct Child {
    conversation: Option<ConversationId>,
    state: ChildState,
}

enum ChildState {
    Running(TurnHandle),
    Ended(TurnState, Option<String>),
}

impl Child {
    /// Starts a child and waits until its conversation is stored.
    async fn begin(gateway: &Arc<Gateway>, request: TurnRequest) -> Self {
        let handle = match gateway.submit_child(request) {
            Ok(handle) => handle,
            Err(error) => {
                let state = ChildState::Ended(TurnState::Failed, Some(error.to_string()));
                return Self { conversation: None, state };
            }
        };
        let mut child = Self { conversation: None, state: ChildState::Running(handle) };
        while child.conversation.is_none() && child.next().await {}
        child
    }

    /// Waits for the child's end.
    async fn end(mut self) -> ChildAnswer {
        while self.next().await {}
        let (status, answer) = match self.state {
            ChildState::Ended(status, answer) => (status, answer),
            ChildState::Running(_) => (TurnState::Interrupted, None),
        };
        ChildAnswer { conversation: self.conversation, status, answer }
    }

    /// Takes the next event. `false` if the child has ended.
    async fn next(&mut self) -> bool {
        let ChildState::Running(turn) = &mut self.state else { return false };
        let (status, answer) = match turn.next().await {
            TurnEvent::Queued { session, .. } | TurnEvent::Step { session, .. } => {
                self.conversation = Some(session.facts.id);
                return true;
            }
            TurnEvent::Started { session, .. } => {
                self.conversation = session.map(|session| session.facts.id);
                return true;
            }
            TurnEvent::Text(_) | TurnEvent::Delta(_) => return true,
            TurnEvent::Finished(finished) => {
                self.conversation = finished.session.as_ref().map(|session| session.facts.id);
                let answer = finished.answer.content.clone().or_else(|| finished.answer.refusal.clone());
                (TurnState::Completed, answer)
            }
            TurnEvent::Failed(error) => {
                let status = match &*error {
                    GatewayError::Turn(failure) | GatewayError::CutOff(failure) => failure.code.ends_as(),
                    _ => TurnState::Failed,
                };
                (status, Some(error.to_string()))
            }
        };
        self.state = ChildState::Ended(status, answer);
        false
    }
}
