//! A smbpasswd file shared by Frevo and Samba's own programs, which change it while it is in use.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, CAROL, Person, Server, Target, TestEnvironment};

pub(super) const CASES: &[Case] = &[
    Case::new("smbpasswd.samba_changes_it", samba_changes_it).needs_root().frevo_only(),
    Case::new("smbpasswd.samba_reads_it", samba_reads_it).needs_root().frevo_only(),
    Case::new("smbpasswd.both_at_once", both_at_once).needs_root().frevo_only(),
    Case::new("smbpasswd.without_a_server", without_a_server).needs_root().frevo_only(),
];

/// Number of changes that each program makes in [`both_at_once`].
const CHANGES: usize = 100;

const TEMPLATE: &str = "[global]\n@TARGET@\n\tpassdb backend = smbpasswd:@FILE@\n[files]\n\tpath = @DIR@/data/files\n";

/// A smbpasswd file, its servers, and a configuration with which Samba's programs use it.
struct Shared<'a> {
    fixture: &'a Fixture,
    file: PathBuf,
    samba: PathBuf,
    conf: PathBuf,
}

impl<'a> Shared<'a> {
    /// Creates the file with alice, bob and carol, who is disabled. The returned server uses it too.
    fn start(fixture: &'a Fixture, name: &str) -> Result<(Shared<'a>, Server)> {
        let shared = Shared::at(fixture, name)?;
        let server = fixture.environment.start(name, &shared.template())?;
        Ok((shared, server))
    }

