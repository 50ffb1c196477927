//! The protocol of the control socket: one JSON object per line, a request from the client followed by an answer.
//!
//! A request is `{"request": "<name>", ...}`, an answer `{"ok": ...}` or `{"error": "<text for a person>"}`. Passwords
//! are never sent, only their NT hashes. [`perform`](super::perform) carries out account requests, in the server or,
//! when none runs, in the command itself.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use server::accounts::NtHash;
use smbconf::added::Change;

use crate::share::ShareView;
use accounts::record::hex_hash;
pub use accounts::records::{
    AccountView, FormerSid, GroupView, IMPORT_BATCH, ImportResult, Imported, LIST_PAGE, Migrated, Migration,
    MigrationOutcome, NewGroup, Outcome, ShareAcl,
};

/// Length of a request line in bytes that every client may send; a full batch of [`IMPORT_BATCH`] accounts fits.
pub const SHORT_REQUEST: usize = 1 << 20;

/// Maximum length of a request line in bytes. One client at a time may send more than [`SHORT_REQUEST`]: a migration,
/// which is one transaction. 100,000 accounts fit.
pub const LONGEST_REQUEST: usize = 64 << 20;

/// A request to the server itself.
#[derive(Serialize, Deserialize)]
#[serde(tag = "request", deny_unknown_fields)]
pub enum ServerRequest {
    /// Queries the program; answered with [`Version`].
    #[serde(rename = "version")]
    Version {},
    /// Queries the connected clients; answered with [`crate::status::Status`].
    #[serde(rename = "status")]
    Status {},
    /// The same with a limited number of sessions, tree connects, opens and locks of each kind.
    #[serde(rename = "clients")]
    Clients {
        /// The maximum number.
        most: usize,
    },
    /// Queries the metrics; answered with a text in Prometheus' format.
    #[serde(rename = "metrics")]
    Metrics {},
    /// Queries the health; answered with a [`crate::health::Report`].
    #[serde(rename = "health")]
    Health {},
    /// Reloads the configuration; answered with a text that summarizes the result.
    #[serde(rename = "reload")]
    Reload {},
    /// Closes a session, an open or the tree connects to a share; answered with a text.
    #[serde(rename = "close")]
    Close {
        /// What is closed.
        what: Closing,
    },
    /// Changes or lists the shares; answered with a [`ShareReply`].
    #[serde(rename = "shares")]
    Shares {
        /// What is done.
        what: ShareRequest,
    },
    /// Queries what the server holds for clients, and the limits; answered with [`crate::status::HeldResources`].
    #[serde(rename = "held")]
    Held {},
    /// Verifies the password of one of the `admin users`; answered with their name, or null if the logon is refused.
    #[serde(rename = "logon")]
    LogOn {
        /// The account's name.
        name: String,
        /// The hash of the password.
        #[serde(with = "hex_hash")]
        nt_hash: Option<NtHash>,
        /// The address of their browser.
        address: IpAddr,
    },
    /// Admits the account of a user after a logon at an OpenID Connect issuer; answered with whether the account is one
    /// of the `admin users`, or null if the user is refused.
    #[serde(rename = "admit")]
    Admit {
        /// The account's exact name.
        name: String,
        /// The address of their browser.
        address: IpAddr,
    },
    /// Names the administrator who makes the next request of this connection, which is recorded with its result;
    /// answered with null.
    #[serde(rename = "for")]
    For(OnBehalf),
    /// Does nothing, for what is only recorded; fails with the text.
    #[serde(rename = "note")]
    Note {
        /// Why it failed, if it did.
        failure: Option<String>,
    },
    /// Finishes pending requests and stops the server; answered with a text.
    #[serde(rename = "stop")]
    Stop {},
}

/// The administrator who makes a request through the console, as it is recorded.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct OnBehalf {
    /// The name with which they have logged on to the console.
    pub user: String,
    /// The address of their browser, or `unix`.
    pub address: String,
    /// The name of the change.
    pub operation: String,
    /// What is changed, without passwords.
    pub arguments: Vec<String>,
}

/// What `frevo close` closes. Ids are those of `frevo status`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Closing {
    /// The session with this SessionId.
    Session(u64),
    /// The open with this volatile id.
    File(u64),
    /// All tree connects to this share.
    Share(String),
}

/// What `frevo share` does.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum ShareRequest {
    /// Adds, changes or removes a share.
    Change(Change),
    /// Lists all shares.
    List {},
}

/// The answer to a [`ShareRequest`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum ShareReply {
    /// The change is in effect.
    Done {},
    /// The shares, in the order of the configuration.
    List(Vec<ShareView>),
}

