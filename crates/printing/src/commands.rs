//! The server's side of the process that executes commands.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use server::policy::limits::LISTED_JOBS_MAX;
use server::policy::printing::{CommandLine, QueueCommands};
use server::printing::{NewJob, PrintError, PrintUser, Result};
use tokio::net::UnixDatagram;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::helper::{AT_A_TIME, Helper, KILL_TIME, LIMIT};
use crate::listing;
use crate::message::{Answer, LONGEST_OUTPUT, Outcome, Request};
use crate::turns::Turns;

/// The maximum number of characters of an output in a message.
const SHOWN: usize = 400;
/// How many of the commands at a time list jobs, and how many of each kind may be of one user.
const LISTS: usize = 4;
const PRINTS_OF_USER: usize = 6;
const LISTS_OF_USER: usize = 2;
/// How long a job, and a question about jobs, waits for its turn.
const PRINT_WAIT: Duration = Duration::from_secs(30);
const LIST_WAIT: Duration = Duration::from_secs(5);
/// How long a command may take that lists jobs. A client waits for it before it sends its job.
const LIST_LIMIT: Duration = Duration::from_secs(10);
/// How long the helper's answer may take besides the command.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Executes commands by the helper.
pub(crate) struct Commands {
    socket: UnixDatagram,
    prints: Turns,
    lists: Turns,
    waiting: Mutex<Waiting>,
}

/// The requests whose answers are waited for.
#[derive(Default)]
struct Waiting {
    last: u64,
    /// The helper has ended, and will never answer.
    ended: bool,
    callers: HashMap<u64, oneshot::Sender<Answer>>,
}

/// A request is not waited for any more when this is dropped.
struct Waits<'a>(&'a Commands, u64);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().callers.remove(&self.1);
    }
}

fn lost() -> PrintError {
    PrintError::Unavailable("the print helper has ended; restart the server".to_owned())
}

impl Commands {
    /// Uses the helper, on this runtime.
    pub(crate) fn new(helper: Helper, runtime: &Handle) -> io::Result<Arc<Commands>> {
        let _entered = runtime.enter();
        let socket = UnixDatagram::from_std(helper.socket.into())?;
        let prints = Turns::new(AT_A_TIME - LISTS, PRINTS_OF_USER);
        let lists = Turns::new(LISTS, LISTS_OF_USER);
        let commands = Arc::new(Commands { socket, prints, lists, waiting: Mutex::default() });
        let receiver = commands.clone();
        runtime.spawn(async move {
            let why = receiver.receive().await;
            tracing::error!("the print helper has ended ({why}); jobs are not printed until the server is restarted");
            let mut waiting = receiver.waiting.lock();
            waiting.ended = true;
            waiting.callers.clear();
        });
        Ok(commands)
    }

    /// Receives answers until the helper has ended, and returns why.
    async fn receive(&self) -> String {
        let mut bytes = vec![0; LONGEST_OUTPUT + 64];
        loop {
            let length = match self.socket.recv(&mut bytes).await {
                Ok(0) => return "it has closed its socket".to_owned(),
                Ok(length) => length,
                Err(error) => return error.to_string(),
            };
            let Some(answer) = Answer::decode(&bytes[..length]) else { continue };
            let waiting = self.waiting.lock().callers.remove(&answer.id);
            if let Some(waiting) = waiting {
                let _ = waiting.send(answer);
            }
        }
    }

    /// Executes a command, which may take `limit`, and returns its output. `more` are values of variables besides those
    /// of the user.
    async fn run(
        &self,
        command: &CommandLine,
        user: &PrintUser,
        more: Vec<(char, String)>,
        directory: &str,
        limit: Duration,
    ) -> Result<String> {
        let (sender, answer) = oneshot::channel();
        let waits = {
            let mut waiting = self.waiting.lock();
            if waiting.ended {
                return Err(lost());
            }
            waiting.last += 1;
            let id = waiting.last;
            waiting.callers.insert(id, sender);
            Waits(self, id)
        };
        let mut values = more;
        values.extend(user.values.iter().cloned());
        values.retain(|(letter, _)| command.has(*letter));
        let request = Request {
            id: waits.1,
            command: command.text().to_owned(),
            values,
            identity: (**user.op.identity()).clone(),
            directory: directory.to_owned(),
            limit: u32::try_from(limit.as_millis()).unwrap_or(u32::MAX),
        };
        let too_long = || PrintError::Refused("the values of the print command are too long".to_owned());
        let bytes = request.encode().ok_or_else(too_long)?;
        match timeout(ANSWER_TIME, self.socket.send(&bytes)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.raw_os_error() == Some(libc::EMSGSIZE) => return Err(too_long()),
            Ok(Err(_)) => return Err(lost()),
            Err(_) => return Err(PrintError::Unavailable("the print helper does not answer".to_owned())),
        }
        let answer = match timeout(limit + KILL_TIME + ANSWER_TIME, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Err(lost()),
            Err(_) => {
                let why = "the print helper does not answer; restart the server";
                return Err(PrintError::Unavailable(why.to_owned()));
            }
        };
        let output = String::from_utf8_lossy(&answer.output).into_owned();
        let (text, seconds) = (command.text(), limit.as_secs());
        match answer.outcome {
            Outcome::Exited(0) => Ok(output),
            Outcome::Exited(status) => Err(PrintError::Refused(format!(
                "the command `{text}` ended with status {status}; its output: {}",
                shown(&output)
            ))),
            Outcome::Late => Err(PrintError::Unavailable(format!(
                "the command `{text}` was killed after {seconds} seconds; correct the command"
            ))),
            Outcome::Lost => Err(PrintError::Unavailable(format!(
                "the command `{text}` should have been killed after {seconds} seconds, and still runs ({}); kill it \
                 and correct the command",
                shown(&output)
            ))),
            Outcome::NotExecuted => Err(PrintError::Unavailable(format!("the command `{text}`: {}", shown(&output)))),
        }
    }

