//! Messages that are signed and sealed with the keys of a logon ([MS-NLMP] 3.4.3, 3.4.4.2), for calls over named pipes
//! ([MS-RPCE] 2.2.2.11). Only with extended session security, which every client that sends NTLMv2 responses supports.

use std::ops::Range;

use rc4::{Key, KeyInit, Rc4, StreamCipher, consts::U16};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::NegotiateFlags;
use super::digest::hmac_md5;
use super::session::{Sender, Session};

/// The state of one direction.
struct Way {
    signing_key: Zeroizing<[u8; 16]>,
    stream: Rc4<U16>,
    sequence: u32,
    /// The checksums of signatures are encrypted, because a key was exchanged (3.4.4.2).
    encrypts_checksum: bool,
}

impl Way {
    fn new(session: &Session, sender: Sender) -> Way {
        let sealing_key = Zeroizing::new(session.sealing_key(sender));
        let stream = Rc4::new(Key::<U16>::from_slice(&*sealing_key));
        let signing_key = Zeroizing::new(session.signing_key(sender));
        let encrypts_checksum = session.flags().contains(NegotiateFlags::NEGOTIATE_KEY_EXCH);
        Way { signing_key, stream, sequence: 0, encrypts_checksum }
    }

    /// Returns the signature for the checksum of the plain message. To be called after the message's text went through
    /// the key stream.
    fn signature(&mut self, checksum: [u8; 16]) -> [u8; 16] {
        let mut signature = [0; 16];
        signature[..4].copy_from_slice(&1_u32.to_le_bytes());
        signature[4..12].copy_from_slice(&checksum[..8]);
        if self.encrypts_checksum {
            self.stream.apply_keystream(&mut signature[4..12]);
        }
        signature[12..].copy_from_slice(&self.sequence.to_le_bytes());
        self.sequence = self.sequence.wrapping_add(1);
        signature
    }

    fn checksum(&self, whole: &[u8]) -> [u8; 16] {
        hmac_md5(&self.signing_key, &[&self.sequence.to_le_bytes(), whole])
    }
}

/// Signs and seals the messages of one side, and verifies and opens those of the other. Messages must be processed in
/// order.
pub struct Sealing {
    ours: Way,
    theirs: Way,
}

impl Sealing {
    /// Creates the state for the side `us`.
    pub(super) fn new(session: &Session, us: Sender) -> Sealing {
        let them = match us {
            Sender::Client => Sender::Server,
            Sender::Server => Sender::Client,
        };
        Sealing { ours: Way::new(session, us), theirs: Way::new(session, them) }
    }

    /// Seals `text`, a part of `whole`, and returns the signature of all of `whole`.
    pub fn seal(&mut self, whole: &mut [u8], text: Range<usize>) -> [u8; 16] {
        let checksum = self.ours.checksum(whole);
        self.ours.stream.apply_keystream(&mut whole[text]);
        self.ours.signature(checksum)
    }

    /// Opens `text`, a part of `whole`, and returns whether the signature is correct.
    pub fn open(&mut self, whole: &mut [u8], text: Range<usize>, signature: &[u8]) -> bool {
        self.theirs.stream.apply_keystream(&mut whole[text]);
        let checksum = self.theirs.checksum(whole);
        self.theirs.signature(checksum).ct_eq(signature).into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionKey;
    use super::*;
    use crate::bytes::utf16_bytes;
    use crate::crypto::hex;

    fn session() -> Session {
        Session::new(SessionKey([0x55; 16]), NegotiateFlags(0xe28a_8233))
    }

    /// [MS-NLMP] 4.2.4.4.
    #[test]
    fn the_example_of_the_specification() {
        let mut client = session().sealing(Sender::Client).expect("extended session security");
        let mut message = utf16_bytes("Plaintext");
        let signature = client.seal(&mut message, 0..18);
        assert_eq!(message, hex("54e50165bf1936dc996020c1811b0f06fb5f"));
        assert_eq!(signature[..], hex("010000007fb38ec5c55d497600000000"));
    }

    #[test]
    fn without_key_exchange_the_checksum_is_plain() {
        let flags = NegotiateFlags(0xe28a_8233).without(NegotiateFlags::NEGOTIATE_KEY_EXCH);
        let session = Session::new(SessionKey([0x55; 16]), flags);
        let mut client = session.sealing(Sender::Client).expect("extended session security");
        let mut message = utf16_bytes("Plaintext");
        let signature = client.seal(&mut message, 0..18);
        assert_eq!(message, hex("54e50165bf1936dc996020c1811b0f06fb5f"));
        // The checksum of the example in 4.2.4.4, before it is encrypted.
        assert_eq!(signature[..], hex("01000000 703528 51f2564309 00000000"));
        let mut server = session.sealing(Sender::Server).expect("extended session security");
        assert!(server.open(&mut message, 0..18, &signature));
        assert_eq!(message, utf16_bytes("Plaintext"));
    }

    #[test]
    fn one_side_opens_in_order_what_the_other_seals() {
        let (mut client, mut server) = (
            session().sealing(Sender::Client).expect("extended session security"),
            session().sealing(Sender::Server).expect("extended session security"),
        );
        for text in ["first", "second"] {
            let mut message = format!("head {text} tail").into_bytes();
            let signature = client.seal(&mut message, 5..5 + text.len());
            assert!(message.starts_with(b"head ") && message.ends_with(b" tail"));
            assert!(server.open(&mut message, 5..5 + text.len(), &signature));
            assert_eq!(message, format!("head {text} tail").into_bytes());
        }
        let mut message = b"third".to_vec();
        let mut signature = server.seal(&mut message, 0..5);
        signature[5] ^= 1;
        assert!(!client.open(&mut message, 0..5, &signature));
        assert!(!client.open(&mut message, 0..5, &[]));
        let weak = Session::new(SessionKey([0x55; 16]), NegotiateFlags::NEGOTIATE_KEY_EXCH);
        assert!(weak.sealing(Sender::Client).is_none());
    }
}
