//! The server side of the control socket.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use server::accounts::NtHash;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;
use zeroize::Zeroizing;

use super::SOCKET;
use super::message::{
    Closing, LONGEST_REQUEST, OnBehalf, Response, SHORT_REQUEST, ServerRequest, ShareReply, ShareRequest, UserReply,
    UserRequest, Version,
};
use super::names::{Names, NamesRequest};
use crate::health::Report;
use crate::socket_file::SocketFile;
use crate::status::{HeldResources, Status};
use accounts::state_dir::StateDir;

/// Maximum number of concurrent clients; further ones get only the health, or are asked to try again.
const CLIENTS: usize = 16;

/// Maximum number of further clients that may ask for the health.
const PROBES: usize = 4;

/// Time limit for receiving the request of one of these.
const PROBE_TIME: Duration = Duration::from_secs(1);

/// Time limit for receiving the next request.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Time limit for the result of a change that an administrator's program makes itself.
const CHANGE_TIME: Duration = Duration::from_secs(600);

/// Time limit for sending an answer.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// The operations that the running server offers. They are all called on threads that may block.
pub trait Control: Send + Sync + 'static {
    /// Returns the connected clients.
    fn status(&self, most: usize) -> server::status::Snapshot;

    /// Returns the metrics.
    fn metrics(&self) -> String;

    /// Returns the health.
    fn health(&self) -> Report;

    /// Performs an account request: a change or a query.
    fn user(&self, request: UserRequest) -> Result<UserReply>;

    /// Resolves SIDs, ids and names.
    fn names(&self, request: NamesRequest) -> Result<Names>;

    /// Reloads the configuration and returns a one-line summary.
    fn reload(&self) -> Result<String>;

    /// Closes something that a client holds, and returns a one-line summary.
    fn close(&self, what: Closing) -> Result<String>;

    /// Changes or lists the shares.
    fn shares(&self, request: ShareRequest) -> Result<ShareReply>;

    /// Returns what the server holds for clients.
    fn held(&self) -> HeldResources;

    /// Verifies the password of one of the `admin users`. Returns the name of the account; `None` if the logon is
    /// refused.
    fn log_on(&self, name: &str, nt_hash: &NtHash, address: IpAddr) -> Result<Option<String>>;

    /// Admits the account with exactly this name after a logon at an issuer. Returns whether it is one of the `admin
    /// users`; `None` if the user is refused.
    fn admit(&self, name: &str, address: IpAddr) -> Result<Option<bool>>;

    /// Records what an administrator has done, or why not.
    fn record(&self, change: OnBehalf, failure: Option<String>);

    /// Starts the shutdown without waiting for its end.
    fn stop(&self);
}

/// The listening control socket.
pub struct Listener(SocketFile);

impl Listener {
    /// Listens in `state`. The caller must have the account database of `state` open, which makes it the only server
    /// there. Must be called within a tokio runtime.
    pub fn bind(state: Arc<StateDir>) -> Result<Self> {
        SocketFile::bind(state, SOCKET).map(Listener)
    }

    /// Serves clients until the future is dropped.
    pub async fn serve(self, control: Arc<dyn Control>) {
        let places = Arc::new(Semaphore::new(CLIENTS));
        let long = Arc::new(Semaphore::new(1));
        let probes = Arc::new(Semaphore::new(PROBES));
        loop {
            let stream = match self.0.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    // Most likely the process is out of file descriptors. The connection stays queued, so avoid a busy
                    // loop.
                    warn!(%error, "control socket");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            match places.clone().try_acquire_owned() {
                Ok(place) => {
                    let (control, long) = (control.clone(), long.clone());
                    tokio::spawn(async move {
                        if let Err(error) = client(stream, control, long).await {
                            warn!("control socket: {error:#}");
                        }
                        drop(place);
                    });
                }
                Err(_) => {
                    let (control, probe) = (control.clone(), probes.clone().try_acquire_owned().ok());
                    tokio::spawn(surplus(stream, control, probe));
                }
            }
        }
    }
}

/// Tells a client that there are too many, unless it has the permit `probe` and asks for the health.
async fn surplus(mut stream: UnixStream, control: Arc<dyn Control>, probe: Option<OwnedSemaphorePermit>) {
    let asks = match &probe {
        Some(_) => tokio::time::timeout(PROBE_TIME, asks_for_health(&mut stream)).await.unwrap_or(false),
        None => false,
    };
    let refused = || encode(Err::<(), _>(anyhow!("{CLIENTS} control connections are already open; try again later")));
    let answer = match asks {
        true => tokio::task::spawn_blocking(move || encode(Ok(control.health()))).await.unwrap_or_else(|_| refused()),
        false => refused(),
    };
    let _ = tokio::time::timeout(PROBE_TIME, stream.write_all(&answer)).await;
}

