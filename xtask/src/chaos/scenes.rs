//! Scenes: short scripts for rare situations, which random work meets too seldom.
//!
//! A scene differs from other work only because it times its own kill or pause. Its client records results as every
//! client does, and the checker does not know about scenes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::apis::{Api, HangUp};
use super::client::{PendingTurn, Worker};
use super::disruptions::{self, LEASE};
use super::history::Retries;
use super::marks::pick;
use super::model::{SLOW, SURE};
use super::options::Situation;
use super::plan::Plan;

/// Values of [`Plan::choices`]: all requests go to process 1, or the first to process 0 and the retries to process 1.
const AT_1: u64 = 0xff << 16;
const AT_0_THEN_1: u64 = 0xfe << 16;

impl Worker {
    /// Plays scenes until the deadline.
    pub(super) async fn play(mut self, deadline: Instant) {
        let all: [(&str, &[Situation]); 5] = [
            ("waiting", &[Situation::Kills, Situation::HangUps]),
            ("overtaking", &[Situation::Pauses, Situation::HangUps]),
            ("hanging up", &[Situation::HangUps, Situation::CountedRetries]),
            ("stopped", &[Situation::LongPauses]),
            ("locked", &[Situation::LongLocks]),
        ];
        let possible = |needs: &[Situation]| needs.iter().all(|one| self.options.has(*one));
        let scenes: Vec<&str> = all.iter().filter(|(_, needs)| possible(needs)).map(|(name, _)| *name).collect();
        let mut number = 0;
        while Instant::now() < deadline && number < 200 && !scenes.is_empty() {
            // Each scene uses at most four messages.
            let first = number * 4;
            let opening = self.scene(SURE + first, Retries::Keyed, AT_1);
            self.finish(opening).await;
            match pick(&scenes, &mut self.random) {
                "waiting" => self.waiting_process_is_killed(first).await,
                "overtaking" => self.retry_overtakes_its_original(first).await,
                "hanging up" => self.client_hangs_up_while_the_answer_is_written(first).await,
                "locked" => self.store_is_locked_when_the_answer_ends(first).await,
                _ => self.streaming_process_is_stopped(first).await,
            }
            self.recorder.count("scenes");
            number += 1;
        }
    }

    /// A request waits in process 0 for a turn of process 1. Its client retries at process 1. Then process 0 is
    /// killed.
    async fn waiting_process_is_killed(&mut self, first: u32) {
        let mut running = self.scene(SLOW + first, Retries::Never, AT_1);
        let retries = self.retries();
        let mut waiting = self.scene(SURE + first + 1, retries, AT_0_THEN_1);
        waiting.plan.hangs_up = Some(HangUp::After(self.moment(300, 300)));
        let (before, until_killed, away) = (self.moment(200, 200), self.moment(700, 900), self.moment(100, 900));
        tokio::join!(
            self.ask(&mut running),
            async {
                tokio::time::sleep(before).await;
                self.ask(&mut waiting).await
            },
            async {
                tokio::time::sleep(before + until_killed).await;
                let _claim = self.deployment.claim(0).await;
                self.recorder.count("kills");
                self.deployment.kill(0).await;
                tokio::time::sleep(away).await;
                self.deployment.revive().await;
            },
        );
    }

    /// Process 0 is stopped while it has a request. Its client retries at process 1 and gets the answer. Then process
    /// 0 resumes.
    async fn retry_overtakes_its_original(&mut self, first: u32) {
        let retries = self.retries();
        let mut asked = self.scene(SURE + first + 1, retries, AT_0_THEN_1);
        asked.plan.hangs_up = Some(HangUp::After(self.moment(200, 600)));
        let (early, length) = (self.moment(0, 60), self.moment(1500, 1500));
        let deployment = Arc::clone(&self.deployment);
        let _claim = deployment.claim(0).await;
        tokio::join!(disruptions::pause(0, &self.deployment, &self.recorder, length), async {
            tokio::time::sleep(early).await;
            self.ask(&mut asked).await
        });
    }

    /// The client hangs up when the answer begins to arrive, and retries with its history.
    async fn client_hangs_up_while_the_answer_is_written(&mut self, first: u32) {
        let servers = pick(&[AT_1, AT_0_THEN_1, 0], &mut self.random);
        let mut asked = self.scene(SURE + first + 1, Retries::Counted, servers);
        asked.plan.hangs_up = Some(HangUp::AtFirstBytes);
        self.ask(&mut asked).await;
    }

    /// Process 0 is stopped for longer than its lease while it streams. A turn at process 1 takes the conversation
    /// over.
    async fn streaming_process_is_stopped(&mut self, first: u32) {
        let api = Api::Chat { is_streamed: true };
        let mut streamed = self.scene_by(api, SLOW + first, Retries::Never, 0);
        let mut next = self.scene(SURE + first + 1, Retries::Keyed, AT_1);
        let (shown, length) = (self.moment(500, 1500), LEASE + self.moment(1000, 3000));
        let deployment = Arc::clone(&self.deployment);
        let _claim = deployment.claim(0).await;
        self.recorder.count("long pauses");
        tokio::join!(self.ask(&mut streamed), async {
            tokio::time::sleep(shown).await;
            tokio::join!(disruptions::pause(0, &self.deployment, &self.recorder, length), self.ask(&mut next));
        });
    }

    /// Another program locks the store while an answer is streamed, and holds the lock for more than 6 s.
    async fn store_is_locked_when_the_answer_ends(&mut self, first: u32) {
        let api = Api::Chat { is_streamed: true };
        let mut asked = self.scene_by(api, SURE + first + 1, Retries::Never, AT_1);
        let (shown, length) = (self.moment(50, 150), self.moment(6100, 1500));
        tokio::join!(self.ask(&mut asked), async {
            tokio::time::sleep(shown).await;
            disruptions::hold_the_lock(&self.deployment, &self.recorder, length).await;
        });
    }

    async fn finish(&self, mut asked: PendingTurn) {
        self.ask(&mut asked).await;
    }

    /// A chat turn in the worker's own conversation, with the history that the client has.
    fn scene(&mut self, number: u32, retries: Retries, servers: u64) -> PendingTurn {
        let is_streamed = self.random.below(2) == 0;
        self.scene_by(Api::Chat { is_streamed }, number, retries, servers)
    }

    fn scene_by(&mut self, api: Api, number: u32, retries: Retries, servers: u64) -> PendingTurn {
        let drawn = Plan::draw(&self.options, &mut self.random);
        let plan = Plan {
            is_shared: false,
            api,
            brings_history: true,
            branches: false,
            calls_tool: false,
            policy: None,
            retries,
            hangs_up: None,
            patience: Duration::from_secs(40),
            choices: servers,
            ..drawn
        };
        self.begin(self.first + number, Arc::clone(&self.own), plan)
    }

    fn retries(&mut self) -> Retries {
        pick(&[Retries::Keyed, Retries::Counted], &mut self.random)
    }

    /// A random time: at least `least` milliseconds, and less than `more` milliseconds longer.
    fn moment(&mut self, least: u64, more: u64) -> Duration {
        Duration::from_millis(least + self.random.below(more))
    }
}
