//! A model server that answers every question with words of its own, so that whoever sees them knows what they answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use herma_model::tokens::estimate;
use herma_testkit::upstream::{Ending, Pace};
use herma_testkit::{Completion, Gate, Recorded, Reply, ScriptedUpstream};

use super::steps::Answer;
use crate::long::is_summary;

/// What the model server does. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<HashMap<usize, Plan>>>);

/// How a question is answered, and what holds the answer up.
type Plan = (Answer, Option<Gate>);

impl Server {
    /// Has a server do as told here.
    pub(super) fn behind(upstream: &ScriptedUpstream) -> Self {
        let server = Self::default();
        let told = server.clone();
        upstream.otherwise(move |request| told.reply(request));
        server
    }

    /// Sets how the question of this number is answered.
    pub(super) fn will(&self, number: usize, answer: Answer) {
        self.0.lock().unwrap().insert(number, (answer, None));
    }

    /// The same, each piece when the gate lets it pass.
    pub(super) fn will_when(&self, number: usize, answer: Answer, gate: &Gate) {
        self.0.lock().unwrap().insert(number, (answer, Some(gate.clone())));
    }

    fn reply(&self, request: &Recorded) -> Reply {
        if is_summary(request) {
            return Reply::text("They spoke of this and that.");
        }
        let number = number_of(&request.last_user_text()).expect("a question with a number");
        let (answer, gate) = self.0.lock().unwrap().get(&number).cloned().expect("a question that was asked");
        let pace = gate.map_or(Pace::AtOnce, Pace::Gated);
        let said = |size| Completion::chunks([beginning(number), rest(size)]).pace(pace);
        let prompt = request.messages().iter().map(|message| u64::from(estimate(&message.to_string()))).sum();
        match answer {
            Answer::Text(size) => said(size).usage(prompt, size as u64 + 8).into(),
            Answer::Error => Reply::status(400, "no"),
            Answer::CutOff => said(1).ending(Ending::CutOffAfter(1)).into(),
        }
    }
}

/// Something to say, of about so many tokens, unlike anything else.
pub(super) fn words(number: usize, size: usize) -> String {
    format!("text {number}: {}", rest(size))
}

/// How the answer to a question begins.
pub(super) fn beginning(number: usize) -> String {
    format!("answer {number}: ")
}

/// The whole answer to a question.
pub(super) fn answer(number: usize, size: usize) -> String {
    format!("{}{}", beginning(number), rest(size))
}

fn rest(size: usize) -> String {
    format!("so {}it is", "on and ".repeat(size / 2))
}

/// The number of something that was said.
pub(super) fn number_of(text: &str) -> Option<usize> {
    text.strip_prefix("text ")?.split_once(':')?.0.parse().ok()
}
