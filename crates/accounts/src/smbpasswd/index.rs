//! The content of the file in memory: its text, and the position of each account.
//!
//! A logon reads one line of the text. Changes by this process update the index, so the file is not read again for
//! them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use server::policy::fold;
use zeroize::Zeroizing;

use super::super::record::check_name;
use super::line::{FIXED, Fields};

/// The largest supported file in bytes: about ten million accounts.
pub(super) const LARGEST: u64 = 1 << 30;

/// The start of a deleted account's line: a comment of the same length, whose space a new account reuses.
const FREED: &[u8] = b"#frevo: free";

/// The number of problems that are stored and shown; the others are only counted.
const COMPLAINTS: usize = 20;

/// The file at one moment.
#[derive(Default)]
pub(super) struct Index {
    text: Zeroizing<Vec<u8>>,
    /// Folded name -> start of the line.
    names: HashMap<Box<str>, u32>,
    /// The uid of a user's account -> start of the line.
    uids: HashMap<u32, u32>,
    /// The positions of [`FREED`] lines.
    free: Vec<Range<usize>>,
    /// The sorted folded names, computed on first use.
    order: OnceLock<Vec<Box<str>>>,
    /// The problems of lines, up to [`COMPLAINTS`], and their number.
    complaints: (Vec<Complaint>, usize),
}

/// A problem of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// The line number, from 1.
    pub line: u32,
    /// The description.
    pub what: String,
}

