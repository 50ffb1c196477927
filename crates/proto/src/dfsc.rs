//! DFS referrals ([MS-DFSC] 2.2): the input and output of FSCTL_DFS_GET_REFERRALS and FSCTL_DFS_GET_REFERRALS_EX.
//!
//! Text is UTF-16LE without the terminating null character. A path begins with one backslash (2.2.1).

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;
use crate::values::values;

flags! {
    /// Which optional parts an extended request has ([MS-DFSC] 2.2.3).
    pub struct RequestFlags(u16) {
        /// The name of the client's site.
        SITE_NAME = 0x0001;
    }

    /// The properties of all targets of a response ([MS-DFSC] 2.2.4).
    pub struct HeaderFlags(u32) {
        /// The targets answer referral requests.
        REFERRAL_SERVERS = 0x0000_0001;
        /// The targets can be accessed without further referrals.
        STORAGE_SERVERS = 0x0000_0002;
        /// A client returns to a target that it prefers.
        TARGET_FAILBACK = 0x0000_0004;
    }

    /// The properties of one target ([MS-DFSC] 2.2.5.3, 2.2.5.4).
    pub struct EntryFlags(u16) {
        /// The entry lists domains or domain controllers.
        NAME_LIST_REFERRAL = 0x0002;
        /// The first target of a target set.
        TARGET_SET_BOUNDARY = 0x0004;
    }
}

values! {
    /// The kind of the targets ([MS-DFSC] 2.2.5.1).
    pub struct ServerType(u16) {
        /// Targets of a link.
        LINK = 0x0000;
        /// Targets of a root.
        ROOT = 0x0001;
    }

    /// The version of a referral ([MS-DFSC] 2.2.5).
    pub struct Version(u16) {
        /// DFS_REFERRAL_V1.
        V1 = 1;
        /// DFS_REFERRAL_V2.
        V2 = 2;
        /// DFS_REFERRAL_V3.
        V3 = 3;
        /// DFS_REFERRAL_V4.
        V4 = 4;
    }
}

impl Version {
    /// Returns the size of an entry without its strings; `None` for an unknown version.
    fn entry_size(self) -> Option<usize> {
        match self {
            Version::V1 => Some(8),
            Version::V2 => Some(22),
            Version::V3 | Version::V4 => Some(34),
            _ => None,
        }
    }
}

/// Asks for the targets of a path (REQ_GET_DFS_REFERRAL, [MS-DFSC] 2.2.2; REQ_GET_DFS_REFERRAL_EX, 2.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReferralRequest<'a> {
    /// The highest version that the client understands.
    pub max_referral_level: u16,
    /// The path to be resolved.
    pub request_file_name: &'a [u8],
    /// The client's site. Only an extended request can have one.
    pub site_name: Option<&'a [u8]>,
}

impl<'a> ReferralRequest<'a> {
    /// Reads the input of FSCTL_DFS_GET_REFERRALS.
    pub fn decode(input: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(input);
        let (max_referral_level, name) = (reader.u16()?, reader.rest());
        let request_file_name = terminated(name).ok_or(Malformed::Truncated)?;
        Ok(ReferralRequest { max_referral_level, request_file_name, site_name: None })
    }

    /// Reads the input of FSCTL_DFS_GET_REFERRALS_EX. A terminating null character is accepted, because 2.2.1 has one
    /// in every string, and 2.2.3.1 mentions none.
    pub fn decode_ex(input: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(input);
        let (max_referral_level, flags) = (reader.u16()?, RequestFlags(reader.u16()?));
        let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        let mut data = Reader::new(reader.take(length)?);
        let request_file_name = counted(&mut data)?;
        let site_name = match flags.contains(RequestFlags::SITE_NAME) {
            true => Some(counted(&mut data)?),
            false => None,
        };
        Ok(ReferralRequest { max_referral_level, request_file_name, site_name })
    }

    /// Writes the input of FSCTL_DFS_GET_REFERRALS, which has no site name.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(self.max_referral_level);
        out.bytes(self.request_file_name);
        out.u16(0);
    }

    /// Writes the input of FSCTL_DFS_GET_REFERRALS_EX. Each name must have fewer than 32,767 characters.
    pub fn encode_ex(&self, out: &mut Writer<'_>) {
        let flags = if self.site_name.is_some() { RequestFlags::SITE_NAME } else { RequestFlags::NONE };
        let mut data = Vec::new();
        let mut parts = Writer::new(&mut data);
        for name in [Some(self.request_file_name), self.site_name].into_iter().flatten() {
            parts.u16(u16::try_from(name.len() + 2).unwrap_or(u16::MAX));
            parts.bytes(name);
            parts.u16(0);
        }
        out.u16(self.max_referral_level);
        out.u16(flags.0);
        out.u32(u32::try_from(data.len()).unwrap_or(u32::MAX));
        out.bytes(&data);
    }
}

