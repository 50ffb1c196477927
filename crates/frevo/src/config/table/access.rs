//! Who may log on.

use super::{BOOL, COMMANDS, COUNT, Kind, LIST, NUMBER, PATH, Parameter, TEXT, WINBINDD, global};

const MAP: Kind = Kind::Choice(&[&["Never"], &["Bad User"], &["Bad Password"], &["Bad Uid"]]);
const SECURITY: Kind = Kind::Choice(&[&["auto"], &["user"], &["domain"], &["ads"]]);
const ROLE: Kind = Kind::Choice(&[
    &["auto"],
    &["standalone server", "standalone"],
    &["member server", "member"],
    &["classic primary domain controller"],
    &["classic backup domain controller"],
    &["active directory domain controller", "domain controller", "dc"],
    &["IPA primary domain controller"],
]);
const NTLM: Kind = Kind::Choice(&[
    &["ntlmv2-only", "no", "false", "0", "off"],
    &["ntlmv1-permitted", "yes", "true", "1", "on"],
    &["mschapv2-and-ntlmv2-only"],
    &["disabled"],
]);
const YES: Kind = Kind::Choice(&[&["yes", "true", "on", "1"]]);
const PASSWORD_SYNC: &str = "changing passwords over the network";

pub(super) static TABLE: &[Parameter] = &[
    global(
        "security",
        SECURITY,
        "auto",
        "Where accounts come from: user is this server's own, ads and domain are a domain's as well.",
    ),
    global("server role", ROLE, "auto", "What the server is in its network: standalone server or member server."),
    global(
        "passdb backend",
        TEXT,
        "tdbsam",
        "Where accounts lie: tdbsam is the embedded database here, smbpasswd:FILE Samba's text file.",
    ),
    global("map to guest", MAP, "Never", "Which failed logons become the guest."),
    global("guest account", TEXT, "nobody", "The UNIX user that guests are."),
    global(
        "restrict anonymous",
        Kind::Integer(0, 2),
        "1",
        "What anonymous callers may do: 0 open samr and lsarpc, 1 list shares, 2 nothing. Samba's default is 0.",
    ),
    global(
        "ntlm auth",
        NTLM,
        "ntlmv2-only",
        "disabled refuses NTLM; with any other value NTLMv2 is served, and it alone.",
    ),
    global(
        "frevo:spn check",
        Kind::Choice(&[&["off"], &["if sent"], &["required"]]),
        "off",
        "Whether the server's name in an NTLM logon must be right: SmbServerNameHardeningLevel 0, 1 and 2 of Windows. Frevo's own.",
    ),
    global(
        "frevo:spn names",
        LIST,
        "",
        "Names that clients know the server by, besides its own and its addresses. Frevo's own.",
    ),
    global("lanman auth", BOOL, "no", "Accept LM answers.").accepted("LM hashes are never used"),
    global("encrypt passwords", YES, "yes", "Passwords do not travel in clear.")
        .accepted("SMB 2 has no plain-text passwords"),
    global("null passwords", BOOL, "no", "Let accounts without a password log on.")
        .unserved("accounts without a password"),
    global("raw NTLMv2 auth", BOOL, "no", "Accept NTLMv2 outside of SPNEGO.").accepted("SMB 2 always has a token"),
    global("username map", PATH, "", "A file that says which account a client means by a name."),
    global("username map cache time", COUNT, "0", "Seconds before that file is looked at again."),
    global("username map script", TEXT, "", "A command that does the same.").unserved(COMMANDS),
    global("username level", NUMBER, "0", "How many capital letters to try in UNIX names.")
        .accepted("accounts are compared without regard to case and know their UNIX user"),
    global(
        "min domain uid",
        COUNT,
        "1000",
        "The lowest UNIX uid of a user whom a domain or a Kerberos realm proves; uid 0 never is one.",
    ),
    global("obey pam restrictions", BOOL, "no", "Ask PAM about accounts and sessions.").unserved("PAM"),
    global("pam password change", BOOL, "no", "Change passwords by PAM.").unserved(PASSWORD_SYNC),
    global("unix password sync", BOOL, "no", "Change the UNIX password along.").unserved(PASSWORD_SYNC),
    global("passwd program", TEXT, "", "The command that changes UNIX passwords.").unserved(COMMANDS),
    global("passwd chat", TEXT, "*new*password* %n\\n *new*password* %n\\n *changed*", "How to talk with it.")
        .unserved(COMMANDS),
    global("passwd chat debug", BOOL, "no", "Log the talk.").unserved(COMMANDS),
    global("passwd chat timeout", NUMBER, "2", "Seconds to wait in it.").unserved(COMMANDS),
    global("check password script", TEXT, "", "A command that judges new passwords.").unserved(COMMANDS),
    global(
        "smb passwd file",
        PATH,
        "/etc/samba/smbpasswd",
        "The file of passdb backend = smbpasswd, where that names none.",
    ),
    global(
        "algorithmic rid base",
        NUMBER,
        "1000",
        "The RID of an account in an smbpasswd file is this and twice the user's uid.",
    ),
    global("passdb expand explicit", BOOL, "no", "Fill variables in stored profile paths.").unserved("logon profiles"),
    global("old password allowed period", NUMBER, "60", "Minutes in which the old password still counts.")
        .unserved(PASSWORD_SYNC),
    global("nt hash store", TEXT, "always", "Whether NT hashes are kept.")
        .accepted("NTLMv2 needs the NT hash of each account"),
    global("password server", TEXT, "*", "The servers that are asked about passwords.").accepted(WINBINDD),
    global("rename user script", TEXT, "", "A command that renames a UNIX user.").unserved(COMMANDS),
    global("add user script", TEXT, "", "A command that makes a UNIX user.").unserved(COMMANDS),
    global("add group script", TEXT, "", "A command that makes a UNIX group.").unserved(COMMANDS),
    global("add machine script", TEXT, "", "A command that makes an account of a machine.").unserved(COMMANDS),
    global("add user to group script", TEXT, "", "A command that puts a user into a group.").unserved(COMMANDS),
    global("delete user script", TEXT, "", "A command that deletes a UNIX user.").unserved(COMMANDS),
    global("delete group script", TEXT, "", "A command that deletes a UNIX group.").unserved(COMMANDS),
    global("delete user from group script", TEXT, "", "A command that takes a user out of a group.").unserved(COMMANDS),
    global("set primary group script", TEXT, "", "A command that sets a user's primary group.").unserved(COMMANDS),
    global("logon drive", TEXT, "", "The drive of a home directory.").unserved("logon profiles"),
    global("logon home", TEXT, "\\\\%N\\%U", "The home directory of a user.").unserved("logon profiles"),
    global("logon path", TEXT, "\\\\%N\\%U\\profile", "Where a user's profile lies.").unserved("logon profiles"),
    global("logon script", TEXT, "", "The script that clients run at logon.").unserved("logon profiles"),
    global("log nt token command", TEXT, "", "A command that is told each token.").unserved(COMMANDS),
    global("auth event notification", BOOL, "no", "Send logons to the messaging bus.").unserved("Samba's messaging"),
    global("init logon delay", NUMBER, "100", "Milliseconds that some hosts wait at logon.").unserved("delayed logons"),
    global("init logon delayed hosts", TEXT, "", "Those hosts.").unserved("delayed logons"),
];
