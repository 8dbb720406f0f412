//! Titles for conversations that nobody gave one: with the first answer, from the first words or by a model.
//!
//! What the first words say is written with the answer itself, in its transaction. A model is asked behind the answer, which never waits for
//! it; if it says nothing useful in time, the first words stand for it. The store writes a title only where there is none and nobody has taken it
//! away, so whoever renames meanwhile wins, and of two processes one. Whatever is lost on the way, the next answer makes up for.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herma_model::{Answer, ConversationId, ModelCall, Params, Payload, Retries, TenantId, Usage};
use herma_store::MadeTitle;
use herma_turn::title;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::gateway::Gateway;
use crate::mint;
use crate::request::TurnRequest;
use crate::running::RunningTurn;
use crate::settings::Titling;

/// Most models that are asked for a title at one time. Conversations beyond that are called by their first words.
const MOST_ASKED: u32 = 8;

/// Titles that models of this process were asked for so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TitlesAsked {
    /// Those that could be used.
    pub made: u64,
    /// Those in place of which the first words had to do.
    pub failed: u64,
    /// What the model server counted for the requests.
    pub input_tokens: u64,
    /// What it counted for the answers.
    pub output_tokens: u64,
}

/// What the gateway remembers about titles. All of it can be lost.
pub(crate) struct Titles {
    places: Arc<Semaphore>,
    under_way: Mutex<HashSet<ConversationId>>,
    leaving: watch::Sender<bool>,
    made: AtomicU64,
    failed: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

impl Default for Titles {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MOST_ASKED as usize)),
            under_way: Mutex::default(),
            leaving: watch::Sender::new(false),
            made: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            input_tokens: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
        }
    }
}

impl Titles {
    /// Has everybody who waits for a model make do with the first words, and waits until they are written.
    pub(crate) async fn settle(&self, limit: Duration) {
        self.leaving.send_replace(true);
        let _ = tokio::time::timeout(limit, self.places.acquire_many(MOST_ASKED)).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<ConversationId>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spent(&self, usage: Usage) {
        self.input_tokens.fetch_add(usage.input, Ordering::Relaxed);
        self.output_tokens.fetch_add(usage.output, Ordering::Relaxed);
    }
}

/// What an answer does about the title of its conversation.
#[derive(Default)]
pub(crate) struct Naming {
    /// What to write with it.
    pub(crate) title: Option<MadeTitle>,
    question: Option<Question>,
    under_way: bool,
}

impl Naming {
    /// Whether later answers need not think of it.
    pub(crate) const fn is_settled(&self) -> bool {
        self.title.is_some() || self.question.is_some() || self.under_way
    }

    /// Asks the model, if it is to be asked, behind the answer that has been written.
    pub(crate) fn ask(self, gateway: &Arc<Gateway>) {
        if let Some(question) = self.question {
            let gateway = Arc::clone(gateway);
            tokio::spawn(async move { question.settle(&gateway).await });
        }
    }
}

/// A conversation that a model is asked about.
struct Question {
    tenant: TenantId,
    model: String,
    messages: Vec<Payload>,
    timeout: Duration,
    /// What it is called if the model says nothing useful.
    words: Option<MadeTitle>,
    place: UnderWay,
}

impl Question {
    async fn settle(self, gateway: &Gateway) {
        let mut leaving = gateway.titles.leaving.subscribe();
        let title = tokio::select! {
            biased;
            _ = leaving.wait_for(|leaving| *leaving) => None,
            title = self.answer(gateway) => title.map(MadeTitle::Model),
        };
        let Some(title) = title.or(self.words) else { return };
        let conversation = self.place.conversation;
        match gateway.store.make_title(self.tenant, conversation, title, mint::now()).await {
            Ok(written) => tracing::debug!(%conversation, written, "a title was made"),
            Err(error) => tracing::warn!(%conversation, %error, "a title could not be written"),
        }
    }

    /// What the model calls it, if that can be used.
    async fn answer(&self, gateway: &Gateway) -> Option<String> {
        let call = ModelCall {
            model: self.model.clone(),
            messages: self.messages.clone(),
            params: Arc::new(Params::default()),
            streaming: true,
            retries: Retries::AsConfigured,
        };
        let asked = gateway.whole_answer(call, title::is_far_too_long);
        let answer = tokio::time::timeout(self.timeout, asked).await.ok().and_then(Result::ok);
        gateway.titles.spent(answer.as_ref().and_then(|answer| answer.finish.usage).unwrap_or_default());
        let title = answer.as_ref().and_then(title::judge);
        let count = if title.is_some() { &gateway.titles.made } else { &gateway.titles.failed };
        count.fetch_add(1, Ordering::Relaxed);
        if title.is_none() {
            let conversation = self.place.conversation;
            tracing::warn!(%conversation, model = self.model, "the model gave no title that can be used");
        }
        title
    }
}

/// A place among those who wait for a model, for one conversation.
struct UnderWay {
    gateway: Arc<Gateway>,
    conversation: ConversationId,
    _permit: OwnedSemaphorePermit,
}

impl Drop for UnderWay {
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

    /// What is to be done about the title of a conversation that has its answer. Most often nothing: it has one.
    pub(crate) fn naming(self: &Arc<Self>, request: &TurnRequest, turn: &RunningTurn, answer: &Answer) -> Naming {
        let titling = &self.settings.titles;
        if !turn.is_untitled() || *titling == Titling::Off {
            return Naming::default();
        }
        let said = turn.own_words();
        let words = title::of_messages(said.iter().map(|message| &message.said)).map(MadeTitle::FirstWords);
        let Titling::Model { model, timeout } = titling else { return Naming { title: words, ..Naming::default() } };
        let facts = &turn.session.facts;
        if self.titles.lock().contains(&facts.id) {
            return Naming { under_way: true, ..Naming::default() };
        }
        let (model, _) = self.settings.resolve_model(model.as_deref().or(request.options.model.as_deref()));
        let is_wanted = facts.origin_kind.is_user_facing() && !model.is_empty() && !self.is_draining();
        let Some(place) = is_wanted.then(|| self.place_to_ask(facts.id)).flatten() else {
            return Naming { title: words, ..Naming::default() };
        };
        let opening = title::opening(said.iter().map(|message| &message.said));
        let answered = answer.content.as_deref().unwrap_or_default();
        let question = Question {
            tenant: request.caller.principal.tenant,
            model,
            messages: title::request(opening.map(|said| &said.payload), answered),
            timeout: *timeout,
            words,
            place,
        };
        Naming { question: Some(question), ..Naming::default() }
    }

    fn place_to_ask(self: &Arc<Self>, conversation: ConversationId) -> Option<UnderWay> {
        let permit = Arc::clone(&self.titles.places).try_acquire_owned().ok()?;
        let is_first = self.titles.lock().insert(conversation);
        is_first.then(|| UnderWay { gateway: Arc::clone(self), conversation, _permit: permit })
    }
}
