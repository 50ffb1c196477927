//! Printers.

use std::sync::Arc;
use std::time::Duration;

use printing::{Address, Printcap};
use server::policy::limits::LISTED_JOBS_MAX;
use server::policy::printing::{CommandLine, ListForm, QueueCommands, QueueSystem};
use server::policy::{PrintPolicy, Share};

use super::{BOOL, COUNT, Global, NUMBER, PATH, Parameter, TEXT, global, share};
use crate::problem::{Code, error, warning};
use crate::reader::{Reader, ValueReader};

const DRIVERS: &str = "clients use their own drivers";
const PRINT_SYSTEM: &str = "printers are added to the print system of the host";
const NO_NOTIFICATIONS: &str = "clients are not notified about jobs; they ask";

/// The directory of the files of jobs if a share has no `path`.
pub(super) const SPOOL: &str = "/var/tmp";

pub(crate) const PRINTABLE: Parameter =
    share("printable", BOOL, "no", "The share is a printer.").also(&["print ok"]).reads(|value, share| {
        if value.boolean() {
            share.printing = policy(&value.section, share).map(Arc::new);
        }
    });

const PRINTING: Parameter =
    share("printing", TEXT, "cups", "The print system of the share: cups, or bsd, lprng, plp, sysv with commands.")
        .read_by_others();

const PRINTER_NAME: Parameter =
    share("printer name", TEXT, "", "The queue of the share; the name of the share if it is not set.")
        .also(&["printer"])
        .read_by_others();

const PRINT: Parameter =
    share("print command", TEXT, "", "A command, without a shell, that prints the file %s.").read_by_others();
const LPQ: Parameter =
    share("lpq command", TEXT, "%p", "A command, without a shell, that lists the queue %p.").read_by_others();
const LPRM: Parameter =
    share("lprm command", TEXT, "", "A command, without a shell, that deletes the job %j.").read_by_others();
const LPPAUSE: Parameter =
    share("lppause command", TEXT, "", "A command, without a shell, that holds the job %j.").read_by_others();
const LPRESUME: Parameter =
    share("lpresume command", TEXT, "", "A command, without a shell, that releases the job %j.").read_by_others();
const QUEUE_PAUSE: Parameter =
    share("queuepause command", TEXT, "", "A command, without a shell, that stops the queue %p.").read_by_others();
const QUEUE_RESUME: Parameter =
    share("queueresume command", TEXT, "", "A command, without a shell, that starts the queue %p.").read_by_others();
const MAX_REPORTED: Parameter =
    share("max reported print jobs", NUMBER, "0", "Maximum number of listed jobs; 0: no limit.").read_by_others();
const CUPS_OPTIONS: Parameter =
    share("cups options", TEXT, "", "Options of CUPS for each job, such as raw or media=A4.").read_by_others();
const MAX_JOBS: Parameter =
    share("max print jobs", NUMBER, "1000", "Maximum number of jobs in a queue, up to 10,000; 0: no limit.")
        .read_by_others();
const MIN_SPACE: Parameter = share("min print space", NUMBER, "0", "KiB that must be free for a job.").read_by_others();
const USER_NAME: Parameter =
    share("printjob username", TEXT, "%U", "The name of a job's owner in the print system.").read_by_others();

const PRINTCAP_NAME: Parameter =
    global("printcap name", PATH, "", "The list of queues: cups, or a file such as /etc/printcap.")
        .also(&["printcap"])
        .reads(read_printcap);

