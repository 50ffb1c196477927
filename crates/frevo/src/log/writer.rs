//! The destination of log lines: standard error, or a file that is appended to, rotated at a maximum size, and reopened
//! on request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// Writes whole lines, from any thread.
pub(super) struct LogWriter {
    file: Option<Mutex<LogFile>>,
}

struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    /// 0: the file is not rotated.
    max_size: u64,
}

impl LogWriter {
    /// Creates a writer to standard error.
    pub(super) fn standard_error() -> Self {
        LogWriter { file: None }
    }

    /// Creates a writer that appends to the file `path`, which is created with mode 0640 if missing. Before the file
    /// exceeds `max_size` bytes (0: never), it is renamed to `path.old`, replacing an existing file, and a new one is
    /// created. A terminal, a pipe, or a name such as `/dev/stdout` is never renamed.
    pub(super) fn file(path: &Path, max_size: u64) -> Result<Self> {
        let opened = open(path).and_then(|(file, size)| Ok((may_rotate(path, &file)?, file, size)));
        let (may_rotate, file, size) = opened.with_context(|| format!("cannot open log file {}", path.display()))?;
        let max_size = if may_rotate { max_size } else { 0 };
        Ok(LogWriter { file: Some(Mutex::new(LogFile { path: path.to_owned(), file, size, max_size })) })
    }

    /// Opens the file again by name. If this fails, lines continue to go to the old file.
    pub(super) fn reopen(&self) -> Result<()> {
        let Some(log) = &self.file else { return Ok(()) };
        let mut log = log.lock();
        let (file, size) = open(&log.path).with_context(|| format!("cannot open log file {}", log.path.display()))?;
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

    /// Rotates the file. If the file cannot be renamed or created, it keeps growing, because a long log is better than
    /// none.
    fn turn_over(&mut self) {
        let mut old = self.path.clone().into_os_string();
        old.push(".old");
        // The line may concern a user's action and be logged on a thread that is impersonating that user.
        let begun = localfs::identity::as_process(|| std::fs::rename(&self.path, old).and_then(|()| open(&self.path)));
        if let Ok(Ok((file, size))) = begun {
            (self.file, self.size) = (file, size);
        } else {
            // The next attempt is made after the file has grown by another `max_size`.
            self.size = 0;
        }
    }
}

/// Opens the log file `path`, and returns its size. The standard streams are duplicated: they cannot be opened by name
/// if they are sockets, as those of a service manager are, or belong to another user, as in a container.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = match path.to_str() {
        Some("/dev/stdout") => io::stdout().as_fd().try_clone_to_owned()?.into(),
        Some("/dev/stderr") => io::stderr().as_fd().try_clone_to_owned()?.into(),
        _ => OpenOptions::new().append(true).create(true).mode(0o640).open(path)?,
    };
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Whether the log file `file`, opened as `path`, is a file of its own. A name in `/dev` or `/proc` may lead to a
/// regular file, to which the standard output was redirected, but is not that file's name.
fn may_rotate(path: &Path, file: &File) -> io::Result<bool> {
    let is_of_system = ["/dev", "/proc"].iter().any(|system| path.starts_with(system));
    Ok(!is_of_system && file.metadata()?.is_file())
}

/// Replaces control characters in the line except tabs and the final line feed, because lines contain names chosen by
/// clients.
fn tame(line: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let bad = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    let (body, end) = line.split_at(line.strip_suffix(b"\n").map_or(line.len(), <[u8]>::len));
    if !body.iter().any(bad) {
        return line.into();
    }
    let tamed = body.iter().map(|byte| if bad(byte) { b'?' } else { *byte });
    tamed.chain(end.iter().copied()).collect::<Vec<u8>>().into()
}

/// [`LogWriter`] as the `Write` of the line formatter, which passes each line in one piece.
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

/// A [`LogWriter`] shared by the line formatter and the log's owner.
pub(super) struct Shared(pub(super) Arc<LogWriter>);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_file_is_appended_to_and_rotated() {
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
    fn only_a_file_of_its_own_is_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let own = File::create(&path).unwrap();
        assert!(may_rotate(&path, &own).unwrap());
        assert!(!may_rotate(Path::new("/dev/stdout"), &own).unwrap());
        assert!(!may_rotate(Path::new("/proc/self/fd/1"), &own).unwrap());
        let null = PathBuf::from("/dev/null");
        assert!(!may_rotate(&path, &File::open(null).unwrap()).unwrap());
    }

    #[test]
    fn a_redirected_standard_output_is_not_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("log"), dir.path().join("log.old"));
        let output = File::create(&path).unwrap();
        let descriptor = name_of_descriptor(&output);
        let log = LogWriter::file(&descriptor, 10).unwrap();
        log.write_line(b"0123456789\n").unwrap();
        log.write_line(b"next\n").unwrap();
        assert_eq!(text(&path), "0123456789\nnext\n");
        assert!(!old.exists());
    }

    #[test]
    fn the_standard_output_is_not_opened_by_name() {
        use std::os::unix::fs::MetadataExt;
        let (opened, _) = open(Path::new("/dev/stdout")).unwrap();
        let own = File::from(io::stdout().as_fd().try_clone_to_owned().unwrap());
        let identity = |file: &File| file.metadata().map(|it| (it.dev(), it.ino())).unwrap();
        assert_eq!(identity(&opened), identity(&own));
    }

    /// Returns a name of the open `file`, such as `/dev/stdout` has for the standard output.
    fn name_of_descriptor(file: &File) -> PathBuf {
        use std::os::fd::AsRawFd;
        format!("/dev/fd/{}", file.as_raw_fd()).into()
    }

    #[test]
    fn a_moved_file_is_created_again() {
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
