//! Local programs on the files of a share: their locks and a client's, and the oplock that their opens end.

use anyhow::Result;

use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("local.locks", |stage| contend(stage, "locks", "files")),
    Case::new("local.oplock", |stage| contend(stage, "oplock", "local")),
];

fn contend(stage: &mut Stage, what: &str, share: &str) -> Result<()> {
    let directory = stage.share(share);
    stage.script("local.py", &[what, share, &directory.display().to_string()]).map(drop)
}
