//! Between the stages, the meaning of each name. Synonyms are replaced by their parameter, `copy` is applied, values
//! are checked against the table, and every unknown, misplaced or unsupported parameter is reported.

use std::collections::{BTreeMap, HashMap, HashSet};

use server::policy::fold;

use super::defaults::Defaults;
use super::problem::{Code, Place, Problem, Problems, Severity, error, note, warning, without_effect};
use super::raw::{Raw, Section, Setting};
use super::table::share::{COPY, INCLUDE};
use super::table::{self, Kind, Parameter, Scope, Status};
use super::{comment, obsolete, value};

/// The recognized parameters that one section sets, by their name in the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(pub(super) BTreeMap<&'static str, Value>);

/// The value of a parameter.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// The value, in the normalized spelling of [`value::normalize`].
    pub(super) text: String,
    /// Where it was set.
    pub(super) place: Option<Place>,
}

/// A resolved share.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) name: String,
    pub(super) place: Option<Place>,
    pub(super) settings: Settings,
}

/// A resolved configuration.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) global: Settings,
    pub(super) shares: Vec<Share>,
}

/// Resolves `raw`.
pub(super) fn resolve(raw: &Raw, problems: &mut Problems) -> Resolved {
    let mut resolved = Resolved::default();
    for setting in &raw.global {
        enter(&mut resolved.global, None, setting, problems);
    }
    let mut faulty: HashSet<String> =
        problems.shares_not_served().filter_map(|it| it.share.as_deref()).map(fold).collect();
    let mut known = HashMap::new();
    let mut defaults = Defaults::new(raw, &resolved.global);
    for section in &raw.shares {
        let (mut settings, mut own) = (Settings::default(), Problems::default());
        for setting in &section.settings {
            enter(&mut settings, Some(section), setting, &mut own);
        }
        if let Some(from) = settings.0.get(COPY.name).cloned() {
            let earlier = known.get(&fold(&from.text)).map(|index: &usize| &resolved.shares[*index]);
            let problem = match earlier {
                Some(share) => copy(&mut settings, share).filter(|_| faulty.contains(&fold(&from.text))),
                None => Some(no_such_share(&from, section)),
            };
            problem.into_iter().for_each(|it| add(&mut own, it, COPY.name, &from.text, &from.place));
        }
        let ignored =
            |settings: &mut Settings, setting: &Setting| enter(settings, None, setting, &mut Problems::default());
        defaults.give(&mut settings, section.globals, ignored);
        // In a section that is not served at all, notes about single parameters are irrelevant.
        if special(&section.name).is_some() {
            own.0.retain(|problem| !matches!(problem.code, Code::NotServed | Code::Accepted));
        }
        for problem in own.0 {
            let problem = problem.in_share(&section.name);
            if problem.is_of_share() {
                faulty.insert(fold(&section.name));
            }
            problems.add(problem);
        }
        known.insert(fold(&section.name), resolved.shares.len());
        resolved.shares.push(Share { name: section.name.clone(), place: section.place.clone(), settings });
    }
    add_suggestions(problems);
    resolved
}

/// Returns the feature to which a special section belongs; `None` for a share that is served.
pub(super) fn special(name: &str) -> Option<&'static str> {
    match name.to_lowercase().as_str() {
        "print$" => Some("drivers of printers for clients"),
        "ipc$" => Some("IPC$ always exists and takes no parameters"),
        _ => None,
    }
}

/// Applies `copy`: adds the other share's parameters that this one does not set. Returns the problem if the other share
/// has errors, because a restriction may be missing in it.
fn copy(settings: &mut Settings, share: &Share) -> Option<Problem> {
    for (name, value) in &share.settings.0 {
        settings.0.entry(name).or_insert_with(|| value.clone());
    }
    let message = format!("it is a copy of the share [{}], which has errors", share.name);
    Some(error(Code::CopyMissing, message).remedy("correct the other share"))
}

fn no_such_share(from: &Value, section: &Section) -> Problem {
    let message = format!("copy = {}: no share of this name is defined before [{}]", from.text, section.name);
    error(Code::CopyMissing, message).remedy("name a share that is defined earlier in the file")
}

