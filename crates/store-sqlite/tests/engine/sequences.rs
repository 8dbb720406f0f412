//! Random sequences of actions by two stores on one file. The invariants must hold after each sequence.

use std::sync::Arc;

use herma_model::provenance::CompactionMode;
use herma_model::{Alias, ApprovalChoice, EndReason, MessageStatus, Resolution, SessionKind, TurnId, TurnState};
use herma_store::contract::parking;
use herma_store::contract::summaries::new_id;
use herma_store::contract::{Engine, World};
use herma_store::{
    Admission, AdmitOutcome, AnswerOutcome, Authority, BranchOutcome, BranchPoint, Children, CompactOutcome,
    CreateOutcome, DeleteOutcome, EndOutcome, Extent, NewCompaction, PinOutcome, Question, Refusal, RewindOutcome,
    RewindPoint, RewriteOutcome, Running, Store, StoreError, Target, TurnPolicy, UndoOutcome,
};
use herma_store_sqlite::SqliteStore;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

use crate::copies;
use crate::database::{Database, check_file};

const NAMES: [&str; 2] = ["trip", "train"];

/// One action. The numbers choose among the existing names, turns and messages; `second` chooses the store.
#[derive(Debug, Clone, Copy)]
enum Action {
    Ask { second: bool, name: u8, policy: TurnPolicy },
    Branch { second: bool, turn: u8 },
    AskWithTicket(u8),
    Answer(u8),
    Fail { turn: u8, shown: bool },
    Retract(u8),
    Withdraw(u8),
    Retry { second: bool, name: u8 },
    BeginAnew { second: bool, name: u8, turn: u8 },
    Journal(u8),
    Reopen { second: bool },
    Compact { second: bool, name: u8, mode: CompactionMode },
    CompactDuring { turn: u8, mode: CompactionMode },
    Append(u8),
    Park { turn: u8, calls: u8 },
    Reply { second: bool, turn: u8, question: u8, choice: u8 },
    Resume { second: bool, turn: u8 },
    Undo { second: bool, name: u8 },
    Pin { name: u8, message: u8, pinned: bool },
    Create { second: bool, name: u8 },
    Delete { second: bool, name: u8 },
    Rewrite { second: bool, name: u8, message: u8, removed: bool },
    BranchAt { second: bool, name: u8, message: Option<u8> },
    Delegate { second: bool, name: u8 },
    DeleteFamily { second: bool, name: u8 },
    EndOrReopen { second: bool, name: u8, ended: bool },
    Rewind { second: bool, name: u8, turns: u8 },
    RewindTo { second: bool, name: u8, message: u8 },
    Restore { second: bool, name: u8 },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let policy = || {
        prop_oneof![
            4 => proptest::strategy::Just(TurnPolicy::Queue),
            1 => proptest::strategy::Just(TurnPolicy::Reject),
            1 => proptest::strategy::Just(TurnPolicy::Interrupt),
            2 => proptest::strategy::Just(TurnPolicy::Branch),
        ]
    };
    let mode = || {
        prop_oneof![proptest::strategy::Just(CompactionMode::Split), proptest::strategy::Just(CompactionMode::InPlace)]
    };
    let action = prop_oneof![
        6 => (any::<bool>(), any::<u8>(), policy())
            .prop_map(|(second, name, policy)| Action::Ask { second, name, policy }),
        3 => (any::<bool>(), any::<u8>()).prop_map(|(second, turn)| Action::Branch { second, turn }),
        4 => any::<u8>().prop_map(Action::AskWithTicket),
        4 => any::<u8>().prop_map(Action::Answer),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(turn, shown)| Action::Fail { turn, shown }),
        2 => any::<u8>().prop_map(Action::Retract),
        2 => any::<u8>().prop_map(Action::Withdraw),
        2 => (any::<bool>(), any::<u8>()).prop_map(|(second, name)| Action::Retry { second, name }),
        3 => (any::<bool>(), any::<u8>(), any::<u8>())
            .prop_map(|(second, name, turn)| Action::BeginAnew { second, name, turn }),
        1 => any::<u8>().prop_map(Action::Journal),
        1 => any::<bool>().prop_map(|second| Action::Reopen { second }),
        2 => (any::<bool>(), any::<u8>(), mode())
            .prop_map(|(second, name, mode)| Action::Compact { second, name, mode }),
        3 => (any::<u8>(), mode()).prop_map(|(turn, mode)| Action::CompactDuring { turn, mode }),
        3 => any::<u8>().prop_map(Action::Append),
        2 => (any::<u8>(), 0..3_u8).prop_map(|(turn, calls)| Action::Park { turn, calls }),
        2 => (any::<bool>(), any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(second, turn, question, choice)| Action::Reply { second, turn, question, choice }),
        3 => (any::<bool>(), any::<u8>()).prop_map(|(second, turn)| Action::Resume { second, turn }),
        2 => (any::<bool>(), any::<u8>()).prop_map(|(second, name)| Action::Undo { second, name }),
        1 => (any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(name, message, pinned)| Action::Pin { name, message, pinned }),
        1 => (any::<bool>(), any::<u8>()).prop_map(|(second, name)| Action::Create { second, name }),
        2 => (any::<bool>(), any::<u8>()).prop_map(|(second, name)| Action::Delete { second, name }),
        3 => (any::<bool>(), any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(second, name, message, removed)| Action::Rewrite { second, name, message, removed }),
        3 => (any::<bool>(), any::<u8>(), any::<Option<u8>>())
            .prop_map(|(second, name, message)| Action::BranchAt { second, name, message }),
        2 => (any::<bool>(), any::<u8>()).prop_map(|(second, name)| Action::Delegate { second, name }),
        2 => (any::<bool>(), any::<u8>(), 1..4_u8)
            .prop_map(|(second, name, turns)| Action::Rewind { second, name, turns }),
        2 => (any::<bool>(), any::<u8>(), any::<u8>())
            .prop_map(|(second, name, message)| Action::RewindTo { second, name, message }),
        2 => (any::<bool>(), any::<u8>()).prop_map(|(second, name)| Action::Restore { second, name }),
        1 => (any::<bool>(), any::<u8>()).prop_map(|(second, name)| Action::DeleteFamily { second, name }),
        1 => (any::<bool>(), any::<u8>(), any::<bool>())
            .prop_map(|(second, name, ended)| Action::EndOrReopen { second, name, ended }),
    ];
    proptest::collection::vec(action, 1..40)
}

