//! The files of the torture runner: lists of tests, the map to shares, the baseline, the expected failures.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::expected::{self, lines};

/// Reads a list of tests: a file, or the name of one in `xtask/torture`.
pub(super) fn tests(name: &str) -> Result<(PathBuf, Vec<String>)> {
    let named = crate::root().join("xtask/torture").join(name).with_extension("txt");
    let path = if named.exists() { named } else { PathBuf::from(name) };
    let tests = lines(&path)?;
    Ok((path, tests))
}

/// The kinds of servers of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Which {
    #[default]
    Plain,
    /// With mandatory signing and without change notification.
    Strict,
    /// With a keytab; smbtorture logs on with Kerberos.
    Tickets,
    /// With the user of the tests as an administrator.
    Administrated,
}

/// How one test is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// The share that it connects to.
    pub(super) share: String,
    /// The server that it connects to.
    pub(super) server: Which,
    /// Whether it needs two UNIX users.
    pub(super) users: bool,
    /// Further arguments for smbtorture.
    pub(super) arguments: Vec<String>,
    /// Why it is never run.
    pub(super) skip: Option<String>,
}

/// The map from tests to routes.
pub(super) struct Map(Vec<(String, Route)>);

/// The map of all tests, and that of tests on volumes, whose rules come first there.
const MAPS: [&str; 2] = ["map.txt", "map-gluster.txt"];

impl Map {
    pub(super) fn load(data: &Path, on_volume: bool) -> Result<Map> {
        let mut rules = Vec::new();
        let [all, gluster] = MAPS;
        for name in on_volume.then_some(gluster).into_iter().chain([all]) {
            for line in lines(&crate::root().join("xtask/torture").join(name))? {
                rules.push(rule(&line, data).with_context(|| name.to_owned())?);
            }
        }
        Ok(Map(rules))
    }

    pub(super) fn route(&self, test: &str) -> Route {
        let found = self.0.iter().find(|(pattern, _)| matches(pattern, test));
        found.map_or_else(|| Route { share: "share".into(), ..Route::default() }, |(_, route)| route.clone())
    }
}

fn rule(line: &str, data: &Path) -> Result<(String, Route)> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [pattern, share, rest] = columns[..] else { bail!("not three columns: {line:?}") };
    let mut route = Route::default();
    if share == "SKIP" {
        ensure!(!rest.is_empty(), "no reason: {line:?}");
        route.skip = Some(rest.to_owned());
        return Ok((pattern.to_owned(), route));
    }
    let share = share.strip_prefix("users:").inspect(|_| route.users = true).unwrap_or(share);
    let (share, server) = match share.split_once('@') {
        None => (share, Which::Plain),
        Some((share, "strict")) => (share, Which::Strict),
        Some((share, "tickets")) => (share, Which::Tickets),
        Some((share, "administrated")) => (share, Which::Administrated),
        Some((_, other)) => bail!("no such server: {other:?}"),
    };
    route.server = server;
    route.share = share.to_owned();
    let data = data.display().to_string();
    route.arguments = rest.split_whitespace().map(|word| word.replace("@DATA@", &data)).collect();
    Ok((pattern.to_owned(), route))
}

/// Returns whether a glob, in which `*` matches any characters, matches the whole text.
pub(super) fn matches(glob: &str, text: &str) -> bool {
    let Some((head, tail)) = glob.split_once('*') else { return glob == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(tail, &rest[at..]))
}

/// Results and seconds by test.
pub(super) type Table = BTreeMap<String, (String, f64)>;

fn table(path: &Path) -> Result<Table> {
    let row = |line: &String| {
        let mut columns = line.split('\t').map(str::to_owned);
        let (name, result, seconds) = (columns.next()?, columns.next()?, columns.next()?.parse().ok()?);
        Some((name, (result, seconds)))
    };
    let named = |line| row(line).with_context(|| format!("{}: {line:?}", path.display()));
    lines(path)?.iter().map(named).collect()
}

/// Returns Samba's results.
pub(super) fn baseline() -> Result<Table> {
    table(&crate::root().join("xtask/torture/samba417-baseline.tsv"))
}

/// Returns the results of the previous run, whose table this run replaces; empty if there was none.
pub(super) fn last(path: &Path) -> Table {
    table(path).unwrap_or_default()
}

/// One expected failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// The list file that contains it.
    pub(super) file: PathBuf,
    /// The reason of the failure.
    pub(super) reason: String,
}

/// The reason that `--update` writes. The run fails until it is replaced by an explanation.
pub(super) const UNEXPLAINED: &str = "UNEXPLAINED";