fn add(problems: &mut Problems, problem: Problem, subject: &str, value: &str, place: &Option<Place>) {
    let problem = problem.of(subject, value);
    problems.add(match place {
        Some(place) => problem.at(place),
        None => problem,
    });
}

/// Adds one line to its section.
fn enter(settings: &mut Settings, section: Option<&Section>, setting: &Setting, problems: &mut Problems) {
    let Setting { name, value, place } = setting;
    let report = |problems: &mut Problems, problem| add(problems, problem, name, value, place);
    if name.contains(':') && table::find(name).is_none() {
        return parametric(name, value).into_iter().for_each(|problem| report(problems, problem));
    }
    let Some((parameter, inverted)) = table::find(name) else {
        return report(problems, unknown(name, value));
    };
    if let (Scope::Global, Some(section)) = (parameter.scope, section) {
        let opened = section.place.as_ref().map(|place| format!(" (it begins at {place})")).unwrap_or_default();
        let message = format!("`{name}` is for [global] and has no effect in the share [{}]{opened}", section.name);
        return report(problems, warning(Code::WrongSection, message).remedy("move the line to [global]"));
    }
    let (text, problem) = read_value(parameter, name, value);
    problem.into_iter().for_each(|problem| report(problems, problem));
    let Some(text) = text else { return };
    let text = match inverted {
        true => if text == "yes" { "no" } else { "yes" }.to_owned(),
        false => text,
    };
    if parameter.name != INCLUDE.name {
        let entered = Value { text: text.clone(), place: place.clone() };
        if let Some(before) = settings.0.insert(parameter.name, entered).filter(|before| before.text != text) {
            let first = before.place.map(|place| format!(" at {place}")).unwrap_or_default();
            let message = format!("`{name}` is set twice in this section: this value applies, not the one{first}");
            report(problems, warning(Code::SetTwice, message).remedy("remove one of the two lines"));
        }
    }
    match parameter.status {
        Status::Served => {}
        status if status.is_for_other_programs() => {}
        Status::Accepted(reason) => report(problems, without_effect(Code::Accepted, format!("`{name}`"), reason)),
        Status::NotServed(feature) => {
            report(problems, not_served(parameter, name, &text, feature, section.map(|section| &*section.name)))
        }
    }
}

fn unknown(name: &str, value: &str) -> Problem {
    warning(Code::UnknownParameter, format!("unknown parameter `{name} = {value}` is ignored"))
}

/// Adds the remedies of unknown parameters. Only some names are compared with all known ones, because a file that is
/// not a configuration may have hundreds of thousands.
fn add_suggestions(problems: &mut Problems) {
    let unknown = |problem: &&mut Problem| problem.code == Code::UnknownParameter && problem.remedy.is_empty();
    for (at, problem) in problems.0.iter_mut().filter(unknown).enumerate() {
        problem.remedy = match (at < SUGGESTIONS).then(|| table::nearest(&problem.subject)).flatten() {
            Some(nearest) => format!("did you mean `{nearest}`? `frevo check --parameters` lists all parameters"),
            None => "correct the name or remove the line; `frevo check --parameters` lists all parameters".to_owned(),
        };
    }
}

/// The number of unknown parameters for which a similar name is searched.
const SUGGESTIONS: usize = 200;

/// Returns the value in its normalized spelling, `None` if it is not allowed, and a problem. A value that is not
/// allowed does no harm if the parameter has no effect.
fn read_value(parameter: &Parameter, name: &str, value: &str) -> (Option<String>, Option<Problem>) {
    if let Some((instead, why, remedy)) = obsolete::find(parameter.name, value) {
        let text = value::normalize(parameter.kind, instead).unwrap_or_default();
        let problem = warning(Code::ObsoleteValue, format!("`{name} = {value}` {why}; it is read as {instead}"));
        return (Some(text), Some(problem.remedy(remedy)));
    }
    match value::normalize(parameter.kind, value) {
        Ok(text) => (Some(text), comment::within(parameter, name, value)),
        Err(allowed) => match comment::number(parameter, name, value) {
            Some((text, remark)) => (Some(text), Some(remark)),
            None if parameter.status == Status::Served => (None, Some(bad_value(name, value, &allowed))),
            None => {
                let problem = bad_value(name, value, &allowed);
                (None, Some(Problem { severity: Severity::Warning, ..problem }))
            }
        },
    }
}

