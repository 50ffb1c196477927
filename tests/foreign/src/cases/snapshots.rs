//! Snapshots that the server finds without configuration, and those that `frevo snapshot` creates on btrfs, as
//! smbclient shows them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use test_environment::{ALICE, Disk, Server, frevo};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("snapshots.found", found).needs_root().frevo_only(),
    Case::new("snapshots.of_others_ignored", of_others_ignored).needs_root().frevo_only(),
    Case::new("snapshots.many", many).needs_root().frevo_only(),
    Case::new("snapshots.created_on_btrfs", created_on_btrfs).needs_root().frevo_only(),
    Case::new("snapshots.pruned_on_btrfs", pruned_on_btrfs).needs_root().frevo_only(),
    Case::new("snapshots.kept_after_a_rollback", kept_after_a_rollback).needs_root().frevo_only(),
    Case::new("snapshots.kept_for_all_shares", kept_for_all_shares).needs_root().frevo_only(),
    Case::new("snapshots.of_the_share_itself", of_the_share_itself).needs_root().frevo_only(),
    Case::new("snapshots.removed_with_an_open_file", removed_with_an_open_file).needs_root().frevo_only(),
];

const FIRST: &str = "@GMT-2015.10.31-19.40.30";

/// Directories that stand for snapshots of the programs that create them, with their versions.
const LAYOUTS: &[(&str, &str)] = &[
    (".snapshots/@GMT-2015.10.31-19.40.30", FIRST),
    (".snapshots/7/snapshot", "@GMT-2015.11.01-00.00.00"),
    (".snapshots/found.20151102T0000+0000", "@GMT-2015.11.02-00.00.00"),
    (".zfs/snapshot/zfs-auto-snap_hourly-2015-11-03-0000", "@GMT-2015.11.03-00.00.00"),
];

/// Names that are not snapshots of the share.
const OTHERS: &[&str] = &[".snapshots/other.20151105T0000", ".snapshots/8/snapshot", ".snapshots/manual"];

fn found(fixture: &mut Fixture) -> Result<()> {
    let share = fixture.environment.make_dir("data/found", &ALICE, 0o755)?;
    file::owned(fixture, &share.join("file"), "now", &ALICE, 0o644)?;
    for (at, _) in LAYOUTS {
        snapshot(fixture, &share.join(at), at)?;
    }
    for at in OTHERS {
        snapshot(fixture, &share.join(at), at)?;
    }
    fs::write(share.join(".snapshots/7/info.xml"), "<snapshot><date>2015-11-01 00:00:00</date></snapshot>")?;
    fs::write(share.join(".snapshots/8/info.xml"), format!("{:20000}<date>2015-11-04 00:00:00</date>", ""))?;
    symlink(share.join(".snapshots/7"), share.join(".snapshots/@GMT-2016.01.01-00.00.00"))?;
    for (name, target) in [("up", "../../../file"), ("out", "/etc/hostname")] {
        symlink(target, share.join(".snapshots").join(FIRST).join(name))?;
    }
    let server = start(fixture, "found")?;
    let mut expected: Vec<&str> = LAYOUTS.iter().map(|(_, version)| *version).collect();
    expected.push("@GMT-2016.01.01-00.00.00");
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let listed = versions(fixture, &server, "found", "file")?;
    ensure!(listed == expected, "expected {expected:?}, listed {listed:?}");
    for (at, version) in LAYOUTS {
        let content = fetch(fixture, &server, "found", &format!("{version}/file"))?;
        ensure!(content == *at, "{version} is {content:?}");
    }
    // A link among the snapshots is not followed, and none in a snapshot leads out of it.
    for name in ["@GMT-2016.01.01-00.00.00/snapshot/file", &format!("{FIRST}/up"), &format!("{FIRST}/out")] {
        let get = format!("get {name} /dev/null");
        fixture.smbclient().server(&server).share("found").run(&get)?.refused_with("NT_STATUS_")?;
    }
    // A new snapshot is shown at once.
    snapshot(fixture, &share.join(".snapshots/@GMT-2017.01.01-00.00.00"), "new")?;
    let listed = versions(fixture, &server, "found", "file")?;
    ensure!(listed.first().is_some_and(|first| first == "@GMT-2017.01.01-00.00.00"), "listed {listed:?}");
    Ok(())
}

