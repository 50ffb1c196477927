//! Change notification with very many changes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::Open;
use proto::smb2::FileId;
use proto::smb2::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use proto::smb2::header::Command;

use crate::attack::{Attack, Ground};
use crate::scene::Scene;
use crate::wire::Wire;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "notify.storm",
        what: "32 handles of alice watch a tree in which a local program makes 10,000 changes a second",
        prepare: Some(tree),
        run: |scene| Box::pin(storm(scene)),
    },
    Attack {
        name: "notify.own",
        what: "alice watches a tree with 64 handles, and changes it on two connections as fast as possible",
        prepare: Some(tree),
        run: |scene| Box::pin(own(scene)),
    },
];

const TREE: &str = "tree";
const DIRECTORIES: u32 = 50;
/// Changes per second.
const CHANGES: u32 = 10_000;

fn tree(ground: &Ground<'_>) -> Result<()> {
    ground.directory(TREE)?;
    for number in 0..DIRECTORIES {
        ground.directory(&format!("{TREE}/{number}"))?;
    }
    Ok(())
}

/// Watches the tree with `handles` handles of one connection, and reads the notifications.
async fn watch(scene: &Scene, handles: usize) -> Result<()> {
    let mut client = scene.wealthy().await?;
    let files = super::open_many(&mut client, &Open::directory(TREE), handles).await?;
    let mut wire = scene.raw(client)?;
    let ask = |wire: &mut Wire, file_id: FileId| {
        let watch = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::WATCH_TREE,
            output_buffer_length: 65_536,
            file_id,
            completion_filter: CompletionFilter(0xfff),
        };
        wire.queue(Command::CHANGE_NOTIFY, 1, |out| watch.encode(out))
    };
    let mut asked: std::collections::BTreeMap<u64, FileId> = std::collections::BTreeMap::new();
    for file in files {
        asked.insert(ask(&mut wire, file), file);
    }
    wire.send().await?;
    loop {
        let answer = wire.answer().await?;
        if let Some(file) = asked.remove(&answer.message_id) {
            asked.insert(ask(&mut wire, file), file);
            wire.send().await?;
            scene.asked(1);
        }
    }
}

/// A local program that changes the tree until dropped.
struct Changer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Changer {
    fn start(tree: PathBuf) -> Result<Changer> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::Builder::new().name("changes".into()).spawn(move || {
            let begun = Instant::now();
            for round in 0u32.. {
                // A file is created and removed, which is at least two changes.
                let file = tree.join((round % DIRECTORIES).to_string()).join(format!("changes-{}", round % 500));
                let done = fs::write(&file, b"x").and_then(|()| fs::remove_file(&file));
                if done.is_err() || asked.load(Ordering::Acquire) {
                    return;
                }
                let due = Duration::from_secs(1) * round * 2 / CHANGES;
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        })?;
        Ok(Changer { stop, thread: Some(thread) })
    }
}

impl Drop for Changer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn storm(scene: &Scene) -> Result<()> {
    let _changer = Changer::start(scene.path(TREE))?;
    scene.crowd(4, async || watch(scene, 8).await).await
}

async fn own(scene: &Scene) -> Result<()> {
    let changes = scene.crowd(2, async || {
        let mut client = scene.alice().await?;
        let own = scene.number();
        for round in 0u32.. {
            let name = format!(r"{TREE}\{}\own-{own}-{}", round % DIRECTORIES, round % 100);
            client.touch(&Open::file(&name)).await?;
            client.delete(&name).await?;
            scene.asked(4);
        }
        Ok(())
    });
    let watchers = scene.crowd(4, async || watch(scene, 16).await);
    tokio::try_join!(changes, watchers).map(|_| ())
}
