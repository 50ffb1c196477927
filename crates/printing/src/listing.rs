//! The lists of jobs that `lpq` and `lpstat` print.

use server::policy::printing::ListForm;

/// Returns the number of jobs in the output of `lpq command`. Lines that are not jobs, such as headings, are skipped.
pub(crate) fn count(form: ListForm, queue: &str, output: &str) -> usize {
    let is_job = |line: &&str| match form {
        ListForm::Bsd => bsd(line),
        ListForm::Lprng => lprng(line),
        ListForm::Sysv => sysv(queue, line),
    };
    output.lines().filter(is_job).count()
}

fn is_number(word: &str) -> bool {
    word.parse::<u64>().is_ok()
}

/// `1st   ann   12   a.txt, b.txt   1234 bytes`
fn bsd(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], [_, _, id, .., size, "bytes"] if is_number(id) && is_number(size))
}

/// `active   ann@host+12   A   12   a.txt   1234   12:00:00`
fn lprng(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], [_, _, _, id, .., size, _] if is_number(id) && is_number(size))
}

/// `queue-12   ann   1234   Mon Jan  1 12:00:00 2024`
fn sysv(queue: &str, line: &str) -> bool {
    let mut words = line.split_whitespace();
    let id = words.next().and_then(|word| word.strip_prefix(queue)?.strip_prefix('-'));
    id.is_some_and(is_number) && words.nth(1).is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_found_between_other_lines() {
        let bsd = "lp is ready and printing\nRank   Owner Job  Files       Total Size\n\
                   active ann   12   a b.txt     1234 bytes\n1st    bob   13   (stdin)     5 bytes\n";
        let lprng = "Printer: lp@host\n Rank   Owner/ID        Class Job Files    Size Time\n\
                     active ann@host+12      A    12 a.txt    1234 12:00:00\nhold   bob@host+13  A  13 b c  5 1:0\n";
        let sysv = "lp-12    ann    1234   Mon Jan  1 12:00:00 2024\nother-1  bob  5  x\nlp-x bob 5\n";
        for (form, output, expected) in [
            (ListForm::Bsd, bsd, 2),
            (ListForm::Lprng, lprng, 2),
            (ListForm::Sysv, sysv, 1),
            (ListForm::Bsd, "no entries\n", 0),
            (ListForm::Bsd, "", 0),
        ] {
            assert_eq!(count(form, "lp", output), expected, "{form:?}: {output}");
        }
    }
}