/// Alice makes her own `.snapshots`, and directories that others may write to.
fn of_others_ignored(fixture: &mut Fixture) -> Result<()> {
    let share = fixture.environment.make_dir("data/forged", &ALICE, 0o777)?;
    file::owned(fixture, &share.join("file"), "now", &ALICE, 0o644)?;
    let at = share.join(".snapshots");
    snapshot(fixture, &at.join(FIRST), "forged")?;
    let server = start(fixture, "forged")?;
    let status = fs::metadata(share.join("file"))?;
    let alice = std::os::unix::fs::MetadataExt::uid(&status);
    for (owner, mode, seen) in [(0, 0o755, 1), (alice, 0o755, 0), (0, 0o775, 0), (0, 0o757, 0), (0, 0o700, 0)] {
        chown(&at, Some(owner), Some(0))?;
        fs::set_permissions(&at, fs::Permissions::from_mode(mode))?;
        let listed = versions(fixture, &server, "forged", "file")?;
        ensure!(listed.len() == seen, "{owner} {mode:o}: {listed:?}");
        let get = fixture.smbclient().server(&server).share("forged").run(&format!("get {FIRST}/file /dev/null"))?;
        if seen > 0 { get.fine().map(drop)? } else { get.refused_with("NT_STATUS_OBJECT_")? }
    }
    // A link to a directory of root is not followed.
    chown(&at, Some(0), Some(0))?;
    fs::set_permissions(&at, fs::Permissions::from_mode(0o755))?;
    fs::rename(&at, share.join("elsewhere"))?;
    symlink("elsewhere", &at)?;
    let listed = versions(fixture, &server, "forged", "file")?;
    ensure!(listed.is_empty(), "a link was followed: {listed:?}");
    Ok(())
}

/// One of ten thousand snapshots is found, and a thousand are listed. smbclient has no space for more names.
fn many(fixture: &mut Fixture) -> Result<()> {
    let share = fixture.environment.make_dir("data/many", &ALICE, 0o755)?;
    file::owned(fixture, &share.join("file"), "now", &ALICE, 0o644)?;
    let at = share.join(".snapshots");
    fs::create_dir(&at)?;
    let names: Vec<String> = (0..10_000)
        .map(|number| (number / 3600, number / 60 % 60, number % 60))
        .map(|(hour, minute, second)| format!("@GMT-2015.10.31-{hour:02}.{minute:02}.{second:02}"))
        .collect();
    names.iter().try_for_each(|name| fs::create_dir(at.join(name)))?;
    let last = names.last().context("there are names")?;
    snapshot(fixture, &at.join(last), "last")?;
    let server = start(fixture, "many")?;
    let content = fetch(fixture, &server, "many", &format!("{last}/file"))?;
    ensure!(content == "last", "it is {content:?}");
    names[1_000..].iter().try_for_each(|name| fs::remove_dir_all(at.join(name)))?;
    let listed = versions(fixture, &server, "many", "file")?;
    ensure!(listed.len() == 1_000 && listed.last() == names.first(), "{} are listed", listed.len());
    Ok(())
}

