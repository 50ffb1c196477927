//! The load while a parameter is measured: short parts of the other experiments, and a client that caches as far as its
//! oplock permits.

use anyhow::{Context, Result, bail, ensure};
use client::{Access, Client, Open, Window};
use proto::bytes::utf16_bytes;
use proto::fscc::FileInformationClass;
use proto::smb2::create::CreateDisposition;
use proto::smb2::header::Command;
use proto::smb2::lock::{LockElement, LockFlags};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::write::{WriteRequest, WriteResponse};
use proto::smb2::{FileId, OplockLevel};
use report::metric::Metric;

use crate::load::{Done, Worker};
use crate::method::Server;
use crate::random::{Content, Look, Random};

/// Directory of the files, relative to the share.
const DIRECTORY: &str = "frevo-bench-tune";
/// The directory with many files.
const LIST: &str = r"frevo-bench-tune\list";

const MIB: u32 = 1 << 20;
const SMALL: u32 = 4 << 10;
const CACHED: u32 = 16 << 10;
const DURABLE: u32 = 64 << 10;
/// Number of times a program opens, reads and closes a file that it works with.
const ACCESSES: u64 = 4;
/// Number of files that each caching client works with.
const CACHED_FILES: u64 = 8;

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Sequential reading.
    Read,
    /// Sequential writing.
    Write,
    /// Sequential reading with the largest request that the server accepts.
    LargestRead,
    /// Sequential writing with the largest request that the server accepts.
    LargestWrite,
    /// Alternate reads and writes of 4 KiB at random offsets, in a file with a lock.
    Small,
    /// The life cycle of a small file among many: created, written, closed, read, deleted.
    Files,
    /// Listing of a directory with many files.
    Listing,
    /// Files repeatedly opened, read and closed, with a batch oplock.
    Batch,
    /// The same with a level II oplock.
    LevelTwo,
    /// Writes of 64 KiB, each flushed to the disk.
    Durable,
}

impl Work {
    /// Returns its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Read => "sequential read",
            Work::Write => "sequential write",
            Work::LargestRead => "largest reads",
            Work::LargestWrite => "largest writes",
            Work::Small => "random 4 KiB",
            Work::Files => "small files",
            Work::Listing => "entries listed",
            Work::Batch => "accesses, batch oplock",
            Work::LevelTwo => "accesses, level II oplock",
            Work::Durable => "writes with flush",
        }
    }

    /// Returns the metric by which it is compared.
    pub(super) fn metric(self) -> Metric {
        match self {
            Work::Read | Work::Write | Work::LargestRead | Work::LargestWrite => Metric::THROUGHPUT,
            _ => Metric::RATE,
        }
    }

    /// Returns the metric of the server's cost.
    pub(super) fn cost(self) -> Metric {
        match self {
            Work::Read | Work::Write | Work::LargestRead | Work::LargestWrite => Metric::CPU_PER_GIB,
            _ => Metric::CPU_PER_OPERATION,
        }
    }

    fn window(self, client: &Client, usual: Window) -> Window {
        let (reads, writes) = (client.agreed().max_read_size, client.agreed().max_write_size);
        // The largest requests that the credits allow are at most 32 MiB together.
        let largest = |piece: u32| Window { piece: piece.min(8 * MIB), depth: 2 };
        match self {
            Work::LargestRead => largest(reads),
            Work::LargestWrite => largest(writes),
            Work::Write => Window { piece: usual.piece.min(writes), ..usual },
            _ => Window { piece: usual.piece.min(reads), ..usual },
        }
    }
}

/// The sizes of the working data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sizes {
    /// Number of connections.
    pub(super) clients: usize,
    /// Size of each connection's large file, in bytes.
    pub(super) file: u64,
    /// Number of files in the directory with many files.
    pub(super) entries: u64,
    /// Size and number of requests in sequential access, unless the work specifies its own.
    pub(super) window: Window,
}

/// Creates the files that the works need.
pub(super) async fn prepare(server: &Server, sizes: Sizes) -> Result<()> {
    let mut client = server.connect().await?;
    client.make_directory(DIRECTORY).await.context("cannot create a directory in the share")?;
    client.make_directory(LIST).await?;
    for entry in 0..sizes.entries {
        client.touch(&Open::file(&format!(r"{LIST}\Document {entry:05}.txt"))).await?;
    }
    for number in 0..sizes.clients as u64 {
        fill(&mut client, &large(number), Content { file: number }, sizes.file).await?;
        for file in 0..CACHED_FILES {
            fill(&mut client, &cached(number, file), Content { file: number }, CACHED.into()).await?;
        }
    }
    Ok(client.log_off().await?)
}

async fn fill(client: &mut Client, name: &str, content: Content, size: u64) -> Result<()> {
    let file = client.open(&Open::file(name)).await?;
    client.write_file(file, 0..size, Window::default(), |offset, out| content.fill(offset, out)).await?;
    Ok(client.close(file).await?)
}

