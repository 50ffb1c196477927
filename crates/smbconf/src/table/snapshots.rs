//! Previous versions: where snapshots are and how they are named, as for Samba's module shadow_copy2.

use std::path::PathBuf;
use std::sync::Arc;

use server::policy::snapshots::{Format, Snapshots, Sort};

use super::fold_name;
use super::share::VFS_OBJECTS;
use super::{BOOL, Kind, PATH, Parameter, TEXT, share};
use crate::problem::{Code, error};
use crate::reader::{Reader, ValueReader};
use accounts::when;

const SORT: Kind = Kind::Choice(&[&["desc"], &["asc"], &["none", "no"]]);

const EVERYWHERE: Parameter =
    share("shadow:snapdirseverywhere", BOOL, "no", "Any directory may contain its own snapshots in shadow:snapdir.")
        .read_by_others();

const MOUNT_POINT: Parameter =
    share("shadow:mountpoint", PATH, "", "The mount point of the file system; empty: detected.").read_by_others();

const BASE: Parameter =
    share("shadow:basedir", PATH, "", "The directory that was snapshotted; empty: the mount point.").read_by_others();

const SHARE_PATH: Parameter =
    share("shadow:snapsharepath", PATH, "", "The share's path in a snapshot; empty: the same as below shadow:basedir.")
        .read_by_others();

const FORMAT: Parameter =
    share("shadow:format", TEXT, "@GMT-%Y.%m.%d-%H.%M.%S", "The names of snapshots, in the format of strftime.")
        .read_by_others();

const SSCANF: Parameter =
    share("shadow:sscanf", BOOL, "no", "shadow:format is an sscanf format with one number, seconds since 1970.")
        .read_by_others();

const LOCAL_TIME: Parameter =
    share("shadow:localtime", BOOL, "no", "Names of snapshots are in local time.").read_by_others();

const ORDER: Parameter =
    share("shadow:sort", SORT, "desc", "The order in which snapshots are listed to clients.").read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    share(
        "shadow:snapdir",
        PATH,
        ".snapshots",
        "The directory that contains the snapshots, relative to the mount point.",
    )
    .reads(|value, share| share.snapshots = snapshots(value)),
    EVERYWHERE,
    MOUNT_POINT,
    BASE,
    SHARE_PATH,
    FORMAT,
    SSCANF,
    LOCAL_TIME,
    ORDER,
    share("shadow:crossmountpoints", BOOL, "no", "Also look for snapshots above a mount point.")
        .accepted("directories above a file are always searched up to the root of the share"),
    share("shadow:fixinodes", BOOL, "no", "Give files in snapshots different inode numbers.")
        .accepted("a file in a snapshot keeps its inode number"),
    share("shadow:snapprefix", TEXT, "", "A regular expression for the start of snapshot names.")
        .unserved("snapshot names with several prefixes"),
    share("shadow:delimiter", TEXT, "_GMT", "The text between the prefix and the time.")
        .unserved("snapshot names with several prefixes"),
];

/// `vfs objects = shadow_copy2`: the location of previous versions.
fn snapshots(directory: ValueReader<'_>) -> Option<Arc<Snapshots>> {
    let section = &directory.section;
    let wanted = section.value(&VFS_OBJECTS).list().iter().any(|name| fold_name(name) == "shadow_copy2");
    let path = |value: ValueReader<'_>| Some(PathBuf::from(value.text())).filter(|path| !path.as_os_str().is_empty());
    let snapshots = Snapshots {
        directory: path(directory).unwrap_or_default(),
        everywhere: section.value(&EVERYWHERE).boolean(),
        mount_point: path(section.value(&MOUNT_POINT)),
        base: path(section.value(&BASE)),
        share_path: path(section.value(&SHARE_PATH)),
        format: format(section),
        local: section.value(&LOCAL_TIME).boolean().then_some(when::utc_offset),
        sort: match section.value(&ORDER).choice().as_str() {
            "asc" => Sort::Ascending,
            "none" => Sort::Unsorted,
            _ => Sort::Descending,
        },
    };
    if wanted && snapshots.everywhere && snapshots.directory.is_absolute() {
        let problem =
            error(Code::Contradiction, "`shadow:snapdirseverywhere` does not work with an absolute `shadow:snapdir`");
        directory.report(problem.remedy("set a name relative to each directory, such as .snapshots"));
    }
    wanted.then(|| Arc::new(snapshots))
}

fn format(section: &Reader<'_>) -> Format {
    // Variables of smb.conf are not expanded here: the percent signs are those of strftime.
    let value = section.value(&FORMAT);
    Format::parse(&value.choice(), section.value(&SSCANF).boolean()).unwrap_or_else(|conversion| {
        let allowed = "%Y %y %m %d %j %H %M %S %s %F %T %R %%, or with shadow:sscanf %ld";
        value.bad_value(&conversion, allowed);
        Format::token()
    })
}
