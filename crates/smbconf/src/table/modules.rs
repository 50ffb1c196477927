//! Parametric names (`fruit:metadata`), and the modules of `vfs objects` with the features that they provide.

use super::{Status, TOOLS, WINBINDD};

/// A family of parameters with a colon in their names.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// The part before the colon.
    pub name: &'static str,
    /// How Frevo treats the whole family.
    pub status: Status,
}

/// One module of `vfs objects`.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// How Frevo treats it.
    pub status: Status,
    /// Why a share that names this module is not served without it, as the end of a sentence about the module; `None`
    /// if the only consequence for clients is a missing feature.
    pub vital: Option<&'static str>,
}

const STORAGE: &str = "supplies the storage of the share";
const REDIRECTION: &str = "gives each client separate files";
const PROHIBITION: &str = "forbids operations";
const RIGHTS: &str = "decides on access to files";
const RECORD: &str = "records what clients do";
const ACLS: &str = "Windows ACLs";
const STREAMS: &str = "alternate data streams";
const MAC: &str = "support for Macs";
const SNAPSHOTS: &str = "previous versions";
const AUDIT: &str = "the audit log";
const CEPH: &str = "CephFS";
const SPOTLIGHT: &str = "Spotlight search";
const OWN_IO: &str = "Frevo schedules reads and writes itself";

const fn prefix(name: &'static str, feature: &'static str) -> Prefix {
    Prefix { name, status: Status::NotServed(feature) }
}

const fn ignored_prefix(name: &'static str, reason: &'static str) -> Prefix {
    Prefix { name, status: Status::Accepted(reason) }
}

const fn module(name: &'static str, feature: &'static str) -> Module {
    Module { name, status: Status::NotServed(feature), vital: None }
}

const fn vital(name: &'static str, feature: &'static str, why: &'static str) -> Module {
    Module { name, status: Status::NotServed(feature), vital: Some(why) }
}

const fn served(name: &'static str) -> Module {
    Module { name, status: Status::Served, vital: None }
}

const fn ignored(name: &'static str, reason: &'static str) -> Module {
    Module { name, status: Status::Accepted(reason), vital: None }
}

/// The known families.
pub static PREFIXES: &[Prefix] = &[
    prefix("acl_tdb", ACLS),
    prefix("nfs4", ACLS),
    prefix("gpfs", "GPFS"),
    ignored_prefix("streams_xattr", "the file system limits the size of streams"),
    prefix("streams_depot", STREAMS),
    prefix("fruit", "an option that Samba's module does not have"),
    prefix("catia", "character mapping in names"),
    prefix("readdir_attr", MAC),
    prefix("shadow", SNAPSHOTS),
    prefix("snapper", SNAPSHOTS),
    prefix("fss", SNAPSHOTS),
    prefix("recycle", "an option that Samba's module does not have"),
    prefix("full_audit", "an option that Samba's module does not have"),
    prefix("audit", AUDIT),
    prefix("extd_audit", AUDIT),
    prefix("glusterfs", "an option that Samba's module does not have"),
    prefix("ceph", CEPH),
    prefix("ceph_snapshots", SNAPSHOTS),
    prefix("worm", "files that cannot be changed"),
    prefix("readonly", "read-only periods of a share"),
    prefix("virusfilter", "virus scanners"),
    prefix("vscan", "virus scanners"),
    prefix("btrfs", "snapshots created by clients"),
    prefix("fileid", "clusters"),
    prefix("netatalk", MAC),
    prefix("prealloc", "space reservation by file name"),
    prefix("commit", "flushes after a number of bytes"),
    prefix("expand_msdfs", "variables in the targets of DFS links"),
    prefix("dirsort", "sorted listings"),
    prefix("unityed_media", "media farms"),
    prefix("media_harmony", "media farms"),
    prefix("offline", "files on tape"),
    prefix("tsmsm", "files on tape"),
    prefix("elasticsearch", SPOTLIGHT),
    prefix("tracker", SPOTLIGHT),
    prefix("spoolss", "printing"),
    prefix("rpc_server", "configurable RPC servers"),
    prefix("rpc_daemon", "configurable RPC servers"),
    ignored_prefix("idmap config", WINBINDD),
    ignored_prefix("winbind", WINBINDD),
    prefix("ldapsam", "accounts in an LDAP directory"),
    prefix("allow nt4 crypto", "being a domain controller"),
    prefix("server require schannel", "being a domain controller"),
    prefix("server reject md5 schannel", "being a domain controller"),
    prefix("server schannel require seal", "being a domain controller"),
    prefix("winsdb", "WINS"),
    prefix("wreplsrv", "WINS"),
    prefix("dsdb", "being a domain controller"),
    prefix("kdc", "being a domain controller"),
    prefix("smb3 share cap", "configurable share capabilities"),
    ignored_prefix("smbd", "it controls Samba's own process, usually in Samba's tests"),
    ignored_prefix("aio_pthread", OWN_IO),
    ignored_prefix("readahead", OWN_IO),
    ignored_prefix("syncops", "strict sync and sync always control when data is written to disk"),
    ignored_prefix("share", "it controls Samba's own process"),
    ignored_prefix("torture", "it controls Samba's tests"),
    ignored_prefix("client ldap", TOOLS),
    ignored_prefix("vfs", "it controls Samba's own process"),
];

