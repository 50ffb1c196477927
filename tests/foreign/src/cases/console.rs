//! The web console: an administrator uses it in headless Chromium, while smbclient is connected.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::file;
use crate::fixture::Fixture;
use crate::python::Script;
use crate::suite::Case;
use test_environment::{ALICE, BOB, Server, frevo};

pub(super) const CASES: &[Case] = &[
    Case::new("console.browser", browser).frevo_only().needs_root(),
    Case::new("console.changes_under_load", changes_under_load).frevo_only().needs_root(),
    Case::new("console.attacks", attacks).frevo_only().needs_root(),
];

/// A name that would execute a script if it were parsed.
const HTML: &str = "<img src=x onerror=window.stolen=1>";
/// The password that the PAM service of the test accepts.
pub(super) const UNIX_PASSWORD: &str = "unix secret";

pub(super) const TEMPLATE: &str = "[global]\n@TARGET@\n\tread only = no\n\tadmin users = bob\n\
                        \tfrevo:audit file = @DIR@/console-audit.json\n\tfrevo:bogus = 1\n\
                        [own]\n\tpath = @DIR@/data/files\n\tcomment = of smb.conf\n";

/// A running console.
pub(super) struct Console {
    process: Child,
    pub(super) url: String,
}

impl Console {
    pub(super) fn start(fixture: &Fixture, server: &Server) -> Result<Console> {
        Console::start_with(fixture, server, &[])
    }

    pub(super) fn start_with(fixture: &Fixture, server: &Server, more: &[&OsStr]) -> Result<Console> {
        let mut command = Command::new(frevo());
        command.args([
            "console",
            "--listen",
            "127.0.0.1:0",
            "--admin-group",
            "crew",
            "--pam-service",
            "frevo-test",
            "-c",
        ]);
        command.arg(server.conf()).args(more).stdout(Stdio::piped());
        let mut process =
            fixture.environment.people().enter(&mut command).spawn().context("cannot start the console")?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("no standard output")?).read_line(&mut line)?;
        let url = line.trim().strip_prefix("console at ").with_context(|| format!("it prints {line:?}"))?.to_owned();
        Ok(Console { process, url })
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The browser.
pub(super) struct Browser(pub(super) Script);

impl Browser {
    pub(super) fn step(&mut self, step: Value) -> Result<()> {
        self.0.send(&step.to_string())?;
        self.0.wait_for("done").with_context(|| format!("{step}"))
    }

    /// Does several steps.
    pub(super) fn steps(&mut self, steps: &[Value]) -> Result<()> {
        steps.iter().try_for_each(|step| self.step(step.clone()))
    }

