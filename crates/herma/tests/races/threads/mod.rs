//! Whatever happens to conversations that are continued by slug, by response and by any other name, each slug keeps leading to one
//! conversation, each conversation is what was said in it, in order and once, and each response is what it was.

mod apis;
mod at_once;
mod book;
mod checks;
mod life;
mod server;
mod steps;

use proptest::test_runner::{Config, TestRunner};

use life::Life;
use steps::{Step, lives};

/// How many tokens fit.
const WINDOW: &str = "2000";
/// The names that clients choose.
const SLUGS: [&str; 3] = ["red", "green", "blue"];
/// After how many steps everything is looked at.
const LOOK: usize = 6;

#[test]
fn whatever_happens_a_slug_is_one_conversation_with_one_history() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { cases: cases(), max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&lives(), |(mode, steps)| {
            runtime.block_on(live(mode, &steps));
            Ok(())
        })
        .unwrap();
}

/// How many lives are lived: a few, or as many as `PROPTEST_CASES` says.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(8)
}

async fn live(mode: &'static str, steps: &[Step]) {
    let mut life = Life::begin(mode).await;
    for (number, step) in steps.iter().enumerate() {
        life.step(step).await;
        if number % LOOK == LOOK - 1 {
            life.holds_together().await;
        }
    }
    life.holds_together().await;
    life.leaves_nothing_behind().await;
}
