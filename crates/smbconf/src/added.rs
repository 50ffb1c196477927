//! The shares that `frevo share` and administrators' clients add: `shares.conf` in the state directory.
//!
//! The file has the syntax of smb.conf. It is read after everything else and can only add shares: a share of the
//! administrator's files or of the command line with the same name is the one that is served. [`AddedShares`] is its
//! content, and [`Change`] what can be done to it. Nothing here writes a file.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use server::policy::fold;
use server::policy::printing::QueueSystem;

use super::lines;
use super::problem::{Code, Place, Problem, Problems, warning};
use super::raw::{self, Raw, check_share_name};
use super::table::share::{COPY, INCLUDE};
use super::table::{self, Scope, Status};
use super::variables::ServerVariables;
use super::{Loaded, default_netbios_name, value};

/// The name of the file in the state directory.
pub const FILE_NAME: &str = "shares.conf";

/// The largest file that is read, in bytes.
pub const LARGEST_FILE: u64 = super::LARGEST_FILE;

/// The first line of the file.
const HEADER: &str = "# This file belongs to Frevo, which replaces it. `frevo share` changes these shares.\n";

/// Where the added shares of a configuration are read.
#[derive(Clone, Copy, Default, Debug)]
pub enum Added<'a> {
    /// Nowhere.
    #[default]
    None,
    /// In the file of this state directory; without one, in that of the configuration or else the default one.
    StateDirectory(Option<&'a Path>),
    /// In a text that the file is going to have.
    Text {
        /// The file.
        file: &'a Path,
        /// The text.
        text: &'a [u8],
    },
}

impl Added<'_> {
    /// Returns the file and its content if it exists. A file that cannot be read is a problem of these shares only.
    pub(super) fn read(
        self,
        configured: impl FnOnce() -> Option<PathBuf>,
        read_file: raw::ReadFile<'_>,
        problems: &mut Problems,
    ) -> Option<(PathBuf, Vec<u8>)> {
        let file = match self {
            Added::None => return None,
            Added::Text { file, text } => return Some((file.to_owned(), text.to_owned())),
            Added::StateDirectory(Some(directory)) => directory.join(FILE_NAME),
            Added::StateDirectory(None) => configured()?.join(FILE_NAME),
        };
        match read_file(&file) {
            Ok(text) => Some((file, text)),
            Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
            Err(why) => {
                let place = Place { file: file.as_path().into(), line: 0 };
                let problem = warning(Code::Unreadable, format!("cannot read the file of the added shares: {why}"));
                let problem = problem.at(&place).of(FILE_NAME, "").loses("the shares added with `frevo share`", None);
                problems.add(problem.remedy("make the file readable for the server's user"));
                None
            }
        }
    }
}

/// Adds the sections in `text` to those of a configuration that was read.
pub(super) fn add(raw: &mut Raw, file: &Path, text: &[u8], names: &dyn super::Names, problems: &mut Problems) {
    let mut variables = ServerVariables {
        names,
        netbios_name: default_netbios_name(names),
        workgroup: "WORKGROUP".into(),
        share: None,
    };
    raw::read_added(raw, file, text, &mut variables, problems);
}

/// What is done to the added shares.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// A share is added.
    Add {
        /// Its name.
        name: String,
        /// Its parameters, as in smb.conf.
        settings: Vec<(String, String)>,
    },
    /// Parameters of a share change.
    Set {
        /// Its name.
        name: String,
        /// The parameters; `None` removes the line, so that the default applies.
        settings: Vec<(String, Option<String>)>,
    },
    /// A share is removed.
    Remove {
        /// Its name.
        name: String,
    },
}

impl Change {
    /// Returns the name of the share.
    pub fn name(&self) -> &str {
        match self {
            Change::Add { name, .. } | Change::Set { name, .. } | Change::Remove { name } => name,
        }
    }

