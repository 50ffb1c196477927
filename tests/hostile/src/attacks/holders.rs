//! Resources that a client can make the server hold until it is refused: opens, watches, detached opens, sessions, tree
//! connects.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;
use client::{Client, Open};
use proto::bytes::utf16_bytes;
use proto::fscc::FileInformationClass;
use proto::smb2::FileId;
use proto::smb2::OplockLevel;
use proto::smb2::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use proto::smb2::create::{CreateDisposition, CreateRequest};
use proto::smb2::create_context::{DurableHandleFlags, DurableHandleRequestV2};
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, NetworkResiliencyRequest};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};

use super::{fsctl, open_many};
use crate::attack::{Attack, Ground};
use crate::scene::{HOST, SHARE, Scene};

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "holders.opens",
        what: "alice opens a file on four connections until refused, and keeps all opens",
        prepare: Some(one_file),
        run: |scene| Box::pin(opens(scene)),
    },
    Attack {
        name: "holders.files",
        what: "alice creates files on four connections and keeps all of them open",
        prepare: None,
        run: |scene| Box::pin(files(scene)),
    },
    Attack {
        name: "holders.watches",
        what: "alice opens directories and watches each tree, until refused",
        prepare: Some(directories),
        run: |scene| Box::pin(watches(scene)),
    },
    Attack {
        name: "holders.resilient",
        what: "alice makes opens resilient for 10 s, disconnects, and connects again for more",
        prepare: Some(one_file),
        run: |scene| Box::pin(resilient(scene)),
    },
    Attack {
        name: "holders.durable",
        what: "alice makes opens durable with batch oplocks for 10 s, disconnects, and connects again for more",
        prepare: None,
        run: |scene| Box::pin(durable(scene)),
    },
    Attack {
        name: "holders.sessions",
        what: "alice logs on repeatedly on eight connections and ends no session",
        prepare: None,
        run: |scene| Box::pin(sessions(scene)),
    },
    Attack {
        name: "holders.trees",
        what: "alice connects to shares on eight connections and never disconnects",
        prepare: None,
        run: |scene| Box::pin(trees(scene)),
    },
    Attack {
        name: "holders.connections",
        what: "alice opens one connection after another, logs on, and keeps them",
        prepare: None,
        run: |scene| Box::pin(connections(scene)),
    },
    Attack {
        name: "holders.listings",
        what: "alice starts listings of a large directory with one handle after another",
        prepare: Some(many_entries),
        run: |scene| Box::pin(listings(scene)),
    },
];

/// How long a disconnected open is to last: less than the time that the server has to release its resources.
const LASTS: Duration = Duration::from_secs(10);
const FILE: &str = "open";

fn one_file(ground: &Ground<'_>) -> Result<()> {
    ground.file(FILE, 4096).map(|_| ())
}

async fn opens(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            loop {
                let handles = open_many(&mut client, &Open::existing(FILE), 128).await?;
                scene.asked(handles.len() as u64);
                if handles.len() < 128 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        })
        .await
}

async fn files(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            let own = scene.number();
            let mut number = 0;
            loop {
                let name = format!("held-{own}-{number}");
                number += 1;
                scene.asked(1);
                if let Err(error) = client.open(&Open::file(&name)).await {
                    error.status().ok_or(error)?;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        })
        .await
}

fn directories(ground: &Ground<'_>) -> Result<()> {
    for number in 0..ground.choose(100, 1000) {
        ground.directory(&format!("watched-{number}"))?;
    }
    Ok(())
}

async fn watches(scene: &Scene) -> Result<()> {
    let directories = scene.choose(100, 1000);
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            let mut handles = Vec::new();
            for number in 0..8 * directories {
                scene.asked(1);
                let name = format!("watched-{}", number % directories);
                match client.open(&Open::directory(&name)).await {
                    Ok(handle) => handles.push(handle),
                    Err(_) => break,
                }
            }
            let mut wire = scene.raw(client)?;
            for handle in handles.iter().cycle() {
                let watch = ChangeNotifyRequest {
                    flags: ChangeNotifyFlags::WATCH_TREE,
                    output_buffer_length: 65_536,
                    file_id: *handle,
                    completion_filter: CompletionFilter(0xfff),
                };
                scene.asked(1);
                wire.queue(Command::CHANGE_NOTIFY, 1, |out| watch.encode(out));
                wire.exchange().await?;
                if !wire.affords(1) {
                    wire.sip(65_536).await?;
                }
            }
            wire.hold().await
        })
        .await
}

