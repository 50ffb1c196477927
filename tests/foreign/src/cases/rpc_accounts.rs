//! Accounts and groups that an administrator changes with `net rpc` and rpcclient ([MS-SAMR]), and the privileges
//! ([MS-LSAD]).

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::rpc::{has, net_rpc, rpcclient};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, CAROL, CREW, Person, Server, frevo};

pub(super) const CASES: &[Case] = &[
    // Samba creates an account only with winbindd's ids, and its administrators are the members of an alias.
    Case::new("rpc.accounts.users", users).needs_root().frevo_only(),
    Case::new("rpc.accounts.passwords", passwords).needs_root().frevo_only(),
    Case::new("rpc.accounts.groups", groups).needs_root().frevo_only(),
    Case::new("rpc.accounts.refused", refused).needs_root().frevo_only(),
    Case::new("rpc.accounts.queries", queries).needs_root().frevo_only(),
];

const GLOBALS: &str =
    "[global]\n@TARGET@\n\tread only = no\n\tadmin users = alice\n[files]\n\tpath = @DIR@/data/files\n";

/// Returns what `frevo user list` shows.
fn listed(fixture: &Fixture, server: &Server) -> Result<String> {
    let mut command = Command::new(frevo());
    let command = command.args(["user", "list", "-c"]).arg(server.conf());
    let output = fixture.environment.people().enter(command).output().context("cannot start frevo")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn lacks(text: &str, word: &str) -> Result<()> {
    ensure!(!text.contains(word), "{word:?} is in\n{text}");
    Ok(())
}

/// Checks that carol can log on with this password.
fn logs_on(fixture: &Fixture, server: &Server, password: &'static str) -> Result<()> {
    let carol = Person { password, ..CAROL };
    fixture.smbclient().server(server).user(&carol).run("ls")?.fine()?;
    Ok(())
}

fn users(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("rpc-users", GLOBALS)?;
    let net = |words: &[&str]| net_rpc(fixture, &server, &ALICE, words);
    has(&net(&["user"])?, &["alice", "bob", "carol"])?;
    has(&net(&["user", "delete", "carol"])?, &["Deleted user 'carol'"])?;
    lacks(&listed(fixture, &server)?, "carol")?;
    has(&net(&["user", "add", "carol", "Carol.new1"])?, &["Added user 'carol'"])?;
    has(&listed(fixture, &server)?, &["carol"])?;
    logs_on(fixture, &server, "Carol.new1")?;
    has(&net(&["user", "info", "carol"])?, &["None"])?;
    net(&["user", "password", "carol", "Carol.new2"])?;
    logs_on(fixture, &server, "Carol.new2")?;
    // A name that is taken, and one that has no UNIX user.
    lacks(&net(&["user", "add", "bob", "x"])?, "Added")?;
    lacks(&net(&["user", "add", "nobody-here", "x"])?, "Added")?;
    lacks(&listed(fixture, &server)?, "nobody-here")
}

/// Each information class of a password carries it in another form.
fn passwords(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("rpc-passwords", GLOBALS)?;
    let ask = |call: &str| rpcclient(fixture, &server, &ALICE, call);
    // Its account is disabled: 0x10 is USER_NORMAL_ACCOUNT alone.
    for (class, password) in
        [(18, "Form.18"), (21, "Form.21"), (23, "Form.23"), (24, "Form.24"), (25, "Form.25"), (26, "Form.26")]
    {
        let text = ask(&format!("setuserinfo2 bob {class} {password}"))?;
        lacks(&text, "NT_STATUS")?;
        let bob = Person { password, ..BOB };
        fixture.smbclient().server(&server).user(&bob).run("ls")?.fine()?;
    }
    let text = ask("setuserinfo2 bob 31 Form.31")?;
    lacks(&text, "NT_STATUS")?;
    fixture.smbclient().server(&server).user(&Person { password: "Form.31", ..BOB }).run("ls")?.fine()?;
    has(&ask("deletedomuser bob")?, &[])?;
    lacks(&listed(fixture, &server)?, "bob")?;
    lacks(&ask("createdomuser bob")?, "NT_STATUS")?;
    // A new account is disabled and has no password.
    let row = listed(fixture, &server)?;
    let row = row.lines().find(|line| line.starts_with("bob")).context("bob is listed")?;
    has(row, &["disabled"])
}

fn groups(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("rpc-groups", GLOBALS)?;
    let net = |words: &[&str]| net_rpc(fixture, &server, &ALICE, words);
    let (crew, _) = CREW;
    lacks(&net(&["group", "add", crew, "-C", "the crew"])?, "Failed")?;
    has(&net(&["group", "list"])?, &[crew])?;
    has(&net(&["group", "members", crew])?, &["alice", "bob"])?;
    // The members are those of the UNIX group, which the server's own database does not change.
    has(&net(&["group", "addmem", crew, "carol"])?, &["NT_STATUS_NOT_SUPPORTED"])?;
    has(&net(&["group", "delmem", crew, "bob"])?, &["NT_STATUS_NOT_SUPPORTED"])?;
    has(&net(&["group", "addmem", crew, "bob"])?, &["NT_STATUS_MEMBER_IN_GROUP"])?;
    // `net rpc group delete` would remove the members first.
    lacks(&rpcclient(fixture, &server, &ALICE, &format!("deletedomgroup {crew}"))?, "NT_STATUS")?;
    lacks(&net(&["group", "list"])?, crew)
}

/// A user without administrator rights changes nothing.
fn refused(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("rpc-refused", GLOBALS)?;
    let before = listed(fixture, &server)?;
    for call in [
        "createdomuser daemon",
        "deletedomuser carol",
        "setuserinfo2 alice 24 Stolen.1",
        "setuserinfo2 bob 21 Stolen.1",
        "createdomgroup crew",
        "createdomalias crew",
        "lsaaddacctrights S-1-5-32-544 SeBackupPrivilege",
    ] {
        has(&rpcclient(fixture, &server, &BOB, call)?, &["NT_STATUS_ACCESS_DENIED"])?;
    }
    for words in [
        &["user", "add", "daemon", "x"][..],
        &["user", "delete", "carol"],
        &["user", "password", "alice", "Stolen.1"],
        &["group", "add", "crew"],
    ] {
        let text = net_rpc(fixture, &server, &BOB, words)?;
        ensure!(text.to_lowercase().contains("denied"), "{words:?}: expected a refusal, got\n{text}");
    }
    let after = listed(fixture, &server)?;
    ensure!(before == after, "the accounts have changed:\n{before}{after}");
    fixture.smbclient().server(&server).user(&ALICE).run("ls")?.fine()?;
    Ok(())
}

fn queries(fixture: &mut Fixture) -> Result<()> {
    let ask = |call: &str| rpcclient(fixture, &fixture.server, &ALICE, call);
    has(&ask("enumprivs")?, &["found 9 privileges", "SeBackupPrivilege", "SeDiskOperatorPrivilege"])?;
    has(&ask("lsaenumacctrights S-1-5-32-544")?, &["SeTakeOwnershipPrivilege", "SeAddUsersPrivilege"])?;
    // All except SeDiskOperatorPrivilege, which members have only if it is granted.
    has(&ask("lsaenumprivsaccount S-1-5-32-544")?, &["found 8 privileges"])?;
    has(&ask("lsaenumacctrights S-1-5-32-551")?, &["NT_STATUS_OBJECT_NAME_NOT_FOUND"])?;
    has(&ask("getdispname SeBackupPrivilege")?, &["Back up files and directories"])?;
    has(&ask("lookupnames alice")?, &["alice S-1-5-21-", "(User: 1)"])?;
    has(&ask("lookupsids S-1-5-32-544")?, &["BUILTIN\\Administrators (4)"])?;
    has(&ask("queryuser alice")?, &["User Name   :\talice", "Logoff Time              :\tThu, 14 Sep 30828"])?;
    has(&ask("querydominfo 2")?, &["Domain:\t\tWORKGROUP"])
}