    /// Returns whether the change sets the parameter called `parameter` in the table.
    fn sets(&self, parameter: &str) -> bool {
        let is = |name: &str| table::find(name).is_some_and(|(found, _)| found.name == parameter);
        match self {
            Change::Add { settings, .. } => settings.iter().any(|(name, _)| is(name)),
            Change::Set { settings, .. } => settings.iter().any(|(name, value)| value.is_some() && is(name)),
            Change::Remove { .. } => false,
        }
    }
}

/// Why the added shares are not changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No share can have this name.
    BadName(String),
    /// A parameter is not allowed, or has a value that is not.
    BadSetting {
        /// The parameter.
        parameter: String,
        /// What is wrong.
        why: String,
    },
    /// There is a share with this name.
    Exists(String),
    /// There is no share with this name.
    NotFound(String),
    /// The share is one of the administrator's files or of the command line.
    NotOurs(String),
    /// The directory does not exist.
    NoDirectory(String),
    /// The configuration would have errors, or the file cannot be changed.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::BadSetting { parameter, why } => write!(out, "`{parameter}` {why}"),
            Refusal::BadName(why)
            | Refusal::Exists(why)
            | Refusal::NotFound(why)
            | Refusal::NotOurs(why)
            | Refusal::NoDirectory(why)
            | Refusal::Failed(why) => out.write_str(why),
        }
    }
}

impl std::error::Error for Refusal {}

/// The content of the file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AddedShares(Vec<AddedShare>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct AddedShare {
    name: String,
    settings: Vec<(String, String)>,
}

impl AddedShares {
    /// Reads the content of the file.
    ///
    /// # Errors
    /// If the file has lines that it would lose when it is replaced.
    pub fn parse(text: &[u8]) -> Result<AddedShares, Refusal> {
        let refusal = |number| {
            let why = format!("line {number} of {FILE_NAME} is not one that Frevo writes");
            Refusal::Failed(why + "; correct the file, or move its lines to smb.conf")
        };
        let is_comment = |line: &[u8]| matches!(line.trim_ascii_start().first(), Some(b'#' | b';'));
        let mut written = (1..).zip(text.split(|byte| *byte == b'\n'));
        let foreign = written.find(|(_, line)| is_comment(line) && *line != HEADER.trim_end().as_bytes());
        if let Some((number, _)) = foreign {
            return Err(refusal(number));
        }
        let mut shares: Vec<AddedShare> = Vec::new();
        for line in lines::split(text) {
            let what = || refusal(line.number);
            let text = line.text.as_ref().map_err(|_| what())?;
            if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                shares.push(AddedShare { name: name.trim().to_owned(), settings: Vec::new() });
            } else {
                let (name, value) = text.split_once('=').ok_or_else(what)?;
                let share = shares.last_mut().ok_or_else(what)?;
                share.settings.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        Ok(AddedShares(shares))
    }

    /// Returns the text of the file.
    ///
    /// # Errors
    /// If a reader of the text would find something else.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Refusal> {
        let mut text = HEADER.to_owned();
        for share in &self.0 {
            text += &format!("\n[{}]\n", share.name);
            share.settings.iter().for_each(|(name, value)| text += &format!("\t{name} = {value}\n"));
        }
        let bytes = text.into_bytes();
        match AddedShares::parse(&bytes)? == *self {
            true if bytes.len() as u64 <= LARGEST_FILE => Ok(bytes),
            true => Err(Refusal::Failed("the file of the added shares would be too large; remove shares".into())),
            false => Err(Refusal::Failed("a name or a value cannot be written in smb.conf; change it".into())),
        }
    }

