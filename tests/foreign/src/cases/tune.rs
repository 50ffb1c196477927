//! `frevo tune` beside a server: clients see neither its directory nor its files, and nothing is left.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use test_environment::frevo;

use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] =
    &[Case::new("tune.hidden_from_clients", hidden_from_clients).needs_root().frevo_only()];

/// The directory in which the command creates its files.
const TRIAL: &str = ".frevo-trial";

fn tune(fixture: &Fixture, options: &[&str]) -> Result<Child> {
    let mut command = Command::new(frevo());
    command.args(["tune", "files", "--json"]).args(options).arg("-c").arg(fixture.server.conf());
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

fn hidden_from_clients(fixture: &mut Fixture) -> Result<()> {
    let directory = fixture.share("files").join(TRIAL);
    let mut child = tune(fixture, &["--seconds", "3600"])?;
    while !directory.exists() {
        ensure!(child.try_wait()?.is_none(), "the command ended before it measured");
        std::thread::sleep(Duration::from_millis(5));
    }
    let seen = look(fixture);
    // SAFETY: kill has no memory effects; the process was started above and has not been waited for.
    unsafe { libc::kill(libc::pid_t::try_from(child.id())?, libc::SIGINT) };
    let out = child.wait_with_output()?;
    seen?;
    ensure!(!out.status.success() && out.stdout.is_empty(), "an interrupted command reports success");
    ensure!(!directory.exists(), "an interrupted command left its directory");
    let out = tune(fixture, &["--quick"])?.wait_with_output()?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let result: Value = serde_json::from_slice(&out.stdout)?;
    let rate = result["measured"]["storage"]["write_rate"].as_f64().context("nothing was measured")?;
    ensure!(rate > 0.0 && result["share"] == "files" && !directory.exists(), "{result}");
    Ok(())
}

/// A client lists the share and opens the directory.
fn look(fixture: &Fixture) -> Result<()> {
    let listed = fixture.smbclient().run("ls")?.fine()?;
    ensure!(!listed.contains(TRIAL), "a client sees the directory: {listed}");
    fixture.smbclient().run(&format!("cd {TRIAL}"))?.refused_with("NT_STATUS_OBJECT_NAME_NOT_FOUND")
}
