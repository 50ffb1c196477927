//! What goes over the control socket: one JSON object a line, a request from the client, then an answer.
//!
//! A request is `{"request": "<name>", ...}`, an answer `{"ok": ...}` or `{"error": "<text for a person>"}`. Passwords
//! never go over it, only their NT hashes. The same requests for users are what [`crate::accounts::Directory`]
//! performs when no server runs.

use serde::{Deserialize, Serialize};
use server::accounts::NtHash;

use crate::accounts::groups::GroupKind;
use crate::accounts::record::hex_hash;

/// The longest request line in bytes; a full batch of [`IMPORT_BATCH`] accounts fits.
pub const LONGEST_REQUEST: usize = 1 << 20;

/// Accounts in one `user.import`.
pub const IMPORT_BATCH: usize = 500;

/// Accounts in one answer to `user.list`.
pub const LIST_PAGE: usize = 1000;

/// What is asked of the server itself.
#[derive(Serialize, Deserialize)]
#[serde(tag = "request", deny_unknown_fields)]
pub enum ServerRequest {
    /// Which program this is: answered with [`Version`].
    #[serde(rename = "version")]
    Version {},
    /// Who is connected: answered with [`crate::status::Status`].
    #[serde(rename = "status")]
    Status {},
    /// Read the configuration again: answered with a text that says what came of it.
    #[serde(rename = "reload")]
    Reload {},
    /// Finish what is in flight and end: answered with a text.
    #[serde(rename = "stop")]
    Stop {},
}

/// What is asked of the accounts; all are answered with a [`UserReply`].
#[derive(Serialize, Deserialize)]
#[serde(tag = "request", deny_unknown_fields)]
pub enum UserRequest {
    /// A new account.
    #[serde(rename = "user.add")]
    Add {
        /// Its name.
        name: String,
        /// The hash of its password.
        #[serde(with = "hex_hash")]
        nt_hash: Option<NtHash>,
        /// The owner's name in full.
        full_name: String,
        /// The UNIX user, where it is not the one of the same name.
        uid: Option<u32>,
    },
    /// Another password, which also ends `locked` and `must change`.
    #[serde(rename = "user.passwd")]
    Passwd {
        /// Whose.
        name: String,
        /// The hash of the new password.
        #[serde(with = "hex_hash")]
        nt_hash: Option<NtHash>,
    },
    /// Lets an account log on, or no longer.
    #[serde(rename = "user.enable")]
    Enable {
        /// Whose.
        name: String,
        /// Whether it may log on.
        enabled: bool,
    },
    /// Sets the flags of an account, all three.
    #[serde(rename = "user.account-control")]
    AccountControl {
        /// Whose.
        name: String,
        /// Flag D: it may not log on.
        disabled: bool,
        /// Flag L: neither, after wrong passwords.
        locked: bool,
        /// Flag X: its password is good for ever.
        never_expires: bool,
    },
    /// Removes an account.
    #[serde(rename = "user.delete")]
    Delete {
        /// Whose.
        name: String,
    },
    /// One account.
    #[serde(rename = "user.find")]
    Find {
        /// Its name.
        name: String,
    },
    /// Up to [`LIST_PAGE`] accounts.
    #[serde(rename = "user.list")]
    List {
        /// The name that they come after.
        after: Option<String>,
    },
    /// The account policies, after one was set where that is asked for.
    #[serde(rename = "user.policy")]
    Policy {
        /// Its name and its new value.
        set: Option<(String, i64)>,
    },
    /// The SID of this machine, after it was set where that is asked for.
    #[serde(rename = "user.machine-sid")]
    MachineSid {
        /// The new one, as text.
        set: Option<String>,
        /// One that the machine had by mistake, as text.
        #[serde(default)]
        forget: Option<String>,
    },
    /// Notes up to [`IMPORT_BATCH`] SIDs that accounts had elsewhere, in one step.
    #[serde(rename = "user.sids")]
    Sids {
        /// Whose they were.
        sids: Vec<FormerSid>,
        /// Only say what would be done.
        dry_run: bool,
    },
    /// Adds or updates up to [`IMPORT_BATCH`] accounts in one step.
    #[serde(rename = "user.import")]
    Import {
        /// The accounts.
        accounts: Vec<Imported>,
        /// Only say what would be done.
        dry_run: bool,
    },
    /// What is asked of the groups.
    #[serde(untagged)]
    Group(GroupRequest),
}

