//! What single experiments need besides the addresses of both servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use foreign::bed::{Crowd, Target, enlarge, frevo};

use super::pair::{Pair, SERVER, Side};

/// One experiment of `frevo bench`.
pub(super) struct Experiment {
    /// Its name there.
    pub(super) name: String,
}

impl Experiment {
    /// The share that it works on.
    fn share(&self) -> &'static str {
        if self.name.starts_with("acl") { "acl" } else { "plain" }
    }

    /// Whether it starts both servers itself, with one configuration after another.
    pub(super) fn starts_servers(&self) -> bool {
        self.name.starts_with("tune")
    }

    /// Whether it registers more and more users.
    pub(super) fn registers_users(&self) -> bool {
        self.name == "logon"
    }

    /// Space that it may take, GiB, files on both servers together.
    pub(super) fn room(&self, quick: bool) -> u64 {
        match (self.name.as_str(), quick) {
            ("bigfile", false) => 140,
            (_, false) => 12,
            (_, true) => 3,
        }
    }

    /// The command line, with the results in `json`.
    pub(super) fn command(&self, pair: &Pair, json: &Path) -> Command {
        let mut command = Command::new(frevo());
        let share = self.share();
        command.arg("bench").args(self.name.split(' ')).arg("--json").arg(json);
        let options = ["--target", "--name", "--conf", "--share-path", "--server-pid"];
        side(&mut command, &pair.frevo, share, options, self.starts_servers());
        let options = ["--vs", "--vs-name", "--vs-conf", "--vs-path", "--vs-pid"];
        side(&mut command, &pair.samba, share, options, self.starts_servers());
        if self.starts_servers() {
            command.args(["--serve", &pair.frevo.server.command_line("{conf}")]);
            command.args(["--vs-serve", &pair.samba.server.command_line("{conf}")]);
            // The servers have to see the accounts.
            pair.frevo.enter(&mut command);
        }
        command
    }

    /// Options for registering more and more users, up to `most`.
    pub(super) fn register(&self, command: &mut Command, pair: &Pair, most: u32) -> Result<()> {
        let program = std::env::current_exe().context("this program does not know its own file")?;
        let register =
            |side: &Side| format!("{} register {} {} {{count}}", program.display(), side.bed().display(), side.name());
        command.args(["--user-pattern", Crowd::PATTERN, "--password", Crowd::PASSWORD]);
        command.args(["--user-count", &counts(most)]);
        command.args(["--register", &register(&pair.frevo), "--vs-register", &register(&pair.samba)]);
        Ok(())
    }
}

/// The numbers of users that the study registered and larger ones, up to `most`.
fn counts(most: u32) -> String {
    let study = [10, 50, 100, 200, 500, 1_000, 3_000, 5_000, 10_000, 30_000, 100_000];
    let counts = study.into_iter().filter(|count| *count < most).chain([most]);
    counts.map(|count| count.to_string()).collect::<Vec<_>>().join(",")
}

/// What `frevo bench logon` runs to register users.
#[derive(clap::Args)]
pub(crate) struct Register {
    /// The directory of the server's bed
    bed: PathBuf,
    /// Which server it is
    target: Target,
    /// How many users there are to be
    count: u32,
}

impl Register {
    /// Registers them.
    pub(crate) fn run(&self) -> Result<()> {
        enlarge(&self.bed, SERVER, self.target, Crowd(self.count))
    }
}

fn side(command: &mut Command, side: &Side, share: &str, options: [&str; 5], no_pid: bool) {
    let [address, name, conf, path, pid] = options;
    command.args([address, &side.url(share), name, side.name()]);
    command.arg(conf).arg(side.server.conf()).arg(path).arg(side.path(share));
    if !no_pid {
        command.args([pid, &side.server.pid().to_string()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_up_to_a_number() {
        assert_eq!(counts(100), "10,50,100");
        assert_eq!(counts(120), "10,50,100,120");
        assert_eq!(counts(300_000), "10,50,100,200,500,1000,3000,5000,10000,30000,100000,300000");
    }
}
