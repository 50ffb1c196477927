//! An account in the directory: `sambaSamAccount` (Samba's schema) and `posixAccount` (RFC 2307, 5).

use std::sync::Arc;

use proto::dtyp::Sid;
use server::accounts::NtHash;

use crate::backend::Entry;
use crate::record::{Record, hash_from_hex};
use ldap::message::{Change, ChangeKind, SearchResultEntry};

/// The attributes that are fetched for an account.
pub(super) const ATTRIBUTES: &[&str] = &[
    "uid",
    "displayName",
    "cn",
    "uidNumber",
    "gidNumber",
    "sambaSID",
    "sambaNTPassword",
    "sambaAcctFlags",
    "sambaPwdLastSet",
    "sambaKickoffTime",
    "sambaLogonTime",
    "sambaBadPasswordCount",
];

/// An account as read from the directory.
#[derive(Clone)]
pub(super) struct Person {
    pub(super) dn: Arc<str>,
    pub(super) record: Arc<Record>,
    pub(super) sid: Sid,
    /// uidNumber and gidNumber, if it is a `posixAccount`.
    pub(super) ids: Option<(u32, u32)>,
    /// `sambaKickoffTime`: when the account expires, in seconds since 1970.
    pub(super) ends: Option<i64>,
    /// `sambaAcctFlags`, parsed.
    pub(super) flags: Flags,
    /// `sambaAcctFlags`, as stored; `None` if it is missing.
    pub(super) flags_there: Option<String>,
    /// `sambaBadPasswordCount`.
    pub(super) bad_passwords: u32,
}

impl Person {
    /// Returns the account, without its UNIX user.
    pub(super) fn entry(&self) -> Entry {
        Entry { record: self.record.clone(), sid: self.sid, user: None, refused: None, ends: self.ends }
    }

    /// Parses the account in `found`; the error says what is missing.
    pub(super) fn read(found: &SearchResultEntry) -> Result<Person, String> {
        let wrong = |what: &str| format!("{}: {what}", found.dn);
        let name = found.first("uid").ok_or_else(|| wrong("has no uid"))?.to_owned();
        let sid: Sid = match found.first("sambaSID").map(str::parse) {
            Some(Ok(sid)) => sid,
            _ => return Err(wrong("has no valid sambaSID")),
        };
        let rid = sid.rid().ok_or_else(|| wrong("has a sambaSID without a RID"))?;
        let number = |attribute| found.first(attribute).and_then(|text| text.parse::<i64>().ok());
        // The largest number is not a user: to the kernel it means "unchanged", which would be root.
        let id = |attribute| {
            number(attribute).and_then(|number| u32::try_from(number).ok()).filter(|number| *number != u32::MAX)
        };
        let flags = Flags::read(found.first("sambaAcctFlags").unwrap_or("[U          ]"));
        let set = number("sambaPwdLastSet");
        let record = Record {
            nt_hash: found.first("sambaNTPassword").and_then(hash_from_hex),
            // Machine accounts are not for users: Samba refuses their logons too.
            disabled: flags.has('D') || ['W', 'S', 'I', 'T'].iter().any(|kind| flags.has(*kind)),
            locked: flags.has('L'),
            // Samba writes 0 if the password must be changed at the next logon.
            must_change: set == Some(0),
            never_expires: flags.has('X'),
            password_last_set: set.filter(|seconds| *seconds > 0),
            full_name: found.first("displayName").or_else(|| found.first("cn")).unwrap_or_default().to_owned(),
            uid: None,
            // `ends` of this entry.
            expires: None,
            name,
            rid,
        };
        Ok(Person {
            dn: found.dn.as_str().into(),
            record: Arc::new(record),
            sid,
            ids: id("uidNumber").zip(id("gidNumber")),
            // Samba writes its largest number for "never".
            ends: number("sambaKickoffTime").filter(|seconds| (1..i64::from(i32::MAX)).contains(seconds)),
            flags,
            flags_there: found.first("sambaAcctFlags").map(str::to_owned),
            bad_passwords: id("sambaBadPasswordCount").unwrap_or(0),
        })
    }
}

/// `sambaAcctFlags`: letters in brackets, padded with spaces to thirteen characters. Unknown letters are preserved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Flags(String);

impl Flags {
    fn read(text: &str) -> Flags {
        Flags(
            text.trim().trim_start_matches('[').trim_end_matches(']').chars().filter(|letter| *letter != ' ').collect(),
        )
    }

    fn has(&self, letter: char) -> bool {
        self.0.contains(letter)
    }

    fn set(&mut self, letter: char, on: bool) {
        match (self.0.find(letter), on) {
            (Some(at), false) => _ = self.0.remove(at),
            (None, true) => self.0.push(letter),
            _ => {}
        }
    }

    fn write(&self) -> String {
        format!("[{:<11}]", self.0)
    }
}

