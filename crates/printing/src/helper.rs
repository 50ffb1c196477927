//! The process that executes the commands of print shares.
//!
//! It has the privileges with which the server was started, and executes only commands that it got then, as the user
//! that a request names and without a shell. When the server has ended, it kills the commands that still run, because
//! their clients were not told that the jobs are printed, and ends.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, Uid, geteuid, kill_process_group};
use rustix::thread::set_thread_res_uid;
use server::policy::printing::CommandLine;

use crate::message::{Answer, LONGEST_OUTPUT, LONGEST_REQUEST, Outcome, Request};
use crate::process;

/// The maximum number of commands at a time.
pub(crate) const AT_A_TIME: usize = 16;
/// How long a command may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How long a killed command may take to end. A process that waits for a device cannot be killed.
pub(crate) const KILL_TIME: Duration = Duration::from_secs(4);
/// The maximum number of commands that could not be killed. Beyond it, no command is executed.
const LOST: usize = 16;
/// How often a command is looked at.
const PAUSE: Duration = Duration::from_millis(10);
/// Where programs are searched.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The name of a job's file begins with this, and as many hexadecimal digits follow.
const FILE_PREFIX: &str = "smbprn.";
const FILE_DIGITS: usize = 32;

/// A running helper, not yet used by the server.
#[derive(Debug)]
pub struct Helper {
    pub(crate) socket: OwnedFd,
}

impl Helper {
    /// Starts the helper for these commands. Must be called while the process has one thread, before it gives up
    /// privileges.
    ///
    /// # Errors
    /// The process cannot be created.
    pub fn start(commands: Vec<CommandLine>) -> io::Result<Helper> {
        let flags = SocketFlags::CLOEXEC;
        let (server, own) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        pam::process::fork(|| match serve(commands, own.as_fd()) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("print helper: {error}");
                2
            }
        })?;
        drop(own);
        rustix::io::ioctl_fionbio(&server, true)?;
        // A user may have many groups. The kernel limits the value.
        rustix::net::sockopt::set_socket_send_buffer_size(&server, LONGEST_REQUEST)?;
        Ok(Helper { socket: server })
    }
}

/// What the threads of the helper share.
#[derive(Default)]
struct Shared {
    commands: HashMap<String, CommandLine>,
    /// The number of requests that are executed.
    running: AtomicUsize,
    /// The server has ended.
    ended: AtomicBool,
    /// Commands that could not be killed.
    lost: Mutex<Vec<Child>>,
}

