//! Long RPC responses, which consist of several fragments: names of many accounts, and many shares.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cases::people::output;
use crate::fixture::Fixture;
use crate::protection::Protection;
use crate::suite::Case;
use test_environment::{ALICE, Crowd, Port445, Rclone, Server, Target, TestEnvironment, frevo};

pub(super) const CASES: &[Case] = &[
    // Samba 4.17 does not support LsarQueryInformationPolicy2, with which lookupsid queries the machine's SID.
    Case::new("many.lookupsid_signed", |fixture| lookupsid(fixture, Protection::Signed)).needs_root().frevo_only(),
    Case::new("many.lookupsid_sealed", |fixture| lookupsid(fixture, Protection::Sealed)).needs_root().frevo_only(),
    Case::new("many.shares_signed", |fixture| shares(fixture, Protection::Signed)),
    Case::new("many.shares_sealed", |fixture| shares(fixture, Protection::Sealed)),
];

/// Number of accounts u00001 and so on, in addition to the three users.
const ACCOUNTS: u32 = 1_101;
/// An account that is deleted, because lookupsid of impacket 0.13 ignores a response in which all of a thousand SIDs
/// have names.
const DELETED: &str = "u00500";
/// A number above the RID of the last account. RIDs are assigned in sequence from 1000.
const LAST_RID: u32 = 2_500;
const SHARES: usize = 600;

/// Starts a server with all the accounts in its own environment.
fn crowded(fixture: &Fixture, protection: Protection) -> Result<(Server, TestEnvironment)> {
    let base = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    let environment = TestEnvironment::make_in(&base, fixture.environment.target(), Crowd(ACCOUNTS))?;
    let server = environment.start("crowded", protection.globals())?;
    let mut delete = Command::new(frevo());
    let deleted =
        environment.people().enter(delete.args(["user", "delete", DELETED, "-c"]).arg(server.conf())).output()?;
    ensure!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    Ok((server, environment))
}

/// impacket's lookupsid queries a thousand SIDs at a time. Then all accounts are looked up at once: names to SIDs, and
/// back.
fn lookupsid(fixture: &mut Fixture, protection: Protection) -> Result<()> {
    // The server ends before the environment is removed.
    let (server, _bed) = crowded(fixture, protection)?;
    let mut names: BTreeSet<String> = (1..=ACCOUNTS).map(|number| format!("u{number:05}")).collect();
    names.remove(DELETED);

    let doors = Port445::open([server.address(), server.address()])?;
    let program = fixture.python.with_file_name("lookupsid.py");
    let mut command = Command::new(&fixture.python);
    command.arg(program).arg(format!("{}:{}@{}", ALICE.name, ALICE.password, Port445::ADDRESSES[0]));
    let said = output(doors.enter(command.arg(LAST_RID.to_string())))?;
    // A line is `RID: DOMAIN\NAME (SidTypeUser)`.
    let found = said.lines().filter_map(|line| line.strip_suffix(" (SidTypeUser)")?.split_once('\\'));
    let found: BTreeSet<String> = found.map(|(_, name)| name.to_owned()).collect();
    all_there(&names, &found, &said)?;
    ensure!(!found.contains(DELETED), "{DELETED} is found although it is deleted");

    let mut script = fixture.script_command("lookup_at_once.py", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let output = script.env("SERVER_PORT", server.port().to_string()).output().context("cannot start Python")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "lookup_at_once.py: {said}{}", String::from_utf8_lossy(&output.stderr));
    all_there(&names, &said.lines().map(str::to_owned).collect(), &said)
}

/// Checks that all of `names` are in `found`.
fn all_there(names: &BTreeSet<String>, found: &BTreeSet<String>, said: &str) -> Result<()> {
    let missing: Vec<&String> = names.difference(found).take(3).collect();
    let head: String = said.lines().take(10).flat_map(|line| [line, "\n"]).collect();
    ensure!(missing.is_empty(), "of {} names {missing:?} and more are missing:\n{head}", names.len());
    Ok(())
}

/// smbclient, impacket and rclone list the shares, each with its own code.
fn shares(fixture: &mut Fixture, protection: Protection) -> Result<()> {
    let path = fixture.environment.make_dir("data/many", &ALICE, 0o777)?;
    let named = |number: usize| format!("share-with-number-{number:03}");
    let comment = |number: usize| format!("the comment of the share with the number {number:03}");
    let mut template = protection.globals().to_owned();
    for number in 0..SHARES {
        let (name, comment) = (named(number), comment(number));
        template.push_str(&format!("[{name}]\n\tcomment = {comment}\n\tpath = {}\n", path.display()));
    }
    let server = fixture.environment.start(&format!("many-{}", protection.word()), &template)?;
    let names: BTreeSet<String> = (0..SHARES).map(named).collect();
    let rows: BTreeSet<String> = (0..SHARES).map(|number| format!("{} {}", named(number), comment(number))).collect();

    let said = fixture.smbclient().server(&server).list_shares()?.fine()?;
    // A row contains the name, `Disk` and the comment, separated by spaces.
    let listed = said.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(' ')?;
        Some(format!("{name} {}", rest.trim().strip_prefix("Disk")?.trim()))
    });
    all_there(&rows, &listed.collect(), &said).context("smbclient -L")?;

    let mut script = fixture.script_command("list_shares.py", &[]);
    let said = output(script.env("SERVER_PORT", server.port().to_string()))?;
    all_there(&rows, &said.lines().map(str::to_owned).collect(), &said).context("impacket")?;

    // See `rclone.signed`.
    if server.target() == Target::Samba && protection == Protection::Signed {
        return Ok(());
    }
    let listed = rclone_list(fixture.environment.dir(), &server)?;
    all_there(&names, &listed.lines().map(|line| line.trim_end_matches('/').to_owned()).collect(), &listed)
        .context("rclone")
}

fn rclone_list(dir: &Path, server: &Server) -> Result<String> {
    let rclone = Rclone::new(dir, server.port())?;
    output(&mut rclone.command(&["lsf", &format!("{}:", Rclone::REMOTE)]))
}
