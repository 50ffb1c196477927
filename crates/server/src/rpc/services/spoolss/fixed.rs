//! Forms, ports, monitors, print processors and drivers ([MS-RPRN] 3.1.4.4 to 3.1.4.8). Clients bring their own
//! drivers, so what they ask for here is the same for all printers.

use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::spoolss::{self, Buffer, DriverQuery, GetForm, GetPrinter, GetPrinterDriver2, Infos, Named, XcvData};

use super::Answer;
use super::handles;
use super::printers::{PROCESSOR, RAW};
use crate::rpc::interface::Call;

/// The port of all printers, under Samba's name.
pub(super) const PORT: &str = "Samba Printer Port";
/// The environment of the server, as with Samba.
pub(super) const ENVIRONMENT: &str = "Windows x64";
/// The environments that exist, and their directories ([MS-RPRN] 2.2.4.4).
const ENVIRONMENTS: &[(&str, &str)] = &[
    ("Windows 4.0", "WIN40"),
    ("Windows NT x86", "W32X86"),
    ("Windows NT R4000", "W32MIPS"),
    ("Windows NT Alpha_AXP", "W32ALPHA"),
    // The name that rpcclient uses.
    ("Windows NT Alpha AXP", "W32ALPHA"),
    ("Windows NT PowerPC", "W32PPC"),
    ("Windows IA64", "IA64"),
    ("Windows x64", "x64"),
    ("Windows ARM64", "ARM64"),
];
/// The port monitors, with their libraries.
const MONITORS: &[(&str, &str)] = &[("Local Port", "localmon.dll"), ("Standard TCP/IP Port", "tcpmon.dll")];
/// PORT_TYPE_WRITE ([MS-RPRN] 2.2.1.9.2).
const PORT_WRITE: u32 = 1;
/// FORM_BUILTIN ([MS-RPRN] 2.2.1.6.1).
const BUILT_IN: u32 = 1;

/// The forms, with their width and height in thousandths of a millimeter.
const FORMS: &[(&str, u32, u32)] = &[
    ("Letter", 215_900, 279_400),
    ("Tabloid", 279_400, 431_800),
    ("Ledger", 431_800, 279_400),
    ("Legal", 215_900, 355_600),
    ("Statement", 139_700, 215_900),
    ("Executive", 184_150, 266_700),
    ("A2", 420_000, 594_000),
    ("A3", 297_000, 420_000),
    ("A4", 210_000, 297_000),
    ("A5", 148_000, 210_000),
    ("A6", 105_000, 148_000),
    ("B4 (JIS)", 257_000, 364_000),
    ("B5 (JIS)", 182_000, 257_000),
    ("B4 (ISO)", 250_000, 353_000),
    ("Folio", 215_900, 330_200),
    ("10x14", 254_000, 355_600),
    ("11x17", 279_400, 431_800),
    ("Envelope #10", 104_775, 241_300),
    ("Envelope DL", 110_000, 220_000),
    ("Envelope C4", 229_000, 324_000),
    ("Envelope C5", 162_000, 229_000),
    ("Envelope C6", 114_000, 162_000),
    ("Envelope B5", 176_000, 250_000),
    ("Envelope Monarch", 98_425, 190_500),
    ("Japanese Postcard", 100_000, 148_000),
];

/// Lists structures of the levels up to `most`, which `write` encodes.
fn list(call: &Call<'_>, buffer: Buffer, level: u32, most: u32, write: impl FnOnce(&mut Infos)) -> Vec<u8> {
    let found = Answer::new(call, buffer).and_then(|answer| at_level(answer, level, most));
    Answer::list(buffer, found.map(|answer| written(answer, write)))
}

fn at_level(answer: Answer, level: u32, most: u32) -> Result<Answer, u32> {
    if (1..=most).contains(&level) { Ok(answer) } else { Err(error::INVALID_LEVEL) }
}

fn written(mut answer: Answer, write: impl FnOnce(&mut Infos)) -> Answer {
    write(&mut answer.infos);
    answer
}

fn encode_form(&(name, width, height): &(&str, u32, u32), level: u32, out: &mut Infos) {
    out.begin();
    out.numbers(&[BUILT_IN]);
    out.text(name);
    out.numbers(&[width, height, 0, 0, width, height]);
    if level == 2 {
        // Keyword, type of the name, no library and its message, the name for people, and its language.
        let keyword: Vec<u8> = name.bytes().chain([0]).collect();
        out.bytes(&keyword);
        out.numbers(&[1, 0, 0]);
        out.text(name);
        out.numbers(&[0]);
    }
}

/// RpcEnumForms.
pub(super) async fn forms(call: &Call<'_>, asked: GetPrinter) -> Vec<u8> {
    if let Err(status) = handles::find(call, &asked.handle) {
        return Answer::list(asked.buffer, Err(status));
    }
    let write = |out: &mut Infos| FORMS.iter().for_each(|form| encode_form(form, asked.level, out));
    list(call, asked.buffer, asked.level, 2, write)
}

/// RpcGetForm.
pub(super) async fn form(call: &Call<'_>, asked: GetForm) -> Vec<u8> {
    let found = handles::find(call, &asked.handle).and_then(|_| {
        let answer = at_level(Answer::new(call, asked.buffer)?, asked.level, 2)?;
        let form = FORMS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(&asked.name));
        let form = form.ok_or(spoolss::error::INVALID_FORM_NAME)?;
        Ok(written(answer, |out| encode_form(form, asked.level, out)))
    });
    Answer::one(asked.buffer, found)
}

