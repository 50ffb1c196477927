//! The audit of Frevo has the lines of Samba's full_audit after the same commands of smbclient.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, Server, Target, TestEnvironment};

pub(super) const CASES: &[Case] = &[Case::new("audit.like_samba", like_samba).needs_root().frevo_only()];

/// `@TREE@` is the directory of the share. Samba writes to its log, and Frevo to a file.
const TEMPLATE: &str = "[global]
@TARGET@
	netbios name = BED
	log level = 1
[watched]
	path = @TREE@/watched
	read only = no
	vfs objects = full_audit
	full_audit:prefix = audit|%U|%S
	full_audit:success = all
	full_audit:failure = all
	full_audit:syslog = no
	frevo:audit file = @TREE@/audit.json
[some]
	path = @TREE@/watched
	read only = no
	vfs objects = full_audit
	full_audit:prefix = audit|%u|%I|%S
	full_audit:success = connect disconnect mkdirat renameat unlinkat !disconnect
	full_audit:failure = none
	full_audit:syslog = no
	frevo:audit file = @TREE@/audit.json
[refused]
	path = @TREE@/watched
	vfs objects = full_audit
	full_audit:success = connect mkdir
";

/// The share and the commands of each step. The lines are compared after each.
const STEPS: &[(&str, &str)] = &[
    ("watched", "exit"),
    ("watched", "mkdir d"),
    ("watched", "put file d/f"),
    ("watched", "put file d/f"),
    ("watched", "get d/f copied"),
    ("watched", "get D/F copied"),
    ("watched", "rename d/f d/g"),
    ("watched", "setmode d/g +h"),
    ("watched", "utimes d/g 2020:01:01-00:00:00 2021:01:01-00:00:00 2022:01:01-00:00:00 2023:01:01-00:00:00"),
    ("watched", "hardlink d/g d/h"),
    ("watched", "scopy d/g d/i"),
    ("watched", "ls d/*"),
    ("watched", "allinfo d/g"),
    ("watched", "mkdir d"),
    ("watched", "get gone"),
    ("watched", "rmdir d"),
    ("watched", "get locked/f"),
    ("watched", "mkdir locked/d"),
    ("watched", "rename d d2"),
    ("watched", "del d2/g"),
    ("watched", "deltree d2"),
    ("some", "mkdir e; rename e f; put file f/x; del f/x; rmdir f"),
];

/// Operations that Frevo also records if they fail before Samba calls its VFS. Lines of Samba must be among those of
/// Frevo.
const FAILING_EARLIER: &[&str] = &["create_file", "mkdirat", "renameat"];

/// Operations whose lines must be equal.
const EQUAL: &[&str] = &[
    "connect",
    "disconnect",
    "create_file",
    "mkdirat",
    "renameat",
    "unlinkat",
    "linkat",
    "pread_send",
    "pread_recv",
    "pwrite_send",
    "pwrite_recv",
    "ftruncate",
    "offload_read_send",
    "offload_read_recv",
    "offload_write_send",
    "offload_write_recv",
];

/// Operations that Samba's VFS also performs for its own purposes, such as opening each directory of a path. Lines of
/// Frevo must be among those of Samba.
const AMONG: &[&str] = &["openat", "close", "fdopendir", "closedir", "fset_dos_attributes", "fntimes"];

/// One of the servers and its share.
struct Side<'a> {
    fixture: &'a Fixture,
    server: Server,
    tree: PathBuf,
    local: &'a Path,
}

fn like_samba(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let local = fixture.local("audit")?;
    fs::write(local.join("file"), "content")?;
    let trees = [tree(fixture, "samba")?, tree(fixture, "frevo")?];
    let [for_samba, for_frevo] =
        [0, 1].map(|side: usize| TEMPLATE.replace("@TREE@", &trees[side].display().to_string()));
    let environment = TestEnvironment::make(Target::Samba)?;
    let (samba, frevo) = (environment.start("samba", &for_samba)?, fixture.environment.start("audit", &for_frevo)?);
    let [for_samba, for_frevo] = trees;
    let samba = Side { fixture, server: samba, tree: for_samba, local: &local };
    let frevo = Side { fixture, server: frevo, tree: for_frevo, local: &local };
    let mut recorded = BTreeSet::new();
    for (share, commands) in STEPS {
        let (expected, found) = (samba.perform(share, commands)?, frevo.perform(share, commands)?);
        compare(&expected, &found)
            .with_context(|| format!("{commands:?} on {share}: Samba has\n{expected:#?}\nand Frevo\n{found:#?}"))?;
        recorded.extend(found.into_iter().map(|(operation, ..)| operation));
    }
    for operation in EQUAL.iter().chain(AMONG) {
        ensure!(recorded.contains(*operation), "Frevo never has {operation}");
    }
    for side in [&samba, &frevo] {
        let output = fixture.smbclient().server(&side.server).share("refused").run("ls")?;
        ensure!(output.text.contains("tree connect failed"), "an unknown operation: {}", output.text);
    }
    println!("    {} cases compared", STEPS.len());
    Ok(())
}

