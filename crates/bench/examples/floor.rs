//! Measures the least that a server of files costs: a program that receives a message, makes the one system call that
//! the operation needs, and sends a message back. It has no protocol, checks nothing and caches nothing.
//!
//! The operations and the number of messages of each are those of the experiments `smallfile`, `hotdir` and `largefile`
//! of `frevo-bench`, so that the processor time of a server can be compared.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use clap::Parser;
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags};
use rustix::net::{RecvFlags, sockopt};

/// Length of a message without data, as of a CREATE and its response.
const MESSAGE: usize = 200;
const TAG: usize = 16;
/// Size of a small file, and of a random access to the large one.
const SMALL: usize = 64 << 10;
/// Size of a sequential access, and how many a client has in flight.
const PIECE: usize = 1 << 20;
const DEPTH: u64 = 4;
const CONGESTION_CONTROL: &str = "cubic";

/// Measure the least that a server of files costs
#[derive(Parser)]
#[command(name = "floor")]
struct Cli {
    /// Directory on the file system to measure on
    directory: PathBuf,
    /// Number of connections, each with its own directory
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Number of small files and of echoes for each connection
    #[arg(long, default_value_t = 2000)]
    files: u64,
    /// Size of the large file of each connection, in MiB
    #[arg(long, default_value_t = 256)]
    size: u64,
    /// Measured rounds, besides the warm-up
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Be the server of such a measurement
    #[arg(long, hide = true)]
    serve: bool,
}

/// What a request asks for. The number is its first byte.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Call {
    Echo,
    Open,
    Create,
    MakeDirectory,
    Status,
    Read,
    Write,
    Rename,
    Remove,
    RemoveDirectory,
    Close,
    /// Uses the directory with this number from now on.
    Enter,
    /// Returns the processor time of the server.
    Usage,
}

impl Call {
    const ALL: [Call; 13] = [
        Call::Echo,
        Call::Open,
        Call::Create,
        Call::MakeDirectory,
        Call::Status,
        Call::Read,
        Call::Write,
        Call::Rename,
        Call::Remove,
        Call::RemoveDirectory,
        Call::Close,
        Call::Enter,
        Call::Usage,
    ];
}

/// How data is protected.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Protection {
    None,
    /// AES-128-GMAC
    Signed,
    /// AES-128-GCM
    Encrypted,
}

impl Protection {
    const ALL: [Protection; 3] = [Protection::None, Protection::Signed, Protection::Encrypted];
}

/// A request. Data of a write and its authentication tag follow it.
#[derive(Clone, Copy)]
struct Request {
    call: Call,
    protection: Protection,
    length: usize,
    file: u64,
    offset: u64,
}

impl Request {
    fn new(call: Call, file: u64) -> Request {
        Request { call, protection: Protection::None, length: 0, file, offset: 0 }
    }

