//! The remote registry ([MS-RRP] 3.1.5): calls that open keys, enumerate keys and values, and query them.
//!
//! Names on the wire include their NUL, other than those of the user account services.

use super::ndr::{Arguments, ContextHandle, Decoder, Encoder};
use super::pdu::SyntaxId;
use crate::bytes::Result;
use crate::dtyp::Guid;

/// 338cd001-2244-31f1-aaaa-900038001003, version 1.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x338c_d001, 0x2244, 0x31f1, [0xaa, 0xaa, 0x90, 0x00, 0x38, 0x00, 0x10, 0x03]),
    version: 1,
};

/// Operation numbers of the calls.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod opnum {
    pub const OPEN_CLASSES_ROOT: u16 = 0;
    pub const OPEN_CURRENT_USER: u16 = 1;
    pub const OPEN_LOCAL_MACHINE: u16 = 2;
    pub const OPEN_PERFORMANCE_DATA: u16 = 3;
    pub const OPEN_USERS: u16 = 4;
    pub const BASE_REG_CLOSE_KEY: u16 = 5;
    pub const BASE_REG_CREATE_KEY: u16 = 6;
    pub const BASE_REG_DELETE_KEY: u16 = 7;
    pub const BASE_REG_DELETE_VALUE: u16 = 8;
    pub const BASE_REG_ENUM_KEY: u16 = 9;
    pub const BASE_REG_ENUM_VALUE: u16 = 10;
    pub const BASE_REG_FLUSH_KEY: u16 = 11;
    pub const BASE_REG_GET_KEY_SECURITY: u16 = 12;
    pub const BASE_REG_LOAD_KEY: u16 = 13;
    pub const BASE_REG_OPEN_KEY: u16 = 15;
    pub const BASE_REG_QUERY_INFO_KEY: u16 = 16;
    pub const BASE_REG_QUERY_VALUE: u16 = 17;
    pub const BASE_REG_REPLACE_KEY: u16 = 18;
    pub const BASE_REG_RESTORE_KEY: u16 = 19;
    pub const BASE_REG_SAVE_KEY: u16 = 20;
    pub const BASE_REG_SET_KEY_SECURITY: u16 = 21;
    pub const BASE_REG_SET_VALUE: u16 = 22;
    pub const BASE_REG_UN_LOAD_KEY: u16 = 23;
    pub const BASE_REG_GET_VERSION: u16 = 26;
    pub const OPEN_CURRENT_CONFIG: u16 = 27;
    pub const BASE_REG_SAVE_KEY_EX: u16 = 31;
    pub const OPEN_PERFORMANCE_TEXT: u16 = 32;
    pub const OPEN_PERFORMANCE_NLS_TEXT: u16 = 33;
    pub const BASE_REG_DELETE_KEY_EX: u16 = 35;
}

/// The rights of a key ([MS-RRP] 2.2.3), besides the standard rights.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod rights {
    pub const KEY_QUERY_VALUE: u32 = 0x01;
    pub const KEY_ENUMERATE_SUB_KEYS: u32 = 0x08;
    /// KEY_WOW64_64KEY and KEY_WOW64_32KEY, which select a view.
    pub const KEY_WOW64: u32 = 0x300;
    pub const KEY_READ: u32 = 0x0002_0019;
    pub const KEY_WRITE: u32 = 0x0002_0006;
    pub const KEY_ALL_ACCESS: u32 = 0x000f_003f;
}

/// The type of a value ([MS-RRP] 3.1.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueType(pub u32);

impl ValueType {
    /// REG_SZ: a text with its NUL.
    pub const SZ: ValueType = ValueType(1);
    /// REG_DWORD: a number.
    pub const DWORD: ValueType = ValueType(4);
}

/// The arguments of a call that opens a predefined key: the desired rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenRoot(pub u32);

impl Arguments for OpenRoot {
    fn read(from: &mut Decoder<'_>) -> Result<OpenRoot> {
        // The name of the server is one character or null, and is ignored.
        if from.pointer()? {
            from.u16()?;
        }
        Ok(OpenRoot(from.u32()?))
    }
}

/// A name as clients send it: RRP_UNICODE_STRING ([MS-RRP] 2.2.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// `MaximumLength`: the bytes that the client accepts for a name in the response, with its NUL.
    pub space: u16,
    /// The name; empty for none.
    pub text: String,
}

