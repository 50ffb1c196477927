//! Pattern lists such as `hide files` and `veto files`: `/name*/other?/`.

use super::to_wire;
use super::wildcard::{Matcher, Pattern};

/// A list of patterns. A name matches if it matches one of them.
#[derive(Clone, Debug, Default)]
pub struct Globs(Box<[Matcher]>);

impl Globs {
    /// Creates the list from separate patterns. `ignore_case` is the share's setting.
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a str>, ignore_case: bool) -> Globs {
        let pattern = |entry: &str| Pattern::of_list(&entry.encode_utf16().collect::<Vec<_>>(), ignore_case).matcher();
        Globs(entries.into_iter().filter(|entry| !entry.is_empty()).map(pattern).collect())
    }

    /// Parses a parameter value, in which patterns are separated by `/`.
    pub fn parse(list: &str, ignore_case: bool) -> Globs {
        Globs::new(list.split('/'), ignore_case)
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the Linux name matches a pattern.
    pub fn matches(&self, linux_name: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let shown = to_wire(linux_name);
        self.0.iter().any(|pattern| pattern.matches(&shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let globs = Globs::parse("/*.tmp/.*/Thumbs.db/a?c/*.*~/", true);
        for name in ["x.TMP", ".hidden", "thumbs.db", "abc", "a.b~"] {
            assert!(globs.matches(name.as_bytes()), "{name}");
        }
        for name in ["tmp", "x.tmp2", "a", "abbc", "b~"] {
            assert!(!globs.matches(name.as_bytes()), "{name}");
        }
        assert!(!Globs::parse("/Thumbs.db/", false).matches(b"thumbs.db"));
        assert!(Globs::parse("//", true).is_empty() && !Globs::default().matches(b"a"));
        assert!(Globs::parse("/*/", true).matches(b"a"));
    }
}
