//! A tree with Finder info, resource forks, tags and unusual names that Samba with `fruit` and Frevo serve by turns.

use anyhow::{Result, ensure};

use crate::cases::twins::{Twin, Twins};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] = &[
    Case::new("mac.shared_with_samba_netatalk", |fixture| shared(fixture, "netatalk")).needs_root().frevo_only(),
    Case::new("mac.shared_with_samba_stream", |fixture| shared(fixture, "stream")).needs_root().frevo_only(),
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
