//! Domain controllers, which Frevo does not implement, and related services.

use super::{BOOL, COMMANDS, LIST, NUMBER, PATH, Parameter, TEXT, global};

const CONTROLLER: &str = "being a domain controller";

pub(crate) const CA_FILE: Parameter = global(
    "tls cafile",
    PATH,
    "",
    "The CA certificates for LDAP servers; default: TLS_CACERT of ldap.conf, else the host's certificates.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    global("domain logons", BOOL, "no", "Be a controller of an NT4 domain.").unserved(CONTROLLER),
    global("allow dns updates", TEXT, "secure only", "The clients that may update DNS.").unserved(CONTROLLER),
    global("allow nt4 crypto", BOOL, "no", "Let machines use NT4's cryptography.").unserved(CONTROLLER),
    global("ad dc functional level", TEXT, "2008_R2", "The level of the domain.").unserved(CONTROLLER),
    global("binddns dir", PATH, "/var/lib/samba/bind-dns", "Files for BIND.")
        .also(&["bind dns directory"])
        .unserved(CONTROLLER),
    global("certificate backdating compensation", NUMBER, "0", "The time by which certificates may be backdated.")
        .unserved(CONTROLLER),
    global("cldap port", NUMBER, "389", "The port of CLDAP.").unserved(CONTROLLER),
    global("dns forwarder", LIST, "", "DNS servers to which queries are forwarded.").unserved(CONTROLLER),
    global("dns port", NUMBER, "53", "The port of DNS.").unserved(CONTROLLER),
    global("dns update command", TEXT, "/usr/sbin/samba_dnsupdate", "The command that changes DNS.").unserved(COMMANDS),
    global("dns zone scavenging", BOOL, "no", "Delete stale DNS entries.").unserved(CONTROLLER),
    global("dns zone transfer clients allow", LIST, "", "Clients that may transfer zones.").unserved(CONTROLLER),
    global("dns zone transfer clients deny", LIST, "", "Clients that may not transfer zones.").unserved(CONTROLLER),
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
    global("kpasswd port", NUMBER, "464", "The port for password changes.").unserved(CONTROLLER),
    global("krb5 port", NUMBER, "88", "The port of the KDC.").unserved(CONTROLLER),
    global("mit kdc command", TEXT, "", "The command that starts the KDC.").unserved(COMMANDS),
    global("nsupdate command", TEXT, "/usr/bin/nsupdate -g", "The command for DNS updates.").unserved(COMMANDS),
    global(
        "ntp signd socket directory",
        PATH,
        "/var/lib/samba/ntp_signd",
        "Directory of the socket that signs time packets.",
    )
    .unserved(CONTROLLER),
    global("password hash gpg key ids", LIST, "", "GPG keys that encrypt stored passwords.").unserved(CONTROLLER),
    global("password hash userPassword schemes", LIST, "", "Schemes of stored password hashes.").unserved(CONTROLLER),
    global("reject md5 clients", BOOL, "yes", "Refuse machines without AES.").unserved(CONTROLLER),
    global("samba kcc command", TEXT, "/usr/sbin/samba_kcc", "The command that plans replication.").unserved(COMMANDS),
    global("server support krb5 netlogon", TEXT, "default", "Offer netlogon by Kerberos.").unserved(CONTROLLER),
    global("spn update command", TEXT, "/usr/sbin/samba_spnupdate", "The command that registers services.")
        .unserved(COMMANDS),
    global(
        "strong certificate binding enforcement",
        TEXT,
        "full",
        "How strictly certificates must identify their owners.",
    )
    .unserved(CONTROLLER),
    CA_FILE,
    global("tls certfile", PATH, "tls/cert.pem", "The certificate.").unserved(CONTROLLER),
    global("tls crlfile", PATH, "", "Revoked certificates.").unserved(CONTROLLER),
    global("tls dh params file", PATH, "", "Diffie-Hellman parameters.").unserved(CONTROLLER),
    global("tls enabled", BOOL, "yes", "Offer LDAP over TLS.").unserved(CONTROLLER),
    global("tls keyfile", PATH, "tls/key.pem", "The key of the certificate.").unserved(CONTROLLER),
    global("tls priority", TEXT, "NORMAL:-VERS-SSL3.0", "Versions and ciphers of TLS.").unserved(CONTROLLER),
    global("tls verify peer", TEXT, "as_strict_as_possible", "How the peer's certificate is checked.")
        .unserved(CONTROLLER),
    global("tls trust system cas", BOOL, "no", "Trust the host's certification authorities.").unserved(CONTROLLER),
    global("tls ca directories", LIST, "", "Directories of further certificates.").unserved(CONTROLLER),
];
