//! Child processes that a test starts and may kill. They run this test binary; environment variables give the role.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use herma_model::provenance::CompactionMode;
use herma_model::{Seq, TurnState};
use herma_store::contract::World;
use herma_store::contract::fixture::{message, name, noted};
use herma_store::contract::summaries::undone;
use herma_store::{Admission, AdmitOutcome, MessageRange, Order, Pin, Store, StoreError};
use herma_store_sqlite::SqliteStore;

use crate::database::Existing;

const ROLE: &str = "HERMA_TEST_ROLE";
const FILE: &str = "HERMA_TEST_FILE";
/// Begins each line of a child's report, to tell it from lines of the test harness.
const REPORT: &str = "child: ";

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Starts a turn of `trip`, journals some text, and waits to be killed.
    Hold,
    /// Starts a turn of `trip` and appends to it until it is killed. Reports each acknowledged message.
    Append,
    /// Opens the store, reports how many messages `trip` has, and closes the store.
    Visit,
    /// Runs [`TURNS`] turns in conversations that other processes use too.
    Talk,
    /// Runs, fails, retracts and compacts turns until it is killed. Reports what was acknowledged.
    Storm,
    /// Runs turns until the disk is full, and reports the error.
    Fill,
    /// Starts a turn of `trip` and answers it when the file [`GO`] exists.
    Answer,
}

const ROLES: [Role; 7] = [Role::Hold, Role::Append, Role::Visit, Role::Talk, Role::Storm, Role::Fill, Role::Answer];

/// The extension of the file that makes a process of [`Role::Answer`] continue.
pub(crate) const GO: &str = "go";

/// The turns of each process of [`Role::Talk`].
pub(crate) const TURNS: usize = 200;
/// The conversations that these processes share.
pub(crate) const SHARED: [&str; 3] = ["talk-0", "talk-1", "talk-2"];

/// A child process with a role. Dropping it kills the process.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(role: Role, file: &Path) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), role, file)
    }

    /// Starts a process whose files cannot become larger than `blocks` blocks of the shell's `ulimit`.
    pub(crate) fn start_limited(role: Role, file: &Path, blocks: u32) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$0\" \"$@\""));
        shell.arg(std::env::current_exe().unwrap());
        Self::spawn(shell, role, file)
    }

    /// Changes the largest size of its files: a number of bytes, or `unlimited`.
    pub(crate) fn limit(&self, bytes: &str) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={bytes}:")).arg(format!("--pid={}", self.child.id()));
        assert!(command.status().unwrap().success());
    }

    fn spawn(mut command: Command, role: Role, file: &Path) -> Self {
        command
            .args(["--exact", "child::runs_as_a_child_process", "--nocapture"])
            .env(ROLE, format!("{role:?}"))
            .env(FILE, file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line of its report. `None` when it has ended.
    pub(crate) fn next_report(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.ok()?;
            // The harness prints the test's name before the first report, on the same line.
            if let Some((_, report)) = line.split_once(REPORT) {
                return Some(report.to_owned());
            }
        }
    }

    /// Kills it, and returns the lines of its report that were not read yet.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.next_report()).collect()
    }

    /// Waits until it ends with success. Returns the lines of its report that were not read yet.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let lines = std::iter::from_fn(|| self.next_report()).collect();
        assert!(self.child.wait().unwrap().success(), "{lines:?}");
        lines
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn report(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{REPORT}{what}").unwrap();
    out.flush().unwrap();
}

/// The child processes of other tests run this test. Without a role it does nothing.
#[test]
fn runs_as_a_child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let role = ROLES.into_iter().find(|known| format!("{known:?}") == role).unwrap();
    let file = PathBuf::from(std::env::var_os(FILE).unwrap());
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(async {
        let world = World::new(&Existing(file)).await;
        match role {
            Role::Hold => hold(&world).await,
            Role::Append => append(&world).await,
            Role::Visit => visit(&world).await,
            Role::Talk => talk(&world).await,
            Role::Storm => storm(&world).await,
            Role::Fill => fill(&world).await,
            Role::Answer => answer(&world).await,
        }
        world.one.close().await;
        world.two.close().await;
    });
}

async fn hold(world: &World<SqliteStore>) {
    let turn = world.start(&world.one, "trip", "first").await;
    world.one.journal(turn.lease, noted("it was "));
    world.one.journal(turn.lease, noted("so"));
    world.queue(&world.two, world.ask("trip", "will never go")).await;
    world.settle(&world.one).await;
    report("holding");
    std::future::pending::<()>().await;
}

async fn append(world: &World<SqliteStore>) {
    let turn = world.start(&world.one, "trip", "first").await;
    for nth in 0.. {
        // Journal a part of a message, then append the whole message.
        world.one.journal(turn.lease, noted("part"));
        world.append(&world.one, &turn, nth, &format!("part {nth}")).await.unwrap();
        report(&format!("part {nth}"));
    }
}

