//! Names with a colon (`fruit:metadata`), and the modules of `vfs objects` as the features that they ask for.

use super::{Status, WINBINDD};

/// A family of parameters with a colon in their names.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// What stands before the colon.
    pub name: &'static str,
    /// What becomes of the whole family.
    pub status: Status,
}

/// One module of `vfs objects`.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// What becomes of it.
    pub status: Status,
    /// Why a share that asks for it is not served, as the end of a sentence about the module; `None` where clients of the
    /// share would miss a feature and nothing else.
    pub vital: Option<&'static str>,
}

const STORAGE: &str = "supplies the storage of the share";
const REDIRECTION: &str = "gives each client files of its own";
const PROHIBITION: &str = "forbids operations";
const RIGHTS: &str = "decides on access to files";
const RECORD: &str = "records what clients do";
const ACLS: &str = "Windows ACLs";
const STREAMS: &str = "alternate data streams";
const MAC: &str = "support for Macs";
const SNAPSHOTS: &str = "previous versions";
const RECYCLE: &str = "the recycle bin";
const AUDIT: &str = "the audit log";
const GLUSTER: &str = "GlusterFS volumes";
const CEPH: &str = "CephFS";
const SPOTLIGHT: &str = "Spotlight search";
const OWN_IO: &str = "reads and writes find their way by themselves";

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
    ignored_prefix("streams_xattr", "streams are as large as the file system takes"),
    prefix("streams_depot", STREAMS),
    prefix("fruit", MAC),
    prefix("catia", "maps of characters in names"),
    prefix("readdir_attr", MAC),
    prefix("shadow", SNAPSHOTS),
    prefix("snapper", SNAPSHOTS),
    prefix("fss", SNAPSHOTS),
    prefix("recycle", RECYCLE),
    prefix("full_audit", AUDIT),
    prefix("audit", AUDIT),
    prefix("extd_audit", AUDIT),
    prefix("glusterfs", GLUSTER),
    prefix("ceph", CEPH),
    prefix("ceph_snapshots", SNAPSHOTS),
    prefix("worm", "files that cannot be changed"),
    prefix("readonly", "times at which a share is read-only"),
    prefix("virusfilter", "virus scanners"),
    prefix("vscan", "virus scanners"),
    prefix("btrfs", "snapshots made by clients"),
    prefix("fileid", "clusters"),
    prefix("netatalk", MAC),
    prefix("prealloc", "space reserved by file name"),
    prefix("commit", "flushes after so many bytes"),
    prefix("expand_msdfs", "DFS"),
    prefix("dirsort", "sorted listings"),
    prefix("unityed_media", "media farms"),
    prefix("media_harmony", "media farms"),
    prefix("offline", "files on tape"),
    prefix("tsmsm", "files on tape"),
    prefix("elasticsearch", SPOTLIGHT),
    prefix("tracker", SPOTLIGHT),
    prefix("spoolss", "printing"),
    prefix("rpc_server", "RPC servers by configuration"),
    prefix("rpc_daemon", "RPC servers by configuration"),
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
    prefix("smb3 share cap", "share capabilities by configuration"),
    ignored_prefix("smbd", "it steers Samba's own process, mostly in its tests"),
    ignored_prefix("aio_pthread", OWN_IO),
    ignored_prefix("readahead", OWN_IO),
    ignored_prefix("syncops", "strict sync and sync always say when data reaches the disk"),
    ignored_prefix("share", "it steers Samba's own process"),
    ignored_prefix("torture", "it steers Samba's tests"),
    ignored_prefix("client ldap", "it is for Samba's client programs, which read it themselves"),
    ignored_prefix("vfs", "it steers Samba's own process"),
];

/// The known modules. One that Frevo does not serve is vital where a share without it would show other data than was meant,
/// allow what was forbidden, or leave no record; an unknown one is taken for vital.
pub static MODULES: &[Module] = &[
    served("acl_xattr"),
    served("streams_xattr"),
    served("shadow_copy2"),
    // The files are elsewhere: `path` is a path within the volume, and on this host it is another directory, often `/`.
    vital("glusterfs", GLUSTER, STORAGE),
    vital("ceph", CEPH, STORAGE),
    vital("ceph_new", CEPH, STORAGE),
    vital("ceph_rgw", "object stores", STORAGE),
    vital("gpfs", "GPFS", STORAGE),
    // Clients that write the same database at the same time damage it: the module keeps them apart.
    vital("media_harmony", "media farms", REDIRECTION),
    vital("unityed_media", "media farms", REDIRECTION),
    // What a client may do is kept in places where Frevo does not look.
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
    // Stored Windows ACLs and DOS attributes are among the attributes.
    vital("posix_eadb", "extended attributes outside of the file system", RIGHTS),
    vital("xattr_tdb", "extended attributes outside of the file system", RIGHTS),
    vital("worm", "files that cannot be changed", PROHIBITION),
    vital("readonly", "times at which a share is read-only", PROHIBITION),
    vital("virusfilter", "virus scanners", PROHIBITION),
    vital("full_audit", AUDIT, RECORD),
    vital("audit", AUDIT, RECORD),
    vital("extd_audit", AUDIT, RECORD),
    vital("smb_traffic_analyzer", AUDIT, RECORD),
    // Features that clients miss. None of them keeps a client from anything.
    module("streams_depot", STREAMS),
    module("fruit", MAC),
    module("netatalk", MAC),
    module("catia", "maps of characters in names"),
    module("cap", "maps of characters in names"),
    module("shadow_copy", SNAPSHOTS),
    module("snapper", SNAPSHOTS),
    module("ceph_snapshots", SNAPSHOTS),
    module("shell_snap", "running commands: no text of the configuration ever reaches a shell"),
    // A deletion is a deletion, as on any share without the module.
    module("recycle", RECYCLE),
    // The volume is mounted on this host, and the mount enforces what the volume does; the module finds names faster.
    module("glusterfs_fuse", GLUSTER),
    // It chooses what identifies a file; locks count on this server alone either way.
    module("fileid", "clusters"),
    // The kernel enforces quotas. These modules change the numbers that clients are shown.
    module("default_quota", "quotas and space limits"),
    module("fake_dfq", "quotas and space limits"),
    // It shows more permissions than there are, and grants none.
    module("fake_perms", "permissions that are not there"),
    module("expand_msdfs", "DFS"),
    module("dfs_samba4", "DFS"),
    module("offline", "files on tape"),
    module("tsmsm", "files on tape"),
    module("preopen", OWN_IO),
    module("prealloc", "space reserved by file name"),
    module("printer", "printing"),
    module("dirsort", "sorted listings"),
    module("linux_xfs_sgid", "a work-around for old kernels"),
    module("commit", "flushes after so many bytes"),
    module("aio_ratelimit", "limits on the rate of reads and writes"),
    // It logs slow calls, to find slow disks, and not what clients do.
    module("time_audit", "a log of slow calls"),
    // It allows links out of the share; without it they are refused.
    module("widelinks", "links out of the share by a module: wide links does this"),
    ignored("btrfs", "files share room and are compressed wherever the file system can do that"),
    ignored("aio_fork", OWN_IO),
    ignored("aio_pthread", OWN_IO),
    ignored("aio_linux", OWN_IO),
    ignored("io_uring", OWN_IO),
    ignored("readahead", OWN_IO),
    ignored("cacheprime", OWN_IO),
    ignored("crossrename", "clients copy and delete what lies on another file system"),
    ignored("acl_posix", "it is a part of the server"),
    ignored("posixacl", "it is a part of the server"),
    ignored("syncops", "strict sync and sync always say when data reaches the disk"),
];
