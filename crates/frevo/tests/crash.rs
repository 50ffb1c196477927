//! Kills a server under load repeatedly. What the server confirmed to its clients about their persistent handles must
//! still be valid in the next server process: every handle is restored with its lease, its locks and the written data,
//! and a request whose response was lost is executed once although it is sent again.
//!
//! By default there are a few rounds. `FREVO_CRASH_ROUNDS=100 FREVO_CRASH_CLIENTS=8 cargo test -p frevo --test crash --
//! --nocapture` runs many and shows progress.

mod served;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Access, Client, Open, Options};
use proto::bytes::utf16_bytes;
use proto::smb2::create::{CreateDisposition, CreateRequest};
use proto::smb2::create_context::{
    CreateContext, DurableHandleFlags, DurableHandleReconnectV2, DurableHandleRequestV2, LeaseFlags, LeaseV2, name,
};
use proto::smb2::header::Command as Smb;
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::{FileId, LeaseState, OplockLevel};
use proto::status::Status;
use served::{Served, serve};
use tokio::sync::Barrier;

const EVERYTHING: LeaseState = LeaseState(7);
/// Number of handles of one client.
const HANDLES: usize = 6;
/// Number of ranges in each file that are locked and unlocked; each has its own lock sequence.
const RANGES: usize = 8;
/// Maximum time for a server to start.
const START: Duration = Duration::from_secs(30);

/// A random number generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }
}

/// A client's knowledge of one handle.
#[derive(Clone, Debug)]
struct Handle {
    number: u64,
    file_id: FileId,
    locked: [bool; RANGES],
    sequences: [u8; RANGES],
    /// The content of the file, as confirmed to the client.
    content: u64,
}

/// The request in progress when the server was killed, which was either executed or not.
#[derive(Clone, Debug)]
enum Unsure {
    Create(u64),
    Close(Handle),
    /// Handle index and range.
    Lock(usize, usize),
    Write(usize),
}

struct Worker {
    options: Options,
    port: u16,
    random: Random,
    last: u64,
    handles: Vec<Handle>,
    unsure: Option<Unsure>,
}

impl Handle {
    fn name(number: u64, worker: &Worker) -> String {
        format!("crash-{:02x}-{number}", worker.guid()[0])
    }

    fn lock(&self, range: usize, sequence: u32) -> LockRequest {
        let kind = if self.locked[range] { LockFlags::UNLOCK } else { EXCLUSIVE };
        let locks = vec![LockElement { offset: 100 * range as u64 + 100, length: 10, flags: kind }];
        LockRequest { lock_sequence: sequence, file_id: self.file_id, locks }
    }

    /// The request that changes the lock's state; identical when sent again.
    fn next_lock(&self, range: usize) -> LockRequest {
        self.lock(range, (range as u32 + 1) << 4 | u32::from((self.sequences[range] + 1) % 16))
    }

    fn lock_done(&mut self, range: usize) {
        self.sequences[range] = (self.sequences[range] + 1) % 16;
        self.locked[range] = !self.locked[range];
    }
}

const EXCLUSIVE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

impl Worker {
    fn guid(&self) -> [u8; 16] {
        self.options.client_guid.expect("every worker has a GUID")
    }

    fn create_guid(&self, number: u64) -> [u8; 16] {
        let mut guid = self.guid();
        guid[8..].copy_from_slice(&number.to_le_bytes());
        guid
    }

