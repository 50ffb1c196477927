use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Sender, channel};

use parking_lot::Mutex;
use server::answer::block_on;

use super::pool::{ALL_THREADS, THREADS_NOW};
use super::*;

const OF_ONE_USER: usize = 12;
const GUARANTEED: usize = 16;

impl<I: ThreadIdentity> Workers<I> {
    fn threads(&self, lane: Lane) -> usize {
        self.pool(lane).queue.lock().threads
    }
}

/// Jobs that block until this is dropped, and a count of the running ones.
struct Blocked {
    running: Arc<AtomicUsize>,
    let_go: Arc<Mutex<()>>,
}

impl Blocked {
    fn submit(&self, workers: &Workers<NoThreadIdentity>, uid: u32, lane: Lane) {
        let (running, let_go) = (Arc::clone(&self.running), Arc::clone(&self.let_go));
        let job = move || {
            running.fetch_add(1, Ordering::SeqCst);
            drop(let_go.lock());
            running.fetch_sub(1, Ordering::SeqCst);
        };
        workers.submit(uid, lane, Box::new(job));
    }

    #[track_caller]
    fn wait_for(&self, count: usize) {
        for _ in 0..6000 {
            if self.running.load(Ordering::SeqCst) == count {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} jobs run, not {count}", self.running.load(Ordering::SeqCst));
    }
}

/// Runs `check` while jobs can be blocked, then releases them.
fn while_blocked(check: impl FnOnce(&Blocked)) {
    let blocked = Blocked { running: Arc::default(), let_go: Arc::default() };
    let let_go = Arc::clone(&blocked.let_go);
    let held = let_go.lock();
    check(&blocked);
    drop(held);
    blocked.wait_for(0);
}

#[test]
fn work_is_done_and_a_panic_fails_only_its_own_job() {
    let (workers, who) = (Workers::new(NoThreadIdentity, Settings::default()), 1);
    for lane in [Lane::Data, Lane::Slow] {
        let answers: Vec<_> = (0..200).map(|number| workers.later(who, lane, move || Ok(number))).collect();
        let done: Vec<_> = answers.into_iter().map(|answer| block_on(answer)).collect();
        assert_eq!(done, (0..200).map(Ok).collect::<Vec<_>>());
        for _ in 0..2 * THREADS {
            assert_eq!(block_on(workers.later::<()>(who, lane, || panic!("intended panic"))), Err(Errno::IO));
        }
        assert_eq!(block_on(workers.later(who, lane, || Ok(7))), Ok(7));
    }
}

#[test]
fn one_user_gets_a_quarter_and_others_the_remainder() {
    let workers = Workers::new(NoThreadIdentity, Settings::default());
    while_blocked(|blocked| {
        for _ in 0..1000 {
            blocked.submit(&workers, 1, Lane::Data);
        }
        blocked.wait_for(OF_ONE_USER);
        // The others' jobs complete immediately, however many jobs of the first user wait.
        for uid in 2..10 {
            assert_eq!(block_on(workers.later(uid, Lane::Data, move || Ok(uid))), Ok(uid));
        }
        for uid in [2, 3] {
            (0..1000).for_each(|_| blocked.submit(&workers, uid, Lane::Data));
        }
        if workers.threads(Lane::Data) == THREADS {
            blocked.wait_for(3 * OF_ONE_USER);
        }
        // The other lane has its own threads.
        assert_eq!(block_on(workers.later(1, Lane::Slow, || Ok(1))), Ok(1));
        assert!(workers.threads(Lane::Data) <= THREADS);
    });
    wait_until(|| workers.data.queue.lock().is_empty());
}

#[test]
fn a_hanging_file_system_uses_no_threads_of_others() {
    let (hangs, works): (Vec<Workers<NoThreadIdentity>>, _) = (
        (0..8).map(|_| Workers::new(NoThreadIdentity, Settings::default())).collect(),
        Workers::new(NoThreadIdentity, Settings::default()),
    );
    while_blocked(|blocked| {
        for workers in &hangs {
            for uid in 0..8 {
                (0..100).for_each(|_| blocked.submit(workers, uid, Lane::Data));
            }
        }
        let threads: usize = hangs.iter().map(|workers| workers.threads(Lane::Data)).sum();
        assert!(threads >= GUARANTEED * hangs.len());
        blocked.wait_for(threads);
        for number in 0..100 {
            assert_eq!(block_on(works.later(1, Lane::Data, move || Ok(number))), Ok(number));
        }
        assert!(THREADS_NOW.load(Ordering::Relaxed) <= ALL_THREADS + GUARANTEED * 2 * (hangs.len() + 8));
    });
}

/// Switches to any user but 2, and keeps a list of them.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<u32>>>);

impl ThreadIdentity for Recorded {
    fn assume(&self, user: &Arc<Identity>) -> Result<()> {
        self.0.lock().push(user.uid);
        if user.uid == 2 { Err(Errno::PERM) } else { Ok(()) }
    }
}

#[test]
fn work_for_a_user_starts_once_the_thread_acts_as_the_user() {
    let identity = Recorded::default();
    let workers = Workers::new(identity.clone(), Settings::default());
    let users = Arc::clone(&identity.0);
    let seen = block_on(workers.later_as(&op(1), Lane::Data, move || Ok(users.lock().clone())));
    assert_eq!(seen, Ok(vec![1]));
    assert_eq!(block_on(workers.later(3, Lane::Data, || Ok(()))), Ok(()), "nothing is asserted");
    let failed = block_on(workers.later_as::<()>(&op(2), Lane::Slow, || panic!("acts as another user")));
    assert_eq!(failed, Err(Errno::PERM));
    assert_eq!(*identity.0.lock(), [1, 2]);
}

#[test]
fn idle_threads_end() {
    let workers = Workers::new(NoThreadIdentity, Settings::default());
    block_on(workers.later(1, Lane::Data, || Ok(()))).expect("the job is done");
    let pool = Arc::downgrade(&workers.data);
    drop(workers);
    // The thread holds the last reference to the pool.
    for _ in 0..6000 {
        if pool.strong_count() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the thread does not end");
}

#[test]
fn threads_without_work_end_although_others_have_some() {
    let workers = Workers::new(NoThreadIdentity, Settings::default());
    while_blocked(|blocked| {
        (0..4).for_each(|_| blocked.submit(&workers, 1, Lane::Data));
        blocked.wait_for(4);
    });
    assert_eq!(workers.threads(Lane::Data), 4);
    for _ in 0..6000 {
        block_on(workers.later(1, Lane::Data, || Ok(()))).expect("the job is done");
        if workers.threads(Lane::Data) == 1 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{} threads are left", workers.threads(Lane::Data));
}

/// A limit that does not pass.
const HOUR: Duration = Duration::from_secs(3_600);

fn op(uid: u32) -> Op {
    Op::from(Identity { uid, gid: 1, groups: Box::default() })
}

/// Waits until `holds`, which other threads bring about.
#[track_caller]
fn wait_until(holds: impl Fn() -> bool) {
    let holds = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(if holds() { 0 } else { 10 }));
        holds()
    });
    assert!(holds, "this never happens");
}

