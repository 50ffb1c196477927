//! Parameters that Samba itself had once and has dropped; old files still have them.

use super::{Parameter, TEXT, global, share};

const GONE: &str = "Samba has dropped it, too";
const SHARE_LEVEL: &str = "Samba has dropped share-level security, too; valid users says who may connect";
const MASKS: &str = "Samba has dropped it, too; permissions are set as the client asks";
const CACHES: &str = "Samba has dropped it, too; the kernel's cache does this";
const LOGONS: &str = "Samba has dropped it, too; logons are SPNEGO with NTLMv2";

pub(super) static TABLE: &[Parameter] = &[
    share("username", TEXT, "", "Users to try a password with.").also(&["user", "users"]).accepted(SHARE_LEVEL),
    share("only user", TEXT, "no", "Only those users.").accepted(SHARE_LEVEL),
    share("share modes", TEXT, "yes", "Honour share modes.").accepted("share modes are always honoured"),
    share("write cache size", TEXT, "0", "A cache for writes.").accepted(CACHES),
    global("read prediction", TEXT, "no", "Read ahead.").accepted(CACHES),
    global("read size", TEXT, "16384", "Read in pieces of this size.").accepted(CACHES),
    global("read bmpx", TEXT, "no", "SMB 1's multiplexed reads.").accepted(GONE),
    share("security mask", TEXT, "0777", "Permission bits that clients may change.").accepted(MASKS),
    share("force security mode", TEXT, "0", "Permission bits that stay set.").accepted(MASKS),
    share("directory security mask", TEXT, "0777", "The same for folders.").accepted(MASKS),
    share("force directory security mode", TEXT, "0", "The same for folders.").accepted(MASKS),
    share("profile acls", TEXT, "no", "ACLs for profiles on Windows 2000.").accepted(GONE),
    share("acl compatibility", TEXT, "auto", "ACLs for Windows NT 4.").accepted(GONE),
    share("mangled map", TEXT, "", "A map of names.").accepted(GONE),
    share("printer admin", TEXT, "", "Users who manage printers.").accepted(GONE),
    global("password level", TEXT, "0", "Capital letters to try in passwords.").accepted(LOGONS),
    global("use spnego", TEXT, "yes", "Log on by SPNEGO.").accepted(LOGONS),
    global("auth methods", TEXT, "", "Where logons are checked.").accepted(LOGONS),
    global("map untrusted to domain", TEXT, "no", "Whose users unknown domains' users are.").accepted(LOGONS),
    global("use kerberos keytab", TEXT, "no", "Check tickets with the keytab.").accepted(LOGONS),
    global("hosts equiv", TEXT, "", "Hosts that need no password.").accepted(LOGONS),
    global("use rhosts", TEXT, "no", "Hosts that need no password.").accepted(LOGONS),
    global("announce as", TEXT, "NT", "What the server says it is.").accepted(GONE),
    global("announce version", TEXT, "4.9", "Which version it says it is.").accepted(GONE),
    global("change notify timeout", TEXT, "60", "Seconds between looks at folders.").accepted(GONE),
    global("display charset", TEXT, "", "The character set of the terminal.").accepted(GONE),
    global("enable rid algorithm", TEXT, "yes", "Make RIDs of uids.").accepted(GONE),
    global("min password length", TEXT, "5", "The shortest password.").accepted(GONE),
    global("nis homedir", TEXT, "no", "Ask NIS for home servers.").accepted(GONE),
    global("homedir map", TEXT, "", "The NIS map of homes.").accepted(GONE),
    global("paranoid server security", TEXT, "yes", "Check the password server.").accepted(GONE),
    global("web port", TEXT, "901", "The port of SWAT.").accepted(GONE),
];
