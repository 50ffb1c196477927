//! Parameters that Samba itself has removed; old files may still contain them.

use super::{Parameter, TEXT, global, share};

const GONE: &str = "Samba has also removed it";
const SHARE_LEVEL: &str = "Samba has also removed share-level security; use valid users";
const MASKS: &str = "Samba has also removed it; permissions are set as requested by the client";
const CACHES: &str = "Samba has also removed it; the kernel caches files";
const LOGONS: &str = "Samba has also removed it; logons use SPNEGO with NTLMv2";

pub(super) static TABLE: &[Parameter] = &[
    share("username", TEXT, "", "Users to try a password with.").also(&["user", "users"]).accepted(SHARE_LEVEL),
    share("only user", TEXT, "no", "Allow only the users of username.").accepted(SHARE_LEVEL),
    share("share modes", TEXT, "yes", "Honour the share modes of clients.").accepted("share modes are always honoured"),
    share("write cache size", TEXT, "0", "Size of the write cache.").accepted(CACHES),
    global("read prediction", TEXT, "no", "Read ahead of the client.").accepted(CACHES),
    global("read size", TEXT, "16384", "The size of each read from disk.").accepted(CACHES),
    global("read bmpx", TEXT, "no", "SMB 1's multiplexed reads.").accepted(GONE),
    share("security mask", TEXT, "0777", "Permission bits that clients may change.").accepted(MASKS),
    share("force security mode", TEXT, "0", "Permission bits that are always set.").accepted(MASKS),
    share("directory security mask", TEXT, "0777", "Permission bits that clients may change on directories.")
        .accepted(MASKS),
    share("force directory security mode", TEXT, "0", "Permission bits that are always set on directories.")
        .accepted(MASKS),
    share("profile acls", TEXT, "no", "ACLs for profiles on Windows 2000.").accepted(GONE),
    share("acl compatibility", TEXT, "auto", "ACLs for Windows NT 4.").accepted(GONE),
    share("mangled map", TEXT, "", "Map of mangled names.").accepted(GONE),
    share("printer admin", TEXT, "", "Users who manage printers.").accepted(GONE),
    global("password level", TEXT, "0", "Capital letters to try in passwords.").accepted(LOGONS),
    global("use spnego", TEXT, "yes", "Use SPNEGO for logons.").accepted(LOGONS),
    global("auth methods", TEXT, "", "The methods that check logons.").accepted(LOGONS),
    global("map untrusted to domain", TEXT, "no", "Treat users of unknown domains as users of the own domain.")
        .accepted(LOGONS),
    global("use kerberos keytab", TEXT, "no", "Check tickets with the keytab.").accepted(LOGONS),
    global("hosts equiv", TEXT, "", "Hosts that need no password.").accepted(LOGONS),
    global("use rhosts", TEXT, "no", "Hosts that need no password.").accepted(LOGONS),
    global("announce as", TEXT, "NT", "The operating system to announce.").accepted(GONE),
    global("announce version", TEXT, "4.9", "The version to announce.").accepted(GONE),
    global("change notify timeout", TEXT, "60", "Seconds between scans of directories.").accepted(GONE),
    global("display charset", TEXT, "", "The character set of the terminal.").accepted(GONE),
    global("enable rid algorithm", TEXT, "yes", "Compute RIDs from uids.").accepted(GONE),
    global("min password length", TEXT, "5", "The length of the shortest password.").accepted(GONE),
    global("nis homedir", TEXT, "no", "Ask NIS for home servers.").accepted(GONE),
    global("homedir map", TEXT, "", "The NIS map of home directories.").accepted(GONE),
    global("paranoid server security", TEXT, "yes", "Check the password server for impostors.").accepted(GONE),
    global("web port", TEXT, "901", "The port of the web interface SWAT.").accepted(GONE),
];