fn bad_value(name: &str, value: &str, allowed: &str) -> Problem {
    let message = match value.is_empty() {
        true => format!("`{name}` has no value"),
        false => format!("`{value}` is not a valid value for `{name}`"),
    };
    // Samba does not support comments after a value, but users of other programs write them.
    let comment = comment::split(value).map(|_| "; a comment must be on its own line").unwrap_or_default();
    error(Code::BadValue, message).remedy(format!("allowed: {allowed}{comment}"))
}

/// Parameters of a module that is missing are only notes, because the module itself is a warning.
fn parametric(name: &str, value: &str) -> Option<Problem> {
    Some(match table::find_prefix(name).map(|prefix| prefix.status) {
        Some(status) if status.is_for_other_programs() => return None,
        Some(Status::Accepted(reason)) => without_effect(Code::Accepted, format!("`{name}`"), reason),
        Some(Status::NotServed(feature)) => {
            without_effect(Code::NotServed, format!("`{name}`"), &format!("not supported: {feature}"))
        }
        Some(Status::Served) | None => {
            let front = name.split(':').next().unwrap_or_default().trim();
            let nearest = table::PREFIXES.iter().map(|prefix| prefix.name).find(|known| {
                known.len() == front.len() && known.bytes().zip(front.bytes()).filter(|(a, b)| a != b).count() <= 2
            });
            let remedy = match nearest {
                Some(nearest) => format!("did you mean `{nearest}:`?"),
                None => "correct the part before the colon or remove the line".to_owned(),
            };
            let message = format!("unknown parameter `{name} = {value}`: there is no module or feature `{front}`");
            warning(Code::UnknownParameter, message).remedy(remedy)
        }
    })
}

/// The remedy for a missing feature that the administrator cannot add.
pub(super) const WITHOUT: &str = "remove it if it is not needed; otherwise keep serving this share with Samba";

/// The remedy for a parameter that runs a command.
const RUN_ELSEWHERE: &str = "run the command by other means, for example from a systemd unit, and remove the line";

fn not_served(parameter: &Parameter, name: &str, text: &str, feature: &str, share: Option<&str>) -> Problem {
    if let Some(why) = asks_for_nothing(parameter, text) {
        return without_effect(Code::NotServed, format!("`{name}`"), &format!("{why}; not supported: {feature}"));
    }
    let lost = match feature {
        table::COMMANDS => format!("the command of `{}`", parameter.name),
        feature => feature.to_owned(),
    };
    let message = format!("`{name}` is not supported: {feature}");
    let problem = match IN_STOCK_FILES.contains(&parameter.name) {
        true => note(Code::NotServed, message),
        false => warning(Code::NotServed, message),
    };
    problem.remedy(if feature == table::COMMANDS { RUN_ELSEWHERE } else { WITHOUT }).loses(&lost, share)
}

/// Parameters of distributions' own files, which are not a decision of the administrator. They are notes.
const IN_STOCK_FILES: &[&str] = &["unix password sync"];

/// Parameters that are on by default; turning them off is what is not supported.
const ALWAYS_ON: &[&str] = &["preserve case", "short preserve case", "dos filetimes"];