/// RpcEnumPorts.
pub(super) async fn ports(call: &Call<'_>, asked: Named) -> Vec<u8> {
    list(call, asked.buffer, asked.level, 2, |out| {
        out.begin();
        out.text(PORT);
        if asked.level == 2 {
            out.text("Local Monitor");
            out.text("Local Port");
            out.numbers(&[PORT_WRITE, 0]);
        }
    })
}

/// RpcEnumMonitors.
pub(super) async fn monitors(call: &Call<'_>, asked: Named) -> Vec<u8> {
    list(call, asked.buffer, asked.level, 2, |out| {
        for (name, library) in MONITORS {
            out.begin();
            out.text(name);
            if asked.level == 2 {
                out.text(ENVIRONMENT);
                out.text(library);
            }
        }
    })
}

/// Returns the directory of an environment; that of the server if there is no name.
fn directory(environment: Option<&str>) -> Result<&'static str, u32> {
    let name = environment.filter(|name| !name.is_empty()).unwrap_or(ENVIRONMENT);
    let found = ENVIRONMENTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, directory)| *directory).ok_or(spoolss::error::INVALID_ENVIRONMENT)
}

/// RpcEnumPrintProcessors.
pub(super) async fn processors(call: &Call<'_>, asked: DriverQuery) -> Vec<u8> {
    match directory(asked.environment.as_deref()) {
        Ok(_) => list(call, asked.buffer, asked.level, 1, |out| {
            out.begin();
            out.text(PROCESSOR);
        }),
        Err(status) => Answer::list(asked.buffer, Err(status)),
    }
}

/// RpcEnumPrintProcessorDatatypes.
pub(super) async fn datatypes(call: &Call<'_>, asked: DriverQuery) -> Vec<u8> {
    const UNKNOWN_PRINTPROCESSOR: u32 = 1798;
    if !asked.environment.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(PROCESSOR)) {
        return Answer::list(asked.buffer, Err(UNKNOWN_PRINTPROCESSOR));
    }
    list(call, asked.buffer, asked.level, 1, |out| {
        out.begin();
        out.text(RAW);
    })
}

/// Returns a text, which is the whole buffer. As in Samba, any level is accepted.
fn path(call: &Call<'_>, asked: &DriverQuery, path: impl FnOnce(&str) -> String) -> Vec<u8> {
    let found = directory(asked.environment.as_deref()).and_then(|directory| {
        let mut answer = Answer::new(call, asked.buffer)?;
        answer.infos.whole_text(&path(directory));
        Ok(answer)
    });
    Answer::one(asked.buffer, found)
}

/// RpcGetPrinterDriverDirectory. There is no such share unless the administrator has one.
pub(super) async fn driver_directory(call: &Call<'_>, asked: DriverQuery) -> Vec<u8> {
    let server = match handles::server_name(asked.name.as_deref()) {
        "" => format!(r"\\{}", call.server.policy().netbios_name),
        name => name.to_owned(),
    };
    path(call, &asked, |directory| format!(r"{server}\print$\{directory}"))
}

/// RpcGetPrintProcessorDirectory.
pub(super) async fn processor_directory(call: &Call<'_>, asked: DriverQuery) -> Vec<u8> {
    path(call, &asked, |directory| format!(r"C:\WINDOWS\system32\spool\PRTPROCS\{directory}"))
}

/// RpcEnumPrinterDrivers: there are none.
pub(super) async fn drivers(call: &Call<'_>, asked: DriverQuery) -> Vec<u8> {
    let all = asked.environment.as_ref().is_some_and(|name| name.eq_ignore_ascii_case("all"));
    match directory(asked.environment.as_deref()) {
        Err(status) if !all => Answer::list(asked.buffer, Err(status)),
        _ => list(call, asked.buffer, asked.level, 8, |_| ()),
    }
}

/// RpcGetPrinterDriver: printers have no driver.
pub(super) async fn driver(call: &Call<'_>, asked: GetPrinterDriver2) -> Vec<u8> {
    let found = handles::printer(call, &asked.handle).and(Err(spoolss::error::UNKNOWN_PRINTER_DRIVER));
    Answer::one(asked.buffer, found)
}

/// RpcGetPrinterDriver2, as [`driver`].
pub(super) async fn driver_2(call: &Call<'_>, asked: GetPrinterDriver2) -> Vec<u8> {
    let found = handles::printer(call, &asked.handle);
    spoolss::driver2_response(found.err().unwrap_or(spoolss::error::UNKNOWN_PRINTER_DRIVER))
}

/// RpcAddPrinterDriver, which has no handle.
pub(super) async fn refuse_driver(_: &Call<'_>, (): ()) -> Vec<u8> {
    spoolss::status_response(error::ACCESS_DENIED)
}

/// RpcAddPrinter: no handle.
pub(super) async fn not_added(_: &Call<'_>, (): ()) -> Vec<u8> {
    spoolss::handle_response(&ContextHandle::default(), error::ACCESS_DENIED)
}

/// RpcXcvData, for handles of ports and monitors. There are none.
pub(super) async fn xcv(call: &Call<'_>, asked: XcvData) -> Vec<u8> {
    let found = handles::find(call, &asked.handle);
    spoolss::xcv_response(asked.size, if found.is_ok() { error::NOT_SUPPORTED } else { error::INVALID_HANDLE })
}
