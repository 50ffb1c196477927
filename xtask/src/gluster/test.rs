//! `cargo xtask gluster test`: the tests that need GlusterFS servers.

use anyhow::Result;
use test_environment::Counts;

use super::Wanted;
use super::servers::{Servers, ServersOfRun};
use crate::steps::{self, Step};
use crate::unit_tests;

/// Options of `cargo xtask gluster test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only tests whose name contains this word
    filter: Option<String>,
    #[command(flatten)]
    wanted: Wanted,
}

/// Starts servers, runs all steps on them, and stops them.
pub(super) fn run(options: &Options) -> Result<Counts> {
    let servers = ServersOfRun::start(&options.wanted)?;
    steps::run(all(&servers, options.filter.as_deref()))
}

/// Returns the steps. Each runs its tests with [`Servers::command`].
fn all<'a>(servers: &'a Servers, filter: Option<&'a str>) -> Vec<Step<'a>> {
    vec![Step::new("tests of the back end", "cargo xtask gluster test", move || {
        unit_tests::run_in(
            "gluster",
            filter,
            &|folder, program| servers.command_in(folder, program),
            "cargo xtask gluster test",
        )
    })]
}
