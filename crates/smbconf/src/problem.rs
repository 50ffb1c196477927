//! Problems of a configuration, described for an administrator: location, what is wrong, and the remedy.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A line of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The file, as named by the user or by an include.
    pub file: Arc<Path>,
    /// The line number, from 1; 0 means the file as a whole.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}", self.file.display()),
            line => write!(out, "{}:{line}", self.file.display()),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The severity of a problem.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The server does not start, or keeps its current configuration. For [`Code::ShareNotServed`] it starts without
    /// that share.
    Error,
    /// The server starts without something that the file requests.
    Warning,
    /// Information only: the server does everything that the file requests.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// The kind of a problem. The names are stable, for programs that read the JSON form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The file cannot be read.
    Unreadable,
    /// A line is not UTF-8.
    NotText,
    /// A file includes itself.
    IncludeLoop,
    /// An included file does not exist.
    IncludeMissing,
    /// A parameter before the first section.
    OutsideSection,
    /// An invalid section header, or a name that is not allowed for a share.
    BadSection,
    /// A line that is neither a section header nor a parameter.
    BadLine,
    /// Two shares with the same name.
    DuplicateShare,
    /// `copy` of a share that does not exist.
    CopyMissing,
    /// An unknown parameter.
    UnknownParameter,
    /// A value that is not allowed.
    BadValue,
    /// Two values that contradict each other.
    Contradiction,
    /// A share without a directory.
    NoPath,
    /// The directory of a share does not exist.
    MissingPath,
    /// A global parameter in a share.
    WrongSection,
    /// A parameter is set twice in one section.
    SetTwice,
    /// An unknown `%` variable, or one that is not available in this parameter.
    Variable,
    /// A user or group that does not exist on the host.
    UnknownName,
    /// A feature that is not supported.
    NotServed,
    /// A share that is not served because it requests something that it must not be served without.
    ShareNotServed,
    /// A share of the whole file system of the host.
    RootShared,
    /// A setting that has no effect.
    Accepted,
}

/// One problem or note.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// The severity.
    pub severity: Severity,
    /// The kind.
    pub code: Code,
    /// The location, as `file:line`.
    pub place: Option<Place>,
    /// The parameter or section, as written.
    pub subject: String,
    /// The value, as written.
    pub value: String,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it, in one line.
    pub remedy: String,
}

impl Problem {
    /// Returns whether `frevo check` fails for this problem: for errors, and for warnings that are certainly mistakes.
    pub fn fails_check(&self) -> bool {
        let never_meant = matches!(self.code, Code::UnknownParameter | Code::MissingPath | Code::RootShared);
        self.severity == Severity::Error || self.severity == Severity::Warning && never_meant
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(out, "{place}: ")?;
        }
        write!(out, "{}: {}", self.severity, self.message)?;
        if !self.remedy.is_empty() {
            write!(out, "\n  remedy: {}", self.remedy)?;
        }
        Ok(())
    }
}

/// All problems found, in the order of the files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Adds `problem` unless an equal one is already present.
    pub fn add(&mut self, problem: Problem) {
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Returns the problems that keep single shares from being served.
    pub fn shares_not_served(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter().filter(|problem| problem.code == Code::ShareNotServed)
    }

    /// Returns whether the server must not start with these problems.
    pub fn any_error(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error && problem.code != Code::ShareNotServed)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            write!(out, "{}{problem}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Starts an error: `error(Code::BadValue, message)`, to be completed by the methods below.
pub(super) fn error(code: Code, message: impl Into<String>) -> Problem {
    new(Severity::Error, code, message.into())
}

/// Starts a warning.
pub(super) fn warning(code: Code, message: impl Into<String>) -> Problem {
    new(Severity::Warning, code, message.into())
}

/// Starts a note.
pub(super) fn note(code: Code, message: impl Into<String>) -> Problem {
    new(Severity::Note, code, message.into())
}

fn new(severity: Severity, code: Code, message: String) -> Problem {
    let (subject, value, remedy) = Default::default();
    Problem { severity, code, place: None, subject, value, message, remedy }
}

impl Problem {
    /// Sets the location.
    pub(super) fn at(self, place: &Place) -> Problem {
        Problem { place: Some(place.clone()), ..self }
    }

    /// Sets the parameter or section, and its value.
    pub(super) fn of(self, subject: &str, value: &str) -> Problem {
        Problem { subject: subject.to_owned(), value: value.to_owned(), ..self }
    }

    /// Sets the remedy.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Problem {
        Problem { remedy: remedy.into(), ..self }
    }
}

/// Returns the problem of a failed look-up in the host's user database.
pub(super) fn unanswered(name: &str, why: &str) -> Problem {
    error(Code::UnknownName, format!("cannot look up `{name}`: {why}"))
        .remedy("check the name service of this host (nsswitch.conf)")
}
