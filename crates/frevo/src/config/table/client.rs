//! Samba's client programs and libraries. `smbclient` reads these itself; a server has no use for them.

use super::{BOOL, Parameter, TEXT, global};

const TOOLS: &str = "it is for Samba's client programs, which read it themselves";

pub(super) static TABLE: &[Parameter] = &[
    global("client ipc max protocol", TEXT, "default", "The newest dialect for IPC$.").accepted(TOOLS),
    global("client ipc min protocol", TEXT, "default", "The oldest dialect for IPC$.").accepted(TOOLS),
    global("client ipc signing", TEXT, "default", "Signing for IPC$.").accepted(TOOLS),
    global("client lanman auth", BOOL, "no", "Answer with LM hashes.").accepted(TOOLS),
    global("client ldap sasl wrapping", TEXT, "seal", "Protection of LDAP.").accepted(TOOLS),
    global("client max protocol", TEXT, "default", "The newest dialect.").accepted(TOOLS),
    global("client min protocol", TEXT, "SMB2_02", "The oldest dialect.").accepted(TOOLS),
    global("client netlogon ping protocol", TEXT, "cldap", "How controllers are found.").accepted(TOOLS),
    global("client NTLMv2 auth", BOOL, "yes", "Answer with NTLMv2.").accepted(TOOLS),
    global("client plaintext auth", BOOL, "no", "Send passwords in clear.").accepted(TOOLS),
    global("client protection", TEXT, "default", "Sign or encrypt.").accepted(TOOLS),
    global("client schannel", TEXT, "yes", "Use a secure channel.").accepted(TOOLS),
    global("client signing", TEXT, "default", "Sign.").accepted(TOOLS),
    global("client smb encrypt", TEXT, "default", "Encrypt.").accepted(TOOLS),
    global("client smb3 encryption algorithms", TEXT, "AES-128-GCM, AES-128-CCM, AES-256-GCM, AES-256-CCM", "Ciphers.")
        .accepted(TOOLS),
    global("client smb3 signing algorithms", TEXT, "AES-128-GMAC, AES-128-CMAC, HMAC-SHA256", "Signing algorithms.")
        .accepted(TOOLS),
    global("client use kerberos", TEXT, "desired", "Log on by Kerberos.").accepted(TOOLS),
    global("client use krb5 netlogon", TEXT, "default", "Talk to controllers by Kerberos.").accepted(TOOLS),
    global("client use spnego", BOOL, "yes", "Log on by SPNEGO.").accepted(TOOLS),
    global("client use spnego principal", BOOL, "no", "Believe the name that the server gives itself.").accepted(TOOLS),
];
