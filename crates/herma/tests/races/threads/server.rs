//! A model server that gives each question its own answer, so that a test can tell from an answer which question it
//! belongs to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use herma_model::tokens::estimate;
use herma_testkit::upstream::{Ending, Pace};
use herma_testkit::{Completion, Gate, Recorded, Reply, ScriptedUpstream};

use super::steps::ModelAnswer;
use crate::long::is_summary;

/// The scripted answers, by the number of the question. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<HashMap<usize, Plan>>>);

/// The answer, and a gate that each of its pieces waits for.
type Plan = (ModelAnswer, Option<Gate>);

impl Server {
    /// Makes the server answer as scripted here.
    pub(super) fn install(upstream: &ScriptedUpstream) -> Self {
        let server = Self::default();
        let answering = server.clone();
        upstream.otherwise(move |request| answering.reply(request));
        server
    }

    /// Sets the answer to the question with this number.
    pub(super) fn script(&self, number: usize, answer: ModelAnswer) {
        self.0.lock().unwrap().insert(number, (answer, None));
    }

    /// Sets the answer. Each piece waits for the gate.
    pub(super) fn script_gated(&self, number: usize, answer: ModelAnswer, gate: &Gate) {
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
            ModelAnswer::Text(size) => said(size).usage(prompt, size as u64 + 8).into(),
            ModelAnswer::Error => Reply::status(400, "no"),
            ModelAnswer::CutOff => said(1).ending(Ending::CutOffAfter(1)).into(),
        }
    }
}

/// A unique text of about so many tokens.
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

/// The number in a question or another text from [`words`].
pub(super) fn number_of(text: &str) -> Option<usize> {
    text.strip_prefix("text ")?.split_once(':')?.0.parse().ok()
}
