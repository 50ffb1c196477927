//! Previous versions: where snapshots are and how they are named, as for Samba's module shadow_copy2.

use super::{BOOL, Kind, PATH, Parameter, TEXT, share};

const SORT: Kind = Kind::Choice(&[&["desc"], &["asc"], &["none", "no"]]);

pub(super) static TABLE: &[Parameter] = &[
    share(
        "shadow:snapdir",
        PATH,
        ".snapshots",
        "The directory that contains the snapshots, relative to the mount point.",
    ),
    share("shadow:snapdirseverywhere", BOOL, "no", "Any directory may contain its own snapshots in shadow:snapdir."),
    share("shadow:mountpoint", PATH, "", "The mount point of the file system; empty: detected."),
    share("shadow:basedir", PATH, "", "The directory that was snapshotted; empty: the mount point."),
    share("shadow:snapsharepath", PATH, "", "The share's path in a snapshot; empty: the same as below shadow:basedir."),
    share("shadow:format", TEXT, "@GMT-%Y.%m.%d-%H.%M.%S", "The names of snapshots, in the format of strftime."),
    share("shadow:sscanf", BOOL, "no", "shadow:format is an sscanf format with one number, seconds since 1970."),
    share("shadow:localtime", BOOL, "no", "Names of snapshots are in local time."),
    share("shadow:sort", SORT, "desc", "The order in which snapshots are listed to clients."),
    share("shadow:crossmountpoints", BOOL, "no", "Also look for snapshots above a mount point.")
        .accepted("directories above a file are always searched up to the root of the share"),
    share("shadow:fixinodes", BOOL, "no", "Give files in snapshots different inode numbers.")
        .accepted("a file in a snapshot keeps its inode number"),
    share("shadow:snapprefix", TEXT, "", "A regular expression for the start of snapshot names.")
        .unserved("snapshot names with several prefixes"),
    share("shadow:delimiter", TEXT, "_GMT", "The text between the prefix and the time.")
        .unserved("snapshot names with several prefixes"),
];
