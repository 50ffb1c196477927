//! `frevo check --parameters`: the table of all parameters, grouped by how they are treated.

use anyhow::Result;
use serde::Serialize;

use smbconf::table::{self, MODULES, PREFIXES, Parameter, Status};

/// One parameter, as printed by `--json`.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    synonyms: &'static [&'static str],
    scope: char,
    default: &'static str,
    status: &'static str,
    reason: &'static str,
    help: &'static str,
}

/// Returns the table as JSON. A leading `!` marks a synonym with the opposite meaning.
pub(super) fn json() -> Result<String> {
    let shown: Vec<Shown> = sorted()
        .into_iter()
        .map(|parameter| Shown {
            name: parameter.name,
            synonyms: parameter.synonyms,
            scope: parameter.scope.letter(),
            default: parameter.default,
            status: parameter.status.word(),
            reason: parameter.status.reason(),
            help: parameter.help,
        })
        .collect();
    Ok(serde_json::to_string_pretty(&shown)? + "\n")
}

fn sorted() -> Vec<&'static Parameter> {
    let mut parameters: Vec<_> = table::all().collect();
    parameters.sort_by_key(|parameter| parameter.name.to_lowercase());
    parameters
}

/// Returns the table as readable text.
pub(super) fn text() -> String {
    let mut text = String::new();
    let titles = [
        ("served", "Served"),
        ("accepted", "Accepted: read, but without effect"),
        ("not served", "Not served: setting one causes a warning"),
    ];
    for (word, title) in titles {
        let chosen: Vec<_> = sorted().into_iter().filter(|parameter| parameter.status.word() == word).collect();
        text += &format!("{title} ({})\n\n", chosen.len());
        for parameter in chosen {
            text += &line(parameter);
        }
        let names = families(word);
        if !names.is_empty() {
            text += &format!("\n  families and modules: {}\n", names.join(", "));
        }
        text.push('\n');
    }
    text
}

fn line(parameter: &Parameter) -> String {
    let Parameter { name, help, default, status, .. } = parameter;
    let mut text = format!("  {name} ({})", parameter.scope.letter());
    if *status == Status::Served && !default.is_empty() {
        text += &format!(" [{default}]");
    }
    text += &format!(": {help}");
    if !status.reason().is_empty() {
        text += &format!(" -- {}", status.reason());
    }
    if !parameter.synonyms.is_empty() {
        text += &format!(" (also {})", parameter.synonyms.join(", ").replace('!', "the opposite "));
    }
    text + "\n"
}

fn families(word: &str) -> Vec<String> {
    let prefixes = PREFIXES.iter().map(|prefix| (prefix.status, format!("{}:*", prefix.name)));
    let modules = MODULES.iter().map(|module| (module.status, format!("vfs objects = {}", module.name)));
    prefixes.chain(modules).filter(|(status, _)| status.word() == word).map(|(_, name)| name).collect()
}
