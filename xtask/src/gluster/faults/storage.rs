//! Bricks that are full or refuse large attributes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::Error;
use proto::status::Status;

use super::client::{Smb, outcome, refused};
use super::fixture::{Fixture, pause};
use super::{Case, Given};
use crate::gluster::BrickFileSystem;

pub(super) const CASES: &[Case] = &[
    Case::new("full_brick", &["dist", "dist-samba"], full_brick),
    Case { bricks_fs: BrickFileSystem::Ext4, ..Case::new("ext4", &["dist-samba"], ext4) },
];

/// The number of files that are written while the bricks are full.
const FILES: usize = 100;
/// The size of a WRITE.
const WRITE: usize = 65_536;
/// Bricks examine every five seconds how much space is left.
const EXAMINED: Duration = Duration::from_secs(7);

/// The error of a full brick reaches each handle that wrote to it, and what was flushed before is not lost.
fn full_brick(given: &Given<'_>) -> Result<()> {
    for volume in ["dist", "dist-samba"] {
        let fixture = Fixture::start(given.dir, volume, "")?;
        let mut smb = fixture.connect()?;
        let name = |number: usize| format!("file{number}");
        let content = |number: usize| vec![number as u8; WRITE];
        for number in 0..FILES {
            smb.put(&name(number), &content(number))?;
        }
        let filler = given.dir.join("bricks/filler");
        fill(&filler)?;
        pause(EXAMINED)?;
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        for number in 0..FILES {
            // Some clients rely on the status of CLOSE.
            let error = append(&mut smb, &name(number), number % 2 == 0)?;
            let (step, error) = error.with_context(|| format!("{} was not told of an error", name(number)))?;
            ensure!(error.status() == Some(Status::DISK_FULL), "{step}: {error}");
            *told.entry(format!("{step}: {error}")).or_default() += 1;
        }
        println!("{volume}: {told:?}");
        fs::remove_file(&filler)?;
        pause(EXAMINED)?;
        for number in 0..FILES {
            let found = fs::read(fixture.mounted().join(name(number)))?;
            ensure!(found.starts_with(&content(number)), "{} has lost flushed content", name(number));
            ensure!(smb.get(&name(number), WRITE)? == content(number), "{} is different", name(number));
        }
        smb.put(&name(0), &content(0))?;
        println!("{volume}: the flushed content of {FILES} files is right on the mount");
    }
    Ok(())
}

/// Appends to a file, and returns the step at which an error was told, with the error.
fn append(smb: &mut Smb, name: &str, flushes: bool) -> Result<Option<(&'static str, Error)>> {
    let file = smb.open(name)?;
    let mut told = None;
    for part in 1..=4 {
        let written = smb.run(async |client| client.write(file, part * WRITE as u64, &[0xaa; WRITE]).await);
        told = told.or(written.err().map(|error| ("WRITE", error)));
    }
    if flushes {
        told = told.or(smb.flush(file).err().map(|error| ("FLUSH", error)));
    }
    let closed = smb.close(file).err();
    Ok(told.or(closed.map(|error| ("CLOSE", error))))
}

/// Reserves all free space of a file system in a file.
fn fill(path: &Path) -> Result<()> {
    let file = fs::File::create(path)?;
    let mut length: u64 = 0;
    // Less and less is left at the end.
    for step in [1 << 30, 1 << 24, 1 << 16, 1 << 12] {
        while rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), length, step).is_ok() {
            length += step;
        }
    }
    ensure!(length > 0, "no space was free");
    Ok(())
}

/// A stream that no attribute of a brick on ext4 can contain is in the store of large streams. Without a store, it is
/// refused, and the former content stays.
fn ext4(given: &Given<'_>) -> Result<()> {
    let mut fixture = Fixture::start(given.dir, "dist-samba", "")?;
    let store = fixture.mounted().join(".frevo-streams");
    let mut smb = fixture.connect()?;
    smb.put("file", b"text")?;
    smb.put("file:stream", b"former")?;
    // A directory that does not belong to the server is not used.
    fs::create_dir(&store)?;
    fixture.give(&store)?;
    pause(Duration::from_secs(1))?;
    let large = |size: usize| (0..size).map(|at| at as u8).collect::<Vec<_>>();
    let result = smb.put("file:stream", &large(20_000));
    ensure!(refused(&result, &[Status::DISK_FULL]), "without a store: {}", outcome(&result));
    println!("without a store: {}", outcome(&result));
    ensure!(smb.get("file:stream", WRITE)? == b"former", "the former content of the stream is lost");
    fs::remove_dir(&store)?;
    fixture.server.restart()?;
    let mut smb = fixture.connect()?;
    for size in [1_000, 20_000, 60_000, 200_000] {
        let name = format!("file:stream{size}");
        smb.put(&name, &large(size))?;
        ensure!(smb.get(&name, size)? == large(size), "{name} is different");
    }
    let stored = fs::read_dir(&store).context("there is no store of large streams")?.count();
    ensure!(stored == 3, "the store of large streams has {stored} files");
    smb.put("file:stream", &large(20_000))?;
    ensure!(smb.get("file:stream", WRITE)? == large(20_000), "the stream is different");
    ensure!(smb.get("file", WRITE)? == b"text", "the content of the file is different");
    println!("streams of 20,000 to 200,000 bytes are in the store");
    Ok(())
}
