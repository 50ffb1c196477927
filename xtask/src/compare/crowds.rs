//! The servers for the experiment with many users: Frevo and Samba, with each account back end and each number of
//! users. All run at the same time, so that `frevo-bench` can alternate between them.

use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use test_environment::{Backend, Crowd, interrupt};

use super::outcome::Outcome;
use super::pair::{Pair, Side};
use super::{Options, frevo_bench, measured, short};

/// Both servers with this number of users.
struct Ground {
    backend: Backend,
    count: u32,
    pair: Pair,
}

impl Ground {
    fn start(dir: &Path, backend: Backend, count: u32) -> Result<Ground> {
        interrupt::check()?;
        println!("{}: registering {count} users", backend.name());
        let pair = Pair::start(dir, 0, backend)?;
        let Pair { frevo, samba, directory, .. } = &pair;
        let fill = |side: &Side| side.register(backend, Crowd(count), directory.as_ref());
        thread::scope(|scope| -> Result<()> {
            let other = scope.spawn(|| fill(samba));
            fill(frevo)?;
            other.join().map_err(|_| anyhow::anyhow!("registering panicked"))?
        })
        .with_context(|| format!("cannot register {count} users ({})", backend.name()))?;
        Ok(Ground { backend, count, pair })
    }

    /// Returns the server's name. Its number of users comes last, as `frevo-bench logon` expects.
    fn name(&self, side: &Side) -> String {
        format!("{}/{}/{}", side.name(), self.backend.name(), self.count)
    }
}

/// Runs the experiment on its own servers in `dir`.
pub(super) fn run(options: &Options, dir: &Path, outcome: &mut Outcome) -> Result<()> {
    let counts = options.counts();
    let mut grounds = Vec::new();
    for backend in &options.backends {
        for count in &counts {
            grounds.push(Ground::start(dir, *backend, *count)?);
        }
    }
    let json = outcome.json("logon");
    let mut command = command(&grounds, &json)?;
    if options.quick {
        command.arg("--quick");
    } else if !options.bench.iter().any(|word| word == "--syscalls") {
        command.arg("--syscalls");
    }
    let done = measured(&mut command, "logon", &json, &options.bench, outcome);
    for Ground { backend, pair, count } in &mut grounds {
        for side in pair.sides() {
            if *count == counts[0] {
                let name = format!("logon-{}-{}-smb.conf", side.name(), backend.name());
                outcome.keep(&name, side.server.conf())?;
            }
        }
        pair.check()?;
    }
    done
}

/// Builds the command line: Frevo's servers, then Samba's, so that the servers that are compared most directly are
/// adjacent.
fn command(grounds: &[Ground], json: &Path) -> Result<Command> {
    let mut command = frevo_bench();
    command.args(["logon", "--json", &short(&json.to_string_lossy())]);
    command.args(["--user-pattern", Crowd::PATTERN, "--password", Crowd::PASSWORD]);
    let share = "plain";
    let frevos = grounds.iter().map(|ground| (ground, &ground.pair.frevo));
    let sambas = grounds.iter().map(|ground| (ground, &ground.pair.samba));
    for (number, (ground, side)) in frevos.chain(sambas).enumerate() {
        let (name, url, pid) = (ground.name(side), side.url(share), side.server.pid());
        let (conf, path) = (side.server.conf().display(), side.path(share));
        if number == 0 {
            command.args(["--target", &url, "--name", &name, "--server-pid", &pid.to_string()]);
            command.arg("--share-path").arg(&path).arg("--conf").arg(side.server.conf());
        } else {
            // Servers with more users have the same configuration.
            let first = ground.count == grounds[0].count;
            let conf = if first { format!(",conf={conf}") } else { String::new() };
            command.args(["--more", &format!("{name}={url},path={},pid={pid}{conf}", path.display())]);
        }
    }
    Ok(command)
}
