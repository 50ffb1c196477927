//! The answers of Frevo to calls through pipes, beside those of Samba: rpcclient, `net rpc`, `smbclient -L`, and the
//! programs and library of impacket.
//!
//! Both servers have the same configuration, accounts and SIDs. Outputs are compared line by line. Each difference is a
//! line of `rpc-differences.txt`. A line without a difference fails the case, too. `FREVO_RPC_OUT` is a file for all
//! outputs beside each other.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use super::people::output;
use super::printing::Cups;
use super::rpc::Holder;
use super::twins::{Twin, Twins};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, CREW, Person, Port445};

pub(super) const CASES: &[Case] = &[
    Case::new("rpc.compared.rpcclient", |fixture| compare(fixture, "rpcclient", &rpcclient()))
        .needs_root()
        .frevo_only(),
    Case::new("rpc.compared.net", |fixture| compare(fixture, "net", &net())).needs_root().frevo_only(),
    Case::new("rpc.compared.administrators", administrators).needs_root().frevo_only(),
    Case::new("rpc.compared.impacket", impacket).needs_root().frevo_only(),
    Case::new("rpc.compared.printers", printers).needs_root().frevo_only(),
];

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rpc-differences.txt");

const GLOBALS: &str = "[global]
@TARGET@
	netbios name = BED
	server string = compared
	read only = no
	admin users = alice
	restrict anonymous = 1
[files]
	comment = a plain directory
	path = @TREE@
[other$]
	comment = hidden
	path = @TREE@
	max connections = 7
";

/// A configuration with printers.
const PRINTERS: &str = "[global]
@TARGET@
	netbios name = BED
	admin users = alice
	printing = cups
	printcap name = cups
	load printers = yes
	cups server = @CUPS@
	lpq cache time = 0
[printers]
	path = @TREE@
	printable = yes
[ink]
	comment = in the hall
	path = @TREE@
	printable = yes
	printer name = laser
";

/// Calls of rpcclient about printers.
const OF_PRINTERS: &[&str] = &[
    "enumprinters 1",
    "enumprinters 2",
    "enumprinters 4",
    "enumprinters 5",
    "openprinter laser",
    "openprinter_ex laser",
    "openprinter_ex none",
    "openprinter_ex files",
    "getprinter laser 0",
    "getprinter laser 1",
    "getprinter laser 2",
    "getprinter laser 3",
    "getprinter laser 4",
    "getprinter laser 5",
    "getprinter laser 7",
    "enumjobs laser",
    "enumjobs laser 2",
    "getjob laser 99",
    "setjob laser 99 cancel",
    "getform laser Letter",
    "getform laser A4",
    "getform laser none",
    "enumports 1",
    "enumports 2",
    "enummonitors 1",
    "enummonitors 2",
    "enumprocs",
    "enumprocdatatypes",
    "enumdrivers 1",
    "getdriver laser",
    "getdriverdir",
    "getprintprocdir",
    "getdata laser ChangeID",
    "getdata laser none",
    "getdata . OSVersion",
    "getdata . Architecture",
    "getdata . MajorVersion",
    "getdata . MinorVersion",
    "getdata . DefaultSpoolDirectory",
    "getdata . W3SvcInstalled",
    "getdata . BeepEnabled",
    "getdata . EventLog",
    "getdata . NetPopup",
    "getdata . DsPresent",
    "getdata . DNSMachineName",
    "getdata . none",
    "enumdata laser",
    "enumdataex laser PrinterDriverData",
    "enumkey laser",
];

