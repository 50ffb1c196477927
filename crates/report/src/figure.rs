//! A figure: its title, its legend, the picture for wide and for narrow screens, and its numbers as a table.
//!
//! Both pictures are in the page, and the style sheet shows the one that fits, so that text keeps its size on a phone.
//! The legend is text above the picture, so that it can wrap and does not cover the picture.

use super::look::Look;
use super::markup::{Text, push, shortened};
use super::scale::LARGEST;
use super::svg::{Svg, text_width};
use super::{bars, lines};
use crate::record::{Axis, Figure, Kind, Point, Series};
use crate::units;

/// The layout of a picture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Layout {
    pub(super) class: &'static str,
    pub(super) width: f64,
    /// Height of the area between the axes. Horizontal bars take as much as they need.
    pub(super) height: f64,
    /// Font size.
    pub(super) text: f64,
    /// Half the width of a point.
    pub(super) mark: f64,
}

const WIDE: Layout = Layout { class: "wide", width: 960.0, height: 340.0, text: 14.0, mark: 4.2 };
const NARROW: Layout = Layout { class: "narrow", width: 360.0, height: 250.0, text: 13.0, mark: 3.8 };

/// A series with only the points that can be drawn.
pub(super) struct Drawn<'a> {
    pub(super) name: String,
    pub(super) given: &'a Series,
    pub(super) look: Look,
    /// Sorted by `x`, without NaN and values beyond the axes.
    pub(super) points: Vec<Point>,
}

impl Layout {
    pub(super) fn text_width(&self, text: &str) -> f64 {
        text_width(text, self.text)
    }
}

/// Returns the figure as HTML. `looks` are the looks of its series.
pub(super) fn html(figure: &Figure, looks: &[Look]) -> String {
    let drawn: Vec<Drawn> =
        figure.series.iter().zip(looks).map(|(series, look)| drawn(figure, series, *look)).collect();
    let mut out = String::from("<figure>\n");
    push!(out, "<figcaption>{}</figcaption>\n", Text(&figure.title));
    if drawn.iter().all(|series| series.points.is_empty()) {
        out.push_str("<p class=\"note\">No data to draw.</p>\n");
    } else {
        legend(&mut out, figure, &drawn);
        for layout in [WIDE, NARROW] {
            out.push_str(&match figure.kind {
                Kind::Bars => bars::draw(figure, &drawn, &layout),
                Kind::Lines | Kind::Points => lines::draw(figure, &drawn, &layout),
            });
        }
    }
    notes(&mut out, figure, &drawn);
    numbers(&mut out, figure, &drawn);
    out.push_str("</figure>\n");
    out
}

/// Returns the title of an axis with its unit and whether it is logarithmic.
pub(super) fn axis_title(axis: &Axis) -> String {
    let mut letters = axis.label.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let label = shortened(&(first + letters.as_str()), 80);
    match (axis.unit.is_empty(), axis.logarithmic) {
        (true, false) => label,
        (true, true) => format!("{label} (log scale)"),
        (false, false) => format!("{label} ({})", shortened(&axis.unit, 20)),
        (false, true) => format!("{label} ({}, log scale)", shortened(&axis.unit, 20)),
    }
}

/// Returns the spread of a point, if it has one. Values from earlier studies have none.
pub(super) fn spread(point: &Point, axis: &Axis) -> Option<(f64, f64)> {
    let Point { y, low, high, .. } = *point;
    let real = low <= y && y <= high && low < high && low.abs() <= LARGEST && high.abs() <= LARGEST;
    let shown = !axis.logarithmic || low > 0.0;
    (real && shown).then_some((low, high))
}

fn drawn<'a>(figure: &Figure, series: &'a Series, look: Look) -> Drawn<'a> {
    let shows = |axis: &Axis, value: f64| value.abs() <= LARGEST && (!axis.logarithmic || value > 1.0 / LARGEST);
    let mut points = series.points.clone();
    points.retain(|point| match figure.kind {
        Kind::Bars => category(figure, point).is_some() && shows(&figure.y, point.y),
        Kind::Lines | Kind::Points => shows(&figure.x, point.x) && shows(&figure.y, point.y),
    });
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mentions_study = series.name.split(|character: char| !character.is_alphanumeric()).any(|word| word == "study");
    let name = if series.then && !mentions_study { format!("{} (study)", series.name) } else { series.name.clone() };
    Drawn { name, given: series, look, points }
}

