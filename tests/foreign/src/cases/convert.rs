//! A share of files with POSIX ACLs, converted by `frevo acl convert` while a client reads, with interruptions.
//!
//! `FREVO_CONVERT_FILES` sets the number of files. The small default shows that nothing fails; with many files the run
//! shows how long a client waits.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use client::{Client, Credentials, Open};
use proto::dtyp::{SecurityDescriptor, SecurityInformation};
use proto::smb2::query_info::{InfoType, QueryInfoRequest};
use serde_json::Value;

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, Server, frevo};

pub(super) const CASES: &[Case] =
    &[Case::new("convert.while_a_client_reads", while_a_client_reads).needs_root().frevo_only().alone()];

const SHARE: &str = "[global]\n@TARGET@\n\tvfs objects = acl_xattr\n[convert]\n\tpath = @CONVERT@\n\tread only = no\n\
                     \tfrevo:acl store = never\n";
/// Number of files per directory.
const IN_A_DIRECTORY: usize = 100;
/// Numbers of POSIX ACL entries, one for each third of the directories.
const ENTRIES: [u32; 3] = [3, 6, 34];
/// Number of files whose first and second accesses are timed.
const TIMED: usize = 2_000;
const CONTENT: &[u8] = b"readable by everyone\n";
/// How long a client reads before and after, for 5,000 files. For more files it reads longer, so that as much happens
/// concurrently.
const ALONE: Duration = Duration::from_secs(2);
/// A run is interrupted when it has converted this fraction of the files, which is more than there are directories.
const INTERRUPTED: f64 = 0.02;
/// Time limit for that.
const PATIENCE: Duration = Duration::from_secs(60);

fn while_a_client_reads(fixture: &mut Fixture) -> Result<()> {
    let count = std::env::var("FREVO_CONVERT_FILES").ok().map_or(Ok(5_000), |count| count.parse())?;
    let path = fixture.environment.make_dir("data/convert", &ALICE, 0o777)?;
    make_files(&path, count)?;
    let template = SHARE.replace("@CONVERT@", path.to_str().context("a UTF-8 path")?);
    let server = fixture.environment.start("convert", &template)?;
    accesses(&server, count, "not converted")?;
    let reader = Reader::start(&server, count)?;
    let alone = ALONE.mul_f64(count as f64 / 5_000.0);
    std::thread::sleep(alone);
    reader.phase.store(1, Ordering::Relaxed);
    let begun = Instant::now();
    let rate = (count as f64 / 5.0).to_string();
    let enough = (count as f64 * INTERRUPTED) as usize;
    let stopped = interrupt(&server, &["--rate", &rate], libc::SIGINT, &path, enough)?;
    ensure!(!stopped.status.success(), "an interrupted run reports success");
    let summary: Value = serde_json::from_slice(&stopped.stdout).context("no summary of an interrupted run")?;
    ensure!(summary["complete"] == false && number(&summary, "stored")? > 0, "{summary}");
    interrupt(&server, &["--rate", &rate], libc::SIGKILL, &path, 2 * enough)?;
    let rest = convert(&server, &[])?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(rest["resumed"] == true && rest["complete"] == true, "{rest}");
    ensure!(number(&rest, "seen")? < count as u64, "converted files are processed again: {rest}");
    reader.phase.store(2, Ordering::Relaxed);
    std::thread::sleep(alone);
    reader.finish(&format!("{count} files in {seconds:.1} s, twice interrupted"))?;
    let again = convert(&server, &[])?;
    let all = (count + count.div_ceil(IN_A_DIRECTORY) + 1) as u64;
    ensure!(number(&again, "stored")? == 0 && number(&again, "valid")? == all, "not everything is converted: {again}");
    accesses(&server, count, "converted")?;
    shown_as_before(&server, &path)
}

/// Checks that a file of each kind shows what its POSIX ACL alone would show.
fn shown_as_before(server: &Server, path: &Path) -> Result<()> {
    for directory in 0..ENTRIES.len() {
        for file in [path.join(name(directory * IN_A_DIRECTORY)), path.join(format!("d{directory}"))] {
            let out = command(server, &["acl", "diff"]).arg(&file).output()?;
            ensure!(out.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&out.stdout));
        }
    }
    Ok(())
}

/// Returns the path of a file below the share.
fn name(index: usize) -> String {
    format!("d{}/f{index}", index / IN_A_DIRECTORY)
}

fn entries_of(index: usize) -> u32 {
    ENTRIES[index / IN_A_DIRECTORY % ENTRIES.len()]
}

