//! One line of an smbpasswd(5) file: `name:uid:LM hash:NT hash:[flags]:LCT-time:`.
//!
//! The fields that change have a fixed width, so a line is overwritten in place. Unknown parts of a line are preserved.
//! The LM hash is never used.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use server::accounts::NtHash;
use zeroize::Zeroizing;

use super::super::record::{Record, check_name, hash_from_hex};

/// The longest supported line in bytes.
pub(crate) const LONGEST: usize = 4096;

/// The longest line in bytes that Samba supports.
const LONGEST_OF_SAMBA: usize = 255;

/// Bytes from the LM hash to the colon after the time.
pub(super) const FIXED: usize = 93;

/// The flags' letters in the order in which Samba writes them.
const LETTERS: &str = "NDHTUMWSLXI";

/// The text for a missing hash.
const NO_HASH: &str = "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX";

/// The fields of a line with an account.
pub(crate) struct Fields<'a> {
    /// The account's name.
    pub(crate) name: &'a str,
    /// The user's uid; `None` if it is -1, which Samba writes for "no user".
    pub(crate) uid: Option<u32>,
    /// The hash of the password, even if flags make it invalid.
    pub(crate) nt_hash: Option<NtHash>,
    /// The flags between the brackets.
    pub(crate) flags: Flags,
    /// When the password was set, in seconds since 1970; 0 if it must be changed.
    pub(crate) changed: Option<i64>,
    /// The offset of the LM hash.
    hashes: usize,
    /// The text after the known fields.
    rest: &'a str,
}

/// A set of [`LETTERS`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Flags(u16);

impl Flags {
    /// Returns whether `letter` is set.
    pub(crate) fn has(self, letter: char) -> bool {
        LETTERS.find(letter).is_some_and(|at| self.0 & 1 << at != 0)
    }

    fn set(&mut self, letter: char, on: bool) {
        let bit = LETTERS.find(letter).map_or(0, |at| 1 << at);
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    /// Returns the kind of an account that does not belong to a user.
    pub(crate) fn machine(self) -> Option<&'static str> {
        [('W', "a workstation's account"), ('S', "a domain controller's account"), ('I', "a trusted domain's account")]
            .into_iter()
            .find_map(|(letter, kind)| self.has(letter).then_some(kind))
    }

    /// Parses `[UD         ]`: letters between brackets, padded with spaces.
    fn read(text: &str) -> Result<Self> {
        let letters = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let letters = letters.with_context(|| format!("{text:?} are not flags in brackets"))?;
        let mut flags = Flags::default();
        for letter in letters.chars().filter(|letter| *letter != ' ') {
            ensure!(LETTERS.contains(letter), "flag {letter:?} is unknown");
            flags.set(letter, true);
        }
        Ok(flags)
    }
}

impl<'a> Fields<'a> {
    /// Parses a line without its line feed; `None` for a comment or an empty line. An error says what is wrong without
    /// quoting a hash.
    pub(crate) fn read(line: &'a [u8]) -> Result<Option<Self>> {
        ensure!(line.len() <= LONGEST, "the line has more than {LONGEST} bytes");
        let line = std::str::from_utf8(line).context("the line is not UTF-8")?.trim_end_matches('\r');
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let mut rest = Some(line);
        let mut next = || {
            let (field, after) = rest?.split_once(':').map_or((rest?, None), |(field, after)| (field, Some(after)));
            rest = after;
            Some(field)
        };
        let mut field = |what: &str| next().with_context(|| format!("the line ends before {what}"));
        let name = field("the name")?;
        check_name(name)?;
        let uid_text = field("the uid")?;
        // Samba writes -1 as a signed or an unsigned number.
        let number: i64 = uid_text.parse().ok().with_context(|| format!("{uid_text:?} is not a uid"))?;
        let uid = u32::try_from(number).ok().filter(|uid| *uid != u32::MAX);
        read_hash(field("the LM hash")?).context("LM hash")?;
        let nt_hash = read_hash(field("the NT hash")?).context("NT hash")?;
        let mut fields = Fields {
            name,
            uid,
            nt_hash,
            flags: Flags::default(),
            changed: None,
            hashes: name.len() + 1 + uid_text.len() + 1,
            rest: rest.unwrap_or_default(),
        };
        fields.read_flags()?;
        Ok(Some(fields))
    }

