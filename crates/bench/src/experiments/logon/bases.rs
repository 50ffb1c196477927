//! The servers as user databases, each with a program, a back end and a number of users, and turns of all of them.
//!
//! The speed of a machine varies from minute to minute by more than the effect of the number of users. Therefore
//! servers with all numbers of users run at the same time, and in each round each has a short turn, one directly after
//! another, in an order that changes from round to round. The result of a round is the ratio of one server to the
//! others in that round ([`super::flat`]).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::Result;
use report::record::{Case, Round};
use report::units;

use super::crowd::{Crowd, Next, Visitor};
use crate::load::{self, Pace, Sample, Until};
use crate::method::{Bench, Party, Server, Turn};
use crate::random::Random;

/// A turn lasts this fraction of `--seconds`.
const MOMENTS: u32 = 20;
/// Before a turn, users log on unmeasured for this fraction of it, because caches of the server and of the processor
/// may have been lost.
const BEFORE: u32 = 5;
/// A round with traced system calls lasts this many turns.
const TRACED: u32 = 4;
/// Number of new users in a warm-up, which determines how many fit in a turn.
const FEW: u64 = 20;

/// The parts of a server's name: `PROGRAM/BACKEND/COUNT`, `PROGRAM/COUNT`, or any other name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// The name without the number of users, as shown.
    pub(super) party: String,
    /// The number of users, if the name contains it.
    pub(super) count: Option<u64>,
}

impl Name {
    pub(super) fn of(server: &str) -> Name {
        let numbered = server.rsplit_once('/').and_then(|(party, count)| Some((party, count.parse().ok()?)));
        match numbered {
            Some((party, count)) if count > 0 && !party.is_empty() => {
                Name { party: party.to_owned(), count: Some(count) }
            }
            _ => Name { party: server.to_owned(), count: None },
        }
    }
}

/// Returns the program of a party, and its back end if the name contains one.
pub(super) fn parts(party: &str) -> (&str, Option<&str>) {
    party.split_once('/').map_or((party, None), |(program, backend)| (program, Some(backend)))
}

/// A server with its users.
pub(super) struct Base<'a> {
    pub(super) server: &'a Server,
    /// Index of its party.
    pub(super) party: usize,
    pub(super) crowd: Crowd,
}

/// All servers with their users.
pub(super) struct Bases<'a> {
    /// The names of the parties.
    pub(super) parties: Vec<String>,
    /// The numbers of users, in ascending order.
    pub(super) counts: Vec<u64>,
    pub(super) bases: Vec<Base<'a>>,
}

