//! Shares in volumes of GlusterFS: each volume is connected to, and its options and bricks are compared with what
//! `docs/gluster.md` recommends.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use gluster::{Examination, Failure, Volfile};
use serde::Serialize;
use server::policy::{Coherence, GlusterVolume, Share, Storage, VolfileServer};
use server::vfs::Errno;
use smbconf::{Code, Loaded, Problem, warning};

/// How long the volumes may take to answer. All are examined at the same time.
const LIMIT: Duration = Duration::from_secs(10);

/// The shortest `performance.md-cache-timeout` that is worth the reports of changes.
const SHORT: Duration = Duration::from_secs(60);

/// How long the library caches metadata if `performance.md-cache-timeout` is not set.
const DEFAULT_CACHED_FOR: Duration = Duration::from_secs(1);

/// The volume of a share, as printed by `--json`.
#[derive(Serialize)]
pub(super) struct Volume {
    name: String,
    /// The value of `frevo:coherence` in effect.
    coherence: &'static str,
    /// How many seconds what was read may be cached; `null` if there is no limit.
    valid: Option<u64>,
    bricks: usize,
    /// The bricks that were tried.
    tried: Vec<String>,
    stat_prefetch: bool,
    cache_invalidation: bool,
    md_cache_timeout: Option<u64>,
    write_behind: bool,
    parallel_readdir: bool,
    manage_gids: bool,
}

impl Volume {
    fn new(name: &str, found: &Examination) -> Volume {
        let Volfile { caches_metadata, invalidates, cached_for, writes_behind, parallel_listings, .. } = found.options;
        Volume {
            name: name.to_owned(),
            coherence: coherence_word(found.coherence),
            valid: found.valid.map(|valid| valid.as_secs()),
            bricks: found.options.bricks,
            tried: found.bricks.iter().flat_map(|bricks| bricks.tried.iter().cloned()).collect(),
            stat_prefetch: caches_metadata,
            cache_invalidation: invalidates,
            md_cache_timeout: cached_for.map(|time| time.as_secs()),
            write_behind: writes_behind,
            parallel_readdir: parallel_listings,
            manage_gids: found.options.looks_up_groups,
        }
    }

    /// Describes the volume in one line.
    pub(super) fn text(&self) -> String {
        let valid = self.valid.map(|seconds| format!(", metadata is cached for {seconds} s")).unwrap_or_default();
        let bricks = format!("{} brick{}", self.bricks, if self.bricks == 1 { "" } else { "s" });
        format!("{}: frevo:coherence is {}{valid}; {bricks}", self.name, self.coherence)
    }
}

/// Returns the value of `frevo:coherence`.
pub(crate) fn coherence_word(coherence: Coherence) -> &'static str {
    match coherence {
        Coherence::Exclusive => "exclusive",
        Coherence::Callback => "callback",
        Coherence::Timestamp => "timestamp",
    }
}

/// Examines the volumes of all shares that are served, and adds what is wrong. Returns them by share.
pub(super) fn examine(loaded: &mut Loaded) -> BTreeMap<String, Volume> {
    let (sender, receiver) = mpsc::channel();
    let mut waiting = BTreeMap::new();
    for share in loaded.policy.shares.values().filter(|share| share.available) {
        let Storage::Gluster(volume) = &share.storage else { continue };
        waiting.insert(share.name.clone(), (Arc::clone(share), Arc::clone(volume)));
        let (sender, volume, share) = (sender.clone(), Arc::clone(volume), Arc::clone(share));
        // A path with variables is known when a user connects.
        let path = share.path_template.is_none().then(|| share.path.to_string_lossy().into_owned());
        let examine = move || {
            // The command may have ended the wait.
            let _ = sender.send((share.name.clone(), gluster::examine(&volume, path.as_deref())));
        };
        if let Err(error) = std::thread::Builder::new().name("examine volume".to_owned()).spawn(examine) {
            tracing::error!(%error, "no thread can be started to examine a volume; raise the limit on threads");
        }
    }
    drop(sender);
    for problem in conflicts(waiting.values().map(|(share, volume)| (&**share, &**volume))) {
        loaded.warnings.add(problem);
    }
    let mut found = BTreeMap::new();
    let end = Instant::now() + LIMIT;
    while let Ok((share, examined)) = receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
        found.insert(share, examined);
    }
    let mut volumes = BTreeMap::new();
    for (name, (share, volume)) in waiting {
        let examined = found.remove(&name).unwrap_or_else(|| {
            let why = format!("it did not answer within {} s", LIMIT.as_secs());
            Err(Failure::Volume(format!("{why}; run `gluster volume status {}` on one of its servers", volume.volume)))
        });
        for problem in problems(&share, &volume, &examined) {
            // Shares in one volume have the same problems with its options.
            if !loaded.warnings.0.contains(&problem) {
                loaded.warnings.add(problem);
            }
        }
        volumes.extend(examined.ok().map(|found| (name, Volume::new(&volume.volume, &found))));
    }
    volumes
}