fn created_on_btrfs(fixture: &mut Fixture) -> Result<()> {
    on_btrfs(fixture, |fixture, point| {
        let share = point.join("data/part");
        btrfs(&["subvolume", "create"], &point.join("data"))?;
        fs::create_dir(&share)?;
        fs::set_permissions(&share, fs::Permissions::from_mode(0o777))?;
        file::owned(fixture, &share.join("file"), "before", &ALICE, 0o644)?;
        let template = format!(
            "[global]\n@TARGET@\n\tfrevo:snapshots = auto\n\tfrevo:snapshot schedule = daily 2\n[part]\n\tpath = {0}\n\
             \tread only = no\n[whole]\n\tpath = {1}\n",
            share.display(),
            point.join("data").display()
        );
        let server = fixture.environment.start("created", &template)?;
        let dry = frevo_snapshot(&server, &["run", "--dry-run"])?;
        ensure!(dry[0]["created"].is_string() && !point.join("data/.snapshots").exists(), "{dry}");
        let made = frevo_snapshot(&server, &["run"])?;
        ensure!(made.as_array().is_some_and(|made| made.len() == 1), "two shares in one subvolume: {made}");
        let version = made[0]["created"].as_str().context("nothing was created")?.to_owned();
        // The schedule wants no second one today, unless the day has just ended.
        let again = frevo_snapshot(&server, &["run"])?;
        ensure!(again[0]["created"].is_null() || again[0]["created"] != made[0]["created"], "{again}");
        let refused =
            Command::new("touch").arg(point.join("data/.snapshots").join(&version).join("part/new")).output()?;
        ensure!(!refused.status.success(), "the snapshot can be changed");
        let client = || fixture.smbclient().server(&server);
        client().share("part").run("del file")?.fine()?;
        let sent = fixture.local("created")?.join("sent");
        fs::write(&sent, "after")?;
        client().share("part").run(&format!("put {} file", sent.display()))?.fine()?;
        for (share, name) in [("part", "file"), ("whole", "part/file")] {
            let listed = versions(fixture, &server, share, name)?;
            ensure!(listed.contains(&version), "{share}: {listed:?} lacks {version}");
            let content = fetch(fixture, &server, share, &format!("{version}/{name}"))?;
            ensure!(content == "before", "{share}: {content:?}");
        }
        let now = fetch(fixture, &server, "part", "file")?;
        ensure!(now == "after", "{now:?}");
        client().share("whole").run("del .snapshots/*")?;
        ensure!(point.join("data/.snapshots").join(&version).join("part/file").exists(), "a client removed it");
        Ok(())
    })
}

