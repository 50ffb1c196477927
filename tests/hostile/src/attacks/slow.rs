//! Slow clients.

use std::time::Duration;

use anyhow::Result;
use proto::smb2::header::Command;

use super::reads::{big_file, reader};
use super::{MIB, charge, read};
use crate::attack::Attack;
use crate::scene::Scene;
use crate::wire::Wire;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "slow.readers",
        what: "alice reads 8 MiB at a time on 64 connections and receives 4 KiB of it per 0.1 s",
        prepare: Some(big_file),
        run: |scene| Box::pin(readers(scene)),
    },
    Attack {
        name: "slow.writers",
        what: "alice sends a frame of 8 MiB on each of 256 connections, one byte per second",
        prepare: None,
        run: |scene| Box::pin(writers(scene)),
    },
    Attack {
        name: "slow.strangers",
        what: "256 connections send a NEGOTIATE, one byte per second",
        prepare: None,
        run: |scene| Box::pin(strangers(scene)),
    },
    Attack {
        name: "slow.halves",
        what: "alice sends a frame of 8 MiB without its last byte on each of 128 connections",
        prepare: None,
        run: |scene| Box::pin(halves(scene)),
    },
];

const SECOND: Duration = Duration::from_secs(1);

async fn readers(scene: &Scene) -> Result<()> {
    scene
        .crowd(64, async || {
            let (mut wire, file) = reader(scene).await?;
            loop {
                while wire.affords(charge(8 * MIB)) {
                    wire.queue(Command::READ, charge(8 * MIB), |out| read(file, 0, 8 * MIB).encode(out));
                    scene.asked(1);
                }
                wire.send().await?;
                wire.sip(4096).await?;
                tokio::time::sleep(SECOND / 10).await;
            }
        })
        .await
}

async fn trickle(scene: &Scene, mut wire: Wire, length: u32) -> Result<()> {
    wire.bytes(&length.to_be_bytes());
    loop {
        wire.send().await?;
        scene.asked(1);
        tokio::time::sleep(SECOND).await;
        wire.bytes(&[0xfe]);
    }
}

async fn writers(scene: &Scene) -> Result<()> {
    scene.crowd(256, async || trickle(scene, scene.raw(scene.alice().await?)?, 8 * MIB).await).await
}

async fn strangers(scene: &Scene) -> Result<()> {
    scene.crowd(256, async || trickle(scene, scene.stranger().await?, 200).await).await
}

async fn halves(scene: &Scene) -> Result<()> {
    let piece = vec![0; 256 << 10];
    scene
        .crowd(128, async || {
            let mut wire = scene.raw(scene.alice().await?)?;
            wire.bytes(&(8 * MIB).to_be_bytes());
            scene.asked(1);
            for _ in 0..8 * MIB as usize / piece.len() - 1 {
                wire.bytes(&piece);
                wire.send().await?;
            }
            wire.bytes(&piece[1..]);
            wire.send().await?;
            wire.hold().await
        })
        .await
}
