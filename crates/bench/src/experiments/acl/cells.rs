//! The cells of E12: what is stored (nothing; #0 everything, #1 ACLs of 4 entries or more, #2 of 6 or more, #3 of 6 to
//! 34), with and without an ACL cache, while clients work on unconverted files and on files that were all converted
//! beforehand.
//!
//! A server implements one of them and cannot switch. Therefore each cell is a separate share with its own files, and
//! its name identifies it: `SERVER/CACHE/STORE`. All cells take turns. The throughput of a cell is compared with that
//! of `SERVER/CACHE/posix`, a share without Windows ACLs, on the same files in the same turn. For the state that the
//! study called converting while serving, each turn begins without stored ACLs: they are removed behind the server's
//! back. In every turn the files that will be accessed get a new change time before, so that no cache entry is valid.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use proto::bytes::utf16_bytes;
use proto::status::Status;
use report::record::Experiment;
use tokio::task::JoinSet;

use super::ground::{Ground, drop_caches};
use super::mix::{Hand, NEW, Plan, TemporaryFiles, fill, ground, hands, local, path, work};
use super::operations::{Operation, Requests};
use super::security::{descriptor, set};
use super::sets::{DataSet, SETS};
use super::{grid, losses, posix};
use crate::method::{Bench, Server, Turn};
use crate::random::Random;

/// A server may treat a file that has just changed as still changing.
const SETTLED: Duration = Duration::from_millis(50);
/// Longest time a server may take to store a converted ACL.
const PATIENCE: Duration = Duration::from_millis(500);
/// The share that the others are compared with.
const POSIX: &str = "posix";

/// The parts of a server's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    /// The program.
    pub(super) family: String,
    /// Whether it has an ACL cache.
    pub(super) cached: bool,
    /// The stored ACLs: `posix`, `#0` to `#3`, or another name.
    pub(super) store: String,
}

impl Cell {
    /// Parses a name. `None` if it is not the name of a cell.
    fn named(name: &str) -> Option<Cell> {
        let mut words = name.split('/');
        let (family, cache, store) = (words.next()?, words.next()?, words.next()?);
        let well = words.next().is_none() && !family.is_empty() && !store.is_empty() && ["c", "n"].contains(&cache);
        well.then(|| Cell { family: family.to_owned(), cached: cache == "c", store: store.to_owned() })
    }

    /// Returns whether the cell is one that others are compared with.
    pub(super) fn is_base(&self) -> bool {
        self.store == POSIX
    }

    /// Returns whether the cell is compared with `base`.
    pub(super) fn is_of(&self, base: &Cell) -> bool {
        base.is_base() && (&self.family, self.cached) == (&base.family, base.cached)
    }

    /// Returns a short name without the program.
    pub(super) fn short(&self) -> String {
        format!("{} {}", if self.cached { "c" } else { "n" }, self.store)
    }

    fn has(&self, state: State) -> bool {
        matches!(state, State::Bits | State::Before) == self.is_base()
    }

    /// Returns whether files are converted by accessing them. Otherwise a client sets the security descriptor that it
    /// was given.
    fn stores_at_access(&self) -> bool {
        self.store.starts_with('#')
    }
}

/// The state of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Permission bits alone.
    Bits,
    /// POSIX ACLs, on a share without Windows ACLs.
    Before,
    /// POSIX ACLs that have not been converted.
    While,
    /// POSIX ACLs that were converted.
    Beforehand,
}

/// The states, in the order of the cases of a data set.
pub(super) const STATES: [State; 4] = [State::Bits, State::Before, State::While, State::Beforehand];

impl State {
    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Bits => "permission bits",
            State::Before => "before",
            State::While => "converted while serving",
            State::Beforehand => "converted beforehand",
        }
    }

    fn tree(self, set: DataSet) -> String {
        match self {
            State::Bits => DataSet::Plain.directory().to_owned(),
            State::Before | State::While => set.directory().to_owned(),
            State::Beforehand => format!("{}-beforehand", set.directory()),
        }
    }
}

/// Returns the cells of the servers, or `None` if no name is that of a cell.
pub(super) fn of(bench: &Bench) -> Result<Option<Vec<Cell>>> {
    named(&bench.names())
}

