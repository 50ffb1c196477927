//! Listings that are read ahead: a worker reads the next page of a directory while the client handles the previous one.
//!
//! A page is read ahead once a caller has asked for a second one in sequence, because many clients look at the first
//! page only. There is one page ahead for a handle. It is discarded if the caller asks for something else: from another
//! position, or for another user. It is also discarded if the caller asks too late, because it does not show the
//! changes since. Nothing more is read ahead for such a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::answer::Answer;
use server::vfs::{Errno, ListRequest, Op, Page, Result};

use crate::executor::unless_cancelled;

/// How long after the start of its reading a page may be asked for.
const FRESH: Duration = if cfg!(test) { Duration::from_secs(10) } else { Duration::from_millis(100) };
/// Maximum number of entries that are read ahead for all handles of the process.
const ENTRIES: usize = 100_000;

/// Current number of entries that are read ahead.
static ENTRIES_NOW: AtomicUsize = AtomicUsize::new(0);

/// A directory that is being listed.
pub trait Listed: Send + Sync + 'static {
    /// Returns what is read ahead for this handle.
    fn ahead(&self) -> &ReadAhead;

    /// Makes calls for a user on a worker.
    fn run<T: Send + 'static>(&self, op: &Op, work: impl FnOnce() -> Result<T> + Send + 'static) -> Answer<Result<T>>;

    /// Reads a page, on a worker.
    ///
    /// # Errors
    /// Those of the storage.
    fn read(&self, op: &Op, request: ListRequest) -> Result<Page>;
}

/// What is read ahead for a handle.
#[derive(Default)]
pub struct ReadAhead(Mutex<State>);

#[derive(Default)]
struct State {
    /// The request for the page after the one that was returned last.
    next: Option<(Op, ListRequest)>,
    /// That page.
    ahead: Option<Ahead>,
    /// Whether the caller asked too late for a page ahead.
    is_slow: bool,
}

/// A page that is being read, or was read. If it is dropped, a worker that has not started does not read it.
struct Ahead {
    page: Answer<Result<Page>>,
    began: Instant,
}

/// Entries that count towards [`ENTRIES`].
struct Reserved(usize);

impl Reserved {
    fn new(count: usize) -> Option<Reserved> {
        let add = |now: usize| now.checked_add(count).filter(|&sum| sum <= ENTRIES);
        ENTRIES_NOW.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Reserved(count))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        ENTRIES_NOW.fetch_sub(self.0, Ordering::Relaxed);
    }
}

impl Ahead {
    /// Has a worker read a page; `None` if too many entries are read ahead already.
    fn begin<L: Listed>(listed: &Arc<L>, op: &Op, request: ListRequest) -> Option<Ahead> {
        let wanted = Arc::new(Reserved::new(request.count)?);
        let (is_wanted, again, user) = (Arc::downgrade(&wanted), Arc::downgrade(listed), op.clone());
        let read = move || {
            let again = again.upgrade().filter(|_| is_wanted.strong_count() > 0);
            again.ok_or(Errno::CANCELED)?.read(&user, request)
        };
        let page = listed.run(op, read).map(move |page| {
            drop(wanted);
            page
        });
        Some(Ahead { page, began: Instant::now() })
    }
}

impl ReadAhead {
    /// Ends reading ahead, because the handle is being closed. Never waits.
    pub fn end(&self) {
        self.take();
    }

