//! A Samba is migrated to Frevo with `frevo migrate`, and back: accounts, SIDs, groups, policies, share ACLs, Windows
//! ACLs and streams are the same before, after, and after going back, for clients and on disk.
//!
//! `FREVO_MIGRATE_FILES` sets the number of files: the default is 300, with 30 users and 3 groups. With 1,000 or more
//! there are 200 users and 20 groups.

mod answers;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use self::answers::same;
use crate::cases::people::output;
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::probe::{self, Answer};
use test_environment::{ALICE, BOB, CAROL, Crowd, Port445, Server, Target, TestEnvironment, frevo};

pub(super) const CASES: &[Case] = &[
    Case::new("migrate.there_and_back", there_and_back).needs_root().frevo_only(),
    Case::new("migrate.mistakes", mistakes).needs_root().frevo_only(),
];

/// alice is root in the share, so that she sees everything.
const TEMPLATE: &str = "[global]
@TARGET@
	read only = no
	vfs objects = acl_xattr streams_xattr
	admin users = alice
[tree]
	path = @DIR@/data/tree
[readers]
	path = @DIR@/data/tree
[closed]
	path = @DIR@/data/tree
[cluster]
	path = @DIR@/data/tree
	vfs objects = ceph
";
/// The first gid of the groups.
const GIDS: u32 = 64_300;
/// How long Frevo may take to start.
const START: Duration = Duration::from_secs(30);

/// A Samba, and a Frevo that takes its place: same configuration, port and directories.
struct Move<'a> {
    fixture: &'a Fixture,
    samba: Server,
    frevo: Option<Child>,
    doors: Port445,
    environment: TestEnvironment,
    files: usize,
    users: u32,
    groups: u32,
    /// SIDs of users and groups for ACLs.
    sids: Vec<String>,
}

fn there_and_back(fixture: &mut Fixture) -> Result<()> {
    let files = std::env::var("FREVO_MIGRATE_FILES").ok().map_or(Ok(300), |count| count.parse())?;
    let mut it = Move::start(fixture, files)?;
    let (before, disk) = (it.answers()?, it.disk()?);
    println!("  {} users, {} groups, {files} files: {} answers", it.users, it.groups, before.len());

    let dry = it.migrate(&["--dry-run"])?;
    ensure!(dry["changes"] == true && dry["samba_is_running"] == true, "{dry:#}");
    ensure!(!it.state().exists(), "a dry run creates the state directory");
    it.samba.stop();
    let first = it.migrate(&[])?;
    it.check_report(&first)?;
    let again = it.migrate(&[])?;
    ensure!(again["changes"] == false && again["samba_is_running"] == false, "the second run changes: {again:#}");
    ensure!(again["accounts"]["unchanged"] == first["accounts"]["added"], "{again:#}");

    it.start_frevo()?;
    same("after the migration", &before, &it.answers()?)?;
    same("on disk after the migration", &disk, &it.disk()?)?;
    // While Frevo runs, the command asks it.
    ensure!(it.migrate(&[])?["changes"] == false, "a run beside Frevo changes something");
    let unchanged = it.succeed(&["migrate", "--back", "--json"])?;
    let unchanged: Value = serde_json::from_str(&unchanged)?;
    ensure!(unchanged["commands"] == Value::Array(Vec::new()), "nothing has changed: {unchanged:#}");
    it.change_under_frevo()?;
    let (changed, changed_disk) = (it.answers()?, it.disk()?);
    let other = changed.iter().chain(&changed_disk).filter(|(what, is)| {
        let former = before.get(*what).or_else(|| disk.get(*what));
        former != Some(is)
    });
    let other = other.count();
    // Three files of ten have another content, stream or ACL, for clients and on disk.
    ensure!(other > files * 6 / 10, "only {other} answers differ after the changes");
    println!("  {other} answers differ after changes by Frevo and its clients");

    it.stop_frevo();
    it.go_back()?;
    same("after going back", &changed, &it.answers()?)?;
    same("on disk after going back", &changed_disk, &it.disk()?)
}

