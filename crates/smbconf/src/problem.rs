//! Problems of a configuration, described for an administrator: location, what is wrong, and the remedy.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A line of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The server does not start, or keeps its current configuration. If the problem is that of a share, only the share
    /// is not served.
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
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
    /// A parameter before the first section, which belongs to `[global]`.
    OutsideSection,
    /// An invalid section header, or a name that is not allowed for a share.
    BadSection,
    /// A line that sets no value, although a parameter is expected.
    BadLine,
    /// A line that is ignored because it is neither a section header nor a parameter.
    IgnoredLine,
    /// Two sections with the same name, which are one share.
    DuplicateShare,
    /// `copy` of a share that does not exist.
    CopyMissing,
    /// An unknown parameter.
    UnknownParameter,
    /// A value that is not allowed.
    BadValue,
    /// A value that Samba has removed, or that has no meaning any more.
    ObsoleteValue,
    /// A comment behind a value.
    TrailingComment,
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
    /// A GlusterFS volume that cannot be used.
    VolumeNotOpened,
    /// A GlusterFS volume that is not set up as recommended.
    VolumeOption,
    /// Settings with which clients could lose data.
    DataAtRisk,
    /// Snapshots that are not shown, because others than root could have made them.
    SnapshotsIgnored,
    /// A setting that has no effect.
    Accepted,
}

/// One problem or note.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Problem {
    /// The severity.
    pub severity: Severity,
    /// The kind.
    pub code: Code,
    /// The location, as `file:line`.
    pub place: Option<Place>,
    /// The share that has the problem; `None` if it is one of `[global]` or of the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// The parameter or section, as written.
    pub subject: String,
    /// The value, as written.
    pub value: String,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it, in one line.
    pub remedy: String,
    /// What users miss because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
    /// What has no effect, if that is all that is wrong. Such problems are reported together.
    #[serde(skip)]
    pub without_effect: Option<String>,
}

/// Something that users miss.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Lost {
    /// The feature, as part of a list; empty for the share as a whole.
    pub feature: String,
    /// The share in which it is missing; `None` for the whole server.
    pub share: Option<String>,
}

impl Problem {
    /// Returns whether `frevo check` fails for this problem: for errors, and for warnings that are certainly mistakes.
    pub fn fails_check(&self) -> bool {
        let never_meant = matches!(
            self.code,
            Code::UnknownParameter
                | Code::MissingPath
                | Code::VolumeNotOpened
                | Code::DataAtRisk
                | Code::RootShared
                | Code::IgnoredLine
                | Code::BadValue
                | Code::TrailingComment
        );
        self.severity == Severity::Error || self.severity == Severity::Warning && never_meant
    }

    /// Returns whether the problem keeps a share from being served, while the server starts.
    pub fn is_of_share(&self) -> bool {
        self.severity == Severity::Error && self.share.is_some()
    }

