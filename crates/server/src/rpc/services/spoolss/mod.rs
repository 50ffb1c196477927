//! The print system ([MS-RPRN] 3.1.4), on top of print shares: clients list printers and jobs, print documents, and
//! change jobs. Drivers, ports and printers are not administrated here.
//!
//! - [`handles`]: printers and the server, as clients open them, and their rights
//! - [`printers`]: lists and properties of printers, and changes of a queue
//! - [`jobs`]: the jobs of a queue
//! - [`documents`]: documents that clients print
//! - [`data`]: values of printers and of the server
//! - [`fixed`]: forms, ports, monitors, print processors and drivers, which are the same for all printers

mod data;
mod documents;
mod fixed;
mod handles;
mod jobs;
mod printers;
#[cfg(test)]
mod tests;

use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::pdu::SyntaxId;
use proto::rpc::spoolss::{self, Buffer, Infos, opnum};

use crate::policy::limits::RPC_PRINT_STUB_BYTES;
use crate::rpc::interface::{Call, Interface, Operation, operations};
use crate::rpc::memory::MemoryCharge;

/// The print system.
pub(super) struct Spoolss;

impl Interface for Spoolss {
    fn pipe(&self) -> &'static str {
        super::PRINT_SYSTEM
    }

    fn syntax(&self) -> SyntaxId {
        spoolss::INTERFACE
    }

    fn max_stub(&self) -> usize {
        RPC_PRINT_STUB_BYTES
    }

    fn operations(&self) -> &'static [Operation] {
        operations![
            (opnum::ENUM_PRINTERS, "RpcEnumPrinters", printers::enumerate),
            (opnum::OPEN_PRINTER, "RpcOpenPrinter", handles::open),
            (opnum::SET_JOB, "RpcSetJob", jobs::set),
            (opnum::GET_JOB, "RpcGetJob", jobs::get),
            (opnum::ENUM_JOBS, "RpcEnumJobs", jobs::enumerate),
            (opnum::ADD_PRINTER, "RpcAddPrinter", fixed::not_added),
            (opnum::DELETE_PRINTER, "RpcDeletePrinter", refuse),
            (opnum::SET_PRINTER, "RpcSetPrinter", printers::set),
            (opnum::GET_PRINTER, "RpcGetPrinter", printers::get),
            (opnum::ADD_PRINTER_DRIVER, "RpcAddPrinterDriver", fixed::refuse_driver),
            (opnum::ENUM_PRINTER_DRIVERS, "RpcEnumPrinterDrivers", fixed::drivers),
            (opnum::GET_PRINTER_DRIVER, "RpcGetPrinterDriver", fixed::driver),
            (opnum::GET_PRINTER_DRIVER_DIRECTORY, "RpcGetPrinterDriverDirectory", fixed::driver_directory),
            (opnum::ENUM_PRINT_PROCESSORS, "RpcEnumPrintProcessors", fixed::processors),
            (opnum::GET_PRINT_PROCESSOR_DIRECTORY, "RpcGetPrintProcessorDirectory", fixed::processor_directory),
            (opnum::START_DOC_PRINTER, "RpcStartDocPrinter", documents::start),
            (opnum::START_PAGE_PRINTER, "RpcStartPagePrinter", documents::page),
            (opnum::WRITE_PRINTER, "RpcWritePrinter", documents::write),
            (opnum::END_PAGE_PRINTER, "RpcEndPagePrinter", documents::page),
            (opnum::ABORT_PRINTER, "RpcAbortPrinter", documents::abort),
            (opnum::READ_PRINTER, "RpcReadPrinter", documents::read),
            (opnum::END_DOC_PRINTER, "RpcEndDocPrinter", documents::end),
            (opnum::ADD_JOB, "RpcAddJob", jobs::add),
            (opnum::SCHEDULE_JOB, "RpcScheduleJob", jobs::schedule),
            (opnum::GET_PRINTER_DATA, "RpcGetPrinterData", data::get),
            (opnum::SET_PRINTER_DATA, "RpcSetPrinterData", refuse),
            (opnum::WAIT_FOR_PRINTER_CHANGE, "RpcWaitForPrinterChange", printers::wait),
            (opnum::CLOSE_PRINTER, "RpcClosePrinter", handles::close),
            (opnum::ADD_FORM, "RpcAddForm", refuse),
            (opnum::DELETE_FORM, "RpcDeleteForm", refuse),
            (opnum::GET_FORM, "RpcGetForm", fixed::form),
            (opnum::SET_FORM, "RpcSetForm", refuse),
            (opnum::ENUM_FORMS, "RpcEnumForms", fixed::forms),
            (opnum::ENUM_PORTS, "RpcEnumPorts", fixed::ports),
            (opnum::ENUM_MONITORS, "RpcEnumMonitors", fixed::monitors),
            (opnum::ENUM_PRINT_PROCESSOR_DATATYPES, "RpcEnumPrintProcessorDatatypes", fixed::datatypes),
            (opnum::RESET_PRINTER, "RpcResetPrinter", printers::reset),
            (opnum::GET_PRINTER_DRIVER_2, "RpcGetPrinterDriver2", fixed::driver_2),
            (
                opnum::FIND_CLOSE_PRINTER_CHANGE_NOTIFICATION,
                "RpcFindClosePrinterChangeNotification",
                printers::no_notification
            ),
            (
                opnum::REMOTE_FIND_FIRST_PRINTER_CHANGE_NOTIFICATION_EX,
                "RpcRemoteFindFirstPrinterChangeNotificationEx",
                printers::no_notification
            ),
            (
                opnum::ROUTER_REFRESH_PRINTER_CHANGE_NOTIFICATION,
                "RpcRouterRefreshPrinterChangeNotification",
                printers::nothing_new
            ),
            (opnum::OPEN_PRINTER_EX, "RpcOpenPrinterEx", handles::open_ex),
            (opnum::ENUM_PRINTER_DATA, "RpcEnumPrinterData", data::enumerate),
            (opnum::DELETE_PRINTER_DATA, "RpcDeletePrinterData", refuse),
            (opnum::SET_PRINTER_DATA_EX, "RpcSetPrinterDataEx", refuse),
            (opnum::GET_PRINTER_DATA_EX, "RpcGetPrinterDataEx", data::get_ex),
            (opnum::ENUM_PRINTER_DATA_EX, "RpcEnumPrinterDataEx", data::enumerate_ex),
            (opnum::ENUM_PRINTER_KEY, "RpcEnumPrinterKey", data::keys),
            (opnum::DELETE_PRINTER_DATA_EX, "RpcDeletePrinterDataEx", refuse),
            (opnum::DELETE_PRINTER_KEY, "RpcDeletePrinterKey", refuse),
            (opnum::XCV_DATA, "RpcXcvData", fixed::xcv),
        ]
    }
}

