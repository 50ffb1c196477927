//! User accounts in an LDAP directory.

use super::{BOOL, BYTES, COUNT, Kind, NUMBER, Parameter, TEXT, global};

const OWN_CLIENT: &str = "the built-in LDAP client uses log level";
const MACHINES: &str = "machine accounts in an LDAP directory";
const CONTROLLER: &str = "being a domain controller";

const SSL: Kind = Kind::Choice(&[&["start tls", "start_tls", "starttls", "yes", "on"], &["off", "no"]]);
const DEREF: Kind = Kind::Choice(&[&["auto"], &["never"], &["searching"], &["finding"], &["always"]]);

pub(super) static TABLE: &[Parameter] = &[
    global(
        "ldap admin dn",
        TEXT,
        "",
        "The bind DN; frevo user ldap-password stores its password. Empty on ldapi: bind as the server's UNIX user.",
    ),
    global("ldap suffix", TEXT, "", "The base of all searches."),
    global("ldap user suffix", TEXT, "", "The subtree of new accounts, relative to ldap suffix."),
    global("ldap group suffix", TEXT, "", "The subtree of groups, relative to ldap suffix."),
    global("ldap machine suffix", TEXT, "", "The subtree of machines, relative to ldap suffix.").unserved(MACHINES),
    global("ldap idmap suffix", TEXT, "", "The subtree of id mappings, relative to ldap suffix.")
        .unserved("id mappings in an LDAP directory"),
    global("ldap ssl", SSL, "start tls", "Whether ldap:// uses StartTLS; certificates are always checked."),
    global("ldap timeout", COUNT, "15", "Seconds before a request fails, for all servers together."),
    global("ldap connection timeout", COUNT, "2", "Timeout of a connection attempt in seconds."),
    global("ldap page size", COUNT, "1000", "Entries per page of a search, at most 10000."),
    global("ldap deref", DEREF, "auto", "Whether aliases are followed; auto means never."),
    global("ldap follow referral", TEXT, "auto", "Whether referrals are followed.")
        .unserved("referrals of LDAP servers"),
    global("ldap delete dn", BOOL, "no", "Delete the whole LDAP entry when an account is deleted."),
    global("ldapsam:trusted", BOOL, "no", "Take uids and gids of accounts from the directory instead of NSS."),
    global("ldap passwd sync", TEXT, "no", "Also change the LDAP password.")
        .also(&["ldap password sync"])
        .unserved("changing LDAP passwords"),
    global("ldap replication sleep", NUMBER, "1000", "Milliseconds to wait for replicas.")
        .accepted("changes are read from the server that made them"),
    global("ldap debug level", NUMBER, "0", "How much the LDAP library logs.").accepted(OWN_CLIENT),
    global("ldap debug threshold", NUMBER, "10", "The log level at which LDAP messages are logged.")
        .accepted(OWN_CLIENT),
    global("ldap server require strong auth", TEXT, "yes", "Requirements of binds to the controller.")
        .unserved(CONTROLLER),
    global("ldap max anonymous request size", BYTES, "256000", "Maximum size of a request before a bind.")
        .unserved(CONTROLLER),
    global("ldap max authenticated request size", BYTES, "16777216", "Maximum size of a request after a bind.")
        .unserved(CONTROLLER),
    global("ldap max search request size", BYTES, "256000", "Maximum size of a search request.").unserved(CONTROLLER),
];
