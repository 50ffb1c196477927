//! Clients read files that others write and truncate, over plain, signed and sealed connections.
//!
//! Each number in a file tells its position and the version of the content, so a reader recognizes a byte that the file
//! never contained at that position. One file is never changed and one is overwritten now and then; those are sent from
//! the page cache without a copy. The others are written and truncated all the time.
//!
//! Other cases do the same on XFS, where space is allocated late, on FUSE, on an overlay, in streams, and while the
//! system gives the server no pipes to send files without a copy.
//!
//! Each case runs for a few seconds. `FREVO_CONTENT_SECONDS=1800` makes it half an hour.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use client::{Client, Credentials, Open, Options};
use proto::fscc::FileInformationClass;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType};
use tokio::runtime::{Builder, Runtime};

use crate::fixture::Fixture;
use crate::hammer::Random;
use crate::mount::Mount;
use crate::suite::Case;
use test_environment::{ALICE, Disk, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("content.readers_writers", readers_writers),
    Case::new("content.streams", in_streams),
    Case::new("content.xfs", on_xfs).needs_root(),
    Case::new("content.fuse", on_fuse).needs_root(),
    Case::new("content.overlay", on_overlay).needs_root(),
    Case::new("content.without_pipes", without_pipes).needs_root().frevo_only().alone(),
];

const TEMPLATE: &str = "[global]\n@TARGET@\n[files]\n\tpath = @PATH@\n\tread only = no\n";

/// The size of the files that are not truncated, and the largest size of the others.
const SIZE: usize = 4 << 20;
const WORD: usize = 8;
/// How long a file rests so that it is sent without a copy, and then until it is overwritten again.
const REST: Duration = Duration::from_millis(3_500);
const NAMES: [&str; 4] = ["still", "calm", "busy", "busier"];

/// The readers' connections: whether they sign, and whether they seal.
const MODES: [(bool, bool); 4] = [(false, false), (false, false), (true, false), (false, true)];

/// The index of the first file that is truncated.
const TRUNCATED: usize = 2;

/// Where the files are.
#[derive(Clone, Copy)]
struct Place {
    address: SocketAddr,
    /// What precedes their names.
    prefix: &'static str,
}

impl Place {
    fn name(self, which: usize) -> String {
        format!("{}{}", self.prefix, NAMES[which])
    }
}

/// The newest version of each file that a writer may have begun to write.
type Versions = Arc<[AtomicU64; NAMES.len()]>;

/// How long a case runs: `usual` seconds, unless the environment says otherwise.
fn time(usual: u64) -> Duration {
    let told = std::env::var("FREVO_CONTENT_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(told.unwrap_or(usual))
}

fn content(from: usize, to: usize, version: u64) -> Vec<u8> {
    (from / WORD..to / WORD).flat_map(|position| (version << 32 | position as u64).to_le_bytes()).collect()
}

/// Checks that each number has the right position and a version that was written. In a file that is truncated
/// meanwhile it may be 0: ext4 shows that to local programs too, because it fills the rest of the last page with zeros
/// while others copy it.
fn check(data: &[u8], offset: usize, newest: u64, is_truncated: bool) -> Result<()> {
    let (words, rest) = data.as_chunks::<WORD>();
    ensure!(rest.is_empty(), "the file has {} bytes after {offset}", data.len());
    for (index, word) in words.iter().enumerate() {
        let (word, position) = (u64::from_le_bytes(*word), offset / WORD + index);
        let (version, found) = (word >> 32, word & 0xffff_ffff);
        ensure!(
            found == position as u64 && (1..=newest).contains(&version) || is_truncated && word == 0,
            "{word:#x} at {:#x}: the file had versions up to {newest}",
            position * WORD
        );
    }
    Ok(())
}

async fn connect(address: SocketAddr, sign: bool, seal: bool) -> Result<Client> {
    let credentials = Credentials::password(ALICE.name, ALICE.password);
    let options = Options { credentials, sign, seal, ..Options::default() };
    Client::connect(address, "127.0.0.1", "files", &options).await.context("connecting")
}

async fn set_size(client: &mut Client, file_id: FileId, size: usize) -> client::Result<()> {
    let size = (size as u64).to_le_bytes();
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::END_OF_FILE.0,
        additional_information: 0,
        file_id,
        buffer: &size,
    };
    client.set_info(&request).await
}

/// Overwrites one file as a whole and lets it rest.
async fn overwrite_calmly(place: Place, versions: Versions, end: Instant) -> Result<()> {
    let mut client = connect(place.address, false, false).await?;
    let file = client.open(&Open::file(&place.name(1))).await?;
    while Instant::now() + REST < end {
        tokio::time::sleep(REST).await;
        let version = versions[1].fetch_add(1, Ordering::SeqCst) + 1;
        client.write(file, 0, &content(0, SIZE, version)).await?;
    }
    client.close(file).await?;
    Ok(())
}

