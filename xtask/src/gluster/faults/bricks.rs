//! Bricks that end or hang.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use proto::status::Status;
use rustix::process::Signal;
use test_environment::BOB;

use super::client::{Smb, outcome, refused};
use super::fixture::{Fixture, LOCAL, SHARE, pause, until};
use super::load::{self, Load, SIZE, all_succeeded, check_files};
use super::{Case, Given};

pub(super) const CASES: &[Case] = &[
    Case::new("dist.brick_killed", &["dist"], dist_brick_killed),
    Case::new("rep.brick_killed", &["rep"], rep_brick_killed),
    Case::new("dist.brick_hangs", &["dist"], |given| brick_hangs(given, "dist", false)),
    Case::new("dist-samba.brick_hangs", &["dist-samba"], |given| brick_hangs(given, "dist-samba", true)),
];

/// How long a request may take whose brick is known to be gone.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Requests for files of a killed brick fail at once, and those for other files do not notice.
fn dist_brick_killed(given: &Given<'_>) -> Result<()> {
    const HELD: usize = 24;
    let fixture = Fixture::start(given.dir, "dist", "")?;
    let mut smb = fixture.connect()?;
    let content = |number: usize| vec![number as u8; SIZE];
    let names: Vec<String> = (0..HELD).map(|number| format!("held{number}")).collect();
    let mut held = Vec::new();
    for (number, name) in names.iter().enumerate() {
        smb.put(name, &content(number))?;
        held.push((number, fixture.brick_of(name)?, smb.open(name)?));
    }
    let dead = held[0].1;
    ensure!(held.iter().any(|(_, brick, _)| *brick != dead), "all files are on one brick");

    let load = Load::start(fixture.server.address(), SHARE, 2, 20);
    pause(Duration::from_secs(3))?;
    let killed = Instant::now();
    fixture.signal_brick(dead, Signal::KILL)?;
    pause(Duration::from_millis(500))?;
    for (number, brick, file) in &held {
        let begin = Instant::now();
        let (read, opened) = (smb.read(*file, SIZE), smb.get(&names[*number], SIZE));
        if *brick == dead {
            for result in [&read, &opened] {
                ensure!(refused(result, &[Status::DEVICE_NOT_CONNECTED]), "{}: {}", names[*number], outcome(result));
            }
        } else {
            ensure!(read? == content(*number) && opened? == content(*number), "{} is different", names[*number]);
        }
        ensure!(begin.elapsed() < AT_ONCE, "{} took {:?}", names[*number], begin.elapsed());
    }
    let mut created = BTreeMap::<String, usize>::new();
    for number in 0..HELD {
        let begin = Instant::now();
        let result = smb.put(&format!("new{number}"), b"new");
        *created.entry(outcome(&result)).or_default() += 1;
        let is_expected = result.is_ok() || refused(&result, &[Status::DEVICE_NOT_CONNECTED]);
        ensure!(is_expected && begin.elapsed() < AT_ONCE, "a new file: {}", outcome(&result));
    }
    println!("new files during the outage: {created:?}");
    pause(Duration::from_secs(3))?;

    fixture.start_bricks()?;
    let back = Instant::now();
    pause(Duration::from_secs(3))?;
    let mut reopened = 0;
    for (number, _, file) in &held {
        let read = smb.read(*file, SIZE);
        let is_closed = refused(&read, &[Status::FILE_CLOSED, Status::DEVICE_NOT_CONNECTED]);
        reopened += usize::from(is_closed);
        ensure!(is_closed || read? == content(*number), "the open {} has another content", names[*number]);
        ensure!(smb.get(&names[*number], SIZE)? == content(*number), "{} is different", names[*number]);
        smb.put(&names[*number], &content(*number))?;
    }
    let work = load.stop()?;
    for change in work.iter().flat_map(|work| &work.changes) {
        let (on_dead, end) = (fixture.brick_of(&change.file)? == dead, change.begin + change.took);
        if !on_dead || end < killed || change.begin > back {
            ensure!(change.result.is_ok(), "{}: {}", change.file, outcome(&change.result));
        } else if change.result.is_err() {
            let is_expected = refused(&change.result, &[Status::DEVICE_NOT_CONNECTED, Status::FILE_CLOSED]);
            ensure!(is_expected, "{}: {}", change.file, outcome(&change.result));
            ensure!(change.took < AT_ONCE, "{} failed after {:?}", change.file, change.took);
        }
    }
    let changes = || work.iter().flat_map(|work| &work.changes);
    let during = || changes().filter(|change| change.begin > killed && change.begin < back);
    let others = changes().filter(|change| fixture.brick_of(&change.file).is_ok_and(|brick| brick != dead));
    println!("load: {}", load::tally(changes()));
    println!("failed: {}", load::times(during().filter(|change| change.result.is_err()).map(|change| change.took)));
    println!("other bricks: {} changes without an error", all_succeeded(others)?);
    println!("{reopened} of {HELD} files that were open had to be opened again");
    let files = check_files(&fixture.mounted(), work.iter().flat_map(|work| &work.files))?;
    println!("{files} files are right on the mount");
    Ok(())
}

