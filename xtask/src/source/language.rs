//! Wording that CONTRIBUTING.md rules out ("How we write"), in comments, messages and Markdown.

use std::sync::LazyLock;

use regex::Regex;

use super::{Source, Violation, is, tokens};

/// Expressions, and what to write in their place.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let verbs = "may|can|is|was|has|had|are|were|does|asks|wants|knows|gets|says|makes|holds";
    let rules = [
        (r"\b[Ww]hom\b".to_owned(), "name the role: \"the user that ...\""),
        (r"\b[Ww]hoever\b".to_owned(), "name the role: \"a client that ...\""),
        (
            format!(r"(?:^Who|(?:[.:;]|\b(?:of|to|for|with|than|by|from|and|or|so is|tells?)) [Ww]ho) (?:{verbs})\b"),
            "name the role: \"a user who ...\"",
        ),
        // "If there is none" is plain English.
        (r"(?:[^e]|[^r]e|[^e]re) (?:is|was|are) none\b".to_owned(), "\"is not one\", \"does not exist\""),
        (r"\b[Ww]hat (?:is|was|were) made of\b".to_owned(), "name the thing: \"the descriptor built from ...\""),
        (r"\b(?:[Hh]e|[Hh]is|[Hh]im|[Hh]imself)\b".to_owned(), "\"they\", or the role"),
        (r"\bat the most\b".to_owned(), "\"at most\""),
        (r"\bheeded\b".to_owned(), "\"honoured\""),
        (r"\bpast the server\b".to_owned(), "\"behind the server's back\""),
        (r"\b[Hh]eirs?\b".to_owned(), "\"a new file\", \"an inherited entry\""),
        (r"\b(?:[Tt]he|[Aa]|test) (?:rig|bed)\b".to_owned(), "\"the test server\", \"the fixture\""),
        (r"\b[Tt]he dice\b".to_owned(), "\"the random numbers\""),
    ];
    rules.map(|(pattern, instead)| (Regex::new(&pattern).expect("a pattern of this table"), instead)).into()
});

/// Returns the wording that is ruled out.
pub(super) fn check(source: &Source) -> Vec<Violation> {
    let lines = if is(source, "md") { prose(&source.text) } else { comments_and_messages(source) };
    let mut found = Vec::new();
    for (number, line) in lines {
        for (rule, instead) in RULES.iter() {
            if let Some(hit) = rule.find(&line) {
                found.push(Violation {
                    name: format!("language {}", source.path.display()),
                    what: format!("line {number}: {:?}; write {instead}", hit.as_str()),
                });
            }
        }
    }
    found
}

/// Returns the lines of Markdown outside code, each with its number.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut code = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        if !code && !fence && !line.starts_with("    ") {
            found.push((at + 1, line.to_owned()));
        }
    }
    found
}

/// Returns the comments of Rust source and, in production code, its string literals.
fn comments_and_messages(source: &Source) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> =
        source.text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, comment(line)?.to_owned()))).collect();
    if source.is_production()
        && let Ok(all) = tokens::of(source)
    {
        tokens::walk(all, &mut |token| {
            let text = token.to_string();
            // A message has several words; doc comments are literals here too and were read already.
            if let proc_macro2::TokenTree::Literal(literal) = token
                && text.starts_with('"')
                && text.contains(' ')
                && source.text.lines().nth(literal.span().start().line - 1).is_none_or(|line| comment(line).is_none())
            {
                found.push((literal.span().start().line, text.trim_matches('"').to_owned()));
            }
        });
    }
    found
}

/// Returns the text of a comment on this line.
fn comment(line: &str) -> Option<&str> {
    let start = line.trim_start();
    if let Some(rest) = start.strip_prefix("//") {
        return Some(rest.trim_start_matches(['/', '!', ' ']));
    }
    line.split_once(" // ").map(|(_, comment)| comment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Source { path: path.into(), text: text.into() }).len()
    }

    #[test]
    fn the_dialect_is_found_in_comments_messages_and_markdown() {
        for text in [
            "Who may append is refused.",
            "What was made of the list stays.",
            "Whoever asks waits.",
            "A pattern that is none.",
            "The user keeps his rights.",
            "Ten at the most.",
            "Its heirs have the same owner.",
            "The rig has a clock.",
            "Each call throws the dice.",
        ] {
            assert_eq!(found("docs/a.md", text), 1, "{text}");
            assert_eq!(found("crates/a/src/a.rs", &format!("/// {text}\nfn f() {{}}")), 1, "{text}");
            assert_eq!(found("crates/a/src/a.rs", &format!("fn f() {{ g({text:?}) }}")), 1, "{text}");
        }
    }

    #[test]
    fn plain_english_and_code_are_accepted() {
        for text in [
            "A user who may append.",
            "None if there is none.",
            "None is left.",
            "This is not one.",
            "```\nwho is he\n```",
            "    whom",
        ] {
            assert_eq!(found("docs/a.md", text), 0, "{text}");
        }
        assert_eq!(found("crates/a/src/a.rs", "fn whom() -> &'static str { \"his\" }"), 0);
    }
}
