//! Directories in which clients see nothing are deleted as by Samba (`delete veto files`).

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cases::twins::{Twin, Twins};
use crate::fixture::Fixture;
use crate::mount::Mount;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] = &[
    Case::new("vetoed.directories_are_deleted_as_by_samba", as_by_samba).needs_root().frevo_only(),
    Case::new("vetoed.mounts_stay", mounts_stay).needs_root().frevo_only(),
];

/// `@TREE@` is a directory with one for each share.
const TEMPLATE: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
	map archive = no
[delete]
	path = @TREE@/delete
	veto files = /.veto*/*.tmp/
	delete veto files = yes
[keep]
	path = @TREE@/keep
	veto files = /.veto*/*.tmp/
[mac]
	path = @TREE@/mac
	vfs objects = fruit streams_xattr
	delete veto files = yes
[bin]
	path = @TREE@/bin
	veto files = /.veto*/*.tmp/
	vfs objects = recycle
	recycle:keeptree = yes
	delete veto files = yes
";
const SHARES: [&str; 4] = ["delete", "keep", "mac", "bin"];

/// The directories of each share, with what is in them. A path with an arrow is a link to its target.
const DIRECTORIES: &[(&str, &[&str])] = &[
    ("files", &["a.tmp", "B.TMP"]),
    ("visible", &["a.tmp", ".veto/in", "file"]),
    ("deep", &[".veto1/in", ".veto1/deep/er", ".veto1/deep/x.tmp", ".veto2/._in"]),
    ("below", &["sub/a.tmp"]),
    ("links", &["l.tmp>../target", "m.tmp>../target/kept", "n.tmp>nowhere"]),
    ("doubles", &["._gone", "._empty"]),
    ("double", &["file", "._file"]),
];

fn as_by_samba(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let trees = ["data/vetoed-samba", "data/vetoed-frevo"];
    let [for_samba, for_frevo] = trees.map(|tree| fixture.environment.make_dir(tree, &ALICE, 0o777));
    let trees = [&*for_samba?, &*for_frevo?];
    for tree in trees {
        for share in SHARES {
            fill(&tree.join(share))?;
        }
    }
    let twins = Twins::start(fixture, "vetoed", TEMPLATE, trees)?;
    for share in SHARES {
        let names = DIRECTORIES.iter().map(|(name, _)| *name);
        let arguments: Vec<_> = [share].into_iter().chain(names).collect();
        let [samba, frevo] =
            [Twin::Samba, Twin::Frevo].map(|twin| twins.script(fixture, twin, "delete_directories.py", &arguments));
        let (samba, frevo) = (samba?, frevo?);
        // Without `delete veto files`, Samba answers that the directory is deleted, and refuses the CLOSE.
        ensure!(samba == frevo || share == "keep", "{share}: Samba answers\n{samba}\nFrevo answers\n{frevo}");
        let [samba, frevo] = trees.map(|tree| paths(&tree.join(share)));
        let (samba, frevo) = (samba?, frevo?);
        ensure!(samba == frevo, "{share}: Samba leaves\n{samba:#?}\nFrevo leaves\n{frevo:#?}");
        let is_there = |name: &str| frevo.iter().any(|path| path == name);
        ensure!(is_there("target/kept"), "{share}: a link was followed");
        ensure!(is_there("files/a.tmp") == (share == "keep" || share == "mac"), "{share}: {frevo:#?}");
    }
    Ok(())
}

/// What is mounted in a vetoed directory stays, also if it is on the same file system.
fn mounts_stay(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let make = |name: &str| fixture.environment.make_dir(name, &ALICE, 0o777);
    let source = make("data/vetoed-source")?;
    let [place, plain] =
        ["mounts", "plain"].map(|name| make(&format!("data/vetoed-mounts/delete/{name}/.veto/directory")));
    let (place, plain) = (place?, plain?);
    for path in place.ancestors().take(4).chain(plain.ancestors().take(3)) {
        lchown(path, Some(ALICE.id), Some(ALICE.id))?;
    }
    fs::write(source.join("kept"), "kept")?;
    lchown(source.join("kept"), Some(ALICE.id), Some(ALICE.id))?;
    let tree = fixture.share("vetoed-mounts");
    // The server sees what was mounted before it was started.
    let _mount = Mount::bind(&source, &place)?;
    let server =
        fixture.environment.start("vetoed-server", &TEMPLATE.replace("@TREE@", &tree.display().to_string()))?;
    let delete = |name| fixture.smbclient().server(&server).share("delete").run(&format!("rmdir {name}"));
    let said = delete("mounts")?.text;
    ensure!(said.contains("NT_STATUS_DIRECTORY_NOT_EMPTY"), "{said}");
    ensure!(source.join("kept").exists(), "a file behind the mount point was deleted");
    delete("plain")?.fine()?;
    ensure!(!tree.join("delete/plain").exists(), "the directory without a mount is not deleted");
    Ok(())
}

/// Creates the directories of a share.
fn fill(share: &Path) -> Result<()> {
    let target = [("target", &["kept"][..])];
    for (directory, contents) in DIRECTORIES.iter().chain(&target) {
        for name in *contents {
            let (name, link) = name.split_once('>').map_or((*name, None), |(name, target)| (name, Some(target)));
            let path = share.join(directory).join(name);
            let parent = path.parent().context("it is in a directory")?;
            fs::create_dir_all(parent)?;
            match link {
                Some(target) => symlink(target, &path)?,
                None => fs::write(&path, name)?,
            }
            for path in path.ancestors().take_while(|path| path.starts_with(share)) {
                lchown(path, Some(ALICE.id), Some(ALICE.id))?;
            }
        }
    }
    Ok(fs::set_permissions(share, Permissions::from_mode(0o777))?)
}

/// Returns the paths in a directory, sorted.
fn paths(directory: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            all.push(entry.path().strip_prefix(directory)?.display().to_string());
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    all.sort_unstable();
    Ok(all)
}
