//! The rule that each suite of `server` also runs on storage that behaves as on another machine.

use super::{Source, Violation};

/// The directory of the suites.
const ROOT: &str = "crates/server/tests";

/// What runs a suite on such storage.
const CALL: &str = "passes_on_remote_storage(&[";

/// Returns the violation of a suite that runs on local storage only.
pub(super) fn check(source: &Source) -> Option<Violation> {
    let place = source.path.strip_prefix(ROOT).ok()?;
    let is_suite = place.components().count() == 1 || place.ends_with("main.rs");
    (is_suite && !source.text.contains(CALL)).then(|| Violation {
        name: format!("storage {}", source.path.display()),
        what: "the suite runs on local storage only; add the test the_suite_passes_on_remote_storage".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_on_local_storage_only_is_found() {
        let found = |path: &str, text: &str| check(&Source { path: path.into(), text: text.into() }).is_some();
        assert!(found("crates/server/tests/notify.rs", ""));
        assert!(found("crates/server/tests/acls/main.rs", ""));
        assert!(!found("crates/server/tests/notify.rs", "testing::passes_on_remote_storage(&[]);"));
        assert!(!found("crates/server/tests/acls/fixture.rs", ""), "a module of a suite");
        assert!(!found("crates/localfs/tests/hung.rs", ""));
    }
}