/// Calls that hang while `gate` is locked.
struct Hanging<'a> {
    workers: &'a Workers<NoThreadIdentity>,
    gate: Arc<Mutex<()>>,
}

impl Hanging<'_> {
    /// Has another call of the user hang, whose result `made` creates once the gate is open.
    #[track_caller]
    fn call<T: Send + 'static>(&self, uid: u32, made: impl Fn() -> T + Clone + Send + 'static) {
        let before = self.workers.numbers().hanging;
        // On a busy machine, the limit may pass before the call starts.
        for _ in 0..1000 {
            let (gate, made) = (Arc::clone(&self.gate), made.clone());
            let work = move || {
                drop(gate.lock());
                Ok(made())
            };
            let soon = op(uid).within(Some(Duration::from_millis(5)));
            let answer = block_on(self.workers.later(&soon, Lane::Data, work));
            assert_eq!(answer.err(), Some(Errno::TIMEDOUT));
            if self.workers.numbers().hanging > before {
                return;
            }
        }
        panic!("the call of user {uid} does not start");
    }

    /// Has a call of the user wait in vain for a thread.
    #[track_caller]
    fn starts_none(&self, uid: u32) {
        let (started, soon) = (Arc::new(AtomicUsize::new(0)), op(uid).within(Some(Duration::from_millis(5))));
        let starts = Arc::clone(&started);
        let answer = self.workers.later(&soon, Lane::Data, move || Ok(starts.fetch_add(1, Ordering::SeqCst)));
        assert_eq!(block_on(answer), Err(Errno::TIMEDOUT));
        // The work is dropped after the answer.
        wait_until(|| Arc::strong_count(&started) == 1);
        assert_eq!(started.load(Ordering::SeqCst), 0);
    }
}

