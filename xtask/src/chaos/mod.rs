//! `cargo xtask chaos`: two processes on one store, many clients, kills, pauses, retries, failures; then a check.
//!
//! A run has rounds. In a round, clients use new conversations while both processes are disturbed. When all turns
//! have ended, everything is read back over HTTP. The checker compares it with the records of the clients and the
//! model server. At the end of the run the ids of all rounds are looked up again.
//!
//! The seed decides all random choices: what clients ask, how they retry, what the model server answers, and what
//! happens to the processes. It does not decide the timing, so a second run with the same seed can end differently.

mod apis;
mod checker;
mod client;
mod deletion;
mod deployment;
mod disruptions;
mod history;
mod marks;
mod model;
mod options;
mod plan;
mod readback;
mod recorder;
mod report;
mod scenes;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser as _;

use checker::check;
use client::{ClientConversation, Worker};
use deployment::Deployment;
use history::{HandedId, ReadBack, Thread};
use model::Model;
use options::{Options, Situation};
use recorder::Recorder;

/// The prefix of all names that clients choose. No message contains it.
const NAMES: &str = "chaos-name-";
/// The number of conversations per tenant that all its clients share.
const SHARED: usize = 2;
/// How long clients work in a round.
const ROUND: Duration = Duration::from_secs(24);

/// Runs the test with these arguments.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let options = Options::parse_from(std::iter::once("cargo xtask chaos").chain(arguments.iter().map(String::as_str)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(rounds(options))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all rounds. Returns true if there are no findings.
async fn rounds(options: Options) -> io::Result<bool> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let seed = options.seed.unwrap_or(clock);
    let again = options.command(seed);
    println!("seed {seed}: {again}");
    let model = Model::new(seed, options.has(Situation::ModelFailures));
    let deployment = Arc::new(Deployment::start(&model, options.has(Situation::Splits)).await?);
    let (options, recorder) = (Arc::new(options), Arc::new(Recorder::default()));
    let deadline = Instant::now() + options.duration();
    let mut earlier = EarlierRounds::default();
    let mut is_clean = true;
    let mut round = 0;
    while (is_clean || options.keep_going) && (round == 0 || Instant::now() + ROUND / 2 < deadline) {
        is_clean &= run_round(&deployment, &recorder, &options, (seed, round), Instant::now() + ROUND).await;
        is_clean &= check_round(&deployment, &recorder, &model, &mut earlier).await;
        println!("{} s: {}", deployment.now() / 1000, recorder.summary());
        round += 1;
    }
    is_clean = is_clean && earlier.check_ids(&deployment, &recorder).await;
    if is_clean {
        let wrong = deletion::check(&deployment, &earlier.ids, &earlier.last).await;
        wrong.iter().for_each(|wrong| println!("\nBROKEN: a deleted conversation is gone, and only it: {wrong}"));
        is_clean = wrong.is_empty();
    }
    println!("{} s, {round} rounds, seed {seed}: {}", deployment.now() / 1000, recorder.summary());
    deployment.end(!is_clean).await?;
    if !is_clean {
        println!("Seed {seed}; data and logs are in {}. The same plan again:\n  {again}", deployment.data().display());
    }
    println!("{}", if is_clean { "nothing is broken" } else { "a promise is broken" });
    Ok(is_clean)
}

