//! The study's figure 3: T_C, T_A and T_CW of one server with two shares. One share never stores converted ACLs, the
//! other always does. Their names identify them: `SERVER/CACHE/never` and `SERVER/CACHE/always`.

use report::metric::Metric;
use report::record::{Axis, Case, Figure, Series, Table};
use report::units;

use super::check::Kind;
use super::steps::{self, MEAN, MINIMUM};
use crate::summary::{self, then};

/// Two shares of a server, by their indices among the servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Shares {
    /// The server's name.
    name: String,
    never: usize,
    always: usize,
}

impl Shares {
    /// Returns the pairs of shares found by their names.
    pub(super) fn of(names: &[&str]) -> Vec<Shares> {
        let pair = |(never, name): (usize, &&str)| {
            let name = name.strip_suffix("/never")?;
            let always = names.iter().position(|other| other.strip_suffix("/always") == Some(name))?;
            let (server, cache) = name.rsplit_once('/').unwrap_or((name, ""));
            let cache = match cache {
                "c" => " with an ACL cache",
                "n" => " without an ACL cache",
                _ => "",
            };
            Some(Shares { name: format!("{server}{cache}"), never, always })
        };
        names.iter().enumerate().filter_map(pair).collect()
    }

    /// Returns T_C, T_A and T_CW, each with its kind of access and its share.
    fn times(&self) -> [(&'static str, Kind, usize); 3] {
        [
            ("T_C", Kind::Converted, self.never),
            ("T_A", Kind::Stored, self.always),
            ("T_CW", Kind::Converted, self.always),
        ]
    }

    /// Returns a table of the times for each number of entries. A row has means, minima, and what follows from them.
    pub(super) fn table(&self, cases: &[Case]) -> Table {
        let sizes = steps::of_kind(cases, Kind::Converted);
        let row = |(size, case): (usize, &Case)| {
            let at = |kind, server, metric: Metric, low: bool| {
                let cases = steps::of_kind(cases, kind);
                let point = metric.point(0.0, cases.get(size)?.servers.get(server).map(Vec::as_slice)?)?;
                Some(if low { point.low } else { point.y })
            };
            let mut row = vec![units::number(case.x.unwrap_or_default())];
            for (_, kind, server) in self.times() {
                for value in [at(kind, server, MEAN, false), at(kind, server, MINIMUM, true)] {
                    row.push(value.map_or(units::NOTHING.to_owned(), MEAN.text));
                }
            }
            let [converts, reads, stores] = self.times().map(|(_, kind, server)| at(kind, server, MEAN, false));
            let first = stores.zip(reads).map(|(stores, reads)| units::number(stores / reads));
            row.push(first.unwrap_or(units::NOTHING.to_owned()));
            row.push(match (converts, reads, stores) {
                (Some(converts), Some(reads), Some(stores)) => pays(converts, reads, stores),
                _ => units::NOTHING.to_owned(),
            });
            row.push(steps::then(case.x.unwrap_or_default()).to_owned());
            row
        };
        let mut head = vec!["ACL entries".to_owned()];
        head.extend(self.times().iter().flat_map(|(name, ..)| [(*name).to_owned(), "its minimum".to_owned()]));
        head.extend(["T_CW / T_A", "writing pays", "in 2011"].map(str::to_owned));
        Table {
            title: format!("{}: converting, reading a stored ACL, and converting and storing", self.name),
            head,
            rows: sizes.iter().enumerate().map(row).collect(),
        }
    }

    /// Returns a figure of the times by number of entries, both logarithmic, with the study's steps.
    pub(super) fn figure(&self, cases: &[Case], names: &[&str], title: &str, metric: Metric) -> Figure {
        let x = || Axis { label: "ACL entries".into(), unit: String::new(), logarithmic: true };
        let line = |(name, kind, server): (&str, Kind, usize)| {
            let mut lines = summary::lines("", x(), &steps::of_kind(cases, kind), names, metric).series;
            let points = std::mem::take(&mut lines.get_mut(server)?.points);
            (!points.is_empty()).then(|| Series { name: name.to_owned(), then: false, server: None, points })
        };
        let mut series: Vec<Series> = self.times().into_iter().filter_map(line).collect();
        series.extend([
            then("2011, 3 to 5: short form, about 100 µs, never write", &[(3.0, 100.0), (5.0, 100.0)]),
            then("2011, 6 to 34: leaf local, up to 1 ms, write at first access", &[(6.0, 1e3), (34.0, 1e3)]),
            then("2011, 35 and more: leaf remote, 1 ms and more, write unless cached", &[(35.0, 1e3), (300.0, 1e3)]),
        ]);
        let y = Axis { logarithmic: true, ..metric.axis() };
        Figure { title: format!("{}: {title}", self.name), x: x(), y, series, ..Figure::default() }
    }
}

/// Without writing, n accesses take n T_C. With writing, they take T_CW + (n - 1) T_A.
fn pays(converts: f64, reads: f64, stores: f64) -> String {
    let gain = converts - reads;
    if gain <= 0.0 {
        return "never".to_owned();
    }
    format!("after {} accesses", units::number(((stores - reads) / gain).ceil().max(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::record::{Latency, Round};

    #[test]
    fn shares_are_paired_by_name() {
        let names = ["frevo/n/never", "samba/n/acl_xattr", "frevo/n/always", "frevo/c/always", "x/never"];
        let found = Shares::of(&names);
        assert_eq!(found, [Shares { name: "frevo without an ACL cache".into(), never: 0, always: 2 }]);
        assert_eq!(Shares::of(&["frevo", "samba"]), []);
    }

    #[test]
    fn writing_pays_after_enough_faster_reads() {
        let check = |converts, reads, stores, expected| assert_eq!(pays(converts, reads, stores), expected);
        check(100.0, 120.0, 500.0, "never");
        check(100.0, 100.0, 100.0, "never");
        // Without writing 6 x 200 = 1200, with writing 700 + 5 x 100 = 1200.
        check(200.0, 100.0, 700.0, "after 6 accesses");
        check(200.0, 100.0, 90.0, "after 1 accesses");
    }

    #[test]
    fn each_share_has_its_own_times() {
        let round =
            |mean| Round { latency: Some(Latency { mean, ..Latency::default() }), operations: 1, ..Round::default() };
        let case = |never: f64, always: f64| Case {
            x: Some(16.0),
            servers: vec![vec![round(never)], vec![round(always)]],
            ..Case::default()
        };
        let cases = vec![case(100.0, 300.0), case(60.0, 50.0), case(1.0, 1.0)];
        let names = ["f/n/never", "f/n/always"];
        let shares = &Shares::of(&names)[0];
        let row = &shares.table(&cases).rows[0];
        assert_eq!([&row[1], &row[3], &row[5]], ["100 µs", "50 µs", "300 µs"]);
        assert_eq!(row[7..], ["6", "after 5 accesses", "write at first access"]);
        let figure = shares.figure(&cases, &names, "time", MEAN);
        assert_eq!(figure.series.iter().filter(|series| !series.then).map(|it| it.points[0].y).sum::<f64>(), 450.0);
    }
}
