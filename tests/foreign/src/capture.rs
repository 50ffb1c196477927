//! Captures of the loopback interface with tshark: which SMB 2 commands are sent, and how many bytes they transfer.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// READ, as formatted by tshark.
const READ: &str = "8";
/// Time limit for the start and the end of tshark.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running capture.
pub(crate) struct Capture {
    tshark: Child,
    file: PathBuf,
    port: u16,
}

/// A finished capture.
pub(crate) struct Captured {
    file: PathBuf,
    port: u16,
}

/// The captured commands.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct CapturedCounts {
    /// Number of requests by command code.
    pub(crate) requests: BTreeMap<u16, u64>,
    /// Data bytes in READ responses.
    pub(crate) read: u64,
    /// Data bytes in WRITE requests.
    pub(crate) written: u64,
}

impl Capture {
    /// Starts capturing the traffic of `server` into `file`, and waits until packets are captured.
    pub(crate) fn start(server: SocketAddr, file: &Path) -> Result<Capture> {
        let port = server.port();
        let _ = fs::remove_file(file);
        // tshark may give up root, but in a directory of the environment it can write to an existing file.
        fs::write(file, [])?;
        let tshark = Command::new("tshark")
            .args(["-q", "-i", "lo", "-B", "256", "-f", &format!("tcp port {port}"), "-w"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(file.with_extension("said"))?)
            .spawn()
            .context("cannot start tshark (Debian: apt install tshark)")?;
        let mut capture = Capture { tshark, file: file.to_owned(), port };
        capture.wait_for_packets(server)?;
        Ok(capture)
    }

    /// Sends packets by connecting, without any data.
    fn wait_for_packets(&mut self, server: SocketAddr) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        // A file without packets has a shorter header.
        while fs::metadata(&self.file)?.len() < 600 {
            if let Some(status) = self.tshark.try_wait()? {
                anyhow::bail!("tshark ended with {status}: {}", self.said());
            }
            ensure!(Instant::now() < end, "tshark captures no packets: {}", self.said());
            drop(TcpStream::connect(server)?);
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Ends the capture once everything that was sent is in the file.
    pub(crate) fn finish(mut self) -> Result<Captured> {
        let mut length = 0;
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let grown = fs::metadata(&self.file)?.len();
            if grown == length {
                break;
            }
            length = grown;
        }
        // SAFETY: kill has no memory effects; the process is the tshark started above.
        unsafe { libc::kill(libc::pid_t::try_from(self.tshark.id())?, libc::SIGINT) };
        let end = Instant::now() + PATIENCE;
        while self.tshark.try_wait()?.is_none() {
            ensure!(Instant::now() < end, "tshark does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
        let said = self.said();
        ensure!(!said.contains("dropped"), "tshark lost packets: {said}");
        Ok(Captured { file: self.file.clone(), port: self.port })
    }

    fn said(&self) -> String {
        fs::read_to_string(self.file.with_extension("said")).unwrap_or_default()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.tshark.kill();
        let _ = self.tshark.wait();
    }
}

impl Captured {
    /// Returns these fields of each frame that matches `filter`: a line per frame, with tabs between fields and commas
    /// between several values of a field in a compound.
    pub(crate) fn fields(&self, filter: &str, fields: &[&str]) -> Result<String> {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&self.file).args(["-d", &format!("tcp.port=={},nbss", self.port)]);
        command.args(["-Y", filter, "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]);
        command.args(fields.iter().flat_map(|field| ["-e", field]));
        let out = command.stdin(Stdio::null()).output().context("cannot start tshark")?;
        ensure!(out.status.success(), "tshark cannot read: {}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8(out.stdout)?)
    }

    /// Returns the requests and bytes of the whole capture.
    pub(crate) fn seen(&self) -> Result<CapturedCounts> {
        // The data of a READ response has no field of its own; tshark shows it as data.
        let fields = ["smb2.cmd", "smb2.flags.response", "data.len", "smb2.write_length"];
        count(&self.fields("smb2", &fields)?)
    }
}

/// Counts rows with the fields command, response flag, data length, WRITE length.
fn count(rows: &str) -> Result<CapturedCounts> {
    let mut seen = CapturedCounts::default();
    for row in rows.lines() {
        let mut columns = row.split('\t').map(|column| column.split(',').filter(|value| !value.is_empty()));
        let mut column = || columns.next().with_context(|| format!("tshark's row {row:?} is too short"));
        let (mut commands, mut responses, data, written) = (column()?, column()?, column()?, column()?);
        let sum = |mut values: std::iter::Filter<_, _>| {
            values.try_fold(0, |sum: u64, value: &str| Ok::<u64, anyhow::Error>(sum + value.parse::<u64>()?))
        };
        // A TCP segment has only one direction, even with several messages.
        if responses.all(|value| matches!(value, "1" | "True")) {
            if commands.any(|command| command == READ) {
                seen.read += sum(data)?;
            }
            continue;
        }
        seen.written += sum(written)?;
        for command in commands {
            *seen.requests.entry(command.parse()?).or_default() += 1;
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_and_answers_are_not() {
        let rows = "5,16,6\t0,0,0\t\t\n5,16,6\t1,1,1\t9\t\n8\tFalse\t\t\n8\tTrue\t100\t\n9\t0\t77\t77\n9\t1\t\t\n";
        let seen = count(rows).unwrap();
        assert_eq!(seen.requests, BTreeMap::from([(5, 1), (6, 1), (8, 1), (9, 1), (16, 1)]));
        assert_eq!((seen.read, seen.written), (100, 77));
        assert!(count("8\t0\n").is_err());
    }
}
