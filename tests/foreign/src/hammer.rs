//! A client that makes random requests on a few files, concurrently with other clients: opens with oplocks and leases,
//! reads, writes, locks, renames, deletes and lost connections. It is a separate process, so that it can be killed.
//!
//! One operation is exact: under an exclusive lock, the client increments a number in a file and then records that.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Client, Credentials, Error, Open};
use proto::bytes::utf16_bytes;
use proto::smb2::create::CreateDisposition;
use proto::smb2::create_context::{LeaseFlags, LeaseV2};
use proto::smb2::lock::{LockElement, LockFlags};
use proto::smb2::{FileId, LeaseState, OplockLevel};
use proto::status::Status;

use test_environment::ALICE;

/// The directory that the clients work on.
pub(crate) const DIRECTORY: &str = "hammer";
/// The file with the number, which is never renamed or deleted.
pub(crate) const COUNTER: &str = r"hammer\counter";
const NAMES: [&str; 4] = [r"hammer\a", r"hammer\b", r"hammer\c", r"hammer\d"];
/// Longer than any oplock break that the holder acknowledges, and shorter than one that it does not.
const PATIENCE: Duration = Duration::from_secs(30);

/// The options of one client.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Address on which the server listens
    #[arg(long)]
    address: SocketAddr,
    /// Seed of the client's random numbers
    #[arg(long)]
    seed: u64,
    /// Duration in seconds
    #[arg(long)]
    seconds: u64,
    /// File in which it records how often it has counted
    #[arg(long)]
    notes: PathBuf,
}

/// A random number generator (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }
}

/// Runs one client to its end.
///
/// # Errors
/// If the server did not answer in time, gave a wrong answer, or lost a count.
pub fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(hammer(options))
}

async fn connect(options: &Options) -> Result<Client> {
    let client = client::Options {
        credentials: Credentials::password(ALICE.name, ALICE.password),
        timeout: PATIENCE,
        ..client::Options::default()
    };
    Client::connect(options.address, "127.0.0.1", "files", &client).await.context("connecting")
}

async fn hammer(options: &Options) -> Result<()> {
    let mut random = Random::new(options.seed);
    let notes = File::options().create(true).truncate(true).write(true).open(&options.notes)?;
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut client = connect(options).await?;
    let (mut held, mut counted) = (Vec::<FileId>::new(), 0u64);
    while Instant::now() < end {
        let name = NAMES[random.next(NAMES.len())];
        let choice = random.next(100);
        let result = match choice {
            0..20 if held.len() < 5 => open(&mut client, &mut random, name).await.map(|id| held.push(id)),
            20..60 if !held.is_empty() => use_open(&mut client, &mut random, &held).await,
            60..75 if !held.is_empty() => client.close(held.swap_remove(random.next(held.len()))).await,
            75..80 => client.rename(name, NAMES[random.next(NAMES.len())], random.next(2) == 0).await,
            80..85 => client.delete(name).await,
            85..99 => count(&mut client).await.and_then(|done| {
                if done {
                    counted += 1;
                    notes.write_all_at(&counted.to_le_bytes(), 0)?;
                }
                Ok(())
            }),
            99 => {
                // The connection is lost without notice, with all its handles.
                held.clear();
                client = connect(options).await?;
                Ok(())
            }
            _ => client.echo().await,
        };
        expected(result)?;
    }
    for open in held {
        expected(client.close(open).await)?;
    }
    expected(client.log_off().await)
}

/// Accepts refusals of these kinds.
fn expected(result: client::Result<()>) -> Result<()> {
    const EXPECTED: [Status; 9] = [
        Status::OBJECT_NAME_NOT_FOUND,
        Status::OBJECT_NAME_COLLISION,
        Status::DELETE_PENDING,
        Status::SHARING_VIOLATION,
        Status::ACCESS_DENIED,
        Status::FILE_LOCK_CONFLICT,
        Status::LOCK_NOT_GRANTED,
        Status::END_OF_FILE,
        Status::RANGE_NOT_LOCKED,
    ];
    match result {
        Err(Error::Refused { status, .. }) if EXPECTED.contains(&status) => Ok(()),
        other => other.context("hammering"),
    }
}

async fn open(client: &mut Client, random: &mut Random, name: &str) -> client::Result<FileId> {
    let wire_name = utf16_bytes(name);
    let mut request = Open::file(name).request(&wire_name);
    if random.next(4) == 0 {
        request.create_disposition = CreateDisposition::OVERWRITE_IF;
    }
    request.requested_oplock_level = match random.next(5) {
        0 => OplockLevel::NONE,
        1 => OplockLevel::II,
        2 => OplockLevel::BATCH,
        _ => OplockLevel::LEASE,
    };
    if request.requested_oplock_level == OplockLevel::LEASE {
        let mut lease_key = [0; 16];
        lease_key[..8].copy_from_slice(&(random.next(usize::MAX) as u64).to_le_bytes());
        let lease = LeaseV2 {
            lease_key,
            lease_state: LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING,
            flags: LeaseFlags::NONE,
            parent_lease_key: [0; 16],
            epoch: 0,
        };
        request.create_contexts = vec![lease.to_context()];
    }
    Ok(client.create(&request).await?.file_id)
}

async fn use_open(client: &mut Client, random: &mut Random, held: &[FileId]) -> client::Result<()> {
    let open = held[random.next(held.len())];
    let offset = random.next(64) as u64 * 4096;
    match random.next(5) {
        0 | 1 => client.write(open, offset, &[offset as u8; 4096]).await,
        2 | 3 => client.read(open, offset, 4096).await.map(drop),
        _ => {
            let range = |flags| vec![LockElement { offset: 1 << 40, length: 10, flags }];
            client.lock(open, range(LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY)).await?;
            client.lock(open, range(LockFlags::UNLOCK)).await
        }
    }
}

/// Increments the number under an exclusive lock. Returns `false` if that was not possible.
async fn count(client: &mut Client) -> client::Result<bool> {
    let open = client.open(&Open::file(COUNTER)).await?;
    let range = |flags| vec![LockElement { offset: 0, length: 8, flags }];
    // Waits for the client that is counting now.
    client.lock(open, range(LockFlags::EXCLUSIVE_LOCK)).await?;
    let mut number = [0; 8];
    number.copy_from_slice(client.read(open, 0, 8).await?);
    let next = u64::from_le_bytes(number) + 1;
    client.write(open, 0, &next.to_le_bytes()).await?;
    client.lock(open, range(LockFlags::UNLOCK)).await?;
    client.close(open).await?;
    Ok(true)
}

/// Returns how often the clients have counted, according to their records.
pub(crate) fn noted(notes: &[PathBuf]) -> Result<u64> {
    let mut sum = 0;
    for path in notes {
        let bytes = std::fs::read(path).unwrap_or_default();
        ensure!(bytes.is_empty() || bytes.len() == 8, "{} does not contain a number", path.display());
        sum += bytes.try_into().map_or(0, u64::from_le_bytes);
    }
    Ok(sum)
}
