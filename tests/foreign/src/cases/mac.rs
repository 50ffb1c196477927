//! A tree with Finder info, resource forks, tags and unusual names that Samba with `fruit` and Frevo serve by turns.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::cases::twins::{Twin, Twins};
use crate::fixture::Fixture;
use crate::python::Script;
use crate::suite::Case;
use test_environment::{ALICE, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("mac.shared_with_samba_netatalk", |fixture| shared(fixture, "netatalk")).needs_root().frevo_only(),
    Case::new("mac.shared_with_samba_stream", |fixture| shared(fixture, "stream")).needs_root().frevo_only(),
    Case::new("mac.backup", backup),
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
	path = @DIR@/data/backups
	read only = no
	vfs objects = fruit streams_xattr
	fruit:resource = stream
	fruit:time machine = yes
	fruit:time machine max size = 48M
";

/// A backup survives the death of the server, other Macs see its lock, and its size is right.
fn backup(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    fixture.environment.make_dir("data/backups", &ALICE, 0o777)?;
    let mut server = fixture.environment.start("backups", BACKUPS)?;
    let start = |server: &Server, who: &str| {
        let mut command = fixture.script_command("time_machine.py", &[who]);
        command.env("SERVER_PORT", server.port().to_string());
        Script::start(command)
    };
    let mut first = start(&server, "first")?;
    first.wait_for("synced")?;
    first.go_on()?;
    // It is in the middle of a band at some time of this.
    std::thread::sleep(Duration::from_millis(300));
    server.signal(libc::SIGKILL);
    server.wait(Duration::from_secs(15))?;
    first.wait_for("lost")?;
    server.restart()?;
    first.go_on()?;
    first.wait_for("written")?;
    let mut second = start(&server, "second")?;
    second.wait_for("locked")?;
    first.go_on()?;
    first.end()?;
    second.go_on()?;
    second.end()
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