/// Returns the problems of shares that cannot be used together. Servers with several names are not recognized.
fn conflicts<'a>(shares: impl Iterator<Item = (&'a Share, &'a GlusterVolume)>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<_, Vec<&GlusterVolume>> = BTreeMap::new();
    for (share, volume) in shares {
        let servers: Vec<String> = volume.servers.iter().map(VolfileServer::to_string).collect();
        let others = seen.entry((&volume.volume, servers)).or_default();
        if let Some(why) = others.iter().find_map(|other| gluster::conflict(volume, other)) {
            problems.push(unavailable(share, volume, &Failure::Volume(why)));
        } else if !others.contains(&volume) {
            others.push(volume);
        }
    }
    problems
}

/// Returns what is wrong with the volume of a share.
fn problems(share: &Share, volume: &GlusterVolume, examined: &Result<Examination, Failure>) -> Vec<Problem> {
    match examined {
        Ok(found) => {
            let mut problems = options(volume, found);
            problems.extend(risks(share, volume, found));
            problems.extend(bricks(share, volume, found));
            problems
        }
        Err(failure) => vec![unavailable(share, volume, failure)],
    }
}

/// Returns the problem of a share that clients cannot connect to.
fn unavailable(share: &Share, volume: &GlusterVolume, failure: &Failure) -> Problem {
    let (name, path) = (&volume.volume, share.path.display());
    let problem = match failure {
        Failure::Library(why) | Failure::Volume(why) => {
            let (what, remedy) = why.split_once("; ").unwrap_or((why, "see `glusterfs:logfile`"));
            let message = format!("the volume {name} of [{}] cannot be used: {what}", share.name);
            warning(Code::VolumeNotOpened, message).of("glusterfs:volume", name).remedy(remedy)
        }
        Failure::Directory(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            let message = format!("the directory of [{}] does not exist in the volume {name}: {path}", share.name);
            let remedy = "create it on a mount of the volume, or correct `path`, which is a path in the volume";
            warning(Code::MissingPath, message).of("path", &path.to_string()).remedy(remedy)
        }
        Failure::Directory(error) => {
            let message = format!("the directory of [{}] in the volume {name} cannot be opened ({error})", share.name);
            let remedy = format!("run `gluster volume status {name}` on one of its servers, and start its bricks");
            warning(Code::VolumeNotOpened, message).of("path", &path.to_string()).remedy(remedy)
        }
    };
    problem.in_share(&share.name).loses("", Some(&share.name))
}

/// Returns the options of the volume that are not the recommended ones.
fn options(volume: &GlusterVolume, found: &Examination) -> Vec<Problem> {
    let Examination { options, coherence, .. } = found;
    let (name, is_exclusive) = (&volume.volume, *coherence == Coherence::Exclusive);
    let cached_for = options.cached_for.unwrap_or(DEFAULT_CACHED_FOR);
    let late = match coherence {
        Coherence::Callback => "the library answers from its cache although a brick has reported a change".to_owned(),
        _ => format!("changes by other clients of the volume show after up to {} s", cached_for.as_secs() + 1),
    };
    let short = format!("metadata is cached for {} s only, and bricks are asked again", cached_for.as_secs());
    let mut problems = Vec::new();
    let mut recommend = |is_missing: bool, option: &str, value: &str, why: &str, group: &str| {
        if is_missing {
            let message = format!("the volume {name} does not have `{option} {value}`: {why}");
            let remedy = format!("gluster volume set {name} {option} {value}{group}");
            problems.push(warning(Code::VolumeOption, message).of("glusterfs:volume", name).remedy(remedy));
        }
    };
    let group = format!(", or all recommended options: gluster volume set {name} group samba");
    let uncached = "the library does not cache metadata, and asks the bricks for each file";
    recommend(!options.caches_metadata, "performance.stat-prefetch", "on", uncached, &group);
    recommend(!options.invalidates && !is_exclusive, "performance.cache-invalidation", "on", &late, &group);
    let is_short = options.caches_metadata && (options.invalidates || is_exclusive) && cached_for < SHORT;
    recommend(is_short, "performance.md-cache-timeout", "600", &short, &group);
    let in_turn = "a listing asks the bricks one after the other";
    let is_serial = options.parts > 1 && !options.parallel_listings;
    recommend(is_serial, "performance.parallel-readdir", "on", in_turn, &group);
    let late_errors = "writes are acknowledged before a brick has them. Their errors show when the file is flushed or \
                       closed, and those not flushed are lost if the server is killed";
    recommend(options.writes_behind, "performance.write-behind", "off", late_errors, &group);
    let groups = "bricks look up the groups of users themselves, and ignore those that the server passes on";
    recommend(options.looks_up_groups, "server.manage-gids", "off", groups, "");
    problems
}