/// Deletes the files that [`prepare`] created.
pub(super) async fn clean(server: &Server, sizes: Sizes) -> Result<()> {
    let mut client = server.connect().await?;
    for number in 0..sizes.clients as u64 {
        client.delete(&large(number)).await?;
        for file in 0..CACHED_FILES {
            client.delete(&cached(number, file)).await?;
        }
    }
    for entry in 0..sizes.entries {
        client.delete(&format!(r"{LIST}\Document {entry:05}.txt")).await?;
    }
    client.delete(LIST).await?;
    Ok(client.delete(DIRECTORY).await?)
}

fn large(number: u64) -> String {
    format!(r"{DIRECTORY}\large{number}")
}

fn cached(number: u64, file: u64) -> String {
    format!(r"{DIRECTORY}\cached{number}-{file}.dat")
}

/// A connection that performs one kind of work.
pub(super) struct Hand {
    work: Work,
    client: Client,
    /// The large file, or the directory.
    file: FileId,
    content: Content,
    sizes: Sizes,
    window: Window,
    random: Random,
    next: u64,
    buffer: Vec<u8>,
}

/// Opens the connections, ready to work.
pub(super) async fn hands(server: &Server, work: Work, sizes: Sizes, seed: u64) -> Result<Vec<Hand>> {
    let mut hands = Vec::new();
    for (number, mut client) in (0..).zip(server.connect_many(sizes.clients).await?) {
        let file = client.open(&Open::file(&large(number))).await?;
        if work == Work::Small {
            // The lock is behind the end of the file, where it does not conflict. The server must check it
            // nevertheless.
            let flags = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
            client.lock(file, vec![LockElement { offset: 1 << 40, length: 1, flags }]).await?;
        }
        let (content, window) = (Content { file: number }, work.window(&client, sizes.window));
        let random = Random::new(seed.wrapping_add(number));
        let buffer = vec![0; DURABLE.max(window.piece) as usize];
        hands.push(Hand { work, client, file, content, sizes, window, random, next: 0, buffer });
    }
    Ok(hands)
}

impl Worker for Hand {
    async fn step(&mut self) -> Result<Done> {
        match self.work {
            Work::Read | Work::LargestRead => self.stream(false).await,
            Work::Write | Work::LargestWrite => self.stream(true).await,
            Work::Small => self.small().await,
            Work::Files => self.life().await,
            Work::Listing => self.list().await,
            Work::Batch => self.accesses(OplockLevel::BATCH).await,
            Work::LevelTwo => self.accesses(OplockLevel::II).await,
            Work::Durable => self.durable().await,
        }
    }
}

impl Hand {
    /// Sends one more request, or receives one response if the maximum is in flight, so that the link never idles.
    async fn stream(&mut self, writes: bool) -> Result<Done> {
        let length = u64::from(self.window.piece).min(self.sizes.file - self.next);
        let charge = u16::try_from(length.div_ceil(64 << 10)).unwrap_or(u16::MAX);
        let may = self.client.in_flight() < self.window.depth && self.client.affords(charge);
        if may {
            self.send(writes, length as u32, charge).await?;
            return Ok(Done::default());
        }
        ensure!(self.client.in_flight() > 0, "the server grants too few credits for one request of {length} bytes");
        let (content, size, piece) = (self.content, self.sizes.file, u64::from(self.window.piece));
        let response = self.client.next().await?;
        response.succeeded()?;
        let offset = response.tag;
        let expected = piece.min(size - offset);
        let done = if writes {
            u64::from(WriteResponse::decode(response.message)?.count)
        } else {
            let data = ReadResponse::decode(response.message)?.buffer;
            if let Some(wrong) = content.wrong_at(offset, data, Look::Pages) {
                bail!("the server returned wrong data at offset {wrong}");
            }
            data.len() as u64
        };
        ensure!(done == expected, "the server moved {done} of {expected} bytes at offset {offset}");
        Ok(Done::one(done))
    }

    async fn send(&mut self, writes: bool, length: u32, charge: u16) -> Result<()> {
        let offset = self.next;
        self.next = (offset + u64::from(length)) % self.sizes.file;
        if writes {
            let data = &mut self.buffer[..length as usize];
            self.content.fill(offset, data);
            return Ok(self.client.send_write(offset, &WriteRequest::new(self.file, offset, data)).await?);
        }
        let request = ReadRequest { file_id: self.file, offset, length, ..ReadRequest::default() };
        self.client.queue(Command::READ, charge, offset, |out| request.encode(out))?;
        Ok(self.client.flush().await?)
    }

