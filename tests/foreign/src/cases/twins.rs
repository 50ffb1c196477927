//! Frevo and Samba side by side with the same configuration, the same people and the same SIDs, and smbcacls asking both.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};

use crate::bed::people::EVERYBODY;
use crate::bed::{Bed, Doors, Person, Server, Target};
use crate::cases::people::{output, sid_of};
use crate::stage::Stage;

/// How many programs run at the same time.
const JOBS: usize = 4;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twin {
    Samba,
    Frevo,
}

/// The two servers.
pub(super) struct Twins {
    // Servers end before the bed goes.
    _servers: [Server; 2],
    doors: Doors,
    _bed: Bed,
    client: std::path::PathBuf,
}

/// One call of smbcacls: who asks, about which share and path, with which options.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) who: Person,
    pub(super) share: &'static str,
    pub(super) path: String,
    pub(super) options: Vec<String>,
}

impl Twins {
    /// Starts both with the template; `@TREE@` in it is `trees[0]` for Samba and `trees[1]` for Frevo.
    pub(super) fn start(stage: &Stage, name: &str, template: &str, trees: [&Path; 2]) -> Result<Twins> {
        let [for_samba, for_frevo] = trees.map(|tree| template.replace("@TREE@", &tree.display().to_string()));
        let bed = Bed::make(Target::Samba)?;
        let mut samba = bed.start("samba", &for_samba)?;
        let frevo = stage.bed.start(name, &for_frevo)?;
        let [one, other, third] = EVERYBODY;
        let sids =
            [sid_of(stage, &frevo, one.name)?, sid_of(stage, &frevo, other.name)?, sid_of(stage, &frevo, third.name)?];
        give_sids(&bed, &mut samba, &sids)?;
        for (person, sid) in EVERYBODY.iter().zip(&sids) {
            let seen = sid_of(stage, &samba, person.name)?;
            ensure!(seen == *sid, "{} is {sid}, and {seen} to Samba", person.name);
        }
        let doors = Doors::open([samba.address(), frevo.address()])?;
        let client = stage.bed.dir().join("client/smb.conf");
        Ok(Twins { _servers: [samba, frevo], doors, _bed: bed, client })
    }

    /// What smbcacls says of one of the two, output and errors together.
    pub(super) fn ask(&self, twin: Twin, call: &Call) -> Result<String> {
        let address = Doors::ADDRESSES[usize::from(twin == Twin::Frevo)];
        let mut command = Command::new("smbcacls");
        command.arg(format!("//{address}/{}", call.share)).arg(&call.path).arg("-s").arg(&self.client);
        command.args(["-U", &call.who.credentials()]).args(&call.options).stdin(Stdio::null());
        output(self.doors.enter(&mut command))
    }

    /// Asks both the same, several calls at a time; those that they answer differently.
    pub(super) fn differences(&self, calls: &[Call]) -> Result<Differences> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Differences { asked: calls.len(), refused: 0, found: BTreeMap::new() });
        let work = || -> Result<()> {
            while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut answers = [self.ask(Twin::Samba, call)?, self.ask(Twin::Frevo, call)?];
                // Once in a thousand calls smbcacls leaves the flags of an entry out.
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

/// What two servers answered differently, by question.
pub(super) struct Differences {
    pub(super) asked: usize,
    /// Questions that Samba answered with an error.
    pub(super) refused: usize,
    pub(super) found: BTreeMap<String, [String; 2]>,
}

impl Differences {
    /// An error that shows some of them, where there are any.
    pub(super) fn none(&self) -> Result<()> {
        // A file for all of them, for whoever looks into it.
        if let Some(path) = std::env::var_os("FREVO_PARITY_OUT").filter(|_| !self.found.is_empty()) {
            let all =
                self.found.iter().map(|(what, [samba, frevo])| format!("#### {what}\nSamba:\n{samba}Frevo:\n{frevo}"));
            std::fs::write(path, all.collect::<String>())?;
        }
        let shown = self.found.iter().take(3);
        let text: String =
            shown.map(|(what, [samba, frevo])| format!("{what}\nSamba:\n{samba}Frevo:\n{frevo}")).collect();
        ensure!(self.found.is_empty(), "{} of {} answers differ:\n{text}", self.found.len(), self.asked);
        Ok(())
    }
}

/// Makes the people's SIDs those which the other server has for them, with their domain for the machine's. No privileges
/// over files are left to anybody.
fn give_sids(bed: &Bed, samba: &mut Server, sids: &[String]) -> Result<()> {
    let conf = samba.conf().to_owned();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        output(bed.people().enter(command.arg("-s").arg(&conf).args(arguments)))
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
