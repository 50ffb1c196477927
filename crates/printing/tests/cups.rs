//! Jobs and questions for a server of IPP that counts its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use printing::{Address, Printing, Settings};
use server::policy::printing::QueueSystem;
use server::policy::{PrintPolicy, Template};
use server::printing::{NewJob, PrintError, PrintSystem, PrintUser, SpoolFile};
use server::testing::{ManualClock, volume};
use server::vfs::{Access, Create, Identity, ListRequest, Lookup, LookupOptions, NewFile, Op, SymlinkPolicy, Vfs};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// The operation of a job (RFC 8011 section 5.4.15).
const PRINT_JOB: [u8; 2] = [0, 2];
/// The user whose jobs are printed.
const ANN: u32 = 1000;

/// What the server of IPP has done.
struct Seen {
    /// Jobs that are being received, and most of them at a time.
    now: AtomicUsize,
    most: AtomicUsize,
    jobs: AtomicUsize,
    questions: AtomicUsize,
    /// A job is answered when it has got a permit.
    permits: Semaphore,
    /// No question is answered.
    hangs: AtomicBool,
}

/// A server of IPP, a print system for it, and a directory for jobs.
struct World {
    seen: Arc<Seen>,
    printing: Printing,
    spool: Arc<dyn Vfs>,
    queue: Arc<PrintPolicy>,
    _directory: tempfile::TempDir,
}

async fn answer(seen: Arc<Seen>, mut stream: UnixStream) -> std::io::Result<()> {
    let mut request = vec![0; 64 * 1024];
    let length = stream.read(&mut request).await?;
    let head = request[..length].windows(4).position(|part| part == b"\r\n\r\n").map_or(0, |end| end + 4);
    let is_job = request[head + 2..head + 4] == PRINT_JOB;
    if is_job {
        let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(now, Ordering::SeqCst);
        if let Ok(permit) = seen.permits.acquire().await {
            permit.forget();
        }
        seen.now.fetch_sub(1, Ordering::SeqCst);
        seen.jobs.fetch_add(1, Ordering::SeqCst);
    } else {
        seen.questions.fetch_add(1, Ordering::SeqCst);
        if seen.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
    // Two jobs, and a printer.
    let body = b"\x01\x01\0\0\0\0\0\x01\x02\x02\x04\x42\0\x0cprinter-name\0\x02lp\x03";
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).await
}

