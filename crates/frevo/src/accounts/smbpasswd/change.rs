//! Changes of the file, under its lock: each is one write of a line where it stands, or at the end.
//!
//! A line that changes is overwritten in place, and one that is deleted becomes a comment whose room a later account
//! takes. An older line of another width, or one that lies on two pages and so may be left half written by a process
//! that is killed, is written anew elsewhere, and deleted then. The file is never replaced by another: a program of Samba that waits for the lock to change a password goes
//! on with the file that it has open, and what it wrote would be lost.

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

/// A change that is under way.
pub(super) struct Change<'a> {
    file: &'a File,
    known: &'a RwLock<Known>,
    done: bool,
}

impl<'a> Change<'a> {
    /// Changes of `file`, of which `known` says what is in it.
    pub(super) fn new(file: &'a File, known: &'a RwLock<Known>) -> Self {
        Change { file, known, done: false }
    }

    /// Whether anything was written.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// What is in the file.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&self.known.read().index)
    }

    /// Adds an account of the user `uid`, which there is none of yet.
    pub(super) fn add(&mut self, record: &Record, uid: u32) -> Result<()> {
        let line = line::new(record, uid)?;
        self.place(&line, None)
    }

    /// Puts `line` where a deleted one was, or at the end. `gone` is the folded name whose line it takes the place of.
    fn place(&mut self, line: &[u8], gone: Option<&str>) -> Result<()> {
        let (room, end, cut) = self.look(|index| (index.room(line.len()), index.len(), index.is_cut()));
        let mut bytes = Zeroizing::new(Vec::with_capacity(line.len() + 2));
        if let Some(room) = room {
            bytes.extend_from_slice(line);
            if room.len() > line.len() {
                bytes.push(b'\n');
                bytes.extend_from_slice(&freed(room.len() - line.len() - 1));
            }
            return self.write(room.start, &bytes, gone);
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

    /// Makes the line of `name` say what `after` says. `false` where there is none.
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
            // There is no moment at which the file has none; of two, the first counts.
            None => {
                self.place(&line, Some(&name))?;
                self.write(at, &freed(length), None)?;
            }
        }
        Ok(true)
    }

    /// Removes the account `name`. `false` where there is none.
    pub(super) fn remove(&mut self, name: &str) -> Result<bool> {
        let name = fold(name);
        let Some((at, length)) = self.look(|index| index.place(&name).map(|(at, line)| (at, line.len()))) else {
            return Ok(false);
        };
        self.write(at, &freed(length), Some(&name))?;
        Ok(true)
    }

    /// Writes `bytes` at `at`, in the file first. What a failed write left is taken back.
    fn write(&mut self, at: usize, bytes: &[u8], gone: Option<&str>) -> Result<()> {
        self.done = true;
        if let Err(error) = self.file.write_all_at(bytes, at as u64) {
            let (before, length) = self.look(|index| (index.bytes(at..at + bytes.len()), index.len()));
            let back = self.file.write_all_at(&before, at as u64).and_then(|()| self.file.set_len(length as u64));
            back.context("taking back what could not be written whole")?;
            return Err(error).context("it could not be written");
        }
        self.known.write().index.wrote(at, bytes, gone)
    }
}
