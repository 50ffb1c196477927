//! Volumes that are stopped or changed, and servers that do not describe them.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use proto::status::Status;
use test_environment::ALICE;

use super::client::{Smb, outcome, refused};
use super::fixture::{DESCRIBED, Fixture, RECONNECTION, SHARE, pause, until};
use super::load::{self, Load, SIZE, Work, all_succeeded, check_files};
use super::{Case, Given};

pub(super) const CASES: &[Case] = &[
    Case::new("volume.stopped", &["dist"], volume_stopped),
    Case::new("volume.options", &["dist"], volume_options),
    Case::new("glusterd.restarted", &["dist"], glusterd_restarted),
    Case::new("volfile_server", &["dist"], volfile_server),
];

/// How long a client that connects waits for a volume, with a second for the logon.
const ATTEMPT: Duration = Duration::from_secs(11);

/// Calls fail while a volume is stopped, and succeed after its start.
fn volume_stopped(given: &Given<'_>) -> Result<()> {
    let fixture = Fixture::start(given.dir, "dist", "")?;
    let mut smb = fixture.connect()?;
    smb.put("held", &[1; SIZE])?;
    let held = smb.open("held")?;
    let load = Load::start(fixture.server.address(), SHARE, 2, 20);
    pause(Duration::from_secs(3))?;
    let begin = Instant::now();
    fixture.gluster(&["volume", "stop", fixture.volume()])?;
    let stopped = Instant::now();
    pause(Duration::from_secs(1))?;
    let gone = [Status::DEVICE_NOT_CONNECTED, Status::FILE_CLOSED];
    for result in [smb.read(held, SIZE), smb.get("held", SIZE)] {
        ensure!(refused(&result, &gone), "while the volume is stopped: {}", outcome(&result));
    }
    pause(Duration::from_secs(3))?;
    fixture.gluster(&["volume", "start", fixture.volume()])?;
    let started = Instant::now();
    pause(RECONNECTION)?;
    let back = Instant::now();
    let read = smb.read(held, SIZE);
    let is_closed = refused(&read, &gone);
    ensure!(is_closed || read? == [1; SIZE], "the open file has another content");
    println!("the file that was open must be opened again: {is_closed}");
    ensure!(smb.get("held", SIZE)? == [1; SIZE], "another content");
    pause(Duration::from_secs(2))?;
    let work = load.stop()?;
    let changes = || work.iter().flat_map(|work| &work.changes);
    for change in changes().filter(|change| change.result.is_err()) {
        ensure!(refused(&change.result, &gone), "{}: {}", change.file, outcome(&change.result));
        ensure!(change.begin + change.took > begin && change.begin < back, "{} failed", change.file);
    }
    let late = changes().filter(|change| change.begin > started && change.result.is_err());
    let served = late.map(|change| change.begin - started).max().unwrap_or_default();
    let during = changes().filter(|change| change.begin > stopped && change.begin < started);
    println!("{}; the last call failed {served:.1?} after the start", load::tally(changes()));
    println!("while it is stopped: {}", load::times(during.map(|change| change.took)));
    all_succeeded(changes().filter(|change| change.begin > back))?;
    right_on_the_mount(&fixture, &work)
}

/// Options that change the client's translators are set while files are open, and between the calls of a client. The
/// library of GlusterFS 10 does not always survive them during calls.
fn volume_options(given: &Given<'_>) -> Result<()> {
    let fixture = Fixture::start(given.dir, "dist", "")?;
    let mut smb = fixture.connect()?;
    let held = smb.open("held")?;
    let mut version = 0u8;
    for value in ["on", "off", "on", "off"] {
        for option in ["performance.io-cache", "performance.write-behind", "performance.quick-read"] {
            fixture.set(option, value)?;
            for _ in 0..10 {
                version += 1;
                smb.write(held, &[version; SIZE])?;
                ensure!(smb.read(held, SIZE)? == [version; SIZE], "the open file has another content");
                ensure!(smb.get("held", SIZE)? == [version; SIZE], "the file has another content");
                pause(Duration::from_millis(50))?;
            }
        }
    }
    smb.flush(held)?;
    smb.close(held)?;
    pause(Duration::from_secs(2))?;
    ensure!(fs::read(fixture.mounted().join("held"))? == [version; SIZE], "another content on the mount");
    println!("{version} versions of an open file are right");
    Ok(())
}

/// An open volume does not need glusterd, and follows changes of the volume after glusterd is back.
fn glusterd_restarted(given: &Given<'_>) -> Result<()> {
    let fixture = Fixture::start(given.dir, "dist", "")?;
    let load = Load::start(fixture.server.address(), SHARE, 2, 20);
    pause(Duration::from_secs(2))?;
    fixture.kill_glusterd()?;
    pause(Duration::from_secs(3))?;
    fixture.connect()?.put("meanwhile", b"1")?;
    fixture.start_glusterd()?;
    pause(RECONNECTION)?;
    fixture.set("performance.io-cache", "on")?;
    fixture.start_bricks()?;
    let work = load.stop()?;
    let changes = || work.iter().flat_map(|work| &work.changes);
    println!("{} changes without an error", all_succeeded(changes())?);
    println!("{}", load::times(changes().map(|change| change.took)));
    right_on_the_mount(&fixture, &work)
}

/// A share whose volume nobody describes cannot be connected to, and is served as soon as a server describes it.
fn volfile_server(given: &Given<'_>) -> Result<()> {
    let share = |name: &str, volume: &str, servers: &str| {
        format!(
            "[{name}]\n\tpath = /faults\n\tvfs objects = acl_xattr streams_xattr glusterfs\n\
             \tglusterfs:volume = {volume}\n\tglusterfs:volfile_server = {servers}\n"
        )
    };
    let settings = [
        DESCRIBED.to_owned(),
        share("wrong", "nothing", "127.0.0.1"),
        share("second", "dist", "127.0.0.1:24999 127.0.0.1 127.0.0.1:24998"),
        share("third", "dist", "127.0.0.1:24999 unix+/nothing 127.0.0.1"),
        share("late", "dist", "127.0.0.1:24999 127.0.0.1"),
    ];
    let fixture = Fixture::described(given.dir, "dist", &settings.concat())?;
    let connect = |share: &str| -> Result<(client::Result<Smb>, Duration)> {
        let begin = Instant::now();
        Ok((Smb::try_connect(fixture.server.address(), share, &ALICE)?, begin.elapsed()))
    };
    let missing = |share: &str| -> Result<()> {
        let (result, took) = connect(share)?;
        ensure!(refused(&result, &[Status::BAD_NETWORK_NAME]) && took < ATTEMPT, "{share}: {}", outcome(&result));
        println!("{share}: {} after {took:.1?}", outcome(&result));
        Ok(())
    };
    let serves = |share: &str| -> Result<()> {
        let (smb, took) = connect(share)?;
        smb?.put(share, b"text")?;
        println!("{share}: served after {took:.1?}");
        Ok(())
    };
    missing("wrong")?;
    serves("second")?;
    serves("third")?;
    fixture.kill_glusterd()?;
    missing("late")?;
    missing("late")?;
    fixture.start_glusterd()?;
    let took = until("the share is served", Duration::from_secs(40), || Ok(connect("late")?.0.is_ok()))?;
    println!("late: served {took:.1?} after glusterd is back");
    serves("late")?;
    missing("wrong")?;
    serves(SHARE)
}

fn right_on_the_mount(fixture: &Fixture, work: &[Work]) -> Result<()> {
    let files = check_files(&fixture.mounted(), work.iter().flat_map(|work| &work.files))?;
    println!("{files} files are right on the mount");
    Ok(())
}
