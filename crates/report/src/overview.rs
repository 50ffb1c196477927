//! The first screen of the page after its head: one plot and one table of all ratios.

use super::groups::groups;
use super::look::Shape;
use super::markup::{Text, anchor, push, shortened};
use super::ratios::{Ratio, Spread, ratios};
use super::scale::{Extent, Scale};
use super::svg::{Anchor, Svg, text_width};
use crate::record::Run;
use crate::units;

/// A measure of the plot: its name, its class, its shape, and its value.
type Measure = (&'static str, &'static str, Shape, fn(&Ratio) -> Option<Spread>);

/// The measures have colours that the first two servers do not have.
const MEASURES: [Measure; 2] = [
    ("throughput", "c2 a0", Shape::Circle, |row| row.throughput),
    ("server CPU", "c3 a0", Shape::Diamond, |row| row.cpu),
];

/// The layout of the plot.
struct Layout {
    class: &'static str,
    width: f64,
    text: f64,
    /// Width of the names beside the plot. Without it, they are above their marks.
    names: Option<f64>,
}

const LAYOUTS: [Layout; 2] = [
    Layout { class: "wide", width: 480.0, text: 14.0, names: Some(170.0) },
    Layout { class: "narrow", width: 360.0, text: 13.0, names: None },
];

/// Writes the plot and the table, if servers were compared.
pub(super) fn overview(out: &mut String, runs: &[Run]) {
    let rows = ratios(runs);
    if rows.is_empty() {
        if runs.iter().any(|run| !run.servers.is_empty()) {
            out.push_str("<p class=\"note\">There are no ratios, because no two servers ran the same case.</p>\n");
        }
        return;
    }
    let title = title(runs);
    out.push_str("<div class=\"overview\">\n<figure>\n");
    push!(out, "<figcaption>{}</figcaption>\n<ul class=\"legend\">\n", Text(&title));
    for (name, class, shape, _) in MEASURES {
        push!(out, "<li>{}{name}</li>\n", Svg::swatch(class, |svg| svg.mark(shape, (17.0, 8.0), 4.2)));
    }
    out.push_str("</ul>\n");
    LAYOUTS.iter().for_each(|layout| out.push_str(&plot(&rows, &title, layout)));
    out.push_str("</figure>\n");
    table(out, &rows);
    out.push_str("</div>\n");
    out.push_str(
        "<p class=\"note\">More than 1x is better. Marks and first numbers are medians of the cases; the spread is \
         from the lowest to the highest round of any case. Throughput is in bytes where data is transferred, else in \
         operations; server CPU is processor time per operation.</p>\n",
    );
}

/// Returns the question that the plot answers.
fn title(runs: &[Run]) -> String {
    match &groups(runs)[..] {
        [one] => format!(
            "How many times better each variant of {} is than the first one of its case",
            shortened(one.name, 24)
        ),
        [one, other] => {
            format!("How many times better {} is than {}", shortened(one.name, 24), shortened(other.name, 24))
        }
        [one, ..] => format!("How many times better {} is than the others", shortened(one.name, 24)),
        [] => "Ratios".to_owned(),
    }
}

