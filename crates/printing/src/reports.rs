//! What the log says about the print system: a change of its state, not each request that notices it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use server::printing::Result;
use tokio::time::Instant;

/// How soon another error of the same kind is logged, if its text differs.
const SOON: Duration = Duration::from_secs(10);

/// The last error of each kind of request.
#[derive(Default)]
pub(crate) struct Reports(Mutex<HashMap<String, (Instant, String)>>);

/// What a result says that the log does not say yet.
#[derive(PartialEq, Eq, Debug)]
enum News {
    Nothing,
    Failed,
    Works,
}

impl Reports {
    /// Notes the result of a request. `what` is its kind, and its queue if it has one.
    pub(crate) fn note<T>(&self, what: &str, result: &Result<T>) {
        match (self.news(what, result), result) {
            (News::Failed, Err(error)) => tracing::error!("{what}: {error}"),
            (News::Works, _) => tracing::info!("{what}: it works again"),
            _ => {}
        }
    }

    fn news<T>(&self, what: &str, result: &Result<T>) -> News {
        let mut failed = self.0.lock();
        match result {
            Ok(_) if failed.remove(what).is_some() => News::Works,
            Ok(_) => News::Nothing,
            Err(error) => {
                let text = error.to_string();
                let known = failed.get(what);
                if known.is_some_and(|(since, known)| *known == text || since.elapsed() < SOON) {
                    return News::Nothing;
                }
                failed.insert(what.to_owned(), (Instant::now(), text));
                News::Failed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::printing::PrintError;

    #[tokio::test(start_paused = true)]
    async fn only_changes_are_logged() {
        let reports = Reports::default();
        let error = |why: &str| Err::<(), _>(PrintError::Unavailable(why.into()));
        assert_eq!(reports.news("lp", &Ok(())), News::Nothing);
        assert_eq!(reports.news("lp", &error("gone")), News::Failed);
        for _ in 0..3 {
            assert_eq!(reports.news("lp", &error("gone")), News::Nothing);
        }
        assert_eq!(reports.news("ink", &error("gone")), News::Failed);
        assert_eq!(reports.news("lp", &error("late")), News::Nothing, "it is too soon");
        tokio::time::sleep(SOON).await;
        assert_eq!(reports.news("lp", &error("gone")), News::Nothing);
        assert_eq!(reports.news("lp", &error("late")), News::Failed);
        assert_eq!(reports.news("lp", &Ok(())), News::Works);
        assert_eq!(reports.news("lp", &Ok(())), News::Nothing);
    }
}
