//! `bind interfaces only` while interfaces appear, change and disappear, in a network namespace with the standard port.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] = &[Case::new("addresses.followed", followed).needs_root().frevo_only()];

/// How long a change may take until the server has followed it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server in a network namespace of its own.
struct Inside(Child);

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Inside {
    fn start(conf: &Path, state: &Path, log: &Path) -> Result<Inside> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
        command.arg(test_environment::frevo()).arg("serve").arg("-c").arg(conf).arg("--state-dir").arg(state);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(log)?);
        Ok(Inside(command.spawn().context("cannot create a network namespace")?))
    }

    /// Returns a command that runs a program in the namespace.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.0.id().to_string(), "-n", "--"]).args(arguments);
        command
    }

    fn ip(&self, arguments: &str) -> Result<()> {
        let arguments: Vec<&str> = std::iter::once("ip").chain(arguments.split(' ')).collect();
        let output = self.command(&arguments).output()?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Waits until the server listens on these addresses of IPv4 and no others.
    fn listens_on(&self, expected: &[&str], log: &Path) -> Result<()> {
        let since = Instant::now();
        loop {
            let output = self.command(&["ss", "-Hltn4", "sport = :445"]).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut found: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
            found.sort_unstable();
            if found == expected {
                return Ok(());
            }
            if since.elapsed() > PATIENCE {
                bail!("the server listens on {found:?}, not on {expected:?}\n{}", fs::read_to_string(log)?);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn followed(fixture: &mut Fixture) -> Result<()> {
    let dir = fixture.local("addresses")?;
    let share = fixture.environment.make_dir("data/addresses", &ALICE, 0o777)?;
    let (conf, log) = (dir.join("smb.conf"), dir.join("log"));
    let write = |interfaces: &str| {
        let text = format!(
            "[global]\ninterfaces = {interfaces}\nbind interfaces only = yes\nsmb ports = 445\n\
             map to guest = Bad User\n[share]\npath = {}\nguest ok = yes\n",
            share.display()
        );
        fs::write(&conf, text)
    };
    // Neither exists yet.
    write("late0 198.51.100.0/24")?;
    let server = Inside::start(&conf, &dir.join("state"), &log)?;
    server.listens_on(&["127.0.0.1:445"], &log)?;
    for arguments in ["link add late0 type bridge", "link set late0 up", "addr add 192.0.2.1/24 dev late0"] {
        server.ip(arguments)?;
    }
    server.listens_on(&["127.0.0.1:445", "192.0.2.1:445"], &log)?;
    let mut smbclient = server.command(&["smbclient", "-N", "//192.0.2.1/share"]);
    let mut smbclient = smbclient.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut commands = smbclient.stdin.take().context("a pipe")?;
    commands.write_all(b"ls\n")?;
    for arguments in ["addr add 192.0.2.2/24 dev late0", "link add other0 type bridge", "link set other0 up"] {
        server.ip(arguments)?;
    }
    server.ip("addr add 198.51.100.7/24 dev other0")?;
    server.ip("addr add 203.0.113.7/24 dev other0")?;
    server.listens_on(&["127.0.0.1:445", "192.0.2.1:445", "192.0.2.2:445", "198.51.100.7:445"], &log)?;
    server.ip("link del other0")?;
    server.ip("addr del 192.0.2.2/24 dev late0")?;
    server.listens_on(&["127.0.0.1:445", "192.0.2.1:445"], &log)?;
    // A connection outlives even its own socket.
    write("other0")?;
    let reloaded = Command::new("kill").args(["-HUP", &server.0.id().to_string()]).status()?;
    ensure!(reloaded.success(), "the server has ended");
    server.listens_on(&["127.0.0.1:445"], &log)?;
    commands.write_all(b"ls\n")?;
    drop(commands);
    let output = smbclient.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(text.matches("blocks available").count() == 2, "{text}{}", fs::read_to_string(&log)?);
    Ok(())
}
