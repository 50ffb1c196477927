//! Stage two, Kerberos: whether tickets are accepted, and with which keytab.

use std::path::PathBuf;

use proto::auth::kerberos::EncryptionType;

use super::problem::{Code, error, note, warning};
use super::reader::ValueReader;
use super::table::access::NTLM_AUTH;
use super::table::domain::{ENCRYPTION_TYPES, KEYTAB, REALM};

/// The keytab of the host.
const SYSTEM_KEYTAB: &str = "/etc/krb5.keytab";

/// The Kerberos settings of the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The keytab file.
    pub keytab: PathBuf,
    /// `realm`, upper case; if empty, the realm of the keytab's principal.
    pub realm: String,
    /// `kerberos encryption types`.
    pub encryption: Encryption,
}

/// The encryption types allowed for tickets and keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// Everything that the library and krb5.conf permit.
    All,
    /// Only AES.
    Strong,
    /// Only RC4.
    Legacy,
}

impl Encryption {
    /// Returns whether keys and tickets with `encryption` are accepted.
    pub fn permits(self, encryption: EncryptionType) -> bool {
        match self {
            Encryption::All => true,
            Encryption::Strong => encryption.is_aes(),
            Encryption::Legacy => encryption == EncryptionType::ARCFOUR_HMAC,
        }
    }
}

/// Reads the settings; `None` if tickets are not accepted.
///
/// Samba by default accepts tickets with the machine password of its domain. Frevo always needs a keytab: the host's
/// keytab if `kerberos method` selects it, or if that is not set and there is a `realm`.
pub(super) fn build(value: ValueReader<'_>) -> Option<Settings> {
    let realm = value.of(&REALM).text().to_uppercase();
    let encryption = match value.of(&ENCRYPTION_TYPES).choice().as_str() {
        "all" => Encryption::All,
        "legacy" => Encryption::Legacy,
        _ => Encryption::Strong,
    };
    let dedicated = dedicated(value.of(&KEYTAB));
    let keytab = match value.choice().as_str() {
        "dedicated keytab" => {
            if dedicated.is_none() {
                let problem = error(Code::BadValue, "`kerberos method` = dedicated keytab, but no keytab is set");
                value.report(problem.remedy("add the file, such as `dedicated keytab file = /etc/frevo.keytab`"));
            }
            dedicated?
        }
        "system keytab" | "secrets and keytab" => PathBuf::from(SYSTEM_KEYTAB),
        _ if realm.is_empty() => {
            let ntlm = value.of(&NTLM_AUTH);
            if ntlm.choice() == "disabled" {
                let problem = warning(Code::Contradiction, "`ntlm auth` = disabled, and Kerberos is not configured");
                let remedy = "only guests can log on: set `kerberos method` or `realm`, or allow NTLM";
                ntlm.report(problem.remedy(remedy));
            }
            return None;
        }
        method => {
            if method == "secrets only" {
                let problem = note(Code::Accepted, "`kerberos method` = secrets only uses the host's keytab in Frevo");
                value.report(problem.remedy("write system keytab or dedicated keytab"));
            }
            PathBuf::from(SYSTEM_KEYTAB)
        }
    };
    Some(Settings { keytab, realm, encryption })
}

/// Returns `dedicated keytab file`, which may have a prefix for its type as Kerberos libraries write it.
fn dedicated(value: ValueReader<'_>) -> Option<PathBuf> {
    let text = value.text();
    let path = PathBuf::from(text.strip_prefix("FILE:").unwrap_or(&text));
    if path.as_os_str().is_empty() {
        return None;
    }
    if !path.is_absolute() {
        value.bad_value(&path.display().to_string(), "an absolute path");
    }
    Some(path)
}