#[test]
fn the_invariants_hold_after_any_actions_of_two_stores() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&actions(), |actions| {
            runtime.block_on(simulate(&actions));
            Ok(())
        })
        .unwrap();
}

struct Simulation {
    database: Database,
    world: World<SqliteStore>,
    running: Vec<(bool, Running)>,
    waiting: Vec<(bool, Admission)>,
    parked: Vec<TurnId>,
    /// The names of the conversations: [`NAMES`], and the ids of branches and helpers.
    names: Vec<String>,
    answered: Vec<TurnId>,
    /// The number of the last appended message. It begins above the numbers that the store and the fixture choose.
    appended: usize,
}

async fn simulate(actions: &[Action]) {
    let database = Database::new();
    let world = database.world().await;
    let names = NAMES.map(str::to_owned).to_vec();
    let mut simulation = Simulation {
        database,
        world,
        running: Vec::new(),
        waiting: Vec::new(),
        parked: Vec::new(),
        names,
        answered: Vec::new(),
        appended: 50,
    };
    for action in actions {
        simulation.apply(*action).await;
    }
    simulation.end_dead_turns().await;
    copies::check_that_all_can_be_copied(&simulation.world).await;
    simulation.world.holds_together().await;
    check_file(&simulation.database.path());
}

/// Whether the admission is for the conversation with this name.
fn asks(ask: &Admission, name: &str) -> bool {
    matches!(&ask.target, Target::Alias { alias, .. } if alias.as_str() == name)
}

/// Removes and returns the chosen element.
fn take<T>(from: &mut Vec<T>, choice: u8) -> Option<T> {
    if from.is_empty() { None } else { Some(from.swap_remove(usize::from(choice) % from.len())) }
}

impl Simulation {
    fn store(&self, second: bool) -> Arc<SqliteStore> {
        Arc::clone(if second { &self.world.two } else { &self.world.one })
    }

