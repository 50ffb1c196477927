//! Reads smb.conf: text -> [`server::policy::Policy`] and [`Daemon`], in two stages.
//!
//! Stage one (`lines`, `raw`) handles the syntax of the file: sections, continued lines, includes. Every element keeps
//! its file and line. Between the stages, `resolve` looks up each name in the one [`table`]. Stage two (`policy`,
//! `share`) runs the functions of the table, which build values that the server uses without the text. All problems are
//! collected; a problem does not stop the search for the next one. A problem of a share does not stop the other shares
//! (`faults`).
//!
//! [`load`] reads only files and the answers of [`Names`], and changes nothing. A reload is a second call.
//!
//! - `sessions` builds the policies of single sessions, and `user_shares` the shares that users define, while the
//!   server runs. `registry` reads the copy of Samba's registry, and [`added`] the shares that Frevo itself added.
//! - [`Effective`] is the values in effect, for `frevo check`.
//! - [`host`] answers [`Names`] for this machine, and [`interfaces`] lists its addresses.
//! - [`location`] looks up the state directory and the back ends of accounts, for the server and for commands.
//! - [`man`] is the manual page of all parameters.
//!
//! Settings of the accounts, the domain and the policy are defined by the crates that use them. Unsafe code is confined
//! to [`interfaces`].
#![deny(unsafe_code)]

mod acl_store;
pub mod added;
mod comment;
mod confinement;
mod daemon;
mod defaults;
mod effective;
mod faults;
mod homes;
pub mod host;
mod idmap;
#[allow(unsafe_code)]
pub mod interfaces;
pub mod kerberos;
mod lines;
mod lists;
pub mod location;
pub mod man;
mod membership;
mod obsolete;
mod openid;
mod policy;
mod printers;
mod problem;
mod raw;
mod reader;
mod registry;
#[allow(unsafe_code)]
mod regular_expression;
mod resolve;
mod sessions;
mod share;
pub mod table;
mod user_shares;
mod value;
mod variables;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::policy::{Policy, SessionValues};
use server::vfs::Identity;

pub use acl_store::parse as parse_acl_store;

pub use confinement::{Confinement, NoUsers, confinement};
pub use daemon::{ConsoleSettings, Daemon, LogTarget};
pub use effective::{Effective, Section};
pub use lists::{InterfaceChoice, InterfacePattern, LogLevel, SocketOption};
pub use openid::OpenId;
pub use problem::{Code, Place, Problem, Problems, Severity, UNAVAILABLE, WITHOUT_EFFECT, warning};

use added::Added;
use problem::error;
use raw::{Raw, Setting};
use reader::Reader;
use resolve::Resolved;
use sessions::Sessions;
use table::Global;
use table::access::PASSDB_BACKEND;
use table::daemon::{CONFIG_FILE, STATE_DIRECTORY};
use table::protocol::{NETBIOS_NAME, WORKGROUP};
use table::share::{READ_ONLY, SHARED_PATH};
use variables::ServerVariables;

use accounts::PassdbBackend;

/// The longest configuration file, bytes.
const LARGEST_FILE: u64 = 16 << 20;

/// The loader's access to the host.
pub trait Names {
    /// Returns the UNIX user `name`: `None` if there is no such user, an error if the look-up failed.
    fn user(&self, name: &str) -> Result<Option<Arc<Identity>>, String>;
    /// Returns the gid of the UNIX group `name`.
    fn group(&self, name: &str) -> Result<Option<u32>, String>;
    /// Returns the home directory of the UNIX user `name`, or of the user with the number `uid` if the number is given.
    fn home(&self, _name: &str, _uid: Option<u32>) -> Result<Option<PathBuf>, String> {
        Ok(None)
    }
    /// Returns the same host for look-ups while the server runs; `None` if such look-ups are not allowed.
    fn owned(&self) -> Option<Arc<dyn Names + Send + Sync>> {
        None
    }
    /// Returns the host's name, for `%h` and as the default of `netbios name`.
    fn host(&self) -> String;
    /// Returns a variable of the server's environment, for `%$(NAME)`.
    fn environment(&self, variable: &str) -> Option<String>;
}

/// A configuration that the server can run with.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// For the protocol.
    pub policy: Policy,
    /// For the process.
    pub daemon: Daemon,
    /// Warnings and notes.
    pub warnings: Problems,
    /// The values in effect, for `frevo check`.
    pub effective: Effective,
    /// The sections of shares, with the lines where they begin; those of the command line have none.
    pub sections: Vec<(String, Option<Place>)>,
}

/// Where a configuration is read.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sources<'a> {
    /// The configuration file.
    pub config: Option<&'a Path>,
    /// Writable shares of the command line.
    pub shares: &'a [(String, PathBuf)],
    /// The shares that were added with `frevo share`.
    pub added: Added<'a>,
}

/// Returns the file that is read if none is named: Frevo's own, else Samba's, `None` if neither exists.
pub fn default_path() -> Option<PathBuf> {
    ["/etc/frevo/smb.conf", "/etc/samba/smb.conf"].map(PathBuf::from).into_iter().find(|path| path.exists())
}

