//! Answers that are valid for some time. All callers that ask while a question is being asked share its answer, and a
//! caller that goes away does not end it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use server::printing::Result;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long the error of a question is returned to others that ask the same.
const ERROR_TIME: Duration = Duration::from_secs(2);
/// The maximum number of answers that are kept unless said otherwise. A question may depend on the user.
const KEPT: usize = 4_096;

/// Answers by the question's name.
pub(crate) struct Cache<T> {
    slots: Arc<Mutex<HashMap<String, Slot<T>>>>,
    /// The maximum number of answers that are kept.
    kept: usize,
}

struct Slot<T> {
    known: Option<Known<T>>,
    /// The last answer that was not an error.
    good: Option<T>,
    /// Has the answer of the question that is being asked.
    asking: Option<watch::Receiver<Option<Result<T>>>>,
    /// What is being asked for has changed meanwhile, so the answer is not kept.
    changed: bool,
}

struct Known<T> {
    since: Instant,
    answer: Result<T>,
    /// It was changed by [`Cache::change`].
    estimated: bool,
}

/// Which answers a caller takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Take {
    /// Those that are not older than the time.
    Recent,
    /// The last good one, while it is asked again.
    LastGood,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Cache::keeping(KEPT)
    }
}

impl<T> Cache<T> {
    /// A cache that keeps up to `kept` answers.
    pub(crate) fn keeping(kept: usize) -> Self {
        Cache { slots: Arc::default(), kept }
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot { known: None, good: None, asking: None, changed: false }
    }
}

