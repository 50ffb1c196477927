//! The SID of the server's own domain, which arithmetic needs and smb.conf does not have: told by winbindd, or by the
//! first ticket of the server's own realm, and kept in the state directory, so that ids stay what they are.
//!
//! A ticket never changes what is known: another SID for the same name is another domain, be it that somebody made the
//! domain anew. winbindd, who asks the controllers, may.

use std::io::{Read, Write};
use std::sync::Arc;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use proto::dtyp::Sid;

use crate::state_dir::StateDir;

/// The file in the state directory: a line with the domain's name and SID.
const FILE: &str = "domain";
/// What is written before it takes the place of [`FILE`].
const NEW_FILE: &str = "domain.new";
/// More than a name of 15 letters and a SID have.
const LARGEST: u64 = 4096;

/// The SIDs of domains by their NetBIOS names: one, unless the configuration named another domain before.
pub struct OwnDomain {
    /// `None` where nothing is kept: in tests.
    state: Option<Arc<StateDir>>,
    known: Mutex<Option<(String, Sid)>>,
}

/// Who says which SID a domain has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// winbindd.
    Winbind,
    /// A ticket of the server's own realm.
    Ticket,
}

impl OwnDomain {
    /// What is kept in `state`. A file that cannot be read is said in the log and is as none. Blocks.
    pub fn open(state: Arc<StateDir>) -> OwnDomain {
        let known = read(&state).unwrap_or_else(|error| {
            tracing::error!("the SID of the domain is not known: {error:#}; it is learnt anew when winbindd answers");
            None
        });
        OwnDomain { state: Some(state), known: Mutex::new(known) }
    }

    /// Nothing is known, and nothing kept.
    pub fn in_memory() -> OwnDomain {
        OwnDomain { state: None, known: Mutex::default() }
    }

    /// The SID of the domain called `name`.
    pub fn sid(&self, name: &str) -> Option<Sid> {
        self.known.lock().as_ref().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, sid)| *sid)
    }

    /// Takes note that the domain called `name` has the SID `sid`, and says whether that is true from now on. Writes a
    /// small file where it is new. Blocks.
    pub fn learn(&self, name: &str, sid: Sid, source: Source) -> bool {
        let mut known = self.known.lock();
        match known.as_ref().filter(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, before)) if *before == sid => return true,
            Some((_, before)) if source == Source::Ticket => {
                tracing::error!(
                    "a ticket says that {name} has the SID {sid}, and it was {before} so far: its user is nobody; where the \
                     domain was made anew, let winbindd run or remove the file {FILE:?} in the state directory"
                );
                return false;
            }
            _ => {}
        }
        if let Some(Err(error)) = self.state.as_ref().map(|state| write(state, name, &sid)) {
            tracing::error!("the SID of the domain {name} is not kept: {error:#}");
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
    ensure!(line.is_some(), "{}: no name and SID of a domain; remove the file", state.path().join(FILE).display());
    Ok(line)
}

fn write(state: &StateDir, name: &str, sid: &Sid) -> Result<()> {
    // What a crash left behind.
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
    fn what_was_learnt_outlives_a_restart_and_no_ticket_changes_it() {
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
        // The configuration names another one now.
        assert!(domain.learn("OTHER", ONE, Source::Ticket));
        assert_eq!((domain.sid("DOM"), domain.sid("OTHER")), (None, Some(ONE)));
        std::fs::write(dir.path().join("state/domain"), "nonsense\n").expect("written");
        assert_eq!(OwnDomain::open(state).sid("OTHER"), None);
    }
}
