//! Expensive operations on file data: copies, zeros, extents, flushes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Result, ensure};
use client::{Client, Open};
use proto::bytes::Writer;
use proto::smb2::FileId;
use proto::smb2::flush::FlushRequest;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{CopyChunk, CopyChunkCopy, FsctlCode, IoctlResponse, RequestResumeKeyResponse};
use proto::smb2::write::WriteRequest;

use super::{MIB, charge, fsctl};
use crate::attack::{Attack, Ground};
use crate::scene::Scene;
use crate::wire::Wire;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "data.copychunk",
        what: "alice requests server-side copies of 16 MiB, 16 at a time, on four connections",
        prepare: Some(full_file),
        run: |scene| Box::pin(copychunk(scene)),
    },
    Attack {
        name: "data.zero",
        what: "alice zeroes a tebibyte of sparse files, with 64 outstanding requests on four connections",
        prepare: None,
        run: |scene| Box::pin(zero(scene)),
    },
    Attack {
        name: "data.extents",
        what: "alice queries the allocated ranges of a file of 100,000 extents (5,000 in brief)",
        prepare: Some(scattered_file),
        run: |scene| Box::pin(extents(scene)),
    },
    Attack {
        name: "data.sparse",
        what: "alice writes single bytes throughout a tebibyte, with 128 outstanding requests on four connections",
        prepare: None,
        run: |scene| Box::pin(sparse(scene)),
    },
    Attack {
        name: "data.flushes",
        what: "alice writes and flushes, with 256 outstanding requests on four connections",
        prepare: None,
        run: |scene| Box::pin(flushes(scene)),
    },
    Attack {
        name: "data.large-writes",
        what: "alice sends WRITEs of 8 MiB on eight connections",
        prepare: None,
        run: |scene| Box::pin(large_writes(scene)),
    },
];

const SOURCE: &str = "source";
const SCATTERED: &str = "scattered";
const TIB: u64 = 1 << 40;

fn full_file(ground: &Ground<'_>) -> Result<()> {
    let path = ground.file(SOURCE, 0)?;
    std::fs::write(path, vec![0x55; 16 << 20])?;
    Ok(())
}

fn scattered_file(ground: &Ground<'_>) -> Result<()> {
    let path = ground.file(SCATTERED, 0)?;
    let file = File::options().write(true).open(path)?;
    for number in 0..ground.choose(5000, 100_000) {
        file.write_all_at(b"x", number * 8192)?;
    }
    // Extents are allocated when the data is written to disk.
    file.sync_all()?;
    Ok(())
}

/// Opens a separate file of alice's on a new connection.
async fn own_file(scene: &Scene, kind: &str) -> Result<(Client, FileId)> {
    let mut client = scene.wealthy().await?;
    let file = client.open(&Open::file(&format!("{kind}-{}", scene.number()))).await?;
    Ok((client, file))
}

/// Keeps `depth` requests in progress, each made by `queue`.
async fn keep(scene: &Scene, wire: &mut Wire, depth: usize, mut queue: impl FnMut(&mut Wire, u64)) -> Result<()> {
    let mut under_way = 0;
    for number in 0.. {
        if under_way == depth {
            wire.answer().await?;
            under_way -= 1;
        }
        queue(wire, number);
        under_way += 1;
        scene.asked(1);
        wire.send().await?;
    }
    Ok(())
}

async fn resume_key(client: &mut Client, file: FileId) -> Result<[u8; 24]> {
    let request = fsctl(FsctlCode::SRV_REQUEST_RESUME_KEY, file, &[], 32);
    let response = client.call(Command::IOCTL, 1, |out| request.encode(out)).await?;
    Ok(RequestResumeKeyResponse::decode(IoctlResponse::decode(response.message)?.output)?.resume_key)
}