/// No client of a replicated volume notices that a brick is gone, and all bricks are equal after it has healed.
fn rep_brick_killed(given: &Given<'_>) -> Result<()> {
    let fixture = Fixture::start(given.dir, "rep", "")?;
    let load = Load::start(fixture.server.address(), SHARE, 2, 20);
    pause(Duration::from_secs(3))?;
    fixture.signal_brick(2, Signal::KILL)?;
    pause(Duration::from_secs(5))?;
    fixture.start_bricks()?;
    pause(Duration::from_secs(5))?;
    let work = load.stop()?;
    let changes = || work.iter().flat_map(|work| &work.changes);
    println!("{} changes without an error", all_succeeded(changes())?);
    println!("{}", load::times(changes().map(|change| change.took)));
    fixture.gluster(&["volume", "heal", fixture.volume()])?;
    let healed = until("the volume is healed", Duration::from_secs(120), || {
        let info = fixture.gluster(&["volume", "heal", fixture.volume(), "info"])?;
        let counts: Vec<_> = info.lines().filter_map(|line| line.strip_prefix("Number of entries: ")).collect();
        ensure!(counts.len() == 3, "not all bricks are listed: {info}");
        Ok(counts.iter().all(|count| *count == "0"))
    })?;
    println!("healed after {healed:.1?}");
    let files = work.iter().flat_map(|work| &work.files);
    let names: BTreeSet<String> = files.clone().map(|file| file.name.clone()).collect();
    for brick in fixture.bricks() {
        let found = fs::read_dir(&brick)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        ensure!(found.collect::<Result<BTreeSet<_>>>()? == names, "{} has other names", brick.display());
    }
    let [first, others @ ..] = fixture.bricks();
    for name in &names {
        let content = fs::read(first.join(name))?;
        for other in &others {
            ensure!(fs::read(other.join(name))? == content, "{name} is different in {}", other.display());
        }
    }
    check_files(&first, files.clone())?;
    println!("{} files are right on the mount, and equal on all bricks", check_files(&fixture.mounted(), files)?);
    Ok(())
}

/// The time limit of calls in the case of a brick that hangs.
const LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of threads of a volume that make calls.
const WORKERS: usize = 64;

