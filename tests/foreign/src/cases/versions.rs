//! Previous versions shown by smbclient: snapshots in directories, as served by Samba's module shadow_copy2.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, Disk, Server, Target, TestEnvironment};

pub(super) const CASES: &[Case] = &[
    Case::new("versions.read", read),
    Case::new("versions.refused", refused).frevo_only(),
    Case::new("versions.as_samba", as_samba).needs_root().frevo_only(),
    Case::new("versions.as_samba_on_btrfs", as_samba_on_btrfs).needs_root().frevo_only(),
];

const FIRST: &str = "@GMT-2015.10.31-19.40.30";
const SECOND: &str = "@GMT-2016.01.01-00.00.00";

/// Creates a file and two versions of it. Each contains its location.
fn prepare(fixture: &Fixture) -> Result<()> {
    let share = fixture.share("versions");
    for folder in ["", FIRST, SECOND]
        .map(|snapshot| if snapshot.is_empty() { share.clone() } else { share.join(".snapshots").join(snapshot) })
    {
        fs::create_dir_all(folder.join("dir"))?;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        file::owned(fixture, &folder.join("dir/file"), &name, &ALICE, 0o644)?;
    }
    Ok(())
}

fn read(fixture: &mut Fixture) -> Result<()> {
    prepare(fixture)?;
    let versions = fixture.smbclient().share("versions").run("allinfo dir/file")?.fine()?;
    let tokens: Vec<&str> = versions.lines().filter(|line| line.starts_with("@GMT-")).collect();
    ensure!(tokens == [SECOND, FIRST], "expected both versions, the latest first, in\n{versions}");
    let local = fixture.local("versions")?;
    for (name, content) in [("dir/file", "versions"), (&format!("{FIRST}/dir/file"), FIRST)] {
        let fetched = local.join("fetched");
        fixture.smbclient().share("versions").run(&format!("get {name} {}", fetched.display()))?.fine()?;
        let text = fs::read_to_string(&fetched)?;
        ensure!(text == content, "{name} is {text:?}");
    }
    fixture.smbclient().share("versions").run(&format!("ls {FIRST}/dir/*"))?.says("file")
}

fn refused(fixture: &mut Fixture) -> Result<()> {
    prepare(fixture)?;
    let sent = fixture.local("versions")?.join("sent");
    file::random(&sent, 100)?;
    for command in [
        format!("put {} {FIRST}/dir/new", sent.display()),
        format!("put {} {FIRST}/dir/file", sent.display()),
        format!("mkdir {FIRST}/new"),
        format!("del {FIRST}/dir/file"),
    ] {
        fixture.smbclient().share("versions").run(&command)?.refused_with("NT_STATUS_")?;
    }
    let snapshot = fixture.share("versions").join(".snapshots").join(FIRST);
    let text = fs::read_to_string(snapshot.join("dir/file"))?;
    ensure!(text == FIRST && !snapshot.join("new").exists() && !snapshot.join("dir/new").exists(), "it was modified");
    let none = "get @GMT-2014.01.01-00.00.00/dir/file /dev/null";
    fixture.smbclient().share("versions").run(none)?.refused_with("NT_STATUS_OBJECT_")
}

/// Shares whose snapshots are arranged in the ways of common programs and guides.
const LAYOUTS: &str = "[global]
@TARGET@
	vfs objects = shadow_copy2
[plain]
	path = @TREE@/plain
	shadow:mountpoint = @TREE@/plain
[prefix]
	path = @TREE@/prefix
	shadow:mountpoint = @TREE@/prefix
	shadow:snapprefix = ^[A-Za-z]*[0-9]\\{1,\\}$
	shadow:delimiter = _GMT
	shadow:format = _GMT-%Y.%m.%d-%H.%M.%S
[zfs]
	path = @TREE@/zfs
	shadow:mountpoint = @TREE@/zfs
	shadow:snapdir = .zfs/snapshot
	shadow:snapprefix = ^zfs-auto-snap_\\(frequent\\)\\{0,1\\}\\(hourly\\)\\{0,1\\}\\(daily\\)\\{0,1\\}$
	shadow:delimiter = -20
	shadow:format = -%Y-%m-%d-%H%M
