//! Samba's client programs and libraries. `smbclient` reads these parameters itself; a server does not need them.

use super::{BOOL, Parameter, TEXT, global};

const TOOLS: &str = "it is for Samba's client programs, which read it themselves";

pub(super) static TABLE: &[Parameter] = &[
    global("client ipc max protocol", TEXT, "default", "The newest dialect for IPC$.").accepted(TOOLS),
    global("client ipc min protocol", TEXT, "default", "The oldest dialect for IPC$.").accepted(TOOLS),
    global("client ipc signing", TEXT, "default", "Signing for IPC$.").accepted(TOOLS),
    global("client lanman auth", BOOL, "no", "Send LM responses.").accepted(TOOLS),
    global("client ldap sasl wrapping", TEXT, "seal", "Protection of LDAP.").accepted(TOOLS),
    global("client max protocol", TEXT, "default", "The newest dialect.").accepted(TOOLS),
    global("client min protocol", TEXT, "SMB2_02", "The oldest dialect.").accepted(TOOLS),
    global("client netlogon ping protocol", TEXT, "cldap", "The protocol to find controllers.").accepted(TOOLS),
    global("client NTLMv2 auth", BOOL, "yes", "Send NTLMv2 responses.").accepted(TOOLS),
    global("client plaintext auth", BOOL, "no", "Send plain-text passwords.").accepted(TOOLS),
    global("client protection", TEXT, "default", "Sign or encrypt connections.").accepted(TOOLS),
    global("client schannel", TEXT, "yes", "Use a secure channel.").accepted(TOOLS),
    global("client signing", TEXT, "default", "Sign connections.").accepted(TOOLS),
    global("client smb encrypt", TEXT, "default", "Encrypt connections.").accepted(TOOLS),
    global("client smb3 encryption algorithms", TEXT, "AES-128-GCM, AES-128-CCM, AES-256-GCM, AES-256-CCM", "Ciphers.")
        .accepted(TOOLS),
    global("client smb3 signing algorithms", TEXT, "AES-128-GMAC, AES-128-CMAC, HMAC-SHA256", "Signing algorithms.")
        .accepted(TOOLS),
    global("client use kerberos", TEXT, "desired", "Log on with Kerberos.").accepted(TOOLS),
    global("client use krb5 netlogon", TEXT, "default", "Authenticate to controllers with Kerberos.").accepted(TOOLS),
    global("client use spnego", BOOL, "yes", "Log on with SPNEGO.").accepted(TOOLS),
    global("client use spnego principal", BOOL, "no", "Trust the principal name that the server sends.")
        .accepted(TOOLS),
];
