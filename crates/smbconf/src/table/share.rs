//! Shares and access to them.

use super::{BOOL, COUNT, Kind, LIST, OCTAL, PATH, Parameter, TEXT, share};

const CSC: Kind = Kind::Choice(&[&["manual"], &["documents"], &["programs"], &["disable"]]);

/// Values of `server smb encrypt`, `server signing` and similar parameters.
pub(super) const LEVEL: Kind = Kind::Choice(&[
    &["default"],
    &["off", "no", "false", "0", "disabled"],
    &["if_required", "yes", "true", "1", "on", "enabled", "auto"],
    &["desired"],
    &["required", "mandatory", "force", "forced", "enforced"],
]);

pub(super) static TABLE: &[Parameter] = &[
    share("path", PATH, "", "The shared directory; an absolute path that may contain % variables.")
        .also(&["directory"]),
    share("comment", TEXT, "", "The text next to the share's name in a list of shares."),
    share("browseable", BOOL, "yes", "Show the share in lists of shares.").also(&["browsable"]),
    share("available", BOOL, "yes", "Let clients connect to the share."),
    share("read only", BOOL, "yes", "Refuse all changes through the share, except by users in write list.").also(&[
        "!writeable",
        "!writable",
        "!write ok",
    ]),
    share("guest ok", BOOL, "no", "Let guests use the share.").also(&["public"]),
    share("guest only", BOOL, "no", "Treat every user as a guest; needs guest ok.").also(&["only guest"]),
    share("valid users", LIST, "", "Only these users, and members of these @groups, may connect."),
    share("invalid users", LIST, "", "These users, and members of these @groups, may not connect."),
    share("read list", LIST, "", "These users may only read, regardless of read only."),
    share("write list", LIST, "", "These users may write, regardless of read only."),
    share("admin users", LIST, "", "These users do everything in the share as root."),
    share("force user", TEXT, "", "Do everything in the share as this UNIX user."),
    share("force group", TEXT, "", "The primary UNIX group in the share; +group: only for its members.")
        .also(&["group"]),
    share("hosts allow", LIST, "", "Only these addresses and networks may connect; in [global], to any share.")
        .also(&["allow hosts"]),
    share("hosts deny", LIST, "", "These addresses and networks may not connect, unless they are in hosts allow.")
        .also(&["deny hosts"]),
    share("max connections", COUNT, "0", "Maximum number of clients connected to the share; 0: no limit."),
    share("create mask", OCTAL, "0744", "Permission bits that are allowed in a new file.").also(&["create mode"]),
    share("force create mode", OCTAL, "0000", "Permission bits that are always set in a new file."),
    share("directory mask", OCTAL, "0755", "Permission bits that are allowed in a new directory.")
        .also(&["directory mode"]),
    share("force directory mode", OCTAL, "0000", "Permission bits that are always set in a new directory."),
    share("server smb encrypt", LEVEL, "default", "Encryption: off, if requested by the client, desired, or required.")
        .also(&["smb encrypt"]),
    share("csc policy", CSC, "manual", "The files that clients may cache for offline use."),
    share("volume", TEXT, "", "The volume label that clients see; empty: the share's name."),
    share("fstype", TEXT, "NTFS", "The file system name that clients see."),
    share("copy", TEXT, "", "Start with the parameters of this share, which must be defined earlier in the file."),
    share("include", PATH, "", "Read this file here; a relative path starts at the directory of the including file."),
    share("vfs objects", LIST, "", "Samba's modules, interpreted as requests for their features.")
        .also(&["vfs object"]),
    share("frevo:without", LIST, "", "Modules of vfs objects that the share may be served without. Not in Samba."),
];
