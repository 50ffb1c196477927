//! Measures the file system of a share, with the system calls that the server makes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{Advice, AtFlags, FallocateFlags, OFlags, StatxFlags, XattrFlags, inotify};
use server::acl::model::posix_acl::{self, Entry, PosixAcl, Tag};

use super::measurements::{Attributes, Concurrent, Features, Flush, Storage};
use super::trial::TrialDirectory;
use super::work::Work;

/// Bytes of a sequential read or write, like those of a client with large requests.
const CHUNK: usize = 1 << 20;
/// Bytes after which a sequential write waits for the disk.
const SYNCED: u64 = 32 << 20;
/// Bytes of a random read.
const BLOCK: usize = 4096;
/// Numbers of threads for random reads.
const THREADS: [usize; 10] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64];
/// Threads that flush at the same time.
const FLUSHING: usize = 8;
/// Bytes of the longest attribute in Linux (XATTR_SIZE_MAX).
const LONGEST_ATTRIBUTE: usize = 65_536;
/// Bytes of an attribute whose access is timed: a short security descriptor.
const ATTRIBUTE: usize = 100;
/// How long the kernel may take to report a change.
const NOTIFICATION: Duration = Duration::from_secs(1);

/// Measures the file system of `trial`, a directory in `share`.
pub(super) fn measure(work: &Work, trial: &TrialDirectory, share: &Path) -> Result<Storage> {
    let mut storage = Storage {
        file_system: report::machine::file_system_of(share).unwrap_or_else(|| "unknown".to_owned()),
        attributes: attributes(trial)?,
        ..Storage::default()
    };
    files(work, trial, &mut storage)?;
    let (file, direct) = trial.nameless_file()?;
    let written = sequential(work, &file, direct.as_ref(), &mut storage)?;
    storage.random_reads = random(work, &file, direct.as_ref(), written)?;
    storage.features = features(trial, &file, written)?;
    drop((file, direct));
    storage.flush = flush(work, trial)?;
    Ok(storage)
}

/// Measures the creation, look-up, listing and removal of files.
fn files(work: &Work, trial: &TrialDirectory, storage: &mut Storage) -> Result<()> {
    let deadline = work.start("files", 1)?;
    let name = |number: usize| format!("file-{number}");
    let mut count = 0;
    let begun = Instant::now();
    while count < work.extent.files && (deadline.is_ahead()? || count == 0) {
        trial.create_file(&name(count))?;
        count += 1;
    }
    let each = |begun: Instant| begun.elapsed().as_secs_f64() / count as f64;
    storage.create = each(begun);
    drop(deadline);
    let _deadline = work.start("look-ups and listings", 1)?;
    let begun = Instant::now();
    for number in 0..count {
        work.check()?;
        let fd = trial.open_file(&name(number), OFlags::PATH)?;
        rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
    }
    storage.stat = each(begun);
    let begun = Instant::now();
    let listed = trial.list()?;
    storage.list_per_name = begun.elapsed().as_secs_f64() / listed.max(1) as f64;
    let begun = Instant::now();
    for number in 0..count {
        trial.remove(name(number))?;
    }
    storage.remove = each(begun);
    Ok(())
}

/// Tries extended attributes and times them.
fn attributes(trial: &TrialDirectory) -> Result<Attributes> {
    const NAME: &str = "user.frevo-trial";
    let (file, _) = trial.nameless_file()?;
    let mut found = Attributes::default();
    let set = |name: &str, value: &[u8]| rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty());
    let mut fits = |size: usize| {
        let fits = set(NAME, &vec![b'x'; size]).is_ok();
        // A longer value could otherwise lack the space of the one before.
        let _ = rustix::fs::fremovexattr(&file, NAME);
        fits
    };
    found.largest = largest(LONGEST_ATTRIBUTE, &mut fits);
    if found.largest > 0 {
        const TIMES: u32 = 200;
        let time = |work: &mut dyn FnMut() -> rustix::io::Result<()>| -> Result<f64> {
            let begun = Instant::now();
            (0..TIMES).try_for_each(|_| work())?;
            Ok(begun.elapsed().as_secs_f64() / f64::from(TIMES))
        };
        found.set = Some(time(&mut || set(NAME, &[b'x'; ATTRIBUTE]))?);
        let mut value = [0u8; ATTRIBUTE];
        found.get = Some(time(&mut || rustix::fs::fgetxattr(&file, NAME, &mut value).map(drop))?);
        rustix::fs::fremovexattr(&file, NAME)?;
    }
    found.security = set("security.frevo-trial", &[b'x'; ATTRIBUTE]).is_ok();
    let entry = |tag, permissions| Entry { tag, permissions };
    let list = [(Tag::Owner, 6), (Tag::User(2_000_000), 4), (Tag::OwningGroup, 4), (Tag::Mask, 4), (Tag::Other, 0)];
    let acl = PosixAcl::new(list.into_iter().map(|(tag, permissions)| entry(tag, permissions)).collect());
    found.posix_acls = set(posix_acl::ACCESS, &acl.encode()).is_ok();
    Ok(found)
}