    /// Returns whether a share with this name was added.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|share| fold(&share.name) == fold(name))
    }

    /// Makes the change. The change is checked against the whole configuration by [`check`].
    ///
    /// # Errors
    /// If it is not possible. Then the shares are unchanged.
    pub fn apply(&mut self, change: &Change) -> Result<(), Refusal> {
        let name = change.name();
        let at = self.0.iter().position(|share| fold(&share.name) == fold(name));
        match (change, at) {
            (Change::Add { settings, .. }, None) => {
                check_name(name)?;
                let mut share = AddedShare { name: name.to_owned(), settings: Vec::new() };
                settings.iter().try_for_each(|(name, value)| share.set(name, Some(value)))?;
                self.0.push(share);
            }
            (Change::Add { .. }, Some(_)) => {
                let why = format!("the share [{name}] exists already; `frevo share set` changes it");
                return Err(Refusal::Exists(why));
            }
            (Change::Set { settings, .. }, Some(at)) => {
                let mut share = self.0[at].clone();
                settings.iter().try_for_each(|(name, value)| share.set(name, value.as_deref()))?;
                self.0[at] = share;
            }
            (Change::Remove { .. }, Some(at)) => _ = self.0.remove(at),
            (Change::Set { .. } | Change::Remove { .. }, None) => {
                let why = format!("there is no share [{name}]; `frevo share list` shows the shares");
                return Err(Refusal::NotFound(why));
            }
        }
        Ok(())
    }
}

impl AddedShare {
    /// Sets a parameter, or removes its line.
    fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Refusal> {
        let refuse = |why: String| Refusal::BadSetting { parameter: name.to_owned(), why };
        let (parameter, text) = match value {
            Some(value) => read_setting(name, value).map_err(refuse)?,
            None => (known(name).map_err(refuse)?.0, String::new()),
        };
        let is_same = |(name, _): &(String, String)| table::find(name).is_some_and(|it| it.0.name == parameter);
        self.settings.retain(|setting| !is_same(setting));
        if value.is_some() {
            self.settings.push((parameter.to_owned(), text));
        }
        Ok(())
    }
}

/// Returns the parameter called `name` and whether the name is an inverted synonym, if a share may have it.
fn known(name: &str) -> Result<(&'static str, bool), String> {
    let Some((parameter, inverted)) = table::find(name) else {
        let hint = table::nearest(name).map(|nearest| format!("did you mean `{nearest}`? ")).unwrap_or_default();
        return Err(format!("is not a parameter; {hint}`frevo check --parameters` lists all parameters"));
    };
    if parameter.scope == Scope::Global {
        return Err("is not allowed in a share; set it in [global] of smb.conf".into());
    }
    if [COPY.name, INCLUDE.name].contains(&parameter.name) {
        return Err("is not allowed in an added share; define the share in smb.conf instead".into());
    }
    match parameter.status {
        Status::NotServed(feature) => Err(format!("is not supported: {feature}; leave it out")),
        Status::Served | Status::Accepted(_) => Ok((parameter.name, inverted)),
    }
}

/// Returns the parameter and its value as they are written.
fn read_setting(name: &str, value: &str) -> Result<(&'static str, String), String> {
    let (parameter, inverted) = known(name)?;
    if value.chars().any(char::is_control) {
        return Err("has a value with a line feed or another control character; remove it".into());
    }
    let kind = table::find(parameter).map(|(parameter, _)| parameter.kind).ok_or("is not a parameter")?;
    let normalized = value::normalize(kind, value)
        .map_err(|allowed| format!("cannot have the value `{value}`; allowed: {allowed}"))?;
    let text = match (inverted, normalized.as_str()) {
        (true, "yes") => "no",
        (true, _) => "yes",
        (false, _) => value.trim(),
    };
    // A backslash at the end would continue the line, and a reader reduces white space to single blanks.
    let line = format!("{parameter} = {text}");
    match lines::split(line.as_bytes()).as_slice() {
        [read] if read.text.as_deref() == Ok(line.trim_end()) && !line.ends_with('\\') => {
            Ok((parameter, text.to_owned()))
        }
        _ => Err("has a value that smb.conf cannot have: repeated blanks, or a backslash at the end; change it".into()),
    }
}