async fn copychunk(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let (mut client, target) = own_file(scene, "copy").await?;
            let source = client.open(&Open::existing(SOURCE)).await?;
            let source_key = resume_key(&mut client, source).await?;
            let chunk = |part: u64| CopyChunk {
                source_offset: part * u64::from(MIB),
                target_offset: part * u64::from(MIB),
                length: MIB,
            };
            let mut input = Vec::new();
            CopyChunkCopy { source_key, chunks: (0..16).map(chunk).collect() }.encode(&mut Writer::new(&mut input));
            let request = fsctl(FsctlCode::SRV_COPYCHUNK_WRITE, target, &input, 12);
            let mut wire = scene.raw(client)?;
            keep(scene, &mut wire, 16, |wire, _| {
                wire.queue(Command::IOCTL, 1, |out| request.encode(out));
            })
            .await
        })
        .await
}

async fn zero(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let (mut client, file) = own_file(scene, "zero").await?;
            let sparse = fsctl(FsctlCode::SET_SPARSE, file, &[1], 0);
            client.call(Command::IOCTL, 1, |out| sparse.encode(out)).await?;
            client.write(file, TIB, b"x").await?;
            let mut wire = scene.raw(client)?;
            let input: Vec<u8> = [0u64.to_le_bytes(), TIB.to_le_bytes()].concat();
            let request = fsctl(FsctlCode::SET_ZERO_DATA, file, &input, 0);
            keep(scene, &mut wire, 64, |wire, _| {
                wire.queue(Command::IOCTL, 1, |out| request.encode(out));
            })
            .await
        })
        .await
}

async fn extents(scene: &Scene) -> Result<()> {
    let input: Vec<u8> = [0u64.to_le_bytes(), TIB.to_le_bytes()].concat();
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            let file = client.open(&Open::file(SCATTERED)).await?;
            // A file that is not sparse is a single range.
            let sparse = fsctl(FsctlCode::SET_SPARSE, file, &[1], 0);
            client.call(Command::IOCTL, 1, |out| sparse.encode(out)).await?;
            let mut wire = scene.raw(client)?;
            let request = fsctl(FsctlCode::QUERY_ALLOCATED_RANGES, file, &input, 4 * MIB);
            keep(scene, &mut wire, 8, |wire, _| {
                wire.queue(Command::IOCTL, charge(4 * MIB), |out| request.encode(out));
            })
            .await
        })
        .await
}

/// Returns a pseudorandom offset.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % TIB
}

async fn sparse(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let (client, file) = own_file(scene, "sparse").await?;
            let mut wire = scene.raw(client)?;
            keep(scene, &mut wire, 128, |wire, number| {
                let write = WriteRequest::new(file, scattered(number % 20_000), b"x");
                wire.queue(Command::WRITE, 1, |out| write.encode(out));
            })
            .await
        })
        .await
}

async fn flushes(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let (client, file) = own_file(scene, "flush").await?;
            let mut wire = scene.raw(client)?;
            ensure!(wire.affords(256), "too few credits for that many requests");
            let flush = FlushRequest { file_id: file, ..FlushRequest::default() };
            keep(scene, &mut wire, 256, |wire, number| {
                if number % 16 == 0 {
                    let write = WriteRequest::new(file, number % 1000 * 4096, b"x");
                    wire.queue(Command::WRITE, 1, |out| write.encode(out));
                } else {
                    wire.queue(Command::FLUSH, 1, |out| flush.encode(out));
                }
            })
            .await
        })
        .await
}

async fn large_writes(scene: &Scene) -> Result<()> {
    let data = vec![0x55; 8 << 20];
    scene
        .crowd(8, async || {
            let (client, file) = own_file(scene, "large").await?;
            let mut wire = scene.raw(client)?;
            let depth = (wire.credits / 128).clamp(1, 16) as usize;
            keep(scene, &mut wire, depth, |wire, _| {
                let write = WriteRequest::new(file, 0, &data);
                wire.queue(Command::WRITE, charge(8 * MIB), |out| write.encode(out));
            })
            .await
        })
        .await
}
