//! Limits the memory of all request bodies that are being read.
//!
//! Bytes count when they arrive, not when they are announced. So a client that sends nothing uses nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::ApiError;

/// The budget, shared by all requests.
pub(crate) struct BodyBudget {
    limit: usize,
    used: AtomicUsize,
}

impl BodyBudget {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// The share of one body, empty at first. It is returned to the budget on drop.
    pub(crate) const fn share(&self) -> Share<'_> {
        Share { budget: self, bytes: 0 }
    }
}

/// The part of the budget that one body uses.
pub(crate) struct Share<'a> {
    budget: &'a BodyBudget,
    bytes: usize,
}

impl Share<'_> {
    /// Takes more of the budget. Refuses the request if the budget is used up.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let before = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before.saturating_add(bytes) > self.budget.limit {
            return Err(ApiError::too_many_bodies(self.budget.limit));
        }
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fill_the_budget_and_give_it_back() {
        let budget = BodyBudget::new(10);
        let (mut first, mut second) = (budget.share(), budget.share());
        assert!(first.grow(6).is_ok() && second.grow(4).is_ok());
        let refused = second.grow(1).unwrap_err();
        assert_eq!((refused.label(), refused.status().as_u16()), ("overloaded", 429));
        assert!(refused.body().message.contains("10 bytes"), "{}", refused.body().message);
        drop(second);
        assert!(first.grow(4).is_ok());
        drop(first);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