/// Returns the paths of the lists of torture tests.
fn files(on_volume: bool) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(expected::folder())?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let of_others = [expected::BUDGETS, expected::GUEST, expected::HOSTILE, expected::SOURCE].map(expected::list);
    files.retain(|file| !of_others.contains(file));
    files.retain(|file| on_volume || *file != expected::list(expected::GLUSTER));
    files.sort();
    Ok(files)
}

/// Returns all expected failures, of a run on a volume or on local files. A test may be in one file only.
pub(super) fn expected(on_volume: bool) -> Result<BTreeMap<String, Expected>> {
    let mut all: BTreeMap<String, Expected> = BTreeMap::new();
    for file in files(on_volume)? {
        for (name, reason) in expected::entries(&file)? {
            let entry = Expected { file: file.clone(), reason };
            if let Some(first) = all.insert(name.clone(), entry) {
                bail!("{name} is listed in {} and again in {}", first.file.display(), file.display());
            }
        }
    }
    Ok(all)
}

/// Removes the tests in `gone` from every file, and adds `new` (test, reason) to the list called `stem`.
pub(super) fn update(stem: &str, gone: &[&str], new: &[(String, String)]) -> Result<()> {
    let own = expected::list(stem);
    if !own.exists() {
        fs::write(
            &own,
            format!("# Tests of xtask/torture/{stem}.txt that Frevo does not pass, each with its reason.\n"),
        )?;
    }
    for path in files(false)? {
        let text = fs::read_to_string(&path)?;
        let is_gone = |line: &str| line.split_once('\t').is_some_and(|(name, _)| gone.contains(&name));
        let mut kept: Vec<String> = text.lines().filter(|line| !is_gone(line)).map(str::to_owned).collect();
        if path == own {
            kept.extend(new.iter().map(|(name, reason)| format!("{name}\t{reason}")));
        }
        fs::write(&path, kept.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_matched() {
        for (glob, text, expected) in [
            ("smb2.lock", "smb2.lock", true),
            ("smb2.lock", "smb2.lock.lock", false),
            ("smb2.lock*", "smb2.lock.lock", true),
            ("*.lock", "smb2.lock.lock", true),
            ("*lock*", "smb2.lock.x", true),
            ("*é", "é", true),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c--b", false),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
    }

    #[test]
    fn every_file_of_the_project_is_well_formed() {
        let mut all = tests("smb2").unwrap().1;
        let baseline = baseline().unwrap();
        assert_eq!(all.len(), 567);
        all.extend(tests("rpc").unwrap().1);
        assert_eq!(all.len(), 567 + 95);
        all.extend(tests("vfs").unwrap().1);
        assert_eq!(all.len(), 567 + 95 + 39);
        assert!(all.iter().all(|test| baseline.contains_key(test)));
        for entry in fs::read_dir(crate::root().join("xtask/torture")).unwrap() {
            let path = entry.unwrap().path();
            let is_map = MAPS.iter().any(|map| path.ends_with(map));
            if path.extension().is_some_and(|extension| extension == "txt") && !is_map {
                for test in tests(path.to_str().unwrap()).unwrap().1 {
                    assert!(all.contains(&test), "{}: no such test: {test}", path.display());
                }
            }
        }
        for test in expected(true).unwrap().keys() {
            assert!(all.contains(test), "expected-failures: no such test: {test}");
        }
        let map = Map::load(Path::new("/data"), false).unwrap();
        assert!(map.route("smb2.hold-oplock").skip.is_some());
        let plain = map.route("smb2.create.open");
        assert_eq!((plain.share.as_str(), plain.server, plain.users), ("share", Which::Plain, false));
        assert_eq!(map.route("smb2.session-require-signing.bug15397").server, Which::Strict);
        assert_eq!(map.route("smb2.session.expire1n").server, Which::Tickets);
        assert_eq!(map.route("rpc.lsa-getuser").server, Which::Administrated);
        assert!(map.route("smb2.session.reauth1").users);
        assert_eq!(map.route("vfs.fruit_netatalk.locking conflict").share, "vfs_fruit_xattr");
        let local = map.route("smb2.samba3misc.localposixlock1").arguments;
        assert_eq!(local, ["--option=torture:localdir=/data/share"]);
        let on_volume = Map::load(Path::new("/data"), true).unwrap();
        let shares_blocks = "smb2.ioctl.dup_extents_simple";
        assert!(on_volume.route(shares_blocks).skip.is_some() && map.route(shares_blocks).skip.is_none());
        assert_eq!(on_volume.route("smb2.ea.acl_xattr"), map.route("smb2.ea.acl_xattr"));
    }
}