impl World {
    fn new(settings: Settings) -> World {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        let seen = Arc::new(Seen {
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            jobs: AtomicUsize::new(0),
            questions: AtomicUsize::new(0),
            permits: Semaphore::new(0),
            hangs: AtomicBool::new(false),
        });
        let own = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(own.clone(), stream));
            }
        });
        let settings = Settings { cups_server: Address::Socket(path), ..settings };
        let queue = PrintPolicy {
            queue: "lp".to_owned(),
            system: QueueSystem::Cups { options: Vec::new() },
            user_name: Template::parse("%U").expect("a template"),
            min_space: 0,
            max_reported: 0,
            max_jobs: 10,
        };
        let printing = Printing::new(settings, None).expect("no helper is needed");
        let spool = volume::new(Arc::new(ManualClock::new()), volume::options());
        World { seen, printing, spool, queue: Arc::new(queue), _directory: directory }
    }

    fn user(uid: u32) -> PrintUser {
        let op = Op::new(Arc::new(Identity { uid, gid: uid, groups: Box::default() }));
        PrintUser { name: format!("user{uid}"), op, values: Vec::new() }
    }

    async fn job(&self, uid: u32, name: &str) -> NewJob {
        let user = World::user(uid);
        let new = NewFile::new(Create::File(Access { read: true, write: true }), 0o600);
        let (path, op) = (volume::path(name), user.op.clone());
        let (node, metadata) = self.spool.create(&op, &path, new).await.expect("a file").opened();
        node.write(&op, 0, bytes::Bytes::from_static(b"data").into(), false).await.expect("it is written");
        let place = Some((self.spool.clone(), path));
        let (charges, counted) = (Vec::new(), None);
        let spool =
            SpoolFile { node, op, path: format!("/spool/{name}").into(), place, id: metadata.id, charges, counted };
        NewJob { title: name.to_owned(), user, client: "box".to_owned(), spool, size: 4 }
    }

    async fn files(&self) -> usize {
        let links = LookupOptions::exact(SymlinkPolicy::default());
        let op = World::user(0).op;
        let Ok(Lookup::Found { node, .. }) = self.spool.lookup(&op, &volume::path(""), links).await else { return 0 };
        let listing = ListRequest { cursor: 0, count: 1000, metadata: false };
        node.list(&op, listing).await.expect("it can be listed").entries.len()
    }

    /// Waits until something holds.
    async fn until(&self, holds: impl Fn(&Seen) -> bool) {
        while !holds(&self.seen) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn few_jobs_are_sent_at_a_time_and_none_is_lost() {
    const JOBS: usize = 60;
    let world = World::new(Settings::default());
    let mut answers = Vec::new();
    for number in 0..JOBS {
        let job = world.job(ANN, &format!("job{number}")).await;
        answers.push(world.printing.submit(&world.queue, job));
    }
    let other = world.job(ANN + 1, "other").await;
    answers.push(world.printing.submit(&world.queue, other));
    // Another user's job does not wait for those of the first user.
    world.until(|seen| seen.now.load(Ordering::SeqCst) == 9).await;
    world.seen.permits.add_permits(JOBS + 1);
    for answer in answers {
        assert_eq!(answer.await, Ok(()));
    }
    assert_eq!(world.seen.jobs.load(Ordering::SeqCst), JOBS + 1);
    assert!(world.seen.most.load(Ordering::SeqCst) <= 16);
    assert_eq!(world.files().await, 0);
}

#[tokio::test]
async fn a_cache_costs_one_question_for_many_jobs() {
    let user = World::user(ANN);
    for (time, questions) in [(600, 1), (0, 8)] {
        let world = World::new(Settings { lpq_cache_time: Duration::from_secs(time), ..Settings::default() });
        world.seen.permits.add_permits(100);
        for number in 0..8 {
            let expected = if time == 0 { 2 } else { 2 + number };
            assert_eq!(world.printing.job_count(&world.queue, &user).await, Ok(expected), "{time}");
            let job = world.job(ANN, &format!("job{number}")).await;
            assert_eq!(world.printing.submit(&world.queue, job).await, Ok(()));
        }
        assert_eq!(world.seen.questions.load(Ordering::SeqCst), questions, "{time}");
        // A queue that is full as far as known may have printed since.
        assert_eq!(world.printing.job_count(&world.queue, &user).await, Ok(2));
        assert_eq!(world.seen.questions.load(Ordering::SeqCst), questions + 1, "{time}");
    }
}

#[tokio::test]
async fn a_stop_waits_for_jobs_and_removes_the_files_of_others() {
    let world = World::new(Settings::default());
    let jobs = [world.job(ANN, "one").await, world.job(ANN, "two").await];
    let [one, two] = jobs.map(|job| world.printing.submit(&world.queue, job));
    world.until(|seen| seen.now.load(Ordering::SeqCst) == 2).await;
    let (first, ()) = tokio::join!(one, async {
        world.seen.permits.add_permits(1);
        world.until(|seen| seen.jobs.load(Ordering::SeqCst) == 1).await;
        world.printing.stop(Duration::from_millis(50)).await;
    });
    let second = two.await;
    let stops = |result: &server::printing::Result<()>| {
        let Err(PrintError::Unavailable(why)) = result else { return false };
        why.contains("stops")
    };
    // Which of them was answered is a matter of chance.
    assert!(first.is_ok() && stops(&second) || stops(&first) && second.is_ok(), "{first:?} {second:?}");
    assert_eq!(world.files().await, 0);
    let late = world.job(ANN, "late").await;
    assert!(stops(&world.printing.submit(&world.queue, late).await));
}

#[tokio::test]
async fn a_server_that_hangs_is_asked_once_and_its_queues_stay_known() {
    let world = World::new(Settings { lpq_cache_time: Duration::ZERO, ..Settings::default() });
    let queues = world.printing.queues().await.expect("it answers");
    assert_eq!(queues[0].name, "lp");
    world.seen.hangs.store(true, Ordering::SeqCst);
    tokio::time::pause();
    let (user, before) = (World::user(ANN), tokio::time::Instant::now());
    let ask = || world.printing.job_count(&world.queue, &user);
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    for count in [one, two, three] {
        assert!(matches!(&count, Err(PrintError::Unavailable(why)) if why.contains("in time")), "{count:?}");
    }
    assert!(before.elapsed() < Duration::from_secs(5), "the clock is that of the test: {:?}", before.elapsed());
    assert!(world.seen.questions.load(Ordering::SeqCst) <= 2, "they share one question");
    // The list has expired.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let before = tokio::time::Instant::now();
    assert_eq!(world.printing.queues().await.map(|queues| queues.len()), Ok(1));
    assert!(before.elapsed() < Duration::from_secs(1), "nobody waits for it");
}