async fn resilient(scene: &Scene) -> Result<()> {
    let mut input = Vec::new();
    let timeout = scene.choose(1000, u32::try_from(LASTS.as_millis())?);
    NetworkResiliencyRequest { timeout }.encode(&mut proto::bytes::Writer::new(&mut input));
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            for handle in open_many(&mut client, &Open::existing(FILE), 200).await? {
                scene.asked(2);
                let request = fsctl(FsctlCode::LMR_REQUEST_RESILIENCY, handle, &input, 0);
                client.call(Command::IOCTL, 1, |out| request.encode(out)).await?;
            }
            Ok(())
        })
        .await
}

async fn durable(scene: &Scene) -> Result<()> {
    let timeout = scene.choose(1000, u32::try_from(LASTS.as_millis())?);
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            let own = scene.number();
            for number in 0..500u64 {
                let name = utf16_bytes(&format!("durable-{own}-{number}"));
                let mut create_guid = [0; 16];
                create_guid[..8].copy_from_slice(&own.to_le_bytes());
                create_guid[8..].copy_from_slice(&number.to_le_bytes());
                let flags = DurableHandleFlags::NONE;
                let request = CreateRequest {
                    requested_oplock_level: OplockLevel::BATCH,
                    create_disposition: CreateDisposition::OPEN_IF,
                    create_contexts: vec![DurableHandleRequestV2 { timeout, flags, create_guid }.to_context()],
                    ..Open::file("").request(&name)
                };
                scene.asked(1);
                client.create(&request).await?;
            }
            Ok(())
        })
        .await
}

async fn sessions(scene: &Scene) -> Result<()> {
    scene
        .crowd(8, async || {
            let mut client = scene.logged_on().await?;
            loop {
                scene.asked(2);
                client.log_on_again(HOST, &scene.options(&test_environment::ALICE)).await?;
            }
        })
        .await
}

async fn trees(scene: &Scene) -> Result<()> {
    scene
        .crowd(8, async || {
            let mut client = scene.logged_on().await?;
            loop {
                scene.asked(1);
                if client.tree_connect(HOST, SHARE).await.is_err() {
                    client.log_on_again(HOST, &scene.options(&test_environment::ALICE)).await?;
                }
            }
        })
        .await
}

async fn connections(scene: &Scene) -> Result<()> {
    let held = RefCell::new(Vec::new());
    // If all connected at once, they would displace each other before they are logged on.
    scene
        .crowd(16, async || {
            loop {
                let client = scene.alice().await?;
                scene.asked(1);
                held.borrow_mut().push(scene.raw(client)?);
            }
        })
        .await
}

fn many_entries(ground: &Ground<'_>) -> Result<()> {
    let directory = ground.directory("many")?;
    for number in 0..ground.choose(2000, 20_000) {
        std::fs::File::create(directory.join(format!("an entry with a name that is not short, number {number}")))?;
    }
    Ok(())
}

async fn listings(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.wealthy().await?;
            loop {
                let handles = open_many(&mut client, &Open::directory("many"), 64).await?;
                for handle in handles {
                    begin(&mut client, handle).await?;
                    scene.asked(2);
                }
            }
        })
        .await
}

/// Requests the first few entries of a directory.
async fn begin(client: &mut Client, directory: FileId) -> Result<()> {
    let pattern = utf16_bytes("*");
    let request = QueryDirectoryRequest {
        file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
        flags: QueryDirectoryFlags(0),
        file_index: 0,
        file_id: directory,
        file_name: &pattern,
        output_buffer_length: 512,
    };
    client.call(Command::QUERY_DIRECTORY, 1, |out| request.encode(out)).await?;
    Ok(())
}