impl Arguments for Name {
    fn read(from: &mut Decoder<'_>) -> Result<Name> {
        // The structure contains a pointer.
        from.align(4)?;
        from.u16()?;
        let space = from.u16()?;
        let text = if from.pointer()? { from.string()? } else { String::new() };
        Ok(Name { space, text })
    }
}

/// The arguments of BaseRegOpenKey.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenKey {
    /// The key below which to open.
    pub handle: ContextHandle,
    /// The path of the key; empty for the same key.
    pub path: String,
    /// The desired rights.
    pub desired: u32,
}

impl Arguments for OpenKey {
    fn read(from: &mut Decoder<'_>) -> Result<OpenKey> {
        let (handle, path) = (from.handle()?, Name::read(from)?.text);
        // dwOptions matter to symbolic links and to backups only.
        from.u32()?;
        Ok(OpenKey { handle, path, desired: from.u32()? })
    }
}

/// The arguments of BaseRegEnumKey.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumKey {
    /// The key.
    pub handle: ContextHandle,
    /// The number of the subkey.
    pub index: u32,
    /// The space for its name.
    pub name: Name,
    /// The class is requested as well.
    pub with_class: bool,
    /// The time is requested as well.
    pub with_time: bool,
}

impl Arguments for EnumKey {
    fn read(from: &mut Decoder<'_>) -> Result<EnumKey> {
        let (handle, index, name) = (from.handle()?, from.u32()?, Name::read(from)?);
        let with_class = from.pointer()?;
        if with_class {
            Name::read(from)?;
        }
        Ok(EnumKey { handle, index, name, with_class, with_time: from.pointer()? })
    }
}

/// What a client requests of a value: pointers that are null or not, and the size of its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ValueBuffer {
    with_type: bool,
    with_data: bool,
    size: Option<u32>,
    with_length: bool,
}

impl Arguments for ValueBuffer {
    fn read(from: &mut Decoder<'_>) -> Result<ValueBuffer> {
        let with_type = from.pointer()?;
        if with_type {
            from.u32()?;
        }
        let with_data = from.pointer()?;
        if with_data {
            let (_max, _offset, actual) = (from.u32()?, from.u32()?, from.u32()?);
            from.bytes(actual as usize)?;
        }
        let size = if from.pointer()? { Some(from.u32()?) } else { None };
        Ok(ValueBuffer { with_type, with_data, size, with_length: from.pointer()? })
    }
}

impl ValueBuffer {
    /// Returns whether data of this length fits. It also does if the client only asks for the length.
    pub fn has_space(&self, length: usize) -> bool {
        !self.with_data || self.size.is_some_and(|size| length <= size as usize)
    }

    /// Returns whether there is a place for the data's length, without which no data can be returned.
    pub fn is_valid(&self) -> bool {
        !self.with_data || self.size.is_some() && self.with_length
    }
}

/// The arguments of BaseRegEnumValue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumValue {
    /// The key.
    pub handle: ContextHandle,
    /// The number of the value.
    pub index: u32,
    /// The space for its name.
    pub name: Name,
    /// What is requested of it.
    pub buffer: ValueBuffer,
}

impl Arguments for EnumValue {
    fn read(from: &mut Decoder<'_>) -> Result<EnumValue> {
        let (handle, index, name) = (from.handle()?, from.u32()?, Name::read(from)?);
        Ok(EnumValue { handle, index, name, buffer: ValueBuffer::read(from)? })
    }
}

/// The arguments of BaseRegQueryValue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryValue {
    /// The key.
    pub handle: ContextHandle,
    /// The name of the value.
    pub name: String,
    /// What is requested of it.
    pub buffer: ValueBuffer,
}

impl Arguments for QueryValue {
    fn read(from: &mut Decoder<'_>) -> Result<QueryValue> {
        Ok(QueryValue { handle: from.handle()?, name: Name::read(from)?.text, buffer: ValueBuffer::read(from)? })
    }
}

/// The arguments of BaseRegGetKeySecurity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetKeySecurity {
    /// The key.
    pub handle: ContextHandle,
    /// The parts of the descriptor ([MS-DTYP] 2.4.7).
    pub parts: u32,
    /// The size of the client's buffer in bytes.
    pub size: u32,
}

impl Arguments for GetKeySecurity {
    fn read(from: &mut Decoder<'_>) -> Result<GetKeySecurity> {
        let (handle, parts) = (from.handle()?, from.u32()?);
        // RPC_SECURITY_DESCRIPTOR ([MS-RRP] 2.2.8). Its bytes, which follow, are empty.
        from.pointer()?;
        Ok(GetKeySecurity { handle, parts, size: from.u32()? })
    }
}

