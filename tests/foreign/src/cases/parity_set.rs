//! Windows ACLs that are set where no descriptors are stored. The POSIX ACLs must be the same as with Samba, except for
//! the differences described in docs/acls.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::cases::parity::{SEED, files, get};
use crate::cases::people::output;
use crate::cases::random_tree::{self, FOLDERS, Random};
use crate::cases::twins::{Call, Differences, Twin, Twins};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, CAROL, CREW};

pub(super) const CASES: &[Case] = &[
    Case::new("parity.posix_acls_are_set", set).needs_root().frevo_only(),
    Case::new("parity.posix_acls_differ", differ).needs_root().frevo_only(),
];

const PLAIN: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
	admin users = alice
[plain]
	path = @TREE@
";

/// Makes the same changes through both servers, each on its own copy of a random tree: first a whole ACL, then ACEs
/// that are added, changed and deleted, some including the content of a directory, then owners.
fn set(fixture: &mut Fixture) -> Result<()> {
    let trees =
        [fixture.environment.make_dir("data/set", &ALICE, 0o755)?, fixture.environment.dir().join("data/set-too")];
    let names = random_tree::make(&trees[0], files(), SEED + 4)?;
    random_tree::copy(&trees[0], &trees[1])?;
    let twins = Twins::start(fixture, "set", PLAIN, [&trees[0], &trees[1]])?;
    let mut random = Random(SEED + 5);
    let mut found = Differences::default();
    let lists: Vec<Call> = names
        .iter()
        .map(|name| Ok(change_call(name, "-S", random_list(&mut random, &trees[0], name)?)))
        .collect::<Result<_>>()?;
    found.add(twins.differences(&lists)?);
    found.add(Differences::of("getfacl", lists_of(&trees[0])?, &lists_of(&trees[1])?));
    for _ in 0..2 {
        let changes: Vec<Call> =
            names.iter().map(|name| change(&mut random, &trees[0], name)).collect::<Result<_>>()?;
        found.add(twins.differences(&changes)?);
    }
    for folder in 0..FOLDERS / 2 {
        let entry = format!("ACL:{}:ALLOWED/OI|CI/{}", random.pick(&GROUPS).0, random.pick(&RIGHTS));
        let mut call = change_call(&format!("d{folder}"), "-a", entry);
        call.options.push("--propagate-inheritance".into());
        found.add(twins.differences(&[call])?);
    }
    let owners: Vec<Call> = names.iter().map(|name| own(&mut random, name)).collect();
    found.add(twins.differences(&owners)?);
    let gets: Vec<Call> = names.iter().map(|name| get(&ALICE, "plain", name)).collect();
    found.add(twins.differences(&gets)?);
    found.add(Differences::of("getfacl then", lists_of(&trees[0])?, &lists_of(&trees[1])?));
    found.none()
}

fn change_call(path: &str, option: &str, entries: String) -> Call {
    Call { options: [option.to_owned(), entries].into(), ..get(&ALICE, "plain", path) }
}

/// Trustees of the ACLs, with their ids.
const USERS: [(&str, u32); 4] =
    [("BED\\alice", ALICE.id), ("BED\\bob", BOB.id), ("BED\\carol", CAROL.id), ("S-1-22-1-64998", 64_998)];
const GROUPS: [(&str, u32); 3] =
    [("Unix Group\\crew", CREW.1), ("Unix Group\\bob", BOB.id), ("S-1-22-2-64998", 64_998)];
const RIGHTS: [&str; 8] = ["READ", "CHANGE", "FULL", "R", "W", "X", "RW", "0x00000021"];

