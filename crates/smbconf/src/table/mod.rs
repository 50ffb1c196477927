//! The table of smb.conf parameters: name, kind of value, default, scope, status, help, and the function that puts the
//! value into the configuration.
//!
//! A served parameter needs such a function, or must declare that functions of other rows read it. The loader,
//! `frevo check` and the manual page use the table. Names, synonyms, defaults and value spellings are those of Samba
//! 4.17; if a default differs, the entry's help says so.

pub(super) mod access;
pub(super) mod acls;
mod audit;
mod browsing;
mod client;
pub(super) mod controller;
pub(super) mod daemon;
mod dfs;
pub(super) mod domain;
pub(super) mod files;
pub(super) mod gluster;
pub(super) mod locks;
pub(super) mod mac;
mod modules;
pub(super) mod names;
pub(super) mod openid;
pub(super) mod people;
pub(super) mod printing;
pub(super) mod protocol;
mod recycle;
mod removed;
pub(super) mod share;
pub(super) mod snapshots;
pub(super) mod user_shares;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::LazyLock;

use server::policy::{Policy, Share};

use super::daemon::Daemon;
use super::reader::{Reader, ValueReader};

pub use modules::{MODULES, Module, PREFIXES, Prefix};

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name, as in Samba's manual.
    pub name: &'static str,
    /// Other names; one with a leading `!` has the opposite truth value.
    pub synonyms: &'static [&'static str],
    /// The kind of value.
    pub kind: Kind,
    /// The value that applies if the configuration sets none.
    pub default: &'static str,
    /// The sections in which it is allowed.
    pub scope: Scope,
    /// How Frevo treats it.
    pub status: Status,
    /// One line that describes its effect.
    pub help: &'static str,
    /// Puts the value into each share.
    share: Option<ReadShare>,
    /// Puts the value of `[global]` into the settings of the server.
    global: Option<ReadGlobal>,
}

type ReadShare = fn(ValueReader<'_>, &mut Share);
type ReadGlobal = fn(ValueReader<'_>, &mut Global);

/// The settings of the server, from `[global]`.
#[derive(Default)]
pub(super) struct Global {
    /// For the protocol.
    pub(super) policy: Policy,
    /// For the process.
    pub(super) daemon: Daemon,
}

/// The kind of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `yes`, `no` and their spellings.
    Bool,
    /// A whole number in this range.
    Integer(i64, i64),
    /// A number of bytes in this range, with an optional k, m, g, t or p.
    Bytes(u64, u64),
    /// Permission bits in octal.
    Octal,
    /// One of these values; the first spelling of each is the canonical one.
    Choice(&'static [&'static [&'static str]]),
    /// Names or numbers separated by white space, commas or semicolons.
    List,
    /// File name patterns separated by slashes.
    Patterns,
    /// Any text.
    Text,
    /// A path.
    Path,
}

/// The sections in which a parameter is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// In `[global]` only.
    Global,
    /// In a share; in `[global]` it is the default of all shares.
    Share,
}

/// How Frevo treats a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It is implemented.
    Served,
    /// It is accepted without effect, for this reason.
    Accepted(&'static str),
    /// It is not supported; the string is the feature that it belongs to.
    NotServed(&'static str),
}

impl Scope {
    /// Returns the letter that Samba's manual uses.
    pub fn letter(self) -> char {
        match self {
            Scope::Global => 'G',
            Scope::Share => 'S',
        }
    }
}

impl Status {
    /// Returns the word for the status in lists and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Status::Served => "served",
            Status::Accepted(_) => "accepted",
            Status::NotServed(_) => "not served",
        }
    }

    /// Returns whether other programs read the parameter from the same file. The line has its effect there and must
    /// not be removed, so it is not reported.
    pub fn is_for_other_programs(self) -> bool {
        matches!(self, Status::Accepted(WINBINDD | NMBD | TOOLS))
    }

    /// Returns the reason or the feature; empty for served parameters.
    pub fn reason(self) -> &'static str {
        match self {
            Status::Served => "",
            Status::Accepted(reason) | Status::NotServed(reason) => reason,
        }
    }
}

