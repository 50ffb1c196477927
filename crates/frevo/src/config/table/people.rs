//! Accounts in an LDAP directory.

use super::{BOOL, BYTES, NUMBER, Parameter, TEXT, global};

const LDAP: &str = "accounts in an LDAP directory";
const CONTROLLER: &str = "being a domain controller";

pub(super) static TABLE: &[Parameter] = &[
    global("ldap admin dn", TEXT, "", "The name to bind with.").unserved(LDAP),
    global("ldap suffix", TEXT, "", "The base of all searches.").unserved(LDAP),
    global("ldap user suffix", TEXT, "", "Where users lie below it.").unserved(LDAP),
    global("ldap group suffix", TEXT, "", "Where groups lie below it.").unserved(LDAP),
    global("ldap machine suffix", TEXT, "", "Where machines lie below it.").unserved(LDAP),
    global("ldap idmap suffix", TEXT, "", "Where id mappings lie below it.").unserved(LDAP),
    global("ldap ssl", TEXT, "start tls", "Whether the connection is protected.").unserved(LDAP),
    global("ldap timeout", NUMBER, "15", "Seconds to wait for an answer.").unserved(LDAP),
    global("ldap connection timeout", NUMBER, "2", "Seconds to wait for a connection.").unserved(LDAP),
    global("ldap page size", NUMBER, "1000", "Entries per page of a search.").unserved(LDAP),
    global("ldap deref", TEXT, "auto", "Whether aliases are followed.").unserved(LDAP),
    global("ldap follow referral", TEXT, "auto", "Whether referrals are followed.").unserved(LDAP),
    global("ldap delete dn", BOOL, "no", "Delete the whole entry with an account.").unserved(LDAP),
    global("ldap passwd sync", TEXT, "no", "Change the LDAP password along.")
        .also(&["ldap password sync"])
        .unserved(LDAP),
    global("ldap replication sleep", NUMBER, "1000", "Milliseconds to wait for replicas.").unserved(LDAP),
    global("ldap debug level", NUMBER, "0", "How much the LDAP library logs.").unserved(LDAP),
    global("ldap debug threshold", NUMBER, "10", "At which log level that is shown.").unserved(LDAP),
    global("ldap server require strong auth", TEXT, "yes", "What binds to the controller need.").unserved(CONTROLLER),
    global("ldap max anonymous request size", BYTES, "256000", "The longest request without a bind.")
        .unserved(CONTROLLER),
    global("ldap max authenticated request size", BYTES, "16777216", "The longest request after it.")
        .unserved(CONTROLLER),
    global("ldap max search request size", BYTES, "256000", "The longest search.").unserved(CONTROLLER),
];
