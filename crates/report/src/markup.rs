//! Escapes text for HTML. All text from a record passes through [`Text`].
//!
//! Names of servers, cases and files come from outside. Besides the special characters of HTML, control characters and
//! characters that change the writing direction are replaced, so that a name cannot look like something else.

use std::fmt;

/// Text that is safe between tags and in quoted attributes.
pub(super) struct Text<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        write!(Escaping(f), "{}", self.0)
    }
}

/// A writer that escapes text.
struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                '\n' | '\t' => self.0.write_char(character)?,
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                    self.0.write_char('\u{fffd}')?;
                }
                character if character.is_control() => self.0.write_char('\u{fffd}')?,
                character => self.0.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Appends formatted text. Writing to a `String` cannot fail.
macro_rules! push {
    ($out:expr, $($argument:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($argument)*);
    }};
}
pub(super) use push;

/// Cuts `text` to `limit` characters, with an ellipsis if something was cut off.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Converts text to a valid `id`: letters and digits, joined by hyphens.
pub(super) fn anchor(text: &str) -> String {
    let parts = text.split(|character: char| !character.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_texts_is_escaped() {
        let check = |text: &str, expected: &str| assert_eq!(Text(text).to_string(), expected);
        check("a < b & \"c\" 'd'", "a &lt; b &amp; &quot;c&quot; &#39;d&#39;");
        check("<script>", "&lt;script&gt;");
        check("a\0b\u{202e}c\nd", "a\u{fffd}b\u{fffd}c\nd");
    }

    #[test]
    fn names_in_links_are_shortened() {
        assert_eq!(anchor("acl <mix> 2"), "acl-mix-2");
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdefg", 6), "abcde…");
    }
}
