//! Both servers at once, each on a bed of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use foreign::bed::{ALICE, Bed, Crowd, Server, Target};

const TEMPLATE: &str = include_str!("../../compare/smb.conf");
/// The shares of both.
pub(super) const SHARES: [&str; 2] = ["plain", "acl"];

/// A server and what it stands on.
pub(super) struct Side {
    // Declared before the bed: the server ends before its directory goes.
    pub(super) server: Server,
    bed: Bed,
}

impl Side {
    fn start(base: &Path, target: Target, crowd: Crowd) -> Result<Side> {
        let bed = Bed::make_in(base, target, crowd)?;
        for share in SHARES {
            bed.make_dir(share, &ALICE, 0o777)?;
        }
        let server = bed.start("server", TEMPLATE).with_context(|| format!("{} does not start", target.name()))?;
        Ok(Side { server, bed })
    }

    /// `frevo` or `samba`.
    pub(super) fn name(&self) -> &'static str {
        self.bed.target().name()
    }

    /// A share as `frevo bench` takes it.
    pub(super) fn url(&self, share: &str) -> String {
        format!("smb://{}:{}@{}/{share}", ALICE.name, ALICE.password, self.server.address())
    }

    /// The directory of a share.
    pub(super) fn path(&self, share: &str) -> PathBuf {
        self.bed.dir().join(share)
    }
}

/// Frevo and Samba.
pub(super) struct Pair {
    pub(super) frevo: Side,
    pub(super) samba: Side,
    /// How many accounts there are beside alice's.
    pub(super) crowd: Crowd,
}

impl Pair {
    /// Starts both on fresh directories below `base`.
    pub(super) fn start(base: &Path, users: u32) -> Result<Pair> {
        let crowd = Crowd(users);
        let frevo = Side::start(base, Target::Frevo, crowd)?;
        let samba = Side::start(base, Target::Samba, crowd)?;
        Ok(Pair { frevo, samba, crowd })
    }

    /// Both, Frevo first.
    pub(super) fn sides(&mut self) -> [&mut Side; 2] {
        [&mut self.frevo, &mut self.samba]
    }
}
