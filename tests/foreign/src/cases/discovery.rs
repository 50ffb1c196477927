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
    Case::new("discovery.netbios", netbios).needs_root().frevo_only(),
    Case::new("discovery.llmnr", llmnr).needs_root().frevo_only(),
    Case::new("discovery.nmbd", nmbd).needs_root().frevo_only(),
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
        Networks::with(fixture, name, "")
    }

    /// Starts the networks of a server with these parameters too.
    fn with(fixture: &mut Fixture, name: &str, parameters: &str) -> Result<Networks> {
        let dir = fixture.local(name)?;
        let share = fixture.environment.make_dir(&format!("data/{name}"), &ALICE, 0o777)?;
        let text = format!(
            "[global]\nnetbios name = FILES\nworkgroup = HOME\ninterfaces = net1\nbind interfaces only = yes\n\
             smb ports = 445\n{parameters}[share]\npath = {}\n",
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
        self.serve_on(&self.server, "smb.conf", "log")
    }

    /// Serves a configuration on a host.
    fn serve_on(&self, host: &Host, config: &str, log: &str) -> Result<Running> {
        let mut command = host.command(&[&test_environment::frevo().to_string_lossy(), "serve", "-c"]);
        command.arg(self.dir.join(config)).arg("--state-dir").arg(self.dir.join(format!("state-{log}")));
        let log = self.dir.join(log);
        let running = Running::start(&mut command, &log)?;
        until("the server listens", || Ok(fs::read_to_string(&log)?.contains("listening")))?;
        Ok(running)
    }

    /// Starts a second server with the same names, on the client of the served network, and waits until it has found
    /// that they are taken.
    fn serve_rival(&self, messages: &[&str]) -> Result<Running> {
        let config = fs::read_to_string(self.dir.join("smb.conf"))?.replace("net1", CLIENT);
        fs::write(self.dir.join("rival.conf"), config)?;
        let rival = self.serve_on(&self.clients[0], "rival.conf", "rival.log")?;
        let log = || Ok(fs::read_to_string(self.dir.join("rival.log"))?);
        until("the second server finds the first", || {
            let log: String = log()?;
            Ok(messages.iter().all(|message| log.contains(message)))
        })
        .with_context(|| log().unwrap_or_else(|error: anyhow::Error| error.to_string()))?;
        Ok(rival)
    }

    /// Verifies the captures of the networks that are not served: they have a packet to port 9, and no other of the
    /// server except the kernel's own about neighbours, groups and closed ports.
    fn nothing_elsewhere(&self, captures: &mut [Capture], groups: &[&str]) -> Result<()> {
        for (capture, interface) in captures.iter_mut().zip(["net2", "net3"]) {
            capture.finish()?;
            let shown = self.server.run(&["ip", "-o", "link", "show", interface])?;
            let link =
                shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).context("no address")?;
            ensure!(
                !capture.packets(&format!("eth.src == {link} && udp.dstport == 9"))?.is_empty(),
                "nothing was captured"
            );
            let joined: String =
                groups.iter().map(|group| format!(" || icmpv6.mldr.mar.multicast_address == {group}")).collect();
            let filter = format!("eth.src == {link} && !arp && !icmp && udp.dstport != 9 && (!icmpv6{joined})");
            let packets = capture.packets(&filter)?;
            ensure!(packets.is_empty(), "packets on a network that is not served:\n{packets}");
        }
        Ok(())
    }

    /// Captures what arrives on the networks that are not served.
    fn capture_others(&self) -> Result<Vec<Capture>> {
        let others = [(&self.clients[1], "second"), (&self.clients[2], "third")];
        others.into_iter().map(|(host, name)| Capture::start(host, &self.dir, name)).collect()
    }

    /// Sends a packet on each network that is not served, by which the captures are verified.
    fn mark_others(&self) -> Result<()> {
        for end in ["10.9.2.2", "10.9.3.2"] {
            self.server.run(&["bash", "-c", &format!("echo > /dev/udp/{end}/9")])?;
        }
        Ok(())
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
    let client = &networks.clients[0];
    let _avahi = client.avahi(&networks.dir, "client")?;
    // Duplicate address detection of IPv6, and what the kernel itself says about its groups.
    sleep(Duration::from_secs(3));
    let mut heard = Capture::start(client, &networks.dir, "client")?;
    let mut others = networks.capture_others()?;
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

    networks.mark_others()?;
    server.signal("TERM")?;
    until("the server is gone", || Ok(!client.browse()?.contains("FILES")))?;
    drop(server);
    heard.finish()?;
    ensure!(!heard.packets("dns.resp.ttl == 0 && dns.srv.name && udp.dstport == 5353")?.is_empty(), "no mDNS goodbye");
    ensure!(!heard.packets("udp.dstport == 3702 && frame contains \"discovery/Bye\"")?.is_empty(), "no Bye");
    let malformed = heard.packets("_ws.malformed")?;
    ensure!(malformed.is_empty(), "malformed packets:\n{malformed}");
    networks.nothing_elsewhere(&mut others, &["ff02::fb", "ff02::c"])
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

/// Parameters without the other protocols.
const QUIET: &str = "multicast dns register = no\nfrevo:ws discovery = no\n";

/// Samba's programs find the server by the NetBIOS name service on the served network only, with its address there,
/// also with an address that the host gets later. The names are defended and released.
fn netbios(fixture: &mut Fixture) -> Result<()> {
    let parameters = format!("{QUIET}frevo:netbios name service = yes\nnetbios aliases = OLDFILES BÜRO\n");
    let networks = Networks::with(fixture, "discovery-netbios", &parameters)?;
    let client = &networks.clients[0];
    // That of this network namespace, with the addresses of its network cards.
    networks.server.run(&["mount", "-t", "sysfs", "none", "/sys"])?;
    fs::write(networks.dir.join("client.conf"), "[global]\nworkgroup = HOME\n")?;
    let config = networks.dir.join("client.conf").to_string_lossy().into_owned();
    let look_up = |host: &Host, arguments: &[&str]| -> Result<String> {
        let output = host.command(&["nmblookup", "-s", &config]).args(arguments).stdin(Stdio::null()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    sleep(Duration::from_secs(3));
    let mut heard = Capture::start(client, &networks.dir, "client")?;
    let mut others = networks.capture_others()?;
    let mut server = networks.serve()?;
    for (name, shown) in
        [("FILES", "FILES<00>"), ("FILES#20", "FILES<20>"), ("OLDFILES", "OLDFILES<00>"), ("HOME", "HOME<00>")]
    {
        let expected = format!("10.9.1.1 {shown}");
        until(&format!("nmblookup finds {name}"), || Ok(look_up(client, &[name])?.contains(&expected)))
            .with_context(|| networks.log().unwrap_or_default())?;
    }
    let found = look_up(client, &["FILES"])?;
    ensure!(found.lines().filter(|line| line.contains("FILES<00>")).count() == 1, "several addresses:\n{found}");
    let card = networks.server.run(&["cat", "/sys/class/net/net1/address"])?.trim().replace(':', "-").to_uppercase();
    for arguments in [&["-A", "10.9.1.1"][..], &["-S", "FILES"]] {
        let status = look_up(client, arguments)?;
        let flat = status.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in ["FILES <00> - B <ACTIVE>", "FILES <20> - B <ACTIVE>", "OLDFILES <20> - B <ACTIVE>"] {
            ensure!(flat.contains(expected), "{arguments:?}: {expected} is not in\n{status}");
        }
        ensure!(flat.contains("HOME <00> - <GROUP> B <ACTIVE>"), "{arguments:?}:\n{status}");
        ensure!(flat.contains(&format!("MAC Address = {card}")), "{arguments:?}: not {card}:\n{status}");
    }
    for (host, address) in [(&networks.clients[1], "10.9.2.1"), (&networks.clients[2], "10.9.3.1")] {
        ensure!(!look_up(host, &["FILES"])?.contains("FILES<00>"), "it answers on a network that is not served");
        ensure!(!look_up(host, &["-A", address])?.contains("FILES"), "it answers on a network that is not served");
    }
    ensure!(networks.log()?.contains("BÜRO"), "nothing about a name that cannot be registered");

    // The process no longer has the privilege for the port, except the thread that binds it.
    networks.server.ip("addr add 10.9.1.77/24 dev net1")?;
    until("the new address answers", || Ok(look_up(client, &["-A", "10.9.1.77"])?.contains("FILES")))
        .with_context(|| networks.log().unwrap_or_default())?;
    networks.server.ip("addr del 10.9.1.77/24 dev net1")?;
    until("the address is gone", || Ok(!look_up(client, &["FILES"])?.contains("10.9.1.77")))?;

    let rival = networks.serve_rival(&["another host has a NetBIOS name", "FILES<00>", "FILES<20>"])?;
    rival.signal("TERM")?;
    until("the second server has ended", || Ok(!client.run(&["ss", "-Hlnup", "sport = :137"])?.contains("frevo")))?;
    drop(rival);
    networks.mark_others()?;
    server.signal("TERM")?;
    server.0.wait()?;
    ensure!(!look_up(client, &["FILES"])?.contains("FILES<00>"), "the name has an address");
    heard.finish()?;
    let from = "ip.src == 10.9.1.1 && nbns";
    for name in ["FILES<00>", "FILES<20>", "OLDFILES<20>", "HOME<00>"] {
        let released = heard.packets(&format!("{from} && nbns.flags.opcode == 6 && nbns.name matches \"^{name}\""))?;
        ensure!(released.lines().count() >= 3, "{name} is not released:\n{released}");
    }
    ensure!(!heard.packets(&format!("{from} && nbns.flags.opcode == 5"))?.is_empty(), "no registration");
    let long = heard.packets(&format!("{from} && udp.length > 576"))?;
    ensure!(long.is_empty(), "long packets:\n{long}");
    let malformed = heard.packets("_ws.malformed")?;
    ensure!(malformed.is_empty(), "malformed packets:\n{malformed}");
    networks.nothing_elsewhere(&mut others, &[])
}

/// The server answers LLMNR on the served network only, with the addresses of that network.
fn llmnr(fixture: &mut Fixture) -> Result<()> {
    let parameters = format!("{QUIET}frevo:llmnr = yes\nnetbios aliases = OLDFILES\n");
    let networks = Networks::with(fixture, "discovery-llmnr", &parameters)?;
    let client = &networks.clients[0];
    let ask = |host: &Host, arguments: &[&str]| -> Result<Option<Vec<String>>> {
        let script = fixture.script_command("llmnr.py", arguments);
        let mut command = host.command(&[&script.get_program().to_string_lossy()]);
        let output = command.args(script.get_args()).stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(output.status.success().then(|| text.lines().map(str::to_owned).collect()))
    };
    sleep(Duration::from_secs(3));
    let mut heard = Capture::start(client, &networks.dir, "client")?;
    let mut others = networks.capture_others()?;
    let server = networks.serve()?;
    let some = |addresses: &[&str]| Some(addresses.iter().map(|address| (*address).to_owned()).collect());
    until("the server answers", || Ok(ask(client, &["4", CLIENT, "files", "A"])? == some(&["10.9.1.1"])))
        .with_context(|| networks.log().unwrap_or_default())?;
    let host = client.run(&["hostname"])?;
    let host = host.trim().split('.').next().unwrap_or_default();
    for (version, name, kind, expected) in [
        ("6", "FILES", "A", &["10.9.1.1"][..]),
        ("4", "oldfiles", "AAAA", &["fd00:1::1"]),
        ("6", host, "ANY", &["10.9.1.1", "fd00:1::1"]),
        ("4", "1.1.9.10.in-addr.arpa", "PTR", &[host]),
    ] {
        let found = ask(client, &[version, CLIENT, name, kind])?;
        ensure!(found == some(expected), "{kind} of {name}: {found:?}");
    }
    ensure!(ask(client, &["4", CLIENT, "other", "A"])?.is_none(), "an answer for another host");
    ensure!(ask(client, &["4", CLIENT, "files", "A", "10.9.1.1"])?.is_none(), "an answer to a unicast query");
    for host in &networks.clients[1..] {
        ensure!(ask(host, &["4", CLIENT, "files", "A"])?.is_none(), "it answers on a network that is not served");
    }
    networks.server.ip("addr add 10.9.1.77/24 dev net1")?;
    let both = some(&["10.9.1.1", "10.9.1.77"]);
    until("the new address is in the answer", || Ok(ask(client, &["4", CLIENT, "files", "A"])? == both))?;
    networks.server.ip("addr del 10.9.1.77/24 dev net1")?;
    until("the address is gone", || Ok(ask(client, &["4", CLIENT, "files", "A"])? == some(&["10.9.1.1"])))?;

    let rival = networks.serve_rival(&["another host has a name of this one", "name=\"FILES\""])?;
    drop(rival);
    networks.mark_others()?;
    server.signal("TERM")?;
    until("the server is gone", || Ok(ask(client, &["4", CLIENT, "files", "A"])?.is_none()))?;
    drop(server);
    heard.finish()?;
    let answers = heard.packets("llmnr && dns.flags.response == 1 && ip.src == 10.9.1.1 && udp.srcport == 5355")?;
    ensure!(!answers.is_empty(), "no answer was captured");
    let malformed = heard.packets("_ws.malformed")?;
    ensure!(malformed.is_empty(), "malformed packets:\n{malformed}");
    networks.nothing_elsewhere(&mut others, &["ff02::1:3"])
}

/// A message names the port that nmbd uses, and the names are served when it has ended.
fn nmbd(fixture: &mut Fixture) -> Result<()> {
    let parameters = format!("{QUIET}frevo:netbios name service = yes\n");
    let networks = Networks::with(fixture, "discovery-nmbd", &parameters)?;
    let dir = networks.dir.join("nmbd");
    fs::create_dir(&dir)?;
    let directories = ["lock", "state", "cache", "private", "pid", "binddns"];
    let directories: String = directories.map(|kind| format!("{kind} directory = {}\n", dir.display())).concat();
    let config = networks.dir.join("nmbd.conf");
    let text = format!(
        "[global]\nnetbios name = OTHER\ninterfaces = net1\nbind interfaces only = yes\n{directories}\
         ncalrpc dir = {dir}/ncalrpc\nlog file = {dir}/log\n",
        dir = dir.display()
    );
    fs::write(&config, text)?;
    networks.server.run(&["mkdir", "/run/samba"])?;
    let mut command = networks.server.command(&["nmbd", "--foreground", "--no-process-group", "-s"]);
    let nmbd = Running::start(command.arg(&config), &networks.dir.join("nmbd.log"))?;
    until("nmbd listens", || Ok(networks.server.run(&["ss", "-Hlnu", "sport = :137"])?.contains("10.9.1.1")))?;
    let _server = networks.serve()?;
    until("the server reports it", || {
        let log = networks.log()?;
        Ok(log.contains("10.9.1.1:137") && log.contains("frevo:netbios name service = no"))
    })?;
    nmbd.signal("TERM")?;
    until("the names are registered", || Ok(networks.log()?.contains("FILES<20>")))
        .with_context(|| networks.log().unwrap_or_default())
}
