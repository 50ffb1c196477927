//! A stored account: its format in the database, the rules for names, and the NT hash of a password.

use anyhow::{Context, Result, bail, ensure};
use md4::{Digest, Md4};
use serde::{Deserialize, Serialize};
use server::accounts::NtHash;
use zeroize::Zeroizing;

/// The first byte of a stored record. Every change of [`Record`]'s fields needs a new version, because an older program
/// would write a record back without fields that it does not support. A record is written in the oldest version that
/// has all fields it uses.
const VERSION: u8 = 3;

/// The version without `expires`.
const SECOND_VERSION: u8 = 2;

/// The version without `expires` and `never_expires`.
const FIRST_VERSION: u8 = 1;

/// The longest password that Windows accepts, in UTF-16 units.
const LONGEST_PASSWORD: usize = 256;

/// The longest account name in bytes, which is also the limit of NSS back ends.
const LONGEST_NAME: usize = 255;

/// A stored account. It does not implement `Debug`, because its hash is equivalent to a password.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The name as the administrator wrote it, which is also the UNIX user's unless `uid` is given.
    pub name: String,
    /// The last sub-authority of its SID.
    pub rid: u32,
    /// The hash of the password; `None` if it has none and cannot log on.
    #[serde(with = "hex_hash")]
    pub nt_hash: Option<NtHash>,
    /// Whether the administrator has disabled logons.
    pub disabled: bool,
    /// Whether logons are locked after wrong passwords.
    pub locked: bool,
    /// Whether the password must be changed before the next logon, unless [`Record::never_expires`].
    pub must_change: bool,
    /// Whether the password never expires: Samba's flag X.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_expires: bool,
    /// When the password was set, in seconds since 1970; `None` if unknown.
    pub password_last_set: Option<i64>,
    /// The owner's full name; may be empty.
    pub full_name: String,
    /// The uid of the UNIX user, if it is not the user of the same name.
    pub uid: Option<u32>,
    /// When the account expires, in seconds since 1970: the kickoff time of Samba. `None` means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
}

impl Record {
    /// Returns an account called `name` with defaults. It has no password, so no user can log on to it.
    pub fn named(name: &str) -> Record {
        Record {
            name: name.into(),
            rid: 0,
            nt_hash: None,
            disabled: false,
            locked: false,
            must_change: false,
            never_expires: false,
            password_last_set: None,
            full_name: String::new(),
            uid: None,
            expires: None,
        }
    }

    /// Returns whether the password must be changed before the next logon.
    pub fn needs_new_password(&self) -> bool {
        self.must_change && !self.never_expires
    }

    /// Returns the stored form.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(512));
        bytes.push(match self {
            Record { expires: Some(_), .. } => VERSION,
            Record { never_expires: true, .. } => SECOND_VERSION,
            _ => FIRST_VERSION,
        });
        serde_json::to_writer(&mut *bytes, self).expect("writing plain fields to memory cannot fail");
        bytes
    }

    /// Parses the stored form.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        match bytes.split_first() {
            Some((&(FIRST_VERSION..=VERSION), json)) => serde_json::from_slice(json).context("the record is damaged"),
            Some((&version, _)) => {
                bail!("the record has version {version}, this program supports {VERSION}: use a newer version of Frevo")
            }
            None => bail!("the record is empty"),
        }
    }
}

/// Checks an account name; the error says why it is not allowed. The forbidden characters are those of Windows
/// ([MS-SAMR] 3.1.1.6, for sAMAccountName), except `@`, which names of joined hosts contain.
pub fn check_name(name: &str) -> Result<()> {
    ensure!(!name.is_empty(), "an account's name cannot be empty");
    ensure!(name.len() <= LONGEST_NAME, "an account's name has at most {LONGEST_NAME} bytes");
    ensure!(name.trim() == name, "an account's name cannot begin or end with a space");
    if let Some(bad) = name.chars().find(|c| c.is_control() || "\"/\\[]:;|=,+*?<>".contains(*c)) {
        bail!("an account's name cannot contain {bad:?}");
    }
    Ok(())
}