/// Reads a string after its length in bytes.
fn counted<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let length = usize::from(reader.u16()?);
    let text = reader.take(length)?;
    if !text.len().is_multiple_of(2) {
        return Err(Malformed::Value);
    }
    Ok(terminated(text).unwrap_or(text))
}

/// Returns what precedes the first null character; `None` if there is none.
fn terminated(text: &[u8]) -> Option<&[u8]> {
    let end = text.chunks_exact(2).position(|unit| unit == [0, 0])?;
    text.get(..2 * end)
}

/// One target ([MS-DFSC] 2.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Referral<'a> {
    /// The kind of target.
    pub server_type: ServerType,
    /// Its properties; none in versions 1 and 2.
    pub entry_flags: EntryFlags,
    /// How long a client may use it, in seconds; 0 in version 1, which has no such field.
    pub time_to_live: u32,
    /// The root or link, as in the request; empty in version 1.
    pub dfs_path: &'a [u8],
    /// The same path, or one of 8.3 names; empty in version 1.
    pub dfs_alternate_path: &'a [u8],
    /// The target: `\server\share`, and possibly a path below.
    pub network_address: &'a [u8],
}

/// The targets of a root or link (RESP_GET_DFS_REFERRAL, [MS-DFSC] 2.2.4). Referrals to domains and their controllers
/// are not decoded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReferralResponse<'a> {
    /// Bytes of the request's path that the root or link has.
    pub path_consumed: u16,
    /// The properties of all targets.
    pub header_flags: HeaderFlags,
    /// The version of all entries. A response without entries has none.
    pub version: Version,
    /// The targets.
    pub referrals: Vec<Referral<'a>>,
}

impl<'a> ReferralResponse<'a> {
    const HEADER: usize = 8;

    /// Reads the output.
    pub fn decode(output: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(output);
        let (path_consumed, number) = (reader.u16()?, usize::from(reader.u16()?));
        let header_flags = HeaderFlags(reader.u32()?);
        let mut response = ReferralResponse { path_consumed, header_flags, ..ReferralResponse::default() };
        let mut at = Self::HEADER;
        for index in 0..number {
            let entry = output.get(at..).ok_or(Malformed::Truncated)?;
            let (version, size, referral) = decode_entry(entry)?;
            if index == 0 {
                response.version = version;
            } else if response.version != version {
                return Err(Malformed::Value);
            }
            response.referrals.push(referral);
            at += size;
        }
        Ok(response)
    }

    /// Returns the output with as many entries as fit in `space` bytes, in order; `None` if there are entries and none
    /// fits (3.2.5.1), or the version is unknown. A string that several entries have is written once.
    pub fn to_bytes(&self, space: usize) -> Option<Vec<u8>> {
        let fixed = self.version.entry_size().or(self.referrals.is_empty().then_some(0))?;
        let (mut fitting, mut best) = (0, None);
        let mut most = self.referrals.len().min(space / fixed.max(1)).min(usize::from(u16::MAX));
        if self.referrals.is_empty() {
            return self.with(0, fixed, space);
        }
        // More entries are never shorter.
        let mut count = most;
        while fitting < most {
            match self.with(count, fixed, space) {
                Some(output) => (fitting, best) = (count, Some(output)),
                None => most = count - 1,
            }
            count = fitting + (most - fitting).div_ceil(2);
        }
        best
    }

    /// Returns the output with the first `count` entries, whose fixed parts have `fixed` bytes.
    fn with(&self, count: usize, fixed: usize, space: usize) -> Option<Vec<u8>> {
        let mut output = Vec::new();
        let mut out = Writer::new(&mut output);
        out.u16(self.path_consumed);
        out.u16(u16::try_from(count).ok()?);
        out.u32(self.header_flags.0);
        let mut strings = Strings { start: Self::HEADER + count * fixed, ..Strings::default() };
        for referral in self.referrals.iter().take(count) {
            let at = out.position();
            let text = if self.version == Version::V1 { referral.network_address.len() + 2 } else { 0 };
            out.u16(self.version.0);
            out.u16(u16::try_from(fixed + text).ok()?);
            out.u16(referral.server_type.0);
            let flags = if self.version.0 < Version::V3.0 { EntryFlags::NONE } else { referral.entry_flags };
            out.u16(flags.0);
            if self.version == Version::V1 {
                out.bytes(referral.network_address);
                out.u16(0);
            } else {
                // Proximity is always 0.
                out.zeros(if self.version == Version::V2 { 4 } else { 0 });
                out.u32(referral.time_to_live);
                for text in [referral.dfs_path, referral.dfs_alternate_path, referral.network_address] {
                    out.u16(u16::try_from(strings.offset(text) - at).ok()?);
                }
                // ServiceSiteGuid is always 0.
                out.zeros(if self.version == Version::V2 { 0 } else { 16 });
            }
            if out.position() > space {
                return None;
            }
        }
        out.bytes(&strings.bytes);
        (output.len() <= space).then_some(output)
    }
}

