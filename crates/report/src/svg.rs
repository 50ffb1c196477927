//! The few SVG elements that a figure needs.
//!
//! Coordinates are pixels at the size for which the figure is drawn. A coordinate that is not a number is written as 0,
//! so that no value makes the document invalid. Colours are set by classes.

use super::look::Shape;
use super::markup::{Text, push};

/// A picture under construction.
pub(super) struct Svg {
    out: String,
}

/// The alignment of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// Starts a picture. `label` is the text for screen readers.
    pub(super) fn new(class: &str, width: f64, height: f64, label: &str) -> Self {
        let mut out = String::new();
        push!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
            at(width),
            at(height),
            Text(label)
        );
        Self { out }
    }

    /// Returns a small sample for a legend.
    pub(super) fn swatch(class: &str, draw: impl FnOnce(&mut Svg)) -> String {
        let mut svg = Svg::new("swatch", 34.0, 16.0, "");
        svg.open(class);
        draw(&mut svg);
        svg.close();
        svg.finish().replacen("role=\"img\" aria-label=\"\"", "aria-hidden=\"true\"", 1).trim_end().to_owned()
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    pub(super) fn open(&mut self, class: &str) {
        push!(self.out, "<g class=\"{class}\">");
    }

    pub(super) fn close(&mut self) {
        self.out.push_str("</g>");
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let (x, y, x2, y2) = (at(from.0), at(from.1), at(to.0), at(to.1));
        push!(self.out, "<line class=\"{class}\" x1=\"{x}\" y1=\"{y}\" x2=\"{x2}\" y2=\"{y2}\"/>");
    }

    pub(super) fn rect(&mut self, class: &str, corner: (f64, f64), width: f64, height: f64) {
        let (x, y, width, height) = (at(corner.0), at(corner.1), at(width.max(0.0)), at(height.max(0.0)));
        push!(self.out, "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>");
    }

    /// Draws straight lines between points, closed if it is an area.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)], closed: bool) {
        push!(self.out, "<path class=\"{class}\" d=\"");
        for (index, (x, y)) in points.iter().enumerate() {
            push!(self.out, "{}{} {}", if index == 0 { 'M' } else { 'L' }, at(*x), at(*y));
        }
        push!(self.out, "{}\"/>", if closed { "Z" } else { "" });
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, place: (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y) = (at(place.0), at(place.1));
        push!(self.out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{}</text>", Text(text));
    }

    /// Draws a point of a series, about `2 * r` wide.
    pub(super) fn mark(&mut self, shape: Shape, (x, y): (f64, f64), r: f64) {
        let corner = |dx: f64, dy: f64| (x + dx * r, y + dy * r);
        match shape {
            Shape::Circle => {
                push!(self.out, "<circle class=\"mark\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>", at(x), at(y), at(r))
            }
            Shape::Square => self.rect("mark", corner(-0.9, -0.9), r * 1.8, r * 1.8),
            Shape::Up => self.path("mark", &[corner(-1.15, 0.85), corner(1.15, 0.85), corner(0.0, -1.2)], true),
            Shape::Down => self.path("mark", &[corner(-1.15, -0.85), corner(1.15, -0.85), corner(0.0, 1.2)], true),
            Shape::Diamond => {
                let corners = [corner(-1.25, 0.0), corner(0.0, -1.25), corner(1.25, 0.0), corner(0.0, 1.25)];
                self.path("mark", &corners, true);
            }
            Shape::Cross => {
                self.line("mark", corner(-0.9, -0.9), corner(0.9, 0.9));
                self.line("mark", corner(-0.9, 0.9), corner(0.9, -0.9));
            }
            Shape::Plus => {
                self.line("mark", corner(-1.2, 0.0), corner(1.2, 0.0));
                self.line("mark", corner(0.0, -1.2), corner(0.0, 1.2));
            }
        }
    }
}

/// Rounds a coordinate to one decimal.
fn at(value: f64) -> f64 {
    if value.is_finite() { (value * 10.0).round() / 10.0 } else { 0.0 }
}

/// Estimates the width of a text in current system fonts, rather too wide than too narrow.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let widths = text.chars().map(|character| match character {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' | '·' => 0.32,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 0.95,
        'A'..='Z' => 0.72,
        character if character as u32 > 0x2e80 => 1.05,
        _ => 0.62,
    });
    widths.sum::<f64>() * size
}

/// Wraps the words of a text to lines of at most `width`. `None` if a single word is wider.
pub(super) fn lines(text: &str, width: f64, size: f64) -> Option<Vec<String>> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if text_width(word, size) > width {
            return None;
        }
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(word, size) + 0.4 * size <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    Some(lines)
}