/// What a key contains: the results of BaseRegQueryInfoKey.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KeyInfo {
    /// The number of subkeys.
    pub subkeys: u32,
    /// The size of their longest name in bytes.
    pub subkey_bytes: u32,
    /// The number of values.
    pub values: u32,
    /// The size of their longest name in bytes.
    pub value_name_bytes: u32,
    /// The size of their longest data in bytes.
    pub value_bytes: u32,
    /// The size of the security descriptor in bytes.
    pub security_bytes: u32,
}

/// The time of the last write of all keys, which is not known.
const LAST_WRITE: [u32; 2] = [0, 0];

/// Writes a name with its NUL.
fn name(out: &mut Encoder, text: &str) {
    let length = (text.encode_utf16().count() as u16 + 1) * 2;
    out.array(4, &length.to_le_bytes());
    out.u16(length);
    out.pointer();
    out.string(text);
}

/// Writes an empty name.
fn no_name(out: &mut Encoder) {
    out.array(4, &[0; 4]);
    out.null();
}

/// A handle and a Win32 error code: the results of opening and closing.
pub fn handle_response(handle: &ContextHandle, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(status);
    out.into_bytes()
}

/// The results of BaseRegCreateKey, which creates no key.
pub fn not_created_response(status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, &ContextHandle::default());
    out.null();
    out.u32(status);
    out.into_bytes()
}

/// A number and a Win32 error code: the results of BaseRegGetVersion.
pub fn number_response(number: u32, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(number);
    out.u32(status);
    out.into_bytes()
}

/// The results of BaseRegEnumKey: the name of a subkey, or a Win32 error code.
pub fn subkey_response(asked: &EnumKey, found: std::result::Result<&str, u32>) -> Vec<u8> {
    let mut out = Encoder::default();
    match found {
        Ok(text) => name(&mut out, text),
        Err(_) => no_name(&mut out),
    }
    if asked.with_class {
        out.pointer();
        no_name(&mut out);
    } else {
        out.null();
    }
    if asked.with_time {
        out.pointer();
        LAST_WRITE.iter().for_each(|half| out.u32(*half));
    } else {
        out.null();
    }
    out.u32(found.err().unwrap_or(0));
    out.into_bytes()
}

/// A value: its name, its type and its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value<'a> {
    /// The name.
    pub name: &'a str,
    /// The type.
    pub kind: ValueType,
    /// The data.
    pub data: &'a [u8],
}

/// Writes what was requested of a value. Data that does not fit is left out, and its length is returned.
fn value(out: &mut Encoder, buffer: &ValueBuffer, found: Option<&Value<'_>>) {
    let data = found.map_or(&[][..], |found| found.data);
    let size = data.len() as u32;
    let sent = if buffer.with_data && buffer.has_space(data.len()) { data } else { &[] };
    if buffer.with_type {
        out.pointer();
        out.u32(found.map_or(0, |found| found.kind.0));
    } else {
        out.null();
    }
    if buffer.with_data {
        out.pointer();
        out.u32(size);
        out.u32(0);
        out.u32(sent.len() as u32);
        out.array(1, sent);
    } else {
        out.null();
    }
    for (wanted, number) in [(buffer.size.is_some(), size), (buffer.with_length, sent.len() as u32)] {
        if wanted {
            out.pointer();
            out.u32(number);
        } else {
            out.null();
        }
    }
}

/// The results of BaseRegEnumValue: a value, whose name is left out if the status is an error.
pub fn enumerated_response(buffer: &ValueBuffer, found: Option<&Value<'_>>, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    match found.filter(|_| status == 0) {
        Some(found) => name(&mut out, found.name),
        None => no_name(&mut out),
    }
    value(&mut out, buffer, found);
    out.u32(status);
    out.into_bytes()
}

/// The results of BaseRegQueryValue.
pub fn value_response(buffer: &ValueBuffer, found: Option<&Value<'_>>, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    value(&mut out, buffer, found);
    out.u32(status);
    out.into_bytes()
}

/// The results of BaseRegQueryInfoKey.
pub fn info_response(info: &KeyInfo, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    // No key has a class.
    no_name(&mut out);
    let KeyInfo { subkeys, subkey_bytes, values, value_name_bytes, value_bytes, security_bytes } = *info;
    for number in [subkeys, subkey_bytes, 0, values, value_name_bytes, value_bytes, security_bytes] {
        out.u32(number);
    }
    LAST_WRITE.iter().for_each(|half| out.u32(*half));
    out.u32(status);
    out.into_bytes()
}