fn serve(commands: Vec<CommandLine>, socket: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    pam::process::close_others(socket)?;
    pam::process::close_input()?;
    rustix::process::setsid()?;
    pam::process::survive_termination();
    rustix::thread::set_name(c"frevo-print")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // Threads outlive this function.
    let socket = Arc::new(socket.try_clone_to_owned()?);
    let commands = commands.into_iter().map(|command| (command.text().to_owned(), command)).collect();
    let shared = Arc::new(Shared { commands, ..Shared::default() });
    let mut bytes = vec![0; LONGEST_REQUEST];
    loop {
        let length = match rustix::net::recv(&*socket, &mut bytes[..], RecvFlags::empty()) {
            Ok((0, _)) => break,
            Ok((length, _)) => length,
            Err(rustix::io::Errno::INTR) => continue,
            // The server has ended.
            Err(_) => break,
        };
        let Some(request) = Request::decode(&bytes[..length]) else { continue };
        let id = request.id;
        let refuse = |why: &str| {
            let answer = Answer { id, outcome: Outcome::NotExecuted, output: why.as_bytes().to_vec() };
            let _ = rustix::net::send(&*socket, &answer.encode(), SendFlags::NOSIGNAL);
        };
        if shared.running.fetch_add(1, Ordering::AcqRel) >= AT_A_TIME {
            shared.running.fetch_sub(1, Ordering::AcqRel);
            refuse("too many print commands are running");
            continue;
        }
        let (own, answers) = (shared.clone(), socket.clone());
        let started = thread::Builder::new().stack_size(256 * 1024).spawn(move || {
            let answer = answer(&own, request);
            // The server may send the next request as soon as it has the answer.
            own.running.fetch_sub(1, Ordering::AcqRel);
            let _ = rustix::net::send(&*answers, &answer.encode(), SendFlags::NOSIGNAL);
        });
        if started.is_err() {
            shared.running.fetch_sub(1, Ordering::AcqRel);
            refuse("no thread can be started");
        }
    }
    shared.ended.store(true, Ordering::Release);
    let since = Instant::now();
    while shared.running.load(Ordering::Acquire) > 0 && since.elapsed() < KILL_TIME * 2 {
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Executes a request.
fn answer(shared: &Shared, request: Request) -> Answer {
    let id = request.id;
    let not = |why: String| Answer { id, outcome: Outcome::NotExecuted, output: why.into_bytes() };
    let Some(command) = shared.commands.get(&request.command) else {
        let why = "the command was not in smb.conf when the server started; restart the server";
        return not(why.to_owned());
    };
    if let Err(why) = check_file(&request) {
        return not(why);
    }
    if shared.lost_count() >= LOST {
        return not(format!("{LOST} other commands could not be killed; kill them, or restart the host"));
    }
    match execute(shared, command, &request, KILL_TIME) {
        Ok((outcome, output)) => Answer { id, outcome, output },
        Err(error) => not(error.to_string()),
    }
}

impl Shared {
    fn lost(&self) -> std::sync::MutexGuard<'_, Vec<Child>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of commands that still run although they were killed.
    fn lost_count(&self) -> usize {
        let mut lost = self.lost();
        lost.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        lost.len()
    }
}

/// Checks that the file of a request is that of a job of its user, so that a server under an attacker's control cannot
/// name another one.
fn check_file(request: &Request) -> Result<(), String> {
    let value = |letter| request.values.iter().find(|(known, _)| *known == letter).map(|(_, value)| value);
    let directory = Path::new(&request.directory);
    let [path, name] = ['s', 'f'].map(value);
    for file in [path.map(|path| Path::new(path).to_owned()), name.map(|name| directory.join(name))] {
        let Some(file) = file else { continue };
        let refuse = |why: &str| Err(format!("{} {why}, so the command is not executed", file.display()));
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_digit = |letter: u8| matches!(letter, b'0'..=b'9' | b'a'..=b'f');
        let is_ours = |digits: &str| digits.len() == FILE_DIGITS && digits.bytes().all(is_digit);
        if file.parent() != Some(directory) || !name.strip_prefix(FILE_PREFIX).is_some_and(is_ours) {
            return refuse("is not the name of a print job");
        }
        match std::fs::symlink_metadata(&file) {
            Ok(found) if found.is_file() && found.uid() == request.identity.uid => {}
            // The user may reach it, who executes the command.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Ok(_) => return refuse("is not a file of the user"),
            Err(error) => return refuse(&format!("cannot be examined ({error})")),
        }
    }
    Ok(())
}

/// Executes a command and returns how it ended, and the beginning of its output. It may take `kill_time` to end after
/// it was killed.
fn execute(
    shared: &Shared,
    line: &CommandLine,
    request: &Request,
    kill_time: Duration,
) -> io::Result<(Outcome, Vec<u8>)> {
    let find = |letter| request.values.iter().find(|(known, _)| *known == letter).map(|(_, value)| value.clone());
    let words = line.arguments(find);
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (mut output, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let switches = geteuid().is_root();
    process::run_as(&mut command, switches.then_some(&request.identity), &request.directory)?;
    let mut child = command.spawn().map_err(|error| io::Error::other(format!("cannot execute {program}: {error}")))?;
    // It has the writing end of the pipe.
    drop(command);
    let group = Pid::from_child(&child);
    let limit = LIMIT.min(Duration::from_millis(request.limit.into()));
    let since = Instant::now();
    let mut said = Vec::new();
    // When it was killed, and what went wrong then.
    let mut killed: Option<(Instant, Option<io::Error>)> = None;
    loop {
        let ended = child.try_wait()?;
        // After the end, so that nothing is missed.
        take(&mut output, &mut said)?;
        match (ended, &killed) {
            (Some(status), Some(_)) if status.signal() == Some(Signal::KILL.as_raw()) => {
                return Ok((Outcome::Late, said));
            }
            // It may have ended by itself just before it was killed.
            (Some(status), _) => {
                let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                return Ok((Outcome::Exited(status), said));
            }
            (None, Some((since, failed))) if since.elapsed() > kill_time => {
                let why = failed.as_ref().map_or_else(|| "it does not end".to_owned(), ToString::to_string);
                shared.lost().push(child);
                return Ok((Outcome::Lost, why.into_bytes()));
            }
            (None, None) if since.elapsed() > limit || shared.ended.load(Ordering::Acquire) => {
                let user = switches.then_some(request.identity.uid);
                killed = Some((Instant::now(), kill(group, user).err()));
            }
            _ => {}
        }
        thread::sleep(PAUSE);
    }
}

/// Kills the processes of a group, whose user is `user` if that is another than this process's. The helper does not
/// need `CAP_KILL` for it: this thread has the user's effective identity meanwhile, and no other thread is affected.
/// Its real identity stays, so that the user cannot send a signal to it.
fn kill(group: Pid, user: Option<u32>) -> io::Result<()> {
    let Some(user) = user else { return Ok(kill_process_group(group, Signal::KILL)?) };
    set_thread_res_uid(Uid::ROOT, Uid::from_raw(user), Uid::ROOT)?;
    let killed = kill_process_group(group, Signal::KILL);
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    Ok(killed?)
}

/// Takes the output that is there. It is discarded beyond the limit.
fn take(output: &mut io::PipeReader, said: &mut Vec<u8>) -> io::Result<()> {
    let mut bytes = [0; 8192];
    // A command that writes all the time must still be looked at.
    for _ in 0..64 {
        match output.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => said.extend(&bytes[..count.min(LONGEST_OUTPUT - said.len())]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::vfs::Identity;

    fn request(text: &str, limit: Duration) -> Request {
        Request {
            id: 1,
            command: text.to_owned(),
            values: Vec::new(),
            identity: Identity {
                uid: geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
                groups: Box::default(),
            },
            directory: "/".to_owned(),
            limit: limit.as_millis() as u32,
        }
    }

    fn command(text: &str) -> CommandLine {
        CommandLine::parse(text).expect("a command")
    }

    fn run(text: &str, values: &[(char, &str)], limit: Duration) -> io::Result<(Outcome, String)> {
        let mut request = request(text, limit);
        request.values = values.iter().map(|(letter, value)| (*letter, (*value).to_owned())).collect();
        let executed = execute(&Shared::default(), &command(text), &request, KILL_TIME);
        executed.map(|(outcome, said)| (outcome, String::from_utf8(said).expect("text")))
    }

    #[test]
    fn a_command_gets_its_values_as_single_arguments() {
        let title = "; touch x $(id) | `id` \"";
        let said = run("printf '<%%s>\\n' %J a'%p'b", &[('J', title), ('p', "q r")], LIMIT).expect("it runs");
        assert_eq!(said, (Outcome::Exited(0), format!("<{title}>\n<aq rb>\n")));
    }

    #[test]
    fn a_command_ends_with_its_status_its_time_or_not_at_all() {
        assert_eq!(run("false", &[], LIMIT).expect("it runs").0, Outcome::Exited(1));
        assert_eq!(run("sleep 60", &[], Duration::from_millis(100)).expect("it runs").0, Outcome::Late);
        let error = run("/nonexistent/lp", &[], LIMIT).expect_err("there is no program");
        assert!(error.to_string().contains("cannot execute /nonexistent/lp"), "{error}");
    }

    #[test]
    fn commands_are_killed_when_the_server_has_ended() {
        let shared = Shared::default();
        shared.ended.store(true, Ordering::Release);
        let executed = execute(&shared, &command("sleep 60"), &request("", LIMIT), KILL_TIME).expect("it runs");
        assert_eq!(executed.0, Outcome::Late);
    }

    /// As in the unit of systemd, whose capabilities do not include it.
    fn without_cap_kill() {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let mut sets = capabilities(None).expect("the thread has capabilities");
        for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
            set.remove(CapabilitySet::KILL);
        }
        set_capabilities(None, sets).expect("a capability can be given up");
    }

    #[test]
    fn a_late_command_of_another_user_is_killed_without_cap_kill() {
        if !geteuid().is_root() {
            return;
        }
        without_cap_kill();
        let mut late = request("sleep 60", Duration::from_millis(100));
        late.identity = Identity { uid: 65_534, gid: 65_534, groups: Box::default() };
        let shared = Shared::default();
        let executed = execute(&shared, &command("sleep 60"), &late, KILL_TIME).expect("it runs");
        assert_eq!((executed.0, shared.lost_count()), (Outcome::Late, 0));
    }

    #[test]
    fn a_command_that_cannot_be_killed_is_reported_and_gives_its_place_back() {
        if !geteuid().is_root() {
            return;
        }
        without_cap_kill();
        // It becomes another user's, as a program with the setuid bit does.
        let shared = Shared::default();
        let text = "setpriv --reuid=65533 --clear-groups sleep 60";
        let own = request(text, Duration::from_secs(1));
        let executed = execute(&shared, &command(text), &own, Duration::from_millis(50));
        let (outcome, _) = executed.expect("util-linux has setpriv");
        assert_eq!((outcome, shared.lost_count()), (Outcome::Lost, 1));
        let mut child = shared.lost().remove(0);
        kill(Pid::from_child(&child), Some(65_533)).expect("its user may");
        child.wait().expect("it has ended");
    }

    #[test]
    fn the_output_is_bounded() {
        let (outcome, said) = run("seq 1 100000", &[], LIMIT).expect("it runs");
        assert_eq!((outcome, said.len()), (Outcome::Exited(0), LONGEST_OUTPUT));
    }

    #[test]
    fn only_commands_of_the_configuration_are_executed() {
        let commands = HashMap::from([("true".to_owned(), command("true"))]);
        let shared = Shared { commands, ..Shared::default() };
        assert_eq!(answer(&shared, request("true", LIMIT)).outcome, Outcome::Exited(0));
        assert_eq!(answer(&shared, request("id", LIMIT)).outcome, Outcome::NotExecuted);
    }

    #[test]
    fn only_the_file_of_a_job_of_the_user_is_passed_on() {
        let spool = tempfile::tempdir().expect("a directory");
        let directory = spool.path().to_str().expect("text").to_owned();
        let name = format!("smbprn.{}", "0123456789abcdef".repeat(2));
        let file = spool.path().join(&name);
        std::fs::write(&file, "data").expect("a file");
        std::os::unix::fs::symlink("/etc/passwd", spool.path().join(name.replace('0', "1"))).expect("a link");
        let text = "cat %s";
        let shared = Shared { commands: HashMap::from([(text.to_owned(), command(text))]), ..Shared::default() };
        let outcome = |values: &[(char, &str)], change: &dyn Fn(&mut Request)| {
            let mut request = Request { directory: directory.clone(), ..request(text, LIMIT) };
            request.values = values.iter().map(|(letter, value)| (*letter, (*value).to_owned())).collect();
            change(&mut request);
            answer(&shared, request).outcome
        };
        let path = file.to_str().expect("text");
        assert_eq!(outcome(&[('s', path), ('f', &name)], &|_| ()), Outcome::Exited(0));
        let link = path.replace('0', "1");
        for wrong in [link.as_str(), "/etc/passwd", &format!("{directory}/x/../{name}"), &format!("{path}0"), "-x"] {
            assert_eq!(outcome(&[('s', wrong)], &|_| ()), Outcome::NotExecuted, "{wrong}");
        }
        assert_eq!(outcome(&[('f', "../passwd")], &|_| ()), Outcome::NotExecuted);
        assert_eq!(outcome(&[('s', path)], &|it| it.identity.uid += 1), Outcome::NotExecuted);
        assert_eq!(outcome(&[('s', path)], &|it| it.directory = "/".to_owned()), Outcome::NotExecuted);
    }
}
