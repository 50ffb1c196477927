//! Short names, times, sizes, reads and writes, and other features of file servers.

use super::locks::IN_MEMORY;
use super::{BOOL, BYTES, COMMANDS, COUNT, Kind, LIST, NUMBER, PATH, PATTERNS, Parameter, TEXT, global, share};

const MANGLING: &str = "another form of short (8.3) names";
const QUOTA: &str = "quotas and space limits";
const SPOTLIGHT: &str = "Spotlight search";
const OWN_IO: &str =
    "Frevo schedules reads and writes itself: at once if the kernel has the data, otherwise on a worker thread";

pub(crate) const PREEXEC: Parameter =
    share("preexec", TEXT, "", "A command to run at each connect.").also(&["exec"]).unserved(COMMANDS);

pub(crate) const PREEXEC_CLOSE: Parameter =
    share("preexec close", BOOL, "no", "Refuse the connect if preexec fails.").unserved(COMMANDS);

pub(crate) const ROOT_PREEXEC: Parameter =
    share("root preexec", TEXT, "", "A command to run at each connect, as root.").unserved(COMMANDS);

pub(crate) const ROOT_PREEXEC_CLOSE: Parameter =
    share("root preexec close", BOOL, "no", "Refuse the connect if root preexec fails.").unserved(COMMANDS);

