//! The result of a successful logon: the session key, and the signatures of SPNEGO's mechanism list that are made with
//! it ([MS-NLMP] 3.4.4.2, 3.4.5.2, 3.4.5.3; [MS-SPNG] 3.2.5.1).

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::NegotiateFlags;
use super::digest::{hmac_md5, md5, rc4};
use super::sealing::Sealing;

/// `ExportedSessionKey`, from which SMB derives its own keys. Wiped when dropped; its `Debug` text shows no byte of it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SessionKey(pub [u8; 16]);

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey(16 bytes)")
    }
}

/// The side that signs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// The initiator.
    Client,
    /// The acceptor.
    Server,
}

/// The result of a successful logon.
#[derive(Clone, Debug)]
pub struct Session {
    key: SessionKey,
    flags: NegotiateFlags,
}

/// `RandomPad` of a signature without extended session security.
const RANDOM_PAD: std::ops::Range<usize> = 4..8;

/// `CRC32` ([MS-NLMP] 6).
fn crc32(message: &[u8]) -> u32 {
    !message.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

impl Session {
    pub(crate) fn new(key: SessionKey, flags: NegotiateFlags) -> Self {
        Session { key, flags }
    }

    /// The key that SMB uses as `Session.SessionKey` and `Session.FullSessionKey`.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// The final negotiated flags.
    pub fn flags(&self) -> NegotiateFlags {
        self.flags
    }

    /// The mechListMIC that `sender` puts into its last SPNEGO token, over the DER bytes of the client's MechTypeList.
    /// `None` if neither signatures nor extended session security were negotiated.
    ///
    /// It is the sender's first signature. SPNEGO resets the key state after it, and SMB signs nothing with NTLM, so no
    /// state is kept.
    pub fn mech_list_mic(&self, sender: Sender, mech_types: &[u8]) -> Option<[u8; 16]> {
        if !self.flags.contains(NegotiateFlags::NEGOTIATE_EXTENDED_SESSIONSECURITY) {
            return self
                .flags
                .contains(NegotiateFlags::NEGOTIATE_SIGN)
                .then(|| self.weak_signature(sender, mech_types));
        }
        let sequence = 0u32.to_le_bytes();
        let signing_key = Zeroizing::new(self.signing_key(sender));
        let mut checksum = [0; 8];
        checksum.copy_from_slice(&hmac_md5(&signing_key, &[&sequence, mech_types])[..8]);
        if self.flags.contains(NegotiateFlags::NEGOTIATE_KEY_EXCH) {
            rc4(&Zeroizing::new(self.sealing_key(sender)), &mut checksum);
        }
        let mut mic = [0; 16];
        mic[..4].copy_from_slice(&1u32.to_le_bytes());
        mic[4..12].copy_from_slice(&checksum);
        mic[12..].copy_from_slice(&sequence);
        Some(mic)
    }

    /// Returns whether `mic` is the mechListMIC of `sender`, compared in constant time.
    pub fn verify_mech_list_mic(&self, sender: Sender, mech_types: &[u8], mic: &[u8]) -> bool {
        let extended = self.flags.contains(NegotiateFlags::NEGOTIATE_EXTENDED_SESSIONSECURITY);
        let Some(expected) = self.mech_list_mic(sender, mech_types) else { return false };
        let Ok(mut mic) = <[u8; 16]>::try_from(mic) else { return false };
        if !extended {
            // 3.4.4.1: zeros, but the example in 4.2.2.4 and some clients leave the random pad there.
            mic[RANDOM_PAD].fill(0);
        }
        expected.ct_eq(&mic).into()
    }

    /// The first signature of `sender` without extended session security (3.4.4.1). As in Samba, both sides then share
    /// one key, its state and the sequence number, and the client signs first.
    fn weak_signature(&self, sender: Sender, message: &[u8]) -> [u8; 16] {
        let mut signature = [0; 16];
        signature[..4].copy_from_slice(&1u32.to_le_bytes());
        signature[8..12].copy_from_slice(&crc32(message).to_le_bytes());
        // 3.4.5.3: the session key is the sealing key.
        let mut stream = [0; 24];
        rc4(&self.key.0, &mut stream);
        let (sequence, stream) = match sender {
            Sender::Client => (0, &stream[..12]),
            Sender::Server => (1, &stream[12..]),
        };
        signature[12..].copy_from_slice(&u32::to_le_bytes(sequence));
        for (byte, key) in signature[4..].iter_mut().zip(stream) {
            *byte ^= key;
        }
        signature[RANDOM_PAD].fill(0);
        signature
    }

    /// Returns the signing and sealing state for subsequent messages of the side `us`; `None` without extended session
    /// security.
    pub fn sealing(&self, us: Sender) -> Option<Sealing> {
        let extended = self.flags.contains(NegotiateFlags::NEGOTIATE_EXTENDED_SESSIONSECURITY);
        extended.then(|| Sealing::new(self, us))
    }

    /// `SIGNKEY` with extended session security.
    pub(super) fn signing_key(&self, sender: Sender) -> [u8; 16] {
        let constant: &[u8] = match sender {
            Sender::Client => b"session key to client-to-server signing key magic constant\0",
            Sender::Server => b"session key to server-to-client signing key magic constant\0",
        };
        md5(&[&self.key.0, constant])
    }

    /// `SEALKEY` with extended session security.
    pub(super) fn sealing_key(&self, sender: Sender) -> [u8; 16] {
        let constant: &[u8] = match sender {
            Sender::Client => b"session key to client-to-server sealing key magic constant\0",
            Sender::Server => b"session key to server-to-client sealing key magic constant\0",
        };
        let strength = match self.flags {
            flags if flags.contains(NegotiateFlags::NEGOTIATE_128) => 16,
            flags if flags.contains(NegotiateFlags::NEGOTIATE_56) => 7,
            _ => 5,
        };
        md5(&[&self.key.0[..strength], constant])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::utf16_bytes;
    use crate::crypto::hex;

    /// [MS-NLMP] 4.2.4.4: keys and signature of the client's first message.
    #[test]
    fn the_example_of_the_specification() {
        let session = Session::new(SessionKey([0x55; 16]), NegotiateFlags(0xe28a_8233));
        assert_eq!(session.sealing_key(Sender::Client)[..], hex("59f600973cc4960a25480a7c196e4c58"));
        assert_eq!(session.signing_key(Sender::Client)[..], hex("4788dc861b4782f35d43fd98fe1a2d39"));
        let text = utf16_bytes("Plaintext");
        // The example seals the text first, so its checksum is encrypted with the key stream's bytes from 18 on. Here
        // it is encrypted with the first ones, as in SPNEGO.
        let mut stream = [0; 26];
        rc4(&session.sealing_key(Sender::Client), &mut stream);
        let checksum = hex("703528 51f2564309");
        let expected: Vec<u8> = checksum.iter().zip(&stream).map(|(a, b)| a ^ b).collect();
        let mic = session.mech_list_mic(Sender::Client, &text).expect("extended session security");
        assert_eq!(mic[4..12], expected);
        let sealed: Vec<u8> = checksum.iter().zip(&stream[18..]).map(|(a, b)| a ^ b).collect();
        assert_eq!(sealed, hex("7fb38ec5c55d4976"), "the signature in the example");
        assert_eq!((&mic[..4], &mic[12..]), (&[1, 0, 0, 0][..], &[0; 4][..]));
    }

    #[test]
    fn without_key_exchange_the_checksum_is_plain() {
        let flags = NegotiateFlags(0xe28a_8233).without(NegotiateFlags::NEGOTIATE_KEY_EXCH);
        let session = Session::new(SessionKey([0x55; 16]), flags);
        let mic = session.mech_list_mic(Sender::Client, &utf16_bytes("Plaintext")).expect("extended session security");
        assert_eq!(mic[..], hex("01000000 7035285 1f2564309 00000000"));
        let unsigned = Session::new(SessionKey([0x55; 16]), NegotiateFlags::NEGOTIATE_KEY_EXCH);
        assert_eq!(unsigned.mech_list_mic(Sender::Client, b"x"), None);
        assert!(!unsigned.verify_mech_list_mic(Sender::Client, b"x", &[0; 16]));
    }

    /// [MS-NLMP] 4.2.2.4. The example seals the text first, so its signature is encrypted with the key stream's bytes
    /// from 18 on.
    #[test]
    fn without_extended_session_security_the_checksum_is_a_crc() {
        let session = Session::new(SessionKey([0x55; 16]), NegotiateFlags(0xe202_8233));
        let text = utf16_bytes("Plaintext");
        assert_eq!(crc32(&text).to_le_bytes()[..], hex("7d84aa93"));
        let mut stream = [0; 30];
        rc4(&[0x55; 16], &mut stream);
        let example = hex("45c844e5 09dcd1df 2e459d36");
        let plain: Vec<u8> = example.iter().zip(&stream[18..]).map(|(byte, key)| byte ^ key).collect();
        assert_eq!(plain, hex("00000000 7d84aa93 00000000"));
        let mut first: Vec<u8> = plain.iter().zip(&stream).map(|(byte, key)| byte ^ key).collect();
        first[..4].fill(0);
        let mut mic = session.mech_list_mic(Sender::Client, &text).expect("signatures");
        assert_eq!((&mic[..4], &mic[4..]), (&[1, 0, 0, 0][..], &first[..]));
        assert!(session.verify_mech_list_mic(Sender::Client, &text, &mic));
        for at in 0..16 {
            mic[at] ^= 1;
            let ignored = RANDOM_PAD.contains(&at);
            assert_eq!(session.verify_mech_list_mic(Sender::Client, &text, &mic), ignored, "byte {at}");
            mic[at] ^= 1;
        }
        assert!(!session.verify_mech_list_mic(Sender::Client, &text, &mic[..15]));
        assert!(!session.verify_mech_list_mic(Sender::Client, b"other", &mic));
    }

    #[test]
    fn each_side_signs_for_itself() {
        let session = Session::new(SessionKey([7; 16]), NegotiateFlags(0xe28a_8233));
        let mut mic = session.mech_list_mic(Sender::Server, b"list").expect("extended session security");
        assert!(session.verify_mech_list_mic(Sender::Server, b"list", &mic));
        assert!(!session.verify_mech_list_mic(Sender::Client, b"list", &mic));
        assert!(!session.verify_mech_list_mic(Sender::Server, b"lists", &mic));
        assert!(!session.verify_mech_list_mic(Sender::Server, b"list", &mic[..15]));
        for at in 0..16 {
            mic[at] ^= 1;
            assert!(!session.verify_mech_list_mic(Sender::Server, b"list", &mic));
            mic[at] ^= 1;
        }
    }
}