pub(super) static TABLE: &[Parameter] = &[
    PRINTABLE,
    PRINTING,
    PRINTER_NAME,
    PRINT,
    LPQ,
    LPRM,
    LPPAUSE,
    LPRESUME,
    QUEUE_PAUSE,
    QUEUE_RESUME,
    global("lpq cache time", COUNT, "30", "Seconds for which the jobs in a queue are cached.")
        .reads(|value, global| global.daemon.printing.lpq_cache_time = seconds(value)),
    global("load printers", BOOL, "yes", "List the queues of the host, if there is a section [printers].")
        .reads(|value, global| global.policy.load_printers = value.boolean()),
    PRINTCAP_NAME,
    global("printcap cache time", COUNT, "750", "Seconds for which the list of queues is cached.")
        .reads(|value, global| global.daemon.printing.printcap_cache_time = seconds(value)),
    global("cups server", TEXT, "", "CUPS: a host, HOST:PORT, or a socket; by default that of this host.")
        .reads(read_cups_server),
    global("cups encrypt", TEXT, "no", "Use TLS for connections to CUPS.").unserved("TLS to CUPS"),
    global("cups connection timeout", COUNT, "30", "Seconds in which CUPS must have taken over a job; 0: the default.")
        .reads(|value, global| global.daemon.printing.cups_connection_timeout = seconds(value)),
    CUPS_OPTIONS,
    global("iprint server", TEXT, "", "The address of the iPrint server.").unserved("iPrint"),
    share("default devmode", BOOL, "yes", "Provide default settings for drivers.").accepted(DRIVERS),
    share("force printername", BOOL, "no", "Show printers under the share's name.")
        .accepted("printers always have the name of their share"),
    MAX_JOBS,
    MAX_REPORTED,
    MIN_SPACE,
    USER_NAME,
    share("print notify backchannel", BOOL, "no", "Notify clients about jobs on a separate connection.")
        .accepted(NO_NOTIFICATIONS),
    share("use client driver", BOOL, "no", "Let clients use their own drivers.").accepted(DRIVERS),
    global("show add printer wizard", BOOL, "yes", "Show the wizard in the printers folder.").accepted(PRINT_SYSTEM),
    global("disable spoolss", BOOL, "no", "Refuse the spoolss pipe, by which clients see printers and jobs.")
        .also(&["!enable spoolss"])
        .reads(|value, global| global.policy.disable_spoolss = value.boolean()),
    global("addprinter command", TEXT, "", "A command that adds a printer.").accepted(PRINT_SYSTEM),
    global("deleteprinter command", TEXT, "", "A command that deletes a printer.").accepted(PRINT_SYSTEM),
    global("addport command", TEXT, "", "A command that adds a port.").accepted(PRINT_SYSTEM),
    global("enumports command", TEXT, "", "A command that lists ports.").accepted(PRINT_SYSTEM),
    global("os2 driver map", PATH, "", "Map of driver names for OS/2.").accepted(DRIVERS),
];

fn seconds(value: ValueReader<'_>) -> Duration {
    Duration::from_secs(value.number().unwrap_or(u64::MAX >> 1))
}

fn read_cups_server(value: ValueReader<'_>, global: &mut Global) {
    match Address::parse(&value.text()) {
        Some(address) => global.daemon.printing.cups_server = address,
        None => value.bad_value(&value.normalized(), "a host, HOST:PORT, [ADDRESS]:PORT, or the path of a socket"),
    }
}

fn read_printcap(value: ValueReader<'_>, global: &mut Global) {
    let printing = value.of(&PRINTING).normalized();
    global.daemon.printing.printcap_name = match &*value.text() {
        "" if is_cups(&printing) => Printcap::Cups,
        "" => Printcap::File("/etc/printcap".into()),
        "cups" => Printcap::Cups,
        path if path.starts_with('/') => Printcap::File(path.into()),
        other => {
            let message = format!("`{other}` is not a list of queues, so the queues of this host are not shared");
            let remedy = "write `cups` or the path of a file such as /etc/printcap";
            value.report(warning(Code::BadValue, message).remedy(remedy));
            Printcap::File("/dev/null".into())
        }
    };
}

fn is_cups(printing: &str) -> bool {
    printing.eq_ignore_ascii_case("cups")
}

/// The defaults of the commands, as in Samba, without what needs a shell: print, lpq, lprm, lppause, lpresume,
/// queuepause, queueresume.
const LPR: [&str; 7] = ["lpr -P%p %s", "lpq -P%p", "lprm -P%p %j", "", "", "", ""];
const LPRNG: [&str; 7] =
    ["lpr -P%p %s", "lpq -P%p", "lprm -P%p %j", "lpc hold %p %j", "lpc release %p %j", "lpc stop %p", "lpc start %p"];
const LP: [&str; 7] = [
    "lp -c -d%p %s",
    "lpstat -o%p",
    "cancel %p-%j",
    "lp -i %p-%j -H hold",
    "lp -i %p-%j -H resume",
    "disable %p",
    "enable %p",
];

