//! Being a domain controller, which Frevo does not want to be, and the services that go with it.

use super::{BOOL, COMMANDS, LIST, NUMBER, PATH, Parameter, TEXT, global};

const CONTROLLER: &str = "being a domain controller";

pub(super) static TABLE: &[Parameter] = &[
    global("domain logons", BOOL, "no", "Be a controller of an NT4 domain.").unserved(CONTROLLER),
    global("allow dns updates", TEXT, "secure only", "Who may change DNS.").unserved(CONTROLLER),
    global("allow nt4 crypto", BOOL, "no", "Let machines use NT4's cryptography.").unserved(CONTROLLER),
    global("ad dc functional level", TEXT, "2008_R2", "The level of the domain.").unserved(CONTROLLER),
    global("binddns dir", PATH, "/var/lib/samba/bind-dns", "Files for BIND.")
        .also(&["bind dns directory"])
        .unserved(CONTROLLER),
    global("certificate backdating compensation", NUMBER, "0", "How far certificates may be backdated.")
        .unserved(CONTROLLER),
    global("cldap port", NUMBER, "389", "The port of CLDAP.").unserved(CONTROLLER),
    global("dns forwarder", LIST, "", "DNS servers that are asked further.").unserved(CONTROLLER),
    global("dns port", NUMBER, "53", "The port of DNS.").unserved(CONTROLLER),
    global("dns update command", TEXT, "/usr/sbin/samba_dnsupdate", "The command that changes DNS.").unserved(COMMANDS),
    global("dns zone scavenging", BOOL, "no", "Delete stale DNS entries.").unserved(CONTROLLER),
    global("dns zone transfer clients allow", LIST, "", "Who may copy zones.").unserved(CONTROLLER),
    global("dns zone transfer clients deny", LIST, "", "Who may not copy zones.").unserved(CONTROLLER),
    global("dsdb event notification", BOOL, "no", "Send changes of the directory to the bus.").unserved(CONTROLLER),
    global("dsdb group change notification", BOOL, "no", "Send changes of groups to the bus.").unserved(CONTROLLER),
    global("dsdb password event notification", BOOL, "no", "Send changes of passwords to the bus.")
        .unserved(CONTROLLER),
    global("kdc always include pac", BOOL, "yes", "Put a PAC into each ticket.").unserved(CONTROLLER),
    global("kdc default domain supported enctypes", TEXT, "0", "Ciphers of accounts without their own list.")
        .unserved(CONTROLLER),
    global("kdc enable fast", BOOL, "yes", "Offer FAST.").unserved(CONTROLLER),
    global("kdc force enable rc4 weak session keys", BOOL, "no", "Allow RC4 session keys.").unserved(CONTROLLER),
    global("kdc supported enctypes", TEXT, "0", "Ciphers of the KDC.").unserved(CONTROLLER),
    global("kpasswd port", NUMBER, "464", "The port for changes of passwords.").unserved(CONTROLLER),
    global("krb5 port", NUMBER, "88", "The port of the KDC.").unserved(CONTROLLER),
    global("mit kdc command", TEXT, "", "The KDC.").unserved(COMMANDS),
    global("nsupdate command", TEXT, "/usr/bin/nsupdate -g", "The command for DNS updates.").unserved(COMMANDS),
    global("ntp signd socket directory", PATH, "/var/lib/samba/ntp_signd", "The socket that signs the time.")
        .unserved(CONTROLLER),
    global("password hash gpg key ids", LIST, "", "Keys that passwords are kept under.").unserved(CONTROLLER),
    global("password hash userPassword schemes", LIST, "", "Hashes that are kept of passwords.").unserved(CONTROLLER),
    global("reject md5 clients", BOOL, "yes", "Refuse machines without AES.").unserved(CONTROLLER),
    global("samba kcc command", TEXT, "/usr/sbin/samba_kcc", "The command that plans replication.").unserved(COMMANDS),
    global("server support krb5 netlogon", TEXT, "default", "Offer netlogon by Kerberos.").unserved(CONTROLLER),
    global("spn update command", TEXT, "/usr/sbin/samba_spnupdate", "The command that registers services.")
        .unserved(COMMANDS),
    global("strong certificate binding enforcement", TEXT, "full", "How certificates name their owners.")
        .unserved(CONTROLLER),
    global(
        "tls cafile",
        PATH,
        "",
        "Who signs certificates of LDAP servers; by default TLS_CACERT of ldap.conf, else the host's authorities.",
    ),
    global("tls certfile", PATH, "tls/cert.pem", "The certificate.").unserved(CONTROLLER),
    global("tls crlfile", PATH, "", "Revoked certificates.").unserved(CONTROLLER),
    global("tls dh params file", PATH, "", "Diffie-Hellman parameters.").unserved(CONTROLLER),
    global("tls enabled", BOOL, "yes", "Offer LDAP over TLS.").unserved(CONTROLLER),
    global("tls keyfile", PATH, "tls/key.pem", "The key of the certificate.").unserved(CONTROLLER),
    global("tls priority", TEXT, "NORMAL:-VERS-SSL3.0", "Versions and ciphers of TLS.").unserved(CONTROLLER),
    global("tls verify peer", TEXT, "as_strict_as_possible", "How the other side is checked.").unserved(CONTROLLER),
    global("tls trust system cas", BOOL, "no", "Trust the host's certification authorities.").unserved(CONTROLLER),
    global("tls ca directories", LIST, "", "Where more of them lie.").unserved(CONTROLLER),
];
