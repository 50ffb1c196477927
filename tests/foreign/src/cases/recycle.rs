//! The recycle bin of Frevo has the same files as that of Samba after the same commands of smbclient.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, Server, Target, TestEnvironment};

pub(super) const CASES: &[Case] = &[Case::new("recycle.like_samba", like_samba).needs_root().frevo_only()];

/// `@TREE@` is a directory with one for each share.
const TEMPLATE: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
[plain]
	path = @TREE@/plain
	vfs objects = recycle
[tree]
	path = @TREE@/tree
	vfs objects = recycle streams_xattr
	recycle:repository = bin/%U/%S
	recycle:directory_mode = 0750
	recycle:subdir_mode = 0711
	recycle:keeptree = yes
	recycle:versions = yes
	recycle:noversions = *.doc
[picky]
	path = @TREE@/picky
	vfs objects = recycle
	recycle:exclude = *.tmp, ~* a?c
	recycle:exclude_dir = cache* one/two Build
	recycle:minsize = 3
	recycle:maxsize = 10
	recycle:keeptree = yes
[touched]
	path = @TREE@/touched
	vfs objects = recycle
	recycle:touch_mtime = yes
	recycle:versions = yes
";
const SHARES: [&str; 4] = ["plain", "tree", "picky", "touched"];

