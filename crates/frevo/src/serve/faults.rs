//! What is logged about shares that have errors or are not served.

use server::policy::Policy;
use smbconf::{Loaded, Problem, Problems};

/// Logs the shares that are not served, with the reasons.
pub(super) fn log(problems: &Problems) {
    for problem in problems.shares_not_served() {
        tracing::error!("{}{}; {}", place(problem), problem.full_message(), problem.remedy);
    }
}

/// Lets the shares with errors keep their versions in `former`, the policy in effect, and logs all shares with errors.
/// Returns what to add to the message about the reload.
pub(super) fn keep_former(loaded: &mut Loaded, former: &Policy) -> String {
    let kept = loaded.keep_former(former);
    let is_kept = |name: &str| kept.iter().any(|kept| kept.eq_ignore_ascii_case(name));
    let (mut others, mut absent) = (Problems::default(), Vec::new());
    for problem in loaded.warnings.shares_not_served() {
        let share = problem.share.as_deref().unwrap_or_default();
        if is_kept(share) {
            let Problem { message, remedy, .. } = problem;
            tracing::error!("{}the share [{share}] keeps its previous version: {message}; {remedy}", place(problem));
        } else {
            others.add(problem.clone());
            absent.push(share);
        }
    }
    log(&others);
    absent.dedup();
    let list = |names: &[&str]| names.iter().map(|name| format!("[{name}]")).collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    if !kept.is_empty() {
        let kept: Vec<_> = kept.iter().map(String::as_str).collect();
        text += &format!("; with their previous versions, because of errors: {}", list(&kept));
    }
    if !absent.is_empty() {
        text += &format!("; not served, see the log: {}", list(&absent));
    }
    text
}

/// Returns the start of a log line about the problem.
fn place(problem: &Problem) -> String {
    problem.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default()
}
