//! Logons and user accounts.

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
        "The source of user accounts: user for this server only, ads and domain also for a domain.",
    ),
    global("server role", ROLE, "auto", "The server's role in its network: standalone server or member server."),
    global(
        "passdb backend",
        TEXT,
        "tdbsam",
        "The user database: tdbsam is Frevo's embedded database, smbpasswd:FILE Samba's text file.",
    ),
    global("map to guest", MAP, "Never", "The failed logons that are mapped to the guest."),
    global("guest account", TEXT, "nobody", "The UNIX user of guests."),
    global(
        "restrict anonymous",
        Kind::Integer(0, 2),
        "1",
        "Rights of anonymous callers: 0 open samr and lsarpc, 1 list shares, 2 nothing. Samba's default is 0.",
    ),
    global("ntlm auth", NTLM, "ntlmv2-only", "disabled refuses NTLM; any other value allows only NTLMv2."),
    global(
        "frevo:spn check",
        Kind::Choice(&[&["off"], &["if sent"], &["required"]]),
        "off",
        "Whether the server name in an NTLM logon is checked: SmbServerNameHardeningLevel 0, 1 and 2 of Windows. Not \
         in Samba.",
    ),
    global(
        "frevo:spn names",
        LIST,
        "",
        "Names of the server for frevo:spn check, besides its own name and addresses. Not in Samba.",
    ),
    global("lanman auth", BOOL, "no", "Accept LM responses.").accepted("LM hashes are never used"),
    global("encrypt passwords", YES, "yes", "Do not accept plain-text passwords.")
        .accepted("SMB 2 has no plain-text passwords"),
    global("null passwords", BOOL, "no", "Let accounts without a password log on.")
        .unserved("accounts without a password"),
    global("raw NTLMv2 auth", BOOL, "no", "Accept NTLMv2 outside of SPNEGO.")
        .accepted("SMB 2 logons always use a security token"),
    global("username map", PATH, "", "A file that maps the names sent by clients to user accounts."),
    global("username map cache time", COUNT, "0", "Seconds between checks of that file for changes."),
    global("username map script", TEXT, "", "A command that maps names.").unserved(COMMANDS),
    global("username level", NUMBER, "0", "The number of capital letters to try in UNIX names.")
        .accepted("account names are compared without regard to case, and accounts store their UNIX user"),
    global(
        "min domain uid",
        COUNT,
        "1000",
        "The lowest UNIX uid of a user authenticated by a domain or a Kerberos realm; uid 0 is always refused.",
    ),
    global("obey pam restrictions", BOOL, "no", "Check accounts and sessions with PAM.").unserved("PAM"),
    global("pam password change", BOOL, "no", "Change passwords with PAM.").unserved(PASSWORD_SYNC),
    global("unix password sync", BOOL, "no", "Also change the UNIX password.").unserved(PASSWORD_SYNC),
    global("passwd program", TEXT, "", "The command that changes UNIX passwords.").unserved(COMMANDS),
    global(
        "passwd chat",
        TEXT,
        "*new*password* %n\\n *new*password* %n\\n *changed*",
        "The dialogue with that command.",
    )
    .unserved(COMMANDS),
    global("passwd chat debug", BOOL, "no", "Log the dialogue.").unserved(COMMANDS),
    global("passwd chat timeout", NUMBER, "2", "Timeout of the dialogue in seconds.").unserved(COMMANDS),
    global("check password script", TEXT, "", "A command that checks new passwords.").unserved(COMMANDS),
    global(
        "smb passwd file",
        PATH,
        "/etc/samba/smbpasswd",
        "The file of passdb backend = smbpasswd if it specifies none.",
    ),
    global(
        "algorithmic rid base",
        NUMBER,
        "1000",
        "Added to twice the uid for the RID of an account in an smbpasswd file.",
    ),
    global("passdb expand explicit", BOOL, "no", "Expand variables in stored profile paths.")
        .unserved("logon profiles"),
    global("old password allowed period", NUMBER, "60", "Minutes for which the old password remains valid.")
        .unserved(PASSWORD_SYNC),
    global("nt hash store", TEXT, "always", "Whether NT hashes are stored.")
        .accepted("NTLMv2 needs the NT hash of each account"),
    global("password server", TEXT, "*", "The servers that check passwords.").accepted(WINBINDD),
    global("rename user script", TEXT, "", "A command that renames a UNIX user.").unserved(COMMANDS),
    global("add user script", TEXT, "", "A command that creates a UNIX user.").unserved(COMMANDS),
    global("add group script", TEXT, "", "A command that creates a UNIX group.").unserved(COMMANDS),
    global("add machine script", TEXT, "", "A command that creates a machine account.").unserved(COMMANDS),
    global("add user to group script", TEXT, "", "A command that adds a user to a group.").unserved(COMMANDS),
    global("delete user script", TEXT, "", "A command that deletes a UNIX user.").unserved(COMMANDS),
    global("delete group script", TEXT, "", "A command that deletes a UNIX group.").unserved(COMMANDS),
    global("delete user from group script", TEXT, "", "A command that removes a user from a group.").unserved(COMMANDS),
    global("set primary group script", TEXT, "", "A command that sets a user's primary group.").unserved(COMMANDS),
    global("logon drive", TEXT, "", "The drive of a home directory.").unserved("logon profiles"),
    global("logon home", TEXT, "\\\\%N\\%U", "The home directory of a user.").unserved("logon profiles"),
    global("logon path", TEXT, "\\\\%N\\%U\\profile", "The location of a user's profile.").unserved("logon profiles"),
    global("logon script", TEXT, "", "The script that clients run at logon.").unserved("logon profiles"),
    global("log nt token command", TEXT, "", "A command that receives each NT token.").unserved(COMMANDS),
    global("auth event notification", BOOL, "no", "Send logons to the messaging bus.").unserved("Samba's messaging"),
    global("init logon delay", NUMBER, "100", "Milliseconds by which the logons of some hosts are delayed.")
        .unserved("delayed logons"),
    global("init logon delayed hosts", TEXT, "", "The hosts whose logons are delayed.").unserved("delayed logons"),
];
