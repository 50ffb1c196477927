//! The process that executes the commands of print shares.
//!
//! It has the privileges with which the server was started, and executes only commands that it got then, as the user
//! that a request names and without a shell. It ends when the server has ended.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use server::policy::printing::CommandLine;

use crate::message::{Answer, LONGEST_OUTPUT, LONGEST_REQUEST, Outcome, Request};
use crate::process;

/// The maximum number of commands at a time.
pub(crate) const AT_A_TIME: usize = 16;
/// How long a command may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How often a command is looked at.
const PAUSE: Duration = Duration::from_millis(10);
/// Where programs are searched.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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
        Ok(Helper { socket: server })
    }
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
    let commands: Arc<HashMap<String, CommandLine>> =
        Arc::new(commands.into_iter().map(|command| (command.text().to_owned(), command)).collect());
    let running = Arc::new(AtomicUsize::new(0));
    loop {
        let mut bytes = vec![0; LONGEST_REQUEST];
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
        if running.fetch_add(1, Ordering::AcqRel) >= AT_A_TIME {
            running.fetch_sub(1, Ordering::AcqRel);
            refuse("too many print commands are running");
            continue;
        }
        let (shared, commands, counted) = (socket.clone(), commands.clone(), running.clone());
        let started = thread::Builder::new().stack_size(256 * 1024).spawn(move || {
            let answer = answer(&commands, request);
            let _ = rustix::net::send(&*shared, &answer.encode(), SendFlags::NOSIGNAL);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            running.fetch_sub(1, Ordering::AcqRel);
            refuse("no thread can be started");
        }
    }
    let since = Instant::now();
    while running.load(Ordering::Acquire) > 0 && since.elapsed() < LIMIT {
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Executes a request.
fn answer(commands: &HashMap<String, CommandLine>, request: Request) -> Answer {
    let id = request.id;
    let not = |why: String| Answer { id, outcome: Outcome::NotExecuted, output: why.into_bytes() };
    let Some(command) = commands.get(&request.command) else {
        return not("the command was added after the start of the server; restart the server".to_owned());
    };
    match execute(command, &request, LIMIT) {
        Ok((outcome, output)) => Answer { id, outcome, output },
        Err(error) => not(error.to_string()),
    }
}

/// Executes a command and returns how it ended, and the beginning of its output.
fn execute(line: &CommandLine, request: &Request, limit: Duration) -> io::Result<(Outcome, Vec<u8>)> {
    let find = |letter| request.values.iter().find(|(known, _)| *known == letter).map(|(_, value)| value.clone());
    let words = line.arguments(find);
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (mut output, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C").current_dir(&request.directory);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    if geteuid().is_root() {
        process::run_as(&mut command, &request.identity);
    }
    let mut child = command.spawn().map_err(|error| io::Error::other(format!("cannot execute {program}: {error}")))?;
    // It has the writing end of the pipe.
    drop(command);
    let group = Pid::from_child(&child);
    let since = Instant::now();
    let mut said = Vec::new();
    let outcome = loop {
        let ended = child.try_wait()?;
        // After the end, so that nothing is missed.
        take(&mut output, &mut said)?;
        if let Some(status) = ended {
            break Outcome::Exited(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        }
        if since.elapsed() > limit {
            let _ = kill_process_group(group, Signal::KILL);
            child.wait()?;
            break Outcome::Late;
        }
        thread::sleep(PAUSE);
    };
    Ok((outcome, said))
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

    fn run(text: &str, values: &[(char, &str)], limit: Duration) -> io::Result<(Outcome, String)> {
        let command = CommandLine::parse(text).expect("a command");
        let request = Request {
            id: 1,
            command: text.to_owned(),
            values: values.iter().map(|(letter, value)| (*letter, (*value).to_owned())).collect(),
            identity: Identity {
                uid: geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
                groups: Box::default(),
            },
            directory: "/".to_owned(),
        };
        execute(&command, &request, limit).map(|(outcome, said)| (outcome, String::from_utf8(said).expect("text")))
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
    fn the_output_is_bounded() {
        let (outcome, said) = run("seq 1 100000", &[], LIMIT).expect("it runs");
        assert_eq!((outcome, said.len()), (Outcome::Exited(0), LONGEST_OUTPUT));
    }

    #[test]
    fn only_commands_of_the_configuration_are_executed() {
        let known = CommandLine::parse("true").expect("a command");
        let commands = HashMap::from([(known.text().to_owned(), known)]);
        let request = |command: &str| Request {
            id: 1,
            command: command.to_owned(),
            values: Vec::new(),
            identity: Identity { uid: geteuid().as_raw(), gid: 0, groups: Box::default() },
            directory: "/".to_owned(),
        };
        assert_eq!(answer(&commands, request("true")).outcome, Outcome::Exited(0));
        assert_eq!(answer(&commands, request("id")).outcome, Outcome::NotExecuted);
    }
}
