//! Being a member of a domain: winbind, id mapping, Kerberos, secure channel.

use super::{BOOL, COMMANDS, Kind, NUMBER, PATH, Parameter, TEXT, global};

const MEMBER: &str = "member of a domain";
const KERBEROS: &str = "Kerberos";
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
    global("realm", TEXT, "", "The Kerberos realm."),
    global("kerberos method", KERBEROS_METHOD, "default", "Which keytab tickets are checked with."),
    global("dedicated keytab file", PATH, "", "The keytab of `dedicated keytab`."),
    global(
        "kerberos encryption types",
        ENCRYPTION_TYPES,
        "strong",
        "Ciphers of tickets: all, strong (AES) or legacy (RC4).",
    ),
    global("create krb5 conf", BOOL, "yes", "Write a krb5.conf for the domain.").unserved(KERBEROS),
    global("include system krb5 conf", BOOL, "yes", "Include the host's krb5.conf in it.").unserved(KERBEROS),
    global("sync machine password to keytab", TEXT, "", "Keytabs that get new machine passwords.").unserved(KERBEROS),
    global("sync machine password script", TEXT, "", "A command at new machine passwords.").unserved(COMMANDS),
    global("machine password timeout", NUMBER, "604800", "Seconds before the machine's password changes.")
        .unserved(MEMBER),
    global("allow trusted domains", BOOL, "yes", "Let users of trusted domains log on.").unserved(MEMBER),
    global("require strong key", BOOL, "yes", "Insist on a strong key to the controller.").unserved(MEMBER),
    global("reject md5 servers", BOOL, "yes", "Refuse controllers without AES.").unserved(MEMBER),
    global("reject aes netlogon servers", BOOL, "no", "Refuse controllers without Kerberos.").unserved(MEMBER),
    global("neutralize nt4 emulation", BOOL, "no", "Tell controllers that no NT4 is wanted.").unserved(MEMBER),
    global("apply group policies", BOOL, "no", "Apply group policies to the host.").unserved(UPDATES),
    global("gpo update command", TEXT, "/usr/sbin/samba-gpupdate", "The command that does it.").unserved(COMMANDS),
    global("additional dns hostnames", TEXT, "", "More DNS names of the machine account.").unserved(MEMBER),
    global("dns hostname", TEXT, "", "The DNS name of the machine account.").unserved(MEMBER),
    global("async dns timeout", NUMBER, "10", "Seconds to wait for DNS.").unserved(MEMBER),
    global("template homedir", TEXT, "/home/%D/%U", "The home directory of domain users.").unserved(MEMBER),
    global("template shell", TEXT, "/bin/false", "Their shell.").unserved(MEMBER),
    global("idmap backend", TEXT, "tdb", "Where id mappings are kept.").unserved(MEMBER),
    global("idmap cache time", NUMBER, "604800", "Seconds that a mapping counts.").unserved(MEMBER),
    global("idmap negative cache time", NUMBER, "120", "Seconds that a failure counts.").unserved(MEMBER),
    global("idmap gid", TEXT, "", "The range of gids.").also(&["winbind gid"]).unserved(MEMBER),
    global("idmap uid", TEXT, "", "The range of uids.").also(&["winbind uid"]).unserved(MEMBER),
    global("winbindd socket directory", PATH, "/run/samba/winbindd", "Where winbindd's socket lies.").unserved(MEMBER),
    global("winbind cache time", NUMBER, "300", "Seconds that an answer counts.").unserved(MEMBER),
    global("winbind enum groups", BOOL, "no", "List domain groups to the host.").unserved(MEMBER),
    global("winbind enum users", BOOL, "no", "List domain users to the host.").unserved(MEMBER),
    global("winbind expand groups", NUMBER, "0", "How deep nested groups are listed.").unserved(MEMBER),
    global("winbind max clients", NUMBER, "200", "How many processes may ask at a time.").unserved(MEMBER),
    global("winbind max domain connections", NUMBER, "1", "Connections to a controller.").unserved(MEMBER),
    global("winbind nested groups", BOOL, "yes", "Honour groups in local groups.").unserved(MEMBER),
    global("winbind normalize names", BOOL, "no", "Write _ for blanks in names.").unserved(MEMBER),
    global("winbind nss info", TEXT, "template", "Where homes and shells come from.").unserved(MEMBER),
    global("winbind offline logon", BOOL, "no", "Let users log on while the controller is away.").unserved(MEMBER),
    global("winbind reconnect delay", NUMBER, "30", "Seconds before a controller is tried again.").unserved(MEMBER),
    global("winbind refresh tickets", BOOL, "no", "Renew users' tickets.").unserved(MEMBER),
    global("winbind request timeout", NUMBER, "60", "Seconds to wait for a controller.").unserved(MEMBER),
    global("winbind rpc only", BOOL, "no", "Ask controllers by RPC, not LDAP.").unserved(MEMBER),
    global("winbind scan trusted domains", BOOL, "no", "Look for trusted domains.").unserved(MEMBER),
    global("winbind sealed pipes", BOOL, "yes", "Seal calls to controllers.").unserved(MEMBER),
    global("winbind separator", TEXT, "\\", "The character between domain and user.").unserved(MEMBER),
    global("winbind use default domain", BOOL, "no", "Show users of the own domain without it.").unserved(MEMBER),
    global("winbind use krb5 enterprise principals", BOOL, "yes", "Log on with enterprise principals.")
        .unserved(MEMBER),
    global("winbind varlink service", BOOL, "no", "Offer users by varlink.").unserved(MEMBER),
    global("server schannel", BOOL, "yes", "Insist on a secure channel.").unserved("being a domain controller"),
    global("server schannel require seal", BOOL, "yes", "Insist on its sealing.").unserved("being a domain controller"),
    global("lsa over netlogon", BOOL, "no", "Share the pipe of the secure channel.")
        .unserved("being a domain controller"),
];
