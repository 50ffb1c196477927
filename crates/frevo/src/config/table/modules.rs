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
}

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
    Module { name, status: Status::NotServed(feature) }
}

const fn served(name: &'static str) -> Module {
    Module { name, status: Status::Served }
}

const fn ignored(name: &'static str, reason: &'static str) -> Module {
    Module { name, status: Status::Accepted(reason) }
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

/// The known modules.
pub static MODULES: &[Module] = &[
    served("acl_xattr"),
    module("acl_tdb", ACLS),
    module("nfs4acl_xattr", ACLS),
    module("zfsacl", ACLS),
    served("streams_xattr"),
    module("streams_depot", STREAMS),
    module("fruit", MAC),
    module("catia", "maps of characters in names"),
    module("netatalk", MAC),
    module("shadow_copy", SNAPSHOTS),
    Module { name: "shadow_copy2", status: Status::Served },
    module("snapper", SNAPSHOTS),
    module("shell_snap", "running commands: no text of the configuration ever reaches a shell"),
    module("recycle", RECYCLE),
    module("full_audit", AUDIT),
    module("audit", AUDIT),
    module("extd_audit", AUDIT),
    module("glusterfs", GLUSTER),
    module("glusterfs_fuse", GLUSTER),
    module("ceph", CEPH),
    module("ceph_new", CEPH),
    module("ceph_snapshots", SNAPSHOTS),
    module("gpfs", "GPFS"),
    module("worm", "files that cannot be changed"),
    module("virusfilter", "virus scanners"),
    ignored("btrfs", "files share room and are compressed wherever the file system can do that"),
    module("default_quota", "quotas and space limits"),
    module("fake_perms", "permissions that are not there"),
    module("cap", "maps of characters in names"),
    module("expand_msdfs", "DFS"),
    module("fileid", "clusters"),
    module("media_harmony", "media farms"),
    module("unityed_media", "media farms"),
    module("offline", "files on tape"),
    module("preopen", OWN_IO),
    module("prealloc", "space reserved by file name"),
    module("printer", "printing"),
    module("dirsort", "sorted listings"),
    module("linux_xfs_sgid", "a work-around for old kernels"),
    module("posix_eadb", "extended attributes outside of the file system"),
    module("xattr_tdb", "extended attributes outside of the file system"),
    module("commit", "flushes after so many bytes"),
    module("time_audit", "a log of slow calls"),
    module("widelinks", "links out of the share by a module: wide links does this"),
    ignored("aio_fork", OWN_IO),
    ignored("aio_pthread", OWN_IO),
    ignored("aio_linux", OWN_IO),
    ignored("io_uring", OWN_IO),
    ignored("readahead", OWN_IO),
    ignored("readonly", "read only says when a share may be written to"),
    ignored("cacheprime", OWN_IO),
    ignored("crossrename", "clients copy and delete what lies on another file system"),
    ignored("acl_posix", "it is a part of the server"),
    ignored("syncops", "strict sync and sync always say when data reaches the disk"),
];
