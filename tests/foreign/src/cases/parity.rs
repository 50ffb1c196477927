//! smbcacls shows files identically, to the byte, whether Samba or Frevo serves them.
//!
//! The trees are random, from a seed that is printed. `FREVO_PARITY_FILES` sets their number of files: the default is
//! 100, and 1,000 gives a thorough run of several minutes. `FREVO_PARITY_OUT` is a file for all differences.

use std::fs;

use anyhow::Result;

use crate::cases::random_tree::{self, FOLDERS, Random};
use crate::cases::twins::{Call, Differences, Twin, Twins};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, Person};

pub(super) const CASES: &[Case] = &[
    Case::new("parity.posix_acls_are_shown", posix_shown).needs_root().frevo_only(),
    Case::new("parity.posix_acls_are_changed", posix_changed).needs_root().frevo_only(),
    Case::new("parity.windows_acls", windows).needs_root().frevo_only(),
];

/// The seed of the random numbers of all cases.
pub(super) const SEED: u64 = 0x5eed_0001;

/// Shares that show a tree in every way: without modules, and with the available modules and options. Users in `admin
/// users` act as root and see everything.
const SHOWN: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
	admin users = alice
[plain]
	path = @TREE@
[stored]
	path = @TREE@
	vfs objects = acl_xattr
#@frevo
	frevo:acl store = always
#@end
[posix]
	path = @TREE@
	vfs objects = acl_xattr
	acl_xattr:ignore system acls = yes
	acl_xattr:default acl style = posix
[windows]
	path = @TREE@
	vfs objects = acl_xattr
	acl_xattr:ignore system acls = yes
	acl_xattr:default acl style = windows
[everyone]
	path = @TREE@
	vfs objects = acl_xattr
	acl_xattr:ignore system acls = yes
	acl_xattr:default acl style = everyone
";
/// Shares in which POSIX ACLs are ignored.
const IGNORING: [&str; 3] = ["posix", "windows", "everyone"];

fn posix_shown(fixture: &mut Fixture) -> Result<()> {
    let tree = fixture.environment.make_dir("data/parity", &ALICE, 0o755)?;
    let names = random_tree::make(&tree, files(), SEED)?;
    let twins = Twins::start(fixture, "parity", SHOWN, [&tree, &tree])?;
    let mut calls = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let shares = ["plain", "stored", IGNORING[number % 3]];
        calls.extend(shares.map(|share| get(&ALICE, share, name)));
        // Without stored descriptors, Frevo shows an ACL also to users that get nothing from it, as `ls -l` does.
        if number % 4 == 0 {
            calls.push(get(&BOB, shares[1 + number / 4 % 2], name));
        }
    }
    let list = fixture.environment.dir().join("parity.names");
    fs::write(&list, names.join("\n"))?;
    let show = ["show", "stored", &list.display().to_string()];
    let before = twins.script(fixture, Twin::Samba, "random_acls.py", &show)?;
    let mut found = twins.differences(&calls)?;
    // By now Frevo has stored the descriptors synthesized from the POSIX ACLs.
    let after = twins.script(fixture, Twin::Samba, "random_acls.py", &show)?;
    found.add(Differences::of_lines("stored", &before, &after));
    found.none()
}

/// Shares that each have their own tree, so that one change does not hide another.
const CHANGED: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
	admin users = alice
[stored]
	path = @TREE@/stored
	vfs objects = acl_xattr
[ignoring]
	path = @TREE@/ignoring
	vfs objects = acl_xattr
	acl_xattr:ignore system acls = yes
";
const TREES: [&str; 2] = ["stored", "ignoring"];

/// Makes the same changes through both servers, each on its own copy of the trees.
fn posix_changed(fixture: &mut Fixture) -> Result<()> {
    let trees = [
        fixture.environment.make_dir("data/changed", &ALICE, 0o755)?,
        fixture.environment.dir().join("data/changed-too"),
    ];
    fs::create_dir(trees[0].join(TREES[0]))?;
    let names = random_tree::make(&trees[0].join(TREES[0]), files(), SEED + 1)?;
    for other in &TREES[1..] {
        random_tree::copy(&trees[0].join(TREES[0]), &trees[0].join(other))?;
    }
    random_tree::copy(&trees[0], &trees[1])?;
    let twins = Twins::start(fixture, "changed", CHANGED, [&trees[0], &trees[1]])?;
    let mut random = Random(SEED + 2);
    let paths: Vec<(&str, &String)> = names.iter().enumerate().map(|(at, name)| (TREES[at % 2], name)).collect();
    let changes: Vec<Call> = paths.iter().map(|(share, name)| change(&mut random, share, name)).collect();
    let mut found = twins.differences(&changes)?;
    for folder in 0..FOLDERS / 2 {
        found.add(twins.differences(&[propagate(&mut random, folder)])?);
    }
    let gets: Vec<Call> = paths.iter().map(|(share, name)| get(&ALICE, share, name)).collect();
    found.add(twins.differences(&gets)?);
    let inside = |name: &&String| (0..FOLDERS / 2).any(|folder| name.starts_with(&format!("d{folder}/")));
    let gets: Vec<Call> = names.iter().filter(inside).map(|name| get(&ALICE, "stored", name)).collect();
    found.add(twins.differences(&gets)?);
    found.add(Differences::of("getfacl", random_tree::owners(&trees[0])?, &random_tree::owners(&trees[1])?));
    found.none()
}

