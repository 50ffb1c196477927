//! `frevo-bench netbench` sends what its load specifies, as counted by tshark on the network and, for Samba, by smbd
//! itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use bench::method::Server as Measured;
use bench::netbench::kind::Kind;
use bench::netbench::load::{DEBIAN, Line, Load, Operation};
use bench::netbench::plan::{Action, Plan, Step};
use bench::netbench::replay::Replay;
use bench::netbench::{clean_up, set_up};
use bench::target::Target as Address;
use proto::smb2::header::Command;
use proto::status::Status;

use crate::capture::{Capture, CapturedCounts};
use crate::fixture::Fixture;
use crate::profile::{self, Profile};
use crate::suite::Case;
use test_environment::{ALICE, Server, Target};

pub(super) const CASES: &[Case] = &[
    Case::new("netbench.own_load", |fixture| faithful(fixture, "own", &Load::parse("own load", OWN)?))
        .needs_root()
        .alone(),
    Case::new("netbench.recorded_run", |fixture| faithful(fixture, "recorded", &recorded(5_000)?)).needs_root().alone(),
    Case::new("netbench.whole_recorded_run", whole).slow().alone(),
    Case::new("netbench.same_seed_same_requests", same_seed).needs_root().alone(),
];

const TEMPLATE: &str = "[global]
@TARGET@
#@samba
\tsmbd profiling level = count
#@end
[files]
\tpath = @DIR@/data/files
\tread only = no
";

/// A load with every operation, including failing ones.
const OWN: &str = r#"Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX "\clients\client1\Letter.doc" 0x40 0x1 2 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\client1\Letter.doc" 0x40 0x2 2 NT_STATUS_OK
WriteX 2 65534 1 1 NT_STATUS_OK
WriteX 2 0 4096 4096 NT_STATUS_OK
WriteX 2 4096 61000 61000 NT_STATUS_OK
Flush 2 NT_STATUS_OK
ReadX 2 60000 65536 5535 NT_STATUS_OK
ReadX 2 70000 512 0 NT_STATUS_OK
LockX 2 2147483538 1 NT_STATUS_OK
UnlockX 2 2147483538 1 NT_STATUS_OK
UnlockX 2 2147483538 1 NT_STATUS_RANGE_NOT_LOCKED
QUERY_FILE_INFORMATION 2 258 NT_STATUS_OK
QUERY_FILE_INFORMATION 2 1004 NT_STATUS_OK
SET_FILE_INFORMATION 2 1004 NT_STATUS_OK
Close 2 NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\client1\LETTER.DOC" 1004 NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\client1\letter.doc" 1035 NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\client1\nothing" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
QUERY_PATH_INFORMATION "\clients\client1\no\thing" 1004 NT_STATUS_OBJECT_PATH_NOT_FOUND
QUERY_FS_INFORMATION 1 NT_STATUS_OK
QUERY_FS_INFORMATION 259 NT_STATUS_OK
FIND_FIRST "\clients\client1\*" 260 1366 3 NT_STATUS_OK
FIND_FIRST "\clients\client1\<.JNK" 260 1366 0 NT_STATUS_NO_SUCH_FILE
FIND_FIRST "\clients\client1\no\*" 260 1366 0 NT_STATUS_OBJECT_PATH_NOT_FOUND
NTCreateX "\clients\client1\Other.doc" 0x40 0x2 3 NT_STATUS_OK
Close 3 NT_STATUS_OK
Rename "\clients\client1\Letter.doc" "\clients\client1\Other.doc" NT_STATUS_OBJECT_NAME_COLLISION
Unlink "\clients\client1\Other.doc" 0x6 NT_STATUS_OK
Unlink "\clients\client1\Other.doc" 0x6 NT_STATUS_OBJECT_NAME_NOT_FOUND
Rename "\clients\client1\Letter.doc" "\clients\client1\Other.doc" NT_STATUS_OK
Mkdir "\clients\client1\Old" NT_STATUS_OK
Mkdir "\clients\client1\Old" NT_STATUS_OBJECT_NAME_COLLISION
NTCreateX "\clients\client1\Old\a" 0x40 0x3 4 NT_STATUS_OK
NTCreateX "\clients\client1\Old\b" 0x40 0x5 5 NT_STATUS_OK
Close 4 NT_STATUS_OK
Rmdir "\clients\client1\Old" NT_STATUS_DIRECTORY_NOT_EMPTY
Mkdir "\clients\client1\Empty" NT_STATUS_OK
Rmdir "\clients\client1\Empty" NT_STATUS_OK
Sleep 1000 NT_STATUS_OK
"#;

fn recorded(lines: usize) -> Result<Load> {
    Ok(Load::read(Path::new(DEBIAN))?.head(lines))
}

/// Starts a separate server, for separate counts.
fn start(fixture: &Fixture, name: &str) -> Result<Server> {
    fixture.environment.start(&format!("netbench_{name}"), TEMPLATE)
}

