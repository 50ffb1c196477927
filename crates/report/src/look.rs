//! The look that distinguishes a series: colour, shape of its points, kind of line.
//!
//! A server has the same colour and shape on the whole page, also in other runs. Colours are classes defined in the
//! style sheet for light and dark mode. They are distinguishable with colour blindness, and shapes are distinguishable
//! without colour. Series from the study are grey and dashed.

use crate::record::{Figure, Run};

/// Number of colours in the style sheet: `c0` and so on.
const COLOURS: usize = 8;

/// The look of one series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    /// Its colour. `None` for the grey of the study.
    colour: Option<usize>,
    /// Number of earlier series of this figure with the same colour.
    again: usize,
}

/// The shape of a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
    Cross,
    Plus,
}

/// The names of all servers and other parties of a page, in the order of their colours.
pub(super) struct Palette(Vec<String>);

impl Palette {
    pub(super) fn new(runs: &[Run]) -> Self {
        let mut names: Vec<String> = Vec::new();
        let cases = runs.iter().flat_map(|run| &run.experiments).flat_map(|experiment| &experiment.cases);
        let servers = runs.iter().flat_map(|run| &run.servers).map(|server| &server.name);
        for name in servers.chain(cases.flat_map(|case| &case.parties)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Self(names)
    }

    /// Returns the look of a server.
    pub(super) fn server(&self, name: &str) -> Look {
        Look { colour: Some(self.colour(name)), again: 0 }
    }

    fn colour(&self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or(self.0.len()) % COLOURS
    }

    /// Returns the looks of a figure's series, in their order.
    pub(super) fn series(&self, run: &Run, figure: &Figure) -> Vec<Look> {
        let mut used: Vec<Option<usize>> = Vec::new();
        let mut nameless = self.0.len();
        for series in &figure.series {
            let server = series.server.and_then(|index| run.servers.get(index));
            used.push(match server {
                _ if series.then => None,
                Some(server) => Some(self.colour(&server.name)),
                None if self.0.contains(&series.name) => Some(self.colour(&series.name)),
                None => {
                    nameless += 1;
                    Some((nameless - 1) % COLOURS)
                }
            });
        }
        let looks = used.iter().enumerate();
        looks
            .map(|(index, colour)| Look {
                colour: *colour,
                again: used[..index].iter().filter(|earlier| *earlier == colour).count(),
            })
            .collect()
    }
}

impl Look {
    /// Returns the classes for the style sheet.
    pub(super) fn class(self) -> String {
        let again = self.again.min(3);
        match self.colour {
            Some(colour) => format!("c{colour} a{again}"),
            None => format!("then a{again}"),
        }
    }

    pub(super) fn shape(self) -> Shape {
        const OWN: [Shape; 5] = [Shape::Circle, Shape::Square, Shape::Up, Shape::Diamond, Shape::Down];
        const THEN: [Shape; 3] = [Shape::Cross, Shape::Plus, Shape::Diamond];
        match self.colour {
            Some(colour) => OWN[(colour + self.again) % OWN.len()],
            None => THEN[self.again % THEN.len()],
        }
    }
}
