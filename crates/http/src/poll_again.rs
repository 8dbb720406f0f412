//! Polls a future again at once if it has woken itself.
//!
//! The task of a connection also runs the handlers of its requests. So parts of one task wake each other: a handler
//! that asks for the body of its request wakes the connection that reads it. Tokio would queue the task behind all
//! others, and wake a parked thread to look for work. To poll again costs less than that.
//!
//! A wake is never lost: while the future is polled it is noted, at any other time it is passed on to the task.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How often the future is polled without giving way to other tasks.
const MOST_POLLS: usize = 3;

/// The future is polled: a wake is noted. Otherwise it goes to the task.
const POLLED: u8 = 1;
/// It was woken since the last poll began.
const WOKEN: u8 = 2;

/// A future that is polled again at once if it has woken itself.
pub(crate) struct PollAgain<F> {
    future: F,
    shared: Arc<Shared>,
    waker: Waker,
}

struct Shared {
    /// [`POLLED`], [`WOKEN`], both or neither. Only changed by operations that also read it: a poll then sees all that
    /// was written before the wakes that it takes for granted.
    state: AtomicU8,
    /// The waker of the task that polls.
    task: Mutex<Waker>,
}

impl<F: Future + Unpin> PollAgain<F> {
    pub(crate) fn new(future: F) -> Self {
        let shared = Arc::new(Shared { state: AtomicU8::new(0), task: Mutex::new(Waker::noop().clone()) });
        let waker = Waker::from(Arc::clone(&shared));
        Self { future, shared, waker }
    }
}

impl<F: Future + Unpin> Future for PollAgain<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, shared, waker } = &mut *self;
        shared.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(context.waker());
        for _ in 0..MOST_POLLS {
            shared.state.swap(POLLED, Ordering::AcqRel);
            if let Poll::Ready(output) = Pin::new(&mut *future).poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            if shared.state.compare_exchange(POLLED, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        shared.state.swap(0, Ordering::AcqRel);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) & POLLED == 0 {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A task that counts its wakes.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Task {
        fn wakes(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// A future that wakes itself in this many polls, and is ready in the next one.
    fn waking(times: usize) -> PollAgain<impl Future<Output = usize> + Unpin> {
        let mut polls = 0;
        PollAgain::new(poll_fn(move |context| {
            polls += 1;
            if polls > times {
                return Poll::Ready(polls);
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again_without_its_task() {
        let task = Arc::new(Task::default());
        let polled = Pin::new(&mut waking(MOST_POLLS - 1)).poll(&mut Context::from_waker(&Waker::from(task.clone())));
        assert_eq!((polled, task.wakes()), (Poll::Ready(MOST_POLLS), 0));
    }

    #[test]
    fn a_future_that_goes_on_waking_itself_gives_way_to_other_tasks() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(task.clone());
        let mut future = waking(MOST_POLLS + 1);
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(task.wakes(), 1);
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_ready());
    }

    #[test]
    fn a_wake_between_two_polls_goes_to_the_task_that_polled_last() {
        let kept = Arc::new(Mutex::new(None::<Waker>));
        let keep = Arc::clone(&kept);
        let mut future = PollAgain::new(poll_fn(move |context| {
            *keep.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        let tasks = [Arc::new(Task::default()), Arc::new(Task::default())];
        for task in &tasks {
            assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&Waker::from(task.clone()))).is_pending());
        }
        kept.lock().unwrap().take().unwrap().wake();
        assert_eq!(tasks.map(|task| task.wakes()), [0, 1]);
    }

    /// A thread wakes a future at random moments, as often as it has asked for it. A lost wake would be a hang.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_wake_of_another_thread_is_lost() {
        let (ask, asked) = std::sync::mpsc::channel::<(Waker, Arc<AtomicUsize>)>();
        let answering = std::thread::spawn(move || {
            for (waker, answered) in asked {
                answered.fetch_add(1, Ordering::Release);
                waker.wake();
            }
        });
        for _ in 0..2_000 {
            let answered = Arc::new(AtomicUsize::new(0));
            let ask = ask.clone();
            let mut is_asked = false;
            let future = poll_fn(move |context| {
                if !std::mem::replace(&mut is_asked, true) {
                    ask.send((context.waker().clone(), Arc::clone(&answered))).unwrap();
                }
                if answered.load(Ordering::Acquire) == 1 { Poll::Ready(()) } else { Poll::Pending }
            });
            let again = tokio::spawn(PollAgain::new(future));
            tokio::time::timeout(std::time::Duration::from_secs(10), again).await.expect("a wake was lost").unwrap();
        }
        drop(ask);
        answering.join().unwrap();
    }
}
