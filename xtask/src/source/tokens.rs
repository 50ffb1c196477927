//! Rust source as tokens: without comments, and without modules that only tests have.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use super::Source;

/// Returns the tokens of a file outside `#[cfg(test)] mod ... { ... }`.
pub(super) fn of(source: &Source) -> Result<Vec<TokenTree>> {
    let stream: TokenStream =
        source.text.parse().map_err(|error| anyhow!("{}: not Rust: {error}", source.path.display()))?;
    Ok(without_tests(stream))
}

fn without_tests(stream: TokenStream) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    // After `#[cfg(test)]`, until the item's braces or semicolon.
    let mut test = false;
    let mut module = false;
    for token in stream {
        match &token {
            TokenTree::Group(group) if is_cfg_test(group) => {
                test = true;
                module = false;
            }
            TokenTree::Ident(word) if test && *word == "mod" => module = true,
            TokenTree::Group(group) if test && group.delimiter() == Delimiter::Brace => {
                test = false;
                if !std::mem::take(&mut module) {
                    kept.push(token);
                }
            }
            TokenTree::Punct(mark) if test && mark.as_char() == ';' => (test, module) = (false, false),
            _ => kept.push(token),
        }
    }
    kept
}

fn is_cfg_test(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket && group.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// Calls `each` with every token in its order, the content of groups included.
pub(super) fn walk(tokens: impl IntoIterator<Item = TokenTree>, each: &mut impl FnMut(&TokenTree)) {
    for token in tokens {
        each(&token);
        if let TokenTree::Group(group) = token {
            walk(group.stream(), each);
        }
    }
}

/// Returns the first parts of all paths that begin with `crate::`.
pub(super) fn crate_paths(tokens: &[TokenTree]) -> Vec<(String, usize)> {
    paths(tokens, "crate")
}

/// Returns the first parts of all paths that begin with `root::`, also in `root::{a, b::c}`, each with its line.
pub(super) fn paths(tokens: &[TokenTree], root: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut rest = tokens;
    while let [first, more @ ..] = rest {
        rest = more;
        match (first, more) {
            (TokenTree::Ident(word), [a, b, next, ..]) if *word == root && is_colon(a) && is_colon(b) => match next {
                TokenTree::Ident(name) => found.push(named(name)),
                TokenTree::Group(group) => found.extend(first_words(group).iter().map(named)),
                _ => {}
            },
            (TokenTree::Group(group), _) => {
                let inner: Vec<TokenTree> = without_tests(group.stream());
                found.extend(paths(&inner, root));
            }
            _ => {}
        }
    }
    found
}

fn named(name: &Ident) -> (String, usize) {
    (name.to_string(), name.span().start().line)
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':')
}

/// Returns the first word of each part of `{a, b::c, d as e}`.
fn first_words(group: &Group) -> Vec<Ident> {
    let mut words = Vec::new();
    let mut start = true;
    for token in group.stream() {
        match token {
            TokenTree::Ident(word) if start => {
                words.push(word);
                start = false;
            }
            TokenTree::Punct(mark) if mark.as_char() == ',' => start = true,
            _ => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let source = Source { path: "a.rs".into(), text: text.to_owned() };
        crate_paths(&of(&source).unwrap()).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn paths_of_the_crate_are_found_in_imports_bodies_and_macros() {
        assert_eq!(paths("use crate::a::B;"), ["a"]);
        assert_eq!(paths("use crate::{a, b::{c, d}, e::*};"), ["a", "b", "e"]);
        assert_eq!(paths("fn f() { g!(crate::a::h()); }"), ["a"]);
        assert_eq!(paths("// crate::a\n/// [`crate::b`]\nfn f() {}"), [""; 0]);
    }

    #[test]
    fn test_modules_are_ignored() {
        assert_eq!(paths("#[cfg(test)]\nmod tests { use crate::a; }\nuse crate::b;"), ["b"]);
        assert_eq!(paths("#[cfg(test)]\npub(crate) mod tests;\nuse crate::b;"), ["b"]);
        assert_eq!(paths("mod x { #[cfg(test)] mod tests { use crate::a; } use crate::b; }"), ["b"]);
    }
}
