//! E11: the time of one access check on files with POSIX ACLs of 3 to 300 entries. An access check is what a client
//! does to show permissions: it opens, queries owner, group and DACL, and closes, in one round trip.
//!
//! T_C is the time if the server converts the POSIX ACL at each access. T_A is the time if it has a stored Windows ACL,
//! which a client set before. T_W is the time to set it. A server that stores the converted ACL at the first access is
//! detected, and its T_CW is measured instead of T_C.
//!
//! If the servers are shares of one server that never and always store converted ACLs, with the names
//! `SERVER/CACHE/never` and `SERVER/CACHE/always`, all three times are shown side by side: [`super::threes`].
//!
//! `--cold` drops the kernel's caches before each size, and then accesses a neighbouring file first. The directory is
//! then cached, but the attributes of the files are not. The server's own caches remain, as they do in service.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use client::Client;
use proto::bytes::utf16_bytes;
use proto::status::Status;
use report::record::Experiment;
use tokio::sync::Mutex;

use super::ground::{Ground, drop_caches};
use super::security::{access, descriptor, set};
use super::{posix, steps};
use crate::load::{Done, Sample};
use crate::method::{Bench, Server, Turn};

const DIRECTORY: &str = "frevo-bench-acl-check";
/// The sizes of the study, with its steps and the values on either side of them.
const SIZES: [usize; 16] = [3, 4, 5, 6, 8, 11, 16, 24, 34, 35, 50, 70, 100, 150, 200, 300];
const QUICK_SIZES: [usize; 6] = [3, 5, 16, 34, 100, 300];
/// Number of measured rounds, as in the study.
pub const ROUNDS: u32 = 9;
/// Time between the last change of files and the access to them.
const SETTLED: Duration = Duration::from_millis(50);
/// Longest time a server may take to store a converted ACL.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longer ACLs do not fit into an extended attribute.
const SIZE_MAX: usize = 8_000;

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Numbers of ACL entries, separated by commas [default: 3 to 300 in 16 steps, quick 6]
    #[arg(long, value_delimiter = ',')]
    entries: Vec<usize>,
    /// Number of files with each number of entries [default: 20, quick 5]
    #[arg(long)]
    files: Option<u32>,
    /// Number of accesses per round to files of each size [default: 300, quick 40, with --cold each file once]
    #[arg(long)]
    accesses: Option<usize>,
    /// Drop the kernel's caches before each size in each round (root only)
    #[arg(long)]
    cold: bool,
}

/// An operation on a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Access to a file that has only a POSIX ACL.
    Converted,
    /// Access to a file with a Windows ACL set by a client.
    Stored,
    /// Setting a Windows ACL.
    Setting,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Converted, Kind::Stored, Kind::Setting];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Converted => "converted",
            Kind::Stored => "stored",
            Kind::Setting => "being set",
        }
    }

    fn directory(self) -> &'static str {
        if self == Kind::Converted { "converted" } else { "stored" }
    }
}

/// The validated options.
struct Plan {
    sizes: Vec<usize>,
    files: u32,
    accesses: usize,
    cold: bool,
}

impl Plan {
    fn new(bench: &Bench, options: &Options) -> Result<Plan> {
        let mut sizes = options.entries.clone();
        if sizes.is_empty() {
            sizes = bench.method.pick(&SIZES[..], &QUICK_SIZES).to_vec();
        }
        sizes.sort_unstable();
        sizes.dedup();
        let possible = posix::PLAIN..=SIZE_MAX;
        let impossible = sizes.iter().find(|size| !possible.contains(size));
        ensure!(impossible.is_none(), "--entries {} is not between 3 and {SIZE_MAX}", impossible.unwrap_or(&0));
        Ok(Plan {
            sizes,
            files: options.files.unwrap_or(bench.method.pick(20, 5)).clamp(1, 10_000),
            accesses: options.accesses.unwrap_or(bench.method.pick(300, 40)).max(1),
            cold: options.cold,
        })
    }
}

/// How the server handles a security descriptor that a client sets.
enum Setting {
    /// It is stored in this attribute. The second value is the security descriptor.
    Kept(String, Vec<u8>),
    /// It changes at most the POSIX ACL.
    NotKept,
    /// It is refused.
    Refused(Status),
}