fn named(names: &[&str]) -> Result<Option<Vec<Cell>>> {
    let cells: Vec<Cell> = names.iter().filter_map(|name| Cell::named(name)).collect();
    if cells.is_empty() {
        return Ok(None);
    }
    ensure!(
        cells.len() == names.len(),
        "either all servers or none must be named as cells (SERVER/CACHE/STORE): {}",
        names.join(", ")
    );
    for (cell, name) in cells.iter().zip(names) {
        let base = cells.iter().any(|base| cell.is_of(base));
        let cache = if cell.cached { "c" } else { "n" };
        ensure!(base, "{name} has no server to be compared with: add one named {}/{cache}/{POSIX}", cell.family);
    }
    Ok(Some(cells))
}

/// A cell with its files.
struct Site {
    ground: Ground,
    cell: Cell,
    cold: bool,
    /// Number of security descriptors that the server refused to store.
    refused: usize,
}

/// Runs the experiment.
pub(super) async fn run(bench: &Bench, plan: &Plan, cells: &[Cell], cold: bool) -> Result<Experiment> {
    bench.begin("acl mix", (SETS.len() - 1) * STATES.len());
    if cold {
        drop_caches()?;
    }
    let mut sites = Vec::new();
    for (server, cell) in bench.servers.iter().zip(cells) {
        sites.push(Site::prepare(bench, server, cell, plan, cold).await?);
    }
    let made: Vec<TemporaryFiles> = bench.servers.iter().map(|_| TemporaryFiles::default()).collect();
    let hands = hands(bench, plan.workers, &made).await?;
    let mut found = Vec::new();
    for (set, entries) in SETS.into_iter().zip(&plan.entries).skip(1) {
        let names = STATES.map(|state| format!("{}, {}", set.name(), state.name()));
        let names: Vec<(&str, Option<f64>)> = names.iter().map(|name| (name.as_str(), None)).collect();
        let turn = async |server: &Server, turn: &Turn<'_>| {
            let requests = Requests::draw(plan.files, &mut Random::new(turn.seed)).list;
            sites[server.index].turn(set, &hands[server.index], requests, turn).await
        };
        let cases = bench.cases(&names, turn).await?;
        let stored = sites.iter().map(|site| site.stored(set, plan.files)).collect::<Result<_>>()?;
        found.push(grid::DataSetResult { cases, stored, files: losses::Files::of(entries) });
    }
    let refused = sites.iter().zip(bench.names()).filter(|(site, _)| site.refused > 0);
    let remarks = refused.map(|(site, name)| {
        format!("{name} returned {} security descriptors that it then refused to store.", site.refused)
    });
    let mut settings = plan.settings();
    let caches = if cold { "dropped before each cell" } else { "warm" };
    settings.push(("kernel's caches".to_owned(), caches.to_owned()));
    Ok(grid::experiment(cells, found, settings, remarks.collect()))
}

impl Site {
    async fn prepare(bench: &Bench, server: &Server, cell: &Cell, plan: &Plan, cold: bool) -> Result<Site> {
        let mut site = Site { ground: ground(server)?, cell: cell.clone(), cold, refused: 0 };
        site.ground.directory(NEW)?;
        if cell.is_base() {
            fill(&site.ground, DataSet::Plain.directory(), &plan.entries[0])?;
        }
        for (set, entries) in SETS.into_iter().zip(&plan.entries).skip(1) {
            bench.say(&format!("{}: creating {} files, {}", server.name, plan.files, set.name()));
            for state in STATES.into_iter().filter(|state| *state != State::Bits && cell.has(*state)) {
                fill(&site.ground, &state.tree(set), entries)?;
            }
            if cell.has(State::Beforehand) {
                // A server may not yet consider new files unchanging.
                tokio::time::sleep(SETTLED).await;
                let converted = bench.beside(server, "converting files", site.convert(server, plan, set)).await?;
                site.refused += converted;
            }
        }
        Ok(site)
    }

