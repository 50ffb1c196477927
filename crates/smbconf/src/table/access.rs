//! Logons and user accounts.

use std::path::PathBuf;
use std::time::Duration;

use server::policy::{MapToGuest, SpnCheck};

use super::daemon::directory;
use super::people;
use super::{BOOL, COMMANDS, CONTROLLERS_ONLY, COUNT, Kind, LIST, NUMBER, PATH, Parameter, TEXT, WINBINDD, global};
use crate::membership;
use crate::problem::{Code, note, warning};
use crate::reader::ValueReader;
use accounts::PassdbBackend;
use accounts::{ldap, smbpasswd};

const MAP: Kind = Kind::Choice(&[&["Never"], &["Bad User"], &["Bad Password"], &["Bad Uid"]]);
const SECURITY_MODE: Kind = Kind::Choice(&[&["auto"], &["user"], &["domain"], &["ads"]]);
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
const PASSWORD_SYNC: &str = "changing the UNIX password together with the SMB password";
const ONLY_WITH_SYNC: &str = "it is used only with unix password sync";
const PROFILES: &str = "clients use it only at logons to a domain controller";

pub(crate) const SECURITY: Parameter = global(
    "security",
    SECURITY_MODE,
    "auto",
    "The source of user accounts: user for this server only, ads and domain also for a domain.",
)
.reads(|value, global| global.policy.membership = membership::build(&value.section));

pub(crate) const SERVER_ROLE: Parameter =
    global("server role", ROLE, "auto", "The server's role in its network: standalone server or member server.")
        .read_by_others();

pub(crate) const PASSDB_BACKEND: Parameter = global(
    "passdb backend",
    TEXT,
    "tdbsam",
    "The user database: tdbsam is Frevo's embedded database, smbpasswd:FILE Samba's text file.",
)
.reads(|value, global| global.daemon.passdb_backend = passdb_backend(value));

pub(crate) const GUEST_ACCOUNT: Parameter =
    global("guest account", TEXT, "nobody", "The UNIX user of guests.").read_by_others();

pub(crate) const NTLM_AUTH: Parameter = global(
    "ntlm auth",
    NTLM,
    "ntlmv2-only",
    "The versions of NTLM: disabled refuses it, ntlmv1-permitted allows NTLMv1 for accounts of this server.",
)
.reads(|value, global| {
    global.policy.ntlm = value.choice() != "disabled";
    global.policy.ntlm_v1 = value.choice() == "ntlmv1-permitted";
});

pub(crate) const OBEY_PAM: Parameter = global(
    "obey pam restrictions",
    BOOL,
    "no",
    "Ask PAM (service samba) whether a user may log on, and open a session there. Read at the start only.",
)
.reads(|value, global| global.daemon.obey_pam_restrictions = value.boolean());

const SMB_PASSWD_FILE: Parameter = global(
    "smb passwd file",
    PATH,
    "/etc/samba/smbpasswd",
    "The file of passdb backend = smbpasswd if it specifies none.",
)
.read_by_others();

