//! Snapshots that this program created, and the lines in which they are recorded on btrfs.

use server::policy::snapshots::Format;

use super::btrfs::Uuid;

/// What identifies a volume or a snapshot: the UUID of btrfs in hexadecimal digits, or that of LVM as its programs
/// write it.
pub(super) type Id = Box<str>;

/// A snapshot that this program created.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Taken {
    /// Seconds since 1970-01-01 UTC.
    pub(super) moment: i64,
    pub(super) name: String,
    /// The subvolume or logical volume of which it was taken.
    pub(super) of: Id,
    /// The snapshot itself; `None` from before its creation until the next change of the record.
    pub(super) own: Option<Id>,
}

impl Taken {
    pub(super) fn line(&self) -> String {
        let Taken { name, of, own, .. } = self;
        match own {
            Some(own) => format!("{name} {of} {own}\n"),
            None => format!("{name} {of}\n"),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Taken> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let moment = Format::token().moment(name.as_bytes(), None)?;
        let of = id(words.next()?)?;
        let own = match words.next() {
            Some(own) => Some(id(own)?),
            None => None,
        };
        words.next().is_none().then(|| Taken { moment, name: name.to_owned(), of, own })
    }
}

/// Returns the UUID of a subvolume as it is recorded.
pub(super) fn shown(uuid: &Uuid) -> Id {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn id(text: &str) -> Option<Id> {
    let is_plain = text.len() == 32 && text.bytes().all(|letter| letter.is_ascii_hexdigit());
    is_plain.then(|| text.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let name = "@GMT-2015.10.31-19.40.30";
        for own in [None, Some(shown(&[0x5a; 16]))] {
            let taken = Taken { moment: 1_446_320_430, name: name.to_owned(), of: shown(&[0xa5; 16]), own };
            assert_eq!(Taken::parse(taken.line().trim_end()), Some(taken));
        }
        let uuid = "a5".repeat(16);
        for line in [
            String::new(),
            name.to_owned(),
            format!("{name} a5"),
            format!("{name} {uuid} "),
            format!("{name} +{}", &uuid[1..]),
            format!("{name} {uuid} {uuid} {uuid}"),
            format!("../x {uuid}"),
        ] {
            assert_eq!(Taken::parse(&line), None, "{line}");
        }
    }
}