fn measured(address: SocketAddr) -> Result<Measured> {
    let target: Address = format!("smb://{}:{}@{address}/files", ALICE.name, ALICE.password).parse()?;
    let options = client::Options { credentials: target.credentials()?, ..client::Options::default() };
    Ok(Measured { index: 0, name: "server".into(), target, options, path: None, conf: None, processes: None })
}

/// Connected clients that have not sent the first line yet.
struct Replayer {
    runtime: tokio::runtime::Runtime,
    measured: Measured,
    replays: Vec<Replay>,
}

impl Replayer {
    fn start(server: &Server, load: &Load, plan: &Arc<Plan>, seed: u64) -> Result<Replayer> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let measured = measured(server.address())?;
        let replays = runtime.block_on(set_up(&measured, plan, &load.name, 1, seed))?;
        Ok(Replayer { runtime, measured, replays })
    }

    /// Replays from the first line to the last, and the cleanup.
    fn pass(&mut self) -> Result<()> {
        self.replays.iter_mut().try_for_each(|replay| self.runtime.block_on(replay.pass()))
    }

    fn end(self) -> Result<()> {
        self.runtime.block_on(clean_up(&self.measured, self.replays))
    }
}

/// Checks that the traffic and, for Samba, also its own counters match the load.
fn faithful(fixture: &mut Fixture, name: &str, load: &Load) -> Result<()> {
    let plan = Arc::new(Plan::new(load)?);
    let server = start(fixture, name)?;
    let mut replayer = Replayer::start(&server, load, &plan, 1)?;
    let before = counted(fixture, &server)?;
    let capture = Capture::start(server.address(), &fixture.local("netbench")?.join("pass.pcapng"))?;
    replayer.pass()?;
    let seen = capture.finish()?.seen()?;
    let after = counted(fixture, &server)?;
    replayer.end()?;
    same_on_the_wire(load, &plan, &seen)?;
    same_in_smbd(load, &plan, before.zip(after))
}

/// Replays the whole recorded run, for which a capture would be too large.
fn whole(fixture: &mut Fixture) -> Result<()> {
    let load = recorded(usize::MAX)?;
    let plan = Arc::new(Plan::new(&load)?);
    ensure!(plan.tail.is_empty(), "the recorded run leaves files behind");
    let server = start(fixture, "whole")?;
    let mut replayer = Replayer::start(&server, &load, &plan, 1)?;
    let before = counted(fixture, &server)?;
    replayer.pass()?;
    let after = counted(fixture, &server)?;
    replayer.end()?;
    same_in_smbd(&load, &plan, before.zip(after))
}

fn counted(fixture: &Fixture, server: &Server) -> Result<Option<Profile>> {
    (fixture.environment.target() == Target::Samba).then(|| profile::read(&fixture.environment, server)).transpose()
}

/// Computes what one pass and its cleanup should send, by command code. The load's own lines are counted from the load.
/// Only the deletion of trees is taken from the plan.
fn expected(load: &Load, plan: &Plan) -> CapturedCounts {
    let lines = load.census();
    let of = |kinds: &[Kind]| kinds.iter().map(|kind| lines.get(kind).map_or(0, |count| count.operations)).sum::<u64>();
    let bytes = |kind| lines.get(&kind).map_or(0, |count| count.bytes);
    let by_name = of(&[Kind::QueryPath, Kind::QueryFs, Kind::FindFirst, Kind::Unlink])
        + of(&[Kind::Rename, Kind::Mkdir, Kind::Rmdir]);
    // A listing in a missing directory opens nothing that would have to be closed.
    let nowhere = |line: &&Line| {
        let find = matches!(line.operation, Operation::FindFirst { .. });
        find && line.status == Status::OBJECT_PATH_NOT_FOUND
    };
    let nowhere = load.lines.iter().filter(nowhere).count() as u64;
    let mut requests = BTreeMap::from([
        (Command::CREATE.0, of(&[Kind::NtCreateX]) + by_name),
        (Command::CLOSE.0, of(&[Kind::Close]) + by_name - nowhere),
        (Command::FLUSH.0, of(&[Kind::Flush])),
        (Command::READ.0, of(&[Kind::ReadX])),
        (Command::WRITE.0, of(&[Kind::WriteX])),
        (Command::LOCK.0, of(&[Kind::LockX, Kind::UnlockX])),
        (Command::QUERY_DIRECTORY.0, of(&[Kind::FindFirst])),
        (Command::QUERY_INFO.0, of(&[Kind::QueryPath, Kind::QueryFile, Kind::QueryFs])),
        (Command::SET_INFO.0, of(&[Kind::SetFile, Kind::Rename, Kind::Rmdir])),
    ]);
    let trees: Vec<Step> =
        plan.steps.iter().filter(|step| step.kind == Kind::Deltree).chain(&plan.tail).copied().collect();
    for (command, count) in plan.census(&trees).requests {
        *requests.entry(command.0).or_default() += count;
    }
    requests.retain(|_, count| *count > 0);
    CapturedCounts { requests, read: bytes(Kind::ReadX), written: bytes(Kind::WriteX) }
}

