//! Stage one: text -> sections with `name = value` lines, each with its file and line.
//!
//! Included files are read here, in the place where they stand, as Samba does: what follows an `include` belongs to
//! the last section that the file opened. What the names mean is stage two's business.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use server::policy::{Template, fold};

use super::lines::{self, Unreadable};
use super::problem::{Code, Place, Problems, error, warning};
use super::table::fold_name;
use super::variables::ServerVariables;

/// How deep files may include each other.
const DEEPEST: usize = 32;

/// How many files may be included in all: a chain of files that include the next one twice grows without bound.
const MOST_FILES: usize = 1_000;

/// Reads a file; a closure so that tests need none.
pub(super) type ReadFile<'a> = &'a dyn Fn(&Path) -> std::io::Result<Vec<u8>>;

/// A configuration, as written.
#[derive(Debug, Default)]
pub(super) struct Raw {
    /// `[global]`, all of its parts.
    pub(super) global: Vec<Setting>,
    /// The other sections in their order.
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
    /// The value, white space at its ends gone.
    pub(super) value: String,
    /// Where it stands; `None` for one of the command line.
    pub(super) place: Option<Place>,
}

/// Where the next line belongs.
#[derive(Clone, Copy)]
enum Current {
    None,
    Global,
    Share(usize),
    /// A section that is refused: its lines are not looked at.
    Refused,
}

pub(super) struct Reader<'a> {
    read_file: ReadFile<'a>,
    variables: &'a mut ServerVariables<'a>,
    problems: &'a mut Problems,
    raw: Raw,
    current: Current,
    known: HashMap<String, Option<Place>>,
    /// The files that are being read, the first one first.
    stack: Vec<PathBuf>,
    files: usize,
}

/// Reads `path` and what it includes.
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
            let problem = error(Code::Unreadable, format!("the configuration file cannot be read: {why}"));
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
                        .remedy("save the file as UTF-8; `iconv -f ISO-8859-1 -t UTF-8` converts an old one"),
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
            let problem = error(Code::BadLine, format!("`{text}` has no name in front of its ="));
            return self.problems.add(problem.at(&place).of("", value).remedy("write `name = value`"));
        }
        let setting = Setting { name: name.to_owned(), value: value.to_owned(), place: Some(place.clone()) };
        match self.current {
            Current::None => {
                let problem = error(Code::OutsideSection, format!("`{name}` stands before the first section"));
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
            let problem = error(Code::BadSection, format!("`{behind}` stands behind the section [{name}]"));
            return self.problems.add(problem.at(&place).of(name, behind).remedy("put it on a line of its own"));
        }
        let folded = fold(name);
        if folded == "global" {
            self.current = Current::Global;
            return;
        }
        if let Err(why) = check_share_name(name) {
            let problem = error(Code::BadSection, format!("[{name}] cannot be a share: {why}"));
            return self.problems.add(problem.at(&place).of(name, "").remedy("choose another name"));
        }
        if let Some(first) = self.known.get(&folded) {
            let first = first.as_ref().map(|place| format!(", first at {place}")).unwrap_or_default();
            let problem = error(Code::DuplicateShare, format!("the share [{name}] is there twice{first}"));
            let remedy = "remove or rename one of the two; names are compared without regard to case";
            return self.problems.add(problem.at(&place).of(name, "").remedy(remedy));
        }
        self.known.insert(folded, Some(place.clone()));
        self.current = Current::Share(self.raw.shares.len());
        self.raw.shares.push(Section { name: name.to_owned(), place: Some(place), settings: Vec::new() });
    }

    fn include(&mut self, value: &str, place: &Place) {
        if value.eq_ignore_ascii_case("registry") {
            let problem = warning(Code::NotServed, "include = registry: there is no registry here");
            return self.problems.add(
                problem
                    .at(place)
                    .of("include", value)
                    .remedy("write what `net conf list` prints into a file, and include that"),
            );
        }
        let expanded = self.variables.expand(unquote(value));
        let Some(path) = Template::parse(&expanded.text).ok().and_then(|template| template.constant()) else {
            let message = format!("include = {value}: a file for each client or user is not served, so it is not read");
            let remedy = "use %h, %L, %D or %$(VARIABLE), which are the same for the whole server";
            return self.problems.add(warning(Code::NotServed, message).at(place).of("include", value).remedy(remedy));
        };
        let folder = place.file.parent().unwrap_or(Path::new(""));
        // Deviates from Samba, which starts at the working directory of whoever runs it.
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
                format!("include = {value}: more than {DEEPEST} files within each other, or {MOST_FILES} in all");
            let remedy = "look for files that include each other";
            return self.problems.add(error(Code::IncludeLoop, message).at(place).of("include", value).remedy(remedy));
        }
        match (self.read_file)(&path) {
            Ok(bytes) => self.file(&path, &bytes),
            Err(why) => {
                let message = format!("include = {value}: {} cannot be read: {why}", path.display());
                let remedy = "correct the path (a relative one starts at the folder of this file) or remove the line";
                self.problems.add(error(Code::IncludeMissing, message).at(place).of("include", value).remedy(remedy));
            }
        }
    }
}

/// The file behind `path`, whatever links lead to it.
fn identity(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// `text` without the quotation marks around it, as Samba reads texts.
pub(super) fn unquote(text: &str) -> &str {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inside) if !inside.contains('"') => inside,
        _ => text,
    }
}

/// Why `name` cannot be the name of a share ([MS-SRVS] 2.2.4.23 bounds it at 80 characters).
pub(super) fn check_share_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the name is empty".into());
    }
    if name.encode_utf16().count() > 80 {
        return Err("the name has more than 80 characters".into());
    }
    match name.chars().find(|character| character.is_control() || "\"\\/[]:|<>+=;,*?".contains(*character)) {
        Some(character) => Err(format!("clients cannot send the character {character:?} in a name")),
        None => Ok(()),
    }
}
