//! The lines of the record of snapshots.

use server::policy::snapshots::Format;

use super::btrfs::Uuid;

/// A snapshot that this program created.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Taken {
    /// Seconds since 1970-01-01 UTC.
    pub(super) moment: i64,
    pub(super) name: String,
    /// The subvolume of which it was taken.
    pub(super) of: Uuid,
    /// The snapshot itself; `None` from before its creation until the next change of the record.
    pub(super) own: Option<Uuid>,
}

impl Taken {
    pub(super) fn line(&self) -> String {
        let Taken { name, of, own, .. } = self;
        match own {
            Some(own) => format!("{name} {} {}\n", shown(of), shown(own)),
            None => format!("{name} {}\n", shown(of)),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Taken> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let moment = Format::token().moment(name.as_bytes(), None)?;
        let of = uuid(words.next()?)?;
        let own = match words.next() {
            Some(own) => Some(uuid(own)?),
            None => None,
        };
        words.next().is_none().then(|| Taken { moment, name: name.to_owned(), of, own })
    }
}

fn shown(uuid: &Uuid) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid(text: &str) -> Option<Uuid> {
    let is_plain = text.len() == 32 && text.bytes().all(|letter| letter.is_ascii_hexdigit());
    is_plain.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let name = "@GMT-2015.10.31-19.40.30";
        for own in [None, Some([0x5a; 16])] {
            let taken = Taken { moment: 1_446_320_430, name: name.to_owned(), of: [0xa5; 16], own };
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
