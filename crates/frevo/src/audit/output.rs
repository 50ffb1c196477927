//! An open destination.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use server::audit::Event;
use server::environment::Environment;

use super::{journal, json};
use crate::environment::SystemEnvironment;

/// The program in the messages to syslog and the journal.
pub(super) const PROGRAM: &str = "smbd_audit";

/// The largest message to syslog in bytes. The journal splits longer ones, and syslog daemons cut them.
const LONGEST_MESSAGE: usize = 8_192;

/// How long a daemon may take to accept a message before that counts as a failure.
const SENDING: Duration = Duration::from_secs(1);

/// A destination. It is opened by the first event, and again after an error.
pub(super) enum Output {
    /// The log of the server.
    Log {
        /// JSON objects instead of lines.
        json: bool,
    },
    /// A daemon with a datagram socket.
    Socket(Socket),
    /// A file.
    File(Lines),
}

/// The socket of the syslog daemon or the journal.
pub(super) struct Socket {
    path: PathBuf,
    /// Once it is connected.
    open: Option<UnixDatagram>,
    /// Writes the message of an event.
    message: fn(&Event) -> Vec<u8>,
}

/// A file to which lines are appended.
pub(super) struct Lines {
    path: PathBuf,
    /// JSON objects instead of the lines of Samba.
    json: bool,
    /// Once it is open.
    open: Option<File>,
    /// The lines that are being written.
    text: Vec<u8>,
    /// How much of them is written.
    written: usize,
}

/// Why a destination does not accept events at the moment.
#[derive(Debug)]
pub(super) struct Failed {
    /// How many of the events need not be written again.
    pub(super) done: usize,
    /// How many of those the destination can never accept.
    pub(super) lost: usize,
    /// The reason.
    pub(super) why: io::Error,
}

impl Output {
    pub(super) fn syslog(path: &Path) -> Output {
        Output::Socket(Socket { path: path.to_owned(), open: None, message })
    }

    pub(super) fn journal(path: &Path) -> Output {
        Output::Socket(Socket { path: path.to_owned(), open: None, message: journal::entry })
    }

    pub(super) fn file(path: &Path, json: bool) -> Output {
        Output::File(Lines { path: path.to_owned(), json, open: None, text: Vec::new(), written: 0 })
    }

    /// Closes the destination, so that the next event opens it again.
    pub(super) fn close(&mut self) {
        match self {
            Output::Socket(socket) => socket.open = None,
            Output::File(lines) => lines.close(),
            Output::Log { .. } => {}
        }
    }

    /// Returns the name of the destination.
    pub(super) fn name(&self) -> String {
        match self {
            Output::Socket(Socket { path, .. }) | Output::File(Lines { path, .. }) => path.display().to_string(),
            Output::Log { .. } => "log".to_owned(),
        }
    }

    /// Writes events; `gap` events are missing. Returns how many of them the destination can never accept. If it
    /// fails, the caller tries the events that are not done again.
    pub(super) fn write(&mut self, events: &[Event], gap: u64) -> Result<usize, Failed> {
        match self {
            Output::Log { json } => {
                for event in events {
                    // As a message of Samba at level 1.
                    match json {
                        true => tracing::warn!(target: "audit", "{}", json::object(event)),
                        false => tracing::warn!(target: "audit", "{event}"),
                    }
                }
                Ok(0)
            }
            Output::File(lines) => {
                lines.append(events, gap).map_err(|why| Failed { done: 0, lost: 0, why }).map(|()| 0)
            }
            Output::Socket(socket) => socket.send(events),
        }
    }
}

impl Lines {
    /// Appends the events, with one call for all of them if possible. After a failure, such as of a full disk, it
    /// continues where it was.
    fn append(&mut self, events: &[Event], gap: u64) -> io::Result<()> {
        if self.text.is_empty() {
            self.compose(events, gap);
        }
        while self.written < self.text.len() {
            let open = match &mut self.open {
                Some(open) => open,
                None => {
                    let mut options = OpenOptions::new();
                    let open = options.append(true).create(true).mode(0o640).open(&self.path)?;
                    // Of the text, only whole lines are written. The file may have a part of a line nevertheless.
                    match (ends_within_line(&open, &self.path), self.text.get(self.written) == Some(&b'\n')) {
                        (true, false) => self.text.insert(self.written, b'\n'),
                        (false, true) => self.written += 1,
                        _ => {}
                    }
                    self.open.insert(open)
                }
            };
            match open.write(&self.text[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // A batch of long lines must not occupy its memory forever.
        (self.text, self.written) = (Vec::new(), 0);
        Ok(())
    }

    fn compose(&mut self, events: &[Event], gap: u64) {
        if gap > 0 && self.json {
            self.text.extend_from_slice(json::gap(SystemEnvironment::new().now(), gap).as_bytes());
        }
        for event in events {
            // The lines of Samba's log follow a heading, and are indented.
            let line = if self.json { json::object(event) } else { format!("  {event}") };
            self.text.extend_from_slice(line.as_bytes());
            self.text.push(b'\n');
        }
    }

    /// Closes the file. A line of which only a part is written is written again as a whole.
    fn close(&mut self) {
        self.open = None;
        let line = self.text[..self.written].iter().rposition(|byte| *byte == b'\n');
        self.written = line.map_or(0, |end| end + 1);
    }
}

/// Returns whether a file ends with a part of a line, as after a full disk or a crash.
fn ends_within_line(open: &File, path: &Path) -> bool {
    let Ok(metadata) = open.metadata() else { return false };
    if !metadata.is_file() || metadata.len() == 0 {
        return false;
    }
    let mut last = [0];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut last, metadata.len() - 1));
    read.is_ok() && last != *b"\n"
}

impl Socket {
    /// Sends each event, with one call.
    fn send(&mut self, events: &[Event]) -> Result<usize, Failed> {
        let mut lost = 0;
        for (done, event) in events.iter().enumerate() {
            let message = (self.message)(event);
            let sent = match self.send_one(&message) {
                // Only a new socket reaches a daemon that was restarted.
                Err(error) if is_gone(&error) && self.open.take().is_some() => self.send_one(&message),
                sent => sent,
            };
            match sent {
                Ok(()) => {}
                // It will not become shorter.
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => lost += 1,
                Err(why) => return Err(Failed { done, lost, why }),
            }
        }
        Ok(lost)
    }

    fn send_one(&mut self, message: &[u8]) -> io::Result<()> {
        let open = match &self.open {
            Some(open) => open,
            None => {
                let new = UnixDatagram::unbound()?;
                new.set_write_timeout(Some(SENDING))?;
                new.connect(&self.path)?;
                self.open.insert(new)
            }
        };
        open.send(message).map(drop)
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotConnected | io::ErrorKind::ConnectionReset
    )
}

/// Returns the message of an event (RFC 3164), as the C library sends it to the daemon of its host.
fn message(event: &Event) -> Vec<u8> {
    let text = format!("<{}>{} {PROGRAM}: {event}", event.priority(), event.syslog_time());
    let mut message = text.into_bytes();
    message.truncate(LONGEST_MESSAGE);
    message
}
