//! Changes single parameters of an smb.conf. This module implements enough of the grammar (smb.conf(5), "FILE FORMAT")
//! to replace a line, and does not interpret the lines.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// A configuration, and the share that is measured.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Conf {
    text: String,
    share: String,
}

/// The section of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// In `[global]`.
    Global,
    /// In the section of the share.
    Share,
}

/// A parameter with its section and value.
pub(super) type Setting<'a> = (Scope, &'a str, &'a str);

impl Conf {
    /// Reads a configuration, which must contain `share`.
    pub(super) fn read(path: &Path, share: &str) -> Result<Conf> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !sections(&text).any(|section| same(section, share)) {
            bail!("{} has no share [{share}]: give an smb.conf that contains the share of --target", path.display());
        }
        Ok(Conf { text, share: share.to_owned() })
    }

    /// Returns its text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the configuration with one parameter set, replacing any previous value.
    pub(super) fn with(&self, (scope, name, value): Setting<'_>) -> Conf {
        let wanted = if scope == Scope::Global { "global" } else { self.share.as_str() };
        let mut text = String::new();
        let (mut inside, mut continued, mut set) = (scope == Scope::Global, None, false);
        for line in self.text.lines() {
            let dropped = continued.unwrap_or_else(|| inside && parameter(line).is_some_and(|it| same(it, name)));
            continued = line.ends_with('\\').then_some(dropped);
            if dropped {
                continue;
            }
            text.push_str(line);
            text.push('\n');
            if let Some(section) = section(line) {
                inside = same(section, wanted);
                if inside && !set {
                    text.push_str(&format!("\t{name} = {value}\n"));
                    set = true;
                }
            }
        }
        if !set {
            text.push_str(&format!("[{wanted}]\n\t{name} = {value}\n"));
        }
        Conf { text, share: self.share.clone() }
    }
}

/// Returns the first share of a configuration that is an ordinary directory share.
pub(super) fn first_share(text: &str) -> Option<&str> {
    let special = ["global", "homes", "printers", "print$", "IPC$"];
    sections(text).find(|section| !special.iter().any(|it| same(it, section)))
}

fn sections(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(section)
}

fn section(line: &str) -> Option<&str> {
    line.trim().strip_prefix('[')?.split_once(']').map(|(name, _)| name.trim())
}

/// Returns the name of the parameter that a line sets.
fn parameter(line: &str) -> Option<&str> {
    let line = line.trim();
    if line.starts_with(['#', ';']) { None } else { line.split_once('=').map(|(name, _)| name) }
}

/// Compares names without case and white space.
fn same(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.chars().filter(|it| !it.is_whitespace()).collect::<String>().to_lowercase();
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[global]\n\tlog level = 0 \\\n 1\n# log level = 7\n\n[Data]\n\tpath = \
                        /d\n\toplocks=no\n[more]\n\toplocks = no\n";

    #[test]
    fn a_new_line_replaces_the_old_one() {
        let conf = Conf { text: TEXT.into(), share: "data".into() };
        let check = |setting, expected: &str| assert_eq!(conf.with(setting).text, expected, "{setting:?}");
        check(
            (Scope::Global, "log level", "3"),
            "[global]\n\tlog level = 3\n# log level = 7\n\n[Data]\n\tpath = /d\n\toplocks=no\n[more]\n\toplocks = no\n",
        );
        let oplocks = conf.with((Scope::Share, "OpLocks", "yes"));
        assert_eq!(
            oplocks.text,
            TEXT.replace("[Data]\n\tpath = /d\n\toplocks=no\n", "[Data]\n\tOpLocks = yes\n\tpath = /d\n")
        );
        assert_eq!(oplocks.with((Scope::Share, "oplocks", "no")).text.matches("oplocks").count(), 2);
        let bare = Conf { text: String::new(), share: "data".into() };
        assert_eq!(bare.with((Scope::Share, "path", "/x")).text, "[data]\n\tpath = /x\n");
    }

    #[test]
    fn the_first_share_is_found() {
        assert_eq!(first_share(TEXT), Some("Data"));
        assert_eq!(first_share("[homes]\n[ PRINT$ ]\n"), None);
    }
}
