//! Netatalk and clients see each other's share modes as with Samba (`fruit:locking = netatalk`).

use std::fs;
use std::os::unix::fs::chown;

use anyhow::{Context, Result, ensure};

use crate::cases::twins::{Twin, Twins};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] =
    &[Case::new("netatalk.share_modes_as_with_samba", as_with_samba).needs_root().frevo_only()];

const TEMPLATE: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
[mac]
	path = @TREE@
	vfs objects = fruit streams_xattr
	fruit:locking = netatalk
";

fn as_with_samba(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let trees = ["data/netatalk-samba", "data/netatalk-frevo"];
    let [for_samba, for_frevo] = trees.map(|tree| fixture.environment.make_dir(tree, &ALICE, 0o777));
    let trees = [&*for_samba?, &*for_frevo?];
    let twins = Twins::start(fixture, "netatalk", TEMPLATE, trees)?;
    let mut shown = Vec::new();
    for (twin, tree) in [Twin::Samba, Twin::Frevo].into_iter().zip(trees) {
        let file = tree.join("file");
        fs::write(&file, b"content")?;
        chown(&file, Some(ALICE.id), Some(ALICE.id))?;
        let path = file.to_str().context("the path is UTF-8")?;
        shown.push(twins.script(fixture, twin, "netatalk_locks.py", &["mac", path])?);
    }
    let [samba, frevo] = [&shown[0], &shown[1]].map(|shown| shown.split_once("overwriting\n"));
    let ((samba, _), (frevo, overwriting)) = samba.zip(frevo).context("both scripts reach the end")?;
    let differs = samba.lines().zip(frevo.lines()).find(|(samba, frevo)| samba != frevo);
    ensure!(samba == frevo, "Samba and Frevo show {differs:?}");
    ensure!(frevo.contains("0xc0000043") && frevo.contains("locks [0, 1, 4, 5]"), "nothing conflicts: {frevo}");
    // With Samba, the content that Netatalk does not let others change is lost.
    ensure!(overwriting == "0xc0000043\nsize 7\n", "Frevo overwrites: {overwriting}");
    Ok(())
}