/// Structures for a client, whose buffer is charged.
struct Answer {
    infos: Infos,
    /// The charge, until the results are encoded.
    memory: MemoryCharge,
}

impl Answer {
    /// Checks the buffer of a client (3.1.4.1.9), and creates an empty one.
    fn new(call: &Call<'_>, buffer: Buffer) -> Result<Answer, u32> {
        if !buffer.is_given && buffer.size > 0 {
            return Err(spoolss::error::INVALID_USER_BUFFER);
        }
        let mut memory = MemoryCharge::nothing(call.payer);
        // The structures, and the results, which are a copy.
        let bytes = 2 * buffer.size as usize;
        if !memory.may_take(bytes) {
            return Err(error::NOT_ENOUGH_MEMORY);
        }
        memory.set(bytes);
        Ok(Answer { infos: Infos::new(buffer.size), memory })
    }

    fn one(buffer: Buffer, found: Result<Answer, u32>) -> Vec<u8> {
        let (infos, _memory) = Answer::parts(found);
        spoolss::one_info_response(buffer, infos)
    }

    fn list(buffer: Buffer, found: Result<Answer, u32>) -> Vec<u8> {
        let (infos, _memory) = Answer::parts(found);
        spoolss::infos_response(buffer, infos)
    }

    fn parts(found: Result<Answer, u32>) -> (Result<Infos, u32>, Option<MemoryCharge>) {
        match found {
            Ok(Answer { infos, memory }) => (Ok(infos), Some(memory)),
            Err(status) => (Err(status), None),
        }
    }
}

/// Refuses to change something that the configuration or the print system decides.
async fn refuse(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let status = if handles::find(call, &handle).is_ok() { error::ACCESS_DENIED } else { error::INVALID_HANDLE };
    spoolss::status_response(status)
}
