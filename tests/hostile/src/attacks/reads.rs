//! READs: many large ones in one frame, and responses that the client never reads.

use anyhow::Result;
use client::Open;
use proto::smb2::FileId;
use proto::smb2::header::{Command, Flags};

use super::{MIB, charge, read};
use crate::attack::{Attack, Ground};
use crate::scene::Scene;
use crate::wire::Wire;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "reads.compound",
        what: "alice sends frames of up to 250 READs of 1 to 8 MiB and reads the answers",
        prepare: Some(big_file),
        run: |scene| Box::pin(compound(scene)),
    },
    Attack {
        name: "reads.compound-untaken",
        what: "alice sends such frames on eight connections and reads no answer",
        prepare: Some(big_file),
        run: |scene| Box::pin(compound_untaken(scene)),
    },
    Attack {
        name: "reads.untaken",
        what: "alice sends READs of 8 MiB on eight connections as fast as possible, and reads no answer",
        prepare: Some(big_file),
        run: |scene| Box::pin(untaken(scene)),
    },
    Attack {
        name: "reads.untaken-small",
        what: "alice sends READs of 1 byte on eight connections as fast as possible, and reads no answer",
        prepare: Some(big_file),
        run: |scene| Box::pin(untaken_small(scene)),
    },
];

/// The file that is read.
pub(super) const BIG: &str = "big";
const CONNECTIONS: usize = 8;
/// Number of READs in a frame and number of bytes of each.
const SHAPES: [(usize, u32); 4] = [(3, 8 * MIB), (16, 8 * MIB), (40, 2 * MIB), (250, MIB)];

pub(super) fn big_file(ground: &Ground<'_>) -> Result<()> {
    ground.file(BIG, 16 << 20).map(|_| ())
}

/// Returns a raw connection with many credits and the file open.
pub(super) async fn reader(scene: &Scene) -> Result<(Wire, FileId)> {
    let mut client = scene.wealthy().await?;
    let file = client.open(&Open::existing(BIG)).await?;
    Ok((scene.raw(client)?, file))
}

/// Queues one frame and returns the number of READs in it.
fn queue_frame(wire: &mut Wire, file: FileId, (count, length): (usize, u32)) -> usize {
    let affordable = wire.credits as usize / usize::from(charge(length));
    let count = count.min(affordable.max(1));
    let mut chain = wire.chain();
    for _ in 0..count {
        chain.push(Command::READ, charge(length), Flags::NONE, |out| read(file, 0, length).encode(out));
    }
    chain.end();
    count
}

async fn compound(scene: &Scene) -> Result<()> {
    scene
        .crowd(2, async || {
            let (mut wire, file) = reader(scene).await?;
            for shape in SHAPES.iter().cycle() {
                let count = queue_frame(&mut wire, file, *shape);
                wire.send().await?;
                scene.asked(count as u64);
                for _ in 0..count {
                    wire.answer().await?;
                }
            }
            Ok(())
        })
        .await
}

async fn compound_untaken(scene: &Scene) -> Result<()> {
    scene
        .crowd(CONNECTIONS, async || {
            let (mut wire, file) = reader(scene).await?;
            while wire.affords(charge(MIB)) {
                let count = queue_frame(&mut wire, file, (250, MIB));
                wire.send().await?;
                scene.asked(count as u64);
            }
            wire.hold().await
        })
        .await
}

async fn untaken(scene: &Scene) -> Result<()> {
    flood(scene, 8 * MIB).await
}

async fn untaken_small(scene: &Scene) -> Result<()> {
    flood(scene, 1).await
}

async fn flood(scene: &Scene, length: u32) -> Result<()> {
    scene
        .crowd(CONNECTIONS, async || {
            let (mut wire, file) = reader(scene).await?;
            let batch = wire.credits as usize / usize::from(charge(length));
            loop {
                // Beyond the known credits, the client assumes that each request returns the credits that it costs.
                for _ in 0..batch.clamp(1, 512) {
                    wire.queue(Command::READ, charge(length), |out| read(file, 0, length).encode(out));
                }
                scene.asked(batch.clamp(1, 512) as u64);
                wire.send().await?;
            }
        })
        .await
}
