//! Local programs on the files of a share: conflicts with a client's locks, and oplock breaks by local opens.

use anyhow::Result;

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB};

pub(super) const CASES: &[Case] = &[
    Case::new("local.locks", |fixture| contend(fixture, "locks", "files")),
    Case::new("local.oplock", |fixture| contend(fixture, "oplock", "local")),
    // By default, Samba reports all changes.
    Case::new("local.notify_only_what_may_be_listed", notify).needs_root().frevo_only(),
];

fn contend(fixture: &mut Fixture, what: &str, share: &str) -> Result<()> {
    let directory = fixture.share(share);
    fixture.script("local.py", &[what, share, &directory.display().to_string()]).map(drop)
}

const WATCHED: &str = "[global]\n@TARGET@\n\tread only = no\n[watched]\n\tpath = @DIR@/data/watched\n";

/// alice watches a share. bob and local programs create files in a directory that she may not list.
fn notify(fixture: &mut Fixture) -> Result<()> {
    let path = fixture.environment.make_dir("data/watched", &ALICE, 0o777)?;
    let server = fixture.environment.start("watched", WATCHED)?;
    let usual = std::mem::replace(&mut fixture.server, server);
    let path = path.display().to_string();
    let done = fixture.script("notify.py", &["watched", &path, BOB.name, BOB.password, &BOB.id.to_string()]);
    fixture.server = usual;
    done.map(drop)
}
