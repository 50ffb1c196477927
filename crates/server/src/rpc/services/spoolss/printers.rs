//! Lists and properties of printers ([MS-RPRN] 3.1.4.2), and changes of a queue.

use std::collections::HashMap;
use std::sync::Arc;

use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::spoolss::{self, EnumPrinters, GetPrinter, Infos, SetPrinter, SystemTime, printer_control, values};
use proto::rpc::spoolss::{enumeration_flags as flags, rights};

use super::handles::{self, Object, Opened};
use super::{Answer, fixed};
use crate::policy::limits::PRINTERS_WITH_JOBS_MAX;
use crate::policy::{Policy, Share};
use crate::printing::{Action, PrintError, QueueInfo, QueueJobs, QueueState};
use crate::rpc::interface::Call;
use crate::rpc::services::srvsvc::shares::session_policy;
use crate::state::Server;
use crate::yielding::Work;

/// The attributes of each printer. Clients send the data of the printer itself.
const ATTRIBUTES: u32 =
    values::PRINTER_ATTRIBUTE_SHARED | values::PRINTER_ATTRIBUTE_LOCAL | values::PRINTER_ATTRIBUTE_RAW_ONLY;
/// The timeouts of a port in milliseconds, as in Samba.
const TIMEOUT: u32 = 45_000;
/// The data type of documents.
pub(super) const RAW: &str = "RAW";
/// The print processor of all printers.
pub(super) const PROCESSOR: &str = "winprint";
/// DSPRINT_UNPUBLISH ([MS-RPRN] 2.2.1.10.8): the printer is not in a directory.
const UNPUBLISHED: u32 = 4;
/// The architecture that clients see: PROCESSOR_ARCHITECTURE_AMD64.
const AMD64: u16 = 9;

/// What clients see of a printer.
pub(super) struct Shown<'a> {
    /// The name of the server that the client uses, with its backslashes.
    server: &'a str,
    share: &'a str,
    comment: &'a str,
    location: &'a str,
    /// Whether guests may print.
    guests: bool,
    queue: Option<Arc<QueueJobs>>,
}

/// Returns the name of a printer as a client uses it.
pub(super) fn full_name(server: &str, share: &str) -> String {
    if server.is_empty() { share.to_owned() } else { format!("{server}\\{share}") }
}

impl Shown<'_> {
    fn status(&self) -> u32 {
        match self.queue.as_ref().map(|queue| queue.state) {
            Some(QueueState::Stopped) => values::PRINTER_STATUS_PAUSED,
            Some(QueueState::Printing) => values::PRINTER_STATUS_PRINTING,
            Some(QueueState::Idle) | None => 0,
        }
    }

    fn job_count(&self) -> u32 {
        self.queue.as_ref().map_or(0, |queue| u32::try_from(queue.jobs.len()).unwrap_or(u32::MAX))
    }

    /// Returns a number that is another one when the properties are.
    fn change_id(&self) -> u32 {
        change_id(&[self.share, self.comment, self.location])
    }

    /// Writes the structure of a level that [`LEVELS`] has.
    fn encode(&self, level: u32, out: &mut Infos) {
        let name = full_name(self.server, self.share);
        out.begin();
        match level {
            0 => {
                out.text(&name);
                out.optional_text(self.server);
                out.numbers(&[self.job_count(), 0, 0]);
                out.time(SystemTime::from_unix(0));
                // No counter is kept. The version and the processor are those of Samba.
                out.numbers(&[0, 0, 0x0ece_0205, 1, 0, 0, 0, 0, 0, 0, 1, 8664, 0]);
                out.numbers(&[self.change_id(), 0, self.status(), 0, 0]);
                out.short(AMD64);
                out.short(6);
                out.numbers(&[0; 3]);
            }
            1 => {
                out.numbers(&[flags::ICON8]);
                out.text(&format!("{name},,{}", self.comment));
                out.text(&name);
                out.text(self.comment);
            }
            2 => {
                out.optional_text(self.server);
                for text in [&name, self.share, fixed::PORT, "", self.comment, self.location] {
                    out.text(text);
                }
                // No DEVMODE.
                out.numbers(&[0]);
                for text in ["", PROCESSOR, RAW, ""] {
                    out.text(text);
                }
                out.bytes(&handles::descriptor(self.guests));
                out.numbers(&[ATTRIBUTES, 1, 1, 0, 0, self.status(), self.job_count(), 0]);
            }
            3 => out.bytes(&handles::descriptor(self.guests)),
            4 => {
                out.text(&name);
                out.optional_text(self.server);
                out.numbers(&[ATTRIBUTES]);
            }
            5 => {
                out.text(&name);
                out.text(fixed::PORT);
                out.numbers(&[ATTRIBUTES, TIMEOUT, TIMEOUT]);
            }
            6 => out.numbers(&[self.status()]),
            7 => {
                out.text("");
                out.numbers(&[UNPUBLISHED]);
            }
            // 8 and 9: no DEVMODE.
            _ => out.numbers(&[0]),
        }
    }
}

