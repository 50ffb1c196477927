//! Discovery by the programs of avahi and by wsdd, in network namespaces: a server with three networks, of which it
//! serves one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] = &[
    Case::new("discovery.served_network_only", served_network_only).needs_root().frevo_only(),
    Case::new("discovery.avahi", avahi).needs_root().frevo_only(),
    Case::new("discovery.another_program", another_program).needs_root().frevo_only(),
];

/// How long a program may take to find something, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The name of the interfaces in the namespaces of clients.
const CLIENT: &str = "eth0";

/// A process that is killed when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts a program with its output in `log`.
    fn start(command: &mut Command, log: &Path) -> Result<Running> {
        let log = fs::File::create(log)?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        Ok(Running(child.with_context(|| format!("cannot start {:?}", command.get_program()))?))
    }

    fn signal(&self, name: &str) -> Result<()> {
        let status = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status()?;
        ensure!(status.success(), "the program has ended");
        Ok(())
    }
}

/// A host: a network namespace with a `/run` of its own, for its own D-Bus.
struct Host(Running);

impl Host {
    fn start() -> Result<Host> {
        let mut command = Command::new("unshare");
        let prepare = "mount -t tmpfs none /run && mkdir -p /run/dbus /run/avahi-daemon && ip link set lo up && echo x";
        command.args(["--net", "--mount", "--", "sh", "-c", &format!("{prepare} && exec sleep infinity")]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start unshare")?;
        let ready = std::io::Read::read(child.stdout.as_mut().context("a pipe")?, &mut [0; 2])?;
        let host = Host(Running(child));
        ensure!(ready > 0, "cannot create a network namespace");
        Ok(host)
    }

    /// Returns a command that runs a program on the host.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.0.0.id().to_string(), "-n", "-m", "--"]).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn ip(&self, arguments: &str) -> Result<()> {
        self.run(&std::iter::once("ip").chain(arguments.split(' ')).collect::<Vec<_>>()).map(drop)
    }

    /// Connects `interface` to a client. The network has the `number`, the server address 1 and the client address 2.
    fn connect(&self, interface: &str, client: &Host, number: u8) -> Result<()> {
        let peer = client.0.0.id();
        self.ip(&format!("link add {interface} type veth peer name {CLIENT} netns {peer}"))?;
        for (host, name, end) in [(self, interface, 1), (client, CLIENT, 2)] {
            host.ip(&format!("addr add 10.9.{number}.{end}/24 dev {name}"))?;
            host.ip(&format!("addr add fd00:{number}::{end}/64 dev {name} nodad"))?;
            host.ip(&format!("link set {name} up"))?;
        }
        Ok(())
    }

    /// Starts D-Bus and avahi.
    fn avahi(&self, dir: &Path, name: &str) -> Result<(Running, Running)> {
        let mut bus = self.command(&["dbus-daemon", "--system", "--nofork", "--nopidfile"]);
        let bus = Running::start(&mut bus, &dir.join(format!("dbus-{name}.log")))?;
        until("D-Bus starts", || Ok(self.run(&["ls", "/run/dbus"])?.contains("system_bus_socket")))?;
        let conf = dir.join(format!("avahi-{name}.conf"));
        fs::write(&conf, format!("[server]\nhost-name={name}\n[publish]\npublish-workstation=no\n"))?;
        let mut avahi = self.command(&["avahi-daemon", "--no-drop-root", "--no-chroot", "--no-rlimits", "-f"]);
        let log = dir.join(format!("avahi-{name}.log"));
        let avahi = Running::start(avahi.arg(&conf), &log)?;
        until("avahi starts", || Ok(fs::read_to_string(&log)?.contains("Server startup complete")))?;
        Ok((bus, avahi))
    }

