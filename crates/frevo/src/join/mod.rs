//! `frevo join`: checks each requirement of domain membership and says how to correct the ones that are not met.
//!
//! Joining itself is done by Samba's `net ads join`, which creates the machine account that winbindd uses. `--run`
//! starts it; only command line arguments are passed. Exit status: 0 if every check passes; 1 otherwise.

mod clock;
mod directory;
mod dns;
mod keytab;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use server::domain::Membership;

use crate::table::printable;
use accounts::when;
use smbconf::Loaded;
use smbconf::host::Host;
use winbind::library::{Connection, Failed, LogonFailed};

/// Maximum clock difference in seconds (RFC 4120 1.6, and the default of Active Directory).
const MOST_SKEW: u64 = 300;
/// Time limit for an answer from winbindd.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks that this host is a member of its domain, and says how to correct problems
#[derive(Args, Debug)]
pub struct JoinArgs {
    /// DNS name of the domain [default: `realm` of the configuration]
    domain: Option<String>,
    /// Configuration file [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// First join the domain with Samba's `net ads join`, which asks for the password
    #[arg(long)]
    run: bool,
    /// User who may add the machine to the domain, for --run
    #[arg(long, value_name = "NAME", default_value = "Administrator")]
    user: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Right,
    Wrong,
    /// The check was not possible because an earlier one failed.
    Skipped,
}

