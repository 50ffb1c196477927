//! A tree with Finder info, resource forks, tags and unusual names that Samba with `fruit` and Frevo serve by turns.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use crate::cases::twins::{Twin, Twins};
use crate::fixture::Fixture;
use crate::python::Script;
use crate::suite::Case;
use test_environment::{ALICE, Disk, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("mac.shared_with_samba_netatalk", |fixture| shared(fixture, "netatalk")).needs_root().frevo_only(),
    Case::new("mac.shared_with_samba_stream", |fixture| shared(fixture, "stream")).needs_root().frevo_only(),
    Case::new("mac.backup", backup),
    Case::new("mac.backup_on_full_disk", backup_on_full_disk).needs_root(),
];

const TEMPLATE: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
	map archive = no
[mac]
	path = @TREE@
	vfs objects = catia fruit streams_xattr
	fruit:metadata = @PLACE@
	fruit:resource = stream
	fruit:encoding = native
	fruit:veto_appledouble = no
	fruit:convert_adouble = no
";

const BACKUPS: &str = "[global]
@TARGET@
[backups]
	path = @PATH@
	read only = no
	vfs objects = fruit streams_xattr
	fruit:resource = stream
	fruit:time machine = yes
	fruit:time machine max size = 48M
";

/// A backup survives the death of the server, other Macs see its lock, and its size is right.
fn backup(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let directory = fixture.environment.make_dir("data/backups", &ALICE, 0o777)?;
    let mut server =
        fixture.environment.start("backups", &BACKUPS.replace("@PATH@", &directory.display().to_string()))?;
    let mut first = mac(fixture, &server, "first")?;
    first.wait_for("synced")?;
    first.go_on()?;
    // It is in the middle of a band at some time of this.
    thread::sleep(Duration::from_millis(300));
    server.signal(libc::SIGKILL);
    server.wait(Duration::from_secs(15))?;
    first.wait_for("lost")?;
    server.restart()?;
    first.go_on()?;
    first.wait_for("written")?;
    let mut second = mac(fixture, &server, "second")?;
    second.wait_for("locked")?;
    first.go_on()?;
    first.end()?;
    second.go_on()?;
    second.end()
}

/// Starts a Mac that backs up.
fn mac(fixture: &Fixture, server: &Server, role: &str) -> Result<Script> {
    let mut command = fixture.script_command("time_machine.py", &[role]);
    command.env("SERVER_PORT", server.port().to_string());
    Script::start(command)
}

/// A disk that is smaller than the maximum size loses no band that was synced before it was full, and a band that is
/// removed makes room for another. In a mount namespace that ends with its thread.
fn backup_on_full_disk(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let done = thread::scope(|scope| scope.spawn(|| on_full_disk(fixture)).join());
    done.map_err(|_| anyhow!("the thread with the file system panicked"))?
}

fn on_full_disk(fixture: &Fixture) -> Result<()> {
    let mut mkfs = Command::new("sh");
    mkfs.args(["-c", r#"mkfs.ext4 -q -m 0 "$0" 44M"#]);
    let disk = Disk::with(&fixture.environment.dir().join("data"), mkfs, "loop")?;
    std::fs::set_permissions(disk.point(), Permissions::from_mode(0o777))?;
    let template = BACKUPS.replace("@PATH@", &disk.point().display().to_string());
    let mut server = fixture.environment.start("full-disk", &template)?;
    let mut bands = mac(fixture, &server, "full")?;
    bands.wait_for("full")?;
    server.signal(libc::SIGKILL);
    server.wait(Duration::from_secs(15))?;
    server.restart()?;
    bands.go_on()?;
    bands.end()
}

/// Each server shows the same as the other one, whichever has written it.
fn shared(fixture: &mut Fixture, place: &str) -> Result<()> {
    let fixture = &*fixture;
    let tree = fixture.environment.make_dir(&format!("data/mac-{place}"), &ALICE, 0o777)?;
    let twins = Twins::start(fixture, &format!("mac-{place}"), &TEMPLATE.replace("@PLACE@", place), [&tree, &tree])?;
    let show = |twin| twins.script(fixture, twin, "mac.py", &["show"]);
    for (turn, writer) in [Twin::Samba, Twin::Frevo, Twin::Samba].into_iter().enumerate() {
        twins.script(fixture, writer, "mac.py", &["write", &format!("turn{turn}-")])?;
        let (samba, frevo) = (show(Twin::Samba)?, show(Twin::Frevo)?);
        ensure!(samba.matches("AFP_AfpInfo").count() == 3 * (turn + 1), "the tree lacks Finder info:\n{samba}");
        ensure!(samba == frevo, "after {writer:?} has written, Samba shows:\n{samba}\nFrevo shows:\n{frevo}");
    }
    // The second time, Frevo remembers which files have no Finder info.
    twins.script(fixture, Twin::Samba, "mac.py", &["write", "turn1-"])?;
    let (samba, frevo) = (show(Twin::Samba)?, show(Twin::Frevo)?);
    ensure!(samba == frevo, "after a change, Samba shows:\n{samba}\nFrevo shows:\n{frevo}");
    Ok(())
}