fn pruned_on_btrfs(fixture: &mut Fixture) -> Result<()> {
    on_btrfs(fixture, |fixture, point| {
        let share = point.join("pruned");
        btrfs(&["subvolume", "create"], &share)?;
        let template = format!(
            "[global]\n@TARGET@\n[pruned]\n\tpath = {}\n\tfrevo:snapshot schedule = yearly 1\n",
            share.display()
        );
        let server = fixture.environment.start("pruned", &template)?;
        let mut made: Vec<String> = Vec::new();
        while made.len() < 3 {
            let done = frevo_snapshot(&server, &["create", "pruned"]);
            match done {
                Ok(done) => made.push(done[0]["created"].as_str().context("nothing was created")?.to_owned()),
                // Snapshots have different seconds.
                Err(why) if why.to_string().contains("wait a second") => {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                }
                Err(why) => return Err(why),
            }
        }
        let at = share.join(".snapshots");
        // Another program's snapshot, and a directory that replaces one of this program.
        let manual = at.join("@GMT-2015.10.31-19.40.30");
        let source = share.to_str().context("a UTF-8 path")?;
        btrfs(&["subvolume", "snapshot", "-r", source], &manual)?;
        btrfs(&["subvolume", "delete"], &at.join(&made[0]))?;
        fs::create_dir(at.join(&made[0]))?;
        let refused = while_locked(&at.join(".frevo-snapshots.lock"), || frevo_snapshot(&server, &["prune"]))?;
        ensure!(refused.is_err_and(|why| why.to_string().contains("another run")), "two runs at once");
        // Others could hold such a lock for ever.
        let set_mode = |mode| fs::set_permissions(at.join(".frevo-snapshots.lock"), fs::Permissions::from_mode(mode));
        set_mode(0o644)?;
        let refused = frevo_snapshot(&server, &["prune"]);
        ensure!(refused.is_err_and(|why| why.to_string().contains("opened by others")), "a lock of others was used");
        set_mode(0o600)?;
        let dry = frevo_snapshot(&server, &["prune", "--dry-run"])?;
        ensure!(dry[0]["removed"][0] == *made[1] && at.join(&made[1]).exists(), "{dry}");
        // Every user can lock a directory that they can read.
        let done = while_locked(&at, || frevo_snapshot(&server, &["prune"]))??;
        ensure!(done[0]["removed"].as_array().is_some_and(|removed| removed.len() == 1), "{done}");
        ensure!(!at.join(&made[1]).exists() && at.join(&made[2]).exists(), "{done}");
        ensure!(manual.exists() && at.join(&made[0]).exists(), "what others made is gone");
        // A record that a killed run left, with a snapshot that was not created.
        let record = at.join(".frevo-snapshots");
        let kept = fs::read_to_string(&record)?;
        let line = kept.lines().next().context("the record is empty")?;
        fs::write(&record, format!("{kept}{}\n", line.replace(&made[2], "@GMT-2015.10.31-19.40.31")))?;
        fs::write(at.join(".frevo-snapshots.new"), "half")?;
        let listed = frevo_snapshot(&server, &["list"])?;
        ensure!(listed[0]["kept"] == serde_json::json!([made[2]]), "{listed}");
        frevo_snapshot(&server, &["prune"])?;
        ensure!(fs::read_to_string(&record)? == kept, "the name is still recorded");
        // A snapshot of the future.
        let future = "@GMT-2100.01.01-00.00.00";
        btrfs(&["subvolume", "snapshot", "-r", source], &at.join(future))?;
        let parent = line.split(' ').nth(1).context("a line without the subvolume")?;
        fs::write(&record, format!("{kept}{future} {parent}\n"))?;
        for task in ["run", "prune", "create"] {
            let refused = frevo_snapshot(&server, &[task]);
            ensure!(refused.is_err_and(|why| why.to_string().contains("clock")), "{task} with a wrong clock");
        }
        ensure!(at.join(&made[2]).exists() && at.join(future).exists(), "something was removed");
        // Others may write to the directory.
        fs::set_permissions(&at, fs::Permissions::from_mode(0o775))?;
        ensure!(frevo_snapshot(&server, &["create"]).is_err(), "a directory of others was used");
        Ok(())
    })
}