/// The strings after the entries.
#[derive(Default)]
struct Strings<'a> {
    start: usize,
    bytes: Vec<u8>,
    written: Vec<(&'a [u8], usize)>,
}

impl<'a> Strings<'a> {
    /// Returns the offset of a string from the start of the output, and adds it if it is new.
    fn offset(&mut self, text: &'a [u8]) -> usize {
        if let Some((_, offset)) = self.written.iter().find(|(written, _)| *written == text) {
            return *offset;
        }
        let offset = self.start + self.bytes.len();
        self.bytes.extend_from_slice(text);
        self.bytes.extend([0, 0]);
        self.written.push((text, offset));
        offset
    }
}

/// Reads the entry at the start of `entry`, which extends to the end of the output. Returns its version and size.
fn decode_entry(entry: &[u8]) -> Result<(Version, usize, Referral<'_>)> {
    let mut reader = Reader::new(entry);
    let (version, size) = (Version(reader.u16()?), usize::from(reader.u16()?));
    let fixed = version.entry_size().ok_or(Malformed::Value)?;
    if size < fixed || size > entry.len() {
        return Err(Malformed::Offset);
    }
    let server_type = ServerType(reader.u16()?);
    let entry_flags = EntryFlags(reader.u16()?);
    let mut referral = Referral { server_type, ..Referral::default() };
    if version == Version::V1 {
        let name = reader.take(size - fixed)?;
        referral.network_address = terminated(name).ok_or(Malformed::Truncated)?;
        return Ok((version, size, referral));
    }
    if version == Version::V2 {
        reader.skip(4)?;
    } else if entry_flags.contains(EntryFlags::NAME_LIST_REFERRAL) {
        return Err(Malformed::Value);
    } else {
        referral.entry_flags = entry_flags;
    }
    referral.time_to_live = reader.u32()?;
    let mut text = || {
        let offset = usize::from(reader.u16()?);
        let text = entry.get(offset..).filter(|_| offset >= size).ok_or(Malformed::Offset)?;
        terminated(text).ok_or(Malformed::Truncated)
    };
    referral.dfs_path = text()?;
    referral.dfs_alternate_path = text()?;
    referral.network_address = text()?;
    Ok((version, size, referral))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::utf16_bytes;
    use crate::smb2::testing::{Source, encode_part, hex};
    use proptest::prelude::*;

    // 2.2.2: MaxReferralLevel, RequestFileName.
    #[test]
    fn a_request() {
        let name = utf16_bytes(r"\s\r");
        let request = ReferralRequest { max_referral_level: 4, request_file_name: &name, site_name: None };
        let input = hex("0400 5c00 7300 5c00 7200 0000");
        assert_eq!(encode_part(|out| request.encode(out)), input);
        assert_eq!(ReferralRequest::decode(&input), Ok(request));
        for (input, answer) in [
            ("04", Err(Malformed::Truncated)),
            ("0400", Err(Malformed::Truncated)),
            ("0400 5c00", Err(Malformed::Truncated)),
            ("0400 5c00 00", Err(Malformed::Truncated)),
            ("0400 0000", Ok(b"".as_slice())),
            ("0400 5c00 0000 7300", Ok(b"\\\0")),
        ] {
            let input = hex(input);
            assert_eq!(ReferralRequest::decode(&input).map(|request| request.request_file_name), answer, "{input:x?}");
        }
    }

    // 2.2.3: MaxReferralLevel, RequestFlags, RequestDataLength; 2.2.3.1: RequestFileNameLength, RequestFileName,
    // SiteNameLength, SiteName.
    #[test]
    fn an_extended_request() {
        let (name, site) = (utf16_bytes(r"\s"), utf16_bytes("x"));
        let request = ReferralRequest { max_referral_level: 3, request_file_name: &name, site_name: Some(&site) };
        let input = hex("0300 0100 0e000000 0600 5c00 7300 0000 0400 7800 0000");
        assert_eq!(encode_part(|out| request.encode_ex(out)), input);
        assert_eq!(ReferralRequest::decode_ex(&input), Ok(request));
        let without_site = ReferralRequest { site_name: None, ..request };
        for (input, answer) in [
            ("0300 0000 06000000 0400 5c00 7300", Ok(without_site)),
            ("0300 0000 08000000 0600 5c00 7300 0000", Ok(without_site)),
            ("0300 0100 06000000 0400 5c00 7300", Err(Malformed::Truncated)),
            ("0300 0000 07000000 0400 5c00 7300", Err(Malformed::Truncated)),
            ("0300 0000 06000000 0600 5c00 7300 0000", Err(Malformed::Truncated)),
            ("0300 0000 05000000 0300 5c00 73", Err(Malformed::Value)),
        ] {
            assert_eq!(ReferralRequest::decode_ex(&hex(input)), answer, "{input}");
        }
    }

    fn referral<'a>(path: &'a [u8], target: &'a [u8]) -> Referral<'a> {
        Referral {
            time_to_live: 600,
            dfs_path: path,
            dfs_alternate_path: path,
            network_address: target,
            ..Referral::default()
        }
    }

    /// A response for `\r\l` with the targets `\a` and `\b`.
    fn response(version: Version) -> ReferralResponse<'static> {
        let path = b"\\\0r\0\\\0l\0";
        ReferralResponse {
            path_consumed: 8,
            header_flags: HeaderFlags::STORAGE_SERVERS,
            version,
            referrals: vec![referral(path, b"\\\0a\0"), referral(path, b"\\\0b\0")],
        }
    }

    // 2.2.4: PathConsumed, NumberOfReferrals, ReferralHeaderFlags; 2.2.5.1: VersionNumber, Size, ServerType,
    // ReferralEntryFlags, ShareName.
    #[test]
    fn version_1() {
        let output = hex("0800 0200 02000000 0100 0e00 0000 0000 5c00 6100 0000 0100 0e00 0000 0000 5c00 6200 0000");
        let response = response(Version::V1);
        assert_eq!(response.to_bytes(1000).as_ref(), Some(&output));
        let decoded = ReferralResponse::decode(&output).expect("it is complete");
        assert_eq!(decoded.referrals.len(), 2);
        assert_eq!(decoded.referrals[1], Referral { network_address: b"\\\0b\0", ..Referral::default() });
        let unterminated = hex("0800 0100 02000000 0100 0c00 0000 0000 5c00 6100");
        assert_eq!(ReferralResponse::decode(&unterminated), Err(Malformed::Truncated));
    }

    // 2.2.5.2: Proximity, TimeToLive, DFSPathOffset, DFSAlternatePathOffset, NetworkAddressOffset after those of
    // version 1.
    #[test]
    fn version_2() {
        let output = hex("0800 0200 02000000
             0200 1600 0000 0000 00000000 58020000 2c00 2c00 3600
             0200 1600 0000 0000 00000000 58020000 1600 1600 2600
             5c00 7200 5c00 6c00 0000 5c00 6100 0000 5c00 6200 0000");
        let response = response(Version::V2);
        assert_eq!(response.to_bytes(1000).as_ref(), Some(&output));
        assert_eq!(ReferralResponse::decode(&output), Ok(response));
    }

    // 2.2.5.3, 2.2.5.3.1: TimeToLive, DFSPathOffset, DFSAlternatePathOffset, NetworkAddressOffset, ServiceSiteGuid.
    #[test]
    fn versions_3_and_4() {
        for (version, number) in [(Version::V3, "0300"), (Version::V4, "0400")] {
            let guid = "00".repeat(16);
            let output = hex(&format!(
                "0800 0200 02000000
                 {number} 2200 0000 0000 58020000 4400 4400 4e00 {guid}
                 {number} 2200 0000 0400 58020000 2200 2200 3200 {guid}
                 5c00 7200 5c00 6c00 0000 5c00 6100 0000 5c00 6200 0000"
            ));
            let mut response = response(version);
            response.referrals[1].entry_flags = EntryFlags::TARGET_SET_BOUNDARY;
            assert_eq!(response.to_bytes(1000).as_ref(), Some(&output));
            assert_eq!(ReferralResponse::decode(&output), Ok(response));
        }
    }

    #[test]
    fn entries_that_do_not_fit_are_left_out() {
        let response = response(Version::V3);
        // The header, an entry of 34 bytes for each target, the path and one target; then the other target.
        for (space, count) in [(0, 0), (8, 0), (57, 0), (58, 1), (97, 1), (98, 2), (70_000, 2)] {
            let output = response.to_bytes(space);
            assert!(output.as_ref().is_none_or(|output| output.len() <= space), "{space}");
            let decoded = output.as_ref().map_or(0, |output| ReferralResponse::decode(output).unwrap().referrals.len());
            assert_eq!(decoded, count, "{space}");
        }
        let long = vec![b'a'; 65_600];
        let mut response = response.clone();
        response.referrals = vec![referral(b"", &long), referral(b"", b"")];
        assert!(response.to_bytes(100_000).is_some(), "the only string after the long one was written before it");
        response.referrals = vec![referral(&long, b"")];
        assert_eq!(response.to_bytes(100_000), None, "an offset has 16 bits");
        let none = ReferralResponse { path_consumed: 2, ..ReferralResponse::default() };
        assert_eq!(none.to_bytes(8), Some(hex("0200 0000 00000000")));
        assert_eq!(none.to_bytes(7), None);
        let unknown = ReferralResponse { version: Version(9), ..response };
        assert_eq!(unknown.to_bytes(100_000), None);
    }

    #[test]
    fn responses_that_are_refused() {
        let entry = "0200 1600 0000 0000 00000000 58020000 1600 1600 1600";
        for (output, error) in [
            ("0000 0100 0000", Malformed::Truncated),
            ("0000 0100 00000000", Malformed::Truncated),
            ("0000 0100 00000000 0900 1600 0000 0000", Malformed::Value),
            ("0000 0100 00000000 0200 1500 0000 0000 00000000 58020000 1600 1600 1600", Malformed::Offset),
            (&format!("0000 0100 00000000 {entry}"), Malformed::Truncated),
            (
                &format!("0000 0100 00000000 {} 0000", entry.replace("1600 1600 1600", "1400 1600 1600")),
                Malformed::Offset,
            ),
            (
                &format!("0000 0100 00000000 {} 0000", entry.replace("1600 1600 1600", "1a00 1600 1600")),
                Malformed::Offset,
            ),
            (&format!("0000 0200 00000000 {entry} 0100 0a00 0000 0000 0000"), Malformed::Value),
        ] {
            assert_eq!(ReferralResponse::decode(&hex(output)), Err(error), "{output}");
        }
        let names = format!("0000 0100 00000000 0300 2200 0000 0200 {}", "00".repeat(26));
        assert_eq!(ReferralResponse::decode(&hex(&names)), Err(Malformed::Value));
    }

    /// Returns text without a null character.
    fn text<'a>(source: &mut Source<'a>) -> &'a [u8] {
        let text = source.utf16();
        terminated(text).unwrap_or(text)
    }

    proptest! {
        #[test]
        fn requests_round_trip((bytes, _) in Source::strategy()) {
            let source = &mut Source::new(&bytes);
            let (max_referral_level, request_file_name) = (source.u16(), text(source));
            let site_name = (source.u8() & 1 == 1).then(|| text(source));
            let request = ReferralRequest { max_referral_level, request_file_name, site_name };
            let input = encode_part(|out| request.encode_ex(out));
            prop_assert_eq!(ReferralRequest::decode_ex(&input), Ok(request));
            let request = ReferralRequest { site_name: None, ..request };
            let input = encode_part(|out| request.encode(out));
            prop_assert_eq!(ReferralRequest::decode(&input), Ok(request));
        }

        #[test]
        fn responses_round_trip((bytes, (at, byte, end)) in Source::strategy()) {
            let source = &mut Source::new(&bytes);
            let version = Version(2 + source.u16() % 3);
            let response = ReferralResponse {
                path_consumed: source.u16(),
                header_flags: HeaderFlags(source.u32()),
                referrals: source.list(|source| Referral {
                    server_type: ServerType(source.u16()),
                    entry_flags: match version {
                        Version::V2 => EntryFlags::NONE,
                        _ => EntryFlags(source.u16()).without(EntryFlags::NAME_LIST_REFERRAL),
                    },
                    time_to_live: source.u32(),
                    dfs_path: text(source),
                    dfs_alternate_path: text(source),
                    network_address: text(source),
                }),
                version,
            };
            let version = if response.referrals.is_empty() { Version::default() } else { version };
            let response = ReferralResponse { version, ..response };
            let mut output = response.to_bytes(100_000).expect("a small response");
            prop_assert_eq!(ReferralResponse::decode(&output), Ok(response));
            if let Some(changed) = output.get_mut(at) {
                *changed = byte;
            }
            let _ = ReferralResponse::decode(&output);
            output.truncate(end);
            let _ = ReferralResponse::decode(&output);
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ReferralRequest::decode(&bytes);
            let _ = ReferralRequest::decode_ex(&bytes);
            let _ = ReferralResponse::decode(&bytes);
        }
    }
}