impl Bases<'_> {
    /// Measures logons of users that log on repeatedly, from this many clients at once.
    pub(super) async fn again(&self, bench: &Bench, clients: usize) -> Result<Vec<Case>> {
        let run = async |index: usize, turn: &Turn<'_>| {
            let Base { server, crowd, .. } = &self.bases[index];
            let each = |number: u64| Next::Each(number, clients as u64);
            let anyone = |number: u64| Next::Anyone(Random::new(turn.seed.wrapping_add(number)));
            let moment = moment(bench, turn);
            if turn.warms_up() {
                let visits_of_each = crowd.visitors.div_ceil(clients as u64);
                visits(server, turn, crowd, clients, Until::Operations(visits_of_each), &each).await?;
            } else {
                visits(server, turn, crowd, clients, Until::Time(moment / BEFORE), &anyone).await?;
            }
            turn.measure(visits(server, turn, crowd, clients, Until::Time(moment), &anyone)).await
        };
        self.turns(bench, run).await
    }

    /// Measures first logons of users, one after another. A server with too few registered users is skipped.
    pub(super) async fn first(&self, bench: &Bench) -> Result<Vec<Case>> {
        let turns = u64::from(bench.method.rounds) + 1 + u64::from(bench.method.syscalls);
        let given: Vec<_> = self.bases.iter().map(|base| Arc::new(AtomicU64::new(base.crowd.visitors))).collect();
        let logons: Vec<_> = self.bases.iter().map(|_| Cell::new(FEW)).collect();
        let run = async |index: usize, turn: &Turn<'_>| {
            let Base { server, crowd, .. } = &self.bases[index];
            // No user logs on twice.
            let enough = if crowd.pattern.is_some() { (crowd.count - crowd.visitors) / turns } else { 0 };
            if enough == 0 {
                return turn.leave_out(0);
            }
            let next = |_| Next::Newcomer(given[index].clone());
            let until = Until::Operations(logons[index].get().min(enough));
            let begin = Instant::now();
            turn.measure(visits(server, turn, crowd, 1, until, &next)).await?;
            if turn.warms_up() {
                let one = begin.elapsed().as_secs_f64() / FEW.min(enough) as f64;
                logons[index].set(((moment(bench, turn).as_secs_f64() / one) as u64).max(1));
            }
            Ok(())
        };
        self.turns(bench, run).await
    }

    /// Runs the turns of all servers. Returns a case for each number of users, with the rounds of each party.
    async fn turns(&self, bench: &Bench, run: impl AsyncFn(usize, &Turn<'_>) -> Result<()>) -> Result<Vec<Case>> {
        let mut parties: Vec<Party<'_>> = Vec::new();
        for Base { server, party: group, .. } in &self.bases {
            let Server { name, target, processes, .. } = *server;
            parties.push(Party { name, target: Some(target), processes: processes.as_ref(), group: *group });
        }
        let measured = bench.cases_of(&[("logons", None)], &parties, run).await?;
        let rounds = measured.into_iter().next().map_or_else(Vec::new, |case| case.servers);
        Ok(self.cases(rounds))
    }

    /// Groups the rounds of all servers into cases. Numbers of users without measurements are left out.
    fn cases(&self, rounds: Vec<Vec<Round>>) -> Vec<Case> {
        let case = |count: &u64| Case {
            name: format!("{} users", units::count(*count)),
            x: Some(*count as f64),
            servers: vec![Vec::new(); self.parties.len()],
            parties: self.parties.clone(),
        };
        let mut cases: Vec<Case> = self.counts.iter().map(case).collect();
        for (base, rounds) in self.bases.iter().zip(rounds) {
            if let Ok(place) = self.counts.binary_search(&base.crowd.count) {
                cases[place].servers[base.party] = rounds;
            }
        }
        cases.retain(|case| case.servers.iter().any(|rounds| !rounds.is_empty()));
        cases
    }
}

/// Returns the length of a turn.
fn moment(bench: &Bench, turn: &Turn<'_>) -> Duration {
    let moment = bench.method.round / MOMENTS;
    if turn.traces { moment * TRACED } else { moment }
}

/// Performs logons from this many clients at once, until each has done enough or the time is over.
async fn visits(
    server: &Server,
    turn: &Turn<'_>,
    crowd: &Crowd,
    clients: usize,
    until: Until,
    next: &dyn Fn(u64) -> Next,
) -> Result<Sample> {
    let visitor = |number: u64| Visitor {
        target: server.target.clone(),
        options: server.options.clone(),
        crowd: crowd.clone(),
        next: next(number),
    };
    let visitors = (0..clients as u64).map(visitor).collect();
    let begin = Instant::now();
    let (mut sample, _) = load::run(visitors, Pace { until, ..turn.pace() }).await?;
    sample.seconds = begin.elapsed().as_secs_f64();
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names_are_parsed() {
        let check = |name: &str, party: &str, count: Option<u64>| {
            assert_eq!(Name::of(name), Name { party: party.to_owned(), count }, "{name}");
        };
        check("frevo/ldap/300000", "frevo/ldap", Some(300_000));
        check("samba/10", "samba", Some(10));
        check("target", "target", None);
        check("frevo/ldap", "frevo/ldap", None);
        check("frevo/0", "frevo/0", None);
        check("/7", "/7", None);
        assert_eq!(parts("frevo/ldap"), ("frevo", Some("ldap")));
        assert_eq!(parts("frevo"), ("frevo", None));
    }
}
