//! Answers that are valid for some time. Callers that ask at the same time cost one question.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::printing::Result;

/// How long the error of a question is returned to others that ask the same.
const ERROR_TIME: Duration = Duration::from_secs(2);

type Slot<T> = Arc<tokio::sync::Mutex<Option<(Instant, Result<T>)>>>;

/// Answers by the question's name.
pub(crate) struct Cache<T>(Mutex<HashMap<String, Slot<T>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Cache(Mutex::default())
    }
}

impl<T: Clone> Cache<T> {
    /// Returns the answer that is known and not older than `time`, or asks.
    pub(crate) async fn get(&self, name: &str, time: Duration, ask: impl Future<Output = Result<T>>) -> Result<T> {
        let slot = self.0.lock().entry(name.to_owned()).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some((since, known)) = &*slot {
            let time = if known.is_ok() { time } else { time.min(ERROR_TIME) };
            if since.elapsed() < time {
                return known.clone();
            }
        }
        let answer = ask.await;
        *slot = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Forgets an answer, after a change. One that is being asked for may be older than the change, and is not kept.
    pub(crate) fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Forgets all answers.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::printing::PrintError;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn many_callers_cost_one_question() {
        let (cache, asked) = (Cache::<usize>::default(), AtomicUsize::new(0));
        let ask = || async {
            tokio::task::yield_now().await;
            Ok(asked.fetch_add(1, Ordering::Relaxed))
        };
        let hour = Duration::from_secs(3600);
        let (one, two) = tokio::join!(cache.get("q", hour, ask()), cache.get("q", hour, ask()));
        assert_eq!((one, two), (Ok(0), Ok(0)));
        assert_eq!(cache.get("other", hour, ask()).await, Ok(1));
        cache.forget("q");
        assert_eq!(cache.get("q", hour, ask()).await, Ok(2));
        assert_eq!(cache.get("q", Duration::ZERO, ask()).await, Ok(3));
        cache.clear();
        let error = || async { Err(PrintError::NoQueue("gone".into())) };
        assert!(cache.get("q", hour, error()).await.is_err());
        assert!(cache.get("q", hour, ask()).await.is_err(), "an error is kept for a moment");
    }
}
