//! Presents the results of tuning as a table, as figures and in words.

use report::metric::Metric;
use report::record::{Axis, Case, Experiment, Figure, Kind, Point, Round, Series, Table};
use report::units;

use super::parameters::Parameter;
use super::work::Work;

/// A variant of a parameter with one kind of work.
pub(super) struct VariantResult {
    /// The parameter.
    pub(super) parameter: &'static Parameter,
    /// Its value. `None` is the unchanged configuration.
    pub(super) value: Option<&'static str>,
    /// The kind of work.
    pub(super) work: Work,
    /// The rounds.
    pub(super) case: Case,
    /// The rounds of the unchanged configuration from the same time.
    pub(super) baseline: Case,
    /// For each server, why it could not be measured.
    pub(super) refused: Vec<Option<String>>,
    /// For each server, whether it reported something about the parameter, such as that it has no effect.
    pub(super) said: Vec<bool>,
}

impl VariantResult {
    fn rounds(case: &Case, server: usize) -> &[Round] {
        case.servers.get(server).map_or(&[], Vec::as_slice)
    }

    /// Returns the ratio of `metric` to that of the unchanged configuration, with the bounds given by the spreads.
    fn ratio(&self, server: usize, metric: Metric) -> Option<Point> {
        let variant = metric.point(0.0, Self::rounds(&self.case, server))?;
        let baseline = metric.point(0.0, Self::rounds(&self.baseline, server))?;
        let y = variant.y / baseline.y;
        let (low, high) = (variant.low / baseline.high, variant.high / baseline.low);
        (low.is_finite() && high.is_finite()).then_some(Point { x: 0.0, y, low, high })
    }

    /// Returns whether the rounds show a difference: they have spreads, and the spreads do not overlap.
    fn differs(&self, server: usize, ratio: Point) -> bool {
        let several = |case| Self::rounds(case, server).len() > 1;
        several(&self.case) && several(&self.baseline) && (ratio.low > 1.0 || ratio.high < 1.0)
    }

    /// Returns the cells of the table: the speed, and the ratios of speed and processor time to the unchanged
    /// configuration.
    fn cells(&self, server: usize) -> [String; 3] {
        if self.refused.get(server).is_some_and(Option::is_some) {
            return ["refused", units::NOTHING, units::NOTHING].map(str::to_owned);
        }
        let metric = self.work.metric();
        let speed = metric.cell(Self::rounds(&self.case, server));
        let mark = if self.said.get(server) == Some(&true) { " *" } else { "" };
        let against = |metric| match self.ratio(server, metric) {
            None => units::NOTHING.to_owned(),
            Some(_) if self.value.is_none() => "1x".to_owned(),
            Some(ratio) if self.differs(server, ratio) => units::ratio(ratio.y),
            Some(ratio) => format!("({})", units::ratio(ratio.y)),
        };
        [speed, against(metric) + mark, against(self.work.cost())]
    }

    fn label(&self) -> String {
        match self.value {
            Some("") => format!("{} empty", self.parameter.name),
            Some(value) => format!("{} = {}", self.parameter.name, short(value)),
            None => format!("{}, unchanged", self.parameter.name),
        }
    }
}

