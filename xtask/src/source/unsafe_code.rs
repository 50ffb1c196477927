//! The rule that unsafe code is only in files that wrap a system interface.

use anyhow::Result;
use proc_macro2::TokenTree;

use super::{Source, Violation, tokens};

/// Production files with unsafe code, each for one system interface.
const FILES: [&str; 36] = [
    "crates/accounts/src/unix/members.rs",
    "crates/accounts/src/unix/mod.rs",
    "crates/accounts/src/unix/names.rs",
    "crates/accounts/src/when.rs",
    "crates/bench/src/child.rs",
    "crates/bench/src/experiments/tune/relay.rs",
    "crates/bench/src/probe/proc.rs",
    "crates/bench/src/probe/syscalls.rs",
    "crates/frevo/src/acknowledgment.rs",
    "crates/frevo/src/limits.rs",
    "crates/frevo/src/low_water.rs",
    "crates/frevo/src/snapshot/btrfs.rs",
    "crates/frevo/src/systemd/sockets.rs",
    "crates/gluster/src/sys/client.rs",
    "crates/gluster/src/sys/file.rs",
    "crates/gluster/src/sys/mod.rs",
    "crates/gluster/src/sys/object.rs",
    "crates/gssapi/src/acceptor.rs",
    "crates/gssapi/src/context.rs",
    "crates/gssapi/src/initiator.rs",
    "crates/gssapi/src/library.rs",
    "crates/localfs/src/sys.rs",
    "crates/pam/src/library.rs",
    "crates/pam/src/process.rs",
    "crates/printing/src/process.rs",
    "crates/server/examples/sharing/allocator.rs",
    "crates/smbconf/src/interfaces.rs",
    "crates/smbconf/src/regular_expression.rs",
    "crates/winbind/src/library/interface.rs",
    "crates/winbind/src/library/mod.rs",
    "xtask/src/compare/mod.rs",
    "xtask/src/compare/rclone.rs",
    "xtask/src/setup.rs",
    "xtask/src/torture/ground.rs",
    "xtask/src/torture/place.rs",
    "xtask/src/torture/run.rs",
];

/// Returns unsafe code in a production file that is not listed.
pub(super) fn check(source: &Source) -> Result<Vec<Violation>> {
    let path = source.path.display().to_string();
    if !source.is_production() || FILES.contains(&path.as_str()) || !source.text.contains("unsafe") {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    tokens::walk(tokens::of(source)?, &mut |token| {
        if let TokenTree::Ident(word) = token
            && *word == "unsafe"
        {
            let line = word.span().start().line;
            let what = format!("line {line}: unsafe code; move it to a file that wraps the system interface");
            found.push(Violation { name: format!("unsafe {path}"), what });
        }
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_is_found_and_mentions_are_not() {
        let of = |path: &str, text: &str| check(&Source { path: path.into(), text: text.into() }).unwrap().len();
        assert_eq!(of("crates/server/src/a.rs", "fn f() { unsafe { g() } }"), 1);
        assert_eq!(of("crates/server/src/a.rs", "#![forbid(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";"), 0);
        assert_eq!(of("crates/localfs/src/sys.rs", "fn f() { unsafe { g() } }"), 0);
        assert_eq!(of("crates/server/tests/a.rs", "fn f() { unsafe { g() } }"), 0);
    }
}
