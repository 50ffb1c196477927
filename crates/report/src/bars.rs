//! Bar charts with a group for each category: vertical if names and values fit side by side, otherwise horizontal.

use super::figure::{Drawn, Layout, axis_title, category, spread};
use super::markup::shortened;
use super::scale::{Extent, Scale};
use super::svg::{Anchor, Svg, lines as wrap};
use crate::record::{Figure, Point};
use crate::units;

/// Fraction of a group's width that stays empty.
const APART: f64 = 0.22;

/// Draws a figure of [`crate::record::Kind::Bars`].
pub(super) fn draw(figure: &Figure, drawn: &[Drawn], layout: &Layout) -> String {
    let drawn: Vec<&Drawn> = drawn.iter().filter(|series| !series.points.is_empty()).collect();
    let ends = drawn.iter().flat_map(|series| &series.points).flat_map(|point| {
        let (low, high) = spread(point, &figure.y).unwrap_or((point.y, point.y));
        [low, point.y, high]
    });
    let Some(extent) = Extent::of(ends) else { return String::new() };
    match VerticalBars::new(figure, &drawn, extent, layout) {
        Some(upright) => upright.draw(figure, &drawn, layout),
        None => HorizontalBars::new(figure, &drawn, extent, layout).draw(),
    }
}

/// Returns the bar of a category.
fn point<'a>(figure: &Figure, series: &'a Drawn, index: usize) -> Option<&'a Point> {
    series.points.iter().find(|point| category(figure, point) == Some(index))
}

/// Returns the width of the widest value label.
fn widest(drawn: &[&Drawn], layout: &Layout) -> f64 {
    let values = drawn.iter().flat_map(|series| &series.points);
    values.map(|point| layout.text_width(&units::prefixed(point.y))).fold(0.0, f64::max)
}

/// A layout with vertical bars.
struct VerticalBars {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    bar: f64,
    y: Scale,
    y_title: Vec<String>,
    /// The names below the groups, in lines.
    names: Vec<Vec<String>>,
}

impl VerticalBars {
    /// Returns `None` if names or values would overlap.
    fn new(figure: &Figure, drawn: &[&Drawn], extent: Extent, layout: &Layout) -> Option<Self> {
        let y = Scale::bars(extent, figure.y.logarithmic, (layout.height / 45.0) as usize);
        let marks = y.ticks.iter().map(|tick| layout.text_width(&tick.label)).fold(0.0, f64::max);
        let (left, right) = (marks + 10.0, layout.width - 8.0);
        let group = (right - left) / figure.categories.len() as f64;
        let bar = (group * (1.0 - APART) / drawn.len() as f64).min(64.0);
        if widest(drawn, layout) + 4.0 > bar {
            return None;
        }
        let names = figure.categories.iter().map(|name| wrap(&shortened(name, 60), group - 10.0, layout.text));
        let names = names.collect::<Option<Vec<_>>>().filter(|names| names.iter().all(|lines| lines.len() <= 3))?;
        let y_title = wrap(&axis_title(&figure.y), layout.width - 8.0, layout.text)?;
        let top = layout.text * (1.3 * y_title.len() as f64 + 2.2);
        Some(Self { left, right, top, bottom: top + layout.height, bar, y, y_title, names })
    }

    fn at(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.place(value)
    }

