//! The client's side of the control socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::SOCKET;
use super::message::{Response, UserReply, UserRequest};
use crate::state_dir::StateDir;

/// How long a server may take over one answer. A change of an account asks NSS, which may ask the network.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest answer in bytes: a status with a million open files.
const LONGEST_ANSWER: u64 = 1 << 30;

/// A connection to the server that runs with a state directory.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the server of `state`; `None` where none runs.
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
        // A hash must not be handed to whoever managed to put a socket there.
        ensure!(
            [0, me, state.owner()].contains(&peer),
            "the control socket in {} is served by user {peer}: not trusted",
            state.path().display()
        );
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Some(Client { stream: BufReader::new(stream) }))
    }

    /// Sends one request and waits for its answer. An error is the server's own words where it gave any.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<T> {
        let mut line = Zeroizing::new(Vec::with_capacity(4096));
        serde_json::to_writer(&mut *line, request)?;
        line.push(b'\n');
        // A server that refuses to listen says why and closes: its answer is worth more than the failed write.
        let sent = self.stream.get_mut().write_all(&line);
        let mut answer = Vec::new();
        let read = (&mut self.stream).take(LONGEST_ANSWER).read_until(b'\n', &mut answer);
        if answer.last() != Some(&b'\n') {
            read.context("waiting for the server's answer")?;
            sent.context("sending to the server")?;
            bail!("the server closed the control connection without an answer");
        }
        match serde_json::from_slice(&answer)
            .context("the server's answer is not understood: is it of another version?")?
        {
            Response::Ok(answer) => Ok(answer),
            Response::Error(why) => bail!(why),
        }
    }

    /// [`Client::ask`] for a request about accounts.
    pub fn user(&mut self, request: &UserRequest) -> Result<UserReply> {
        self.ask(request)
    }
}
