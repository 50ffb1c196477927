//! `cargo xtask gluster test`: the tests that need GlusterFS servers.

use anyhow::Result;
use test_environment::Counts;

use super::servers::{Servers, ServersOfRun};
use super::{Wanted, budgets, interchange, users};
use crate::steps::{self, Step};
use crate::unit_tests;

/// The volume that Samba and Frevo serve in turns, and whose operations are counted.
const SERVED: &str = "dist-samba";

/// Options of `cargo xtask gluster test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only tests whose name contains this word
    pub(super) filter: Option<String>,
    #[command(flatten)]
    pub(super) wanted: Wanted,
}

/// Starts servers, runs all steps on them, and stops them.
pub(super) fn run(options: &Options) -> Result<Counts> {
    let servers = ServersOfRun::start(&options.wanted)?;
    steps::run(all(&servers, options.filter.as_deref()))
}

/// Returns the steps. Each runs its tests with [`Servers::command`].
fn all<'a>(servers: &'a Servers, filter: Option<&'a str>) -> Vec<Step<'a>> {
    let mut steps = vec![Step::new("tests of the back end", "cargo xtask gluster test", move || {
        unit_tests::run_in(
            "gluster",
            filter,
            &|folder, program| servers.command_in(folder, program),
            "cargo xtask gluster test",
        )
    })];
    let has_volume = servers.volumes().iter().any(|volume| volume == SERVED);
    if has_volume && filter.is_none_or(|filter| "interchange".contains(filter)) {
        let command = "cargo xtask gluster test interchange";
        steps.push(Step::new("Samba and Frevo in turns", command, || interchange::run(servers, SERVED)));
    }
    if has_volume && filter.is_none_or(|filter| "users".contains(filter)) {
        let command = "cargo xtask gluster test users --volumes dist-samba";
        steps.push(Step::new("two users on one server", command, || users::run(servers, SERVED)));
    }
    if has_volume && filter.is_none_or(|filter| "budgets".contains(filter)) {
        let command = "cargo xtask gluster test budgets --volumes dist-samba";
        steps.push(Step::new("operations of the bricks", command, || budgets::run(servers, SERVED)));
    }
    steps
}