    fn draw(&self, figure: &Figure, drawn: &[&Drawn], layout: &Layout) -> String {
        let line = layout.text * 1.3;
        let most = self.names.iter().map(Vec::len).max().unwrap_or(0) as f64;
        let x_title = axis_title(&figure.x);
        let height = self.bottom + line * (most + if x_title.is_empty() { 0.5 } else { 1.6 });
        let mut svg = Svg::new(layout.class, layout.width, height, &figure.title);
        for (index, text) in self.y_title.iter().enumerate() {
            svg.text("title", Anchor::Start, (0.0, layout.text + index as f64 * line), text);
        }
        for tick in &self.y.ticks {
            let y = self.at(tick.at);
            svg.line("grid", (self.left, y), (self.right, y));
            svg.text("tick", Anchor::End, (self.left - 7.0, y + layout.text * 0.35), &tick.label);
        }
        let group = (self.right - self.left) / self.names.len() as f64;
        for (index, name) in self.names.iter().enumerate() {
            let middle = self.left + group * (index as f64 + 0.5);
            for (number, text) in name.iter().enumerate() {
                svg.text("tick", Anchor::Middle, (middle, self.bottom + line * (number as f64 + 1.0) + 3.0), text);
            }
            for (place, series) in drawn.iter().enumerate() {
                let left = middle + self.bar * (place as f64 - drawn.len() as f64 / 2.0);
                svg.open(&series.look.class());
                self.bar(&mut svg, figure, series, index, left, layout);
                svg.close();
            }
        }
        for at in &self.y.minor {
            svg.line("axis", (self.left, self.at(*at)), (self.left + 4.0, self.at(*at)));
        }
        svg.line("axis", (self.left, self.at(self.y.base())), (self.right, self.at(self.y.base())));
        let place = ((self.left + self.right) / 2.0, height - layout.text * 0.4);
        svg.text("title", Anchor::Middle, place, &x_title);
        svg.finish()
    }

    fn bar(&self, svg: &mut Svg, figure: &Figure, series: &Drawn, index: usize, left: f64, layout: &Layout) {
        let middle = left + self.bar / 2.0;
        let base = self.at(self.y.base());
        let Some(point) = point(figure, series, index) else {
            if !series.given.then {
                svg.text("none", Anchor::Middle, (middle, base - 5.0), units::NOTHING);
            }
            return;
        };
        let end = self.at(point.y);
        svg.rect("bar", (left + 1.5, end.min(base)), self.bar - 3.0, (end - base).abs());
        let mut outer = end;
        if let Some((low, high)) = spread(point, &figure.y) {
            let (low, high) = (self.at(low), self.at(high));
            svg.line("whisker", (middle, low), (middle, high));
            svg.line("whisker", (middle - 4.0, low), (middle + 4.0, low));
            svg.line("whisker", (middle - 4.0, high), (middle + 4.0, high));
            outer = if point.y < 0.0 { low } else { high };
        }
        let below = point.y < 0.0 && base < outer;
        let baseline = if below { outer + layout.text } else { outer - 5.0 };
        svg.text("value", Anchor::Middle, (middle, baseline), &units::prefixed(point.y));
    }
}

/// A layout with horizontal bars. The name of a group is beside the bars if there is space for it, otherwise above
/// them.
struct HorizontalBars<'a> {
    figure: &'a Figure,
    drawn: &'a [&'a Drawn<'a>],
    layout: &'a Layout,
    left: f64,
    right: f64,
    x: Scale,
    title: Vec<String>,
    /// Height of a line of text.
    line: f64,
    bar: f64,
    names: Vec<Vec<String>>,
    beside: bool,
}

impl<'a> HorizontalBars<'a> {
    fn new(figure: &'a Figure, drawn: &'a [&'a Drawn<'a>], extent: Extent, layout: &'a Layout) -> Self {
        let space = widest(drawn, layout) + 12.0;
        let beside = layout.width > 600.0;
        let whole = |text: &str, width| wrap(text, width, layout.text).unwrap_or_else(|| vec![shortened(text, 24)]);
        let most = if beside { 190.0 } else { layout.width };
        let names = figure.categories.iter().map(|name| whole(&shortened(name, 90), most));
        let names: Vec<Vec<String>> = names.collect();
        // Names are in bold.
        let column = names.iter().flatten().map(|name| layout.text_width(name) * 1.08 + 12.0).fold(0.0, f64::max);
        let start = if beside { column } else { 2.0 };
        let left = if extent.low < 0.0 { start + space } else { start };
        let right = layout.width - space;
        let mut limit = 9;
        let x = loop {
            let x = Scale::bars(extent, figure.y.logarithmic, limit);
            let labels = x.ticks.iter().map(|tick| layout.text_width(&tick.label) + layout.text);
            if limit <= 2 || labels.sum::<f64>() < right - left {
                break x;
            }
            limit -= 1;
        };
        let title = whole(&axis_title(&figure.y), right - left);
        let (line, bar) = (layout.text * 1.3, layout.text * 1.45);
        Self { figure, drawn, layout, left, right, x, title, line, bar, names, beside }
    }

