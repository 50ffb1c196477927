//! Bytes -> logical lines, as Samba reads them: comments and empty lines are dropped, continued lines are joined, and
//! runs of white space become one blank.

/// The longest logical line, bytes. Large enough for thousands of users, small enough to reject a disk image given by
/// mistake.
const LONGEST: usize = 1 << 20;

/// One logical line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    /// The number of its first line, from 1.
    pub(super) number: u32,
    /// The text, or why it cannot be read.
    pub(super) text: Result<String, Unreadable>,
}

/// Why a line cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    /// It is not UTF-8. The text is that of ISO-8859-1.
    NotUtf8(String),
    /// It contains a NUL.
    Nul,
    /// It is longer than [`LONGEST`].
    TooLong,
}

/// Splits a file into logical lines. A line that ends in a backslash is continued on the next one; a comment is not.
pub(super) fn split(bytes: &[u8]) -> Vec<Line> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = Vec::new();
    let mut open: Option<(u32, Vec<u8>)> = None;
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii_end();
        if open.is_none() && (line.is_empty() || matches!(line.trim_ascii_start().first(), None | Some(b'#' | b';'))) {
            continue;
        }
        let (first, mut joined) = open.take().unwrap_or((number, Vec::new()));
        match line.strip_suffix(b"\\") {
            Some(front) => {
                joined.extend_from_slice(front);
                open = Some((first, joined));
            }
            None => {
                joined.extend_from_slice(line);
                lines.push(Line { number: first, text: clean(&joined) });
            }
        }
    }
    if let Some((first, joined)) = open {
        lines.push(Line { number: first, text: clean(&joined) });
    }
    lines.retain(|line| line.text != Ok(String::new()));
    lines
}

fn clean(line: &[u8]) -> Result<String, Unreadable> {
    if line.len() > LONGEST {
        return Err(Unreadable::TooLong);
    }
    if line.contains(&0) {
        return Err(Unreadable::Nul);
    }
    match std::str::from_utf8(line) {
        Ok(text) => Ok(spaced(text)),
        Err(_) => Err(Unreadable::NotUtf8(spaced(&line.iter().copied().map(char::from).collect::<String>()))),
    }
}

/// Returns `text` with one blank for each run of white space.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: &[(u32, &str)]) {
        let lines: Vec<_> = split(text).into_iter().map(|line| (line.number, line.text.expect("text"))).collect();
        let expected: Vec<_> = expected.iter().map(|(number, text)| (*number, (*text).to_owned())).collect();
        assert_eq!(lines, expected, "{}", String::from_utf8_lossy(text));
    }

    #[test]
    fn lines_are_joined_and_comments_dropped() {
        check(b"", &[]);
        check(b"a = 1\r\nb = 2\r\n", &[(1, "a = 1"), (2, "b = 2")]);
        check(b"\xef\xbb\xbf[global]", &[(1, "[global]")]);
        check(b"\n # c\n\t; d\n a  =\tb   c \n", &[(4, "a = b c")]);
        check(b"a = b\\\n   c \\ \nd\ne = f", &[(1, "a = b c d"), (4, "e = f")]);
        check(b"a = b\\\nc", &[(1, "a = bc")]);
        check(b"# c \\\na = 1", &[(2, "a = 1")]);
        check(b"a = \\\n# b", &[(1, "a = # b")]);
        check(b"a = 1 # b", &[(1, "a = 1 # b")]);
        check(b"a = b\\", &[(1, "a = b")]);
        check(b"\\\n\\\n", &[]);
    }

    #[test]
    fn lines_that_are_not_text_are_errors() {
        assert_eq!(split(b"a =  \xe9\nb = \0")[0].text, Err(Unreadable::NotUtf8("a = \u{e9}".into())));
        assert_eq!(split(b"a =  \xe9\nb = \0")[1].text, Err(Unreadable::Nul));
        assert_eq!(split(b"# \xff \0\na = 1")[0].text, Ok("a = 1".into()));
        assert_eq!(split(&vec![b'x'; LONGEST + 1])[0].text, Err(Unreadable::TooLong));
    }
}