[sanoid]
	path = @TREE@/sanoid
	shadow:mountpoint = @TREE@/sanoid
	shadow:snapdir = .zfs/snapshot
	shadow:snapprefix = ^autosnap
	shadow:delimiter = _
	shadow:format = _%Y-%m-%d_%H:%M:%S
	shadow:localtime = yes
	shadow:sort = asc
[snapper]
	path = @TREE@/snapper
	shadow:mountpoint = @TREE@/snapper
	shadow:snapdir = @TREE@/links
[everywhere]
	path = @TREE@/above/share
	shadow:mountpoint = @TREE@/above
	shadow:snapdirseverywhere = yes
[base]
	path = @TREE@/base/users/share
	shadow:mountpoint = @TREE@/base
	shadow:snapdir = @TREE@/elsewhere
	shadow:basedir = @TREE@/base/users
	shadow:format = daily-%d%b%Y
[seconds]
	path = @TREE@/seconds
	shadow:mountpoint = @TREE@/seconds
	shadow:sscanf = yes
	shadow:format = snap-%lu
";

/// The snapshots of [`LAYOUTS`]: the path of the snapshot, `//`, and that of a file in it.
const SNAPSHOTS: &[&str] = &[
    "plain/.snapshots/@GMT-2015.10.31-19.40.30//dir/file",
    "plain/.snapshots/@GMT-2016.01.01-00.00.00//dir/file",
    "plain/.snapshots/other//dir/file",
    "prefix/.snapshots/hourly1_GMT-2015.10.31-19.40.30//dir/file",
    "prefix/.snapshots/weekly22_GMT-2016.01.01-00.00.00//dir/file",
    "prefix/.snapshots/manual_GMT-2016.01.02-00.00.00//dir/file",
    "prefix/.snapshots/@GMT-2016.01.03-00.00.00//dir/file",
    "zfs/.zfs/snapshot/zfs-auto-snap_hourly-2015-10-31-1940//dir/file",
    "zfs/.zfs/snapshot/zfs-auto-snap_frequent-2016-01-01-0015//dir/file",
    "zfs/.zfs/snapshot/zfs-auto-snap_yearly-2016-01-02-0000//dir/file",
    "zfs/.zfs/snapshot/manual-2016-01-03-0000//dir/file",
    "sanoid/.zfs/snapshot/autosnap_2015-07-31_19:40:30_hourly//dir/file",
    "sanoid/.zfs/snapshot/autosnap_2016-01-01_00:00:00_monthly//dir/file",
    "sanoid/.zfs/snapshot/syncoid_2016-01-02_00:00:00//dir/file",
    "snapper/.snapshots/1/snapshot//dir/file",
    "snapper/.snapshots/2/snapshot//dir/file",
    "above/.snapshots/@GMT-2015.10.31-19.40.30//share/dir/file",
    "above/.snapshots/@GMT-2016.01.01-00.00.00//share/dir/file",
    "above/share/near/.snapshots/@GMT-2016.01.02-00.00.00//dir/file",
    "elsewhere/daily-31Oct2015//share/dir/file",
    "elsewhere/daily-01Jan2016 kept//share/dir/file",
    "seconds/.snapshots/snap-1446320430//dir/file",
    "seconds/.snapshots/snap-x//dir/file",
];

/// The current files.
const CURRENT: &[(&str, &str)] = &[
    ("plain", "dir/file"),
    ("prefix", "dir/file"),
    ("zfs", "dir/file"),
    ("sanoid", "dir/file"),
    ("snapper", "dir/file"),
    ("everywhere", "dir/file"),
    ("everywhere", "near/dir/file"),
    ("base", "dir/file"),
    ("seconds", "dir/file"),
];

/// The directories of [`LAYOUTS`] that are subvolumes on btrfs. Each is the mount point that the servers find.
const SUBVOLUMES: [&str; 8] = ["plain", "prefix", "zfs", "sanoid", "snapper", "seconds", "above", "base/users"];

/// Lists the versions of files in [`LAYOUTS`] through Samba and Frevo, and reads them through Frevo.
fn as_samba(fixture: &mut Fixture) -> Result<()> {
    let tree = fixture.environment.make_dir("data/layouts", &ALICE, 0o755)?;
    arrange(&tree, false)?;
    compare(fixture, "layouts", &LAYOUTS.replace("@TREE@", &tree.display().to_string()))
}

