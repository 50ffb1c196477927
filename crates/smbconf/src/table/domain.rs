//! Domain membership: winbind, id mapping, Kerberos, secure channel.

use crate::kerberos;

use super::{BOOL, CONTROLLERS_ONLY, Kind, NUMBER, PATH, Parameter, TEXT, WINBINDD, global};

pub(crate) const KERBEROS_METHOD: Kind = Kind::Choice(&[
    &["default"],
    &["secrets only"],
    &["system keytab"],
    &["dedicated keytab"],
    &["secrets and keytab"],
]);
const CIPHERS: Kind = Kind::Choice(&[&["strong"], &["all"], &["legacy"]]);

pub(crate) const REALM: Parameter =
    global("realm", TEXT, "", "The Kerberos realm of the domain, which is its DNS name.").read_by_others();

pub(crate) const KEYTAB: Parameter =
    global("dedicated keytab file", PATH, "", "The keytab of kerberos method = dedicated keytab.").read_by_others();

pub(crate) const ENCRYPTION_TYPES: Parameter = global(
    "kerberos encryption types",
    CIPHERS,
    "strong",
    "Accepted ciphers of tickets: all, strong (AES) or legacy (RC4).",
)
.read_by_others();

pub(crate) const SEPARATOR: Parameter =
    global("winbind separator", TEXT, "\\", "The character between domain and user; user lists also accept \\.")
        .read_by_others();

pub(crate) const DEFAULT_DOMAIN: Parameter = global(
    "winbind use default domain",
    BOOL,
    "no",
    "User lists may name users and groups of the own domain without the domain.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    REALM,
    global("kerberos method", KERBEROS_METHOD, "default", "The keytab with which tickets are checked.")
        .reads(|value, global| global.daemon.kerberos = kerberos::build(value)),
    KEYTAB,
    ENCRYPTION_TYPES,
    global("create krb5 conf", BOOL, "yes", "Write a krb5.conf for the domain.").accepted(WINBINDD),
    global("include system krb5 conf", BOOL, "yes", "Include the host's krb5.conf in it.").accepted(WINBINDD),
    global("sync machine password to keytab", TEXT, "", "Keytabs that are updated with new machine passwords.")
        .accepted(WINBINDD),
    global("sync machine password script", TEXT, "", "A command to run when the machine password changes.")
        .accepted(WINBINDD),
    global("machine password timeout", NUMBER, "604800", "Seconds before the machine's password changes.")
        .accepted(WINBINDD),
    global("allow trusted domains", BOOL, "yes", "Let users of trusted domains log on.").accepted(WINBINDD),
    global("require strong key", BOOL, "yes", "Require a strong key to the controller.").accepted(WINBINDD),
    global("reject md5 servers", BOOL, "yes", "Refuse controllers without AES.").accepted(WINBINDD),
    global("reject aes netlogon servers", BOOL, "no", "Refuse controllers without Kerberos.").accepted(WINBINDD),
    global("neutralize nt4 emulation", BOOL, "no", "Request controllers to disable NT4 emulation.").accepted(WINBINDD),
    global("apply group policies", BOOL, "no", "Apply group policies to the host.").accepted(WINBINDD),
    global("gpo update command", TEXT, "/usr/sbin/samba-gpupdate", "The command that applies group policies.")
        .accepted(WINBINDD),
    global("additional dns hostnames", TEXT, "", "More DNS names of the machine account.").accepted(WINBINDD),
    global("dns hostname", TEXT, "", "The DNS name of the machine account.").accepted(WINBINDD),
    global("async dns timeout", NUMBER, "10", "Seconds to wait for DNS.").accepted(WINBINDD),
    global("template homedir", TEXT, "/home/%D/%U", "The home directory of domain users.").accepted(WINBINDD),
    global("template shell", TEXT, "/bin/false", "The shell of domain users.").accepted(WINBINDD),
    global("idmap backend", TEXT, "tdb", "The storage of id mappings.").accepted(WINBINDD),
    global("idmap cache time", NUMBER, "604800", "Seconds for which a mapping is cached.").accepted(WINBINDD),
    global("idmap negative cache time", NUMBER, "120", "Seconds for which a failed mapping is cached.")
        .accepted(WINBINDD),
    global("idmap gid", TEXT, "", "The range of gids for domain groups.").also(&["winbind gid"]).accepted(WINBINDD),
    global("idmap uid", TEXT, "", "The range of uids for domain users.").also(&["winbind uid"]).accepted(WINBINDD),
    global("winbindd socket directory", PATH, "/run/samba/winbindd", "Directory of winbindd's socket.")
        .accepted(WINBINDD),
    global("winbind cache time", NUMBER, "300", "Seconds for which an answer is cached.").accepted(WINBINDD),
    global("winbind enum groups", BOOL, "no", "List domain groups to the host.").accepted(WINBINDD),
    global("winbind enum users", BOOL, "no", "List domain users to the host.").accepted(WINBINDD),
    global("winbind expand groups", NUMBER, "0", "Maximum depth of nested groups.").accepted(WINBINDD),
    global("winbind max clients", NUMBER, "200", "Maximum number of connected processes.").accepted(WINBINDD),
    global("winbind max domain connections", NUMBER, "1", "Maximum number of connections to a controller.")
        .accepted(WINBINDD),
    global("winbind nested groups", BOOL, "yes", "Support nested local groups.").accepted(WINBINDD),
    global("winbind normalize names", BOOL, "no", "Replace blanks in names by _.").accepted(WINBINDD),
    global("winbind nss info", TEXT, "template", "The source of home directories and shells.").accepted(WINBINDD),
    global("winbind offline logon", BOOL, "no", "Let users log on while the controller is unreachable.")
        .accepted(WINBINDD),
    global("winbind reconnect delay", NUMBER, "30", "Seconds between connection attempts to a controller.")
        .accepted(WINBINDD),
    global("winbind refresh tickets", BOOL, "no", "Renew the Kerberos tickets of users.").accepted(WINBINDD),
    global("winbind request timeout", NUMBER, "60", "Seconds to wait for a controller.").accepted(WINBINDD),
    global("winbind rpc only", BOOL, "no", "Query controllers by RPC, not LDAP.").accepted(WINBINDD),
    global("winbind scan trusted domains", BOOL, "no", "Look for trusted domains.").accepted(WINBINDD),
    global("winbind sealed pipes", BOOL, "yes", "Seal calls to controllers.").accepted(WINBINDD),
    SEPARATOR,
    DEFAULT_DOMAIN,
    global("winbind use krb5 enterprise principals", BOOL, "yes", "Log on with enterprise principals.")
        .accepted(WINBINDD),
    global("winbind varlink service", BOOL, "no", "Offer users by varlink.").accepted(WINBINDD),
    global("server schannel", BOOL, "yes", "Require a secure channel.").accepted(CONTROLLERS_ONLY),
    global("server schannel require seal", BOOL, "yes", "Require sealing of the secure channel.")
        .accepted(CONTROLLERS_ONLY),
    global("lsa over netlogon", BOOL, "no", "Allow LSA calls on the netlogon pipe.").accepted(CONTROLLERS_ONLY),
];