/// Overwrites, truncates and extends a file.
async fn change(place: Place, which: usize, seal: bool, versions: Versions, end: Instant) -> Result<()> {
    let mut random = Random::new(which as u64);
    let mut client = connect(place.address, false, seal).await?;
    let file = client.open(&Open::file(&place.name(which))).await?;
    let mut size = SIZE;
    while Instant::now() < end {
        let version = versions[which].fetch_add(1, Ordering::SeqCst) + 1;
        let offset = |random: &mut Random| random.next(SIZE / WORD + 1) * WORD;
        match random.next(3) {
            0 => {
                // A larger file gets a hole.
                size = offset(&mut random);
                set_size(&mut client, file, size).await?;
            }
            1 => {
                let to = size.max(offset(&mut random));
                client.write(file, size as u64, &content(size, to, version)).await?;
                size = to;
            }
            _ => {
                let (from, to) = (offset(&mut random).min(size), offset(&mut random).min(size));
                let (from, to) = (from.min(to), from.max(to));
                client.write(file, from as u64, &content(from, to, version)).await?;
            }
        }
    }
    client.close(file).await?;
    Ok(())
}

async fn read(place: Place, seed: u64, sign: bool, seal: bool, versions: Versions, end: Instant) -> Result<u64> {
    let mut random = Random::new(seed);
    let mut client = connect(place.address, sign, seal).await?;
    let mut files = Vec::new();
    for which in 0..NAMES.len() {
        files.push(client.open(&Open::existing(&place.name(which))).await?);
    }
    let mut total = 0;
    while Instant::now() < end {
        let which = random.next(files.len());
        let offset = random.next(SIZE / WORD) * WORD;
        let length = (random.next((1 << 20) / WORD) + 1) * WORD;
        let data = client.read(files[which], offset as u64, length as u32).await?;
        let newest = versions[which].load(Ordering::SeqCst);
        let context = || format!("{} (sign: {sign}, seal: {seal})", NAMES[which]);
        check(data, offset, newest, which >= TRUNCATED).with_context(context)?;
        total += data.len() as u64;
    }
    Ok(total)
}

fn readers_writers(fixture: &mut Fixture) -> Result<()> {
    let place = Place { address: fixture.server.address(), prefix: "" };
    work(place, Some(&fixture.share("files")), time(12))
}

/// With a server of its own, because other cases look into the store of streams.
fn in_streams(fixture: &mut Fixture) -> Result<()> {
    let [directory] = directories(fixture, ["content-streams"])?;
    let server = start(fixture, "in-streams", &directory)?;
    work(Place { address: server.address(), prefix: "content:" }, None, time(6))
}

/// In a mount namespace that ends with its thread.
fn on_xfs(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let done = thread::scope(|scope| {
        let worked = scope.spawn(|| {
            let mut mkfs = Command::new("mkfs.xfs");
            mkfs.arg("-q");
            let disk = Disk::with(&fixture.environment.dir().join("data"), mkfs, "loop")?;
            on(fixture, "on-xfs", &disk.point())
        });
        worked.join()
    });
    done.map_err(|_| anyhow!("the thread with the file system panicked"))?
}

fn on_fuse(fixture: &mut Fixture) -> Result<()> {
    let [source, place] = directories(fixture, ["content-fuse-source", "content-fuse"])?;
    let _mount = Mount::fuse(&source, &place)?;
    on(fixture, "on-fuse", &place)
}

fn on_overlay(fixture: &mut Fixture) -> Result<()> {
    let [parts, place] = directories(fixture, ["content-overlay-parts", "content-overlay"])?;
    // The upper directory of an overlay must not be on an overlay.
    let _memory = Mount::memory("200m", &parts)?;
    for part in ["lower", "upper", "work"] {
        fs::create_dir(parts.join(part))?;
    }
    let _mount = Mount::overlay(&parts, &place)?;
    on(fixture, "on-overlay", &place)
}

/// The pipes of the server's user have all pages that `fs.pipe-user-pages-soft` allows, so the data is copied. As soon
/// as they are closed, it is sent without a copy again.
fn without_pipes(fixture: &mut Fixture) -> Result<()> {
    let [directory] = directories(fixture, ["content-without-pipes"])?;
    let server = start(fixture, "without-pipes", &directory)?;
    let place = Place { address: server.address(), prefix: "" };
    let before = pipes(&server)?;
    let taken = take_all_pipes()?;
    work(place, Some(&directory), time(6))?;
    let during = pipes(&server)?;
    ensure!(during == before, "the server has {during} ends of pipes instead of {before}, so it was given pipes");
    drop(taken);
    work(place, Some(&directory), time(6))?;
    // The server may have closed its idle pipes since, and asks the system for new ones only now and then.
    let late = Instant::now() + Duration::from_secs(60);
    while pipes(&server)? <= before {
        ensure!(Instant::now() < late, "the server has no more than {before} ends of pipes, so it sends only copies");
        runtime()?.block_on(compare(place, Some(&directory)))?;
    }
    Ok(())
}

