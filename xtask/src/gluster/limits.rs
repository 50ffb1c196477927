//! Brick operations per file, compared with their budgets.

use std::collections::BTreeMap;
use std::fmt;

use super::profile::Operations;

/// What Frevo may need more than libgfapi where libgfapi itself needs more than the budget.
const TOLERANCE: f64 = 0.2;

/// Operations per file of Frevo, and of libgfapi if it has done the same.
pub(super) struct Case {
    name: String,
    budget: f64,
    frevo: f64,
    bare: Option<f64>,
    operations: Operations,
    files: f64,
}

impl Case {
    /// Creates a case with the `operations` of Frevo for a number of files, and the most per file.
    pub(super) fn new(name: impl Into<String>, budget: f64, operations: &Operations, files: f64) -> Case {
        let operations = operations.clone();
        Case { name: name.into(), budget, frevo: sum(&operations) / files, bare: None, operations, files }
    }

    /// Adds the operations of libgfapi.
    pub(super) fn beside(self, bare: &Operations) -> Case {
        let bare = sum(bare) / self.files;
        let budget = if bare > self.budget { bare + TOLERANCE } else { self.budget };
        Case { bare: Some(bare), budget, ..self }
    }

    /// Compares the case with its budget, or with the most that is known to exceed it.
    fn verdict(&self, known: Option<f64>) -> Verdict {
        let is_over = self.frevo > self.budget;
        match known {
            None if is_over => Verdict::Over,
            None => Verdict::Within,
            Some(_) if !is_over => Verdict::Surprise,
            Some(most) if self.frevo > most => Verdict::Worse,
            Some(_) => Verdict::Known,
        }
    }

    /// Returns the operations per file by name.
    fn details(&self) -> String {
        let each = |(name, count): (&String, &u64)| format!("{name} {:.2}", *count as f64 / self.files);
        self.operations.iter().filter(|(name, _)| is_request(name)).map(each).collect::<Vec<_>>().join(", ")
    }
}

fn is_request(name: &str) -> bool {
    name != "UPCALL" && !name.starts_with("CI_")
}

/// Returns the number of requests. Messages to other clients are not requests.
pub(super) fn sum(operations: &Operations) -> f64 {
    operations.iter().filter(|(name, _)| is_request(name)).map(|(_, count)| *count).sum::<u64>() as f64
}

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Within the budget.
    Within,
    /// Over the budget.
    Over,
    /// Over the budget, and not more than the list of known exceedances says.
    Known,
    /// More than that list says.
    Worse,
    /// On that list, and within the budget.
    Surprise,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Within => "ok",
            Verdict::Over => "OVER",
            Verdict::Known => "known",
            Verdict::Worse => "WORSE",
            Verdict::Surprise => "NOW OK",
        }
    }
}

/// The cases of a run.
pub(super) struct Table {
    pub(super) cases: Vec<Case>,
    /// The most that each case which is known to be over its budget may need.
    pub(super) known: BTreeMap<String, f64>,
}

impl Table {
    fn judged(&self) -> impl Iterator<Item = (&Case, Verdict)> {
        self.cases.iter().map(|case| (case, case.verdict(self.known.get(&case.name).copied())))
    }

    /// Returns what is wrong in each case and on the list; `None` for a case that is as expected.
    pub(super) fn failures(&self) -> Vec<Option<String>> {
        let text = |(case, verdict): (&Case, Verdict)| {
            let Case { name, frevo, budget, .. } = case;
            let what = match verdict {
                Verdict::Within | Verdict::Known => return None,
                Verdict::Over => format!("is over its budget of {budget:.2} ({})", case.details()),
                Verdict::Worse => {
                    format!("is more than its line in the list of known exceedances ({})", case.details())
                }
                Verdict::Surprise => {
                    "is within its budget; remove its line from the list of known exceedances".to_owned()
                }
            };
            Some(format!("{name}: {frevo:.2} operations per file {what}"))
        };
        let mut failures: Vec<_> = self.judged().map(text).collect();
        let unknown = self.known.keys().filter(|name| self.cases.iter().all(|case| case.name != **name));
        failures.extend(unknown.map(|name| Some(format!("the list of known exceedances has no such case: {name}"))));
        failures
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:<44} {:>7} {:>9} {:>7}", "brick operations per file", "Frevo", "libgfapi", "budget")?;
        for (case, verdict) in self.judged() {
            let Case { name, frevo, budget, .. } = case;
            let bare = case.bare.map_or_else(|| "-".to_owned(), |bare| format!("{bare:.2}"));
            let details = if verdict == Verdict::Within { String::new() } else { format!("  {}", case.details()) };
            let word = verdict.word();
            writeln!(f, "{name:<44} {frevo:>7.2} {bare:>9} {budget:>7.2}  {word}{details}")?;
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

    fn table(known: &[(&str, f64)], cases: Vec<Case>) -> Table {
        Table { cases, known: known.iter().map(|(name, most)| ((*name).to_owned(), *most)).collect() }
    }

    /// A case that needs 4 operations per file, besides messages.
    fn case(budget: f64) -> Case {
        Case::new(
            "create",
            budget,
            &operations(&[("CREATE", 10), ("LOOKUP", 30), ("UPCALL", 50), ("CI_IATT", 50)]),
            10.0,
        )
    }

    #[test]
    fn more_than_the_budget_is_a_failure() {
        assert_eq!(table(&[], vec![case(4.0)]).failures(), [None]);
        let over = table(&[], vec![case(3.9)]).failures();
        let expected = "create: 4.00 operations per file is over its budget of 3.90 (CREATE 1.00, LOOKUP 3.00)";
        assert_eq!(over, [Some(expected.to_owned())]);
    }

    #[test]
    fn a_known_exceedance_has_a_bound_and_must_exist() {
        let verdict = |budget, most| case(budget).verdict(Some(most));
        assert_eq!(verdict(3.9, 4.0), Verdict::Known);
        assert_eq!(verdict(3.9, 3.95), Verdict::Worse);
        assert_eq!(verdict(4.0, 4.0), Verdict::Surprise);
        let failed = |known: &[(&str, f64)], budget| table(known, vec![case(budget)]).failures();
        assert_eq!(failed(&[("create", 4.0)], 3.9), [None]);
        assert!(failed(&[("create", 4.0)], 4.0)[0].as_ref().is_some_and(|text| text.contains("remove its line")));
        assert!(failed(&[("rename", 4.0)], 4.0)[1].as_ref().is_some_and(|text| text.contains("no such case: rename")));
    }

    #[test]
    fn libgfapi_itself_raises_the_budget() {
        let bare = |count| case(3.9).beside(&operations(&[("LOOKUP", count)])).budget;
        assert_eq!([bare(39), bare(40)], [3.9, 4.2]);
    }
}
