//! A step of `cargo xtask gluster test`: two users at work on one server at the same time. All calls of the library are
//! made on the same threads, so a call for one user must never be made as the other.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::requests::Requests;
use client::{Client, Open};
use proto::status::Status;
use test_environment::{ALICE, BOB, Counts, Crowd, Person, Server, Target, TestEnvironment};
use tokio::task::JoinSet;

use super::servers::{Servers, finish};
use super::{Volume, smb};

/// The share, and the directory of the volume that it shows.
const SHARE: &str = "users";
/// The configuration of the server. @VOLUME@ is the volume. Only the owner may read a file.
const TEMPLATE: &str = "[global]
@TARGET@
\tread only = no
\tkernel share modes = no
\tcreate mask = 0600
\tvfs objects = streams_xattr glusterfs
\tglusterfs:volume = @VOLUME@
\tglusterfs:volfile_server = 127.0.0.1
\tglusterfs:logfile = @DIR@/gfapi.log
\tglusterfs:loglevel = 4
[users]
\tpath = /users
";
/// The connections, of which each user has half.
const CONNECTIONS: usize = 16;
/// How long they work.
const TIME: Duration = Duration::from_secs(60);
/// Every file with such a number stays, so that its owner is checked at the end.
const KEPT: usize = 10;
/// The directory in which both users create files, and the one that only the first user may search, with a file that
/// everybody may read.
const COMMON: &str = "common";
const PRIVATE: &str = "private";
const SECRET: &str = "secret";
/// The most that is read.
const LENGTH: u32 = 4096;

/// Runs the part in the namespaces for a volume.
pub(super) fn run(servers: &Servers, volume: &str) -> Result<Counts> {
    let mut command = servers.command(super::own_program()?);
    command.args(["gluster", "--dir"]).arg(servers.dir()).args(["users", volume]);
    Ok(match finish(&mut command)? {
        status if status.success() => Counts::passed(1),
        status => Counts::failed(format!("two users on {volume}: {status}")),
    })
}

/// Has both users work, and checks the files that they leave. `dir` is the directory of the GlusterFS servers.
pub(super) fn inside(dir: &Path, volume: &Volume) -> Result<()> {
    let shared = dir.join("mnt").join(volume.name).join(SHARE);
    make(&shared, &ALICE, 0o755)?;
    make(&shared.join(COMMON), &ALICE, 0o777)?;
    make(&shared.join(PRIVATE), &ALICE, 0o700)?;
    let secret = shared.join(PRIVATE).join(SECRET);
    fs::write(&secret, SECRET)?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o666))?;
    let environment = TestEnvironment::make_in(dir, Target::Frevo, Crowd(0))?;
    let server = Arc::new(environment.start("server", &TEMPLATE.replace("@VOLUME@", volume.name))?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rounds: usize = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        let end = Instant::now() + TIME;
        (0..CONNECTIONS).for_each(|number| drop(tasks.spawn(work(Arc::clone(&server), number, end))));
        let mut rounds = 0;
        while let Some(ended) = tasks.join_next().await {
            rounds += ended??;
        }
        anyhow::Ok(rounds)
    })?;
    let mut checked = 0;
    for entry in fs::read_dir(shared.join(COMMON))? {
        let (entry, mut number) = (entry?, 0);
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((connection, _)) = name.split_once('-') {
            number = connection.parse().with_context(|| format!("an unknown file: {name}"))?;
        }
        let (found, person) = (entry.metadata()?, user(number));
        let owner = (found.uid(), found.gid());
        ensure!(owner == (person.id, person.id), "{name} of {} has owner and group {owner:?}", person.name);
        checked += 1;
    }
    ensure!(checked >= CONNECTIONS, "only {checked} files are left");
    println!(
        "{rounds} rounds of {CONNECTIONS} connections of two users, {checked} owners are right on {}",
        volume.name
    );
    Ok(())
}

fn make(path: &Path, person: &Person, mode: u32) -> Result<()> {
    fs::create_dir(path).with_context(|| format!("cannot create {}", path.display()))?;
    chown(path, Some(person.id), Some(person.id))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// Returns the user of a connection.
fn user(connection: usize) -> Person {
    if connection.is_multiple_of(2) { ALICE } else { BOB }
}

/// Creates and reads files until `end`, and tries to reach those of the other user. Returns the number of rounds.
async fn work(server: Arc<Server>, number: usize, end: Instant) -> Result<usize> {
    let person = user(number);
    let mut client = smb::connect_as(&server, SHARE, &person).await?;
    let path = |connection: usize, round: usize| format!(r"{COMMON}\{connection}-{round}");
    let secret = format!(r"{PRIVATE}\{SECRET}");
    let (mut round, mut refused) = (0, false);
    while Instant::now() < end {
        let (own, content) = (path(number, round), format!("{round} of {}", person.name));
        Requests::Separate.make(&mut client, &own, content.as_bytes()).await.with_context(|| own.clone())?;
        expect(&mut client, &own, Some(&content)).await?;
        let may_search = person.id == ALICE.id;
        expect(&mut client, &secret, may_search.then_some(SECRET)).await?;
        // The first file of the neighbour, which is one of the other user, exists as soon as that one has begun.
        let neighbour = path(number ^ 1, 0);
        match client.open(&Open::existing(&neighbour)).await.err().and_then(|error| error.status()) {
            Some(Status::ACCESS_DENIED) => refused = true,
            Some(Status::OBJECT_NAME_NOT_FOUND) if !refused => {}
            status => anyhow::bail!("{} opens {neighbour}: {status:?}", person.name),
        }
        if !round.is_multiple_of(KEPT) {
            Requests::Separate.delete(&mut client, &own).await?;
        }
        round += 1;
    }
    ensure!(refused, "connection {} has created no file", number ^ 1);
    Ok(round)
}

/// Checks that the user reads `content` from a file, or may not open it.
async fn expect(client: &mut Client, path: &str, content: Option<&str>) -> Result<()> {
    let mut read = Vec::new();
    let done = Requests::Separate.read(client, path, LENGTH, |data| read = data.to_vec()).await;
    match content {
        Some(content) => {
            done.with_context(|| format!("reading {path}"))?;
            ensure!(read == content.as_bytes(), "{path} has another content: {}", String::from_utf8_lossy(&read));
        }
        None => {
            let status = done.as_ref().err().and_then(client::Error::status);
            ensure!(status == Some(Status::ACCESS_DENIED), "{path} is not refused: {done:?}");
        }
    }
    Ok(())
}
