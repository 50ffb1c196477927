//! User accounts in an LDAP directory.

use std::time::Duration;

use ldap::Deref;

use super::controller::CA_FILE;
use super::{BOOL, BYTES, CONTROLLERS_ONLY, COUNT, Kind, NUMBER, Parameter, TEXT, WINBINDD, global};
use crate::problem::{Code, error};
use crate::reader::Reader;
use accounts::ldap::Settings;

const OWN_CLIENT: &str = "the built-in LDAP client uses log level";

pub(crate) const SSL_MODE: Kind = Kind::Choice(&[&["start tls", "start_tls", "starttls", "yes", "on"], &["off", "no"]]);
const DEREF_MODE: Kind = Kind::Choice(&[&["auto"], &["never"], &["searching"], &["finding"], &["always"]]);

const ADMIN_DN: Parameter = global(
    "ldap admin dn",
    TEXT,
    "",
    "The bind DN; frevo user ldap-password stores its password. Empty on ldapi: bind as the server's UNIX user.",
)
.read_by_others();

const SUFFIX: Parameter = global("ldap suffix", TEXT, "", "The base of all searches.").read_by_others();

const USER_SUFFIX: Parameter =
    global("ldap user suffix", TEXT, "", "The subtree of new accounts, relative to ldap suffix.").read_by_others();

const GROUP_SUFFIX: Parameter =
    global("ldap group suffix", TEXT, "", "The subtree of groups, relative to ldap suffix.").read_by_others();

const SSL: Parameter =
    global("ldap ssl", SSL_MODE, "start tls", "Whether ldap:// uses StartTLS; certificates are always checked.")
        .read_by_others();

const TIMEOUT: Parameter =
    global("ldap timeout", COUNT, "15", "Seconds before a request fails, for all servers together.").read_by_others();

const CONNECTION_TIMEOUT: Parameter =
    global("ldap connection timeout", COUNT, "2", "Timeout of a connection attempt in seconds.").read_by_others();

const PAGE_SIZE: Parameter =
    global("ldap page size", COUNT, "1000", "Entries per page of a search, at most 10000.").read_by_others();

const DEREF: Parameter =
    global("ldap deref", DEREF_MODE, "auto", "Whether aliases are followed; auto means never.").read_by_others();

const DELETE_DN: Parameter =
    global("ldap delete dn", BOOL, "no", "Delete the whole LDAP entry when an account is deleted.").read_by_others();

const TRUSTED: Parameter =
    global("ldapsam:trusted", BOOL, "no", "Take uids and gids of accounts from the directory instead of NSS.")
        .read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    ADMIN_DN,
    SUFFIX,
    USER_SUFFIX,
    GROUP_SUFFIX,
    global("ldap machine suffix", TEXT, "", "The subtree of machines, relative to ldap suffix.")
        .accepted(CONTROLLERS_ONLY),
    global("ldap idmap suffix", TEXT, "", "The subtree of id mappings, relative to ldap suffix.").accepted(WINBINDD),
    SSL,
    TIMEOUT,
    CONNECTION_TIMEOUT,
    PAGE_SIZE,
    DEREF,
    global("ldap follow referral", TEXT, "auto", "Whether referrals are followed.")
        .unserved("referrals of LDAP servers"),
    DELETE_DN,
    TRUSTED,
    global("ldap passwd sync", TEXT, "no", "Also change the LDAP password.")
        .also(&["ldap password sync"])
        .unserved("changing LDAP passwords"),
    global("ldap replication sleep", NUMBER, "1000", "Milliseconds to wait for replicas.")
        .accepted("changes are read from the server that made them"),
    global("ldap debug level", NUMBER, "0", "How much the LDAP library logs.").accepted(OWN_CLIENT),
    global("ldap debug threshold", NUMBER, "10", "The log level at which LDAP messages are logged.")
        .accepted(OWN_CLIENT),
    global("ldap server require strong auth", TEXT, "yes", "Requirements of binds to the controller.")
        .accepted(CONTROLLERS_ONLY),
    global("ldap max anonymous request size", BYTES, "256000", "Maximum size of a request before a bind.")
        .accepted(CONTROLLERS_ONLY),
    global("ldap max authenticated request size", BYTES, "16777216", "Maximum size of a request after a bind.")
        .accepted(CONTROLLERS_ONLY),
    global("ldap max search request size", BYTES, "256000", "Maximum size of a search request.")
        .accepted(CONTROLLERS_ONLY),
];

/// Reads the settings; the caller sets `servers` and `name` for each element of `passdb backend`.
pub(super) fn settings(global: &Reader<'_>) -> Settings {
    let suffix = global.value(&SUFFIX).text();
    let below = |parameter| match global.value(parameter).text() {
        part if part.is_empty() => suffix.clone(),
        part => format!("{part},{suffix}"),
    };
    let seconds = |parameter| Duration::from_secs(global.value(parameter).number::<u64>().unwrap_or(0).clamp(1, 3600));
    let authority = global.value(&CA_FILE).text();
    if !authority.is_empty() && !authority.starts_with('/') {
        let problem = error(Code::BadValue, format!("`tls cafile` = {authority} is not an absolute path"));
        global.value(&CA_FILE).report(problem.remedy("write the file's full path"));
    }
    Settings {
        name: String::new(),
        servers: Vec::new(),
        user_suffix: below(&USER_SUFFIX),
        group_suffix: below(&GROUP_SUFFIX),
        admin_dn: global.value(&ADMIN_DN).text(),
        start_tls: global.value(&SSL).choice() == "start tls",
        authority: (!authority.is_empty()).then(|| authority.into()),
        timeout: seconds(&TIMEOUT),
        connection_timeout: seconds(&CONNECTION_TIMEOUT),
        page_size: u16::try_from(global.value(&PAGE_SIZE).number::<u64>().unwrap_or(0).clamp(1, 10_000))
            .unwrap_or(1000),
        deref: match global.value(&DEREF).choice().as_str() {
            "searching" => Deref::Searching,
            "finding" => Deref::Finding,
            "always" => Deref::Always,
            _ => Deref::Never,
        },
        delete_dn: global.value(&DELETE_DN).boolean(),
        trusted: global.value(&TRUSTED).boolean(),
        domain: global.variables.netbios_name.clone(),
        suffix,
    }
}