pub(crate) const QUOTAS: Parameter = share(
    "frevo:quotas",
    BOOL,
    "no",
    "Keep the capability for quotas, which free space and administrators need. Read at the start only. Not in Samba.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    share(
        "mangled names",
        Kind::Choice(&[&["no", "false", "off", "0"], &["illegal"], &["yes", "true", "on", "1"]]),
        "no",
        "Provide short (8.3) names for long names; Samba's default is illegal, which is not needed.",
    )
    // Names that Windows cannot show are mapped, so nothing is left for `illegal` to mangle.
    .reads(|value, share| share.names.mangled_names = value.choice() == "yes"),
    share("mangling char", TEXT, "~", "The character that marks a short name.").unserved(MANGLING),
    global("mangling method", TEXT, "hash2", "The method to generate short names.").unserved(MANGLING),
    global("mangle prefix", NUMBER, "1", "The number of letters of a name that its short name keeps.")
        .unserved(MANGLING),
    global("stat cache", BOOL, "yes", "Cache the spelling of names on disk.").accepted(IN_MEMORY),
    global("max stat cache size", NUMBER, "512", "Size of the stat cache.").accepted(IN_MEMORY),
    share("directory name cache size", NUMBER, "100", "Names cached per listing.").accepted(IN_MEMORY),
    global("getwd cache", BOOL, "yes", "Cache the working directory.")
        .accepted("files are opened relative to the share's root, not to a working directory"),
    share("dont descend", LIST, "", "Directories that are shown as empty.").unserved("folders shown as empty"),
    // Times and sizes.
    share("dos filetimes", BOOL, "yes", "Let users with write access to a file change its times.")
        .unserved("the right to change times"),
    share("dos filetime resolution", BOOL, "no", "Round times to two seconds.")
        .accepted("clients that need rounded times do not support SMB 2"),
    share("fake directory create times", BOOL, "no", "Show 1980 as the creation time of directories.")
        .accepted("creation times are stored, so make(1) on a client gets correct ones"),
    QUOTAS,
    share("allocation roundup size", BYTES, "0", "Round allocation sizes up to a multiple of this.").unserved(QUOTA),
    share("block size", NUMBER, "1024", "The block size for reported disk sizes.")
        .accepted("sizes are reported in the file system's block size"),
    share("dfree command", TEXT, "", "A command that reports the free space.").unserved(COMMANDS),
    share("dfree cache time", NUMBER, "0", "Seconds for which its result is cached.")
        .accepted("it is used only with dfree command"),
    global("max disk size", COUNT, "0", "Report at most this many MiB as the disk size; 0: no limit.")
        .reads(|value, global| global.policy.max_disk_size = value.number().unwrap_or(0)),
    global("get quota command", TEXT, "", "A command that reports quotas.").unserved(COMMANDS),
    global("set quota command", TEXT, "", "A command that sets quotas.").unserved(COMMANDS),
    share("volume serial number", TEXT, "-1", "The serial number of the volume.")
        .unserved("a configurable volume serial number"),
    // Reading and writing.
    share("use sendfile", BOOL, "yes", "Send file content without a copy where possible; Samba's default is no.")
        .reads(|value, share| share.use_sendfile = value.boolean()),
    share("aio read size", NUMBER, "1", "Run reads of at least this size asynchronously.").accepted(OWN_IO),
    share("aio write size", NUMBER, "1", "Run writes of at least this size asynchronously.").accepted(OWN_IO),
    share("aio write behind", PATTERNS, "", "Names of files whose writes are confirmed before they are done.")
        .accepted("a write is confirmed when it is done"),
    global("aio max threads", NUMBER, "100", "Maximum number of threads for asynchronous I/O.").accepted(OWN_IO),
    global("min receivefile size", BYTES, "0", "Use splice for writes of at least this size.").accepted(OWN_IO),
    share("smbd async dosmode", BOOL, "no", "Read attributes of a listing in parallel.").accepted(OWN_IO),
    share("smbd max async dosmode", NUMBER, "0", "Maximum number of parallel attribute reads.").accepted(OWN_IO),
    share("smbd max xattr size", NUMBER, "65536", "Maximum size of an extended attribute.")
        .accepted("the file system limits the size of an attribute"),
    global("use mmap", BOOL, "yes", "Map the databases into memory.").accepted(IN_MEMORY),
    // Other.
    share("strict rename", BOOL, "no", "Refuse to rename a directory that contains open files.")
        .unserved("refusal to rename directories with open files"),
    share(
        "check parent directory delete on close",
        BOOL,
        "no",
        "Refuse new files in a directory with pending deletion.",
    )
    .unserved("checks of the parent's delete-on-close state"),
    share("magic script", TEXT, "", "A file that is run when it is closed.").unserved(COMMANDS),
    share("magic output", TEXT, "", "The file for its output.").accepted("it is used only with magic script"),
    share("dmapi support", BOOL, "no", "Detect files on tape with DMAPI.").unserved("files on tape"),
    share("spotlight", BOOL, "no", "Let Macs search the share's index.").unserved(SPOTLIGHT),
    share("spotlight backend", TEXT, "noindex", "The index that is searched.")
        .accepted("it is used only with spotlight"),
    share("afs share", BOOL, "no", "The share is in AFS.").unserved("AFS"),
    global("afs token lifetime", NUMBER, "604800", "Lifetime of AFS tokens.")
        .accepted("it is used only with afs share"),
    global("afs username map", TEXT, "", "The AFS names of users.").accepted("it is used only with afs share"),
    PREEXEC,
    PREEXEC_CLOSE,
    share("postexec", TEXT, "", "A command to run at each disconnect.").unserved(COMMANDS),
    ROOT_PREEXEC,
    ROOT_PREEXEC_CLOSE,
    share("root postexec", TEXT, "", "A command to run at each disconnect, as root.").unserved(COMMANDS),
    share("administrative share", BOOL, "no", "Mark the share as administrative.").unserved("administrative shares"),
    share("ntvfs handler", TEXT, "unixuid, default", "Samba's old file server.")
        .accepted("only Samba's old file server ntvfs uses it"),
    global("vfs mkdir use tmp name", TEXT, "auto", "Create directories under a temporary name first.").accepted(OWN_IO),
    global("dos charset", TEXT, "CP850", "The character set of DOS clients.").accepted("SMB 2 uses only UTF-16 names"),
    global("unix charset", Kind::Choice(&[&["UTF-8", "utf8"]]), "UTF-8", "The character set of names on disk.")
        .accepted("names on disk are UTF-8"),
    global("unicode", BOOL, "yes", "Use Unicode with clients.").accepted("SMB 2 uses only UTF-16 names"),
    global("root directory", PATH, "", "chroot to this directory at start.")
        .also(&["root", "root dir"])
        .unserved("chroot, because paths cannot leave the share"),
];
