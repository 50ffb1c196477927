//! What the administrator decided, validated and immutable: built once from the configuration, swapped whole on reload.
//!
//! Fields carry the names of the smb.conf parameters that they come from.

pub mod limits;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use limits::Limits;

use crate::vfs::Identity;

/// The whole configuration of a running server.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `netbios name`: how the server calls itself, upper case.
    pub netbios_name: String,
    /// `workgroup`: the domain part that accounts of this server are shown with, upper case.
    pub workgroup: String,
    /// `server string`: the comment shown when browsing.
    pub server_string: String,
    /// `server min protocol`.
    pub server_min_protocol: Protocol,
    /// `server max protocol`.
    pub server_max_protocol: Protocol,
    /// `server signing`.
    pub server_signing: Signing,
    /// `server smb encrypt` of the global section, the default of every share.
    pub server_smb_encrypt: Encryption,
    /// `smb2 max read`, bytes.
    pub smb2_max_read: u32,
    /// `smb2 max write`, bytes.
    pub smb2_max_write: u32,
    /// `smb2 max trans`, bytes.
    pub smb2_max_trans: u32,
    /// `smb2 max credits`: how many credits one connection may hold.
    pub smb2_max_credits: u16,
    /// `map to guest`.
    pub map_to_guest: MapToGuest,
    /// `guest account`, resolved; `None` where the host has no such user: then nobody is a guest.
    pub guest: Option<Guest>,
    /// `restrict anonymous`: 0 lets anonymous callers list shares, 2 lets them connect to nothing.
    pub restrict_anonymous: u8,
    /// The shares by folded name ([`Policy::share`] looks one up), IPC$ not among them.
    pub shares: BTreeMap<String, Arc<Share>>,
    /// How much a client may make the server hold.
    pub limits: Limits,
}

impl Policy {
    /// The share called `name`, compared without regard to case.
    pub fn share(&self, name: &str) -> Option<&Arc<Share>> {
        self.shares.get(&fold(name))
    }
}

/// The key of a share's name: names are compared without regard to case.
pub fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// The identity behind anonymous and failed logons where the configuration lets them in.
#[derive(Clone, Debug)]
pub struct Guest {
    /// `guest account`.
    pub name: String,
    /// The UNIX user.
    pub identity: Arc<Identity>,
}

/// One share.
#[derive(Clone, Debug)]
pub struct Share {
    /// The section's name, as written.
    pub name: String,
    /// `path`, absolute.
    pub path: std::path::PathBuf,
    /// `comment`.
    pub comment: String,
    /// `browseable`: shown in listings.
    pub browseable: bool,
    /// `available`: may be connected to.
    pub available: bool,
    /// `read only`.
    pub read_only: bool,
    /// `guest ok`.
    pub guest_ok: bool,
    /// `valid users`; empty lets everybody in.
    pub valid_users: Vec<UserPattern>,
    /// `invalid users`.
    pub invalid_users: Vec<UserPattern>,
    /// `read list`: may only read, whatever `read only` says.
    pub read_list: Vec<UserPattern>,
    /// `write list`: may write, whatever `read only` says.
    pub write_list: Vec<UserPattern>,
    /// `admin users`: act as root.
    pub admin_users: Vec<UserPattern>,
    /// `force user`, resolved.
    pub force_user: Option<Arc<Identity>>,
    /// `force group`, resolved to its gid.
    pub force_group: Option<u32>,
    /// `create mask`.
    pub create_mask: u32,
    /// `force create mode`.
    pub force_create_mode: u32,
    /// `directory mask`.
    pub directory_mask: u32,
    /// `force directory mode`.
    pub force_directory_mode: u32,
    /// `case sensitive`: `auto` and `no` are both Windows's way here.
    pub case_sensitive: bool,
    /// `follow symlinks`.
    pub follow_symlinks: bool,
    /// `wide links`.
    pub wide_links: bool,
    /// `hide dot files`.
    pub hide_dot_files: bool,
    /// `hide files`.
    pub hide_files: Vec<String>,
    /// `veto files`.
    pub veto_files: Vec<String>,
    /// `delete veto files`.
    pub delete_veto_files: bool,
    /// `hide unreadable`.
    pub hide_unreadable: bool,
    /// `hide special files`.
    pub hide_special_files: bool,
    /// `store dos attributes`.
    pub store_dos_attributes: bool,
    /// `map archive`: owner's x bit, where no attributes are stored.
    pub map_archive: bool,
    /// `map system`: group's x bit.
    pub map_system: bool,
    /// `map hidden`: others' x bit.
    pub map_hidden: bool,
    /// `map read only` = yes: a file without the owner's w bit shows READONLY.
    pub map_read_only: bool,
    /// `delete readonly`: files with READONLY may be deleted.
    pub delete_readonly: bool,
    /// `dos filemode`: who may write a file may also change its mode.
    pub dos_filemode: bool,
    /// `ea support`.
    pub ea_support: bool,
    /// `strict sync`: FLUSH reaches the disk. Off means that an acknowledged flush may be lost in a crash.
    pub strict_sync: bool,
    /// `sync always`: each write is on disk before its answer.
    pub sync_always: bool,
    /// `strict allocate`: allocation sizes asked for are really reserved.
    pub strict_allocate: bool,
    /// `server smb encrypt` of the share.
    pub server_smb_encrypt: Encryption,
    /// `max connections`: 0 is no limit.
    pub max_connections: u32,
}

/// A name in a list of users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserPattern {
    /// A user's name.
    User(String),
    /// `@group`, `+group` or `&group`: the members of a UNIX group.
    Group(String),
}

/// A dialect, as `server min protocol` and `server max protocol` name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub enum Protocol {
    Smb2_02,
    Smb2_10,
    Smb3_00,
    Smb3_02,
    Smb3_11,
}

/// `server signing`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signing {
    /// Signed when the client asks for it ([MS-SMB2] knows no way to refuse).
    Enabled,
    /// Every request of an authenticated user is signed or sealed.
    Required,
}

/// `server smb encrypt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// Not offered.
    Off,
    /// Offered: a client that wants it gets it.
    Enabled,
    /// Asked for where the client can do it.
    Desired,
    /// Access without it is refused.
    Required,
}

/// `map to guest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapToGuest {
    /// A failed logon is a failed logon.
    Never,
    /// An unknown user becomes the guest; a wrong password is refused.
    BadUser,
    /// A wrong password becomes the guest, too.
    BadPassword,
}