/// Returns why nothing is missing with this value: it is Samba's default, or turns off an unsupported feature.
fn asks_for_nothing(parameter: &Parameter, text: &str) -> Option<&'static str> {
    let default = value::normalize(parameter.kind, parameter.default).unwrap_or_default();
    if text.eq_ignore_ascii_case(&default) {
        return Some("the value is Samba's default");
    }
    let off = match text.to_ascii_lowercase().as_str() {
        _ if ALWAYS_ON.contains(&parameter.name) => false,
        "" | "no" | "false" | "off" | "0" | "never" => true,
        text => parameter.kind == Kind::Octal && text == "0000",
    };
    off.then_some("the value turns the feature off")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str) -> Setting {
        Setting { name: name.into(), value: value.into(), place: None }
    }

    fn check(name: &str, value: &str, expected: Option<(Severity, Code)>) {
        let mut problems = Problems::default();
        let raw = Raw { global: vec![setting(name, value)], ..Raw::default() };
        resolve(&raw, &mut problems);
        let found = problems.0.first().map(|problem| (problem.severity, problem.code));
        assert_eq!(found, expected, "{name} = {value}: {problems}");
        assert!(problems.0.len() <= 1, "{problems}");
    }

    #[test]
    fn every_line_is_checked() {
        check("read only", "no", None);
        check("WRITEABLE", "yes", None);
        check("read only", "maybe", Some((Severity::Error, Code::BadValue)));
        check("read only", "no # really", Some((Severity::Error, Code::BadValue)));
        check("raed only", "no", Some((Severity::Warning, Code::UnknownParameter)));
        check("strict rename", "yes", Some((Severity::Warning, Code::NotServed)));
        check("strict rename", "no", Some((Severity::Note, Code::NotServed)));
        check("load printers", "yes", None);
        check("obey pam restrictions", "yes", None);
        check("unix password sync", "yes", Some((Severity::Note, Code::NotServed)));
        check("host msdfs", "yes", None);
        check("wins support", "yes", None);
        check("client min protocol", "SMB3", None);
        check("kernel share modes", "yes", Some((Severity::Warning, Code::NotServed)));
        check("read raw", "yes", Some((Severity::Note, Code::Accepted)));
        check("read raw", "perhaps", Some((Severity::Warning, Code::BadValue)));
        check("security", "SHARE", Some((Severity::Warning, Code::ObsoleteValue)));
        check("create mask", "0700 # x", Some((Severity::Warning, Code::TrailingComment)));
        check("create mask", "0700 x", Some((Severity::Error, Code::BadValue)));
        check("valid users", "ann # not bob", Some((Severity::Warning, Code::TrailingComment)));
        check("path", "/srv ; data", Some((Severity::Warning, Code::TrailingComment)));
        check("comment", "Room #5 # left", None);
        check("fruit:metadata", "stream", None);
        check("fruit:nonsense", "yes", Some((Severity::Note, Code::NotServed)));
        check("friut:metadata", "stream", Some((Severity::Warning, Code::UnknownParameter)));
        check("idmap config * : range", "1000-2000", None);
        check("idmap config EXAMPLE:backend", "rid", None);
        check("winbind refresh tickets", "yes", None);
        check("smbd:suicide mode", "yes", Some((Severity::Note, Code::Accepted)));
        check("root preexec", "mkdir /tmp/x", Some((Severity::Warning, Code::NotServed)));
    }

    #[test]
    fn lists_have_names_of_the_table() {
        for name in IN_STOCK_FILES.iter().chain(ALWAYS_ON) {
            assert!(table::find(name).is_some_and(|(parameter, _)| parameter.name == *name), "{name}");
        }
    }

    #[test]
    fn inverted_synonyms_are_negated() {
        for (name, text, expected) in [("writable", "yes", "no"), ("write ok", "0", "yes"), ("read only", "1", "yes")] {
            let raw = Raw { global: vec![setting(name, text)], ..Raw::default() };
            let resolved = resolve(&raw, &mut Problems::default());
            assert_eq!(resolved.global.0["read only"].text, expected, "{name} = {text}");
        }
    }

    #[test]
    fn explicit_values_override_copied_ones() {
        let section = |name: &str, settings: &[(&str, &str)]| Section {
            name: name.into(),
            place: None,
            globals: 0,
            settings: settings.iter().map(|(name, value)| setting(name, value)).collect(),
        };
        let shares = vec![
            section("a", &[("path", "/a"), ("comment", "one"), ("guest ok", "yes")]),
            section("b", &[("path", "/b"), ("copy", "A"), ("public", "no")]),
            section("c", &[("copy", "d")]),
            section("d", &[("path", "/d")]),
        ];
        let mut problems = Problems::default();
        let resolved = resolve(&Raw { shares, ..Raw::default() }, &mut problems);
        let b = &resolved.shares[1].settings.0;
        assert_eq!((&*b["path"].text, &*b["comment"].text, &*b["guest ok"].text), ("/b", "one", "no"));
        assert_eq!(problems.0.len(), 1, "{problems}");
        assert_eq!(problems.0[0].code, Code::CopyMissing);
    }
}
