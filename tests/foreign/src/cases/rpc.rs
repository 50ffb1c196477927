//! The server service and the workstation service, as rpcclient and `net rpc` use them ([MS-SRVS], [MS-WKST]).

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, Person, Port445, Server, frevo};

pub(super) const CASES: &[Case] = &[
    Case::new("rpc.ordinary_user", ordinary_user),
    Case::new("rpc.net_rpc_share", net_rpc_share).needs_root(),
    // Administrators of Samba are the members of an alias, which needs winbindd.
    Case::new("rpc.administrator", administrator).needs_root().frevo_only(),
    Case::new("rpc.close", close).needs_root().frevo_only(),
    Case::new("rpc.share_changes", share_changes).needs_root().frevo_only(),
];

/// Returns the output of rpcclient, with its errors.
pub(super) fn rpcclient(fixture: &Fixture, server: &Server, person: &Person, call: &str) -> Result<String> {
    let mut command = fixture.program("rpcclient", server, &person.credentials());
    let output = command.args(["127.0.0.1", "-c", call]).output().context("cannot start rpcclient")?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Returns the output of `net rpc`, with its errors. The program always uses port 445.
pub(super) fn net_rpc(fixture: &Fixture, server: &Server, person: &Person, words: &[&str]) -> Result<String> {
    let doors = Port445::open([server.address(), server.address()])?;
    let mut command = Command::new("net");
    command.args(["rpc"]).args(words).arg("-s").arg(fixture.environment.dir().join("client/smb.conf"));
    command.args(["-S", &Port445::ADDRESSES[0].to_string(), "-U", &person.credentials()]).stdin(Stdio::null());
    let output = doors.enter(&mut command).output().context("cannot start net")?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

pub(super) fn has(text: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(text.contains(word), "no {word:?} in\n{text}");
    }
    Ok(())
}

/// Checks that a call reports no error. Some calls of rpcclient print nothing else.
fn succeeds(text: &str) -> Result<()> {
    let fails = ["WERR_", "NT_STATUS", "failed with"].iter().any(|word| text.contains(word));
    ensure!(!fails, "expected success, got\n{text}");
    Ok(())
}

/// What a user without administrator rights sees.
fn ordinary_user(fixture: &mut Fixture) -> Result<()> {
    let ask = |call: &str| rpcclient(fixture, &fixture.server, &ALICE, call);
    for call in ["netshareenumall", "netshareenum"] {
        for level in ["1", "2", "502"] {
            let text = ask(&format!("{call} {level}"))?;
            has(&text, &["netname: files", "remark:\ta plain directory"])?;
            ensure!(text.contains("netname: IPC$") == (call == "netshareenumall"), "{call} {level}:\n{text}");
        }
    }
    for level in ["1", "2", "502"] {
        has(&ask(&format!("netsharegetinfo files {level}"))?, &["netname: files", "remark:\ta plain directory"])?;
    }
    has(&ask("srvinfo")?, &["platform_id     :\t500", "os version      :\t6.1"])?;
    succeeds(&ask("netremotetod")?)?;
    has(&ask("netnamevalidate a|b 9")?, &["WERR_INVALID_NAME"])?;
    succeeds(&ask("wkssvc_wkstagetinfo 100")?)?;
    for call in ["netsessenum", "netfileenum", "wkssvc_enumerateusers", "wkssvc_wkstagetinfo 102"] {
        has(&ask(call)?, &["WERR_ACCESS_DENIED"])?;
    }
    Ok(())
}

fn net_rpc_share(fixture: &mut Fixture) -> Result<()> {
    has(&net_rpc(fixture, &fixture.server, &ALICE, &["share", "list"])?, &["files", "sealed", "fixed"])?;
    let long = net_rpc(fixture, &fixture.server, &ALICE, &["share", "list", "--long"])?;
    has(&long, &["files", "a plain directory"])
}

const GLOBALS: &str = "[global]\n@TARGET@\n\tread only = no\n\tadmin users = alice\n\
    [files]\n\tpath = @DIR@/data/files\n\tcomment = a plain directory\n";

/// A client that holds a file open. It ends when this is dropped.
pub(super) struct Holder(Child);

impl Holder {
    pub(super) fn open(fixture: &Fixture, server: &Server, person: &Person, file: &str) -> Result<Holder> {
        let mut command = fixture.program("smbclient", server, &person.credentials());
        command.arg("//127.0.0.1/files").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start smbclient")?;
        let input = child.stdin.as_mut().context("smbclient has an input")?;
        input.write_all(format!("open {file}\n").as_bytes())?;
        input.flush()?;
        Ok(Holder(child))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the line of `net rpc file` about `held.txt`, once there is one.
fn held(fixture: &Fixture, server: &Server) -> Result<String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let text = net_rpc(fixture, server, &ALICE, &["file"])?;
        if let Some(line) = text.lines().find(|line| line.contains("held.txt")) {
            return Ok(line.to_owned());
        }
        ensure!(Instant::now() < end, "the open file is not listed:\n{text}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// Starts a server that alice administrates, and a client of bob that has a file open.
fn administrated(fixture: &Fixture, name: &str) -> Result<(Server, Holder)> {
    let server = fixture.environment.start(name, GLOBALS)?;
    fixture.smbclient().server(&server).user(&BOB).run("put /etc/hostname held.txt")?.fine()?;
    let holder = Holder::open(fixture, &server, &BOB, "held.txt")?;
    Ok((server, holder))
}

/// What an administrator sees while bob has a file open.
fn administrator(fixture: &mut Fixture) -> Result<()> {
    let (server, _holder) = administrated(fixture, "rpc")?;
    has(&held(fixture, &server)?, &["bob"])?;
    let ask = |call: &str| rpcclient(fixture, &server, &ALICE, call);
    for level in ["0", "1", "2", "10", "502"] {
        has(&ask(&format!("netsessenum \\\\\\\\127.0.0.1 bob {level}"))?, &["Received 1 entries"])?;
    }
    has(&ask("netsessenum \\\\\\\\127.0.0.1 carol 1")?, &["WERR_"])?;
    has(&ask("srvinfo 102")?, &["platform_id     :\t500", "licenses"])?;
    has(&ask("netsharegetinfo files 2")?, &["path:\tC:\\"])?;
    for call in ["netfileenum", "netconnenum", "wkssvc_wkstagetinfo 102", "wkssvc_enumerateusers"] {
        succeeds(&ask(call)?)?;
    }
    Ok(())
}

/// Returns the output of a command of Frevo, with its errors.
fn run_frevo(fixture: &Fixture, conf: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(frevo());
    let command = command.args(words).arg("-c").arg(conf);
    let output = fixture.environment.people().enter(command).output().context("cannot start frevo")?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Files, sessions and shares are closed with `net rpc file close`, rpcclient and `frevo close`.
fn close(fixture: &mut Fixture) -> Result<()> {
    let (server, holder) = administrated(fixture, "rpc-close")?;
    let id = held(fixture, &server)?.split_whitespace().next().unwrap_or_default().to_owned();
    succeeds(&net_rpc(fixture, &server, &ALICE, &["file", "close", &id])?)?;
    let left = net_rpc(fixture, &server, &ALICE, &["file"])?;
    ensure!(!left.contains("held.txt"), "the closed file is listed:\n{left}");
    drop(holder);

    let frevo = |words: &[&str]| run_frevo(fixture, server.conf(), words);
    has(&frevo(&["close", "session", "1"])?, &["there is no session 0000000000000001"])?;
    for by_session in [true, false] {
        let _holder = Holder::open(fixture, &server, &BOB, "held.txt")?;
        held(fixture, &server)?;
        if by_session {
            let status = frevo(&["status"])?;
            let row = status.lines().find(|line| line.contains("bob") && line.contains("SMB"));
            let row = row.with_context(|| format!("no session of bob in\n{status}"))?;
            has(&frevo(&["close", "session", row.split_whitespace().next().unwrap_or_default()])?, &["is closed"])?;
        } else {
            has(&frevo(&["close", "share", "files"])?, &["1 client is disconnected"])?;
        }
        let left = net_rpc(fixture, &server, &ALICE, &["file"])?;
        ensure!(!left.contains("held.txt"), "the closed file is listed:\n{left}");
    }
    fixture.smbclient().server(&server).user(&BOB).run("get held.txt /dev/null")?.fine()?;
    Ok(())
}

/// Shares are added, changed and removed with `net rpc share`, rpcclient and `frevo share`. An added share is usable at
/// once and after a restart, and gone after its removal.
fn share_changes(fixture: &mut Fixture) -> Result<()> {
    let mut server = fixture.environment.start("rpc-shares", GLOBALS)?;
    let conf = server.conf().to_owned();
    let before = std::fs::read(&conf)?;
    let directory = fixture.environment.make_dir("data/added", &BOB, 0o755)?;
    let path = directory.display().to_string();
    let share = |person: &Person, server: &Server, words: &[&str]| {
        net_rpc(fixture, server, person, &[&["share"], words].concat())
    };
    let frevo = |words: &[&str]| run_frevo(fixture, &conf, words);
    let uses = |server: &Server, share: &str| -> Result<()> {
        let client = fixture.smbclient().server(server).user(&BOB).share(share);
        client.run(&format!("put /etc/hostname by-{share}.txt"))?.fine()?;
        ensure!(directory.join(format!("by-{share}.txt")).exists(), "the file is elsewhere");
        Ok(())
    };
    let is_gone = |server: &Server, share: &str| -> Result<()> {
        let text = fixture.smbclient().server(server).user(&BOB).share(share).run("ls")?;
        ensure!(text.fine().is_err(), "the share {share} is still there");
        Ok(())
    };

    has(&share(&BOB, &server, &["add", &format!("first={path}")])?, &["Access is denied"])?;
    is_gone(&server, "first")?;
    succeeds(&share(&ALICE, &server, &["add", &format!("first={path}"), "-C", "by net"])?)?;
    uses(&server, "first")?;
    has(&share(&ALICE, &server, &["list", "--long"])?, &["first", "by net"])?;
    let again = share(&ALICE, &server, &["add", &format!("FIRST={path}")])?;
    has(&again, &["The name has already been shared"])?;
    let nowhere = share(&ALICE, &server, &["add", "other=/no/such/place"])?;
    has(&nowhere, &["The device or directory does not exist"])?;
    // The program does not print why it cannot delete a share.
    share(&BOB, &server, &["delete", "first"])?;
    share(&ALICE, &server, &["delete", "files"])?;
    has(&share(&ALICE, &server, &["list"])?, &["first", "files"])?;
    uses(&server, "first")?;

    let ask = |server: &Server, person: &Person, call: &str| rpcclient(fixture, server, person, call);
    has(&ask(&server, &BOB, "netsharesetinfo first changed")?, &["WERR_ACCESS_DENIED"])?;
    succeeds(&ask(&server, &ALICE, "netsharesetinfo first changed")?)?;
    has(&ask(&server, &ALICE, "netsharegetinfo first 502")?, &["changed"])?;
    has(&ask(&server, &ALICE, "netshareenum 1")?, &["netname: first"])?;
    has(&ask(&server, &ALICE, "netsharesetinfo files changed")?, &["WERR_ACCESS_DENIED"])?;
    succeeds(&ask(&server, &ALICE, "netsharesetdfsflags first 0x30")?)?;

    has(&frevo(&["share", "add", "second", &path, "--writable", "--comment", "by frevo"])?, &["[second] added"])?;
    uses(&server, "second")?;
    has(&frevo(&["share", "list"])?, &["smb.conf:", "frevo share", "by frevo", "changed"])?;
    has(&frevo(&["share", "add", "files", &path])?, &["the share [files] is defined at", "smb.conf:"])?;
    has(&frevo(&["share", "set", "files", "--read-only"])?, &["Frevo never changes"])?;
    has(&frevo(&["share", "set", "second", "--option", "raed only = yes"])?, &["not a parameter", "read only"])?;
    has(&frevo(&["check"])?, &["[second]", "by frevo"])?;

    server.restart()?;
    uses(&server, "first")?;
    uses(&server, "second")?;
    has(&ask(&server, &ALICE, "netsharegetinfo first 1005")?, &["0x30"])?;
    has(&frevo(&["share", "set", "second", "--read-only"])?, &["[second] changed"])?;
    let refused = fixture.smbclient().server(&server).user(&BOB).share("second").run("put /etc/hostname no.txt")?;
    ensure!(refused.fine().is_err(), "the share is read only");

    succeeds(&share(&ALICE, &server, &["delete", "first"])?)?;
    is_gone(&server, "first")?;
    has(&frevo(&["share", "remove", "second"])?, &["[second] removed"])?;
    is_gone(&server, "second")?;
    has(&frevo(&["share", "remove", "second"])?, &["there is no share [second]"])?;
    ensure!(std::fs::read(&conf)? == before, "smb.conf was changed");
    fixture.smbclient().server(&server).user(&BOB).run("ls")?.fine()?;
    Ok(())
}