/// Calls of rpcclient by alice, an administrator of Frevo.
const CALLS: &[&str] = &[
    "srvinfo",
    "srvinfo 100",
    "netshareenum 1",
    "netshareenum 2",
    "netshareenum 502",
    "netshareenumall 1",
    "netsharegetinfo files 1",
    "netsharegetinfo files 2",
    "netsharegetinfo files 502",
    "netsharegetinfo files 1005",
    "netsharegetinfo none 1",
    "netsharegetinfo IPC$ 1",
    "netfilegetsec files held.txt",
    "netfilegetsec files none.txt",
    "netfilegetsec none held.txt",
    "netnamevalidate a|b 9",
    "netnamevalidate name 9",
    "wkssvc_wkstagetinfo 100",
    "wkssvc_getjoininformation",
    "lsaquery",
    "lookupnames alice",
    "lookupnames nobody-here",
    "lookupnames_level 1 alice",
    "lookupsids S-1-5-32-544",
    "lookupsids S-1-1-0",
    "lookupsids S-1-5-21-9-9-9-1104",
    "enumtrust",
    "enumprivs",
    "getdispname SeBackupPrivilege",
    "lsaenumsid",
    "lsaenumacctrights S-1-5-32-544",
    "lookupprivvalue SeBackupPrivilege",
    "getusername",
    "querydominfo",
    "querydominfo 1",
    "enumdomains",
    "enumdomusers",
    "enumdomgroups",
    "enumalsgroups builtin",
    "enumalsgroups domain",
    "lookupdomain BED",
    "queryuser alice",
    "queryuser nobody-here",
    "queryusergroups 1000",
    "querydispinfo",
    "querydispinfo2",
    "getdompwinfo",
    "samlookupnames domain alice",
    "samlookuprids domain 500",
    "winreg_enumkey HKLM",
    "winreg_enumkey HKLM\\\\SYSTEM",
];

/// Calls of rpcclient by an administrator of both servers, while a file is open.
const OF_CLIENTS: &[&str] = &[
    "srvinfo 102",
    r"netsessenum \\\\127.0.0.1 bob 0",
    r"netsessenum \\\\127.0.0.1 bob 1",
    r"netsessenum \\\\127.0.0.1 bob 2",
    r"netsessenum \\\\127.0.0.1 bob 10",
    r"netsessenum \\\\127.0.0.1 bob 502",
    r"netsessenum \\\\127.0.0.1 nobody-here 0",
    r"netsessenum \\\\192.0.2.1 bob 0",
    "netfileenum",
    "netconnenum files",
    "netconnenum none",
    "netdiskenum",
    "wkssvc_wkstagetinfo 101",
    "wkssvc_wkstagetinfo 102",
    "wkssvc_enumerateusers",
    "wkssvc_enumeratecomputernames",
    "enumdomusers",
    "queryuser bob",
    "queryusergroups 1000",
    "queryaliasmem builtin 544",
    "querygroup 513",
    "querygroupmem 513",
    r"netsessdel \\\\192.0.2.1 bob",
    r"netsessdel \\\\127.0.0.1 bob",
    r"netsessenum \\\\127.0.0.1 bob 0",
];

/// Words of `net rpc` by that administrator. There is no `net rpc session`: `netsessenum` of rpcclient is that call.
const OF_CLIENTS_BY_NET: &[&[&str]] = &[
    &["file"],
    &["file", "user", "bob"],
    &["file", "user", "nobody-here"],
    &["file", "close", "99999"],
    &["group", "members", "None"],
    &["group", "members", "Administrators"],
    &["group", "members", "none-such"],
    &["user", "info", "bob"],
    &["user", "info", "nobody-here"],
    &["share", "delete", "none"],
];

