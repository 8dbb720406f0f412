//! Writes short jobs on a thread of the async runtime, many in one transaction.
//!
//! To wake the writer thread and to be woken by it costs a turn more than its writes. So the first short job that finds
//! the writer thread asleep starts a combiner: a task of the caller's runtime. The combiner first lets all other tasks
//! run that are ready. What they queue meanwhile is in its transaction, and answering them wakes no thread.
//!
//! What holds:
//!
//! - At most one combiner exists. `Queue::combining` says so, and is changed only under the queue's lock.
//! - While a combiner runs, nothing else needs to be woken for a job. A combiner ends only if no job waits, or after it
//!   has woken the writer thread. That holds also if its task is dropped, for example with its runtime.
//! - If the thread of a combiner is busy with something else, the writer thread writes in its place until the combiner
//!   runs again and ends.
//! - A combiner never waits: not for the connection, not for another process, not for the disk's sync. Where it would
//!   have to, it leaves the jobs to the writer thread.
//! - It runs short jobs only, and stops at the first other one. So jobs keep their order.
//! - Lock order: the connection, then the queue. Nothing is spawned, answered or dropped under the queue's lock.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use tokio::runtime::Handle;

use super::job::{Job, Work};
use super::write_connection::Syncing;
use super::{Queue, Shared};

/// The largest number of jobs in one transaction of a combiner. Other tasks of its thread wait meanwhile.
const COMBINED_JOBS: usize = 64;

/// How often other tasks may run before a transaction. Tasks that one of them has woken run in the next round. With few
/// clients, one round leaves a transaction with less than two jobs, and a turn costs a tenth more.
pub(super) const ROUNDS: usize = 3;

/// The task that writes short jobs. Dropping it leaves the jobs that wait to the writer thread.
struct Combiner {
    shared: Arc<Shared>,
    has_ended: bool,
}

/// What a combiner does after a transaction.
enum Next {
    /// It writes again, after other tasks had their turn.
    Again,
    /// It ends.
    End,
}

impl Shared {
    /// Queues short work. It is written by a combiner, or by the writer thread if that is awake or there is no runtime.
    pub(super) fn enqueue_short(self: &Arc<Self>, work: Work) {
        let mut queue = self.queue();
        if queue.closed {
            return;
        }
        queue.push(Job::Work(work));
        if !queue.sleeping || queue.combiner_wait().is_some() {
            return;
        }
        if queue.combining.is_some() {
            return self.wake(&mut queue);
        }
        match Handle::try_current() {
            Ok(runtime) => {
                queue.runtime = Some(runtime.clone());
                self.start_combiner(queue, &runtime);
            }
            Err(_) => self.wake(&mut queue),
        }
    }

    /// Has a combiner go on where the writer thread has written, if it can.
    pub(super) fn hand_back(self: &Arc<Self>) {
        let queue = self.queue();
        if queue.combining.is_some() || queue.closed || !is_short(queue.jobs.front()) {
            return;
        }
        if let Some(runtime) = queue.runtime.clone() {
            self.start_combiner(queue, &runtime);
        }
    }

    fn start_combiner(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>, runtime: &Handle) {
        queue.combining = Some(Instant::now());
        // If the runtime has ended, `spawn` drops the combiner, which locks the queue.
        drop(queue);
        let combiner = Combiner { shared: Arc::clone(self), has_ended: false };
        drop(runtime.spawn(combiner.run()));
    }

    /// Writes the short jobs at the front of the queue.
    fn combine(&self) -> Next {
        let Ok(mut held) = self.write_connection.try_lock() else { return self.leave_to_thread() };
        let Some(write_connection) = held.as_mut() else { return self.leave_to_thread() };
        let mut batch = VecDeque::new();
        {
            let mut queue = self.queue();
            while batch.len() < COMBINED_JOBS && is_short(queue.jobs.front()) {
                match queue.jobs.pop_front() {
                    Some(Job::Work(work)) => batch.push_back(work),
                    Some(Job::GiveUp(lease)) => write_connection.instance.forget_given_up(lease),
                    other => {
                        queue.jobs.extend(other);
                        break;
                    }
                }
            }
            if queue.jobs.is_empty() && queue.lazy.iter().all(Work::is_short) {
                batch.extend(queue.take_lazy());
            }
        }
        let has_begun = batch.is_empty() || write_connection.begin_at_once();
        if has_begun && !batch.is_empty() {
            write_connection.transact(&mut batch, Syncing::Behind);
        }
        drop(held);
        let mut queue = self.queue();
        queue.put_back(batch);
        if !has_begun {
            drop(queue);
            return self.leave_to_thread();
        }
        if is_short(queue.jobs.front()) {
            queue.combining = Some(Instant::now());
            return Next::Again;
        }
        queue.combining = None;
        if !queue.jobs.is_empty() {
            self.wake(&mut queue);
        }
        Next::End
    }

    fn leave_to_thread(&self) -> Next {
        let mut queue = self.queue();
        queue.combining = None;
        self.wake(&mut queue);
        Next::End
    }
}

impl Combiner {
    async fn run(mut self) {
        loop {
            for _ in 0..ROUNDS {
                tokio::task::yield_now().await;
            }
            if let Next::End = self.shared.combine() {
                self.has_ended = true;
                return;
            }
        }
    }
}

impl Drop for Combiner {
    fn drop(&mut self) {
        if !self.has_ended {
            self.shared.queue().runtime = None;
            self.shared.leave_to_thread();
        }
    }
}

fn is_short(job: Option<&Job>) -> bool {
    match job {
        Some(Job::Work(work)) => work.is_short(),
        Some(Job::GiveUp(_)) => true,
        Some(Job::Checkpoint | Job::Truncate(_)) | None => false,
    }
}
