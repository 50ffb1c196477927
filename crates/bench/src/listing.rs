//! Whole listings of directories, and whether they are right: every name once, none that does not belong there.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Open};
use proto::bytes::utf16_units;
use proto::fscc::{DirectoryClass, DirectoryEntry, FileInformationClass};

/// What Explorer asks for.
const CLASS: FileInformationClass = FileInformationClass::ID_BOTH_DIRECTORY;

/// Lists a directory with buffers of `length` bytes; `each` gets every entry but `.` and `..`. Answers how long
/// the first entries took, from the CREATE on.
pub async fn list(
    client: &mut Client,
    path: &str,
    length: u32,
    each: impl FnMut(&DirectoryEntry<'_>) -> Result<()>,
) -> Result<Duration> {
    list_until(client, path, length, u64::MAX, each).await
}

/// As [`list`]; asks for no more once there were `enough` entries.
pub async fn list_until(
    client: &mut Client,
    path: &str,
    length: u32,
    enough: u64,
    mut each: impl FnMut(&DirectoryEntry<'_>) -> Result<()>,
) -> Result<Duration> {
    let class = DirectoryClass::new(CLASS).context("a class that lists no directories")?;
    let begin = Instant::now();
    let directory = client.open(&Open::directory(path)).await.with_context(|| format!("cannot open {path}"))?;
    let (mut first, mut count) = (None, 0);
    while count < enough {
        let Some(buffer) = client.query_directory(directory, CLASS.0, "*", length).await? else { break };
        first.get_or_insert_with(|| begin.elapsed());
        for entry in DirectoryEntry::list(class, buffer) {
            let entry = entry.ok().with_context(|| format!("an entry of {path} that does not decode"))?;
            if entry.file_name != b".\0" && entry.file_name != b".\0.\0" {
                each(&entry)?;
                count += 1;
            }
        }
    }
    client.close(directory).await?;
    Ok(first.unwrap_or_else(|| begin.elapsed()))
}

/// An entry's name.
pub fn name(entry: &DirectoryEntry<'_>) -> Result<String> {
    let units = utf16_units(entry.file_name).context("a name of half a UTF-16 unit")?;
    String::from_utf16(&units).context("a name that is not UTF-16")
}

const EXTENSION: &str = ".dat";
/// How many digits a number has at least.
const DIGITS: usize = 7;

/// The name of the file with this number among those called `kind`.
pub fn numbered(kind: &str, number: u64) -> String {
    format!("{kind}{number:0DIGITS$}{EXTENSION}")
}

/// The number in what [`numbered`] made, from UTF-16LE; `None` for any other name. Asked for every entry of a million, so
/// it makes no text.
fn number_in(kind: &str, name: &[u8]) -> Option<u64> {
    let digits_end = name.len().checked_sub(2 * EXTENSION.len())?;
    let digits = name.get(2 * kind.len()..digits_end).filter(|_| same(&name[..2 * kind.len()], kind))?;
    if !same(&name[digits_end..], EXTENSION) || digits.len() < 2 * DIGITS || digits.len() % 2 != 0 {
        return None;
    }
    // One spelling alone: with more zeros in front it is another name.
    if digits.len() > 2 * DIGITS && digits[0] == b'0' {
        return None;
    }
    digits.chunks_exact(2).try_fold(0u64, |number, pair| {
        let digit = pair[0].wrapping_sub(b'0');
        if pair[1] != 0 || digit > 9 { None } else { number.checked_mul(10)?.checked_add(digit.into()) }
    })
}

/// Whether `wide`, UTF-16LE, is `text`, ASCII.
fn same(wide: &[u8], text: &str) -> bool {
    wide.len() == 2 * text.len() && wide.chunks_exact(2).zip(text.bytes()).all(|(pair, byte)| pair == [byte, 0])
}

/// Which files of a directory a listing has shown so far.
pub struct Roll {
    kind: &'static str,
    numbers: Range<u64>,
    seen: Vec<bool>,
    count: u64,
}

impl Roll {
    /// For a directory with the [`numbered`] files `numbers`.
    pub fn new(kind: &'static str, numbers: Range<u64>) -> Roll {
        let length = numbers.end.saturating_sub(numbers.start) as usize;
        Roll { kind, numbers, seen: vec![false; length], count: 0 }
    }

    /// Notes an entry; an error when its name does not belong here, came before, or its size is not `size` of its number.
    pub fn note(&mut self, entry: &DirectoryEntry<'_>, size: impl FnOnce(u64) -> u64) -> Result<()> {
        let number = number_in(self.kind, entry.file_name).filter(|number| self.numbers.contains(number));
        let Some(number) = number else { bail!("the listing has '{}', which is not there", name(entry)?) };
        let seen = &mut self.seen[(number - self.numbers.start) as usize];
        ensure!(!*seen, "the listing has '{}' twice", name(entry)?);
        let (found, expected) = (entry.end_of_file, size(number));
        ensure!(found == expected, "the listing says that '{}' has {found} bytes: it has {expected}", name(entry)?);
        *seen = true;
        self.count += 1;
        Ok(())
    }

    /// How many there were so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many there were; an error when some were not.
    pub fn complete(&self) -> Result<u64> {
        let Some(missing) = self.seen.iter().position(|seen| !seen) else { return Ok(self.count) };
        let first = numbered(self.kind, self.numbers.start + missing as u64);
        bail!("the listing has {} of {} names: '{first}' is missing", self.count, self.seen.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::bytes::utf16_bytes;

    #[test]
    fn names_and_numbers_belong_together() {
        let check = |name: &str, number| assert_eq!(number_in("File-", &utf16_bytes(name)), number, "{name}");
        check(&numbered("File-", 42), Some(42));
        check(&numbered("File-", 12_345_678), Some(12_345_678));
        for other in [
            "File-0000042",
            "file-0000042.dat",
            "File-42.dat",
            "File-+000042.dat",
            "File-.dat",
            "File-00000042.dat",
            "Ж",
            "",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn every_name_once() {
        let note = |roll: &mut Roll, text: &str, end_of_file| {
            let file_name = &utf16_bytes(text);
            let said = roll.note(&DirectoryEntry { end_of_file, file_name, ..Default::default() }, |number| number * 2);
            said.map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        let mut roll = Roll::new("f", 5..7);
        assert_eq!(note(&mut roll, "f0000006.dat", 12), "");
        assert_eq!(roll.complete().unwrap_err().to_string(), "the listing has 1 of 2 names: 'f0000005.dat' is missing");
        assert_eq!(note(&mut roll, "f0000006.dat", 12), "the listing has 'f0000006.dat' twice");
        assert_eq!(note(&mut roll, "f0000007.dat", 14), "the listing has 'f0000007.dat', which is not there");
        assert!(note(&mut roll, "f0000005.dat", 0).contains("has 0 bytes: it has 10"));
        assert_eq!(note(&mut roll, "f0000005.dat", 10), "");
        assert_eq!(roll.complete().unwrap(), 2);
    }
}
