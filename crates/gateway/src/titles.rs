//! Titles for conversations without one, made after the first answer: an excerpt of the first words, or by a model.
//!
//! An excerpt is written in the transaction of the answer. A model is asked after the answer, in the background. If it
//! gives no usable title in time, the excerpt becomes the title. The store writes a made title only if the conversation
//! has none and no client has removed it. So a client that renames meanwhile wins, and one of two processes writes. A
//! lost title is tried again after the next answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use herma_model::{Answer, ConversationId, ModelCall, Params, Payload, Retries, TenantId, Usage};
use herma_store::MadeTitle;
use herma_telemetry::Trace;
use herma_turn::title;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::gateway::Gateway;
use crate::mint;
use crate::models::{ModelServers, PerServer, ServerId};
use crate::request::TurnRequest;
use crate::running::RunningTurn;
use crate::settings::Titling;
use crate::spans::{Purpose, Traced};

/// Most title requests to one model server at one time. Conversations beyond that get an excerpt.
const MOST_ASKED: u32 = 8;

/// Titles that this process has asked models for so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TitlesAsked {
    /// Those that could be used.
    pub made: u64,
    /// Those for which the excerpt was used instead.
    pub failed: u64,
    /// Prompt tokens, as the model server counted them.
    pub input_tokens: u64,
    /// Answer tokens, as the model server counted them.
    pub output_tokens: u64,
}

/// The titles that are being made, and counts of those that were made. All of it can be lost.
pub(crate) struct Titles {
    slots: PerServer<Arc<Semaphore>>,
    under_way: Mutex<HashSet<ConversationId>>,
    leaving: watch::Sender<bool>,
    made: AtomicU64,
    failed: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

impl Titles {
    pub(crate) fn of(servers: &ModelServers) -> Self {
        Self {
            slots: servers.map(|_| Arc::new(Semaphore::new(MOST_ASKED as usize))),
            under_way: Mutex::default(),
            leaving: watch::Sender::new(false),
            made: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            input_tokens: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
        }
    }

    /// Ends all title requests: their conversations get an excerpt. Waits until these are written, at most `limit`.
    pub(crate) async fn settle(&self, limit: Duration) {
        self.leaving.send_replace(true);
        let all = join_all(self.slots.iter().map(|(_, slots)| slots.acquire_many(MOST_ASKED)));
        let _ = tokio::time::timeout(limit, all).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<ConversationId>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spent(&self, usage: Usage) {
        self.input_tokens.fetch_add(usage.input, Ordering::Relaxed);
        self.output_tokens.fetch_add(usage.output, Ordering::Relaxed);
    }
}

/// What is done about the title of a conversation that has its answer.
#[derive(Default)]
pub(crate) struct TitleWork {
    /// The title to write with the answer.
    pub(crate) title: Option<MadeTitle>,
    question: Option<TitleQuestion>,
    under_way: bool,
}

impl TitleWork {
    /// True if later answers need not make a title.
    pub(crate) const fn is_settled(&self) -> bool {
        self.title.is_some() || self.question.is_some() || self.under_way
    }

    /// Asks the model in the background, if one is to be asked. Called after the answer is written.
    pub(crate) fn ask(self, gateway: &Arc<Gateway>) {
        if let Some(question) = self.question {
            let gateway = Arc::clone(gateway);
            tokio::spawn(async move { question.settle(&gateway).await });
        }
    }
}

/// A request for the title of a conversation.
struct TitleQuestion {
    tenant: TenantId,
    /// The model that is asked, by the name that clients use.
    model: Option<String>,
    messages: Vec<Payload>,
    timeout: Duration,
    /// The excerpt that becomes the title if the model gives none that can be used.
    excerpt: Option<MadeTitle>,
    slot: TitleSlot,
    trace: Trace,
}

impl TitleQuestion {
    async fn settle(self, gateway: &Gateway) {
        let mut leaving = gateway.titles.leaving.subscribe();
        let title = tokio::select! {
            biased;
            _ = leaving.wait_for(|leaving| *leaving) => None,
            title = self.answer(gateway) => title.map(MadeTitle::Model),
        };
        let Some(title) = title.or(self.excerpt) else { return };
        let conversation = self.slot.conversation;
        match gateway.store.make_title(self.tenant, conversation, title, mint::now()).await {
            Ok(written) => tracing::debug!(%conversation, written, "a title was made"),
            Err(error) => tracing::warn!(%conversation, %error, "a title could not be written"),
        }
    }

