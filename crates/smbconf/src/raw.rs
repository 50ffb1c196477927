//! Stage one: text -> sections with `name = value` lines, each with its file and line.
//!
//! As in Samba, lines before the first section belong to `[global]`, and sections with the same name are one section.
//! An error in a section is one of its share; an error in `[global]` is one of the whole configuration.
//!
//! Included files are read here, at the position of the `include` line, as in Samba: lines after an `include` belong to
//! the last section that the included file opened. Stage two interprets the names.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::policy::{SessionValues, Template, fold};

use super::lines::{self, Unreadable};
use super::problem::{Code, Place, Problem, Problems, error, note, warning};
use super::registry;
use super::sessions;
use super::table::{self, Status, fold_name};
use super::variables::ServerVariables;

/// Maximum nesting depth of includes.
const DEEPEST: usize = 32;

/// Maximum number of included files in total, because a chain of files that each include the next one twice grows
/// exponentially.
const MOST_FILES: usize = 1_000;

/// Reads a file. A closure, so that tests need no files.
pub(super) type ReadFile<'a> = &'a dyn Fn(&Path) -> std::io::Result<Vec<u8>>;

/// A configuration, as written.
#[derive(Debug, Default)]
pub(super) struct Raw {
    /// `[global]`, all of its parts joined.
    pub(super) global: Vec<Setting>,
    /// The other sections in file order.
    pub(super) shares: Vec<Section>,
    /// The names of included files that depend on the session, as absolute paths.
    pub(super) includes: Vec<Template>,
}

/// A section other than `[global]`.
#[derive(Debug)]
pub(super) struct Section {
    /// Its name.
    pub(super) name: String,
    /// Where it begins; `None` for a share of the command line.
    pub(super) place: Option<Place>,
    /// Its lines.
    pub(super) settings: Vec<Setting>,
    /// The number of lines of `[global]` before it. Later ones are not defaults of the section, as in Samba.
    pub(super) globals: usize,
}

/// One `name = value`.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// The name, as written.
    pub(super) name: String,
    /// The value, without white space at its ends.
    pub(super) value: String,
    /// Its location; `None` for a setting of the command line.
    pub(super) place: Option<Place>,
}

/// The section to which the next line belongs.
#[derive(Clone, Debug)]
enum Current {
    /// Before the first section.
    Start,
    Global,
    Share(usize),
    /// A section with this invalid name, whose lines are skipped.
    Refused(String),
    /// A section that is not wanted, whose lines are skipped.
    Skipped,
}

/// The part of a file that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    All,
    /// `[global]` only.
    Global,
    /// Sections of shares other than the first, of which this is the number.
    NewShares(usize),
    /// As `NewShares`, of the file of the added shares. A section with a name of the first is reported.
    AddedShares(usize),
}

pub(super) struct Reader<'a> {
    pub(super) read_file: ReadFile<'a>,
    variables: &'a mut ServerVariables<'a>,
    /// The session's variables; `None` for the policy of the server.
    session: Option<&'a SessionValues>,
    problems: &'a mut Problems,
    /// The configuration file itself.
    pub(super) main: PathBuf,
    pub(super) raw: Raw,
    current: Current,
    part: Part,
    /// The line that asks for the registry.
    pub(super) wants_registry: Option<Place>,
    /// Whether there is a copy of the registry.
    pub(super) has_registry: bool,
    /// The positions of the sections, by folded names.
    known: HashMap<String, usize>,
    /// The files being read, outermost first.
    stack: Vec<PathBuf>,
    files: usize,
}

/// Reads `path` and the files that it includes.
pub(super) fn read<'a>(
    path: &Path,
    read_file: ReadFile<'a>,
    variables: &'a mut ServerVariables<'a>,
    session: Option<&'a SessionValues>,
    problems: &'a mut Problems,
) -> Raw {
    let mut reader = Reader::new(path, read_file, variables, session, problems);
    match read_file(path) {
        Ok(bytes) => {
            reader.file(path, &bytes);
            reader.registry_shares();
        }
        Err(why) => {
            let place = Place { file: path.into(), line: 0 };
            let problem = error(Code::Unreadable, format!("cannot read the configuration file: {why}"));
            reader.problems.add(problem.at(&place).remedy("name another file with -c, or make this one readable"));
        }
    }
    reader.raw
}

