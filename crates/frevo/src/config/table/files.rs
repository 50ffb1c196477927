//! How files look and behave.

use super::{
    BOOL, BOOL_OR_AUTO, BYTES, COMMANDS, COUNT, Kind, LIST, NUMBER, PATH, PATTERNS, Parameter, TEXT, global, share,
};

const READ_ONLY: Kind =
    Kind::Choice(&[&["yes", "true", "on", "1"], &["no", "false", "off", "0"], &["permissions", "perms"]]);

const OPLOCKS: &str = "oplocks seen by local programs";
const MANGLING: &str = "another form of short (8.3) names";
const QUOTA: &str = "quotas and space limits";
const IN_MEMORY: &str = "open files are kept in the memory of one process: there is no cache of this kind";
const SPOTLIGHT: &str = "Spotlight search";
const OWN_IO: &str =
    "reads and writes find their way by themselves: at once where the kernel has the data, else beside";

pub(super) static TABLE: &[Parameter] = &[
    share("case sensitive", BOOL_OR_AUTO, "auto", "Tell upper and lower case apart; auto is no.")
        .also(&["case sig names"]),
    share("follow symlinks", BOOL, "yes", "Follow symbolic links that stay inside the share."),
    share("wide links", BOOL, "no", "Follow symbolic links out of the share; see allow insecure wide links."),
    global("allow insecure wide links", BOOL, "no", "Let wide links be on although unix extensions are."),
    global("smb1 unix extensions", BOOL, "yes", "Here it only keeps wide links off, as in Samba; SMB1 is not served.")
        .also(&["unix extensions"]),
    share("hide dot files", BOOL, "yes", "Show names that begin with a dot as hidden."),
    share("hide files", PATTERNS, "", "Show names that match as hidden."),
    share("veto files", PATTERNS, "", "Names that match do not exist for clients."),
    share("delete veto files", BOOL, "no", "Delete a directory although vetoed files are left in it, with them."),
    share("hide unreadable", BOOL, "no", "Leave out of listings what the user cannot read."),
    share("hide special files", BOOL, "no", "Leave devices, sockets and FIFOs out of listings."),
    share("store dos attributes", BOOL, "yes", "Keep DOS attributes and the creation time in user.DOSATTRIB."),
    share("map archive", BOOL, "yes", "Keep ARCHIVE in the owner's x bit where attributes are not stored."),
    share("map system", BOOL, "no", "Keep SYSTEM in the group's x bit where attributes are not stored."),
    share("map hidden", BOOL, "no", "Keep HIDDEN in the others' x bit where attributes are not stored."),
    share("map readonly", READ_ONLY, "no", "Show a file that its owner cannot write as READONLY."),
    share("delete readonly", BOOL, "no", "Let files with READONLY be deleted."),
    share("dos filemode", BOOL, "no", "Let who may write a file change its permissions."),
    share("streams_xattr:prefix", TEXT, "user.DosStream.", "The attributes that hold alternate streams begin so."),
    share("streams_xattr:store_stream_type", BOOL, "yes", "Their names end in :$DATA."),
    share("ea support", BOOL, "yes", "Keep extended attributes in user.* attributes."),
    share("strict sync", BOOL, "yes", "A flush of the client reaches the disk before it is answered."),
    share("sync always", BOOL, "no", "Each write reaches the disk before it is answered."),
    share(
        "smbd:writetimeupdatedelay",
        Kind::Integer(0, i32::MAX as i64),
        "0",
        "Microseconds until a write shows in the write time; Samba: 2000000.",
    ),
    share("strict allocate", BOOL, "no", "Really reserve the space that a client asks for."),
    // Locks, oplocks, leases.
    share("locking", BOOL, "yes", "Honour byte-range locks; no grants all and looks at none."),
    share("strict locking", BOOL_OR_AUTO, "auto", "Check byte-range locks at each read and write; auto is yes."),
    share(
        "posix locking",
        BOOL,
        "yes",
        "Let clients and local programs meet each other's locks; reads and writes look at clients' alone.",
    ),
    share("blocking locks", BOOL, "yes", "Let a client wait for a lock."),
    share("smbd force process locks", BOOL, "no", "Use POSIX locks of the process, not of the open file.")
        .unserved("locks of the process, which any close of the file by the server would end"),
    global(
        "lock spin time",
        NUMBER,
        "200",
        "Milliseconds between two tries for a local program's lock; up to 10 times.",
    ),
    global("smb2 disable lock sequence checking", BOOL, "no", "Do not check the sequence numbers of lock requests."),
    share("kernel share modes", BOOL, "no", "Show share modes to local programs as flock locks.")
        .unserved("share modes seen by local programs, which Linux has no call for any more"),
    share("oplocks", BOOL, "yes", "Let clients cache files."),
    share("level2 oplocks", BOOL, "yes", "Let several clients cache a file for reading."),
    share(
        "kernel oplocks",
        BOOL,
        "no",
        "End oplocks when a local program opens the file; then no leases, no level II.",
    ),
    share("fake oplocks", BOOL, "no", "Let clients cache, and never break it: loses data where two open a file."),
    share("veto oplock files", PATTERNS, "", "Names that match are never cached by clients."),
    global("smb2 leases", BOOL, "yes", "Offer leases, which let a client cache over several opens."),
    global("smb3 directory leases", BOOL_OR_AUTO, "auto", "Offer leases on directories; auto is yes."),
    global("oplock break wait time", COUNT, "0", "Milliseconds before an oplock break is sent.").unserved(OPLOCKS),
    global("smb2 disable oplock break retry", BOOL, "no", "Send an oplock break once only.").unserved(OPLOCKS),
    share(
        "durable handles",
        BOOL,
        "yes",
        "Let opens outlive a lost connection; here also where local programs are told of oplocks and locks.",
    ),
    share(
        "continuously available",
        BOOL,
        "no",
        "Let opens outlive a restart of the server; each write reaches the disk. Frevo's own.",
    ),
    global("defer sharing violations", BOOL, "yes", "Wait a moment before a sharing violation is answered.")
        .accepted("a sharing violation is answered at once, after oplocks are broken, as Windows does"),
    share("smbd getinfo ask sharemode", BOOL, "yes", "Ask for delete-on-close state in queries.").accepted(IN_MEMORY),
    share("smbd search ask sharemode", BOOL, "yes", "Ask for write times of open files in listings.")
        .accepted(IN_MEMORY),
    // Notification.
    share(
        "honor change notify privilege",
        BOOL,
        "yes",
        "Who watches a tree is told of changes only in folders that he may list; Samba: no.",
    ),
    global("change notify", BOOL, "yes", "Tell clients of changes in a folder."),
    global("kernel change notify", BOOL, "yes", "Tell clients of changes by local programs, too."),
    // ACLs and ownership.
    share("nt acl support", BOOL, "yes", "Show permissions as Windows ACLs, and let clients set them."),
    share(
        "acl allow execute always",
        BOOL,
        "no",
        "Reading suffices to run a file, where descriptors are stored; elsewhere it always does.",
    ),
    global("frevo:acl cache", BYTES, "32M", "Memory for what protects files, bytes; 0: it is read at each access."),
    share("acl_xattr:security_acl_name", TEXT, "security.NTACL", "The extended attribute that holds descriptors."),
    share("acl_xattr:ignore system acls", BOOL, "no", "Descriptors count alone; POSIX lists are left as they are."),
    share(
        "acl_xattr:default acl style",
        Kind::Choice(&[&["posix"], &["windows"], &["everyone"]]),
        "posix",
        "What a file without a descriptor has where POSIX lists do not count.",
    ),
    share(
        "frevo:acl store",
        TEXT,
        "auto",
        "Which descriptors converted from POSIX ACLs are stored: always, never, >= N or N-M entries; auto is what `frevo acl calibrate` found. Frevo's own.",
    ),
    share("acl check permissions", BOOL, "yes", "Check the right to delete when a file is opened for it.")
        .accepted("the right to delete is always checked at the open, where Windows programs expect the refusal"),
    share("acl flag inherited canonicalization", BOOL, "yes", "Store the inherited flag as Windows does."),
    share("acl group control", BOOL, "no", "Members of the owning group may change permissions."),
    share("acl map full control", BOOL, "yes", "Show rwx as Full Control."),
    share("map acl inherit", BOOL, "no", "Keep inheritance flags in user.SAMBA_PAI.")
        .accepted("vfs objects = acl_xattr keeps them in the ACL itself; POSIX ACLs have none"),
    share("inherit acls", BOOL, "no", "New entries take the default ACL of their folder.")
        .accepted("the kernel hands default ACLs on, and vfs objects = acl_xattr those of Windows"),
    share(
        "inherit owner",
        Kind::Choice(&[&["no", "false", "off", "0"], &["windows and unix", "yes", "true", "on", "1"], &["unix only"]]),
        "no",
        "New entries belong to the owner of their folder; with unix only their ACL names who made them.",
    ),
    share("inherit permissions", BOOL, "no", "New entries take the mode of their folder instead of the masks'."),
    share(
        "force unknown acl user",
        BOOL,
        "no",
        "An unknown owner in a new ACL becomes the user; other unknowns are left out.",
    ),
    share("acl claims evaluation", TEXT, "AD DC only", "Evaluate claims in ACLs.")
        .accepted("claims come from a domain controller; what is granted under a condition is not granted"),
    global("enable privileges", BOOL, "yes", "Honour privileges given to users.")
        .accepted("privileges over files are root's, as whom admin users act"),
    // Names.
    share(
        "mangled names",
        Kind::Choice(&[&["no", "false", "off", "0"], &["illegal"], &["yes", "true", "on", "1"]]),
        "no",
        "Give long names a short (8.3) one; Samba's default is illegal, which needs none here.",
    ),
    share("mangling char", TEXT, "~", "The character that marks a short name.").unserved(MANGLING),
    global("mangling method", TEXT, "hash2", "How short names are made.").unserved(MANGLING),
    global("mangle prefix", NUMBER, "1", "How many letters of a name its short name keeps.").unserved(MANGLING),
    share(
        "default case",
        Kind::Choice(&[&["lower"], &["upper"]]),
        "lower",
        "The case of new names that do not keep their own.",
    )
    .unserved("changing the case of names"),
    share("preserve case", BOOL, "yes", "New names keep the case that the client gave them.")
        .unserved("changing the case of names"),
    share("short preserve case", BOOL, "yes", "New 8.3 names keep the case that the client gave them.")
        .unserved("changing the case of names"),
    global("stat cache", BOOL, "yes", "Remember how names are really spelled.").accepted(IN_MEMORY),
    global("max stat cache size", NUMBER, "512", "Size of that memory.").accepted(IN_MEMORY),
    share("directory name cache size", NUMBER, "100", "Names remembered per listing.").accepted(IN_MEMORY),
    global("getwd cache", BOOL, "yes", "Remember the working directory.")
        .accepted("files are opened relative to the share's root, never by a working directory"),
    share("dont descend", LIST, "", "Folders that are shown empty.").unserved("folders shown as empty"),
    // Times and sizes.
    share("dos filetimes", BOOL, "yes", "Let who may write a file change its times.")
        .unserved("the right to change times"),
    share("dos filetime resolution", BOOL, "no", "Round times to two seconds.")
        .accepted("clients that need times rounded do not speak SMB 2"),
    share("fake directory create times", BOOL, "no", "Show 1980 as the creation time of folders.")
        .accepted("creation times are stored, so make(1) on a client sees sensible ones"),
    share("allocation roundup size", BYTES, "0", "Round allocation sizes up to this.").unserved(QUOTA),
    share("block size", NUMBER, "1024", "The block size that sizes of disks are told in.")
        .accepted("sizes are told in the units of the file system"),
    share("dfree command", TEXT, "", "Asks this command for the free space.").unserved(COMMANDS),
    share("dfree cache time", NUMBER, "0", "How long its answer counts.").unserved(COMMANDS),
    global("max disk size", NUMBER, "0", "Show disks as at most so many MiB.").unserved(QUOTA),
    global("get quota command", TEXT, "", "Asks this command for quotas.").unserved(COMMANDS),
    global("set quota command", TEXT, "", "Sets quotas by this command.").unserved(COMMANDS),
    share("volume serial number", TEXT, "-1", "The serial number of the volume.")
        .unserved("a chosen volume serial number"),
    // Reading and writing.
    share("use sendfile", TEXT, "no", "Send files by sendfile.")
        .accepted("a reply is composed before it is signed, so the file's pages are not sent directly"),
    share("aio read size", NUMBER, "1", "Reads from this size on run beside others.").accepted(OWN_IO),
    share("aio write size", NUMBER, "1", "Writes from this size on run beside others.").accepted(OWN_IO),
    share("aio write behind", PATTERNS, "", "Names whose writes are answered before they are done.")
        .accepted("a write is answered when it is done"),
    global("aio max threads", NUMBER, "100", "Threads that do them.").accepted(OWN_IO),
    global("min receivefile size", BYTES, "0", "Writes from this size on go by splice.").accepted(OWN_IO),
    share("smbd async dosmode", BOOL, "no", "Read attributes of a listing in parallel.").accepted(OWN_IO),
    share("smbd max async dosmode", NUMBER, "0", "How many of them at a time.").accepted(OWN_IO),
    share("smbd max xattr size", NUMBER, "65536", "The longest extended attribute.")
        .accepted("the file system says how long an attribute may be"),
    global("use mmap", BOOL, "yes", "Map the databases into memory.").accepted(IN_MEMORY),
    // Other.
    share("hide unwriteable files", BOOL, "no", "Leave out of listings what the user cannot write.")
        .unserved("hiding what cannot be written"),
    share("hide new files timeout", NUMBER, "0", "Leave files out of listings until they are so many seconds old.")
        .unserved("hiding new files"),
    share("strict rename", BOOL, "no", "Refuse to rename a folder with open files below.")
        .unserved("renaming of folders with open files below"),
    share("check parent directory delete on close", BOOL, "no", "Refuse to create in a folder that is to be deleted.")
        .unserved("checking the parent's delete on close"),
    share("magic script", TEXT, "", "A file that is run when it is closed.").unserved(COMMANDS),
    share("magic output", TEXT, "", "Where its output goes.").unserved(COMMANDS),
    share("dmapi support", BOOL, "no", "Tell files on tape by DMAPI.").unserved("files on tape"),
    share("msdfs root", BOOL, "no", "The share is a root of a distributed file system.").unserved("DFS"),
    share("msdfs proxy", TEXT, "", "The share lies on other servers.").unserved("DFS"),
    share("msdfs shuffle referrals", BOOL, "no", "Name the targets of a link in changing order.").unserved("DFS"),
    global("host msdfs", BOOL, "yes", "Be a server of a distributed file system.").unserved("DFS"),
    share("spotlight", BOOL, "no", "Let Macs search the share's index.").unserved(SPOTLIGHT),
    share("spotlight backend", TEXT, "noindex", "The index.").unserved(SPOTLIGHT),
    share("afs share", BOOL, "no", "The share lies in AFS.").unserved("AFS"),
    global("afs token lifetime", NUMBER, "604800", "How long AFS tokens live.").unserved("AFS"),
    global("afs username map", TEXT, "", "AFS names of users.").unserved("AFS"),
    share("preexec", TEXT, "", "A command at each connect.").also(&["exec"]).unserved(COMMANDS),
    share("preexec close", BOOL, "no", "Refuse the connect where it fails.").unserved(COMMANDS),
    share("postexec", TEXT, "", "A command at each disconnect.").unserved(COMMANDS),
    share("root preexec", TEXT, "", "A command at each connect, as root.").unserved(COMMANDS),
    share("root preexec close", BOOL, "no", "Refuse the connect where it fails.").unserved(COMMANDS),
    share("root postexec", TEXT, "", "A command at each disconnect, as root.").unserved(COMMANDS),
    share("access based share enum", BOOL, "no", "List a share only for users who may connect to it.")
        .unserved("lists of shares by user"),
    share("administrative share", BOOL, "no", "Show the share as an administrative one.")
        .unserved("administrative shares"),
    share("ntvfs handler", TEXT, "unixuid, default", "Samba's old file server.").unserved("Samba's ntvfs"),
    global("vfs mkdir use tmp name", TEXT, "auto", "Make a folder under another name first.").accepted(OWN_IO),
    global("dos charset", TEXT, "CP850", "The character set of DOS clients.")
        .accepted("SMB 2 has names in UTF-16 only"),
    global("unix charset", Kind::Choice(&[&["UTF-8", "utf8"]]), "UTF-8", "The character set of names on disk.")
        .accepted("names on disk are UTF-8"),
    global("unicode", BOOL, "yes", "Speak Unicode with clients.").accepted("SMB 2 has names in UTF-16 only"),
    global("root directory", PATH, "", "chroot to this directory at start.")
        .also(&["root", "root dir"])
        .unserved("chroot: no path can leave its share anyway"),
];
