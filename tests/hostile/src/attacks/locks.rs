//! Byte-range locks: very many on one file, requests with many of them, and requests that wait for one.

use anyhow::Result;
use client::Open;
use proto::smb2::FileId;
use proto::smb2::header::Command;
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};

use super::{charge, read};
use crate::attack::{Attack, Ground};
use crate::scene::Scene;
use crate::wire::Wire;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "locks.handles",
        what: "alice sets as many locks on one file as possible, 4,096 per LOCK, with one handle after another",
        prepare: Some(one_file),
        run: |scene| Box::pin(handles(scene)),
    },
    Attack {
        name: "locks.arrays",
        what: "alice locks and unlocks 2,500 ranges in turns on four connections",
        prepare: Some(one_file),
        run: |scene| Box::pin(arrays(scene)),
    },
    Attack {
        name: "locks.waiting",
        what: "alice queues as many LOCKs for one range as possible, and unlocks it repeatedly",
        prepare: Some(one_file),
        run: |scene| Box::pin(waiting(scene)),
    },
    Attack {
        name: "locks.conflicts",
        what: "alice reads a file in which another handle has locked every other byte of 8,000",
        prepare: Some(one_file),
        run: |scene| Box::pin(conflicts(scene)),
    },
];

const FILE: &str = "locked";

fn one_file(ground: &Ground<'_>) -> Result<()> {
    ground.file(FILE, 1 << 20).map(|_| ())
}

/// Returns a request for every other byte of a range.
fn stripes(file_id: FileId, from: u64, count: u64, flags: LockFlags) -> LockRequest {
    let element = |index| LockElement { offset: from + 2 * index, length: 1, flags };
    LockRequest { lock_sequence: 0, file_id, locks: (0..count).map(element).collect() }
}

const TAKE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

async fn lock(wire: &mut Wire, request: &LockRequest) -> Result<bool> {
    let charge = charge(u32::try_from(request.locks.len() * 24)?);
    wire.queue(Command::LOCK, charge, |out| request.encode(out));
    wire.send().await?;
    Ok(wire.answer().await?.status.0 == 0)
}

async fn handles(scene: &Scene) -> Result<()> {
    scene
        .crowd(2, async || {
            let own = scene.number() << 32;
            let mut client = scene.wealthy().await?;
            let files = super::open_many(&mut client, &Open::file(FILE), 200).await?;
            let mut wire = scene.raw(client)?;
            let mut place = own;
            for file in files.iter().cycle() {
                // A request that is refused for its number of locks is retried with fewer.
                for count in [4096, 1024, 256, 64] {
                    scene.asked(1);
                    if lock(&mut wire, &stripes(*file, place, count, TAKE)).await? {
                        break;
                    }
                }
                place += 8192;
            }
            Ok(())
        })
        .await
}

async fn arrays(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let own = scene.number() << 32;
            let mut client = scene.wealthy().await?;
            let file = client.open(&Open::file(FILE)).await?;
            let mut wire = scene.raw(client)?;
            for count in [2500, 250].iter().cycle() {
                lock(&mut wire, &stripes(file, own, *count, TAKE)).await?;
                lock(&mut wire, &stripes(file, own, *count, LockFlags::UNLOCK)).await?;
                scene.asked(2);
            }
            Ok(())
        })
        .await
}

async fn waiting(scene: &Scene) -> Result<()> {
    let whole = |file_id, flags| LockRequest {
        lock_sequence: 0,
        file_id,
        locks: vec![LockElement { offset: 0, length: 4096, flags }],
    };
    scene
        .crowd(2, async || {
            let mut client = scene.wealthy().await?;
            let holder = client.open(&Open::file(FILE)).await?;
            let files = super::open_many(&mut client, &Open::file(FILE), 64).await?;
            let mut wire = scene.raw(client)?;
            lock(&mut wire, &whole(holder, TAKE)).await?;
            let mut queued = 0;
            for file in files.iter().cycle() {
                let request = whole(*file, LockFlags::SHARED_LOCK);
                if queued < 7000 && wire.affords(8) {
                    wire.queue(Command::LOCK, 1, |out| request.encode(out));
                    queued += 1;
                } else {
                    for flags in [LockFlags::UNLOCK, TAKE] {
                        let again = whole(holder, flags);
                        wire.queue(Command::LOCK, 1, |out| again.encode(out));
                    }
                }
                scene.asked(1);
                wire.exchange().await?;
            }
            Ok(())
        })
        .await
}

async fn conflicts(scene: &Scene) -> Result<()> {
    let (mut holder, mut reader) = (scene.wealthy().await?, scene.wealthy().await?);
    let (file, other) = (holder.open(&Open::file(FILE)).await?, reader.open(&Open::file(FILE)).await?);
    let mut holder = scene.raw(holder)?;
    for part in 0..32 {
        scene.asked(1);
        lock(&mut holder, &stripes(file, part * 500 + 4096, 250, TAKE)).await?;
    }
    let mut reader = scene.raw(reader)?;
    loop {
        for _ in 0..64 {
            reader.queue(Command::READ, 1, |out| read(other, 0, 4096).encode(out));
            reader.queue(Command::READ, 1, |out| read(other, 1 << 16, 4096).encode(out));
        }
        scene.asked(128);
        reader.send().await?;
        for _ in 0..128 {
            reader.answer().await?;
        }
    }
}