/// Words of `net rpc`.
const NET: &[&[&str]] = &[
    &["share", "list"],
    &["share", "list", "--long"],
    &["file"],
    &["user"],
    &["user", "info", "alice"],
    &["group", "list"],
    &["info"],
    &["rights", "list"],
    &["rights", "list", "accounts"],
    &["getsid"],
    &["registry", "enumerate", "HKLM"],
    &["registry", "enumerate", "HKLM\\SYSTEM\\CurrentControlSet\\Control\\ProductOptions"],
    &["registry", "enumerate", "HKLM\\SYSTEM\\CurrentControlSet\\Services"],
    &["registry", "enumerate", "HKLM\\SYSTEM\\CurrentControlSet\\Services\\Netlogon\\Parameters"],
    &["registry", "enumerate", "HKLM\\SYSTEM\\CurrentControlSet\\Services\\Tcpip\\Parameters"],
    &["registry", "enumerate", "HKLM\\SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion"],
    &["registry", "enumerate", "HKLM\\none"],
    &["registry", "getvalue", "HKLM\\SYSTEM\\CurrentControlSet\\Control\\ProductOptions", "ProductType"],
    &["registry", "getvalue", "HKLM\\SYSTEM\\CurrentControlSet\\Control\\ProductOptions", "none"],
    &["registry", "getsd", "HKLM\\SYSTEM"],
    &["registry", "createkey", "HKLM\\SYSTEM\\new"],
    &["service", "list"],
    &["service", "status", "Spooler"],
    &["service", "status", "NETLOGON"],
    &["service", "status", "none"],
    &["service", "start", "NETLOGON"],
    &["service", "stop", "WINS"],
];

/// A program with its arguments. `@USER@` is a user with a password, `@ADDRESS@` that of the server, `@PORT@` its port.
struct Call {
    name: String,
    person: Person,
    words: Vec<String>,
}

fn call(name: &str, person: &Person, words: &[&str]) -> Call {
    let name = format!("{} {name}", person.name);
    Call { name, person: *person, words: words.iter().map(|word| (*word).to_owned()).collect() }
}

fn rpcclient() -> Vec<Call> {
    let of = |person: &Person, what: &&str| call(what, person, &["rpcclient", "@ADDRESS@", "-U", "@USER@", "-c", what]);
    let calls = CALLS.iter().map(|what| of(&ALICE, what));
    // A user who administrates neither server.
    let denied = ["netsessenum", "netfileenum", "netconnenum", "wkssvc_enumerateusers", "queryuser bob", "srvinfo 102"];
    calls.chain(denied.iter().map(|what| of(&BOB, what))).collect()
}

fn net() -> Vec<Call> {
    let lists = call("smbclient -L", &ALICE, &["smbclient", "-g", "-L", "@ADDRESS@", "-U", "@USER@"]);
    NET.iter().map(net_rpc).chain([lists]).collect()
}

fn net_rpc(words: &&[&str]) -> Call {
    let words = [&["net", "rpc"], *words, &["-S", "@ADDRESS@", "-U", "@USER@"]].concat();
    call(&words[1..words.len() - 4].join(" "), &ALICE, &words)
}

/// What administrators see of clients. Without winbindd, an alias has the members of a UNIX group in Samba.
fn administrators(fixture: &mut Fixture) -> Result<()> {
    let by_rpcclient =
        OF_CLIENTS.iter().map(|what| call(what, &ALICE, &["rpcclient", "@ADDRESS@", "-U", "@USER@", "-c", what]));
    let calls: Vec<Call> = OF_CLIENTS_BY_NET.iter().map(net_rpc).chain(by_rpcclient).collect();
    let case = "administrators";
    let files = net_rpc(&&["file"][..]);
    let mut holders = Vec::new();
    compare_with(fixture, case, GLOBALS, &calls, |fixture, twins| {
        let group = format!("unixgroup={}", CREW.0);
        let said = twins.administrate("net", &["groupmap", "add", "sid=S-1-5-32-544", &group, "type=builtin"])?;
        ensure!(said.contains("Successfully added"), "{said}");
        for twin in [Twin::Samba, Twin::Frevo] {
            holders.push(Holder::open(fixture, twins.server(twin), &BOB, "held.txt")?);
            let is_held = |_: &usize| run(twins, twin, &files).is_ok_and(|text| text.contains("held.txt"));
            let again = (0..100).inspect(|_| sleep(Duration::from_millis(100))).find(is_held);
            ensure!(again.is_some(), "the open file is not listed by {twin:?}: {}", run(twins, twin, &files)?);
        }
        Ok(())
    })
}

