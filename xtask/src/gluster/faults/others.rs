//! Changes on the FUSE mount, which is another client of the volume.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::Open;
use proto::status::Status;

use super::client::{Smb, outcome, refused};
use super::fixture::{Fixture, pause, until};
use super::{Case, Given};

pub(super) const CASES: &[Case] = &[
    Case::new("coherence.callback", &["dist-samba"], callback),
    Case::new("removed_behind", &["dist", "dist-samba"], removed_behind),
];

/// The longest time from a change to its report.
const REPORT: Duration = Duration::from_millis(100);
/// How much later a change must be visible, also on a busy machine.
const LATEST: Duration = Duration::from_secs(2);
/// How long a request for a file that is gone may take.
const ANSWER: Duration = Duration::from_secs(5);

/// A kind of change.
#[derive(Clone, Copy, Debug)]
enum Change {
    Content,
    Size,
    Created,
    Removed,
    Renamed,
    Mode,
}

/// Changes on the mount are visible to requests that are made 100 ms later. The case counts those that are not.
fn callback(given: &Given<'_>) -> Result<()> {
    const CHANGES: usize = 1000;
    let fixture = Fixture::start(given.dir, "dist-samba", "\tfrevo:coherence = callback\n")?;
    let mut smb = fixture.connect()?;
    let (mut missed, mut unknown) = (Vec::new(), Duration::ZERO);
    let kinds = [Change::Content, Change::Size, Change::Created, Change::Removed, Change::Renamed, Change::Mode];
    for number in 0..CHANGES {
        let kind = kinds[number % kinds.len()];
        let name = format!("file{}", number / kinds.len() % 10);
        let path = fixture.mounted().join(&name);
        if path.exists() {
            smb.run(async |client| client.delete(&name).await)?;
        }
        smb.put(&name, b"former")?;
        if matches!(kind, Change::Created) {
            smb.run(async |client| client.delete(&name).await)?;
            ensure!(refused(&smb.get(&name, 64), &[Status::OBJECT_NAME_NOT_FOUND]), "{name} exists");
        } else {
            ensure!(smb.get(&name, 64)? == b"former", "{name} is different before the change");
            // The mount remembers that the name was missing until it receives a report, too.
            unknown = unknown.max(until(&format!("{name} on the mount"), LATEST, || Ok(path.exists()))?);
        }
        let content = format!("content {number}");
        change(kind, &path, &content)?;
        if matches!(kind, Change::Created) {
            fixture.give(&path)?;
        }
        std::thread::sleep(REPORT);
        if let Err(error) = is_visible(&mut smb, kind, &name, &content) {
            let what = format!("change {number}, {kind:?} of {name}: {error:#}");
            let late = until(&what, LATEST, || Ok(is_visible(&mut smb, kind, &name, &content).is_ok()))?;
            missed.push(format!("{what} for another {late:.1?}"));
        }
        if matches!(kind, Change::Mode) {
            fs::set_permissions(&path, Permissions::from_mode(0o644))?;
            std::thread::sleep(REPORT);
        }
    }
    println!("{} of {CHANGES} changes were visible after {REPORT:?}", CHANGES - missed.len());
    missed.iter().for_each(|missed| println!("{missed}"));
    println!("the mount knew new files after at most {unknown:.1?}");
    ensure!(missed.len() <= CHANGES / 100, "{} changes were not visible in time", missed.len());
    Ok(())
}

fn change(kind: Change, path: &Path, content: &str) -> Result<()> {
    let other = path.with_extension("renamed");
    match kind {
        // The length stays the same.
        Change::Content => fs::write(path, &content.as_bytes()[content.len() - 6..]),
        Change::Size | Change::Created => fs::write(path, content),
        Change::Removed => fs::remove_file(path),
        Change::Renamed => fs::rename(path, other),
        Change::Mode => fs::set_permissions(path, Permissions::from_mode(0o200)),
    }
    .with_context(|| format!("{kind:?} of {}", path.display()))
}

fn is_visible(smb: &mut Smb, kind: Change, name: &str, content: &str) -> Result<()> {
    let found = smb.get(name, 64);
    match kind {
        Change::Content => ensure!(found? == content.as_bytes()[content.len() - 6..], "the former content"),
        Change::Size | Change::Created => ensure!(found? == content.as_bytes(), "the former content"),
        Change::Removed => ensure!(refused(&found, &[Status::OBJECT_NAME_NOT_FOUND]), "{}", outcome(&found)),
        Change::Renamed => {
            ensure!(refused(&found, &[Status::OBJECT_NAME_NOT_FOUND]), "{}", outcome(&found));
            ensure!(smb.get(&format!("{name}.renamed"), 64)? == b"former", "another content");
        }
        Change::Mode => ensure!(refused(&found, &[Status::ACCESS_DENIED]), "{}", outcome(&found)),
    }
    Ok(())
}