    /// Parses flags and time. Files older than Samba 2.2 have other data there.
    fn read_flags(&mut self) -> Result<()> {
        if !self.rest.starts_with('[') {
            self.flags.set(if self.name.ends_with('$') { 'W' } else { 'U' }, true);
            return Ok(());
        }
        let (flags, rest) = self.rest.split_once(':').unwrap_or((self.rest, ""));
        let (changed, rest) = rest.split_once(':').unwrap_or((rest, ""));
        (self.flags, self.changed, self.rest) = (Flags::read(flags)?, read_changed(changed)?, rest);
        Ok(())
    }

    /// Returns the account as a record. An account that Samba lets log on without a password has no hash here.
    pub(super) fn record(&self, rid: u32) -> Record {
        Record {
            name: self.name.to_owned(),
            rid,
            nt_hash: self.nt_hash.clone().filter(|_| !self.flags.has('N')),
            disabled: self.flags.has('D'),
            locked: self.flags.has('L'),
            must_change: self.changed == Some(0),
            never_expires: self.flags.has('X'),
            password_last_set: self.changed.filter(|secs| *secs != 0),
            full_name: String::new(),
            uid: None,
            expires: None,
        }
    }

    /// Returns `line`, whose fields these are, updated from `after`.
    pub(super) fn rewritten(&self, line: &[u8], after: &Record) -> Zeroizing<Vec<u8>> {
        let before = self.record(after.rid);
        let same = |a: &Option<NtHash>, b: &Option<NtHash>| a.as_ref().map(|h| h.0) == b.as_ref().map(|h| h.0);
        let mut flags = self.flags;
        let mut text = Zeroizing::new(String::with_capacity(line.len() + FIXED));
        text.push_str(std::str::from_utf8(&line[..self.hashes]).unwrap_or_default());
        if same(&before.nt_hash, &after.nt_hash) {
            text.push_str(std::str::from_utf8(&line[self.hashes..self.hashes + 66]).unwrap_or_default());
        } else {
            push_hashes(&mut text, after.nt_hash.as_ref());
            flags.set('N', false);
        }
        flags.set('D', after.disabled);
        flags.set('L', after.locked);
        flags.set('X', after.never_expires);
        let unchanged = (before.must_change, before.password_last_set) == (after.must_change, after.password_last_set);
        let time = match self.changed.filter(|_| unchanged) {
            Some(secs) => u32::try_from(secs).unwrap_or(NEVER),
            None => time(after),
        };
        push_flags(&mut text, flags, time);
        text.push_str(self.rest);
        Zeroizing::new(text.as_bytes().to_vec())
    }

    /// Returns whether the changing fields of `line`, whose fields these are, have their full width.
    pub(super) fn has_fixed_width(&self, line: &[u8]) -> bool {
        let Some(fixed) = line.get(self.hashes..self.hashes + FIXED) else { return false };
        fixed[66] == b'[' && fixed[78] == b']' && fixed[80..].starts_with(b"LCT-") && fixed[92] == b':'
    }

    /// Returns the offset of the changing fields.
    pub(super) fn fixed(&self) -> usize {
        self.hashes
    }
}