/// A row of the table. Its last call says how the parameter is treated, and makes it a [`Parameter`]. `T` is what the
/// parameter belongs to.
struct Row<T>(Parameter, PhantomData<T>);

const fn row(name: &'static str, kind: Kind, default: &'static str, scope: Scope, help: &'static str) -> Parameter {
    Parameter { name, synonyms: &[], kind, default, scope, status: Status::Served, help, share: None, global: None }
}

/// A parameter of `[global]`.
const fn global(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Row<Global> {
    Row(row(name, kind, default, Scope::Global, help), PhantomData)
}

/// A parameter of shares.
const fn share(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Row<Share> {
    Row(row(name, kind, default, Scope::Share, help), PhantomData)
}

impl<T> Row<T> {
    const fn also(self, synonyms: &'static [&'static str]) -> Row<T> {
        Row(Parameter { synonyms, ..self.0 }, PhantomData)
    }

    const fn accepted(self, reason: &'static str) -> Parameter {
        Parameter { status: Status::Accepted(reason), ..self.0 }
    }

    const fn unserved(self, feature: &'static str) -> Parameter {
        Parameter { status: Status::NotServed(feature), ..self.0 }
    }

    /// The parameter is part of a setting: functions of other rows, or the steps before and after them, read it.
    const fn read_by_others(self) -> Parameter {
        self.0
    }
}

impl Row<Share> {
    const fn reads(self, read: ReadShare) -> Parameter {
        Parameter { share: Some(read), ..self.0 }
    }
}

impl Row<Global> {
    const fn reads(self, read: ReadGlobal) -> Parameter {
        Parameter { global: Some(read), ..self.0 }
    }
}

impl Parameter {
    /// The value of a share's parameter in `[global]` also has a meaning for the server.
    const fn reads_global(self, read: ReadGlobal) -> Parameter {
        Parameter { global: Some(read), ..self }
    }

    /// Returns whether the value is free text that may be empty; an empty default then means "not set".
    pub fn may_be_empty(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Patterns | Kind::Text | Kind::Path)
    }
}

const BOOL: Kind = Kind::Bool;
const NUMBER: Kind = Kind::Integer(i64::MIN, i64::MAX);
const COUNT: Kind = Kind::Integer(0, i64::MAX);
const BYTES: Kind = Kind::Bytes(0, u64::MAX);
const OCTAL: Kind = Kind::Octal;
const LIST: Kind = Kind::List;
const PATTERNS: Kind = Kind::Patterns;
const TEXT: Kind = Kind::Text;
const PATH: Kind = Kind::Path;

/// `yes`, `no` or `auto`.
pub(crate) const BOOL_OR_AUTO: Kind =
    Kind::Choice(&[&["auto"], &["yes", "true", "on", "1"], &["no", "false", "off", "0"]]);

/// The feature of parameters whose value is run as a command.
pub(super) const COMMANDS: &str = "running commands, because no text of the configuration is ever passed to a shell";

/// The reason of parameters that winbindd reads.
pub(super) const WINBINDD: &str = "winbindd reads it from the same file";

/// The reason of parameters that nmbd reads. It runs beside Frevo as beside smbd.
pub(super) const NMBD: &str = "nmbd reads it from the same file";

/// The reason of parameters that Samba's client programs read.
pub(super) const TOOLS: &str = "it is for Samba's client programs, which read it themselves";

/// The reason of parameters that change nothing on a server that is not a domain controller.
const CONTROLLERS_ONLY: &str = "only domain controllers use it, and Frevo cannot be one";

/// All parameters, in groups.
static GROUPS: &[&[Parameter]] = &[
    share::TABLE,
    access::TABLE,
    mac::TABLE,
    names::TABLE,
    locks::TABLE,
    acls::TABLE,
    files::TABLE,
    dfs::TABLE,
    snapshots::TABLE,
    recycle::TABLE,
    audit::TABLE,
    gluster::TABLE,
    protocol::TABLE,
    daemon::TABLE,
    user_shares::TABLE,
    people::TABLE,
    domain::TABLE,
    browsing::TABLE,
    printing::TABLE,
    client::TABLE,
    openid::TABLE,
    controller::TABLE,
    removed::TABLE,
];

