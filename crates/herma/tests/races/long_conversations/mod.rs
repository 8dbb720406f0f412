//! Random steps on one long conversation.
//!
//! Invariants: the conversation has one head and one chain of sessions, and every id leads to it. Every message is
//! there once. Tool calls have their results. The model is shown what the model view says.

mod checks;
mod model;
mod scenario;
mod steps;

use proptest::test_runner::{Config, TestRunner};

use scenario::LongScenario;
use steps::{Step, scenarios};

/// The context window of the model, in tokens.
const WINDOW: u64 = 4_000;

#[test]
fn whatever_happens_a_long_conversation_stays_one_and_loses_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { cases: 12, max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&scenarios(), |(mode, steps)| {
            runtime.block_on(play(mode, &steps));
            Ok(())
        })
        .unwrap();
}

async fn play(mode: &'static str, steps: &[Step]) {
    let mut scenario = LongScenario::begin(mode).await;
    for step in steps {
        scenario.step(step).await;
    }
    scenario.settle().await;
}
