//! The server's side: asks the helper, for a limited number of logons at a time.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use server::domain::Refused;
use server::restrictions::{HostLogon, HostSession, Restrictions};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{UnixDatagram, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::codes;
use crate::helper::Helper;
use crate::message::{Answer, HEAD, Request};

/// The maximum number of logons that the modules examine at a time.
pub(crate) const AT_A_TIME: usize = 16;
/// The maximum number of these for one user, so that a module that hangs for a user leaves the others some.
const OF_ONE_USER: usize = AT_A_TIME / 4;
/// How long after its time limit the helper has killed a process.
const GRACE: Duration = Duration::from_secs(2);

/// The restrictions of PAM.
pub struct Pam(Arc<Client>);

struct Client {
    /// `None` if the library cannot be used; the text says why.
    socket: Result<UnixDatagram, String>,
    limit: Duration,
    turns: Semaphore,
    /// The permits of the users whose logons are being examined.
    users: Mutex<HashMap<u32, Weak<Semaphore>>>,
}

impl Pam {
    /// Uses the helper, on the current runtime.
    ///
    /// # Errors
    /// The runtime cannot use the socket.
    pub fn new(helper: Helper) -> io::Result<Pam> {
        let absent = helper.absent().map(str::to_owned);
        let Helper { socket, limit, .. } = helper;
        let socket = match absent {
            Some(why) => Err(why),
            None => Ok(UnixDatagram::from_std(socket.into())?),
        };
        let turns = Semaphore::new(AT_A_TIME);
        Ok(Pam(Arc::new(Client { socket, limit, turns, users: Mutex::default() })))
    }
}

impl Restrictions for Pam {
    fn check(&self, logon: HostLogon) -> server::answer::Answer<Result<HostSession, Refused>> {
        let client = self.0.clone();
        server::answer::Answer::later(async move {
            let limit = client.limit;
            let (mut sender, outcome) = oneshot::channel();
            // The permits are returned when the modules have finished, not when the logon stops waiting.
            tokio::spawn(async move {
                let user = client.permits_of(logon.uid);
                let permits = async { (user.acquire().await, client.turns.acquire().await) };
                let _permits = tokio::select! {
                    permits = permits => permits,
                    () = sender.closed() => return,
                };
                let outcome = client.log_on(logon).await;
                // If the logon has stopped waiting, its session is dropped, which closes it.
                let _ = sender.send(outcome);
            });
            match timeout(limit, outcome).await {
                Ok(Ok(outcome)) => outcome,
                _ => Err(late(limit)),
            }
        })
    }
}

impl Client {
    async fn log_on(&self, logon: HostLogon) -> Result<HostSession, Refused> {
        let socket = self.socket.as_ref().map_err(|why| Refused::Unavailable(why.clone()))?;
        let request = Request::from(logon);
        let mut stream = match timeout(self.limit, send(socket, &request)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let why = format!("the PAM helper cannot be asked ({error}); restart the server");
                return Err(Refused::Unavailable(why));
            }
            Err(_) => return Err(late(self.limit)),
        };
        let Ok(Ok(answer)) = timeout(self.limit + GRACE, receive(&mut stream)).await else {
            return Err(late(self.limit));
        };
        if let Some(status) = codes::status(&answer) {
            let Request { name, client, .. } = request;
            let Answer { stage, code, text } = answer;
            tracing::warn!(user = name, client, ?stage, code, "PAM refuses the logon: {text}");
            return Err(Refused::Because(status));
        }
        // The session ends with the stream.
        Ok(request.session.map(|_| Box::new(stream) as _))
    }

    fn permits_of(&self, user: u32) -> Arc<Semaphore> {
        let mut users = self.users.lock();
        if let Some(permits) = users.get(&user).and_then(Weak::upgrade) {
            return permits;
        }
        users.retain(|_, permits| permits.strong_count() > 0);
        let permits = Arc::new(Semaphore::new(OF_ONE_USER));
        users.insert(user, Arc::downgrade(&permits));
        permits
    }
}

/// Sends a request. Returns the socket on which the answer will come.
async fn send(socket: &UnixDatagram, request: &Request) -> io::Result<UnixStream> {
    let bytes = request.encode().ok_or_else(|| io::Error::other("the name of the user is too long"))?;
    let (own, theirs) = UnixStream::pair()?;
    let theirs = theirs.into_std()?;
    theirs.set_nonblocking(false)?;
    let sent = socket.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let passed = [theirs.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&passed));
        let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
        sent.map_err(io::Error::from)
    });
    sent.await.map(|_| own)
}

async fn receive(stream: &mut UnixStream) -> io::Result<Answer> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await?;
    let (mut answer, length) = Answer::decode_head(&head).ok_or(io::ErrorKind::InvalidData)?;
    let mut text = vec![0; length];
    stream.read_exact(&mut text).await?;
    answer.text = String::from_utf8_lossy(&text).into_owned();
    Ok(answer)
}

/// The error for modules that hang, are killed because of that, or crash.
fn late(limit: Duration) -> Refused {
    Refused::Unavailable(format!(
        "the PAM modules of the service have not answered within {} seconds, or have crashed; check /etc/pam.d/samba",
        limit.as_secs()
    ))
}
