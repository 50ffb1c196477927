//! The rule that the crate which storage back ends share makes no system calls for I/O, so that a back end of any kind
//! can use it.

use anyhow::Result;

use super::{Source, Violation, tokens};

const ROOT: &str = "crates/backing/src";

/// Modules of `std` for I/O.
const STD: [&str; 4] = ["fs", "net", "os", "process"];

/// Crates for system calls, and back ends.
const CRATES: [&str; 4] = ["gluster", "libc", "localfs", "rustix"];

/// Returns uses of these modules and crates.
pub(super) fn check(source: &Source) -> Result<Vec<Violation>> {
    if !source.is_production() || !source.path.starts_with(ROOT) {
        return Ok(Vec::new());
    }
    let tokens = tokens::of(source)?;
    let modules = tokens::paths(&tokens, "std").into_iter().filter(|(name, _)| STD.contains(&name.as_str()));
    let modules = modules.map(|(name, line)| (format!("std::{name}"), line));
    let crates = CRATES
        .iter()
        .flat_map(|name| tokens::paths(&tokens, name).into_iter().map(|(_, line)| ((*name).to_owned(), line)));
    let path = source.path.display();
    let violation = |(name, line): (String, usize)| Violation {
        name: format!("io {path} {name}"),
        what: format!("line {line}: `{name}` in a crate without I/O; make the call in a back end"),
    };
    Ok(modules.chain(crates).map(violation).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_is_found_in_the_shared_crate_only() {
        let of = |path: &str, text: &str| {
            let found = check(&Source { path: path.into(), text: text.into() }).unwrap();
            found.into_iter().map(|violation| violation.name).collect::<Vec<_>>()
        };
        let shared = "crates/backing/src/a.rs";
        assert_eq!(of(shared, "use std::fs::File;"), ["io crates/backing/src/a.rs std::fs"]);
        assert_eq!(of(shared, "use std::{net, sync};").len(), 1);
        assert_eq!(of(shared, "fn f() { rustix::fs::stat(0); libc::close(1) }").len(), 2);
        assert_eq!(of(shared, "use std::sync::Arc; // std::fs\nuse server::vfs;"), [""; 0]);
        assert_eq!(of(shared, "#[cfg(test)]\nmod tests { use std::fs; }"), [""; 0]);
        assert_eq!(of("crates/localfs/src/a.rs", "use std::fs;"), [""; 0]);
    }
}
