//! Documents that clients print ([MS-RPRN] 3.1.4.9). A handle has one at a time. Its data is in a file as that of a job
//! on a print share, and is handed over to the print system at the end of the document.

use std::sync::Arc;

use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::spoolss::{self, StartDocPrinter, WritePrinter};

use super::handles::{self, Opened};
use super::printers::{self, RAW};
use crate::named_pipe::Spool;
use crate::policy::limits::JOB_TITLE_MAX;
use crate::rpc::documents::Document;
use crate::rpc::interface::Call;

/// The title of a document without a name, as in Samba.
const UNTITLED: &str = "Remote Downlevel Document";
/// The smallest number of a document. It has another one once it is a job of the print system.
const FIRST_NUMBER: u32 = 0x4000_0000;

/// Returns whether a data type is that of data for the printer itself, which is all that is accepted.
pub(super) fn is_raw(datatype: &str) -> bool {
    datatype.is_empty() || datatype.eq_ignore_ascii_case(RAW)
}

/// Returns a title without characters that control a terminal or a printer.
fn title(name: Option<&str>) -> Arc<str> {
    let letters = name.unwrap_or_default().chars().filter(|letter| !letter.is_control());
    let title: String = letters.take(JOB_TITLE_MAX).collect();
    if title.trim().is_empty() { UNTITLED.into() } else { title.into() }
}

/// RpcStartDocPrinter.
pub(super) async fn start(call: &Call<'_>, asked: StartDocPrinter) -> Vec<u8> {
    spoolss::number_response(begin(call, &asked).await)
}

async fn begin(call: &Call<'_>, asked: &StartDocPrinter) -> Result<u32, u32> {
    let opened = handles::printer(call, &asked.handle)?;
    let document = asked.document.as_ref().ok_or(error::INVALID_LEVEL)?;
    if document.datatype.as_ref().is_some_and(|datatype| !is_raw(datatype)) {
        return Err(spoolss::error::INVALID_DATATYPE);
    }
    if document.output_file.as_ref().is_some_and(|file| !file.is_empty()) {
        // A file of this host.
        return Err(error::ACCESS_DENIED);
    }
    if call.documents.lock().get(&asked.handle).is_some() {
        return Err(error::INVALID_HANDLE);
    }
    // The user may have lost the printer since they opened it.
    printers::check(call, &opened).await?;
    let spool = call.caller.begin_document(&opened.printer).await.map_err(|why| handles::error_of(&why))?;
    let document = Document { title: title(document.name.as_deref()), spool };
    let added = call.documents.lock().add(asked.handle, document);
    match added {
        Ok(()) => Ok(FIRST_NUMBER | (call.server.next_id() as u32 & (FIRST_NUMBER - 1))),
        Err(document) => {
            remove(&document.spool).await;
            Err(error::INVALID_HANDLE)
        }
    }
}

async fn remove(spool: &Spool) {
    if let Some(spool) = spool.lock().await.take() {
        spool.remove().await;
    }
}

/// Returns the document of a handle, and its printer.
fn find(call: &Call<'_>, handle: &ContextHandle) -> Result<(Arc<Opened>, Document), u32> {
    let opened = handles::printer(call, handle)?;
    let document = call.documents.lock().get(handle).ok_or(spoolss::error::SPL_NO_STARTDOC)?;
    Ok((opened, document))
}

/// RpcStartPagePrinter and RpcEndPagePrinter. Pages are not counted.
pub(super) async fn page(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    spoolss::status_response(find(call, &handle).err().unwrap_or(error::SUCCESS))
}

/// RpcWritePrinter.
pub(super) async fn write(call: &Call<'_>, asked: WritePrinter) -> Vec<u8> {
    let length = u32::try_from(asked.data.len()).unwrap_or(u32::MAX);
    let written = match find(call, &asked.handle) {
        Ok((_, document)) => {
            let written = call.caller.write_document(&document.spool, asked.data).await;
            written.map(|()| length).map_err(|why| handles::error_of(&why))
        }
        Err(status) => Err(status),
    };
    spoolss::number_response(written)
}

/// RpcEndDocPrinter. Success means that the print system has the document.
pub(super) async fn end(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let ended = match find(call, &handle) {
        Ok((opened, document)) => {
            let printed = call.caller.print_document(&opened.printer, &document.title, &document.spool).await;
            // It stays until now, so that it is removed if the call is given up.
            discard(call, &handle).await;
            printed.map_err(|why| handles::error_of(&why))
        }
        Err(status) => Err(status),
    };
    spoolss::status_response(ended.err().unwrap_or(error::SUCCESS))
}

/// RpcAbortPrinter.
pub(super) async fn abort(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let found = find(call, &handle);
    discard(call, &handle).await;
    spoolss::status_response(found.err().unwrap_or(error::SUCCESS))
}

/// Removes the document of a handle, if it has one.
pub(super) async fn discard(call: &Call<'_>, handle: &ContextHandle) {
    let document = call.documents.lock().take(handle);
    if let Some(document) = document {
        remove(&document.spool).await;
    }
}

/// RpcReadPrinter, which is for handles of jobs and ports. There are none.
pub(super) async fn read(_: &Call<'_>, (_, size): (ContextHandle, ReadSize)) -> Vec<u8> {
    spoolss::read_response(size.0, error::INVALID_HANDLE)
}

/// The size of the buffer of RpcReadPrinter.
pub(super) struct ReadSize(u32);

impl proto::rpc::ndr::Arguments for ReadSize {
    fn read(from: &mut proto::rpc::ndr::Decoder<'_>) -> proto::bytes::Result<ReadSize> {
        from.count(spoolss::RETURNED_BUFFER as usize).map(|size| ReadSize(size as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_no_control_characters() {
        assert_eq!(&*title(Some("a\u{1b}[31m/b\n")), "a[31m/b");
        assert_eq!((&*title(None), &*title(Some(" "))), (UNTITLED, UNTITLED));
        assert_eq!(title(Some(&"é".repeat(500))).chars().count(), JOB_TITLE_MAX);
        assert!(is_raw("raw") && is_raw("") && !is_raw("TEXT"));
    }
}
