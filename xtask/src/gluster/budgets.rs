//! A step of `cargo xtask gluster test`: the operations that the bricks serve for Frevo, per file, compared with
//! budgets and with what libgfapi itself needs for the same load.
//!
//! The numbers do not depend on the load of the machine. Operations that follow a request later, such as the storage of
//! the attributes of a new file, are counted too: a count ends when the bricks have had nothing to do for a moment.
//! Nothing else uses the volume meanwhile, so its mount is taken away.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::requests::Requests;
use client::{Client, Open};
use proto::dtyp::{AccessMask, Sid};
use proto::status::Status;
use test_environment::{ALICE, CREW, Counts, Crowd, Server, Target, TestEnvironment, interrupt};
use tokio::runtime::Runtime;

use super::Volume;
use super::bench::Subject;
use super::hold::{mount, unmount};
use super::limits::{Case, Table, sum};
use super::load::{self, Said, Step};
use super::profile::{Operations, Profile};
use super::servers::{Servers, finish};
use super::smb;
use crate::expected;
use crate::steps::{cargo, succeeds};

/// The configuration of the server. @VOLUME@ is the volume. Both shares show the same directory.
const TEMPLATE: &str = "[global]
@TARGET@
\tread only = no
\tstore dos attributes = yes
\tkernel share modes = no
\tglusterfs:volume = @VOLUME@
\tglusterfs:volfile_server = 127.0.0.1
\tglusterfs:logfile = @DIR@/gfapi.log
[budgets]
\tpath = /budgets
\tvfs objects = streams_xattr glusterfs
[acls]
\tpath = /budgets
\tvfs objects = acl_xattr streams_xattr glusterfs
";
/// The share of most cases, and the directory of the volume that it shows.
const SHARE: &str = "budgets";
/// The share that stores Windows ACLs.
const ACLS: &str = "acls";
/// The load generator. The numbers of its operations do not depend on the build.
const PROGRAM: &str = "target/debug/examples/bare";
/// The number of files of the load, and of those in a directory of it.
const FILES: u32 = 400;
const PER_DIRECTORY: u32 = 100;
/// The size of a file.
const SIZE: u32 = 64 << 10;
/// How often an operation is done in the other cases.
const TIMES: u32 = 100;
/// What the creation of a file may need.
const CREATION: f64 = 4.2;
/// The difference between directories that only differ in their size.
const NOISE: f64 = 0.1;
/// The names in an answer of a brick to READDIRP are at least this many, if there are as many.
const NAMES_OF_ANSWER: u32 = 500;
/// The look-ups of a directory that the server has not seen, on three bricks, and of the missing name.
const LOOK_UPS: f64 = 6.0;
/// The phases of the load.
const PHASES: [&str; 4] = ["create", "list", "rename", "delete"];
/// Time without operations after which a count has ended, and the most that is waited for it.
const PAUSE: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(20);

/// Options of the process in the namespaces.
#[derive(clap::Args)]
pub(crate) struct Inside {
    volume: Volume,
    /// Write a line for each case to this file
    #[arg(long)]
    verdicts: PathBuf,
}

/// Counts the operations and compares them. Each case is a test.
pub(super) fn run(servers: &Servers, volume: &str) -> Result<Counts> {
    let build = cargo(&["build", "--quiet", "--package", "gluster", "--example", "bare"]);
    ensure!(succeeds(build)?.failed.is_empty(), "the build failed; see the errors above");
    let verdicts = servers.dir().join("budgets.txt");
    let mut command = servers.command(super::own_program()?);
    command.args(["gluster", "--dir"]).arg(servers.dir()).args(["budgets", volume, "--verdicts"]).arg(&verdicts);
    let status = finish(&mut command)?;
    ensure!(status.success(), "counting operations on {volume}: {status}");
    let mut counts = Counts::default();
    for line in fs::read_to_string(&verdicts)?.lines() {
        counts.add(match line.split_once('\t') {
            Some(("failed", what)) => Counts::failed(what),
            _ => Counts::passed(1),
        });
    }
    Ok(counts)
}

