//! The SID of the server's own domain, which the id arithmetic needs and smb.conf does not contain. It is learned from
//! winbindd or from the first ticket of the server's own realm, and stored in the state directory so that ids do not
//! change.
//!
//! A ticket never changes a stored SID: another SID for the same name means another domain, for example because the
//! domain was created again. winbindd may change it, because it queries the domain controllers.

use std::io::{Read, Write};
use std::sync::Arc;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use proto::dtyp::Sid;

use accounts::state_dir::StateDir;

/// The file in the state directory: a line with the domain's name and SID.
const FILE: &str = "domain";
/// Temporary name under which [`FILE`] is written.
const NEW_FILE: &str = "domain.new";
/// Size limit in bytes, more than a name of 15 letters and a SID need.
const LARGEST: u64 = 4096;

/// The NetBIOS name and SID of the domain last learned.
pub struct OwnDomain {
    /// `None` in tests, where nothing is stored.
    state: Option<Arc<StateDir>>,
    known: Mutex<Option<(String, Sid)>>,
}

/// The source of a domain SID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// winbindd.
    Winbind,
    /// A ticket of the server's own realm.
    Ticket,
}

impl OwnDomain {
    /// Loads what is stored in `state`. A file that cannot be read is logged and treated as missing. Blocks.
    pub fn open(state: Arc<StateDir>) -> OwnDomain {
        let known = read(&state).unwrap_or_else(|error| {
            tracing::error!("cannot read the SID of the domain: {error:#}; it is stored again when winbindd answers");
            None
        });
        OwnDomain { state: Some(state), known: Mutex::new(known) }
    }

    /// Creates an empty value that is not stored.
    pub fn in_memory() -> OwnDomain {
        OwnDomain { state: None, known: Mutex::default() }
    }

    /// Returns the SID of the domain called `name`.
    pub fn sid(&self, name: &str) -> Option<Sid> {
        self.known.lock().as_ref().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, sid)| *sid)
    }

    /// Records that the domain called `name` has the SID `sid`. Returns whether this SID is valid from now on. Writes a
    /// small file if it is new. Blocks.
    pub fn learn(&self, name: &str, sid: Sid, source: Source) -> bool {
        let mut known = self.known.lock();
        match known.as_ref().filter(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, before)) if *before == sid => return true,
            Some((_, before)) if source == Source::Ticket => {
                tracing::error!(
                    "a ticket contains the SID {sid} for {name}, which had {before} so far: the logon is refused; if \
                     the domain was created again, start winbindd or remove the file {FILE:?} in the state directory"
                );
                return false;
            }
            _ => {}
        }
        if let Some(Err(error)) = self.state.as_ref().map(|state| write(state, name, &sid)) {
            tracing::error!("cannot store the SID of the domain {name}: {error:#}");
        }
        *known = Some((name.to_owned(), sid));
        true
    }
}

fn read(state: &StateDir) -> Result<Option<(String, Sid)>> {
    let Some(file) = state.open_file(FILE)? else { return Ok(None) };
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text)?;
    let line = text.trim_end().split_once(' ').and_then(|(name, sid)| Some((name.to_owned(), sid.parse().ok()?)));
    ensure!(line.is_some(), "{}: not a domain name and SID; remove the file", state.path().join(FILE).display());
    Ok(line)
}

fn write(state: &StateDir, name: &str, sid: &Sid) -> Result<()> {
    // Remove the remains of a crash.
    state.remove(NEW_FILE)?;
    let mut file = state.create_file(NEW_FILE)?;
    writeln!(file, "{name} {sid}")?;
    file.sync_all()?;
    state.rename(NEW_FILE, FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Sid = Sid::of(5, [21, 1, 2, 3]);
    const TWO: Sid = Sid::of(5, [21, 4, 5, 6]);

    #[test]
    fn a_stored_domain_sid_survives_a_restart_and_later_tickets() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = Arc::new(StateDir::create(&dir.path().join("state")).expect("a state directory"));
        let domain = OwnDomain::open(state.clone());
        assert_eq!(domain.sid("DOM"), None);
        assert!(domain.learn("DOM", ONE, Source::Ticket));
        let domain = OwnDomain::open(state.clone());
        assert_eq!((domain.sid("dom"), domain.sid("OTHER")), (Some(ONE), None));
        assert!(!domain.learn("DOM", TWO, Source::Ticket));
        assert_eq!(domain.sid("DOM"), Some(ONE));
        assert!(domain.learn("DOM", TWO, Source::Winbind));
        assert_eq!(OwnDomain::open(state.clone()).sid("DOM"), Some(TWO));
        // Now the configuration names another domain.
        assert!(domain.learn("OTHER", ONE, Source::Ticket));
        assert_eq!((domain.sid("DOM"), domain.sid("OTHER")), (None, Some(ONE)));
        std::fs::write(dir.path().join("state/domain"), "nonsense\n").expect("written");
        assert_eq!(OwnDomain::open(state).sid("OTHER"), None);
    }
}