/// Reads the configuration in `path` without added shares. The error contains all problems including warnings, and at
/// least one error.
pub fn load(path: &Path, names: &dyn Names) -> Result<Loaded, Problems> {
    load_from(&Sources { config: Some(path), ..Sources::default() }, names)
}

/// Reads a configuration.
pub fn load_from(sources: &Sources<'_>, names: &dyn Names) -> Result<Loaded, Problems> {
    let Sources { config: path, shares, added } = *sources;
    let mut problems = Problems::default();
    let files = RefCell::new(HashMap::new());
    let read_and_keep = |path: &Path| {
        let bytes = read_file(path)?;
        files.borrow_mut().insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    };
    let mut raw = match path {
        Some(path) => read(path, &read_and_keep, names, &mut problems),
        None => Raw::default(),
    };
    add_shares(&mut raw, shares, &mut problems);
    let configured = || state_directory(&raw, names).map_or_else(location::default_path, Ok).ok();
    let added = added.read(configured, &read_file, &mut problems);
    if let Some((file, text)) = &added {
        added::add(&mut raw, file, text, names, &mut problems);
    }
    let mut loaded = finish(&raw, problems, names)?;
    match path {
        Some(path) => {
            let sessions = Sessions::new(path, shares, added, names, files.into_inner(), raw.includes);
            loaded.policy.sessions = sessions.map(|sessions| Arc::new(sessions) as _);
        }
        // Nobody has configured them.
        None => loaded.policy.user_shares = None,
    }
    Ok(loaded)
}

/// Returns the `state directory` of a configuration that was read.
fn state_directory(raw: &Raw, names: &dyn Names) -> Option<PathBuf> {
    let read = |reader: &Reader<'_>| table::daemon::directory(reader.value(&STATE_DIRECTORY));
    read_global(raw.global.clone(), names, &mut Problems::default(), read)
}

/// Returns what `read` finds in `[global]`.
fn read_global<T>(
    global: Vec<Setting>,
    names: &dyn Names,
    problems: &mut Problems,
    read: impl FnOnce(&Reader<'_>) -> T,
) -> T {
    let mut ignored = Problems::default();
    let resolved = resolve::resolve(&Raw { global, ..Raw::default() }, &mut ignored);
    let variables = server_variables(&resolved, names, &mut ignored);
    let collected = RefCell::new(std::mem::take(problems));
    let result = read(&Reader { global: &resolved.global, share: None, variables: &variables, problems: &collected });
    *problems = collected.into_inner();
    result
}

/// Returns where the configuration in `path` keeps user accounts and other state, even if other parts are wrong.
pub fn places(path: &Path, names: &dyn Names) -> Result<Places, Problems> {
    let mut problems = Problems::default();
    let raw = read(path, &read_file, names, &mut problems);
    if problems.any_error() {
        return Err(problems);
    }
    let places = read_global(raw.global, names, &mut problems, |reader| Places {
        state_directory: table::daemon::directory(reader.value(&STATE_DIRECTORY)),
        passdb_backend: table::access::passdb_backend(reader.value(&PASSDB_BACKEND)),
    });
    if problems.any_error() { Err(problems) } else { Ok(places) }
}

/// Returns the settings with which users log on to the console through an issuer, even if other parts of the
/// configuration in `path` are wrong; `None` without an issuer.
pub fn openid(path: &Path, names: &dyn Names) -> Result<Option<OpenId>, Problems> {
    let mut problems = Problems::default();
    let raw = read(path, &read_file, names, &mut problems);
    if problems.any_error() {
        return Err(problems);
    }
    let settings = read_global(raw.global, names, &mut problems, openid::read);
    if problems.any_error() { Err(problems) } else { Ok(settings) }
}

/// The locations of the server's state.
pub struct Places {
    /// `state directory`; `None` if the configuration does not set it.
    pub state_directory: Option<PathBuf>,
    /// `passdb backend`.
    pub passdb_backend: Vec<PassdbBackend>,
}

fn read(path: &Path, read_file: raw::ReadFile<'_>, names: &dyn Names, problems: &mut Problems) -> Raw {
    read_for(path, read_file, names, None, problems)
}

/// Same as [`read`], with the files of a session in which variables have these values.
fn read_for(
    path: &Path,
    read_file: raw::ReadFile<'_>,
    names: &dyn Names,
    session: Option<&SessionValues>,
    problems: &mut Problems,
) -> Raw {
    let mut variables = ServerVariables {
        names,
        netbios_name: default_netbios_name(names),
        workgroup: "WORKGROUP".into(),
        share: None,
    };
    raw::read(path, read_file, &mut variables, session, problems)
}

fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    // O_NONBLOCK prevents a FIFO at this path from blocking the start; it has no effect on regular files.
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = options.read(true).open(path)?;
    if !file.metadata()?.is_file() && path != Path::new("/dev/null") {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= LARGEST_FILE => Ok(bytes),
        _ => Err(std::io::Error::other("it is larger than 16 MiB")),
    }
}

