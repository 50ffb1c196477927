//! What every case finds: a bed with a running server, its shares' directories, and the client programs.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::bed::{ALICE, Bed, Server};
use crate::suite::Options;

/// The configuration of the server that the cases share.
pub(crate) const TEMPLATE: &str = include_str!("../smb.conf");

/// The bed, a server on it that all cases share, and where things are.
pub(crate) struct Stage {
    // Declared before the bed: the server ends before its directory goes.
    pub(crate) server: Server,
    pub(crate) bed: Bed,
    pub(crate) python: PathBuf,
}

impl Stage {
    pub(crate) fn set(options: &Options) -> Result<Stage> {
        let bed = Bed::make(options.target)?;
        for share in ["files", "sealed", "fixed", "local", "versions"] {
            bed.make_dir(&format!("data/{share}"), &ALICE, 0o777)?;
        }
        // The clients keep off the machine's own Samba.
        let client = bed.dir().join("client");
        fs::create_dir_all(client.join("run"))?;
        let mut conf = String::from("[global]\nworkgroup = WORKGROUP\nname resolve order = host\n");
        for kind in ["private dir", "lock directory", "state directory", "cache directory", "pid directory"] {
            conf.push_str(&format!("{kind} = {}\n", client.join("run").display()));
        }
        fs::write(client.join("smb.conf"), conf)?;
        let server = bed.start("server", TEMPLATE)?;
        Ok(Stage { server, bed, python: options.python.clone() })
    }

    /// The directory behind a share.
    pub(crate) fn share(&self, name: &str) -> PathBuf {
        self.bed.dir().join("data").join(name)
    }

    /// A fresh directory for what clients read and write on their side.
    pub(crate) fn local(&self, name: &str) -> Result<PathBuf> {
        let path = self.bed.dir().join("local").join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}
