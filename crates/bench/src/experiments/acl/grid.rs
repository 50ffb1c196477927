//! Presents the cells of E12 like the study's figures: for each data set the throughput of each cell before, while and
//! after converting, the losses, the gain of a policy over storing everything, and the results of the study.

use report::metric::Metric;
use report::record::{Axis, Case, Experiment, Figure, Kind, Point, Round, Series, Table};
use report::units;

use super::cells::{Cell, STATES, State};
use super::losses::{BY_CPU, Files, loss};
use crate::summary::then;

/// Maximum acceptable loss with a cache and without, as a fraction of 1.
const MOST: [f64; 2] = [0.05, 0.15];

/// The states that are compared with others.
const CONVERTED: [State; 2] = [State::While, State::Beforehand];

/// The measurements of a data set.
pub(super) struct DataSetResult {
    /// A case for each of [`STATES`].
    pub(super) cases: Vec<Case>,
    /// For each server, how many of the files that were converted beforehand have a stored ACL.
    pub(super) stored: Vec<Option<usize>>,
    /// The statistics of the files.
    pub(super) files: Files,
}

/// The study's results for a cell, in percent: the loss of throughput while converting, and the gain over storing
/// everything.
struct Then {
    cached: bool,
    store: &'static str,
    loss: Option<u8>,
    gain: Option<u8>,
}

const fn of(cached: bool, store: &'static str, loss: Option<u8>, gain: Option<u8>) -> Then {
    Then { cached, store, loss, gain }
}

/// The data sets of the study, with its results for each.
const THEN: [(&str, &[Then]); 3] = [
    (
        "(a) small office",
        &[
            of(false, "#0", Some(48), None),
            of(false, "#1", None, Some(27)),
            of(false, "#2", Some(19), Some(56)),
            of(true, "#1", None, Some(27)),
            of(true, "#2", None, Some(64)),
        ],
    ),
    (
        "(b) large office",
        &[
            of(false, "#0", Some(39), None),
            of(false, "the proposal", Some(29), Some(18)),
            of(true, "the proposal", None, Some(16)),
        ],
    ),
    (
        "(c) social network",
        &[
            of(false, "#0", Some(58), None),
            of(false, "#2", Some(51), Some(16)),
            of(true, "#3", None, Some(29)),
            of(true, "the proposal, over #0 without a cache", None, Some(83)),
        ],
    ),
];

/// Returns the name of each policy in tables.
fn policy(store: &str) -> String {
    let what = match store {
        "#0" => "all",
        "#1" => "4 entries or more",
        "#2" => "6 entries or more",
        "#3" => "6 to 34 entries",
        _ => return store.to_owned(),
    };
    format!("{store} {what}")
}

/// A data set with its cells.
struct Set<'a> {
    cells: &'a [Cell],
    found: &'a DataSetResult,
    then: &'a [Then],
}

