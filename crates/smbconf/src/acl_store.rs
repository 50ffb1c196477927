//! The values of `frevo:acl store`.

use server::policy::{AclStore, Entries, FEWEST_ENTRIES};

/// A description of the allowed values.
pub(crate) const ALLOWED: &str =
    "auto, always, never, >= N or N-M, where N and M are numbers of POSIX ACL entries, 3 and more";

/// Parses a value; `None` if it is invalid.
pub fn parse(text: &str) -> Option<AclStore> {
    let number = |text: &str| {
        let digits = text.trim();
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|&count: &u32| plain && count >= FEWEST_ENTRIES)
    };
    let text = text.trim();
    Some(AclStore::Said(match text.to_ascii_lowercase().as_str() {
        "auto" => return Some(AclStore::Auto(None)),
        "always" => Entries::ALL,
        "never" => Entries::NONE,
        _ => match (text.strip_prefix(">="), text.split_once('-')) {
            (Some(least), _) => Entries::at_least(number(least)?),
            (None, Some((least, most))) => {
                let range = (number(least)?, number(most)?);
                if range.0 > range.1 {
                    return None;
                }
                Entries::between(range.0, range.1)
            }
            (None, None) => return None,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_values_are_accepted() {
        for (text, expected) in [
            ("auto", AclStore::Auto(None)),
            ("Always", AclStore::Said(Entries::ALL)),
            (" never ", AclStore::Said(Entries::NONE)),
            (">= 6", AclStore::Said(Entries::at_least(6))),
            (">=3", AclStore::Said(Entries::ALL)),
            ("6-34", AclStore::Said(Entries::between(6, 34))),
            ("6 - 6", AclStore::Said(Entries::between(6, 6))),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["", "yes", "6", "> 6", ">= 2", ">= x", ">= +6", "34-6", "6-", "-6", "6-34-40", ">= 99999999999"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn displayed_values_can_be_parsed() {
        for entries in [Entries::ALL, Entries::NONE, Entries::at_least(6), Entries::between(6, 34)] {
            assert_eq!(parse(&entries.to_string()), Some(AclStore::Said(entries)));
        }
    }
}