    fn take(&self) -> State {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Returns a page of a directory: the one that was read ahead if it is the right one.
pub fn list<L: Listed>(listed: &Arc<L>, op: &Op, request: ListRequest) -> Answer<Result<Page>> {
    let State { next, ahead, is_slow } = listed.ahead().take();
    let is_sequence = next.is_some_and(|(user, next)| user == *op && next == request);
    let is_late = ahead.as_ref().is_some_and(|ahead| ahead.began.elapsed() > FRESH);
    let is_slow = is_sequence && (is_slow || is_late);
    let page = match ahead {
        Some(ahead) if is_sequence && !is_slow => ahead.page,
        _ => {
            let (again, user) = (Arc::clone(listed), op.clone());
            listed.run(op, unless_cancelled(op, move || again.read(&user, request)))
        }
    };
    let (listed, op) = (Arc::clone(listed), op.clone());
    page.map(move |page| {
        let page = page?;
        if !page.is_last && !page.entries.is_empty() {
            let next = ListRequest { cursor: page.next, ..request };
            let ahead = if is_sequence && !is_slow { Ahead::begin(&listed, &op, next) } else { None };
            *listed.ahead().0.lock() = State { next: Some((op, next)), ahead, is_slow };
        }
        Ok(page)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use server::answer::block_on;
    use server::vfs::{Entry, Identity, SERVER};
    use tokio::sync::oneshot;

    use super::*;
    use crate::workers::Job;

    /// A directory whose entries are numbers, and whose workers do what a test says.
    struct Numbers {
        count: u64,
        ahead: ReadAhead,
        /// The work that no worker has begun.
        work: Arc<Mutex<VecDeque<Job>>>,
        /// The position, the size and the user of each page that was read.
        reads: Mutex<Vec<(u64, usize, u32)>>,
        /// The position whose reading fails.
        bad: Option<u64>,
    }

    impl Numbers {
        fn new(count: u64) -> Arc<Numbers> {
            Arc::new(Numbers::with(count, None))
        }

        fn with(count: u64, bad: Option<u64>) -> Numbers {
            let (ahead, work, reads) = Default::default();
            Numbers { count, ahead, work, reads, bad }
        }

        /// Does the work that waits, and returns how much that was.
        fn work(&self) -> usize {
            work(&self.work)
        }

        fn positions(&self) -> Vec<u64> {
            self.reads.lock().iter().map(|(at, ..)| *at).collect()
        }
    }

    fn work(waiting: &Mutex<VecDeque<Job>>) -> usize {
        let mut count = 0;
        while let Some(job) = { waiting.lock().pop_front() } {
            job();
            count += 1;
        }
        count
    }

    impl Listed for Numbers {
        fn ahead(&self) -> &ReadAhead {
            &self.ahead
        }

        fn run<T: Send + 'static>(
            &self,
            _: &Op,
            work: impl FnOnce() -> Result<T> + Send + 'static,
        ) -> Answer<Result<T>> {
            let (answer, receiver) = oneshot::channel();
            self.work.lock().push_back(Box::new(move || drop(answer.send(work()))));
            Answer::later(async move { receiver.await.unwrap_or(Err(Errno::IO)) })
        }

        fn read(&self, op: &Op, request: ListRequest) -> Result<Page> {
            self.reads.lock().push((request.cursor, request.count, op.uid));
            if self.bad == Some(request.cursor) {
                return Err(Errno::TIMEDOUT);
            }
            let next = self.count.min(request.cursor + request.count as u64);
            let entries = (request.cursor..next)
                .map(|number| Entry { name: number.to_string().into_bytes().into(), metadata: None })
                .collect();
            Ok(Page { entries, next, is_last: next == self.count, parent: None })
        }
    }

    fn request(cursor: u64) -> ListRequest {
        ListRequest { cursor, count: 10, metadata: true }
    }

    /// Returns the first number of a page and the position after it, or the error; `None` if it is not read yet.
    fn poll(page: &mut Answer<Result<Page>>) -> Option<Result<(String, u64)>> {
        match pin!(page).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(page) => Some(page.map(|page| (first(&page), page.next))),
            Poll::Pending => None,
        }
    }

    fn first(page: &Page) -> String {
        page.entries.first().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).unwrap_or_default()
    }

    /// Asks for a page, and does all work that waits before and after the page is returned.
    fn ask(numbers: &Arc<Numbers>, op: &Op, asked: ListRequest) -> Result<(String, u64)> {
        let mut page = list(numbers, op, asked);
        numbers.work();
        let page = poll(&mut page).expect("it is read");
        numbers.work();
        page
    }

    fn is(first: u64, next: u64) -> Result<(String, u64)> {
        Ok((first.to_string(), next))
    }

    /// Returns a directory of which two pages were listed, and the third read ahead.
    fn two_pages_of(numbers: Numbers) -> Arc<Numbers> {
        let numbers = Arc::new(numbers);
        assert_eq!(ask(&numbers, &SERVER, request(0)), is(0, 10));
        assert_eq!(numbers.positions(), [0], "a client may look at the first page only");
        assert_eq!(ask(&numbers, &SERVER, request(10)), is(10, 20));
        assert_eq!(numbers.positions(), [0, 10, 20]);
        numbers
    }

    #[test]
    fn one_page_is_read_ahead_once_pages_are_asked_for_in_sequence() {
        let numbers = two_pages_of(Numbers::with(45, None));
        for (at, next) in [(20, 30), (30, 40), (40, 45)] {
            // No worker does anything before the page is returned.
            assert_eq!(poll(&mut list(&numbers, &SERVER, request(at))), Some(is(at, next)));
            assert_eq!(numbers.work(), usize::from(at < 40), "one page at most, and none after the last");
        }
        assert_eq!(numbers.positions(), [0, 10, 20, 30, 40]);
        assert_eq!(ask(&numbers, &SERVER, request(45)), Ok((String::new(), 45)));
        assert_eq!(numbers.work(), 0, "none after the end");
    }

    #[test]
    fn a_page_that_is_being_read_is_waited_for() {
        let numbers = two_pages_of(Numbers::with(100, None));
        assert_eq!(poll(&mut list(&numbers, &SERVER, request(20))), Some(is(20, 30)));
        let mut page = list(&numbers, &SERVER, request(30));
        assert_eq!(poll(&mut page), None);
        assert_eq!(numbers.work(), 1, "it is not read twice");
        assert_eq!(poll(&mut page), Some(is(30, 40)));
        assert_eq!(numbers.positions(), [0, 10, 20, 30]);
    }

    #[test]
    fn another_request_discards_the_page() {
        let other = Op::from(Identity { uid: 7, gid: 7, groups: Box::default() });
        let count = ListRequest { count: 5, ..request(20) };
        let names = ListRequest { metadata: false, ..request(20) };
        for (op, asked, expected) in [
            (&*SERVER, request(0), is(0, 10)),
            (&*SERVER, request(50), is(50, 60)),
            (&*SERVER, count, is(20, 25)),
            (&*SERVER, names, is(20, 30)),
            (&other, request(20), is(20, 30)),
        ] {
            let numbers = two_pages_of(Numbers::with(100, None));
            numbers.reads.lock().clear();
            assert_eq!(ask(&numbers, op, asked), expected);
            assert_eq!(*numbers.reads.lock(), [(asked.cursor, asked.count, op.uid)], "it is read, and none ahead");
            let (_, next) = expected.expect("a page");
            let asked = ListRequest { cursor: next, ..asked };
            assert!(ask(&numbers, op, asked).is_ok());
            assert_eq!(numbers.positions().len(), 3, "the second in sequence, and the third");
        }
    }

    #[test]
    fn a_page_that_was_discarded_is_not_read() {
        let numbers = two_pages_of(Numbers::with(100, None));
        assert_eq!(poll(&mut list(&numbers, &SERVER, request(20))), Some(is(20, 30)));
        let mut page = list(&numbers, &SERVER, request(0));
        assert_eq!(numbers.work(), 2);
        assert_eq!(poll(&mut page), Some(is(0, 10)));
        assert_eq!(numbers.positions(), [0, 10, 20, 0]);
        // A caller that no longer waits.
        let numbers = two_pages_of(Numbers::with(100, None));
        drop(list(&numbers, &SERVER, request(20)));
        assert_eq!(ask(&numbers, &SERVER, request(20)), is(20, 30));
    }

    #[test]
    fn an_old_page_is_read_again() {
        let numbers = two_pages_of(Numbers::with(100, None));
        if let Some(ahead) = &mut numbers.ahead.0.lock().ahead {
            ahead.began = ahead.began.checked_sub(2 * FRESH).expect("the clock did not start just now");
        }
        assert_eq!(ask(&numbers, &SERVER, request(20)), is(20, 30));
        assert_eq!(ask(&numbers, &SERVER, request(30)), is(30, 40));
        assert_eq!(numbers.positions(), [0, 10, 20, 20, 30], "nothing is read ahead for a slow caller");
        // Another listing may be quicker.
        for at in [0, 10] {
            assert_eq!(ask(&numbers, &SERVER, request(at)), is(at, at + 10));
        }
        assert_eq!(numbers.positions()[5..], [0, 10, 20]);
    }

    #[test]
    fn an_error_is_returned_when_its_page_is_asked_for() {
        let numbers = two_pages_of(Numbers::with(100, Some(20)));
        assert_eq!(poll(&mut list(&numbers, &SERVER, request(20))), Some(Err(Errno::TIMEDOUT)));
        assert_eq!(numbers.work(), 0);
        assert_eq!(ask(&numbers, &SERVER, request(20)), Err(Errno::TIMEDOUT), "it is read again");
        assert_eq!(numbers.positions(), [0, 10, 20, 20]);
        assert_eq!(ask(&numbers, &SERVER, request(10)), is(10, 20));
    }

    #[test]
    fn nothing_is_read_for_a_handle_that_is_closed_or_dropped() {
        for is_dropped in [false, true] {
            let numbers = two_pages_of(Numbers::with(100, None));
            assert_eq!(poll(&mut list(&numbers, &SERVER, request(20))), Some(is(20, 30)));
            let waiting = Arc::clone(&numbers.work);
            if is_dropped {
                let state = Arc::downgrade(&numbers);
                drop(numbers);
                assert_eq!(state.strong_count(), 0, "work that waits does not keep the handle open");
                assert_eq!(work(&waiting), 1);
            } else {
                numbers.ahead.end();
                assert_eq!(numbers.work(), 1);
                assert_eq!(numbers.positions(), [0, 10, 20]);
            }
        }
    }

    #[test]
    fn a_whole_listing_reads_every_page_once() {
        let numbers = Numbers::new(20_000);
        let (mut cursor, mut listed, mut waited) = (0, 0, 0);
        loop {
            let asked = ListRequest { cursor, count: 512, metadata: true };
            let mut page = list(&numbers, &SERVER, asked);
            if numbers.work() > 0 {
                waited += 1;
            }
            let page = block_on(&mut page).expect("a page");
            assert_eq!(first(&page), listed.to_string());
            listed += page.entries.len();
            numbers.work();
            if page.is_last {
                break;
            }
            cursor = page.next;
        }
        assert_eq!((listed, waited), (20_000, 2), "only the first two pages are not read ahead");
        assert_eq!(numbers.reads.lock().len(), 20_000_usize.div_ceil(512));
    }

    #[test]
    fn the_entries_read_ahead_are_bounded() {
        let reserved = |count| Reserved::new(count);
        assert!(reserved(ENTRIES + 1).is_none() && reserved(usize::MAX).is_none());
        let handles: Vec<_> = (0..3)
            .map(|_| {
                let numbers = Numbers::new(1_000_000);
                for cursor in [0, 40_000] {
                    let asked = ListRequest { cursor, count: 40_000, metadata: false };
                    assert_eq!(ask(&numbers, &SERVER, asked), is(cursor, cursor + 40_000));
                }
                numbers
            })
            .collect();
        let ahead = handles.iter().filter(|numbers| numbers.ahead.0.lock().ahead.is_some()).count();
        assert!(ahead <= 2, "{ahead} handles");
        assert!(ENTRIES_NOW.load(Ordering::Relaxed) <= ENTRIES);
        for numbers in &handles {
            // A handle without a page ahead lists nevertheless.
            let asked = ListRequest { cursor: 80_000, count: 40_000, metadata: false };
            assert_eq!(ask(numbers, &SERVER, asked), is(80_000, 120_000));
        }
    }
}
