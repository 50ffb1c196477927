//! The machine account in the domain's directory: the service names for which clients get tickets, and the version of
//! the key that these tickets are encrypted with. The query is made by Samba's `net ads search` as the machine itself,
//! so it needs no password.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use super::{PATIENCE, Step, host_names};

/// The attributes of the machine account.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Machine {
    /// `servicePrincipalName`.
    names: Vec<String>,
    /// `msDS-KeyVersionNumber`.
    kvno: Option<u32>,
}

impl Machine {
    /// Looks up the account of `computer` in the domain that `conf` specifies.
    pub(super) fn find(conf: &Path, computer: &str) -> Result<Machine, String> {
        let mut net = Command::new("net");
        net.args(["ads", "search", "-P", "-s"]).arg(conf).arg(format!("(sAMAccountName={computer}$)"));
        net.args(["servicePrincipalName", "msDS-KeyVersionNumber"]);
        let Output { status, stdout, stderr } = run(net)?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr);
            let said = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
            return Err(format!("`net ads search` failed ({status}): {said}"));
        }
        let machine = Machine::read(&String::from_utf8_lossy(&stdout));
        if machine == Machine::default() {
            return Err(format!("the domain has no account {computer}$"));
        }
        Ok(machine)
    }

    /// Parses the output of `net ads search`: one attribute and value per line.
    fn read(printed: &str) -> Machine {
        let mut machine = Machine::default();
        for (attribute, value) in printed.lines().filter_map(|line| line.trim().split_once(": ")) {
            if attribute.eq_ignore_ascii_case("servicePrincipalName") {
                machine.names.push(value.to_owned());
            } else if attribute.eq_ignore_ascii_case("msDS-KeyVersionNumber") {
                machine.kvno = value.parse().ok();
            }
        }
        machine
    }

    /// Checks whether clients get tickets for `host`, and whether the keytab, which has the key versions `versions`,
    /// can decrypt them.
    pub(super) fn step(&self, host: &str, computer: &str, versions: &[u32], conf: &Path) -> Step {
        let names = host_names(host);
        let conf = conf.display();
        if !self.names.iter().any(|name| names.iter().any(|known| known.eq_ignore_ascii_case(name))) {
            let found =
                format!("{computer}$ has no service principal name {}: clients get no tickets", names.join(" or "));
            let remedy = format!("`net ads setspn add {computer} host/{host} -s {conf} -U Administrator`");
            return Step::wrong("directory", found, remedy);
        }
        let Some(newest) = versions.iter().max() else {
            return Step::skipped("directory", "no versions of keys to compare");
        };
        let Some(theirs) = self.kvno else {
            // Some directories do not show msDS-KeyVersionNumber. That is not a mistake on this machine.
            return Step::right("directory", format!("has {host}, but shows no version of its key to compare"));
        };
        if versions.contains(&theirs) {
            return Step::right("directory", format!("tickets for {host} use version {theirs} of the key"));
        }
        let found = format!("tickets for {host} use version {theirs} of the key, the keytab has {newest}");
        let (why, remedy) = match theirs > *newest {
            true => (
                "the machine's password was changed, but the keytab was not updated",
                format!("as root, run `net ads keytab create -P -s {conf}` to update it"),
            ),
            false => {
                ("the account was re-created or restored since", format!("join again: `frevo join --run -c {conf}`"))
            }
        };
        Step::wrong("directory", format!("{found}: {why}"), remedy)
    }
}

/// Runs a program that reads no input, and kills it after a time limit.
fn run(mut command: Command) -> Result<Output, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child
        .map_err(|why| format!("cannot start `net` (Debian: samba-common-bin; Fedora: samba-common-tools): {why}"))?;
    let pid = rustix::process::Pid::from_child(&child);
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || answer.send(child.wait_with_output()));
    match answered.recv_timeout(PATIENCE) {
        Ok(output) => output.map_err(|why| why.to_string()),
        Err(_) => {
            // The process has not been waited for yet, so its id has not been reused.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            Err(format!("`net ads search` did not finish within {} seconds", PATIENCE.as_secs()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    const PRINTED: &str = "Got 1 replies\n\nservicePrincipalName: HOST/SRV\nservicePrincipalName: HOST/srv.dom.test\n\
                           msDS-KeyVersionNumber: 3\n\n";

    #[test]
    fn names_and_versions_are_compared_with_the_keytab() {
        let machine = Machine::read(PRINTED);
        assert_eq!((machine.names.len(), machine.kvno), (2, Some(3)));
        assert_eq!(Machine::read("Got 0 replies\n\n"), Machine::default());
        let check = |machine: &Machine, host: &str, versions: &[u32], state: State, found: &str, remedy: &str| {
            let step = machine.step(host, "SRV", versions, Path::new("/etc/smb.conf"));
            assert_eq!(step.state, state, "{step:?}");
            assert!(step.found.contains(found), "{step:?}");
            assert!(step.remedy.as_deref().unwrap_or_default().contains(remedy), "{step:?}");
        };
        check(&machine, "srv.dom.test", &[2, 3], State::Right, "version 3", "");
        check(
            &machine,
            "srv.dom.test",
            &[1, 2],
            State::Wrong,
            "version 3 of the key, the keytab has 2",
            "keytab create",
        );
        check(&machine, "srv.dom.test", &[4], State::Wrong, "the keytab has 4", "join again");
        check(&machine, "srv.dom.test", &[], State::Skipped, "no versions", "");
        let without = Machine { kvno: None, ..machine.clone() };
        check(&without, "srv.dom.test", &[3], State::Right, "shows no version", "");
        let add = "`net ads setspn add SRV host/new.dom.test -s /etc/smb.conf";
        check(&machine, "new.dom.test", &[3], State::Wrong, "cifs/new.dom.test or host/new.dom.test", add);
    }
}
