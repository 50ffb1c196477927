//! Stage two, `idmap config DOMAIN : option = value`: whose ids the server knows without winbindd, and what winbindd would
//! refuse. Domains other than the server's own, and back ends that keep tables, are winbindd's alone.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use server::domain::Membership;

use super::problem::{Code, Problem, Problems, error, note, warning};
use super::raw::{Raw, Setting};
use super::table::fold_name;
use crate::idmap::{Backend, Map};

/// Samba's back ends that only winbindd has.
const TABLES: &[&str] = &["ad", "autorid", "hash", "ldap", "passdb", "rfc2307", "script", "tdb", "tdb2"];
/// Those that cannot be what all other domains have, as they make no new ids.
const NEVER_DEFAULT: &[&str] = &["ad", "nss", "rfc2307", "rid"];

/// The options of one domain, each by its last line.
type Options<'a> = BTreeMap<String, &'a Setting>;

/// How ids follow from SIDs in the domain of `membership`; `None` where winbindd must say.
pub(super) fn build(raw: &Raw, membership: Option<&Membership>, problems: &mut Problems) -> Option<Map> {
    // For a server by itself they are Samba's affair.
    let membership = membership?;
    let mut domains: BTreeMap<String, Options<'_>> = BTreeMap::new();
    for setting in &raw.global {
        let Some((domain, option)) = domain_and_option(&setting.name) else { continue };
        domains.entry(domain).or_default().insert(option, setting);
    }
    let mut ranges = Vec::new();
    for (domain, options) in &domains {
        check_backend(domain, options, problems);
        if let Some(setting) = options.get("range") {
            match range(&setting.value) {
                Some(range) => ranges.push((domain, range, *setting)),
                None => {
                    let problem =
                        error(Code::BadValue, format!("`{}` is no value for `{}`", setting.value, setting.name));
                    report(problems, setting, problem.remedy("allowed: the lowest and the highest id, 100000-999999"));
                }
            }
        }
    }
    for (at, (domain, range, setting)) in ranges.iter().enumerate() {
        let shared =
            |(_, other, _): &&(_, RangeInclusive<u32>, _)| other.start() <= range.end() && range.start() <= other.end();
        if let Some((other, ..)) = ranges[..at].iter().find(shared) {
            let message = format!("the ranges of ids of {other} and {domain} overlap: one id would be two users");
            report(
                problems,
                setting,
                warning(Code::Contradiction, message).remedy("give each domain a range of its own"),
            );
        }
    }
    own(&domains, &membership.workgroup, problems)
}

/// `idmap config DOM : range` apart.
fn domain_and_option(name: &str) -> Option<(String, String)> {
    let (front, option) = name.split_once(':')?;
    let folded = fold_name(front);
    let domain = folded.strip_prefix("idmapconfig").filter(|domain| !domain.is_empty())?;
    Some((domain.to_uppercase(), option.trim().to_lowercase()))
}

fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (low, high) = text.split_once('-')?;
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some(low..=high)
}

fn report(problems: &mut Problems, setting: &Setting, problem: Problem) {
    let problem = problem.of(&setting.name, &setting.value);
    problems.add(match &setting.place {
        Some(place) => problem.at(place),
        None => problem,
    });
}

fn check_backend(domain: &str, options: &Options<'_>, problems: &mut Problems) {
    let Some(setting) = options.get("backend") else { return };
    let backend = setting.value.to_lowercase();
    if domain == "*" && NEVER_DEFAULT.contains(&&*backend) {
        let message = format!("`{}` = {backend}: winbindd takes it for no domain but one that is named", setting.name);
        let remedy = "write `idmap config * : backend = tdb`, and this one for the domain by its name";
        report(problems, setting, warning(Code::BadValue, message).remedy(remedy));
    } else if !TABLES.contains(&&*backend) && !["rid", "nss"].contains(&&*backend) {
        let message = format!("`{backend}` is no back end of Samba's for `{}`", setting.name);
        report(
            problems,
            setting,
            warning(Code::BadValue, message).remedy(format!("allowed: rid, nss, {}", TABLES.join(", "))),
        );
    }
}

/// The map of the server's own domain.
fn own(domains: &BTreeMap<String, Options<'_>>, workgroup: &str, problems: &mut Problems) -> Option<Map> {
    let named = domains.get(&workgroup.to_uppercase()).and_then(|options| Some((options, *options.get("backend")?)));
    let Some((options, setting)) = named else {
        if let Some(setting) = domains.get("*").and_then(|options| options.get("backend")) {
            needs_winbindd(workgroup, setting, problems);
        }
        return None;
    };
    let range = options.get("range").and_then(|setting| range(&setting.value));
    let backend = match setting.value.to_lowercase().as_str() {
        "rid" => {
            if !options.contains_key("range") {
                let message = format!("`{}` = rid, and there is no range for {workgroup}", setting.name);
                let remedy = format!("add `idmap config {workgroup} : range = 100000-999999`");
                report(problems, setting, error(Code::BadValue, message).remedy(remedy));
            }
            range.as_ref()?;
            Backend::Rid { base: base_rid(options, problems) }
        }
        "nss" => {
            if !options.contains_key("range") {
                let message = format!(
                    "`{}` = nss, and there is no range for {workgroup}: without winbindd, who is called like a user of the \
                     system in the domain would be that user, so nobody of it logs on then",
                    setting.name
                );
                let remedy = format!("add `idmap config {workgroup} : range = 1000-999999`");
                report(problems, setting, warning(Code::BadValue, message).remedy(remedy));
            }
            range.as_ref()?;
            Backend::Nss
        }
        _ => {
            needs_winbindd(workgroup, setting, problems);
            return None;
        }
    };
    Some(Map { backend, range })
}

