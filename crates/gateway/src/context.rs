//! The context of a request, only counted or summarised: no turn is made.

use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::generation::Finish;
use herma_model::{CompactionId, FinishReason, Message, MessageId, Role, Seq, SessionId, Timestamp, TurnId, Usage};
use herma_store::{Extent, Scope, Snapshot, StatelessOutcome, StatelessTurn};
use herma_turn::{Transcript, build, words};

use crate::admission::own_alias;
use crate::compaction::{Load, transcript};
use crate::error::{GatewayError, InvalidRequest};
use crate::gateway::Gateway;
use crate::history::KnownPart;
use crate::input::Input;
use crate::mint;
use crate::request::{ConversationRef, TurnRequest};

/// A summary of a context for a client that stores its conversation itself.
#[derive(Debug)]
pub struct SummarisedContext {
    /// The id of the summary.
    pub id: CompactionId,
    /// The last user messages, word for word.
    pub kept: Vec<Arc<Message>>,
    /// The summary of the whole context.
    pub summary: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// What it cost.
    pub usage: Usage,
}

impl Gateway {
    /// Estimates how many tokens a request would show the model. Writes nothing.
    pub async fn count_tokens(&self, request: &TurnRequest) -> Result<u64, GatewayError> {
        let before = self.snapshot_for(request).await?;
        let new = match &before {
            Some(snapshot) if !request.input.messages.is_empty() => new_in(request, snapshot)?,
            _ => request.input.messages.as_slice(),
        };
        Ok(Load::of(request, before.as_ref(), new).total)
    }

    /// Summarises what a request would show the model. Writes only what that cost.
    pub async fn summarise_context(&self, request: &TurnRequest) -> Result<SummarisedContext, GatewayError> {
        let _place = self.place()?;
        let before = self.snapshot_for(request).await?;
        let id = mint::compaction();
        let began = mint::now();
        let turn = mint::turn();
        let messages = self.messages(request, before.as_ref(), turn, began)?;
        if messages.is_empty() && before.is_none() {
            return Err(GatewayError::Invalid(InvalidRequest::EmptyContext));
        }
        let unanswered = &before.as_ref().map(|snapshot| snapshot.unanswered.clone()).unwrap_or_default();
        let begun_anew = &before.as_ref().map(|snapshot| snapshot.begun_anew.clone()).unwrap_or_default();
        let base = before.as_ref().and_then(|snapshot| snapshot.base.clone());
        let transcript = Transcript {
            base: base.as_deref(),
            messages: &messages,
            rewound: &[],
            whole: false,
            unanswered,
            begun_anew,
        };
        let summarised = self.summarise_for_client(request, &build(&[], transcript, None)).await?;
        let finish = Finish {
            reason: FinishReason::Stop,
            usage: Some(summarised.cost.usage),
            model: Some(summarised.cost.model.clone()),
            extra: Default::default(),
        };
        self.store.note_stateless(StatelessTurn {
            tenant: request.caller.principal.tenant,
            id: turn,
            api: request.identity.route,
            outcome: StatelessOutcome::Completed(finish),
            started_at: began,
            ended_at: mint::now(),
        });
        Ok(SummarisedContext {
            id,
            kept: self.last_questions(request, &messages),
            summary: words::text_of(&summarised.said.payload).unwrap_or_default(),
            created_at: began,
            usage: summarised.cost.usage,
        })
    }

    /// The conversation that a request names.
    async fn snapshot_for(&self, request: &TurnRequest) -> Result<Option<Snapshot>, GatewayError> {
        let scope = Scope::of(&request.caller.principal);
        let open = async |alias, namespace, extent| self.store.open(&scope, alias, namespace, extent).await;
        match &request.destination.conversation {
            ConversationRef::New | ConversationRef::ByHistory | ConversationRef::Stateless => Ok(None),
            ConversationRef::Named { alias, namespace, must_exist } => {
                match open(alias, *namespace, Extent::View).await? {
                    None if *must_exist || !alias.may_be_created_in(*namespace) => Err(GatewayError::unknown()),
                    found => Ok(found),
                }
            }
            ConversationRef::After(response) => {
                let alias = own_alias(&response.to_string())?;
                let found = open(&alias, Namespace::Session, Extent::At(response.turn())).await?;
                found.map(Some).ok_or(GatewayError::previous_not_found())
            }
        }
    }

    /// The messages after the compaction base, and then the new ones.
    fn messages(
        &self,
        request: &TurnRequest,
        before: Option<&Snapshot>,
        turn: TurnId,
        now: Timestamp,
    ) -> Result<Vec<Arc<Message>>, GatewayError> {
        let known: Vec<_> = before.map(|snapshot| shown(transcript(snapshot))).unwrap_or_default();
        let new = match before {
            Some(snapshot) if !request.input.messages.is_empty() => new_in(request, snapshot)?,
            _ => request.input.messages.as_slice(),
        };
        let next = known.last().map_or(0, |last| last.seq.0) + 1;
        let new = (next..).zip(new).enumerate().map(|(nth, (seq, said))| {
            Arc::new(Message {
                id: MessageId::brought(turn, 1, nth),
                seq: Seq(seq),
                session: SessionId::from_name(""),
                turn,
                attempt: 1,
                created_at: now,
                said: said.clone(),
            })
        });
        Ok(known.into_iter().chain(new).collect())
    }

    /// The last user messages, as many as a compaction would keep. The last one is always among them if it has no
    /// answer yet.
    fn last_questions(&self, request: &TurnRequest, messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let mut left = self.kept_tokens(request.options.model.as_deref(), messages);
        let last_answer = messages.iter().rposition(|message| message.said.role == Role::Assistant);
        let unanswered = last_answer.map_or(messages.len().saturating_sub(1), |at| at + 1);
        let questions = messages.iter().enumerate().rev().filter(|(_, message)| message.said.role == Role::User);
        let mut kept: Vec<_> = questions
            .take_while(|(at, message)| {
                let fits = u64::from(message.said.tokens) <= left;
                left = left.saturating_sub(u64::from(message.said.tokens));
                fits || *at >= unanswered
            })
            .map(|(_, message)| message)
            .cloned()
            .collect();
        kept.reverse();
        kept
    }
}

/// The messages that the model is shown word for word.
fn shown(transcript: Transcript<'_>) -> Vec<Arc<Message>> {
    transcript.since_base().iter().filter(|message| !transcript.is_left_behind(message)).cloned().collect()
}

/// The messages of a request that its conversation does not have.
fn new_in<'a>(request: &'a TurnRequest, snapshot: &Snapshot) -> Result<&'a [herma_model::Utterance], GatewayError> {
    match Input::of(request, Some(snapshot), &KnownPart::ByAlignment) {
        // More history would be needed to decide. The messages are taken as new.
        None => Ok(&request.input.messages),
        Some(input) => Ok(input?.new),
    }
}