/// Printers of the same CUPS.
fn printers(fixture: &mut Fixture) -> Result<()> {
    let cups = Cups::start(fixture, "cups-compared")?;
    // Samba learns only after a while that a queue is stopped.
    cups.program("cupsenable", &["laser"])?;
    // Samba refuses names of printers with an address that no interface of its own has.
    let of = |person: &Person, what: &&str| {
        call(what, person, &["rpcclient", "BED", "-I", "@ADDRESS@", "-U", "@USER@", "-c", what])
    };
    let list = ["net", "rpc", "printer", "list", "-S", "BED", "-I", "@ADDRESS@", "-U", "@USER@"];
    let first = of(&ALICE, &"enumprinters 1");
    let by_bob = ["openprinter_ex laser", "setprinter laser new", "getprinter laser 1"];
    let calls = OF_PRINTERS.iter().map(|what| of(&ALICE, what)).chain(by_bob.iter().map(|what| of(&BOB, what)));
    let calls: Vec<Call> = calls.chain([call("rpc printer list", &ALICE, &list)]).collect();
    let template = PRINTERS.replace("@CUPS@", &cups.socket().display().to_string());
    compare_with(fixture, "printers", &template, &calls, |_, twins| {
        // Samba reads the list of queues in the background.
        let is_known = |_: &usize| run(twins, Twin::Samba, &first).is_ok_and(|text| text.contains("laser"));
        let again = (0..100).inspect(|_| sleep(Duration::from_millis(100))).find(is_known);
        ensure!(again.is_some(), "Samba does not list the queue of CUPS");
        Ok(())
    })
}

/// The programs that are installed with the library.
fn impacket(fixture: &mut Fixture) -> Result<()> {
    let python = fixture.python.display().to_string();
    let programs = fixture.python.parent().context("the interpreter is in a directory")?.to_owned();
    let of = |name: &str, after: &[&str]| {
        let script = programs.join(name).display().to_string();
        let words = [&[&python, &script, "@TARGET@"], after].concat();
        call(&[&[name], after].concat().join(" "), &ALICE, &words)
    };
    let calls = [
        of("samrdump.py", &[]),
        of("lookupsid.py", &["1010"]),
        of("net.py", &["user"]),
        of("net.py", &["user", "-name", "alice"]),
        of("net.py", &["computer"]),
        of("net.py", &["group"]),
        of("net.py", &["group", "-name", "None"]),
        of("net.py", &["localgroup"]),
        of("net.py", &["localgroup", "-name", "Administrators"]),
        of("services.py", &["list"]),
        of("services.py", &["status", "-name", "Spooler"]),
        of("services.py", &["config", "-name", "Spooler"]),
        of("reg.py", &["query", "-keyName", "HKLM\\SYSTEM\\CurrentControlSet\\Control\\ProductOptions"]),
        of("reg.py", &["query", "-keyName", "HKLM\\SYSTEM\\CurrentControlSet\\Services"]),
    ];
    compare(fixture, "impacket", &calls)
}

/// A difference: the call, the server that printed the line, and the line. In the list, `*` stands for any text.
#[derive(PartialEq, Eq)]
struct Difference {
    call: String,
    server: String,
    line: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\t{}\t{}", self.call, self.server, self.line)
    }
}

impl Difference {
    fn matches(&self, found: &Difference) -> bool {
        let pairs = [(&self.call, &found.call), (&self.server, &found.server), (&self.line, &found.line)];
        pairs.iter().all(|(pattern, text)| is_like(pattern, text))
    }
}

/// Returns whether `text` is like `pattern`, in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text
            .strip_prefix(start)
            .is_some_and(|text| rest.is_empty() || text.char_indices().any(|(at, _)| is_like(rest, &text[at..]))),
    }
}

/// Reads the list: the case, the call, the server, the line and the reason, separated by tabs.
fn listed(case: &str) -> Result<Vec<Difference>> {
    let text = fs::read_to_string(LIST).with_context(|| format!("cannot read {LIST}"))?;
    let mut listed = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [of, call, server @ ("samba" | "frevo" | "*"), line, reason] if !reason.is_empty() => {
                if of == case {
                    let [call, server, line] = [call, server, line].map(str::to_owned);
                    listed.push(Difference { call, server, line });
                }
            }
            _ => bail!("rpc-differences.txt: not a case, a call, a server, a line and a reason: {line}"),
        }
    }
    Ok(listed)
}