    /// Converts all files of a set and returns the number of refused security descriptors.
    async fn convert(&self, server: &Server, plan: &Plan, set_of: DataSet) -> Result<usize> {
        let (files, workers, at_access) = (plan.files, plan.workers, self.cell.stores_at_access());
        let mut tasks = JoinSet::new();
        for first in 0..workers {
            let mut client = server.connect().await?;
            let tree = State::Beforehand.tree(set_of);
            tasks.spawn(async move {
                let mut refused = 0;
                for file in (first..files).step_by(workers) {
                    let path = path(&tree, file);
                    let name = utf16_bytes(&path);
                    let said = descriptor(&mut client, &name).await.with_context(|| path.clone())?;
                    if at_access {
                        continue;
                    }
                    match set(&mut client, &name, &said).await {
                        Err(error) if error.status().is_some_and(|status| status != Status::SUCCESS) => refused += 1,
                        done => done.with_context(|| path)?,
                    }
                }
                anyhow::Ok(refused)
            });
        }
        let mut refused = 0;
        while let Some(ended) = tasks.join_next().await {
            refused += ended??;
        }
        // A server may store the ACL after it has answered.
        tokio::time::sleep(PATIENCE).await;
        Ok(refused)
    }

    async fn turn(
        &self,
        set: DataSet,
        hands: &RefCell<Vec<Hand>>,
        mut requests: Vec<(Operation, usize)>,
        turn: &Turn<'_>,
    ) -> Result<()> {
        if turn.warms_up() {
            requests.truncate(requests.len() / 2);
        }
        let touched: BTreeSet<usize> = requests.iter().map(|(_, file)| *file).collect();
        for place in 0..STATES.len() {
            let case = (place + turn.number as usize) % STATES.len();
            let state = STATES[case];
            if !self.cell.has(state) {
                turn.leave_out(case)?;
                continue;
            }
            let tree = state.tree(set);
            self.make_ready(&tree, state, &touched).await?;
            turn.measure_as(case, work(hands, &tree, &requests, turn)).await?;
        }
        Ok(())
    }

    /// Prepares the files so that the server's next access to each is like the first.
    async fn make_ready(&self, tree: &str, state: State, touched: &BTreeSet<usize>) -> Result<()> {
        for file in touched {
            let path = self.ground.path(&local(tree, *file));
            if state == State::While {
                for attribute in posix::attributes(&path)? {
                    posix::forget(&path, &attribute)?;
                }
            }
            posix::age(&path)?;
        }
        if self.cold {
            self.ground.sync()?;
            drop_caches()?;
        }
        tokio::time::sleep(SETTLED).await;
        Ok(())
    }

    /// Returns how many of the files that were converted beforehand have a stored ACL.
    fn stored(&self, set: DataSet, files: usize) -> Result<Option<usize>> {
        if !self.cell.has(State::Beforehand) {
            return Ok(None);
        }
        let mut count = 0;
        for file in 0..files {
            let path = self.ground.path(&local(&State::Beforehand.tree(set), file));
            count += usize::from(!posix::attributes(&path)?.is_empty());
        }
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_names_are_parsed() {
        let cells = named(&["frevo/c/posix", "frevo/c/#1", "frevo/n/posix", "samba/n/posix", "samba/n/acl_xattr"]);
        let cells = cells.unwrap().unwrap();
        assert_eq!(cells[1], Cell { family: "frevo".into(), cached: true, store: "#1".into() });
        assert!(cells[1].is_of(&cells[0]) && !cells[1].is_of(&cells[2]) && !cells[0].is_of(&cells[1]));
        assert!(cells[1].stores_at_access() && !cells[4].stores_at_access());
        assert_eq!(cells[1].short(), "c #1");
        assert!(cells[0].has(State::Before) && !cells[0].has(State::While) && cells[1].has(State::Beforehand));
    }

    #[test]
    fn other_names_are_not_cells() {
        assert_eq!(named(&["frevo", "samba"]).unwrap(), None);
        assert_eq!(named(&["frevo/x/#1", "a/c/", "/c/#1", "a/c/#1/x"]).unwrap(), None);
        let said = |names: &[&str]| named(names).unwrap_err().to_string();
        assert!(said(&["frevo/c/posix", "samba"]).contains("either all servers"));
        assert!(said(&["frevo/c/posix", "frevo/n/#1"]).contains("frevo/n/posix"));
    }
}
