//! Ends of Frevo.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::fixture::{Fixture, SHARE, pause, until};
use super::load::{File, Load, check_files};
use super::{Case, Given};

pub(super) const CASES: &[Case] = &[Case::new("durable", &["dist"], durable)];

/// Time in which the mount notices changes by another client of the volume.
const NOTICED: Duration = Duration::from_secs(5);

/// Frevo is killed again and again. What was flushed, or written through caches, is in the volume.
fn durable(given: &Given<'_>) -> Result<()> {
    let mut fixture = Fixture::start(given.dir, "dist", "")?;
    let mut groups: Vec<Vec<File>> =
        (0..2).map(|client| (0..10).map(|at| File::new(client * 10 + at)).collect()).collect();
    let (mut durable, mut interrupted, mut late) = (0, 0, Duration::ZERO);
    for round in 0..given.rounds {
        let load = Load::of(fixture.server.address(), SHARE, groups);
        pause(Duration::from_millis(u64::from(300 + round * 37 % 500)))?;
        fixture.server.signal(libc::SIGKILL);
        let status = fixture.server.wait(Duration::from_secs(10))?;
        ensure!(status.is_some(), "Frevo does not end");
        let work = load.stop()?;
        let changes = work.iter().flat_map(|work| &work.changes);
        let (done, failed): (Vec<_>, Vec<_>) = changes.partition(|change| change.result.is_ok());
        ensure!(!done.is_empty() && !failed.is_empty(), "no call was interrupted");
        durable += done.len();
        interrupted += failed.len();
        for file in work.iter().flat_map(|work| &work.files).filter(|file| file.is_durable()) {
            let brick = &fixture.bricks()[fixture.brick_of(&file.name)? - 1];
            check_files(brick, [file]).with_context(|| format!("round {round}"))?;
        }
        let files = || work.iter().flat_map(|work| &work.files);
        let mut seen = Ok(0);
        // The mount caches attributes and content.
        let noticed = until("", NOTICED, || {
            seen = check_files(&fixture.mounted(), files());
            Ok(seen.is_ok())
        });
        late = late.max(noticed.unwrap_or_default());
        seen.with_context(|| format!("round {round}"))?;
        groups = work.into_iter().map(|work| work.files).collect();
        fixture.server.restart()?;
    }
    println!("{} ends, {interrupted} calls interrupted, {durable} durable changes are right", given.rounds);
    println!("the mount showed them after at most {late:.1?}");
    Ok(())
}