/// Returns a text in the spelling in which `parameter` has it as its value, without variables.
///
/// # Errors
/// If there is no such spelling.
pub fn literal(parameter: &str, text: &str) -> Result<String, Refusal> {
    match raw::unquote(text) == text && text.trim() == text {
        true => Ok(text.replace('%', "%%")),
        false => {
            let why = "cannot have quotation marks around its value, or blanks at its ends; remove them".to_owned();
            Err(Refusal::BadSetting { parameter: parameter.to_owned(), why })
        }
    }
}

/// Names of sections and shares with a meaning of their own, and the pipes of [MS-SRVS] 3.1.4.7.
const RESERVED: &[&str] = &["global", "homes", "printers", "print$", "ipc$", "admin$", "pipe", "mailslot"];

/// Checks the name of a share to add.
///
/// # Errors
/// If no share can be added with it.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal::BadName(format!("{name:?} cannot be the name of a share: {why}")));
    if let Err(why) = check_share_name(name) {
        return refuse(&format!("{why}; choose another name"));
    }
    if name.split_whitespace().collect::<Vec<_>>().join(" ") != name {
        return refuse("it has blanks at an end, or repeated ones; choose another name");
    }
    if is_reserved(name) {
        return refuse("it has a meaning of its own; choose another name");
    }
    Ok(())
}

/// Returns whether a name has a meaning of its own.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&fold(name).as_str())
}

/// Checks that `loaded`, a configuration after the change, serves the share of the change as intended. `file` is the
/// file of the added shares.
///
/// # Errors
/// If it does not.
pub fn check(loaded: &Loaded, change: &Change, file: &Path) -> Result<(), Refusal> {
    let name = change.name();
    if matches!(change, Change::Remove { .. }) {
        return Ok(());
    }
    check_owner(loaded, name, file).map_err(|refusal| match (refusal, change) {
        (Refusal::NotOurs(why), Change::Add { .. }) => Refusal::Exists(why),
        (refusal, _) => refusal,
    })?;
    let is_of_share = |problem: &&Problem| problem.share.as_deref().is_some_and(|share| fold(share) == fold(name));
    for problem in loaded.warnings.0.iter().filter(is_of_share).filter(|problem| problem.fails_check()) {
        let why = format!("{}; {}", problem.message, problem.remedy);
        match problem.code {
            Code::MissingPath if change.sets("path") => return Err(Refusal::NoDirectory(why)),
            // The directory may have been removed since the share was added.
            Code::MissingPath => {}
            _ => return Err(Refusal::Failed(why)),
        }
    }
    let Some(share) = loaded.policy.shares.get(&fold(name)) else {
        let why = format!("the share [{name}] would not be served; `frevo check` says why other shares are not");
        return Err(Refusal::Failed(why));
    };
    // The server can change the added shares, and must not choose the commands that are executed with the privileges of
    // its next start.
    let system = share.printing.as_ref().map(|printing| &printing.system);
    if matches!(system, Some(QueueSystem::Commands(_))) {
        let why = "an added share cannot print by commands; set `printing = cups`, or define the share in smb.conf";
        return Err(Refusal::Failed(why.to_owned()));
    }
    Ok(())
}

/// Checks that a share of the configuration is one of the added ones, whose file is `file`.
///
/// # Errors
/// If it is another one, or does not exist.
pub fn check_owner(loaded: &Loaded, name: &str, file: &Path) -> Result<(), Refusal> {
    let Some((_, place)) = loaded.sections.iter().find(|(section, _)| fold(section) == fold(name)) else {
        return Err(Refusal::NotFound(format!("there is no share [{name}]; `frevo share list` shows the shares")));
    };
    let at = match place {
        Some(place) if *place.file == *file => return Ok(()),
        Some(place) => format!("at {place}, which Frevo never changes; edit that file"),
        None => "on the command line of the server; change it there".to_owned(),
    };
    Err(Refusal::NotOurs(format!("the share [{name}] is defined {at}")))
}
