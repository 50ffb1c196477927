//! Values of printers and of the server ([MS-RPRN] 2.2.3.10, 2.2.3.11). A printer has one, which tells clients whether
//! its properties have changed.

use proto::rpc::enumeration::error;
use proto::rpc::spoolss::{
    self, EnumPrinterData, EnumPrinterDataEx, EnumPrinterKey, GetPrinterData, GetPrinterDataEx, value_type,
};

use super::fixed::ENVIRONMENT;
use super::handles::{self, Object};
use super::printers;
use crate::rpc::interface::Call;

/// The directory of the print system, as clients of Windows know it.
const DIRECTORY: &str = r"C:\WINDOWS\system32\spool";
/// The version of Windows that clients see, as with Samba: major, minor, build.
const VERSION: [u32; 3] = [5, 2, 3790];
/// VER_PLATFORM_WIN32_NT.
const PLATFORM: u32 = 2;
/// The size of OSVERSIONINFO, most of which is an empty text.
const VERSION_SIZE: usize = 276;
/// The version of drivers: those of users.
const DRIVERS: u32 = 3;

type Value = (u32, Vec<u8>);

fn number(number: u32) -> Value {
    (value_type::DWORD, number.to_le_bytes().to_vec())
}

fn text(text: &str) -> Value {
    (value_type::SZ, text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect())
}

/// Returns a value of the server.
fn of_server(call: &Call<'_>, name: &str) -> Result<Value, u32> {
    Ok(match &*name.to_ascii_lowercase() {
        "w3svcinstalled" | "beepenabled" | "eventlog" | "netpopup" | "minorversion" | "dspresent" => number(0),
        "majorversion" => number(DRIVERS),
        "defaultspooldirectory" => text(DIRECTORY),
        "architecture" => text(ENVIRONMENT),
        "dnsmachinename" => text(&call.server.policy().netbios_name.to_lowercase()),
        "osversion" => {
            let head = [VERSION_SIZE as u32, VERSION[0], VERSION[1], VERSION[2], PLATFORM];
            let mut bytes: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
            bytes.resize(VERSION_SIZE, 0);
            (value_type::BINARY, bytes)
        }
        _ => return Err(error::INVALID_PARAMETER),
    })
}

/// RpcGetPrinterData.
pub(super) async fn get(call: &Call<'_>, asked: GetPrinterData) -> Vec<u8> {
    let value = match handles::find(call, &asked.handle) {
        Ok(Object::Server) => of_server(call, &asked.value),
        Ok(Object::Printer(opened)) if asked.value.eq_ignore_ascii_case("ChangeID") => {
            Ok(number(printers::change_id_of(call, &opened).await))
        }
        Ok(Object::Printer(_)) => Err(error::FILE_NOT_FOUND),
        Err(status) => Err(status),
    };
    spoolss::data_response(asked.size, value)
}

/// RpcGetPrinterDataEx. The values of the server have no key.
pub(super) async fn get_ex(call: &Call<'_>, asked: GetPrinterDataEx) -> Vec<u8> {
    let GetPrinterDataEx { handle, key, value, size } = asked;
    if key.is_empty() && matches!(handles::find(call, &handle), Ok(Object::Printer(_))) {
        return spoolss::data_response(size, Err(error::INVALID_PARAMETER));
    }
    get(call, GetPrinterData { handle, value, size }).await
}

/// RpcEnumPrinterData: there are no values.
pub(super) async fn enumerate(call: &Call<'_>, asked: EnumPrinterData) -> Vec<u8> {
    let status = handles::printer(call, &asked.handle).err().unwrap_or(error::NO_MORE_ITEMS);
    spoolss::enum_data_response(asked.name_size, asked.data_size, status)
}

/// RpcEnumPrinterDataEx: no key has values.
pub(super) async fn enumerate_ex(call: &Call<'_>, asked: EnumPrinterDataEx) -> Vec<u8> {
    let status = match handles::printer(call, &asked.handle) {
        Ok(_) if asked.key.is_empty() => error::INVALID_PARAMETER,
        Ok(_) => error::SUCCESS,
        Err(status) => status,
    };
    spoolss::no_values_response(asked.size, status)
}

/// RpcEnumPrinterKey: there are no keys.
pub(super) async fn keys(call: &Call<'_>, asked: EnumPrinterKey) -> Vec<u8> {
    let status = match handles::printer(call, &asked.handle) {
        Ok(_) if asked.key.is_empty() => error::SUCCESS,
        Ok(_) => error::FILE_NOT_FOUND,
        Err(status) => status,
    };
    spoolss::key_response(asked.size, status)
}