impl Set<'_> {
    fn rounds(&self, cell: usize, state: State) -> &[Round] {
        let case = STATES.iter().position(|it| *it == state).and_then(|index| self.found.cases.get(index));
        case.and_then(|case| case.servers.get(cell)).map_or(&[], Vec::as_slice)
    }

    fn base(&self, cell: usize) -> usize {
        self.cells.iter().position(|base| self.cells[cell].is_of(base)).unwrap_or(cell)
    }

    /// Returns the cells that are compared with a base, without the bases.
    fn stores(&self) -> impl Iterator<Item = usize> {
        (0..self.cells.len()).filter(|cell| !self.cells[*cell].is_base())
    }

    /// Returns the loss of a cell in a state relative to its base in another state.
    fn loss(&self, cell: usize, state: State, against: State, metric: Metric) -> Option<f64> {
        loss(self.rounds(self.base(cell), against), self.rounds(cell, state), metric)
    }

    /// Returns how much more a cell does than storing everything does, while converting.
    fn gain(&self, cell: usize) -> Option<f64> {
        let mine = &self.cells[cell];
        let same = |other: &Cell| (&other.family, other.cached) == (&mine.family, mine.cached);
        let all = self.cells.iter().position(|other| same(other) && other.store == "#0").filter(|all| *all != cell)?;
        loss(self.rounds(all, State::While), self.rounds(cell, State::While), Metric::RATE).map(|loss| -loss)
    }

    /// Returns the ratio of its throughput to that of another program with stored ACLs.
    fn times(&self, cell: usize) -> Option<f64> {
        let other = self.stores().find(|other| self.cells[*other].family != self.cells[cell].family)?;
        let rate = |cell| Metric::RATE.median(self.rounds(cell, State::While));
        (!self.cells[other].store.starts_with('#')).then(|| Some(rate(cell)? / rate(other)?)).flatten()
    }

    fn then(&self, cell: &Cell) -> Option<&Then> {
        self.then.iter().find(|then| (then.cached, then.store) == (cell.cached, cell.store.as_str()))
    }

    /// Returns the table of throughput and losses, next to the study's.
    fn table(&self, name: &str) -> Table {
        let Files { mean, most, with } = self.found.files;
        let head = [
            "server",
            "cache",
            "stored",
            "before",
            "while serving",
            "loss",
            "beforehand",
            "loss",
            "gain over #0",
            "ratio to the other",
            "loss in 2011",
            "gain in 2011",
        ];
        let mut rows: Vec<Vec<String>> = self.stores().map(|cell| self.row(cell)).collect();
        rows.extend(self.then.iter().map(study_row));
        Table {
            title: format!(
                "{name}: {} ACL entries on average, at most {most}, {} of the files with ACLs",
                units::number((mean * 100.0).round() / 100.0),
                units::percent(with)
            ),
            head: head.map(str::to_owned).to_vec(),
            rows,
        }
    }

    fn row(&self, cell: usize) -> Vec<String> {
        let it = &self.cells[cell];
        let rate = |cell, state| rate(self.rounds(cell, state));
        let mut row = self.first(cell);
        row.push(rate(self.base(cell), State::Before));
        for state in CONVERTED {
            row.push(rate(cell, state));
            row.push(percent(self.loss(cell, state, State::Before, Metric::RATE)));
        }
        row.push(percent(self.gain(cell)));
        row.push(self.times(cell).map_or_else(nothing, units::number));
        let then = self.then(it);
        row.push(whole(then.and_then(|then| then.loss)));
        row.push(whole(then.and_then(|then| then.gain)));
        row
    }

    /// Returns the table of the same losses by processor time, and relative to files without ACLs.
    fn details(&self, name: &str) -> Table {
        let head = [
            "server",
            "cache",
            "stored",
            "while serving, by CPU",
            "beforehand, by CPU",
            "while serving, relative to bits",
            "beforehand, relative to bits",
            "files stored",
        ];
        let row = |cell| {
            let mut row = self.first(cell);
            row.extend(CONVERTED.map(|state| percent(self.loss(cell, state, State::Before, BY_CPU))));
            row.extend(CONVERTED.map(|state| percent(self.loss(cell, state, State::Bits, Metric::RATE))));
            row.push(self.found.stored[cell].map_or_else(nothing, |count| count.to_string()));
            row
        };
        Table {
            title: format!("{name}: losses by processor time, and relative to files without ACLs"),
            head: head.map(str::to_owned).to_vec(),
            rows: self.stores().map(row).collect(),
        }
    }

    fn first(&self, cell: usize) -> Vec<String> {
        let it = &self.cells[cell];
        vec![it.family.clone(), yes_no(it.cached), policy(&it.store)]
    }

    /// Returns a figure of throughput before, while and after converting, with a group of bars for each cell.
    fn figure(&self, name: &str) -> Figure {
        let mut categories: Vec<String> = Vec::new();
        for cell in self.stores() {
            let short = self.cells[cell].short();
            if !categories.contains(&short) {
                categories.push(short);
            }
        }
        let mut families: Vec<&str> = self.cells.iter().map(|cell| cell.family.as_str()).collect();
        families.dedup();
        let mut series = Vec::new();
        for family in families {
            for state in [State::Before, State::While, State::Beforehand] {
                let point = |cell: usize| {
                    let of = if state == State::Before { self.base(cell) } else { cell };
                    let x = categories.iter().position(|short| *short == self.cells[cell].short())?;
                    Metric::RATE.point(x as f64, self.rounds(of, state))
                };
                let points =
                    self.stores().filter(|cell| self.cells[*cell].family == family).filter_map(point).collect();
                series.push(Series { name: format!("{family} {}", state.name()), then: false, server: None, points });
            }
        }
        Figure {
            title: format!("{name}: a file server's mix, with an ACL cache (c) and without (n)"),
            y: Metric::RATE.axis(),
            kind: Kind::Bars,
            categories,
            series,
            ..Figure::default()
        }
    }
}

