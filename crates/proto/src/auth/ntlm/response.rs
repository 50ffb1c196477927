//! The NTLMv2 response ([MS-NLMP] 2.2.2.7, 2.2.2.8 and 3.3.2), with which the client proves that it has the password,
//! and the session key that results from it.

use zeroize::Zeroizing;

use super::av_pair::AvPairs;
use super::digest::{hmac_md5, md4};
use super::uppercase::uppercase;
use crate::bytes::{Malformed, Reader, Result, Writer, utf16_bytes};

/// The NT hash of a password: MD4 of its UTF-16LE, `NTOWFv1` of [MS-NLMP] 3.3.1. It is as sensitive as the password.
pub fn nt_hash(password: &str) -> [u8; 16] {
    md4(&Zeroizing::new(utf16_bytes(password)))
}

/// `NTOWFv2`: the key of the response. Names are UTF-16LE. The user's name is upper-cased here; the domain's is hashed
/// as it was sent.
pub(super) fn response_key(nt_hash: &[u8; 16], user_name: &[u8], domain_name: &[u8]) -> Zeroizing<[u8; 16]> {
    Zeroizing::new(hmac_md5(nt_hash, &[&uppercase(user_name), domain_name]))
}

/// `NTProofStr` over `client_challenge`, a whole NTLMv2_CLIENT_CHALLENGE (`temp` in the specification).
pub(super) fn proof(response_key: &[u8; 16], server_challenge: &[u8; 8], client_challenge: &[u8]) -> [u8; 16] {
    hmac_md5(response_key, &[server_challenge, client_challenge])
}

/// `SessionBaseKey`, which NTLMv2 uses as `KeyExchangeKey`.
pub(super) fn session_base_key(response_key: &[u8; 16], proof: &[u8; 16]) -> Zeroizing<[u8; 16]> {
    Zeroizing::new(hmac_md5(response_key, &[proof]))
}

/// A decoded NTLMv2_RESPONSE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NtlmV2Response<'a> {
    /// `Response`: the NTProofStr.
    pub(super) proof: [u8; 16],
    /// NTLMv2_CLIENT_CHALLENGE exactly as it was sent.
    pub(super) client_challenge: &'a [u8],
    /// Its `AvPairs`.
    pub(super) av_pairs: AvPairs<'a>,
}

impl<'a> NtlmV2Response<'a> {
    /// Decodes an NT response; `None` if it is missing or an NTLMv1 response, which has 24 bytes.
    pub(super) fn decode(nt_challenge_response: &'a [u8]) -> Result<Option<Self>> {
        if nt_challenge_response.len() <= 24 {
            return Ok(None);
        }
        let mut reader = Reader::new(nt_challenge_response);
        let proof = reader.array()?;
        let client_challenge = reader.clone().rest();
        // RespType and HiRespType.
        if reader.array()? != [1, 1] {
            return Err(Malformed::Value);
        }
        reader.skip(6 + 8 + 8 + 4)?;
        Ok(Some(NtlmV2Response { proof, client_challenge, av_pairs: AvPairs::decode(reader.rest())? }))
    }
}

/// Encodes NTLMv2_CLIENT_CHALLENGE with `av_pairs`, an encoded list with its end marker.
pub(super) fn encode_client_challenge(timestamp: u64, client_challenge: [u8; 8], av_pairs: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(32 + av_pairs.len());
    let mut writer = Writer::new(&mut encoded);
    writer.bytes(&[1, 1]);
    writer.zeros(6);
    writer.u64(timestamp);
    writer.bytes(&client_challenge);
    writer.zeros(4);
    writer.bytes(av_pairs);
    writer.zeros(4);
    encoded
}
