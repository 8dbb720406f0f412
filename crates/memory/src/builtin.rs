//! The provider that needs nothing but the store: facts, and what was said in earlier conversations.
//!
//! It stores nothing of its own. Passages are messages that the store's search index has, so what was said is known
//! elsewhere as soon as it is indexed.

use std::sync::Arc;

use async_trait::async_trait;
use herma_store::search::fold;
use herma_store::{MemoryQuery, Passage, Store};

use crate::provider::{MemoryError, MemoryProvider, RecallRequest, Recollection};
use crate::words;

/// How many passages and facts are looked for.
const PASSAGES: usize = 6;
const FACTS: usize = 12;

/// The built-in provider.
pub struct Builtin {
    store: Arc<dyn Store>,
    passages: bool,
    facts: bool,
}

impl Builtin {
    /// A provider that recalls passages, facts or both.
    pub fn new(store: Arc<dyn Store>, passages: bool, facts: bool) -> Self {
        Self { store, passages, facts }
    }
}

#[async_trait]
impl MemoryProvider for Builtin {
    fn name(&self) -> &'static str {
        "builtin"
    }

    async fn recall(&self, request: &RecallRequest) -> Result<Vec<Recollection>, MemoryError> {
        let asked = words::asked_words(&request.text);
        // Some of them may turn out to be shown already.
        let passages = PASSAGES + request.inherited.len().min(PASSAGES);
        let query = MemoryQuery {
            tenant: request.tenant,
            session_key: request.session_key.clone(),
            words: asked.clone(),
            passages: if self.passages { passages } else { 0 },
            facts: if self.facts { FACTS } else { 0 },
            shown: request.shown.clone(),
            as_of: request.as_of,
        };
        let remembered = self.store.remember(query).await?;
        let facts = remembered.facts.into_iter().map(|fact| Recollection {
            speaker: None,
            text: fact.text,
            at: fact.updated_at,
            conversation: fact.conversation,
            memory: Some(fact.id),
        });
        let question = fold(request.text.trim());
        let said = remembered.passages.iter().filter(|passage| !request.inherited.contains(&passage.message));
        let said = said.filter_map(|passage| recollection(passage, &question, &asked)).take(PASSAGES);
        Ok(facts.chain(said).collect())
    }
}

/// `None` if a passage says no more than the question, which the model is shown anyway.
fn recollection(passage: &Passage, question: &str, asked: &[String]) -> Option<Recollection> {
    let text = passage.text.trim();
    let folded = fold(text);
    if folded == question {
        return None;
    }
    let quoted = words::excerpt(text, &folded, asked)?;
    Some(Recollection {
        speaker: Some(passage.role.into()),
        text: if *quoted == *passage.text { Arc::clone(&passage.text) } else { Arc::from(quoted) },
        at: passage.created_at,
        conversation: Some(passage.conversation),
        memory: None,
    })
}