/// Returns an ACL in which the owner has full control, and whose inheritable ACEs include the owner and the creator.
/// For such ACLs both servers agree, except for the differences in [`differ`].
fn random_list(random: &mut Random, tree: &Path, name: &str) -> Result<String> {
    let metadata = fs::metadata(tree.join(name))?;
    let is_folder = !name.contains('/');
    let inherits = metadata.is_dir() && (is_folder || random.below(2) == 0);
    let (own, made) = if inherits { ("OI|CI", "OI|CI|IO") } else { ("0x0", "0x0") };
    let entry = |who: &str, flags: &str, rights: &str| format!("ACL:{who}:ALLOWED/{flags}/{rights}");
    let mut entries = vec![entry(&format!("S-1-22-1-{}", metadata.uid()), own, "FULL")];
    let group = random.below(2) == 0;
    if group {
        entries.push(entry(&format!("S-1-22-2-{}", metadata.gid()), own, random.pick(&RIGHTS)));
    }
    if inherits {
        entries.push(entry("Creator Owner", made, "FULL"));
        entries.extend(group.then(|| entry("Creator Group", made, random.pick(&RIGHTS))));
    }
    let (denied, id) = random.pick(&USERS);
    for _ in 0..random.below(5) {
        let who = match random.below(4) {
            0 => "Everyone",
            1 => random.pick(&["NT Authority\\SYSTEM", "NT Authority\\Authenticated Users", "BUILTIN\\Administrators"]),
            2 => random.pick(&USERS).0,
            _ => random.pick(&GROUPS).0,
        };
        let flags = random.pick(&["0x0", own, made]);
        entries.extend((who != denied).then(|| entry(who, flags, random.pick(&RIGHTS))));
    }
    if id != metadata.uid() && random.below(2) == 0 {
        let rights = random.pick(&["R", "W", "X", "0x00000100", "FULL"]);
        entries.push(entry(denied, own, rights).replace("ALLOWED", "DENIED"));
    }
    Ok(entries.join(","))
}

/// Returns an addition, change or deletion of an ACE for a trustee who does not own the file.
fn change(random: &mut Random, tree: &Path, name: &str) -> Result<Call> {
    let metadata = fs::metadata(tree.join(name))?;
    let who = match random.below(3) {
        0 => random.pick(&USERS),
        1 => random.pick(&GROUPS),
        _ => ("Everyone", u32::MAX),
    };
    let owns = [metadata.uid(), metadata.gid()].contains(&who.1);
    let who = if owns { "S-1-22-1-64997" } else { who.0 };
    let option = random.pick(&["-a", "-a", "-M", "-D"]);
    Ok(change_call(name, option, format!("ACL:{who}:ALLOWED/0x0/{}", random.pick(&RIGHTS))))
}

/// Returns a change of the owner or group.
fn own(random: &mut Random, name: &str) -> Call {
    let (option, who) =
        random.pick(&[("-C", "bob"), ("-C", "Unix User\\root"), ("-G", "crew"), ("-G", "Unix Group\\bob")]);
    change_call(name, option, who.to_owned())
}

/// Returns the output of getfacl for everything below a directory, by path.
fn lists_of(tree: &Path) -> Result<BTreeMap<String, String>> {
    let said = output(Command::new("getfacl").args(["-R", "-n", "-E", "."]).current_dir(tree))?;
    let blocks = said.split("\n\n").filter_map(|block| block.split_once('\n'));
    Ok(blocks.map(|(name, rest)| (name.to_owned(), format!("{rest}\n"))).collect())
}

/// Returns the output of getfacl for one file, such as `u:64201:rwx`; the default ACL follows a bar.
fn list_of(path: &Path) -> Result<String> {
    let mut said = output(Command::new("getfacl").args(["-n", "-c", "-E", "-p"]).arg(path))?;
    for word in ["user", "group", "mask", "other"] {
        said = said.replace(&format!("{word}:"), &format!("{}:", &word[..1]));
    }
    let (default, own): (Vec<&str>, Vec<&str>) =
        said.split_whitespace().partition(|entry| entry.starts_with("default:"));
    let bar = if default.is_empty() { "" } else { " | " };
    Ok(own.join(" ") + bar + &default.join(" ").replace("default:", ""))
}