impl<'a> Move<'a> {
    /// Starts Samba with users, groups, policies, share ACLs and a tree.
    fn start(fixture: &'a Fixture, files: usize) -> Result<Move<'a>> {
        let users: u32 = if files < 1_000 { 30 } else { 200 };
        let groups = users / 10;
        let base = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        let environment = TestEnvironment::make_in(&base, Target::Samba, Crowd(users))?;
        environment.make_dir("data/tree", &ALICE, 0o777)?;
        let mut lines = File::options().append(true).open(environment.dir().join("etc/group"))?;
        for number in 1..=groups {
            let members: Vec<String> = (1..=users).filter(|user| user % groups == number % groups).map(user).collect();
            writeln!(lines, "mg{number:02}:x:{}:{}", GIDS + number, members.join(","))?;
        }
        let samba = environment.start("samba", TEMPLATE)?;
        let doors = Port445::open([samba.address(), samba.address()])?;
        let mut it = Move { fixture, samba, frevo: None, doors, environment, files, users, groups, sids: Vec::new() };
        it.prepare().context("preparing Samba")?;
        Ok(it)
    }

    fn prepare(&mut self) -> Result<()> {
        let edit = |name: &str, options: &[&str]| self.samba_tool("pdbedit", &[&["-r", "-u", name], options].concat());
        for number in 1..=self.users {
            edit(&user(number), &["-f", &format!("Number {number}: 'quoted'")])?;
        }
        edit(&user(2), &["-c", "[D]"])?;
        edit(&user(3), &["-c", "[X]"])?;
        edit(&user(4), &["-K", "1000000000"])?;
        edit(&user(5), &["-K", "1900000000"])?;
        // Frevo has no privileges, which would give alice more rights in a share than its ACL.
        let privileges = ["SecurityPrivilege", "TakeOwnershipPrivilege", "RestorePrivilege", "BackupPrivilege"];
        for privilege in privileges.map(|name| format!("Se{name}")) {
            self.samba_tool("net", &["sam", "rights", "revoke", ALICE.name, &privilege])?;
        }
        self.samba_tool("net", &["sam", "rights", "grant", CAROL.name, "SeBackupPrivilege"])?;
        self.samba_tool("pdbedit", &["-P", "bad lockout attempt", "-C", "9"])?;
        for number in 1..=self.groups {
            let (name, unix) = (format!("ntgroup=Group {number}"), format!("unixgroup=mg{number:02}"));
            let kind = if number % 2 == 0 { "type=local" } else { "type=domain" };
            self.samba_tool("net", &["groupmap", "add", &name, &unix, kind])?;
        }
        let [alice, bob] = [ALICE.name, BOB.name].map(|name| self.sid(name));
        let (alice, bob) = (alice?, bob?);
        self.samba_tool("sharesec", &["readers", "-S", &format!("D:(A;;0x1200a9;;;WD)(A;;0x1f01ff;;;{alice})")])?;
        self.samba_tool("sharesec", &["closed", "-S", &format!("D:(D;;0x1f01ff;;;{bob})(A;;0x1301ff;;;WD)")])?;
        // smbd keeps what it has read of the mappings.
        self.samba.stop();
        self.samba.restart()?;
        let mut sids = vec![alice, bob];
        for number in (1..=self.users).step_by(3) {
            sids.push(self.sid(&user(number))?);
        }
        for number in 1..=self.groups {
            sids.push(self.sid(&format!("Group {number}"))?);
        }
        self.sids = sids;
        self.edit_tree("make")
    }

    /// Has a client create or change the tree.
    fn edit_tree(&self, verb: &str) -> Result<()> {
        let count = self.files.to_string();
        let arguments = [verb, "tree", &count].into_iter().chain(self.sids.iter().map(String::as_str));
        self.script(&arguments.collect::<Vec<_>>()).map(drop)
    }

    fn conf(&self) -> &Path {
        self.samba.conf()
    }

    fn state(&self) -> PathBuf {
        self.environment.dir().join("frevo-state")
    }

    /// Runs one of Samba's administration programs.
    fn samba_tool(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        command.arg("-s").arg(self.conf()).args(arguments).stdin(Stdio::null()).env("TDB_NO_FSYNC", "1");
        succeeded(self.environment.people().enter(&mut command))
    }

    /// Returns the command of Frevo with these arguments, the configuration and the state directory.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(frevo());
        command.args(arguments).arg("-c").arg(self.conf()).arg("--state-dir").arg(self.state());
        command.stdin(Stdio::null());
        self.environment.people().enter(&mut command);
        command
    }