/// One round: until the deadline, clients send requests and processes are disturbed. At the end both processes run.
/// Returns false if a task panicked.
async fn run_round(
    deployment: &Arc<Deployment>,
    recorder: &Arc<Recorder>,
    options: &Arc<Options>,
    (seed, round): (u64, u64),
    deadline: Instant,
) -> bool {
    let new_conversation = |tenant: usize, name: String| {
        let thread = recorder.add_thread(Thread { name: name.clone(), tenant });
        Arc::new(ClientConversation::new(thread, tenant, name))
    };
    let shared: Vec<Vec<Arc<ClientConversation>>> = (0..2)
        .map(|tenant| {
            (0..SHARED).map(|number| new_conversation(tenant, format!("{NAMES}{round}-shared-{number}"))).collect()
        })
        .collect();
    let mut tasks = tokio::task::JoinSet::new();
    // The last worker plays scenes.
    for number in 0..=options.clients {
        // A third of the clients belong to tenant 1. Both tenants use the same names, for different conversations.
        let tenant = usize::from(number % 3 == 2);
        let worker = Worker {
            deployment: Arc::clone(deployment),
            recorder: Arc::clone(recorder),
            options: Arc::clone(options),
            random: marks::stream(seed, (round << 32) | (1 << 24) | number),
            first: u32::try_from((round * (options.clients + 1) + number) * u64::from(model::EACH)).unwrap_or(u32::MAX),
            own: new_conversation(
                tenant,
                format!("{NAMES}{round}-own-{}", if tenant == 1 { number - 2 } else { number }),
            ),
            shared: shared[tenant].clone(),
        };
        if number < options.clients {
            tasks.spawn(worker.work(deadline));
        } else {
            tasks.spawn(worker.play(deadline));
        }
    }
    for server in 0..2 {
        let random = marks::stream(seed, (round << 32) | (2 << 24) | server as u64);
        let tools = (Arc::clone(deployment), Arc::clone(recorder), Arc::clone(options));
        tasks.spawn(disruptions::disturb(server, tools, random, deadline));
    }
    let mut is_clean = true;
    while let Some(done) = tasks.join_next().await {
        if let Err(panic) = done {
            println!("\nBROKEN: every process starts, ends and answers in time: {panic}");
            is_clean = false;
        }
    }
    deployment.revive().await;
    is_clean
}

/// Reads back and checks what the round left. Returns true if there are no findings.
async fn check_round(
    deployment: &Arc<Deployment>,
    recorder: &Recorder,
    model: &Model,
    earlier: &mut EarlierRounds,
) -> bool {
    let mut history = recorder.take();
    let read = match readback::settled(deployment, &history, &earlier.conversations).await {
        Ok(read) => read,
        Err(unsettled) => {
            println!("\nBROKEN: every turn ends: {unsettled}");
            return false;
        }
    };
    history.calls = model.take_calls();
    history.executions = deployment.executions();
    deployment.renew_upstream(model).await;
    let findings = check(&history, &read);
    recorder.count_many("conversations checked", read.conversations.len() as u64);
    recorder.count_many("rows checked", read.conversations.iter().map(|one| one.full.len() as u64).sum());
    recorder.count_many("model calls checked", history.calls.len() as u64);
    let results = history.calls.iter().flat_map(|call| &call.messages).filter(|line| line.role == "tool");
    recorder.count_many("tool results in model calls checked", results.count() as u64);
    recorder.count_many("ids checked", read.resolved.len() as u64);
    let splits: usize = read.conversations.iter().map(|one| one.sessions.len().saturating_sub(1)).sum();
    recorder.count_many("splits", splits as u64);
    report::print(&findings, &history, &read);
    recorder.count_many("findings", findings.len() as u64);
    earlier.conversations.extend(read.conversations.iter().map(|one| one.id.clone()));
    earlier.ids.extend(history.ids);
    earlier.last = read;
    findings.is_empty()
}

/// The ids and conversations of earlier rounds. Later rounds must not change them.
#[derive(Debug, Default)]
struct EarlierRounds {
    conversations: BTreeSet<String>,
    ids: Vec<HandedId>,
    /// What the last round left.
    last: ReadBack,
}

impl EarlierRounds {
    /// Checks that every id of every round still leads to its conversation.
    async fn check_ids(&mut self, deployment: &Deployment, recorder: &Recorder) -> bool {
        self.ids.sort();
        self.ids.dedup();
        let resolved = readback::resolve(deployment, &self.ids).await;
        recorder.count_many("ids checked at the end", resolved.len() as u64);
        let homes: BTreeMap<(usize, &str), &str> =
            self.ids.iter().map(|one| ((one.tenant, one.id.as_str()), one.conversation.as_str())).collect();
        let moved = resolved
            .iter()
            .filter(|one| one.conversation.as_deref() != homes.get(&(one.tenant, one.id.as_str())).copied());
        let mut is_clean = true;
        for one in moved {
            println!("\nBROKEN: {} leads to {:?} at the end", one.id, one.conversation);
            is_clean = false;
        }
        is_clean
    }
}
