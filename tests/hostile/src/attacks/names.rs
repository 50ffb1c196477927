//! Names: patterns that are expensive to match, look-ups in large directories, missing names.

use anyhow::Result;
use client::{Client, Open};
use proto::bytes::utf16_bytes;
use proto::fscc::FileInformationClass;
use proto::smb2::FileId;
use proto::smb2::header::Command;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};

use crate::attack::{Attack, Ground};
use crate::scene::Scene;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "names.wildcards",
        what: "alice lists names of 255 characters with patterns of 255 characters that nearly match",
        prepare: Some(long_names),
        run: |scene| Box::pin(wildcards(scene)),
    },
    Attack {
        name: "names.single",
        what: "alice queries single names in a directory of 100,000 (5,000 in brief)",
        prepare: Some(large_directory),
        run: |scene| Box::pin(single(scene)),
    },
    Attack {
        name: "names.missing",
        what: "alice opens names in another case and missing names in the same directory",
        prepare: Some(large_directory),
        run: |scene| Box::pin(missing(scene)),
    },
    Attack {
        name: "names.listings",
        what: "alice lists the same directory repeatedly, 64 KiB at a time, on four connections",
        prepare: Some(large_directory),
        run: |scene| Box::pin(listings(scene)),
    },
];

const LONG: &str = "long";
const LARGE: &str = "large";

fn long_names(ground: &Ground<'_>) -> Result<()> {
    let directory = ground.directory(LONG)?;
    for number in 0..ground.choose(500, 3000) {
        std::fs::File::create(directory.join(format!("{}{number:05}", "a".repeat(250))))?;
    }
    Ok(())
}

fn large_directory(ground: &Ground<'_>) -> Result<()> {
    let directory = ground.directory(LARGE)?;
    for number in 0..ground.choose(5000, 100_000) {
        std::fs::File::create(directory.join(format!("name-{number:06}")))?;
    }
    Ok(())
}

/// Requests the first buffer of a listing.
async fn list(client: &mut Client, directory: FileId, pattern: &str, length: u32) -> Result<()> {
    let pattern = utf16_bytes(pattern);
    let request = QueryDirectoryRequest {
        file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
        flags: QueryDirectoryFlags::RESTART_SCANS | QueryDirectoryFlags::REOPEN,
        file_index: 0,
        file_id: directory,
        file_name: &pattern,
        output_buffer_length: length,
    };
    client.queue(Command::QUERY_DIRECTORY, 1, 0, |out| request.encode(out))?;
    client.flush().await?;
    client.next().await?;
    Ok(())
}

async fn wildcards(scene: &Scene) -> Result<()> {
    // Every asterisk can match every part of the name, and the end of the pattern matches none of them.
    let patterns = [format!("{}b", "*a".repeat(127)), format!("{}b", "a*?".repeat(84)), "*".repeat(254) + "b"];
    scene
        .crowd(4, async || {
            let mut client = scene.alice().await?;
            let directory = client.open(&Open::directory(LONG)).await?;
            for pattern in patterns.iter().cycle() {
                scene.asked(1);
                list(&mut client, directory, pattern, 4096).await?;
            }
            Ok(())
        })
        .await
}

async fn single(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.alice().await?;
            let directory = client.open(&Open::directory(LARGE)).await?;
            for number in (0..scene.choose(5000, 100_000)).rev().step_by(7).cycle() {
                scene.asked(1);
                list(&mut client, directory, &format!("name-{number:06}"), 4096).await?;
            }
            Ok(())
        })
        .await
}

async fn missing(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.alice().await?;
            for number in 0u64.. {
                let name = match number % 2 {
                    0 => format!(r"{LARGE}\none-{number}"),
                    _ => format!(r"{LARGE}\NAME-{:06}", number % 5000),
                };
                scene.asked(1);
                let open = Open { access: client::Access::ATTRIBUTES, ..Open::existing(&name) };
                if let Err(error) = client.touch(&open).await {
                    error.status().ok_or(error)?;
                }
            }
            Ok(())
        })
        .await
}

async fn listings(scene: &Scene) -> Result<()> {
    scene
        .crowd(4, async || {
            let mut client = scene.alice().await?;
            let directory = client.open(&Open::directory(LARGE)).await?;
            loop {
                scene.asked(1);
                list(&mut client, directory, "*", 65_536).await?;
            }
        })
        .await
}