/// Adds the shares of the command line as sections.
fn add_shares(raw: &mut Raw, shares: &[(String, PathBuf)], problems: &mut Problems) {
    for (name, path) in shares {
        let folded = server::policy::fold(name);
        if let Err(why) = raw::check_share_name(name) {
            let problem = error(Code::BadSection, format!("`{name}` cannot be the name of a share: {why}"));
            problems.add(problem.of(name, "").remedy("choose another name in --share NAME=PATH"));
        } else if folded == "global" || raw.shares.iter().any(|share| server::policy::fold(&share.name) == folded) {
            let problem = error(Code::DuplicateShare, format!("the share `{name}` already exists"));
            problems.add(problem.of(name, "").remedy("choose another name in --share NAME=PATH"));
        } else if let Some(path) = path.to_str() {
            let setting = |name: &str, value: String| Setting { name: name.into(), value, place: None };
            let settings =
                vec![setting(SHARED_PATH.name, path.replace('%', "%%")), setting(READ_ONLY.name, "no".into())];
            let globals = raw.global.len();
            raw.shares.push(raw::Section { name: name.clone(), place: None, settings, globals });
        } else {
            let problem = error(Code::NotText, format!("the path {} is not valid UTF-8", path.display()));
            problems.add(problem.of(name, "").remedy("rename the directory, or share its parent directory"));
        }
    }
}

/// Runs stage two.
fn finish(raw: &Raw, mut problems: Problems, names: &dyn Names) -> Result<Loaded, Problems> {
    let resolved = resolve::resolve(raw, &mut problems);
    let variables = server_variables(&resolved, names, &mut problems);
    let problems = RefCell::new(problems);
    let reader = Reader { global: &resolved.global, share: None, variables: &variables, problems: &problems };
    let Global { mut policy, mut daemon } = policy::build(&reader, &resolved);
    let mut warnings = problems.into_inner();
    refuse_other_file(&resolved, &mut warnings);
    daemon.idmap = idmap::build(raw, policy.membership.as_ref(), &mut warnings);
    warnings.tidy();
    faults::disable(&mut policy, &warnings);
    match warnings.any_error() {
        true => Err(warnings),
        false => {
            let effective = Effective::new(resolved, &policy, &warnings);
            let sections = raw.shares.iter().map(|section| (section.name.clone(), section.place.clone())).collect();
            Ok(Loaded { policy, daemon, effective, warnings, sections })
        }
    }
}

/// Reads the names of the server itself, to which other texts refer.
fn server_variables<'a>(resolved: &Resolved, names: &'a dyn Names, problems: &mut Problems) -> ServerVariables<'a> {
    let mut variables = ServerVariables {
        names,
        netbios_name: default_netbios_name(names),
        workgroup: "WORKGROUP".into(),
        share: None,
    };
    let collected = RefCell::new(std::mem::take(problems));
    let reader = Reader { global: &resolved.global, share: None, variables: &variables, problems: &collected };
    let name = |parameter, default: &str| {
        let value = reader.value(parameter);
        if !value.is_set() {
            return default.to_owned();
        }
        let text = value.text().to_uppercase();
        // [MS-NBTE] 2.2.1: a NetBIOS name has 15 characters and a suffix.
        let bad = |character: char| character.is_control() || "\\/:*?\"<>|, ".contains(character);
        if text.is_empty() || text.len() > 15 || text.contains(bad) {
            value.bad_value(&text, "1 to 15 letters, digits and hyphens");
        }
        text
    };
    let netbios_name = name(&NETBIOS_NAME, &variables.netbios_name);
    let workgroup = name(&WORKGROUP, &variables.workgroup);
    *problems = collected.into_inner();
    (variables.netbios_name, variables.workgroup) = (netbios_name, workgroup);
    variables
}

/// Reports `config file`: Samba discards this file and reads the other one, which may restrict more.
fn refuse_other_file(resolved: &Resolved, problems: &mut Problems) {
    let Some(value) = resolved.global.0.get(CONFIG_FILE.name).filter(|value| !value.text.is_empty()) else { return };
    let message = format!("`config file = {}` replaces this file, which is not supported", value.text);
    let remedy = "name the other file with --config, or write `include` instead of `config file`";
    let problem = error(Code::NotServed, message).remedy(remedy).of(CONFIG_FILE.name, &value.text);
    problems.add(match &value.place {
        Some(place) => problem.at(place),
        None => problem,
    });
}

/// Returns the first part of the host's name, as a NetBIOS name.
fn default_netbios_name(names: &dyn Names) -> String {
    let host = names.host();
    let first = host.split('.').next().unwrap_or_default();
    let name: String =
        first.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').take(15).collect();
    if name.is_empty() { "FREVO".into() } else { name.to_uppercase() }
}

#[cfg(test)]
mod tests;
