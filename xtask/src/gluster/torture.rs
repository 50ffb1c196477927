//! `cargo xtask gluster torture`: smbtorture against Frevo on shares in volumes.

use anyhow::Result;
use test_environment::{Counts, interrupt};

use super::Wanted;
use super::servers::{Servers, ServersOfRun, finish};
use crate::torture::TIMEOUT;

/// Options of `cargo xtask gluster torture`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    wanted: Wanted,
    /// Run only tests that match the glob; may be given more than once
    #[arg(long)]
    filter: Vec<String>,
    /// Number of concurrent tests, each with its own server. With more than one, no server has port 445, which some
    /// tests need
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Seconds until a test is killed
    #[arg(long, default_value_t = TIMEOUT)]
    timeout: u64,
}

/// Starts servers, runs the tests on each volume, and stops the servers.
pub(super) fn run(options: &Options) -> Result<Counts> {
    let servers = ServersOfRun::start(&options.wanted)?;
    let mut counts = Counts::default();
    for volume in servers.volumes() {
        interrupt::check()?;
        counts.add(on(&servers, volume, options)?);
    }
    Ok(counts)
}

/// Runs the tests on a volume. The part in the namespaces of the servers is `cargo xtask torture` itself.
fn on(servers: &Servers, volume: &str, options: &Options) -> Result<Counts> {
    let mut command = servers.command(super::own_program()?);
    command.args(["torture", "--volume", volume, "--jobs", &options.jobs.to_string()]);
    command.args(["--timeout", &options.timeout.to_string()]);
    command.args(options.filter.iter().flat_map(|filter| ["--filter", filter]));
    Ok(match finish(&mut command)? {
        status if status.success() => Counts::passed(1),
        status => Counts::failed(format!("smbtorture on {volume}: {status}"))
            .repeated_by(&format!("cargo xtask gluster torture --volumes {volume}")),
    })
}
