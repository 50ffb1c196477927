//! Authentication of an RPC association: the trailer of PDUs ([MS-RPCE] 2.2.2.11), whose tokens are NTLM messages here,
//! and the signing and sealing of calls with it.

use super::pdu::{ByteOrder, HEADER, Header};
use crate::auth::ntlm::Sealing;
use crate::bytes::{Malformed, Reader, Result};

/// The size of a `sec_trailer`, which the token or signature follows.
const TRAILER: usize = 8;
/// The size of an NTLM signature.
const SIGNATURE: usize = 16;
/// The alignment of the end of signed or sealed stubs.
const PADDING: usize = 16;
/// Where the arguments begin, after the header of a request or response.
const STUB: usize = HEADER + 8;
/// The maximum number of bytes that a signature adds to a fragment.
pub const OVERHEAD: u16 = (PADDING + TRAILER + SIGNATURE) as u16;

/// The size of a fragment of `length` bytes once it is signed.
pub fn protected_length(length: usize) -> usize {
    length.next_multiple_of(PADDING) + TRAILER + SIGNATURE
}

/// `auth_type`: the security provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuthType(pub u8);

impl AuthType {
    /// RPC_C_AUTHN_WINNT: NTLM.
    pub const WINNT: AuthType = AuthType(0x0a);
}

/// `auth_level`: the protection of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuthLevel(pub u8);

impl AuthLevel {
    /// RPC_C_AUTHN_LEVEL_PKT_INTEGRITY: calls are signed.
    pub const PKT_INTEGRITY: AuthLevel = AuthLevel(5);
    /// RPC_C_AUTHN_LEVEL_PKT_PRIVACY: calls are signed and sealed.
    pub const PKT_PRIVACY: AuthLevel = AuthLevel(6);
}

/// A `sec_trailer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trailer {
    /// The provider.
    pub kind: AuthType,
    /// The protection level.
    pub level: AuthLevel,
    /// Padding before the trailer, in bytes.
    pub padding: u8,
    /// `auth_context_id`.
    pub context: u32,
}

impl Trailer {
    /// Decodes the trailer of `pdu` and returns it with its position; `None` if there is none.
    pub fn decode(header: &Header, pdu: &[u8]) -> Result<Option<(Trailer, usize)>> {
        if header.auth_length == 0 {
            return Ok(None);
        }
        let at = pdu.len().checked_sub(usize::from(header.auth_length) + TRAILER).ok_or(Malformed::Truncated)?;
        if at < HEADER {
            return Err(Malformed::Truncated);
        }
        let mut reader = Reader::new(&pdu[at..]);
        let (kind, level, padding) = (AuthType(reader.u8()?), AuthLevel(reader.u8()?), reader.u8()?);
        reader.skip(1)?;
        let context = ByteOrder::of(pdu).u32(reader.u32()?);
        Ok(Some((Trailer { kind, level, padding, context }, at)))
    }

    /// Returns the token or signature after a trailer at `at`.
    pub fn value(pdu: &[u8], at: usize) -> &[u8] {
        pdu.get(at + TRAILER..).unwrap_or_default()
    }

    /// Appends padding and the trailer. `length` is the size of the value that will follow, and is included in the
    /// header.
    fn append(self, pdu: &mut Vec<u8>, alignment: usize, length: usize) {
        let begin = pdu.len();
        pdu.resize(begin.next_multiple_of(alignment), 0);
        let padding = (pdu.len() - begin) as u8;
        pdu.extend_from_slice(&[self.kind.0, self.level.0, padding, 0]);
        pdu.extend_from_slice(&self.context.to_le_bytes());
        let whole = (pdu.len() + length) as u16;
        pdu[8..10].copy_from_slice(&whole.to_le_bytes());
        pdu[10..12].copy_from_slice(&(length as u16).to_le_bytes());
    }

