//! The requirements of a configuration on the serving process, determined before anything else.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::policy::fold;
use server::policy::printing::{CommandLine, QueueSystem};
use server::vfs::Identity;

use super::problem::Problems;
use super::reader::Reader;
use super::share::modules;
use super::table::access::OBEY_PAM;
use super::table::acls;
use super::table::daemon::{CONSOLE, SANDBOX};
use super::table::files::QUOTAS;
use super::table::printing::{self, PRINTABLE};
use super::{Names, read, read_file, resolve, server_variables};

/// The requirements of a configuration on the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confinement {
    /// `frevo:sandbox`.
    pub wanted: bool,
    /// Whether a share in a directory stores Windows ACLs in an attribute that only root may write. A share that only a
    /// session has may do so, too. Also if administrators of a share manage quotas, which needs the same capability.
    pub describes: bool,
    /// `obey pam restrictions`: the modules of PAM need the original privileges.
    pub pam: bool,
    /// `frevo:console`: a process with the original privileges starts the console.
    pub console: bool,
    /// The commands of print shares, which a process with the original privileges executes.
    pub print_commands: Vec<CommandLine>,
}

/// Reads the requirements from the configuration in `path`.
///
/// Users and groups of the host are not looked up, because a name service library may start threads and each thread
/// keeps the privileges that the process had at that time. Errors in the configuration are ignored here, because they
/// are reported when it is loaded.
pub fn confinement(path: Option<&Path>, names: &dyn Names) -> Confinement {
    let mut confinement =
        Confinement { wanted: true, describes: false, pam: false, console: false, print_commands: Vec::new() };
    let Some(path) = path else { return confinement };
    let mut problems = Problems::default();
    let raw = read(path, &read_file, names, &mut problems);
    let resolved = resolve::resolve(&raw, &mut problems);
    let variables = server_variables(&resolved, names, &mut problems);
    let problems = RefCell::new(problems);
    let mut reader = Reader { global: &resolved.global, share: None, variables: &variables, problems: &problems };
    confinement.pam = reader.value(&OBEY_PAM).boolean();
    confinement.console = reader.value(&CONSOLE).boolean();
    confinement.wanted = reader.value(&SANDBOX).boolean();
    confinement.describes = !raw.includes.is_empty();
    for section in &resolved.shares {
        reader.share = Some(section);
        let is_printer = reader.value(&PRINTABLE).boolean() || fold(&section.name) == "printers";
        if is_printer && let Some(QueueSystem::Commands(commands)) = printing::system(&reader) {
            confinement.print_commands.extend(commands.all().cloned());
        }
        // The servers of a volume write its attributes.
        let is_here = !modules::is_in_volume(&reader);
        confinement.describes |= is_here
            && (reader.value(&QUOTAS).boolean()
                || acls::stored(&reader).is_some_and(|acls| !acls.attribute.starts_with("user.")));
    }
    confinement
}

/// A host on which users and groups are not looked up.
pub struct NoUsers;

impl Names for NoUsers {
    fn user(&self, _: &str) -> Result<Option<Arc<Identity>>, String> {
        Ok(None)
    }

    fn group(&self, _: &str) -> Result<Option<u32>, String> {
        Ok(None)
    }

    fn home(&self, _: &str, _: Option<u32>) -> Result<Option<PathBuf>, String> {
        Ok(None)
    }

    fn host(&self) -> String {
        crate::host::host_name()
    }

    fn environment(&self, variable: &str) -> Option<String> {
        std::env::var(variable).ok()
    }
}
