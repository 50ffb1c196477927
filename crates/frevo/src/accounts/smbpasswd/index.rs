//! What is in the file, in memory: its text, and where in it each account stands.
//!
//! A logon reads one line of the text. A change that this process makes changes the index along, so that nobody reads
//! the whole file for it again.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use server::policy::fold;
use zeroize::Zeroizing;

use super::super::record::check_name;
use super::line::{FIXED, Fields};

/// The largest file in bytes that is read: some ten million accounts.
pub(super) const LARGEST: u64 = 1 << 30;

/// What a line becomes when its account is deleted: a comment of the same length, whose room the next account takes.
const FREED: &[u8] = b"#frevo: free";

/// Complaints about lines that are kept and shown; of the others there is the number.
const COMPLAINTS: usize = 20;

/// The file as it was at one moment.
#[derive(Default)]
pub(super) struct Index {
    text: Zeroizing<Vec<u8>>,
    /// Folded name -> where the line begins.
    names: HashMap<Box<str>, u32>,
    /// The uid of a user's account -> where the line begins.
    uids: HashMap<u32, u32>,
    /// The lines of [`FREED`].
    free: Vec<Range<usize>>,
    /// The folded names in their order, made when they are first asked for.
    order: OnceLock<Vec<Box<str>>>,
    /// What is wrong with lines: up to [`COMPLAINTS`], and how many there are.
    complaints: (Vec<Complaint>, usize),
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// Its number, from 1 on.
    pub line: u32,
    /// In words.
    pub what: String,
}

