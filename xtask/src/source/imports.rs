//! The rule that a module of the `server` crate imports only modules before it in one order, so that they have no
//! cycle. Cycles are found separately too, because a listed violation of the order may be part of one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::{Source, Violation, tokens};

const ROOT: &str = "crates/server/src";

/// Top-level modules of `server`, the lowest layer first. A module imports those before it.
const ORDER: &[&str] = &[
    // Values and tables that do not refer to a server.
    "answer",
    "per_processor",
    "buffers",
    "heap_size",
    "number_hash",
    "yielding",
    "interfaces",
    "address_bucket",
    "vfs",
    "file_lock",
    "environment",
    "name",
    "tickets",
    "accounts",
    "user",
    "error",
    // Configuration, accounting and logons.
    "accounting",
    "domain",
    "restrictions",
    "policy",
    "metrics",
    "printing",
    "lockout",
    "user_lists",
    "logon_throttle",
    "unauthenticated",
    "logon_attempts",
    "audit",
    "authentication",
    // Files, and a share as one session uses it.
    "acl",
    "tree",
    "named_pipe",
    "links",
    "streams",
    "security",
    "files",
    // The state of [MS-SMB2] 3.3.1.
    "state",
    // Parts of commands.
    "request",
    "attributes",
    "local",
    "status",
    "reparse",
    "rpc",
    "information",
    // Commands and their execution.
    "torture",
    "command",
    "background",
    "dispatch",
    "frame",
];

/// Imports that go up, modules that the order lacks, and cycles.
pub(super) fn check(sources: &[&Source]) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    let mut imported = BTreeMap::<String, BTreeSet<String>>::new();
    for source in sources.iter().filter(|source| source.is_production()) {
        let Some(own) = module(&source.path) else { continue };
        if !ORDER.contains(&own.as_str()) {
            found.push(Violation {
                name: format!("layer {own}"),
                what: format!("{}: give the module a place in xtask/src/source/imports.rs", source.path.display()),
            });
        }
        let imports = tokens::crate_paths(&tokens::of(source)?);
        let modules = imports.iter().filter(|(name, _)| *name != own && ORDER.contains(&name.as_str()));
        imported.entry(own.clone()).or_default().extend(modules.map(|(name, _)| name.clone()));
        found.extend(upward(&own, &imports, ORDER).into_iter().map(|(name, line)| Violation {
            name: format!("import {own} -> {name}"),
            what: format!(
                "{}:{line}: `{own}` may import only what is below it in xtask/src/source/imports.rs",
                source.path.display()
            ),
        }));
    }
    found.extend(cycle(&imported).map(|path| Violation {
        name: format!("cycle {}", path.join(" -> ")),
        what: "these modules import each other; move what they share below both".to_owned(),
    }));
    Ok(found)
}

/// Returns the modules of a cycle, if there is one; the first is also the last.
fn cycle(imported: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<&str>> {
    let mut done = BTreeSet::new();
    imported.keys().find_map(|start| cycle_from(start, imported, &mut Vec::new(), &mut done))
}

/// Follows the imports of `module`. `path` has the modules that led to it, and `done` those without a cycle.
fn cycle_from<'a>(
    module: &'a str,
    imported: &'a BTreeMap<String, BTreeSet<String>>,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    if let Some(first) = path.iter().position(|other| *other == module) {
        return Some(path[first..].iter().copied().chain([module]).collect());
    }
    if done.contains(module) {
        return None;
    }
    path.push(module);
    let found = imported.get(module).into_iter().flatten().find_map(|next| cycle_from(next, imported, path, done));
    path.pop();
    done.insert(module);
    found
}

/// Returns the top-level module that a file of `server` belongs to; `None` for `lib.rs`.
fn module(path: &Path) -> Option<String> {
    let first = path.strip_prefix(ROOT).ok()?.components().next()?;
    let name = Path::new(first.as_os_str()).file_stem()?.to_str()?;
    (name != "lib").then(|| name.to_owned())
}

/// Returns the imports of `own` that the order does not allow. Names that are not modules (macros, items of the crate's
/// root) are allowed unless the order lacks `own` itself.
fn upward<'a>(own: &str, imports: &'a [(String, usize)], order: &[&str]) -> Vec<(&'a str, usize)> {
    let position = |name: &str| order.iter().position(|module| *module == name);
    let allowed = |name: &str| name == own || position(name).is_none_or(|at| position(own).is_some_and(|own| at < own));
    imports.iter().filter(|(name, _)| !allowed(name)).map(|(name, line)| (name.as_str(), *line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_of_a_higher_layer_is_found() {
        let order = ["vfs", "policy", "command"];
        let imports =
            [("vfs".to_owned(), 1), ("command".to_owned(), 2), ("policy".to_owned(), 3), ("Macro".to_owned(), 4)];
        assert_eq!(upward("policy", &imports, &order), [("command", 2)]);
        assert_eq!(upward("command", &imports, &order), []);
        assert_eq!(upward("new", &imports, &order), [("vfs", 1), ("command", 2), ("policy", 3)]);
    }

    #[test]
    fn a_cycle_is_found_over_any_number_of_modules() {
        let graph = |edges: &[(&str, &str)]| {
            let mut graph = BTreeMap::<String, BTreeSet<String>>::new();
            for (from, to) in edges {
                graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            }
            graph
        };
        assert_eq!(cycle(&graph(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])), None);
        assert_eq!(cycle(&graph(&[("a", "b"), ("b", "a")])), Some(vec!["a", "b", "a"]));
        let tail = graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b"), ("x", "a")]);
        assert_eq!(cycle(&tail), Some(vec!["b", "c", "d", "b"]));
    }

    #[test]
    fn files_belong_to_the_first_folder_or_to_themselves() {
        let of = |path: &str| module(Path::new(path));
        assert_eq!(of("crates/server/src/frame/chain.rs").as_deref(), Some("frame"));
        assert_eq!(of("crates/server/src/error.rs").as_deref(), Some("error"));
        assert_eq!(of("crates/server/src/lib.rs"), None);
        assert_eq!(of("crates/localfs/src/lib.rs"), None);
    }
}
