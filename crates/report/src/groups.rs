//! Groups servers by program. The name of a server is `PROGRAM/VARIANT`, or a program alone.

use crate::record::Run;

/// The servers of one program.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Group<'a> {
    /// The program, or the whole name if there is only one server.
    pub(super) name: &'a str,
    /// What follows the program in the names, if there are several servers.
    pub(super) variants: Vec<&'a str>,
}

/// Returns the program in a server's name.
pub(super) fn program(name: &str) -> &str {
    name.split_once('/').map_or(name, |(program, _)| program)
}

/// Returns what follows the program in a server's name.
pub(super) fn variant(name: &str) -> &str {
    name.split_once('/').map_or("", |(_, variant)| variant)
}

/// Returns the servers of all runs by program, in order of appearance.
pub(super) fn groups(runs: &[Run]) -> Vec<Group<'_>> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in runs.iter().flat_map(|run| &run.servers).map(|server| server.name.as_str()) {
        match groups.iter_mut().find(|(known, _)| *known == program(name)) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => groups.push((program(name), vec![name])),
        }
    }
    groups.into_iter().map(|(program, names)| Group::new(program, &names)).collect()
}

impl<'a> Group<'a> {
    fn new(program: &'a str, names: &[&'a str]) -> Group<'a> {
        match names {
            [only] => Group { name: only, variants: Vec::new() },
            _ => Group { name: program, variants: names.iter().map(|name| variant(name)).collect() },
        }
    }

    /// Describes the variants briefly: `a, b × 1, 2` for `a/1`, `a/2`, `b/1` and `b/2`.
    pub(super) fn variants(&self) -> String {
        let parts: Vec<Vec<&str>> = self.variants.iter().map(|variant| variant.split('/').collect()).collect();
        let length = parts.first().map_or(0, Vec::len);
        if parts.iter().any(|part| part.len() != length) {
            return self.variants.join(", ");
        }
        let places = (0..length).map(|place| {
            let mut seen: Vec<&str> = Vec::new();
            for part in &parts {
                if !seen.contains(&part[place]) {
                    seen.push(part[place]);
                }
            }
            seen
        });
        let places: Vec<Vec<&str>> = places.collect();
        match places.iter().map(Vec::len).product::<usize>() == parts.len() {
            true => places.iter().map(|seen| seen.join(", ")).collect::<Vec<_>>().join(" × "),
            false => self.variants.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::run_of;

    #[test]
    fn variants_of_a_program_are_one_group() {
        let runs = [run_of(&["frevo/a/1", "frevo/a/2", "frevo/b/1", "frevo/b/2", "samba/x"]), run_of(&["frevo/a/1"])];
        let groups = groups(&runs);
        let expected = vec!["a/1", "a/2", "b/1", "b/2"];
        assert_eq!(groups[0], Group { name: "frevo", variants: expected });
        assert_eq!(groups[1], Group { name: "samba/x", variants: Vec::new() });
        assert_eq!((groups.len(), groups[0].variants(), groups[1].variants()), (2, "a, b × 1, 2".into(), "".into()));
    }

    #[test]
    fn variants_that_are_not_a_product_are_listed() {
        let of = |names: &[&str]| groups(&[run_of(names)])[0].variants();
        assert_eq!(of(&["f/a/1", "f/b/2"]), "a/1, b/2");
        assert_eq!(of(&["f", "f/a", "f/a/1"]), ", a, a/1");
    }
}
