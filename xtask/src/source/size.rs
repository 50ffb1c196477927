//! The maximum width of lines and the maximum length of files.

use super::{Source, Violation};

/// `max_width` of rustfmt.toml, which rustfmt does not apply to comments and strings.
const WIDTH: usize = 120;
/// Maximum number of lines of a production file.
const LINES: usize = 600;

/// Returns the lines that are too wide, and whether the file is too long.
pub(super) fn check(source: &Source) -> Vec<Violation> {
    let path = source.path.display();
    let wide = source.text.lines().enumerate().filter(|(_, line)| line.chars().count() > WIDTH);
    let mut found: Vec<Violation> = wide
        .map(|(number, line)| Violation {
            name: format!("width {path}"),
            what: format!("line {} has {} columns; wrap it at {WIDTH}", number + 1, line.chars().count()),
        })
        .collect();
    let lines = source.text.lines().count();
    if source.is_production() && lines > LINES && !is_table(source) {
        found.push(Violation {
            name: format!("length {path}"),
            what: format!("{lines} lines; split it into files of at most {LINES}"),
        });
    }
    found
}

/// Returns whether the file is a table: one entry after the other, and no function.
fn is_table(source: &Source) -> bool {
    source.path.file_name().is_some_and(|name| name == "table.rs") && !source.text.contains("fn ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: String) -> Vec<String> {
        check(&Source { path: path.into(), text }).into_iter().map(|violation| violation.name).collect()
    }

    #[test]
    fn wide_lines_and_long_files_are_found() {
        assert!(found("crates/a/src/a.rs", "x".repeat(120)).is_empty());
        assert_eq!(found("crates/a/src/a.rs", "x".repeat(121)), ["width crates/a/src/a.rs"]);
        // Columns, not bytes.
        assert!(found("crates/a/src/a.rs", "é".repeat(120)).is_empty());
        assert!(found("crates/a/src/a.rs", "fn a() {}\n".repeat(600)).is_empty());
        assert_eq!(found("crates/a/src/a.rs", "fn a() {}\n".repeat(601)), ["length crates/a/src/a.rs"]);
        assert!(found("crates/a/src/tests.rs", "fn a() {}\n".repeat(601)).is_empty());
        assert!(found("crates/a/src/table.rs", "a,\n".repeat(601)).is_empty());
    }
}