/// Returns the settings with which clients could lose data.
fn risks(share: &Share, volume: &GlusterVolume, found: &Examination) -> Vec<Problem> {
    let name = &volume.volume;
    let mut problems = Vec::new();
    let mut risk = |message: String, subject: &str, value: &str, remedy: String| {
        let problem = warning(Code::DataAtRisk, message).of(subject, value);
        problems.push(problem.in_share(&share.name).remedy(remedy));
    };
    if share.handles.continuously_available && found.options.writes_behind {
        let message = format!(
            "[{}] promises that writes survive a crash of the server, and `performance.write-behind` of the volume \
             {name} breaks that promise",
            share.name
        );
        let remedy = format!("gluster volume set {name} performance.write-behind off");
        risk(message, "continuously available", "yes", remedy);
    }
    if found.bricks.as_ref().is_ok_and(|bricks| bricks.report == Some(false)) {
        let message = format!(
            "the bricks of the volume {name} do not report changes, and [{}] relies on that (`frevo:coherence` is \
             callback): clients see old metadata, and the server overwrites attributes that others have changed",
            share.name
        );
        let remedy = format!("gluster volume set {name} features.cache-invalidation on");
        risk(message, "frevo:coherence", "callback", remedy);
    }
    problems
}

/// Returns what the bricks cannot do.
fn bricks(share: &Share, volume: &GlusterVolume, found: &Examination) -> Option<Problem> {
    let name = &volume.volume;
    let problem = match &found.bricks {
        // A snapshot, or a volume that is read only.
        Err(Errno::ROFS) => return None,
        Err(error) => {
            let message =
                format!("no file can be created in the directory of [{}] in the volume {name} ({error})", share.name);
            let remedy = format!("run `gluster volume status {name}` on one of its servers, and start its bricks");
            warning(Code::VolumeNotOpened, message).remedy(remedy)
        }
        Ok(bricks) => {
            let few = &bricks.refuse_large_attributes;
            let lost = match (share.streams.is_some(), share.acls.stored.is_some()) {
                _ if few.is_empty() => return None,
                (false, false) => return None,
                (true, false) => {
                    "longer alternate streams are stored in `.frevo-streams`, and Samba does not show them"
                }
                (false, true) => "longer Windows ACLs are refused",
                (true, true) => {
                    "longer Windows ACLs are refused; longer alternate streams are stored in `.frevo-streams`, and \
                     Samba does not show them"
                }
            };
            let few: Vec<&str> = few.iter().map(String::as_str).collect();
            let message =
                format!("bricks of the volume {name} refuse attributes of 60,000 bytes ({}): {lost}", few.join(", "));
            warning(Code::VolumeOption, message).remedy("use XFS for bricks; ext4 has space for 4,000 bytes in a file")
        }
    };
    Some(problem.of("glusterfs:volume", name).in_share(&share.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gluster::Bricks;
    use server::testing::{gluster, stored_acls};

    use super::*;

    fn recommended() -> Examination {
        let (hour, bricks) = (Duration::from_secs(600), BTreeSet::from(["a:/b/1".to_owned()]));
        let options = Volfile {
            caches_metadata: true,
            invalidates: true,
            cached_for: Some(hour),
            parallel_listings: true,
            bricks: 2,
            parts: 2,
            ..Volfile::default()
        };
        let bricks = Bricks { tried: bricks, report: Some(true), ..Bricks::default() };
        Examination { options, coherence: Coherence::Callback, valid: Some(hour), bricks: Ok(bricks) }
    }

    /// Returns the text of the problems, and whether the check fails.
    fn found(share: &Share, examined: Result<Examination, Failure>) -> (String, bool) {
        let Storage::Gluster(volume) = gluster("gv0") else { unreachable!("it is a volume") };
        let problems = problems(share, &volume, &examined);
        (problems.iter().map(|problem| format!("{problem}\n")).collect(), problems.iter().any(Problem::fails_check))
    }

    fn share() -> Share {
        Share { storage: gluster("gv0"), ..Share::new("s", "/d") }
    }

    #[test]
    fn a_volume_with_the_recommended_options_has_no_problem() {
        assert_eq!(found(&share(), Ok(recommended())), (String::new(), false));
        let text = Volume::new("gv0", &recommended()).text();
        assert_eq!(text, "gv0: frevo:coherence is callback, metadata is cached for 600 s; 2 bricks");
    }

    #[test]
    fn each_option_has_its_own_remedy() {
        let defaults =
            Volfile { bricks: 2, parts: 2, writes_behind: true, looks_up_groups: true, ..Default::default() };
        let examined = Examination { options: defaults, coherence: Coherence::Timestamp, ..recommended() };
        let (text, fails) = found(&share(), Ok(examined));
        assert!(!fails, "{text}");
        for option in ["performance.stat-prefetch on", "performance.cache-invalidation on", "server.manage-gids off"]
            .into_iter()
            .chain(["performance.parallel-readdir on", "performance.write-behind off"])
        {
            let expected = format!("warning: the volume gv0 does not have `{option}`: ");
            assert!(text.contains(&expected), "{expected}: {text}");
            assert!(text.contains(&format!("remedy: gluster volume set gv0 {option}")), "{option}: {text}");
        }
        assert!(text.contains("show after up to 2 s"), "{text}");
        let short = Volfile { cached_for: None, ..recommended().options };
        let (text, _) = found(&share(), Ok(Examination { options: short, ..recommended() }));
        assert_eq!(text.matches("warning").count(), 1, "{text}");
        assert!(text.contains("`performance.md-cache-timeout 600`: metadata is cached for 1 s only"), "{text}");
    }

    #[test]
    fn a_risk_for_data_fails_the_check() {
        let silent = Bricks { report: Some(false), ..Bricks::default() };
        let (text, fails) = found(&share(), Ok(Examination { bricks: Ok(silent), ..recommended() }));
        assert!(fails && text.contains("remedy: gluster volume set gv0 features.cache-invalidation on"), "{text}");
        let mut available = share();
        available.handles.continuously_available = true;
        let examined = Examination { coherence: Coherence::Exclusive, ..recommended() };
        assert_eq!(found(&available, Ok(examined.clone())), (String::new(), false));
        let behind = Volfile { writes_behind: true, ..examined.options };
        let (text, fails) = found(&available, Ok(Examination { options: behind, ..examined }));
        assert!(fails && text.contains("`performance.write-behind` of the volume gv0 breaks that promise"), "{text}");
    }

    #[test]
    fn bricks_with_small_attributes_are_named_if_the_share_needs_large_ones() {
        let refuse = BTreeSet::from(["a:/b/1".to_owned(), "b:/b/2".to_owned()]);
        let few = Bricks { refuse_large_attributes: refuse, ..Bricks::default() };
        let examined = Examination { bricks: Ok(few), ..recommended() };
        let mut share = share();
        let (text, fails) = found(&share, Ok(examined.clone()));
        assert!(!fails && text.contains("(a:/b/1, b:/b/2): longer alternate streams"), "{text}");
        share.streams = None;
        assert_eq!(found(&share, Ok(examined.clone())).0, "");
        share.acls.stored = Some(stored_acls());
        let (text, _) = found(&share, Ok(examined.clone()));
        assert!(text.contains("60,000 bytes (a:/b/1, b:/b/2): longer Windows ACLs are refused\n"), "{text}");
        let snapshot = Examination { bricks: Err(Errno::ROFS), ..examined };
        assert_eq!(found(&share, Ok(snapshot)).0, "", "nothing can be stored there");
    }

    #[test]
    fn shares_of_a_volume_with_different_settings_are_found() {
        let Storage::Gluster(volume) = server::testing::gluster("gv0") else { unreachable!("it is a volume") };
        let share = share();
        let exclusive = GlusterVolume { coherence: Some(Coherence::Exclusive), ..(*volume).clone() };
        let other = GlusterVolume { coherence: Some(Coherence::Callback), ..exclusive.clone() };
        let elsewhere = GlusterVolume { volume: "gv1".to_owned(), ..other.clone() };
        let found = |volumes: &[&GlusterVolume]| conflicts(volumes.iter().map(|volume| (&share, *volume)));
        assert!(found(&[&exclusive, &exclusive, &elsewhere]).is_empty());
        let problems = found(&[&exclusive, &other, &exclusive]);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.to_string().contains("of [s] cannot be used: another share"), "{problem}");
    }

    #[test]
    fn a_volume_that_cannot_be_used_fails_the_check() {
        let cases = [
            (
                Failure::Library("no library; install it".into()),
                "of [s] cannot be used: no library\n  remedy: install it",
            ),
            (Failure::Directory(Errno::NOENT), "the directory of [s] does not exist in the volume gv0: /d"),
            (Failure::Directory(Errno::NOTCONN), "in the volume gv0 cannot be opened ("),
        ];
        for (failure, expected) in cases {
            let (text, fails) = found(&share(), Err(failure));
            assert!(fails && text.contains(expected), "{expected}: {text}");
        }
    }
}
