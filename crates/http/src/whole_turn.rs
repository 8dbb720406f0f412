//! A turn that has ended, as the pieces and steps that a stream would have had. For streams that join a turn which was
//! not streamed.

use herma_gateway::Finished;
use herma_model::{Answer, Delta, MessageId, MessageStatus, Step};
use herma_wire::chat::{answer_of, whole_answer_deltas};

/// A piece of a turn.
pub(crate) enum Piece<'a> {
    Delta(Delta),
    /// A step, and the id of the next model message.
    Step(&'a Step, MessageId),
}

/// The pieces and steps of a turn, in order. The message that ends it is no step.
pub(crate) fn whole_turn(finished: &Finished) -> Vec<Piece<'_>> {
    let steps = &finished.steps;
    let mut pieces = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let later = steps[at + 1..].iter().find_map(Step::model_message);
        let next = later.map_or(finished.message.id, |message| message.id);
        let Some(message) = step.model_message() else {
            pieces.push(Piece::Step(step, next));
            continue;
        };
        let own = message.said.own_calls();
        let mut shown = answer_of(&message.said, finished.answer.finish.clone());
        if own.is_empty() {
            pieces.extend(deltas(&shown));
            continue;
        }
        // Calls of the client's tools come after the results of the other calls.
        shown.tool_calls.clear();
        pieces.extend(deltas(&shown));
        if message.said.status == MessageStatus::Complete {
            pieces.push(Piece::Step(step, next));
        }
    }
    if !finished.message.said.own_calls().is_empty() {
        let tool_calls = finished.answer.tool_calls.clone();
        let calls = Answer { tool_calls, ..Answer::of_nothing(finished.answer.finish.clone()) };
        pieces.extend(deltas(&calls));
    }
    pieces
}

fn deltas<'a>(answer: &Answer) -> Vec<Piece<'a>> {
    whole_answer_deltas(answer).into_iter().map(Piece::Delta).collect()
}
