//! A barrier that a test opens. It makes an answer wait at a known point without sleeping.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use crate::PATIENCE;

/// A gate, closed at first. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    passes: Semaphore,
    waiting: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(Inner { passes: Semaphore::new(0), waiting: watch::Sender::new(0) }))
    }

    /// Lets the next `count` waiters pass, including those that arrive later.
    pub fn release(&self, count: usize) {
        self.0.passes.add_permits(count);
    }

    /// Lets everything pass from now on.
    pub fn open(&self) {
        self.0.passes.close();
    }

    /// Waits until the gate lets the caller pass. Cancel-safe: a cancelled waiter does not count as passed.
    pub async fn pass(&self) {
        let _waiting = Waiting::enter(&self.0);
        if let Ok(pass) = self.0.passes.acquire().await {
            pass.forget();
        }
    }

    /// Waits until at least `count` waiters wait at the gate. Cancel-safe.
    pub async fn until_waiting(&self, count: usize) {
        let mut waiting = self.0.waiting.subscribe();
        let arrived = tokio::time::timeout(PATIENCE, waiting.wait_for(|now| *now >= count)).await;
        assert!(arrived.is_ok(), "expected {count} waiters at the gate, found {}", *self.0.waiting.borrow());
    }
}

/// Counts a waiter while it waits. A waiter that is dropped is no longer counted.
struct Waiting<'a>(&'a Inner);

impl<'a> Waiting<'a> {
    fn enter(inner: &'a Inner) -> Self {
        inner.waiting.send_modify(|now| *now += 1);
        Self(inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|now| *now -= 1);
    }
}
