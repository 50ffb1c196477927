//! The process that runs the host's modules. It has one thread, and forks a process for each logon and for the end of
//! each session, because modules may hang, crash, or change their process.
//!
//! It has the privileges with which the server was started and does only what a [`Request`] says. It ends when the
//! server has ended and all sessions are closed.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType,
};
use rustix::process::{
    PidfdFlags, Resource, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, setrlimit, waitid,
};
use rustix::time::Timespec;

use crate::library::{Library, Transaction};
use crate::message::{Answer, LONGEST, Request, Stage};
use crate::{Settings, process};

/// The maximum number of processes: the server asks for [`crate::client::AT_A_TIME`] at most, and sessions end.
const PROCESSES: usize = 2 * crate::client::AT_A_TIME;
/// The number that stands for the server's socket among the events.
const SERVER: u64 = 0;
/// How long the server waits for the helper to load the library.
const LOADING: Duration = Duration::from_secs(10);
/// The exit status of a process that has opened a session.
const OPENED: c_int = 1;

/// A running helper, not yet used by the server.
#[derive(Debug)]
pub struct Helper {
    pub(crate) socket: OwnedFd,
    pub(crate) limit: Duration,
    /// Why the library cannot be used.
    absent: Option<String>,
}

impl Helper {
    /// Starts the helper. Must be called while the process has one thread, before it gives up privileges.
    ///
    /// # Errors
    /// The process cannot be created. A missing library is not an error here: see [`Helper::absent`].
    pub fn start(settings: &Settings) -> io::Result<Helper> {
        let flags = SocketFlags::CLOEXEC;
        let (server, own) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        process::fork(|| match serve(settings, &own) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("PAM helper: {error}");
                2
            }
        })?;
        drop(own);
        let wait = Some(LOADING);
        rustix::net::sockopt::set_socket_timeout(&server, rustix::net::sockopt::Timeout::Recv, wait)?;
        let mut said = [0; LONGEST];
        let (length, _) = rustix::net::recv(&server, &mut said[..], RecvFlags::empty())?;
        let absent = match said[..length].split_first() {
            Some((0, _)) => None,
            Some((_, text)) => Some(String::from_utf8_lossy(text).into_owned()),
            None => Some("the PAM helper has ended".to_owned()),
        };
        rustix::io::ioctl_fionbio(&server, true)?;
        Ok(Helper { socket: server, limit: settings.limit, absent })
    }

    /// Returns why nobody can log on: the library cannot be loaded.
    pub fn absent(&self) -> Option<&str> {
        self.absent.as_deref()
    }
}

/// Serves requests until the server has ended and all sessions are closed.
fn serve(settings: &Settings, socket: &OwnedFd) -> io::Result<()> {
    process::close_others(socket.as_fd())?;
    process::close_input()?;
    // A Ctrl-C in the server's terminal ends the server, which the helper notices.
    rustix::process::setsid()?;
    process::survive_termination();
    rustix::thread::set_name(c"frevo-pam")?;
    // Each session has a descriptor.
    let mut files = rustix::process::getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files)?;
    let library = match Library::load(&settings.library) {
        Ok(library) => library,
        Err(why) => {
            let said = [&[1], &why.as_bytes()[..why.len().min(LONGEST - 1)]].concat();
            rustix::net::send(socket, &said, SendFlags::NOSIGNAL)?;
            return Ok(());
        }
    };
    rustix::net::send(socket, &[0], SendFlags::NOSIGNAL)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, socket, EventData::new_u64(SERVER), EventFlags::IN)?;
    let state = State {
        settings,
        library: &library,
        socket: Some(socket.as_fd()),
        epoll,
        last: SERVER,
        running: HashMap::new(),
        sessions: HashMap::new(),
        ended: VecDeque::new(),
    };
    state.run()
}

/// A session that is open.
struct Session {
    socket: OwnedFd,
    request: Request,
}

/// A process that executes modules.
struct Running {
    process: OwnedFd,
    deadline: Instant,
    /// The logon, to whose session the socket belongs if one is opened; `None` if a session ends.
    logon: Option<Session>,
}

/// The state of the helper. Processes and sessions have numbers, by which events name them.
struct State<'h> {
    settings: &'h Settings,
    library: &'h Library,
    /// The server's socket; `None` if the server has ended.
    socket: Option<BorrowedFd<'h>>,
    epoll: OwnedFd,
    last: u64,
    running: HashMap<u64, Running>,
    sessions: HashMap<u64, Session>,
    /// Sessions that are to be closed.
    ended: VecDeque<Request>,
}

