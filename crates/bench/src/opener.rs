//! A worker that opens names in one directory, one after the other.

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Open};
use proto::bytes::utf16_bytes;
use proto::status::Status;

use crate::listing::numbered;
use crate::load::{Done, Worker};
use crate::random::Random;

/// What the files of the directory are called: in both cases, so that none is as it would be folded.
pub const FILE: &str = "File-";
/// What is asked for that is not there, and how many such names there are.
const ABSENT: &str = "Gone-";
const ABSENT_NAMES: u64 = 10_000_000;

/// The size of the file with this number: by it an open is known to have found the right file.
pub fn size_of(number: u64) -> u64 {
    number % 1000
}

/// Which names are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// Any of the files, spelled as it is on the disk.
    Any,
    /// The first file, always.
    First,
    /// Any of the files, in capitals.
    InCapitals,
    /// Names that no file has.
    Absent,
}

/// A connection that opens names; what it opened, it closes.
pub struct Opener {
    client: Client,
    asks: Asks,
    /// The directory with its backslash.
    directory: String,
    /// How many files there are in it.
    files: u64,
    random: Random,
}

impl Opener {
    /// One that knows no directory yet.
    pub fn new(client: Client) -> Opener {
        Opener { client, asks: Asks::Any, directory: String::new(), files: 1, random: Random::new(0) }
    }

    /// What it shall do from now on.
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
        Err(error) => Err(error).with_context(|| format!("{path}, which is not there")),
        Ok(_) => bail!("the server opened {path}, which is not there"),
    }
}

async fn hit(client: &mut Client, path: &str, size: u64) -> Result<()> {
    let name = utf16_bytes(path);
    let opened =
        client.create(&Open::existing(path).request(&name)).await.with_context(|| format!("opening {path}"))?;
    let (file_id, found) = (opened.file_id, opened.end_of_file);
    ensure!(found == size, "the server opened another file than {path}: one with {found} bytes in place of {size}");
    client.close(file_id).await.with_context(|| format!("closing {path}"))
}