    fn succeed(&self, arguments: &[&str]) -> Result<String> {
        succeeded(&mut self.command(arguments))
    }

    /// Migrates, and returns the report.
    fn migrate(&self, options: &[&str]) -> Result<Value> {
        let text = self.succeed(&[&["migrate", "--json"], options].concat())?;
        serde_json::from_str(&text).with_context(|| text)
    }

    /// The report has the counts, the share that is not served, and the commands.
    fn check_report(&self, report: &Value) -> Result<()> {
        // The users, alice, bob and carol.
        ensure!(report["accounts"]["added"] == self.users + 3, "{report:#}");
        ensure!(report["groups"]["added"] == self.groups && report["share_acls"]["added"] == 2, "{report:#}");
        ensure!(report["policies"]["added"] == 1, "{report:#}");
        let text = report.to_string();
        ensure!(text.contains("`ceph`") && text.contains("SeBackupPrivilege"), "losses are missing: {report:#}");
        let commands = report["commands"].as_array().context("commands")?;
        let last: Vec<_> = commands.iter().rev().take(2).filter_map(Value::as_str).collect();
        ensure!(last.len() == 2 && last[0] == "systemctl enable --now frevo", "{report:#}");
        ensure!(last[1].starts_with("systemctl disable --now smb"), "{report:#}");
        Ok(())
    }

    fn start_frevo(&mut self) -> Result<()> {
        let log = File::create(self.environment.dir().join("frevo.log"))?;
        let mut command = self.command(&["serve"]);
        self.frevo = Some(command.stdout(log.try_clone()?).stderr(log).spawn().context("cannot start Frevo")?);
        let answer = probe::wait(self.samba.address(), START);
        let log = || fs::read_to_string(self.environment.dir().join("frevo.log")).unwrap_or_default();
        ensure!(answer == Answer::Replied, "Frevo does not answer:\n{}", log());
        Ok(())
    }

    fn stop_frevo(&mut self) {
        if let Some(mut child) = self.frevo.take() {
            if let Ok(pid) = libc::pid_t::try_from(child.id()) {
                // SAFETY: kill has no memory effects; the process was started above and not waited for yet.
                unsafe { libc::kill(pid, libc::SIGTERM) };
            }
            let _ = child.wait();
        }
    }

