//! Samba's client programs and libraries. `smbclient` reads these parameters itself; a server does not need them.

use super::{BOOL, Parameter, TEXT, TOOLS, global};

pub(super) static TABLE: &[Parameter] = &[
    global("client ipc max protocol", TEXT, "default", "The newest dialect for IPC$.").accepted(TOOLS),
    global("client ipc min protocol", TEXT, "default", "The oldest dialect for IPC$.").accepted(TOOLS),
    global("client ipc signing", TEXT, "default", "Whether connections to IPC$ are signed.").accepted(TOOLS),
    global("client lanman auth", BOOL, "no", "Send LM responses to old servers.").accepted(TOOLS),
    global("client ldap sasl wrapping", TEXT, "seal", "How LDAP connections are protected.").accepted(TOOLS),
    global("client max protocol", TEXT, "default", "The newest dialect that clients use.").accepted(TOOLS),
    global("client min protocol", TEXT, "SMB2_02", "The oldest dialect that clients use.").accepted(TOOLS),
    global("client netlogon ping protocol", TEXT, "cldap", "The protocol to find controllers.").accepted(TOOLS),
    global("client NTLMv2 auth", BOOL, "yes", "Send NTLMv2 responses, not older ones.").accepted(TOOLS),
    global("client plaintext auth", BOOL, "no", "Send passwords as plain text.").accepted(TOOLS),
    global("client protection", TEXT, "default", "Sign or encrypt connections.").accepted(TOOLS),
    global("client schannel", TEXT, "yes", "Use a secure channel.").accepted(TOOLS),
    global("client signing", TEXT, "default", "Whether clients sign their connections.").accepted(TOOLS),
    global("client smb encrypt", TEXT, "default", "Whether clients encrypt their connections.").accepted(TOOLS),
    global(
        "client smb3 encryption algorithms",
        TEXT,
        "AES-128-GCM, AES-128-CCM, AES-256-GCM, AES-256-CCM",
        "Encryption algorithms of clients, the preferred one first.",
    )
    .accepted(TOOLS),
    global(
        "client smb3 signing algorithms",
        TEXT,
        "AES-128-GMAC, AES-128-CMAC, HMAC-SHA256",
        "Signing algorithms of clients, the preferred one first.",
    )
    .accepted(TOOLS),
    global("client use kerberos", TEXT, "desired", "Log on with Kerberos.").accepted(TOOLS),
    global("client use krb5 netlogon", TEXT, "default", "Authenticate to controllers with Kerberos.").accepted(TOOLS),
    global("client use spnego", BOOL, "yes", "Let clients log on with SPNEGO.").accepted(TOOLS),
    global("client use spnego principal", BOOL, "no", "Trust the principal name that the server sends.")
        .accepted(TOOLS),
];
