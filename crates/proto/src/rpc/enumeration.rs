//! The arguments and results of calls that list things, in [MS-SRVS] 3.1.4 and [MS-WKST] 3.2.4: entries of a level, as
//! many as fit into a preferred length, and a handle by which the next call continues.

use super::ndr::{Arguments, Decoder, Encoder};
use crate::bytes::{Malformed, Result};

/// MAX_PREFERRED_LENGTH ([MS-SRVS] 2.2.2.2): all entries are returned.
pub const MAX_PREFERRED_LENGTH: u32 = u32::MAX;

/// Win32 error codes ([MS-ERREF] 2.2) that calls return.
#[allow(missing_docs, reason = "the names are those of Windows")]
pub mod error {
    pub const SUCCESS: u32 = 0;
    pub const FILE_NOT_FOUND: u32 = 2;
    pub const PATH_NOT_FOUND: u32 = 3;
    pub const ACCESS_DENIED: u32 = 5;
    pub const INVALID_HANDLE: u32 = 6;
    pub const NOT_ENOUGH_MEMORY: u32 = 8;
    pub const WRITE_PROTECT: u32 = 19;
    pub const GEN_FAILURE: u32 = 31;
    pub const SHARING_VIOLATION: u32 = 32;
    pub const NOT_SUPPORTED: u32 = 50;
    pub const INVALID_PARAMETER: u32 = 87;
    pub const INSUFFICIENT_BUFFER: u32 = 122;
    pub const INVALID_NAME: u32 = 123;
    pub const INVALID_LEVEL: u32 = 124;
    pub const BAD_PATHNAME: u32 = 161;
    pub const MORE_DATA: u32 = 234;
    pub const NO_MORE_ITEMS: u32 = 259;
    pub const SERVICE_DOES_NOT_EXIST: u32 = 1060;
    pub const SERVICE_NOT_ACTIVE: u32 = 1062;
    pub const DATABASE_DOES_NOT_EXIST: u32 = 1065;
    pub const INVALID_SERVICE_LOCK: u32 = 1071;
    pub const CANCELLED: u32 = 1223;
    pub const INVALID_OWNER: u32 = 1307;
    pub const PRIVILEGE_NOT_HELD: u32 = 1314;
    pub const INVALID_SECURITY_DESCR: u32 = 1338;
    pub const NO_SYSTEM_RESOURCES: u32 = 1450;
    pub const CANT_RESOLVE_FILENAME: u32 = 1921;
    pub const UNKNOWN_DEV_DIR: u32 = 2116;
    pub const DUPLICATE_SHARE: u32 = 2118;
    pub const BUF_TOO_SMALL: u32 = 2123;
    pub const USER_NOT_FOUND: u32 = 2221;
    pub const NET_NAME_NOT_FOUND: u32 = 2310;
    pub const DEVICE_NOT_SHARED: u32 = 2311;
    pub const CLIENT_NAME_NOT_FOUND: u32 = 2312;
    pub const FILE_ID_NOT_FOUND: u32 = 2314;
    pub const INVALID_COMPUTER: u32 = 2351;
}

/// What a call lists: an entry that has levels.
pub trait Entry {
    /// Writes the entry as a structure of this level.
    fn encode(&self, level: u32, out: &mut Row<'_>);
}

/// The last arguments of a call that lists entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The level of the entries.
    pub level: u32,
    /// `PreferedMaximumLength`, bytes.
    pub preferred_length: u32,
    /// The number of entries that earlier calls have returned or passed; `None` if the client cannot continue.
    pub resume: Option<u32>,
}