/// Returns the NT hash of a password: MD4 of its UTF-16LE form ([MS-NLMP] 3.3.1, NTOWFv1).
pub fn nt_hash(password: &str) -> Result<NtHash> {
    ensure!(!password.is_empty(), "the password is empty");
    let units = password.encode_utf16().count();
    ensure!(units <= LONGEST_PASSWORD, "the password has {units} UTF-16 units: use at most {LONGEST_PASSWORD}");
    let mut bytes = Zeroizing::new(Vec::with_capacity(units * 2));
    bytes.extend(password.encode_utf16().flat_map(u16::to_le_bytes));
    Ok(NtHash(Md4::digest(&*bytes).into()))
}

/// Parses 32 hexadecimal digits as 16 bytes.
pub(crate) fn hash_from_hex(text: &str) -> Option<NtHash> {
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut hash = NtHash([0; 16]);
    for (byte, pair) in hash.0.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

/// Serializes an optional hash as hexadecimal digits.
pub mod hex_hash {
    use std::fmt::Write;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use server::accounts::NtHash;
    use zeroize::Zeroizing;

    /// Serializes the hash as 32 digits.
    pub fn serialize<S: Serializer>(hash: &Option<NtHash>, to: S) -> Result<S::Ok, S::Error> {
        let Some(hash) = hash else { return to.serialize_none() };
        let mut text = Zeroizing::new(String::with_capacity(32));
        for byte in hash.0 {
            write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        }
        to.serialize_some(text.as_str())
    }

    /// Deserializes 32 digits as a hash.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NtHash>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)?.map(Zeroizing::new) else { return Ok(None) };
        super::hash_from_hex(&text).map(Some).ok_or_else(|| D::Error::custom("a hash must have 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(nt_hash: Option<NtHash>) -> Record {
        Record {
            name: "Ann".into(),
            rid: 1000,
            disabled: false,
            locked: false,
            must_change: true,
            never_expires: nt_hash.is_some(),
            nt_hash,
            password_last_set: Some(1),
            full_name: "Ann Example".into(),
            uid: Some(7),
            expires: None,
        }
    }

    #[test]
    fn hashes_equal_those_of_the_specification_and_samba() {
        let check = |password: &str, hash: &str| {
            assert_eq!(nt_hash(password).unwrap().0, hash_from_hex(hash).unwrap().0, "{password}");
        };
        // [MS-NLMP] 4.2.2.1.2
        check("Password", "a4f49c406510bdcab6824ee7c30fd852");
        // Samba 4.17, `pdbedit -a`
        check("Secret-daemon", "1D3EC02BF8AAF6D00F91C0A7F0F3C160");
        check("Secret-bin", "0FA5C7BEC343B30A586205715761BC27");
        assert!(nt_hash("").is_err());
        assert!(nt_hash(&"x".repeat(256)).is_ok());
        assert!(nt_hash(&"\u{1f511}".repeat(129)).is_err());
    }

    #[test]
    fn records_survive_storage() {
        for hash in [None, Some(nt_hash("x").unwrap())] {
            let stored = record(hash.clone()).encode();
            let found = Record::decode(&stored).unwrap();
            assert_eq!(found.nt_hash.as_ref().map(|hash| hash.0), hash.map(|hash| hash.0));
            assert_eq!((found.name.as_str(), found.rid, found.uid), ("Ann", 1000, Some(7)));
            assert_eq!((found.never_expires, stored[0]), if found.nt_hash.is_some() { (true, 2) } else { (false, 1) });
            assert!(found.must_change && found.needs_new_password() != found.never_expires);
            assert!(*found.encode() == *stored);
        }
        let ends = Record { expires: Some(9), ..record(None) };
        assert_eq!((ends.encode()[0], Record::decode(&ends.encode()).unwrap().expires), (3, Some(9)));
    }

    #[test]
    fn unknown_record_formats_are_refused() {
        let good = record(None).encode();
        let newer: Vec<u8> = [&[4], &good[1..]].concat();
        assert!(Record::decode(&newer).err().unwrap().to_string().contains("newer"));
        for bad in [&good[..good.len() - 1], &good[..1], &[]] {
            assert!(Record::decode(bad).is_err());
        }
        let unknown = String::from_utf8(good.to_vec()).unwrap().replace("\"uid\":7", "\"uid\":7,\"x\":1");
        assert!(Record::decode(unknown.as_bytes()).is_err());
    }

    #[test]
    fn account_names_are_checked() {
        for good in ["ann", "Ann B", "a.b-c_d$", "ann@example.org", "\u{e4}nne"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", " ann", "ann ", "a\nb", "a/b", "a\\b", "a:b", "a*", &"x".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