/// Names a row of the plot. A part that is the same in all rows is left out.
fn name(row: &Ratio, rows: &[Ratio]) -> String {
    let one_experiment = rows.iter().all(|other| other.experiment == row.experiment);
    let date = row.date.split(' ').next().unwrap_or_default();
    let experiment = if one_experiment && !row.pair.is_empty() { "" } else { &row.experiment };
    // The servers that they are compared with are in the table.
    let own = |row: &Ratio| row.pair.split(" against ").next().unwrap_or_default().to_owned();
    let same = |other: &&Ratio| other.experiment == row.experiment && other.date == row.date && own(other) == own(row);
    let pair = if rows.iter().filter(same).count() == 1 { own(row) } else { row.pair.clone() };
    let parts = [experiment, &pair, date];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn plot(rows: &[Ratio], title: &str, layout: &Layout) -> String {
    let spreads = rows.iter().flat_map(|row| MEASURES.map(|(_, _, _, of)| of(row))).flatten();
    let ends = spreads.flat_map(|spread| [spread.low, spread.high]).chain([1.0]);
    let Some(extent) = Extent::of(ends) else { return String::new() };
    let (left, right) = (layout.names.unwrap_or(0.0) + 8.0, layout.width - 12.0);
    let x = Scale::across(Extent { binary: false, ..extent }, true, if layout.names.is_some() { 6 } else { 7 });
    let at = |value: f64| left + (right - left) * x.place(value);
    let line = layout.text * 1.3;
    let above = if layout.names.is_some() { 0.0 } else { line };
    let row_height = above + layout.text * 1.9;
    let bottom = row_height * rows.len() as f64 + 4.0;
    let mut svg = Svg::new(layout.class, layout.width, bottom + line * 1.3, title);
    for tick in &x.ticks {
        let place = at(tick.at);
        svg.line("grid", (place, 0.0), (place, bottom));
        let label = units::ratio(tick.at);
        let half = text_width(&label, layout.text) / 2.0;
        let middle = place.clamp(half, (layout.width - half).max(half));
        svg.text("tick", Anchor::Middle, (middle, bottom + line), &label);
    }
    svg.line("axis", (at(1.0), 0.0), (at(1.0), bottom));
    for (index, row) in rows.iter().enumerate() {
        let top = row_height * index as f64;
        let name = fitting(&name(row, rows), layout.names.unwrap_or(layout.width), layout.text);
        let baseline = if above > 0.0 { top + line * 0.85 } else { top + row_height / 2.0 + layout.text * 0.35 };
        svg.text("name", Anchor::Start, (0.0, baseline), &name);
        for (number, (_, class, shape, of)) in MEASURES.iter().enumerate() {
            let Some(spread) = of(row) else { continue };
            let y = top + above + (row_height - above) * if number == 0 { 0.3 } else { 0.7 };
            svg.open(class);
            svg.line("whisker", (at(spread.low), y), (at(spread.high), y));
            svg.mark(*shape, (at(spread.middle), y), 3.6);
            svg.close();
        }
    }
    svg.finish()
}

/// Cuts a name to a width.
fn fitting(name: &str, width: f64, size: f64) -> String {
    let mut limit = name.chars().count();
    // Names are in bold.
    while limit > 1 && text_width(&shortened(name, limit), size) * 1.08 > width {
        limit -= 1;
    }
    shortened(name, limit)
}

fn table(out: &mut String, rows: &[Ratio]) {
    let (pairs, dates) = (rows.iter().any(|row| !row.pair.is_empty()), rows.iter().any(|row| !row.date.is_empty()));
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>Experiment</th>");
    for (shown, title) in [(dates, "Run"), (pairs, "Servers")] {
        if shown {
            push!(out, "<th>{title}</th>");
        }
    }
    out.push_str(
        "<th class=\"n\">Cases</th><th class=\"n\">Throughput</th><th class=\"n\">Server CPU</th></tr></thead>\n",
    );
    out.push_str("<tbody>\n");
    for row in rows {
        push!(out, "<tr><th><a href=\"#x-{}\">{}</a></th>", anchor(&row.experiment), Text(&row.experiment));
        for (shown, value) in [(dates, &row.date), (pairs, &row.pair)] {
            if shown {
                push!(out, "<td>{}</td>", Text(value));
            }
        }
        push!(out, "<td class=\"n\">{}</td>", row.cases);
        for spread in [row.throughput, row.cpu] {
            push!(out, "<td class=\"n\">{}</td>", Text(spread.map_or(units::NOTHING.to_owned(), cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn cell(spread: Spread) -> String {
    let Spread { middle, low, high } = spread;
    match low < high {
        true => format!("{} ({} to {})", units::ratio(middle), units::ratio(low), units::ratio(high)),
        false => units::ratio(middle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(experiment: &str, pair: &str) -> Ratio {
        let spread = Some(Spread { middle: 2.0, low: 0.5, high: 4.0 });
        let (experiment, pair) = (experiment.to_owned(), pair.to_owned());
        Ratio { experiment, date: String::new(), pair, cases: 3, throughput: spread, cpu: None }
    }

    #[test]
    fn the_table_has_a_row_for_each_ratio() {
        let mut out = String::new();
        table(&mut out, &[row("acl mix", ""), row("list", "")]);
        assert!(!out.contains("Servers") && !out.contains("Run"), "{out}");
        assert!(out.contains(
            "<tr><th><a href=\"#x-acl-mix\">acl mix</a></th><td class=\"n\">3</td>\
             <td class=\"n\">2x (0.5x to 4x)</td><td class=\"n\">–</td></tr>"
        ));
        let mut with_pairs = String::new();
        table(&mut with_pairs, &[row("logon", "ldap")]);
        assert!(with_pairs.contains("<th>Servers</th>") && with_pairs.contains("<td>ldap</td>"), "{with_pairs}");
    }

    #[test]
    fn rows_of_the_plot_are_named_by_what_differs() {
        let check = |rows: &[Ratio], expected: &[&str]| {
            assert_eq!(rows.iter().map(|row| name(row, rows)).collect::<Vec<_>>(), expected);
        };
        check(&[row("logon", "ldap"), row("logon", "smbpasswd")], &["ldap", "smbpasswd"]);
        check(&[row("logon", "ldap"), row("list", "")], &["logon, ldap", "list"]);
        check(&[row("list", "")], &["list"]);
        check(&[row("mix", "a against c"), row("mix", "b against c")], &["a", "b"]);
        check(&[row("mix", "a against c"), row("mix", "a against d")], &["a against c", "a against d"]);
        check(&[row("list", "against c"), row("list", "against d")], &["against c", "against d"]);
    }

    #[test]
    fn a_long_name_is_cut_to_its_column() {
        assert_eq!(fitting("list", 170.0, 14.0), "list");
        let cut = fitting(&"m".repeat(100), 170.0, 14.0);
        assert!(cut.ends_with('…') && text_width(&cut, 14.0) < 170.0, "{cut}");
    }
}