    async fn small(&mut self) -> Result<Done> {
        let offset = self.random.below(self.sizes.file / u64::from(SMALL)) * u64::from(SMALL);
        self.next += 1;
        if self.next.is_multiple_of(2) {
            let data = &mut self.buffer[..SMALL as usize];
            self.content.fill(offset, data);
            self.client.write(self.file, offset, data).await?;
        } else {
            let content = self.content;
            let data = self.client.read(self.file, offset, SMALL).await?;
            ensure!(data.len() == SMALL as usize, "the server returned {} of {SMALL} bytes", data.len());
            ensure!(
                content.wrong_at(offset, data, Look::Pages).is_none(),
                "the server returned wrong data at {offset}"
            );
        }
        Ok(Done::one(SMALL.into()))
    }

    async fn life(&mut self) -> Result<Done> {
        self.next += 1;
        let name = format!(r"{LIST}\Work {}-{}.txt", self.content.file, self.next);
        let data = &mut self.buffer[..SMALL as usize];
        self.content.fill(0, data);
        let file = self.client.open(&Open::file(&name).with_disposition(CreateDisposition::CREATE)).await?;
        self.client.write(file, 0, data).await?;
        self.client.close(file).await?;
        let file = self.client.open(&Open::existing(&name)).await?;
        let length = self.client.read(file, 0, SMALL).await?.len();
        ensure!(length == SMALL as usize, "the server returned {length} of {SMALL} bytes of {name}");
        self.client.close(file).await?;
        self.client.delete(&name).await?;
        Ok(Done::one(SMALL.into()))
    }

    async fn list(&mut self) -> Result<Done> {
        let directory = self.client.open(&Open::directory(LIST)).await?;
        let (class, length) =
            (FileInformationClass::ID_BOTH_DIRECTORY.0, self.client.agreed().max_transact_size.min(MIB));
        let mut found = 0;
        while let Some(buffer) = self.client.query_directory(directory, class, "*", length).await? {
            found += entries(buffer)?;
        }
        self.client.close(directory).await?;
        ensure!(found >= self.sizes.entries, "the listing has {found} of {} files", self.sizes.entries);
        Ok(Done { operations: found, bytes: 0 })
    }

    /// Opens a file, reads it and closes it repeatedly, like a program on a client that caches what its oplock permits:
    /// the data with level II, and also the open with a batch oplock ([MS-SMB2] 3.2.1.5, 3.2.4.3).
    async fn accesses(&mut self, level: OplockLevel) -> Result<Done> {
        self.next += 1;
        let name = cached(self.content.file, self.next % CACHED_FILES);
        let (first, granted) = self.open_as(&name, level).await?;
        self.fetch(first).await?;
        let keeps_data = granted != OplockLevel::NONE;
        if granted != OplockLevel::BATCH {
            for _ in 1..ACCESSES {
                // The oplock belongs to the first open, which stays open.
                let (file, _) = self.open_as(&name, OplockLevel::NONE).await?;
                if !keeps_data {
                    self.fetch(file).await?;
                }
                self.client.close(file).await?;
            }
        }
        self.client.close(first).await?;
        Ok(Done { operations: ACCESSES, bytes: ACCESSES * u64::from(CACHED) })
    }

    async fn open_as(&mut self, name: &str, level: OplockLevel) -> Result<(FileId, OplockLevel)> {
        let bytes = utf16_bytes(name);
        let mut request = Open::existing(name).with_access(Access::READ).request(&bytes);
        request.requested_oplock_level = level;
        let answer = self.client.create(&request).await?;
        Ok((answer.file_id, answer.oplock_level))
    }

    async fn fetch(&mut self, file: FileId) -> Result<()> {
        let content = self.content;
        let data = self.client.read(file, 0, CACHED).await?;
        ensure!(data.len() == CACHED as usize, "the server returned {} of {CACHED} bytes", data.len());
        ensure!(content.wrong_at(0, data, Look::Pages).is_none(), "the server returned wrong data");
        Ok(())
    }

    async fn durable(&mut self) -> Result<Done> {
        let offset = self.next;
        self.next = (offset + u64::from(DURABLE)) % self.sizes.file;
        let data = &mut self.buffer[..DURABLE as usize];
        self.content.fill(offset, data);
        self.client.write(self.file, offset, data).await?;
        self.client.flush_file(self.file).await?;
        Ok(Done::one(DURABLE.into()))
    }
}

/// Returns the number of entries in a listing buffer. Each entry begins with the distance to the next ([MS-FSCC] 2.4).
fn entries(buffer: &[u8]) -> Result<u64> {
    let (mut rest, mut count) = (buffer, 0);
    loop {
        let next = rest.first_chunk::<4>().context("the listing ends within an entry")?;
        count += 1;
        match u32::from_le_bytes(*next) as usize {
            0 => return Ok(count),
            next => rest = rest.get(next..).context("an entry of the listing points past its end")?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted() {
        let check = |buffer: &[u8], expected: Option<u64>| assert_eq!(entries(buffer).ok(), expected, "{buffer:?}");
        check(&[0, 0, 0, 0, 9], Some(1));
        check(&[5, 0, 0, 0, 9, 0, 0, 0, 0], Some(2));
        check(&[200, 0, 0, 0, 9], None);
        check(&[], None);
    }
}
