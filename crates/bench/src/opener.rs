//! A worker that opens names in one directory, one after another.

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Open};
use proto::bytes::utf16_bytes;
use proto::status::Status;

use crate::listing::numbered;
use crate::load::{Done, Worker};
use crate::random::Random;

/// Prefix of the file names in the directory. It mixes upper and lower case, so no name equals its case-folded form.
pub const FILE: &str = "File-";
/// Prefix of names that do not exist, and the number of such names.
const ABSENT: &str = "Gone-";
const ABSENT_NAMES: u64 = 10_000_000;

/// Returns the size of the file with this number. An open that returns another size found the wrong file.
pub fn size_of(number: u64) -> u64 {
    number % 1000
}

/// Selects the names to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// Any of the files, spelled as on disk.
    Any,
    /// Always the first file.
    First,
    /// Any of the files, in upper case.
    InCapitals,
    /// Names of files that do not exist.
    Absent,
}

/// A connection that opens names and closes every handle that it gets.
pub struct Opener {
    client: Client,
    asks: Asks,
    /// The directory's path, with a trailing backslash.
    directory: String,
    /// Number of files in the directory.
    files: u64,
    random: Random,
}

impl Opener {
    /// Creates a worker that has no directory yet.
    pub fn new(client: Client) -> Opener {
        Opener { client, asks: Asks::Any, directory: String::new(), files: 1, random: Random::new(0) }
    }

    /// Sets the task for the next turn.
    pub fn turn_to(&mut self, asks: Asks, directory: &str, files: u64, seed: u64) {
        self.asks = asks;
        self.directory = format!(r"{directory}\");
        self.files = files.max(1);
        self.random = Random::new(seed);
    }
}

impl Worker for Opener {
    async fn step(&mut self) -> Result<Done> {
        let number = match self.asks {
            Asks::Any | Asks::InCapitals => self.random.below(self.files),
            Asks::First => 0,
            Asks::Absent => self.random.below(ABSENT_NAMES),
        };
        let name = match self.asks {
            Asks::Any | Asks::First => numbered(FILE, number),
            Asks::InCapitals => numbered(FILE, number).to_ascii_uppercase(),
            Asks::Absent => numbered(ABSENT, number),
        };
        let path = self.directory.clone() + &name;
        match self.asks {
            Asks::Absent => miss(&mut self.client, &path).await?,
            _ => hit(&mut self.client, &path, size_of(number)).await?,
        }
        Ok(Done::one(0))
    }
}

async fn miss(client: &mut Client, path: &str) -> Result<()> {
    match client.open(&Open::existing(path)).await {
        Err(error) if error.status() == Some(Status::OBJECT_NAME_NOT_FOUND) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("opening {path}, which does not exist")),
        Ok(_) => bail!("the server opened {path}, which does not exist"),
    }
}

async fn hit(client: &mut Client, path: &str, size: u64) -> Result<()> {
    let name = utf16_bytes(path);
    let opened =
        client.create(&Open::existing(path).request(&name)).await.with_context(|| format!("opening {path}"))?;
    let (file_id, found) = (opened.file_id, opened.end_of_file);
    ensure!(found == size, "the server opened the wrong file for {path}: it has {found} bytes, expected {size}");
    client.close(file_id).await.with_context(|| format!("closing {path}"))
}
