//! Trees with random owners, mode bits and POSIX ACLs, identical for the same seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cases::people::output;
use test_environment::CREW;
use test_environment::people::EVERYBODY;

/// A deterministic random number generator (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit.max(1) as u64) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn bits(&mut self) -> String {
        let bits = self.below(8);
        let bit = |bit, letter| if bits & bit != 0 { letter } else { '-' };
        [bit(4, 'r'), bit(2, 'w'), bit(1, 'x')].iter().collect()
    }
}

/// Users of the tree: root, the environment's users, and an unknown one; and likewise groups.
const USERS: [u32; 5] = [0, EVERYBODY[0].id, EVERYBODY[1].id, EVERYBODY[2].id, 64_999];
const GROUPS: [u32; 5] = [0, EVERYBODY[0].id, EVERYBODY[1].id, CREW.1, 64_998];
/// Number of directories that contain the other files; they come first.
pub(super) const FOLDERS: usize = 10;

/// Fills the directory with `count` files and directories. Returns their relative paths.
pub(super) fn make(tree: &Path, count: usize, seed: u64) -> Result<Vec<String>> {
    let mut random = Random(seed);
    let (mut names, mut lists) = (Vec::new(), String::new());
    for number in 0..count {
        let is_folder = number < FOLDERS;
        let name = if is_folder { format!("d{number}") } else { format!("d{}/f{number}", random.below(FOLDERS)) };
        let path = tree.join(&name);
        if is_folder || random.below(3) == 0 {
            fs::create_dir(&path)?
        } else {
            fs::write(&path, "something")?
        }
        lists += &random_lists(&mut random, &path);
        names.push(name);
    }
    restore(&lists, tree)?;
    Ok(names)
}

/// Returns a random owner, flags and ACLs for a file in getfacl format.
pub(super) fn random_lists(random: &mut Random, path: &Path) -> String {
    let mut text = format!("# file: {}\n", path.display());
    let _ = writeln!(text, "# owner: {}\n# group: {}", random.pick(&USERS), random.pick(&GROUPS));
    if path.is_dir() {
        let _ = writeln!(text, "# flags: {}", random.pick(&["---", "-s-", "--t", "-st", "---", "---"]));
    }
    let lists = if path.is_dir() { 1 + random.below(2) } else { 1 };
    for prefix in ["", "default:"].into_iter().take(lists) {
        let kind = random.below(3);
        let named = |random: &mut Random, ids: &[u32; 5]| -> Vec<u32> {
            ids.iter().copied().filter(|_| kind > 0 && random.below(3) == 0).collect()
        };
        let (users, groups) = (named(random, &USERS), named(random, &GROUPS));
        let mut line = |entry: String| _ = writeln!(text, "{prefix}{entry}:{}", random.bits());
        line("user:".into());
        users.iter().for_each(|user| line(format!("user:{user}")));
        line("group:".into());
        groups.iter().for_each(|group| line(format!("group:{group}")));
        if kind == 2 || !users.is_empty() || !groups.is_empty() {
            line("mask:".into());
        }
        line("other:".into());
    }
    text + "\n"
}

/// Sets the ACLs in `lists` on the files.
pub(super) fn restore(lists: &str, tree: &Path) -> Result<()> {
    let file = tree.with_extension("lists");
    fs::write(&file, lists)?;
    let said = output(Command::new("setfacl").arg("--restore").arg(&file))?;
    ensure!(said.is_empty(), "setfacl: {said}");
    fs::remove_file(&file).context("cannot remove the file")
}

/// Copies a tree with owners, ACLs and stored descriptors.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let said = output(Command::new("cp").arg("-a").arg(from).arg(to))?;
    ensure!(said.is_empty(), "cp: {said}");
    Ok(())
}

/// Returns owner, group and flags of everything below a directory, by path.
pub(super) fn owners(tree: &Path) -> Result<BTreeMap<String, String>> {
    let said = output(Command::new("getfacl").args(["-R", "-n", "."]).current_dir(tree))?;
    let mut found = BTreeMap::new();
    for block in said.split("\n\n") {
        let lines: Vec<&str> = block.lines().filter(|line| line.starts_with('#')).collect();
        if let [name, rest @ ..] = &*lines {
            found.insert((*name).to_owned(), rest.join("\n") + "\n");
        }
    }
    Ok(found)
}