impl Arguments for Request {
    fn read(decoder: &mut Decoder<'_>) -> Result<Request> {
        // The level is also the discriminant of the union that follows.
        let (level, arm) = (decoder.u32()?, decoder.u32()?);
        if level != arm {
            return Err(Malformed::Value);
        }
        // Clients send an empty container. The entries of another one would have to be skipped.
        if decoder.pointer()? && (decoder.u32()? != 0 || (decoder.pointer()? && decoder.u32()? != 0)) {
            return Err(Malformed::Value);
        }
        let preferred_length = decoder.u32()?;
        let resume = if decoder.pointer()? { Some(decoder.u32()?) } else { None };
        Ok(Request { level, preferred_length, resume })
    }
}

impl Request {
    /// Decodes the arguments if the level is one of `levels`. Otherwise the rest of the call is not decoded, because
    /// the union has no arm for the level.
    pub fn read_level(decoder: &mut Decoder<'_>, levels: &[u32]) -> Result<Levelled> {
        let mut ahead = decoder.clone();
        let level = ahead.u32()?;
        if !levels.contains(&level) {
            return Ok(Err(UnknownLevel(level)));
        }
        Request::read(decoder).map(Ok)
    }
}

/// The last arguments of a call, if its entries have the level.
pub type Levelled = std::result::Result<Request, UnknownLevel>;

/// A level that the entries of a call do not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownLevel(pub u32);

/// One entry that is being written. The referents of its pointers follow after all entries.
pub struct Row<'a> {
    fixed: &'a mut Encoder,
    referents: &'a mut Encoder,
}

impl Row<'_> {
    /// Writes a number.
    pub fn u32(&mut self, value: u32) {
        self.fixed.u32(value);
    }

    /// Writes a pointer to a string.
    pub fn string(&mut self, text: &str) {
        self.fixed.pointer();
        self.referents.string(text);
    }

    /// Writes a null pointer.
    pub fn null(&mut self) {
        self.fixed.null();
    }

    /// Writes a pointer to an array of bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.fixed.pointer();
        self.referents.u32(bytes.len() as u32);
        self.referents.array(1, bytes);
    }
}

/// Referents of the pointers outside of the entries.
const OUTER_REFERENTS: u32 = 16;

/// The entries of a response.
struct Rows {
    fixed: Encoder,
    referents: Encoder,
}

impl Rows {
    fn new() -> Rows {
        Rows { fixed: Encoder::with_referents(OUTER_REFERENTS), referents: Encoder::default() }
    }

    fn add(&mut self, level: u32, entry: &impl Entry) {
        entry.encode(level, &mut Row { fixed: &mut self.fixed, referents: &mut self.referents });
    }

    fn length(&self) -> usize {
        self.fixed.length() + self.referents.length()
    }

    fn append_to(self, out: &mut Encoder) {
        out.array(4, &self.fixed.into_bytes());
        out.array(4, &self.referents.into_bytes());
    }
}

/// The response to a call that lists entries, which are offered to it one after another.
pub struct Enumeration {
    request: Request,
    rows: Rows,
    /// The number of entries offered so far, including those that the client does not want.
    position: u32,
    /// The value of `position` after the last entry that was added.
    last: u32,
    count: u32,
    /// `TotalEntries`: the number of entries from the position of the client.
    total: u32,
    /// No more entries are added, for this reason.
    full: Option<Full>,
}

/// The reason why entries are not added to a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The length that the client prefers is reached.
    Preferred,
    /// The memory that the client may occupy is used up.
    Memory,
}

impl Enumeration {
    /// Creates a response without entries.
    pub fn new(request: Request) -> Enumeration {
        let last = request.resume.unwrap_or(0);
        Enumeration { request, rows: Rows::new(), position: 0, last, count: 0, total: 0, full: None }
    }

    /// Passes the next entry. Returns whether it must be added; otherwise it is before the position of the client, is
    /// excluded by the qualifiers of the call (`matches`), or does not fit.
    pub fn offer(&mut self, matches: bool) -> bool {
        self.position = self.position.saturating_add(1);
        if self.position <= self.request.resume.unwrap_or(0) || !matches {
            return false;
        }
        self.total = self.total.saturating_add(1);
        self.full.is_none()
    }