    fn encode(&self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        (bytes[0], bytes[1]) = (self.call as u8, self.protection as u8);
        bytes[8..16].copy_from_slice(&(self.length as u64).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Returns the length of the authentication tag.
    fn tag(&self) -> usize {
        if self.protection == Protection::None { 0 } else { TAG }
    }

    fn decode(bytes: &[u8; MESSAGE]) -> Result<Request> {
        Ok(Request {
            call: *Call::ALL.get(usize::from(bytes[0])).context("no such call")?,
            protection: *Protection::ALL.get(usize::from(bytes[1])).context("no such protection")?,
            length: usize::try_from(number(bytes, 8)).context("too long")?.min(PIECE),
            file: number(bytes, 16),
            offset: number(bytes, 24),
        })
    }
}

fn number(bytes: &[u8; MESSAGE], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

fn key() -> Result<LessSafeKey> {
    Ok(LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[0; 16]).context("no AES-128-GCM")?))
}

/// Protects `data` and returns the authentication tag. Nothing here is secret, so the nonce is always the same.
fn protect(key: &LessSafeKey, protection: Protection, data: &mut [u8]) -> Result<[u8; TAG]> {
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    let tag = match protection {
        Protection::None => return Ok([0; TAG]),
        Protection::Signed => key.seal_in_place_separate_tag(nonce, Aad::from(&*data), &mut []),
        Protection::Encrypted => key.seal_in_place_separate_tag(nonce, Aad::empty(), data),
    };
    let tag = tag.context("cannot encrypt")?;
    Ok(tag.as_ref().try_into()?)
}

/// Verifies or decrypts `data`, the last bytes of which are the authentication tag.
fn verify(key: &LessSafeKey, protection: Protection, data: &mut [u8]) -> Result<()> {
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    match protection {
        Protection::None => {}
        Protection::Signed => {
            let (data, tag) = data.split_at_mut(data.len() - TAG);
            ensure!(protect(key, protection, data)? == *tag, "the signature is wrong");
        }
        Protection::Encrypted => {
            key.open_in_place(nonce, Aad::empty(), data).context("cannot decrypt")?;
        }
    }
    Ok(())
}

/// Serves connections until standard input ends.
fn serve(directory: &Path) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    let directory = directory.to_owned();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let directory = directory.clone();
            thread::spawn(move || {
                if let Err(error) = serve_connection(socket, &directory) {
                    eprintln!("error: {error:#}");
                }
            });
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn serve_connection(mut socket: TcpStream, directory: &Path) -> Result<()> {
    sockopt::set_tcp_congestion(&socket, CONGESTION_CONTROL)?;
    socket.set_nodelay(true)?;
    let directory = fs::openat(CWD, directory, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut service = Service { directory, open: None, key: key()?, buffer: vec![0; MESSAGE + PIECE + TAG] };
    let mut message = [0; MESSAGE];
    loop {
        match socket.read_exact(&mut message) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            done => done?,
        }
        let request = Request::decode(&message)?;
        if request.call == Call::Write {
            let data = &mut service.buffer[MESSAGE..MESSAGE + request.length + request.tag()];
            let length = data.len();
            // The thread is woken when everything has arrived.
            let (_, received) = rustix::net::recv(&socket, data, RecvFlags::WAITALL)?;
            ensure!(received == length, "the client has ended");
        }
        let length = service.act(&request)?;
        socket.write_all(&service.buffer[..MESSAGE + length])?;
    }
}

/// The service of one connection.
struct Service {
    directory: OwnedFd,
    open: Option<OwnedFd>,
    key: LessSafeKey,
    /// The response, or the data of a write.
    buffer: Vec<u8>,
}

impl Service {
    /// Does what a request asks for, and returns the length of the data that the response has.
    fn act(&mut self, request: &Request) -> Result<usize> {
        let Request { call, protection, length, file, offset } = *request;
        let directory = &self.directory;
        let name = if file == LARGE { "large".to_owned() } else { file.to_string() };
        let opened = |flags| fs::openat(directory, &*name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644));
        let data = MESSAGE..MESSAGE + length;
        match call {
            Call::Echo => {}
            Call::Open => {
                let flags = if file == LARGE { OFlags::RDWR } else { OFlags::RDONLY };
                self.open = Some(opened(flags)?);
            }
            Call::Create => self.open = Some(opened(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?),
            Call::MakeDirectory => {
                fs::mkdirat(directory, &*name, Mode::from_raw_mode(0o755))?;
                self.open = Some(opened(OFlags::RDONLY)?);
            }
            Call::Rename => fs::renameat(directory, &*name, directory, (file | RENAMED).to_string())?,
            Call::Remove => fs::unlinkat(directory, &*name, AtFlags::empty())?,
            Call::RemoveDirectory => fs::unlinkat(directory, &*name, AtFlags::REMOVEDIR)?,
            Call::Close => drop(self.open.take()),
            Call::Status => {
                fs::fstat(self.file()?)?;
            }
            Call::Read => {
                let open = self.open.as_ref().context("no file is open")?;
                let data = &mut self.buffer[data];
                let count = rustix::io::pread(open, &mut *data, offset)?;
                ensure!(count == length, "the file is too short");
                let tag = protect(&self.key, protection, data)?;
                self.buffer[..TAG].copy_from_slice(&tag);
                return Ok(count);
            }
            Call::Write => {
                verify(&self.key, protection, &mut self.buffer[data.start..data.end + request.tag()])?;
                let count = rustix::io::pwrite(self.file()?, &self.buffer[data], offset)?;
                ensure!(count == length, "the disk is full");
            }
            Call::Enter => {
                self.directory = opened(OFlags::DIRECTORY)?;
            }
            Call::Usage => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
                let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
                self.buffer[..8].copy_from_slice(&nanos.to_le_bytes());
            }
        }
        Ok(0)
    }

    fn file(&self) -> Result<&OwnedFd> {
        self.open.as_ref().context("no file is open")
    }
}

