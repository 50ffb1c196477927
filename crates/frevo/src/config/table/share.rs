//! What a share is, and who may do what in it.

use super::{BOOL, COUNT, Kind, LIST, OCTAL, PATH, Parameter, TEXT, share};

const CSC: Kind = Kind::Choice(&[&["manual"], &["documents"], &["programs"], &["disable"]]);

/// `server smb encrypt`, `server signing` and the like.
pub(super) const LEVEL: Kind = Kind::Choice(&[
    &["default"],
    &["off", "no", "false", "0", "disabled"],
    &["if_required", "yes", "true", "1", "on", "enabled", "auto"],
    &["desired"],
    &["required", "mandatory", "force", "forced", "enforced"],
]);

pub(super) static TABLE: &[Parameter] =
    &[
        share("path", PATH, "", "The directory that the share shows; absolute, and % variables may stand in it.")
            .also(&["directory"]),
        share("comment", TEXT, "", "The text beside the share's name in a list of shares."),
        share("browseable", BOOL, "yes", "Show the share in lists of shares.").also(&["browsable"]),
        share("available", BOOL, "yes", "Let clients connect to the share."),
        share("read only", BOOL, "yes", "Refuse all changes through the share, save by who is in its write list.")
            .also(&["!writeable", "!writable", "!write ok"]),
        share("guest ok", BOOL, "no", "Let guests use the share.").also(&["public"]),
        share("guest only", BOOL, "no", "Make everybody a guest here; needs guest ok.").also(&["only guest"]),
        share("valid users", LIST, "", "Only these users, and members of these @groups, may connect."),
        share("invalid users", LIST, "", "These users, and members of these @groups, may not connect."),
        share("read list", LIST, "", "These users may only read, whatever read only says."),
        share("write list", LIST, "", "These users may write, whatever read only says."),
        share("admin users", LIST, "", "These users do everything in the share as root."),
        share("force user", TEXT, "", "Do everything in the share as this UNIX user."),
        share("force group", TEXT, "", "The primary UNIX group in the share; +group: only for users who are in it.")
            .also(&["group"]),
        share("hosts allow", LIST, "", "Only these addresses and networks may connect; in [global], to any share.")
            .also(&["allow hosts"]),
        share("hosts deny", LIST, "", "These addresses and networks may not connect, unless hosts allow has them.")
            .also(&["deny hosts"]),
        share("max connections", COUNT, "0", "How many clients may be connected to the share at a time; 0: no limit."),
        share("create mask", OCTAL, "0744", "Permission bits that a new file may have at most.").also(&["create mode"]),
        share("force create mode", OCTAL, "0000", "Permission bits that a new file always gets."),
        share("directory mask", OCTAL, "0755", "Permission bits that a new directory may have at most.")
            .also(&["directory mode"]),
        share("force directory mode", OCTAL, "0000", "Permission bits that a new directory always gets."),
        share("server smb encrypt", LEVEL, "default", "Encryption: off, if the client wants it, desired, or required.")
            .also(&["smb encrypt"]),
        share("csc policy", CSC, "manual", "What clients may keep to work with while the server is away."),
        share("volume", TEXT, "", "The volume label that clients see; empty: the share's name."),
        share("fstype", TEXT, "NTFS", "The name of the file system that clients see."),
        share("copy", TEXT, "", "Start with the parameters of this share, which stands earlier in the file."),
        share("include", PATH, "", "Read this file here; a relative path starts at the folder of the including file."),
        share("vfs objects", LIST, "", "Samba's modules, understood as the features that they ask for.")
            .also(&["vfs object"]),
        share("frevo:without", LIST, "", "Modules of vfs objects that the share is served without; not in Samba."),
    ];
