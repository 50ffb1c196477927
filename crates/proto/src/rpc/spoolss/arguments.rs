//! The arguments of the calls.

use super::RETURNED_BUFFER;
use crate::bytes::{Malformed, Result};
use crate::rpc::ndr::{Arguments, ContextHandle, Decoder};

/// The buffer of a client for structures. The client sends it, whole and empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Whether there is a buffer at all.
    pub is_given: bool,
    /// Its size in bytes.
    pub size: u32,
}

impl Buffer {
    fn read(from: &mut Decoder<'_>) -> Result<Buffer> {
        let is_given = from.pointer()?;
        let sent = if is_given { Some(skip_bytes(from)?) } else { None };
        let size = from.u32()?;
        if sent.is_some_and(|sent| sent != size) {
            return Err(Malformed::Value);
        }
        Ok(Buffer { is_given, size })
    }
}

/// Skips a conformant array of bytes, and returns its length.
fn skip_bytes(from: &mut Decoder<'_>) -> Result<u32> {
    let length = from.u32()?;
    from.bytes(usize::try_from(length).map_err(|_| Malformed::Value)?)?;
    Ok(length)
}

/// Skips a structure of a size and a pointer to as many bytes: DEVMODE_CONTAINER and SECURITY_CONTAINER.
fn skip_container(from: &mut Decoder<'_>) -> Result<()> {
    let size = from.u32()?;
    if from.pointer()? && skip_bytes(from)? != size {
        return Err(Malformed::Value);
    }
    Ok(())
}

/// Reads the size of a buffer that is only returned.
fn returned_size(from: &mut Decoder<'_>) -> Result<u32> {
    let size = from.u32()?;
    if size <= RETURNED_BUFFER { Ok(size) } else { Err(Malformed::Value) }
}

/// Declares the arguments of calls: their members in order, each with the function that reads it.
macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $member:ident: $type:ty = $read:expr),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Debug)]
            pub struct $name {
                $($(#[$of])* pub $member: $type,)*
            }

            impl Arguments for $name {
                fn read(from: &mut Decoder<'_>) -> Result<Self> {
                    $(let $member: $type = $read(&mut *from)?;)*
                    Ok($name { $($member),* })
                }
            }
        )*
    };
}

