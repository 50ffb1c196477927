//! The values in effect, for `frevo check`.

use std::collections::HashSet;

use server::policy::Policy;

use super::problem::Problems;
use super::resolve::{self, Resolved, Settings};
use super::table::access::SECURITY;
use super::table::domain::{KERBEROS_METHOD, REALM};
use super::table::people::SSL_MODE;
use super::table::protocol::{NETBIOS_NAME, WORKGROUP};
use super::table::share::{COPY, INCLUDE, LEVEL};
use super::table::{self, BOOL_OR_AUTO, Kind, Parameter, Scope, Status};
use super::value;

/// The values of the served parameters, by section.
#[derive(Clone, Debug, Default)]
pub struct Effective {
    global: Settings,
    /// The served shares in file order.
    shares: Vec<(String, Settings)>,
    netbios_name: String,
    workgroup: String,
}

/// A section with the names and values of parameters.
pub type Section = (String, Vec<(&'static str, String)>);

impl Effective {
    pub(super) fn new(resolved: Resolved, policy: &Policy, problems: &Problems) -> Effective {
        let refused: HashSet<&str> =
            problems.shares_not_served().filter_map(|problem| problem.share.as_deref()).collect();
        let Resolved { global, shares } = resolved;
        let is_served =
            |share: &resolve::Share| resolve::special(&share.name).is_none() && !refused.contains(share.name.as_str());
        let shares = shares.into_iter().filter(is_served).map(|share| (share.name, share.settings)).collect::<Vec<_>>();
        let (netbios_name, workgroup) = (policy.netbios_name.clone(), policy.workgroup.clone());
        Effective { global, shares, netbios_name, workgroup }
    }

    /// Returns the served parameters whose values differ from the defaults: `[global]` first, then the shares in file
    /// order.
    pub fn differing(&self) -> Vec<Section> {
        let mut sections = vec![("global".to_owned(), differing(&self.global, None))];
        for (name, settings) in &self.shares {
            sections.push((name.clone(), differing(settings, Some(&self.global))));
        }
        sections
    }

    /// Returns every served parameter in the spelling of Samba's testparm: in `[global]` all of them, in the shares
    /// those of shares.
    pub fn all(&self) -> Vec<Section> {
        let mut sections = vec![("global".to_owned(), self.values(None))];
        for (name, settings) in &self.shares {
            sections.push((name.clone(), self.values(Some(settings))));
        }
        sections
    }

    fn values(&self, share: Option<&Settings>) -> Vec<(&'static str, String)> {
        let applies = |parameter: &&Parameter| {
            parameter.status == Status::Served
                && (share.is_none() || parameter.scope == Scope::Share)
                && ![COPY.name, INCLUDE.name].contains(&parameter.name)
        };
        table::all().filter(applies).map(|parameter| (parameter.name, self.value(parameter, share))).collect()
    }

    fn value(&self, parameter: &Parameter, share: Option<&Settings>) -> String {
        if parameter.name == NETBIOS_NAME.name {
            return self.netbios_name.clone();
        }
        if parameter.name == WORKGROUP.name {
            return self.workgroup.clone();
        }
        let own = share.and_then(|settings| settings.0.get(parameter.name));
        let text = match own.or_else(|| self.global.0.get(parameter.name)) {
            Some(value) => value.text.clone(),
            None => value::normalize(parameter.kind, parameter.default).unwrap_or_default(),
        };
        in_samba_spelling(parameter, text)
    }
}

/// Returns a normalized value as Samba's testparm prints it.
fn in_samba_spelling(parameter: &Parameter, text: String) -> String {
    match (parameter.kind, text.as_str()) {
        (Kind::Bool | BOOL_OR_AUTO, "yes") => "Yes".to_owned(),
        (Kind::Bool | BOOL_OR_AUTO, "no") => "No".to_owned(),
        (BOOL_OR_AUTO, "auto") => "Auto".to_owned(),
        (LEVEL, "off") => "No".to_owned(),
        (SSL_MODE, "off") => "no".to_owned(),
        (KERBEROS_METHOD, "secrets only") => "default".to_owned(),
        (Kind::List, _) => list_in_samba_spelling(parameter, &value::list(&text)),
        _ if [SECURITY.name, REALM.name].contains(&parameter.name) => text.to_uppercase(),
        _ => text,
    }
}

/// Joins a list. Lists of algorithms have commas, and are changes of the default if they begin with a sign.
fn list_in_samba_spelling(parameter: &Parameter, elements: &[String]) -> String {
    let quoted = |element: &String| match element.contains(' ') {
        true => format!("\"{element}\""),
        false => element.clone(),
    };
    if !parameter.name.ends_with(" algorithms") {
        return elements.iter().map(quoted).collect::<Vec<_>>().join(" ");
    }
    let changes = elements.first().is_some_and(|first| first.starts_with(['+', '-']));
    let mut chosen = if changes { value::list(parameter.default) } else { Vec::new() };
    for element in elements {
        let plain = element.trim_start_matches(['+', '-']);
        chosen.retain(|other| !other.eq_ignore_ascii_case(plain));
        if !element.starts_with('-') {
            chosen.push(plain.to_owned());
        }
    }
    chosen.join(", ")
}

fn differing(settings: &Settings, inherited: Option<&Settings>) -> Vec<(&'static str, String)> {
    let mut differing = Vec::new();
    for (name, value) in &settings.0 {
        let Some((parameter, _)) = table::find(name) else { continue };
        let default = value::normalize(parameter.kind, parameter.default).unwrap_or_default();
        let before = inherited.and_then(|global| global.0.get(name)).map_or(&default, |value| &value.text);
        if parameter.status == Status::Served && value.text != *before && *name != COPY.name {
            differing.push((*name, value.text.clone()));
        }
    }
    differing
}