    fn at(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.place(value)
    }

    /// Returns the series to show in a group. Series of this run are shown even without a bar in the group, series of
    /// earlier studies are not.
    fn shown(&self, index: usize) -> impl Iterator<Item = &'a Drawn<'a>> {
        let figure = self.figure;
        self.drawn.iter().copied().filter(move |series| !series.given.then || point(figure, series, index).is_some())
    }

    /// Returns the heights of a group: the name above the bars, and the bars.
    fn heights(&self, index: usize) -> (f64, f64) {
        let bars = self.shown(index).count() as f64 * self.bar;
        let name = self.names[index].len() as f64 * self.line;
        if self.beside { (0.0, bars.max(name)) } else { (name, bars) }
    }

    fn draw(&self) -> String {
        let top = self.layout.text * 0.4;
        let gap = self.line * if self.beside { 0.8 } else { 0.5 };
        let groups = (0..self.names.len()).map(|index| self.heights(index));
        let bottom = top + groups.map(|(name, bars)| name + bars + gap).sum::<f64>();
        let height = bottom + self.line * (1.5 + self.title.len() as f64);
        let mut svg = Svg::new(self.layout.class, self.layout.width, height, &self.figure.title);
        self.axis(&mut svg, top, bottom);
        let mut y = top + gap / 2.0;
        for index in 0..self.names.len() {
            let (name, bars) = self.heights(index);
            self.group(&mut svg, index, y);
            let base = self.at(self.x.base());
            svg.line("axis", (base, y + name - 2.0), (base, y + name + bars + 2.0));
            y += name + bars + gap;
        }
        svg.finish()
    }

    fn axis(&self, svg: &mut Svg, top: f64, bottom: f64) {
        for tick in &self.x.ticks {
            let x = self.at(tick.at);
            svg.line("grid", (x, top), (x, bottom));
            let half = self.layout.text_width(&tick.label) / 2.0;
            svg.text("tick", Anchor::Middle, (x.max(half), bottom + self.line), &tick.label);
        }
        for (index, text) in self.title.iter().enumerate() {
            let place = ((self.left + self.right) / 2.0, bottom + self.line * (index as f64 + 2.1));
            svg.text("title", Anchor::Middle, place, text);
        }
    }

    fn group(&self, svg: &mut Svg, index: usize, top: f64) {
        let (above, bars) = self.heights(index);
        let lines = self.names[index].len() as f64 * self.line;
        let start = if self.beside { top + (bars - lines) / 2.0 } else { top };
        for (number, text) in self.names[index].iter().enumerate() {
            svg.text("name", Anchor::Start, (0.0, start + self.line * (number as f64 + 0.75)), text);
        }
        for (place, series) in self.shown(index).enumerate() {
            svg.open(&series.look.class());
            self.bar(svg, series, index, top + above + place as f64 * self.bar);
            svg.close();
        }
    }

    fn bar(&self, svg: &mut Svg, series: &Drawn, index: usize, top: f64) {
        let base = self.at(self.x.base());
        let middle = top + self.bar / 2.0;
        let baseline = middle + self.layout.text * 0.35;
        let Some(point) = point(self.figure, series, index) else {
            svg.text("none", Anchor::Start, (base + 5.0, baseline), units::NOTHING);
            return;
        };
        let end = self.at(point.y);
        svg.rect("bar", (end.min(base), top + 1.5), (end - base).abs(), self.bar - 3.0);
        let mut outer = end;
        if let Some((low, high)) = spread(point, &self.figure.y) {
            let (low, high) = (self.at(low), self.at(high));
            svg.line("whisker", (low, middle), (high, middle));
            svg.line("whisker", (low, middle - 4.0), (low, middle + 4.0));
            svg.line("whisker", (high, middle - 4.0), (high, middle + 4.0));
            outer = if point.y < 0.0 { low } else { high };
        }
        let (anchor, x) = if point.y < 0.0 { (Anchor::End, outer - 6.0) } else { (Anchor::Start, outer + 6.0) };
        svg.text("value", anchor, (x, baseline), &units::prefixed(point.y));
    }
}
