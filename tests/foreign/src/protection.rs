//! Servers that let in only clients that sign, or only clients that encrypt.

use std::fs;

use anyhow::Result;

use crate::bed::{ALICE, Server};
use crate::stage::Stage;

/// What a server demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// `server signing = mandatory`.
    Signed,
    /// `server smb encrypt = required`: all of a session is encrypted.
    Sealed,
    /// The same for the share alone: what belongs to another share may come in the clear.
    SealedShare,
}

impl Protection {
    /// What the client does then, as the clients' own programs are told: `signed` or `sealed`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Protection::Signed => "signed",
            Protection::Sealed | Protection::SealedShare => "sealed",
        }
    }

    /// The lines for `[global]`, the server's own among them.
    pub(crate) fn globals(self) -> &'static str {
        match self {
            Protection::Signed => "[global]\n@TARGET@\n\tread only = no\n\tserver signing = mandatory\n",
            Protection::Sealed => "[global]\n@TARGET@\n\tread only = no\n\tserver smb encrypt = required\n",
            Protection::SealedShare => "[global]\n@TARGET@\n\tread only = no\n",
        }
    }

    /// The same with the share [`SHARE`] for `client`.
    fn template(self, client: &str) -> String {
        let own = if self == Protection::SealedShare { "\tserver smb encrypt = required\n" } else { "" };
        format!("{}[{SHARE}]\n\tpath = @DIR@/data/{client}\n{own}", self.globals())
    }
}

/// The share of such a server.
pub(crate) const SHARE: &str = "files";

impl Stage {
    /// Starts a server with an empty share for one client, whose directory is [`Stage::share`] of the client's name.
    pub(crate) fn protected(&self, client: &str, protection: Protection) -> Result<Server> {
        // What an earlier case left.
        let _ = fs::remove_dir_all(self.share(client));
        self.bed.make_dir(&format!("data/{client}"), &ALICE, 0o777)?;
        self.bed.start(&format!("{client}-{protection:?}").to_lowercase(), &protection.template(client))
    }
}