    /// The model's title, if it can be used.
    async fn answer(&self, gateway: &Gateway) -> Option<String> {
        let model = gateway.settings.resolve_model(self.model.as_deref());
        let call = ModelCall {
            model: model.name.to_owned(),
            messages: self.messages.clone(),
            params: Arc::new(Params::default()),
            streaming: true,
            retries: Retries::AsConfigured,
            trace: None,
        };
        let conversation = Some(self.slot.conversation);
        let traced = Traced { trace: &self.trace, conversation, purpose: Purpose::Title };
        let asked = gateway.whole_answer(model.server, call, &traced, title::is_far_too_long);
        let answer = tokio::time::timeout(self.timeout, asked).await.ok().and_then(Result::ok);
        let usage = answer.as_ref().and_then(|answer| answer.finish.usage).unwrap_or_default();
        gateway.titles.spent(usage);
        gateway.count_side_usage(self.tenant, self.slot.conversation, &model, usage);
        let title = answer.as_ref().and_then(title::judge);
        let count = if title.is_some() { &gateway.titles.made } else { &gateway.titles.failed };
        count.fetch_add(1, Ordering::Relaxed);
        if title.is_none() {
            let conversation = self.slot.conversation;
            tracing::warn!(%conversation, model = model.name, "the model gave no title that can be used");
        }
        title
    }
}

/// One of the [`MOST_ASKED`] slots of a model server, for one conversation.
struct TitleSlot {
    gateway: Arc<Gateway>,
    conversation: ConversationId,
    _permit: OwnedSemaphorePermit,
}

impl Drop for TitleSlot {
    fn drop(&mut self) {
        self.gateway.titles.lock().remove(&self.conversation);
    }
}

impl Gateway {
    /// Titles that models were asked for so far.
    pub fn titles_asked(&self) -> TitlesAsked {
        let Titles { made, failed, input_tokens, output_tokens, .. } = &self.titles;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TitlesAsked {
            made: count(made),
            failed: count(failed),
            input_tokens: count(input_tokens),
            output_tokens: count(output_tokens),
        }
    }

    /// What is done about the title of a conversation that has its answer. Nothing if it has a title.
    pub(crate) fn naming(self: &Arc<Self>, request: &TurnRequest, turn: &RunningTurn, answer: &Answer) -> TitleWork {
        let titling = &self.settings.titles;
        if !turn.is_untitled() || *titling == Titling::Off {
            return TitleWork::default();
        }
        let said = turn.own_words();
        let excerpt = title::of_messages(said.iter().map(|message| &message.said)).map(MadeTitle::FirstWords);
        let Titling::Model { model, timeout } = titling else {
            return TitleWork { title: excerpt, ..TitleWork::default() };
        };
        let facts = &turn.session.facts;
        if self.titles.lock().contains(&facts.id) {
            return TitleWork { under_way: true, ..TitleWork::default() };
        }
        let asked = model.as_deref().or(request.options.model.as_deref());
        let model = self.settings.resolve_model(asked);
        let is_wanted = facts.origin_kind.is_user_facing() && !model.name.is_empty() && !self.is_draining();
        let Some(slot) = is_wanted.then(|| self.free_slot(model.server, facts.id)).flatten() else {
            return TitleWork { title: excerpt, ..TitleWork::default() };
        };
        let opening = title::opening(said.iter().map(|message| &message.said));
        let answered = answer.content.as_deref().unwrap_or_default();
        let question = TitleQuestion {
            tenant: request.caller.principal.tenant,
            model: asked.map(str::to_owned),
            messages: title::request(opening.map(|said| &said.payload), answered),
            timeout: *timeout,
            excerpt,
            slot,
            trace: request.trace.clone(),
        };
        TitleWork { question: Some(question), ..TitleWork::default() }
    }

    fn free_slot(self: &Arc<Self>, server: ServerId, conversation: ConversationId) -> Option<TitleSlot> {
        let permit = Arc::clone(self.titles.slots.of(server)).try_acquire_owned().ok()?;
        let is_first = self.titles.lock().insert(conversation);
        is_first.then(|| TitleSlot { gateway: Arc::clone(self), conversation, _permit: permit })
    }
}
