//! File names, attributes, locks, ACLs and reads and writes.

use super::{
    BOOL, BOOL_OR_AUTO, BYTES, COMMANDS, COUNT, Kind, LIST, NUMBER, PATH, PATTERNS, Parameter, TEXT, global, share,
};

const READ_ONLY: Kind =
    Kind::Choice(&[&["yes", "true", "on", "1"], &["no", "false", "off", "0"], &["permissions", "perms"]]);

const OPLOCKS: &str = "kernel oplocks";
const MANGLING: &str = "another form of short (8.3) names";
const QUOTA: &str = "quotas and space limits";
const IN_MEMORY: &str = "the single server process keeps open files in memory and needs no such cache";
const SPOTLIGHT: &str = "Spotlight search";
const OWN_IO: &str =
    "Frevo schedules reads and writes itself: at once if the kernel has the data, otherwise on a worker thread";

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
    // Locks, oplocks, leases.
    share("locking", BOOL, "yes", "Enforce byte-range locks; no grants every lock and enforces none."),
    share("strict locking", BOOL_OR_AUTO, "auto", "Check byte-range locks at each read and write; auto means yes."),
    share(
        "posix locking",
        BOOL,
        "yes",
        "Let the locks of clients and local programs conflict; reads and writes check only clients' locks.",
    ),
    share("blocking locks", BOOL, "yes", "Let a client wait for a lock."),
    share(
        "smbd force process locks",
        BOOL,
        "no",
        "Use process-owned POSIX locks instead of open file description locks.",
    )
    .unserved("process-owned locks, which every close of the file would release"),
    global(
        "lock spin time",
        NUMBER,
        "200",
        "Milliseconds between attempts to get a range locked by a local program; up to 10 times.",
    ),
    global("smb2 disable lock sequence checking", BOOL, "no", "Do not check the sequence numbers of lock requests."),
    share("kernel share modes", BOOL, "no", "Show share modes to local programs as flock locks.")
        .unserved("share modes visible to local programs, because Linux has removed the call"),
    share("oplocks", BOOL, "yes", "Let clients cache files."),
    share("level2 oplocks", BOOL, "yes", "Let several clients cache a file for reading."),
    share(
        "kernel oplocks",
        BOOL,
        "no",
        "Break oplocks when a local program opens the file; disables leases and level II oplocks.",
    ),
    share("fake oplocks", BOOL, "no", "Grant oplocks and never break them: loses data if two clients open a file."),
    share("veto oplock files", PATTERNS, "", "Never grant oplocks or leases on files with matching names."),
    global("smb2 leases", BOOL, "yes", "Offer leases, which let a client share a cache between several opens."),
    global("smb3 directory leases", BOOL_OR_AUTO, "auto", "Offer leases on directories; auto means yes."),
    global("oplock break wait time", COUNT, "0", "Milliseconds before an oplock break is sent.").unserved(OPLOCKS),
    global("smb2 disable oplock break retry", BOOL, "no", "Send an oplock break only once.").unserved(OPLOCKS),
    share(
        "durable handles",
        BOOL,
        "yes",
        "Keep opens after a lost connection; unlike in Samba also with kernel oplocks and posix locking.",
    ),
    share(
        "continuously available",
        BOOL,
        "no",
        "Keep opens across a restart of the server; each write goes to disk. Not in Samba.",
    ),
    global("defer sharing violations", BOOL, "yes", "Delay the response to a sharing violation.")
        .accepted("a sharing violation is reported at once after oplock breaks, as in Windows"),
    share("smbd getinfo ask sharemode", BOOL, "yes", "Ask for delete-on-close state in queries.").accepted(IN_MEMORY),
    share("smbd search ask sharemode", BOOL, "yes", "Ask for write times of open files in listings.")
        .accepted(IN_MEMORY),
    // Change notification.
    share(
        "honor change notify privilege",
        BOOL,
        "yes",
        "Report changes in a watched tree only for directories that the user may list; Samba: no.",
    ),
    global("change notify", BOOL, "yes", "Notify clients of changes in a directory."),
    global("kernel change notify", BOOL, "yes", "Also notify clients of changes by local programs."),
    // ACLs and ownership.
    share("nt acl support", BOOL, "yes", "Show permissions as Windows ACLs, and let clients set them."),
    share(
        "acl allow execute always",
        BOOL,
        "no",
        "Read access is sufficient to execute a file, if descriptors are stored; otherwise it always is.",
    ),
    global(
        "frevo:acl cache",
        BYTES,
        "32M",
        "Bytes of memory for cached security descriptors; 0: read them at each access.",
    ),
    share(
        "acl_xattr:security_acl_name",
        TEXT,
        "security.NTACL",
        "The extended attribute that stores security descriptors.",
    ),
    share(
        "acl_xattr:ignore system acls",
        BOOL,
        "no",
        "Use only security descriptors; POSIX ACLs are ignored and not changed.",
    ),
    share(
        "acl_xattr:default acl style",
        Kind::Choice(&[&["posix"], &["windows"], &["everyone"]]),
        "posix",
        "The ACL of a file without a stored descriptor if POSIX ACLs are ignored.",
    ),
    share(
        "frevo:acl store",
        TEXT,
        "auto",
        "Which descriptors converted from POSIX ACLs are stored: always, never, those with >= N or N-M entries, or \
         auto: the policy measured by `frevo acl calibrate`. Not in Samba.",
    ),
    share("acl check permissions", BOOL, "yes", "Check the right to delete when a file is opened for deletion.")
        .accepted("the right to delete is always checked at the open, as Windows programs expect"),
    share("acl flag inherited canonicalization", BOOL, "yes", "Store the inherited flag in the same way as Windows."),
    share("acl group control", BOOL, "no", "Let members of the owning group change permissions."),
    share("acl map full control", BOOL, "yes", "Show rwx as Full Control."),
    share("map acl inherit", BOOL, "no", "Store inheritance flags in user.SAMBA_PAI.")
        .accepted("vfs objects = acl_xattr stores them in the ACL itself; POSIX ACLs have none"),
    share("inherit acls", BOOL, "no", "New files inherit the default ACL of their directory.")
        .accepted("the kernel inherits default ACLs, and vfs objects = acl_xattr inherits Windows ACLs"),
    share(
        "inherit owner",
        Kind::Choice(&[&["no", "false", "off", "0"], &["windows and unix", "yes", "true", "on", "1"], &["unix only"]]),
        "no",
        "New files belong to the owner of their directory; with unix only the Windows owner is the creator.",
    ),
    share(
        "inherit permissions",
        BOOL,
        "no",
        "New files inherit the mode of their directory instead of using the masks.",
    ),
    share(
        "force unknown acl user",
        BOOL,
        "no",
        "Replace an unknown owner in a new ACL by the user, and drop other unknown users.",
    ),
    share("acl claims evaluation", TEXT, "AD DC only", "Evaluate claims in ACLs.")
        .accepted("claims need a domain controller; conditional ACEs grant nothing"),
    global("enable privileges", BOOL, "yes", "Honour privileges given to users.")
        .accepted("only root has privileges on files, and admin users act as root"),
    // Names.
    share(
        "mangled names",
        Kind::Choice(&[&["no", "false", "off", "0"], &["illegal"], &["yes", "true", "on", "1"]]),
        "no",
        "Provide short (8.3) names for long names; Samba's default is illegal, which is not needed.",
    ),
    share("mangling char", TEXT, "~", "The character that marks a short name.").unserved(MANGLING),
    global("mangling method", TEXT, "hash2", "The method to generate short names.").unserved(MANGLING),
    global("mangle prefix", NUMBER, "1", "The number of letters of a name that its short name keeps.")
        .unserved(MANGLING),
    share(
        "default case",
        Kind::Choice(&[&["lower"], &["upper"]]),
        "lower",
        "The case of new names if their case is not preserved.",
    )
    .unserved("changing the case of names"),
    share("preserve case", BOOL, "yes", "Preserve the case of new names.").unserved("changing the case of names"),
    share("short preserve case", BOOL, "yes", "Preserve the case of new 8.3 names.")
        .unserved("changing the case of names"),
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
    share("allocation roundup size", BYTES, "0", "Round allocation sizes up to a multiple of this.").unserved(QUOTA),
    share("block size", NUMBER, "1024", "The block size for reported disk sizes.")
        .accepted("sizes are reported in the file system's block size"),
    share("dfree command", TEXT, "", "A command that reports the free space.").unserved(COMMANDS),
    share("dfree cache time", NUMBER, "0", "Seconds for which its result is cached.").unserved(COMMANDS),
    global("max disk size", NUMBER, "0", "Report at most this many MiB as the disk size.").unserved(QUOTA),
    global("get quota command", TEXT, "", "A command that reports quotas.").unserved(COMMANDS),
    global("set quota command", TEXT, "", "A command that sets quotas.").unserved(COMMANDS),
    share("volume serial number", TEXT, "-1", "The serial number of the volume.")
        .unserved("a configurable volume serial number"),
    // Reading and writing.
    share("use sendfile", TEXT, "no", "Send files with sendfile.")
        .accepted("responses are assembled before they are signed, so pages are not sent directly"),
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
    share("hide unwriteable files", BOOL, "no", "Omit files that the user cannot write from listings.")
        .unserved("hiding unwritable files"),
    share("hide new files timeout", NUMBER, "0", "Omit files from listings until they are this many seconds old.")
        .unserved("hiding new files"),
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
    share("magic output", TEXT, "", "The file for its output.").unserved(COMMANDS),
    share("dmapi support", BOOL, "no", "Detect files on tape with DMAPI.").unserved("files on tape"),
    share("msdfs root", BOOL, "no", "The share is a root of a distributed file system.").unserved("DFS"),
    share("msdfs proxy", TEXT, "", "The share is on other servers.").unserved("DFS"),
    share("msdfs shuffle referrals", BOOL, "no", "Vary the order of a link's targets.").unserved("DFS"),
    global("host msdfs", BOOL, "yes", "Be a server of a distributed file system.").unserved("DFS"),
    share("spotlight", BOOL, "no", "Let Macs search the share's index.").unserved(SPOTLIGHT),
    share("spotlight backend", TEXT, "noindex", "The index that is searched.").unserved(SPOTLIGHT),
    share("afs share", BOOL, "no", "The share is in AFS.").unserved("AFS"),
    global("afs token lifetime", NUMBER, "604800", "Lifetime of AFS tokens.").unserved("AFS"),
    global("afs username map", TEXT, "", "AFS names of users.").unserved("AFS"),
    share("preexec", TEXT, "", "A command to run at each connect.").also(&["exec"]).unserved(COMMANDS),
    share("preexec close", BOOL, "no", "Refuse the connect if preexec fails.").unserved(COMMANDS),
    share("postexec", TEXT, "", "A command to run at each disconnect.").unserved(COMMANDS),
    share("root preexec", TEXT, "", "A command to run at each connect, as root.").unserved(COMMANDS),
    share("root preexec close", BOOL, "no", "Refuse the connect if root preexec fails.").unserved(COMMANDS),
    share("root postexec", TEXT, "", "A command to run at each disconnect, as root.").unserved(COMMANDS),
    share("access based share enum", BOOL, "no", "List a share only for users who may connect to it.")
        .unserved("share lists filtered by user"),
    share("administrative share", BOOL, "no", "Mark the share as administrative.").unserved("administrative shares"),
    share("ntvfs handler", TEXT, "unixuid, default", "Samba's old file server.").unserved("Samba's ntvfs"),
    global("vfs mkdir use tmp name", TEXT, "auto", "Create directories under a temporary name first.").accepted(OWN_IO),
    global("dos charset", TEXT, "CP850", "The character set of DOS clients.").accepted("SMB 2 uses only UTF-16 names"),
    global("unix charset", Kind::Choice(&[&["UTF-8", "utf8"]]), "UTF-8", "The character set of names on disk.")
        .accepted("names on disk are UTF-8"),
    global("unicode", BOOL, "yes", "Use Unicode with clients.").accepted("SMB 2 uses only UTF-16 names"),
    global("root directory", PATH, "", "chroot to this directory at start.")
        .also(&["root", "root dir"])
        .unserved("chroot, because paths cannot leave the share"),
];