    /// Submits a job, whose number for the command is `number`.
    pub(crate) async fn submit(&self, queue: &str, commands: &QueueCommands, job: &NewJob, number: u32) -> Result<()> {
        let not_text = || {
            let path = job.spool.path.display();
            PrintError::Refused(format!("the path {path} is not valid UTF-8, so no command gets it; correct `path`"))
        };
        let path = job.spool.path.to_str().ok_or_else(not_text)?.to_owned();
        let (directory, name) = path.rsplit_once('/').ok_or_else(not_text)?;
        let (directory, name) = (directory.to_owned(), name.to_owned());
        let values = vec![
            ('s', path),
            ('f', name),
            ('J', job.title.clone()),
            ('p', queue.to_owned()),
            ('j', number.to_string()),
            ('z', job.size.to_string()),
            // The pages are not counted.
            ('c', "0".to_owned()),
        ];
        let turn = self.prints.take(job.user.op.identity().uid, PRINT_WAIT).await;
        let busy = || {
            let (text, seconds) = (commands.print.text(), PRINT_WAIT.as_secs());
            let why = format!("other jobs kept the command `{text}` waiting for {seconds} seconds; make it faster");
            PrintError::Unavailable(why)
        };
        let _turn = turn.ok_or_else(busy)?;
        self.run(&commands.print, &job.user, values, &directory, LIMIT).await.map(drop)
    }

    /// Executes a command that lists or changes jobs, and returns its output.
    pub(crate) async fn ask(
        &self,
        command: &CommandLine,
        user: &PrintUser,
        values: Vec<(char, String)>,
    ) -> Result<String> {
        let turn = self.lists.take(user.op.identity().uid, LIST_WAIT).await;
        let busy = || {
            let why = format!("others kept the command `{}` waiting; make it faster", command.text());
            PrintError::Unavailable(why)
        };
        let _turn = turn.ok_or_else(busy)?;
        self.run(command, user, values, "/", LIST_LIMIT).await
    }

    /// Returns the number of jobs in a queue. A list that is not complete has more jobs than can be counted.
    pub(crate) async fn job_count(&self, queue: &str, commands: &QueueCommands, user: &PrintUser) -> Result<usize> {
        let Some(list) = &commands.list else { return Ok(0) };
        let output = self.ask(list, user, vec![('p', queue.to_owned())]).await?;
        let count = || listing::parse(commands.form, queue, &output, LISTED_JOBS_MAX).len();
        Ok(if output.len() >= LONGEST_OUTPUT { usize::MAX } else { count() })
    }
}

/// Returns the beginning of an output in one line.
fn shown(output: &str) -> String {
    let line: String =
        output.chars().take(SHOWN).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let line = line.trim();
    if line.is_empty() { "(empty)".to_owned() } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::OwnedFd;

    /// Returns the server's side of a helper, and the helper's socket.
    fn helper() -> (Arc<Commands>, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("sockets");
        (Commands::new(Helper { socket: own }, &Handle::current()).expect("it is used"), theirs)
    }

    fn user() -> PrintUser {
        PrintUser { name: "ann".into(), op: server::testing::root(), values: Vec::new() }
    }

    #[tokio::test]
    async fn a_helper_that_has_ended_is_noticed_at_once_and_for_ever() {
        let (commands, theirs) = helper();
        let command = CommandLine::parse("lpq").expect("a command");
        let user = user();
        let asked = commands.run(&command, &user, Vec::new(), "/", LIMIT);
        let ends = async {
            // The request is not read, so the socket reports an error.
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(theirs);
        };
        let (answer, ()) = tokio::join!(asked, ends);
        assert_eq!(answer, Err(lost()));
        assert_eq!(commands.run(&command, &user, Vec::new(), "/", LIMIT).await, Err(lost()));
        assert!(commands.waiting.lock().callers.is_empty());
    }

    #[tokio::test]
    async fn a_user_with_all_groups_can_print() {
        let (commands, theirs) = helper();
        let command = CommandLine::parse("lpq").expect("a command");
        let groups: Box<[u32]> = (0..40_000).collect();
        let identity = server::vfs::Identity { uid: 7, gid: 7, groups };
        let user = PrintUser { op: server::vfs::Op::new(Arc::new(identity)), ..user() };
        let asked = commands.run(&command, &user, Vec::new(), "/", LIMIT);
        let answers = async {
            let theirs = UnixDatagram::from_std(theirs.into()).expect("a socket");
            let mut bytes = vec![0; crate::message::LONGEST_REQUEST];
            let length = theirs.recv(&mut bytes).await.expect("a request");
            let request = Request::decode(&bytes[..length]).expect("it is complete");
            assert_eq!((request.identity.groups.len(), request.limit), (40_000, 60_000));
            let answer = Answer { id: request.id, outcome: Outcome::Exited(0), output: b"fine".to_vec() };
            theirs.send(&answer.encode()).await.expect("an answer");
        };
        let (answer, ()) = tokio::join!(asked, answers);
        assert_eq!(answer.as_deref(), Ok("fine"));
    }
}
