//! Random steps on conversations that are continued by slug, by response id and by other names.
//!
//! Invariants: each slug leads to one conversation. Each conversation has each of its messages once and in order. A
//! stored response does not change.

mod apis;
mod at_once;
mod checks;
mod reference;
mod scenario;
mod server;
mod steps;

use proptest::test_runner::{Config, TestRunner};

use scenario::ThreadScenario;
use steps::{Step, scenarios};

/// The context window of the model, in tokens.
const WINDOW: &str = "2000";
/// The names that clients choose.
const SLUGS: [&str; 3] = ["red", "green", "blue"];
/// All invariants are checked after this many steps.
const CHECK_EVERY: usize = 6;

#[test]
fn whatever_happens_a_slug_is_one_conversation_with_one_history() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { cases: cases(), max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&scenarios(), |(mode, steps)| {
            runtime.block_on(play(mode, &steps));
            Ok(())
        })
        .unwrap();
}

/// The number of random cases; `PROPTEST_CASES` overrides it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(8)
}

async fn play(mode: &'static str, steps: &[Step]) {
    let mut scenario = ThreadScenario::begin(mode).await;
    for (number, step) in steps.iter().enumerate() {
        scenario.step(step).await;
        if number % CHECK_EVERY == CHECK_EVERY - 1 {
            scenario.check_invariants().await;
        }
    }
    scenario.check_invariants().await;
    scenario.check_settled().await;
}
