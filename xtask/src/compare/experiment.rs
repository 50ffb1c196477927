//! What single experiments need besides the addresses of both servers.

use std::path::Path;
use std::process::Command;

use foreign::bed::{Crowd, frevo};

use super::pair::{Pair, Side};

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
        if self.name == "logon" {
            let count = pair.crowd.0.to_string();
            command.args(["--user-pattern", Crowd::PATTERN, "--user-count", &count, "--password", Crowd::PASSWORD]);
        }
        if self.starts_servers() {
            command.args(["--serve", &pair.frevo.server.command_line("{conf}")]);
            command.args(["--vs-serve", &pair.samba.server.command_line("{conf}")]);
            // The servers have to see the accounts.
            pair.frevo.enter(&mut command);
        }
        command
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