    /// Appends a trailer and a token to a PDU that has none.
    pub fn with_token(self, pdu: &mut Vec<u8>, token: &[u8]) {
        self.append(pdu, 4, token.len());
        pdu.extend_from_slice(token);
    }

    /// Signs one fragment of a response, and seals its results if the level requires it.
    pub fn protect(self, pdu: &mut Vec<u8>, sealing: &mut Sealing) {
        self.append(pdu, PADDING, SIGNATURE);
        let text = if self.level == AuthLevel::PKT_PRIVACY { STUB..pdu.len() - TRAILER } else { 0..0 };
        let signature = sealing.seal(pdu, text);
        pdu.extend_from_slice(&signature);
    }

    /// Verifies and opens a request, and removes its trailer. Returns `false` if the signature is wrong.
    pub fn unprotect(self, pdu: &mut Vec<u8>, at: usize, sealing: &mut Sealing) -> bool {
        let signature = Trailer::value(pdu, at).to_vec();
        pdu.truncate(at + TRAILER);
        let text = if self.level == AuthLevel::PKT_PRIVACY { STUB..at } else { 0..0 };
        if at < STUB + usize::from(self.padding) || !sealing.open(pdu, text, &signature) {
            return false;
        }
        pdu.truncate(at - usize::from(self.padding));
        let length = ByteOrder::of(pdu).u16(pdu.len() as u16).to_le_bytes();
        pdu[8..10].copy_from_slice(&length);
        pdu[10..12].copy_from_slice(&[0, 0]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::pdu::{self, PduFlags, PduType};
    use super::*;
    use crate::auth::ntlm::{NegotiateFlags, Sender, Session, SessionKey};
    use crate::bytes::Writer;

    #[test]
    fn a_protected_pdu_round_trips() {
        for level in [AuthLevel::PKT_PRIVACY, AuthLevel::PKT_INTEGRITY] {
            let session = Session::new(SessionKey([5; 16]), NegotiateFlags(0xe28a_8233));
            let sides = [Sender::Server, Sender::Client].map(|side| session.sealing(side).expect("extended security"));
            let [mut server, mut client] = sides;
            let trailer = Trailer { kind: AuthType::WINNT, level, padding: 0, context: 9 };
            let plain = pdu::Fragments::new(3, 1, b"some results".to_vec(), 4280).next().expect("one fragment");
            let mut sealed = plain.clone();
            trailer.protect(&mut sealed, &mut server);
            assert_eq!(sealed.len(), protected_length(plain.len()));
            let header = Header::decode(&sealed).expect("a header");
            assert_eq!((usize::from(header.frag_length), header.auth_length), (sealed.len(), 16));
            let shown = sealed.windows(12).any(|part| part == b"some results");
            assert_eq!(shown, level == AuthLevel::PKT_INTEGRITY);
            let (found, at) = Trailer::decode(&header, &sealed).expect("well-formed").expect("a trailer");
            assert_eq!(found, Trailer { padding: 12, ..trailer });
            assert!(found.unprotect(&mut sealed, at, &mut client));
            assert_eq!(sealed, plain);
        }
    }

    #[test]
    fn trailers_that_do_not_fit_are_refused() {
        let mut pdu = Vec::new();
        let flags = PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG;
        let header = Header { kind: PduType::REQUEST, flags, frag_length: 0, auth_length: 16, call_id: 1 };
        header.encode(&mut Writer::new(&mut pdu));
        for length in [0, 7, 8, 23] {
            pdu.resize(HEADER + length, 0);
            assert!(Trailer::decode(&header, &pdu).is_err(), "{length}");
        }
        pdu.resize(HEADER + 24, 0);
        let (trailer, at) = Trailer::decode(&header, &pdu).expect("the buffer is long enough").expect("a trailer");
        let session = Session::new(SessionKey([5; 16]), NegotiateFlags(0xe28a_8233));
        let mut sealing = session.sealing(Sender::Server).expect("extended security");
        assert!(!trailer.unprotect(&mut pdu, at, &mut sealing), "no space for the request's header");
    }
}
