//! Which module of the `server` crate may import which: each only those before it in one order, so there is no cycle.

use std::path::Path;

use anyhow::Result;

use super::{Source, Violation, tokens};

const ROOT: &str = "crates/server/src";

/// Top-level modules of `server`, the lowest layer first. A module imports those before it.
const ORDER: &[&str] = &[
    "answer",
    "buffers",
    "held",
    "yielding",
    "interfaces",
    "address_bucket",
    "vfs",
    "environment",
    "name",
    "tickets",
    "accounts",
    "user",
    "error",
    "accounting",
    "domain",
    "policy",
    "lockout",
    "user_lists",
    "acl",
    "tree",
    "links",
    "streams",
    "security",
    "files",
    "logon_throttle",
    "unauthenticated",
    "authentication",
    "logon_attempts",
    "state",
    "request",
    "attributes",
    "local",
    "status",
    "reparse",
    "pipe",
    "information",
    "torture",
    "command",
    "background",
    "dispatch",
    "frame",
];

/// Imports that go up, and modules that the order lacks.
pub(super) fn check(sources: &[&Source]) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.is_production()) {
        let Some(own) = module(&source.path) else { continue };
        if !ORDER.contains(&own.as_str()) {
            found.push(Violation {
                name: format!("layer {own}"),
                what: format!("{}: give the module a place in xtask/src/source/imports.rs", source.path.display()),
            });
        }
        let imports = tokens::crate_paths(&tokens::of(source)?);
        found.extend(upward(&own, &imports, ORDER).into_iter().map(|(name, line)| Violation {
            name: format!("import {own} -> {name}"),
            what: format!(
                "{}:{line}: `{own}` may import only what is below it in xtask/src/source/imports.rs",
                source.path.display()
            ),
        }));
    }
    Ok(found)
}

/// The top-level module that a file of `server` belongs to; `None` for `lib.rs`.
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
    fn files_belong_to_the_first_folder_or_to_themselves() {
        let of = |path: &str| module(Path::new(path));
        assert_eq!(of("crates/server/src/frame/chain.rs").as_deref(), Some("frame"));
        assert_eq!(of("crates/server/src/error.rs").as_deref(), Some("error"));
        assert_eq!(of("crates/server/src/lib.rs"), None);
        assert_eq!(of("crates/localfs/src/lib.rs"), None);
    }
}