/// A server with its files.
struct Site {
    ground: Ground,
    client: Mutex<Client>,
    /// The attribute in which the converted ACL is stored at the first access.
    at_access: Option<String>,
    /// One for each size.
    settings: Vec<Setting>,
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let mut plan = Plan::new(bench, options)?;
    let mut grounds = Vec::new();
    for server in &bench.servers {
        grounds.push(Ground::make(
            server,
            DIRECTORY,
            "acl check creates files with POSIX ACLs in the file system, so it",
        )?);
    }
    if plan.cold {
        drop_caches()?;
    }
    let mut remarks = Vec::new();
    let refused = leave_out_refused(&grounds, &mut plan.sizes)?;
    if !refused.is_empty() {
        remarks
            .push(format!("The file system does not accept ACLs of {} entries: they are left out.", joined(&refused)));
    }
    ensure!(!plan.sizes.is_empty(), "the file system accepts none of the requested ACLs: give smaller --entries");
    bench.begin("acl check", plan.sizes.len() * KINDS.len());
    let mut sites = Vec::new();
    for (server, ground) in bench.servers.iter().zip(grounds) {
        bench.say(&format!("{}: creating files", server.name));
        sites.push(prepare(server, ground, &plan).await?);
    }
    for (server, site) in bench.servers.iter().zip(&sites) {
        remarks.extend(site.remarks(&server.name, &plan));
    }
    let names: Vec<(String, f64)> = plan
        .sizes
        .iter()
        .flat_map(|size| KINDS.map(|kind| (format!("{size} entries, {}", kind.name()), *size as f64)))
        .collect();
    let names: Vec<(&str, Option<f64>)> = names.iter().map(|(name, x)| (name.as_str(), Some(*x))).collect();
    let turn = async |server: &Server, turn: &Turn<'_>| sites[server.index].turn(&plan, turn).await;
    let cases = bench.cases(&names, turn).await?;
    remarks.extend(sites.iter().zip(&bench.servers).filter_map(|(site, server)| site.changed(&server.name, &plan)));
    let at_access: Vec<bool> = sites.iter().map(|site| site.at_access.is_some()).collect();
    let settings = vec![
        ("files of each size".to_owned(), plan.files.to_string()),
        ("accesses to each size in a round".to_owned(), plan.accesses().to_string()),
        ("kernel's caches".to_owned(), if plan.cold { "dropped before each size" } else { "warm" }.to_owned()),
    ];
    Ok(steps::experiment(&bench.names(), cases, &at_access, settings, remarks))
}

impl Plan {
    fn accesses(&self) -> usize {
        if self.cold { self.files as usize } else { self.accesses }
    }

    fn name(&self, kind: Kind, size: usize, file: usize) -> String {
        format!("{}/{size}-{file}", kind.directory())
    }
}

fn leave_out_refused(grounds: &[Ground], sizes: &mut Vec<usize>) -> Result<Vec<usize>> {
    let mut refused = Vec::new();
    for size in sizes.iter() {
        for ground in grounds {
            if !ground.takes(*size)? {
                refused.push(*size);
            }
        }
    }
    refused.dedup();
    sizes.retain(|size| !refused.contains(size));
    Ok(refused)
}

