//! `/etc/printcap`: entries of fields separated by colons, of which the first has the names.

use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use server::policy::limits::QUEUES_MAX;
use server::printing::{PrintError, QueueInfo};

/// The maximum number of bytes that are read.
const LONGEST: u64 = 1 << 20;

/// Returns the queues of a file. This blocks.
pub(crate) fn read(path: &Path) -> Result<Vec<QueueInfo>, PrintError> {
    let mut text = Vec::new();
    let read = open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
    let why = |error| PrintError::Unavailable(format!("cannot read {} (`printcap name`): {error}", path.display()));
    read.map_err(why)?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

fn open(path: &Path) -> io::Result<std::fs::File> {
    // A FIFO would block without the flag, which has no effect on a regular file.
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let is_text = file.metadata()?.is_file() || path == Path::new("/dev/null");
    if is_text { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn parse(text: &str) -> Vec<QueueInfo> {
    let mut queues = Vec::new();
    // A line that ends with a backslash continues in the next one.
    let joined = text.replace("\\\n", "");
    for line in joined.lines().filter(|line| !line.starts_with(['#', ' ', '\t', ':', '|'])) {
        let mut names = line.split(':').next().unwrap_or_default().split('|').map(str::trim);
        let Some(name) = names.next().filter(|name| !name.is_empty() && !name.contains(char::is_whitespace)) else {
            continue;
        };
        // As in Samba, an alias with a space describes the queue.
        let description = names.find(|alias| alias.contains(' ')).unwrap_or_default().to_owned();
        queues.push(QueueInfo { name: name.to_owned(), description, location: String::new() });
        if queues.len() == QUEUES_MAX {
            break;
        }
    }
    queues
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_descriptions_are_found() {
        let text = "# a comment\nlp|laser|The laser printer:\\\n\t:sd=/var/spool/lp:\\\n\t:lp=/dev/lp0:\n\
                    ink:rm=host:\n:sh:\n\n";
        let queue = |name: &str, description: &str| QueueInfo {
            name: name.into(),
            description: description.into(),
            location: String::new(),
        };
        assert_eq!(parse(text), [queue("lp", "The laser printer"), queue("ink", "")]);
        assert!(read(Path::new("/nonexistent")).is_err());
        assert_eq!(read(Path::new("/dev/null")), Ok(Vec::new()));
    }

    #[test]
    fn a_fifo_does_not_block() {
        let directory = tempfile::tempdir().expect("a directory");
        let fifo = directory.path().join("printcap");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
        let error = read(&fifo).expect_err("it is not a file");
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}
