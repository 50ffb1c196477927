//! What is wrong with a configuration, in the words of an administrator: where, what, and what to do about it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A line of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<Path>,
    /// Its line, from 1; 0 is the file as a whole.
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

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The server does not start, or keeps the configuration that it has; of [`Code::ShareNotServed`]: it starts without
    /// that share.
    Error,
    /// The server starts without something that the file asks for.
    Warning,
    /// Nothing is lost; good to know.
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

/// What kind of thing it is; stable names for programs that read the JSON form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The file cannot be read.
    Unreadable,
    /// A line is not UTF-8.
    NotText,
    /// A file includes itself.
    IncludeLoop,
    /// An included file is not there.
    IncludeMissing,
    /// A parameter in front of the first section.
    OutsideSection,
    /// A section header that is none, or a name that no share can have.
    BadSection,
    /// A line that is neither section nor parameter.
    BadLine,
    /// A share is there twice.
    DuplicateShare,
    /// `copy` of a share that is not there.
    CopyMissing,
    /// A parameter that nobody knows.
    UnknownParameter,
    /// A value that is not allowed.
    BadValue,
    /// Two values that do not go together.
    Contradiction,
    /// A share without a directory.
    NoPath,
    /// The directory of a share is not there.
    MissingPath,
    /// A global parameter in a share.
    WrongSection,
    /// A parameter is set twice in one section.
    SetTwice,
    /// A `%` variable that is none, or not one for this place.
    Variable,
    /// A user or group that the host does not know.
    UnknownName,
    /// Something that is not served.
    NotServed,
    /// A share that is not served, as it asks for something that it must not be served without.
    ShareNotServed,
    /// A share of the whole file system of the host.
    RootShared,
    /// Something that changes nothing.
    Accepted,
}

/// One thing that is wrong, or good to know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What kind of thing it is.
    pub code: Code,
    /// Where it is, as `file:line`.
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
    /// Whether `frevo check` fails for it: errors, and what is certainly not meant so although the server would start.
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

/// All that was found, in the order of the files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Adds `problem`, once.
    pub fn add(&mut self, problem: Problem) {
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// The problems by which single shares are not served.
    pub fn shares_not_served(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter().filter(|problem| problem.code == Code::ShareNotServed)
    }

    /// Whether the server must not start with this.
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

/// The start of a problem: `error(Code::BadValue, message)`, to be completed by the methods below.
pub(super) fn error(code: Code, message: impl Into<String>) -> Problem {
    new(Severity::Error, code, message.into())
}

/// The start of a warning.
pub(super) fn warning(code: Code, message: impl Into<String>) -> Problem {
    new(Severity::Warning, code, message.into())
}

/// The start of a note.
pub(super) fn note(code: Code, message: impl Into<String>) -> Problem {
    new(Severity::Note, code, message.into())
}

fn new(severity: Severity, code: Code, message: String) -> Problem {
    let (subject, value, remedy) = Default::default();
    Problem { severity, code, place: None, subject, value, message, remedy }
}

impl Problem {
    /// Says where.
    pub(super) fn at(self, place: &Place) -> Problem {
        Problem { place: Some(place.clone()), ..self }
    }

    /// Says of what, and its value.
    pub(super) fn of(self, subject: &str, value: &str) -> Problem {
        Problem { subject: subject.to_owned(), value: value.to_owned(), ..self }
    }

    /// Says what to do.
    pub(super) fn remedy(self, remedy: impl Into<String>) -> Problem {
        Problem { remedy: remedy.into(), ..self }
    }
}