fn joined(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

async fn prepare(server: &Server, ground: Ground, plan: &Plan) -> Result<Site> {
    let mut number = 0;
    for kind in [Kind::Converted, Kind::Stored] {
        ground.directory(kind.directory())?;
        for size in &plan.sizes {
            // One more than is measured: the neighbouring file.
            for file in 0..=plan.files as usize {
                let made = ground.file(&plan.name(kind, *size, file), 0, *size, number)?;
                ensure!(made, "the file system accepted an ACL of {size} entries before and now rejects it");
                number += 1;
            }
        }
    }
    let mut client = server.connect().await?;
    let last = *plan.sizes.last().context("there are no sizes")?;
    let probed = plan.name(Kind::Converted, last, 0);
    access(&mut client, &path(&probed)).await.with_context(|| format!("{}: {probed}", server.name))?;
    // A server may store the ACL after it has answered.
    tokio::time::sleep(PATIENCE).await;
    let at_access = posix::attributes(&ground.path(&probed))?.pop();
    let mut site = Site { ground, client: Mutex::new(client), at_access, settings: Vec::new() };
    for size in &plan.sizes {
        let setting =
            site.set_all(plan, *size).await.with_context(|| format!("{}: an ACL of {size} entries", server.name))?;
        site.settings.push(setting);
    }
    Ok(site)
}

impl Site {
    /// Sets on all files of a size the security descriptors that the server reports for them, as far as it stores them.
    async fn set_all(&mut self, plan: &Plan, size: usize) -> Result<Setting> {
        let client = self.client.get_mut();
        let mut setting = Setting::NotKept;
        for file in 0..=plan.files as usize {
            let name = plan.name(Kind::Stored, size, file);
            let asked = descriptor(client, &path(&name)).await?;
            let before = posix::attributes(&self.ground.path(&name))?;
            if let Err(refused) = set(client, &path(&name), &asked).await {
                return Ok(Setting::Refused(refused.status().ok_or(refused)?));
            }
            let after = posix::attributes(&self.ground.path(&name))?;
            let new = after.into_iter().find(|name| !before.contains(name) || self.at_access.as_ref() == Some(name));
            let Some(attribute) = new else { return Ok(Setting::NotKept) };
            if file == 0 {
                setting = Setting::Kept(attribute, asked);
            }
        }
        Ok(setting)
    }

    async fn turn(&self, plan: &Plan, turn: &Turn<'_>) -> Result<()> {
        let mut client = self.client.lock().await;
        for (index, size) in plan.sizes.iter().enumerate() {
            for (place, kind) in KINDS.into_iter().enumerate() {
                let case = index * KINDS.len() + place;
                if kind != Kind::Converted && !matches!(self.settings[index], Setting::Kept(..)) {
                    turn.leave_out(case)?;
                    continue;
                }
                self.make_ready(&mut client, plan, kind, *size).await?;
                turn.measure_as(case, self.round(&mut client, plan, kind, index)).await?;
            }
        }
        Ok(())
    }

    async fn make_ready(&self, client: &mut Client, plan: &Plan, kind: Kind, size: usize) -> Result<()> {
        if let (Kind::Converted, Some(attribute)) = (kind, &self.at_access) {
            for file in 0..plan.files as usize {
                posix::forget(&self.ground.path(&plan.name(kind, size, file)), attribute)?;
            }
        }
        if plan.cold {
            self.ground.sync()?;
            drop_caches()?;
        }
        // A server may treat a file that has just changed as still changing.
        tokio::time::sleep(SETTLED).await;
        access(client, &path(&plan.name(kind, size, plan.files as usize))).await
    }

    async fn round(&self, client: &mut Client, plan: &Plan, kind: Kind, index: usize) -> Result<Sample> {
        let size = plan.sizes[index];
        let paths: Vec<Vec<u8>> = (0..plan.files as usize).map(|file| path(&plan.name(kind, size, file))).collect();
        let once = plan.cold || (kind == Kind::Converted && self.at_access.is_some());
        let count = if once { paths.len() } else { plan.accesses };
        let (mut sample, begin, mut fastest) = (Sample::default(), Instant::now(), Duration::MAX);
        for path in paths.iter().cycle().take(count) {
            let start = Instant::now();
            match (kind, &self.settings[index]) {
                (Kind::Setting, Setting::Kept(_, descriptor)) => set(client, path, descriptor).await?,
                _ => access(client, path).await?,
            }
            let time = start.elapsed();
            fastest = fastest.min(time);
            sample.count(Done::one(0), time);
        }
        sample.seconds = begin.elapsed().as_secs_f64();
        sample.figures.insert(steps::FASTEST.to_owned(), fastest.as_secs_f64() * 1e6);
        Ok(sample)
    }

    /// Returns remarks about how the server handles ACLs.
    fn remarks(&self, name: &str, plan: &Plan) -> Vec<String> {
        let sizes = |of: fn(&Setting) -> bool| -> Vec<usize> {
            plan.sizes.iter().zip(&self.settings).filter(|(_, setting)| of(setting)).map(|(size, _)| *size).collect()
        };
        let mut remarks = Vec::new();
        let kept = self.settings.iter().find_map(|setting| match setting {
            Setting::Kept(attribute, _) => Some(attribute),
            _ => None,
        });
        remarks.extend(kept.map(|it| format!("{name} stores a security descriptor that a client sets in {it}.")));
        let not_kept = sizes(|setting| matches!(setting, Setting::NotKept));
        if !not_kept.is_empty() {
            remarks.push(format!(
                "{name} does not store the security descriptor that a client sets (tried with {} entries): it \
                 applies it to the POSIX ACL as far as possible, and every access converts. There is no T_A.",
                joined(&not_kept)
            ));
        }
        let refused = self.settings.iter().find_map(|setting| match setting {
            Setting::Refused(status) => Some(status),
            _ => None,
        });
        if let Some(status) = refused {
            remarks.push(format!(
                "{name} returns a security descriptor and then refuses to store it, with {} entries: {status}. There \
                 is no T_A.",
                joined(&sizes(|setting| matches!(setting, Setting::Refused(_))))
            ));
        }
        if let Some(attribute) = &self.at_access {
            remarks
                .push(format!("{name} stores the converted ACL at the first access, in {attribute}: its T_C is T_CW."));
        }
        remarks
    }

    /// Returns a remark if setting the reported security descriptors changed POSIX ACLs.
    fn changed(&self, name: &str, plan: &Plan) -> Option<String> {
        let kept = plan.sizes.iter().zip(&self.settings).filter(|(_, setting)| matches!(setting, Setting::Kept(..)));
        let changed: Vec<String> = kept
            .filter_map(|(size, _)| {
                let now = posix::length(&self.ground.path(&plan.name(Kind::Stored, *size, 0))).ok()?;
                (now != *size).then(|| format!("{size} became {now}"))
            })
            .collect();
        (!changed.is_empty()).then(|| {
            let changed = changed.join(", ");
            format!(
                "Setting the security descriptor that {name} returned changed the number of POSIX ACL entries: \
                 {changed}."
            )
        })
    }
}

fn path(name: &str) -> Vec<u8> {
    utf16_bytes(&format!(r"{DIRECTORY}\{}", name.replace('/', r"\")))
}