impl State<'_> {
    fn run(mut self) -> io::Result<()> {
        while self.socket.is_some() || !(self.running.is_empty() && self.sessions.is_empty() && self.ended.is_empty()) {
            let mut events = [MaybeUninit::uninit(); 64];
            let timeout = self.kill_late();
            let events = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
                Ok((events, _)) => events,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for event in events.iter() {
                match event.data.u64() {
                    SERVER => self.receive()?,
                    number => self.happened(number)?,
                }
            }
            while self.running.len() < PROCESSES
                && let Some(request) = self.ended.pop_front()
            {
                self.close(request)?;
            }
        }
        Ok(())
    }

    /// Kills processes that take too long. Returns the time until the next one would.
    fn kill_late(&self) -> Option<Timespec> {
        let now = Instant::now();
        let mut next = None;
        for running in self.running.values() {
            match running.deadline.checked_duration_since(now) {
                Some(left) => next = Some(next.map_or(left, |next: Duration| next.min(left))),
                // Its end is an event.
                None => _ = pidfd_send_signal(&running.process, Signal::KILL),
            }
        }
        let next = next?.saturating_add(Duration::from_millis(1));
        Timespec::try_from(next).ok()
    }

    /// Receives a request. One that cannot be executed loses its socket, which tells the server.
    fn receive(&mut self) -> io::Result<()> {
        let Some(server) = self.socket else { return Ok(()) };
        let mut bytes = [0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = match rustix::net::recvmsg(server, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
            // The server has ended.
            Err(_) => 0,
        };
        let mut sockets = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        if received == 0 {
            epoll::delete(&self.epoll, server)?;
            self.socket = None;
            return Ok(());
        }
        let socket = sockets.next().and_then(|mut descriptors| descriptors.next());
        let (Some(request), Some(socket)) = (Request::decode(&bytes[..received]), socket) else { return Ok(()) };
        if self.running.len() >= PROCESSES {
            let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            return Ok(());
        }
        let (settings, library) = (self.settings, self.library);
        let process = process::fork(|| log_on(settings, library, &request, &socket));
        self.started(process, Some(Session { socket, request }))
    }

    fn close(&mut self, request: Request) -> io::Result<()> {
        let (settings, library) = (self.settings, self.library);
        let process = process::fork(|| {
            let terminal = terminal(request.session.unwrap_or_default());
            let closed = transaction(settings, library, &request).and_then(|mut transaction| {
                let described = transaction.describe(Some(&request.client), &terminal);
                let closed = described.and_then(|()| transaction.close_session());
                closed.map_err(|code| refusal(Stage::Session, code, library))
            });
            if let Err(answer) = closed {
                eprintln!("PAM cannot close a session of {}: {}", request.name, answer.text);
            }
            0
        });
        self.started(process, None)
    }

    /// Records a process. If it could not be created, the logon loses its socket.
    fn started(&mut self, process: io::Result<rustix::process::Pid>, logon: Option<Session>) -> io::Result<()> {
        let Ok(process) = process else { return Ok(()) };
        let process = pidfd_open(process, PidfdFlags::empty())?;
        self.last += 1;
        epoll::add(&self.epoll, &process, EventData::new_u64(self.last), EventFlags::IN)?;
        let deadline = Instant::now() + self.settings.limit;
        self.running.insert(self.last, Running { process, deadline, logon });
        Ok(())
    }

    /// A process has ended, or a session.
    fn happened(&mut self, number: u64) -> io::Result<()> {
        if let Some(session) = self.sessions.remove(&number) {
            epoll::delete(&self.epoll, &session.socket)?;
            self.ended.push_back(session.request);
            return Ok(());
        }
        let Some(running) = self.running.remove(&number) else { return Ok(()) };
        epoll::delete(&self.epoll, &running.process)?;
        let ended = waitid(WaitId::PidFd(running.process.as_fd()), WaitIdOptions::EXITED)?;
        let opened = ended.and_then(|status| status.exit_status()) == Some(OPENED);
        let Some(logon) = running.logon else { return Ok(()) };
        if !opened {
            // Processes that are running may have copies of the descriptor.
            let _ = rustix::net::shutdown(&logon.socket, Shutdown::Both);
            return Ok(());
        }
        self.last += 1;
        epoll::add(&self.epoll, &logon.socket, EventData::new_u64(self.last), EventFlags::RDHUP | EventFlags::HUP)?;
        self.sessions.insert(self.last, logon);
        Ok(())
    }
}

/// Executes a logon in a process of its own. Returns the exit status.
fn log_on(settings: &Settings, library: &Library, request: &Request, socket: &OwnedFd) -> c_int {
    let outcome = examine(settings, library, request);
    let status = if outcome.is_ok() && request.session.is_some() { OPENED } else { 0 };
    let answer = outcome.err().unwrap_or(Answer { stage: Stage::Admitted, code: 0, text: String::new() });
    // If the server no longer waits, the end of its socket closes the session.
    let _ = rustix::net::send(socket, &answer.encode(), SendFlags::NOSIGNAL);
    status
}

fn examine(settings: &Settings, library: &Library, request: &Request) -> Result<(), Answer> {
    let mut transaction = transaction(settings, library, request)?;
    transaction.check_account().map_err(|code| refusal(Stage::Account, code, library))?;
    if let Some(id) = request.session {
        let opened =
            transaction.describe(Some(&request.client), &terminal(id)).and_then(|()| transaction.open_session());
        opened.map_err(|code| refusal(Stage::Session, code, library))?;
    }
    Ok(())
}

/// Begins a transaction for the UNIX user of a request.
fn transaction<'l>(settings: &Settings, library: &'l Library, request: &Request) -> Result<Transaction<'l>, Answer> {
    let unknown = || {
        let text = format!("the uid {} has no UNIX user", request.uid);
        Answer { stage: Stage::User, code: 0, text }
    };
    let user = process::user_name(&request.name, request.uid).ok_or_else(unknown)?;
    let refused = |code| refusal(Stage::Start, code, library);
    let begun = library.start(&settings.service, settings.directory.as_deref(), &user, None);
    let mut transaction = begun.map_err(refused)?;
    transaction.describe(Some(&request.client), "samba").map_err(refused)?;
    Ok(transaction)
}

/// The terminal of a session, as Samba names it.
fn terminal(session: u64) -> String {
    format!("smb/{session}")
}

fn refusal(stage: Stage, code: c_int, library: &Library) -> Answer {
    Answer { stage, code, text: library.text(code) }
}