/// Snapshots of a subvolume that another has replaced are listed and kept, and do not count.
fn kept_after_a_rollback(fixture: &mut Fixture) -> Result<()> {
    on_btrfs(fixture, |fixture, point| {
        let (top, former) = (point.join("rolled"), point.join("former"));
        btrfs(&["subvolume", "create"], &top)?;
        let template =
            format!("[global]\n@TARGET@\n[rolled]\n\tpath = {}\n\tfrevo:snapshot schedule = yearly 1\n", top.display());
        let server = fixture.environment.start("rolled", &template)?;
        let first = frevo_snapshot(&server, &["run"])?;
        let first = first[0]["created"].as_str().context("nothing was created")?.to_owned();
        let record = top.join(".snapshots/.frevo-snapshots");
        let line = fs::read_to_string(&record)?;
        let parent = line.split_whitespace().nth(1).context("a line without the subvolume")?;
        btrfs(
            &["subvolume", "snapshot", "-r", top.to_str().context("a UTF-8 path")?],
            &top.join(".snapshots").join(FIRST),
        )?;
        fs::write(&record, format!("{line}{FIRST} {parent}\n"))?;
        fs::rename(&top, &former)?;
        let source = former.join(".snapshots").join(&first);
        btrfs(&["subvolume", "snapshot", source.to_str().context("a UTF-8 path")?], &top)?;
        let refused = frevo_snapshot(&server, &["run"]);
        ensure!(refused.is_err_and(|why| why.to_string().contains("rmdir")), "the placeholder was used");
        fs::remove_dir(top.join(".snapshots"))?;
        fs::rename(former.join(".snapshots"), top.join(".snapshots"))?;
        let listed = frevo_snapshot(&server, &["list"])?;
        ensure!(listed[0]["kept"] == serde_json::json!([FIRST, first]), "{listed}");
        // A second has passed if the name of the first is free.
        let done = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(200));
            frevo_snapshot(&server, &["run"])
        })
        .find(|done| !done.as_ref().is_err_and(|why| why.to_string().contains("wait a second")))
        .context("it is repeated")??;
        ensure!(done[0]["created"].is_string() && done[0]["removed"] == serde_json::json!([]), "{done}");
        for name in [FIRST, &*first] {
            ensure!(top.join(".snapshots").join(name).exists(), "{name} was removed");
        }
        let listed = frevo_snapshot(&server, &["list"])?;
        ensure!(listed[0]["kept"].as_array().is_some_and(|kept| kept.len() == 3), "{listed}");
        // One that was changed is still that of its year.
        let newest = done[0]["created"].as_str().context("nothing was created")?;
        btrfs_with(&["property", "set", "-ts"], &top.join(".snapshots").join(newest), &["ro", "false"])?;
        let said = frevo_snapshot(&server, &["run"]).map_or_else(|why| why.to_string(), |done| done.to_string());
        ensure!(said.contains("no longer read-only") && said.contains("\"created\": null"), "{said}");
        Ok(())
    })
}

/// The schedules of all shares in a subvolume count, also of those that were not named, and nothing is removed while
/// one of them is not known.
fn kept_for_all_shares(fixture: &mut Fixture) -> Result<()> {
    on_btrfs(fixture, |fixture, point| {
        let top = point.join("shared");
        btrfs(&["subvolume", "create"], &top)?;
        for share in ["one", "two"] {
            fs::create_dir(top.join(share))?;
        }
        let server = fixture.environment.start("shared", "[global]\n@TARGET@\n")?;
        let conf = server.conf().with_file_name("schedules.conf");
        let global = fs::read_to_string(server.conf())?;
        let configure = |two: &str| {
            let one = format!("[one]\n\tpath = {}\n\tfrevo:snapshot schedule = yearly 1\n", top.join("one").display());
            fs::write(&conf, format!("{global}\n{one}[two]\n\t{}\n", two.replace("@TOP@", &top.display().to_string())))
        };
        configure("path = @TOP@/two")?;
        snapshot_command(&conf, &["create", "one"])?;
        let at = top.join(".snapshots");
        let record = at.join(".frevo-snapshots");
        let created = fs::read_to_string(&record)?;
        let parent = created.split_whitespace().nth(1).context("a line without the subvolume")?;
        let old: Vec<String> = (2011..=2015).map(|year| format!("@GMT-{year}.10.31-19.40.30")).collect();
        let source = top.to_str().context("a UTF-8 path")?;
        for name in &old {
            btrfs(&["subvolume", "snapshot", "-r", source], &at.join(name))?;
        }
        let lines: String = old.iter().map(|name| format!("{name} {parent}\n")).collect();
        fs::write(&record, format!("{created}{lines}"))?;
        configure("path = @TOP@/two\n\tfrevo:snapshot schedule = yearly 9")?;
        let done = snapshot_command(&conf, &["prune", "one"])?;
        ensure!(done[0]["removed"] == serde_json::json!([]), "the other share needs them: {done}");
        for (wrong, word) in [
            ("path = @TOP@/two\n\tfrevo:snapshot schedule = yerly 9", "shares may need the snapshots: two"),
            ("path = @TOP@/none\n\tfrevo:snapshot schedule = yearly 9", "two"),
            ("path = @TOP@/two\n\tfrevo:snapshot schedul = yearly 9", "schedul = yearly 9"),
            ("path = @TOP@/two\n\tinclude = @TOP@/none.conf", "none.conf"),
            ("path = @TOP@/two\n\tinclude = @TOP@/%m.conf", "depend on the session"),
        ] {
            configure(wrong)?;
            let said =
                snapshot_command(&conf, &["prune", "one"]).map_or_else(|why| why.to_string(), |done| done.to_string());
            ensure!(said.contains("nothing was removed") && said.contains(word), "{wrong}: {said}");
            ensure!(old.iter().all(|name| at.join(name).exists()), "{wrong}: something was removed");
        }
        configure("path = @TOP@/two")?;
        // One was changed, and one cannot be removed.
        btrfs_with(&["property", "set", "-ts"], &at.join(&old[0]), &["ro", "false"])?;
        btrfs(&["subvolume", "set-default"], &at.join(&old[1]))?;
        for _ in 0..2 {
            let said = snapshot_command(&conf, &["run"]).map_or_else(|why| why.to_string(), |done| done.to_string());
            ensure!(said.contains("no longer read-only") && said.contains("cannot remove"), "{said}");
        }
        let left: Vec<bool> = old.iter().map(|name| at.join(name).exists()).collect();
        ensure!(left == [true, true, false, false, false], "{left:?}");
        // Another snapshot that takes the place of one is not removed.
        btrfs_with(&["property", "set", "-ts"], &at.join(&old[0]), &["ro", "true"])?;
        fs::rename(at.join(&old[0]), at.join("aside"))?;
        btrfs(&["subvolume", "snapshot", "-r", source], &at.join(&old[0]))?;
        btrfs(&["subvolume", "set-default"], point)?;
        let done = snapshot_command(&conf, &["prune"])?;
        ensure!(done[0]["removed"] == serde_json::json!([old[1]]) && at.join(&old[0]).exists(), "{done}");
        Ok(())
    })
}