/// Counts the operations, and writes the verdicts. `dir` is the directory of the GlusterFS servers.
pub(super) fn inside(dir: &Path, options: &Inside) -> Result<()> {
    let volume = options.volume.name;
    // A count that could not end is a failure whose reason is repeated at the end of all steps.
    let lines = judge(dir, volume).unwrap_or_else(|error| {
        let reason = format!("{error:#}").replace('\n', "; ");
        format!("failed\tcounting operations on {volume}: {reason}\n")
    });
    Ok(fs::write(&options.verdicts, lines)?)
}

/// Counts the operations of all cases, and prints a table. Returns a line for each case.
fn judge(dir: &Path, volume: &'static str) -> Result<String> {
    let place = dir.join("mnt").join(volume);
    prepare(dir, volume, &place.join(SHARE))?;
    unmount(&place)?;
    let counted = count(dir, volume);
    mount(volume, &place)?;
    let table = Table { cases: counted?, known: known()? };
    print!("{table}");
    let line = |failure: Option<String>| failure.map_or("passed\n".to_owned(), |what| format!("failed\t{what}\n"));
    Ok(table.failures().into_iter().map(line).collect())
}

/// The known exceedances: the most that was measured, by the case.
fn known() -> Result<BTreeMap<String, f64>> {
    let path = expected::list(expected::BUDGETS);
    let entry = |(case, rest): (String, String)| {
        let (most, reason) = rest.split_once('\t').unwrap_or((&rest, ""));
        ensure!(!reason.trim().is_empty(), "{}: {case} has no reason after the figure", path.display());
        let most = most.parse().with_context(|| format!("{}: {case}: {most}", path.display()))?;
        Ok((case, most))
    };
    expected::entries(&path)?.into_iter().map(entry).collect()
}

/// A directory without a POSIX ACL.
const PLAIN: &str = "plain";

/// A directory with many names that no test opens.
struct Crowded {
    name: &'static str,
    names: u32,
}

const CROWDED: [Crowded; 3] = [
    Crowded { name: "small", names: 10 },
    Crowded { name: "large", names: 10_000 },
    Crowded { name: "huge", names: 100_000 },
];

/// Creates the directories of the cases. The names of the crowded ones are links on the bricks, because creating so
/// many files through the volume takes minutes.
fn prepare(dir: &Path, volume: &str, share: &Path) -> Result<()> {
    let give = |path: &Path| -> Result<()> {
        fs::create_dir(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(std::os::unix::fs::chown(path, Some(ALICE.id), Some(ALICE.id))?)
    };
    give(share)?;
    give(&share.join(PLAIN))?;
    for Crowded { name, names } in CROWDED {
        give(&share.join(name))?;
        for brick in 0..3 {
            let path = dir.join(format!("bricks/{volume}-{}", brick + 1)).join(SHARE).join(name);
            let first = path.join(format!("name-{brick}"));
            fs::write(&first, "")?;
            (brick + 3..names).step_by(3).try_for_each(|number| {
                fs::hard_link(&first, path.join(format!("name-{number}"))).with_context(|| first.display().to_string())
            })?;
        }
    }
    Ok(())
}

/// Counts the operations of all cases.
fn count(dir: &Path, volume: &'static str) -> Result<Vec<Case>> {
    let environment = TestEnvironment::make_in(dir, Target::Frevo, Crowd(0))?;
    let server = environment.start("server", &TEMPLATE.replace("@VOLUME@", volume))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let profile = Profile::start(dir, volume)?;
    let mut ground = Ground { dir, volume, server, profile, runtime, cases: Vec::new() };
    ground.load()?;
    ground.crowded()?;
    ground.inheriting()?;
    Ok(ground.cases)
}

struct Ground<'a> {
    /// The directory of the GlusterFS servers.
    dir: &'a Path,
    volume: &'a str,
    server: Server,
    profile: Profile<'a>,
    runtime: Runtime,
    cases: Vec<Case>,
}

