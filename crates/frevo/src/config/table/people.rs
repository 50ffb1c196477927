//! Accounts in an LDAP directory.

use super::{BOOL, BYTES, COUNT, Kind, NUMBER, Parameter, TEXT, global};

const OWN_CLIENT: &str = "the LDAP client is built in and logs as all else";
const MACHINES: &str = "machine accounts in an LDAP directory";
const CONTROLLER: &str = "being a domain controller";

const SSL: Kind = Kind::Choice(&[&["start tls", "start_tls", "starttls", "yes", "on"], &["off", "no"]]);
const DEREF: Kind = Kind::Choice(&[&["auto"], &["never"], &["searching"], &["finding"], &["always"]]);

pub(super) static TABLE: &[Parameter] = &[
    global(
        "ldap admin dn",
        TEXT,
        "",
        "The name to bind with; frevo user ldap-password keeps its password. On ldapi, nobody is the UNIX user.",
    ),
    global("ldap suffix", TEXT, "", "The base of all searches."),
    global("ldap user suffix", TEXT, "", "Where new accounts go, below the suffix."),
    global("ldap group suffix", TEXT, "", "Where groups lie, below the suffix."),
    global("ldap machine suffix", TEXT, "", "Where machines lie below it.").unserved(MACHINES),
    global("ldap idmap suffix", TEXT, "", "Where id mappings lie below it.")
        .unserved("id mappings in an LDAP directory"),
    global("ldap ssl", SSL, "start tls", "Whether ldap:// becomes protected; certificates are always checked."),
    global("ldap timeout", COUNT, "15", "Seconds until a question is answered or refused, all servers together."),
    global("ldap connection timeout", COUNT, "2", "Seconds to wait for a connection."),
    global("ldap page size", COUNT, "1000", "Entries per page of a list, at most 10000."),
    global("ldap deref", DEREF, "auto", "Whether aliases are followed; auto is never."),
    global("ldap follow referral", TEXT, "auto", "Whether referrals are followed.")
        .unserved("referrals of LDAP servers"),
    global("ldap delete dn", BOOL, "no", "Delete the whole entry with an account."),
    global("ldapsam:trusted", BOOL, "no", "The directory says who accounts are on Linux; NSS is not asked."),
    global("ldap passwd sync", TEXT, "no", "Change the LDAP password along.")
        .also(&["ldap password sync"])
        .unserved("changing LDAP passwords"),
    global("ldap replication sleep", NUMBER, "1000", "Milliseconds to wait for replicas.")
        .accepted("a change is read from the server that has made it"),
    global("ldap debug level", NUMBER, "0", "How much the LDAP library logs.").accepted(OWN_CLIENT),
    global("ldap debug threshold", NUMBER, "10", "At which log level that is shown.").accepted(OWN_CLIENT),
    global("ldap server require strong auth", TEXT, "yes", "What binds to the controller need.").unserved(CONTROLLER),
    global("ldap max anonymous request size", BYTES, "256000", "The longest request without a bind.")
        .unserved(CONTROLLER),
    global("ldap max authenticated request size", BYTES, "16777216", "The longest request after it.")
        .unserved(CONTROLLER),
    global("ldap max search request size", BYTES, "256000", "The longest search.").unserved(CONTROLLER),
];