/// One check and its result.
#[derive(Debug, Serialize)]
struct Step {
    step: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Step {
    fn right(step: &'static str, found: impl Into<String>) -> Step {
        Step { step, state: State::Right, found: found.into(), remedy: None }
    }

    fn wrong(step: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Step {
        Step { step, state: State::Wrong, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn skipped(step: &'static str, found: impl Into<String>) -> Step {
        Step { step, state: State::Skipped, found: found.into(), remedy: None }
    }
}

/// All checks, as printed by `--json`.
#[derive(Debug, Serialize)]
struct Report {
    /// `realm`.
    realm: String,
    /// `workgroup`.
    workgroup: String,
    /// The machine's name in the domain.
    computer: String,
    /// Whether every check passed.
    joined: bool,
    steps: Vec<Step>,
}

/// Runs the command.
pub fn run(args: &JoinArgs) -> Result<ExitCode> {
    let path =
        args.config.clone().or_else(smbconf::default_path).context(
            "neither /etc/frevo/smb.conf nor /etc/samba/smb.conf exists; specify a configuration file with -c",
        )?;
    let host = Host::of_process().context("cannot look up this process's user")?;
    let loaded = smbconf::load(&path, &host)
        .map_err(|problems| anyhow::anyhow!("{}: the configuration has errors\n{problems}", path.display()))?;
    if args.run {
        join(args, &path, &loaded)?;
    }
    let report = report(args.domain.as_deref(), &path, &loaded);
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.text() };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error).context("printing failed"),
        _ => {}
    }
    Ok(if report.joined { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs `net ads join` on this terminal, and creates the keytab.
fn join(args: &JoinArgs, path: &Path, loaded: &Loaded) -> Result<()> {
    let Some(membership) = &loaded.policy.membership else {
        bail!("{}: {}", path.display(), lines(args.domain.as_deref()))
    };
    if args.user.starts_with('-') || args.user.contains(['%', '\0']) {
        bail!("--user {:?} is invalid; give a domain user's name without a password", args.user);
    }
    let mut net = Command::new("net");
    net.args(["ads", "join"])
        .arg(format!("--realm={}", membership.realm))
        .arg("-s")
        .arg(path)
        .arg("-U")
        .arg(&args.user);
    let status = net.status().context("cannot start `net` (Debian: samba-common-bin; Fedora: samba-common-tools)")?;
    if !status.success() {
        bail!("`net ads join` failed ({status}); see its output above");
    }
    // `net ads join` writes the host's keytab, but does not update a dedicated one.
    if loaded.daemon.kerberos.is_some() {
        let mut net = Command::new("net");
        let status = net.args(["ads", "keytab", "create", "-P", "-s"]).arg(path).status().context("cannot run net")?;
        if !status.success() {
            bail!("joined, but `net ads keytab create` failed ({status}); see its output above");
        }
    }
    Ok(())
}

/// Returns the configuration lines that make the server a member.
fn lines(domain: Option<&str>) -> String {
    let realm = domain.unwrap_or("EXAMPLE.COM").to_uppercase();
    let workgroup = realm.split('.').next().unwrap_or_default().to_owned();
    format!(
        "set in [global]: `security = ads`, `realm = {realm}`, `workgroup = {workgroup}` (the domain's NetBIOS name), \
         `kerberos method = secrets and keytab`, and `idmap config` for uids and gids"
    )
}

fn report(domain: Option<&str>, path: &Path, loaded: &Loaded) -> Report {
    let computer = loaded.policy.netbios_name.clone();
    let mut report =
        Report { realm: String::new(), workgroup: String::new(), computer, joined: false, steps: Vec::new() };
    let file = path.display();
    match &loaded.policy.membership {
        None => {
            let found = format!("{file} configures a standalone server");
            report.steps.push(Step::wrong("configuration", found, lines(domain)));
        }
        Some(membership) if domain.is_some_and(|domain| !domain.eq_ignore_ascii_case(&membership.realm)) => {
            let found = format!("{file} has the realm {:?}", membership.realm);
            report.steps.push(Step::wrong("configuration", found, lines(domain)));
        }
        Some(membership) => {
            let Membership { realm, workgroup } = membership;
            (report.realm, report.workgroup) = (realm.clone(), workgroup.clone());
            report.steps.push(Step::right("configuration", format!("{file}: realm {realm}, domain {workgroup}")));
            let controllers = controllers(&mut report.steps, membership);
            report.steps.push(clocks(&controllers));
            let well = winbindd(&mut report.steps, membership, &loaded.policy.netbios_name);
            report.steps.push(account(well, workgroup, path));
            let host = host_name(membership, &report.computer);
            let (step, versions) = keys(membership, &host, path, loaded);
            report.steps.push(step);
            report.steps.push(match controllers.is_empty() {
                true => Step::skipped("directory", "no controller is known"),
                false => in_directory(&host, &report.computer, &versions, path),
            });
            report.steps.push(ids(well, workgroup));
        }
    }
    report.joined = report.steps.iter().all(|step| step.state == State::Right);
    report
}

/// Checks DNS: looks up the domain's controllers.
fn controllers(steps: &mut Vec<Step>, membership: &Membership) -> Vec<(String, SocketAddr)> {
    let remedy = "list the domain's own DNS servers in /etc/resolv.conf (usually its domain controllers)";
    let name = format!("_ldap._tcp.dc._msdcs.{}", membership.dns_domain());
    let servers = dns::name_servers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    let hosts = match dns::hosts(&name, &servers, std::process::id() as u16) {
        Ok(hosts) => hosts,
        Err(why) => {
            steps.push(Step::wrong("dns", format!("{name}: {why}"), remedy));
            return Vec::new();
        }
    };
    if hosts.is_empty() {
        steps.push(Step::wrong("dns", format!("there is no SRV record {name}"), remedy));
        return Vec::new();
    }
    let address = |host: &String| Some((host.clone(), (host.as_str(), 445).to_socket_addrs().ok()?.next()?));
    let found: Vec<_> = hosts.iter().filter_map(address).collect();
    let names = hosts.join(", ");
    steps.push(match found.is_empty() {
        true => Step::wrong("dns", format!("{name} points to {names}, but none of them has an address"), remedy),
        false => Step::right("dns", format!("controllers: {names}")),
    });
    found
}

/// Compares the clock with that of the first controller that answers.
fn clocks(controllers: &[(String, SocketAddr)]) -> Step {
    let mut why = "no controller is known".to_owned();
    for (host, address) in controllers {
        match clock::of(*address) {
            Ok(theirs) => return clock_step(host, when::now(), theirs),
            Err(error) => why = format!("{host} ({address}): {error}"),
        }
    }
    match controllers.is_empty() {
        true => Step::skipped("clock", why),
        false => Step::wrong("clock", why, "make at least TCP ports 88, 389 and 445 of the controllers reachable"),
    }
}

fn clock_step(host: &str, ours: i64, theirs: i64) -> Step {
    let (apart, word) = (ours.abs_diff(theirs), if ours < theirs { "behind" } else { "ahead of" });
    let found = format!("{apart} seconds {word} {host}");
    match apart > MOST_SKEW {
        true => {
            let remedy = "run a time service (chrony, systemd-timesyncd) that uses the controllers";
            Step::wrong("clock", format!("{found}; Kerberos refuses more than {MOST_SKEW}"), remedy)
        }
        false => Step::right("clock", found),
    }
}

/// Queries winbindd with a time limit.
fn ask<T: Send + 'static>(
    question: impl FnOnce(&mut Connection) -> Result<T, LogonFailed> + Send + 'static,
) -> Result<T, String> {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || {
        let asked = Connection::open().map_err(LogonFailed::Failed).and_then(|mut winbind| question(&mut winbind));
        // The receiver may have given up.
        let _ = answer.send(asked);
    });
    match answered.recv_timeout(PATIENCE) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(LogonFailed::Failed(failed))) => Err(failed.to_string()),
        Ok(Err(LogonFailed::Status(status, said))) => Err(format!("{status} {said}").trim_end().to_owned()),
        Err(_) => Err(format!("winbindd did not answer within {} seconds", PATIENCE.as_secs())),
    }
}

