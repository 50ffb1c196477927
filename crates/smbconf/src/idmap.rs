//! Stage two, `idmap config DOMAIN : option = value`: the id mappings that the server computes without winbindd, and
//! settings that winbindd would refuse. Domains other than the server's own, and back ends that keep tables, need
//! winbindd.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use server::domain::Membership;

use super::problem::{Code, Problem, Problems, error, note, warning};
use super::raw::{Raw, Setting};
use super::table::fold_name;
use winbind::idmap::{Backend, Map};

/// Samba's back ends that only winbindd implements.
const TABLES: &[&str] = &["ad", "autorid", "hash", "ldap", "passdb", "rfc2307", "script", "tdb", "tdb2"];
/// Back ends that cannot be the default for all other domains (`*`), because they cannot allocate new ids.
const NEVER_DEFAULT: &[&str] = &["ad", "nss", "rfc2307", "rid"];

/// The options of one domain; the last line of each option applies.
type Options<'a> = BTreeMap<String, &'a Setting>;

/// Returns how ids follow from SIDs in the domain of `membership`; `None` if winbindd must map them.
pub(super) fn build(raw: &Raw, membership: Option<&Membership>, problems: &mut Problems) -> Option<Map> {
    // On a standalone server only Samba uses these parameters.
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
                    let problem = error(
                        Code::BadValue,
                        format!("`{}` is not a valid value for `{}`", setting.value, setting.name),
                    );
                    report(
                        problems,
                        setting,
                        problem.remedy("allowed: the lowest and the highest id, such as 100000-999999"),
                    );
                }
            }
        }
    }
    for (at, (domain, range, setting)) in ranges.iter().enumerate() {
        let shared =
            |(_, other, _): &&(_, RangeInclusive<u32>, _)| other.start() <= range.end() && range.start() <= other.end();
        if let Some((other, ..)) = ranges[..at].iter().find(shared) {
            let message = format!("the id ranges of {other} and {domain} overlap: two users could have the same id");
            report(problems, setting, warning(Code::Contradiction, message).remedy("give each domain its own range"));
        }
    }
    own(&domains, &membership.workgroup, problems)
}

/// Splits `idmap config DOM : range` into domain and option.
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
        let message = format!("`{}` = {backend}: winbindd accepts this back end only for named domains", setting.name);
        let remedy = "write `idmap config * : backend = tdb`, and set this back end for the domain by name";
        report(problems, setting, warning(Code::BadValue, message).remedy(remedy));
    } else if !TABLES.contains(&&*backend) && !["rid", "nss"].contains(&&*backend) {
        let message = format!("`{backend}` is not a valid back end for `{}`", setting.name);
        report(
            problems,
            setting,
            warning(Code::BadValue, message).remedy(format!("allowed: rid, nss, {}", TABLES.join(", "))),
        );
    }
}

/// Returns the map of the server's own domain.
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
                let message = format!("`{}` = rid needs an id range for {workgroup}", setting.name);
                let remedy = format!("add `idmap config {workgroup} : range = 100000-999999`");
                report(problems, setting, error(Code::BadValue, message).remedy(remedy));
            }
            range.as_ref()?;
            Backend::Rid { base: base_rid(options, problems) }
        }
        "nss" => {
            if !options.contains_key("range") {
                let message = format!(
                    "`{}` = nss has no id range for {workgroup}: without winbindd a domain user could be confused with \
                     a local user of the same name, so users of the domain cannot log on then",
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
        let problem = error(Code::BadValue, format!("`{}` is not a valid value for `{}`", setting.value, setting.name));
        report(problems, setting, problem.remedy("allowed: a RID, such as 1000; remove the line for 0"));
        0
    })
}

fn needs_winbindd(workgroup: &str, setting: &Setting, problems: &mut Problems) {
    let message = format!(
        "`{}` = {}: only winbindd can map ids of {workgroup}; without it users of the domain cannot log on",
        setting.name, setting.value
    );
    let remedy = format!(
        "keep winbindd running; if ids may be computed from RIDs, `idmap config {workgroup} : backend = rid` needs it \
         only for NTLM, but existing files keep their old ids"
    );
    report(problems, setting, note(Code::Accepted, message).remedy(remedy));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Severity;

    /// Returns the map of the domain DOM for `lines`, and checks the problems: severity, and words of each message.
    fn check(lines: &[(&str, &str)], expected: Option<Map>, said: &[(Severity, &str)]) {
        let setting =
            |(name, value): &(&str, &str)| Setting { name: (*name).into(), value: (*value).into(), place: None };
        let raw = Raw { global: lines.iter().map(setting).collect(), ..Raw::default() };
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
    fn backends_without_winbindd_are_read() {
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
        // The last line applies.
        let range = ("idmap config DOM : range", "7-8");
        check(&[backend, ("idmap config DOM : range", "5-6"), range], rid(0, 7..=8), &[]);
    }

    #[test]
    fn backends_that_need_winbindd_are_reported() {
        for backend in TABLES {
            check(
                &[("idmap config DOM : backend", backend)],
                None,
                &[(Severity::Note, "only winbindd can map ids of DOM")],
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
    fn invalid_settings_are_reported() {
        let backend = ("idmap config DOM : backend", "rid");
        let range = ("idmap config DOM : range", "1000-1999");
        check(&[backend], None, &[(Severity::Error, "add `idmap config DOM : range")]);
        let by_name = ("idmap config DOM : backend", "nss");
        check(&[by_name], None, &[(Severity::Warning, "no id range for DOM")]);
        for wrong in ["", "1000", "2-1", "a-b", "1-99999999999", "-1-5"] {
            let said = [(Severity::Error, "the lowest and the highest id")];
            check(&[backend, ("idmap config DOM : range", wrong)], None, &said);
        }
        let base = ("idmap config DOM : base_rid", "low");
        let map = Some(Map { backend: Backend::Rid { base: 0 }, range: Some(1000..=1999) });
        check(&[backend, range, base], map.clone(), &[(Severity::Error, "remove the line for 0")]);
        let other = ("idmap config OTHER : range", "1999-2100");
        check(&[backend, range, other], map.clone(), &[(Severity::Warning, "DOM and OTHER overlap")]);
        check(&[backend, range, ("idmap config OTHER : range", "2000-2100")], map, &[]);
        let said = [(Severity::Warning, "only for named domains"), (Severity::Note, "only winbindd can")];
        check(&[("idmap config * : backend", "rid")], None, &said);
        let said = [(Severity::Warning, "`ridd` is not a valid back end"), (Severity::Note, "only winbindd can")];
        check(&[("idmap config DOM : backend", "ridd")], None, &said);
    }
}
