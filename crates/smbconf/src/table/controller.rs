//! Domain controllers, which Frevo does not implement, and related services.

use super::{BOOL, CONTROLLERS_ONLY, LIST, NUMBER, PATH, Parameter, TEXT, global};

const AUTHORITIES: &str = "certificates of LDAP servers from other places than tls cafile";

pub(crate) const CA_FILE: Parameter = global(
    "tls cafile",
    PATH,
    "",
    "The CA certificates for LDAP servers; default: TLS_CACERT of ldap.conf, else the host's certificates.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    global("domain logons", BOOL, "no", "Be a controller of an NT4 domain.").unserved("being a domain controller"),
    global("allow dns updates", TEXT, "secure only", "The clients that may update DNS.").accepted(CONTROLLERS_ONLY),
    global("allow nt4 crypto", BOOL, "no", "Let machines use NT4's cryptography.").accepted(CONTROLLERS_ONLY),
    global("ad dc functional level", TEXT, "2008_R2", "The level of the domain.").accepted(CONTROLLERS_ONLY),
    global("binddns dir", PATH, "/var/lib/samba/bind-dns", "Directory of the files for BIND.")
        .also(&["bind dns directory"])
        .accepted(CONTROLLERS_ONLY),
    global("certificate backdating compensation", NUMBER, "0", "The time by which certificates may be backdated.")
        .accepted(CONTROLLERS_ONLY),
    global("cldap port", NUMBER, "389", "The UDP port of CLDAP.").accepted(CONTROLLERS_ONLY),
    global("dns forwarder", LIST, "", "DNS servers to which queries are forwarded.").accepted(CONTROLLERS_ONLY),
    global("dns port", NUMBER, "53", "The port of the DNS server.").accepted(CONTROLLERS_ONLY),
    global("dns update command", TEXT, "/usr/sbin/samba_dnsupdate", "The command that changes DNS.")
        .accepted(CONTROLLERS_ONLY),
    global("dns zone scavenging", BOOL, "no", "Delete stale DNS entries.").accepted(CONTROLLERS_ONLY),
    global("dns zone transfer clients allow", LIST, "", "Clients that may transfer zones.").accepted(CONTROLLERS_ONLY),
    global("dns zone transfer clients deny", LIST, "", "Clients that may not transfer zones.")
        .accepted(CONTROLLERS_ONLY),
    global("dsdb event notification", BOOL, "no", "Send changes of the directory to the bus.")
        .accepted(CONTROLLERS_ONLY),
    global("dsdb group change notification", BOOL, "no", "Send changes of groups to the bus.")
        .accepted(CONTROLLERS_ONLY),
    global("dsdb password event notification", BOOL, "no", "Send changes of passwords to the bus.")
        .accepted(CONTROLLERS_ONLY),
    global("kdc always include pac", BOOL, "yes", "Put a PAC into each ticket.").accepted(CONTROLLERS_ONLY),
    global("kdc default domain supported enctypes", TEXT, "0", "Ciphers of accounts without their own list.")
        .accepted(CONTROLLERS_ONLY),
    global("kdc enable fast", BOOL, "yes", "Offer FAST, which protects Kerberos requests.").accepted(CONTROLLERS_ONLY),
    global("kdc force enable rc4 weak session keys", BOOL, "no", "Allow RC4 session keys.").accepted(CONTROLLERS_ONLY),
    global("kdc supported enctypes", TEXT, "0", "Encryption types of the KDC.").accepted(CONTROLLERS_ONLY),
    global("kpasswd port", NUMBER, "464", "The port for password changes.").accepted(CONTROLLERS_ONLY),
    global("krb5 port", NUMBER, "88", "The port of the KDC.").accepted(CONTROLLERS_ONLY),
    global("mit kdc command", TEXT, "", "The command that starts the KDC.").accepted(CONTROLLERS_ONLY),
    global("nsupdate command", TEXT, "/usr/bin/nsupdate -g", "The command for DNS updates.").accepted(CONTROLLERS_ONLY),
    global(
        "ntp signd socket directory",
        PATH,
        "/var/lib/samba/ntp_signd",
        "Directory of the socket that signs time packets.",
    )
    .accepted(CONTROLLERS_ONLY),
    global("password hash gpg key ids", LIST, "", "GPG keys that encrypt stored passwords.").accepted(CONTROLLERS_ONLY),
    global("password hash userPassword schemes", LIST, "", "Schemes of stored password hashes.")
        .accepted(CONTROLLERS_ONLY),
    global("reject md5 clients", BOOL, "yes", "Refuse machines without AES.").accepted(CONTROLLERS_ONLY),
    global("samba kcc command", TEXT, "/usr/sbin/samba_kcc", "The command that plans replication.")
        .accepted(CONTROLLERS_ONLY),
    global("server support krb5 netlogon", TEXT, "default", "Offer netlogon by Kerberos.").accepted(CONTROLLERS_ONLY),
    global("spn update command", TEXT, "/usr/sbin/samba_spnupdate", "The command that registers services.")
        .accepted(CONTROLLERS_ONLY),
    global(
        "strong certificate binding enforcement",
        TEXT,
        "full",
        "How strictly certificates must identify their owners.",
    )
    .accepted(CONTROLLERS_ONLY),
    CA_FILE,
    global("tls certfile", PATH, "tls/cert.pem", "The certificate of the LDAP server.").accepted(CONTROLLERS_ONLY),
    global("tls crlfile", PATH, "", "A list of revoked certificates.").accepted(CONTROLLERS_ONLY),
    global("tls dh params file", PATH, "", "A file of Diffie-Hellman parameters.").accepted(CONTROLLERS_ONLY),
    global("tls enabled", BOOL, "yes", "Offer LDAP over TLS.").accepted(CONTROLLERS_ONLY),
    global("tls keyfile", PATH, "tls/key.pem", "The key of the certificate.").accepted(CONTROLLERS_ONLY),
    global("tls priority", TEXT, "NORMAL:-VERS-SSL3.0", "Versions and ciphers of TLS.").accepted(CONTROLLERS_ONLY),
    global("tls verify peer", TEXT, "as_strict_as_possible", "How the peer's certificate is checked.")
        .accepted("the certificate of an LDAP server is always checked"),
    global("tls trust system cas", BOOL, "no", "Trust the host's certification authorities.").unserved(AUTHORITIES),
    global("tls ca directories", LIST, "", "Directories of further certificates.").unserved(AUTHORITIES),
];
