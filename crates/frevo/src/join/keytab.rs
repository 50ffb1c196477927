//! Parser for MIT Kerberos keytab files, format 0x0502. It extracts which keys a machine has and skips the key data.

/// One key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// The principal, such as `host/files.example.com`.
    pub(super) principal: String,
    /// The principal's realm.
    pub(super) realm: String,
    /// Key version number.
    pub(super) kvno: u32,
    /// Encryption type.
    pub(super) enctype: u16,
}

impl Entry {
    /// Returns whether the key is AES, with 128 or 256 bits and SHA-1 or SHA-2 (RFC 3962 7, RFC 8009 8.3).
    pub(super) fn is_aes(&self) -> bool {
        (17..=20).contains(&self.enctype)
    }
}

/// Parses the entries of a file. Returns `None` if it is not a keytab of this format.
pub(super) fn read(file: &[u8]) -> Option<Vec<Entry>> {
    let mut rest = file.strip_prefix(&[5, 2])?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let length = i32::from_be_bytes(take(&mut rest)?);
        // A negative length marks a hole left by a removed entry.
        let size = usize::try_from(length.unsigned_abs()).ok()?;
        let record = rest.get(..size)?;
        rest = &rest[size..];
        if length > 0 {
            entries.push(entry(record)?);
        } else if length == 0 {
            break;
        }
    }
    Some(entries)
}

fn entry(mut record: &[u8]) -> Option<Entry> {
    let components = u16::from_be_bytes(take(&mut record)?);
    let realm = text(&mut record)?;
    let mut names = Vec::new();
    for _ in 0..components {
        names.push(text(&mut record)?);
    }
    let _name_type: [u8; 4] = take(&mut record)?;
    let _timestamp: [u8; 4] = take(&mut record)?;
    let [short] = take(&mut record)?;
    let enctype = u16::from_be_bytes(take(&mut record)?);
    let length = u16::from_be_bytes(take(&mut record)?);
    record = record.get(usize::from(length)..)?;
    // Newer writers append the key version as 32 bits, because it may not fit into a byte.
    let long = take(&mut record).map(u32::from_be_bytes).filter(|kvno| *kvno != 0);
    Some(Entry { principal: names.join("/"), realm, kvno: long.unwrap_or(u32::from(short)), enctype })
}

fn text(record: &mut &[u8]) -> Option<String> {
    let length = usize::from(u16::from_be_bytes(take(record)?));
    let bytes = record.get(..length)?;
    *record = &record[length..];
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(names: &[&str], kvno: u32, enctype: u16, long: bool) -> Vec<u8> {
        let mut record = Vec::new();
        let mut put = |text: &str| {
            record.extend((text.len() as u16).to_be_bytes());
            record.extend(text.as_bytes());
        };
        put("DOM.TEST");
        names.iter().for_each(|name| put(name));
        record.splice(0..0, (names.len() as u16).to_be_bytes());
        record.extend([0, 0, 0, 1, 1, 2, 3, 4, kvno as u8]);
        record.extend(enctype.to_be_bytes());
        record.extend([0, 4, 9, 9, 9, 9]);
        if long {
            record.extend(kvno.to_be_bytes());
        }
        [(record.len() as i32).to_be_bytes().to_vec(), record].concat()
    }

    #[test]
    fn entries_are_read() {
        let hole = [(-5_i32).to_be_bytes().to_vec(), vec![0; 5]].concat();
        let file =
            [vec![5, 2], encoded(&["host", "files.dom.test"], 300, 18, true), hole, encoded(&["FILES$"], 3, 23, false)]
                .concat();
        let entries = read(&file).unwrap();
        let entry = |principal: &str, kvno, enctype| Entry {
            principal: principal.into(),
            realm: "DOM.TEST".into(),
            kvno,
            enctype,
        };
        assert_eq!(entries, [entry("host/files.dom.test", 300, 18), entry("FILES$", 3, 23)]);
        assert!(entries[0].is_aes() && !entries[1].is_aes());
    }

    #[test]
    fn invalid_keytabs_are_rejected() {
        let whole = [vec![5, 2], encoded(&["host", "a"], 1, 18, true)].concat();
        for length in 3..whole.len() {
            // The key version appended by newer writers may be missing if the record length says so.
            assert_eq!(read(&whole[..length]), None, "{length}");
        }
        assert_eq!(read(&[5, 1, 0, 0]), None);
        assert_eq!(read(b""), None);
        assert_eq!(read(&[5, 2]), Some(Vec::new()));
    }
}
