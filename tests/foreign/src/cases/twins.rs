//! Frevo and Samba running at the same time with the same configuration, users and SIDs, queried with smbcacls.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};

use crate::cases::people::{output, sid_of};
use crate::fixture::Fixture;
use test_environment::people::EVERYBODY;
use test_environment::{Person, Port445, Server, Target, TestEnvironment};

/// Number of concurrent programs.
const JOBS: usize = 4;

/// Selects one of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twin {
    Samba,
    Frevo,
}

/// The two servers.
pub(super) struct Twins {
    // The servers end before the environment is removed.
    servers: [Server; 2],
    doors: Port445,
    bed: TestEnvironment,
    /// The SIDs of alice, bob and carol.
    pub(super) sids: [String; 3],
    client: std::path::PathBuf,
}

/// A call of smbcacls: user, share, path and options.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) who: Person,
    pub(super) share: &'static str,
    pub(super) path: String,
    pub(super) options: Vec<String>,
}

impl Twins {
    /// Starts both servers with the template, in which `@TREE@` is `trees[0]` for Samba and `trees[1]` for Frevo.
    pub(super) fn start(fixture: &Fixture, name: &str, template: &str, trees: [&Path; 2]) -> Result<Twins> {
        let [for_samba, for_frevo] = trees.map(|tree| template.replace("@TREE@", &tree.display().to_string()));
        let environment = TestEnvironment::make(Target::Samba)?;
        let mut samba = environment.start("samba", &for_samba)?;
        let frevo = fixture.environment.start(name, &for_frevo)?;
        let [one, other, third] = EVERYBODY;
        let sids = [
            sid_of(fixture, &frevo, one.name)?,
            sid_of(fixture, &frevo, other.name)?,
            sid_of(fixture, &frevo, third.name)?,
        ];
        give_sids(&environment, &mut samba, &sids)?;
        for (person, sid) in EVERYBODY.iter().zip(&sids) {
            let seen = sid_of(fixture, &samba, person.name)?;
            ensure!(seen == *sid, "{}'s SID is {sid}, but {seen} with Samba", person.name);
        }
        let doors = Port445::open([samba.address(), frevo.address()])?;
        let client = fixture.environment.dir().join("client/smb.conf");
        Ok(Twins { servers: [samba, frevo], doors, bed: environment, sids, client })
    }

    /// Runs a script against one of the servers.
    pub(super) fn script(&self, fixture: &Fixture, twin: Twin, name: &str, arguments: &[&str]) -> Result<String> {
        let port = self.servers[usize::from(twin == Twin::Frevo)].port();
        let mut command = fixture.script_command(name, arguments);
        let output = command.env("SERVER_PORT", port.to_string()).output().context("cannot start Python")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{name} on {twin:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }

    /// Makes a program reach the servers at port 445 of [`Port445::ADDRESSES`].
    pub(super) fn enter<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        self.doors.enter(command)
    }

    /// Returns one of the servers.
    pub(super) fn server(&self, twin: Twin) -> &Server {
        &self.servers[usize::from(twin == Twin::Frevo)]
    }

    /// Runs a program of Samba that administrates its server.
    pub(super) fn administrate(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(program);
        let command = command.arg("-s").arg(self.server(Twin::Samba).conf()).args(arguments);
        output(self.bed.people().enter(command))
    }

    /// Returns the smb.conf of Samba's client programs.
    pub(super) fn client(&self) -> &Path {
        &self.client
    }

    /// Runs smbcacls against one of the servers, and returns its output and errors.
    pub(super) fn ask(&self, twin: Twin, call: &Call) -> Result<String> {
        let address = Port445::ADDRESSES[usize::from(twin == Twin::Frevo)];
        let mut command = Command::new("smbcacls");
        command.arg(format!("//{address}/{}", call.share)).arg(&call.path).arg("-s").arg(&self.client);
        command.args(["-U", &call.who.credentials()]).args(&call.options).stdin(Stdio::null());
        output(self.doors.enter(&mut command))
    }