/// The levels of one printer, and of a list.
const LEVELS: std::ops::RangeInclusive<u32> = 0..=9;
const LISTED_LEVELS: [u32; 5] = [0, 1, 2, 4, 5];

/// Returns whether a level has the state of the queue.
fn has_queue(level: u32) -> bool {
    matches!(level, 0 | 2 | 6)
}

/// Returns a number that depends on the texts (FNV-1a).
fn change_id(texts: &[&str]) -> u32 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// RpcEnumPrinters.
pub(super) async fn enumerate(call: &Call<'_>, asked: EnumPrinters) -> Vec<u8> {
    Answer::list(asked.buffer, list(call, &asked).await)
}

async fn list(call: &Call<'_>, asked: &EnumPrinters) -> Result<Answer, u32> {
    let mut answer = Answer::new(call, asked.buffer)?;
    if !LISTED_LEVELS.contains(&asked.level) {
        return Err(error::INVALID_LEVEL);
    }
    if asked.flags & (flags::LOCAL | flags::NAME | flags::SHARED) == 0 {
        // Connections to printers of other servers, which this server does not have.
        return Ok(answer);
    }
    let server = handles::server_name(asked.name.as_deref());
    let policy = session_policy(call).await;
    let queues = call.server.queues().await;
    let by_name: HashMap<&str, &QueueInfo> = queues.iter().map(|queue| (&*queue.name, queue)).collect();
    let configured = policy.shares.values().filter(|share| share.browseable && share.available).cloned();
    let of_queues = call.server.listed_printers(&policy).await;
    let (mut work, mut left) = (Work::new(), PRINTERS_WITH_JOBS_MAX);
    for share in configured.chain(of_queues.shares(&policy)) {
        work.spend(1).await;
        let Some(printing) = &share.printing else { continue };
        if !call.caller.may_connect(&share).await {
            continue;
        }
        let mut queue = None;
        if has_queue(asked.level) && left > 0 {
            // A print system that does not answer is not asked for each queue.
            (queue, left) = match jobs_of(call, &share.name).await {
                Err(PrintError::Unavailable(_)) => (None, 0),
                jobs => (jobs.ok(), left - 1),
            };
        }
        let is_configured = policy.share(&share.name).is_some();
        let queue_name = if is_configured { &printing.queue } else { &share.name };
        let shown = Shown {
            server,
            share: &share.name,
            comment: &share.comment,
            location: by_name.get(&**queue_name).map_or("", |info| &info.location),
            guests: share.access.guest_ok,
            queue,
        };
        shown.encode(asked.level, &mut answer.infos);
    }
    Ok(answer)
}

/// Returns the jobs of a print share.
async fn jobs_of(call: &Call<'_>, share: &str) -> Result<Arc<QueueJobs>, PrintError> {
    let none = || PrintError::Unavailable("there is no print system".to_owned());
    let printer = call.caller.connect_printer(share).await.map_err(|error| PrintError::Refused(error.to_string()))?;
    call.server.print_system().ok_or_else(none)?.jobs(&printer.queue, &printer.user).await
}

/// Returns an error if the user of a handle may not connect to its printer any more.
pub(super) async fn check(call: &Call<'_>, opened: &Opened) -> Result<(), u32> {
    let (policy, name) = (session_policy(call).await, &opened.printer.spool.share.name);
    let share = match policy.share(name) {
        Some(share) => Some(share.clone()),
        None => call.server.printer_share(&policy, name).await,
    };
    let share = share.filter(|share| share.available).ok_or(spoolss::error::INVALID_PRINTER_NAME)?;
    let queue = share.printing.as_ref().map(|printing| &*printing.queue);
    if queue != Some(&*opened.printer.queue.queue) {
        return Err(error::INVALID_HANDLE);
    }
    if call.caller.may_connect(&share).await { Ok(()) } else { Err(error::ACCESS_DENIED) }
}

/// Returns what a queue does, and its jobs.
pub(super) async fn queue(call: &Call<'_>, opened: &Opened) -> Result<Arc<QueueJobs>, u32> {
    check(call, opened).await?;
    let system = call.server.print_system().ok_or(spoolss::error::NOT_READY)?;
    system.jobs(&opened.printer.queue, &opened.printer.user).await.map_err(|why| failed(opened, why))
}

/// Changes a job or the queue.
pub(super) async fn control(call: &Call<'_>, opened: &Opened, action: Action) -> Result<(), u32> {
    check(call, opened).await?;
    let system = call.server.print_system().ok_or(spoolss::error::NOT_READY)?;
    system.control(&opened.printer.queue, &opened.printer.user, action).await.map_err(|why| failed(opened, why))
}