    /// Adds the entry that was offered, if it fits.
    pub fn add(&mut self, entry: &impl Entry) {
        let (fixed, referents) = (self.rows.fixed.length(), self.rows.referents.length());
        self.rows.add(self.request.level, entry);
        if self.rows.length() > self.request.preferred_length as usize
            && self.request.preferred_length != MAX_PREFERRED_LENGTH
        {
            self.rows.fixed.truncate(fixed);
            self.rows.referents.truncate(referents);
            return self.stop(Full::Preferred);
        }
        self.count += 1;
        self.last = self.position;
    }

    /// Adds no more entries.
    pub fn stop(&mut self, why: Full) {
        self.full.get_or_insert(why);
    }

    /// Returns the size of the entries in bytes.
    pub fn length(&self) -> usize {
        self.rows.length()
    }

    /// Returns the results of the call.
    pub fn finish(self) -> Vec<u8> {
        let complete = self.count == self.total;
        let status = match self.full {
            _ if complete => error::SUCCESS,
            Some(Full::Memory) if self.count == 0 => error::NOT_ENOUGH_MEMORY,
            _ if self.count == 0 => error::BUF_TOO_SMALL,
            _ => error::MORE_DATA,
        };
        let mut out = Encoder::with_capacity(self.rows.length() + 64);
        out.u32(self.request.level);
        out.u32(self.request.level);
        out.pointer();
        out.u32(self.count);
        out.pointer();
        out.u32(self.count);
        self.rows.append_to(&mut out);
        out.u32(self.total);
        end(&mut out, self.request.resume.map(|_| if complete { 0 } else { self.last }), status);
        out.into_bytes()
    }
}

/// Returns the results of a call that is refused.
pub fn refused(request: &Request, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(request.level);
    out.u32(request.level);
    out.pointer();
    out.u32(0);
    out.null();
    out.u32(0);
    end(&mut out, request.resume, status);
    out.into_bytes()
}

/// Returns the results of a call for an unknown level. The union has no arm for it.
pub fn unknown_level(UnknownLevel(level): UnknownLevel) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(level);
    out.u32(level);
    out.u32(0);
    end(&mut out, None, error::INVALID_LEVEL);
    out.into_bytes()
}

fn end(out: &mut Encoder, resume: Option<u32>, status: u32) {
    match resume {
        Some(resume) => {
            out.pointer();
            out.u32(resume);
        }
        None => out.null(),
    }
    out.u32(status);
}

/// Returns the results of a call for one entry: a structure of this level, which must be one of `levels`, or the reason
/// why there is none.
pub fn info(level: u32, levels: &[u32], entry: std::result::Result<&impl Entry, u32>) -> Vec<u8> {
    info_of_union(level, levels, &[], entry)
}

