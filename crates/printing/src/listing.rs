//! The lists of jobs that `lpq` and `lpstat` print.

use server::policy::printing::ListForm;
use server::printing::{Job, JobState};

/// Returns the jobs in the output of `lpq command`. Lines that are not jobs, such as headings, are skipped.
pub(crate) fn parse(form: ListForm, queue: &str, output: &str, most: usize) -> Vec<Job> {
    let one = |line: &str| match form {
        ListForm::Bsd => bsd(line),
        ListForm::Lprng => lprng(line),
        ListForm::Sysv => sysv(queue, line),
    };
    output.lines().filter_map(one).take(most).collect()
}

/// `1st   ann   12   a.txt, b.txt   1234 bytes`
fn bsd(line: &str) -> Option<Job> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [rank, user, id, title @ .., size, "bytes"] = &words[..] else { return None };
    let (id, size) = (id.parse().ok()?, size.parse().ok()?);
    Some(Job { id, user: (*user).to_owned(), title: title.join(" "), size, state: state(rank), submitted: 0 })
}

/// `active   ann@host+12   A   12   a.txt   1234   12:00:00`
fn lprng(line: &str) -> Option<Job> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [rank, owner, _class, id, title @ .., size, _time] = &words[..] else { return None };
    let (id, size): (u32, u64) = (id.parse().ok()?, size.parse().ok()?);
    // A class or a title with spaces moves the columns, but not this number.
    let (owner, number) = owner.rsplit_once('+')?;
    if number.parse() != Ok(id) {
        return None;
    }
    let user = owner.split('@').next().unwrap_or_default().to_owned();
    Some(Job { id, user, title: title.join(" "), size, state: state(rank), submitted: 0 })
}

/// `queue-12   ann   1234   Mon Jan  1 12:00:00 2024`
fn sysv(queue: &str, line: &str) -> Option<Job> {
    let mut words = line.split_whitespace();
    let number = words.next()?.strip_prefix(queue)?.strip_prefix('-')?;
    let (id, user, size) = (number.parse().ok()?, words.next()?.to_owned(), words.next()?.parse().ok()?);
    let state = if line.contains(" on ") { JobState::Printing } else { JobState::Queued };
    Some(Job { id, user, title: format!("{queue}-{number}"), size, state, submitted: 0 })
}

fn state(rank: &str) -> JobState {
    match rank {
        "active" => JobState::Printing,
        "hold" | "held" => JobState::Held,
        _ => JobState::Queued,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u32, user: &str, title: &str, size: u64, state: JobState) -> Job {
        Job { id, user: user.into(), title: title.into(), size, state, submitted: 0 }
    }

    #[test]
    fn jobs_are_found_between_other_lines() {
        let bsd = "lp is ready and printing\nRank   Owner Job  Files       Total Size\n\
                   active ann   12   a b.txt     1234 bytes\n1st    bob   13   (stdin)     5 bytes\n";
        let active = job(12, "ann", "a b.txt", 1234, JobState::Printing);
        assert_eq!(parse(ListForm::Bsd, "lp", bsd, 10), [active, job(13, "bob", "(stdin)", 5, JobState::Queued)]);
        assert_eq!(parse(ListForm::Bsd, "lp", bsd, 1).len(), 1);
        let lprng = "Printer: lp@host\n Rank   Owner/ID        Class Job Files    Size Time\n\
                     active ann@host+12      A    12 a.txt    1234 12:00:00\nhold   bob@host+13  A  13 b c  5 1:0\n";
        let held = job(13, "bob", "b c", 5, JobState::Held);
        assert_eq!(parse(ListForm::Lprng, "lp", lprng, 10), [job(12, "ann", "a.txt", 1234, JobState::Printing), held]);
        let sysv = "lp-12    ann    1234   Mon Jan  1 12:00:00 2024\nother-1  bob  5  x\nlp-x bob 5\n";
        assert_eq!(parse(ListForm::Sysv, "lp", sysv, 10), [job(12, "ann", "lp-12", 1234, JobState::Queued)]);
    }
}
