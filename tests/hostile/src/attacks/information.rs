//! File information: long answers in long chains, maximum-size ACLs, very many extended attributes.

use anyhow::Result;
use client::{Client, Open};
use proto::bytes::Writer;
use proto::dtyp::{AccessMask, Ace, AceFlags, Acl, Control, SecurityDescriptor, SecurityInformation, Sid};
use proto::fscc::{EntryChain, FileFullEaInformation, FileInformationClass};
use proto::smb2::header::{Command, Flags};
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType};

use super::charge;
use crate::attack::{Attack, Ground};
use crate::scene::Scene;
use crate::wire::Wire;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "information.chains",
        what: "alice sends chains of 60 QUERY_INFOs with buffers of 1 MiB",
        prepare: Some(one_file),
        run: |scene| Box::pin(chains(scene)),
    },
    Attack {
        name: "information.streams",
        what: "alice queries the list of a file's 500 streams in chains",
        prepare: None,
        run: |scene| Box::pin(streams(scene)),
    },
    Attack {
        name: "information.acls",
        what: "alice sets ACLs of 64 KiB, and reads and opens a file with the longest one that fits the file system",
        prepare: Some(one_file),
        run: |scene| Box::pin(acls(scene)),
    },
    Attack {
        name: "information.eas",
        what: "alice sets 2,000 extended attributes at a time and reads them",
        prepare: Some(one_file),
        run: |scene| Box::pin(eas(scene)),
    },
];

const FILE: &str = "described";
const MIB: u32 = super::MIB;

fn one_file(ground: &Ground<'_>) -> Result<()> {
    ground.file(FILE, 4096).map(|_| ())
}

fn query(file_id: FileId, info_type: InfoType, class: u8, length: u32) -> QueryInfoRequest<'static> {
    QueryInfoRequest {
        info_type,
        file_info_class: class,
        output_buffer_length: length,
        additional_information: if info_type == InfoType::SECURITY { 7 } else { 0 },
        file_id,
        ..QueryInfoRequest::default()
    }
}

/// Sends chains of these queries forever.
async fn ask(scene: &Scene, mut wire: Wire, queries: &[QueryInfoRequest<'_>]) -> Result<()> {
    loop {
        let mut chain = wire.chain();
        for query in queries {
            let charge = charge(query.output_buffer_length);
            chain.push(Command::QUERY_INFO, charge, Flags::NONE, |out| query.encode(out));
        }
        chain.end();
        scene.asked(queries.len() as u64);
        wire.send().await?;
        for _ in queries {
            wire.answer().await?;
        }
    }
}

async fn chains(scene: &Scene) -> Result<()> {
    let kinds = [
        (InfoType::FILE, FileInformationClass::ALL.0),
        (InfoType::FILE, FileInformationClass::STREAM.0),
        (InfoType::FILESYSTEM, 7),
        (InfoType::SECURITY, 0),
    ];
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            let file = client.open(&Open::existing(FILE)).await?;
            let wire = scene.raw(client)?;
            let most = wire.credits as usize / usize::from(charge(MIB));
            let queries = kinds.iter().cycle().take(most.min(60)).map(|(kind, class)| query(file, *kind, *class, MIB));
            ask(scene, wire, &queries.collect::<Vec<_>>()).await
        })
        .await
}

async fn streams(scene: &Scene) -> Result<()> {
    scene
        .crowd(2, async || {
            let mut client = scene.wealthy().await?;
            let name = format!("streams-{}", scene.number());
            let file = client.open(&Open::file(&name)).await?;
            for number in 0..scene.choose(100, 500) {
                // The file system may accept no more of them at some point.
                if client.touch(&Open::file(&format!("{name}:a stream with a name, number {number}"))).await.is_err() {
                    break;
                }
            }
            let wire = scene.raw(client)?;
            let queries = vec![query(file, InfoType::FILE, FileInformationClass::STREAM.0, 65_536); 60];
            ask(scene, wire, &queries).await
        })
        .await
}

/// Returns a security descriptor of about `bytes` bytes: ACEs for unknown SIDs, and one for everyone.
fn descriptor(bytes: usize) -> Vec<u8> {
    let everybody = Ace::allow(Sid::EVERYONE, AccessMask(0x001f_01ff), AceFlags::NONE);
    let mut aces = Vec::new();
    let mut size = everybody.size() + 8;
    for rid in 0.. {
        let Some(sid) = Sid::new(5, &[21, 1, 2, 3, 100_000 + rid]) else { break };
        let ace = Ace::deny(sid, AccessMask(1 << (rid % 9)), AceFlags::NONE);
        size += ace.size();
        if size > bytes {
            break;
        }
        aces.push(ace);
    }
    aces.push(everybody);
    let dacl = Acl::new(2, aces);
    SecurityDescriptor { control: Control::DACL_PRESENT, dacl, ..SecurityDescriptor::default() }.to_bytes()
}

async fn set_acl(client: &mut Client, file: FileId, descriptor: &[u8]) -> Result<bool> {
    let set = SetInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: SecurityInformation::DACL.0,
        file_id: file,
        buffer: descriptor,
        ..SetInfoRequest::default()
    };
    match client.set_info(&set).await {
        Ok(()) => Ok(true),
        Err(error) => error.status().map(|_| false).ok_or(error.into()),
    }
}

async fn acls(scene: &Scene) -> Result<()> {
    let sizes = [65_000, 32_000, 16_000, 8000, 3000, 1500];
    let descriptors = sizes.map(descriptor);
    scene
        .crowd(4, async || {
            let mut client = scene.alice_on("acls").await?;
            let file = client.open(&Open::file(FILE).with_access(0x000e_0080)).await?;
            loop {
                // A file system without space for the longest refuses it, after the server has processed it.
                for descriptor in &descriptors {
                    scene.asked(1);
                    if set_acl(&mut client, file, descriptor).await? {
                        break;
                    }
                }
                for _ in 0..16 {
                    let query = query(file, InfoType::SECURITY, 0, 65_536);
                    client.query_info(&query).await?;
                    client.touch(&Open::existing(FILE)).await?;
                    scene.asked(3);
                }
            }
        })
        .await
}

/// Returns a list of extended attributes with these values.
fn ea_list(count: usize, value: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut out = Writer::new(&mut buffer);
    let mut chain = EntryChain::new(&out, 4, 1 << 20);
    for number in 0..count {
        let name = format!("ATTRIBUTE{number}");
        if let Some(entry) = FileFullEaInformation::new(Default::default(), name.as_bytes(), value) {
            entry.push(&mut chain, &mut out);
        }
    }
    buffer
}

async fn eas(scene: &Scene) -> Result<()> {
    let lists = [ea_list(2000, b"a value"), ea_list(50, b"a value"), ea_list(2000, b"")];
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            let name = format!("attributes-{}", scene.number());
            let file = client.open(&Open::file(&name)).await?;
            loop {
                for list in &lists {
                    let set = SetInfoRequest {
                        info_type: InfoType::FILE,
                        file_info_class: FileInformationClass::FULL_EA.0,
                        file_id: file,
                        buffer: list,
                        ..SetInfoRequest::default()
                    };
                    scene.asked(2);
                    let done = client.set_info(&set).await;
                    done.or_else(|error| error.status().map(|_| ()).ok_or(error))?;
                    let query = query(file, InfoType::FILE, FileInformationClass::FULL_EA.0, 65_536);
                    let done = client.query_info(&query).await.map(|_| ());
                    done.or_else(|error| error.status().map(|_| ()).ok_or(error))?;
                }
            }
        })
        .await
}
