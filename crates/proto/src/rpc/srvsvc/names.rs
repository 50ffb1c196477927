//! Validation of names by their type ([MS-SRVS] 2.2.2.8, 3.1.4.32).

/// The reason why a name is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There is no such type of name.
    UnknownType,
    /// The name has a wrong length, or a character that the type excludes.
    Invalid,
}

/// Characters that most types exclude, in addition to control characters.
const EXCLUDED: &str = "\"/\\[]:|<>+=;,?";

/// The rule for one type of name.
struct Rule {
    /// The lengths, in UTF-16 units.
    lengths: (usize, usize),
    /// Whether the characters of [`EXCLUDED`] and control characters are excluded.
    checked: bool,
    /// Further characters that are excluded.
    more: &'static str,
}

const fn rule(lengths: (usize, usize), checked: bool, more: &'static str) -> Option<Rule> {
    Some(Rule { lengths, checked, more })
}

const COMPUTER: u32 = 4;
const MESSAGE_DESTINATION: u32 = 11;
const MESSAGE_DESTINATION_LENGTH: usize = 260;

fn rule_of(kind: u32) -> Option<Rule> {
    match kind {
        // NAMETYPE_USER, NAMETYPE_GROUP
        1 | 3 => rule((1, 256), true, ""),
        // NAMETYPE_PASSWORD
        2 => rule((0, 256), false, ""),
        COMPUTER => rule((1, 260), true, "*"),
        // NAMETYPE_EVENT
        5 => rule((1, 16), true, ""),
        // NAMETYPE_DOMAIN
        6 => rule((1, 15), true, "* "),
        // NAMETYPE_SERVICE, NAMETYPE_SHARE
        7 | 9 => rule((1, 80), true, ""),
        // NAMETYPE_NET
        8 => rule((1, 260), true, ""),
        // NAMETYPE_MESSAGE, NAMETYPE_WORKGROUP
        10 | 13 => rule((1, 15), true, ""),
        MESSAGE_DESTINATION => rule((1, MESSAGE_DESTINATION_LENGTH), true, ""),
        // NAMETYPE_SHAREPASSWORD
        12 => rule((0, 8), false, ""),
        _ => None,
    }
}

/// Checks a name of this type.
pub fn validate(name: &str, kind: u32) -> Result<(), Refused> {
    let rule = rule_of(kind).ok_or(Refused::UnknownType)?;
    let length = name.encode_utf16().count();
    let (least, most) = rule.lengths;
    let excluded =
        |it: char| rule.checked && (it.is_ascii_control() || EXCLUDED.contains(it)) || rule.more.contains(it);
    let may_be = match kind {
        COMPUTER => !name.starts_with(' ') && !name.ends_with(' '),
        MESSAGE_DESTINATION => {
            let star = name.find('*');
            star.is_none_or(|at| at + 1 == name.len()) && (length < MESSAGE_DESTINATION_LENGTH || star.is_some())
        }
        _ => true,
    };
    let valid = (least..=most).contains(&length) && !name.contains('\0') && !name.chars().any(excluded) && may_be;
    if valid { Ok(()) } else { Err(Refused::Invalid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_their_type() {
        let long = |length| "a".repeat(length);
        let valid = |kind, name: &str| validate(name, kind);
        for kind in 1..=13 {
            assert_eq!(valid(kind, "name"), Ok(()), "{kind}");
            let empty = if matches!(kind, 2 | 12) { Ok(()) } else { Err(Refused::Invalid) };
            assert_eq!(valid(kind, ""), empty, "{kind}");
            let odd = if matches!(kind, 2 | 12) { Ok(()) } else { Err(Refused::Invalid) };
            assert_eq!((valid(kind, "a|b"), valid(kind, "a\u{1}")), (odd, odd), "{kind}");
            let most = [0, 256, 256, 256, 260, 16, 15, 80, 260, 80, 15, 259, 8, 15][kind as usize];
            assert_eq!(valid(kind, &long(most)), Ok(()), "{kind}");
            let more = if kind == MESSAGE_DESTINATION { 260 } else { most + 1 };
            assert_eq!(valid(kind, &long(more)), Err(Refused::Invalid), "{kind}");
        }
        assert_eq!((valid(0, "a"), valid(14, "a")), (Err(Refused::UnknownType), Err(Refused::UnknownType)));
        assert_eq!((valid(6, "a b"), valid(9, "a b")), (Err(Refused::Invalid), Ok(())));
        assert_eq!(
            (valid(4, " a"), valid(4, "a "), valid(4, "a b")),
            (Err(Refused::Invalid), Err(Refused::Invalid), Ok(()))
        );
        assert_eq!(
            (valid(11, "a*"), valid(11, "a*b"), valid(4, "a*")),
            (Ok(()), Err(Refused::Invalid), Err(Refused::Invalid))
        );
        assert_eq!(valid(11, &(long(259) + "*")), Ok(()));
    }
}