/// Truncates a long value.
fn short(value: &str) -> String {
    const MOST: usize = 48;
    match value.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

/// Returns the experiment with its tables, figures and remarks.
pub(super) fn experiment(
    names: &[&str],
    found: Vec<VariantResult>,
    settings: Vec<(String, String)>,
    remarks: Vec<String>,
) -> Experiment {
    let mut all =
        vec!["A ratio in parentheses is within the spread of the rounds: no difference was observed.".to_owned()];
    all.extend(log_level(names, &found));
    all.extend(remarks);
    Experiment {
        name: "tune".into(),
        title: "What does each parameter cost or gain?".into(),
        study: "Using Samba, appendix B.2: log level 0 to 3 cost 645.3 to 622.2 KB/s; oplocks gain about 30 %; \
                TCP_NODELAY gains 30 to 50 %; hide files costs a comparison for each entry."
            .into(),
        settings,
        tables: vec![table(names, &found), then(&found)],
        figures: figures(names, &found),
        remarks: all,
        cases: found.into_iter().map(|it| it.case).collect(),
    }
}

fn table(names: &[&str], found: &[VariantResult]) -> Table {
    let mut head = vec!["parameter".to_owned(), "value".to_owned(), "work".to_owned()];
    head.extend(
        names
            .iter()
            .flat_map(|name| [(*name).to_owned(), "relative to unchanged".to_owned(), "CPU, relative".to_owned()]),
    );
    let row = |it: &VariantResult| {
        let value = match it.value {
            None => "unchanged".to_owned(),
            Some("") => "(empty)".to_owned(),
            Some(value) => short(value),
        };
        let mut row = vec![it.parameter.name.to_owned(), value, it.work.name().to_owned()];
        row.extend((0..names.len()).flat_map(|server| it.cells(server)));
        row
    };
    Table { title: "One parameter at a time".into(), head, rows: found.iter().map(row).collect() }
}

/// Returns a table of the study's statements about the measured parameters.
fn then(found: &[VariantResult]) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for it in found.iter().map(|it| it.parameter).filter(|it| !it.then.is_empty()) {
        let row = vec![it.name.to_owned(), it.then.to_owned()];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let head = vec!["parameter".to_owned(), "study".to_owned()];
    Table { title: "Statements of \"Using Samba\"".into(), head, rows }
}

/// Returns a figure for each kind of work, with all variants that used it.
fn figures(names: &[&str], found: &[VariantResult]) -> Vec<Figure> {
    let mut works: Vec<Work> = Vec::new();
    for it in found {
        if !works.contains(&it.work) {
            works.push(it.work);
        }
    }
    works.into_iter().filter_map(|work| figure(names, found, work)).collect()
}

fn figure(names: &[&str], found: &[VariantResult], work: Work) -> Option<Figure> {
    let shown: Vec<&VariantResult> = found.iter().filter(|it| it.work == work && it.value.is_some()).collect();
    let series = |(server, name): (usize, &&str)| {
        let point =
            |(index, it): (usize, &&VariantResult)| Some(Point { x: index as f64, ..it.ratio(server, work.metric())? });
        let points = shown.iter().enumerate().filter_map(point).collect();
        Series { name: (*name).to_owned(), then: false, server: Some(server), points }
    };
    let series: Vec<Series> = names.iter().enumerate().map(series).collect();
    series.iter().any(|series| !series.points.is_empty()).then(|| Figure {
        title: format!("One parameter at a time: {}", work.name()),
        x: Axis::default(),
        y: Axis { label: "relative to the unchanged configuration".into(), unit: "times".into(), logarithmic: false },
        kind: Kind::Bars,
        categories: shown.iter().map(|it| it.label()).collect(),
        series,
    })
}

/// Returns the cost of logging, the only figure that the study gives for a parameter: level 3 compared with level 0, or
/// with the unchanged configuration if level 0 was not measured.
fn log_level(names: &[&str], found: &[VariantResult]) -> Vec<String> {
    let mut remarks = Vec::new();
    for three in found.iter().filter(|it| it.parameter.name == "log level" && it.value == Some("3")) {
        let zero =
            found.iter().find(|it| it.parameter.name == "log level" && it.value == Some("0") && it.work == three.work);
        let base = zero.map_or(&three.baseline, |zero| &zero.case);
        for (server, name) in names.iter().enumerate() {
            let speed = |case| three.work.metric().median(VariantResult::rounds(case, server));
            if let (Some(with), Some(without)) = (speed(&three.case), speed(base)) {
                let (work, kept) = (three.work.name(), units::percent(with / without));
                remarks.push(format!(
                    "With log level 3 {name} keeps {kept} of its {work} performance; the study found 96.4 %."
                ));
            }
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::super::parameters::PARAMETERS;
    use super::*;

    fn case(speeds: &[&[u64]]) -> Case {
        let round = |operations: &u64| Round { seconds: 1.0, operations: *operations, ..Round::default() };
        let servers = speeds.iter().map(|rounds| rounds.iter().map(round).collect()).collect();
        Case { servers, ..Case::default() }
    }

    fn found(value: Option<&'static str>, speeds: &[&[u64]]) -> VariantResult {
        let baseline = case(&[&[95, 100, 105], &[100, 100]]);
        let refused = speeds.iter().map(|rounds| rounds.is_empty().then(|| "no".to_owned())).collect();
        VariantResult {
            parameter: &PARAMETERS[0],
            value,
            work: Work::Small,
            case: case(speeds),
            baseline,
            refused,
            said: vec![false, value == Some("1")],
        }
    }

    #[test]
    fn variants_are_compared_with_the_unchanged_configuration() {
        let all = vec![
            found(None, &[&[95, 100, 105], &[100, 100]]),
            found(Some("1"), &[&[98, 99], &[50, 50]]),
            found(Some("3"), &[&[80, 80], &[]]),
        ];
        let experiment = experiment(&["ours", "theirs"], all, Vec::new(), vec!["last".into()]);
        let cells: Vec<&[String]> = experiment.tables[0].rows.iter().map(|row| &row[3..9]).collect();
        assert_eq!(cells[0][1], "1x");
        assert_eq!((cells[1][1].as_str(), cells[1][4].as_str()), ("(0.985x)", "0.5x *"));
        assert_eq!((cells[2][1].as_str(), cells[2][3].as_str(), cells[2][4].as_str()), ("0.8x", "refused", "–"));
        assert_eq!(found(Some("1"), &[&[50], &[]]).cells(0)[1], "(0.5x)", "one round has no spread");
        assert_eq!(experiment.tables[1].rows.len(), 1, "one line for each parameter");
        assert_eq!(experiment.figures.len(), 1);
        assert_eq!(experiment.figures[0].series[1].points.len(), 1);
        assert_eq!(
            experiment.remarks[1],
            "With log level 3 ours keeps 80 % of its random 4 KiB performance; the study found 96.4 %."
        );
        assert_eq!(experiment.remarks.len(), 3);
    }
}
