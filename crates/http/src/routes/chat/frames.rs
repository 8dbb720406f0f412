//! A turn as the chunks of a chat completion.

use bytes::Bytes;
use herma_gateway::{AnswerForm, Finished, GatewayError, SessionView, session_object};
use herma_model::{Delta, MessageId, Step, TextRun};
use herma_wire::chat::{self, Head, JoinedTexts};
use herma_wire::own_tools::{CallEvent, CallEvents};
use herma_wire::sse;

use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::stream::{Begun, Frames};

/// What a client wants in its stream besides the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extras {
    /// A chunk with the token usage.
    pub(super) usage: bool,
    /// Events that the SDKs do not know, such as a compaction.
    pub(super) events: bool,
}

/// The chunks of a chat stream.
pub(super) struct ChatFrames {
    /// The model by the name that the model server was given. All chunks have the same name.
    model: String,
    extras: Extras,
    id: String,
    created: i64,
    role_sent: bool,
    texts: JoinedTexts,
    calls: CallEvents,
}

impl ChatFrames {
    pub(super) fn new(model: String, extras: Extras) -> Self {
        Self {
            model,
            extras,
            id: String::new(),
            created: 0,
            role_sent: false,
            texts: JoinedTexts::default(),
            calls: CallEvents::default(),
        }
    }

    fn role(&mut self) -> Option<Bytes> {
        let is_first = !std::mem::replace(&mut self.role_sent, true);
        is_first.then(|| chat::role_chunk(&self.head()))
    }

    fn head(&self) -> Head<'_> {
        Head { id: &self.id, created: self.created, model: &self.model }
    }
}

impl Frames for ChatFrames {
    const DIALECT: Dialect = Dialect::Chat;
    const FORM: AnswerForm = AnswerForm::OneMessage;

    fn started(&mut self, begun: &Begun<'_>, _: MessageId) -> Vec<Bytes> {
        self.id = chat::completion_id(begun.turn);
        self.created = begun.started_at.seconds();
        Vec::new()
    }

    fn step(&mut self, step: &Step, _: MessageId, session: &SessionView) -> Vec<Bytes> {
        self.texts.step(step);
        if !self.extras.events {
            return Vec::new();
        }
        let compacted = step.compaction().map(|_| sse::compacted_frame(&session_object(session)));
        let calls = self.calls.step(step);
        compacted.into_iter().chain(calls.iter().filter_map(CallEvent::chat_frame)).collect()
    }

    fn text(&mut self, run: &TextRun, out: &mut Vec<u8>) {
        let separator = self.texts.before_text();
        let before = self.role().into_iter().chain(separator.map(|piece| chat::delta_chunk(&self.head(), &piece)));
        before.for_each(|frame| out.extend_from_slice(&frame));
        chat::write_text_chunks(&self.head(), run, out);
    }

    fn delta(&mut self, delta: &Delta) -> Vec<Bytes> {
        let mut frames: Vec<Bytes> = self.role().into_iter().collect();
        frames.extend(self.texts.separator(delta).map(|separator| chat::delta_chunk(&self.head(), &separator)));
        frames.push(chat::delta_chunk(&self.head(), delta));
        frames
    }

    fn finished(&mut self, finished: &Finished) -> Vec<Bytes> {
        let mut frames: Vec<Bytes> = self.role().into_iter().collect();
        let finish = &finished.answer.finish;
        frames.push(chat::finish_chunk(&self.head(), finish, finished.session.as_ref().map(session_object).as_ref()));
        if self.extras.usage {
            frames.push(chat::usage_chunk(&self.head(), finish.usage.as_ref()));
        }
        frames
    }

    fn fail(&mut self, _: &GatewayError, api_error: &ApiError, _: Option<&SessionView>) -> Vec<Bytes> {
        vec![sse::error_frame(api_error.body())]
    }
}