arguments! {
    /// The arguments of RpcEnumPrinters.
    EnumPrinters {
        /// Which printers.
        flags: u32 = Decoder::u32,
        /// The name of the server.
        name: Option<String> = Decoder::optional_string,
        /// The level.
        level: u32 = Decoder::u32,
        /// The buffer.
        buffer: Buffer = Buffer::read,
    }

    /// The arguments of RpcOpenPrinter.
    OpenPrinter {
        /// The name of a printer or server.
        name: Option<String> = Decoder::optional_string,
        /// The data type of documents.
        datatype: Option<String> = Decoder::optional_string,
        /// The settings of documents, which the client applies itself.
        devmode: () = skip_container,
        /// The desired rights.
        desired: u32 = Decoder::u32,
    }

    /// The arguments of RpcOpenPrinterEx.
    OpenPrinterEx {
        /// The arguments of RpcOpenPrinter.
        open: OpenPrinter = OpenPrinter::read,
        /// Whether the client describes itself.
        has_client: bool = client,
    }

    /// The arguments of RpcSetJob.
    SetJob {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The job.
        id: u32 = Decoder::u32,
        /// What happens to the job; `None` if its properties are set.
        command: Option<u32> = set_job_command,
    }

    /// The arguments of RpcGetJob.
    GetJob {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The job.
        id: u32 = Decoder::u32,
        /// The level.
        level: u32 = Decoder::u32,
        /// The buffer.
        buffer: Buffer = Buffer::read,
    }

    /// The arguments of RpcEnumJobs.
    EnumJobs {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The position of the first job.
        first: u32 = Decoder::u32,
        /// The number of jobs.
        count: u32 = Decoder::u32,
        /// The level.
        level: u32 = Decoder::u32,
        /// The buffer.
        buffer: Buffer = Buffer::read,
    }

    /// The arguments of RpcSetPrinter.
    SetPrinter {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// What happens to the printer; `None` if its properties are set.
        command: Option<u32> = set_printer_command,
    }

    /// The arguments of RpcGetPrinter, RpcEnumForms, and RpcAddJob.
    GetPrinter {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The level.
        level: u32 = Decoder::u32,
        /// The buffer.
        buffer: Buffer = Buffer::read,
    }

    /// The arguments of RpcGetForm.
    GetForm {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The name.
        name: String = Decoder::string,
        /// The level.
        level: u32 = Decoder::u32,
        /// The buffer.
        buffer: Buffer = Buffer::read,
    }

    /// The arguments of calls that list ports and monitors.
    Named {
        /// The name of the server.
        name: Option<String> = Decoder::optional_string,
        /// The level.
        level: u32 = Decoder::u32,
        /// The buffer.
        buffer: Buffer = Buffer::read,
    }

    /// The arguments of calls about drivers and print processors.
    DriverQuery {
        /// The name of the server.
        name: Option<String> = Decoder::optional_string,
        /// The name of the environment, or of the print processor.
        environment: Option<String> = Decoder::optional_string,
        /// The level.
        level: u32 = Decoder::u32,
        /// The buffer.
        buffer: Buffer = Buffer::read,
    }

    /// The arguments of RpcGetPrinterDriver2, and those of RpcGetPrinterDriver, which has no versions.
    GetPrinterDriver2 {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The name of the environment.
        environment: Option<String> = Decoder::optional_string,
        /// The level.
        level: u32 = Decoder::u32,
        /// The buffer.
        buffer: Buffer = Buffer::read,
    }

    /// The arguments of RpcStartDocPrinter.
    StartDocPrinter {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The document; `None` if the level is not 1.
        document: Option<DocInfo> = document,
    }

    /// The arguments of RpcWritePrinter.
    WritePrinter {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The data.
        data: Vec<u8> = sized_bytes,
    }

    /// The arguments of RpcGetPrinterData.
    GetPrinterData {
        /// The printer or server.
        handle: ContextHandle = Decoder::handle,
        /// The name of the value.
        value: String = Decoder::string,
        /// The size of the client's buffer.
        size: u32 = returned_size,
    }

    /// The arguments of RpcGetPrinterDataEx.
    GetPrinterDataEx {
        /// The printer or server.
        handle: ContextHandle = Decoder::handle,
        /// The key.
        key: String = Decoder::string,
        /// The name of the value.
        value: String = Decoder::string,
        /// The size of the client's buffer.
        size: u32 = returned_size,
    }

    /// The arguments of RpcEnumPrinterData.
    EnumPrinterData {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The position of the value.
        index: u32 = Decoder::u32,
        /// The size of the client's buffer for a name, in bytes.
        name_size: u32 = returned_size,
        /// The size of the client's buffer for data.
        data_size: u32 = returned_size,
    }

    /// The arguments of RpcEnumPrinterDataEx.
    EnumPrinterDataEx {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The key.
        key: String = Decoder::string,
        /// The size of the client's buffer.
        size: u32 = returned_size,
    }

    /// The arguments of RpcEnumPrinterKey.
    EnumPrinterKey {
        /// The printer.
        handle: ContextHandle = Decoder::handle,
        /// The key.
        key: String = Decoder::string,
        /// The size of the client's buffer in bytes.
        size: u32 = returned_size,
    }

    /// The arguments of RpcXcvData.
    XcvData {
        /// The port or monitor.
        handle: ContextHandle = Decoder::handle,
        /// The name of the operation.
        name: String = Decoder::string,
        /// The data of the operation.
        input: Vec<u8> = sized_bytes,
        /// The size of the client's buffer.
        size: u32 = returned_size,
    }
}

/// DOC_INFO_1 ([MS-RPRN] 2.2.1.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocInfo {
    /// The title.
    pub name: Option<String>,
    /// A file to print to.
    pub output_file: Option<String>,
    /// The data type.
    pub datatype: Option<String>,
}

/// Reads DOC_INFO_CONTAINER ([MS-RPRN] 2.2.1.2.2). Nothing after it is needed.
fn document(from: &mut Decoder<'_>) -> Result<Option<DocInfo>> {
    let (level, arm) = (from.u32()?, from.u32()?);
    if level != 1 || arm != 1 || !from.pointer()? {
        return Ok(None);
    }
    let [name, output_file, datatype] = [from.pointer()?, from.pointer()?, from.pointer()?];
    let mut text = |is_given: bool| if is_given { from.string().map(Some) } else { Ok(None) };
    Ok(Some(DocInfo { name: text(name)?, output_file: text(output_file)?, datatype: text(datatype)? }))
}

/// Reads whether a SPLCLIENT_CONTAINER ([MS-RPRN] 2.2.1.2.14) has a description of a known level. Nothing after it is
/// needed.
fn client(from: &mut Decoder<'_>) -> Result<bool> {
    let (level, arm) = (from.u32()?, from.u32()?);
    Ok((1..=3).contains(&level) && level == arm && from.pointer()?)
}

/// Reads bytes with their size in front of them and behind them.
fn sized_bytes(from: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let length = from.u32()?;
    let bytes = from.bytes(usize::try_from(length).map_err(|_| Malformed::Value)?)?.to_vec();
    if from.u32()? == length { Ok(bytes) } else { Err(Malformed::Value) }
}

