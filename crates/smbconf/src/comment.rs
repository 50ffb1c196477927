//! Comments behind values, which smb.conf does not have: `read only = no # for now`. Samba and Frevo take the comment
//! as a part of the value.

use std::path::Path;

use super::problem::{Code, Problem, warning};
use super::table::{Kind, Parameter, Status};
use super::value;

/// Parameters whose value is shown to clients, in which these signs are ordinary.
const SHOWN: &[&str] = &["comment", "server string", "volume"];

/// Splits off a part of `text` that looks like a comment.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        if letter == '"' {
            quoted = !quoted;
        } else if matches!(letter, '#' | ';') && before == ' ' && !quoted {
            return Some((text[..at].trim_end(), &text[at..]));
        }
        before = letter;
    }
    None
}

/// Reads a number or permission bits with a comment behind, which Samba ignores there. Returns the value, and a warning
/// about the comment.
pub(super) fn number(parameter: &Parameter, name: &str, text: &str) -> Option<(String, Problem)> {
    if !matches!(parameter.kind, Kind::Integer(..) | Kind::Bytes(..) | Kind::Octal) {
        return None;
    }
    let (front, comment) = split(text)?;
    let number = value::normalize(parameter.kind, front).ok()?;
    let message = format!("`{name}` is {front}: the comment `{comment}` behind the number is ignored");
    Some((number, warning(Code::TrailingComment, message).remedy("put the comment on a line of its own")))
}

/// Returns a warning about a value that is valid, but contains what looks like a comment.
pub(super) fn within(parameter: &Parameter, name: &str, text: &str) -> Option<Problem> {
    let free = matches!(parameter.kind, Kind::List | Kind::Patterns | Kind::Text | Kind::Path);
    if !free || parameter.status != Status::Served || SHOWN.contains(&parameter.name) {
        return None;
    }
    let (_, comment) = split(text)?;
    if parameter.kind == Kind::Path && Path::new(text).exists() {
        return None;
    }
    let message = format!("`{comment}` is a part of the value of `{name}`, as in Samba, not a comment");
    let remedy = "put the comment on a line of its own, which begins with # or ;";
    Some(warning(Code::TrailingComment, message).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_begin_after_a_blank_outside_quotation_marks() {
        let cases = [
            ("/srv ; data", Some(("/srv", "; data"))),
            ("no # x", Some(("no", "# x"))),
            ("# x", Some(("", "# x"))),
            ("/#recycle/", None),
            ("eth0;speed=100", None),
            ("\"a # b\" c", None),
            ("\"a\" #b", Some(("\"a\"", "#b"))),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(split(text), expected, "{text}");
        }
    }
}
