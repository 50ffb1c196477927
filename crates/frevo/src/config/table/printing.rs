//! Printers.

use super::{BOOL, COMMANDS, NUMBER, PATH, Parameter, TEXT, global, share};

const PRINTING: &str = "printing";

pub(super) static TABLE: &[Parameter] = &[
    share("printable", BOOL, "no", "The share is a printer.").also(&["print ok"]).unserved(PRINTING),
    share("printing", TEXT, "cups", "The kind of print system.").unserved(PRINTING),
    share("printer name", TEXT, "", "The queue of the share.").also(&["printer"]).unserved(PRINTING),
    share("print command", TEXT, "", "A command that prints a file.").unserved(COMMANDS),
    share("lpq command", TEXT, "%p", "A command that lists a queue.").unserved(COMMANDS),
    share("lprm command", TEXT, "", "A command that deletes a job.").unserved(COMMANDS),
    share("lppause command", TEXT, "", "A command that holds a job.").unserved(COMMANDS),
    share("lpresume command", TEXT, "", "A command that releases a job.").unserved(COMMANDS),
    share("queuepause command", TEXT, "", "A command that holds a queue.").unserved(COMMANDS),
    share("queueresume command", TEXT, "", "A command that releases a queue.").unserved(COMMANDS),
    global("lpq cache time", NUMBER, "30", "Seconds that a list of jobs counts.").unserved(PRINTING),
    global("load printers", BOOL, "yes", "Share all printers of the host.").unserved(PRINTING),
    global("printcap name", PATH, "", "The list of printers.").also(&["printcap"]).unserved(PRINTING),
    global("printcap cache time", NUMBER, "750", "Seconds that it counts.").unserved(PRINTING),
    global("cups server", TEXT, "", "The CUPS server.").unserved(PRINTING),
    global("cups encrypt", TEXT, "no", "Talk to it over TLS.").unserved(PRINTING),
    global("cups connection timeout", NUMBER, "30", "Seconds to wait for it.").unserved(PRINTING),
    share("cups options", TEXT, "", "Options of each job.").unserved(PRINTING),
    global("iprint server", TEXT, "", "The iPrint server.").unserved(PRINTING),
    share("default devmode", BOOL, "yes", "Give drivers default settings.").unserved(PRINTING),
    share("force printername", BOOL, "no", "Show printers under the share's name.").unserved(PRINTING),
    share("max print jobs", NUMBER, "1000", "How many jobs a queue may have.").unserved(PRINTING),
    share("max reported print jobs", NUMBER, "0", "How many jobs are listed.").unserved(PRINTING),
    share("min print space", NUMBER, "0", "KiB that must be free for a job.").unserved(PRINTING),
    share("printjob username", TEXT, "%U", "The name that jobs are printed under.").unserved(PRINTING),
    share("print notify backchannel", BOOL, "no", "Call clients back about jobs.").unserved(PRINTING),
    share("use client driver", BOOL, "no", "Clients have drivers of their own.").unserved(PRINTING),
    global("show add printer wizard", BOOL, "yes", "Show the wizard in the printers folder.").unserved(PRINTING),
    global("disable spoolss", BOOL, "no", "Do without the spoolss pipe.").also(&["!enable spoolss"]).unserved(PRINTING),
    global("addprinter command", TEXT, "", "A command that adds a printer.").unserved(COMMANDS),
    global("deleteprinter command", TEXT, "", "A command that deletes one.").unserved(COMMANDS),
    global("addport command", TEXT, "", "A command that adds a port.").unserved(COMMANDS),
    global("enumports command", TEXT, "", "A command that lists ports.").unserved(COMMANDS),
    global("os2 driver map", PATH, "", "Names of drivers for OS/2.").unserved(PRINTING),
];