/// Reads the command of RpcSetJob. With a JOB_CONTAINER, properties of the job are set, and the rest is not decoded.
fn set_job_command(from: &mut Decoder<'_>) -> Result<Option<u32>> {
    if from.pointer()? { Ok(None) } else { from.u32().map(Some) }
}

/// Reads the command of RpcSetPrinter behind its containers. With a structure, properties of the printer are set, and
/// the rest is not decoded.
fn set_printer_command(from: &mut Decoder<'_>) -> Result<Option<u32>> {
    let (level, arm) = (from.u32()?, from.u32()?);
    if level != arm {
        return Err(Malformed::Value);
    }
    if level != 0 || from.pointer()? {
        return Ok(None);
    }
    skip_container(from)?;
    skip_container(from)?;
    from.u32().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::ndr::Encoder;

    fn encoded(write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
        let mut out = Encoder::default();
        write(&mut out);
        out.into_bytes()
    }

    #[test]
    fn a_buffer_is_as_long_as_its_size_says() {
        let query = |given: Option<u32>, size: u32| {
            let bytes = encoded(|out| {
                out.u32(2);
                out.null();
                out.u32(1);
                match given {
                    Some(length) => {
                        out.pointer();
                        out.u32(length);
                        out.array(1, &[0; 5]);
                    }
                    None => out.null(),
                }
                out.u32(size);
            });
            EnumPrinters::decode(&bytes).map(|asked| asked.buffer)
        };
        assert_eq!(query(Some(5), 5), Ok(Buffer { is_given: true, size: 5 }));
        assert_eq!(query(None, 7), Ok(Buffer { is_given: false, size: 7 }));
        assert_eq!(query(Some(5), 6), Err(Malformed::Value));
        assert_eq!(query(Some(u32::MAX), u32::MAX), Err(Malformed::Truncated));
    }

    #[test]
    fn a_buffer_that_is_only_returned_has_a_limit() {
        let query = |size: u32| {
            let bytes = encoded(|out| {
                out.array(4, &[1; 20]);
                out.string("value");
                out.u32(size);
            });
            GetPrinterData::decode(&bytes).map(|asked| asked.size)
        };
        assert_eq!((query(RETURNED_BUFFER), query(RETURNED_BUFFER + 1)), (Ok(RETURNED_BUFFER), Err(Malformed::Value)));
    }

    #[test]
    fn a_document_has_texts_that_may_be_absent() {
        let start = |level: u32, name: Option<&str>| {
            let bytes = encoded(|out| {
                out.array(4, &[1; 20]);
                out.u32(level);
                out.u32(level);
                out.pointer();
                if name.is_some() {
                    out.pointer()
                } else {
                    out.null()
                }
                out.null();
                out.pointer();
                name.into_iter().for_each(|name| out.string(name));
                out.string("RAW");
            });
            StartDocPrinter::decode(&bytes).expect("it is complete").document
        };
        let document = |name: Option<&str>| {
            Some(DocInfo { name: name.map(str::to_owned), output_file: None, datatype: Some("RAW".into()) })
        };
        assert_eq!(start(1, Some("memo")), document(Some("memo")));
        assert_eq!((start(1, None), start(2, None)), (document(None), None));
    }

    #[test]
    fn commands_are_read_behind_empty_containers() {
        let set_job = |container: bool| {
            let bytes = encoded(|out| {
                out.array(4, &[1; 20]);
                out.u32(7);
                if container {
                    out.pointer()
                } else {
                    out.null()
                }
                out.u32(5);
            });
            SetJob::decode(&bytes).map(|asked| (asked.id, asked.command))
        };
        assert_eq!((set_job(false), set_job(true)), (Ok((7, Some(5))), Ok((7, None))));
        let set_printer = |level: u32| {
            let bytes = encoded(|out| {
                out.array(4, &[1; 20]);
                [level, level, 0, 0, 0, 4].iter().for_each(|number| out.u32(*number));
                out.pointer();
                out.u32(4);
                out.array(1, &[9; 4]);
                out.u32(3);
            });
            SetPrinter::decode(&bytes).map(|asked| asked.command)
        };
        assert_eq!((set_printer(0), set_printer(2)), (Ok(Some(3)), Ok(None)));
    }

    #[test]
    fn written_data_has_its_size_twice() {
        let write = |size: u32| {
            let bytes = encoded(|out| {
                out.array(4, &[1; 20]);
                out.u32(3);
                out.array(1, b"abc");
                out.u32(size);
            });
            WritePrinter::decode(&bytes).map(|asked| asked.data)
        };
        assert_eq!((write(3), write(4)), (Ok(b"abc".to_vec()), Err(Malformed::Value)));
    }
}