async fn visit(world: &World<SqliteStore>) {
    let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 1000, pin: Pin::Head };
    let page = world.one.messages(&world.scope, &name("trip"), range).await.unwrap();
    report(&page.map_or(0, |page| page.entries.len()).to_string());
}

async fn talk(world: &World<SqliteStore>) {
    let mut speakers = tokio::task::JoinSet::new();
    for speaker in 0..4 {
        let world = world.clone();
        speakers.spawn(async move {
            let store = if speaker % 2 == 0 { &world.one } else { &world.two };
            for number in 0..TURNS / 4 {
                talk_when_admitted(&world, store, SHARED[(speaker + number) % SHARED.len()]).await;
            }
        });
    }
    speakers.join_all().await;
}

async fn talk_when_admitted(world: &World<SqliteStore>, store: &Arc<SqliteStore>, to: &str) -> Seq {
    let mut ask = world.ask(to, "hello");
    loop {
        match world.admit(store, ask.clone()).await {
            AdmitOutcome::Running(turn) => return world.answer(store, &turn, "hi").await.messages[0].seq,
            AdmitOutcome::Queued { ticket, .. } => ask.ticket = Some(ticket),
            other => panic!("{other:?}"),
        }
        tokio::task::yield_now().await;
    }
}

async fn storm(world: &World<SqliteStore>) {
    report("storming");
    let mut speakers = tokio::task::JoinSet::new();
    for (speaker, to) in SHARED.into_iter().enumerate() {
        let world = world.clone();
        speakers.spawn(async move {
            let store = &world.one;
            for number in speaker.. {
                let seq = talk_when_admitted(&world, store, to).await;
                report(&format!("said {to} {}", seq.0));
                let mut turn = world.start(&world.two, to, "unfinished").await;
                world.two.journal(turn.lease, noted("half an ans"));
                match number % 5 {
                    0 => drop(world.leave(&world.two, &turn, TurnState::Failed, Some("half")).await),
                    1 => world.two.retract(turn.lease).await.unwrap(),
                    2 => {
                        let waiting = world.queue(store, world.ask(to, "impatient")).await;
                        world.answer(&world.two, &turn, "whole").await;
                        world.withdraw(store, &world.scope, waiting.turn).await;
                    }
                    3 => {
                        let done = world.compact_during(&world.two, &mut turn, CompactionMode::Split, "so far").await;
                        report(&format!("moved {to} {}", done.facts.head.id));
                        world.answer(&world.two, &turn, "whole").await;
                    }
                    _ => {
                        world.compact_during(&world.two, &mut turn, CompactionMode::InPlace, "so far").await;
                        world.two.retract(turn.lease).await.unwrap();
                        let done = world.compact(store, to, CompactionMode::Split, "further").await;
                        report(&format!("moved {to} {}", done.facts.head.id));
                        undone(world.undo(&world.two, to, done.record.id).await);
                    }
                }
            }
        });
    }
    speakers.join_all().await;
}

/// How long to wait for a commit on a full disk.
const COMMIT_WAIT: Duration = Duration::from_secs(2);

/// Answers a turn when the file [`GO`] exists. Reports that the commit waits, and that it is written.
async fn answer(world: &World<SqliteStore>) {
    let turn = world.start(&world.one, "trip", "is there room?").await;
    world.settle(&world.one).await;
    report("started");
    let signal = PathBuf::from(std::env::var_os(FILE).unwrap()).with_extension(GO);
    while !signal.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut answered = std::pin::pin!(world.try_answer(&world.one, &turn, "plenty"));
    if tokio::time::timeout(COMMIT_WAIT, &mut answered).await.is_err() {
        report("waiting");
    }
    answered.await.unwrap();
    report("written");
}

async fn fill(world: &World<SqliteStore>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let big = "x".repeat(100_000);
    loop {
        let mut ask = Admission { messages: vec![message(herma_model::Role::User, &big)], ..world.ask("trip", "") };
        ask.seen = world.seen(&world.one, &ask).await;
        let outcome = match world.one.admit(ask).await {
            Ok(AdmitOutcome::Running(mut turn)) => match turn.durable.wait().await {
                // The store retries a commit while the disk is full. So this waits only a short time.
                Ok(()) => match tokio::time::timeout(COMMIT_WAIT, world.try_answer(&world.one, &turn, &big)).await {
                    Ok(outcome) => outcome.map(drop),
                    Err(_) => Err(StoreError::Unavailable("the commit still waits".to_owned())),
                },
                Err(error) => Err(error),
            },
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {}
            Err(StoreError::Unavailable(why)) => return report(&format!("unavailable {why}")),
            Err(other) => panic!("{other}"),
        }
    }
}