/// Adds the shares in `bytes`, the content of the file of the added shares, to those that were read. The file includes
/// no other one.
pub(super) fn read_added<'a>(
    raw: &mut Raw,
    path: &Path,
    bytes: &[u8],
    variables: &'a mut ServerVariables<'a>,
    problems: &'a mut Problems,
) {
    fn no_file(_: &Path) -> std::io::Result<Vec<u8>> {
        Err(ErrorKind::NotFound.into())
    }
    let mut reader = Reader::new(path, &no_file, variables, None, problems);
    reader.raw = std::mem::take(raw);
    let known = reader.raw.shares.iter().enumerate().map(|(index, share)| (fold(&share.name), index));
    reader.known = known.collect();
    let part = Part::AddedShares(reader.raw.shares.len());
    reader.read_part(path, bytes, part);
    *raw = reader.raw;
}

impl<'a> Reader<'a> {
    fn new(
        path: &Path,
        read_file: ReadFile<'a>,
        variables: &'a mut ServerVariables<'a>,
        session: Option<&'a SessionValues>,
        problems: &'a mut Problems,
    ) -> Reader<'a> {
        Reader {
            read_file,
            variables,
            session,
            problems,
            main: path.to_owned(),
            raw: Raw::default(),
            current: Current::Start,
            part: Part::All,
            wants_registry: None,
            has_registry: false,
            known: HashMap::new(),
            stack: Vec::new(),
            files: 0,
        }
    }

    /// Reports a problem of the current section.
    pub(super) fn report(&mut self, problem: Problem, place: &Place, subject: &str, value: &str) {
        let problem = problem.at(place).of(subject, value);
        self.problems.add(match &self.current {
            Current::Share(index) => problem.in_share(&self.raw.shares[*index].name),
            Current::Refused(name) => problem.in_share(name),
            Current::Start | Current::Global | Current::Skipped => problem,
        });
    }

    fn file(&mut self, path: &Path, bytes: &[u8]) {
        self.stack.push(identity(path));
        self.files += 1;
        let file: Arc<Path> = path.into();
        for line in lines::split(bytes) {
            let place = Place { file: file.clone(), line: line.number };
            match line.text {
                Ok(text) => self.line(&text, place),
                Err(why) => self.unreadable(why, place),
            }
        }
        self.stack.pop();
    }

    /// Reads a part of a file, as if it were included in `[global]`.
    pub(super) fn read_part(&mut self, path: &Path, bytes: &[u8], part: Part) {
        let former = (std::mem::replace(&mut self.current, Current::Skipped), self.part);
        if !self.stack.contains(&identity(path)) {
            self.part = part;
            self.file(path, bytes);
        }
        (self.current, self.part) = former;
    }

    fn unreadable(&mut self, why: Unreadable, place: Place) {
        let problem = match why {
            Unreadable::NotUtf8(text) if is_shown_only(&text) => {
                let problem = warning(Code::NotText, "the line is not UTF-8 text, and is read as ISO-8859-1");
                self.report(problem.remedy(TO_UTF8), &place, "", "");
                return self.line(&text, place);
            }
            Unreadable::NotUtf8(_) => error(Code::NotText, "the line is not UTF-8 text").remedy(TO_UTF8),
            Unreadable::Nul => error(Code::NotText, "the line contains a NUL byte")
                .remedy("check that this is a configuration file, and write the line again"),
            Unreadable::TooLong => error(Code::NotText, "the line is longer than 1 MiB")
                .remedy("check that this is a configuration file; put long lists of users into a group"),
        };
        if !matches!(self.current, Current::Skipped) {
            self.report(problem, &place, "", "");
        }
    }

    fn line(&mut self, text: &str, place: Place) {
        if text.starts_with('[') {
            return self.header(text, place);
        }
        if matches!(self.current, Current::Refused(_) | Current::Skipped) {
            return;
        }
        let Some((name, value)) = text.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            return self.bad_line(text, &place);
        };
        if name.is_empty() {
            let problem = error(Code::BadLine, format!("`{text}` has no name before the ="));
            return self.report(problem.remedy("write `name = value`"), &place, "", value);
        }
        let setting = Setting { name: name.to_owned(), value: value.to_owned(), place: Some(place.clone()) };
        match self.current {
            Current::Share(index) => self.raw.shares[index].settings.push(setting),
            _ => self.raw.global.push(setting),
        }
        if matches!(self.current, Current::Start) {
            let problem = note(Code::OutsideSection, format!("`{name}` is before the first section"));
            self.report(problem.remedy("it belongs to [global]; put a line [global] above it"), &place, name, value);
        }
        let is_global = !matches!(self.current, Current::Share(_));
        match fold_name(name).as_str() {
            _ if registry::is_asked_for(name, value) => self.registry(name, &place),
            "include" if !value.is_empty() => self.include(value, &place),
            "netbiosname" if is_global => self.variables.netbios_name = value.to_uppercase(),
            "workgroup" if is_global => self.variables.workgroup = value.to_uppercase(),
            _ => {}
        }
    }

    /// Reports a line that is neither a header nor a parameter. Samba ignores it; a parameter without its equals sign
    /// may be a restriction.
    fn bad_line(&mut self, text: &str, place: &Place) {
        let remedy = "write `name = value`; a comment begins with # or ; at the start of its line, and a line is \
                      continued by a backslash at its end";
        let problem = match begins_with_parameter(text) {
            Some(name) => error(Code::BadLine, format!("`{text}` has no = after `{name}`")),
            None => warning(Code::IgnoredLine, format!("`{text}` is neither a [section] nor `name = value`")),
        };
        self.report(problem.remedy(remedy), place, text, "");
    }

    fn header(&mut self, text: &str, place: Place) {
        let inside = text[1..].split_once(']');
        let Some((name, behind)) = inside.map(|(name, behind)| (name.trim(), behind.trim())) else {
            let name = text[1..].trim();
            self.current = if fold(name) == "global" { Current::Global } else { Current::Refused(name.to_owned()) };
            let problem = error(Code::BadSection, format!("`{text}` has no closing bracket"));
            return self.report(problem.remedy("write `[name]`"), &place, text, "");
        };
        self.current = self.section(name, &place);
        if !(behind.is_empty() || behind.starts_with(['#', ';']) || matches!(self.current, Current::Skipped)) {
            let problem = error(Code::BadSection, format!("text `{behind}` after the section header [{name}]"));
            self.report(problem.remedy("put it on a line of its own"), &place, name, behind);
        }
    }

    /// Returns the section that the header [name] begins or continues.
    fn section(&mut self, name: &str, place: &Place) -> Current {
        let folded = fold(name);
        if folded == "global" {
            let adds = matches!(self.part, Part::NewShares(_) | Part::AddedShares(_));
            return if adds { Current::Skipped } else { Current::Global };
        }
        let is_wanted = match self.part {
            Part::All => true,
            Part::Global => false,
            Part::NewShares(first) | Part::AddedShares(first) => {
                self.known.get(&folded).is_none_or(|index| *index >= first)
            }
        };
        if !is_wanted {
            if matches!(self.part, Part::AddedShares(_)) {
                self.report_hidden(name, place);
            }
            return Current::Skipped;
        }
        if let Err(why) = check_share_name(name) {
            self.current = Current::Refused(name.to_owned());
            let problem = error(Code::BadSection, format!("[{name}] cannot be the name of a share: {why}"));
            self.report(problem.remedy("choose another name"), place, name, "");
            return self.current.clone();
        }
        if let Some(index) = self.known.get(&folded).copied() {
            let first = self.raw.shares[index].place.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
            self.current = Current::Share(index);
            let problem = note(Code::DuplicateShare, format!("this section continues the section [{name}]{first}"));
            let remedy = "no action needed: later values apply, as in Samba; names are compared without regard to case";
            self.report(problem.remedy(remedy), place, name, "");
            return Current::Share(index);
        }
        let index = self.raw.shares.len();
        self.known.insert(folded, index);
        self.raw.shares.push(Section {
            name: name.to_owned(),
            place: Some(place.clone()),
            settings: Vec::new(),
            globals: self.raw.global.len(),
        });
        Current::Share(index)
    }

    /// Reports that an added share has the name of a share of the administrator.
    fn report_hidden(&mut self, name: &str, place: &Place) {
        let first = self.known.get(&fold(name)).and_then(|index| self.raw.shares[*index].place.as_ref());
        let first = first.map_or_else(|| "on the command line".to_owned(), |at| format!("at {at}"));
        let message = format!("the added share [{name}] is not served, because a share {first} has its name");
        let remedy = "rename the other share, or run `frevo share remove` for the added one";
        self.report_for_all(warning(Code::DuplicateShare, message).remedy(remedy), place, name, "");
    }

    fn include(&mut self, value: &str, place: &Place) {
        // The name of the configuration may be relative to the working directory.
        let file = std::path::absolute(&place.file).unwrap_or_else(|_| place.file.to_path_buf());
        let folder = file.parent().unwrap_or(Path::new("/"));
        let expanded = self.variables.expand(unquote(value)).text;
        // Deviates from Samba, which resolves relative paths against the working directory of the process.
        let template = match expanded.starts_with('/') {
            true => Template::parse(&expanded),
            false => Template::parse(&format!("{}/{expanded}", folder.display().to_string().replace('%', "%%"))),
        };
        match template {
            Ok(template) if template.constant().is_none() => self.include_of_session(template, value, place),
            template => {
                let path = template.ok().and_then(|template| template.constant()).unwrap_or_default();
                self.include_file(Path::new(&path), value, place);
            }
        }
    }

    /// Reads a file of the session, if it exists. Without a session only its name is noted.
    fn include_of_session(&mut self, template: Template, value: &str, place: &Place) {
        if !sessions::is_possible(&template) {
            let message =
                format!("include = {value} is ignored: it has a variable that does not depend on the session");
            let remedy = "use %U, %G, %u, %g, %m, %M, %I, %J, %i, %j or %R, or variables of the server";
            return self.report(warning(Code::NotServed, message).remedy(remedy), place, "include", value);
        }
        let path = self.session.map(|values| sessions::expand(&template, values));
        self.raw.includes.push(template);
        let Some(Some(path)) = path else { return };
        // Samba does not require the file either.
        if (self.read_file)(&path).is_err_and(|why| why.kind() == ErrorKind::NotFound) {
            return;
        }
        self.include_file(&path, value, place);
    }

    fn include_file(&mut self, path: &Path, value: &str, place: &Place) {
        if self.stack.contains(&identity(path)) {
            let chain: Vec<_> = self.stack.iter().map(|file| file.display().to_string()).collect();
            let message =
                format!("include = {value}: the file includes itself ({} -> {})", chain.join(" -> "), path.display());
            let remedy = "remove this include, or the one that leads here";
            return self.refuse_include(error(Code::IncludeLoop, message).remedy(remedy), place, value);
        }
        if self.stack.len() >= DEEPEST || self.files >= MOST_FILES {
            let message =
                format!("include = {value}: more than {DEEPEST} levels of includes, or {MOST_FILES} files in all");
            let remedy = "look for files that include each other";
            return self.refuse_include(error(Code::IncludeLoop, message).remedy(remedy), place, value);
        }
        match (self.read_file)(path) {
            Ok(bytes) => self.file(path, &bytes),
            Err(why) => {
                let message = format!("include = {value}: cannot read {}: {why}", path.display());
                let remedy = "correct the path (relative paths start at this file's directory) or remove the line";
                // Samba ignores a file that does not exist. A file that exists may contain restrictions.
                let missing = matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
                match missing {
                    true => {
                        self.report(warning(Code::IncludeMissing, message).remedy(remedy), place, "include", value);
                    }
                    false => self.refuse_include(error(Code::IncludeMissing, message).remedy(remedy), place, value),
                }
            }
        }
    }

    fn refuse_include(&mut self, problem: Problem, place: &Place, value: &str) {
        self.report_for_all(problem, place, "include", value);
    }

    /// Reports that something is not read that may restrict any share, so that the error is not one of the share above
    /// the line.
    pub(super) fn report_for_all(&mut self, problem: Problem, place: &Place, subject: &str, value: &str) {
        self.problems.add(problem.at(place).of(subject, value));
    }
}