/// As [`info`], for a union that has the further levels `others`, for which there is no structure.
pub fn info_of_union(
    level: u32,
    levels: &[u32],
    others: &[u32],
    entry: std::result::Result<&impl Entry, u32>,
) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(level);
    let status = match entry {
        _ if !levels.contains(&level) => {
            if others.contains(&level) {
                out.null();
            }
            error::INVALID_LEVEL
        }
        Ok(entry) => {
            out.pointer();
            let mut rows = Rows::new();
            rows.add(level, entry);
            rows.append_to(&mut out);
            error::SUCCESS
        }
        Err(status) => {
            out.null();
            status
        }
    };
    out.u32(status);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl Entry for Named {
        fn encode(&self, _: u32, out: &mut Row<'_>) {
            out.string(self.0);
        }
    }

    /// Returns the names, the total, the resume handle and the status.
    fn listed(request: Request) -> (Vec<String>, u32, Option<u32>, u32) {
        let mut list = Enumeration::new(request);
        for name in ["a", "b", "-", "c", "d"] {
            if list.offer(name != "-") {
                list.add(&Named(name));
            }
        }
        let bytes = list.finish();
        let mut decoder = Decoder::new(&bytes);
        let mut number = || decoder.u32().expect("a number");
        assert_eq!((number(), number(), number() != 0), (0, 0, true));
        let count = number();
        assert_eq!((number() != 0, number()), (true, count));
        (0..count).for_each(|_| assert_ne!(number(), 0));
        let names = (0..count).map(|_| decoder.string().expect("a name")).collect();
        let total = decoder.u32().expect("a total");
        let resume = decoder.pointer().expect("a pointer").then(|| decoder.u32().expect("a handle"));
        (names, total, resume, decoder.u32().expect("a status"))
    }

    #[test]
    fn a_list_is_returned_in_parts() {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let list = |preferred_length, resume| listed(Request { level: 0, preferred_length, resume });
        let whole = all(&["a", "b", "c", "d"]);
        assert_eq!(list(MAX_PREFERRED_LENGTH, None), (whole.clone(), 4, None, error::SUCCESS));
        assert_eq!(list(MAX_PREFERRED_LENGTH, Some(0)), (whole, 4, Some(0), error::SUCCESS));
        // An entry takes 20 bytes.
        assert_eq!(list(59, Some(0)), (all(&["a", "b"]), 4, Some(2), error::MORE_DATA));
        assert_eq!(list(59, Some(2)), (all(&["c", "d"]), 2, Some(0), error::SUCCESS));
        assert_eq!(list(20, Some(2)), (all(&["c"]), 2, Some(4), error::MORE_DATA));
        assert_eq!(list(20, Some(4)), (all(&["d"]), 1, Some(0), error::SUCCESS));
        assert_eq!(list(20, Some(5)), (Vec::new(), 0, Some(0), error::SUCCESS));
        assert_eq!(list(20, Some(u32::MAX)), (Vec::new(), 0, Some(0), error::SUCCESS));
        assert_eq!(list(19, Some(1)), (Vec::new(), 3, Some(1), error::BUF_TOO_SMALL));
        assert_eq!(list(39, None), (all(&["a"]), 4, None, error::MORE_DATA));
    }

    #[test]
    fn arguments_round_trip_and_garbage_is_refused() {
        let encode = |arm: u32, count: u32, resume: Option<u32>| {
            let mut out = Encoder::default();
            out.u32(0);
            out.u32(arm);
            out.pointer();
            out.u32(count);
            out.null();
            out.u32(500);
            end(&mut out, resume, 0);
            out.into_bytes()
        };
        let read = |bytes: &[u8]| Request::read_level(&mut Decoder::new(bytes), &[0]);
        let request = Request { level: 0, preferred_length: 500, resume: Some(7) };
        assert_eq!(read(&encode(0, 0, Some(7))), Ok(Ok(request)));
        assert_eq!(read(&encode(0, 0, None)), Ok(Ok(Request { resume: None, ..request })));
        assert_eq!(read(&encode(1, 0, None)), Err(Malformed::Value));
        assert_eq!(read(&encode(0, 1, None)), Err(Malformed::Value));
        assert_eq!(read(&[9, 0, 0, 0]), Ok(Err(UnknownLevel(9))));
        let bytes = encode(0, 0, Some(7));
        for length in 0..bytes.len() - 4 {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn one_entry_or_the_reason_is_returned() {
        let status = |bytes: Vec<u8>| u32::from_le_bytes(bytes[bytes.len() - 4..].try_into().expect("four bytes"));
        assert_eq!(status(info(0, &[0], Ok(&Named("a")))), error::SUCCESS);
        assert_eq!(status(info(0, &[0], Err::<&Named, _>(error::ACCESS_DENIED))), error::ACCESS_DENIED);
        assert_eq!(status(info(1, &[0], Ok(&Named("a")))), error::INVALID_LEVEL);
    }
}