    /// Returns what avahi finds. Each line has the fields of a service, separated by semicolons.
    fn browse(&self) -> Result<String> {
        self.run(&["avahi-browse", "-rpt", "_smb._tcp"])
    }
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let since = Instant::now();
    while !holds()? {
        ensure!(since.elapsed() < PATIENCE, "waited in vain: {what}");
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// The server and its networks: the first is served, the others are not.
struct Networks {
    server: Host,
    clients: [Host; 3],
    dir: PathBuf,
}

impl Networks {
    fn start(fixture: &mut Fixture, name: &str) -> Result<Networks> {
        let dir = fixture.local(name)?;
        let share = fixture.environment.make_dir(&format!("data/{name}"), &ALICE, 0o777)?;
        let text = format!(
            "[global]\nnetbios name = FILES\nworkgroup = HOME\ninterfaces = net1\nbind interfaces only = yes\n\
             smb ports = 445\n[share]\npath = {}\n",
            share.display()
        );
        fs::write(dir.join("smb.conf"), text)?;
        let networks =
            Networks { server: Host::start()?, clients: [Host::start()?, Host::start()?, Host::start()?], dir };
        for (number, client) in (1..).zip(&networks.clients) {
            networks.server.connect(&format!("net{number}"), client, number)?;
        }
        Ok(networks)
    }

    fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.dir.join("log"))?)
    }

    fn serve(&self) -> Result<Running> {
        let mut command = self.server.command(&[&test_environment::frevo().to_string_lossy(), "serve", "-c"]);
        command.arg(self.dir.join("smb.conf")).arg("--state-dir").arg(self.dir.join("state"));
        let running = Running::start(&mut command, &self.dir.join("log"))?;
        until("the server listens", || Ok(self.log()?.contains("listening")))?;
        Ok(running)
    }

    /// Waits until the client of the served network finds the service, and the host's name by these addresses.
    fn finds(&self, addresses: &[&str]) -> Result<()> {
        let client = &self.clients[0];
        let found = until("the service is found", || {
            let found = client.browse()?;
            let resolved = found.lines().filter(|line| line.starts_with('=')).collect::<Vec<_>>();
            let is_ours = |line: &&str| line.contains(";FILES;") && line.contains(";445;");
            Ok(!resolved.is_empty() && resolved.iter().all(is_ours))
        });
        let found = found.and_then(|()| addresses.iter().try_for_each(|address| self.finds_name(address)));
        found.with_context(|| {
            format!("avahi-browse finds\n{}\n{}", client.browse().unwrap_or_default(), self.log().unwrap_or_default())
        })
    }

    /// Waits until the client of the served network finds the name of an address.
    fn finds_name(&self, address: &str) -> Result<()> {
        until(&format!("{address} has a name"), || Ok(self.name_of(address)?.contains(".local")))
    }

    fn name_of(&self, address: &str) -> Result<String> {
        self.clients[0].run(&["avahi-resolve", "-a", address])
    }
}

/// A capture of what arrives at a client.
struct Capture {
    tshark: Running,
    file: PathBuf,
}

impl Capture {
    fn start(client: &Host, dir: &Path, name: &str) -> Result<Capture> {
        let (file, log) = (dir.join(format!("{name}.pcap")), dir.join(format!("{name}.log")));
        // tshark may give up root, but in a directory of the environment it can write to an existing file.
        fs::write(&file, [])?;
        let mut command = client.command(&["tshark", "-q", "-i", CLIENT, "-w"]);
        let tshark = Running::start(command.arg(&file), &log)?;
        until("tshark starts", || Ok(fs::metadata(&file)?.len() > 0))?;
        Ok(Capture { tshark, file })
    }

    /// Ends the capture.
    fn finish(&mut self) -> Result<()> {
        // What has been sent is in the file after this time.
        sleep(Duration::from_secs(2));
        self.tshark.signal("INT")?;
        self.tshark.0.wait()?;
        Ok(())
    }