/// ACLs that are set on a file of alice and crew with mode 0640, or if they are inheritable on such a directory with
/// mode 0750, and the results with Samba and Frevo.
const DIFFERENT: &[(&str, [&str; 2])] = &[
    // The owner gets the rights in the ACL. Samba keeps previous rights and adds what it considers the minimum.
    (
        "ACL:Everyone:ALLOWED/0x0/READ",
        ["u::rw- u:64201:rw- g::r-x g:64210:r-x m::rwx o::r-x", "u::r-x u:64201:r-x g::r-x g:64210:r-x m::rwx o::r-x"],
    ),
    (
        "ACL:BED\\alice:ALLOWED/0x0/X",
        ["u::r-x u:64201:r-x g::--- g:64210:--- m::rwx o::---", "u::--x u:64201:--x g::--- g:64210:--- m::rwx o::---"],
    ),
    (
        "ACL:Unix Group\\crew:ALLOWED/0x0/X",
        ["u::rwx u:64201:rwx g::--x g:64210:--x m::rwx o::---", "u::--x u:64201:--x g::--x g:64210:--x m::rwx o::---"],
    ),
    (
        "ACL:NT Authority\\SYSTEM:ALLOWED/0x0/FULL",
        ["u::rw- g::r-- o::---", "u::--- u:64201:--- g::--- g:64210:--- m::rwx o::---"],
    ),
    ("ACL:S-1-3-4:ALLOWED/0x0/FULL", ["u::rw- g::r-- o::---", "u::rwx u:64201:rwx g::--- g:64210:--- m::rwx o::---"]),
    // `w` requires the right to write; lesser rights are not sufficient.
    (
        "ACL:BED\\alice:ALLOWED/0x0/FULL,ACL:BED\\bob:ALLOWED/0x0/0x00000004",
        [
            "u::rwx u:64201:rwx u:64202:-w- g::--- g:64210:--- m::rwx o::---",
            "u::rwx u:64201:rwx u:64202:--- g::--- g:64210:--- m::rwx o::---",
        ],
    ),
    // A member of the group might get the denied right through another entry.
    (
        "ACL:BED\\alice:ALLOWED/0x0/FULL,ACL:S-1-22-2-64998:DENIED/0x0/W,ACL:Everyone:ALLOWED/0x0/RW",
        ["u::rwx u:64201:rwx g::rw- g:64210:rw- g:64998:r-- m::rwx o::rw-", "refused: u::rw- g::r-- o::---"],
    ),
    // ACEs of trustees without an id are not omitted, and the whole ACL is not ignored silently.
    (
        "ACL:BED\\alice:ALLOWED/0x0/FULL,ACL:NT Authority\\Authenticated Users:DENIED/0x0/W",
        ["u::rwx u:64201:rwx g::--- g:64210:--- m::rwx o::---", "refused: u::rw- g::r-- o::---"],
    ),
    (
        "ACL:BED\\alice:ALLOWED/0x0/FULL,ACL:S-1-5-21-9-9-9-1104:ALLOWED/0x0/READ",
        ["u::rw- g::r-- o::---", "refused: u::rw- g::r-- o::---"],
    ),
    // The owner and group of a new file in a directory get no rights unless the ACL grants them.
    (
        "ACL:BED\\alice:ALLOWED/0x0/FULL,ACL:BED\\bob:ALLOWED/OI|CI/FULL",
        [
            "u::rwx u:64201:rwx u:64202:rwx g::--- g:64210:--- m::rwx o::--- | \
             u::rwx u:64201:rwx u:64202:rwx g::--- g:64210:--- m::rwx o::---",
            "u::rwx u:64201:rwx u:64202:rwx g::--- g:64210:--- m::rwx o::--- | \
             u::rwx u:64202:rwx g::--- g:64210:--- m::rwx o::---",
        ],
    ),
    (
        "ACL:BED\\alice:ALLOWED/OI|CI/FULL,ACL:Creator Group:ALLOWED/OI|CI|IO/READ",
        [
            "u::rwx u:64201:rwx g::--- g:64210:--- m::rwx o::--- | u::rwx u:64201:rwx g::r-x g:64210:r-x m::rwx o::---",
            "u::rwx u:64201:rwx g::--- g:64210:--- m::rwx o::--- | u::rwx u:64201:rwx g::r-x g:64210:--- m::rwx o::---",
        ],
    ),
    // An ACE for one level is not inherited further, and what is denied only to new files is denied.
    (
        "ACL:BED\\alice:ALLOWED/OI|CI/FULL,ACL:BED\\bob:ALLOWED/OI|CI|NP/FULL",
        [
            "u::rwx u:64201:rwx u:64202:rwx g::--- g:64210:--- m::rwx o::--- | \
             u::rwx u:64201:rwx u:64202:rwx g::--- g:64210:--- m::rwx o::---",
            "u::rwx u:64201:rwx u:64202:rwx g::--- g:64210:--- m::rwx o::--- | \
             u::rwx u:64201:rwx g::--- g:64210:--- m::rwx o::---",
        ],
    ),
    (
        "ACL:BED\\alice:ALLOWED/OI|CI/FULL,ACL:BED\\bob:DENIED/OI/W,ACL:Everyone:ALLOWED/OI|CI/FULL",
        [
            "u::rwx u:64201:rwx u:64202:r-x g::rwx g:64210:rwx m::rwx o::rwx | \
             u::rwx u:64201:rwx g::rwx g:64210:rwx m::rwx o::rwx",
            "u::rwx u:64201:rwx u:64202:r-x g::rwx g:64210:rwx m::rwx o::rwx | \
             u::rwx u:64201:rwx u:64202:r-x g::rwx g:64210:rwx m::rwx o::rwx",
        ],
    ),
    // The right to delete children of a directory is the right to write to it.
    (
        "ACL:BED\\alice:ALLOWED/OI|CI/FULL,ACL:BED\\bob:DENIED/OI|CI/0x00000040,ACL:Everyone:ALLOWED/OI|CI/FULL",
        [
            "u::rwx u:64201:rwx g::rwx g:64210:rwx m::rwx o::rwx | u::rwx u:64201:rwx g::rwx g:64210:rwx m::rwx o::rwx",
            "u::rwx u:64201:rwx u:64202:r-x g::rwx g:64210:rwx m::rwx o::rwx | \
             u::rwx u:64201:rwx u:64202:r-x g::rwx g:64210:rwx m::rwx o::rwx",
        ],
    ),
];