    fn at(fixture: &'a Fixture, name: &str) -> Result<Shared<'a>> {
        let dir = fixture.local(name)?;
        let file = dir.join("smbpasswd");
        let mut text = format!("[global]\npassdb backend = smbpasswd:{}\n", file.display());
        for kind in ["private dir", "lock directory", "state directory", "cache directory", "pid directory"] {
            text.push_str(&format!("{kind} = {}\n", dir.display()));
        }
        fs::write(dir.join("samba.conf"), text)?;
        let conf = fixture.environment.dir().join(name).join("smb.conf");
        Ok(Shared { fixture, samba: dir.join("samba.conf"), file, conf })
    }

    fn template(&self) -> String {
        TEMPLATE.replace("@FILE@", &self.file.display().to_string())
    }

    /// Runs a program in an environment in which the users exist, and returns its output.
    fn run(&self, program: &Path, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            self.fixture.environment.people().enter(&mut command).spawn().context("cannot start the program")?;
        child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(output.status.success(), "{} {args:?}: {}\n{said}", program.display(), output.status);
        Ok(said)
    }

    /// Runs Samba's `smbpasswd`.
    fn smbpasswd(&self, args: &[&str], password: &str) -> Result<String> {
        let conf = self.samba.display().to_string();
        self.run(Path::new("smbpasswd"), &[&["-c", &conf, "-s"], args].concat(), &format!("{password}\n{password}\n"))
    }

    /// Runs Samba's `pdbedit`.
    fn pdbedit(&self, args: &[&str]) -> Result<String> {
        let conf = self.samba.display().to_string();
        self.run(Path::new("pdbedit"), &[&["-s", &conf], args].concat(), "")
    }

    /// Runs `frevo user`.
    fn user(&self, args: &[&str], input: &str) -> Result<String> {
        let conf = self.conf.display().to_string();
        self.run(&test_environment::frevo(), &[&["user"], args, &["-c", &conf]].concat(), input)
    }

    /// Checks that `who` can log on to `server` with `password`, or is refused with `status`.
    fn logon(&self, server: &Server, who: &Person, password: &str, status: Option<&str>) -> Result<()> {
        let client = self.fixture.smbclient().server(server).credentials(&format!("{}%{password}", who.name));
        let said = client.run("ls")?;
        match status {
            None => said.fine().map(drop),
            Some(status) => said.refused_with(status),
        }
        .with_context(|| format!("{} with {password:?}", who.name))
    }
}

const WRONG: Option<&str> = Some("NT_STATUS_LOGON_FAILURE");

fn samba_changes_it(fixture: &mut Fixture) -> Result<()> {
    let (shared, server) = Shared::start(fixture, "smbpasswd-live")?;
    shared.logon(&server, &ALICE, ALICE.password, None)?;
    shared.logon(&server, &CAROL, CAROL.password, Some("NT_STATUS_ACCOUNT_DISABLED"))?;

    shared.smbpasswd(&["alice"], "another")?;
    shared.logon(&server, &ALICE, "another", None)?;
    shared.logon(&server, &ALICE, ALICE.password, WRONG)?;
    shared.smbpasswd(&["-d", "alice"], "")?;
    shared.logon(&server, &ALICE, "another", Some("NT_STATUS_ACCOUNT_DISABLED"))?;
    shared.smbpasswd(&["-e", "alice"], "")?;
    shared.logon(&server, &ALICE, "another", None)?;
    shared.smbpasswd(&["-n", "alice"], "")?;
    shared.logon(&server, &ALICE, "another", WRONG)?;
    shared.smbpasswd(&["alice"], "third")?;
    shared.logon(&server, &ALICE, "third", None)?;

    shared.smbpasswd(&["-x", "bob"], "")?;
    shared.logon(&server, &BOB, BOB.password, WRONG)?;
    shared.smbpasswd(&["-a", "bob"], "bob's own")?;
    shared.logon(&server, &BOB, "bob's own", None)?;
    shared.pdbedit(&["-u", "bob", "-c", "[L]", "-r"])?;
    shared.logon(&server, &BOB, "bob's own", Some("NT_STATUS_ACCOUNT_LOCKED_OUT"))?;
    shared.user(&["enable", "bob"], "")?;
    shared.logon(&server, &BOB, "bob's own", None)?;

    // A password that is expired unless the account has the flag set by Samba, and vice versa.
    super::passwords::expire_all(|args| shared.user(args, ""))?;
    shared.logon(&server, &BOB, "bob's own", Some("NT_STATUS_PASSWORD_EXPIRED"))?;
    shared.pdbedit(&["-u", "bob", "-c", "[X]", "-r"])?;
    shared.logon(&server, &BOB, "bob's own", None)?;
    shared.user(&["account-control", "bob", "[]"], "")?;
    let seen = shared.pdbedit(&["-L", "-w", "bob"])?;
    ensure!(seen.contains(":[U          ]:"), "{seen}");
    shared.logon(&server, &BOB, "bob's own", Some("NT_STATUS_PASSWORD_EXPIRED"))?;
    shared.user(&["account-control", "bob", "[X]"], "")?;
    let seen = shared.pdbedit(&["-L", "-w", "bob"])?;
    ensure!(seen.contains(":[UX         ]:"), "{seen}");
    shared.user(&["policy", "maximum password age", "-1"], "")?;

    // If the file cannot be read, a user is not treated as unknown.
    let away = shared.file.with_extension("away");
    fs::rename(&shared.file, &away)?;
    shared.logon(&server, &BOB, "bob's own", Some("NT_STATUS_NO_LOGON_SERVERS"))?;
    fs::rename(&away, &shared.file)?;
    shared.logon(&server, &BOB, "bob's own", None)
}

/// Samba's programs understand what Frevo writes, and its server accepts the same users.
fn samba_reads_it(fixture: &mut Fixture) -> Result<()> {
    let (shared, server) = Shared::start(fixture, "smbpasswd-both")?;
    shared.user(&["passwd", "alice", "--password-stdin"], "by frevo\n")?;
    shared.logon(&server, &ALICE, "by frevo", None)?;
    shared.logon(&server, &ALICE, ALICE.password, WRONG)?;

    let listed = shared.pdbedit(&["-L", "-w"])?;
    let file = fs::read_to_string(&shared.file)?;
    ensure!(listed == file, "pdbedit lists\n{listed}but the file has\n{file}");
    let said = shared.pdbedit(&["-L", "-v", "carol"])?;
    ensure!(said.contains("[DU         ]"), "{said}");
    let rid = format!("-{}\n", 2 * CAROL.id + 1000);
    ensure!(said.lines().any(|line| line.starts_with("User SID:") && format!("{line}\n").ends_with(&rid)), "{said}");
    let ours = shared.user(&["list", "--json"], "")?;
    ensure!(ours.contains(&rid.replace('\n', "\"")), "{ours}");

    let samba = TestEnvironment::make(Target::Samba)?;
    samba.make_dir("data/files", &ALICE, 0o777)?;
    let template = shared.template();
    let smbd = samba.start_with_accounts("smbd", &template, &|_| Ok(()))?;
    shared.logon(&smbd, &ALICE, "by frevo", None)?;
    shared.user(&["passwd", "alice", "--password-stdin"], "again\n")?;
    for server in [&server, &smbd] {
        shared.logon(server, &ALICE, "again", None)?;
        shared.logon(server, &CAROL, CAROL.password, Some("NT_STATUS_ACCOUNT_DISABLED"))?;
    }
    shared.user(&["delete", "bob"], "")?;
    shared.user(&["enable", "carol"], "")?;
    for server in [&server, &smbd] {
        shared.logon(server, &BOB, BOB.password, WRONG)?;
        shared.logon(server, &CAROL, CAROL.password, None)?;
    }
    let said = shared.pdbedit(&["-L"])?;
    ensure!(said.contains("alice:") && !said.contains("bob:") && !said.contains("malformed"), "{said}");
    Ok(())
}

/// Samba's program changes alice and adds and removes bob, while Frevo's changes carol and a server reads the file.
fn both_at_once(fixture: &mut Fixture) -> Result<()> {
    let (shared, server) = Shared::start(fixture, "smbpasswd-race")?;
    let mut text = fs::read_to_string(&shared.file)?;
    text.insert_str(0, "# kept by hand\n");
    fs::write(&shared.file, text)?;
    std::thread::scope(|scope| -> Result<()> {
        let theirs = scope.spawn(|| -> Result<()> {
            (1..=CHANGES).try_for_each(|change| shared.smbpasswd(&["alice"], &format!("alice {change}")).map(drop))
        });
        let mine = scope.spawn(|| -> Result<()> {
            for change in 1..=CHANGES {
                shared.user(&["passwd", "carol", "--password-stdin"], &format!("carol {change}\n"))?;
                // Lines are added and removed next to those that the other program changes.
                match change % 2 {
                    1 => shared.user(&["delete", "bob"], "")?,
                    _ => shared.user(&["add", "bob", "--password-stdin"], &format!("bob {change}\n"))?,
                };
            }
            Ok(())
        });
        for thread in [theirs, mine] {
            thread.join().unwrap_or_else(|_| bail!("a thread ended"))?;
        }
        Ok(())
    })?;
    shared.user(&["enable", "carol"], "")?;
    for who in [ALICE, BOB, CAROL] {
        shared.logon(&server, &who, &format!("{} {CHANGES}", who.name), None)?;
    }
    let text = fs::read_to_string(&shared.file)?;
    ensure!(text.starts_with("# kept by hand\n"), "{text}");
    let said = shared.pdbedit(&["-L"])?;
    let names: Vec<&str> = said.lines().filter_map(|line| line.split(':').next()).collect();
    ensure!(names.len() == 3 && !said.contains("malformed"), "{said}in\n{text}");
    Ok(())
}

/// `frevo user` without a server: with a file created by Samba, and with a missing one.
fn without_a_server(fixture: &mut Fixture) -> Result<()> {
    let shared = Shared::at(fixture, "smbpasswd-alone")?;
    fs::create_dir_all(shared.conf.parent().context("the file has no parent directory")?)?;
    let state =
        format!("[global]\n\tstate directory = {}/state\n", shared.conf.parent().unwrap_or(Path::new("/")).display());
    let text = shared.template().replace("[global]\n@TARGET@\n", &state);
    fs::write(&shared.conf, text.replace("@DIR@", &fixture.environment.dir().display().to_string()))?;
    shared.user(&["add", "alice", "--password-stdin"], "one\n")?;
    shared.smbpasswd(&["-a", "bob"], "two")?;
    let said = shared.user(&["list"], "")?;
    ensure!(said.contains("alice") && said.contains(&format!("bob ({})", BOB.id)), "{said}");
    shared.user(&["disable", "bob"], "")?;
    shared.user(&["delete", "alice"], "")?;
    let exported = shared.pdbedit(&["-L", "-w"])?;
    ensure!(exported.starts_with("bob:") && exported.contains("[DU "), "{exported}");
    let said = shared.user(&["import", "-"], &exported)?;
    ensure!(said.contains("0 added, 0 updated, 1 unchanged"), "{said}");
    let said = shared.user(&["import", "-"], &exported.replace("bob", "carol"))?;
    ensure!(said.contains("1 added"), "{said}");
    let said = shared.pdbedit(&["-L", "-v", "carol"])?;
    ensure!(said.contains(&format!("-{}", 2 * CAROL.id + 1000)), "{said}");
    Ok(())
}
