//! Servers that accept only clients that sign, or only clients that encrypt.

use std::fs;

use anyhow::Result;

use crate::fixture::Fixture;
use test_environment::{ALICE, Server};

/// The server's requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// `server signing = mandatory`.
    Signed,
    /// `server smb encrypt = required`: the whole session is encrypted.
    Sealed,
    /// The same only for the share, so that traffic of other shares may be unencrypted.
    SealedShare,
}

impl Protection {
    /// Returns the word for the client's programs: `signed` or `sealed`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Protection::Signed => "signed",
            Protection::Sealed | Protection::SealedShare => "sealed",
        }
    }

    /// Returns the lines for `[global]`, including the server's own.
    pub(crate) fn globals(self) -> &'static str {
        match self {
            Protection::Signed => "[global]\n@TARGET@\n\tread only = no\n\tserver signing = mandatory\n",
            Protection::Sealed => "[global]\n@TARGET@\n\tread only = no\n\tserver smb encrypt = required\n",
            Protection::SealedShare => "[global]\n@TARGET@\n\tread only = no\n",
        }
    }

    /// Returns the configuration with the share [`SHARE`] for `client`.
    fn template(self, client: &str) -> String {
        let own = if self == Protection::SealedShare { "\tserver smb encrypt = required\n" } else { "" };
        format!("{}[{SHARE}]\n\tpath = @DIR@/data/{client}\n{own}", self.globals())
    }
}

/// The share of such a server.
pub(crate) const SHARE: &str = "files";

impl Fixture {
    /// Starts a server with an empty share for one client, whose directory is [`Fixture::share`] of the client's name.
    pub(crate) fn protected(&self, client: &str, protection: Protection) -> Result<Server> {
        // Removes the files of an earlier case.
        let _ = fs::remove_dir_all(self.share(client));
        self.environment.make_dir(&format!("data/{client}"), &ALICE, 0o777)?;
        self.environment.start(&format!("{client}-{protection:?}").to_lowercase(), &protection.template(client))
    }
}
