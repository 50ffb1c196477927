//! The results of `cargo xtask gluster bench` in a volume: rates, ratios, and operations of the bricks per file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use super::bench::Subject;
use super::profile::Operations;

/// The subjects that the others are compared with.
const REFERENCES: [Subject; 2] = [Subject::Fuse, Subject::Samba];

/// Operations per file, by name.
type PerFile = BTreeMap<String, f64>;
/// One of them.
type Count<'a> = (&'a str, f64);

/// The results in a volume.
pub(super) struct Results {
    pub(super) title: String,
    /// The rows of a phase follow each other.
    pub(super) rows: Vec<Row>,
}

/// The result of a subject in a phase.
pub(super) struct Row {
    pub(super) phase: &'static str,
    pub(super) subject: Subject,
    /// Files per second.
    pub(super) rate: f64,
    /// The operations of the bricks, and their messages to other clients.
    pub(super) operations: PerFile,
    /// Files per second that the mount lists of the same files.
    pub(super) over_mount: Option<f64>,
}

impl Row {
    /// Returns the requests, and the messages to other clients, the most frequent first.
    fn split(&self) -> (Vec<Count<'_>>, Vec<Count<'_>>) {
        let mut sorted: Vec<_> = self.operations.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        sorted.sort_by(|one, other| other.1.total_cmp(&one.1));
        sorted.into_iter().partition(|(name, _)| *name != "UPCALL" && !name.starts_with("CI_"))
    }
}

/// Returns the median of each operation over the rounds, per file.
pub(super) fn median(rounds: &[Operations], files: f64) -> PerFile {
    let names: BTreeSet<_> = rounds.iter().flat_map(Operations::keys).collect();
    let middle = |name: &String| {
        let counts = rounds.iter().map(|round| round.get(name).copied().unwrap_or_default() as f64);
        Some((name.clone(), report::metric::median(counts)? / files)).filter(|(_, count)| *count > 0.0)
    };
    names.into_iter().filter_map(middle).collect()
}

impl Results {
    /// Returns how many times as fast as `reference` a row is.
    fn ratio(&self, row: &Row, reference: Subject) -> Option<f64> {
        let of = self.rows.iter().find(|other| other.phase == row.phase && other.subject == reference)?;
        Some(row.rate / of.rate)
    }

    /// Returns the results as JSON.
    pub(super) fn json(&self) -> Value {
        let row = |row: &Row| {
            let (requests, messages) = row.split();
            let object = |counts: Vec<Count<'_>>| -> PerFile {
                counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
            };
            json!({
                "phase": row.phase,
                "subject": row.subject.name(),
                "files per second": row.rate,
                "operations per file": object(requests),
                "messages to other clients per file": object(messages),
                "files per second over the mount": row.over_mount,
            })
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}; the caches are empty before list", self.title)?;
        writeln!(f, "                 files/s  of FUSE of Samba  brick operations per file")?;
        let listed = |counts: &[Count<'_>]| {
            counts.iter().map(|(name, count)| format!("  {name} {count:.2}")).collect::<String>()
        };
        let mut phase = "";
        for row in &self.rows {
            let ratios = REFERENCES.map(|reference| {
                self.ratio(row, reference).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
            });
            let (requests, messages) = row.split();
            let shown = if row.phase == phase { "" } else { row.phase };
            phase = row.phase;
            let (name, rate, all) =
                (row.subject.name(), row.rate, requests.iter().map(|(_, count)| count).sum::<f64>());
            let [fuse, samba] = ratios;
            writeln!(f, "{shown:<7} {name:<8} {rate:>7.0} {fuse:>8} {samba:>8} {all:>8.2}{}", listed(&requests))?;
            if let Some(over_mount) = row.over_mount {
                writeln!(f, "{:>24.0} {:>8.2}  the mount lists these files", over_mount, rate / over_mount)?;
            }
            if !messages.is_empty() {
                writeln!(f, "{:>52}{}", "messages to other clients", listed(&messages))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(counts: &[(&str, u64)]) -> Operations {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn results() -> Results {
        let row = |subject, rate, counts: &[(&str, u64)]| Row {
            phase: "create",
            subject,
            rate,
            operations: median(&[operations(counts)], 100.0),
            over_mount: (subject == Subject::Bare).then_some(500.0),
        };
        let rows = vec![
            row(Subject::Fuse, 800.0, &[("CREATE", 100), ("LOOKUP", 300)]),
            row(Subject::Bare, 1000.0, &[("CREATE", 100), ("UPCALL", 20), ("CI_UNLINK", 10)]),
        ];
        Results { title: "dist".to_owned(), rows }
    }

    #[test]
    fn an_operation_is_counted_by_its_median() {
        let rounds = [&[("LOOKUP", 300), ("STATFS", 1)][..], &[("LOOKUP", 310)], &[("LOOKUP", 900)]].map(operations);
        assert_eq!(median(&rounds, 100.0), [("LOOKUP".to_owned(), 3.1)].into());
    }

    #[test]
    fn subjects_are_compared_and_messages_are_not_requests() {
        let text = results().to_string();
        let lines: Vec<_> =
            text.lines().skip(3).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "create FUSE 800 1.00 - 4.00 LOOKUP 3.00 CREATE 1.00",
                "libgfapi 1000 1.25 - 1.00 CREATE 1.00",
                "500 2.00 the mount lists these files",
                "messages to other clients UPCALL 0.20 CI_UNLINK 0.10",
            ]
        );
    }

    #[test]
    fn the_record_has_every_operation() {
        let row = &results().json()["rows"][1];
        assert_eq!(row["subject"], "libgfapi");
        assert_eq!(row["operations per file"], json!({ "CREATE": 1.0 }));
        assert_eq!(row["messages to other clients per file"], json!({ "CI_UNLINK": 0.1, "UPCALL": 0.2 }));
    }
}
