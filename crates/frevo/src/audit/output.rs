//! An open destination.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use server::audit::Record;
use server::environment::Environment;

use super::json;
use crate::environment::SystemEnvironment;

/// The program in the messages to syslog.
const PROGRAM: &str = "smbd_audit";

/// The largest message to syslog in bytes. The journal splits longer ones, and syslog daemons cut them.
const LONGEST_MESSAGE: usize = 8_192;

/// A destination. It is opened by the first line, and again after an error.
pub(super) enum Output {
    /// The syslog daemon or the journal.
    Syslog {
        /// The socket, once it is connected.
        socket: Option<UnixDatagram>,
        /// Its name.
        path: PathBuf,
    },
    /// The log of the server.
    Log,
    /// A file with JSON objects.
    File {
        /// The file, once it is open.
        file: Option<File>,
        /// Its name.
        path: PathBuf,
    },
}

/// Records that could not be written.
pub(super) struct Failed {
    /// How many of them.
    pub(super) lost: usize,
    /// Why.
    pub(super) why: io::Error,
}

impl Output {
    /// Closes the destination, so that the next line opens it again.
    pub(super) fn close(&mut self) {
        match self {
            Output::Syslog { socket, .. } => *socket = None,
            Output::File { file, .. } => *file = None,
            Output::Log => {}
        }
    }

    /// Returns the name of the destination.
    pub(super) fn name(&self) -> String {
        match self {
            Output::Syslog { path, .. } | Output::File { path, .. } => path.display().to_string(),
            Output::Log => "log".to_owned(),
        }
    }

    /// Writes records; `gap` records are missing before them.
    pub(super) fn write(&mut self, records: &[Record], gap: u64) -> Result<(), Failed> {
        match self {
            Output::Log => {
                // As a message of Samba at level 1.
                records.iter().for_each(|record| tracing::warn!(target: "audit", "{}", record.line()));
                Ok(())
            }
            Output::File { file, path } => append(file, path, records, gap).map_err(|why| {
                *file = None;
                Failed { lost: records.len(), why }
            }),
            Output::Syslog { socket, path } => send(socket, path, records),
        }
    }
}

/// Appends the records to the file, with one call for all of them.
fn append(file: &mut Option<File>, path: &Path, records: &[Record], gap: u64) -> io::Result<()> {
    let mut text = String::new();
    if gap > 0 {
        text += &json::gap(SystemEnvironment::new().now(), gap);
    }
    text.extend(records.iter().map(json::line));
    let open = match file {
        Some(open) => open,
        None => file.insert(OpenOptions::new().append(true).create(true).mode(0o640).open(path)?),
    };
    open.write_all(text.as_bytes())
}

/// Sends each record, with one call. Records after one that cannot be sent are tried over a new socket, because the
/// daemon may have been restarted meanwhile.
fn send(socket: &mut Option<UnixDatagram>, path: &Path, records: &[Record]) -> Result<(), Failed> {
    let mut failed: Option<Failed> = None;
    for (at, record) in records.iter().enumerate() {
        let message = message(record);
        let sent = match send_one(socket, path, &message) {
            // Only a new socket reaches a daemon that was restarted.
            Err(error) if is_gone(&error) && socket.take().is_some() => send_one(socket, path, &message),
            sent => sent,
        };
        let Err(why) = sent else { continue };
        let lost = failed.map_or(0, |failed| failed.lost) + 1;
        if socket.is_none() {
            // There is no daemon.
            return Err(Failed { lost: lost + records.len() - at - 1, why });
        }
        failed = Some(Failed { lost, why });
    }
    failed.map_or(Ok(()), Err)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotConnected | io::ErrorKind::ConnectionReset
    )
}

fn send_one(socket: &mut Option<UnixDatagram>, path: &Path, message: &[u8]) -> io::Result<()> {
    let open = match socket {
        Some(open) => open,
        None => {
            let new = UnixDatagram::unbound()?;
            new.connect(path)?;
            socket.insert(new)
        }
    };
    open.send(message).map(drop)
}

/// Returns the message of a record (RFC 3164), as the C library sends it to the daemon of its host.
fn message(record: &Record) -> Vec<u8> {
    let text = format!("<{}>{} {PROGRAM}: {}", record.origin.priority, record.syslog_time(), record.line());
    let mut message = text.into_bytes();
    message.truncate(LONGEST_MESSAGE);
    message
}