/// The result of a look-up by name.
pub(super) enum NameLookup<'a> {
    /// A user's account.
    Account(Fields<'a>),
    /// An account that does not belong to a user; the string describes its kind.
    Machine(&'static str),
    /// An invalid line: its number, and the reason.
    Damaged(usize, anyhow::Error),
}

impl Index {
    /// Parses `text`, a whole file.
    pub(super) fn new(text: Zeroizing<Vec<u8>>) -> Self {
        let lines = text.len() / (FIXED + 12);
        let mut index =
            Index { names: HashMap::with_capacity(lines), uids: HashMap::with_capacity(lines), ..Index::default() };
        let mut at = 0;
        for (line, number) in text.split_inclusive(|byte| *byte == b'\n').zip(1..) {
            let whole = line.strip_suffix(b"\n");
            if let Err(error) = index.note(at, whole.unwrap_or(line)) {
                let cut = if whole.is_none() { " (the file ends before the end of the line)" } else { "" };
                index.complain(Complaint { line: number, what: format!("{error:#}{cut}") });
            }
            at += line.len();
        }
        index.text = text;
        index
    }

    fn complain(&mut self, what: Complaint) {
        self.complaints.1 += 1;
        if self.complaints.0.len() < COMPLAINTS {
            self.complaints.0.push(what);
        }
    }

    /// Returns the problems of lines, and their number.
    pub(super) fn complaints(&self) -> (&[Complaint], usize) {
        (&self.complaints.0, self.complaints.1)
    }

    /// Indexes the line that begins at `at`. The first line of a name or uid applies.
    fn note(&mut self, at: usize, line: &[u8]) -> Result<()> {
        if line.strip_prefix(FREED).is_some_and(|rest| rest.iter().all(|byte| *byte == b' ')) {
            self.free.push(at..at + line.len());
            return Ok(());
        }
        let place = u32::try_from(at)?;
        let fields = match Fields::read(line) {
            Ok(Some(fields)) => fields,
            Ok(None) => return Ok(()),
            Err(error) => {
                // A user with an invalid line must not be reported as missing.
                if let Some(name) = name_of(line) {
                    self.names.entry(fold(name).into()).or_insert(place);
                }
                return Err(error);
            }
        };
        let there = *self.names.entry(fold(fields.name).into()).or_insert(place);
        ensure!(there == place, "{} has an earlier line, which applies; remove this line", fields.name);
        if let (None, Some(uid)) = (fields.flags.machine(), fields.uid) {
            let there = *self.uids.entry(uid).or_insert(place);
            ensure!(
                there == place,
                "{} has the same uid {uid} as an account on an earlier line, and so the same SID; correct one",
                fields.name
            );
        }
        Ok(())
    }

    /// Returns the line that begins at `at`, without its line feed.
    fn line(&self, at: u32) -> &[u8] {
        let rest = &self.text[at as usize..];
        &rest[..rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())]
    }

    /// Returns the entry of the folded name `name`.
    pub(super) fn find(&self, name: &str) -> Option<NameLookup<'_>> {
        self.names.get(name).map(|at| self.found(*at))
    }

    fn found(&self, at: u32) -> NameLookup<'_> {
        let fields = match Fields::read(self.line(at)) {
            Ok(Some(fields)) => fields,
            Ok(None) => return NameLookup::Damaged(self.number(at), anyhow::anyhow!("it is not an account any more")),
            Err(error) => return NameLookup::Damaged(self.number(at), error),
        };
        match fields.flags.machine() {
            Some(kind) => NameLookup::Machine(kind),
            None => NameLookup::Account(fields),
        }
    }

    fn number(&self, at: u32) -> usize {
        self.text[..at as usize].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Returns the account of the user `uid`.
    pub(super) fn by_uid(&self, uid: u32) -> Option<Fields<'_>> {
        match self.found(*self.uids.get(&uid)?) {
            NameLookup::Account(fields) => Some(fields),
            _ => None,
        }
    }

    /// Returns up to `count` user accounts whose folded names are greater than `after`, in the order of those names.
    pub(super) fn page(&self, after: Option<&str>, count: usize) -> Vec<Fields<'_>> {
        let order = self.order.get_or_init(|| {
            let mut order: Vec<_> = self.names.keys().cloned().collect();
            order.sort_unstable();
            order
        });
        let from = after.map_or(0, |after| order.partition_point(|name| **name <= *after));
        let account = |name: &str| match self.find(name) {
            Some(NameLookup::Account(fields)) => Some(fields),
            _ => None,
        };
        order[from..].iter().filter_map(|name| account(name)).take(count).collect()
    }

    /// Returns the size of the file in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the bytes of `range` that the file has.
    pub(super) fn bytes(&self, range: Range<usize>) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.text[range.start.min(self.len())..range.end.min(self.len())].to_vec())
    }

    /// Returns whether the file ends without a line feed.
    pub(super) fn is_cut(&self) -> bool {
        self.text.last().is_some_and(|byte| *byte != b'\n')
    }

    /// Returns the start of the line of the folded name `name`, and the line.
    pub(super) fn place(&self, name: &str) -> Option<(usize, &[u8])> {
        let at = *self.names.get(name)?;
        Some((at as usize, self.line(at)))
    }

    /// Returns a deleted line with space for one of `length` bytes: exactly that, or enough for a comment after it.
    pub(super) fn space(&self, length: usize) -> Option<Range<usize>> {
        let fits = |free: &&Range<usize>| free.len() == length || free.len() > length + FREED.len();
        self.free.iter().filter(fits).find(|free| !crosses(free.start, length)).cloned()
    }

    /// Records that `bytes` were written at `at`: into a line, over whole lines, or at the end of the file. `gone` is
    /// the folded name whose line was removed.
    pub(super) fn wrote(&mut self, at: usize, bytes: &[u8], gone: Option<&str>) -> Result<()> {
        let names = self.names.len();
        if let Some(gone) = gone {
            self.forget(gone);
        }
        let end = at + bytes.len();
        ensure!(at <= self.text.len(), "written beyond the end of the file");
        if self.text.len() < end {
            self.text.resize(end, 0);
        }
        self.text[at..end].copy_from_slice(bytes);
        self.free.retain(|free| free.end <= at || end <= free.start);
        let before = |at: usize| self.text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |feed| feed + 1);
        let (mut from, to) = (before(at), end);
        while from < to {
            let line = self.line(u32::try_from(from)?).to_vec();
            self.note(from, &line)?;
            from += line.len() + 1;
        }
        if gone.is_some() || self.names.len() != names {
            self.order = OnceLock::new();
        }
        Ok(())
    }

    fn forget(&mut self, name: &str) {
        let Some(at) = self.names.remove(name) else { return };
        if let Ok(Some(Fields { uid: Some(uid), .. })) = Fields::read(self.line(at))
            && self.uids.get(&uid) == Some(&at)
        {
            self.uids.remove(&uid);
        }
    }
}

/// Page size. The kernel checks for signals between the pages of a write, so a write inside one page is complete even
/// if the process is killed.
const PAGE: usize = 4096;

/// Returns whether `length` bytes at `at` cross a page boundary.
pub(super) fn crosses(at: usize, length: usize) -> bool {
    at / PAGE != (at + length.saturating_sub(1)) / PAGE
}

/// Returns empty or comment lines that fill the file from `at` to the next page.
pub(super) fn padding(at: usize) -> Vec<u8> {
    let length = PAGE - at % PAGE;
    if length <= FREED.len() {
        return vec![b'\n'; length];
    }
    let mut line = freed(length - 1);
    line.push(b'\n');
    line
}

/// Returns a comment of `length` bytes that marks its space as free.
pub(super) fn freed(length: usize) -> Vec<u8> {
    let mut line = FREED.to_vec();
    line.resize(length, b' ');
    line
}

/// Returns the name on a line whose other fields are invalid.
fn name_of(line: &[u8]) -> Option<&str> {
    let name = line.split(|byte| *byte == b':').next().filter(|name| name.len() < line.len())?;
    std::str::from_utf8(name).ok().filter(|name| check_name(name).is_ok())
}
