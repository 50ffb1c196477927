//! Stage one: text -> sections with `name = value` lines, each with its file and line.
//!
//! Included files are read here, at the position of the `include` line, as in Samba: lines after an `include` belong to
//! the last section that the included file opened. Stage two interprets the names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::policy::{Template, fold};

use super::lines::{self, Unreadable};
use super::problem::{Code, Place, Problems, error, warning};
use super::table::fold_name;
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
#[derive(Clone, Copy)]
enum Current {
    None,
    Global,
    Share(usize),
    /// A refused section, whose lines are skipped.
    Refused,
}

pub(super) struct Reader<'a> {
    read_file: ReadFile<'a>,
    variables: &'a mut ServerVariables<'a>,
    problems: &'a mut Problems,
    raw: Raw,
    current: Current,
    known: HashMap<String, Option<Place>>,
    /// The files being read, outermost first.
    stack: Vec<PathBuf>,
    files: usize,
}

/// Reads `path` and the files that it includes.
pub(super) fn read<'a>(
    path: &Path,
    read_file: ReadFile<'a>,
    variables: &'a mut ServerVariables<'a>,
    problems: &'a mut Problems,
) -> Raw {
    let mut reader = Reader {
        read_file,
        variables,
        problems,
        raw: Raw::default(),
        current: Current::None,
        known: HashMap::new(),
        stack: Vec::new(),
        files: 0,
    };
    match read_file(path) {
        Ok(bytes) => reader.file(path, &bytes),
        Err(why) => {
            let place = Place { file: path.into(), line: 0 };
            let problem = error(Code::Unreadable, format!("cannot read the configuration file: {why}"));
            reader.problems.add(problem.at(&place).remedy("name another file with -c, or make this one readable"));
        }
    }
    reader.raw
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, bytes: &[u8]) {
        self.stack.push(identity(path));
        self.files += 1;
        let file: Arc<Path> = path.into();
        for line in lines::split(bytes) {
            let place = Place { file: file.clone(), line: line.number };
            match &line.text {
                Ok(text) => self.line(text, place),
                Err(Unreadable::NotText) => self.problems.add(
                    error(Code::NotText, "the line is not UTF-8 text")
                        .at(&place)
                        .remedy("save the file as UTF-8; `iconv -f ISO-8859-1 -t UTF-8` converts an old file"),
                ),
                Err(Unreadable::TooLong) => self.problems.add(
                    error(Code::NotText, "the line is longer than 1 MiB")
                        .at(&place)
                        .remedy("check that this is a configuration file; put long lists of users into a group"),
                ),
            }
        }
        self.stack.pop();
    }

    fn line(&mut self, text: &str, place: Place) {
        if text.starts_with('[') {
            return self.header(text, place);
        }
        let Some((name, value)) = text.split_once('=').map(|(name, value)| (name.trim(), value.trim())) else {
            let remedy = "write `name = value`; a comment begins with # or ; at the start of its line, and a line is \
                          continued by a backslash at its end";
            let problem = error(Code::BadLine, format!("`{text}` is neither a [section] nor `name = value`"));
            return self.problems.add(problem.at(&place).of(text, "").remedy(remedy));
        };
        if name.is_empty() {
            let problem = error(Code::BadLine, format!("`{text}` has no name before the ="));
            return self.problems.add(problem.at(&place).of("", value).remedy("write `name = value`"));
        }
        let setting = Setting { name: name.to_owned(), value: value.to_owned(), place: Some(place.clone()) };
        match self.current {
            Current::None => {
                let problem = error(Code::OutsideSection, format!("`{name}` is set before the first section"));
                self.problems.add(problem.at(&place).of(name, value).remedy("put a line [global] above it"));
            }
            Current::Refused => {}
            Current::Global => self.raw.global.push(setting),
            Current::Share(index) => self.raw.shares[index].settings.push(setting),
        }
        match fold_name(name).as_str() {
            "include" if !value.is_empty() => self.include(value, &place),
            "netbiosname" if matches!(self.current, Current::Global) => {
                self.variables.netbios_name = value.to_uppercase()
            }
            "workgroup" if matches!(self.current, Current::Global) => self.variables.workgroup = value.to_uppercase(),
            _ => {}
        }
    }

    fn header(&mut self, text: &str, place: Place) {
        self.current = Current::Refused;
        let inside = text[1..].split_once(']');
        let Some((name, behind)) = inside.map(|(name, behind)| (name.trim(), behind.trim())) else {
            let problem = error(Code::BadSection, format!("`{text}` has no closing bracket"));
            return self.problems.add(problem.at(&place).of(text, "").remedy("write `[name]`"));
        };
        if !(behind.is_empty() || behind.starts_with(['#', ';'])) {
            let problem = error(Code::BadSection, format!("text `{behind}` after the section header [{name}]"));
            return self.problems.add(problem.at(&place).of(name, behind).remedy("put it on a line of its own"));
        }
        let folded = fold(name);
        if folded == "global" {
            self.current = Current::Global;
            return;
        }
        if let Err(why) = check_share_name(name) {
            let problem = error(Code::BadSection, format!("[{name}] cannot be the name of a share: {why}"));
            return self.problems.add(problem.at(&place).of(name, "").remedy("choose another name"));
        }
        if let Some(first) = self.known.get(&folded) {
            let first = first.as_ref().map(|place| format!(", first defined at {place}")).unwrap_or_default();
            let problem = error(Code::DuplicateShare, format!("the share [{name}] is defined twice{first}"));
            let remedy = "remove or rename one of the two; names are compared without regard to case";
            return self.problems.add(problem.at(&place).of(name, "").remedy(remedy));
        }
        self.known.insert(folded, Some(place.clone()));
        self.current = Current::Share(self.raw.shares.len());
        self.raw.shares.push(Section { name: name.to_owned(), place: Some(place), settings: Vec::new() });
    }

    fn include(&mut self, value: &str, place: &Place) {
        if value.eq_ignore_ascii_case("registry") {
            let problem = warning(Code::NotServed, "include = registry is not supported: Frevo has no registry");
            return self.problems.add(
                problem
                    .at(place)
                    .of("include", value)
                    .remedy("write the output of `net conf list` to a file and include that file"),
            );
        }
        let expanded = self.variables.expand(unquote(value));
        let Some(path) = Template::parse(&expanded.text).ok().and_then(|template| template.constant()) else {
            let message = format!("include = {value} is ignored: a file for each client or user is not supported");
            let remedy = "use %h, %L, %D or %$(VARIABLE), which are the same for the whole server";
            return self.problems.add(warning(Code::NotServed, message).at(place).of("include", value).remedy(remedy));
        };
        let folder = place.file.parent().unwrap_or(Path::new(""));
        // Deviates from Samba, which resolves relative paths against the working directory of the process.
        let path = folder.join(path);
        if self.stack.contains(&identity(&path)) {
            let chain: Vec<_> = self.stack.iter().map(|file| file.display().to_string()).collect();
            let message =
                format!("include = {value}: the file includes itself ({} -> {})", chain.join(" -> "), path.display());
            let remedy = "remove this include, or the one that leads here";
            return self.problems.add(error(Code::IncludeLoop, message).at(place).of("include", value).remedy(remedy));
        }
        if self.stack.len() >= DEEPEST || self.files >= MOST_FILES {
            let message =
                format!("include = {value}: more than {DEEPEST} levels of includes, or {MOST_FILES} files in all");
            let remedy = "look for files that include each other";
            return self.problems.add(error(Code::IncludeLoop, message).at(place).of("include", value).remedy(remedy));
        }
        match (self.read_file)(&path) {
            Ok(bytes) => self.file(&path, &bytes),
            Err(why) => {
                let message = format!("include = {value}: cannot read {}: {why}", path.display());
                let remedy = "correct the path (relative paths start at this file's directory) or remove the line";
                self.problems.add(error(Code::IncludeMissing, message).at(place).of("include", value).remedy(remedy));
            }
        }
    }
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