/// Returns the category that a bar belongs to.
pub(super) fn category(figure: &Figure, point: &Point) -> Option<usize> {
    let index = point.x.round();
    let inside = index >= 0.0 && index < figure.categories.len() as f64 && (point.x - index).abs() < 0.01;
    inside.then_some(index as usize)
}

fn legend(out: &mut String, figure: &Figure, drawn: &[Drawn]) {
    out.push_str("<ul class=\"legend\">\n");
    for series in drawn {
        let empty = if series.points.is_empty() { " <small>(no data)</small>" } else { "" };
        push!(out, "<li>{}{}{empty}</li>\n", swatch(figure.kind, series.look), Text(&series.name));
    }
    out.push_str("</ul>\n");
}

/// Returns a small sample of how a series looks in the picture.
fn swatch(kind: Kind, look: Look) -> String {
    Svg::swatch(&look.class(), |svg| {
        match kind {
            Kind::Bars => svg.rect("bar", (10.0, 1.5), 18.0, 13.0),
            Kind::Lines => svg.path("curve", &[(1.0, 8.0), (33.0, 8.0)], false),
            Kind::Points => {}
        }
        if kind != Kind::Bars {
            svg.mark(look.shape(), (17.0, 8.0), 4.2);
        }
    })
}

/// Writes notes about data that the picture cannot show.
fn notes(out: &mut String, figure: &Figure, drawn: &[Drawn]) {
    let given: usize = figure.series.iter().map(|series| series.points.len()).sum();
    let shown: usize = drawn.iter().map(|series| series.points.len()).sum();
    if given > shown {
        let (points, are) = if given - shown == 1 { ("point", "is") } else { ("points", "are") };
        let logarithmic = if figure.x.logarithmic || figure.y.logarithmic {
            ", or are zero or less on a logarithmic axis"
        } else {
            ""
        };
        push!(
            out,
            "<p class=\"note\">{} {points} {are} not drawn, because the values are not numbers{logarithmic}.</p>\n",
            units::count((given - shown) as u64)
        );
    }
    let spread = |series: &&Drawn| series.points.iter().any(|point| spread(point, &figure.y).is_some());
    let is_band = |series: &&Drawn| figure.kind == Kind::Lines && lines::has_band(series);
    let bands = drawn.iter().filter(spread).filter(is_band).count();
    let what = match (bands, drawn.iter().filter(spread).count()) {
        (_, 0) => return,
        (0, _) => "Whiskers show the range",
        (bands, all) if bands == all => "Bands show the range",
        _ => "Bands and whiskers show the range",
    };
    push!(
        out,
        "<p class=\"note\">{what} from the lowest to the highest round; lines, points and bars show the median.</p>\n"
    );
}

/// Writes the numbers of the picture as a table, for reading and copying.
fn numbers(out: &mut String, figure: &Figure, drawn: &[Drawn]) {
    out.push_str("<details><summary>Numbers</summary>\n<div class=\"scroll\"><table>\n<thead><tr>");
    push!(out, "<th>{}</th>", Text(axis_title(&Axis { logarithmic: false, ..figure.x.clone() })));
    for series in drawn {
        push!(out, "<th class=\"n\">{}</th>", Text(&series.name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut places: Vec<f64> = figure.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup_by(|a, b| a.to_bits() == b.to_bits());
    for x in places {
        let category =
            (x >= 0.0 && figure.kind == Kind::Bars).then(|| figure.categories.get(x.round() as usize)).flatten();
        push!(out, "<tr><th>{}</th>", Text(category.cloned().unwrap_or_else(|| units::number(x))));
        for series in drawn {
            let here = series.given.points.iter().filter(|point| point.x.to_bits() == x.to_bits());
            let values: Vec<String> = here.map(|point| value(point, &figure.y)).collect();
            push!(out, "<td class=\"n\">{}</td>", Text(values.join("; ")));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    push!(
        out,
        "<p class=\"note\">{}</p></details>\n",
        Text(axis_title(&Axis { logarithmic: false, ..figure.y.clone() }))
    );
}

fn value(point: &Point, axis: &Axis) -> String {
    match spread(point, &Axis { logarithmic: false, ..axis.clone() }) {
        Some((low, high)) => {
            format!("{} ({} to {})", units::number(point.y), units::number(low), units::number(high))
        }
        None => units::number(point.y),
    }
}