/// Statuses of a handle whose file is gone.
const GONE: [Status; 6] = [
    Status::FILE_INVALID,
    Status::FILE_CLOSED,
    Status::FILE_DELETED,
    Status::OBJECT_NAME_NOT_FOUND,
    Status::OBJECT_PATH_NOT_FOUND,
    Status::DELETE_PENDING,
];

/// Files that are removed, renamed or replaced on the mount while a client has them open.
fn removed_behind(given: &Given<'_>) -> Result<()> {
    for volume in ["dist", "dist-samba"] {
        let fixture = Fixture::start(given.dir, volume, "")?;
        let mut smb = fixture.connect()?;
        let mounted = fixture.mounted();
        let mut open = Vec::new();
        for name in ["removed", "renamed", "replaced"] {
            smb.put(name, name.as_bytes())?;
            open.push((name, smb.open(name)?));
        }
        smb.run(async |client| client.make_directory("directory").await)?;
        let directory = smb.run(async |client| client.open(&Open::directory("directory")).await)?;
        fs::write(mounted.join("other"), "other")?;
        fs::remove_file(mounted.join("removed"))?;
        fs::rename(mounted.join("renamed"), mounted.join("new name"))?;
        fs::rename(mounted.join("other"), mounted.join("replaced"))?;
        fs::remove_dir(mounted.join("directory"))?;
        // Without reports of changes, this is how long former metadata is shown.
        pause(Duration::from_secs(3))?;
        for (name, file) in &open {
            let is_right = |found: &client::Result<Vec<u8>>| found.as_ref().is_ok_and(|found| found == name.as_bytes());
            let read = timed(&mut smb, |smb| smb.read(*file, 64))?;
            ensure!(is_right(&read) || refused(&read, &GONE), "{name}: a READ: {}", outcome(&read));
            let written = timed(&mut smb, |smb| smb.write(*file, name.as_bytes()).and_then(|()| smb.flush(*file)))?;
            ensure!(written.is_ok() || refused(&written, &GONE), "{name}: a WRITE: {}", outcome(&written));
            let closed = timed(&mut smb, |smb| smb.close(*file))?;
            println!(
                "{volume}, {name}: a READ: {}; a WRITE: {}; CLOSE: {}",
                outcome(&read),
                outcome(&written),
                outcome(&closed)
            );
            ensure!(closed.is_ok() || refused(&closed, &GONE), "{name}: CLOSE: {}", outcome(&closed));
        }
        // Each answer about an open file renews what the library knows of its name, too.
        pause(Duration::from_secs(3))?;
        for name in ["removed", "renamed", "other"] {
            let found = timed(&mut smb, |smb| smb.get(name, 64))?;
            ensure!(refused(&found, &[Status::OBJECT_NAME_NOT_FOUND]), "a new open of {name}: {}", outcome(&found));
        }
        ensure!(smb.get("new name", 64)? == b"renamed", "another content under the new name");
        ensure!(smb.get("replaced", 64)? == b"other", "another content of the file that replaced another");
        let listed = timed(&mut smb, |smb| {
            smb.run(async |client| {
                client.query_directory(directory, 37, "*", 65_536).await.map(|found| found.map(<[u8]>::len))
            })
        })?;
        ensure!(listed.is_ok() || refused(&listed, &GONE), "a listing: {}", outcome(&listed));
        println!("{volume}: a listing of a directory that is gone: {}", outcome(&listed));
        timed(&mut smb, |smb| smb.close(directory))??;
        let deleted = timed(&mut smb, |smb| smb.run(async |client| client.delete("directory").await))?;
        ensure!(refused(&deleted, &GONE), "a deletion of a directory that is gone: {}", outcome(&deleted));
        smb.put("removed", b"again")?;
        pause(Duration::from_secs(1))?;
        ensure!(fs::read(mounted.join("removed"))? == b"again", "a new file is different on the mount");
    }
    Ok(())
}

/// Makes a call, which must not hang.
fn timed<T>(smb: &mut Smb, call: impl FnOnce(&mut Smb) -> T) -> Result<T> {
    let begin = Instant::now();
    let done = call(smb);
    ensure!(begin.elapsed() < ANSWER, "a call took {:?}", begin.elapsed());
    Ok(done)
}