fn make_files(path: &Path, count: usize) -> Result<()> {
    for index in 0..count {
        let file = path.join(name(index));
        let directory = file.parent().context("a file has a directory")?;
        if index % IN_A_DIRECTORY == 0 {
            fs::create_dir(directory)?;
            set_list(directory, entries_of(index))?;
        }
        fs::write(&file, CONTENT)?;
        set_list(&file, entries_of(index))?;
    }
    Ok(())
}

/// Sets a POSIX ACL with this number of entries that allows everyone to read; 3 means only mode bits.
fn set_list(path: &Path, entries: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    if entries == 3 {
        return Ok(());
    }
    const NOBODY: u32 = u32::MAX;
    let named = (0..entries - 4).map(|number| (2, 4 + 2 * (number % 2), 30_000 + number));
    let first = [(1, 7, NOBODY)].into_iter().chain(named);
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in first.chain([(4, 5, NOBODY), (0x10, 7, NOBODY), (0x20, 5, NOBODY)]) {
        value.extend(u16::try_from(tag)?.to_le_bytes());
        value.extend(u16::try_from(permissions)?.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attribute = c"system.posix_acl_access";
    // SAFETY: both strings end with NUL, and the value has the given length.
    let done = unsafe { libc::setxattr(path.as_ptr(), attribute.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    ensure!(done == 0, "cannot set a POSIX ACL: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Returns the command with the server's configuration.
fn command(server: &Server, words: &[&str]) -> Command {
    let mut command = Command::new(frevo());
    command.args(words).arg("-c").arg(server.conf()).stdin(Stdio::null());
    command
}

fn start(server: &Server, options: &[&str]) -> Result<Child> {
    let mut command = command(server, &["acl", "convert", "--json", "convert"]);
    Ok(command.args(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// Converts, and returns the summary.
fn convert(server: &Server, options: &[&str]) -> Result<Value> {
    let out = start(server, options)?.wait_with_output()?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// Converts until `enough` files below `path` have descriptors and the position was saved afterwards, then interrupts
/// the command.
fn interrupt(server: &Server, options: &[&str], signal: libc::c_int, path: &Path, enough: usize) -> Result<Output> {
    let child = start(server, options)?;
    let far = wait_until(&child, &state_directory(server)?.join("acl-convert.convert"), path, enough);
    let signal = if far.is_ok() { signal } else { libc::SIGKILL };
    // SAFETY: kill has no memory effects; the process was started above and has not been waited for.
    unsafe { libc::kill(libc::pid_t::try_from(child.id())?, signal) };
    let out = child.wait_with_output()?;
    far.with_context(|| String::from_utf8_lossy(&out.stderr).into_owned())?;
    Ok(out)
}

fn wait_until(child: &Child, position: &Path, path: &Path, enough: usize) -> Result<()> {
    let noted = || fs::metadata(position).and_then(|position| position.modified()).ok();
    let (begun, mut reached) = (Instant::now(), None);
    while reached.is_none_or(|reached| noted().is_none_or(|noted| noted <= reached)) {
        ensure!(begun.elapsed() < PATIENCE, "too little was converted in {PATIENCE:?}");
        ensure!(!has_ended(child)?, "the conversion ended before it was interrupted");
        std::thread::sleep(Duration::from_millis(20));
        if reached.is_none() && are_converted(path, enough)? {
            reached = Some(SystemTime::now());
        }
    }
    Ok(())
}

/// Returns whether a process has ended, without waiting for it.
fn has_ended(child: &Child) -> Result<bool> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    Ok(stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

/// Returns whether this number of files below `path` have a descriptor.
fn are_converted(path: &Path, enough: usize) -> Result<bool> {
    let mut count = 0;
    for directory in fs::read_dir(path)? {
        for file in fs::read_dir(directory?.path())? {
            let file = CString::new(file?.path().into_os_string().into_encoded_bytes())?;
            // SAFETY: both strings end with NUL, and with size 0 nothing is written.
            let length = unsafe { libc::getxattr(file.as_ptr(), c"security.NTACL".as_ptr(), std::ptr::null_mut(), 0) };
            count += usize::from(length > 0);
            if count >= enough {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the server's state directory.
fn state_directory(server: &Server) -> Result<PathBuf> {
    let conf = fs::read_to_string(server.conf())?;
    let line = conf.lines().find_map(|line| line.trim().strip_prefix("state directory = "));
    line.map(PathBuf::from).context("the configuration has no state directory")
}

fn number(summary: &Value, name: &str) -> Result<u64> {
    summary[name].as_u64().with_context(|| format!("no {name} in {summary}"))
}

async fn connect(address: std::net::SocketAddr) -> Result<Client> {
    let credentials = Credentials::password(ALICE.name, ALICE.password);
    let options = client::Options { credentials, ..client::Options::default() };
    Ok(Client::connect(address, "127.0.0.1", "convert", &options).await?)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Times first and second accesses of files that this server may not have accessed yet.
fn accesses(server: &Server, count: usize, what: &str) -> Result<()> {
    let (mut first, mut second) = runtime()?.block_on(async {
        let mut client = connect(server.address()).await?;
        let mut times = [Vec::new(), Vec::new()];
        // Every directory is accessed beforehand.
        for index in (0..count).step_by(IN_A_DIRECTORY) {
            client.touch(&Open::existing(&name(index).replace('/', "\\"))).await?;
        }
        for index in (1..count).step_by((count / TIMED).max(1)).filter(|index| index % IN_A_DIRECTORY != 0) {
            let name = name(index).replace('/', "\\");
            for times in &mut times {
                let begun = Instant::now();
                client.touch(&Open::existing(&name)).await?;
                times.push(begun.elapsed());
            }
        }
        let [first, second] = times;
        anyhow::Ok((first, second))
    })?;
    println!("    {what}: first access {}, second {}", spread(&mut first), spread(&mut second));
    Ok(())
}

/// Formats median, 99th percentile and maximum, in microseconds.
fn spread(times: &mut [Duration]) -> String {
    times.sort();
    let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    let [median, high, most] = [0.5, 0.99, 1.0].map(|share| at(share).map_or(0, Duration::as_micros));
    format!("median {median} us, 99 % {high} us, longest {most} us")
}

/// A client that reads one file after another.
struct Reader {
    phase: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<[Vec<Duration>; 3]>>,
}

impl Reader {
    fn start(server: &Server, count: usize) -> Result<Reader> {
        let (phase, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (now, ended, address) = (phase.clone(), stop.clone(), server.address());
        let thread = std::thread::spawn(move || runtime()?.block_on(read(address, count, &now, &ended)));
        Ok(Reader { phase, stop, thread })
    }

    /// Prints the times. Fails if any read failed.
    fn finish(self, what: &str) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let times = self.thread.join().map_err(|_| anyhow::anyhow!("the client crashed"))??;
        println!("    {what}; open, read, query the ACL and close:");
        for (when, mut times) in ["before", "meanwhile", "after"].into_iter().zip(times) {
            ensure!(!times.is_empty(), "the client read nothing {when}");
            println!("    {:>9} {:>6} times, {}", when, times.len(), spread(&mut times));
        }
        Ok(())
    }
}

/// Reads files until `stop` is set, and records the times by `phase`. All files with ACLs of one length must show the
/// same descriptor at all times.
async fn read(
    address: std::net::SocketAddr,
    count: usize,
    phase: &AtomicUsize,
    stop: &AtomicBool,
) -> Result<[Vec<Duration>; 3]> {
    let mut client = connect(address).await?;
    let mut times = [const { Vec::new() }; 3];
    let mut shown: [Option<Vec<u8>>; ENTRIES.len()] = [const { None }; ENTRIES.len()];
    let mut index = 0;
    while !stop.load(Ordering::Relaxed) {
        index = (index + 7_919) % count;
        let name = name(index);
        let begun = Instant::now();
        let descriptor = read_one(&mut client, &name.replace('/', "\\")).await.with_context(|| name.clone())?;
        times[phase.load(Ordering::Relaxed).min(2)].push(begun.elapsed());
        let known = &mut shown[index / IN_A_DIRECTORY % ENTRIES.len()];
        if known.get_or_insert_with(|| descriptor.clone()) != &descriptor {
            let [before, now] = [known.as_deref().unwrap_or_default(), &descriptor].map(SecurityDescriptor::decode);
            anyhow::bail!("{name} shows {now:?}, and {before:?} before");
        }
    }
    Ok(times)
}

async fn read_one(client: &mut Client, name: &str) -> Result<Vec<u8>> {
    let file_id = client.open(&Open::existing(name)).await?;
    ensure!(client.read(file_id, 0, 4096).await? == CONTENT, "the content differs");
    let parts = SecurityInformation::OWNER | SecurityInformation::GROUP | SecurityInformation::DACL;
    let request = QueryInfoRequest {
        info_type: InfoType::SECURITY,
        output_buffer_length: 65_536,
        additional_information: parts.0,
        file_id,
        ..QueryInfoRequest::default()
    };
    let descriptor = client.query_info(&request).await?.to_vec();
    client.close(file_id).await?;
    Ok(descriptor)
}