/// The same with snapshots of btrfs and without `shadow:mountpoint`, in a mount namespace that ends with its thread.
fn as_samba_on_btrfs(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let done = std::thread::scope(|scope| {
        let compared = scope.spawn(|| {
            let disk = Disk::with(&fixture.environment.dir().join("data"), mkfs(), "loop")?;
            let tree = disk.point().join("layouts");
            fs::create_dir(&tree)?;
            arrange(&tree, true)?;
            let template = LAYOUTS.replace("@TREE@", &tree.display().to_string());
            let found = template.lines().filter(|line| !line.contains("shadow:mountpoint"));
            compare(fixture, "btrfs", &found.collect::<Vec<_>>().join("\n"))
        });
        compared.join()
    });
    done.map_err(|_| anyhow!("the thread with the file system panicked"))?
}

fn mkfs() -> Command {
    let mut command = Command::new("mkfs.btrfs");
    command.arg("-q");
    command
}

fn compare(fixture: &Fixture, name: &str, template: &str) -> Result<()> {
    let environment = TestEnvironment::make(Target::Samba)?;
    let samba = environment.start("samba", template)?;
    let frevo = fixture.environment.start(name, template)?;
    let local = fixture.local("layouts")?;
    for (share, name) in CURRENT {
        let listed = versions(fixture, &samba, share, name)?;
        ensure!(!listed.is_empty(), "Samba lists no versions of {share}/{name}");
        let own = versions(fixture, &frevo, share, name)?;
        ensure!(own == listed, "{share}/{name}: Samba lists {listed:?}, Frevo {own:?}");
        for version in &own {
            let fetched = local.join("fetched");
            let get = format!("get {version}/{name} {}", fetched.display());
            fixture.smbclient().server(&frevo).share(share).run(&get)?.fine().context(format!("{share} {get}"))?;
            let content = fs::read_to_string(&fetched)?;
            ensure!(SNAPSHOTS.contains(&content.as_str()), "{share}: {version} of {name} is {content:?}");
        }
    }
    Ok(())
}

/// Creates the files. Each contains its path. With `btrfs`, each snapshot is one of an empty subvolume.
fn arrange(tree: &Path, btrfs: bool) -> Result<()> {
    let subvolume = |arguments: &[&str], path: &Path| {
        fs::create_dir_all(path.parent().context("a subvolume is in a directory")?)?;
        let mut command = Command::new("btrfs");
        let done = command.arg("subvolume").args(arguments).arg(path).output().context("cannot start btrfs")?;
        ensure!(done.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&done.stderr));
        Ok(())
    };
    let seed = tree.join("seed");
    if btrfs {
        SUBVOLUMES.iter().chain([&"seed"]).try_for_each(|name| subvolume(&["create"], &tree.join(name)))?;
        for (snapshot, _) in SNAPSHOTS.iter().filter_map(|name| name.split_once("//")) {
            let source = seed.to_str().context("a UTF-8 path")?;
            subvolume(&["snapshot", source], &tree.join(snapshot))?;
        }
    }
    let directories = [("everywhere", "above/share"), ("base", "base/users/share")];
    let current = CURRENT.iter().map(|(share, name)| {
        let at = directories.iter().find(|(other, _)| other == share).map_or(*share, |(_, at)| at);
        format!("{at}/{name}")
    });
    for name in SNAPSHOTS.iter().map(|name| (*name).to_owned()).chain(current) {
        let path = tree.join(&name);
        fs::create_dir_all(path.parent().context("a file is in a directory")?)?;
        fs::write(&path, name)?;
    }
    let links = tree.join("links");
    fs::create_dir(&links)?;
    symlink(tree.join("snapper/.snapshots/1/snapshot"), links.join(FIRST))?;
    symlink("../snapper/.snapshots/2/snapshot", links.join(SECOND))?;
    Ok(())
}

/// Returns the versions of a file that smbclient lists, in order.
fn versions(fixture: &Fixture, server: &Server, share: &str, name: &str) -> Result<Vec<String>> {
    let said = fixture.smbclient().server(server).share(share).run(&format!("allinfo {name}"))?.text;
    Ok(said.lines().filter(|line| line.starts_with("@GMT-")).map(str::to_owned).collect())
}
