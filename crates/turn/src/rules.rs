//! Which tools an answer may call, whose tools they are, and which parts of a message are shown while it is streamed.

use herma_model::generation::ToolCallDelta;
use herma_model::{Answer, Delta};

use crate::allowed::AllowedTools;

/// What the machine has to know of a turn's tools.
#[derive(Debug, Clone, Default)]
pub struct ToolRules {
    allowed: AllowedTools,
    own: Option<OwnTools>,
}

/// A turn in which Herma offers tools of its own. Every call that is not of a client's tool is Herma's to answer.
#[derive(Debug, Clone)]
pub struct OwnTools {
    /// The names of the client's tools.
    pub client: Vec<String>,
    /// Most model calls of the turn.
    pub max_calls: u32,
    /// Whether the client is shown the text of the last message alone, because it wants JSON.
    pub holds_text: bool,
}

impl ToolRules {
    /// A turn whose answer may call these tools of the client, and no others.
    pub const fn of_client(allowed: AllowedTools) -> Self {
        Self { allowed, own: None }
    }

    /// The same, in which Herma offers tools of its own.
    #[must_use]
    pub fn offering(self, own: OwnTools) -> Self {
        Self { own: Some(own), ..self }
    }

    pub(crate) const fn allowed(&self) -> &AllowedTools {
        &self.allowed
    }

    /// Whether no further model call may follow this one.
    pub(crate) fn is_last_call(&self, made: u32) -> bool {
        self.own.as_ref().is_some_and(|own| made >= own.max_calls)
    }

    pub(crate) fn holds_text(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.holds_text)
    }

    fn is_own(&self, name: &str) -> bool {
        self.own.as_ref().is_some_and(|own| !own.client.iter().any(|client| client == name))
    }

    pub(crate) fn has_own_call(&self, answer: &Answer) -> bool {
        answer.tool_calls.iter().any(|call| self.is_own(&call.name))
    }

    /// Leaves only calls of the client's tools.
    pub(crate) fn drop_own_calls(&self, answer: &mut Answer) {
        answer.tool_calls.retain(|call| !self.is_own(&call.name));
    }

    /// The part of a piece that is shown at once. If Herma offers tools, calls wait until it is known whose they are.
    pub(crate) fn shown_at_once(&self, mut delta: Delta) -> Delta {
        if self.own.is_some() {
            delta.tool_calls.clear();
        }
        if self.holds_text() {
            delta.content = None;
        }
        delta
    }

    /// What [`Self::shown_at_once`] left out and clients may see: the client's calls, numbered without gaps, and text.
    pub(crate) fn held_back(&self, answer: &Answer) -> Option<Delta> {
        self.own.as_ref()?;
        let calls = answer.tool_calls.iter().filter(|call| !self.is_own(&call.name));
        let tool_calls = calls.zip(0..).map(|(call, index)| ToolCallDelta {
            index,
            id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            arguments: Some(call.arguments.clone()),
            custom: call.custom,
            extra: call.extra.clone(),
        });
        let content = answer.content.clone().filter(|_| self.holds_text());
        let held = Delta { content, tool_calls: tool_calls.collect(), ..Delta::default() };
        (!held.is_empty()).then_some(held)
    }
}