const RID_BASE: Parameter = global(
    "algorithmic rid base",
    NUMBER,
    "1000",
    "Added to twice the uid for the RID of an account in an smbpasswd file.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    SECURITY,
    SERVER_ROLE,
    PASSDB_BACKEND,
    global("map to guest", MAP, "Never", "The failed logons that are mapped to the guest.")
        .reads(|value, global| global.policy.map_to_guest = map_to_guest(value)),
    GUEST_ACCOUNT,
    global(
        "restrict anonymous",
        Kind::Integer(0, 2),
        "1",
        "Rights of anonymous callers: 0 open samr and lsarpc, 1 list shares, 2 nothing. Samba's default is 0.",
    )
    .reads(|value, global| global.policy.restrict_anonymous = value.number().unwrap_or(2)),
    NTLM_AUTH,
    global(
        "frevo:spn check",
        Kind::Choice(&[&["off"], &["if sent"], &["required"]]),
        "off",
        "Whether the server name in an NTLM logon is checked: SmbServerNameHardeningLevel 0, 1 and 2 of Windows. Not \
         in Samba.",
    )
    .reads(|value, global| global.policy.spn_check = spn_check(value)),
    global(
        "frevo:spn names",
        LIST,
        "",
        "Names of the server for frevo:spn check, besides its own name and addresses. Not in Samba.",
    )
    .reads(|value, global| global.policy.spn_names = value.list()),
    global("lanman auth", BOOL, "no", "Accept the LM responses of old clients.").accepted("LM hashes are never used"),
    global("encrypt passwords", YES, "yes", "Do not accept plain-text passwords.")
        .accepted("SMB 2 has no plain-text passwords"),
    global("null passwords", BOOL, "no", "Let accounts without a password log on.")
        .unserved("accounts without a password"),
    global("raw NTLMv2 auth", BOOL, "no", "Accept NTLMv2 outside of SPNEGO.")
        .accepted("SMB 2 logons always use a security token"),
    global("username map", PATH, "", "A file that maps the names sent by clients to user accounts.")
        .reads(|value, global| global.daemon.username_map = directory(value)),
    global("username map cache time", COUNT, "0", "Seconds between checks of that file for changes.").reads(
        |value, global| global.daemon.username_map_cache_time = Duration::from_secs(value.number().unwrap_or(0)),
    ),
    global("username map script", TEXT, "", "A command that maps names.").unserved(COMMANDS),
    global("username level", NUMBER, "0", "The number of capital letters to try in UNIX names.")
        .accepted("account names are compared without regard to case, and accounts store their UNIX user"),
    global(
        "min domain uid",
        COUNT,
        "1000",
        "The lowest UNIX uid of a user authenticated by a domain or a Kerberos realm; uid 0 is always refused.",
    )
    .reads(|value, global| global.policy.min_domain_uid = value.number().unwrap_or(u32::MAX)),
    OBEY_PAM,
    global("pam password change", BOOL, "no", "Change passwords with PAM.").accepted(ONLY_WITH_SYNC),
    global("unix password sync", BOOL, "no", "Also change the UNIX password.").unserved(PASSWORD_SYNC),
    global("passwd program", TEXT, "", "The command that changes UNIX passwords.").accepted(ONLY_WITH_SYNC),
    global(
        "passwd chat",
        TEXT,
        "*new*password* %n\\n *new*password* %n\\n *changed*",
        "The dialogue with that command.",
    )
    .accepted(ONLY_WITH_SYNC),
    global("passwd chat debug", BOOL, "no", "Log the dialogue with passwd program.").accepted(ONLY_WITH_SYNC),
    global("passwd chat timeout", NUMBER, "2", "Timeout of the dialogue in seconds.").accepted(ONLY_WITH_SYNC),
    global("check password script", TEXT, "", "A command that checks new passwords.").unserved(COMMANDS),
    SMB_PASSWD_FILE,
    RID_BASE,
    global("passdb expand explicit", BOOL, "no", "Expand variables in stored profile paths.").accepted(PROFILES),
    global("old password allowed period", NUMBER, "60", "Minutes for which the old password remains valid.")
        .accepted(CONTROLLERS_ONLY),
    global("nt hash store", TEXT, "always", "Whether NT hashes are stored.")
        .accepted("NTLMv2 needs the NT hash of each account"),
    global("password server", TEXT, "*", "The servers that check passwords.").accepted(WINBINDD),
    global("rename user script", TEXT, "", "A command that renames a UNIX user.").unserved(COMMANDS),
    global("add user script", TEXT, "", "A command that creates a UNIX user.").unserved(COMMANDS),
    global("add group script", TEXT, "", "A command that creates a UNIX group.").unserved(COMMANDS),
    global("add machine script", TEXT, "", "A command that creates a machine account.").accepted(CONTROLLERS_ONLY),
    global("add user to group script", TEXT, "", "A command that adds a user to a group.").unserved(COMMANDS),
    global("delete user script", TEXT, "", "A command that deletes a UNIX user.").unserved(COMMANDS),
    global("delete group script", TEXT, "", "A command that deletes a UNIX group.").unserved(COMMANDS),
    global("delete user from group script", TEXT, "", "A command that removes a user from a group.").unserved(COMMANDS),
    global("set primary group script", TEXT, "", "A command that sets a user's primary group.").unserved(COMMANDS),
    global("logon drive", TEXT, "", "The drive of a home directory.").accepted(PROFILES),
    global("logon home", TEXT, "\\\\%N\\%U", "The home directory of a user.").accepted(PROFILES),
    global("logon path", TEXT, "\\\\%N\\%U\\profile", "The location of a user's profile.").accepted(PROFILES),
    global("logon script", TEXT, "", "The script that clients run at logon.").accepted(PROFILES),
    global("log nt token command", TEXT, "", "A command that receives each NT token.").unserved(COMMANDS),
    global("auth event notification", BOOL, "no", "Send logons to the messaging bus.").unserved("Samba's messaging"),
    global("init logon delay", NUMBER, "100", "Milliseconds by which the logons of some hosts are delayed.")
        .accepted(CONTROLLERS_ONLY),
    global("init logon delayed hosts", TEXT, "", "The hosts whose logons are delayed.").accepted(CONTROLLERS_ONLY),
];

