//! SIGTERM stops the server cleanly during a transfer, and SIGHUP reloads the configuration without affecting a
//! session.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::file;
use crate::fixture::{Fixture, TEMPLATE};
use crate::suite::Case;
use test_environment::Target;

pub(super) const CASES: &[Case] = &[
    Case::new("signals.term_during_transfer", term_during_transfer),
    Case::new("signals.hup_keeps_sessions", hup_keeps_sessions),
];

fn term_during_transfer(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("term")?;
    file::sparse(&local.join("sent"), 8 << 30)?;
    let mut server = fixture.environment.start("stopped", TEMPLATE)?;
    let commands = format!("lcd {}; put sent term", local.display());
    let mut command = fixture.smbclient().server(&server).command(&commands);
    let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cannot start smbclient")?;
    let stored = fixture.share("files").join("term");
    let end = Instant::now() + Duration::from_secs(30);
    while fs::metadata(&stored).map_or(0, |metadata| metadata.len()) < 64 << 20 {
        ensure!(Instant::now() < end, "the transfer does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    server.signal(libc::SIGTERM);
    let status = server.wait(Duration::from_secs(15))?;
    let ended = client.wait()?;
    let status = status.context("the server still runs 15 s after SIGTERM")?;
    // smbd signals its whole process group, including itself.
    let clean = status.success() || fixture.environment.target() == Target::Samba;
    ensure!(clean, "the server ended with {status}:\n{}", server.log_tail());
    ensure!(!ended.success(), "the transfer ended before the signal, so nothing was tested");
    // Written data is kept, and the server starts again with it.
    let length = fs::metadata(&stored)?.len();
    server.restart()?;
    fixture.smbclient().server(&server).run("allinfo term")?.says(&format!("{length} bytes"))?;
    fs::remove_file(stored)?;
    fs::remove_dir_all(local)?;
    Ok(())
}

fn hup_keeps_sessions(fixture: &mut Fixture) -> Result<()> {
    let mut script = fixture.start_script("steady.py", &[])?;
    script.wait_for("ready")?;
    fixture.smbclient().share("added").run("ls")?.refused_with("NT_STATUS_BAD_NETWORK_NAME")?;
    let added = fixture.environment.make_dir("data/added", &test_environment::ALICE, 0o777)?;
    let conf = fixture.server.conf().to_path_buf();
    let text = fs::read_to_string(&conf)?;
    fs::write(&conf, format!("{text}\n[added]\n\tpath = {}\n\tread only = no\n", added.display()))?;
    fixture.server.signal(libc::SIGHUP);
    let end = Instant::now() + Duration::from_secs(10);
    while !fixture.smbclient().share("added").run("ls")?.success {
        ensure!(Instant::now() < end, "the new share is not served after SIGHUP");
        std::thread::sleep(Duration::from_millis(100));
    }
    script.go_on()?;
    script.end()?;
    fs::write(&conf, text)?;
    fixture.server.signal(libc::SIGHUP);
    Ok(())
}