    /// Makes the calls to both servers, several concurrently, and returns the differences.
    pub(super) fn differences(&self, calls: &[Call]) -> Result<Differences> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Differences { asked: calls.len(), ..Differences::default() });
        let work = || -> Result<()> {
            while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut answers = [self.ask(Twin::Samba, call)?, self.ask(Twin::Frevo, call)?];
                // In about one of a thousand calls smbcacls omits the flags of an ACE.
                if answers[0] != answers[1] && call.options.is_empty() {
                    answers = [self.ask(Twin::Samba, call)?, self.ask(Twin::Frevo, call)?];
                }
                let [samba, frevo] = answers;
                let mut found = found.lock().map_err(|_| anyhow::anyhow!("another worker panicked"))?;
                found.refused += usize::from(samba.contains("NT_STATUS_"));
                if samba != frevo {
                    let what = format!("{} {} {} {}", call.who.name, call.share, call.path, call.options.join(" "));
                    found.found.insert(what, [samba, frevo]);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..JOBS).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
        })?;
        found.into_inner().context("a worker panicked")
    }
}

/// The answers that differ between the servers, by query.
#[derive(Default)]
pub(super) struct Differences {
    asked: usize,
    /// Number of queries that Samba answered with an error.
    refused: usize,
    found: BTreeMap<String, [String; 2]>,
}

impl Differences {
    /// Compares two sets of answers.
    pub(super) fn of(what: &str, samba: BTreeMap<String, String>, frevo: &BTreeMap<String, String>) -> Differences {
        let mut found = Differences { asked: samba.len(), ..Differences::default() };
        // An answer only from Frevo is a difference too.
        let alone = frevo.iter().filter(|(name, _)| !samba.contains_key(*name));
        let alone = alone.map(|(name, answer)| (format!("{what} {name}"), [String::new(), answer.clone()]));
        found.found.extend(alone);
        for (name, answer) in samba {
            let other = frevo.get(&name).cloned().unwrap_or_default();
            found.refused += usize::from(answer.contains("refused"));
            if other != answer {
                found.found.insert(format!("{what} {name}"), [answer, other]);
            }
        }
        found
    }

    /// Compares two texts with a line per query, which begins with the query.
    pub(super) fn of_lines(what: &str, samba: &str, frevo: &str) -> Differences {
        let by_name = |text: &str| -> BTreeMap<String, String> {
            let split =
                |line: &str| line.split_once(' ').map(|(name, answer)| (name.to_owned(), format!("{answer}\n")));
            text.lines().filter_map(split).collect()
        };
        Self::of(what, by_name(samba), &by_name(frevo))
    }

    /// Adds other differences.
    pub(super) fn add(&mut self, others: Differences) {
        self.asked += others.asked;
        self.refused += others.refused;
        self.found.extend(others.found);
    }

    /// Fails if there are differences, and shows some of them.
    pub(super) fn none(&self) -> Result<()> {
        println!("  {} answers compared, of which Samba refused {}", self.asked, self.refused);
        // An optional file with all of them, for analysis.
        if let Some(path) = std::env::var_os("FREVO_PARITY_OUT").filter(|_| !self.found.is_empty()) {
            let text = |(what, [samba, frevo]): (&String, &[String; 2])| {
                format!("#### {what}\nSamba:\n{samba}Frevo:\n{frevo}")
            };
            std::fs::write(path, self.found.iter().map(text).collect::<String>())?;
        }
        let shown = self.found.iter().take(3);
        let text: String =
            shown.map(|(what, [samba, frevo])| format!("{what}\nSamba:\n{samba}Frevo:\n{frevo}")).collect();
        ensure!(self.found.is_empty(), "{} of {} answers differ:\n{text}", self.found.len(), self.asked);
        ensure!(self.refused * 2 < self.asked, "Samba refused {} of {} queries", self.refused, self.asked);
        Ok(())
    }
}

/// Makes the users' SIDs those of the other server, and their domain the machine's. Removes all privileges over files.
fn give_sids(environment: &TestEnvironment, samba: &mut Server, sids: &[String]) -> Result<()> {
    let conf = samba.conf().to_owned();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        output(environment.people().enter(command.arg("-s").arg(&conf).args(arguments)))
    };
    let alice = sids.first().context("alice has a SID")?;
    let (domain, _) = alice.rsplit_once('-').context("a SID with a RID")?;
    samba.stop();
    let mut said = run(
        "net",
        &[
            "sam",
            "rights",
            "revoke",
            EVERYBODY[0].name,
            "SeSecurityPrivilege",
            "SeTakeOwnershipPrivilege",
            "SeRestorePrivilege",
            "SeBackupPrivilege",
        ],
    )?;
    said += &run("net", &["setlocalsid", domain])?;
    for (person, sid) in EVERYBODY.iter().zip(sids) {
        said += &run("pdbedit", &["-r", "-u", person.name, "-U", sid])?;
    }
    samba.restart().context(said)
}
