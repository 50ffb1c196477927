//! The print system ([MS-RPRN]): calls that list printers, jobs and forms, change jobs, and print documents.

mod arguments;
mod info;
mod results;

pub use self::arguments::{
    Buffer, DocInfo, DriverQuery, EnumJobs, EnumPrinterData, EnumPrinterDataEx, EnumPrinterKey, EnumPrinters, GetForm,
    GetJob, GetPrinter, GetPrinterData, GetPrinterDataEx, GetPrinterDriver2, Named, OpenPrinter, OpenPrinterEx, SetJob,
    SetPrinter, StartDocPrinter, WritePrinter, XcvData,
};
pub use self::info::{Infos, SystemTime};
pub use self::results::{
    data_response, driver2_response, enum_data_response, handle_response, infos_response, key_response,
    no_notification_response, no_values_response, number_response, one_info_response, read_response, status_response,
    xcv_response,
};

use super::pdu::SyntaxId;
use crate::dtyp::Guid;

/// 12345678-1234-abcd-ef00-0123456789ab, version 1.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x1234_5678, 0x1234, 0xabcd, [0xef, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab]),
    version: 1,
};

/// Operation numbers of the calls.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod opnum {
    pub const ENUM_PRINTERS: u16 = 0;
    pub const OPEN_PRINTER: u16 = 1;
    pub const SET_JOB: u16 = 2;
    pub const GET_JOB: u16 = 3;
    pub const ENUM_JOBS: u16 = 4;
    pub const ADD_PRINTER: u16 = 5;
    pub const DELETE_PRINTER: u16 = 6;
    pub const SET_PRINTER: u16 = 7;
    pub const GET_PRINTER: u16 = 8;
    pub const ADD_PRINTER_DRIVER: u16 = 9;
    pub const ENUM_PRINTER_DRIVERS: u16 = 10;
    pub const GET_PRINTER_DRIVER: u16 = 11;
    pub const GET_PRINTER_DRIVER_DIRECTORY: u16 = 12;
    pub const ENUM_PRINT_PROCESSORS: u16 = 15;
    pub const GET_PRINT_PROCESSOR_DIRECTORY: u16 = 16;
    pub const START_DOC_PRINTER: u16 = 17;
    pub const START_PAGE_PRINTER: u16 = 18;
    pub const WRITE_PRINTER: u16 = 19;
    pub const END_PAGE_PRINTER: u16 = 20;
    pub const ABORT_PRINTER: u16 = 21;
    pub const READ_PRINTER: u16 = 22;
    pub const END_DOC_PRINTER: u16 = 23;
    pub const ADD_JOB: u16 = 24;
    pub const SCHEDULE_JOB: u16 = 25;
    pub const GET_PRINTER_DATA: u16 = 26;
    pub const SET_PRINTER_DATA: u16 = 27;
    pub const WAIT_FOR_PRINTER_CHANGE: u16 = 28;
    pub const CLOSE_PRINTER: u16 = 29;
    pub const ADD_FORM: u16 = 30;
    pub const DELETE_FORM: u16 = 31;
    pub const GET_FORM: u16 = 32;
    pub const SET_FORM: u16 = 33;
    pub const ENUM_FORMS: u16 = 34;
    pub const ENUM_PORTS: u16 = 35;
    pub const ENUM_MONITORS: u16 = 36;
    pub const ENUM_PRINT_PROCESSOR_DATATYPES: u16 = 51;
    pub const RESET_PRINTER: u16 = 52;
    pub const GET_PRINTER_DRIVER_2: u16 = 53;
    pub const FIND_CLOSE_PRINTER_CHANGE_NOTIFICATION: u16 = 56;
    pub const REMOTE_FIND_FIRST_PRINTER_CHANGE_NOTIFICATION_EX: u16 = 65;
    pub const ROUTER_REFRESH_PRINTER_CHANGE_NOTIFICATION: u16 = 67;
    pub const OPEN_PRINTER_EX: u16 = 69;
    pub const SET_PORT: u16 = 71;
    pub const ENUM_PRINTER_DATA: u16 = 72;
    pub const DELETE_PRINTER_DATA: u16 = 73;
    pub const SET_PRINTER_DATA_EX: u16 = 77;
    pub const GET_PRINTER_DATA_EX: u16 = 78;
    pub const ENUM_PRINTER_DATA_EX: u16 = 79;
    pub const ENUM_PRINTER_KEY: u16 = 80;
    pub const DELETE_PRINTER_DATA_EX: u16 = 81;
    pub const DELETE_PRINTER_KEY: u16 = 82;
    pub const XCV_DATA: u16 = 88;
}

