//! A link with a given bandwidth and delay between this host and a network namespace in which a server runs.
//!
//! The link is made by the kernel's netem if the kernel has it (`sch_netem`). Otherwise packets pass through a pair of
//! TUN devices, and this program delays each packet: this gives the same link, at the cost of some processor time. Both
//! need root and iproute2, and the second also needs /dev/net/tun.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::relay::Relay;
use super::start::Location;
use crate::child;

/// Prefix of the names of namespaces. The rest is the pid of the process that created it.
const PREFIX: &str = "frevo-bench-";

/// A link, removed when dropped.
pub(super) struct Link {
    namespace: String,
    addresses: [Ipv4Addr; 2],
    devices: [String; 2],
    ip: PathBuf,
    /// The relay that replaces netem, with the reason why netem is not used.
    relay: Option<(Relay, String)>,
}

/// The properties of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Shape {
    /// Delay in both directions together.
    pub(super) round_trip: Duration,
    /// Bandwidth, in bits per second.
    pub(super) rate: f64,
}

impl Link {
    /// Returns the path of `ip`. If no link can be made here, the error names what is missing.
    pub(super) fn can_be_made() -> Result<PathBuf> {
        ensure!(rustix::process::geteuid().is_root(), "network namespaces need root: run the command with sudo");
        child::program("ip").context("ip is not installed (Debian: apt-get install iproute2)")
    }

    /// Creates a link.
    pub(super) fn make(shape: Shape) -> Result<Link> {
        let ip = Link::can_be_made()?;
        sweep(&ip);
        let pid = std::process::id();
        // 198.18.0.0/15 is reserved for measurements (RFC 2544). Each process uses a /30 of it.
        let network = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + (pid % (1 << 15)) * 4;
        let mut link = Link {
            namespace: format!("{PREFIX}{pid}"),
            addresses: [Ipv4Addr::from(network + 1), Ipv4Addr::from(network + 2)],
            devices: [format!("fb{pid}a"), format!("fb{pid}b")],
            ip,
            relay: None,
        };
        link.ip(&["netns", "add", &link.namespace])?;
        match link.netem(shape) {
            Ok(()) => {}
            Err(netem) => {
                link.without_devices();
                let why = format!("{netem:#}");
                link.relay(shape, &why).with_context(|| format!("no link by TUN devices, nor by netem ({why})"))?;
            }
        }
        link.inside(&["link", "set", "lo", "up"])?;
        Ok(link)
    }

    /// Returns the location for starting a server behind the link.
    pub(super) fn place(&self) -> Location {
        let prefix = format!("'{}' netns exec {}", self.ip.display(), self.namespace);
        Location { prefix, address: self.addresses[1].into() }
    }

    /// Describes how the link is made.
    pub(super) fn made_by(&self) -> String {
        match &self.relay {
            None => "veth and netem".to_owned(),
            Some((_, why)) => format!("TUN devices and this program, because netem is not available ({why})"),
        }
    }

    fn netem(&self, shape: Shape) -> Result<()> {
        let tc = child::program("tc").context("tc is not installed (Debian: apt-get install iproute2)")?;
        let [here, there] = &self.devices;
        self.ip(&["link", "add", here, "type", "veth", "peer", "name", there, "netns", &self.namespace])?;
        let delay = format!("{}us", shape.round_trip.as_micros() / 2);
        let rate = format!("{}bit", shape.rate.round());
        // As many packets as are in flight, and as many again in the queue.
        let limit = (shape.rate * shape.round_trip.as_secs_f64() / 8.0 / 1500.0 * 2.0).max(1000.0).round().to_string();
        for (namespace, device) in [(None, here), (Some(&self.namespace), there)] {
            let mut command = Command::new(&tc);
            command.args(namespace.map(|name| ["-n", name]).into_iter().flatten());
            command.args(["qdisc", "add", "dev", device, "root", "netem"]);
            run(command.args(["delay", &delay, "rate", &rate, "limit", &limit]))?;
        }
        self.addresses()
    }

    fn relay(&mut self, shape: Shape, why: &str) -> Result<()> {
        let [here, there] = &self.devices;
        let relay = Relay::start([here, there], shape)?;
        self.ip(&["link", "set", there, "netns", &self.namespace])?;
        self.relay = Some((relay, why.to_owned()));
        self.addresses()
    }

    fn addresses(&self) -> Result<()> {
        let [here, there] = &self.devices;
        let [ours, theirs] = self.addresses.map(|address| format!("{address}/30"));
        self.ip(&["addr", "add", &ours, "dev", here])?;
        self.ip(&["link", "set", here, "up"])?;
        self.inside(&["addr", "add", &theirs, "dev", there])?;
        self.inside(&["link", "set", there, "up"])
    }

    fn without_devices(&self) {
        // The other end is removed with it. An error means that neither exists.
        let _ = self.ip(&["link", "del", &self.devices[0]]);
    }

    fn ip(&self, arguments: &[&str]) -> Result<()> {
        run(Command::new(&self.ip).args(arguments))
    }

    fn inside(&self, arguments: &[&str]) -> Result<()> {
        run(Command::new(&self.ip).args(["-n", &self.namespace]).args(arguments))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.relay = None;
        self.without_devices();
        let _ = self.ip(&["netns", "del", &self.namespace]);
    }
}

/// Removes the namespaces of processes that were killed.
fn sweep(ip: &PathBuf) {
    let Ok(out) = Command::new(ip).args(["netns", "list"]).output() else { return };
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let pid = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists()) {
            let _ = run(Command::new(ip).args(["netns", "del", name]));
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {command:?}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    bail!("{program} {}: {}", words.join(" "), said.trim().lines().next().unwrap_or_default())
}