impl<T: Clone + Send + Sync + 'static> Cache<T> {
    /// Returns the answer that is known and not older than `time`, or asks.
    pub(crate) async fn get(
        &self,
        name: &str,
        time: Duration,
        take: Take,
        ask: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut asking = {
            let mut slots = self.slots.lock();
            if slots.len() >= self.kept && !slots.contains_key(name) {
                slots.retain(|_, slot| slot.asking.is_some());
            }
            let slot = slots.entry(name.to_owned()).or_default();
            if let Some(Known { since, answer, .. }) = &slot.known {
                let time = if answer.is_ok() { time } else { time.min(ERROR_TIME) };
                if since.elapsed() < time {
                    return match (answer, &slot.good) {
                        (Err(_), Some(good)) if take == Take::LastGood => Ok(good.clone()),
                        _ => answer.clone(),
                    };
                }
            }
            let asking = match &slot.asking {
                Some(asking) => asking.clone(),
                None => {
                    let (sender, receiver) = watch::channel(None);
                    slot.asking = Some(receiver.clone());
                    slot.changed = false;
                    let (slots, name) = (self.slots.clone(), name.to_owned());
                    Handle::current().spawn(async move {
                        let answer = ask.await;
                        Self::answered(&slots, &name, take, &answer);
                        sender.send_replace(Some(answer));
                    });
                    receiver
                }
            };
            if take == Take::LastGood
                && let Some(good) = slot.good.as_ref().filter(|_| !time.is_zero())
            {
                return Ok(good.clone());
            }
            asking
        };
        let answered = asking.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
        let answered = answered.unwrap_or_else(|| {
            let why = "the question was not answered, because the server stops".to_owned();
            Err(server::printing::PrintError::Unavailable(why))
        });
        match (answered, take) {
            (Err(error), Take::LastGood) => self.slots.lock().get(name).and_then(|slot| slot.good.clone()).ok_or(error),
            (answered, _) => answered,
        }
    }

    fn answered(slots: &Mutex<HashMap<String, Slot<T>>>, name: &str, take: Take, answer: &Result<T>) {
        let mut slots = slots.lock();
        let Some(slot) = slots.get_mut(name) else { return };
        slot.asking = None;
        slot.known = None;
        if let (Ok(answer), Take::LastGood) = (answer, take) {
            slot.good = Some(answer.clone());
        }
        if !slot.changed {
            slot.known = Some(Known { since: Instant::now(), answer: answer.clone(), estimated: false });
        }
    }

    /// Changes a known answer, after a change of what it says. One that is being asked for may be older than the
    /// change, and is not kept.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut T)) {
        let mut slots = self.slots.lock();
        let Some(slot) = slots.get_mut(name) else { return };
        slot.changed = true;
        if let Some(known) = &mut slot.known
            && let Ok(answer) = &mut known.answer
        {
            change(answer);
            known.estimated = true;
        }
    }

    /// Returns whether the known answer was changed since it was asked for.
    pub(crate) fn is_estimated(&self, name: &str) -> bool {
        self.slots.lock().get(name).and_then(|slot| slot.known.as_ref()).is_some_and(|known| known.estimated)
    }

    /// Forgets an answer, after a change. One that is being asked for may be older than the change, and is not kept.
    pub(crate) fn forget(&self, name: &str) {
        if let Some(slot) = self.slots.lock().get_mut(name) {
            (slot.known, slot.changed) = (None, true);
        }
    }

    /// Forgets all answers.
    pub(crate) fn clear(&self) {
        self.slots.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::printing::PrintError;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const HOUR: Duration = Duration::from_secs(3600);

    fn error() -> PrintError {
        PrintError::NoQueue("gone".into())
    }

    type Question = Pin<Box<dyn Future<Output = Result<usize>> + Send>>;

    /// Questions, each of which takes a second and has its number as the answer.
    fn counting() -> (Cache<usize>, impl Fn() -> Question) {
        let asked = Arc::new(AtomicUsize::new(0));
        let ask = move || {
            let asked = asked.clone();
            Box::pin(async move {
                let number = asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(number)
            }) as Question
        };
        (Cache::default(), ask)
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_cost_one_question() {
        let (cache, ask) = counting();
        for (time, expected) in [(HOUR, 0), (Duration::ZERO, 1), (Duration::ZERO, 2)] {
            let get = || cache.get("q", time, Take::Recent, ask());
            let began = Instant::now();
            let (one, two, three) = tokio::join!(get(), get(), get());
            assert_eq!((one, two, three), (Ok(expected), Ok(expected), Ok(expected)), "{time:?}");
            assert_eq!(began.elapsed(), Duration::from_secs(1), "callers do not ask one after another");
        }
        assert_eq!(cache.get("other", HOUR, Take::Recent, ask()).await, Ok(3));
        cache.forget("q");
        assert_eq!(cache.get("q", HOUR, Take::Recent, ask()).await, Ok(4));
        cache.clear();
        assert!(cache.get("q", HOUR, Take::Recent, async { Err(error()) }).await.is_err());
        assert!(cache.get("q", HOUR, Take::Recent, ask()).await.is_err(), "an error is kept for a moment");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_good_answer_stays_while_there_is_no_other() {
        let (cache, ask) = counting();
        let minute = Duration::from_secs(60);
        let fails = || async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Err(error())
        };
        assert_eq!(cache.get("q", minute, Take::LastGood, ask()).await, Ok(0));
        tokio::time::sleep(minute).await;
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(cache.get("q", minute, Take::LastGood, fails()).await, Ok(0));
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "nobody waits for the new one");
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(cache.get("q", minute, Take::LastGood, ask()).await, Ok(0), "an error is kept for a moment");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(cache.get("q", minute, Take::LastGood, ask()).await, Ok(0));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(cache.get("q", minute, Take::LastGood, ask()).await, Ok(1));
        assert_eq!(cache.get("q", Duration::ZERO, Take::LastGood, fails()).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_answer_is_an_estimate() {
        let (cache, ask) = counting();
        let get = || cache.get("q", HOUR, Take::Recent, ask());
        assert_eq!(get().await, Ok(0));
        cache.change("q", |count| *count += 7);
        assert!(cache.is_estimated("q"));
        assert_eq!(get().await, Ok(7));
        // One that is being asked for meanwhile is used, but not kept.
        cache.forget("q");
        let (asked, ()) = tokio::join!(get(), async {
            tokio::task::yield_now().await;
            cache.change("q", |count| *count += 1);
        });
        assert_eq!((asked, get().await), (Ok(1), Ok(2)));
        assert!(!cache.is_estimated("q"));
    }

    #[tokio::test]
    async fn the_number_of_answers_is_bounded() {
        let cache = Cache::<usize>::default();
        for number in 0..KEPT + 10 {
            let name = number.to_string();
            assert_eq!(cache.get(&name, HOUR, Take::Recent, async move { Ok(number) }).await, Ok(number));
        }
        assert!(cache.slots.lock().len() <= KEPT);
    }
}
