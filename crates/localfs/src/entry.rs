//! Looks up one name in an open directory without reading the directory.

use std::os::fd::AsFd;
use std::sync::Arc;

use backing::Wait;
use backing::executor::unless_cancelled;
use backing::workers::Lane;
use server::answer::Answer;
use server::vfs::{Case, Entry, EntryXattr, Errno, Identity, Kind, Op, Result};

use crate::dir::metadata_of;
use crate::identity;
use crate::lookup::look;
use crate::metadata::Source;
use crate::names::Directory;
use crate::node::Open;
use crate::node::whole;
use crate::proc_fd;
use crate::root::Root;

/// The attributes of so many entries are read on the calling thread.
pub(crate) const FEW_ENTRIES: usize = 16;

/// Returns the `wanted` attributes of the entries `names` of the directory; `None` for an entry whose attributes cannot
/// be listed, as one that vanished.
pub(crate) fn attributes(
    open: &Open,
    who: &Arc<Identity>,
    names: &[Box<[u8]>],
    wanted: &(dyn Fn(&str) -> bool + Send + Sync),
) -> Result<Vec<Option<Vec<EntryXattr>>>> {
    if open.kind != Kind::Directory {
        return Err(Errno::NOTDIR);
    }
    identity::assume(who)?;
    let directory = proc_fd::path(open.fd());
    let of_entry = |name: &[u8]| {
        let path = [&directory[..], b"/", name].concat();
        let list = whole(|buffer| rustix::fs::llistxattr(path.as_slice(), buffer)).ok()?;
        let names = list.split(|&byte| byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
        Some(names.filter(|name| wanted(name)).map(|attribute| value(open, name, attribute)).collect())
    };
    Ok(names.iter().map(|name| of_entry(name)).collect())
}

/// Returns the attribute `wanted` of the entry `name`. One that the user may not read has no value.
fn value(open: &Open, name: &[u8], wanted: &str) -> EntryXattr {
    let mut buffer = [0; EntryXattr::SHOWN];
    let (length, value) = match proc_fd::getxattr_of(open.fd(), name, wanted, &mut buffer) {
        Ok(length) => (length, buffer[..length].to_vec()),
        Err(rustix::io::Errno::RANGE) => {
            (proc_fd::getxattr_of(open.fd(), name, wanted, &mut []).unwrap_or(0), Vec::new())
        }
        Err(_) => (0, Vec::new()),
    };
    EntryXattr { name: wanted.to_owned(), length, value }
}

impl Open {
    /// Answers at once if the kernel has the entry cached.
    pub(crate) fn entry(open: &Arc<Open>, op: &Op, name: &[u8], case: Case) -> Answer<Result<Option<Entry>>> {
        if open.system.is_local() {
            match open.find_entry(op, name, case, Wait::Never) {
                Err(Errno::AGAIN) => {}
                answer => return Answer::now(answer),
            }
        }
        let (directory, who, name) = (Arc::clone(open), Arc::clone(op), Box::<[u8]>::from(name));
        let find = move || directory.find_entry(&who, &name, case, Wait::Allowed);
        open.system.executor.later_as(op, Lane::Data, unless_cancelled(op, find))
    }

    /// Tries the exact name first, then the one in the directory's index.
    fn find_entry(&self, who: &Arc<Identity>, name: &[u8], case: Case, wait: Wait) -> Result<Option<Entry>> {
        if self.kind != Kind::Directory {
            return Err(Errno::NOTDIR);
        }
        identity::assume(who)?;
        let exact = self.named(name, wait);
        match exact {
            Ok(entry) => return Ok(Some(entry)),
            // The index may show that the name does not exist.
            Err(Errno::NOENT | Errno::NAMETOOLONG | Errno::AGAIN) if case == Case::Insensitive => {}
            Err(Errno::NOENT | Errno::NAMETOOLONG) => return Ok(None),
            // Without permission to search the directory, an existing name must look like a missing one.
            Err(Errno::ACCES) => return Ok(None),
            Err(error) => return Err(error),
        }
        let (found, _) =
            self.share.names.find(&Directory { root: &self.share.root, fd: self.fd() }, self.id, name, wait)?;
        let Some(found) = found else { return Ok(None) };
        identity::assume(who)?;
        match self.named(&found, wait) {
            Ok(entry) => Ok(Some(entry)),
            Err(Errno::NOENT | Errno::ACCES) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the entry with exactly this name.
    fn named(&self, name: &[u8], wait: Wait) -> Result<Entry> {
        let metadata = if wait == Wait::Allowed {
            metadata_of(self, self.fd(), name)?
        } else {
            let fd = Root::open_entry(self.fd(), name)?;
            self.share.metadata(&look(&self.share, &fd, wait)?, Source::Path(fd.as_fd()))
        };
        let entry = Entry { name: name.into(), metadata: Some(metadata) };
        self.note_files(std::slice::from_ref(&entry));
        Ok(entry)
    }
}