/// Access values ([MS-RPRN] 2.2.3.1).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod rights {
    pub const SERVER_ACCESS_ADMINISTER: u32 = 0x0001;
    pub const SERVER_ACCESS_ENUMERATE: u32 = 0x0002;
    pub const SERVER_READ: u32 = 0x0002_0002;
    pub const SERVER_ALL_ACCESS: u32 = 0x000f_0003;
    pub const PRINTER_ACCESS_ADMINISTER: u32 = 0x0004;
    pub const PRINTER_ACCESS_USE: u32 = 0x0008;
    pub const PRINTER_READ: u32 = 0x0002_0008;
    pub const PRINTER_ALL_ACCESS: u32 = 0x000f_000c;
}

/// Printer enumeration flags ([MS-RPRN] 2.2.3.7).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod enumeration_flags {
    pub const LOCAL: u32 = 0x0002;
    pub const NAME: u32 = 0x0008;
    pub const SHARED: u32 = 0x0020;
    pub const ICON8: u32 = 0x0080_0000;
}

/// Status and attribute values ([MS-RPRN] 2.2.3.12).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod values {
    pub const PRINTER_STATUS_PAUSED: u32 = 0x0001;
    pub const PRINTER_STATUS_PRINTING: u32 = 0x0400;
    pub const PRINTER_ATTRIBUTE_SHARED: u32 = 0x0008;
    pub const PRINTER_ATTRIBUTE_LOCAL: u32 = 0x0040;
    pub const PRINTER_ATTRIBUTE_RAW_ONLY: u32 = 0x1000;
    pub const JOB_STATUS_PAUSED: u32 = 0x0001;
    pub const JOB_STATUS_PRINTING: u32 = 0x0010;
}

/// The commands of RpcSetJob ([MS-RPRN] 3.1.4.3.1).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod job_control {
    pub const PAUSE: u32 = 1;
    pub const RESUME: u32 = 2;
    pub const CANCEL: u32 = 3;
    pub const RESTART: u32 = 4;
    pub const DELETE: u32 = 5;
}

/// The commands of RpcSetPrinter ([MS-RPRN] 3.1.4.2.5).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod printer_control {
    pub const PAUSE: u32 = 1;
    pub const RESUME: u32 = 2;
    pub const PURGE: u32 = 3;
}

/// Registry type values ([MS-RPRN] 2.2.3.9).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod value_type {
    pub const NONE: u32 = 0;
    pub const SZ: u32 = 1;
    pub const BINARY: u32 = 3;
    pub const DWORD: u32 = 4;
}

/// Win32 error codes ([MS-ERREF] 2.2) of printing, besides those of [`super::enumeration::error`].
#[allow(missing_docs, reason = "the names are those of Windows")]
pub mod error {
    pub const PRINT_CANCELLED: u32 = 63;
    pub const PRINTQ_FULL: u32 = 61;
    pub const NO_SPOOL_SPACE: u32 = 62;
    pub const NOT_READY: u32 = 21;
    pub const DISK_FULL: u32 = 112;
    pub const INVALID_USER_BUFFER: u32 = 1784;
    pub const UNKNOWN_PRINTER_DRIVER: u32 = 1797;
    pub const INVALID_PRINTER_NAME: u32 = 1801;
    pub const INVALID_PRINTER_COMMAND: u32 = 1803;
    pub const INVALID_DATATYPE: u32 = 1804;
    pub const INVALID_ENVIRONMENT: u32 = 1805;
    pub const INVALID_FORM_NAME: u32 = 1902;
    pub const SPL_NO_STARTDOC: u32 = 3003;
}

/// The largest buffer that is only returned, in bytes. A client chooses its size without sending it.
pub const RETURNED_BUFFER: u32 = 64 * 1024;
