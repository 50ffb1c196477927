//! Changes of the file, under its lock: each is one write of a line in its location, or at the end.
//!
//! A changed line is overwritten in place. A deleted line becomes a comment whose space a later account reuses. Two
//! kinds of lines are rewritten in a new location and then deleted: old lines of a different width, and lines that
//! cross a page boundary, which a killed process could leave half written. The file is never replaced by a new one. A
//! program of Samba that waits for the lock to change a password continues with the file that it has open, so its
//! change would be lost.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use parking_lot::RwLock;
use server::policy::fold;
use zeroize::Zeroizing;

use super::super::record::Record;
use super::index::{Index, crosses, freed, padding};
use super::line::{self, FIXED, Fields};
use super::live::Known;

/// A change in progress.
pub(super) struct Change<'a> {
    file: &'a File,
    known: &'a RwLock<Known>,
    done: bool,
}

impl<'a> Change<'a> {
    /// Starts changes of `file`, whose content is `known`.
    pub(super) fn new(file: &'a File, known: &'a RwLock<Known>) -> Self {
        Change { file, known, done: false }
    }

    /// Returns whether anything was written.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Reads the index of the file.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&self.known.read().index)
    }

    /// Adds an account of the user `uid`; the account must not exist yet.
    pub(super) fn add(&mut self, record: &Record, uid: u32) -> Result<()> {
        let line = line::new(record, uid)?;
        self.place(&line, None)
    }

    /// Writes `line` into the space of a deleted line, or at the end. `gone` is the folded name of the line that it
    /// replaces.
    fn place(&mut self, line: &[u8], gone: Option<&str>) -> Result<()> {
        let (space, end, cut) = self.look(|index| (index.space(line.len()), index.len(), index.is_cut()));
        let mut bytes = Zeroizing::new(Vec::with_capacity(line.len() + 2));
        if let Some(space) = space {
            bytes.extend_from_slice(line);
            if space.len() > line.len() {
                bytes.push(b'\n');
                bytes.extend_from_slice(&freed(space.len() - line.len() - 1));
            }
            return self.write(space.start, &bytes, gone);
        }
        if cut {
            bytes.push(b'\n');
        }
        let at = end + bytes.len();
        if crosses(at, line.len()) {
            bytes.extend_from_slice(&padding(at));
        }
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        self.write(end, &bytes, gone)
    }

    /// Updates the line of `name` from `after`. Returns `false` if there is none.
    pub(super) fn edit(&mut self, name: &str, after: &Record) -> Result<bool> {
        let name = fold(name);
        let found = self.look(|index| {
            let (at, line) = index.place(&name)?;
            let fields = Fields::read(line).ok().flatten()?;
            let from = fields.fixed();
            let in_place = fields.has_fixed_width(line) && !crosses(at + from, FIXED);
            Some((at, line.len(), in_place.then_some(from), fields.rewritten(line, after)))
        });
        let Some((at, length, in_place, line)) = found else { return Ok(false) };
        match in_place {
            Some(from) => self.write(at + from, &line[from..from + FIXED], None)?,
            // The account never disappears from the file. If it is there twice, the first line applies.
            None => {
                self.place(&line, Some(&name))?;
                self.write(at, &freed(length), None)?;
            }
        }
        Ok(true)
    }

    /// Removes the account `name`. Returns `false` if there is none.
    pub(super) fn remove(&mut self, name: &str) -> Result<bool> {
        let name = fold(name);
        let Some((at, length)) = self.look(|index| index.place(&name).map(|(at, line)| (at, line.len()))) else {
            return Ok(false);
        };
        self.write(at, &freed(length), Some(&name))?;
        Ok(true)
    }

    /// Writes `bytes` at `at`, to the file first. A failed write is undone.
    fn write(&mut self, at: usize, bytes: &[u8], gone: Option<&str>) -> Result<()> {
        self.done = true;
        if let Err(error) = self.file.write_all_at(bytes, at as u64) {
            let (before, length) = self.look(|index| (index.bytes(at..at + bytes.len()), index.len()));
            let back = self.file.write_all_at(&before, at as u64).and_then(|()| self.file.set_len(length as u64));
            back.context("cannot undo an incomplete write")?;
            return Err(error).context("cannot write it");
        }
        self.known.write().index.wrote(at, bytes, gone)
    }
}