/// Whether the first request of a client is for the health.
async fn asks_for_health(stream: &mut UnixStream) -> bool {
    if !is_trusted(stream).unwrap_or(false) {
        return false;
    }
    let (mut line, mut length) = ([0; 256], 0);
    loop {
        match stream.read(&mut line[length..]).await {
            Ok(0) | Err(_) => return false,
            Ok(count) => length += count,
        }
        if let Some(end) = line[..length].iter().position(|byte| *byte == b'\n') {
            return matches!(serde_json::from_slice(&line[..end]), Ok(ServerRequest::Health {}));
        }
    }
}

/// Whether the client is root or the user of the server.
fn is_trusted(stream: &UnixStream) -> Result<bool> {
    let uid = stream.peer_cred()?.uid();
    Ok(uid == 0 || uid == rustix::process::geteuid().as_raw())
}

/// Serves one client from its first request to the end of its connection. `long` has the permit to send a long request.
async fn client(stream: UnixStream, control: Arc<dyn Control>, long: Arc<Semaphore>) -> Result<()> {
    let mut behalf = None;
    let ended = answered(stream, &control, long, &mut behalf).await;
    if let Some(behalf) = behalf {
        // The administrator's program was told that the change is recorded, and may have made it.
        let why = "the connection has ended before the result was known".to_owned();
        let recorded = tokio::task::spawn_blocking(move || control.record(behalf, Some(why))).await;
        recorded.context("cannot record a change of an administrator")?;
    }
    ended
}

/// Answers requests until the connection ends. `behalf` is the administrator who makes the next one.
async fn answered(
    mut stream: UnixStream,
    control: &Arc<dyn Control>,
    long: Arc<Semaphore>,
    behalf: &mut Option<OnBehalf>,
) -> Result<()> {
    ensure!(is_trusted(&stream)?, "refused a connection of user {}", stream.peer_cred()?.uid());
    let mut buffer = Zeroizing::new(Vec::new());
    loop {
        let mut permit = None;
        let limit = if behalf.is_some() { CHANGE_TIME } else { REQUEST_TIME };
        let next = next_line(&mut stream, &mut buffer, &long, &mut permit);
        let line = match tokio::time::timeout(limit, next).await {
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) | Err(_) => return Ok(()),
            Ok(Err(error)) => {
                let _ = tokio::time::timeout(ANSWER_TIME, stream.write_all(&encode(Err::<(), _>(error)))).await;
                return Ok(());
            }
        };
        if let Some(named) = named(&line) {
            *behalf = Some(named);
            tokio::time::timeout(ANSWER_TIME, stream.write_all(&encode(Ok(())))).await.context("a client hangs")??;
            continue;
        }
        let (control, behalf) = (control.clone(), behalf.take());
        let answer = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            // A change that fails with a panic is recorded too.
            let done = catch_unwind(AssertUnwindSafe(|| answer(&line, &*control)));
            let internal = |_| encode(Err::<(), _>(anyhow!("internal error in the server; see its log")));
            let answer = done.unwrap_or_else(internal);
            if let Some(behalf) = behalf {
                control.record(behalf, failure(&answer));
            }
            answer
        });
        let answer = answer.await.context("cannot record a change of an administrator")?;
        tokio::time::timeout(ANSWER_TIME, stream.write_all(&answer)).await.context("a client stopped reading")??;
    }
}

/// Returns the administrator who makes the next request, if this one says so.
fn named(line: &[u8]) -> Option<OnBehalf> {
    match serde_json::from_slice(line) {
        Ok(ServerRequest::For(behalf)) => Some(behalf),
        _ => None,
    }
}

/// Returns the error in an answer.
fn failure(answer: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Response<IgnoredAny>>(answer) {
        Ok(Response::Ok(_)) => None,
        Ok(Response::Error(why)) => Some(why),
        Err(error) => Some(error.to_string()),
    }
}