/// The lowest `algorithmic rid base` that Samba accepts: lower RIDs belong to Windows.
const LOWEST_RID_BASE: u32 = 1000;

pub(crate) fn passdb_backend(value: ValueReader<'_>) -> Vec<PassdbBackend> {
    let mut backends = Vec::new();
    let (smbpasswd, directory) = (smbpasswd_file(value), people::settings(&value.section));
    // A percent sign in an `ldapi` URI does not start a variable.
    for element in value.plain_list() {
        let (kind, place) = element.split_once(':').unwrap_or((&element, ""));
        let backend = match kind.to_ascii_lowercase().as_str() {
            "tdbsam" => {
                if value.is_set() {
                    let problem = note(Code::Accepted, "`passdb backend` = tdbsam means Frevo's embedded database");
                    let remedy = "import Samba's accounts with `pdbedit -L -w | frevo user import -`";
                    value.report(problem.remedy(remedy));
                }
                PassdbBackend::Embedded
            }
            "embedded" => PassdbBackend::Embedded,
            "guest" => {
                let problem = warning(Code::ObsoleteValue, "`guest` in `passdb backend` was removed from Samba");
                value.report(problem.remedy("remove `guest`: `guest account` names the user of guests"));
                continue;
            }
            "smbpasswd" if place.is_empty() => PassdbBackend::Smbpasswd(smbpasswd.clone()),
            "smbpasswd" => {
                if !place.starts_with('/') {
                    value.bad_value(place, "an absolute path after smbpasswd:");
                }
                PassdbBackend::Smbpasswd(smbpasswd::SmbpasswdFile { file: place.into(), ..smbpasswd })
            }
            "ldapsam" => match ::ldap::Uri::list(place) {
                Ok(servers) => {
                    let name = element.clone();
                    PassdbBackend::Ldap(Box::new(ldap::Settings { name, servers, ..directory.clone() }))
                }
                Err(error) => {
                    value.bad_value(&element, &format!("URIs of LDAP servers; {error}"));
                    continue;
                }
            },
            _ => {
                let allowed = "embedded or tdbsam, the embedded database; smbpasswd:FILE, Samba's text file; \
                               ldapsam:\"URI URI\", an LDAP directory";
                value.bad_value(kind, allowed);
                continue;
            }
        };
        if !backends.contains(&backend) {
            backends.push(backend);
        }
    }
    if backends.is_empty() {
        backends.push(PassdbBackend::Embedded);
    }
    backends
}

/// Returns the smbpasswd file to use if `passdb backend` names none. RIDs begin where Samba's begin.
fn smbpasswd_file(backend: ValueReader<'_>) -> smbpasswd::SmbpasswdFile {
    let (file_value, base_value) = (backend.of(&SMB_PASSWD_FILE), backend.of(&RID_BASE));
    let file = PathBuf::from(file_value.text());
    if !file.is_absolute() {
        file_value.bad_value(&file.display().to_string(), "an absolute path");
    }
    let base = base_value.number::<u32>().unwrap_or(LOWEST_RID_BASE);
    let rid_base = base.clamp(LOWEST_RID_BASE, u32::MAX - 1).next_multiple_of(2);
    if rid_base != base {
        let problem = note(Code::BadValue, format!("`algorithmic rid base` = {base} is read as {rid_base}"));
        base_value.report(problem.remedy("allowed: even numbers, 1000 or more"));
    }
    smbpasswd::SmbpasswdFile { file, rid_base }
}

fn map_to_guest(value: ValueReader<'_>) -> MapToGuest {
    match value.choice().as_str() {
        "Bad User" => MapToGuest::BadUser,
        "Bad Password" => MapToGuest::BadPassword,
        "Bad Uid" => MapToGuest::BadUid,
        _ => MapToGuest::Never,
    }
}

fn spn_check(value: ValueReader<'_>) -> SpnCheck {
    match value.choice().as_str() {
        "required" => SpnCheck::Required,
        "if sent" => SpnCheck::IfSent,
        _ => SpnCheck::Off,
    }
}
