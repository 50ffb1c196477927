//! The results of the calls. All end with a Win32 error code.

use super::arguments::Buffer;
use super::info::Infos;
use crate::rpc::enumeration::error;
use crate::rpc::ndr::{ContextHandle, Encoder};

type Outcome<T> = std::result::Result<T, u32>;

/// Writes the buffer of a client with structures, the size that they need, and their number if `counts`. As in Samba,
/// the pointer to a buffer without structures is null.
fn infos(buffer: Buffer, found: Outcome<Infos>, counts: bool) -> Vec<u8> {
    let (needed, count) = found.as_ref().map_or((0, 0), |infos| (infos.needed(), infos.count()));
    let failed = found.as_ref().err().copied();
    let bytes = found.ok().filter(|_| buffer.is_given).and_then(Infos::into_buffer);
    let fits = needed == 0 || bytes.is_some();
    let mut out = Encoder::default();
    match &bytes {
        Some(bytes) => {
            out.pointer();
            out.u32(buffer.size);
            out.array(1, bytes);
        }
        None => out.null(),
    }
    out.u32(needed);
    if counts {
        out.u32(if fits { count } else { 0 });
    }
    out.u32(failed.unwrap_or(if fits { error::SUCCESS } else { error::INSUFFICIENT_BUFFER }));
    out.into_bytes()
}

/// The results of a call that lists structures.
pub fn infos_response(buffer: Buffer, found: Outcome<Infos>) -> Vec<u8> {
    infos(buffer, found, true)
}

/// The results of a call that returns one structure.
pub fn one_info_response(buffer: Buffer, found: Outcome<Infos>) -> Vec<u8> {
    infos(buffer, found, false)
}

/// A handle and a status: the results of opening and closing.
pub fn handle_response(handle: &ContextHandle, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(status);
    out.into_bytes()
}

/// The results of a call that returns nothing else.
pub fn status_response(status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(status);
    out.into_bytes()
}

/// The results of a call that returns a number: the id of a document, or the bytes that were written.
pub fn number_response(number: Outcome<u32>) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(number.unwrap_or(0));
    out.u32(number.err().unwrap_or(error::SUCCESS));
    out.into_bytes()
}

/// Writes bytes into an array of `size`, without which the rest would not be found.
fn array(out: &mut Encoder, size: u32, bytes: &[u8]) {
    let mut whole = bytes.to_vec();
    whole.resize(size as usize, 0);
    out.u32(size);
    out.array(1, &whole);
}

/// The results of RpcGetPrinterData: the type and the bytes of a value, if they fit into `size`.
pub fn data_response(size: u32, value: Outcome<(u32, Vec<u8>)>) -> Vec<u8> {
    let (kind, bytes) = value.as_ref().map_or((super::value_type::NONE, &[][..]), |(kind, bytes)| (*kind, bytes));
    let fits = bytes.len() <= size as usize;
    let mut out = Encoder::default();
    out.u32(kind);
    array(&mut out, size, if fits { bytes } else { &[] });
    out.u32(bytes.len() as u32);
    out.u32(value.as_ref().err().copied().unwrap_or(if fits { error::SUCCESS } else { error::MORE_DATA }));
    out.into_bytes()
}

/// The results of RpcEnumPrinterData without a value: the status says why.
pub fn enum_data_response(name_size: u32, data_size: u32, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    characters(&mut out, name_size);
    out.u32(0);
    out.u32(super::value_type::NONE);
    array(&mut out, data_size, &[]);
    out.u32(0);
    out.u32(status);
    out.into_bytes()
}

/// Writes an array for characters of this number of bytes, with zeros.
fn characters(out: &mut Encoder, bytes: u32) {
    out.u32(bytes / 2);
    out.array(1, &vec![0; (bytes & !1) as usize]);
}

/// The results of RpcEnumPrinterDataEx without values.
pub fn no_values_response(size: u32, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    array(&mut out, size, &[]);
    [0, 0, status].iter().for_each(|number| out.u32(*number));
    out.into_bytes()
}

/// The results of RpcEnumPrinterKey: a list without keys, which is two NULs, or a Win32 error code.
pub fn key_response(size: u32, status: u32) -> Vec<u8> {
    const EMPTY: u32 = 4;
    let status = if status == error::SUCCESS && size < EMPTY { error::MORE_DATA } else { status };
    let mut out = Encoder::default();
    characters(&mut out, size);
    out.u32(if status == error::SUCCESS || status == error::MORE_DATA { EMPTY } else { 0 });
    out.u32(status);
    out.into_bytes()
}

/// The results of RpcGetPrinterDriver2 without a driver: no buffer, versions of 0, and a Win32 error code.
pub fn driver2_response(status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    [0, 0, 0, status].iter().for_each(|number| out.u32(*number));
    out.into_bytes()
}

/// The results of RpcReadPrinter without data.
pub fn read_response(size: u32, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    array(&mut out, size, &[]);
    out.u32(0);
    out.u32(status);
    out.into_bytes()
}

/// The results of RpcRouterRefreshPrinterChangeNotification without a notification.
pub fn no_notification_response(status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    out.u32(status);
    out.into_bytes()
}

/// The results of RpcXcvData without data: no bytes, the status of the operation, and that of the call.
pub fn xcv_response(size: u32, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    array(&mut out, size, &[]);
    [0, status, status].iter().for_each(|number| out.u32(*number));
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes"))).collect()
    }

    fn answer(is_given: bool, size: u32, texts: usize) -> Vec<u32> {
        let mut found = Infos::new(if is_given { size } else { 0 });
        for _ in 0..texts {
            found.begin();
            found.text("a");
        }
        numbers(&infos_response(Buffer { is_given, size }, Ok(found)))
    }

    #[test]
    fn structures_that_do_not_fit_are_left_out_and_their_size_returned() {
        assert_eq!(answer(false, 0, 2), [0, 16, 0, error::INSUFFICIENT_BUFFER]);
        assert_eq!(answer(true, 12, 2), [0, 16, 0, error::INSUFFICIENT_BUFFER]);
        let whole = answer(true, 16, 2);
        assert_eq!((whole[1], whole.len()), (16, 2 + 4 + 3));
        assert_eq!(whole[whole.len() - 3..], [16, 2, error::SUCCESS]);
        assert_eq!(answer(false, 0, 0), [0, 0, 0, error::SUCCESS]);
        let buffer = Buffer { is_given: true, size: 8 };
        assert_eq!(numbers(&one_info_response(buffer, Err(6))), [0, 0, 6]);
    }

    #[test]
    fn a_value_that_does_not_fit_has_a_size() {
        let value = || Ok((4, vec![1, 2, 3, 4]));
        assert_eq!(numbers(&data_response(4, value())), [4, 4, 0x0403_0201, 4, 0]);
        assert_eq!(numbers(&data_response(0, value())), [4, 0, 4, error::MORE_DATA]);
        assert_eq!(numbers(&data_response(0, Err(2))), [0, 0, 0, 2]);
        assert_eq!(numbers(&key_response(4, 0)), [2, 0, 4, 0]);
        assert_eq!(numbers(&key_response(2, 0))[2..], [4, error::MORE_DATA]);
        assert_eq!(numbers(&enum_data_response(4, 0, 259)), [2, 0, 0, 0, 0, 0, 259]);
    }
}
