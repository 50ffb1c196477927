//! Limits on what clients can make the server hold: constants of the `server` crate that name one belong in
//! `policy/limits.rs`.

use anyhow::Result;
use proc_macro2::TokenTree;

use super::{Source, Violation, tokens};

/// The file that has them.
const HOME: &str = "crates/server/src/policy/limits.rs";
/// Words in the name of a constant that is a limit.
const WORDS: [&str; 6] = ["LIMIT", "LIMITS", "MAX", "MOST", "LONGEST", "LARGEST"];

/// Returns constants that are named as limits, outside their file.
pub(super) fn check(source: &Source) -> Result<Vec<Violation>> {
    let path = source.path.display().to_string();
    if !source.is_production() || !path.starts_with("crates/server/src/") || path == HOME {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut constant = false;
    tokens::walk(tokens::of(source)?, &mut |token| {
        let TokenTree::Ident(word) = token else { return };
        let name = word.to_string();
        if std::mem::replace(&mut constant, name == "const") && name.split('_').any(|part| WORDS.contains(&part)) {
            let what = format!("line {}: move this limit to {HOME}", word.span().start().line);
            found.push(Violation { name: format!("limit {path} {name}"), what });
        }
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_that_are_limits_are_found() {
        let of = |path: &str, text: &str| {
            let found = check(&Source { path: path.into(), text: text.into() }).unwrap();
            found.into_iter().map(|violation| violation.name).collect::<Vec<_>>()
        };
        let path = "crates/server/src/a.rs";
        assert_eq!(of(path, "impl A { const MAX_B: u8 = 1; } const C: u8 = u8::MAX;"), [format!("limit {path} MAX_B")]);
        assert_eq!(of(path, "const fn max() {} const CLIMAX: u8 = 1;"), [""; 0]);
        assert_eq!(of(HOME, "const MAX_B: u8 = 1;"), [""; 0]);
    }
}