/// Returns the line of a new account, without a line feed.
pub(super) fn new(record: &Record, uid: u32) -> Result<Zeroizing<Vec<u8>>> {
    let mut flags = Flags::default();
    for (letter, on) in [('U', true), ('D', record.disabled), ('L', record.locked), ('X', record.never_expires)] {
        flags.set(letter, on);
    }
    let mut text = Zeroizing::new(String::with_capacity(record.name.len() + 12 + FIXED));
    write!(text, "{}:{uid}:", record.name).expect("writing to a string cannot fail");
    push_hashes(&mut text, record.nt_hash.as_ref());
    push_flags(&mut text, flags, time(record));
    if text.len() > LONGEST_OF_SAMBA {
        bail!("the name is too long for an smbpasswd file: a line has at most {LONGEST_OF_SAMBA} bytes");
    }
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

/// Appends both hashes, each with a colon; 66 bytes.
fn push_hashes(text: &mut String, hash: Option<&NtHash>) {
    text.push_str(NO_HASH);
    text.push(':');
    match hash {
        Some(hash) => hash.0.iter().for_each(|byte| write!(text, "{byte:02X}").expect("strings accept all text")),
        None => text.push_str(NO_HASH),
    }
    text.push(':');
}

/// Appends flags and time, each with a colon; 27 bytes.
fn push_flags(text: &mut String, flags: Flags, time: u32) {
    let letters: String = LETTERS.chars().filter(|letter| flags.has(*letter)).collect();
    write!(text, "[{letters:11}]:LCT-{time:08X}:").expect("writing to a string cannot fail");
}

/// Samba's value for "never".
const NEVER: u32 = u32::MAX;

fn time(record: &Record) -> u32 {
    match record.password_last_set {
        _ if record.must_change => 0,
        Some(secs) => u32::try_from(secs.max(1)).unwrap_or(NEVER - 1),
        None => NEVER,
    }
}

/// Parses a hash; `None` for the texts that mean "none": 32 times `X`, and `NO PASSWORD` padded with `X`.
fn read_hash(text: &str) -> Result<Option<NtHash>> {
    if text.len() == 32 && text.strip_prefix("NO PASSWORD").unwrap_or(text).bytes().all(|byte| byte == b'X') {
        return Ok(None);
    }
    hash_from_hex(text).map(Some).context("not 32 hexadecimal digits")
}

/// Parses `LCT-` and the time of the last change in hexadecimal; an empty field means no time.
fn read_changed(text: &str) -> Result<Option<i64>> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.strip_prefix("LCT-").with_context(|| format!("{text:?} is not LCT- and a time"))?;
    let secs = u32::from_str_radix(digits, 16).ok().with_context(|| format!("{digits:?} is not a hexadecimal time"))?;
    Ok(Some(i64::from(secs)).filter(|_| secs != NEVER))
}

#[cfg(test)]
mod tests {
    use super::super::super::record::nt_hash;
    use super::*;

    const NAME: &str = "ann:7:";
    const HASHES: &str = "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:1D3EC02BF8AAF6D00F91C0A7F0F3C160:";

    fn line(end: &str) -> String {
        format!("{NAME}{HASHES}{end}")
    }

    /// Checks that `edit` on a line that ends with `end` changes only its end, and keeps the hashes.
    #[track_caller]
    fn check(end: &str, edit: impl FnOnce(&mut Record), becomes: &str) {
        let line = line(end);
        let fields = Fields::read(line.as_bytes()).unwrap().unwrap();
        let mut record = fields.record(1014);
        edit(&mut record);
        let text = String::from_utf8(fields.rewritten(line.as_bytes(), &record).to_vec()).unwrap();
        assert_eq!(text.strip_prefix(NAME).unwrap().strip_prefix(HASHES).unwrap_or(&text), becomes);
        // The written line parses to the same values.
        let fields = Fields::read(text.as_bytes()).unwrap().unwrap();
        assert!(*fields.record(1014).encode() == *record.encode(), "{text}");
        assert!(fields.has_fixed_width(text.as_bytes()));
    }