fn differ(fixture: &mut Fixture) -> Result<()> {
    let folder = |name: &str| fixture.environment.make_dir(name, &ALICE, 0o755);
    let trees = [folder("data/differ")?, folder("data/differ-too")?];
    let twins = Twins::start(fixture, "differ", PLAIN, [&trees[0], &trees[1]])?;
    let mut wrong = String::new();
    for (number, (entries, expected)) in DIFFERENT.iter().enumerate() {
        let name = number.to_string();
        for ((tree, twin), expected) in trees.iter().zip([Twin::Samba, Twin::Frevo]).zip(expected) {
            let path = tree.join(&name);
            let directory = entries.contains("OI");
            if directory { fs::create_dir(&path) } else { fs::write(&path, "") }?;
            chown(&path, Some(ALICE.id), Some(CREW.1))?;
            fs::set_permissions(&path, Permissions::from_mode(if directory { 0o750 } else { 0o640 }))?;
            let said = twins.ask(twin, &change_call(&name, "-S", (*entries).to_owned()))?;
            let refused = if said.is_empty() { "" } else { "refused: " };
            let found = refused.to_owned() + &list_of(&path)?;
            if found != *expected {
                let _ = writeln!(wrong, "{entries}: {twin:?} has\n  {found}, not\n  {expected}");
            }
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}
