//! Queries to NSS, which may hang as long as a network service does. Each query runs once at a time, regardless of the
//! number of waiting callers, on a bounded number of threads. Callers give up after a timeout. A thread that hangs is
//! released only when NSS answers.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use server::accounts::Unavailable;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

/// Maximum number of active queries: a name service that hangs must not occupy all blocking threads of the runtime.
const AT_A_TIME: usize = 16;
/// How long a caller waits for an answer. Clients time out after 20 seconds at the earliest.
const LIMIT: Duration = Duration::from_secs(10);
/// After a query got no permit in time, further queries fail at once for this time, because hanging queries hold all
/// permits.
const REST: Duration = Duration::from_secs(5);

/// The state of a query: pending, or its answer.
type Outcome<A> = Option<Result<A, Unavailable>>;

/// Active queries `Q` with answers `A`.
pub(super) struct Asking<Q, A> {
    under_way: Arc<Mutex<HashMap<Q, watch::Receiver<Outcome<A>>>>>,
    turns: Arc<Semaphore>,
    rests_until: Arc<Mutex<Option<Instant>>>,
}

impl<Q, A> Default for Asking<Q, A> {
    fn default() -> Self {
        Asking { under_way: Arc::default(), turns: Arc::new(Semaphore::new(AT_A_TIME)), rests_until: Arc::default() }
    }
}

impl<Q, A> Asking<Q, A>
where
    Q: Clone + Eq + Hash + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// Returns the answer of the blocking `work` to `question`; an error after [`LIMIT`].
    pub(super) async fn ask(
        &self,
        question: Q,
        work: impl FnOnce(&Q) -> Result<A, Unavailable> + Send + 'static,
    ) -> Result<A, Unavailable> {
        let mut answer = {
            let mut under_way = self.under_way.lock();
            match under_way.get(&question) {
                Some(answer) => answer.clone(),
                None if self.has_no_room() => return Err(late()),
                None => {
                    let (sender, answer) = watch::channel(None);
                    under_way.insert(question.clone(), answer.clone());
                    tokio::spawn(self.carry_out(question, work, sender));
                    answer
                }
            }
        };
        match timeout(LIMIT, answer.wait_for(Option::is_some)).await {
            Ok(Ok(answered)) => answered.clone().unwrap_or_else(|| Err(late())),
            Ok(Err(_)) => Err(Unavailable("an NSS look-up ended without an answer".into())),
            Err(_) => Err(late()),
        }
    }

    /// Returns whether more than half of the permits are free.
    pub(super) fn is_idle(&self) -> bool {
        self.turns.available_permits() > AT_A_TIME / 2
    }

    fn has_no_room(&self) -> bool {
        self.turns.available_permits() == 0 && self.rests_until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Runs `work` when there is a permit, publishes its answer, and removes the query.
    fn carry_out(
        &self,
        question: Q,
        work: impl FnOnce(&Q) -> Result<A, Unavailable> + Send + 'static,
        sender: watch::Sender<Outcome<A>>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (under_way, turns, rests_until) = (self.under_way.clone(), self.turns.clone(), self.rests_until.clone());
        async move {
            let asked = question.clone();
            let answer = match timeout(LIMIT, turns.acquire_owned()).await {
                Ok(Ok(turn)) => {
                    let work = move || {
                        let _turn = turn;
                        work(&asked)
                    };
                    let done = tokio::task::spawn_blocking(work).await;
                    done.unwrap_or_else(|error| Err(Unavailable(format!("NSS look-up: {error}"))))
                }
                _ => {
                    *rests_until.lock() = Some(Instant::now() + REST);
                    Err(late())
                }
            };
            under_way.lock().remove(&question);
            sender.send_replace(Some(answer));
        }
    }
}

fn late() -> Unavailable {
    Unavailable(format!(
        "NSS has not answered for {} seconds; check `getent passwd` and nsswitch.conf(5)",
        LIMIT.as_secs()
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// The answer of a query whose sender has gone.
    type Gate = Arc<Mutex<mpsc::Receiver<()>>>;

    fn gate() -> (mpsc::Sender<()>, Gate) {
        let (held, gate) = mpsc::channel();
        (held, Arc::new(Mutex::new(gate)))
    }

    /// A name service that answers even numbers at once, and odd ones when the gate opens.
    fn service(asked: &Arc<AtomicUsize>, gate: &Gate) -> impl FnOnce(&u32) -> Result<u32, Unavailable> + Send + use<> {
        let (asked, gate) = (asked.clone(), gate.clone());
        move |number| {
            asked.fetch_add(1, Ordering::SeqCst);
            if number % 2 == 1 {
                let _ = gate.lock().recv();
            }
            Ok(number * 10)
        }
    }

    /// The clock advances while only the name service is waited for.
    async fn pass(time: Duration) {
        tokio::time::sleep(time).await;
    }

    #[tokio::test]
    async fn identical_concurrent_queries_are_sent_once() {
        let (asked, asking) = (Arc::default(), Arc::new(Asking::default()));
        let (held, gate) = gate();
        let ask = |number| {
            let (asking, work): (Arc<Asking<u32, u32>>, _) = (asking.clone(), service(&asked, &gate));
            tokio::spawn(async move { asking.ask(number, work).await })
        };
        let waiting: Vec<_> = (0..3 * AT_A_TIME).map(|_| ask(1)).collect();
        while asked.load(Ordering::SeqCst) == 0 {
            pass(Duration::from_millis(1)).await;
        }
        // Other queries still get permits.
        assert_eq!(ask(2).await.expect("no panic").expect("answered"), 20);
        drop(held);
        for one in waiting {
            assert_eq!(one.await.expect("no panic").expect("answered"), 10);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert!(asking.under_way.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_times_out_and_later_queries_fail_immediately() {
        let asking = Asking::<u32, u32>::default();
        let (asked, (_, gate)) = (Arc::default(), gate());
        // All permits are held by hanging queries.
        let hanging = asking.turns.clone().acquire_many_owned(AT_A_TIME as u32).await.expect("open");
        let since = Instant::now();
        let said = asking.ask(2, service(&asked, &gate)).await.expect_err("no permit").0;
        assert!(said.contains("10 seconds") && said.contains("nsswitch"), "{said}");
        assert_eq!(since.elapsed(), LIMIT);
        pass(Duration::from_millis(1)).await;
        let since = Instant::now();
        assert!(asking.ask(4, service(&asked, &gate)).await.is_err());
        assert_eq!(since.elapsed(), Duration::ZERO);
        assert_eq!((asked.load(Ordering::SeqCst), asking.under_way.lock().len()), (0, 0));
        drop(hanging);
        assert_eq!(asking.ask(4, service(&asked, &gate)).await.expect("a permit"), 40);
    }
}