/// Returns the changes from `before` to `now`. Only differences are written, so unknown data is preserved.
pub(super) fn changes(before: &Person, now: &Record) -> Vec<Change> {
    let mut changes = Vec::new();
    let was = &*before.record;
    let mut flags = before.flags.clone();
    if was.disabled != now.disabled {
        flags.set('D', now.disabled);
    }
    if was.locked != now.locked {
        flags.set('L', now.locked);
    }
    if was.never_expires != now.never_expires {
        flags.set('X', now.never_expires);
    }
    if flags != before.flags {
        // Requires that the stored value is unchanged, so that concurrent changes of other flags are not undone.
        let gone = before.flags_there.as_ref().map(|there| Change::new(ChangeKind::Delete, "sambaAcctFlags", there));
        changes.extend(gone);
        changes.push(Change::new(ChangeKind::Add, "sambaAcctFlags", flags.write()));
    }
    let bytes = |hash: &Option<NtHash>| hash.as_ref().map(|hash| hash.0);
    if bytes(&was.nt_hash) != bytes(&now.nt_hash) {
        // Requires that the stored value is unchanged, so that a concurrent change of the password is not overwritten.
        let gone = was.nt_hash.as_ref().map(|hash| Change::new(ChangeKind::Delete, "sambaNTPassword", hex(hash)));
        let new = now.nt_hash.as_ref().map(|hash| Change::new(ChangeKind::Add, "sambaNTPassword", hex(hash)));
        changes.extend(gone.into_iter().chain(new));
    }
    if (was.must_change, was.password_last_set) != (now.must_change, now.password_last_set) {
        changes.push(Change::new(ChangeKind::Replace, "sambaPwdLastSet", last_set(now)));
    }
    if was.full_name != now.full_name {
        changes.push(match now.full_name.as_str() {
            "" => Change::clear("displayName"),
            name => Change::new(ChangeKind::Replace, "displayName", name),
        });
    }
    if before.bad_passwords != 0 && (was.locked && !now.locked || bytes(&was.nt_hash) != bytes(&now.nt_hash)) {
        changes.push(Change::new(ChangeKind::Replace, "sambaBadPasswordCount", "0"));
    }
    changes
}

/// Returns the attributes that make an entry an account, for an existing or a new entry.
pub(super) fn attributes(record: &Record, sid: &Sid) -> Vec<Change> {
    let add = |attribute, value: String| Change::new(ChangeKind::Add, attribute, value);
    let mut flags = Flags("U".into());
    flags.set('D', record.disabled);
    flags.set('L', record.locked);
    flags.set('X', record.never_expires);
    let mut attributes = vec![
        add("objectClass", "sambaSamAccount".into()),
        add("sambaSID", sid.to_string()),
        add("sambaAcctFlags", flags.write()),
        add("sambaPwdLastSet", last_set(record)),
    ];
    if let Some(hash) = &record.nt_hash {
        attributes.push(add("sambaNTPassword", hex(hash)));
    }
    if !record.full_name.is_empty() {
        attributes.push(add("displayName", record.full_name.clone()));
    }
    attributes
}

/// The attributes that belong to an account and are removed with it.
pub(super) const OF_ACCOUNTS: &[&str] = &[
    "sambaSID",
    "sambaLMPassword",
    "sambaNTPassword",
    "sambaPwdLastSet",
    "sambaLogonTime",
    "sambaLogoffTime",
    "sambaKickoffTime",
    "sambaPwdCanChange",
    "sambaPwdMustChange",
    "sambaAcctFlags",
    "sambaHomePath",
    "sambaHomeDrive",
    "sambaLogonScript",
    "sambaProfilePath",
    "sambaUserWorkstations",
    "sambaPrimaryGroupSID",
    "sambaDomainName",
    "sambaMungedDial",
    "sambaBadPasswordCount",
    "sambaBadPasswordTime",
    "sambaPasswordHistory",
    "sambaLogonHours",
];

fn last_set(record: &Record) -> String {
    if record.must_change { "0".into() } else { record.password_last_set.unwrap_or(0).to_string() }
}

fn hex(hash: &NtHash) -> String {
    let mut text = String::with_capacity(32);
    for byte in hash.0 {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).expect("four bits are a digit").to_ascii_uppercase());
        }
    }
    text
}

/// Escapes a value in a distinguished name (RFC 4514, 2.4).
pub(super) fn in_dn(value: &str) -> String {
    let mut text = String::new();
    let last = value.chars().count().saturating_sub(1);
    for (at, letter) in value.chars().enumerate() {
        if "\"+,;<>\\=".contains(letter) || at == 0 && "# ".contains(letter) || at == last && letter == ' ' {
            text.push('\\');
        }
        if letter == '\0' { text.push_str("\\00") } else { text.push(letter) }
    }
    text
}