/// Returns how a print share prints; `None`, with an error, if it cannot.
pub(crate) fn policy(reader: &Reader<'_>, share: &Share) -> Option<PrintPolicy> {
    let queue = reader.value(&PRINTER_NAME).text();
    let min_space = reader.value(&MIN_SPACE).number::<u64>().unwrap_or(0).saturating_mul(1024);
    Some(PrintPolicy {
        queue: if queue.is_empty() { share.name.clone() } else { queue },
        system: system(reader)?,
        user_name: reader.value(&USER_NAME).template(),
        min_space,
        max_jobs: max_jobs(&reader.value(&MAX_JOBS)),
        max_reported: reader.value(&MAX_REPORTED).number().unwrap_or(0),
    })
}

/// Returns the maximum number of jobs. More than this cannot be counted.
fn max_jobs(value: &ValueReader<'_>) -> usize {
    let number = value.number().unwrap_or(0);
    if number > LISTED_JOBS_MAX {
        let message = format!("`max print jobs = {number}` is more than the {LISTED_JOBS_MAX} jobs that are counted");
        value.report(warning(Code::BadValue, message).remedy("write 10000 or less, or 0 for no limit"));
    }
    number.min(LISTED_JOBS_MAX)
}

/// Returns the print system of a share; `None`, with an error, if there is none.
pub(crate) fn system(reader: &Reader<'_>) -> Option<QueueSystem> {
    let printing = reader.value(&PRINTING);
    let (defaults, form) = match &*printing.normalized().to_ascii_lowercase() {
        "cups" => return Some(QueueSystem::Cups { options: options(&reader.value(&CUPS_OPTIONS).text()) }),
        "bsd" | "plp" => (LPR, ListForm::Bsd),
        "lprng" => (LPRNG, ListForm::Lprng),
        "sysv" | "hpux" => (LP, ListForm::Sysv),
        other => {
            printing.bad_value(other, "cups, bsd, lprng, plp, sysv or hpux");
            return None;
        }
    };
    let [print, list, cancel, hold, release, pause, resume] = defaults;
    let print = command(reader.value(&PRINT), print)?;
    let commands = QueueCommands {
        list: command(reader.value(&LPQ), list)?,
        cancel: command(reader.value(&LPRM), cancel)?,
        hold: command(reader.value(&LPPAUSE), hold)?,
        release: command(reader.value(&LPRESUME), release)?,
        pause: command(reader.value(&QUEUE_PAUSE), pause)?,
        resume: command(reader.value(&QUEUE_RESUME), resume)?,
        form,
        print: print.or_else(|| {
            reader.value(&PRINT).bad_value("", "a command that prints the file %s");
            None
        })?,
    };
    Some(QueueSystem::Commands(Arc::new(commands)))
}

/// Returns a command, or its default if it is not set. The outer `None` is an error, the inner one an empty command.
fn command(value: ValueReader<'_>, default: &str) -> Option<Option<CommandLine>> {
    let text = if value.is_set() { value.normalized() } else { default.to_owned() };
    if text.trim().is_empty() {
        return Some(None);
    }
    match CommandLine::parse(&text) {
        Ok(command) => {
            if let Some(letter) = command.exposed() {
                let name = value.name();
                let message = format!(
                    "an argument of `{name}` begins with %{letter}, whose value clients choose, so it may be an option"
                );
                let remedy = format!("write `-- %{letter}` or a text before it, such as --title=%{letter}");
                value.report(warning(Code::BadValue, message).remedy(remedy));
            }
            Some(Some(command))
        }
        Err(why) => {
            let message = format!("`{}` cannot be executed: {why}", value.name());
            let remedy = "write an executable script, and name it with the variables as its arguments; use '...' or \\ \
                          for a character that a shell would interpret";
            value.report(error(Code::BadValue, message).remedy(remedy));
            None
        }
    }
}

/// Returns the options of a text such as `raw media=A4`. A name alone is a truth value, and `noNAME` is its opposite.
fn options(text: &str) -> Vec<(String, String)> {
    let words = text.split([' ', '\t', '"', '\'']).filter(|word| !word.is_empty());
    let option = |word: &str| match (word.split_once('='), word.strip_prefix("no")) {
        (Some((name, value)), _) => (name.to_owned(), value.to_owned()),
        (None, Some(name)) if !name.is_empty() => (name.to_owned(), "false".to_owned()),
        (None, _) => (word.to_owned(), "true".to_owned()),
    };
    words.map(option).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_names_values_and_truth_values() {
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(options(""), []);
        let expected = [option("raw", "true"), option("media", "A4"), option("collate", "false")];
        assert_eq!(options("\"raw  media=A4 nocollate\""), expected);
    }
}
