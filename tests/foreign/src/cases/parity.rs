//! What smbcacls says of files is the same to the byte, whether Samba serves them or Frevo.
//!
//! The trees are random, from a seed that is printed. `FREVO_PARITY_FILES` says how many files they have: 100 if it is not
//! set, and 1,000 for a thorough run, which takes minutes. `FREVO_PARITY_OUT` names a file for all differences.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::bed::people::EVERYBODY;
use crate::bed::{ALICE, BOB, CREW, Person};
use crate::cases::people::output;
use crate::cases::twins::{Call, Twins};
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[Case::new("parity.posix_acls_are_shown", posix_shown).needs_root().frevo_only()];

/// Shares that show a tree in every way: the tree itself, and with the modules and options that there are. Whom `admin
/// users` makes root sees all of it.
const SHOWN: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
[plain]
	path = @TREE@
	admin users = alice
[stored]
	path = @TREE@
	admin users = alice
	vfs objects = acl_xattr
[posix]
	path = @TREE@
	admin users = alice
	vfs objects = acl_xattr
	acl_xattr:ignore system acls = yes
	acl_xattr:default acl style = posix
[windows]
	path = @TREE@
	admin users = alice
	vfs objects = acl_xattr
	acl_xattr:ignore system acls = yes
	acl_xattr:default acl style = windows
[everyone]
	path = @TREE@
	admin users = alice
	vfs objects = acl_xattr
	acl_xattr:ignore system acls = yes
	acl_xattr:default acl style = everyone
";
/// Those where POSIX lists do not count.
const IGNORING: [&str; 3] = ["posix", "windows", "everyone"];

fn posix_shown(stage: &mut Stage) -> Result<()> {
    let tree = stage.bed.make_dir("data/parity", &ALICE, 0o755)?;
    let names = random_tree(&tree, files(), SEED)?;
    let twins = Twins::start(stage, "parity", SHOWN, [&tree, &tree])?;
    let mut calls = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let shares = ["plain", "stored", IGNORING[number % 3]];
        calls.extend(shares.map(|share| get(&ALICE, share, name)));
        // Whom a list grants nothing at all sees it in Frevo where descriptors are not stored, as `ls -l` shows it to all.
        if number % 4 == 0 {
            calls.push(get(&BOB, shares[1 + number / 4 % 2], name));
        }
    }
    let found = twins.differences(&calls)?;
    println!("  seed {SEED:#x}: {} files, {} calls of smbcacls, {} refused", names.len(), calls.len(), found.refused);
    found.none()
}

const SEED: u64 = 0x5eed_0001;

fn files() -> usize {
    std::env::var("FREVO_PARITY_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

fn get(who: &Person, share: &'static str, path: &str) -> Call {
    Call { who: *who, share, path: path.to_owned(), options: Vec::new() }
}

/// Numbers that look random and are the same in every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn bits(&mut self) -> String {
        let bits = self.below(8);
        let bit = |bit, letter| if bits & bit != 0 { letter } else { '-' };
        [bit(4, 'r'), bit(2, 'w'), bit(1, 'x')].iter().collect()
    }
}

/// Users of the tree: root, the people, and one that nobody has heard of; and groups likewise.
const USERS: [u32; 5] = [0, EVERYBODY[0].id, EVERYBODY[1].id, EVERYBODY[2].id, 64_999];
const GROUPS: [u32; 5] = [0, EVERYBODY[0].id, EVERYBODY[1].id, CREW.1, 64_998];

/// Fills the directory with `count` files and directories with random owners, modes and lists; their names, as smbcacls
/// wants them.
fn random_tree(tree: &Path, count: usize, seed: u64) -> Result<Vec<String>> {
    let mut dice = Dice(seed);
    let (mut names, mut lists) = (Vec::new(), String::new());
    for number in 0..count {
        let directory = dice.below(3) == 0;
        let folder = if number < 10 { String::new() } else { format!("d{}/", dice.below(10)) };
        let name = if number < 10 { format!("d{number}") } else { format!("{folder}f{number}") };
        let path = tree.join(&name);
        if directory || number < 10 {
            fs::create_dir(&path)?
        } else {
            fs::write(&path, "something")?
        }
        let _ = write!(lists, "{}", random_list(&mut dice, &path));
        names.push(name.replace('/', "\\"));
    }
    restore(&lists, tree)?;
    Ok(names)
}

/// The lists of a file as getfacl shows them.
fn random_list(dice: &mut Dice, path: &Path) -> String {
    let mut text = format!("# file: {}\n", path.display());
    let _ = writeln!(text, "# owner: {}\n# group: {}", dice.pick(&USERS), dice.pick(&GROUPS));
    let flags = ["---", "-s-", "--t", "-st", "---", "---"];
    if path.is_dir() {
        let _ = writeln!(text, "# flags: {}", dice.pick(&flags));
    }
    for prefix in ["", "default:"].into_iter().take(if path.is_dir() { 1 + dice.below(2) } else { 1 }) {
        let kind = dice.below(3);
        let mut line = |entry: String, bits: String| _ = writeln!(text, "{prefix}{entry}:{bits}");
        line("user:".into(), dice.bits());
        let named = |dice: &mut Dice, ids: &[u32; 5]| -> Vec<u32> {
            ids.iter().copied().filter(|_| kind > 0 && dice.below(3) == 0).collect()
        };
        let (users, groups) = (named(dice, &USERS), named(dice, &GROUPS));
        for user in &users {
            line(format!("user:{user}"), dice.bits());
        }
        line("group:".into(), dice.bits());
        for group in &groups {
            line(format!("group:{group}"), dice.bits());
        }
        if kind == 2 || !users.is_empty() || !groups.is_empty() {
            line("mask:".into(), dice.bits());
        }
        line("other:".into(), dice.bits());
    }
    text + "\n"
}

fn restore(lists: &str, tree: &Path) -> Result<()> {
    let file = tree.with_extension("lists");
    fs::write(&file, lists)?;
    let said = output(Command::new("setfacl").arg("--restore").arg(&file))?;
    anyhow::ensure!(said.is_empty(), "setfacl: {said}");
    fs::remove_file(&file).context("the file was written before")
}
