//! A question whose answer may never come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;

/// A question that was asked. Asking nothing else until it is answered bounds the tasks and threads that hang.
pub(super) struct Probe<T> {
    asked: Instant,
    answer: Arc<Mutex<Option<(T, Duration)>>>,
}

impl<T: Send + 'static> Probe<T> {
    /// Has `on` run `question`.
    pub(super) fn ask(on: &Handle, question: impl Future<Output = T> + Send + 'static) -> Probe<T> {
        let asked = Instant::now();
        let answer = Arc::new(Mutex::new(None));
        let to = Arc::clone(&answer);
        on.spawn(async move {
            let said = question.await;
            *to.lock() = Some((said, asked.elapsed()));
        });
        Probe { asked, answer }
    }

    /// Takes the answer and the time that it took; `None` if there is none yet.
    pub(super) fn take(&self) -> Option<(T, Duration)> {
        self.answer.lock().take()
    }

    /// Returns for how long the answer has been missing.
    pub(super) fn waits(&self) -> Duration {
        self.asked.elapsed()
    }
}