fn compare(fixture: &mut Fixture, case: &str, calls: &[Call]) -> Result<()> {
    compare_with(fixture, case, GLOBALS, calls, |_, _| Ok(()))
}

fn compare_with(
    fixture: &mut Fixture,
    case: &str,
    template: &str,
    calls: &[Call],
    wait: impl FnOnce(&Fixture, &Twins) -> Result<()>,
) -> Result<()> {
    let tree = fixture.environment.make_dir(&format!("data/compared-{case}"), &ALICE, 0o777)?;
    fs::write(tree.join("held.txt"), "held")?;
    let twins = Twins::start(fixture, &format!("compared-{case}"), template, [&tree, &tree])?;
    wait(fixture, &twins)?;
    let (mut found, mut shown) = (Vec::new(), String::new());
    for call in calls {
        let [samba, frevo] = [Twin::Samba, Twin::Frevo].map(|twin| run(&twins, twin, call));
        let (samba, frevo) = (samba?, frevo?);
        writeln!(shown, "#### {}\n-- Samba\n{samba}-- Frevo\n{frevo}", call.name)?;
        let mut lines = BTreeMap::<&str, i32>::new();
        samba.lines().for_each(|line| *lines.entry(line).or_default() += 1);
        frevo.lines().for_each(|line| *lines.entry(line).or_default() -= 1);
        for (line, count) in lines.into_iter().filter(|(_, count)| *count != 0) {
            let server = if count > 0 { "samba" } else { "frevo" }.to_owned();
            found.push(Difference { call: call.name.clone(), server, line: line.replace('\t', " ") });
        }
    }
    if let Some(path) = std::env::var_os("FREVO_RPC_OUT") {
        let name = format!("{}.{case}", Path::new(&path).display());
        fs::write(name, &shown)?;
    }
    let listed = listed(case)?;
    let mut wrong = Vec::new();
    for line in listed.iter().filter(|line| !found.iter().any(|found| line.matches(found))) {
        wrong.push(format!("listed, but there is no such difference: {line}"));
    }
    for difference in found.iter().filter(|found| !listed.iter().any(|line| line.matches(found))) {
        wrong.push(format!("not listed: {difference}"));
    }
    println!("    {} calls, {} lines differ", calls.len(), found.len());
    ensure!(wrong.is_empty(), "rpc-differences.txt:\n{}", wrong.join("\n"));
    Ok(())
}

/// Returns the output of a program, without what depends on the address or the time.
fn run(twins: &Twins, twin: Twin, call: &Call) -> Result<String> {
    let address = Port445::ADDRESSES[usize::from(twin == Twin::Frevo)].to_string();
    let target = format!("{}:{}@{address}", call.person.name, call.person.password);
    let values = [("@ADDRESS@", &address), ("@USER@", &call.person.credentials()), ("@TARGET@", &target)];
    let value = |word: &String| {
        let found = values.iter().find(|(name, _)| name == word);
        found.map_or_else(|| word.clone(), |(_, value)| (*value).clone())
    };
    let words: Vec<String> = call.words.iter().map(value).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).env("PYTHONDONTWRITEBYTECODE", "1").env("LC_ALL", "C.UTF-8");
    if !words[0].contains("python") {
        command.arg("-s").arg(twins.client());
    }
    let year = 1970 + SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 31_556_952;
    let text =
        output(twins.enter(&mut command))?.replace(&address, "ADDRESS").replace(&address.to_uppercase(), "ADDRESS");
    Ok(text.lines().map(|line| format!("{}\n", without_time(line.trim_end(), year))).collect())
}

/// Returns a line without the time after a colon, if it is one of this year.
fn without_time(line: &str, year: u64) -> String {
    match line.split_once(':') {
        Some((name, time)) if time.contains(&year.to_string()) => format!("{name}: TIME"),
        _ => line.to_owned(),
    }
}
