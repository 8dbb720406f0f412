//! Processes that a test starts and may kill: this very binary, told what to do by variables.

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
/// Marks the lines that are ours among those of the test harness.
const MARK: &str = "child: ";

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Starts a turn of `trip`, shows some text, and waits to be killed.
    Hold,
    /// Starts a turn of `trip` and appends to it until it is killed. Says what was acknowledged.
    Append,
    /// Opens and closes the store, and says how many messages `trip` has.
    Visit,
    /// Talks a while in conversations that others use too.
    Talk,
    /// Does all kinds of things until it is killed, and says what was acknowledged.
    Storm,
    /// Talks until the disk is full, and says what it was told.
    Fill,
    /// Starts a turn of `trip` and answers it once a file [`GO`] is there.
    Answer,
}

const ROLES: [Role; 7] = [Role::Hold, Role::Append, Role::Visit, Role::Talk, Role::Storm, Role::Fill, Role::Answer];

/// The extension of the file that has a process of [`Role::Answer`] go on.
pub(crate) const GO: &str = "go";

/// Turns that each process of [`Role::Talk`] talks.
pub(crate) const TURNS: usize = 200;
/// Conversations that they share.
pub(crate) const SHARED: [&str; 3] = ["talk-0", "talk-1", "talk-2"];

/// A process of a role. Killed, if it still lives, when it goes out of scope.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(role: Role, file: &Path) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), role, file)
    }

    /// Starts a process whose files cannot grow past a number of the shell's blocks.
    pub(crate) fn start_limited(role: Role, file: &Path, blocks: u32) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$0\" \"$@\""));
        shell.arg(std::env::current_exe().unwrap());
        Self::spawn(shell, role, file)
    }

    /// Lets its files grow up to so many bytes from now on, or without a limit.
    pub(crate) fn limit(&self, bytes: &str) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={bytes}:")).arg(format!("--pid={}", self.child.id()));
        assert!(command.status().unwrap().success());
    }

    fn spawn(mut command: Command, role: Role, file: &Path) -> Self {
        command
            .args(["--exact", "child::is_a_process_of_its_own", "--nocapture"])
            .env(ROLE, format!("{role:?}"))
            .env(FILE, file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next thing it says; nothing when it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.ok()?;
            // The harness prints the test's name without a line break before what the test prints.
            if let Some((_, said)) = line.split_once(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// Ends it without notice, and gives back what it had said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.hear()).collect()
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let said = std::iter::from_fn(|| self.hear()).collect();
        assert!(self.child.wait().unwrap().success(), "{said:?}");
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{what}").unwrap();
    out.flush().unwrap();
}

/// What the processes run that other tests start; without a role there is nothing to do.
#[test]
fn is_a_process_of_its_own() {
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
    say("holding");
    std::future::pending::<()>().await;
}

async fn append(world: &World<SqliteStore>) {
    let turn = world.start(&world.one, "trip", "first").await;
    for nth in 0.. {
        // Part of a message is shown, then the whole of it is appended.
        world.one.journal(turn.lease, noted("part"));
        world.append(&world.one, &turn, nth, &format!("part {nth}")).await.unwrap();
        say(&format!("part {nth}"));
    }
}

async fn visit(world: &World<SqliteStore>) {
    let range = MessageRange { order: Order::OldestFirst { after: None }, limit: 1000, pin: Pin::Head };
    let page = world.one.messages(&world.scope, &name("trip"), range).await.unwrap();
    say(&page.map_or(0, |page| page.entries.len()).to_string());
}

async fn talk(world: &World<SqliteStore>) {
    let mut speakers = tokio::task::JoinSet::new();
    for speaker in 0..4 {
        let world = world.clone();
        speakers.spawn(async move {
            let store = if speaker % 2 == 0 { &world.one } else { &world.two };
            for number in 0..TURNS / 4 {
                say_patiently(&world, store, SHARED[(speaker + number) % SHARED.len()]).await;
            }
        });
    }
    speakers.join_all().await;
}

async fn say_patiently(world: &World<SqliteStore>, store: &Arc<SqliteStore>, to: &str) -> Seq {
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
    say("storming");
    let mut speakers = tokio::task::JoinSet::new();
    for (speaker, to) in SHARED.into_iter().enumerate() {
        let world = world.clone();
        speakers.spawn(async move {
            let store = &world.one;
            for number in speaker.. {
                let seq = say_patiently(&world, store, to).await;
                say(&format!("said {to} {}", seq.0));
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
                        say(&format!("moved {to} {}", done.facts.head.id));
                        world.answer(&world.two, &turn, "whole").await;
                    }
                    _ => {
                        world.compact_during(&world.two, &mut turn, CompactionMode::InPlace, "so far").await;
                        world.two.retract(turn.lease).await.unwrap();
                        let done = world.compact(store, to, CompactionMode::Split, "further").await;
                        say(&format!("moved {to} {}", done.facts.head.id));
                        undone(world.undo(&world.two, to, done.record.id).await);
                    }
                }
            }
        });
    }
    speakers.join_all().await;
}

/// How long a commit is waited for that no disk space is left for.
const WAITED: Duration = Duration::from_secs(2);

/// Answers a turn once it is told to, and says when that still waits and when it is written.
async fn answer(world: &World<SqliteStore>) {
    let turn = world.start(&world.one, "trip", "is there room?").await;
    world.settle(&world.one).await;
    say("started");
    let told = PathBuf::from(std::env::var_os(FILE).unwrap()).with_extension(GO);
    while !told.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut answered = std::pin::pin!(world.try_answer(&world.one, &turn, "plenty"));
    if tokio::time::timeout(WAITED, &mut answered).await.is_err() {
        say("waiting");
    }
    answered.await.unwrap();
    say("written");
}

async fn fill(world: &World<SqliteStore>) {
    world.talk(&world.one, "trip", "hello", "hi").await;
    let big = "x".repeat(100_000);
    loop {
        let mut ask = Admission { messages: vec![message(herma_model::Role::User, &big)], ..world.ask("trip", "") };
        ask.seen = world.seen(&world.one, &ask).await;
        let outcome = match world.one.admit(ask).await {
            Ok(AdmitOutcome::Running(mut turn)) => match turn.durable.wait().await {
                // A commit is tried again for as long as the disk is full, so only a short wait for it ends here.
                Ok(()) => match tokio::time::timeout(WAITED, world.try_answer(&world.one, &turn, &big)).await {
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
            Err(StoreError::Unavailable(why)) => return say(&format!("unavailable {why}")),
            Err(other) => panic!("{other}"),
        }
    }
}