/// The number of the large file, and the bit that the number of a small one has after it was renamed.
const LARGE: u64 = u64::MAX;
const RENAMED: u64 = 1 << 32;

/// A client.
struct Connection {
    socket: TcpStream,
    received: Vec<u8>,
    /// The message and data of a write.
    sent: Vec<u8>,
}

impl Connection {
    fn new(port: u16) -> Result<Connection> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        sockopt::set_tcp_congestion(&socket, CONGESTION_CONTROL)?;
        socket.set_nodelay(true)?;
        Ok(Connection { socket, received: vec![0; MESSAGE + PIECE], sent: vec![7; MESSAGE + PIECE + TAG] })
    }

    fn send(&mut self, request: &Request) -> Result<()> {
        let message = request.encode();
        let length = if request.call == Call::Write { request.length + request.tag() } else { 0 };
        self.sent[..MESSAGE].copy_from_slice(&message);
        Ok(self.socket.write_all(&self.sent[..MESSAGE + length])?)
    }

    fn receive(&mut self, request: &Request) -> Result<()> {
        let length = if request.call == Call::Read { request.length } else { 0 };
        self.socket.read_exact(&mut self.received[..MESSAGE + length]).context("the server has ended")
    }

    fn call(&mut self, request: &Request) -> Result<()> {
        self.send(request)?;
        self.receive(request)
    }

    /// Returns the processor time of the server.
    fn usage(&mut self) -> Result<Duration> {
        self.call(&Request::new(Call::Usage, 0))?;
        let mut nanos = [0; 8];
        nanos.copy_from_slice(&self.received[..8]);
        Ok(Duration::from_nanos(u64::from_le_bytes(nanos)))
    }

    /// Does one phase and returns the number of operations.
    fn run(&mut self, phase: &Phase, cli: &Cli) -> Result<u64> {
        match phase.subject {
            Subject::Small { calls, bit } => {
                for file in (0..cli.files).map(|file| bit | file) {
                    for call in calls {
                        let length = if matches!(call, Call::Read | Call::Write) { SMALL } else { 0 };
                        self.call(&Request { length, ..Request::new(*call, file) })?;
                    }
                }
                Ok(cli.files)
            }
            Subject::Large { call, piece, depth, protection, is_random } => {
                self.call(&Request::new(Call::Open, LARGE))?;
                let data = &mut self.sent[MESSAGE..MESSAGE + piece + TAG];
                let (content, tag) = data.split_at_mut(piece);
                content.fill(7);
                tag.copy_from_slice(&protect(&key()?, protection, content)?);
                let pieces = (cli.size << 20) / piece as u64;
                let request = |number: u64| {
                    // Steps of a prime number reach every piece once, in an order that the kernel does not foresee.
                    let place = if is_random { number * 1_000_003 % pieces } else { number };
                    Request { length: piece, protection, offset: place * piece as u64, ..Request::new(call, 0) }
                };
                for number in 0..pieces + depth {
                    if number >= depth {
                        self.receive(&request(number - depth))?;
                    }
                    if number < pieces {
                        self.send(&request(number))?;
                    }
                }
                self.call(&Request::new(Call::Close, 0))?;
                Ok(pieces)
            }
        }
    }
}

/// A measurement: the same operation again and again.
struct Phase {
    name: &'static str,
    subject: Subject,
}