/// Returns how many descriptors of pipes the server has.
fn pipes(server: &Server) -> Result<usize> {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid()))?.flatten();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(targets.filter(|target| target.as_os_str().as_encoded_bytes().starts_with(b"pipe:")).count())
}

/// Creates pipes of 1 MiB until the kernel refuses further ones of that size to unprivileged processes of this user.
fn take_all_pipes() -> Result<Vec<(OwnedFd, OwnedFd)>> {
    const PIPE: usize = 1 << 20;
    let limit: usize = fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft")?.trim().parse()?;
    ensure!(limit > 0, "/proc/sys/fs/pipe-user-pages-soft does not limit pipes; set it to 16384, the kernel's default");
    let mut taken = Vec::new();
    while taken.len() * PIPE <= limit * rustix::param::page_size() {
        // Not inherited by the programs that other cases start meanwhile.
        let ends = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // A process without CAP_SYS_RESOURCE is refused at the limit.
        match rustix::pipe::fcntl_setpipe_size(&ends.0, PIPE) {
            Ok(_) => taken.push(ends),
            Err(rustix::io::Errno::PERM) => break,
            Err(error) => return Err(error).context("enlarging a pipe"),
        }
    }
    Ok(taken)
}

fn directories<const N: usize>(fixture: &Fixture, names: [&str; N]) -> Result<[PathBuf; N]> {
    let made = names.map(|name| fixture.environment.make_dir(name, &ALICE, 0o777));
    let made: Vec<_> = made.into_iter().collect::<Result<_>>()?;
    Ok(made.try_into().expect("as many as there are names"))
}

fn start(fixture: &Fixture, name: &str, directory: &Path) -> Result<Server> {
    fixture.environment.start(name, &TEMPLATE.replace("@PATH@", &directory.display().to_string()))
}

/// The clients work in a directory of another file system, with a server of its own.
fn on(fixture: &Fixture, name: &str, directory: &Path) -> Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o777))?;
    let server = start(fixture, name, directory)?;
    work(Place { address: server.address(), prefix: "" }, Some(directory), time(6))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// The clients work for some time. At the end they see what is in the directory.
fn work(place: Place, directory: Option<&Path>, time: Duration) -> Result<()> {
    let Place { address, .. } = place;
    runtime()?.block_on(async {
        let mut client = connect(address, false, false).await?;
        for which in 0..NAMES.len() {
            let file = client.open(&Open::file(&place.name(which))).await?;
            client.write(file, 0, &content(0, SIZE, 1)).await?;
            client.close(file).await?;
        }
        let end = Instant::now() + REST + time;
        let versions: Versions = Arc::new(std::array::from_fn(|_| AtomicU64::new(1)));
        let mut changes = vec![tokio::spawn(overwrite_calmly(place, versions.clone(), end))];
        for (which, seal) in [(TRUNCATED, false), (TRUNCATED + 1, true)] {
            changes.push(tokio::spawn(change(place, which, seal, versions.clone(), end)));
        }
        let readers: Vec<_> = std::iter::zip(1.., MODES)
            .map(|(seed, (sign, seal))| tokio::spawn(read(place, seed, sign, seal, versions.clone(), end)))
            .collect();
        for reader in readers {
            ensure!(reader.await?? > 0, "a reader has read nothing");
        }
        for change in changes {
            change.await??;
        }
        compare(place, directory).await
    })
}

/// Reads all files over each kind of connection. They have what is in the directory, or all the same if that is not
/// known.
async fn compare(place: Place, directory: Option<&Path>) -> Result<()> {
    for which in 0..NAMES.len() {
        let name = place.name(which);
        let mut expected = match directory {
            Some(directory) => Some(fs::read(directory.join(&name))?),
            None => None,
        };
        for (sign, seal) in MODES {
            let mut client = connect(place.address, sign, seal).await?;
            let file = client.open(&Open::existing(&name)).await?;
            let read = client.read(file, 0, SIZE as u32).await?;
            let expected = expected.get_or_insert_with(|| read.to_vec());
            ensure!(read == *expected, "{name} differs (sign: {sign}, seal: {seal})");
        }
    }
    Ok(())
}