const WHO: [&str; 10] = [
    "BED\\alice",
    "BED\\bob",
    "Unix Group\\crew",
    "Unix Group\\bob",
    "Unix User\\root",
    "Everyone",
    "NT Authority\\SYSTEM",
    "Creator Owner",
    "S-1-22-1-64999",
    "S-1-5-21-9-9-9-1104",
];

fn random_entry(random: &mut Random) -> String {
    let kind = random.pick(&["ALLOWED", "ALLOWED", "DENIED"]);
    let flags = random.pick(&["0x0", "0x0", "OI|CI", "OI|CI|IO", "CI"]);
    let rights = random.pick(&["READ", "CHANGE", "FULL", "R", "W", "X", "RW", "RX", "0x00000001", "0x00010000"]);
    format!("ACL:{}:{kind}/{flags}/{rights}", random.pick(&WHO))
}

/// Returns a random change with smbcacls.
fn change(random: &mut Random, share: &'static str, path: &str) -> Call {
    let options: [String; 2] = match random.below(9) {
        0 | 1 => ["-a".into(), random_entry(random)],
        2 => ["-M".into(), random_entry(random)],
        3 => ["-D".into(), format!("ACL:Everyone:ALLOWED/0x0/{}", random.pick(&["READ", "", "R", "X", "FULL"]))],
        4 | 5 => ["-S".into(), (0..1 + random.below(4)).map(|_| random_entry(random)).collect::<Vec<_>>().join(",")],
        6 => ["-C".into(), random.pick(&["alice", "bob", "BED\\carol", "Unix User\\root"]).to_owned()],
        7 => ["-G".into(), random.pick(&["crew", "Unix Group\\bob", "Unix Group\\root"]).to_owned()],
        _ => ["-I".into(), random.pick(&["allow", "remove", "copy"]).to_owned()],
    };
    Call { options: options.into(), ..get(&ALICE, share, path) }
}

/// Returns a change that smbcacls propagates into a directory.
fn propagate(random: &mut Random, folder: usize) -> Call {
    let flags = random.pick(&["OI|CI", "CI", "OI", "OI|CI|IO", "OI|CI|NP"]);
    let entry = format!("ACL:{}:ALLOWED/{flags}/{}", random.pick(&WHO), random.pick(&["READ", "CHANGE", "FULL"]));
    let options = ["--propagate-inheritance", "-a", &entry].map(str::to_owned);
    Call { options: options.into(), ..get(&ALICE, "stored", &format!("d{folder}")) }
}

const STORED: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
	admin users = alice
[first]
	path = @FIRST@
	vfs objects = acl_xattr
[second]
	path = @SECOND@
	vfs objects = acl_xattr
";

/// Sets random Windows ACLs through Samba on one tree and through Frevo on another. Both servers must show both trees
/// identically.
fn windows(fixture: &mut Fixture) -> Result<()> {
    let trees = [
        fixture.environment.make_dir("data/windows", &ALICE, 0o755)?,
        fixture.environment.dir().join("data/windows-too"),
    ];
    let names = random_tree::make(&trees[0], files(), SEED + 3)?;
    random_tree::copy(&trees[0], &trees[1])?;
    let [first, second] = trees.each_ref().map(|tree| tree.display().to_string());
    let template = STORED.replace("@FIRST@", &first).replace("@SECOND@", &second);
    let twins = Twins::start(fixture, "windows", &template, [&trees[0], &trees[1]])?;
    let list = fixture.environment.dir().join("windows.names");
    fs::write(&list, names.join("\n"))?;
    let list = list.display().to_string();
    let mut said = Vec::new();
    for (twin, share) in [(Twin::Samba, "first"), (Twin::Frevo, "second")] {
        let seed = SEED.to_string();
        let arguments = ["set", share, &seed, &list].into_iter().chain(twins.sids.iter().map(String::as_str));
        said.push(twins.script(fixture, twin, "random_acls.py", &arguments.collect::<Vec<_>>())?);
    }
    let mut found = Differences::of_lines("set", &said[0], &said[1]);
    let mut shown = Vec::new();
    for (twin, share) in
        [(Twin::Samba, "first"), (Twin::Frevo, "first"), (Twin::Samba, "second"), (Twin::Frevo, "second")]
    {
        shown.push(twins.script(fixture, twin, "random_acls.py", &["show", share, &list])?);
    }
    for (what, other) in ["Frevo first", "Samba second", "Frevo second"].into_iter().zip(&shown[1..]) {
        found.add(Differences::of_lines(what, &shown[0], other));
    }
    for share in ["first", "second"] {
        let gets: Vec<Call> = names.iter().map(|name| get(&ALICE, share, name)).collect();
        found.add(twins.differences(&gets)?);
    }
    found.add(Differences::of("getfacl", random_tree::owners(&trees[0])?, &random_tree::owners(&trees[1])?));
    found.none()
}

/// Returns the number of files in a tree.
pub(super) fn files() -> usize {
    std::env::var("FREVO_PARITY_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

pub(super) fn get(who: &Person, share: &'static str, path: &str) -> Call {
    Call { who: *who, share, path: path.replace('/', "\\"), options: Vec::new() }
}
