//! File names, attributes, streams, and when data reaches the disk.

use super::{BOOL, BOOL_OR_AUTO, Kind, PATTERNS, Parameter, TEXT, global, share};

const READ_ONLY: Kind =
    Kind::Choice(&[&["yes", "true", "on", "1"], &["no", "false", "off", "0"], &["permissions", "perms"]]);

pub(super) static TABLE: &[Parameter] = &[
    share("case sensitive", BOOL_OR_AUTO, "auto", "Distinguish upper and lower case; auto means no.")
        .also(&["case sig names"]),
    share("follow symlinks", BOOL, "yes", "Follow symbolic links that stay inside the share."),
    share("wide links", BOOL, "no", "Follow symbolic links out of the share; see allow insecure wide links."),
    global("allow insecure wide links", BOOL, "no", "Allow wide links even with unix extensions."),
    global("smb1 unix extensions", BOOL, "yes", "Only disables wide links, as in Samba; SMB1 is not served.")
        .also(&["unix extensions"]),
    share("hide dot files", BOOL, "yes", "Show files whose names begin with a dot as hidden."),
    share("hide files", PATTERNS, "", "Show files with matching names as hidden."),
    share("veto files", PATTERNS, "", "Hide files with matching names from clients completely."),
    share("delete veto files", BOOL, "no", "Delete a directory together with remaining vetoed files."),
    share("hide unreadable", BOOL, "no", "Omit files that the user cannot read from listings."),
    share("hide special files", BOOL, "no", "Omit devices, sockets and FIFOs from listings."),
    share("store dos attributes", BOOL, "yes", "Store DOS attributes and the creation time in user.DOSATTRIB."),
    share("map archive", BOOL, "yes", "Store ARCHIVE in the owner's x bit if attributes are not stored."),
    share("map system", BOOL, "no", "Store SYSTEM in the group's x bit if attributes are not stored."),
    share("map hidden", BOOL, "no", "Store HIDDEN in the others' x bit if attributes are not stored."),
    share("map readonly", READ_ONLY, "no", "Show a file that its owner cannot write as READONLY."),
    share("delete readonly", BOOL, "no", "Allow deletion of READONLY files."),
    share("dos filemode", BOOL, "no", "Let users with write access to a file change its permissions."),
    share(
        "streams_xattr:prefix",
        TEXT,
        "user.DosStream.",
        "Name prefix of the attributes that store alternate streams.",
    ),
    share("streams_xattr:store_stream_type", BOOL, "yes", "Append :$DATA to the names of these attributes."),
    share("ea support", BOOL, "yes", "Store extended attributes in user.* attributes."),
    share("strict sync", BOOL, "yes", "Complete a client's flush only after the data is on disk."),
    share("sync always", BOOL, "no", "Complete each write only after the data is on disk."),
    share(
        "smbd:writetimeupdatedelay",
        Kind::Integer(0, i32::MAX as i64),
        "0",
        "Microseconds until a write updates the write time; Samba: 2000000.",
    ),
    share("strict allocate", BOOL, "no", "Reserve disk space when a client sets the allocation size."),
];
