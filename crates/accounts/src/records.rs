//! The data that administration reads and writes: accounts and groups as shown, added and imported.

use serde::{Deserialize, Serialize};
use server::accounts::NtHash;

use super::groups::GroupKind;
use super::record::hex_hash;

/// Maximum number of accounts in one import.
pub const IMPORT_BATCH: usize = 500;

/// Maximum number of accounts in one page of a list.
pub const LIST_PAGE: usize = 1000;

/// An account to be added.
pub struct NewAccount {
    /// The account's name.
    pub name: String,
    /// The hash of its password.
    pub nt_hash: Option<NtHash>,
    /// The user's full name.
    pub full_name: String,
    /// The UNIX user, if it does not have the same name.
    pub uid: Option<u32>,
}

/// An account as shown to the administrator: everything except the password hash.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct AccountView {
    /// The name.
    pub name: String,
    /// The user's full name.
    pub full_name: String,
    /// The whole SID.
    pub sid: String,
    /// SIDs that the account had on other servers.
    #[serde(default)]
    pub former_sids: Vec<String>,
    /// Whether it has a password.
    pub has_password: bool,
    /// Whether logons are refused because the administrator disabled the account.
    pub disabled: bool,
    /// Whether logons are refused because Samba had locked the account.
    pub locked: bool,
    /// Whether logons are refused until a new password is set.
    pub must_change: bool,
    /// Whether the password never expires, regardless of the policies.
    #[serde(default)]
    pub never_expires: bool,
    /// When the password was set, in seconds since 1970.
    pub password_last_set: Option<i64>,
    /// The UNIX user that the account acts as; `null` if there is none.
    pub unix_user: Option<String>,
    /// That user's uid.
    pub uid: Option<u32>,
    /// Why the account has no UNIX user.
    pub problem: Option<String>,
}

/// A SID that an account had on another server.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct FormerSid {
    /// The account's name, here.
    pub name: String,
    /// The SID as text.
    pub sid: String,
}

/// An account of another server.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// The name.
    pub name: String,
    /// The hash of the password; `None` if there is none.
    #[serde(with = "hex_hash")]
    pub nt_hash: Option<NtHash>,
    /// Flag D.
    pub disabled: bool,
    /// Flag L.
    pub locked: bool,
    /// LCT-00000000.
    pub must_change: bool,
    /// Flag X.
    #[serde(default)]
    pub never_expires: bool,
    /// LCT, in seconds since 1970.
    pub password_last_set: Option<i64>,
}

/// An account with all that is migrated from another server, or back to it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migrated {
    /// Name, password and flags.
    pub account: Imported,
    /// The whole SID, as text.
    pub sid: String,
    /// The full name.
    pub full_name: String,
    /// When the account expires, in seconds since 1970; `None` means never.
    pub expires: Option<i64>,
}

impl std::fmt::Debug for Migrated {
    // The hash is equivalent to a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.account.name, self.sid)
    }
}

/// The ACL of a share, which limits what users may do in it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ShareAcl {
    /// The share's name.
    pub share: String,
    /// The descriptor, in SDDL.
    pub sddl: String,
}

/// Everything that is migrated from another server.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// The machine SID of that server.
    pub machine_sid: String,
    /// Its accounts.
    pub accounts: Vec<Migrated>,
    /// Its groups, with complete SIDs.
    pub groups: Vec<NewGroup>,
    /// Its account policies.
    pub policies: Vec<(String, i64)>,
    /// Its share ACLs.
    pub share_acls: Vec<ShareAcl>,
}

/// The results of a migration, each list in the order of the [`Migration`]. An outcome
/// [`ImportResult::Skipped`] is a conflict.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct MigrationOutcome {
    /// The machine SID.
    pub machine_sid: Outcome,
    /// The accounts.
    pub accounts: Vec<Outcome>,
    /// The groups.
    pub groups: Vec<Outcome>,
    /// The account policies.
    pub policies: Vec<Outcome>,
    /// The share ACLs.
    pub share_acls: Vec<Outcome>,
}

/// A group to be added.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct NewGroup {
    /// The group's Windows name.
    pub name: String,
    /// The UNIX group, by name or number.
    pub unix_group: String,
    /// The SID, or only its RID in this server's domain; `None` assigns the next free RID.
    pub sid: Option<String>,
    /// The kind of group.
    pub kind: GroupKind,
    /// The comment.
    pub comment: String,
}

/// A group as shown to the administrator.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct GroupView {
    /// The group's Windows name.
    pub name: String,
    /// Its SID.
    pub sid: String,
    /// The kind of group.
    pub kind: GroupKind,
    /// The UNIX group's gid.
    pub gid: u32,
    /// The UNIX group's name; `null` if this host has no group with that gid.
    pub unix_group: Option<String>,
    /// The administrator's comment.
    pub comment: String,
}

/// The result for one imported account.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Outcome {
    /// What was done.
    pub result: ImportResult,
    /// Additional information for the administrator, or why the account was skipped.
    pub note: Option<String>,
}

impl Outcome {
    /// Returns a result without a note.
    pub fn of(result: ImportResult) -> Outcome {
        Outcome { result, note: None }
    }

    /// Returns the outcome of something that was not imported, with the reason.
    pub fn skipped(why: impl Into<String>) -> Outcome {
        Outcome { result: ImportResult::Skipped, note: Some(why.into()) }
    }
}

/// What was done with one imported account.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum ImportResult {
    /// The account is new.
    Added,
    /// The account existed and differed.
    Updated,
    /// The account existed and was identical.
    Unchanged,
    /// The account was skipped.
    Skipped,
}