/// What a name leads to.
pub(super) enum Found<'a> {
    /// A user's account.
    Account(Fields<'a>),
    /// An account of the kind that no user has.
    Machine(&'static str),
    /// A line that cannot be read: its number, and why.
    Damaged(usize, anyhow::Error),
}

impl Index {
    /// Reads `text`, a whole file.
    pub(super) fn new(text: Zeroizing<Vec<u8>>) -> Self {
        let lines = text.len() / (FIXED + 12);
        let mut index =
            Index { names: HashMap::with_capacity(lines), uids: HashMap::with_capacity(lines), ..Index::default() };
        let mut at = 0;
        for (line, number) in text.split_inclusive(|byte| *byte == b'\n').zip(1..) {
            let whole = line.strip_suffix(b"\n");
            if let Err(error) = index.note(at, whole.unwrap_or(line)) {
                let cut = if whole.is_none() { " (the file ends in the midst of the line)" } else { "" };
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

    /// What is wrong with lines, and with how many.
    pub(super) fn complaints(&self) -> (&[Complaint], usize) {
        (&self.complaints.0, self.complaints.1)
    }

    /// Takes note of the line that begins at `at`. The first line of a name or uid is the one that counts.
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
                // Who stands on such a line is not "no such user".
                if let Some(name) = name_of(line) {
                    self.names.entry(fold(name).into()).or_insert(place);
                }
                return Err(error);
            }
        };
        let there = *self.names.entry(fold(fields.name).into()).or_insert(place);
        ensure!(there == place, "{} is on an earlier line already, which is the one that counts", fields.name);
        if let (None, Some(uid)) = (fields.flags.machine(), fields.uid) {
            let there = *self.uids.entry(uid).or_insert(place);
            ensure!(
                there == place,
                "{} has the uid {uid} of an account on an earlier line: one SID for two",
                fields.name
            );
        }
        Ok(())
    }

    /// The line that begins at `at`, without its line feed.
    fn line(&self, at: u32) -> &[u8] {
        let rest = &self.text[at as usize..];
        &rest[..rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())]
    }

    /// What `name`, folded, leads to.
    pub(super) fn find(&self, name: &str) -> Option<Found<'_>> {
        self.names.get(name).map(|at| self.found(*at))
    }

    fn found(&self, at: u32) -> Found<'_> {
        let fields = match Fields::read(self.line(at)) {
            Ok(Some(fields)) => fields,
            Ok(None) => return Found::Damaged(self.number(at), anyhow::anyhow!("no account any more")),
            Err(error) => return Found::Damaged(self.number(at), error),
        };
        match fields.flags.machine() {
            Some(kind) => Found::Machine(kind),
            None => Found::Account(fields),
        }
    }

    fn number(&self, at: u32) -> usize {
        self.text[..at as usize].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// The account of the user `uid`.
    pub(super) fn by_uid(&self, uid: u32) -> Option<Fields<'_>> {
        match self.found(*self.uids.get(&uid)?) {
            Found::Account(fields) => Some(fields),
            _ => None,
        }
    }

    /// Up to `count` users' accounts whose folded names come after `after`, in the order of those names.
    pub(super) fn page(&self, after: Option<&str>, count: usize) -> Vec<Fields<'_>> {
        let order = self.order.get_or_init(|| {
            let mut order: Vec<_> = self.names.keys().cloned().collect();
            order.sort_unstable();
            order
        });
        let from = after.map_or(0, |after| order.partition_point(|name| **name <= *after));
        let account = |name: &str| match self.find(name) {
            Some(Found::Account(fields)) => Some(fields),
            _ => None,
        };
        order[from..].iter().filter_map(|name| account(name)).take(count).collect()
    }

    /// How many bytes the file has.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Those of `range` that the file has.
    pub(super) fn bytes(&self, range: Range<usize>) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.text[range.start.min(self.len())..range.end.min(self.len())].to_vec())
    }

    /// Whether the file ends in the midst of a line.
    pub(super) fn is_cut(&self) -> bool {
        self.text.last().is_some_and(|byte| *byte != b'\n')
    }

    /// Where the line of `name`, folded, begins, and the line.
    pub(super) fn place(&self, name: &str) -> Option<(usize, &[u8])> {
        let at = *self.names.get(name)?;
        Some((at as usize, self.line(at)))
    }

    /// A freed line that has room for one of `length` bytes: of that length, or long enough for a comment behind it.
    pub(super) fn room(&self, length: usize) -> Option<Range<usize>> {
        let fits = |free: &&Range<usize>| free.len() == length || free.len() > length + FREED.len();
        self.free.iter().filter(fits).find(|free| !crosses(free.start, length)).cloned()
    }

    /// Notes that `bytes` were written at `at`: into a line, over whole ones, or at the end of the file. `gone` is the
    /// folded name whose line is no more.
    pub(super) fn wrote(&mut self, at: usize, bytes: &[u8], gone: Option<&str>) -> Result<()> {
        let names = self.names.len();
        if let Some(gone) = gone {
            self.forget(gone);
        }
        let end = at + bytes.len();
        ensure!(at <= self.text.len(), "written behind the end of the file");
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

/// What is written within so many bytes from a multiple of them is written whole, also by a process that is killed
/// meanwhile: the kernel looks for signals between the pages of a write.
const PAGE: usize = 4096;

/// Whether `length` bytes at `at` lie on two pages.
pub(super) fn crosses(at: usize, length: usize) -> bool {
    at / PAGE != (at + length.saturating_sub(1)) / PAGE
}

/// Lines of nothing from `at` to the next page.
pub(super) fn padding(at: usize) -> Vec<u8> {
    let length = PAGE - at % PAGE;
    if length <= FREED.len() {
        return vec![b'\n'; length];
    }
    let mut line = freed(length - 1);
    line.push(b'\n');
    line
}

/// A comment of `length` bytes that says of its room that it is free.
pub(super) fn freed(length: usize) -> Vec<u8> {
    let mut line = FREED.to_vec();
    line.resize(length, b' ');
    line
}

/// The name on a line that says nothing else for certain.
fn name_of(line: &[u8]) -> Option<&str> {
    let name = line.split(|byte| *byte == b':').next().filter(|name| name.len() < line.len())?;
    std::str::from_utf8(name).ok().filter(|name| check_name(name).is_ok())
}