/// The results of BaseRegGetKeySecurity: a descriptor, or the size that it needs and a Win32 error code.
pub fn security_response(size: u32, descriptor: std::result::Result<&[u8], (u32, u32)>) -> Vec<u8> {
    let mut out = Encoder::default();
    match descriptor {
        Ok(bytes) => {
            out.pointer();
            out.u32(size);
            out.u32(bytes.len() as u32);
            out.u32(size);
            out.u32(0);
            out.u32(bytes.len() as u32);
            out.array(1, bytes);
            out.u32(0);
        }
        Err((needed, status)) => {
            out.null();
            out.u32(needed);
            out.u32(0);
            out.u32(status);
        }
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes the arguments of BaseRegQueryValue.
    fn query(with_data: Option<u32>) -> Vec<u8> {
        let mut out = Encoder::default();
        out.array(4, &[7; 20]);
        name(&mut out, "Hostname");
        out.pointer();
        out.u32(0);
        match with_data {
            Some(size) => {
                out.pointer();
                out.u32(size);
                out.u32(0);
                out.u32(0);
                out.pointer();
                out.u32(size);
                out.pointer();
                out.u32(0);
            }
            None => (0..3).for_each(|_| out.null()),
        }
        out.into_bytes()
    }

    #[test]
    fn names_have_a_nul_and_the_space_for_another_name() {
        let asked = QueryValue::decode(&query(None)).expect("arguments");
        assert_eq!((&*asked.name, asked.handle), ("Hostname", [7; 20]));
        let mut out = Encoder::default();
        out.array(4, &[7; 20]);
        out.u32(3);
        out.array(4, &[0, 0, 0, 2]);
        out.pointer();
        [256, 0, 0].iter().for_each(|number| out.u32(*number));
        out.null();
        out.pointer();
        let asked = EnumKey::decode(&out.into_bytes()).expect("arguments");
        assert_eq!((asked.index, asked.name.space, &*asked.name.text), (3, 512, ""));
        assert_eq!((asked.with_class, asked.with_time), (false, true));
        let bytes = subkey_response(&asked, Ok("key"));
        assert_eq!(bytes[..4], [8, 0, 8, 0]);
        assert_eq!(bytes[8..12], 4_u32.to_le_bytes());
    }

    #[test]
    fn data_that_does_not_fit_is_left_out() {
        let found = Value { name: "a", kind: ValueType::DWORD, data: &[1, 2, 3, 4] };
        for (space, sent) in [(Some(4), 4), (Some(3), 0), (Some(100), 4)] {
            let asked = QueryValue::decode(&query(space)).expect("arguments");
            assert!(asked.buffer.is_valid());
            let bytes = value_response(&asked.buffer, Some(&found), 0);
            let mut decoder = Decoder::new(&bytes);
            let mut next = || decoder.u32().expect("a number");
            let (_, kind, _, _, _, actual) = (next(), next(), next(), next(), next(), next());
            assert_eq!((kind, actual), (4, sent));
            assert_eq!(decoder.bytes(sent as usize).expect("data"), &found.data[..sent as usize]);
            let mut next = || decoder.u32().expect("a number");
            let (_, size, _, length) = (next(), next(), next(), next());
            assert_eq!((size, length, asked.buffer.has_space(4)), (4, sent, sent == 4));
        }
        let asked = QueryValue::decode(&query(None)).expect("arguments");
        let bytes = value_response(&asked.buffer, Some(&found), 0);
        assert_eq!(bytes[4..], [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn roots_are_opened_with_the_name_of_a_server_or_without() {
        assert_eq!(OpenRoot::decode(&[0, 0, 0, 0, 25, 0, 2, 0]), Ok(OpenRoot(0x0002_0019)));
        let named = [1, 0, 0, 0, b'\\', 0, 0, 0, 25, 0, 2, 0];
        assert_eq!(OpenRoot::decode(&named), Ok(OpenRoot(0x0002_0019)));
    }

    #[test]
    fn a_descriptor_is_returned_or_the_space_that_it_needs() {
        assert_eq!(security_response(9, Ok(&[1, 2, 3]))[24..], [1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(security_response(1, Err((3, 122))), [0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 122, 0, 0, 0]);
    }
}
