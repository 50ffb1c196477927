//! Being a member of a domain: winbind, id mapping, Kerberos, secure channel.

use super::{BOOL, COMMANDS, Kind, NUMBER, PATH, Parameter, TEXT, WINBINDD, global};

const UPDATES: &str = "Samba's other services";

const KERBEROS_METHOD: Kind = Kind::Choice(&[
    &["default"],
    &["secrets only"],
    &["system keytab"],
    &["dedicated keytab"],
    &["secrets and keytab"],
]);
const ENCRYPTION_TYPES: Kind = Kind::Choice(&[&["strong"], &["all"], &["legacy"]]);

pub(super) static TABLE: &[Parameter] = &[
    global("realm", TEXT, "", "The Kerberos realm of the domain, which is its DNS name."),
    global("kerberos method", KERBEROS_METHOD, "default", "Which keytab tickets are checked with."),
    global("dedicated keytab file", PATH, "", "The keytab of `dedicated keytab`."),
    global(
        "kerberos encryption types",
        ENCRYPTION_TYPES,
        "strong",
        "Ciphers of tickets: all, strong (AES) or legacy (RC4).",
    ),
    global("create krb5 conf", BOOL, "yes", "Write a krb5.conf for the domain.").accepted(WINBINDD),
    global("include system krb5 conf", BOOL, "yes", "Include the host's krb5.conf in it.").accepted(WINBINDD),
    global("sync machine password to keytab", TEXT, "", "Keytabs that get new machine passwords.").accepted(WINBINDD),
    global("sync machine password script", TEXT, "", "A command at new machine passwords.").unserved(COMMANDS),
    global("machine password timeout", NUMBER, "604800", "Seconds before the machine's password changes.")
        .accepted(WINBINDD),
    global("allow trusted domains", BOOL, "yes", "Let users of trusted domains log on.").accepted(WINBINDD),
    global("require strong key", BOOL, "yes", "Insist on a strong key to the controller.").accepted(WINBINDD),
    global("reject md5 servers", BOOL, "yes", "Refuse controllers without AES.").accepted(WINBINDD),
    global("reject aes netlogon servers", BOOL, "no", "Refuse controllers without Kerberos.").accepted(WINBINDD),
    global("neutralize nt4 emulation", BOOL, "no", "Tell controllers that no NT4 is wanted.").accepted(WINBINDD),
    global("apply group policies", BOOL, "no", "Apply group policies to the host.").unserved(UPDATES),
    global("gpo update command", TEXT, "/usr/sbin/samba-gpupdate", "The command that does it.").unserved(COMMANDS),
    global("additional dns hostnames", TEXT, "", "More DNS names of the machine account.").accepted(WINBINDD),
    global("dns hostname", TEXT, "", "The DNS name of the machine account.").accepted(WINBINDD),
    global("async dns timeout", NUMBER, "10", "Seconds to wait for DNS.").accepted(WINBINDD),
    global("template homedir", TEXT, "/home/%D/%U", "The home directory of domain users.").accepted(WINBINDD),
    global("template shell", TEXT, "/bin/false", "Their shell.").accepted(WINBINDD),
    global("idmap backend", TEXT, "tdb", "Where id mappings are kept.").accepted(WINBINDD),
    global("idmap cache time", NUMBER, "604800", "Seconds that a mapping counts.").accepted(WINBINDD),
    global("idmap negative cache time", NUMBER, "120", "Seconds that a failure counts.").accepted(WINBINDD),
    global("idmap gid", TEXT, "", "The range of gids.").also(&["winbind gid"]).accepted(WINBINDD),
    global("idmap uid", TEXT, "", "The range of uids.").also(&["winbind uid"]).accepted(WINBINDD),
    global("winbindd socket directory", PATH, "/run/samba/winbindd", "Where winbindd's socket lies.")
        .accepted(WINBINDD),
    global("winbind cache time", NUMBER, "300", "Seconds that an answer counts.").accepted(WINBINDD),
    global("winbind enum groups", BOOL, "no", "List domain groups to the host.").accepted(WINBINDD),
    global("winbind enum users", BOOL, "no", "List domain users to the host.").accepted(WINBINDD),
    global("winbind expand groups", NUMBER, "0", "How deep nested groups are listed.").accepted(WINBINDD),
    global("winbind max clients", NUMBER, "200", "How many processes may ask at a time.").accepted(WINBINDD),
    global("winbind max domain connections", NUMBER, "1", "Connections to a controller.").accepted(WINBINDD),
    global("winbind nested groups", BOOL, "yes", "Honour groups in local groups.").accepted(WINBINDD),
    global("winbind normalize names", BOOL, "no", "Write _ for blanks in names.").accepted(WINBINDD),
    global("winbind nss info", TEXT, "template", "Where homes and shells come from.").accepted(WINBINDD),
    global("winbind offline logon", BOOL, "no", "Let users log on while the controller is away.").accepted(WINBINDD),
    global("winbind reconnect delay", NUMBER, "30", "Seconds before a controller is tried again.").accepted(WINBINDD),
    global("winbind refresh tickets", BOOL, "no", "Renew users' tickets.").accepted(WINBINDD),
    global("winbind request timeout", NUMBER, "60", "Seconds to wait for a controller.").accepted(WINBINDD),
    global("winbind rpc only", BOOL, "no", "Ask controllers by RPC, not LDAP.").accepted(WINBINDD),
    global("winbind scan trusted domains", BOOL, "no", "Look for trusted domains.").accepted(WINBINDD),
    global("winbind sealed pipes", BOOL, "yes", "Seal calls to controllers.").accepted(WINBINDD),
    global("winbind separator", TEXT, "\\", "The character between domain and user, in lists of users as well as \\."),
    global("winbind use default domain", BOOL, "no", "In lists, users and groups of the own domain need not name it."),
    global("winbind use krb5 enterprise principals", BOOL, "yes", "Log on with enterprise principals.")
        .accepted(WINBINDD),
    global("winbind varlink service", BOOL, "no", "Offer users by varlink.").accepted(WINBINDD),
    global("server schannel", BOOL, "yes", "Insist on a secure channel.").unserved("being a domain controller"),
    global("server schannel require seal", BOOL, "yes", "Insist on its sealing.").unserved("being a domain controller"),
    global("lsa over netlogon", BOOL, "no", "Share the pipe of the secure channel.")
        .unserved("being a domain controller"),
];