fn study_row(then: &Then) -> Vec<String> {
    let mut row = vec!["study, 2011".to_owned(), yes_no(then.cached), policy(then.store)];
    row.resize(10, nothing());
    row.extend([whole(then.loss), whole(then.gain)]);
    row
}

fn nothing() -> String {
    units::NOTHING.to_owned()
}

fn yes_no(cached: bool) -> String {
    if cached { "with" } else { "without" }.to_owned()
}

fn rate(rounds: &[Round]) -> String {
    Metric::RATE.median(rounds).map_or_else(nothing, units::per_second)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(nothing, |share| format!("{:.0} %", (share * 100.0).round() + 0.0))
}

fn whole(percent: Option<u8>) -> String {
    percent.map_or_else(nothing, |percent| format!("{percent} %"))
}

/// Builds the experiment from the results of the data sets.
pub(super) fn experiment(
    cells: &[Cell],
    found: Vec<DataSetResult>,
    settings: Vec<(String, String)>,
    mut remarks: Vec<String>,
) -> Experiment {
    let sets: Vec<(&str, Set<'_>)> =
        THEN.iter().zip(&found).map(|((name, then), found)| (*name, Set { cells, found, then })).collect();
    let mut figures: Vec<Figure> = sets.iter().map(|(name, set)| set.figure(name)).collect();
    figures.push(losses_figure(&sets));
    let tables = sets.iter().flat_map(|(name, set)| [set.table(name), set.details(name)]).collect();
    remarks.extend(worst(cells, &sets));
    remarks.push(
        "\"Before\" means the same files on a share without Windows ACLs, \"bits\" means files without ACLs on the \
         same share: losses are relative to them, in the same turn. \"By CPU\" is the loss in operations per second \
         of the server's processor time. In every turn all accessed files were changed before, so the first access \
         to each finds no cache entry."
            .into(),
    );
    Experiment {
        name: "acl mix".into(),
        title: "What does each policy of storing Windows ACLs cost under a file server's mix of operations?".into(),
        study: "Hitachi and Osaka University, \"Concurrent use of POSIX ACL and rich ACL\" (2011): relative to POSIX \
                ACLs, always writing the converted ACL cost 48, 39 and 58 % of the throughput of three data sets, \
                writing only where it pays 19, 29 and 51 %."
            .into(),
        settings,
        tables,
        figures,
        remarks,
        cases: found.into_iter().flat_map(|found| found.cases).collect(),
    }
}

/// Returns a figure of losses while converting as bars, next to the study's.
fn losses_figure(sets: &[(&str, Set<'_>)]) -> Figure {
    let group = |set: usize, cached: bool| set * 2 + usize::from(cached);
    let mut categories = Vec::new();
    for (name, _) in sets {
        let letter = name.split(' ').next().unwrap_or(name);
        categories.extend([format!("{letter} n"), format!("{letter} c")]);
    }
    let mut series: Vec<Series> = Vec::new();
    for (number, (_, set)) in sets.iter().enumerate() {
        for cell in set.stores() {
            let it = &set.cells[cell];
            let Some(loss) = set.loss(cell, State::While, State::Before, Metric::RATE) else { continue };
            let (x, y) = (group(number, it.cached) as f64, loss * 100.0);
            let name = format!("{} {}", it.family, it.store);
            let point = Point { x, y, low: y, high: y };
            match series.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => series.push(Series { name, then: false, server: None, points: vec![point] }),
            }
        }
    }
    let study = |all: bool| -> Vec<(f64, f64)> {
        let of = |set: &Set<'_>| set.then.iter().find(|then| (then.store == "#0") == all && then.loss.is_some())?.loss;
        let points = sets.iter().enumerate();
        points.filter_map(|(number, (_, set))| Some((group(number, false) as f64, f64::from(of(set)?)))).collect()
    };
    series.push(then("always writing, 2011", &study(true)));
    series.push(then("proposal, 2011", &study(false)));
    Figure {
        title: "Loss while files are converted, with an ACL cache (c) and without (n)".into(),
        y: Axis { label: "loss of throughput".into(), unit: "%".into(), logarithmic: false },
        kind: Kind::Bars,
        categories,
        series,
        ..Figure::default()
    }
}

/// Returns a remark for each program with a cache and without, with the cell that loses most.
fn worst(cells: &[Cell], sets: &[(&str, Set<'_>)]) -> Vec<String> {
    let mut remarks = Vec::new();
    for base in cells.iter().filter(|cell| cell.is_base()) {
        for state in CONVERTED {
            let mut found: Vec<(f64, String)> = Vec::new();
            for (name, set) in sets {
                let of = set.stores().filter(|cell| cells[*cell].is_of(base));
                found.extend(of.filter_map(|cell| {
                    let loss = set.loss(cell, state, State::Before, Metric::RATE)?;
                    Some((loss, format!("{name}, {}", policy(&cells[cell].store))))
                }));
            }
            found.sort_by(|one, other| one.0.total_cmp(&other.0));
            let Some((loss, cell)) = found.last() else { continue };
            let most = MOST[usize::from(!base.cached)];
            remarks.push(format!(
                "{} {} a cache, {}: {} of {} cells lose at most {}; the largest loss is in {cell}: {}.",
                base.family,
                yes_no(base.cached),
                state.name(),
                found.iter().filter(|(loss, _)| (loss * 100.0).round() <= most * 100.0).count(),
                found.len(),
                percent(Some(most)),
                percent(Some(*loss)),
            ));
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(family: &str, cached: bool, store: &str) -> Cell {
        Cell { family: family.into(), cached, store: store.into() }
    }

    fn case(rates: &[u64]) -> Case {
        let rounds = |rate: &u64| match rate {
            0 => Vec::new(),
            rate => vec![Round { operations: *rate, seconds: 1.0, ..Round::default() }],
        };
        Case { servers: rates.iter().map(rounds).collect(), ..Case::default() }
    }

    #[test]
    fn cells_are_shown_next_to_those_of_the_study() {
        let cells = [
            cell("frevo", false, "posix"),
            cell("frevo", false, "#0"),
            cell("frevo", false, "#2"),
            cell("samba", false, "posix"),
            cell("samba", false, "acl_xattr"),
        ];
        let found = || DataSetResult {
            cases: vec![
                case(&[2000, 0, 0, 500, 0]),
                case(&[1000, 0, 0, 400, 0]),
                case(&[0, 800, 900, 0, 200]),
                case(&[0, 950, 1000, 0, 300]),
            ],
            stored: vec![None, Some(100), Some(30), None, Some(99)],
            files: Files::of(&[3, 5]),
        };
        let experiment = experiment(&cells, vec![found(), found(), found()], Vec::new(), Vec::new());
        let rows = &experiment.tables[0].rows;
        assert_eq!(rows[0][..6], ["frevo", "without", "#0 all", "1,000/s", "800/s", "20 %"]);
        assert_eq!(rows[0][6..], ["950/s", "5 %", "–", "4", "48 %", "–"]);
        assert_eq!(rows[1][8..], ["13 %", "4.5", "19 %", "56 %"]);
        assert_eq!(experiment.tables[1].rows[0][3..], ["–", "–", "60 %", "53 %", "100"]);
        assert_eq!(rows[2][2..6], ["acl_xattr", "400/s", "200/s", "50 %"]);
        assert!(rows.iter().all(|row| row.len() == experiment.tables[0].head.len()));
        assert_eq!(rows.len(), 3 + 5);
        assert_eq!(experiment.figures.len(), 4);
        assert_eq!(experiment.figures[0].categories, ["n #0", "n #2", "n acl_xattr"]);
        assert_eq!(experiment.figures[0].series[1].points.len(), 2);
        let losses = &experiment.figures[3];
        assert_eq!(losses.series.iter().map(|series| series.points.len()).collect::<Vec<_>>(), [3; 5]);
        let worst = &experiment.remarks[0];
        assert!(worst.contains("3 of 6 cells lose at most 15 %") && worst.ends_with("20 %."), "{worst}");
    }
}