/// The known modules. A module that Frevo does not implement is vital if a share without it would show the wrong data,
/// allow forbidden operations, or leave no audit record. An unknown module is treated as vital.
pub static MODULES: &[Module] = &[
    served("acl_xattr"),
    served("streams_xattr"),
    served("shadow_copy2"),
    served("recycle"),
    served("full_audit"),
    served("catia"),
    served("snapper"),
    served("fruit"),
    served("glusterfs"),
    // The files are elsewhere: `path` is a path inside the volume. On this host it is a different directory, often `/`.
    vital("ceph", CEPH, STORAGE),
    vital("ceph_new", CEPH, STORAGE),
    vital("ceph_rgw", "object stores", STORAGE),
    vital("gpfs", "GPFS", STORAGE),
    // The module separates clients that would damage a database by writing it at the same time.
    vital("media_harmony", "media farms", REDIRECTION),
    vital("unityed_media", "media farms", REDIRECTION),
    // Permissions are stored in locations that Frevo does not read.
    vital("acl_tdb", ACLS, RIGHTS),
    vital("nfs4acl_xattr", ACLS, RIGHTS),
    vital("zfsacl", ACLS, RIGHTS),
    vital("aixacl", ACLS, RIGHTS),
    vital("aixacl2", ACLS, RIGHTS),
    vital("hpuxacl", ACLS, RIGHTS),
    vital("solarisacl", ACLS, RIGHTS),
    vital("tru64acl", ACLS, RIGHTS),
    vital("afsacl", ACLS, RIGHTS),
    vital("fake_acls", ACLS, RIGHTS),
    // The attributes include stored Windows ACLs and DOS attributes.
    vital("posix_eadb", "extended attributes outside of the file system", RIGHTS),
    vital("xattr_tdb", "extended attributes outside of the file system", RIGHTS),
    vital("worm", "files that cannot be changed", PROHIBITION),
    vital("readonly", "read-only periods of a share", PROHIBITION),
    vital("virusfilter", "virus scanners", PROHIBITION),
    vital("audit", AUDIT, RECORD),
    vital("extd_audit", AUDIT, RECORD),
    vital("smb_traffic_analyzer", AUDIT, RECORD),
    // Convenience features. None of these modules restricts clients.
    module("streams_depot", STREAMS),
    module("netatalk", MAC),
    module("cap", "character mapping in names"),
    module("shadow_copy", SNAPSHOTS),
    module("ceph_snapshots", SNAPSHOTS),
    module("shell_snap", "running commands, because no text of the configuration is ever passed to a shell"),
    // The volume is mounted on this host, and the mount enforces its rules; the module only speeds up name look-ups.
    module("glusterfs_fuse", "fast name look-ups in mounted GlusterFS volumes"),
    // It selects the identity of a file; locks are valid only on this server in any case.
    module("fileid", "clusters"),
    // The kernel enforces quotas. These modules change only the numbers that clients see.
    module("default_quota", "quotas and space limits"),
    module("fake_dfq", "quotas and space limits"),
    // It shows more permissions than a user has, and grants none.
    module("fake_perms", "simulated permissions"),
    module("expand_msdfs", "variables in the targets of DFS links"),
    module("dfs_samba4", "DFS of a domain controller"),
    module("offline", "files on tape"),
    module("tsmsm", "files on tape"),
    module("preopen", OWN_IO),
    module("prealloc", "space reservation by file name"),
    module("printer", "printing"),
    module("dirsort", "sorted listings"),
    module("linux_xfs_sgid", "a workaround for old kernels"),
    module("commit", "flushes after a number of bytes"),
    module("aio_ratelimit", "limits on the rate of reads and writes"),
    // It logs slow calls to find slow disks, not the operations of clients.
    module("time_audit", "a log of slow calls"),
    // It allows links out of the share; without it such links are refused.
    module("widelinks", "links out of the share by a module; use wide links instead"),
    ignored("btrfs", "block sharing and compression work on every file system that supports them"),
    ignored("aio_fork", OWN_IO),
    ignored("aio_pthread", OWN_IO),
    ignored("aio_linux", OWN_IO),
    ignored("io_uring", OWN_IO),
    ignored("readahead", OWN_IO),
    ignored("cacheprime", OWN_IO),
    ignored("crossrename", "clients copy and delete files on another file system themselves"),
    ignored("acl_posix", "it is part of the server"),
    ignored("posixacl", "it is part of the server"),
    ignored("syncops", "strict sync and sync always control when data is written to disk"),
];
