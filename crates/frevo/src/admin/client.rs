//! The client side of the control socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::SOCKET;
use super::message::{OnBehalf, Response, ServerRequest, UserReply, UserRequest};
use accounts::state_dir::StateDir;

/// Time limit for one answer. A change of an account queries NSS, which may use the network.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time limit for the answer to a migration, which queries NSS for each account.
const PATIENCE_FOR_MIGRATION: Duration = Duration::from_secs(1800);

/// The longest answer in bytes, enough for a status with a million open files.
const LONGEST_ANSWER: u64 = 1 << 30;

/// A connection to the server that uses a state directory.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the server of `state`. Returns `None` if none runs.
    pub fn connect(state: &StateDir) -> Result<Option<Self>> {
        let stream = match UnixStream::connect(state.short_path(SOCKET)) {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("control socket in {}", state.path().display())),
        };
        let peer = rustix::net::sockopt::socket_peercred(&stream)?.uid.as_raw();
        let me = rustix::process::geteuid().as_raw();
        // A password hash must not be sent to another user who managed to create a socket there.
        ensure!(
            [0, me, state.owner()].contains(&peer),
            "the control socket in {} is served by user {peer}, who is not trusted",
            state.path().display()
        );
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Some(Client { stream: BufReader::new(stream) }))
    }

    /// Waits at most `time` for each answer.
    pub fn within(self, time: Duration) -> Result<Self> {
        self.stream.get_ref().set_read_timeout(Some(time))?;
        self.stream.get_ref().set_write_timeout(Some(time))?;
        Ok(self)
    }

    /// Sends one request and waits for its answer. If the server answers with an error, the error is its text.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<T> {
        let mut line = Zeroizing::new(Vec::with_capacity(4096));
        serde_json::to_writer(&mut *line, request)?;
        line.push(b'\n');
        // A server that rejects the connection sends the reason and closes. That answer is more useful than the failed
        // write.
        let sent = self.stream.get_mut().write_all(&line);
        let mut answer = Vec::new();
        let read = (&mut self.stream).take(LONGEST_ANSWER).read_until(b'\n', &mut answer);
        if answer.last() != Some(&b'\n') {
            read.context("cannot receive the server's answer")?;
            sent.context("cannot send to the server")?;
            bail!("the server closed the control connection without an answer");
        }
        match serde_json::from_slice(&answer)
            .context("cannot parse the server's answer; check that it has the same version")?
        {
            Response::Ok(answer) => Ok(answer),
            Response::Error(why) => bail!(why),
        }
    }

    /// Has the server record the next request as a change that an administrator makes.
    pub fn on_behalf(&mut self, behalf: OnBehalf) -> Result<()> {
        self.ask(&ServerRequest::For(behalf))
    }

    /// Sends an account request and waits for its answer.
    pub fn user(&mut self, request: &UserRequest) -> Result<UserReply> {
        let patience = match request {
            UserRequest::Migrate { .. } => PATIENCE_FOR_MIGRATION,
            _ => PATIENCE,
        };
        self.stream.get_ref().set_read_timeout(Some(patience))?;
        self.ask(request)
    }
}
