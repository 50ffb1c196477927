//! `frevo check` and Samba's testparm read the same values from the configurations in `configs`.
//!
//! Every difference is a line of `configs/deviations.txt`. A line without a difference fails the case, too.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[Case::new("testparm.effective_values", effective_values).frevo_only()];

const CONFIGURATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/configs");

/// The values of a configuration: section -> parameter -> value. Names of parameters have neither blanks nor capitals.
type Values = BTreeMap<String, BTreeMap<String, String>>;

/// A difference, or a line of the list. In a line, `*` stands for any text.
struct Difference {
    file: String,
    section: String,
    parameter: String,
    samba: String,
    frevo: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { file, section, parameter, samba, frevo } = self;
        write!(out, "{file}\t{section}\t{parameter}\t{samba}\t{frevo}")
    }
}

impl Difference {
    fn matches(&self, found: &Difference) -> bool {
        let pairs = [
            (&self.file, &found.file),
            (&self.section, &found.section),
            (&self.parameter, &found.parameter),
            (&self.samba, &found.samba),
            (&self.frevo, &found.frevo),
        ];
        pairs.iter().all(|(pattern, text)| *pattern == "*" || pattern == text)
    }
}

fn effective_values(fixture: &mut Fixture) -> Result<()> {
    let directory = fixture.local("configurations")?;
    let names = copy(&directory)?;
    ensure!(names.len() >= 40, "{} configurations in {CONFIGURATIONS}", names.len());
    let (mut found, mut compared) = (Vec::new(), 0);
    for name in &names {
        compared += compare(fixture, &directory, name, &mut found).with_context(|| name.clone())?;
    }
    let listed = listed()?;
    let mut wrong = Vec::new();
    for line in listed.iter().filter(|line| !found.iter().any(|found| line.matches(found))) {
        wrong.push(format!("listed, but there is no such difference: {line}"));
    }
    for difference in found.iter().filter(|found| !listed.iter().any(|line| line.matches(found))) {
        wrong.push(format!("not listed: {difference}"));
    }
    println!("    {} configurations, {compared} values, {} differences", names.len(), found.len());
    ensure!(wrong.is_empty(), "configs/deviations.txt:\n{}", wrong.join("\n"));
    Ok(())
}

/// Copies all files into `directory`, with its path for `@DIR@`. Returns the names of the configurations.
fn copy(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(CONFIGURATIONS).with_context(|| format!("cannot list {CONFIGURATIONS}"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        fs::write(directory.join(&name), text.replace("@DIR@", &directory.display().to_string()))?;
        if name.ends_with(".conf") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Reads the list: file, section, parameter, Samba's value, Frevo's value and the reason, separated by tabs.
fn listed() -> Result<Vec<Difference>> {
    let text = fs::read_to_string(Path::new(CONFIGURATIONS).join("deviations.txt"))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [file, section, parameter, samba, frevo, reason] if !reason.is_empty() => {
                let [file, section, parameter] = [file, section, parameter].map(str::to_owned);
                Ok(Difference { file, section, parameter, samba: samba.to_owned(), frevo: frevo.to_owned() })
            }
            _ => bail!("configs/deviations.txt: not six fields: {line}"),
        })
        .collect()
}

/// Adds the differences of one configuration. Returns how many values were compared.
fn compare(fixture: &Fixture, directory: &Path, name: &str, found: &mut Vec<Difference>) -> Result<usize> {
    let people = fixture.environment.people();
    let mut testparm = Command::new("testparm");
    testparm.args(["-s", "-v", "--suppress-prompt"]).arg(directory.join(name)).env("LC_ALL", "C.UTF-8");
    let testparm = people.enter(&mut testparm).output().context("cannot start testparm")?;
    let mut check = Command::new(test_environment::frevo());
    check.args(["check", "--json", "--verbose", "-c"]).arg(directory.join(name));
    let check = people.enter(&mut check).output().context("cannot start frevo")?;
    let report: Value = serde_json::from_slice(&check.stdout).context("frevo check --json")?;
    let mut differs = |section: &str, parameter: &str, samba: &str, frevo: &str| {
        let [file, section, parameter] = [name, section, parameter].map(str::to_owned);
        let (samba, frevo) = (samba.to_owned(), frevo.to_owned());
        found.push(Difference { file, section, parameter, samba, frevo });
    };
    if !testparm.status.success() {
        return Ok(0);
    }
    if report["starts"] != true {
        differs("-", "-", "starts", "does not start");
        return Ok(0);
    }
    let (samba, frevo) = (of_samba(&String::from_utf8_lossy(&testparm.stdout)), of_frevo(&report)?);
    ensure!(samba.contains_key("global"), "testparm printed no [global]");
    for section in samba.keys().filter(|section| !frevo.contains_key(*section)) {
        differs(section, "-", "served", "not served");
    }
    let mut compared = 0;
    for (section, values) in &frevo {
        let Some(of_section) = samba.get(section) else {
            differs(section, "-", "not served", "served");
            continue;
        };
        for (parameter, frevo) in values {
            // In a share testparm prints what differs from [global]. A parameter that it does not print at all is newer
            // than it, or parametric and not set.
            let Some(samba) = of_section.get(parameter).or_else(|| samba["global"].get(parameter)) else { continue };
            compared += 1;
            // testparm prints parametric values as they are written.
            let same = unquoted(samba) == unquoted(frevo) || parameter.contains(':') && is_truth_value(frevo, samba);
            if !same {
                differs(section, parameter, samba, frevo);
            }
        }
    }
    Ok(compared)
}

/// Returns whether `text` is a spelling of the truth value `value`.
fn is_truth_value(value: &str, text: &str) -> bool {
    let spellings: &[&str] = match value {
        "Yes" => &["yes", "true", "on", "1"],
        "No" => &["no", "false", "off", "0"],
        _ => &[],
    };
    spellings.iter().any(|spelling| text.eq_ignore_ascii_case(spelling))
}

/// Returns a text without the quotation marks around it, which Samba removes when it uses the text.
fn unquoted(text: &str) -> &str {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(inside) if !inside.contains('"') => inside,
        _ => text,
    }
}

fn folded(name: &str) -> String {
    name.split_whitespace().collect::<String>().to_lowercase()
}

fn of_samba(printed: &str) -> Values {
    let mut values = Values::new();
    let mut section = String::new();
    for line in printed.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_lowercase();
            values.entry(section.clone()).or_default();
        } else if let Some((name, value)) = line.strip_prefix('\t').and_then(|line| line.split_once('=')) {
            values.entry(section.clone()).or_default().insert(folded(name), value.trim().to_owned());
        }
    }
    values
}

fn of_frevo(report: &Value) -> Result<Values> {
    let mut values = Values::new();
    for section in report["sections"].as_array().context("no sections")? {
        let name = section["name"].as_str().context("a section without a name")?;
        let parameters = section["parameters"].as_object().context("a section without parameters")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let parameters = parameters.iter().map(|(name, value)| (folded(name), text(value))).collect();
        values.insert(name.to_lowercase(), parameters);
    }
    Ok(values)
}
