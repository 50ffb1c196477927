//! Secrets ([MS-LSAD] 3.1.4.6). Their values are encrypted with the session key; see
//! [`secret`](crate::auth::ntlm::secret).

use super::super::ndr::{Arguments, ContextHandle, Decoder, Encoder};
use crate::bytes::{Malformed, Result};
use crate::dtyp::FileTime;
use crate::status::Status;

/// The maximum size of an encrypted value in bytes ([MS-LSAD] 2.2.6.1).
pub const MOST_CIPHER: usize = 131_088;

/// The arguments of LsarCreateSecret and LsarOpenSecret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedSecret {
    /// The policy.
    pub handle: ContextHandle,
    /// The name of the secret.
    pub name: String,
}

impl Arguments for NamedSecret {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(NamedSecret { handle: from.handle()?, name: name(from)? })
    }
}

fn name(from: &mut Decoder<'_>) -> Result<String> {
    if from.unicode()? { from.string() } else { Ok(String::new()) }
}

/// Reads an LSAPR_CR_CIPHER_VALUE (2.2.6.1).
fn cipher(from: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let (length, maximum) = (from.count(MOST_CIPHER)?, from.count(MOST_CIPHER)?);
    if length > maximum {
        return Err(Malformed::Value);
    }
    if !from.pointer()? {
        return if length == 0 { Ok(Vec::new()) } else { Err(Malformed::Value) };
    }
    let (size, offset, count) = (from.count(MOST_CIPHER)?, from.u32()?, from.count(MOST_CIPHER)?);
    if size != maximum || offset != 0 || count != length {
        return Err(Malformed::Value);
    }
    Ok(from.bytes(count)?.to_vec())
}

fn optional_cipher(from: &mut Decoder<'_>) -> Result<Option<Vec<u8>>> {
    if from.pointer()? { cipher(from).map(Some) } else { Ok(None) }
}

/// Writes a pointer and an LSAPR_CR_CIPHER_VALUE.
fn write_cipher(value: Option<&[u8]>, out: &mut Encoder) {
    let Some(value) = value else { return out.null() };
    let length = value.len() as u32;
    out.pointer();
    out.u32(length);
    out.u32(length);
    out.pointer();
    out.u32(length);
    out.u32(0);
    out.u32(length);
    out.array(1, value);
}

/// The arguments of LsarSetSecret. `None` deletes a value.
#[derive(Clone, PartialEq, Eq)]
pub struct SetSecret {
    /// The secret.
    pub handle: ContextHandle,
    /// EncryptedCurrentValue.
    pub current: Option<Vec<u8>>,
    /// EncryptedOldValue.
    pub old: Option<Vec<u8>>,
}

impl Arguments for SetSecret {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(SetSecret { handle: from.handle()?, current: optional_cipher(from)?, old: optional_cipher(from)? })
    }
}

/// The arguments of LsarQuerySecret: the results that the client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuerySecret {
    /// The secret.
    pub handle: ContextHandle,
    /// EncryptedCurrentValue.
    pub current: bool,
    /// CurrentValueSetTime.
    pub current_time: bool,
    /// EncryptedOldValue.
    pub old: bool,
    /// OldValueSetTime.
    pub old_time: bool,
}

impl Arguments for QuerySecret {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let handle = from.handle()?;
        let (current, current_time) = (wants_value(from)?, wants_time(from)?);
        Ok(QuerySecret { handle, current, current_time, old: wants_value(from)?, old_time: wants_time(from)? })
    }
}

/// Reads a pointer to a pointer to a value, whose content does not matter.
fn wants_value(from: &mut Decoder<'_>) -> Result<bool> {
    let wanted = from.pointer()?;
    if wanted {
        optional_cipher(from)?;
    }
    Ok(wanted)
}

fn wants_time(from: &mut Decoder<'_>) -> Result<bool> {
    let wanted = from.pointer()?;
    if wanted {
        from.u64()?;
    }
    Ok(wanted)
}

/// A value of a secret in results.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretResult {
    /// The encrypted value; `None` for no value.
    pub cipher: Option<Vec<u8>>,
    /// When it was set.
    pub time: FileTime,
}

/// The results of LsarQuerySecret: the current value and the old one, as far as the client wants them, or the reason
/// why they are not returned.
pub fn query_secret_response(asked: &QuerySecret, values: std::result::Result<&[SecretResult; 2], Status>) -> Vec<u8> {
    let mut out = Encoder::default();
    for (index, (value, time)) in [(asked.current, asked.current_time), (asked.old, asked.old_time)].iter().enumerate()
    {
        let known = values.ok().map(|values| &values[index]);
        if *value {
            out.pointer();
            write_cipher(known.and_then(|known| known.cipher.as_deref()), &mut out);
        } else {
            out.null();
        }
        if *time {
            out.pointer();
            out.array(8, &known.map_or(0, |known| known.time.0).to_le_bytes());
        } else {
            out.null();
        }
    }
    out.u32(values.err().unwrap_or(Status::SUCCESS).0);
    out.into_bytes()
}

/// The arguments of LsarStorePrivateData and LsarRetrievePrivateData.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateData {
    /// The policy.
    pub handle: ContextHandle,
    /// The name of the secret.
    pub name: String,
    /// EncryptedData; `None` deletes the secret.
    pub data: Option<Vec<u8>>,
}

impl Arguments for PrivateData {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(PrivateData { handle: from.handle()?, name: name(from)?, data: optional_cipher(from)? })
    }
}

/// The results of LsarRetrievePrivateData.
pub fn private_data_response(cipher: Option<&[u8]>, status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    write_cipher(cipher, &mut out);
    out.u32(status.0);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: Option<&[u8]>) -> Vec<u8> {
        let mut out = Encoder::default();
        write_cipher(value, &mut out);
        out.into_bytes()
    }

    #[test]
    fn values_round_trip() {
        for value in [None, Some(&b""[..]), Some(b"a"), Some(&[7; 100])] {
            let bytes = encoded(value);
            let mut from = Decoder::new(&bytes);
            assert_eq!(optional_cipher(&mut from), Ok(value.map(<[u8]>::to_vec)));
        }
        let mut bytes = encoded(Some(b"four"));
        assert!((0..bytes.len()).all(|length| optional_cipher(&mut Decoder::new(&bytes[..length])).is_err()));
        bytes[4] = 5;
        assert_eq!(optional_cipher(&mut Decoder::new(&bytes)), Err(Malformed::Value), "longer than its maximum");
    }

    #[test]
    fn results_have_what_the_client_wants() {
        let mut stub = Encoder::default();
        stub.array(4, &[3; 20]);
        // A pointer to a null pointer, a time, and no old value.
        stub.pointer();
        stub.null();
        stub.pointer();
        stub.array(8, &[0; 8]);
        stub.null();
        stub.null();
        let asked = QuerySecret::decode(&stub.into_bytes()).expect("arguments");
        assert_eq!((asked.current, asked.current_time, asked.old, asked.old_time), (true, true, false, false));
        let value = |cipher: &[u8], time| SecretResult { cipher: Some(cipher.to_vec()), time: FileTime(time) };
        let results = query_secret_response(&asked, Ok(&[value(b"12345678", 5), value(b"old", 6)]));
        let mut from = Decoder::new(&results);
        assert_eq!((from.pointer(), optional_cipher(&mut from)), (Ok(true), Ok(Some(b"12345678".to_vec()))));
        assert_eq!((from.pointer(), from.u64()), (Ok(true), Ok(5)));
        assert_eq!((from.u32(), from.u32(), from.u32()), (Ok(0), Ok(0), Ok(Status::SUCCESS.0)));
    }
}