    #[test]
    fn an_edit_changes_only_its_fields() {
        let disable = |record: &mut Record| record.disabled = true;
        check("[U          ]:LCT-6B01BECE:", |_| (), "[U          ]:LCT-6B01BECE:");
        check("[U          ]:LCT-6B01BECE:", disable, "[DU         ]:LCT-6B01BECE:");
        check("[U          ]:LCT-6B01BECE:hello:world", disable, "[DU         ]:LCT-6B01BECE:hello:world");
        check("[NUX        ]:LCT-6B01BECE:", disable, "[NDUX       ]:LCT-6B01BECE:");
        check("[UX         ]:LCT-00000000:", disable, "[DUX        ]:LCT-00000000:");
        check("[UL         ]:LCT-00000000:", |record| record.locked = false, "[U          ]:LCT-00000000:");
        // A password that must be changed has no time.
        let expire = |record: &mut Record| (record.must_change, record.password_last_set) = (true, None);
        check("[U          ]:LCT-6B01BECE:", expire, "[U          ]:LCT-00000000:");
        // With this flag the password need not be changed. Without it, it must be again.
        check("[U          ]:LCT-00000000:", |record| record.never_expires = true, "[UX         ]:LCT-00000000:");
        check("[DUX        ]:LCT-6B01BECE:", |record| record.never_expires = false, "[DU         ]:LCT-6B01BECE:");
    }

    #[test]
    fn shorter_lines_are_extended_to_full_width() {
        for end in ["[U]:LCT-6B01BECE:", "[U          ]:", "", "Ann,,,:/home/ann:/bin/sh"] {
            let line = line(end);
            let fields = Fields::read(line.as_bytes()).unwrap().unwrap();
            assert!(!fields.has_fixed_width(line.as_bytes()), "{end}");
        }
        check("[U]:LCT-6B01BECE:", |_| (), "[U          ]:LCT-6B01BECE:");
        check("", |_| (), "[U          ]:LCT-FFFFFFFF:");
        check("Ann,,,:/home/ann:/bin/sh", |_| (), "[U          ]:LCT-FFFFFFFF:Ann,,,:/home/ann:/bin/sh");
    }

    #[test]
    fn a_new_password_clears_the_no_password_flag() {
        let line = line("[NDU        ]:LCT-00000000:");
        let fields = Fields::read(line.as_bytes()).unwrap().unwrap();
        let mut record = fields.record(1014);
        assert!(record.nt_hash.is_none() && record.must_change);
        record.nt_hash = Some(nt_hash("x").unwrap());
        (record.must_change, record.password_last_set) = (false, Some(0x6b01_becf));
        let text = String::from_utf8(fields.rewritten(line.as_bytes(), &record).to_vec()).unwrap();
        assert!(
            text.starts_with(&format!("{NAME}{NO_HASH}:")) && text.ends_with(":[DU         ]:LCT-6B01BECF:"),
            "{text}"
        );
        let fields = Fields::read(text.as_bytes()).unwrap().unwrap();
        assert_eq!(fields.nt_hash.unwrap().0, nt_hash("x").unwrap().0);
    }

    #[test]
    fn a_new_line_equals_one_written_by_samba() {
        let mut record = Fields::read(line("[U          ]:LCT-6B01BECE:").as_bytes()).unwrap().unwrap().record(1014);
        assert_eq!(*new(&record, 7).unwrap(), line("[U          ]:LCT-6B01BECE:").as_bytes());
        record.must_change = true;
        assert_eq!(*new(&record, 7).unwrap(), line("[U          ]:LCT-00000000:").as_bytes());
        record.name = "x".repeat(200);
        assert!(new(&record, 7).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn machine_accounts_are_recognized_by_flag_or_in_old_files_by_name() {
        let machine = |text: &str| Fields::read(text.as_bytes()).unwrap().unwrap().flags.machine().is_some();
        assert!(machine(&line("[W          ]:LCT-6B01BECE:")) && machine(&line("[S          ]:")));
        assert!(machine(&line("").replace("ann", "pc$")));
        assert!(!machine(&line("[U          ]:").replace("ann", "pc$")) && !machine(&line("")));
    }
}
