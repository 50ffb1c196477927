//! A NetBench load: the file that dbench calls `client.txt`, parsed and checked.
//!
//! The file has one operation per line, named after the SMB 1 requests of the recorded run:
//!
//! ```text
//! [SECONDS] NAME ARGUMENTS STATUS
//! ```
//!
//! | line | arguments |
//! |---|---|
//! | `NTCreateX` | `"PATH" OPTIONS DISPOSITION HANDLE`: create options and disposition of [MS-SMB2] 2.2.13 |
//! | `Close`, `Flush` | `HANDLE` |
//! | `ReadX`, `WriteX` | `HANDLE OFFSET BYTES ANSWERED`: `ANSWERED` is the number of bytes read or written |
//! | `LockX`, `UnlockX` | `HANDLE OFFSET BYTES` |
//! | `Rename` | `"FROM" "TO"` |
//! | `Unlink` | `"PATH" ATTRIBUTES`: the kinds of file that an SMB 1 wildcard could match |
//! | `Mkdir`, `Rmdir`, `Deltree` | `"PATH"` |
//! | `QUERY_PATH_INFORMATION` | `"PATH" LEVEL` |
//! | `QUERY_FILE_INFORMATION`, `SET_FILE_INFORMATION` | `HANDLE LEVEL` |
//! | `QUERY_FS_INFORMATION` | `LEVEL` |
//! | `FIND_FIRST` | `"PATTERN" LEVEL MOST ENTRIES`: the maximum and the returned number of entries |
//! | `Sleep` | `MICROSECONDS` |
//!
//! Numbers are decimal, or hexadecimal after `0x`. `STATUS` is a name (`NT_STATUS_OK`) or a number. A handle is a
//! number that `NTCreateX` assigns to a file and `Close` releases. The path component `client1` represents the client's
//! own directory. The time before the name is when the request was recorded. It is ignored, because a replay runs as
//! fast as possible. Blank lines and lines that begin with `#` are ignored.
//!
//! The file of Debian's package `dbench` is under the GPL and not part of this project. It is read where that package
//! installs it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::status::Status;

use super::kind::Kind;
pub use super::operation::{Handle, Line, Operation, TextId};

/// The path where Debian's package `dbench` installs the recorded run.
pub const DEBIAN: &str = "/usr/share/dbench/client.txt";

/// A load file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Load {
    /// Its file name, for messages.
    pub name: String,
    /// Its lines, in order.
    pub lines: Vec<Line>,
    /// The paths and patterns, each once.
    pub texts: Vec<String>,
}

/// The totals of one kind of operation in a load.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Number of lines.
    pub operations: u64,
    /// The part of them that expects an error.
    pub refused: u64,
    /// Bytes that were read or written.
    pub bytes: u64,
}

impl Load {
    /// Reads a load file. If it is missing, the error names the package that contains it.
    pub fn read(path: &Path) -> Result<Load> {
        let text = fs::read_to_string(path).with_context(|| match path.exists() {
            false => format!(
                "there is no load file {}: install dbench (Debian: apt install dbench) or give a file with --load FILE",
                path.display()
            ),
            true => format!("cannot read the load file {}", path.display()),
        })?;
        Load::parse(&path.display().to_string(), &text)
    }

    /// Parses the text of a load file. `name` is for messages.
    pub fn parse(name: &str, text: &str) -> Result<Load> {
        let mut load = Load { name: name.to_owned(), ..Load::default() };
        let mut known = Known::default();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let (operation, status) =
                read_line(line, &mut known).with_context(|| format!("{name}:{number}: `{}`", line.trim()))?;
            load.lines.push(Line { number, operation, status });
        }
        if load.lines.is_empty() {
            bail!("{name} contains no operation: give a load file of dbench");
        }
        load.texts = known.texts;
        Ok(load)
    }

    /// Returns a load of the first `lines` lines.
    pub fn head(mut self, lines: usize) -> Load {
        self.lines.truncate(lines);
        self
    }

    /// Returns a path or pattern.
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id.0 as usize).map_or("", String::as_str)
    }

    /// Returns the number of lines of each kind, and the bytes that they move.
    pub fn census(&self) -> BTreeMap<Kind, Count> {
        let mut census = BTreeMap::<Kind, Count>::new();
        for line in &self.lines {
            let count = census.entry(line.operation.kind()).or_default();
            count.operations += 1;
            count.refused += u64::from(line.status.is_error());
            count.bytes += line.operation.bytes();
        }
        census
    }
}

