//! A tree that is alternately modified through Samba and Frevo, three times, keeps every descriptor, and local changes
//! are effective for both. `FREVO_PARITY_FILES` sets the number of files; the default is 100.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::cases::parity::{SEED, files};
use crate::cases::random_tree::{self, Random};
use crate::cases::twins::{Differences, Twin, Twins};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] = &[Case::new("parity.handed_back", handed_back).needs_root().frevo_only()];

const TEMPLATE: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
	admin users = alice
	vfs objects = acl_xattr
	map archive = no
[tree]
	path = @TREE@
";

/// The tree, the two servers, and the names in the tree.
struct Ground<'a> {
    fixture: &'a Fixture,
    twins: Twins,
    tree: PathBuf,
    names: Vec<String>,
    list: PathBuf,
}

/// Descriptors by path.
type Shown = BTreeMap<String, String>;

fn handed_back(fixture: &mut Fixture) -> Result<()> {
    let tree = fixture.environment.make_dir("data/handback", &ALICE, 0o755)?;
    let twins = Twins::start(fixture, "handback", TEMPLATE, [&tree, &tree])?;
    let list = fixture.environment.dir().join("handback.names");
    let mut ground = Ground { fixture, twins, tree, names: Vec::new(), list };
    let folders: Vec<String> = (0..10).map(|number| format!("d{number}/")).collect();
    ground.make(Twin::Samba, &folders)?;
    ground.set(Twin::Samba, "folders", &folders)?;
    let each = files() / 10;
    let mut before = Shown::new();
    let turns = [Twin::Samba, Twin::Frevo, Twin::Samba, Twin::Frevo, Twin::Samba, Twin::Frevo, Twin::Samba];
    for (turn, who) in turns.into_iter().enumerate() {
        let count = if turn == 0 { files() - each * 6 } else { each };
        let new = (0..count).map(|at| format!("d{}/t{turn}-{at}{}", at % 10, if at % 4 == 0 { "/" } else { "" }));
        let new: Vec<String> = new.collect();
        ground.make(who, &new)?;
        let old = ground.names.iter().enumerate().filter(|(at, _)| at % 7 == turn);
        let changed: Vec<String> = old.map(|(_, name)| name.clone()).collect();
        ground.set(who, &format!("turn {turn}"), &changed)?;
        let after = ground.shown()?;
        ensure!(after.len() == ground.names.len(), "{} of {} files are shown", after.len(), ground.names.len());
        for (name, was) in &before {
            let is = &after[name];
            ensure!(is == was || changed.contains(name), "turn {turn} of {who:?} changed {name} from\n{was} to\n{is}");
        }
        before = after;
    }
    behind_the_back(&ground, &before)
}

/// Local changes are seen by both servers, and nothing else changes.
fn behind_the_back(ground: &Ground<'_>, before: &Shown) -> Result<()> {
    let mut random = Random(SEED + 4);
    let (mut lists, mut changed) = (String::new(), Vec::new());
    for name in ground.names.iter().step_by(4) {
        lists += &random_tree::random_lists(&mut random, &ground.tree.join(name));
        changed.push(name);
    }
    random_tree::restore(&lists, &ground.tree)?;
    let after = ground.shown()?;
    let same = changed.iter().filter(|name| after[**name] == before[**name]).count();
    ensure!(same * 10 < changed.len(), "{same} of {} changes are not seen", changed.len());
    let other = after.iter().find(|(name, is)| !changed.contains(name) && before[*name] != **is);
    ensure!(other.is_none(), "another file changed: {other:?}");
    println!("  {} descriptors after 7 turns, {} changed locally", after.len(), changed.len());
    Ok(())
}

impl Ground<'_> {
    fn run(&self, who: Twin, words: &[&str], names: &[String], rest: &[&str]) -> Result<String> {
        fs::write(&self.list, names.join("\n"))?;
        let list = self.list.display().to_string();
        let arguments: Vec<&str> = words.iter().copied().chain([&*list]).chain(rest.iter().copied()).collect();
        self.twins.script(self.fixture, who, "random_acls.py", &arguments)
    }

    fn make(&mut self, who: Twin, names: &[String]) -> Result<()> {
        self.run(who, &["make", "tree"], names, &[])?;
        self.names.extend_from_slice(names);
        Ok(())
    }

    /// Sets a random descriptor on each file, and checks that it is shown.
    fn set(&self, who: Twin, seed: &str, names: &[String]) -> Result<()> {
        let sids = self.twins.sids.each_ref().map(String::as_str);
        let said = self.run(who, &["set", "tree", seed], names, &sids)?;
        let otherwise = said.lines().find(|line| !line.ends_with(" set"));
        ensure!(otherwise.is_none(), "{who:?}: {}", otherwise.unwrap_or_default());
        Ok(())
    }

    /// Returns what both servers show, which must be identical.
    fn shown(&self) -> Result<Shown> {
        let samba = self.run(Twin::Samba, &["show", "tree"], &self.names, &[])?;
        let frevo = self.run(Twin::Frevo, &["show", "tree"], &self.names, &[])?;
        Differences::of_lines("show", &samba, &frevo).none()?;
        let split = |line: &str| line.split_once(' ').map(|(name, shown)| (name.to_owned(), shown.to_owned()));
        Ok(samba.lines().filter_map(split).collect())
    }
}
