//! The names for one client: the load's paths under the directory of the run, with the client's own number.

use proto::bytes::utf16_bytes;

use super::Plan;
use crate::netbench::load::TextId;

/// The path component that represents the client's own directory.
const PLACEHOLDER: &str = "client1";

/// All paths and patterns of a plan, for one client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    texts: Vec<String>,
    wire: Vec<Vec<u8>>,
}

impl Names {
    /// Returns the names of client `number`, counted from 1. Paths start with `base`, a path relative to the share
    /// without leading or trailing backslash. An empty `base` is the share's root.
    pub fn new(plan: &Plan, base: &str, number: usize) -> Names {
        let own = format!("client{number}");
        let texts: Vec<String> = plan.texts.iter().map(|text| name(text, base, &own)).collect();
        let wire = texts.iter().map(|text| utf16_bytes(text)).collect();
        Names { texts, wire }
    }

    /// Returns a name as text.
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id.0 as usize).map_or("", String::as_str)
    }

    /// Returns a name as sent: UTF-16LE.
    pub fn wire(&self, id: TextId) -> &[u8] {
        self.wire.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }
}

/// Returns whether a path is in the client's own directory.
pub(super) fn is_own(path: &str) -> bool {
    path.split('\\').any(|part| part.eq_ignore_ascii_case(PLACEHOLDER))
}

fn name(text: &str, base: &str, own: &str) -> String {
    let parts = text.split('\\').map(|part| if part.eq_ignore_ascii_case(PLACEHOLDER) { own } else { part });
    let name = parts.collect::<Vec<_>>().join("\\");
    match name.strip_prefix('\\') {
        Some(relative) if base.is_empty() => relative.to_owned(),
        Some(_) => format!("{base}{name}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_own_directory_below_the_base() {
        for (text, base, expect) in [
            (r"\clients\client1\A.DOC", "", r"clients\client12\A.DOC"),
            (r"\clients\client1\A.DOC", "run", r"run\clients\client12\A.DOC"),
            (r"\clients\Client1", "run", r"run\clients\client12"),
            (r"\clients\client10\client1x", "run", r"run\clients\client10\client1x"),
            ("<.JNK", "run", "<.JNK"),
            ("client1", "run", "client12"),
        ] {
            assert_eq!(name(text, base, "client12"), expect);
        }
        assert!(is_own(r"\clients\CLIENT1\a") && !is_own(r"\clients") && !is_own(r"\client11"));
    }
}