/// A step of a case.
enum Step {
    /// Commands of smbclient. The files `s2`, `s3`, `s10` and `s11` have as many bytes.
    Client(&'static str),
    /// A symbolic link to the target, made locally.
    Link(&'static str, &'static str),
    /// A hard link to the file, made locally.
    Name(&'static str, &'static str),
    /// The time of the last write is set to this second.
    Written(&'static str, i64),
}

use Step::{Client, Link, Name, Written};

/// The share and the steps of each case. The trees are compared after each.
const STEPS: &[(&str, &[Step])] = &[
    ("plain", &[Client("put s3 a; del a")]),
    ("plain", &[Client("put s10 a; del a")]),
    ("plain", &[Client("mkdir d; put s11 d/a; del d/a; put s2 d/b; del d/b; rmdir d")]),
    ("plain", &[Client("put s3 over; put s10 over")]),
    ("plain", &[Client("put s3 f; put s10 g; rename f g -f")]),
    ("plain", &[Client("del .recycle/b; put s2 c; rename c .recycle/c; del .recycle/c")]),
    ("plain", &[Name("hard", "g"), Client("del hard")]),
    ("plain", &[Name("g2", "g"), Client("del g; rename g2 hard; del hard")]),
    ("plain", &[Client("put s3 target"), Link("link", "target"), Client("del link")]),
    ("plain", &[Client("mkdir t; mkdir t/u; put s3 t/u/v; put s3 t/w; deltree t")]),
    ("plain", &[Client("put s3 ro; setmode ro +r; del ro; setmode ro -r; del ro")]),
    (
        "tree",
        &[Client("mkdir d; mkdir d/e; put s2 d/e/a; del d/e/a; put s3 d/e/a; del d/e/a; put s10 d/e/a; del d/e/a")],
    ),
    ("tree", &[Client("del \"bin/alice/tree/d/e/Copy #1 of a\"; put s11 d/e/a; del d/e/a")]),
    (
        "tree",
        &[Client("put s2 x.doc; del x.doc; put s3 x.doc; del x.doc; put s3 Y.DOC; del Y.DOC; put s2 Y.DOC; del Y.DOC")],
    ),
    ("tree", &[Client("put s2 d/file; put s3 d/file:stream; del d/file")]),
    ("tree", &[Client("mkdir bin/other; put s2 bin/other/a; del bin/other/a")]),
    ("tree", &[Client("put s2 @LONG@; del @LONG@; put s3 @LONG@; del @LONG@")]),
    ("tree", &[Client("rmdir d/e; put s2 \"sp ace #1\"; del \"sp ace #1\"; put s2 \"sp ace #1\"; del \"sp ace #1\"")]),
    ("picky", &[Client("put s2 s2; put s3 s3; put s10 s10; put s11 s11; del s*")]),
    ("picky", &[Client("put s3 A.TMP; put s3 ~x; put s3 ABC; put s3 abd; del A.TMP; del ~x; del ABC; del abd")]),
    (
        "picky",
        &[Client(
            "mkdir d; mkdir d/Cache1; mkdir d/Cache1/z; put s3 d/Cache1/z/a; del d/Cache1/z/a; put s3 d/a; del d/a",
        )],
    ),
    (
        "picky",
        &[Client(
            "mkdir one; mkdir one/two; put s3 one/two/a; del one/two/a; mkdir build; put s3 build/a; del build/a",
        )],
    ),
    ("touched", &[Client("put s3 a"), Written("a", 1_000_000_000), Client("del a")]),
    ("touched", &[Client("put s3 a"), Written("a", 1_000_000_000), Client("del a; put s3 a; rename a b; del b")]),
];

/// One of the servers and its tree.
struct Side<'a> {
    fixture: &'a Fixture,
    server: Server,
    tree: PathBuf,
    local: &'a Path,
}

fn like_samba(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let local = fixture.local("recycle")?;
    for size in [2, 3, 10, 11] {
        fs::write(local.join(format!("s{size}")), vec![b'x'; size])?;
    }
    let trees = [tree(fixture, "samba")?, tree(fixture, "frevo")?];
    let [for_samba, for_frevo] =
        [0, 1].map(|side: usize| TEMPLATE.replace("@TREE@", &trees[side].display().to_string()));
    let environment = TestEnvironment::make(Target::Samba)?;
    let (samba, frevo) = (environment.start("samba", &for_samba)?, fixture.environment.start("recycle", &for_frevo)?);
    let [for_samba, for_frevo] = trees;
    let samba = Side { fixture, server: samba, tree: for_samba, local: &local };
    let frevo = Side { fixture, server: frevo, tree: for_frevo, local: &local };
    for (number, (share, steps)) in STEPS.iter().enumerate() {
        let [expected, found] = [&samba, &frevo].map(|side| side.perform(share, steps));
        let (expected, found) = (expected?, found?);
        ensure!(expected == found, "case {number} on {share}: Samba has\n{expected:#?}\nand Frevo\n{found:#?}");
    }
    println!("    {} cases compared", STEPS.len());
    Ok(())
}

fn tree(fixture: &Fixture, name: &str) -> Result<PathBuf> {
    for share in SHARES {
        fixture.environment.make_dir(&format!("data/recycle-{name}/{share}"), &ALICE, 0o755)?;
    }
    Ok(fixture.share(&format!("recycle-{name}")))
}

impl Side<'_> {
    /// Performs the steps, and returns what is in the share then.
    fn perform(&self, share: &str, steps: &[Step]) -> Result<BTreeMap<String, String>> {
        let root = self.tree.join(share);
        for step in steps {
            match step {
                Client(commands) => {
                    let commands = format!("lcd {}; {commands}", self.local.display());
                    let commands = commands.replace("@LONG@", &"n".repeat(250));
                    self.fixture.smbclient().server(&self.server).share(share).run(&commands)?;
                }
                Link(name, target) => symlink(target, root.join(name))?,
                Name(name, file) => fs::hard_link(root.join(file), root.join(name))?,
                Written(name, second) => {
                    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(second.unsigned_abs());
                    fs::File::options().write(true).open(root.join(name))?.set_modified(time)?;
                }
            }
        }
        let mut found = BTreeMap::new();
        collect(&root, "", &mut found)?;
        Ok(found)
    }
}

/// Adds a description of everything below `directory`: kind, size, target, and whether the last write is recent.
fn collect(directory: &Path, prefix: &str, found: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let metadata = fs::symlink_metadata(entry.path())?;
        let description = if metadata.is_dir() {
            collect(&entry.path(), &format!("{name}/"), found)?;
            format!("directory {:o}", metadata.permissions().mode() & 0o7777)
        } else if metadata.is_symlink() {
            format!("link to {}", fs::read_link(entry.path())?.display())
        } else {
            let recent = if metadata.mtime() > 1_500_000_000 { "recent" } else { "old" };
            format!("file of {} bytes, {} names, {recent}, owner {}", metadata.len(), metadata.nlink(), metadata.uid())
        };
        found.insert(name, description);
    }
    Ok(())
}