enum Subject {
    /// The calls for each small file, and the bit that its number has.
    Small { calls: &'static [Call], bit: u64 },
    /// One call for each piece of the large file.
    Large { call: Call, piece: usize, depth: u64, protection: Protection, is_random: bool },
}

const fn small(name: &'static str, calls: &'static [Call], bit: u64) -> Phase {
    Phase { name, subject: Subject::Small { calls, bit } }
}

const fn sequential(name: &'static str, call: Call, protection: Protection) -> Phase {
    Phase { name, subject: Subject::Large { call, piece: PIECE, depth: DEPTH, protection, is_random: false } }
}

const fn random(name: &'static str, call: Call) -> Phase {
    let protection = Protection::None;
    Phase { name, subject: Subject::Large { call, piece: SMALL, depth: 1, protection, is_random: true } }
}

/// What is measured in each round, in order.
const PHASES: [Phase; 17] = [
    small("message", &[Call::Echo], 0),
    small("create and write 64 KiB", &[Call::Create, Call::Write, Call::Close], 0),
    small("open and close", &[Call::Open, Call::Close], 0),
    small("stat", &[Call::Open, Call::Status, Call::Close], 0),
    small("read 64 KiB", &[Call::Open, Call::Read, Call::Close], 0),
    small("rename", &[Call::Open, Call::Rename, Call::Close], 0),
    small("delete", &[Call::Open, Call::Remove, Call::Close], RENAMED),
    small("mkdir", &[Call::MakeDirectory, Call::Close], 0),
    small("rmdir", &[Call::Open, Call::RemoveDirectory, Call::Close], 0),
    sequential("sequential WRITE", Call::Write, Protection::None),
    sequential("sequential WRITE, signed", Call::Write, Protection::Signed),
    sequential("sequential WRITE, encrypted", Call::Write, Protection::Encrypted),
    sequential("sequential READ", Call::Read, Protection::None),
    sequential("sequential READ, signed", Call::Read, Protection::Signed),
    sequential("sequential READ, encrypted", Call::Read, Protection::Encrypted),
    random("random WRITE", Call::Write),
    random("random READ", Call::Read),
];

/// The server, which ends with its standard input.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(directory: &Path) -> Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--serve").arg(directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the server")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        Ok(Server { port: line.trim().parse().context("the server does not start")?, child })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What one round of a phase took.
struct Took {
    operations: u64,
    server: Duration,
    time: Duration,
}

fn measure(phase: &Phase, connections: &mut [Connection], control: &mut Connection, cli: &Cli) -> Result<Took> {
    let (used, began) = (control.usage()?, Instant::now());
    let operations = thread::scope(|scope| {
        let each = connections.iter_mut().map(|connection| scope.spawn(|| connection.run(phase, cli)));
        let each: Vec<_> = each.collect();
        each.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a client panicked"))).sum::<Result<u64>>()
    });
    let operations = operations.with_context(|| phase.name)?;
    Ok(Took { operations, time: began.elapsed(), server: control.usage()? - used })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    if cli.serve {
        return serve(&cli.directory);
    }
    let counts = [cli.connections as u64, cli.files, cli.size, cli.rounds as u64];
    ensure!(!counts.contains(&0), "--connections, --files, --size and --rounds must be at least 1");
    let directory = tempfile::tempdir_in(&cli.directory)
        .with_context(|| format!("cannot create a directory in {}", cli.directory.display()))?;
    for number in 0..cli.connections {
        let own = directory.path().join(number.to_string());
        std::fs::create_dir(&own)?;
        let mut file = std::fs::File::create(own.join("large"))?;
        (0..cli.size).try_for_each(|_| file.write_all(&vec![7; PIECE])).context("cannot write the large file")?;
    }
    let server = Server::start(directory.path())?;
    let connections = (0..cli.connections as u64).map(|number| {
        let mut connection = Connection::new(server.port)?;
        connection.call(&Request::new(Call::Enter, number))?;
        Ok(connection)
    });
    let mut connections = connections.collect::<Result<Vec<_>>>()?;
    let mut control = Connection::new(server.port)?;
    let mut took: Vec<Vec<Took>> = PHASES.iter().map(|_| Vec::new()).collect();
    for round in 0..=cli.rounds {
        eprintln!("round {round} of {}", cli.rounds);
        for (phase, took) in PHASES.iter().zip(&mut took) {
            let one = measure(phase, &mut connections, &mut control, &cli)?;
            if round > 0 {
                took.push(one);
            }
        }
    }
    println!("{} connections, medians of {} rounds\n", cli.connections, cli.rounds);
    println!("| operation | processor time of the server | operations per second |\n|---|---|---|");
    for (phase, took) in PHASES.iter().zip(&took) {
        let each = |value: fn(&Took) -> f64| median(took.iter().map(value).collect());
        let micros = each(|took| took.server.as_secs_f64() * 1e6 / took.operations as f64);
        let rate = each(|took| took.operations as f64 / took.time.as_secs_f64());
        match phase.subject {
            Subject::Small { .. } => println!("| {} | {micros:.1} µs | {rate:.0}/s |", phase.name),
            Subject::Large { piece, .. } => {
                let pieces = f64::from(1 << 30) / piece as f64;
                let (millis, rate) = (micros * pieces / 1e3, rate / pieces);
                println!("| {} | {millis:.0} ms per GiB | {rate:.2} GiB/s |", phase.name);
            }
        }
    }
    Ok(())
}