/// Only the subvolume that has the share is snapshotted.
fn of_the_share_itself(fixture: &mut Fixture) -> Result<()> {
    on_btrfs(fixture, |fixture, point| {
        let top = point.join("top");
        btrfs(&["subvolume", "create"], &top)?;
        for name in ["memory", "part", "bound", "alice"] {
            fs::create_dir(top.join(name))?;
        }
        mount(&["-t", "tmpfs", "none"], &top.join("memory"))?;
        fs::create_dir(top.join("memory/share"))?;
        mount(&["--bind", top.join("part").to_str().context("a UTF-8 path")?], &top.join("bound"))?;
        file::owned(fixture, &top.join("alice/file"), "", &ALICE, 0o644)?;
        let alice = std::os::unix::fs::MetadataExt::uid(&fs::metadata(top.join("alice/file"))?);
        symlink(&top, top.join("alice/link"))?;
        std::os::unix::fs::lchown(top.join("alice/link"), Some(alice), None)?;
        let shares: String = [("memory", "memory/share"), ("bound", "bound"), ("link", "alice/link"), ("part", "part")]
            .iter()
            .map(|(name, path)| format!("[{name}]\n\tpath = {}\n", top.join(path).display()))
            .collect();
        let server = fixture.environment.start("itself", &format!("[global]\n@TARGET@\n{shares}"))?;
        for (share, why) in
            [("memory", "neither on btrfs nor"), ("bound", "whole subvolume"), ("link", "symbolic link")]
        {
            let said =
                frevo_snapshot(&server, &["create", share]).map_or_else(|why| why.to_string(), |done| done.to_string());
            ensure!(said.contains(why), "{share}: {said}");
        }
        ensure!(
            !top.join(".snapshots").exists() && !point.join(".snapshots").exists(),
            "something else was snapshotted"
        );
        // A default ACL would let others write to the directory of the snapshots.
        let acl = Command::new("setfacl").args(["-d", "-m", &format!("u:{alice}:rwx,o::rwx")]).arg(&top).output()?;
        ensure!(acl.status.success(), "{}", String::from_utf8_lossy(&acl.stderr));
        // Names that another could have created before the directory is complete are not trusted.
        let at = top.join(".snapshots");
        btrfs(&["subvolume", "create"], &at)?;
        fs::write(at.join("name"), "")?;
        fs::set_permissions(&at, fs::Permissions::from_mode(0o100))?;
        for _ in 0..2 {
            let refused = frevo_snapshot(&server, &["create", "part"]);
            ensure!(refused.is_err_and(|why| why.to_string().contains("not empty")), "names of others were trusted");
        }
        // A run that is killed leaves such a directory.
        fs::remove_file(at.join("name"))?;
        let listed = frevo_snapshot(&server, &["list", "part"])?;
        ensure!(listed[0]["kept"] == serde_json::json!([]) && fs::read_dir(&at)?.next().is_none(), "{listed}");
        frevo_snapshot(&server, &["create", "part"])?;
        let check = || -> Result<()> {
            let mode = fs::metadata(&at)?.permissions().mode() & 0o7777;
            ensure!(mode == 0o755, "the directory has mode {mode:o}");
            let lists = Command::new("getfacl").args(["--skip-base", "--absolute-names"]).arg(&at).output()?;
            ensure!(lists.status.success(), "{}", String::from_utf8_lossy(&lists.stderr));
            ensure!(lists.stdout.is_empty(), "it has an ACL: {}", String::from_utf8_lossy(&lists.stdout));
            Ok(())
        };
        check().context("left by a killed run")?;
        fs::rename(&at, top.join("aside"))?;
        let done = frevo_snapshot(&server, &["create", "part"])?;
        ensure!(done[0]["warnings"] == serde_json::json!([]), "{done}");
        let version = done[0]["created"].as_str().context("nothing was created")?;
        check().context("new")?;
        ensure!(at.join(version).join("alice/file").exists(), "the snapshot is empty");
        chown(&top, Some(alice), None)?;
        let done = frevo_snapshot(&server, &["create", "part", "--dry-run"])?;
        ensure!(done[0]["warnings"].to_string().contains("does not belong to root"), "{done}");
        Ok(())
    })
}