/// Returns the largest size up to `most` for which `fits` is true; 0 if not even 1 fits. What fits is smaller than what
/// does not.
fn largest(most: usize, fits: &mut dyn FnMut(usize) -> bool) -> usize {
    if fits(most) {
        return most;
    }
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// Writes and reads a file, and returns its size.
fn sequential(work: &Work, file: &File, direct: Option<&File>, storage: &mut Storage) -> Result<u64> {
    // Blocks that differ, so that the file system can neither compress nor deduplicate them.
    let mut content = vec![0; CHUNK];
    aws_lc_rs::rand::fill(&mut content).ok().context("the random generator failed")?;
    let deadline = work.start("writing", 1)?;
    let mut written = 0;
    let begun = Instant::now();
    while written < work.extent.bytes && (deadline.is_ahead()? || written < CHUNK as u64) {
        for (number, block) in content.chunks_exact_mut(BLOCK).enumerate() {
            block[..8].copy_from_slice(&(written + number as u64).to_le_bytes());
        }
        file.write_all_at(&content, written).context("cannot write to the share")?;
        written += CHUNK as u64;
        if written % SYNCED == 0 {
            file.sync_data()?;
        }
    }
    file.sync_all().context("cannot flush a file of the share")?;
    storage.write_rate = written as f64 / begun.elapsed().as_secs_f64();
    drop(deadline);
    let deadline = work.start("reading", 1)?;
    let source = direct.unwrap_or(file);
    storage.reads_bypass_cache = direct.is_some();
    let mut buffer = Aligned::new(CHUNK);
    let mut read = 0;
    forget(file);
    let begun = Instant::now();
    while read < written && (deadline.is_ahead()? || read == 0) {
        source.read_exact_at(buffer.bytes(), read).context("cannot read from the share")?;
        read += CHUNK as u64;
    }
    storage.read_rate = read as f64 / begun.elapsed().as_secs_f64();
    Ok(written)
}

/// Makes the kernel drop the cached content of a file.
fn forget(file: &File) {
    // Only a hint: if it is refused, the reads are those of cached data.
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

/// Measures random reads by different numbers of threads. Of two rounds the faster one counts, because other programs
/// can only slow a round down.
fn random(work: &Work, file: &File, direct: Option<&File>, size: u64) -> Result<Vec<Concurrent>> {
    const ROUNDS: usize = 2;
    let deadline = work.start("random reads", 3)?;
    let time = deadline.time() / (THREADS.len() * ROUNDS) as u32;
    if direct.is_none() {
        // Only a hint: without it the kernel reads more than was asked for.
        let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
    }
    let mut found = THREADS.map(|threads| Concurrent { threads, per_second: 0.0 });
    for _ in 0..ROUNDS {
        for one in &mut found {
            if direct.is_none() {
                forget(file);
            }
            let per_second = round(work, direct.unwrap_or(file), size, one.threads, time)?;
            one.per_second = one.per_second.max(per_second);
        }
    }
    Ok(found.into())
}

/// Returns how many blocks per second are read by `threads` threads.
fn round(work: &Work, file: &File, size: u64, threads: usize, time: Duration) -> Result<f64> {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let read = |seed: usize| read_randomly(file, size, seed as u64, &stop, &count);
    let done = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || read(thread + 1))).collect();
        while begun.elapsed() < time && work.check().is_ok() {
            std::thread::sleep(time.min(Duration::from_millis(20)));
        }
        stop.store(true, Ordering::Relaxed);
        // A panic is a bug; the scope would repeat it.
        readers.into_iter().try_for_each(|reader| reader.join().unwrap_or(Ok(())))
    });
    done.context("cannot read from the share")?;
    work.check()?;
    Ok(count.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
}

fn read_randomly(file: &File, size: u64, seed: u64, stop: &AtomicBool, count: &AtomicU64) -> std::io::Result<()> {
    let blocks = (size / BLOCK as u64).max(1);
    let mut buffer = Aligned::new(BLOCK);
    // An xorshift generator: the order only has to be irregular.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    while !stop.load(Ordering::Relaxed) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.read_exact_at(buffer.bytes(), state % blocks * BLOCK as u64)?;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// A buffer at an address that reads past the cache require.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Aligned {
        let memory = vec![0; length + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK);
        Aligned { memory, start, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// Measures how long a flush takes.
fn flush(work: &Work, trial: &TrialDirectory) -> Result<Flush> {
    const FLUSHES: usize = 500;
    let deadline = work.start("flushes", 1)?;
    let (file, _) = trial.nameless_file()?;
    let half = deadline.time() / 2;
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.is_empty() || (begun.elapsed() < half && times.len() < FLUSHES) {
        work.check()?;
        times.push(flush_once(&file, times.len() as u64)?);
    }
    times.sort_by(f64::total_cmp);
    let files: Vec<File> = (0..FLUSHING).map(|_| Ok(trial.nameless_file()?.0)).collect::<Result<_>>()?;
    let begun = Instant::now();
    let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
        let flushing = |file: &File| -> Result<u64> {
            let mut count = 0;
            while count == 0 || (begun.elapsed() < half && work.check().is_ok()) {
                flush_once(file, count)?;
                count += 1;
            }
            Ok(count)
        };
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(move || flushing(file))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(0))).collect()
    });
    let mut sum = 0;
    for count in counts {
        sum += count.context("cannot flush a file of the share")?;
    }
    let per_second = sum as f64 / begun.elapsed().as_secs_f64();
    Ok(Flush {
        median: times[times.len() / 2],
        worst: times[times.len() - 1],
        eight_threads: Concurrent { threads: FLUSHING, per_second },
    })
}

