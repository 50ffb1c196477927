//! Questions whose answers may never come, each asked on a thread that nothing else needs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// A question that takes longer than this gets the thread, and another thread asks the next ones.
const QUICK: Duration = Duration::from_millis(500);
/// Maximum number of threads, all but one of which have a question that does not end.
const THREADS: usize = 64;

/// An answer that is waited for.
pub(super) struct Probe<T>(Arc<Mutex<Progress<T>>>);

enum Progress<T> {
    /// Others are asked before.
    Waits,
    Asked(Instant),
    Answered(T, Duration),
}

impl<T: Send + 'static> Probe<T> {
    /// Returns a probe, and the function that asks its question.
    pub(super) fn new(question: impl FnOnce() -> T + Send + 'static) -> (Probe<T>, impl FnOnce() + Send + 'static) {
        let progress = Arc::new(Mutex::new(Progress::Waits));
        let probe = Probe(Arc::clone(&progress));
        let ask = move || {
            let begun = Instant::now();
            *progress.lock() = Progress::Asked(begun);
            let said = question();
            *progress.lock() = Progress::Answered(said, begun.elapsed());
        };
        (probe, ask)
    }

    /// Returns a probe whose question waits for its answer from now on.
    pub(super) fn asked(question: impl FnOnce() -> T + Send + 'static) -> (Probe<T>, impl FnOnce() + Send + 'static) {
        let (probe, ask) = Probe::new(question);
        *probe.0.lock() = Progress::Asked(Instant::now());
        (probe, ask)
    }

    /// Takes the answer and the time that it took; `None` if there is none yet.
    pub(super) fn take(&self) -> Option<(T, Duration)> {
        let mut progress = self.0.lock();
        if !matches!(*progress, Progress::Answered(..)) {
            return None;
        }
        match std::mem::replace(&mut *progress, Progress::Waits) {
            Progress::Answered(said, took) => Some((said, took)),
            _ => None,
        }
    }

    /// Returns for how long the answer has been missing since the question was asked.
    pub(super) fn waits(&self) -> Duration {
        match *self.0.lock() {
            Progress::Asked(begun) => begun.elapsed(),
            Progress::Waits | Progress::Answered(..) => Duration::ZERO,
        }
    }
}

type Question = Box<dyn FnOnce() + Send>;

/// The threads. One asks the questions in turn; one that does not get an answer is left to its question.
#[derive(Default)]
pub(super) struct Threads(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    threads: AtomicUsize,
}

#[derive(Default)]
struct State {
    questions: VecDeque<Question>,
    /// The number of the thread that takes questions.
    current: u64,
    /// That thread exists.
    working: bool,
    /// Since when it has been asking a question.
    since: Option<Instant>,
    ended: bool,
}

impl Threads {
    /// Has the question asked.
    pub(super) fn ask(&self, question: impl FnOnce() + Send + 'static) {
        self.0.state.lock().questions.push_back(Box::new(question));
        self.0.filled.notify_all();
    }

    /// Starts a thread if there is none, or if the current one is left to its question. It calls `prepare` first.
    pub(super) fn keep(&self, prepare: fn()) -> std::io::Result<()> {
        let mut state = self.0.state.lock();
        let stuck = state.since.is_some_and(|since| since.elapsed() >= QUICK);
        let enough = self.0.threads.load(Ordering::Relaxed) >= THREADS;
        if state.working && !stuck || enough || state.questions.is_empty() {
            return Ok(());
        }
        (state.current, state.since, state.working) = (state.current + 1, None, false);
        let (queue, number) = (Arc::clone(&self.0), state.current);
        let work = move || {
            prepare();
            queue.work(number);
            queue.threads.fetch_sub(1, Ordering::Relaxed);
        };
        self.0.threads.fetch_add(1, Ordering::Relaxed);
        let started = thread::Builder::new().name("health".to_owned()).spawn(work);
        state.working = started.is_ok();
        if started.is_err() {
            self.0.threads.fetch_sub(1, Ordering::Relaxed);
        }
        started.map(drop)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.filled.notify_all();
    }
}

impl Queue {
    /// Asks questions until another thread has taken over.
    fn work(&self, number: u64) {
        loop {
            let mut state = self.state.lock();
            let question = loop {
                if state.current != number || state.ended {
                    return;
                }
                match state.questions.pop_front() {
                    Some(question) => break question,
                    None => self.filled.wait(&mut state),
                }
            };
            state.since = Some(Instant::now());
            drop(state);
            question();
            let mut state = self.state.lock();
            if state.current == number {
                state.since = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_question_without_an_answer_does_not_stop_the_others() {
        let threads = Threads::default();
        let (hang, hangs) = mpsc::channel::<()>();
        let (hung, ask) = Probe::new(move || hangs.recv());
        threads.ask(ask);
        let (other, ask) = Probe::new(|| 7);
        threads.ask(ask);
        let answer = loop {
            threads.keep(|| ()).expect("a thread");
            if let Some((answer, _)) = other.take() {
                break answer;
            }
            thread::yield_now();
        };
        assert_eq!(answer, 7);
        assert!(hung.take().is_none());
        assert_eq!(threads.0.threads.load(Ordering::Relaxed), 2);
        drop(hang);
        while hung.take().is_none() {
            thread::yield_now();
        }
        while threads.0.threads.load(Ordering::Relaxed) > 1 {
            thread::yield_now();
        }
    }
}