/// The texts and statuses that the parser has already seen.
#[derive(Default)]
struct Known {
    texts: Vec<String>,
    ids: HashMap<String, TextId>,
    statuses: HashMap<String, Status>,
}

impl Known {
    fn text(&mut self, text: &str) -> TextId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = TextId(self.texts.len() as u32);
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    fn status(&mut self, word: &str) -> Option<Status> {
        if let Some(status) = self.statuses.get(word) {
            return Some(*status);
        }
        let status = match word.strip_prefix("NT_STATUS_") {
            Some("OK") => Some(Status::SUCCESS),
            Some(name) => Status::from_name(&format!("STATUS_{name}")).or_else(|| Status::from_name(name)),
            None => number(word).and_then(|value| u32::try_from(value).ok()).map(Status),
        }?;
        self.statuses.insert(word.to_owned(), status);
        Some(status)
    }
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Splits a line into words. A quoted text is one word. `None` if a quote is not closed.
fn words(line: &str) -> Option<Vec<&str>> {
    let mut words = Vec::with_capacity(8);
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word);
        rest = after.trim_start();
    }
    Some(words)
}

fn read_line(line: &str, known: &mut Known) -> Result<(Operation, Status)> {
    let words = words(line).context("a quote is not closed: add a second \" after the path")?;
    let timed = words.first().is_some_and(|word| word.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0));
    let words = words.get(usize::from(timed)..).unwrap_or_default();
    let (name, rest) = words.split_first().context("expected an operation after the time")?;
    let Some(kind) = Kind::from_name(name) else {
        bail!("{name:?} is not an operation: expected one of {}", Kind::ALL.map(Kind::name).join(", "));
    };
    let usage = || format!("expected {}", kind.usage());
    let (status, arguments) = rest.split_last().with_context(usage)?;
    if arguments.len() != kind.arguments() {
        bail!("the line has {} words instead of {}: {}", words.len(), kind.arguments() + 2, usage());
    }
    let status = known.status(status).with_context(|| {
        format!(
            "{status:?} is not a status: expected NT_STATUS_ and a name of [MS-ERREF], or a number, as in {}",
            usage()
        )
    })?;
    let mut arguments = Arguments { words: arguments.iter(), known };
    let operation = read_operation(kind, &mut arguments).with_context(usage)?;
    Ok((operation, status))
}

/// The words after the name, taken one by one.
struct Arguments<'a> {
    words: std::slice::Iter<'a, &'a str>,
    known: &'a mut Known,
}

impl Arguments<'_> {
    fn number<T: TryFrom<u64>>(&mut self) -> Result<T> {
        let word = self.words.next().context("a number is missing")?;
        let value = number(word).with_context(|| format!("{word:?} is not a number"))?;
        T::try_from(value).ok().with_context(|| format!("{word} is too large"))
    }

    fn handle(&mut self) -> Result<Handle> {
        self.number().map(Handle)
    }

    fn text(&mut self) -> Result<TextId> {
        let word = self.words.next().context("a path is missing")?;
        if !word.starts_with('\\') {
            bail!("{word:?} is not a path: it must begin with \\");
        }
        Ok(self.known.text(word))
    }
}

