//! The server's side of the process that executes commands.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use server::policy::printing::{CommandLine, QueueCommands};
use server::printing::{NewJob, PrintError, PrintUser, Result};
use tokio::net::UnixDatagram;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::helper::{AT_A_TIME, Helper, LIMIT};
use crate::listing;
use crate::message::{Answer, LONGEST_OUTPUT, Outcome, Request};

/// The maximum number of characters of an output in a message.
const SHOWN: usize = 400;

/// Executes commands by the helper.
pub(crate) struct Commands {
    socket: UnixDatagram,
    turns: Semaphore,
    waiting: Mutex<(u64, HashMap<u64, oneshot::Sender<Answer>>)>,
}

impl Commands {
    /// Uses the helper, on this runtime.
    pub(crate) fn new(helper: Helper, runtime: &Handle) -> io::Result<Arc<Commands>> {
        let _entered = runtime.enter();
        let socket = UnixDatagram::from_std(helper.socket.into())?;
        let commands = Arc::new(Commands { socket, turns: Semaphore::new(AT_A_TIME), waiting: Mutex::default() });
        let receiver = Arc::downgrade(&commands);
        runtime.spawn(async move {
            let mut bytes = vec![0; LONGEST_OUTPUT + 64];
            while let Some(commands) = receiver.upgrade() {
                let Ok(length) = commands.socket.recv(&mut bytes).await else { return };
                if length == 0 {
                    // Nobody answers any more.
                    return commands.waiting.lock().1.clear();
                }
                let Some(answer) = Answer::decode(&bytes[..length]) else { continue };
                let waiting = commands.waiting.lock().1.remove(&answer.id);
                if let Some(waiting) = waiting {
                    let _ = waiting.send(answer);
                }
            }
        });
        Ok(commands)
    }

    /// Executes a command and returns its output. `more` are values of variables besides those of the user.
    async fn run(
        &self,
        command: &CommandLine,
        user: &PrintUser,
        more: Vec<(char, String)>,
        directory: &str,
    ) -> Result<String> {
        let _turn = self.turns.acquire().await;
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut waiting = self.waiting.lock();
            waiting.0 += 1;
            let id = waiting.0;
            waiting.1.insert(id, sender);
            id
        };
        let mut values = more;
        values.extend(user.values.iter().cloned());
        values.retain(|(letter, _)| command.has(*letter));
        let request = Request {
            id,
            command: command.text().to_owned(),
            values,
            identity: (**user.op.identity()).clone(),
            directory: directory.to_owned(),
        };
        let forget = || self.waiting.lock().1.remove(&id);
        let Some(bytes) = request.encode() else {
            forget();
            return Err(PrintError::Refused("the values of the print command are too long".to_owned()));
        };
        let lost = || PrintError::Unavailable("the print helper has ended; restart the server".to_owned());
        if self.socket.send(&bytes).await.is_err() {
            forget();
            return Err(lost());
        }
        let answer = match timeout(LIMIT + LIMIT / 10, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Err(lost()),
            Err(_) => {
                forget();
                return Err(PrintError::Unavailable("the print helper does not answer; restart the server".to_owned()));
            }
        };
        let output = String::from_utf8_lossy(&answer.output).into_owned();
        let text = command.text();
        match answer.outcome {
            Outcome::Exited(0) => Ok(output),
            Outcome::Exited(status) => Err(PrintError::Refused(format!(
                "the command `{text}` ended with status {status}; its output: {}",
                shown(&output)
            ))),
            Outcome::Late => Err(PrintError::Unavailable(format!(
                "the command `{text}` was killed after {} seconds; correct the command",
                LIMIT.as_secs()
            ))),
            Outcome::NotExecuted => Err(PrintError::Unavailable(format!("the command `{text}`: {}", shown(&output)))),
        }
    }

    /// Submits a job, whose number for the command is `number`.
    pub(crate) async fn submit(&self, queue: &str, commands: &QueueCommands, job: &NewJob, number: u32) -> Result<()> {
        let path = job.spool.path.to_string_lossy().into_owned();
        let name = job.spool.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let directory = job.spool.path.parent().map(|parent| parent.to_string_lossy().into_owned()).unwrap_or_default();
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
        self.run(&commands.print, &job.user, values, &directory).await.map(drop)
    }

    /// Returns the number of jobs in a queue.
    pub(crate) async fn job_count(&self, queue: &str, commands: &QueueCommands, user: &PrintUser) -> Result<usize> {
        let Some(list) = &commands.list else { return Ok(0) };
        let output = self.run(list, user, vec![('p', queue.to_owned())], "/").await?;
        Ok(listing::count(commands.form, queue, &output))
    }
}

/// Returns the beginning of an output in one line.
fn shown(output: &str) -> String {
    let line: String =
        output.chars().take(SHOWN).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let line = line.trim();
    if line.is_empty() { "(empty)".to_owned() } else { line.to_owned() }
}
