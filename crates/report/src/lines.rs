//! Line and point charts between two axes.

use super::figure::{Drawn, Layout, axis_title, spread};
use super::markup::shortened;
use super::scale::{Extent, Scale};
use super::svg::{Anchor, Svg, lines as wrap, text_width};
use crate::record::{Axis, Figure, Kind, Point};

/// A series with more points than this is drawn as a line without points.
const MARKED: usize = 60;

/// The coordinates of the parts of a chart.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    height: f64,
    x: Scale,
    y: Scale,
    x_title: Vec<String>,
    y_title: Vec<String>,
}

/// An occupied area: left, top, right, bottom.
type Area = (f64, f64, f64, f64);

/// Draws a figure of [`Kind::Lines`] or [`Kind::Points`].
pub(super) fn draw(figure: &Figure, drawn: &[Drawn], layout: &Layout) -> String {
    let Some(frame) = Frame::new(figure, drawn, layout) else { return String::new() };
    let mut svg = Svg::new(layout.class, layout.width, frame.height, &figure.title);
    frame.axes(&mut svg, layout);
    // Results of the study are drawn below the new measurements.
    let order =
        || drawn.iter().filter(|series| series.given.then).chain(drawn.iter().filter(|series| !series.given.then));
    for series in order() {
        frame.spread(&mut svg, figure, series);
    }
    for series in order() {
        frame.series(&mut svg, figure.kind, series, layout);
    }
    frame.labels(&mut svg, figure.kind, drawn, layout);
    svg.finish()
}

/// Returns whether the spread of a series is drawn as a band rather than as whiskers.
pub(super) fn has_band(series: &Drawn) -> bool {
    let spread = series.points.iter().filter(|point| spread(point, &Axis::default()).is_some()).count();
    spread >= 3 && spread * 2 > series.points.len()
}

impl Frame {
    fn new(figure: &Figure, drawn: &[Drawn], layout: &Layout) -> Option<Self> {
        let points = || drawn.iter().flat_map(|series| &series.points);
        let across = Extent::of(points().map(|point| point.x))?;
        let up = Extent::of(points().flat_map(|point| {
            let (low, high) = spread(point, &figure.y).unwrap_or((point.y, point.y));
            [low, point.y, high]
        }))?;
        let y = Scale::up(up, figure.y.logarithmic, (layout.height / 45.0) as usize);
        let widest = y.ticks.iter().map(|tick| layout.text_width(&tick.label)).fold(0.0, f64::max);
        let (left, right) = (widest + 10.0, layout.width - 18.0);
        let x = horizontal(across, figure.x.logarithmic, right - left, layout);
        let titles =
            |axis, width| wrap(&axis_title(axis), width, layout.text).unwrap_or_else(|| vec![axis_title(axis)]);
        let (x_title, y_title) = (titles(&figure.x, right - left), titles(&figure.y, layout.width - 8.0));
        let line = layout.text * 1.3;
        let top = line * y_title.len() as f64 + layout.text;
        let bottom = top + layout.height;
        let height = bottom + line * (1.25 + x_title.len() as f64) + 4.0;
        Some(Self { left, right, top, bottom, height, x, y, x_title, y_title })
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = self.left + (self.right - self.left) * self.x.place(x);
        (across, self.bottom - (self.bottom - self.top) * self.y.place(y))
    }

    fn axes(&self, svg: &mut Svg, layout: &Layout) {
        let line = layout.text * 1.3;
        for (index, text) in self.y_title.iter().enumerate() {
            svg.text("title", Anchor::Start, (0.0, layout.text + index as f64 * line), text);
        }
        for tick in &self.y.ticks {
            let (_, y) = self.at(0.0, tick.at);
            svg.line("grid", (self.left, y), (self.right, y));
            svg.text("tick", Anchor::End, (self.left - 7.0, y + layout.text * 0.35), &tick.label);
        }
        if !self.y.minor.is_empty() {
            svg.line("axis", (self.left, self.top), (self.left, self.bottom));
        }
        for at in &self.y.minor {
            let (_, y) = self.at(0.0, *at);
            svg.line("axis", (self.left, y), (self.left + 4.0, y));
        }
        let (_, zero) = self.at(0.0, self.y.base());
        svg.line("axis", (self.left, zero), (self.right, zero));
        let below = self.bottom + line;
        for at in &self.x.minor {
            let (x, _) = self.at(*at, 0.0);
            svg.line("axis", (x, self.bottom), (x, self.bottom - 4.0));
        }
        for tick in &self.x.ticks {
            let (x, _) = self.at(tick.at, 0.0);
            svg.line("grid", (x, self.top), (x, self.bottom));
            svg.line("axis", (x, self.bottom), (x, self.bottom + 5.0));
            let half = layout.text_width(&tick.label) / 2.0;
            svg.text("tick", Anchor::Middle, (x.min(layout.width - half), below + 2.0), &tick.label);
        }
        for (index, text) in self.x_title.iter().enumerate() {
            let place = ((self.left + self.right) / 2.0, below + (index + 1) as f64 * line + 2.0);
            svg.text("title", Anchor::Middle, place, text);
        }
    }

