//! Printers.

use super::{BOOL, COMMANDS, NUMBER, PATH, Parameter, TEXT, global, share};

const PRINTING: &str = "printing";

pub(super) static TABLE: &[Parameter] = &[
    share("printable", BOOL, "no", "The share is a printer.").also(&["print ok"]).unserved(PRINTING),
    share("printing", TEXT, "cups", "The print system.").unserved(PRINTING),
    share("printer name", TEXT, "", "The queue of the share.").also(&["printer"]).unserved(PRINTING),
    share("print command", TEXT, "", "A command that prints a file.").unserved(COMMANDS),
    share("lpq command", TEXT, "%p", "A command that lists a queue.").unserved(COMMANDS),
    share("lprm command", TEXT, "", "A command that deletes a job.").unserved(COMMANDS),
    share("lppause command", TEXT, "", "A command that holds a job.").unserved(COMMANDS),
    share("lpresume command", TEXT, "", "A command that releases a job.").unserved(COMMANDS),
    share("queuepause command", TEXT, "", "A command that holds a queue.").unserved(COMMANDS),
    share("queueresume command", TEXT, "", "A command that releases a queue.").unserved(COMMANDS),
    global("lpq cache time", NUMBER, "30", "Seconds for which a list of jobs is cached.").unserved(PRINTING),
    global("load printers", BOOL, "yes", "Share all printers of the host.").unserved(PRINTING),
    global("printcap name", PATH, "", "The list of printers.").also(&["printcap"]).unserved(PRINTING),
    global("printcap cache time", NUMBER, "750", "Seconds for which the list of printers is cached.")
        .unserved(PRINTING),
    global("cups server", TEXT, "", "The CUPS server.").unserved(PRINTING),
    global("cups encrypt", TEXT, "no", "Use TLS for connections to CUPS.").unserved(PRINTING),
    global("cups connection timeout", NUMBER, "30", "Timeout of connections to CUPS in seconds.").unserved(PRINTING),
    share("cups options", TEXT, "", "CUPS options of each job.").unserved(PRINTING),
    global("iprint server", TEXT, "", "The iPrint server.").unserved(PRINTING),
    share("default devmode", BOOL, "yes", "Provide default settings for drivers.").unserved(PRINTING),
    share("force printername", BOOL, "no", "Show printers under the share's name.").unserved(PRINTING),
    share("max print jobs", NUMBER, "1000", "Maximum number of jobs in a queue.").unserved(PRINTING),
    share("max reported print jobs", NUMBER, "0", "Maximum number of listed jobs.").unserved(PRINTING),
    share("min print space", NUMBER, "0", "KiB that must be free for a job.").unserved(PRINTING),
    share("printjob username", TEXT, "%U", "The user name of print jobs.").unserved(PRINTING),
    share("print notify backchannel", BOOL, "no", "Notify clients about jobs on a separate connection.")
        .unserved(PRINTING),
    share("use client driver", BOOL, "no", "Let clients use their own drivers.").unserved(PRINTING),
    global("show add printer wizard", BOOL, "yes", "Show the wizard in the printers folder.").unserved(PRINTING),
    global("disable spoolss", BOOL, "no", "Disable the spoolss pipe.").also(&["!enable spoolss"]).unserved(PRINTING),
    global("addprinter command", TEXT, "", "A command that adds a printer.").unserved(COMMANDS),
    global("deleteprinter command", TEXT, "", "A command that deletes a printer.").unserved(COMMANDS),
    global("addport command", TEXT, "", "A command that adds a port.").unserved(COMMANDS),
    global("enumports command", TEXT, "", "A command that lists ports.").unserved(COMMANDS),
    global("os2 driver map", PATH, "", "Map of driver names for OS/2.").unserved(PRINTING),
];