/// Writes a block and flushes it. At most 1 MiB of the file is used.
fn flush_once(file: &File, number: u64) -> Result<f64> {
    let offset = number % 256 * BLOCK as u64;
    file.write_all_at(&[number as u8; BLOCK], offset)?;
    let begun = Instant::now();
    file.sync_all()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Tries what the file system can do.
fn features(trial: &TrialDirectory, file: &File, size: u64) -> Result<Features> {
    let (copy, _) = trial.nameless_file()?;
    let preallocates = rustix::fs::fallocate(&copy, FallocateFlags::KEEP_SIZE, 0, CHUNK as u64).is_ok();
    copy.set_len(0)?;
    let wanted = size.min(SYNCED);
    let begun = Instant::now();
    let mut copied = 0;
    while copied < wanted {
        let (mut from, mut to) = (copied, copied);
        let left = usize::try_from(wanted - copied).unwrap_or(CHUNK);
        match rustix::fs::copy_file_range(file, Some(&mut from), &copy, Some(&mut to), left) {
            Ok(0) | Err(_) => break,
            Ok(count) => copied += count as u64,
        }
    }
    let copy_rate = (copied == wanted).then(|| wanted as f64 / begun.elapsed().as_secs_f64());
    copy.set_len(0)?;
    let clones = rustix::fs::ioctl_ficlone(&copy, file).is_ok();
    Ok(Features { clones, copy_rate, preallocates, notifies: notifies(trial).unwrap_or(false) })
}

/// Whether the kernel reports a file that is created.
fn notifies(trial: &TrialDirectory) -> Result<bool> {
    let queue = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&queue, trial.link(), inotify::WatchFlags::CREATE)?;
    trial.create_file("noticed")?;
    let begun = Instant::now();
    let mut space = [const { std::mem::MaybeUninit::uninit() }; 1024];
    let mut found = false;
    while !found && begun.elapsed() < NOTIFICATION {
        found = inotify::Reader::new(&queue, &mut space).next().is_ok();
        if !found {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    trial.remove("noticed")?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::work::Extent;
    use super::*;

    #[test]
    fn every_value_of_a_temporary_directory_is_measured() {
        let top = tempfile::tempdir().unwrap();
        let trial = TrialDirectory::create(top.path(), 1 << 20).unwrap();
        let extent = Extent { time: Duration::from_millis(500), bytes: 2 << 20, files: 20 };
        let storage = measure(&Work::new(extent), &trial, top.path()).unwrap();
        let times = [storage.create, storage.stat, storage.remove, storage.list_per_name, storage.flush.median];
        assert!(times.iter().all(|time| (0.0..10.0).contains(time) && *time > 0.0), "{times:?}");
        assert!(storage.write_rate > 0.0 && storage.read_rate > 0.0 && storage.flush.worst >= storage.flush.median);
        assert_eq!(storage.random_reads.iter().map(|it| it.threads).collect::<Vec<_>>(), THREADS);
        assert!(storage.random_reads.iter().all(|it| it.per_second > 0.0), "{:?}", storage.random_reads);
        assert_eq!(trial.list().unwrap(), 2, "only the entries of every directory are left");
    }

    #[test]
    fn the_largest_size_that_fits_is_found() {
        for expected in [0, 1, 4040, 65_535, 65_536] {
            assert_eq!(largest(65_536, &mut |size| size <= expected), expected);
        }
    }

    #[test]
    fn an_interrupted_measurement_ends_with_an_error() {
        let top = tempfile::tempdir().unwrap();
        let trial = TrialDirectory::create(top.path(), 1 << 20).unwrap();
        let work = Work::new(Extent { time: Duration::from_secs(600), bytes: 1 << 20, files: 1_000_000 });
        work.stop().store(true, Ordering::Relaxed);
        let error = measure(&work, &trial, top.path()).unwrap_err().to_string();
        assert!(error.contains("interrupted"), "{error}");
        drop(trial);
        assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 0);
    }
}