fn same_on_the_wire(load: &Load, plan: &Plan, seen: &CapturedCounts) -> Result<()> {
    let expected = expected(load, plan);
    ensure!(*seen == expected, "tshark saw\n{seen:?}\nbut the load has\n{expected:?}");
    println!(
        "    tshark: {} requests, {} bytes read, {} written: as in the load",
        total(seen),
        seen.read,
        seen.written
    );
    Ok(())
}

fn total(seen: &CapturedCounts) -> u64 {
    seen.requests.values().sum()
}

/// For a compound whose CREATE fails, smbd counts only the CREATE, so the others are not counted here either.
fn same_in_smbd(load: &Load, plan: &Plan, readings: Option<(Profile, Profile)>) -> Result<()> {
    let Some((before, after)) = readings else { return Ok(()) };
    let counted = profile::since(&before, &after);
    let mut expected = expected(load, plan);
    let mut nothing_read = 0;
    for step in plan.steps.iter().chain(&plan.tail) {
        let Action::Chain(chain) = &step.action else { continue };
        let refused = chain.expect.is_error() && chain.keep.is_none();
        for uncounted in plan.messages(chain).iter().skip(1).filter(|_| refused) {
            *expected.requests.entry(uncounted.command().0).or_default() -= 1;
        }
        nothing_read += u64::from(step.kind == Kind::ReadX && chain.expect.is_error());
    }
    for (name, number) in profile::COMMANDS {
        let (got, wanted) = (counted[name].requests, expected.requests.get(&number).copied().unwrap_or(0));
        ensure!(got == wanted, "smbd counted {got} of {name} but the load has {wanted}");
    }
    let (read, write) = (counted["smb2_read"], counted["smb2_write"]);
    let read = read.sent - READ_HEAD * (read.requests - nothing_read) - ERROR * nothing_read;
    let written = write.received - WRITE_HEAD * write.requests;
    let same = (read, written) == (expected.read, expected.written);
    ensure!(same, "smbd counted {read} bytes read and {written} written, but the load has {expected:?}");
    println!("    smbd: {} requests, {read} bytes read, {written} written: as in the load", total(&expected));
    Ok(())
}

/// Length of a READ response before its data ([MS-SMB2] 2.2.20), including the header.
const READ_HEAD: u64 = 64 + 16;
/// Length of a WRITE request before its data (2.2.21), including the header.
const WRITE_HEAD: u64 = 64 + 48;
/// Length of an error response (2.2.2), including the header.
const ERROR: u64 = 64 + 9;

/// Two replays with the same seed send the same bytes; another seed writes other data.
fn same_seed(fixture: &mut Fixture) -> Result<()> {
    let load = Load::parse("own load", OWN)?;
    let plan = Arc::new(Plan::new(&load)?);
    let server = start(fixture, "seed")?;
    let local = fixture.local("netbench")?;
    let mut sent = Vec::new();
    for (number, seed) in [7, 7, 8].into_iter().enumerate() {
        let mut replayer = Replayer::start(&server, &load, &plan, seed)?;
        let capture = Capture::start(server.address(), &local.join(format!("{number}.pcapng")))?;
        replayer.pass()?;
        let captured = capture.finish()?;
        replayer.end()?;
        sent.push([captured.fields("smb2.flags.response == 0", &ASKED)?, captured.fields(WRITES, &["data.data"])?]);
    }
    let [first, second, other] = &sent[..] else { anyhow::bail!("there are not three replays") };
    ensure!(
        first[0].lines().count() as u64 == plan.census(&[&plan.steps[..], &plan.tail].concat()).chains,
        "some are missing"
    );
    ensure!(first[1].lines().count() == 3 && first[1].len() > 2 * 65_000, "the written data is missing");
    ensure!(first == second, "two replays with one seed differ");
    ensure!(first[0] == other[0], "the seed changes more than the written data");
    ensure!(first[1] != other[1], "the seed does not change the written data");
    Ok(())
}

const WRITES: &str = "smb2.cmd == 9 && smb2.flags.response == 0";

/// Fields of requests, except those with values assigned by the server: files, sessions and trees.
const ASKED: [&str; 16] = [
    "smb2.msg_id",
    "smb2.cmd",
    "smb2.flags",
    "smb2.filename",
    "smb2.create.disposition",
    "smb.create_options",
    "smb.access_mask",
    "smb.share_access",
    "smb2.read_length",
    "smb2.file_offset",
    "smb2.write_length",
    "smb2.class",
    "smb2.infolevel",
    "smb2.find.pattern",
    "smb2.lock_length",
    "smb2.lock_flags",
];