/// Checks that winbindd runs, for this domain and under this computer name.
fn winbindd(steps: &mut Vec<Step>, membership: &Membership, computer: &str) -> bool {
    let details = match ask(|winbind| winbind.ping().and_then(|()| winbind.details()).map_err(LogonFailed::Failed)) {
        Ok(details) => details,
        Err(why) => {
            let remedy = "join the domain (`frevo join --run`), then start winbindd (`systemctl enable --now winbind`)";
            steps.push(Step::wrong("winbind", why, remedy));
            return false;
        }
    };
    let (domain, name) = (&details.netbios_domain, &details.netbios_name);
    let remedy = "make winbindd and Frevo use the same smb.conf, and restart winbindd";
    let step = if !domain.eq_ignore_ascii_case(&membership.workgroup) {
        Step::wrong("winbind", format!("winbindd is a member of {domain}, not of {}", membership.workgroup), remedy)
    } else if !name.eq_ignore_ascii_case(computer) {
        Step::wrong("winbind", format!("winbindd calls this machine {name}, Frevo calls it {computer}"), remedy)
    } else {
        Step::right("winbind", format!("winbindd {} answers for {domain}", details.version))
    };
    let well = step.state == State::Right;
    steps.push(step);
    well
}

/// Checks the machine account with a logon to a controller.
fn account(well: bool, workgroup: &str, path: &Path) -> Step {
    if !well {
        return Step::skipped("account", "winbindd is not available");
    }
    let domain = workgroup.to_owned();
    match ask(move |winbind| winbind.check_trust(&domain)) {
        Ok(()) => Step::right("account", format!("a controller of {workgroup} accepts this machine's password")),
        Err(why) => {
            let remedy = format!(
                "join the domain: `net ads join -s {} -U Administrator`, or `frevo join --run`",
                path.display()
            );
            Step::wrong("account", why, remedy)
        }
    }
}

/// Returns the DNS name to which clients connect.
fn host_name(membership: &Membership, computer: &str) -> String {
    match membership.realm.is_empty() {
        true => computer.to_lowercase(),
        false => format!("{}.{}", computer.to_lowercase(), membership.dns_domain()),
    }
}