    /// Returns the message, which names the share if the problem keeps it from being served.
    pub fn full_message(&self) -> Cow<'_, str> {
        match &self.share {
            Some(share) if self.is_of_share() && self.code != Code::ShareNotServed => {
                format!("the share [{share}] is not served: {}", self.message).into()
            }
            _ => self.message.as_str().into(),
        }
    }

    /// Returns whether this is a note that is not part of the note about lines without effect or about lost features.
    pub fn is_single_note(&self) -> bool {
        self.severity == Severity::Note && self.without_effect.is_none() && self.lost.is_none()
    }

    /// Returns everything but the share.
    fn without_share(&self) -> impl Hash + Eq {
        let Problem { severity, code, place, share: _, subject, value, message, remedy, lost, without_effect } = self;
        (severity, code, place, subject, value, message, remedy, lost, without_effect)
    }

    /// Returns the feature that users miss, and the share if it is missing only there.
    fn lost(&self) -> Option<(&str, Option<&str>)> {
        match &self.lost {
            Some(lost) => Some((&lost.feature, lost.share.as_deref())),
            None => self.is_of_share().then_some(("", self.share.as_deref())),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(out, "{place}: ")?;
        }
        write!(out, "{}: {}", self.severity, self.full_message())?;
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
    /// Adds `problem`.
    pub fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Sorts the problems by file and line, those without a line last, and removes repeated ones. The problem of a
    /// share with an inherited value is not reported if `[global]` has the same one.
    pub(super) fn tidy(&mut self) {
        let order = |problem: &Problem| (problem.place.is_none(), problem.place.clone(), problem.severity);
        self.0.sort_by_cached_key(order);
        let mut stays = self.which_are_new().into_iter();
        self.0.retain(|_| stays.next().unwrap_or(true));
    }

    /// Returns for each problem whether it was not reported before. There may be hundreds of thousands, so they are not
    /// copied.
    fn which_are_new(&self) -> Vec<bool> {
        let mut seen = HashSet::new();
        let global: HashSet<_> = self.0.iter().filter(|it| it.share.is_none()).map(Problem::without_share).collect();
        let mut stays = Vec::with_capacity(self.0.len());
        for problem in &self.0 {
            let inherited = problem.share.is_some() && global.contains(&problem.without_share());
            stays.push(!inherited && seen.insert(problem));
        }
        stays
    }

    /// Returns the problems that keep single shares from being served.
    pub fn shares_not_served(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter().filter(|problem| problem.is_of_share())
    }

    /// Returns the shares that have an error, by the names in their sections. A share that asks for something that it
    /// must not be served without has none.
    pub fn faulty_shares(&self) -> impl Iterator<Item = &str> {
        let faults = self.shares_not_served().filter(|problem| problem.code != Code::ShareNotServed);
        faults.filter_map(|problem| problem.share.as_deref())
    }

    /// Returns what users miss, for a list: `printing`, `the recycle bin in [a], [b]`, `the share [c]`.
    pub fn unavailable(&self) -> Vec<String> {
        let mut features: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut listed = HashSet::new();
        for (feature, share) in self.0.iter().filter_map(Problem::lost).filter(|lost| listed.insert(*lost)) {
            let shares = share.into_iter();
            match features.iter_mut().find(|(known, _)| *known == feature) {
                Some((_, known)) => known.extend(shares),
                None => features.push((feature, shares.collect())),
            }
        }
        features.into_iter().map(|(feature, shares)| phrase(feature, &shares)).collect()
    }

    /// Returns what the file sets without effect, each once. Nothing is lost by these lines alone.
    pub fn without_effect(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.iter().filter_map(|problem| problem.without_effect.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Formats the problems for the start of a server: errors, warnings and single notes, then one note about all
    /// lines without effect, and what users miss.
    pub fn brief(&self) -> String {
        let alone = |problem: &&Problem| problem.severity != Severity::Note || problem.is_single_note();
        let mut text: String = self.0.iter().filter(alone).map(|problem| format!("{problem}\n")).collect();
        let names = self.without_effect();
        if !names.is_empty() {
            text += &format!("note: {WITHOUT_EFFECT}: {}\n", names.join(", "));
        }
        let lost = self.unavailable();
        if !lost.is_empty() {
            text += &format!("note: {UNAVAILABLE}: {}\n", lost.join("; "));
        }
        text
    }

    /// Returns whether the server must not start with these problems.
    pub fn any_error(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error && !problem.is_of_share())
    }
}

/// The title of [`Problems::without_effect`].
pub const WITHOUT_EFFECT: &str = "without effect (`frevo help NAME` has the reason)";

/// The title of [`Problems::unavailable`].
pub const UNAVAILABLE: &str = "not available to users";

/// Returns a feature and the shares in which it is missing, as part of a list.
fn phrase(feature: &str, shares: &[&str]) -> String {
    let names = match shares {
        [] => return feature.to_owned(),
        [_, _, _, _, _, _, ..] => format!("{} shares", shares.len()),
        shares => shares.iter().map(|share| format!("[{share}]")).collect::<Vec<_>>().join(", "),
    };
    match (feature, shares.len()) {
        ("", 1) => format!("the share {names}"),
        ("", ..=5) => format!("the shares {names}"),
        ("", _) => names,
        _ => format!("{feature} in {names}"),
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
pub fn warning(code: Code, message: impl Into<String>) -> Problem {
    new(Severity::Warning, code, message.into())
}

/// Starts a note.
pub(super) fn note(code: Code, message: impl Into<String>) -> Problem {
    new(Severity::Note, code, message.into())
}

/// Starts the note that `what` has no effect, and nothing is lost.
pub(super) fn without_effect(code: Code, what: String, reason: &str) -> Problem {
    let problem = note(code, format!("{what} has no effect: {reason}")).remedy("the line may be removed");
    Problem { without_effect: Some(what), ..problem }
}

fn new(severity: Severity, code: Code, message: String) -> Problem {
    let (subject, value, remedy) = Default::default();
    let message = shortened(&message);
    Problem {
        severity,
        code,
        place: None,
        share: None,
        subject,
        value,
        message,
        remedy,
        lost: None,
        without_effect: None,
    }
}

/// The most characters of a value that are reported.
const LONGEST: usize = 1000;

/// Returns the beginning of a text that may be the whole of a long line.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} ...", &text[..at]),
        None => text.to_owned(),
    }
}

impl Problem {
    /// Sets the location.
    pub fn at(self, place: &Place) -> Problem {
        Problem { place: Some(place.clone()), ..self }
    }

    /// Sets the parameter or section, and its value.
    pub fn of(self, subject: &str, value: &str) -> Problem {
        Problem { subject: shortened(subject), value: shortened(value), ..self }
    }

    /// Sets the share that has the problem.
    pub fn in_share(self, share: &str) -> Problem {
        Problem { share: Some(share.to_owned()), ..self }
    }

    /// Sets the remedy.
    pub fn remedy(self, remedy: impl Into<String>) -> Problem {
        Problem { remedy: remedy.into(), ..self }
    }

    /// Sets what users miss: a feature without its explanation, or the whole share if `feature` is empty.
    pub fn loses(self, feature: &str, share: Option<&str>) -> Problem {
        let feature = feature.split([',', ';']).next().unwrap_or_default().to_owned();
        Problem { lost: Some(Lost { feature, share: share.map(str::to_owned) }), ..self }
    }
}

/// Returns the problem of a failed look-up in the host's user database.
pub(super) fn unanswered(name: &str, why: &str) -> Problem {
    error(Code::UnknownName, format!("cannot look up `{name}`: {why}"))
        .remedy("check the name service of this host (nsswitch.conf)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_miss_is_listed_once_with_its_shares() {
        let lost = |feature: &str, share| warning(Code::NotServed, "").loses(feature, share);
        let refused = error(Code::ShareNotServed, "").in_share("vol");
        let problems = Problems(vec![
            lost("printing", None),
            lost("the recycle bin", Some("a")),
            lost("printing", None),
            lost("the recycle bin", Some("b")),
            lost("the recycle bin", Some("a")),
            lost("", Some("gone")),
            refused,
            warning(Code::UnknownParameter, ""),
        ]);
        let expected = ["printing", "the recycle bin in [a], [b]", "the shares [gone], [vol]"];
        assert_eq!(problems.unavailable(), expected);
        let many = Problems(["1", "2", "3", "4", "5", "6"].map(|share| lost("DFS", Some(share))).into());
        assert_eq!(many.unavailable(), ["DFS in 6 shares"]);
    }

    #[test]
    fn lines_without_effect_are_one_note() {
        let problem = |name: &str| without_effect(Code::Accepted, name.to_owned(), "a reason");
        let problems = Problems(vec![problem("`b`"), problem("`a`"), problem("`b`")]);
        let brief = problems.brief();
        assert_eq!(brief, format!("note: {WITHOUT_EFFECT}: `a`, `b`\n"));
    }
}