fn failed(opened: &Opened, why: PrintError) -> u32 {
    tracing::debug!(queue = opened.printer.queue.queue, "the print system refuses a request: {why}");
    handles::error_of(&why.into())
}

/// RpcGetPrinter.
pub(super) async fn get(call: &Call<'_>, asked: GetPrinter) -> Vec<u8> {
    let found = match handles::find(call, &asked.handle) {
        Ok(Object::Printer(opened)) => describe(call, &opened, &asked).await,
        Ok(Object::Server) => describe_server(call, &asked),
        Err(status) => Err(status),
    };
    Answer::one(asked.buffer, found)
}

/// Returns what there is to know about the server: its security descriptor.
fn describe_server(call: &Call<'_>, asked: &GetPrinter) -> Result<Answer, u32> {
    const SECURITY: u32 = 3;
    let mut answer = Answer::new(call, asked.buffer)?;
    if asked.level != SECURITY {
        return Err(error::INVALID_LEVEL);
    }
    answer.infos.begin();
    answer.infos.bytes(&handles::server_descriptor());
    Ok(answer)
}

async fn describe(call: &Call<'_>, opened: &Opened, asked: &GetPrinter) -> Result<Answer, u32> {
    let mut answer = Answer::new(call, asked.buffer)?;
    if !LEVELS.contains(&asked.level) {
        return Err(error::INVALID_LEVEL);
    }
    // A printer is shown although its print system does not answer.
    check(call, opened).await?;
    let queue = if has_queue(asked.level) { queue(call, opened).await.ok() } else { None };
    let (comment, location) = texts(call.server, &*session_policy(call).await, opened).await;
    let share = &opened.printer.spool.share;
    let shown = Shown {
        server: &opened.server,
        share: &share.name,
        comment: &comment,
        location: &location,
        guests: share.access.guest_ok,
        queue,
    };
    shown.encode(asked.level, &mut answer.infos);
    Ok(answer)
}

/// Returns the comment and the location of a printer. The print system has the comment of a queue of `[printers]`.
async fn texts(server: &Server, policy: &Policy, opened: &Opened) -> (String, String) {
    let share: &Share = &opened.printer.spool.share;
    let queues = server.queues().await;
    let info = queues.iter().find(|queue| queue.name == opened.printer.queue.queue);
    let described = info.filter(|info| policy.share(&share.name).is_none() && !info.description.is_empty());
    let comment = described.map_or(&share.comment, |info| &info.description).clone();
    (comment, info.map(|info| info.location.clone()).unwrap_or_default())
}

/// Returns the number that RpcGetPrinterData returns as ChangeID.
pub(super) async fn change_id_of(call: &Call<'_>, opened: &Opened) -> u32 {
    let (comment, location) = texts(call.server, &*session_policy(call).await, opened).await;
    change_id(&[&opened.printer.spool.share.name, &comment, &location])
}

/// RpcSetPrinter: administrators stop a queue, start it, and delete its jobs. Its properties are those of the
/// configuration and of the print system.
pub(super) async fn set(call: &Call<'_>, asked: SetPrinter) -> Vec<u8> {
    let done = match handles::printer(call, &asked.handle) {
        Ok(opened) => change(call, &opened, asked.command).await,
        Err(status) => Err(status),
    };
    spoolss::status_response(done.err().unwrap_or(error::SUCCESS))
}

async fn change(call: &Call<'_>, opened: &Opened, command: Option<u32>) -> Result<(), u32> {
    if !opened.has(rights::PRINTER_ACCESS_ADMINISTER) {
        return Err(error::ACCESS_DENIED);
    }
    let action = match command {
        Some(printer_control::PAUSE) => Action::Pause,
        Some(printer_control::RESUME) => Action::Resume,
        Some(printer_control::PURGE) => Action::Purge,
        Some(_) => return Err(spoolss::error::INVALID_PRINTER_COMMAND),
        None => return Err(error::NOT_SUPPORTED),
    };
    control(call, opened, action).await
}

/// RpcResetPrinter: the handle keeps no settings that could be reset.
pub(super) async fn reset(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    spoolss::status_response(handles::printer(call, &handle).err().unwrap_or(error::SUCCESS))
}

/// RpcWaitForPrinterChange, which would wait.
pub(super) async fn wait(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let known = handles::find(call, &handle).map(|_: Object| ());
    spoolss::number_response(known.and(Err(error::NOT_SUPPORTED)))
}

/// Refuses to notify a client, which then asks now and then. Notifications need a connection to the client.
pub(super) async fn no_notification(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let known = handles::find(call, &handle).map(|_: Object| ());
    spoolss::status_response(known.err().unwrap_or(error::NOT_SUPPORTED))
}

/// RpcRouterRefreshPrinterChangeNotification, after which a client asks.
pub(super) async fn nothing_new(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let known = handles::find(call, &handle).map(|_: Object| ());
    spoolss::no_notification_response(known.err().unwrap_or(error::NOT_SUPPORTED))
}