fn read_operation(kind: Kind, from: &mut Arguments<'_>) -> Result<Operation> {
    // The fields are read in the order in which they are written here.
    Ok(match kind {
        Kind::NtCreateX => Operation::NtCreateX {
            path: from.text()?,
            options: CreateOptions(from.number()?),
            disposition: CreateDisposition(from.number()?),
            handle: from.handle()?,
        },
        Kind::Close => Operation::Close { handle: from.handle()? },
        Kind::ReadX => Operation::ReadX {
            handle: from.handle()?,
            offset: from.number()?,
            length: from.number()?,
            answered: from.number()?,
        },
        Kind::WriteX => Operation::WriteX {
            handle: from.handle()?,
            offset: from.number()?,
            length: from.number()?,
            answered: from.number()?,
        },
        Kind::LockX => Operation::LockX { handle: from.handle()?, offset: from.number()?, length: from.number()? },
        Kind::UnlockX => Operation::UnlockX { handle: from.handle()?, offset: from.number()?, length: from.number()? },
        Kind::Flush => Operation::Flush { handle: from.handle()? },
        Kind::Rename => Operation::Rename { from: from.text()?, to: from.text()? },
        Kind::Unlink => Operation::Unlink { path: from.text()?, attributes: from.number()? },
        Kind::Mkdir => Operation::Mkdir { path: from.text()? },
        Kind::Rmdir => Operation::Rmdir { path: from.text()? },
        Kind::Deltree => Operation::Deltree { path: from.text()? },
        Kind::QueryPath => Operation::QueryPath { path: from.text()?, level: from.number()? },
        Kind::QueryFile => Operation::QueryFile { handle: from.handle()?, level: from.number()? },
        Kind::QueryFs => Operation::QueryFs { level: from.number()? },
        Kind::SetFile => Operation::SetFile { handle: from.handle()?, level: from.number()? },
        Kind::FindFirst => Operation::FindFirst {
            pattern: from.text()?,
            level: from.number()?,
            most: from.number()?,
            entries: from.number()?,
        },
        Kind::Sleep => Operation::Sleep { microseconds: from.number()? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a load of one line.
    fn one(line: &str) -> (Operation, Status, Vec<String>) {
        let load = Load::parse("t", line).unwrap();
        assert_eq!(load.lines.len(), 1);
        (load.lines[0].operation, load.lines[0].status, load.texts)
    }

    #[test]
    fn every_operation_is_read() {
        let (path, handle) = (TextId(0), Handle(7));
        for (line, operation) in [
            (
                r#"NTCreateX "\a b" 0x40 0x1 7 NT_STATUS_OK"#,
                Operation::NtCreateX {
                    path,
                    options: CreateOptions::NON_DIRECTORY_FILE,
                    disposition: CreateDisposition::OPEN,
                    handle,
                },
            ),
            ("Close 7 NT_STATUS_OK", Operation::Close { handle }),
            ("ReadX 7 4096 512 12 0x0", Operation::ReadX { handle, offset: 4096, length: 512, answered: 12 }),
            ("WriteX 7 1 2 2 NT_STATUS_OK", Operation::WriteX { handle, offset: 1, length: 2, answered: 2 }),
            ("LockX 7 2147483538 1 0", Operation::LockX { handle, offset: 2_147_483_538, length: 1 }),
            ("UnlockX 7 1 1 NT_STATUS_OK", Operation::UnlockX { handle, offset: 1, length: 1 }),
            ("Flush 7 NT_STATUS_OK", Operation::Flush { handle }),
            (r#"Rename "\a b" "\c" NT_STATUS_OK"#, Operation::Rename { from: path, to: TextId(1) }),
            (r#"Unlink "\a b" 0x6 NT_STATUS_OK"#, Operation::Unlink { path, attributes: 6 }),
            (r#"Mkdir "\a b" NT_STATUS_OK"#, Operation::Mkdir { path }),
            (r#"Rmdir "\a b" NT_STATUS_OK"#, Operation::Rmdir { path }),
            (r#"Deltree "\a b" NT_STATUS_OK"#, Operation::Deltree { path }),
            (r#"QUERY_PATH_INFORMATION "\a b" 1004 NT_STATUS_OK"#, Operation::QueryPath { path, level: 1004 }),
            ("QUERY_FILE_INFORMATION 7 258 NT_STATUS_OK", Operation::QueryFile { handle, level: 258 }),
            ("QUERY_FS_INFORMATION 1 NT_STATUS_OK", Operation::QueryFs { level: 1 }),
            ("SET_FILE_INFORMATION 7 0x101 NT_STATUS_OK", Operation::SetFile { handle, level: 0x101 }),
            (
                r#"FIND_FIRST "\a b" 260 1366 11 NT_STATUS_OK"#,
                Operation::FindFirst { pattern: path, level: 260, most: 1366, entries: 11 },
            ),
            ("Sleep 1000 NT_STATUS_OK", Operation::Sleep { microseconds: 1000 }),
        ] {
            for line in [line.to_owned(), format!("  12.345 {line} "), format!("\n# said of it\n{line}\r\n")] {
                let (read, status, texts) = one(&line);
                assert_eq!((read, status), (operation, Status::SUCCESS), "{line}");
                assert!(texts.first().is_none_or(|text| text == r"\a b"), "{line}");
            }
        }
    }

    #[test]
    fn a_status_is_a_name_or_a_number() {
        for (word, status) in [
            ("NT_STATUS_OK", Status::SUCCESS),
            ("0", Status::SUCCESS),
            ("0xc0000034", Status::OBJECT_NAME_NOT_FOUND),
            ("NT_STATUS_OBJECT_NAME_NOT_FOUND", Status::OBJECT_NAME_NOT_FOUND),
            ("NT_STATUS_NO_SUCH_FILE", Status::NO_SUCH_FILE),
        ] {
            assert_eq!(one(&format!("Close 7 {word}")).1, status, "{word}");
        }
    }

    #[test]
    fn an_invalid_line_is_reported_with_the_expected_form() {
        for (line, parts) in [
            ("Closed 7 NT_STATUS_OK", &["t:2: `Closed 7 NT_STATUS_OK`", "not an operation", "NTCreateX, Close"][..]),
            ("Close 7", &["2 words instead of 3", "expected Close HANDLE STATUS"]),
            ("Close", &["expected Close HANDLE STATUS"]),
            ("1.5", &["expected an operation after the time"]),
            ("Close x NT_STATUS_OK", &["\"x\" is not a number", "Close HANDLE STATUS"]),
            ("Close 4294967296 NT_STATUS_OK", &["4294967296 is too large"]),
            ("Close 7 NT_STATUS_FINE", &["\"NT_STATUS_FINE\" is not a status", "[MS-ERREF]"]),
            (r#"Mkdir "\a NT_STATUS_OK"#, &["a quote is not closed"]),
            ("Mkdir a NT_STATUS_OK", &["\"a\" is not a path", "expected Mkdir \"PATH\" STATUS"]),
            ("ReadX 7 0 1 NT_STATUS_OK", &["5 words instead of 6", "ReadX HANDLE OFFSET BYTES ANSWERED STATUS"]),
        ] {
            let error = format!("{:#}", Load::parse("t", &format!("Flush 1 0\n{line}\n")).unwrap_err());
            for part in parts {
                assert!(error.contains(part), "{line}: {error}");
            }
        }
    }

    #[test]
    fn an_empty_load_and_a_missing_file_are_errors_with_a_remedy() {
        assert!(Load::parse("t", "# nothing\n").unwrap_err().to_string().contains("contains no operation"));
        let error = Load::read(Path::new("/nonexistent/client.txt")).unwrap_err().to_string();
        assert!(error.contains("apt install dbench") && error.contains("--load FILE"), "{error}");
    }

    #[test]
    fn a_census_has_lines_refusals_and_bytes_and_a_head_is_a_load() {
        let text = r#"NTCreateX "\a" 0x40 0x1 1 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\a" 0x40 0x2 2 NT_STATUS_OK
WriteX 2 0 100 100 NT_STATUS_OK
ReadX 2 50 100 50 NT_STATUS_OK
ReadX 2 0 100 100 NT_STATUS_OK
Close 2 NT_STATUS_OK"#;
        let load = Load::parse("t", text).unwrap();
        let count = |operations, refused, bytes| Count { operations, refused, bytes };
        assert_eq!(
            load.census(),
            BTreeMap::from([
                (Kind::NtCreateX, count(2, 1, 0)),
                (Kind::WriteX, count(1, 0, 100)),
                (Kind::ReadX, count(2, 0, 150)),
                (Kind::Close, count(1, 0, 0)),
            ])
        );
        assert_eq!(load.texts, [r"\a"]);
        assert_eq!(load.head(3).census().get(&Kind::ReadX), None);
    }
}