/// A request about accounts; answered with a [`UserReply`].
#[derive(Serialize, Deserialize)]
#[serde(tag = "request", deny_unknown_fields)]
pub enum UserRequest {
    /// Adds an account.
    #[serde(rename = "user.add")]
    Add {
        /// The account's name.
        name: String,
        /// The hash of its password.
        #[serde(with = "hex_hash")]
        nt_hash: Option<NtHash>,
        /// The user's full name.
        full_name: String,
        /// The UNIX user, if it does not have the same name.
        uid: Option<u32>,
    },
    /// Sets another password, which also clears `locked` and `must change`.
    #[serde(rename = "user.passwd")]
    Passwd {
        /// The account's name.
        name: String,
        /// The hash of the new password.
        #[serde(with = "hex_hash")]
        nt_hash: Option<NtHash>,
    },
    /// Enables or disables an account.
    #[serde(rename = "user.enable")]
    Enable {
        /// The account's name.
        name: String,
        /// Whether the account may log on.
        enabled: bool,
    },
    /// Sets all three flags of an account.
    #[serde(rename = "user.account-control")]
    AccountControl {
        /// The account's name.
        name: String,
        /// Flag D: the account may not log on.
        disabled: bool,
        /// Flag L: the account may not log on because of too many wrong passwords.
        locked: bool,
        /// Flag X: the password does not expire.
        never_expires: bool,
    },
    /// Removes an account.
    #[serde(rename = "user.delete")]
    Delete {
        /// The account's name.
        name: String,
    },
    /// Queries one account.
    #[serde(rename = "user.find")]
    Find {
        /// The account's name.
        name: String,
    },
    /// Lists up to [`LIST_PAGE`] accounts.
    #[serde(rename = "user.list")]
    List {
        /// The name after which the list starts.
        after: Option<String>,
    },
    /// Queries the account policies, after setting one if requested.
    #[serde(rename = "user.policy")]
    Policy {
        /// The policy's name and its new value.
        set: Option<(String, i64)>,
    },
    /// Queries the SID of this machine, after setting it if requested.
    #[serde(rename = "user.machine-sid")]
    MachineSid {
        /// The new SID, as text.
        set: Option<String>,
        /// A SID that the machine had by mistake, as text.
        #[serde(default)]
        forget: Option<String>,
    },
    /// Records up to [`IMPORT_BATCH`] SIDs that accounts had on another server, in one step.
    #[serde(rename = "user.sids")]
    Sids {
        /// The SIDs and their accounts.
        sids: Vec<FormerSid>,
        /// Only report what would be done.
        dry_run: bool,
    },
    /// Adds or updates up to [`IMPORT_BATCH`] accounts in one step.
    #[serde(rename = "user.import")]
    Import {
        /// The accounts.
        accounts: Vec<Imported>,
        /// Only report what would be done.
        dry_run: bool,
    },
    /// Migrates everything from another server in one step.
    #[serde(rename = "user.migrate")]
    Migrate {
        /// What the other server has.
        migration: Box<Migration>,
        /// Only report what would be done.
        dry_run: bool,
    },
    /// Exports up to [`IMPORT_BATCH`] accounts with the hashes of their passwords.
    #[serde(rename = "user.export")]
    Export {
        /// The name after which the list starts.
        after: Option<String>,
    },
    /// Queries the ACLs of shares, after setting or removing one if requested.
    #[serde(rename = "share.acls")]
    ShareAcls {
        /// The share, and its new descriptor in SDDL; `None` removes the descriptor.
        set: Option<(String, Option<String>)>,
    },
    /// A request about groups.
    #[serde(untagged)]
    Group(GroupRequest),
}

/// A request about groups that have their own SIDs.
#[derive(Serialize, Deserialize)]
#[serde(tag = "request", deny_unknown_fields)]
pub enum GroupRequest {
    /// Adds a group.
    #[serde(rename = "group.add")]
    Add(NewGroup),
    /// Changes the name or comment of a group.
    #[serde(rename = "group.edit")]
    Edit {
        /// The group's Windows name.
        name: String,
        /// The new name; `None` keeps the name.
        new_name: Option<String>,
        /// The new comment; `None` keeps the comment.
        comment: Option<String>,
    },
    /// Queries the members of the corresponding UNIX group in a directory, after making these changes.
    #[serde(rename = "group.members")]
    Members {
        /// The group's Windows name.
        name: String,
        /// Users to add.
        add: Vec<String>,
        /// Users to remove.
        remove: Vec<String>,
    },
    /// Removes a group; the UNIX group is kept.
    #[serde(rename = "group.delete")]
    Delete {
        /// The group's Windows name.
        name: String,
    },
    /// Lists up to [`LIST_PAGE`] groups.
    #[serde(rename = "group.list")]
    List {
        /// The SID after which the list starts.
        after: Option<String>,
    },
    /// Imports up to [`IMPORT_BATCH`] groups of another server.
    #[serde(rename = "group.import")]
    Import {
        /// The groups.
        groups: Vec<NewGroup>,
        /// Only report what would be done.
        dry_run: bool,
    },
}

/// An answer to a request.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Response<T> {
    /// The request succeeded.
    Ok(T),
    /// The request failed, with the reason.
    Error(String),
}

/// The answer to an account request.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum UserReply {
    /// The change was made, with an optional warning.
    Done(Option<String>),
    /// The account, if it exists.
    Found(Option<AccountView>),
    /// The accounts, in the order of their names.
    List(Vec<AccountView>),
    /// All account policies.
    Policies(Vec<PolicyView>),
    /// The SID of this machine.
    MachineSid(String),
    /// The result for each account or group of an import, in request order.
    Imported(Vec<Outcome>),
    /// The groups, in the order of their SIDs.
    Groups(Vec<GroupView>),
    /// The members of a group, in the order of their names.
    Members(Vec<String>),
    /// The result of a migration.
    Migrated(Box<MigrationOutcome>),
    /// Accounts, in the order of their names.
    Exported(Vec<Migrated>),
    /// The ACLs of shares, in the order of the shares' names.
    ShareAcls(Vec<ShareAcl>),
}

/// An account policy.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PolicyView {
    /// The policy's name as in Samba's `pdbedit -P`.
    pub name: String,
    /// The policy's value.
    pub value: i64,
    /// Explanation of the value.
    pub about: String,
}

/// The program that answers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Version {
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// State of the sandbox: `on`, `off` with the reason, or what is missing.
    #[serde(default)]
    pub sandbox: String,
}
