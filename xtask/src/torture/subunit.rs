//! Parser for the output of smbtorture with `--format=subunit --fullname`: `test: NAME`, then
//! `success|failure|error|skip: NAME`, optionally with ` [`, the lines of a reason and `]`. There are `time:` lines in
//! between.

/// The result of one test as reported by smbtorture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestResult {
    /// The test's full name.
    pub(super) name: String,
    /// `success`, `failure`, `error` or `skip`.
    pub(super) result: String,
    /// The reason's lines, joined by spaces.
    pub(super) reason: String,
}

/// Parses the results in `text`, and the name of a test that was started but not finished.
pub(super) fn read(text: &str) -> (Vec<TestResult>, Option<String>) {
    let mut results = Vec::new();
    let mut current: Option<String> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("test: ") {
            current = Some(name.to_owned());
        } else if let Some((result, name, has_reason)) = result_line(line) {
            if current.as_deref().is_some_and(|current| current != name) {
                continue;
            }
            let mut reason = Vec::new();
            if has_reason {
                reason.extend(lines.by_ref().take_while(|line| *line != "]"));
            }
            results.push(TestResult { name: name.to_owned(), result: result.to_owned(), reason: reason.join(" ") });
            current = None;
        }
    }
    (results, current)
}

fn result_line(line: &str) -> Option<(&str, &str, bool)> {
    let (word, rest) = line.split_once(": ")?;
    let result = match word {
        "success" | "successful" => "success",
        "failure" | "error" | "skip" => word,
        "xfail" => "failure",
        _ => return None,
    };
    Some(rest.strip_suffix(" [").map_or((result, rest, false), |name| (result, name, true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str, &str)], unfinished: Option<&str>) {
        let (results, current) = read(text);
        let results: Vec<(&str, &str, &str)> =
            results.iter().map(|t| (t.name.as_str(), t.result.as_str(), t.reason.as_str())).collect();
        assert_eq!(results, expected);
        assert_eq!(current.as_deref(), unfinished);
    }

    #[test]
    fn results_are_read_with_and_without_reasons() {
        check("time: 2020-01-01 00:00:00.0\ntest: a.b\nsuccess: a.b\n", &[("a.b", "success", "")], None);
        check("test: a.b\nfailure: a.b [\none\ntwo\n]\n", &[("a.b", "failure", "one two")], None);
        check("test: a.two words\nskip: a.two words [\nno\n]\n", &[("a.two words", "skip", "no")], None);
    }

    #[test]
    fn an_unfinished_test_is_named() {
        check("test: a\nsuccess: a\ntest: b\n", &[("a", "success", "")], Some("b"));
    }

    #[test]
    fn a_result_of_another_test_is_ignored() {
        check("test: a\nerror: something else\nsuccess: a\n", &[("a", "success", "")], None);
    }

    #[test]
    fn an_unterminated_reason_is_kept() {
        check("test: a\nerror: a [\nhalf", &[("a", "error", "half")], None);
    }
}
