//! Formats a [`Table`] for a terminal: aligned columns, numbers to the right, and no cell cut off.
//!
//! A table too wide for the terminal is printed in parts that repeat the first column. Each character is assumed to be
//! one cell wide. Control characters are replaced by U+FFFD, because a cell may contain text from a server.

use crate::record::Table;

/// Spaces between two columns.
const GAP: usize = 2;

/// Formats the table in lines of at most `width` characters, if its cells allow that. The text ends in a line break.
pub fn text(table: &Table, width: usize) -> String {
    let grid = Grid::new(table, width);
    let mut out = String::new();
    if !table.title.is_empty() {
        for line in wrapped(&clean(&table.title), width.max(20)) {
            push_line(&mut out, &line);
        }
    }
    for part in grid.parts(width) {
        if !out.is_empty() {
            out.push('\n');
        }
        grid.print(&part, &mut out);
    }
    out
}

/// Returns for each column whether it holds numbers, which are aligned to the right. The first column never does.
pub fn numeric(table: &Table) -> Vec<bool> {
    let columns = columns(table);
    let mut numeric = vec![true; columns];
    for row in &table.rows {
        for (column, cell) in row.iter().enumerate() {
            numeric[column] &= is_number(cell);
        }
    }
    if let Some(first) = numeric.first_mut() {
        *first = false;
    }
    numeric
}

/// Returns whether a cell is a number, a number with a unit, or empty.
fn is_number(cell: &str) -> bool {
    let cell = cell.trim();
    matches!(cell, "" | "-" | "–" | "n/a")
        || cell
            .trim_start_matches(['-', '+', '±', '<', '>', '~', '≤', '≥', '×', '−', ' '])
            .starts_with(|character: char| character.is_ascii_digit())
            && cell.chars().count() <= 32
}

/// Returns the number of columns. Rows may be longer than the head.
fn columns(table: &Table) -> usize {
    table.rows.iter().map(Vec::len).chain([table.head.len()]).max().unwrap_or(0)
}

/// A table layout: the lines of every cell and the width of every column.
struct Grid {
    /// The lines of each cell of each row, the head first.
    rows: Vec<Vec<Vec<String>>>,
    widths: Vec<usize>,
    numeric: Vec<bool>,
}

impl Grid {
    fn new(table: &Table, width: usize) -> Self {
        let columns = columns(table);
        let limit = (width / 2).max(12);
        let widths: Vec<usize> = (0..columns).map(|column| column_width(table, column, limit)).collect();
        let rows = [&table.head].into_iter().chain(&table.rows);
        let rows = rows.map(|row| {
            let cell = |column: usize| row.get(column).map_or("", String::as_str);
            (0..columns).map(|column| wrapped(&clean(cell(column)), widths[column])).collect()
        });
        Self { rows: rows.collect(), widths, numeric: numeric(table) }
    }

    /// Groups the columns into parts that each fit the width.
    fn parts(&self, width: usize) -> Vec<Vec<usize>> {
        let Some(first) = self.widths.first() else { return Vec::new() };
        let mut parts = vec![vec![0]];
        let mut used = *first;
        for column in 1..self.widths.len() {
            let part = parts.last_mut().expect("there is always one part");
            if used + GAP + self.widths[column] > width && part.len() > 1 {
                parts.push(vec![0, column]);
                used = first + GAP + self.widths[column];
            } else {
                part.push(column);
                used += GAP + self.widths[column];
            }
        }
        parts
    }

    fn print(&self, part: &[usize], out: &mut String) {
        for (index, row) in self.rows.iter().enumerate() {
            self.print_row(row, part, index == 0, out);
            if index == 0 {
                let rules: Vec<String> = part.iter().map(|&column| "─".repeat(self.widths[column])).collect();
                push_line(out, &rules.join(&" ".repeat(GAP)));
            }
        }
    }

    /// Prints one row in as many lines as its tallest cell. Titles are aligned to the bottom of their cell, values to
    /// the top.
    fn print_row(&self, row: &[Vec<String>], part: &[usize], bottom: bool, out: &mut String) {
        let height = part.iter().map(|&column| row[column].len()).max().unwrap_or(0);
        for line in 0..height {
            let mut text = String::new();
            for (place, &column) in part.iter().enumerate() {
                let cell = &row[column];
                let skipped = if bottom { height - cell.len() } else { 0 };
                let words = line.checked_sub(skipped).and_then(|line| cell.get(line)).map_or("", String::as_str);
                let gap = if place == 0 { 0 } else { GAP };
                let width = self.widths[column];
                text += &if self.numeric[column] {
                    format!("{:gap$}{words:>width$}", "")
                } else {
                    format!("{:gap$}{words:<width$}", "")
                };
            }
            push_line(out, text.trim_end());
        }
    }
}

/// Returns the width of the widest value or the longest word of the title, but at most `limit`.
fn column_width(table: &Table, column: usize, limit: usize) -> usize {
    let values = table.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
    let title = table.head.get(column).map_or("", String::as_str);
    let longest = title.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
    let title = title.chars().count();
    let values = values.max().unwrap_or(0);
    // A title is broken into two lines rather than widening its column much.
    values.max(longest).max(title.div_ceil(2).min(16)).min(limit).max(1)
}

/// Wraps the words to lines of at most `width` characters. Longer words are broken.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        if used > 0 && !word.is_empty() {
            line.push(' ');
            used += 1;
        }
        used += word.len();
        line.extend(word);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Replaces control characters, which a terminal would interpret.
fn clean(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(head: &[&str], rows: &[&[&str]]) -> Table {
        let strings = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        Table {
            title: "Throughput".to_owned(),
            head: strings(head),
            rows: rows.iter().map(|row| strings(row)).collect(),
        }
    }

    #[track_caller]
    fn check(table: &Table, width: usize, expected: &str) {
        let text = text(table, width);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let table =
            table(&["case", "frevo", "note"], &[&["read", "1.2 GiB/s", "fast"], &["random write", "80 MiB/s", ""]]);
        check(
            &table,
            80,
            "Throughput\n\n\
             case              frevo  note\n\
             ────────────  ─────────  ────\n\
             read          1.2 GiB/s  fast\n\
             random write   80 MiB/s\n",
        );
    }

    #[test]
    fn a_wide_table_is_split() {
        let table = table(&["case", "first", "second", "third"], &[&["a", "1", "2", "3"]]);
        check(
            &table,
            20,
            "Throughput\n\n\
             case  first  second\n\
             ────  ─────  ──────\n\
             a         1       2\n\n\
             case  third\n\
             ────  ─────\n\
             a         3\n",
        );
    }

    #[test]
    fn long_titles_are_wrapped_and_short_rows_are_filled() {
        let table = table(&["clients", "operations per second"], &[&["8", "12", "34"], &[]]);
        check(
            &table,
            80,
            "Throughput\n\n\
             \x20         operations\n\
             clients   per second\n\
             ───────  ───────────  ──\n\
             8                 12  34\n\n",
        );
    }

    #[test]
    fn control_characters_in_cells_are_replaced() {
        let table = table(&["server"], &[&["\x1b[2Jevil\x07"]]);
        assert!(!text(&table, 80).contains(['\x1b', '\x07']));
    }

    #[test]
    fn an_empty_table_prints_no_rows() {
        check(&Table::default(), 80, "");
        check(&table(&[], &[]), 0, "Throughput\n");
    }
}