fn base_rid(options: &Options<'_>, problems: &mut Problems) -> u32 {
    let Some(setting) = options.get("base_rid") else { return 0 };
    setting.value.parse().unwrap_or_else(|_| {
        let problem = error(Code::BadValue, format!("`{}` is no value for `{}`", setting.value, setting.name));
        report(problems, setting, problem.remedy("allowed: a RID, such as 1000; leave the line out for 0"));
        0
    })
}

fn needs_winbindd(workgroup: &str, setting: &Setting, problems: &mut Problems) {
    let message = format!(
        "`{}` = {}: winbindd alone knows the ids of {workgroup}, and without it nobody of the domain logs on",
        setting.name, setting.value
    );
    let remedy = format!(
        "keep winbindd running; where ids may follow from RIDs, `idmap config {workgroup} : backend = rid` needs it for NTLM \
         only, but files keep the ids that they have"
    );
    report(problems, setting, note(Code::Accepted, message).remedy(remedy));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Severity;

    /// The map of the domain DOM by `lines`, and the problems: severity, and words of each.
    fn check(lines: &[(&str, &str)], expected: Option<Map>, said: &[(Severity, &str)]) {
        let setting =
            |(name, value): &(&str, &str)| Setting { name: (*name).into(), value: (*value).into(), place: None };
        let raw = Raw { global: lines.iter().map(setting).collect(), shares: Vec::new() };
        let mut problems = Problems::default();
        let membership = Membership { workgroup: "DOM".into(), realm: "DOM.TEST".into() };
        assert_eq!(build(&raw, Some(&membership), &mut problems), expected, "{lines:?}");
        assert_eq!(problems.0.len(), said.len(), "{lines:?}: {problems}");
        for (problem, (severity, words)) in problems.0.iter().zip(said) {
            assert_eq!(problem.severity, *severity, "{problem}");
            assert!(problem.to_string().contains(words) && !problem.remedy.is_empty(), "{words}: {problem}");
        }
        assert_eq!(build(&raw, None, &mut Problems::default()), None);
    }

    #[test]
    fn what_needs_no_winbindd() {
        let rid = |base, range| Some(Map { backend: Backend::Rid { base }, range: Some(range) });
        let any = ("idmap config * : backend", "tdb");
        let backend = ("idmap config DOM : backend", "rid");
        check(&[any, backend, ("idmap config DOM : range", "100000-999999")], rid(0, 100_000..=999_999), &[]);
        check(
            &[
                ("IDMAP CONFIG dom:Backend", "RID"),
                ("idmapconfig dom:range", "1000 - 1999"),
                ("idmap config Dom : base_rid", "500"),
            ],
            rid(500, 1000..=1999),
            &[],
        );
        let nss = Some(Map { backend: Backend::Nss, range: Some(5..=9) });
        check(&[("idmap config DOM : backend", "nss"), ("idmap config DOM : range", "5-9")], nss, &[]);
        // The last line counts.
        let range = ("idmap config DOM : range", "7-8");
        check(&[backend, ("idmap config DOM : range", "5-6"), range], rid(0, 7..=8), &[]);
    }

    #[test]
    fn what_does_is_said_with_the_remedy() {
        for backend in TABLES {
            check(
                &[("idmap config DOM : backend", backend)],
                None,
                &[(Severity::Note, "winbindd alone knows the ids of DOM")],
            );
        }
        check(
            &[("idmap config * : backend", "autorid")],
            None,
            &[(Severity::Note, "`idmap config * : backend` = autorid")],
        );
        check(&[], None, &[]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let backend = ("idmap config DOM : backend", "rid");
        let range = ("idmap config DOM : range", "1000-1999");
        check(&[backend], None, &[(Severity::Error, "add `idmap config DOM : range")]);
        let by_name = ("idmap config DOM : backend", "nss");
        check(&[by_name], None, &[(Severity::Warning, "no range for DOM")]);
        for wrong in ["", "1000", "2-1", "a-b", "1-99999999999", "-1-5"] {
            let said = [(Severity::Error, "the lowest and the highest id")];
            check(&[backend, ("idmap config DOM : range", wrong)], None, &said);
        }
        let base = ("idmap config DOM : base_rid", "low");
        let map = Some(Map { backend: Backend::Rid { base: 0 }, range: Some(1000..=1999) });
        check(&[backend, range, base], map.clone(), &[(Severity::Error, "leave the line out for 0")]);
        let other = ("idmap config OTHER : range", "1999-2100");
        check(&[backend, range, other], map.clone(), &[(Severity::Warning, "DOM and OTHER overlap")]);
        check(&[backend, range, ("idmap config OTHER : range", "2000-2100")], map, &[]);
        let said = [(Severity::Warning, "no domain but one that is named"), (Severity::Note, "winbindd alone")];
        check(&[("idmap config * : backend", "rid")], None, &said);
        let said = [(Severity::Warning, "`ridd` is no back end"), (Severity::Note, "winbindd alone")];
        check(&[("idmap config DOM : backend", "ridd")], None, &said);
    }
}