    /// Ends the turns of stores that were closed. Otherwise the maintenance would end them while copies are compared.
    async fn end_dead_turns(&self) {
        for row in self.world.all(&self.world.scope).await {
            let outcome = self.world.undo(&self.world.one, &row.facts.id.to_string(), new_id()).await;
            assert!(matches!(outcome, UndoOutcome::NotFound | UndoOutcome::Busy(_)), "{outcome:?}");
        }
    }

    fn name(&self, choice: u8) -> String {
        self.names[usize::from(choice) % self.names.len()].clone()
    }

    async fn apply(&mut self, action: Action) {
        match action {
            Action::Ask { second, name, policy } => {
                let ask = Admission { policy, ..self.world.ask(&self.name(name), "question") };
                self.ask(second, ask).await;
            }
            Action::Branch { second, turn } => {
                if self.answered.is_empty() {
                    return;
                }
                let source = self.answered[usize::from(turn) % self.answered.len()];
                let ask = self.world.ask_branch(source, "instead");
                self.ask(second, ask).await;
            }
            Action::AskWithTicket(choice) => {
                if let Some((second, ask)) = take(&mut self.waiting, choice) {
                    self.ask(second, ask).await;
                }
            }
            Action::Answer(choice) => {
                if let Some((second, turn)) = take(&mut self.running, choice) {
                    match self.world.try_answer(&self.store(second), &turn, "answer").await {
                        Ok(_) => self.answered.push(turn.turn),
                        Err(StoreError::Fenced) => {}
                        Err(StoreError::StopRequested(_)) => self.running.push((second, turn)),
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            Action::Fail { turn, shown } => {
                if let Some((second, turn)) = take(&mut self.running, turn) {
                    let shown = shown.then_some("part");
                    let ended = self.world.try_leave(&self.store(second), &turn, TurnState::Interrupted, shown).await;
                    assert!(matches!(ended, Ok(_) | Err(StoreError::Fenced)), "{ended:?}");
                }
            }
            Action::Retract(choice) => {
                if let Some((second, turn)) = take(&mut self.running, choice) {
                    let ended = self.store(second).retract(turn.lease).await;
                    assert!(matches!(ended, Ok(()) | Err(StoreError::Fenced)), "{ended:?}");
                }
            }
            Action::Withdraw(choice) => {
                if let Some((second, ask)) = take(&mut self.waiting, choice) {
                    self.world.withdraw(&self.store(second), &self.world.scope, ask.turn).await;
                }
            }
            Action::Retry { second, name } => self.retry(second, &self.name(name)).await,
            Action::BeginAnew { second, name, turn } => self.begin_anew(second, &self.name(name), turn).await,
            Action::Journal(choice) => {
                if let Some((second, turn)) = take(&mut self.running, choice) {
                    self.store(second).journal(turn.lease, herma_store::contract::fixture::noted("shown "));
                    self.running.push((second, turn));
                }
            }
            Action::Reopen { second } => {
                self.store(second).close().await;
                let opened = self.database.open().await;
                *(if second { &mut self.world.two } else { &mut self.world.one }) = opened;
                self.waiting.retain(|(owner, _)| *owner != second);
            }
            Action::Compact { second, name, mode } => self.compact(second, &self.name(name), mode).await,
            Action::CompactDuring { turn, mode } => {
                if let Some((second, turn)) = take(&mut self.running, turn) {
                    self.compact_during(second, turn, mode).await;
                }
            }
            Action::Append(turn) => {
                if let Some((second, turn)) = take(&mut self.running, turn) {
                    self.append(second, turn).await;
                }
            }
            Action::Park { turn, calls } => {
                if let Some((second, turn)) = take(&mut self.running, turn) {
                    self.park(second, turn, calls).await;
                }
            }
            Action::Reply { second, turn, question, choice } => {
                if let Some(turn) = take(&mut self.parked, turn) {
                    self.reply(second, turn, question, choice).await;
                }
            }
            Action::Resume { second, turn } => {
                if let Some(turn) = take(&mut self.parked, turn) {
                    self.resume(second, turn).await;
                }
            }
            Action::Undo { second, name } => self.undo(second, &self.name(name)).await,
            Action::Pin { name, message, pinned } => {
                let name = self.name(name);
                let Some(mut snapshot) = self.world.read(&name).await else { return };
                let Some(said) = take(&mut snapshot.messages, message) else { return };
                let alias = Alias::parse(&name).unwrap();
                let outcome = self.world.one.pin(&self.world.scope, &alias, said.id, pinned).await.unwrap();
                let is_cut_off = pinned && said.said.status == MessageStatus::Partial;
                assert_eq!(outcome, if is_cut_off { PinOutcome::NotWhole } else { PinOutcome::Done });
            }
            Action::Create { second, name } => self.create(second, &self.name(name)).await,
            Action::Delete { second, name } => self.delete(second, &self.name(name), Children::Keep).await,
            Action::DeleteFamily { second, name } => self.delete(second, &self.name(name), Children::Delete).await,
            Action::BranchAt { second, name, message } => self.branch_at(second, &self.name(name), message).await,
            Action::Delegate { second, name } => self.delegate(second, &self.name(name)).await,
            Action::EndOrReopen { second, name, ended } => self.end_or_reopen(second, &self.name(name), ended).await,
            Action::Rewind { second, name, turns } => {
                self.rewind(second, &self.name(name), RewindPoint::Turns(u32::from(turns))).await;
            }
            Action::RewindTo { second, name, message } => {
                let name = self.name(name);
                let Some(mut whole) = self.world.read_as(&name, Extent::Whole).await else { return };
                let Some(said) = take(&mut whole.messages, message) else { return };
                self.rewind(second, &name, RewindPoint::Message(said.id)).await;
            }
            Action::Restore { second, name } => {
                let name = self.name(name);
                let before = self.world.read(&name).await;
                let outcome = self.world.restore_rewound(&self.store(second), &name).await;
                if let (RewindOutcome::Done(_), Some(before)) = (outcome, before) {
                    let after = self.world.read(&name).await.unwrap();
                    assert!(after.rewound.len() < before.rewound.len(), "a restore brings messages back");
                }
            }
            Action::Rewrite { second, name, message, removed } => {
                self.rewrite(second, &self.name(name), message, removed).await;
            }
        }
    }

    /// A compaction that carries the pinned messages. `None` if there are no messages.
    async fn plan(&self, to: &str, mode: CompactionMode) -> Option<NewCompaction> {
        let snapshot = self.world.read(to).await.filter(|snapshot| !snapshot.messages.is_empty())?;
        let plan = self.world.plan(to, mode, 1, "so far").await;
        let pinned = self.world.two.pinned(self.world.scope.tenant, snapshot.facts.id).await.unwrap();
        let carried = pinned.iter().map(|said| said.seq).filter(|seq| *seq <= plan.through).collect();
        Some(NewCompaction { carried, ..plan })
    }

    async fn compact(&self, second: bool, name: &str, mode: CompactionMode) {
        let Some(plan) = self.plan(name, mode).await else { return };
        let outcome = self.store(second).compact(plan).await.unwrap();
        match outcome {
            CompactOutcome::Compacted(_) | CompactOutcome::Busy(_) | CompactOutcome::Ended => {}
            // A branch has only inherited messages if its first turn was retracted while others wait.
            CompactOutcome::NotFound if !NAMES.contains(&name) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn compact_during(&mut self, second: bool, mut turn: Running, mode: CompactionMode) {
        let plan = self.plan(&turn.facts.id.to_string(), mode).await;
        let Some(plan) = plan else { return self.running.push((second, turn)) };
        let plan = NewCompaction { authority: Authority::Lease(turn.lease), ..plan };
        match self.store(second).compact(plan).await {
            Ok(CompactOutcome::Compacted(done)) => {
                turn.facts = done.facts;
                self.running.push((second, turn));
            }
            Err(StoreError::Fenced) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn append(&mut self, second: bool, turn: Running) {
        self.appended += 1;
        match self.world.append(&self.store(second), &turn, self.appended, "a part").await {
            Ok(_) | Err(StoreError::StopRequested(_)) => self.running.push((second, turn)),
            Err(StoreError::Fenced) => {}
            Err(other) => panic!("{other}"),
        }
    }

    async fn park(&mut self, second: bool, turn: Running, calls: u8) {
        let calls: Vec<_> = (0..calls).map(|number| parking::own_call(&number.to_string())).collect();
        match self.world.park(&self.store(second), &turn, &calls).await {
            Ok(()) => self.parked.push(turn.turn),
            Err(StoreError::StopRequested(_)) => self.running.push((second, turn)),
            Err(StoreError::Fenced) => {}
            Err(other) => panic!("{other}"),
        }
    }

    async fn reply(&mut self, second: bool, turn: TurnId, question: u8, choice: u8) {
        let question = if question.is_multiple_of(2) { Question::Oldest } else { Question::All };
        let choice = ApprovalChoice::ALL[usize::from(choice) % ApprovalChoice::ALL.len()];
        match self.world.reply(&self.store(second), turn, question, choice).await {
            // It was interrupted, or deleted with its conversation.
            AnswerOutcome::NotFound => {}
            AnswerOutcome::NothingAsked | AnswerOutcome::Answered(_) | AnswerOutcome::Complete(_) => {
                self.parked.push(turn);
            }
        }
    }

    async fn resume(&mut self, second: bool, turn: TurnId) {
        let record = self.world.turn(turn).await.filter(|record| record.parked);
        let Some(record) = record else { return };
        let is_open = record.pending.iter().any(|asked| asked.answer.is_none());
        match self.store(second).resume(turn, self.world.now()).await.unwrap() {
            Some(resumed) => {
                assert!(!is_open, "a turn with an open question is not resumed");
                self.running.push((second, resumed.running));
            }
            None => {
                assert!(is_open, "a turn without open questions is resumed");
                self.parked.push(turn);
            }
        }
    }

    async fn undo(&self, second: bool, name: &str) {
        let Some(base) = self.world.read(name).await.and_then(|snapshot| snapshot.base) else { return };
        let outcome = self.world.undo(&self.store(second), name, base.summary.compaction).await;
        match outcome {
            UndoOutcome::Undone(_) | UndoOutcome::Busy(_) | UndoOutcome::Stale => {}
            UndoOutcome::NotFound if !NAMES.contains(&name) => {
                let rows = self.world.ledger(name).await.rows;
                assert!(rows.iter().all(|row| row.id != base.summary.compaction), "a base of its own can be undone");
            }
            other => panic!("{other:?}"),
        }
    }

    /// Rewinds, and checks that the view ends at the chosen message.
    async fn rewind(&self, second: bool, name: &str, to: RewindPoint) {
        let outcome = self.store(second).rewind(self.world.go_back(name, to)).await.unwrap();
        match (outcome, to) {
            (RewindOutcome::Done(_), RewindPoint::Message(id)) => {
                let whole = self.world.read_as(name, Extent::Whole).await.unwrap();
                assert_eq!(whole.messages.last().map(|said| said.id), Some(id), "the view ends there");
            }
            (RewindOutcome::NoSuchMessage | RewindOutcome::AlreadyRewound, _) => panic!("{to:?}"),
            _ => {}
        }
    }

    async fn create(&self, second: bool, name: &str) {
        let exists = self.world.row(name).await.is_some();
        let outcome = self.store(second).create(self.world.new_conversation(Some(name))).await.unwrap();
        match outcome {
            CreateOutcome::Made(_) => assert!(!exists && NAMES.contains(&name)),
            CreateOutcome::Exists => assert!(exists),
            CreateOutcome::Reserved => assert!(!exists && !NAMES.contains(&name)),
            other => panic!("{other:?}"),
        }
    }

    /// Makes a branch without a turn, at the end or at a message.
    async fn branch_at(&mut self, second: bool, name: &str, message: Option<u8>) {
        let at = match message {
            None => BranchPoint::End,
            Some(choice) => {
                let Some(mut whole) = self.world.read_as(name, Extent::Whole).await else { return };
                let Some(said) = take(&mut whole.messages, choice) else { return };
                BranchPoint::Message(said.id)
            }
        };
        let outcome = self.store(second).branch(self.world.new_branch(name, at)).await.unwrap();
        match outcome {
            BranchOutcome::Made(row) => self.names.push(row.facts.id.to_string()),
            BranchOutcome::Unanswered => assert!(message.is_some()),
            BranchOutcome::NotFound => {}
            other => panic!("{other:?}"),
        }
    }

    async fn delegate(&mut self, second: bool, name: &str) {
        let new = self.world.declared(None, SessionKind::Auxiliary, Some(name));
        match self.store(second).create(new).await.unwrap() {
            CreateOutcome::Made(row) => self.names.push(row.facts.id.to_string()),
            CreateOutcome::NoParent => {}
            other => panic!("{other:?}"),
        }
    }

    async fn end_or_reopen(&self, second: bool, name: &str, ended: bool) {
        let (store, alias, now) = (self.store(second), Alias::parse(name).unwrap(), self.world.now());
        let outcome = if ended {
            store.end(&self.world.scope, &alias, EndReason::Ended, now).await.unwrap()
        } else {
            store.reopen(&self.world.scope, &alias, now).await.unwrap()
        };
        if let EndOutcome::Done(row) = outcome {
            assert_eq!(row.ended.is_some(), ended);
        }
    }

    async fn delete(&self, second: bool, name: &str, children: Children) {
        let exists = self.world.row(name).await.is_some();
        let alias = Alias::parse(name).unwrap();
        let outcome = self.store(second).delete(&self.world.scope, &alias, children, self.world.now()).await.unwrap();
        match outcome {
            DeleteOutcome::Deleted(_) => assert!(exists && self.world.row(name).await.is_none()),
            DeleteOutcome::Busy(_) => assert!(exists),
            // A conversation is provisional if its first turn was retracted while others wait.
            DeleteOutcome::NotFound => {}
        }
    }

    async fn rewrite(&self, second: bool, name: &str, choice: u8, removed: bool) {
        let Some(mut whole) = self.world.read_as(name, Extent::Whole).await else { return };
        let Some(seen) = take(&mut whole.messages, choice) else { return };
        let left = if removed { None } else { Some("less") };
        let outcome = self.world.rewrite(&self.store(second), name, &seen, left).await;
        match outcome {
            RewriteOutcome::Done | RewriteOutcome::Busy(_) | RewriteOutcome::Shared => {}
            RewriteOutcome::NotFound if !NAMES.contains(&name) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn retry(&mut self, second: bool, name: &str) {
        let Some(snapshot) = self.world.read(name).await else { return };
        let Some(last) = snapshot.messages.last().filter(|last| snapshot.unanswered.contains_key(&last.turn)) else {
            return;
        };
        let ask = self.world.ask(name, "again");
        self.ask(
            second,
            Admission { retry_of: Some(last.turn), messages: Vec::new(), policy: TurnPolicy::Reject, ..ask },
        )
        .await;
    }

    async fn begin_anew(&mut self, second: bool, name: &str, choice: u8) {
        let Some(snapshot) = self.world.read(name).await else { return };
        let mut unanswered: Vec<TurnId> = snapshot.unanswered.keys().copied().collect();
        unanswered.sort_by_key(ToString::to_string);
        let Some(turn) = take(&mut unanswered, choice) else { return };
        // An inherited turn can begin anew only in its own conversation.
        let record = self.world.turn(turn).await;
        if record.is_some_and(|turn| turn.facts.id == snapshot.facts.id && turn.state.is_unanswered()) {
            let ask = self.world.ask(name, "anew");
            self.ask(second, Admission { anew_of: Some(turn), policy: TurnPolicy::Reject, ..ask }).await;
        }
    }

    async fn ask(&mut self, second: bool, ask: Admission) {
        match self.world.admit(&self.store(second), ask.clone()).await {
            AdmitOutcome::Running(turn) => {
                if turn.resolution == Resolution::Branched {
                    self.names.push(turn.facts.id.to_string());
                }
                self.running.push((second, *turn));
            }
            AdmitOutcome::Refused(Refusal::Ended) => {}
            AdmitOutcome::Queued { ticket, .. } => {
                self.waiting.push((second, Admission { ticket: Some(ticket), ..ask }));
            }
            AdmitOutcome::Refused(Refusal::NotFound) => assert!(!NAMES.iter().any(|name| asks(&ask, name))),
            AdmitOutcome::Refused(_) => assert!(ask.ticket.is_some() || ask.policy == TurnPolicy::Reject),
            other => panic!("{other:?}"),
        }
    }
}