/// A new snapshot gets the device number of one that was removed. A client that has a file in the latter open sees the
/// new one.
fn removed_with_an_open_file(fixture: &mut Fixture) -> Result<()> {
    on_btrfs(fixture, |fixture, point| {
        let top = point.join("open");
        btrfs(&["subvolume", "create"], &top)?;
        fs::create_dir(top.join(".snapshots"))?;
        let template = format!("[global]\n@TARGET@\n[open]\n\tpath = {}\n\tfrevo:snapshots = auto\n", top.display());
        let server = fixture.environment.start("open", &template)?;
        let old = "@GMT-2016.01.01-00.00.00";
        file::owned(fixture, &top.join("file"), "old", &ALICE, 0o644)?;
        btrfs(
            &["subvolume", "snapshot", "-r", top.to_str().context("a UTF-8 path")?],
            &top.join(".snapshots").join(old),
        )?;
        file::owned(fixture, &top.join("file"), "new", &ALICE, 0o644)?;
        let fetched = fixture.local("open")?.join("fetched");
        let (at, to) = (top.join(".snapshots"), fetched.display());
        // smbclient executes this program as its pager.
        let change = fixture.local("open")?.join("change");
        let text = format!(
            "#!/bin/sh\nset -e\nbtrfs subvolume delete {0}/{old}\nbtrfs subvolume snapshot -r {1} {0}/{FIRST}\n",
            at.display(),
            top.display()
        );
        fs::write(&change, text)?;
        fs::set_permissions(&change, fs::Permissions::from_mode(0o755))?;
        let commands = format!("open {old}/file; more {old}/file; get {FIRST}/file {to}; get {old}/file /dev/null");
        let mut client = fixture.smbclient().server(&server).share("open").command(&commands);
        let output = client.env("PAGER", &change).output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(said.contains("open file"), "the file was not opened: {said}");
        let content = fs::read_to_string(&fetched).with_context(|| said.clone())?;
        ensure!(content == "new", "{content:?}: {said}");
        ensure!(said.contains("NT_STATUS_OBJECT_NAME_NOT_FOUND"), "the removed snapshot is shown: {said}");
        Ok(())
    })
}