/// Returns the service principals of `host` whose tickets are accepted. Tickets for cifs/HOST are encrypted with the
/// account's key, which is also that of host/HOST ([MS-ADTS] sPNMappings).
fn host_names(host: &str) -> [String; 2] {
    [format!("cifs/{host}"), format!("host/{host}")]
}

/// Compares the machine account in the directory with the key versions in the keytab.
fn in_directory(host: &str, computer: &str, versions: &[u32], path: &Path) -> Step {
    match directory::Machine::find(path, computer) {
        Ok(machine) => machine.step(host, computer, versions, path),
        Err(why) => Step::wrong("directory", why, "see the steps above; as root, `net ads testjoin -d 3` says more"),
    }
}

/// Checks the keys for decrypting tickets, and returns their versions.
fn keys(membership: &Membership, host: &str, path: &Path, loaded: &Loaded) -> (Step, Vec<u32>) {
    let Some(settings) = &loaded.daemon.kerberos else {
        let remedy = "set `kerberos method = secrets and keytab` in [global]";
        return (Step::wrong("keytab", "Kerberos tickets are not accepted", remedy), Vec::new());
    };
    let shown = settings.keytab.display();
    let remedy = format!("run `net ads keytab create -s {} -U Administrator` to write the keys", path.display());
    let file = match fs::read(&settings.keytab) {
        Ok(file) => file,
        Err(why) => return (Step::wrong("keytab", format!("{shown}: {why}"), remedy), Vec::new()),
    };
    match keytab::read(&file) {
        None => (Step::wrong("keytab", format!("{shown} is not a keytab"), remedy), Vec::new()),
        Some(entries) => keys_step(&shown.to_string(), &entries, membership, host, remedy),
    }
}

fn keys_step(
    file: &str,
    entries: &[keytab::Entry],
    membership: &Membership,
    host: &str,
    remedy: String,
) -> (Step, Vec<u32>) {
    let names = host_names(host);
    let own = |entry: &&keytab::Entry| {
        entry.realm.eq_ignore_ascii_case(&membership.realm)
            && names.iter().any(|name| name.eq_ignore_ascii_case(&entry.principal))
    };
    let own: Vec<_> = entries.iter().filter(own).collect();
    let versions: Vec<u32> = own.iter().map(|entry| entry.kvno).collect();
    let Some(&newest) = versions.iter().max() else {
        let found = format!("{file} has no key of {} in {}", names.join(" or "), membership.realm);
        return (Step::wrong("keytab", found, remedy), versions);
    };
    let step = match own.iter().any(|entry| entry.kvno == newest && entry.is_aes()) {
        true => Step::right("keytab", format!("{file}: keys of {host}, version {newest}")),
        false => Step::wrong("keytab", format!("{file} has no AES key of {host}, version {newest}"), remedy),
    };
    (step, versions)
}

/// Checks that the domain's groups have gids.
fn ids(well: bool, workgroup: &str) -> Step {
    if !well {
        return Step::skipped("ids", "winbindd is not available");
    }
    let (domain, everybody) = (workgroup.to_owned(), "Domain Users");
    let asked = ask(move |winbind| {
        let (sid, _) = winbind.sid_of_name(&domain, everybody).map_err(LogonFailed::Failed)?;
        let ids = winbind.ids_of_sids(&[sid]).map_err(LogonFailed::Failed)?;
        ids.first().copied().flatten().and_then(|id| id.gid()).ok_or(LogonFailed::Failed(Failed::NOT_FOUND))
    });
    match asked {
        Ok(gid) if gid != 0 => Step::right("ids", format!(r"{workgroup}\{everybody} is the group {gid}")),
        Ok(_) => Step::wrong("ids", format!(r"{workgroup}\{everybody} would be root's group"), ranges(workgroup)),
        Err(why) => Step::wrong("ids", format!(r"{workgroup}\{everybody} has no gid: {why}"), ranges(workgroup)),
    }
}

