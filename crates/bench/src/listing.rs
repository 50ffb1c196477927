//! Complete listings of directories, and checks that they contain every name once and no other name.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Open};
use proto::bytes::{utf16_bytes, utf16_units};
use proto::fscc::{DirectoryClass, DirectoryEntry, FileInformationClass};

/// The class that Explorer requests.
const CLASS: FileInformationClass = FileInformationClass::ID_BOTH_DIRECTORY;

/// Lists a directory with buffers of `length` bytes. `each` gets every entry except `.` and `..`. Returns the time from
/// the CREATE to the first entries.
pub async fn list(
    client: &mut Client,
    path: &str,
    length: u32,
    each: impl FnMut(&DirectoryEntry<'_>) -> Result<()>,
) -> Result<Duration> {
    list_until(client, path, length, u64::MAX, each).await
}

/// Like [`list`], but sends no further request after `enough` entries.
pub async fn list_until(
    client: &mut Client,
    path: &str,
    length: u32,
    enough: u64,
    mut each: impl FnMut(&DirectoryEntry<'_>) -> Result<()>,
) -> Result<Duration> {
    let class = DirectoryClass::new(CLASS).context("the class is not a directory class")?;
    let begin = Instant::now();
    let directory = client.open(&Open::directory(path)).await.with_context(|| format!("cannot open {path}"))?;
    let (mut first, mut count) = (None, 0);
    while count < enough {
        let Some(buffer) = client.query_directory(directory, CLASS.0, "*", length).await? else { break };
        first.get_or_insert_with(|| begin.elapsed());
        for entry in DirectoryEntry::list(class, buffer) {
            let entry =
                entry.ok().with_context(|| format!("the listing of {path} has an entry that cannot be decoded"))?;
            if entry.file_name != b".\0" && entry.file_name != b".\0.\0" {
                each(&entry)?;
                count += 1;
            }
        }
    }
    client.close(directory).await?;
    Ok(first.unwrap_or_else(|| begin.elapsed()))
}

/// Returns the name of an entry.
pub fn name(entry: &DirectoryEntry<'_>) -> Result<String> {
    let units = utf16_units(entry.file_name)
        .context("the listing has a name with an odd number of bytes, which is not UTF-16")?;
    String::from_utf16(&units).context("the listing has a name that is not valid UTF-16")
}

const EXTENSION: &str = ".dat";
/// Minimum number of digits in a name.
const DIGITS: usize = 7;

/// Returns the name of the file with this number and the prefix `kind`.
pub fn numbered(kind: &str, number: u64) -> String {
    format!("{kind}{number:0DIGITS$}{EXTENSION}")
}

/// Returns the number in a UTF-16LE name made by [`numbered`], or `None` for any other name. It runs for each of a
/// million entries, so it does not allocate a string.
fn number_in(kind: &str, name: &[u8]) -> Option<u64> {
    let digits_end = name.len().checked_sub(2 * EXTENSION.len())?;
    let digits = name.get(2 * kind.len()..digits_end).filter(|_| same(&name[..2 * kind.len()], kind))?;
    if !same(&name[digits_end..], EXTENSION) || digits.len() < 2 * DIGITS || digits.len() % 2 != 0 {
        return None;
    }
    // Each number has one spelling: with more leading zeros it is another name.
    if digits.len() > 2 * DIGITS && digits[0] == b'0' {
        return None;
    }
    digits.chunks_exact(2).try_fold(0u64, |number, pair| {
        let digit = pair[0].wrapping_sub(b'0');
        if pair[1] != 0 || digit > 9 { None } else { number.checked_mul(10)?.checked_add(digit.into()) }
    })
}

/// Returns whether `wide`, in UTF-16LE, equals `text`, in ASCII.
fn same(wide: &[u8], text: &str) -> bool {
    wide.len() == 2 * text.len() && wide.chunks_exact(2).zip(text.bytes()).all(|(pair, byte)| pair == [byte, 0])
}

/// Tracks which files of a directory a listing has returned so far.
pub struct Roll {
    kind: &'static str,
    numbers: Range<u64>,
    seen: Vec<bool>,
    count: u64,
}

impl Roll {
    /// Creates the tracker for a directory with the [`numbered`] files `numbers`.
    pub fn new(kind: &'static str, numbers: Range<u64>) -> Roll {
        let length = numbers.end.saturating_sub(numbers.start) as usize;
        Roll { kind, numbers, seen: vec![false; length], count: 0 }
    }

    /// Records an entry. Fails if its name does not belong here or was seen before, or if its size is not
    /// `size(number)`.
    pub fn note(&mut self, entry: &DirectoryEntry<'_>, size: impl FnOnce(u64) -> u64) -> Result<()> {
        self.enter(number_in(self.kind, entry.file_name), || name(entry), entry.end_of_file, size)
    }

    /// Like [`Roll::note`], for an entry with this name that has `found` bytes.
    pub fn note_name(&mut self, name: &str, found: u64, size: impl FnOnce(u64) -> u64) -> Result<()> {
        self.enter(number_in(self.kind, &utf16_bytes(name)), || Ok(name.to_owned()), found, size)
    }

    fn enter(
        &mut self,
        number: Option<u64>,
        name: impl Fn() -> Result<String>,
        found: u64,
        size: impl FnOnce(u64) -> u64,
    ) -> Result<()> {
        let number = number.filter(|number| self.numbers.contains(number));
        let Some(number) = number else { bail!("the listing has '{}', which does not exist", name()?) };
        let seen = &mut self.seen[(number - self.numbers.start) as usize];
        ensure!(!*seen, "the listing has '{}' twice", name()?);
        let expected = size(number);
        ensure!(found == expected, "the listing shows {found} bytes for '{}', expected {expected}", name()?);
        *seen = true;
        self.count += 1;
        Ok(())
    }

    /// Returns the number of entries so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of entries, or an error if files are missing.
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
    fn names_are_converted_to_numbers_and_back() {
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
    fn every_name_is_listed_once() {
        let note = |roll: &mut Roll, text: &str, end_of_file| {
            let file_name = &utf16_bytes(text);
            let said = roll.note(&DirectoryEntry { end_of_file, file_name, ..Default::default() }, |number| number * 2);
            said.map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        let mut roll = Roll::new("f", 5..7);
        assert_eq!(note(&mut roll, "f0000006.dat", 12), "");
        assert_eq!(roll.complete().unwrap_err().to_string(), "the listing has 1 of 2 names: 'f0000005.dat' is missing");
        assert_eq!(note(&mut roll, "f0000006.dat", 12), "the listing has 'f0000006.dat' twice");
        assert_eq!(note(&mut roll, "f0000007.dat", 14), "the listing has 'f0000007.dat', which does not exist");
        assert!(note(&mut roll, "f0000005.dat", 0).contains("shows 0 bytes for 'f0000005.dat', expected 10"));
        assert_eq!(note(&mut roll, "f0000005.dat", 10), "");
        assert_eq!(roll.complete().unwrap(), 2);
    }
}