/// Calls for a brick that does not answer end after the time limit. Another user of other bricks and of other shares
/// does not notice. `opens` says whether this user opens files, too: without reports of changes, the library asks all
/// bricks for the attributes of a directory every second.
fn brick_hangs(given: &Given<'_>, volume: &'static str, opens: bool) -> Result<()> {
    const CLIENTS: usize = 8;
    let fixture = Fixture::start(given.dir, volume, &format!("\tfrevo:glusterfs timeout = {}\n", LIMIT.as_secs()))?;
    let mut smb = fixture.connect()?;
    let mut names: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for number in 0..48 {
        let name = format!("file{number}");
        smb.put(&name, &[1; SIZE])?;
        names.entry(fixture.brick_of(&name)?).or_default().push(name);
    }
    Smb::connect(fixture.server.address(), LOCAL)?.put("file", &[1; SIZE])?;
    ensure!(names.len() == 3, "a brick has no file");
    let (hung, hanging) = names.pop_first().context("a brick")?;
    let others: Vec<String> = names.into_values().flatten().collect();
    let held = smb.open(&hanging[0])?;
    let (local, stop) = (vec!["file".to_owned()], AtomicBool::new(false));
    let address = fixture.server.address();
    // Reads the files again and again, each with its time.
    let reader = |share: &'static str, names: &[String], opens: bool| -> Result<Vec<(Instant, Duration)>> {
        let mut smb = Smb::connect(address, share)?;
        let open = names.iter().map(|name| Ok((name, smb.open_existing(name)?))).collect::<Result<Vec<_>>>()?;
        let mut read = Vec::new();
        for (name, file) in open.iter().cycle() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let begin = Instant::now();
            let content = if opens { smb.get(name, SIZE) } else { smb.read(*file, SIZE) };
            content.with_context(|| format!("{share}/{name} after {:?}", begin.elapsed()))?;
            read.push((begin, begin.elapsed()));
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(read)
    };
    // Opens a file of the brick that hangs, again and again.
    let waiter = |number: usize| -> Result<Vec<Duration>> {
        let mut smb = Smb::try_connect(address, SHARE, &BOB)??;
        let mut waited = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let result = smb.get(&hanging[number % hanging.len()], SIZE);
            if stop.load(Ordering::Relaxed) || result.is_ok() {
                continue;
            }
            let timed_out = refused(&result, &[Status::IO_TIMEOUT]);
            ensure!(timed_out, "{} after {:?}", outcome(&result), begin.elapsed());
            waited.push(begin.elapsed());
        }
        Ok(waited)
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(|| reader(SHARE, &others, opens)), scope.spawn(|| reader(LOCAL, &local, true))];
        let examined = (|| {
            pause(Duration::from_secs(3))?;
            let begin = Instant::now();
            fixture.signal_brick(hung, Signal::STOP)?;
            let waiters: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || waiter(number))).collect();
            let asked = Instant::now();
            let read = smb.read(held, SIZE);
            let took = asked.elapsed();
            ensure!(refused(&read, &[Status::IO_TIMEOUT]), "a READ: {}", outcome(&read));
            ensure!(took >= LIMIT.mul_f32(0.9) && took < LIMIT * 2, "the READ took {took:?}");
            let mut most = (0, 0);
            let _ = until("", LIMIT * 3, || {
                let (workers, all) = threads(fixture.server.pid())?;
                most = (most.0.max(workers), most.1.max(all));
                Ok(begin.elapsed() > LIMIT * 4)
            });
            println!("threads: at most {} that make calls, {} in all", most.0, most.1);
            ensure!(most.0 > 0 && most.0 <= WORKERS, "{} threads make calls for the volume", most.0);
            let end = Instant::now();
            stop.store(true, Ordering::Relaxed);
            fixture.signal_brick(hung, Signal::CONT)?;
            Ok((waiters, begin, end))
        })();
        stop.store(true, Ordering::Relaxed);
        let readers = readers.map(|thread| thread.join().unwrap_or_else(|_| bail!("a reader panicked")));
        let (waiters, begin, end) = examined?;
        let mut waited = Vec::new();
        for waiter in waiters {
            waited.extend(waiter.join().unwrap_or_else(|_| bail!("a client panicked"))?);
        }
        ensure!(!waited.is_empty() && waited.iter().all(|time| *time < LIMIT * 2), "waited {waited:?}");
        println!("the brick that hangs: {}", load::times(waited));
        for (what, read) in ["other bricks", "the local share"].into_iter().zip(readers) {
            let read = read?;
            let part = |is_in: &dyn Fn(Instant) -> bool| {
                load::times(read.iter().filter(|(at, _)| is_in(*at)).map(|(_, took)| *took))
            };
            println!("{what} before: {}", part(&|at| at < begin));
            println!("{what} meanwhile: {}", part(&|at| at >= begin && at < end));
        }
        Ok::<_, anyhow::Error>(())
    })?;
    let back = until("the brick is used again", Duration::from_secs(30), || Ok(smb.get(&hanging[0], SIZE).is_ok()))?;
    println!("served again after {back:.1?}");
    for name in others.iter().chain(&hanging) {
        ensure!(smb.get(name, SIZE)? == [1; SIZE], "{name} is different");
        smb.put(name, &[2; SIZE])?;
        ensure!(fs::read(fixture.mounted().join(name))? == [2; SIZE], "{name} is different on the mount");
    }
    let read = smb.read(held, SIZE)?;
    ensure!(read == [2; SIZE] || read == [1; SIZE], "the open file has another content");
    Ok(())
}

/// Returns the number of threads that make calls for volumes, and of all threads.
fn threads(pid: u32) -> Result<(usize, usize)> {
    let mut counts = (0, 0);
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = fs::read_to_string(thread?.path().join("comm")).unwrap_or_default();
        counts.0 += usize::from(name.trim() == "gluster");
        counts.1 += 1;
    }
    Ok(counts)
}