    /// Changes of each kind that must get back to Samba.
    fn change_under_frevo(&self) -> Result<()> {
        let passwd = |verb: &str, name: &str, password: &str| -> Result<()> {
            let mut command = self.command(&["user", verb, name, "--password-stdin"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
            child.stdin.take().context("no standard input")?.write_all(format!("{password}\n").as_bytes())?;
            ensure!(child.wait()?.success(), "frevo user {verb} {name} failed");
            Ok(())
        };
        passwd("passwd", &user(1), "changedpw")?;
        self.succeed(&["user", "disable", &user(6)])?;
        self.succeed(&["user", "enable", &user(2)])?;
        // A user who had no account.
        fs::OpenOptions::new()
            .append(true)
            .open(self.environment.dir().join("etc/passwd"))?
            .write_all(b"newcomer:x:64399:64399::/nonexistent:/usr/sbin/nologin\n")?;
        passwd("add", "newcomer", "newpw")?;
        self.succeed(&["user", "policy", "bad lockout attempt", "7"])?;
        let bob = self.sid(BOB.name)?;
        self.succeed(&["acl", "share", "readers", "--set", &format!("D:(A;;0x1f01ff;;;{bob})(A;;0x1200a9;;;WD)")])?;
        self.edit_tree("change")
    }

    /// Imports the changes in Samba, and starts it.
    fn go_back(&mut self) -> Result<()> {
        let dir = self.environment.dir().join("back");
        let text = self.succeed(&["migrate", "--back", "--write", &dir.display().to_string()])?;
        ensure!(text.contains("systemctl disable --now frevo") && text.contains("import.sh"), "{text}");
        let mut script = Command::new("sh");
        succeeded(self.environment.people().enter(script.arg(dir.join("import.sh"))))?;
        let rest: Value = serde_json::from_str(&self.succeed(&["migrate", "--back", "--json"])?)?;
        ensure!(rest["commands"] == Value::Array(Vec::new()), "the script left differences: {rest:#}");
        self.samba.restart()
    }

    fn rpcclient(&self, commands: &str) -> Result<String> {
        let mut command = self.fixture.program("rpcclient", &self.samba, &ALICE.credentials());
        output(command.args(["127.0.0.1", "-c", commands]))
    }

    fn sid(&self, name: &str) -> Result<String> {
        let said = self.rpcclient(&format!("lookupnames \"{name}\""))?;
        let sid = said.split_whitespace().find(|word| word.starts_with("S-1-5-21-"));
        sid.map(str::to_owned).with_context(|| format!("no SID of {name} in {said}"))
    }

    fn script(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.fixture.script_command("migrated_tree.py", arguments);
        succeeded(command.env("SERVER_PORT", self.samba.port().to_string()))
    }
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        self.stop_frevo();
    }
}

/// The name of a member of the crowd.
fn user(number: u32) -> String {
    format!("u{number:05}")
}

fn succeeded(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    ensure!(status.success(), "{command:?} failed ({status}): {}{text}", String::from_utf8_lossy(&stderr));
    Ok(text)
}

/// Mistakes are reported, and nothing is changed.
fn mistakes(fixture: &mut Fixture) -> Result<()> {
    let dir = fixture.local("migrate-mistakes")?;
    let (conf, state) = (dir.join("smb.conf"), dir.join("state"));
    let global = ["state directory", "lock directory", "cache directory"]
        .iter()
        .fold("[global]\n".to_owned(), |text, name| format!("{text}\t{name} = {}\n", dir.display()));
    fs::write(&conf, &global)?;
    let migrate = |options: &[&str], without_path: bool| -> Result<String> {
        let mut command = Command::new(frevo());
        command.args(["migrate", "-c"]).arg(&conf).arg("--state-dir").arg(&state).args(options);
        if without_path {
            command.env("PATH", "/nonexistent");
        }
        let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output()?;
        ensure!(status.code() == Some(1), "frevo migrate ends with {status}");
        ensure!(!state.exists(), "it creates the state directory");
        Ok(String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
    };
    let said = migrate(&[], true)?;
    ensure!(said.contains("is not installed") && said.contains("samba-common-bin"), "{said}");
    let elsewhere = dir.join("missing/private");
    fs::write(&conf, format!("{global}\tprivate dir = {}\n", elsewhere.display()))?;
    let said = migrate(&[], false)?;
    ensure!(said.contains("secrets.tdb") && said.contains("private dir"), "{said}");
    fs::write(&conf, "[global]\n\thosts allow = 10.0.0.0/99\n[x]\n\tpath = relative\n")?;
    let said = migrate(&[], false)?;
    ensure!(said.contains("nothing was changed") && said.contains("smb.conf:2"), "{said}");
    fs::remove_file(&conf)?;
    let said = migrate(&["--dry-run"], false)?;
    ensure!(said.contains("does not exist") && said.contains("--config"), "{said}");
    Ok(())
}
