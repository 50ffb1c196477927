//! Calls that list entries, in tests of the services.

use proto::rpc::ndr::{Decoder, Encoder};

use self::Member::{Bytes, Null, Number, Text};

/// Encodes the arguments of a call that lists entries, after its qualifiers.
pub(in crate::rpc) fn listing(qualifiers: &[Option<&str>], level: u32, length: u32, resume: Option<u32>) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    for qualifier in qualifiers {
        match qualifier {
            Some(text) => {
                out.pointer();
                out.string(text);
            }
            None => out.null(),
        }
    }
    out.u32(level);
    out.u32(level);
    out.pointer();
    out.u32(0);
    out.null();
    out.u32(length);
    match resume {
        Some(resume) => {
            out.pointer();
            out.u32(resume);
        }
        None => out.null(),
    }
    out.into_bytes()
}

/// A member of the fixed part of an entry.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::rpc) enum Member {
    Number,
    Text,
    Null,
    /// A pointer to bytes, which may be null.
    Bytes,
}

/// A decoded response: the members of each entry as text, the total, the handle and the status.
#[derive(PartialEq, Debug)]
pub(in crate::rpc) struct Listed {
    pub(in crate::rpc) entries: Vec<Vec<String>>,
    pub(in crate::rpc) total: u32,
    pub(in crate::rpc) resume: Option<u32>,
    pub(in crate::rpc) status: u32,
}

/// Decodes entries that have these members.
fn entries(decoder: &mut Decoder<'_>, count: u32, members: &[Member]) -> Vec<Vec<String>> {
    let fixed: Vec<Vec<u32>> =
        (0..count).map(|_| members.iter().map(|_| decoder.u32().expect("a member")).collect()).collect();
    let mut value = |member: &Member, fixed: &u32| match member {
        Number => Some(fixed.to_string()),
        Text => {
            assert_ne!(*fixed, 0, "a pointer");
            Some(decoder.string().expect("a string"))
        }
        Bytes if *fixed != 0 => {
            let length = decoder.u32().expect("a length") as usize;
            Some(format!("{} bytes", decoder.bytes(length).expect("bytes").len()))
        }
        Null | Bytes => {
            assert_eq!(*fixed, 0, "a null pointer");
            None
        }
    };
    fixed
        .iter()
        .map(|row| members.iter().zip(row).filter_map(|(member, fixed)| value(member, fixed)).collect())
        .collect()
}

/// Decodes a response whose entries have these members.
pub(in crate::rpc) fn decode(bytes: &[u8], members: &[Member]) -> Listed {
    let mut decoder = Decoder::new(bytes);
    let mut next = || decoder.u32().expect("a number");
    let (level, arm, _) = (next(), next(), next());
    assert_eq!(level, arm);
    let count = next();
    if next() != 0 {
        assert_eq!(next(), count);
    }
    let entries = entries(&mut decoder, count, members);
    let total = decoder.u32().expect("a total");
    let resume = decoder.pointer().expect("a pointer").then(|| decoder.u32().expect("a handle"));
    let status = decoder.u32().expect("a status");
    Listed { entries, total, resume, status }
}

/// Returns the status at the end of a response.
pub(in crate::rpc) fn last(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[bytes.len() - 4..].try_into().expect("a status"))
}

/// Returns one member of each entry.
pub(in crate::rpc) fn column(listed: &Listed, at: usize) -> Vec<&str> {
    listed.entries.iter().map(|entry| &*entry[at]).collect()
}