/// Returns the next line without its line feed; `None` at the end of the connection. `buffer` keeps the bytes after it.
/// A long line takes the permit of `long`.
async fn next_line(
    stream: &mut UnixStream,
    buffer: &mut Zeroizing<Vec<u8>>,
    long: &Arc<Semaphore>,
    permit: &mut Option<OwnedSemaphorePermit>,
) -> Result<Option<Zeroizing<Vec<u8>>>> {
    let mut searched = 0;
    loop {
        if let Some(end) = buffer[searched..].iter().position(|byte| *byte == b'\n').map(|at| searched + at) {
            let rest = Zeroizing::new(buffer[end + 1..].to_vec());
            let mut line = std::mem::replace(buffer, rest);
            line.truncate(end);
            return Ok(Some(line));
        }
        searched = buffer.len();
        ensure!(searched < LONGEST_REQUEST, "a request may have at most {LONGEST_REQUEST} bytes");
        if searched >= SHORT_REQUEST && permit.is_none() {
            let taken = long.clone().try_acquire_owned();
            *permit = Some(taken.ok().context("another long request is being carried out; try again later")?);
        }
        let mut chunk = Zeroizing::new([0; 16 << 10]);
        let count = stream.read(&mut *chunk).await?;
        if count == 0 {
            return Ok(None);
        }
        buffer.extend_from_slice(&chunk[..count]);
    }
}

/// Answers one request line with one line.
fn answer(line: &[u8], control: &dyn Control) -> Vec<u8> {
    /// The part of a request that identifies its kind.
    #[derive(Deserialize)]
    struct Kind {
        request: String,
    }
    let kind = match serde_json::from_slice::<Kind>(line) {
        Ok(kind) => kind.request,
        Err(error) => return encode(Err::<(), _>(not_understood(&error))),
    };
    if ["user.", "group.", "share."].iter().any(|accounts| kind.starts_with(accounts)) {
        return encode(
            serde_json::from_slice(line).map_err(|e| not_understood(&e)).and_then(|request| control.user(request)),
        );
    }
    if kind == "names" {
        let request = serde_json::from_slice(line).map_err(|error| not_understood(&error));
        return encode(request.and_then(|request| control.names(request)));
    }
    match serde_json::from_slice(line) {
        Ok(ServerRequest::Version {}) => {
            let (version, sandbox) = (env!("CARGO_PKG_VERSION").to_owned(), crate::sandbox::state().to_string());
            encode(Ok(Version { version, pid: std::process::id(), sandbox }))
        }
        Ok(ServerRequest::Status {}) => encode(Ok(Status::from(control.status(usize::MAX)).with_volumes())),
        Ok(ServerRequest::Clients { most }) => encode(Ok(Status::from(control.status(most)))),
        Ok(ServerRequest::Metrics {}) => encode(Ok(control.metrics())),
        Ok(ServerRequest::Health {}) => encode(Ok(control.health())),
        Ok(ServerRequest::Reload {}) => encode(control.reload()),
        Ok(ServerRequest::Close { what }) => encode(control.close(what)),
        Ok(ServerRequest::Shares { what }) => encode(control.shares(what)),
        Ok(ServerRequest::Held {}) => encode(Ok(control.held())),
        Ok(ServerRequest::LogOn { name, nt_hash, address }) => {
            encode(nt_hash.map_or(Ok(None), |hash| control.log_on(&name, &hash, address)))
        }
        Ok(ServerRequest::Admit { name, address }) => encode(control.admit(&name, address)),
        Ok(ServerRequest::Note { failure: None }) => encode(Ok(())),
        Ok(ServerRequest::Note { failure: Some(why) }) => encode(Err::<(), _>(anyhow!(why))),
        // `client` has taken it.
        Ok(ServerRequest::For(_)) => encode(Ok(())),
        Ok(ServerRequest::Stop {}) => {
            control.stop();
            encode(Ok("the server is stopping"))
        }
        Err(error) => encode(Err::<(), _>(not_understood(&error))),
    }
}

/// Reports only the position of the error, because serde's text may quote the request, which may contain a password
/// hash.
fn not_understood(error: &serde_json::Error) -> anyhow::Error {
    let kind = match error.classify() {
        serde_json::error::Category::Data => "unknown request or field",
        _ => "not JSON",
    };
    anyhow!("the request is not understood: {kind} near column {}", error.column())
}

fn encode<T: Serialize>(answer: Result<T>) -> Vec<u8> {
    let answer = match answer {
        Ok(answer) => Response::Ok(answer),
        Err(error) => Response::Error(format!("{error:#}")),
    };
    let mut line = serde_json::to_vec(&answer).expect("plain data is always JSON");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;
