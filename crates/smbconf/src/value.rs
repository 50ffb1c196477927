//! Parsing and normalizing of values, for each kind of parameter.

use super::table::Kind;
pub(crate) use accounts::username_map::list;

/// Reads a truth value.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "1" => Some(true),
        "no" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Reads a whole number. As in Samba, it is octal after a leading 0, and hexadecimal after 0x.
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let hexadecimal = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
    let (digits, radix) = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (digits, 10),
    };
    let digits = Some(digits).filter(|digits| !digits.starts_with(['+', '-']))?;
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

/// Reads a number of bytes: `65536`, `64k`, `8M`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return None,
    };
    plain_number(digits)?.checked_mul(1 << shift)
}

fn plain_number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Reads permission bits.
pub(crate) fn octal(text: &str) -> Option<u32> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777)
}

/// Finds the canonical spelling of a value, ignoring case and blanks.
pub(crate) fn choice(values: &[&'static [&'static str]], text: &str) -> Option<&'static str> {
    let folded = super::table::fold_name(text);
    values
        .iter()
        .find(|spellings| spellings.iter().any(|spelling| super::table::fold_name(spelling) == folded))
        .and_then(|spellings| spellings.first().copied())
}

/// Splits patterns at slashes: `/*.tmp/lost+found/`.
pub(crate) fn patterns(text: &str) -> Vec<String> {
    text.split('/').filter(|pattern| !pattern.trim().is_empty()).map(str::to_owned).collect()
}

/// Returns the normalized spelling of the value `text`; the error describes the allowed values.
pub(crate) fn normalize(kind: Kind, text: &str) -> Result<String, String> {
    let value = match kind {
        Kind::Bool => boolean(text).map(|truth| if truth { "yes" } else { "no" }.to_owned()),
        Kind::Integer(least, most) => {
            integer(text).filter(|number| (least..=most).contains(number)).map(|number| number.to_string())
        }
        Kind::Bytes(least, most) => {
            bytes(text).filter(|number| (least..=most).contains(number)).map(|number| number.to_string())
        }
        Kind::Octal => octal(text).map(|bits| format!("0{bits:03o}")),
        Kind::Choice(values) => choice(values, text).map(str::to_owned),
        Kind::List => Some(list(text).iter().map(|element| quote(element)).collect::<Vec<_>>().join(", ")),
        Kind::Patterns | Kind::Text | Kind::Path => Some(super::raw::unquote(text).to_owned()),
    };
    value.ok_or_else(|| allowed(kind))
}

fn quote(element: &str) -> String {
    match element.contains([' ', ',', ';']) {
        true => format!("\"{element}\""),
        false => element.to_owned(),
    }
}

/// Describes the allowed values of a kind.
pub(crate) fn allowed(kind: Kind) -> String {
    match kind {
        Kind::Bool => "yes or no (also true, false, on, off, 1, 0)".into(),
        Kind::Integer(i64::MIN, i64::MAX) => "a whole number".into(),
        Kind::Integer(least, i64::MAX) => format!("a whole number, {least} or more"),
        Kind::Integer(least, most) => format!("a whole number from {least} to {most}"),
        Kind::Bytes(0, u64::MAX) => "a number of bytes, optionally followed by k, m, g, t or p".into(),
        Kind::Bytes(least, most) => format!("{least} to {most} bytes, optionally with a unit, such as 64k or 8m"),
        Kind::Octal => "permission bits in octal, 0000 to 7777".into(),
        Kind::Choice(values) => {
            let names: Vec<_> = values.iter().filter_map(|spellings| spellings.first().copied()).collect();
            names.join(", ")
        }
        Kind::List => "a list, separated by blanks or commas".into(),
        Kind::Patterns => "patterns between slashes, such as /*.tmp/lost+found/".into(),
        Kind::Text => "any text".into(),
        Kind::Path => "a path".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, cases: &[(&str, Option<&str>)]) {
        for (text, expected) in cases {
            assert_eq!(normalize(kind, text).ok().as_deref(), *expected, "{kind:?} {text:?}");
        }
    }

    #[test]
    fn values_of_each_kind_are_checked() {
        check(Kind::Bool, &[("YES", Some("yes")), ("0", Some("no")), ("Off", Some("no")), ("y", None), ("", None)]);
        check(Kind::Integer(0, 10), &[("7", Some("7")), ("-1", None), ("11", None), ("7x", None), ("", None)]);
        check(
            Kind::Integer(-5, 10),
            &[("-5", Some("-5")), ("+7", Some("7")), ("--1", None), ("0", Some("0")), ("010", Some("8"))],
        );
        check(Kind::Integer(0, 300), &[("0x1f", Some("31")), ("0x", None), ("0x-1", None), ("09", None)]);
        check(Kind::Integer(0, i64::MAX), &[("99999999999999999999", None)]);
        check(
            Kind::Bytes(0, u64::MAX),
            &[
                ("5000", Some("5000")),
                ("5k", Some("5120")),
                ("8M", Some("8388608")),
                ("1p", Some("1125899906842624")),
                ("8MB", None),
                ("0x10", None),
                ("-1", None),
                ("k", None),
                ("+1", None),
                ("99999999999p", None),
            ],
        );
        check(
            Kind::Octal,
            &[
                ("755", Some("0755")),
                ("2770", Some("02770")),
                ("0o755", None),
                ("999", None),
                ("10000", None),
                ("", None),
            ],
        );
        check(
            Kind::Choice(&[&["Bad User"], &["Never", "no"]]),
            &[("baduser", Some("Bad User")), ("NO", Some("Never")), ("x", None)],
        );
        check(Kind::Patterns, &[("/*.tmp/a b/", Some("/*.tmp/a b/")), ("\"/a/\"", Some("/a/")), ("", Some(""))]);
        check(Kind::Text, &[("\"a b\"", Some("a b")), ("\"a\" \"b\"", Some("\"a\" \"b\""))]);
    }

    #[test]
    fn quoted_blanks_in_lists_are_kept() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("a b,c;d", &["a", "b", "c", "d"]),
            ("@\"Domain Users\", \"joe x\"", &["@Domain Users", "joe x"]),
            ("\"open, b", &["open, b"]),
            ("a,,b", &["a", "b"]),
        ];
        for (text, expected) in cases {
            assert_eq!(list(text), *expected, "{text}");
        }
    }
}
