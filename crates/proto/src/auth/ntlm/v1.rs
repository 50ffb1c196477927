//! The NTLMv1 response ([MS-NLMP] 2.2.2.6, 3.3.1), which a server accepts only if its administrator permits it: the
//! password can be found from it in hours. LM responses are never accepted.

use des::Des;
use des::cipher::generic_array::GenericArray;
use des::cipher::{BlockEncrypt, KeyInit};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::NegotiateFlags;
use super::change::spread;
use super::digest::{hmac_md5, md4, md5};

const LENGTH: usize = 24;

/// A decoded NTLM_RESPONSE, and what it depends on.
#[derive(Clone)]
pub(super) struct NtlmV1Response {
    /// `NtChallengeResponse`.
    response: [u8; LENGTH],
    /// The client's challenge, with extended session security: the start of `LmChallengeResponse`.
    client_challenge: Option<[u8; 8]>,
}

impl NtlmV1Response {
    /// Decodes the responses of an AUTHENTICATE_MESSAGE with `flags`; `None` if they are not of NTLMv1.
    pub(super) fn decode(nt: &[u8], lm: &[u8], flags: NegotiateFlags) -> Option<Self> {
        let response = nt.try_into().ok()?;
        let client_challenge = match flags.contains(NegotiateFlags::NEGOTIATE_EXTENDED_SESSIONSECURITY) {
            true => Some(*lm.first_chunk()?),
            false => None,
        };
        Some(NtlmV1Response { response, client_challenge })
    }

    /// Returns whether the response matches `hash`, and `KeyExchangeKey` for that case (3.4.5.1). Keys made of the LM
    /// hash are not offered to clients.
    pub(super) fn check(&self, hash: &[u8; 16], server_challenge: &[u8; 8]) -> (Choice, Zeroizing<[u8; 16]>) {
        let base_key = Zeroizing::new(md4(hash));
        let (challenge, key) = match &self.client_challenge {
            Some(client_challenge) => {
                let digest = md5(&[server_challenge, client_challenge]);
                let challenge = std::array::from_fn(|index| digest[index]);
                (challenge, Zeroizing::new(hmac_md5(&base_key, &[server_challenge, client_challenge])))
            }
            None => (*server_challenge, base_key),
        };
        (response(hash, &challenge).ct_eq(&self.response), key)
    }
}

/// `DESL` (6): three blocks of DES over `challenge`, with `hash` and five zeros as the three keys.
fn response(hash: &[u8; 16], challenge: &[u8; 8]) -> [u8; LENGTH] {
    let mut keys = Zeroizing::new([0; 21]);
    keys[..16].copy_from_slice(hash);
    let mut response = [0; LENGTH];
    for (block, key) in response.chunks_exact_mut(8).zip(keys.chunks_exact(7)) {
        block.copy_from_slice(challenge);
        let key = Zeroizing::new(spread(key));
        Des::new(GenericArray::from_slice(&*key)).encrypt_block(GenericArray::from_mut_slice(block));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::super::{Acceptor, LogonFailure, TargetNames, message::Negotiate, nt_hash};
    use super::*;
    use crate::crypto::hex;

    const SERVER_CHALLENGE: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

    /// [MS-NLMP] 4.2.2.3: without extended session security.
    const AUTHENTICATE: &str = "
        4e544c4d5353500003000000 180018006c000000 1800180084000000 0c000c0048000000 0800080054000000
        100010005c000000 100010009c000000 358280e2 0501280a0000000f
        44006f006d00610069006e00 5500730065007200 43004f004d0050005500540045005200
        98def7b87f88aa5dafe2df779688a172def11c7d5ccdef13 67c43011f30298a2ad35ece64f16331c44bdbed927841f94
        518822b1b3f350c8958682ecbb3e3cb7";

    /// [MS-NLMP] 4.2.3.3: with extended session security, and without a key of the client.
    const AUTHENTICATE_EXTENDED: &str = "
        4e544c4d5353500003000000 180018006c000000 1800180084000000 0c000c0048000000 0800080054000000
        100010005c000000 000000009c000000 35820882 0501280a0000000f
        44006f006d00610069006e00 5500730065007200 43004f004d0050005500540045005200
        aaaaaaaaaaaaaaaa00000000000000000000000000000000 7537f803ae367128ca458204bde7caf81e97ed2683267232";

    fn acceptor(flags: u32, permits: bool) -> Acceptor {
        let mut acceptor = Acceptor::new(TargetNames::default()).permitting_ntlm_v1(permits);
        let negotiate = Negotiate { negotiate_flags: NegotiateFlags(flags) }.encode();
        acceptor.challenge(&negotiate, SERVER_CHALLENGE, 0).expect("a negotiate message");
        acceptor
    }

    #[test]
    fn the_examples_of_the_specification() {
        for (message, flags, key) in [
            (AUTHENTICATE, 0xe202_8233, "55555555555555555555555555555555"),
            (AUTHENTICATE_EXTENDED, 0x820a_8233, "eb93429a8bd952f8b89c55b87f475edc"),
        ] {
            let acceptor = acceptor(flags, true);
            let claim = acceptor.authenticate(&hex(message)).expect("the example decodes");
            assert_eq!((&claim.user[..], &claim.domain[..], claim.anonymous), ("User", "Domain", false));
            assert!(claim.is_ntlm_v1());
            let session = acceptor.verify(&claim, Some(&nt_hash("Password"))).expect("the right password");
            assert_eq!(session.key().0[..], hex(key));
            for wrong in [Some(nt_hash("password")), Some([0; 16]), None] {
                assert_eq!(acceptor.verify(&claim, wrong.as_ref()).err(), Some(LogonFailure::Proof));
            }
            assert_eq!(acceptor.pass_through(&claim).err(), Some(LogonFailure::NotNtlmV2), "accounts of a domain");
        }
    }

    #[test]
    fn refused_unless_permitted() {
        for (message, flags) in [(AUTHENTICATE, 0xe202_8233), (AUTHENTICATE_EXTENDED, 0x820a_8233)] {
            let acceptor = acceptor(flags, false);
            let claim = acceptor.authenticate(&hex(message)).expect("the example decodes");
            let hash = nt_hash("Password");
            assert_eq!(acceptor.verify(&claim, Some(&hash)).err(), Some(LogonFailure::NotNtlmV2));
        }
    }

    #[test]
    fn responses_of_other_lengths_are_not_of_ntlm_v1() {
        let extended = NegotiateFlags::NEGOTIATE_EXTENDED_SESSIONSECURITY;
        for length in (0..24).chain(25..40) {
            assert!(NtlmV1Response::decode(&vec![1; length], &[0; 24], NegotiateFlags::NONE).is_none(), "{length}");
        }
        assert!(NtlmV1Response::decode(&[1; 24], &[], NegotiateFlags::NONE).is_some());
        assert!(NtlmV1Response::decode(&[1; 24], &[1; 7], extended).is_none(), "no challenge of the client");
        assert!(NtlmV1Response::decode(&[1; 24], &[1; 8], extended).is_some());
    }
}
