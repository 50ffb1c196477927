//! What single experiments need besides the addresses of both servers.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use foreign::bed::{Crowd, Target, enlarge, frevo};

use super::pair::{Pair, SERVER, Side};
use super::short;

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

    /// Whether its file is larger than many disks.
    pub(super) fn fills_the_disk(&self) -> bool {
        self.name == "bigfile"
    }

    /// An option for its file's size when two of them do not fit into what is free, bytes.
    pub(super) fn fit(&self, command: &mut Command, free: u64) {
        if let Some(mib) = fitting(free) {
            println!("{}: {} GiB are free, too little for the full size twice: --size {mib}", self.name, free >> 30);
            command.args(["--size", &mib.to_string()]);
        }
    }

    /// The command line, with the results in `json`; it runs in the workspace's folder.
    pub(super) fn command(&self, pair: &Pair, json: &Path) -> Result<Command> {
        let program = std::path::absolute(frevo())?;
        let mut command = Command::new(&program);
        command.current_dir(crate::root()).arg0(short(&program.to_string_lossy()));
        let share = self.share();
        command.arg("bench").args(self.name.split(' ')).args(["--json", &short(&json.to_string_lossy())]);
        let options = ["--target", "--name", "--conf", "--share-path", "--server-pid"];
        side(&mut command, &pair.frevo, share, options, self.starts_servers());
        let options = ["--vs", "--vs-name", "--vs-conf", "--vs-path", "--vs-pid"];
        side(&mut command, &pair.samba, share, options, self.starts_servers());
        if self.starts_servers() {
            command.args(["--serve", &short(&pair.frevo.server.command_line("{conf}"))]);
            command.args(["--vs-serve", &short(&pair.samba.server.command_line("{conf}"))]);
            // The servers have to see the accounts.
            pair.frevo.enter(&mut command);
        }
        Ok(command)
    }

    /// Options for registering more and more users, up to `most`.
    pub(super) fn register(&self, command: &mut Command, pair: &Pair, most: u32) -> Result<()> {
        let program = std::env::current_exe().context("this program does not know its own file")?;
        let program = short(&program.to_string_lossy());
        let register = |side: &Side| format!("{program} register {} {} {{count}}", side.bed().display(), side.name());
        command.args(["--user-pattern", Crowd::PATTERN, "--password", Crowd::PASSWORD]);
        command.args(["--user-count", &counts(most)]);
        command.args(["--register", &register(&pair.frevo), "--vs-register", &register(&pair.samba)]);
        Ok(())
    }
}

/// The size, MiB, of a file that fits twice into `free` bytes, when the experiment's own size does not.
fn fitting(free: u64) -> Option<u64> {
    const FULL: u64 = 64 << 10;
    // Room for the sparse file, and for others.
    let most = (free >> 20).saturating_sub(4 << 10) / 2;
    (most < FULL).then_some(most & !1_023)
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
    fn a_big_file_fits_twice() {
        assert_eq!(fitting(200 << 30), None);
        assert_eq!(fitting(71 << 30), Some(33 << 10));
        assert_eq!(fitting(1 << 30), Some(0));
    }

    #[test]
    fn users_up_to_a_number() {
        assert_eq!(counts(100), "10,50,100");
        assert_eq!(counts(120), "10,50,100,120");
        assert_eq!(counts(300_000), "10,50,100,200,500,1000,3000,5000,10000,30000,100000,300000");
    }
}