    /// Draws the range from the lowest to the highest round, below everything else.
    fn spread(&self, svg: &mut Svg, figure: &Figure, series: &Drawn) {
        svg.open(&series.look.class());
        if figure.kind == Kind::Lines && has_band(series) {
            let ends = |point: &Point| spread(point, &figure.y).unwrap_or((point.y, point.y));
            let upper = series.points.iter().map(|point| self.at(point.x, ends(point).1));
            let lower = series.points.iter().rev().map(|point| self.at(point.x, ends(point).0));
            svg.path("band", &upper.chain(lower).collect::<Vec<_>>(), true);
        } else {
            for point in &series.points {
                let Some((low, high)) = spread(point, &figure.y) else { continue };
                let ((x, bottom), (_, top)) = (self.at(point.x, low), self.at(point.x, high));
                svg.line("whisker", (x, bottom), (x, top));
                svg.line("whisker", (x - 4.0, bottom), (x + 4.0, bottom));
                svg.line("whisker", (x - 4.0, top), (x + 4.0, top));
            }
        }
        svg.close();
    }

    fn series(&self, svg: &mut Svg, kind: Kind, series: &Drawn, layout: &Layout) {
        svg.open(&series.look.class());
        let places = self.places(series);
        if kind == Kind::Lines && places.len() > 1 {
            svg.path("curve", &places, false);
        }
        if kind == Kind::Points || places.len() <= MARKED {
            let size = if places.len() <= MARKED { layout.mark } else { layout.mark * 0.55 };
            for place in places {
                svg.mark(series.look.shape(), place, size);
            }
        }
        svg.close();
    }

    fn places(&self, series: &Drawn) -> Vec<(f64, f64)> {
        series.points.iter().map(|point| self.at(point.x, point.y)).collect()
    }

    /// Labels the series from the study next to their lines, where there is space.
    fn labels(&self, svg: &mut Svg, kind: Kind, drawn: &[Drawn], layout: &Layout) {
        let mut taken: Vec<Area> = drawn.iter().flat_map(|series| occupied(&self.places(series), kind)).collect();
        for series in drawn.iter().filter(|series| series.given.then) {
            let name = shortened(&series.name, 40);
            let size = layout.text * 0.93;
            let width = text_width(&name, size);
            let Some(area) = self.space(&self.places(series), width, size, &taken) else { continue };
            svg.open(&series.look.class());
            svg.text("label", Anchor::Start, (area.0, area.3 - size * 0.2), &name);
            svg.close();
            taken.push(area);
        }
    }

    /// Returns a free area for a text of `width` near one of the points, preferably at the right.
    fn space(&self, places: &[(f64, f64)], width: f64, size: f64, taken: &[Area]) -> Option<Area> {
        let candidates = places.iter().rev().take(40).flat_map(|&(x, y)| {
            let gap = 7.0;
            let heights = [y - gap - size * 1.1, y + gap];
            let starts = [x - width, x - width / 2.0, x + 8.0];
            heights
                .into_iter()
                .flat_map(move |top| starts.map(move |left| (left, top, left + width, top + size * 1.15)))
        });
        let inside = |area: &Area| {
            area.0 > self.left + 6.0
                && area.2 < self.right + 8.0
                && area.1 > self.top - 8.0
                && area.3 < self.bottom - 4.0
        };
        let free = |area: &Area| {
            let apart = |other: &Area| area.0 > other.2 || other.0 > area.2 || area.1 > other.3 || other.1 > area.3;
            taken.iter().all(apart)
        };
        candidates.filter(inside).find(free)
    }
}

/// Returns the horizontal axis with as many labels as fit side by side.
fn horizontal(extent: Extent, logarithmic: bool, width: f64, layout: &Layout) -> Scale {
    let mut limit = ((width / 40.0) as usize).min(if logarithmic { 16 } else { 10 });
    loop {
        let scale = Scale::across(extent, logarithmic, limit);
        let ends = scale.ticks.iter().map(|tick| {
            let (middle, half) = (width * scale.place(tick.at), layout.text_width(&tick.label) / 2.0);
            (middle - half, middle + half)
        });
        let ends: Vec<(f64, f64)> = ends.collect();
        if limit <= 2 || ends.windows(2).all(|pair| pair[0].1 + layout.text * 0.8 < pair[1].0) {
            return scale;
        }
        limit -= 1;
    }
}

/// Returns the areas covered by points and the lines between them, in small pieces.
fn occupied(places: &[(f64, f64)], kind: Kind) -> Vec<Area> {
    let around = |(x, y): (f64, f64)| (x - 5.0, y - 5.0, x + 5.0, y + 5.0);
    let mut areas: Vec<Area> = places.iter().take(1000).copied().map(around).collect();
    if kind == Kind::Lines {
        for pair in places.windows(2).take(1000) {
            let ((x, y), (x2, y2)) = (pair[0], pair[1]);
            let pieces = ((x2 - x).abs().max((y2 - y).abs()) / 6.0).ceil().clamp(1.0, 300.0);
            for piece in 1..pieces as usize {
                let share = piece as f64 / pieces;
                let (x, y) = (x + (x2 - x) * share, y + (y2 - y) * share);
                areas.push((x - 3.0, y - 3.0, x + 3.0, y + 3.0));
            }
        }
    }
    areas
}
