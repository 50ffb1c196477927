//! The needs of individual experiments in addition to the addresses of both servers.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::pair::{Pair, Side};
use super::{frevo_bench, short};

/// One experiment of `frevo-bench`.
pub(super) struct Experiment {
    /// The experiment's name in `frevo-bench`.
    pub(super) name: String,
}

impl Experiment {
    /// Returns whether it compares several servers of each program ([`super::cells`], [`super::crowds`]).
    pub(super) fn has_many_servers(&self) -> bool {
        self.name.starts_with("acl") || self.registers_users()
    }

    /// Returns whether these servers differ in their users.
    pub(super) fn registers_users(&self) -> bool {
        self.name == "logon"
    }

    /// Returns whether the experiment starts both servers itself, with one configuration after another.
    pub(super) fn starts_servers(&self) -> bool {
        self.name.starts_with("tune")
    }

    /// Returns whether its file is larger than many disks.
    pub(super) fn fills_the_disk(&self) -> bool {
        self.name == "bigfile"
    }

    /// Adds a size option if two files of the full size do not fit into `free` bytes.
    pub(super) fn fit(&self, command: &mut Command, free: u64) {
        if let Some(mib) = fitting(free) {
            println!("{}: {} GiB are free, too little for the full size twice: --size {mib}", self.name, free >> 30);
            command.args(["--size", &mib.to_string()]);
        }
    }

    /// Builds the command line, with results in `json`.
    pub(super) fn command(&self, pair: &Pair, json: &Path) -> Result<Command> {
        let mut command = frevo_bench();
        let share = "plain";
        command.args(self.name.split(' ')).args(["--json", &short(&json.to_string_lossy())]);
        let options = ["--target", "--name", "--conf", "--share-path", "--server-pid"];
        self.side(&mut command, &pair.frevo, share, options);
        let options = ["--vs", "--vs-name", "--vs-conf", "--vs-path", "--vs-pid"];
        self.side(&mut command, &pair.samba, share, options);
        if self.starts_servers() {
            command.args(["--serve", &short(&pair.frevo.server.command_line("{conf}"))]);
            command.args(["--vs-serve", &short(&pair.samba.server.command_line("{conf}"))]);
            // The servers must see the accounts.
            pair.frevo.enter(&mut command);
        }
        Ok(command)
    }

    fn side(&self, command: &mut Command, side: &Side, share: &str, options: [&str; 5]) {
        let [address, name, conf, path, pid] = options;
        command.args([address, &side.url(share), name, side.name()]);
        command.arg(conf).arg(side.server.conf()).arg(path).arg(side.path(share));
        if !self.starts_servers() {
            command.args([pid, &side.server.pid().to_string()]);
        }
    }
}

/// Returns the size, in MiB, of a file that fits twice into `free` bytes, if the experiment's own size does not.
fn fitting(free: u64) -> Option<u64> {
    const FULL: u64 = 64 << 10;
    // Reserves space for the sparse file and for others.
    let most = (free >> 20).saturating_sub(4 << 10) / 2;
    (most < FULL).then_some(most & !1_023)
}

/// Returns the study's numbers of users, and larger ones, up to `most`.
pub(super) fn counts(most: u32) -> Vec<u32> {
    let study = [10, 50, 100, 200, 500, 1_000, 3_000, 5_000, 10_000, 30_000, 100_000];
    study.into_iter().filter(|count| *count < most).chain([most]).collect()
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
    fn numbers_of_users_end_with_the_maximum() {
        assert_eq!(counts(100), [10, 50, 100]);
        assert_eq!(counts(120), [10, 50, 100, 120]);
        assert_eq!(counts(300_000)[9..], [30_000, 100_000, 300_000]);
    }
}