    pub(super) fn log_on(&mut self, name: &str, password: &str) -> Result<()> {
        self.steps(&[json!(["fill", "name", name]), json!(["fill", "password", password]), json!(["click", "Log on"])])
    }
}

/// Writes a PAM service that accepts one password, whatever the user is.
pub(super) fn write_service(directory: &Path) -> Result<()> {
    let script = directory.join("console-pam");
    // The password arrives with a zero at its end.
    let text = format!("#!/bin/sh\n[ \"$(tr -d '\\0')\" = '{UNIX_PASSWORD}' ]\n");
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let service = format!(
        "auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n",
        script.display()
    );
    Ok(fs::write(directory.join("etc/pam.d/frevo-test"), service)?)
}

fn browser(fixture: &mut Fixture) -> Result<()> {
    let directory = fixture.environment.dir().to_owned();
    write_service(&directory)?;
    let docs = fixture.environment.make_dir("data/docs", &ALICE, 0o777)?;
    let server = fixture.environment.start("console", TEMPLATE)?;
    let configuration = fs::read(server.conf())?;
    let console = Console::start(fixture, &server)?;
    let mut browser = Browser(fixture.start_script("console.py", &[&console.url])?);
    let pictures = env::var_os("FREVO_PICTURES");

    // A user who does not administrate, and a wrong password.
    browser.step(json!(["open"]))?;
    browser.step(json!(["accessible"]))?;
    browser.log_on("carol", "carolpw")?;
    browser.step(json!(["sees", "the name or the password is wrong"]))?;
    browser.log_on(ALICE.name, ALICE.password)?;
    browser.step(json!(["sees", "the name or the password is wrong"]))?;
    // An account in `admin users`, with its SMB password.
    browser.log_on(BOB.name, BOB.password)?;
    browser.steps(&[
        json!(["sees", "Throughput"]),
        json!(["cookie"]),
        json!(["leave"]),
        json!(["sees", "Throughput"]),
    ])?;
    browser.steps(&[json!(["click", "Log off"]), json!(["sees", "A UNIX administrator"])])?;
    // A member of the group, with the password of PAM.
    browser.log_on(ALICE.name, UNIX_PASSWORD)?;
    browser.steps(&[json!(["sees", "Throughput"]), json!(["accessible"])])?;

    // A share and a user, whose texts are not parsed.
    browser.steps(&[
        json!(["click", "Shares"]),
        json!(["sees", "of smb.conf"]),
        json!(["lacks", "Change"]),
        json!(["click", "Add a share"]),
        json!(["accessible"]),
        json!(["fill", "name", "docs"]),
        json!(["fill", "path", "/no/such/directory"]),
        json!(["click", "Add"]),
        json!(["sees", "/no/such/directory"]),
        json!(["fill", "path", docs.display().to_string()]),
        json!(["fill", "comment", HTML]),
        json!(["fill", "more", "vfs objects = recycle\nfrevo:snapshots = auto"]),
        json!(["click", "Add"]),
        json!(["closed"]),
        json!(["sees", HTML]),
        json!(["inert"]),
        json!(["accessible"]),
        json!(["click", "Users"]),
        json!(["click", "Add a user"]),
        json!(["fill", "name", "dora"]),
        json!(["fill", "full_name", HTML]),
        json!(["fill", "uid", ALICE.id.to_string()]),
        json!(["fill", "password", "dora's secret"]),
        json!(["fill", "repeated", "another"]),
        json!(["click", "Add"]),
        json!(["sees", "the passwords differ"]),
        json!(["fill", "repeated", "dora's secret"]),
        json!(["click", "Add"]),
        json!(["closed"]),
        json!(["sees", "dora"]),
        json!(["sees", HTML]),
        json!(["inert"]),
        json!(["accessible"]),
    ])?;

    // The user connects and is seen.
    let local = fixture.local("console")?;
    fs::write(local.join("letter"), "dear")?;
    let smbclient = || fixture.smbclient().server(&server).share("docs").credentials("dora%dora's secret");
    smbclient().run(&format!("lcd {}; put letter letter.txt", local.display()))?.fine()?;
    smbclient().run("del letter.txt")?.fine()?;
    ensure!(!docs.join("letter.txt").exists(), "the file was not deleted");
    fs::write(docs.join(HTML), "")?;
    browser.steps(&[
        json!(["click", "Files"]),
        json!(["choose", "docs"]),
        json!(["sees", HTML]),
        json!(["inert"]),
        json!(["accessible"]),
        json!(["click", "Recycle bin"]),
        json!(["sees", "letter.txt"]),
        json!(["click", "Restore letter.txt"]),
        json!(["accessible"]),
        json!(["click", "Restore"]),
        json!(["closed"]),
        json!(["lacks", "letter.txt"]),
        json!(["click", "docs"]),
        json!(["sees", "letter.txt"]),
        json!(["click", "ACL of letter.txt"]),
        json!(["sees", "Security descriptor"]),
        json!(["accessible"]),
        json!(["click", "Set"]),
        json!(["closed"]),
    ])?;
    ensure!(fs::read(docs.join("letter.txt"))? == b"dear", "the file was not restored");
    restore_versions(fixture, &mut browser, &docs, &mut smbclient().interactive())?;
    let fetched = local.join("fetched");
    smbclient().run(&format!("get letter.txt {}", fetched.display()))?.fine()?;
    ensure!(fs::read(&fetched)? == b"the earlier letter", "clients do not get the restored version");
    let mut connected = smbclient().interactive().stdout(Stdio::null()).spawn()?;
    let mut commands = connected.stdin.take().context("no standard input")?;
    writeln!(commands, "ls")?;
    browser.steps(&[json!(["click", "Clients"]), json!(["sees", "dora"]), json!(["accessible"])])?;
    if let Some(pictures) = &pictures {
        browser.step(json!(["picture", pictures.to_string_lossy(), "Clients"]))?;
    }
    browser.steps(&[
        json!(["click", "Close the session of dora"]),
        json!(["click", "Close"]),
        json!(["closed"]),
        json!(["lacks", "dora"]),
    ])?;
    drop(commands);
    connected.wait()?;

    many_users(fixture, &server, &mut browser)?;
    browser.steps(&[
        json!(["click", "Overview"]),
        // The share is named by its cost only.
        json!(["sees", "docs"]),
        json!(["sees", "Server time"]),
        json!(["accessible"]),
        json!(["click", "Health"]),
        json!(["sees", "frevo:bogus"]),
        json!(["sees", "Clients are served"]),
        json!(["accessible"]),
        json!(["click", "Reload"]),
        json!(["click", "Reload"]),
        json!(["closed"]),
    ])?;
    if let Some(pictures) = &pictures {
        let place = pictures.to_string_lossy();
        for (page, text) in [
            ("Overview", "Throughput"),
            ("Shares", "docs"),
            ("Files", "letter.txt"),
            ("Users", "dora"),
            ("Health", "bogus"),
        ] {
            browser.steps(&[json!(["click", page]), json!(["sees", text]), json!(["picture", place, page])])?;
        }
    }

    browser.steps(&[
        json!(["click", "Shares"]),
        json!(["click", "Remove docs"]),
        json!(["click", "Remove"]),
        json!(["closed"]),
        json!(["lacks", "docs"]),
        json!(["alone"]),
        json!(["click", "Log off"]),
        json!(["sees", "A UNIX administrator"]),
    ])?;
    if let Some(pictures) = &pictures {
        browser.step(json!(["picture", pictures.to_string_lossy(), "Logon"]))?;
    }
    ensure!(fs::read(server.conf())? == configuration, "the configuration has changed");
    ensure!(docs.join("letter.txt").exists(), "the files of a removed share stay");
    check_audit(&directory.join("console-audit.json"))
}

/// The page shows 500 accounts at a time.
fn many_users(fixture: &Fixture, server: &Server, browser: &mut Browser) -> Result<()> {
    let line = |number: u32| format!("many{number:04}:0:{0}:{0}:[DU         ]:LCT-00000000:\n", "A".repeat(32));
    super::passwords::user(fixture, server, &["import", "-"], &(0..1200).map(line).collect::<String>())?;
    browser.steps(&[
        json!(["click", "Users"]),
        json!(["sees", "many0001"]),
        json!(["lacks", "many0600"]),
        json!(["accessible"]),
        json!(["click", "Next"]),
        json!(["sees", "many0600"]),
        json!(["click", "Next"]),
        json!(["sees", "many1199"]),
        json!(["lacks", "many0600"]),
        json!(["click", "Previous"]),
        json!(["sees", "many0600"]),
        json!(["search", "many119"]),
        json!(["sees", "many1190"]),
        json!(["lacks", "many1189"]),
        json!(["search", ""]),
        json!(["sees", "dora"]),
    ])
}

/// Restores an earlier version of a file, and a file that was deleted after a snapshot. The page shows the share.
/// `client` is a client that keeps the file open meanwhile.
fn restore_versions(fixture: &Fixture, browser: &mut Browser, docs: &Path, client: &mut Command) -> Result<()> {
    let snapshot = docs.join(".snapshots/@GMT-2026.01.31-15.30.00");
    fs::create_dir_all(&snapshot)?;
    fs::set_permissions(docs.join(".snapshots"), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&snapshot, fs::Permissions::from_mode(0o755))?;
    file::owned(fixture, &snapshot.join("letter.txt"), "the earlier letter", &ALICE, 0o644)?;
    file::owned(fixture, &snapshot.join("gone.txt"), "gone", &ALICE, 0o644)?;
    symlink("/etc/hostname", snapshot.join("leads-out.txt"))?;
    browser.steps(&[
        json!(["click", "Previous versions of letter.txt"]),
        json!(["sees", "Equal versions of a file are shown once"]),
        json!(["accessible"]),
        json!(["click_first", "Restore the version of "]),
        json!(["sees", "Its present content is lost"]),
        json!(["accessible"]),
        json!(["click", "Restore"]),
        json!(["sees", "letter.txt exists"]),
    ])?;
    ensure!(fs::read(docs.join("letter.txt"))? == b"dear", "a file was replaced without confirmation");
    let mut client = client.stdout(Stdio::null()).spawn()?;
    let mut commands = client.stdin.take().context("no standard input")?;
    writeln!(commands, "open letter.txt")?;
    browser.steps(&[
        json!(["click", "Cancel"]),
        json!(["click", "Clients"]),
        json!(["sees", "Open files (1)"]),
        json!(["click", "Files"]),
        json!(["click", "Previous versions of letter.txt"]),
        json!(["click_first", "Restore the version of "]),
        json!(["tick", "replace"]),
        json!(["click", "Restore"]),
        json!(["sees", "a client has letter.txt"]),
    ])?;
    drop(commands);
    client.wait()?;
    ensure!(fs::read(docs.join("letter.txt"))? == b"dear", "a file that a client has open was replaced");
    browser.steps(&[json!(["click", "Restore"]), json!(["closed"])])?;
    ensure!(fs::read(docs.join("letter.txt"))? == b"the earlier letter", "the version was not restored");
    browser.steps(&[
        json!(["click", "Previous versions"]),
        json!(["click_first", "Open the version of "]),
        json!(["sees", "(deleted since)"]),
        json!(["lacks", "leads-out.txt"]),
        json!(["accessible"]),
    ])?;
    if let Some(pictures) = env::var_os("FREVO_PICTURES") {
        browser.step(json!(["picture", pictures.to_string_lossy(), "Version"]))?;
    }
    browser.steps(&[
        json!(["click", "Restore gone.txt"]),
        json!(["click", "Restore"]),
        json!(["closed"]),
        json!(["lacks", "(deleted since)"]),
        json!(["click", "Back to the present"]),
        json!(["sees", "gone.txt"]),
    ])?;
    let restored = fs::metadata(docs.join("gone.txt"))?;
    ensure!(restored.uid() == ALICE.id && restored.mode() & 0o777 == 0o644, "{restored:?}");
    Ok(())
}

/// A client of HTTP.
struct Http {
    address: String,
    cookie: String,
    token: String,
}

impl Http {
    fn log_on(console: &Console, name: &str, password: &str) -> Result<Http> {
        let address = console.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let mut http = Http { address, cookie: String::new(), token: String::new() };
        let (head, body) = http.post("logon", &json!({ "name": name, "password": password }))?;
        ensure!(head.starts_with("HTTP/1.1 200"), "{head}\n{body}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).context("no cookie")?;
        http.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        http.token = body["token"].as_str().context("no token")?.to_owned();
        Ok(http)
    }

    /// Sends a change. Returns the head of the response and its body.
    fn post(&self, name: &str, body: &Value) -> Result<(String, Value)> {
        let Http { address, cookie, token } = self;
        let (body, mut stream) = (body.to_string(), TcpStream::connect(address)?);
        write!(
            stream,
            "POST /api/{name} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: {cookie}\r\n\
             X-Frevo-Token: {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (head, body) = response.split_once("\r\n\r\n").context("the response has no end of its head")?;
        Ok((head.to_owned(), serde_json::from_str(body)?))
    }

    /// Makes a change, which must succeed.
    fn change(&self, name: &str, body: &Value) -> Result<()> {
        let (head, answer) = self.post(name, body)?;
        ensure!(head.starts_with("HTTP/1.1 200"), "{name} {body}: {head}\n{answer}");
        Ok(())
    }
}

/// Fifty clients write and read while the console changes shares and users and has the configuration read again.
fn changes_under_load(fixture: &mut Fixture) -> Result<()> {
    write_service(fixture.environment.dir())?;
    let docs = fixture.environment.make_dir("data/load", &ALICE, 0o777)?;
    let template = "[global]\n@TARGET@\n\tread only = no\n[files]\n\tpath = @DIR@/data/files\n";
    let server = fixture.environment.start("console-load", template)?;
    let configuration = fs::read(server.conf())?;
    let console = Console::start(fixture, &server)?;
    let mut command = fixture.script_command("active_clients.py", &["50"]);
    command.env("SERVER_PORT", server.port().to_string());
    let mut clients = Script::start(command)?;
    clients.wait_for("ready")?;
    let http = Http::log_on(&console, ALICE.name, UNIX_PASSWORD)?;
    for round in 0..10 {
        let share = format!("load{round}");
        http.change(
            "share.add",
            &json!({ "name": share, "path": docs, "comment": "", "settings": [["read only", "no"]] }),
        )?;
        http.change("share.set", &json!({ "name": share, "path": null, "comment": "changed", "settings": [] }))?;
        let user = format!("user{round}");
        http.change("user.add", &json!({ "name": user, "full_name": "", "uid": ALICE.id, "password": "secret" }))?;
        http.change("reload", &json!({}))?;
        let credentials = format!("{user}%secret");
        fixture.smbclient().server(&server).share(&share).credentials(&credentials).run("ls")?.fine()?;
        http.change("user.enable", &json!({ "name": user, "enabled": false }))?;
        http.change("share.remove", &json!({ "name": share }))?;
        http.change("user.delete", &json!({ "name": user }))?;
    }
    clients.go_on()?;
    clients.end()?;
    ensure!(fs::read(server.conf())? == configuration, "the configuration has changed");
    Ok(())
}

/// What can only be seen at a process: its memory after many wrong passwords and large bodies.
fn attacks(fixture: &mut Fixture) -> Result<()> {
    write_service(fixture.environment.dir())?;
    let server = fixture.environment.start("console-attacks", TEMPLATE)?;
    let console = Console::start(fixture, &server)?;
    let http = Http::log_on(&console, ALICE.name, UNIX_PASSWORD)?;
    let memory = || -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", console.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    };
    let guess = |number: usize| -> Result<String> {
        let body = json!({ "name": format!("user {number}"), "password": format!("wrong {number}") });
        Ok(http.post("logon", &body)?.0.lines().next().unwrap_or_default().to_owned())
    };
    (0..100).try_for_each(|number| guess(number).map(drop))?;
    let before = memory()?;
    let mut tried = 0;
    for number in 0..10_000 {
        let status = guess(number)?;
        tried += u32::from(status.contains(" 401 "));
        ensure!(status.contains(" 401 ") || status.contains(" 429 "), "{status}");
    }
    let events = fs::read_to_string(fixture.environment.dir().join("console-audit.json"))?;
    let recorded = events.lines().filter(|line| line.contains("console.logon") && line.contains("\"fail\"")).count();
    ensure!(tried < 1_000 && recorded < 1_000, "{tried} passwords were tried, {recorded} recorded");
    let mut stream = TcpStream::connect(&http.address)?;
    let Http { address, cookie, token } = &http;
    write!(
        stream,
        "POST /api/reload HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: {cookie}\r\n\
         X-Frevo-Token: {token}\r\nContent-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n"
    )?;
    let chunk = vec![b' '; 1 << 20];
    let sent = (0..1024).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    let after = memory()?;
    println!("{tried} of 10,000 passwords tried, {sent} of 1,024 MiB sent, memory {before} to {after} KiB");
    ensure!(sent < 64, "{sent} MiB of a large body were taken");
    ensure!(after < before + 16_384, "the memory has grown from {before} to {after} KiB");
    http.change("reload", &json!({}))
}

fn check_audit(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path)?;
    ensure!(!text.contains("secret"), "a password is recorded:\n{text}");
    let events: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let mut rest = events.iter();
    for (operation, result, user) in [
        ("console.logon", "fail", "carol"),
        ("console.logon", "fail", "alice"),
        ("console.logon", "ok", "bob"),
        ("console.logoff", "ok", "bob"),
        ("console.logon", "ok", "alice"),
        ("share.add", "fail", "alice"),
        ("share.add", "ok", "alice"),
        ("user.add", "ok", "alice"),
        ("file.restore", "ok", "alice"),
        ("acl.set", "ok", "alice"),
        ("version.restore", "fail", "alice"),
        ("version.restore", "fail", "alice"),
        ("version.restore", "ok", "alice"),
        ("version.restore", "ok", "alice"),
        ("close", "ok", "alice"),
        ("reload", "ok", "alice"),
        ("share.remove", "ok", "alice"),
        ("console.logoff", "ok", "alice"),
    ] {
        let is_meant = |event: &&Value| {
            event["operation"] == operation
                && event["result"] == result
                && event["user"] == user
                && event["address"] == "127.0.0.1"
        };
        ensure!(rest.any(|event| is_meant(&event)), "{operation} {result} of {user} is not in its place:\n{text}");
    }
    Ok(())
}