/// What is asked of the groups that have SIDs of their own.
#[derive(Serialize, Deserialize)]
#[serde(tag = "request", deny_unknown_fields)]
pub enum GroupRequest {
    /// A new group.
    #[serde(rename = "group.add")]
    Add(NewGroup),
    /// Another name or comment for a group.
    #[serde(rename = "group.edit")]
    Edit {
        /// The name that Windows has for it.
        name: String,
        /// The new one; `None` where it stays.
        new_name: Option<String>,
        /// What is to be known of it; `None` where that stays.
        comment: Option<String>,
    },
    /// Who is in the UNIX group that a group is, in a directory, after these changes.
    #[serde(rename = "group.members")]
    Members {
        /// The name that Windows has for it.
        name: String,
        /// Users who come into it.
        add: Vec<String>,
        /// Users who go.
        remove: Vec<String>,
    },
    /// Removes a group; the UNIX group stays.
    #[serde(rename = "group.delete")]
    Delete {
        /// The name that Windows has for it.
        name: String,
    },
    /// Up to [`LIST_PAGE`] groups.
    #[serde(rename = "group.list")]
    List {
        /// The SID that they come after.
        after: Option<String>,
    },
    /// Up to [`IMPORT_BATCH`] groups as another server had them.
    #[serde(rename = "group.import")]
    Import {
        /// The groups.
        groups: Vec<NewGroup>,
        /// Only say what would be done.
        dry_run: bool,
    },
}

/// A group that is to be.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct NewGroup {
    /// The name that Windows has for it.
    pub name: String,
    /// The UNIX group, by name or number.
    pub unix_group: String,
    /// The SID, or the last number of one in this server's domain; `None` for the next that is free.
    pub sid: Option<String>,
    /// What it is.
    pub kind: GroupKind,
    /// What is to be known of it.
    pub comment: String,
}

/// A group as it is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct GroupView {
    /// The name that Windows has for it.
    pub name: String,
    /// Its SID.
    pub sid: String,
    /// What it is.
    pub kind: GroupKind,
    /// The UNIX group's number.
    pub gid: u32,
    /// The UNIX group's name; `null` where this host has none of that number.
    pub unix_group: Option<String>,
    /// What the administrator wrote of it.
    pub comment: String,
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

/// An account as another server had it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imported {
    /// The name.
    pub name: String,
    /// The hash of the password; `None` where it has none.
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

/// An answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Response<T> {
    /// It was done.
    Ok(T),
    /// It was not, and why.
    Error(String),
}

/// What a request for users is answered with.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum UserReply {
    /// The change was made; the text is a warning, where there is one.
    Done(Option<String>),
    /// The account, where there is one.
    Found(Option<AccountView>),
    /// The accounts, in the order of their names.
    List(Vec<AccountView>),
    /// All account policies.
    Policies(Vec<PolicyView>),
    /// The SID of this machine.
    MachineSid(String),
    /// What became of each account or group of an import, in its order.
    Imported(Vec<Outcome>),
    /// The groups, in the order of their SIDs.
    Groups(Vec<GroupView>),
    /// The members of a group, in the order of their names.
    Members(Vec<String>),
}

/// An account policy.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PolicyView {
    /// Its name, as Samba's `pdbedit -P` has it.
    pub name: String,
    /// Its value.
    pub value: i64,
    /// What that means.
    pub about: String,
}

/// An account as it is shown: all but the hash.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct AccountView {
    /// The name.
    pub name: String,
    /// The owner's name in full.
    pub full_name: String,
    /// The whole SID.
    pub sid: String,
    /// SIDs that it had elsewhere.
    #[serde(default)]
    pub former_sids: Vec<String>,
    /// Whether it has a password.
    pub has_password: bool,
    /// Whether logons are refused because the administrator said so.
    pub disabled: bool,
    /// Whether logons are refused because Samba had locked the account.
    pub locked: bool,
    /// Whether logons are refused until a new password was set.
    pub must_change: bool,
    /// Whether the password is good for ever, whatever the policies say.
    #[serde(default)]
    pub never_expires: bool,
    /// When the password was set, in seconds since 1970.
    pub password_last_set: Option<i64>,
    /// The UNIX user that it acts as; `null` where there is none.
    pub unix_user: Option<String>,
    /// That user's number.
    pub uid: Option<u32>,
    /// Why it has no UNIX user.
    pub problem: Option<String>,
}

/// What became of one imported account.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Outcome {
    /// What was done.
    pub result: ImportResult,
    /// What the administrator should know besides, or why it was skipped.
    pub note: Option<String>,
}

/// What was done with one imported account.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum ImportResult {
    /// It is new.
    Added,
    /// It was there and differed.
    Updated,
    /// It was there just so.
    Unchanged,
    /// It was left out.
    Skipped,
}

/// Which program answers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Version {
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// What it has given up: `on`, `off` and why, or what is missing.
    #[serde(default)]
    pub sandbox: String,
}
