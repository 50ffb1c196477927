//! Frames with false lengths, frames of random bytes, and frames of very many requests.

use anyhow::Result;
use client::Open;
use proto::bytes::{Writer, utf16_bytes};
use proto::smb2::FileId;
use proto::smb2::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::{Command, Flags};
use proto::smb2::transform::{TransformFlags, TransformHeader};

use super::close;
use crate::attack::Attack;
use crate::scene::Scene;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "frames.transforms",
        what: "anonymous clients and alice send transform headers with wrong lengths and unknown sessions",
        prepare: None,
        run: |scene| Box::pin(transforms(scene)),
    },
    Attack {
        name: "frames.sealed-large",
        what: "alice sends encrypted frames of 8 MiB with a wrong signature in a valid session",
        prepare: None,
        run: |scene| Box::pin(sealed_large(scene)),
    },
    Attack {
        name: "frames.garbage",
        what: "16 connections send random bytes, with and without frames",
        prepare: None,
        run: |scene| Box::pin(garbage(scene)),
    },
    Attack {
        name: "frames.longest",
        what: "anonymous clients and alice announce frames of 16 MiB - 1 and send them",
        prepare: None,
        run: |scene| Box::pin(longest(scene)),
    },
    Attack {
        name: "frames.creates",
        what: "alice sends chains of 255 CREATEs and CLOSEs",
        prepare: None,
        run: |scene| Box::pin(creates(scene)),
    },
    Attack {
        name: "frames.echoes",
        what: "alice sends chains of 255 ECHOs on four connections and reads the answers",
        prepare: None,
        run: |scene| Box::pin(echoes(scene)),
    },
    Attack {
        name: "frames.cancels",
        what: "alice cancels pending and unknown requests as fast as the server accepts them",
        prepare: None,
        run: |scene| Box::pin(cancels(scene)),
    },
];

/// Maximum number of requests in a frame.
const CHAIN: usize = 255;

fn transform(session_id: u64, original_message_size: u32, behind: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let header = TransformHeader {
        signature: [0x5a; 16],
        nonce: [7; 16],
        original_message_size,
        flags: TransformFlags::ENCRYPTED,
        session_id,
    };
    header.encode(&mut Writer::new(&mut content));
    content.resize(content.len() + behind, 0xfe);
    content
}

async fn transforms(scene: &Scene) -> Result<()> {
    let lengths = [0, 1, 63, 64, 4096, 0x00ff_ffff, u32::MAX];
    scene
        .crowd(16, async || {
            let mut stranger = scene.raw(scene.negotiated().await?)?;
            let mut known = scene.raw(scene.alice().await?)?;
            let session_id = known.session_id;
            for length in lengths {
                for (strange, session_id) in [(true, 1 << 40), (false, session_id), (false, !session_id)] {
                    let wire = if strange { &mut stranger } else { &mut known };
                    wire.frame(&transform(session_id, length, 4096));
                    scene.asked(1);
                    // A server may end the connection; the next attempt uses a new one.
                    wire.exchange().await?;
                }
            }
            Ok(())
        })
        .await
}

async fn sealed_large(scene: &Scene) -> Result<()> {
    scene
        .crowd(8, async || {
            let mut wire = scene.raw(scene.alice().await?)?;
            let length = 8 << 20;
            let frame = transform(wire.session_id, length as u32, length);
            loop {
                wire.frame(&frame);
                scene.asked(1);
                wire.exchange().await?;
            }
        })
        .await
}

/// Returns pseudorandom bytes: xorshift, from a seed.
fn noise(mut seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        bytes.extend_from_slice(&seed.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

async fn garbage(scene: &Scene) -> Result<()> {
    scene
        .crowd(16, async || {
            let seed = scene.sent() + 1;
            let mut wire = scene.stranger().await?;
            match seed % 4 {
                0 => wire.bytes(&noise(seed, 64 << 10)),
                1 => wire.frame(&noise(seed, 1 + seed as usize % 4096)),
                2 => wire.frame(&[&[0xfe, b'S', b'M', b'B', 64, 0][..], &noise(seed, 4096)].concat()),
                _ => wire.frame(&[&[0xff, b'S', b'M', b'B', 0x72][..], &noise(seed, 4096)].concat()),
            }
            scene.asked(1);
            wire.exchange().await?;
            let mut known = scene.raw(scene.negotiated().await?)?;
            loop {
                known.frame(&noise(seed, 200));
                scene.asked(1);
                known.exchange().await?;
            }
        })
        .await
}

async fn longest(scene: &Scene) -> Result<()> {
    let piece = vec![0xfe; 1 << 20];
    scene
        .crowd(16, async || {
            let strange = scene.sent().is_multiple_of(2);
            let mut wire = if strange { scene.stranger().await? } else { scene.raw(scene.alice().await?)? };
            wire.bytes(&0x00ff_ffffu32.to_be_bytes());
            scene.asked(1);
            for _ in 0..15 {
                wire.bytes(&piece);
                wire.exchange().await?;
            }
            wire.bytes(&piece[1..]);
            wire.exchange().await?;
            wire.hold().await
        })
        .await
}

async fn creates(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut wire = scene.raw(scene.wealthy().await?)?;
            let name = utf16_bytes("chained");
            let open = Open::file("chained").request(&name);
            loop {
                let mut chain = wire.chain();
                let mut count = 0;
                while count + 2 <= CHAIN {
                    chain.push(Command::CREATE, 1, Flags::NONE, |out| open.encode(out));
                    let related = Flags::RELATED_OPERATIONS;
                    chain.push(Command::CLOSE, 1, related, |out| close(FileId::ANY).encode(out));
                    count += 2;
                }
                chain.end();
                scene.asked(count as u64);
                wire.send().await?;
                for _ in 0..count {
                    wire.answer().await?;
                }
            }
        })
        .await
}

async fn echoes(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut wire = scene.raw(scene.wealthy().await?)?;
            loop {
                let mut chain = wire.chain();
                for _ in 0..CHAIN {
                    chain.push(Command::ECHO, 1, Flags::NONE, |out| EchoRequest.encode(out));
                }
                chain.end();
                scene.asked(CHAIN as u64);
                wire.send().await?;
                for _ in 0..CHAIN {
                    wire.answer().await?;
                }
            }
        })
        .await
}

async fn cancels(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            let directory = client.open(&Open::directory("")).await?;
            let mut wire = scene.raw(client)?;
            let watch = ChangeNotifyRequest {
                flags: ChangeNotifyFlags::WATCH_TREE,
                output_buffer_length: 4096,
                file_id: directory,
                completion_filter: CompletionFilter::FILE_NAME,
            };
            loop {
                let mut waiting = Vec::new();
                for _ in 0..64 {
                    waiting.push(wire.queue(Command::CHANGE_NOTIFY, 1, |out| watch.encode(out)));
                }
                wire.exchange().await?;
                for id in waiting.iter().rev() {
                    wire.cancel(*id);
                    (1..16).for_each(|off| wire.cancel(id + off * 1000));
                }
                scene.asked(64 * 17);
                wire.exchange().await?;
                for _ in &waiting {
                    wire.answer().await?;
                }
            }
        })
        .await
}