/// Runs `action` while another process has locked a file.
fn while_locked<T>(path: &Path, action: impl FnOnce() -> T) -> Result<T> {
    let mut holder = Command::new("flock")
        .arg(path)
        .args(["sh", "-c", "echo locked; cat"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let mut line = [0; 7];
    std::io::Read::read_exact(holder.stdout.as_mut().context("its output is a pipe")?, &mut line)?;
    let done = action();
    drop(holder.stdin.take());
    holder.wait()?;
    Ok(done)
}

fn mount(arguments: &[&str], at: &Path) -> Result<()> {
    let done = Command::new("mount").args(arguments).arg(at).output()?;
    ensure!(done.status.success(), "{}: {}", at.display(), String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// Starts a server of the share `name` that finds its snapshots.
fn start(fixture: &Fixture, name: &str) -> Result<Server> {
    let template = format!("[global]\n@TARGET@\n[{name}]\n\tpath = @DIR@/data/{name}\n\tfrevo:snapshots = auto\n");
    fixture.environment.start(name, &template)
}

/// Creates a directory that stands for a snapshot, with a file that has `content`.
fn snapshot(fixture: &Fixture, at: &Path, content: &str) -> Result<()> {
    fs::create_dir_all(at)?;
    file::owned(fixture, &at.join("file"), content, &ALICE, 0o644)
}

/// Runs a case on a btrfs, in a mount namespace that ends with its thread.
fn on_btrfs(fixture: &Fixture, case: impl Fn(&Fixture, &Path) -> Result<()> + Sync) -> Result<()> {
    let done = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let mut mkfs = Command::new("mkfs.btrfs");
            mkfs.arg("-q");
            let disk = Disk::with(&fixture.environment.dir().join("data"), mkfs, "loop")?;
            case(fixture, &disk.point())
        });
        run.join()
    });
    done.map_err(|_| anyhow!("the thread with the file system panicked"))?
}

fn btrfs(arguments: &[&str], path: &Path) -> Result<()> {
    btrfs_with(arguments, path, &[])
}

fn btrfs_with(arguments: &[&str], path: &Path, more: &[&str]) -> Result<()> {
    let done = Command::new("btrfs").args(arguments).arg(path).args(more).output().context("cannot start btrfs")?;
    ensure!(done.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// Runs the command with the configuration of a server, and returns what it prints.
fn frevo_snapshot(server: &Server, arguments: &[&str]) -> Result<Value> {
    snapshot_command(server.conf(), arguments)
}

fn snapshot_command(conf: &Path, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(frevo());
    command.arg("snapshot").args(arguments).arg("--json").arg("-c").arg(conf);
    let done = command.output()?;
    ensure!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stderr),
        String::from_utf8_lossy(&done.stdout)
    );
    Ok(serde_json::from_slice(&done.stdout)?)
}

fn fetch(fixture: &Fixture, server: &Server, share: &str, name: &str) -> Result<String> {
    let fetched = fixture.local("snapshots")?.join("fetched");
    let get = format!("get {name} {}", fetched.display());
    fixture.smbclient().server(server).share(share).run(&get)?.fine().context(format!("{share} {get}"))?;
    Ok(fs::read_to_string(&fetched)?)
}

/// Returns the versions of a file that smbclient lists, in order.
fn versions(fixture: &Fixture, server: &Server, share: &str, name: &str) -> Result<Vec<String>> {
    let said = fixture.smbclient().server(server).share(share).run(&format!("allinfo {name}"))?.text;
    Ok(said.lines().filter(|line| line.starts_with("@GMT-")).map(str::to_owned).collect())
}
