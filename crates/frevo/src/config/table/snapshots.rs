//! Previous versions: where snapshots are and what they are called, as Samba's module shadow_copy2 is told.

use super::{BOOL, Kind, PATH, Parameter, TEXT, share};

const SORT: Kind = Kind::Choice(&[&["desc"], &["asc"], &["none", "no"]]);

pub(super) static TABLE: &[Parameter] = &[
    share(
        "shadow:snapdir",
        PATH,
        ".snapshots",
        "The directory that holds one for each snapshot; from the mount point.",
    ),
    share("shadow:snapdirseverywhere", BOOL, "no", "Each directory may hold snapshots of itself, in shadow:snapdir."),
    share("shadow:mountpoint", PATH, "", "Where the file system is mounted; empty: found out."),
    share("shadow:basedir", PATH, "", "The directory that the snapshots are of; empty: the mount point."),
    share("shadow:snapsharepath", PATH, "", "Where in a snapshot the share is; empty: as beneath shadow:basedir."),
    share("shadow:format", TEXT, "@GMT-%Y.%m.%d-%H.%M.%S", "What a snapshot is called, in numbers of strftime."),
    share("shadow:sscanf", BOOL, "no", "shadow:format is that of sscanf, with one number: seconds since 1970."),
    share("shadow:localtime", BOOL, "no", "Names of snapshots are in local time."),
    share("shadow:sort", SORT, "desc", "In which order clients are told of snapshots."),
    share("shadow:crossmountpoints", BOOL, "no", "Look for snapshots above a mount point, too.")
        .accepted("directories above a file are looked at up to the share's own, whatever is mounted there"),
    share("shadow:fixinodes", BOOL, "no", "Give files of snapshots other inode numbers.")
        .accepted("a file of a snapshot shows the inode number that it has"),
    share("shadow:snapprefix", TEXT, "", "A regular expression that names of snapshots begin with.")
        .unserved("names of snapshots with several prefixes"),
    share("shadow:delimiter", TEXT, "_GMT", "What parts it from the time.")
        .unserved("names of snapshots with several prefixes"),
];
