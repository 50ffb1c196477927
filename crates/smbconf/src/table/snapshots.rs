//! Previous versions: where snapshots are and how they are named, as for Samba's module shadow_copy2.

use std::path::PathBuf;
use std::sync::Arc;

use server::policy::snapshots::{Automatic, Format, Prefix, Schedule, Snapshots, Sort};

use super::fold_name;
use super::share::VFS_OBJECTS;
use super::{BOOL, Kind, PATH, Parameter, TEXT, share};
use crate::problem::{Code, warning};
use crate::reader::{Reader, ValueReader};
use crate::regular_expression::RegularExpression;
use crate::share::modules::are_asked_for;
use accounts::when;

const EVERYWHERE: Parameter =
    share("shadow:snapdirseverywhere", BOOL, "no", "Any directory may contain its own snapshots in shadow:snapdir.")
        .read_by_others();

const MOUNT_POINT: Parameter =
    share("shadow:mountpoint", PATH, "", "The mount point of the file system; empty: detected.").read_by_others();

const BASE: Parameter =
    share("shadow:basedir", PATH, "", "The directory that was snapshotted; empty: the mount point.").read_by_others();

const SHARE_PATH: Parameter =
    share("shadow:snapsharepath", PATH, "", "The share's path in a snapshot, unless shadow:basedir is set.")
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
    share("shadow:sort", TEXT, "desc", "The order of listed snapshots: desc, asc, or else that of the directory.")
        .read_by_others();

const CROSS_MOUNT_POINTS: Parameter = share(
    "shadow:crossmountpoints",
    BOOL,
    "no",
    "With snapdirseverywhere: also look for snapshots above the mount point.",
)
.read_by_others();

const PREFIX: Parameter =
    share("shadow:snapprefix", TEXT, "", "A POSIX basic regular expression for what precedes shadow:delimiter.")
        .read_by_others();

const DELIMITER: Parameter =
    share("shadow:delimiter", TEXT, "_GMT", "The start of shadow:format, by which the prefix ends.").read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    share(
        "shadow:snapdir",
        PATH,
        ".snapshots",
        "The directory that contains the snapshots, relative to the mount point.",
    )
    .reads(|value, share| share.snapshots = snapshots(value)),
    share(
        "frevo:snapshots",
        Kind::Choice(&[&["no", "false", "0", "off"], &["auto", "yes", "true", "1", "on"]]),
        "no",
        "auto: previous versions are found in .snapshots and .zfs/snapshot of the share and of the file system's root, \
         in directories that only root can change. The default with the module snapper. Not in Samba.",
    )
    .reads(|value, share| share.automatic_snapshots = automatic(&value)),
    share(
        "frevo:snapshot schedule",
        TEXT,
        "",
        "How many snapshots `frevo snapshot run` keeps of each period, such as hourly 24, daily 7, weekly 4, monthly \
         12, yearly 2. Not in Samba.",
    )
    .reads(|value, share| share.snapshot_schedule = schedule(&value)),
    EVERYWHERE,
    MOUNT_POINT,
    BASE,
    SHARE_PATH,
    FORMAT,
    SSCANF,
    LOCAL_TIME,
    ORDER,
    CROSS_MOUNT_POINTS,
    PREFIX,
    DELIMITER,
    share("shadow:fixinodes", BOOL, "no", "Give files in snapshots different inode numbers.")
        .accepted("a snapshot is a volume of its own, so its files never conflict with the current ones"),
];

/// `frevo:snapshots`, which the module snapper turns on unless it is set.
fn automatic(value: &ValueReader<'_>) -> Option<Automatic> {
    let snapper = || are_asked_for(&value.section, "snapper");
    let wanted = if value.is_set() { value.choice() == "auto" } else { snapper() };
    wanted.then_some(Automatic { local: when::utc_offset })
}

/// `frevo:snapshot schedule`.
fn schedule(value: &ValueReader<'_>) -> Schedule {
    if value.is_set_in_share() && value.section.share.is_some_and(|share| fold_name(&share.name) == "homes") {
        let message = format!("`{}` has no effect in [homes]: no snapshots are created for it", value.name());
        let remedy = "set it in a share of the directory above all home directories";
        value.report(warning(Code::WrongSection, message).remedy(remedy));
    }
    Schedule::parse(&value.choice()).unwrap_or_else(|part| {
        value.bad_value(&part, "hourly, daily, weekly, monthly or yearly, each with a number up to 10000");
        Schedule::default()
    })
}

/// `vfs objects = shadow_copy2`: the location of previous versions.
fn snapshots(directory: ValueReader<'_>) -> Option<Arc<Snapshots>> {
    let section = &directory.section;
    let wanted = section.value(&VFS_OBJECTS).list().iter().any(|name| fold_name(name) == "shadow_copy2");
    let path = |value: ValueReader<'_>| Some(PathBuf::from(value.text())).filter(|path| !path.as_os_str().is_empty());
    let base = path(section.value(&BASE));
    let folder = path(directory).unwrap_or_default();
    let snapshots = Snapshots {
        // As in Samba, an absolute directory is the only one.
        everywhere: section.value(&EVERYWHERE).boolean() && folder.is_relative(),
        directory: folder,
        mount_point: path(section.value(&MOUNT_POINT)),
        share_path: path(section.value(&SHARE_PATH)).filter(|_| base.is_none()),
        base,
        cross_mount_points: section.value(&CROSS_MOUNT_POINTS).boolean(),
        format: format(section),
        prefix: prefix(section),
        local: section.value(&LOCAL_TIME).boolean().then_some(when::utc_offset),
        sort: match section.value(&ORDER).choice().as_str() {
            "asc" => Sort::Ascending,
            "desc" => Sort::Descending,
            _ => Sort::Unsorted,
        },
    };
    wanted.then(|| Arc::new(snapshots))
}

fn format(section: &Reader<'_>) -> Format {
    // Variables of smb.conf are not expanded here: the percent signs are those of strftime.
    let value = section.value(&FORMAT);
    Format::parse(&value.choice(), section.value(&SSCANF).boolean()).unwrap_or_else(|conversion| {
        let allowed = "%Y %y %m %d %j %H %M %S %s %F %T %R %b %B %a %A %%, or with shadow:sscanf %ld";
        value.bad_value(&conversion, allowed);
        Format::token()
    })
}

fn prefix(section: &Reader<'_>) -> Option<Prefix> {
    let (value, delimiter) = (section.value(&PREFIX), section.value(&DELIMITER).choice().into_bytes());
    if !value.is_set() {
        return None;
    }
    let text = value.choice();
    match RegularExpression::new(&text) {
        Ok(pattern) => Some(Prefix { pattern: Arc::new(pattern), delimiter }),
        Err(fault) => {
            value.bad_value(&text, &format!("a POSIX basic regular expression ({fault})"));
            None
        }
    }
}
