//! Text tables with columns as wide as their widest cell.

/// Formats a table: heads, a line, and rows, each with as many cells as there are heads. Control characters are
/// replaced, because file and machine names are chosen by clients, and a terminal would interpret them.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let mut widths: Vec<usize> = heads.iter().map(|head| head.len()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let whole = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
    let mut text = String::new();
    push_row(&mut text, &widths, heads.iter().copied());
    text.push_str(&"-".repeat(whole));
    text.push('\n');
    for row in &rows {
        push_row(&mut text, &widths, row.iter().map(String::as_str));
    }
    text
}

fn push_row<'a>(text: &mut String, widths: &[usize], cells: impl Iterator<Item = &'a str>) {
    let padded: Vec<String> = cells.zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
    text.push_str(padded.join("  ").trim_end());
    text.push('\n');
}

/// Returns `text` with a replacement character for each control character.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_minimum_width() {
        let rows = [vec!["\u{e4}\u{e4}\u{e4}\u{e4}".into(), "x".into()], vec!["\x1b[2J".into(), "\n".into()]];
        assert_eq!(
            table(&["a", "bb"], &rows),
            "a     bb\n--------\n\u{e4}\u{e4}\u{e4}\u{e4}  x\n\u{fffd}[2J  \u{fffd}\n"
        );
        assert_eq!(table(&["a", "bb"], &[]), "a  bb\n-----\n");
    }
}