/// The remedy for a line in another character set.
const TO_UTF8: &str = "save the file as UTF-8; `iconv -f ISO-8859-1 -t UTF-8` converts an old file";

/// Returns whether the line sets a text that is only shown to clients, so that wrong characters do no harm.
fn is_shown_only(line: &str) -> bool {
    let name = line.split('=').next().map(fold_name).unwrap_or_default();
    ["comment", "serverstring", "volume"].contains(&name.as_str())
}

/// Returns the parameter with whose name the line begins.
fn begins_with_parameter(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    let names = (1..=words.len()).rev().map(|count| words[..count].join(" "));
    let served = names.filter_map(|name| table::find(&name)).map(|(parameter, _)| parameter);
    served.filter(|parameter| parameter.status == Status::Served).map(|parameter| parameter.name).next()
}

/// Returns the canonical path of `path`, with symbolic links resolved.
fn identity(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns `text` without the quotation marks around it, as Samba reads texts.
pub(super) fn unquote(text: &str) -> &str {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inside) if !inside.contains('"') => inside,
        _ => text,
    }
}

/// Checks a share name; the error says why it is not allowed ([MS-SRVS] 2.2.4.23 limits it to 80 characters).
pub(super) fn check_share_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("it is empty".into());
    }
    if name.encode_utf16().count() > 80 {
        return Err("it has more than 80 characters".into());
    }
    match name.chars().find(|character| character.is_control() || "\"\\/[]:|<>+=;,*?".contains(*character)) {
        Some(character) => Err(format!("it contains {character:?}, which clients cannot send in a name")),
        None => Ok(()),
    }
}
