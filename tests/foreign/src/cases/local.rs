//! Local programs on the files of a share: conflicts with a client's locks, and oplock breaks by local opens.

use anyhow::Result;

use crate::bed::{ALICE, BOB};
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("local.locks", |stage| contend(stage, "locks", "files")),
    Case::new("local.oplock", |stage| contend(stage, "oplock", "local")),
    // By default, Samba reports all changes.
    Case::new("local.notify_only_what_may_be_listed", notify).needs_root().frevo_only(),
];

fn contend(stage: &mut Stage, what: &str, share: &str) -> Result<()> {
    let directory = stage.share(share);
    stage.script("local.py", &[what, share, &directory.display().to_string()]).map(drop)
}

const WATCHED: &str = "[global]\n@TARGET@\n\tread only = no\n[watched]\n\tpath = @DIR@/data/watched\n";

/// alice watches a share. bob and local programs create files in a directory that she may not list.
fn notify(stage: &mut Stage) -> Result<()> {
    let path = stage.bed.make_dir("data/watched", &ALICE, 0o777)?;
    let server = stage.bed.start("watched", WATCHED)?;
    let usual = std::mem::replace(&mut stage.server, server);
    let path = path.display().to_string();
    let done = stage.script("notify.py", &["watched", &path, BOB.name, BOB.password, &BOB.id.to_string()]);
    stage.server = usual;
    done.map(drop)
}