/// Runs `check` while calls hang, then has them return.
fn while_hanging(settings: Settings, check: impl FnOnce(&Hanging<'_>)) -> Workers<NoThreadIdentity> {
    let workers = Workers::new(NoThreadIdentity, settings);
    let gate = Arc::new(Mutex::new(()));
    let held = gate.lock();
    check(&Hanging { workers: &workers, gate: Arc::clone(&gate) });
    drop(held);
    wait_until(|| workers.numbers().hanging == 0);
    workers
}

#[test]
fn hanging_calls_stop_neither_other_users_nor_other_calls_of_the_user() {
    let settings = Settings { threads: Some(2), threads_in_all: Some(16), ..Settings::default() };
    let workers = while_hanging(settings, |hanging| {
        let workers = hanging.workers;
        for count in 1..=4 {
            hanging.call(1, || ());
            assert_eq!(workers.numbers().hanging, count);
            assert_eq!(block_on(workers.later(2, Lane::Data, || Ok(2))), Ok(2));
            if count < 4 {
                assert_eq!(block_on(workers.later(1, Lane::Data, || Ok(1))), Ok(1), "{count}");
            }
        }
        // Half of the lane's threads hang for this user.
        hanging.starts_none(1);
        assert_eq!(block_on(workers.later(2, Lane::Data, || Ok(2))), Ok(2));
        let numbers = workers.numbers();
        assert!(numbers.threads <= 6 && numbers.timed_out >= 5, "{numbers:?}");
    });
    assert_eq!(block_on(workers.later(1, Lane::Data, || Ok(1))), Ok(1));
    assert!(workers.threads(Lane::Data) <= 2, "surplus threads end");
}

#[test]
fn waiting_calls_start_when_others_begin_to_hang() {
    let settings = Settings { threads: Some(2), threads_in_all: Some(16), ..Settings::default() };
    while_hanging(settings, |hanging| {
        let (sender, started) = channel();
        let answers = [1, 2].map(|uid| {
            let (gate, sender) = (Arc::clone(&hanging.gate), sender.clone());
            let work = move || {
                let _ = sender.send(());
                drop(gate.lock());
                Ok(())
            };
            hanging.workers.later(&op(uid).within(Some(Duration::from_millis(300))), Lane::Data, work)
        });
        // Usually, both run before their limits pass. The other calls then wait until that.
        let _ = started.recv_timeout(Duration::from_millis(200));
        let _ = started.recv_timeout(Duration::from_millis(50));
        let waiting = [1, 3].map(|uid| hanging.workers.later(uid, Lane::Data, move || Ok(uid)));
        assert_eq!(waiting.map(|answer| block_on(answer)), [Ok(1), Ok(3)]);
        assert_eq!(answers.map(|answer| block_on(answer)), [Err(Errno::TIMEDOUT); 2]);
    });
}

#[test]
fn a_call_that_takes_long_gives_up_its_place_and_may_still_end_in_time() {
    // One thread for each user at a time.
    let settings = Settings { threads: Some(2), threads_in_all: Some(16), ..Settings::limited("slow", HOUR) };
    while_hanging(settings, |hanging| {
        let (sender, go) = channel();
        let long = hanging.workers.later(1, Lane::Data, move || Ok(go.recv().is_ok()));
        assert_eq!(block_on(hanging.workers.later(1, Lane::Data, || Ok(1))), Ok(1), "it waits for a moment");
        assert_eq!(hanging.workers.numbers().hanging, 0, "no limit has passed");
        sender.send(()).expect("the call is waiting");
        assert_eq!(block_on(long), Ok(true));
        assert_eq!(hanging.workers.numbers().timed_out, 0);
    });
}

#[test]
fn the_maximum_of_threads_includes_hanging_ones() {
    let settings = Settings { threads_in_all: Some(8), ..Settings::default() };
    let (sender, done) = channel();
    let workers = while_hanging(settings, |hanging| {
        let workers = hanging.workers;
        [1, 1, 2, 2].into_iter().for_each(|uid| hanging.call(uid, || ()));
        let waits = sender.clone();
        workers.submit(3, Lane::Data, Box::new(move || waits.send("submitted").expect("the test receives")));
        hanging.starts_none(3);
        hanging.starts_none(4);
        let numbers = workers.numbers();
        assert_eq!((numbers.threads, numbers.hanging), (4, 4));
        assert!(done.try_recv().is_err());
        assert_eq!(block_on(workers.later(1, Lane::Slow, || Ok(1))), Ok(1), "the other lane has threads");
    });
    assert_eq!(done.recv_timeout(Duration::from_secs(60)), Ok("submitted"));
    assert!(workers.threads(Lane::Data) <= 4);
}

#[test]
fn a_user_whose_asynchronous_calls_hang_begins_no_more_of_them() {
    let settings = Settings { threads: Some(2), threads_in_all: Some(16), ..Settings::default() };
    let workers = Workers::new(NoThreadIdentity, settings);
    let soon = op(1).within(Some(Duration::from_millis(1)));
    let mut hanging: Vec<_> = (0..4)
        .map(|_| {
            let (completion, answer) = workers.begin::<()>(&soon).expect("fewer calls hang");
            assert_eq!(block_on(answer), Err(Errno::TIMEDOUT));
            completion
        })
        .collect();
    assert_eq!(workers.begin::<()>(1).err(), Some(Errno::TIMEDOUT));
    assert!(workers.begin::<()>(2).is_ok(), "other users are not affected");
    hanging.pop().expect("one of them").complete(Ok(()));
    // The thread of the limits may still have the call.
    wait_until(|| workers.begin::<()>(1).is_ok());
    drop(hanging);
    wait_until(|| workers.numbers().hanging == 0);
}

/// Sends the name of the thread that drops it.
struct Late(Sender<Option<String>>);

impl Drop for Late {
    fn drop(&mut self) {
        let _ = self.0.send(std::thread::current().name().map(str::to_owned));
    }
}

#[test]
fn late_results_are_dropped_by_the_thread_of_the_call() {
    let (sender, dropped) = channel();
    let sender = Mutex::new(sender);
    let made = Arc::new(move || Late(sender.lock().clone()));
    while_hanging(Settings { name: "hanging", ..Settings::default() }, |hanging| {
        let made = Arc::clone(&made);
        hanging.call(1, move || made());
        hanging.call(1, || panic!("intended panic"));
        assert!(dropped.try_recv().is_err());
    });
    assert_eq!(dropped.recv_timeout(Duration::from_secs(60)), Ok(Some("hanging".to_owned())));
    assert!(dropped.try_recv().is_err(), "there is one result");
}

#[test]
fn calls_that_end_in_time_leave_nothing_behind() {
    let workers = Workers::new(NoThreadIdentity, Settings::limited("limited", Duration::from_secs(3_600)));
    for _ in 0..20 {
        let answers: Vec<_> = (0..100).map(|uid| workers.later(uid, Lane::Data, move || Ok(uid))).collect();
        assert!(answers.into_iter().enumerate().all(|(uid, answer)| block_on(answer) == Ok(uid as u32)));
    }
    assert_eq!(block_on(workers.later::<()>(1, Lane::Data, || panic!("intended panic"))), Err(Errno::IO));
    wait_until(|| workers.data.queue.lock().is_empty());
    let numbers = workers.numbers();
    assert_eq!((numbers.hanging, numbers.timed_out), (0, 0));
}

#[test]
fn work_without_a_result_hangs_too_but_is_always_done() {
    let settings = Settings { threads_in_all: Some(4), ..Settings::limited("limited", Duration::from_millis(5)) };
    let (sender, done) = channel();
    while_hanging(settings, |hanging| {
        for uid in [1, 2] {
            let gate = Arc::clone(&hanging.gate);
            hanging.workers.submit(uid, Lane::Data, Box::new(move || drop(gate.lock())));
            wait_until(|| hanging.workers.numbers().hanging == uid as usize);
        }
        hanging.workers.submit(3, Lane::Data, Box::new(move || sender.send("done").expect("the test receives")));
        // The volume's limit passes for this call, which was made later.
        assert_eq!(block_on(hanging.workers.later(3, Lane::Data, || Ok(()))), Err(Errno::TIMEDOUT));
        assert!(done.try_recv().is_err());
        assert_eq!(hanging.workers.numbers(), Numbers { threads: 2, waiting: 1, hanging: 2, timed_out: 3 });
    });
    assert_eq!(done.recv_timeout(Duration::from_secs(60)), Ok("done"));
}