fn ranges(workgroup: &str) -> String {
    format!(
        "set in [global] `idmap config {workgroup} : backend = rid` and `idmap config {workgroup} : range = \
         100000-999999`, in addition to a range for `*`, and restart winbindd; if the domain itself assigns uids, use \
         `backend = ad`"
    )
}

impl Report {
    fn text(&self) -> String {
        let mut text = String::new();
        for Step { step, state, found, remedy } in &self.steps {
            let mark = match state {
                State::Right => "ok",
                State::Wrong => "WRONG",
                State::Skipped => "-",
            };
            let _ = writeln!(text, "{step:<14}{mark:<7}{}", printable(found));
            if let Some(remedy) = remedy {
                let _ = writeln!(text, "{:21}{remedy}", "");
            }
        }
        let _ = match self.joined {
            true => writeln!(text, "{} is a member of {}", self.computer, self.realm),
            false => writeln!(text, "correct the problems from the top down, then run this command again"),
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership() -> Membership {
        Membership { workgroup: "DOM".into(), realm: "DOM.TEST".into() }
    }

    #[test]
    fn a_small_clock_difference_is_allowed() {
        for (ours, theirs, state, found) in [
            (1000, 1000, State::Right, "0 seconds"),
            (1000, 1300, State::Right, "300 seconds behind dc"),
            (1000, 1301, State::Wrong, "301 seconds behind dc"),
            (1301, 1000, State::Wrong, "301 seconds ahead of dc"),
        ] {
            let step = clock_step("dc", ours, theirs);
            assert_eq!(step.state, state, "{step:?}");
            assert!(step.found.starts_with(found), "{step:?}");
        }
    }

    #[test]
    fn keys_must_be_for_this_host_and_current() {
        let check = |entries: &[(&str, &str, u32, u16)], state: State, found: &str| {
            let entries: Vec<_> = entries
                .iter()
                .map(|&(principal, realm, kvno, enctype)| keytab::Entry {
                    principal: principal.into(),
                    realm: realm.into(),
                    kvno,
                    enctype,
                })
                .collect();
            let host = host_name(&membership(), "SRV");
            let (step, versions) = keys_step("/k", &entries, &membership(), &host, "remedy".into());
            assert!(versions.iter().all(|version| entries.iter().any(|entry| entry.kvno == *version)));
            assert_eq!(step.state, state, "{step:?}");
            assert!(step.found.contains(found), "{step:?}");
        };
        check(&[("host/srv.dom.test", "DOM.TEST", 3, 18)], State::Right, "version 3");
        check(&[("cifs/SRV.dom.test", "DOM.TEST", 3, 17)], State::Right, "version 3");
        check(&[("host/srv.dom.test", "OTHER.TEST", 3, 18)], State::Wrong, "no key of cifs/srv.dom.test or host/");
        check(&[("host/other.dom.test", "DOM.TEST", 3, 18)], State::Wrong, "no key of");
        check(&[], State::Wrong, "no key of");
        let old = ("host/srv.dom.test", "DOM.TEST", 3, 18);
        check(&[old, ("host/srv.dom.test", "DOM.TEST", 4, 23)], State::Wrong, "no AES key of srv.dom.test, version 4");
    }

    #[test]
    fn problems_are_reported_with_remedies() {
        let steps =
            vec![Step::right("dns", "controllers: dc"), Step::wrong("clock", "400 seconds", "run a time service")];
        let report = Report { realm: "R".into(), workgroup: "W".into(), computer: "C".into(), joined: false, steps };
        assert_eq!(
            report.text(),
            "dns           ok     controllers: dc\nclock         WRONG  400 seconds\n                     run a time \
             service\ncorrect the problems from the top down, then run this command again\n"
        );
        assert!(lines(Some("ad.example.com")).contains("`realm = AD.EXAMPLE.COM`, `workgroup = AD`"));
    }
}
