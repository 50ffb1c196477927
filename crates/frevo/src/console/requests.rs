//! The arguments of queries and changes, as the page sends them.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewShare {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) comment: String,
    pub(super) settings: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangedShare {
    pub(super) name: String,
    pub(super) path: Option<String>,
    pub(super) comment: Option<String>,
    pub(super) settings: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) name: String,
}

/// Where a list of names begins.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Position {
    /// After this name.
    After(String),
    /// At this beginning of a name.
    From(String),
}

impl Position {
    /// Returns the name after which the list begins; `None` for the beginning of all.
    pub(super) fn after(self) -> Option<String> {
        match self {
            Position::After(name) => Some(name),
            Position::From(mut name) => {
                // The last name before all that begin with `name`, which no account can have.
                let last = u32::from(name.pop()?);
                let before = (0..last).rev().find_map(char::from_u32);
                name.extend(before.into_iter().chain([char::MAX]));
                Some(name)
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUser {
    pub(super) name: String,
    pub(super) password: String,
    pub(super) full_name: String,
    pub(super) uid: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPassword {
    pub(super) name: String,
    pub(super) password: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Enabled {
    pub(super) name: String,
    pub(super) enabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Closed {
    pub(super) kind: String,
    pub(super) id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Located {
    pub(super) share: String,
    pub(super) path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Restored {
    pub(super) share: String,
    pub(super) from: String,
    pub(super) to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Former {
    pub(super) share: String,
    pub(super) path: String,
    pub(super) moment: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoredVersion {
    pub(super) share: String,
    pub(super) path: String,
    pub(super) moment: i64,
    pub(super) to: String,
    pub(super) replace: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewAcl {
    pub(super) share: String,
    pub(super) path: String,
    pub(super) sddl: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewBenchmark {
    pub(super) share: String,
    pub(super) kind: String,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) port: u16,
}

/// Reads the argument of a query, which is JSON in a string.
pub(super) fn place_of<T: DeserializeOwned>(arguments: &Value) -> Result<T> {
    let text = arguments.as_str().unwrap_or_default();
    serde_json::from_str(text).ok().context("the request is not what the console expects; load the page again")
}

pub(super) fn arguments_of<T: DeserializeOwned>(arguments: Value) -> Result<T> {
    // serde's text may quote the value, which may be a password.
    serde_json::from_value(arguments).ok().context("the request is not what the console expects; load the page again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_begins_at_the_first_name_with_a_beginning() {
        let all = ["a", "al", "ali", "alice", "alicf", "b", "\u{e000}", "\u{e000}x", "z"];
        for (from, first) in
            [("a", "a"), ("al", "al"), ("alic", "alice"), ("alid", "b"), ("c", "\u{e000}"), ("\u{e000}", "\u{e000}")]
        {
            let after = Position::From(from.to_owned()).after().expect("a name");
            assert_eq!(all.iter().find(|name| **name > after.as_str()), Some(&first), "{from}");
        }
        assert_eq!(Position::From(String::new()).after(), None);
        assert_eq!(Position::After("ann".to_owned()).after().as_deref(), Some("ann"));
        assert!(place_of::<Position>(&Value::from(r#"{"after":"a","from":"b"}"#)).is_err());
    }
}
