//! Printers.

use super::{BOOL, NUMBER, PATH, Parameter, TEXT, global, share};

const PRINTING: &str = "printing";
const PRINTERS_ONLY: &str = "only printers use it, and printing is not supported";

pub(crate) const PRINTABLE: Parameter =
    share("printable", BOOL, "no", "The share is a printer.").also(&["print ok"]).unserved(PRINTING);

pub(crate) const LOAD_PRINTERS: Parameter =
    global("load printers", BOOL, "yes", "Share all printers of the host.").accepted(PRINTERS_ONLY);

pub(crate) const PRINTCAP_NAME: Parameter =
    global("printcap name", PATH, "", "The list of printers.").also(&["printcap"]).accepted(PRINTERS_ONLY);

pub(super) static TABLE: &[Parameter] = &[
    PRINTABLE,
    share("printing", TEXT, "cups", "The print system of the host.").accepted(PRINTERS_ONLY),
    share("printer name", TEXT, "", "The queue of the share.").also(&["printer"]).accepted(PRINTERS_ONLY),
    share("print command", TEXT, "", "A command that prints a file.").accepted(PRINTERS_ONLY),
    share("lpq command", TEXT, "%p", "A command that lists a queue.").accepted(PRINTERS_ONLY),
    share("lprm command", TEXT, "", "A command that deletes a job.").accepted(PRINTERS_ONLY),
    share("lppause command", TEXT, "", "A command that holds a job.").accepted(PRINTERS_ONLY),
    share("lpresume command", TEXT, "", "A command that releases a job.").accepted(PRINTERS_ONLY),
    share("queuepause command", TEXT, "", "A command that holds a queue.").accepted(PRINTERS_ONLY),
    share("queueresume command", TEXT, "", "A command that releases a queue.").accepted(PRINTERS_ONLY),
    global("lpq cache time", NUMBER, "30", "Seconds for which a list of jobs is cached.").accepted(PRINTERS_ONLY),
    LOAD_PRINTERS,
    PRINTCAP_NAME,
    global("printcap cache time", NUMBER, "750", "Seconds for which the list of printers is cached.")
        .accepted(PRINTERS_ONLY),
    global("cups server", TEXT, "", "The address of the CUPS server.").accepted(PRINTERS_ONLY),
    global("cups encrypt", TEXT, "no", "Use TLS for connections to CUPS.").accepted(PRINTERS_ONLY),
    global("cups connection timeout", NUMBER, "30", "Timeout of connections to CUPS in seconds.")
        .accepted(PRINTERS_ONLY),
    share("cups options", TEXT, "", "CUPS options of each job.").accepted(PRINTERS_ONLY),
    global("iprint server", TEXT, "", "The address of the iPrint server.").accepted(PRINTERS_ONLY),
    share("default devmode", BOOL, "yes", "Provide default settings for drivers.").accepted(PRINTERS_ONLY),
    share("force printername", BOOL, "no", "Show printers under the share's name.").accepted(PRINTERS_ONLY),
    share("max print jobs", NUMBER, "1000", "Maximum number of jobs in a queue.").accepted(PRINTERS_ONLY),
    share("max reported print jobs", NUMBER, "0", "Maximum number of listed jobs.").accepted(PRINTERS_ONLY),
    share("min print space", NUMBER, "0", "KiB that must be free for a job.").accepted(PRINTERS_ONLY),
    share("printjob username", TEXT, "%U", "The user name of print jobs.").accepted(PRINTERS_ONLY),
    share("print notify backchannel", BOOL, "no", "Notify clients about jobs on a separate connection.")
        .accepted(PRINTERS_ONLY),
    share("use client driver", BOOL, "no", "Let clients use their own drivers.").accepted(PRINTERS_ONLY),
    global("show add printer wizard", BOOL, "yes", "Show the wizard in the printers folder.").accepted(PRINTERS_ONLY),
    global("disable spoolss", BOOL, "no", "Disable the spoolss pipe.")
        .also(&["!enable spoolss"])
        .accepted(PRINTERS_ONLY),
    global("addprinter command", TEXT, "", "A command that adds a printer.").accepted(PRINTERS_ONLY),
    global("deleteprinter command", TEXT, "", "A command that deletes a printer.").accepted(PRINTERS_ONLY),
    global("addport command", TEXT, "", "A command that adds a port.").accepted(PRINTERS_ONLY),
    global("enumports command", TEXT, "", "A command that lists ports.").accepted(PRINTERS_ONLY),
    global("os2 driver map", PATH, "", "Map of driver names for OS/2.").accepted(PRINTERS_ONLY),
];
