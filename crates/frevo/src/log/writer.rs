//! Where log lines go: standard error, or a file that is appended to, turned over at a size, and reopened on request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// Takes whole lines, from any thread.
pub(super) struct LogWriter {
    file: Option<Mutex<LogFile>>,
}

struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    max_size: u64,
}

impl LogWriter {
    /// Lines go to standard error.
    pub(super) fn standard_error() -> Self {
        LogWriter { file: None }
    }

    /// Lines are appended to the file `path`, which is made with mode 0640. When it would grow beyond `max_size` bytes
    /// (0: never), it becomes `path.old`, in the place of what has that name, and an empty one is begun.
    pub(super) fn file(path: &Path, max_size: u64) -> Result<Self> {
        let (file, size) = open(path).with_context(|| format!("log file {}", path.display()))?;
        Ok(LogWriter { file: Some(Mutex::new(LogFile { path: path.to_owned(), file, size, max_size })) })
    }

    /// Opens the file anew by its name. Where that fails, lines go on into the old one.
    pub(super) fn reopen(&self) -> Result<()> {
        let Some(log) = &self.file else { return Ok(()) };
        let mut log = log.lock();
        let (file, size) = open(&log.path).with_context(|| format!("log file {}", log.path.display()))?;
        (log.file, log.size) = (file, size);
        Ok(())
    }

    fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let line = tame(line);
        match &self.file {
            Some(log) => log.lock().append(&line),
            None => io::stderr().lock().write_all(&line),
        }
    }
}

impl LogFile {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.max_size > 0 && self.size > 0 && self.size + length > self.max_size {
            self.turn_over();
        }
        self.size += length;
        self.file.write_all(line)
    }

    /// Where the file cannot be moved or begun anew, it grows: a long log is better than none.
    fn turn_over(&mut self) {
        let mut old = self.path.clone().into_os_string();
        old.push(".old");
        // The line may be about what a user does, on a thread that acts as that user.
        let begun = localfs::identity::as_process(|| std::fs::rename(&self.path, old).and_then(|()| open(&self.path)));
        if let Ok(Ok((file, size))) = begun {
            (self.file, self.size) = (file, size);
        } else {
            // Not tried again before the file has grown by another `max_size`.
            self.size = 0;
        }
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// The line with its control characters, save the last line feed and tabs, made harmless: names that clients choose
/// are in it.
fn tame(line: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let bad = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    let (body, end) = line.split_at(line.strip_suffix(b"\n").map_or(line.len(), <[u8]>::len));
    if !body.iter().any(bad) {
        return line.into();
    }
    let tamed = body.iter().map(|byte| if bad(byte) { b'?' } else { *byte });
    tamed.chain(end.iter().copied()).collect::<Vec<u8>>().into()
}

/// [`LogWriter`] behind the trait of the line formatter, which hands over each line in one piece.
pub(super) struct Line(Arc<LogWriter>);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_line(line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Shared {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.0.clone())
    }
}

/// A [`LogWriter`] that the line formatter and the log's owner share.
pub(super) struct Shared(pub(super) Arc<LogWriter>);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_is_appended_to_and_turned_over() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("log"), dir.path().join("log.old"));
        std::fs::write(&path, "before\n").unwrap();
        let log = LogWriter::file(&path, 20).unwrap();
        log.write_line(b"0123456789\n").unwrap();
        assert_eq!(text(&path), "before\n0123456789\n");
        log.write_line(b"next\n").unwrap();
        assert_eq!((text(&path), text(&old)), ("next\n".into(), "before\n0123456789\n".into()));
        log.write_line(b"a line that is longer than all\n").unwrap();
        assert_eq!((text(&path), text(&old)), ("a line that is longer than all\n".into(), "next\n".into()));
    }

    #[test]
    fn a_file_that_was_moved_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("log"), dir.path().join("moved"));
        let log = LogWriter::file(&path, 0).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o137, 0);
        log.write_line(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        log.write_line(b"two\n").unwrap();
        log.reopen().unwrap();
        log.write_line(b"three\n").unwrap();
        assert_eq!((text(&moved), text(&path)), ("one\ntwo\n".into(), "three\n".into()));
        assert!(LogWriter::file(&dir.path().join("none/log"), 0).is_err());
    }

    #[test]
    fn names_cannot_forge_lines() {
        assert_eq!(&*tame(b"plain\ttext\n"), b"plain\ttext\n");
        assert_eq!(&*tame(b"a\nERROR b\x1b[2J\r\n"), b"a?ERROR b?[2J?\n");
        assert_eq!(&*tame(b""), b"");
    }
}