impl Ground<'_> {
    /// Counts the phases of the load, for Frevo and libgfapi in turns. Each is done twice, and the lower number counts,
    /// because the bricks may have had something else to do. The removal of directories belongs to the deletion.
    fn load(&mut self) -> Result<()> {
        let Ground { dir, volume, .. } = *self;
        let mut command = load::command(&crate::root().join(PROGRAM), dir, volume, SHARE);
        command.args(["--rounds", "1", "smallfile", "--clients", "1", "--phases", &PHASES.join(",")]);
        command.args(["--files", &FILES.to_string(), "--size", &(SIZE >> 10).to_string()]);
        command.args(["--per-directory", &PER_DIRECTORY.to_string()]);
        command.args(load::in_turns(Subject::Frevo, self.server.address(), SHARE));
        let mut counted: BTreeMap<(String, Subject), Vec<Operations>> = BTreeMap::new();
        load::run(command, |said| {
            let Said { step, phase, subject, .. } = *said;
            match (step, phase) {
                (Step::Renew, _) if subject == Subject::Frevo => {
                    self.server.stop();
                    self.server.restart()
                }
                (Step::Renew, _) => Ok(()),
                (Step::Begin, _) => self.settled().map(drop),
                (Step::End, "delete") => Ok(()),
                (Step::End | Step::Removed, _) => {
                    let phase = if step == Step::Removed { "delete" } else { phase };
                    counted.entry((phase.to_owned(), subject)).or_default().push(self.settled()?);
                    Ok(())
                }
            }
        })?;
        let least = |phase: &str, subject| -> Result<Operations> {
            let rounds = counted.get(&(phase.to_owned(), subject));
            let least = rounds.and_then(|rounds| rounds.iter().min_by(|one, other| sum(one).total_cmp(&sum(other))));
            Ok(least.with_context(|| format!("{} has no {phase}", subject.name()))?.clone())
        };
        let cases = [
            ("create", "create, write, close", 4.2),
            ("list", "list, cold", 0.1),
            ("rename", "rename", 17.5),
            ("delete", "delete, with directories", 2.6),
        ];
        for (phase, name, budget) in cases {
            let files = f64::from(FILES);
            let (mut frevo, mut bare) = (least(phase, Subject::Frevo)?, least(phase, Subject::Bare)?);
            if phase == "rename" {
                [&mut frevo, &mut bare].into_iter().for_each(|counted| level(counted, files));
            }
            self.cases.push(Case::new(name, budget, &frevo, files).beside(&bare));
        }
        Ok(())
    }

    /// Counts creations, and questions for missing names, in directories of different sizes.
    fn crowded(&mut self) -> Result<()> {
        let times = f64::from(TIMES);
        let mut created = None;
        for Crowded { name, names } in CROWDED {
            let mut client = self.cold_client(SHARE)?;
            self.misses(&mut client, name, 1)?;
            let cold = self.settled()?;
            self.misses(&mut client, name, TIMES)?;
            let warm = self.settled()?;
            self.cases.push(Case::new(format!("missing of {names} names, cold"), one_read(names), &cold, 1.0));
            self.cases.push(Case::new(format!("missing of {names} names, warm"), 0.0, &warm, times));
            self.creates(&mut client, name)?;
            let count = self.settled()?;
            let budget = created.map_or(CREATION, |count: f64| count + NOISE);
            created.get_or_insert(sum(&count) / times);
            self.cases.push(Case::new(format!("create among {names} names"), budget, &count, times));
            if names == CROWDED[0].names {
                self.sizes(&mut client, name)?;
                self.settled()?;
                self.sizes(&mut client, name)?;
                self.cases.push(Case::new("stat, warm", 0.0, &self.settled()?, times));
            }
        }
        Ok(())
    }

    /// Counts creations in directories with inheritable rules.
    fn inheriting(&mut self) -> Result<()> {
        let mut client = self.client(ACLS)?;
        let alice = (Sid::unix_user(ALICE.id), AccessMask::FILE_ALL_ACCESS);
        let everyone = (Sid::EVERYONE, AccessMask::FILE_GENERIC_READ);
        let crew = (Sid::unix_group(CREW.1), AccessMask::FILE_GENERIC_READ);
        // The permission bits alone express the descriptor that new files in the first directory inherit. The bricks
        // give new files in the others a POSIX ACL of their own, which must be replaced.
        let cases = [
            ("create, stored ACL", 5.2, PLAIN, None),
            ("create, stored ACL in place of a default ACL", 6.2, "mode", Some(vec![alice, everyone])),
            ("create, stored ACL with a POSIX ACL", 6.2, "list", Some(vec![alice, crew, everyone])),
        ];
        for (case, budget, directory, rules) in cases {
            if let Some(rules) = rules {
                self.runtime.block_on(async {
                    client.make_directory(directory).await?;
                    smb::set_rules(&mut client, directory, rules).await
                })?;
            }
            // The first file has the server read the descriptor of the directory.
            self.runtime.block_on(Requests::Separate.make(&mut client, &format!(r"{directory}\first"), b"text"))?;
            self.settled()?;
            self.creates(&mut client, directory)?;
            let counted = self.settled()?;
            self.cases.push(Case::new(case, budget, &counted, f64::from(TIMES)));
        }
        Ok(())
    }

    /// Starts the server anew and connects. The server uses the volume then, and knows nothing of its directories.
    fn cold_client(&mut self, share: &str) -> Result<Client> {
        self.server.stop();
        self.server.restart()?;
        let mut client = self.client(share)?;
        self.misses(&mut client, "other", 1)?;
        self.settled()?;
        Ok(client)
    }

    fn client(&self, share: &str) -> Result<Client> {
        self.runtime.block_on(smb::connect(&self.server, share))
    }

    /// Asks for names that a directory does not have.
    fn misses(&self, client: &mut Client, directory: &str, times: u32) -> Result<()> {
        for number in 0..times {
            let name = format!(r"{directory}\missing-{number}");
            let found = self.runtime.block_on(client.open(&Open::existing(&name)));
            let status = found.as_ref().err().and_then(client::Error::status);
            let is_missing = matches!(status, Some(Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND));
            ensure!(is_missing, "{name} is expected to be missing: {found:?}");
        }
        Ok(())
    }

    /// Asks for the attributes of the files that [`Ground::creates`] has created.
    fn sizes(&self, client: &mut Client, directory: &str) -> Result<()> {
        for number in 0..TIMES {
            let path = format!(r"{directory}\new-{number}");
            let size = self.runtime.block_on(Requests::Separate.size(client, &path))?;
            ensure!(size == u64::from(SIZE), "{path} has {size} bytes");
        }
        Ok(())
    }

    /// Creates files in a directory.
    fn creates(&self, client: &mut Client, directory: &str) -> Result<()> {
        let content = vec![1; SIZE as usize];
        for number in 0..TIMES {
            let path = format!(r"{directory}\new-{number}");
            self.runtime.block_on(Requests::Separate.make(client, &path, &content)).with_context(|| path.clone())?;
        }
        Ok(())
    }

    /// Returns the operations since the last call, as soon as there are no further ones.
    fn settled(&self) -> Result<Operations> {
        let deadline = Instant::now() + PATIENCE;
        let mut all = self.profile.take()?;
        loop {
            interrupt::check()?;
            sleep(PAUSE);
            let more = self.profile.take()?;
            if sum(&more) == 0.0 {
                return Ok(all);
            }
            ensure!(Instant::now() < deadline, "the bricks have no rest: {more:?}");
            more.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
        }
    }
}

/// Returns what it may cost to read the names of a directory once: each of three bricks has a third of them.
fn one_read(names: u32) -> f64 {
    3.0 * f64::from(1 + (names / 3).div_ceil(NAMES_OF_ANSWER).max(1)) + LOOK_UPS
}

/// Operations of a rename that moves the file's name to another brick.
const MOVES: [&str; 4] = ["LINK", "MKNOD", "SETATTR", "UNLINK"];

/// Replaces the number of names that were moved to another brick by two thirds of the files, which it would be on the
/// average. It depends on the new names and differs between directories.
fn level(operations: &mut Operations, files: f64) {
    let moved = operations.get("LINK").copied().unwrap_or_default();
    if moved == 0 {
        return;
    }
    for (_, count) in operations.iter_mut().filter(|(name, _)| MOVES.contains(&name.as_str())) {
        *count = (*count as f64 * files * 2.0 / 3.0 / moved as f64).round() as u64;
    }
}