    /// Returns a line for each packet that matches a display filter.
    fn packets(&self, filter: &str) -> Result<String> {
        let output = Command::new("tshark").arg("-r").arg(&self.file).args(["-Y", filter]).output()?;
        ensure!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Only the served network hears of the server, with exactly the served addresses, until it says goodbye.
fn served_network_only(fixture: &mut Fixture) -> Result<()> {
    let networks = Networks::start(fixture, "discovery")?;
    let [client, second, third] = &networks.clients;
    let _avahi = client.avahi(&networks.dir, "client")?;
    // Duplicate address detection of IPv6, and what the kernel itself says about its groups.
    sleep(Duration::from_secs(3));
    let mut heard = Capture::start(client, &networks.dir, "client")?;
    let others = [(second, "second"), (third, "third")];
    let mut others = others.map(|(host, name)| Capture::start(host, &networks.dir, name));
    let server = networks.serve()?;
    networks.finds(&["10.9.1.1", "fd00:1::1"])?;
    let host = client.run(&["hostname"])?;
    let name = format!("{}.local", host.trim().split('.').next().unwrap_or_default());
    ensure!(client.run(&["avahi-resolve", "-4", "-n", &name])?.contains("10.9.1.1"), "no address of {name}");
    ensure!(client.run(&["avahi-resolve", "-6", "-n", &name])?.contains("fd00:1::1"), "no address of {name}");
    ensure!(networks.name_of("10.9.1.1")?.contains(&name), "another name");

    // Not with IPv6, because wsdd adds a zone also to addresses that have none.
    let log = networks.dir.join("wsdd.log");
    let mut wsdd = client.command(&["wsdd", "-v", "-4", "--no-host", "--discovery", "-i", CLIENT]);
    let wsdd = Running::start(&mut wsdd, &log)?;
    until("wsdd finds the server", || {
        Ok(fs::read_to_string(&log)?.contains(&format!("discovered FILES in Workgroup:HOME on 10.9.1.1%{CLIENT}")))
    })?;
    drop(wsdd);

    networks.server.ip("addr add 10.9.1.77/24 dev net1")?;
    networks.finds_name("10.9.1.77")?;
    networks.server.ip("addr del 10.9.1.77/24 dev net1")?;
    until("the address has no name", || Ok(!networks.name_of("10.9.1.77")?.contains(".local")))?;
    networks.finds(&["10.9.1.1", "fd00:1::1"])?;

    // Seen on the other networks, by which the captures are verified.
    for end in ["10.9.2.2", "10.9.3.2"] {
        networks.server.run(&["bash", "-c", &format!("echo > /dev/udp/{end}/9")])?;
    }
    server.signal("TERM")?;
    until("the server is gone", || Ok(!client.browse()?.contains("FILES")))?;
    drop(server);
    heard.finish()?;
    ensure!(!heard.packets("dns.resp.ttl == 0 && dns.srv.name && udp.dstport == 5353")?.is_empty(), "no mDNS goodbye");
    ensure!(!heard.packets("udp.dstport == 3702 && frame contains \"discovery/Bye\"")?.is_empty(), "no Bye");
    let malformed = heard.packets("_ws.malformed")?;
    ensure!(malformed.is_empty(), "malformed packets:\n{malformed}");
    for (capture, interface) in others.iter_mut().zip(["net2", "net3"]) {
        let capture = capture.as_mut().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        capture.finish()?;
        let shown = networks.server.run(&["ip", "-o", "link", "show", interface])?;
        let link = shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).context("no address")?;
        ensure!(
            !capture.packets(&format!("eth.src == {link} && udp.dstport == 9"))?.is_empty(),
            "nothing was captured"
        );
        // All but the kernel's own packets about neighbours and groups.
        let filter = format!(
            "eth.src == {} && !arp && udp.dstport != 9 && (!icmpv6 || icmpv6.mldr.mar.multicast_address == ff02::fb || \
             icmpv6.mldr.mar.multicast_address == ff02::c)",
            link
        );
        let packets = capture.packets(&filter)?;
        ensure!(packets.is_empty(), "packets on a network that is not served:\n{packets}");
    }
    Ok(())
}

/// Where avahi runs, the server is registered there, and answers itself when avahi has ended.
fn avahi(fixture: &mut Fixture) -> Result<()> {
    let networks = Networks::start(fixture, "discovery-avahi")?;
    let _client = networks.clients[0].avahi(&networks.dir, "client")?;
    let _other = networks.clients[1].avahi(&networks.dir, "other")?;
    let (_bus, daemon) = networks.server.avahi(&networks.dir, "server")?;
    let _server = networks.serve()?;
    let registered = || Ok(networks.clients[0].browse()?.contains(";server.local;"));
    until("avahi announces the server", registered)?;
    networks.finds(&["10.9.1.1", "fd00:1::1"])?;
    let owners = || networks.server.run(&["ss", "-Hlnup", "sport = :5353"]);
    ensure!(!owners()?.contains("frevo"), "two programs answer:\n{}", owners()?);
    ensure!(!networks.clients[1].browse()?.contains("FILES"), "it is announced on a network that is not served");
    drop(daemon);
    until("the server answers itself", || Ok(owners()?.contains("frevo")))?;
    let itself = || {
        let found = networks.clients[0].browse()?;
        Ok(found.contains("=;") && found.contains(";FILES;") && !found.contains(";server.local;"))
    };
    until("the server is found", itself)
}

/// A message names the port that another program uses.
fn another_program(fixture: &mut Fixture) -> Result<()> {
    let networks = Networks::start(fixture, "discovery-taken")?;
    let log = networks.dir.join("wsdd.log");
    let mut wsdd = networks.server.command(&["wsdd", "-v", "-i", "net1"]);
    let _wsdd = Running::start(&mut wsdd, &log)?;
    until("wsdd listens", || Ok(networks.server.run(&["ss", "-Hlnt", "sport = :5357"])?.contains("10.9.1.1")))?;
    let _server = networks.serve()?;
    until("the server reports it", || {
        let log = networks.log()?;
        if log.contains("panicked") {
            bail!("{log}");
        }
        Ok(log.contains("10.9.1.1:5357") && log.contains("frevo:ws discovery = no"))
    })
}
