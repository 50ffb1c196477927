//! NetrpGetFileSecurity and NetrpSetFileSecurity ([MS-SRVS] 3.1.4.27, 3.1.4.28).

use crate::bytes::{Malformed, Result};
use crate::rpc::ndr::{Arguments, Decoder, Encoder};

/// The file that a call names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileName {
    /// The share; a client must name one.
    pub share: Option<String>,
    /// The path in the share.
    pub name: String,
}

impl Arguments for FileName {
    fn read(decoder: &mut Decoder<'_>) -> Result<FileName> {
        decoder.optional_string()?;
        Ok(FileName { share: decoder.optional_string()?, name: decoder.string()? })
    }
}

/// The arguments of NetrpGetFileSecurity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GetFileSecurity {
    /// The file.
    pub file: FileName,
    /// The parts that are requested ([MS-DTYP] 2.4.7).
    pub parts: u32,
}

impl Arguments for GetFileSecurity {
    fn read(decoder: &mut Decoder<'_>) -> Result<GetFileSecurity> {
        Ok(GetFileSecurity { file: FileName::read(decoder)?, parts: decoder.u32()? })
    }
}

/// The arguments of NetrpSetFileSecurity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetFileSecurity {
    /// The file.
    pub file: FileName,
    /// The parts that are set ([MS-DTYP] 2.4.7).
    pub parts: u32,
    /// The descriptor, encoded.
    pub descriptor: Vec<u8>,
}

impl Arguments for SetFileSecurity {
    fn read(decoder: &mut Decoder<'_>) -> Result<SetFileSecurity> {
        let (file, parts) = (FileName::read(decoder)?, decoder.u32()?);
        // ADT_SECURITY_DESCRIPTOR ([MS-SRVS] 2.2.4.106).
        let length = decoder.u32()?;
        let mut descriptor = Vec::new();
        if decoder.pointer()? {
            if decoder.u32()? != length {
                return Err(Malformed::Value);
            }
            descriptor.extend_from_slice(decoder.bytes(length as usize)?);
        } else if length != 0 {
            return Err(Malformed::Value);
        }
        Ok(SetFileSecurity { file, parts, descriptor })
    }
}

/// The results of NetrpGetFileSecurity: a descriptor, or a Win32 error code.
pub fn descriptor_response(descriptor: std::result::Result<&[u8], u32>) -> Vec<u8> {
    let mut out = Encoder::default();
    match descriptor {
        Ok(bytes) => {
            out.pointer();
            out.u32(bytes.len() as u32);
            out.pointer();
            out.u32(bytes.len() as u32);
            out.array(1, bytes);
        }
        Err(_) => out.null(),
    }
    out.u32(descriptor.err().unwrap_or(0));
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(length: u32, bytes: Option<&[u8]>) -> Vec<u8> {
        let mut out = Encoder::default();
        out.null();
        out.pointer();
        out.string("share");
        out.string("dir\\file");
        out.u32(4);
        out.u32(length);
        match bytes {
            Some(bytes) => {
                out.pointer();
                out.u32(bytes.len() as u32);
                out.array(1, bytes);
            }
            None => out.null(),
        }
        out.into_bytes()
    }

    #[test]
    fn arguments_have_a_file_parts_and_a_descriptor() {
        let file = FileName { share: Some("share".into()), name: "dir\\file".into() };
        let decoded = SetFileSecurity::decode(&arguments(3, Some(&[1, 2, 3])));
        assert_eq!(decoded, Ok(SetFileSecurity { file: file.clone(), parts: 4, descriptor: vec![1, 2, 3] }));
        let without = SetFileSecurity::decode(&arguments(0, None)).map(|asked| asked.descriptor);
        assert_eq!(without, Ok(Vec::new()));
        for (length, bytes) in [(4, Some(&[1, 2, 3][..])), (3, None)] {
            assert_eq!(SetFileSecurity::decode(&arguments(length, bytes)), Err(Malformed::Value), "{length}");
        }
        assert_eq!(GetFileSecurity::decode(&arguments(0, None)), Ok(GetFileSecurity { file, parts: 4 }));
    }

    #[test]
    fn a_response_has_a_descriptor_or_an_error() {
        let bytes = descriptor_response(Ok(&[1, 2, 3]));
        assert_eq!(bytes[4..8], 3_u32.to_le_bytes());
        assert_eq!(bytes[12..16], 3_u32.to_le_bytes());
        assert_eq!(bytes[16..], [1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(descriptor_response(Err(5)), [0, 0, 0, 0, 5, 0, 0, 0]);
    }
}