fn tree(fixture: &Fixture, name: &str) -> Result<PathBuf> {
    fixture.environment.make_dir(&format!("data/audit-{name}/watched"), &ALICE, 0o755)?;
    let tree = fixture.share(&format!("audit-{name}"));
    let locked = tree.join("watched/locked");
    fs::create_dir(&locked)?;
    fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(tree)
}

/// A line without its prefix: operation, result and arguments. The directory of the share is `@`.
type Line = (String, String, String);

impl Side<'_> {
    /// Performs the commands, and returns the lines that they cause.
    fn perform(&self, share: &str, commands: &str) -> Result<BTreeSet<Line>> {
        let before = self.lines()?.len();
        let commands = format!("lcd {}; {commands}", self.local.display());
        self.fixture.smbclient().server(&self.server).share(share).run(&commands)?;
        // The line that is last arrives after smbclient has ended.
        let last = if share == "some" { "|unlinkat|ok|@/f" } else { "|disconnect|ok|watched" };
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let lines = self.lines()?.split_off(before);
            if lines.iter().any(|line| line.ends_with(last)) {
                return lines.iter().map(|line| parsed(line, share)).collect();
            }
            ensure!(Instant::now() < end, "no line {last:?} of {:?} in {lines:#?}", self.server.target());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns all lines up to now.
    fn lines(&self) -> Result<Vec<String>> {
        let lines = match self.server.target() {
            Target::Samba => self.of_samba()?,
            Target::Frevo => self.of_frevo()?,
        };
        let root = self.tree.join("watched").display().to_string();
        Ok(lines.into_iter().map(|line| line.replace(&root, "@")).collect())
    }

    fn of_samba(&self) -> Result<Vec<String>> {
        let directory = self.server.conf().parent().context("the directory of the configuration")?.join("log");
        let mut lines = Vec::new();
        let mut files: Vec<_> = fs::read_dir(directory)?.collect::<std::io::Result<_>>()?;
        files.sort_by_key(fs::DirEntry::path);
        for file in files.into_iter().filter(|file| file.path().is_file()) {
            let text = fs::read(file.path())?;
            let text = String::from_utf8_lossy(&text);
            lines.extend(text.lines().map(str::trim).filter(|line| line.starts_with("audit|")).map(str::to_owned));
        }
        Ok(lines)
    }

    fn of_frevo(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.tree.join("audit.json")).unwrap_or_default();
        // A line that is being written is not complete yet.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(|line| Ok(as_text(&serde_json::from_str(line)?))).collect()
    }
}

/// Returns the line of a JSON object.
fn as_text(object: &serde_json::Value) -> String {
    let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let result = match object["error"].as_str() {
        Some(error) => format!("fail ({error})"),
        None => text("result"),
    };
    let arguments: Vec<&str> =
        object["arguments"].as_array().into_iter().flatten().filter_map(|it| it.as_str()).collect();
    format!("{}|{}|{result}|{}", text("prefix"), text("operation"), arguments.join("|"))
}

/// Checks the prefix, and returns the rest. Samba's reasons of failures are those of unrelated calls at times.
fn parsed(line: &str, share: &str) -> Result<Line> {
    let prefix = if share == "some" { "audit|alice|127.0.0.1|some|" } else { "audit|alice|watched|" };
    let Some(rest) = line.strip_prefix(prefix) else { bail!("the line {line:?} does not start with {prefix:?}") };
    let mut parts = rest.splitn(3, '|');
    let mut part = || parts.next().unwrap_or_default();
    let (operation, result, arguments) = (part(), part(), part());
    let result = if result.starts_with("fail (") { "fail" } else { result };
    Ok((operation.to_owned(), result.to_owned(), arguments.to_owned()))
}

fn compare(samba: &BTreeSet<Line>, frevo: &BTreeSet<Line>) -> Result<()> {
    for line in frevo.difference(samba) {
        let (operation, result, _) = line;
        ensure!(result == "fail" && FAILING_EARLIER.contains(&&**operation), "only Frevo has {line:?}");
    }
    for line in samba.difference(frevo) {
        let (operation, ..) = line;
        ensure!(!EQUAL.contains(&&**operation), "only Samba has {line:?}");
    }
    Ok(())
}