/// All parameters.
pub fn all() -> impl Iterator<Item = &'static Parameter> {
    GROUPS.iter().copied().flatten()
}

/// Puts the values of a share's section into `share`.
pub(super) fn read_share(reader: &Reader<'_>, share: &mut Share) {
    for (parameter, read) in all().filter_map(|parameter| parameter.share.map(|read| (parameter, read))) {
        read(reader.value(parameter), share);
    }
}

/// Returns the settings of the server.
pub(super) fn read_global(reader: &Reader<'_>) -> Global {
    let mut global = Global::default();
    for (parameter, read) in all().filter_map(|parameter| parameter.global.map(|read| (parameter, read))) {
        read(reader.value(parameter), &mut global);
    }
    global
}

/// Folded name -> parameter, and whether the name is an inverted synonym.
static INDEX: LazyLock<HashMap<String, (&'static Parameter, bool)>> = LazyLock::new(|| {
    let mut index = HashMap::new();
    for parameter in all() {
        index.insert(fold_name(parameter.name), (parameter, false));
        for synonym in parameter.synonyms {
            let inverted = synonym.starts_with('!');
            index.insert(fold_name(synonym.trim_start_matches('!')), (parameter, inverted));
        }
    }
    index
});

/// Returns a name without case and white space: `Read Only`, `readonly` and `read only` are the same parameter.
pub fn fold_name(name: &str) -> String {
    name.chars().filter(|character| !character.is_whitespace()).flat_map(char::to_lowercase).collect()
}

/// Returns the parameter called `name`, and whether the name is an inverted synonym.
pub fn find(name: &str) -> Option<(&'static Parameter, bool)> {
    INDEX.get(&fold_name(name)).copied()
}

/// Returns the prefix of a parametric name such as `fruit:metadata`, if it is a known one.
pub fn find_prefix(name: &str) -> Option<&'static Prefix> {
    let folded = fold_name(name);
    let front = folded.split(':').next()?;
    PREFIXES.iter().find(|prefix| {
        let known = fold_name(prefix.name);
        front == known || (prefix.name == "idmap config" && front.starts_with(&known))
    })
}

/// Returns the known name that is most similar to `name`, if it is similar enough for a typing mistake.
pub fn nearest(name: &str) -> Option<&'static str> {
    near(name).first().copied()
}

/// Returns the known names that `name` may be a misspelling of, the most similar one first.
pub fn near(name: &str) -> Vec<&'static str> {
    let folded = fold_name(name);
    let names = all().flat_map(|parameter| std::iter::once(&parameter.name).chain(parameter.synonyms));
    let mut near: Vec<_> = names
        .map(|known| known.trim_start_matches('!'))
        .map(|known| (distance(&folded, &fold_name(known)), known))
        .filter(|(distance, _)| *distance <= 1 + folded.len() / 6)
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().map(|(_, known)| known).collect()
}

/// Returns the number of letters to insert, delete, replace or swap with a neighbour to turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().take(64).collect(), to.chars().collect());
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    rows[0] = (0..=to.len()).collect();
    for (at, row) in rows.iter_mut().enumerate() {
        row[0] = at;
    }
    for row in 1..=from.len() {
        for column in 1..=to.len() {
            let same = usize::from(from[row - 1] != to[column - 1]);
            let mut best =
                (rows[row - 1][column] + 1).min(rows[row][column - 1] + 1).min(rows[row - 1][column - 1] + same);
            if row > 1 && column > 1 && from[row - 1] == to[column - 2] && from[row - 2] == to[column - 1] {
                best = best.min(rows[row - 2][column - 2] + 1);
            }
            rows[row][column] = best;
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests;