    async fn connect(&self) -> Client {
        let until = Instant::now() + START;
        loop {
            match Client::connect(("127.0.0.1", self.port), "localhost", "share", &self.options).await {
                Ok(client) => return client,
                Err(error) if Instant::now() > until => panic!("the server does not restart: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn lease(&self, number: u64) -> CreateContext<'static> {
        let (lease_key, parent_lease_key) = (self.create_guid(number), [0; 16]);
        let lease = LeaseV2 { lease_key, lease_state: EVERYTHING, flags: LeaseFlags::NONE, parent_lease_key, epoch: 1 };
        lease.to_context()
    }

    fn request<'n>(&self, number: u64, file_name: &'n [u8], durable: CreateContext<'static>) -> CreateRequest<'n> {
        let open = Open::file("").with_access(Access::ALL).with_disposition(CreateDisposition::OPEN_IF);
        CreateRequest {
            requested_oplock_level: OplockLevel::LEASE,
            create_contexts: vec![durable, self.lease(number)],
            ..open.request(file_name)
        }
    }

    fn new_handle(&self, number: u64) -> CreateContext<'static> {
        let flags = DurableHandleFlags::PERSISTENT;
        DurableHandleRequestV2 { timeout: 300_000, flags, create_guid: self.create_guid(number) }.to_context()
    }

    async fn create(&self, client: &mut Client, number: u64, again: bool) -> client::Result<Handle> {
        let file_name = utf16_bytes(&Handle::name(number, self));
        let request = self.request(number, &file_name, self.new_handle(number));
        let response = match again {
            true => client.create_again(&request).await?,
            false => client.create(&request).await?,
        };
        let granted = CreateContext::find(&response.create_contexts, name::DURABLE_HANDLE_REQUEST_V2);
        assert!(granted.is_some_and(|it| it.data[4] == 2), "the handle is persistent");
        assert_eq!(lease_state(&response.create_contexts), Some(EVERYTHING));
        let file_id = response.file_id;
        Ok(Handle { number, file_id, locked: [false; RANGES], sequences: [0; RANGES], content: 0 })
    }

    /// Works until the server is gone.
    async fn work(&mut self, client: &mut Client) -> client::Error {
        loop {
            if let Err(error) = self.step(client).await {
                return error;
            }
        }
    }

    async fn step(&mut self, client: &mut Client) -> client::Result<()> {
        let place = self.random.next(HANDLES);
        let Some(handle) = self.handles.get(place).cloned() else {
            self.last += 1;
            self.unsure = Some(Unsure::Create(self.last));
            let handle = self.create(client, self.last, false).await?;
            self.handles.push(handle);
            self.unsure = None;
            return Ok(());
        };
        match self.random.next(20) {
            0 => {
                self.handles.remove(place);
                self.unsure = Some(Unsure::Close(handle.clone()));
                client.close(handle.file_id).await?;
            }
            1..=12 => {
                let range = self.random.next(RANGES);
                self.unsure = Some(Unsure::Lock(place, range));
                let request = handle.next_lock(range);
                client.call(Smb::LOCK, 1, |out| request.encode(out)).await?;
                self.handles[place].lock_done(range);
            }
            _ => {
                self.unsure = Some(Unsure::Write(place));
                client.write(handle.file_id, 0, &(handle.content + 1).to_le_bytes()).await?;
                self.handles[place].content += 1;
            }
        }
        self.unsure = None;
        Ok(())
    }

    /// Reconnects after a restart and checks that everything the server had confirmed is still valid.
    async fn recover(&mut self) -> Client {
        let mut client = self.connect().await;
        for place in 0..self.handles.len() {
            let back = self.reconnect(&mut client, &self.handles[place]).await.unwrap_or_else(|error| {
                panic!("{:?} is not restored: {error}", self.handles[place]);
            });
            self.handles[place].file_id = back;
        }
        match self.unsure.take() {
            None => {}
            Some(Unsure::Create(number)) => {
                let handle = self.create(&mut client, number, true).await.expect("a new or existing file");
                self.handles.push(handle);
            }
            Some(Unsure::Close(handle)) => match self.reconnect(&mut client, &handle).await {
                Ok(file_id) => client.close(file_id).await.expect("closed"),
                Err(error) => assert_eq!(error.status(), Some(Status::OBJECT_NAME_NOT_FOUND), "closed before"),
            },
            Some(Unsure::Lock(place, range)) => {
                let request = self.handles[place].next_lock(range);
                let sent = client.call(Smb::LOCK, 1, |out| request.encode(out)).await;
                sent.expect("the lock change succeeds once");
                self.handles[place].lock_done(range);
            }
            Some(Unsure::Write(place)) => {
                let handle = &mut self.handles[place];
                let new = handle.content + 1;
                assert!([handle.content, new].contains(&content(&mut client, handle.file_id).await));
                client.write(handle.file_id, 0, &new.to_le_bytes()).await.expect("written");
                handle.content = new;
            }
        }
        for handle in &self.handles {
            check(&mut client, handle).await;
        }
        client
    }

    async fn reconnect(&self, client: &mut Client, handle: &Handle) -> client::Result<FileId> {
        let (file_id, create_guid) = (handle.file_id, self.create_guid(handle.number));
        let durable = DurableHandleReconnectV2 { file_id, create_guid, flags: DurableHandleFlags::PERSISTENT };
        let file_name = utf16_bytes(&Handle::name(handle.number, self));
        let response = client.create(&self.request(handle.number, &file_name, durable.to_context())).await?;
        assert_eq!(lease_state(&response.create_contexts), Some(EVERYTHING), "the lease is restored");
        Ok(response.file_id)
    }
}

/// Checks that the content and the locks are as expected, and that no other range is locked.
async fn check(client: &mut Client, handle: &Handle) {
    assert_eq!(content(client, handle.file_id).await, handle.content, "{handle:?}");
    for range in 0..RANGES {
        // Sequence 0 is not treated as a repetition, so the request fails if the range is locked and succeeds
        // otherwise.
        let lock = Handle { locked: [false; RANGES], ..handle.clone() }.lock(range, 0);
        let locked = client.call(Smb::LOCK, 1, |out| lock.encode(out)).await.map(|_| ());
        if handle.locked[range] {
            let status = locked.err().and_then(|error| error.status());
            assert_eq!(status, Some(Status::LOCK_NOT_GRANTED), "range {range} of {handle:?}");
            continue;
        }
        locked.unwrap_or_else(|error| panic!("range {range} of {handle:?}: {error}"));
        let unlock = Handle { locked: [true; RANGES], ..handle.clone() }.lock(range, 0);
        client.call(Smb::LOCK, 1, |out| unlock.encode(out)).await.expect("unlocked");
    }
}

async fn content(client: &mut Client, file_id: FileId) -> u64 {
    let bytes = client.read(file_id, 0, 8).await.expect("read");
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn lease_state(contexts: &[CreateContext<'_>]) -> Option<LeaseState> {
    let context = CreateContext::find(contexts, name::REQUEST_LEASE)?;
    LeaseV2::decode(&context.data).ok().map(|lease| lease.lease_state)
}

/// Starts the server of `served` with a continuously available share.
fn start(served: &mut Served) {
    let directory = served.directory.path();
    let config = directory.join("smb.conf");
    let share = directory.join("share");
    let text = format!("[share]\npath = {}\nread only = no\ncontinuously available = yes\n", share.display());
    std::fs::write(&config, text).expect("a configuration");
    let mut command = Command::new(env!("CARGO_BIN_EXE_frevo"));
    command.args(["serve", "-c"]).arg(&config).arg("--state-dir").arg(directory.join("state")).stdout(Stdio::null());
    (served.process, served.port) = served::start(&mut command, &directory.join("log"));
}

fn kill(served: &mut Served) {
    served.process.kill().expect("it runs");
    served.process.wait().expect("it ends");
}

fn asked(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn show(round: usize, rounds: usize, handles: usize) {
    let done = round * 40 / rounds;
    eprint!("\r[{:<40}] crash {round} of {rounds}, {handles} handles restored", "#".repeat(done));
    let _ = std::io::stderr().flush();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_loses_no_confirmed_change() {
    let (rounds, clients) = (asked("FREVO_CRASH_ROUNDS", 4), asked("FREVO_CRASH_CLIENTS", 3));
    let mut served = serve();
    kill(&mut served);
    start(&mut served);
    let worker = |number: usize| Worker {
        options: Options { client_guid: Some([number as u8 + 1; 16]), ..served.options.clone() },
        port: served.port,
        random: Random(number as u64 + 0x9e37_79b9),
        last: 0,
        handles: Vec::new(),
        unsure: None,
    };
    let mut workers: Vec<Worker> = (0..clients).map(worker).collect();
    let (mut random, mut back) = (Random(7), 0);
    for round in 1..=rounds {
        let ready = Arc::new(Barrier::new(clients + 1));
        let running: Vec<_> = workers.drain(..).map(|worker| tokio::spawn(run(worker, ready.clone()))).collect();
        // If one of them panics, the others keep waiting.
        let _ = tokio::time::timeout(START, ready.wait()).await;
        tokio::time::sleep(Duration::from_millis(20 + random.next(180) as u64)).await;
        kill(&mut served);
        for worker in running {
            workers.push(worker.await.expect("the worker found all confirmed changes"));
        }
        start(&mut served);
        workers.iter_mut().for_each(|worker| worker.port = served.port);
        back += workers.iter().map(|worker| worker.handles.len()).sum::<usize>();
        show(round, rounds, back);
    }
    // Check once more after the last round.
    for worker in &mut workers {
        worker.recover().await;
    }
    eprintln!();
    assert!(back > 0, "no handle was ever restored");
}

/// Reconnects to the server, waits until all workers have, and works until the server is gone.
async fn run(mut worker: Worker, ready: Arc<Barrier>) -> Worker {
    let mut client = worker.recover().await;
    ready.wait().await;
    let error = worker.work(&mut client).await;
    assert_eq!(error.status(), None, "{:?} was refused: {error}", worker.unsure);
    worker
}
