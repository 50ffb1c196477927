//! The web console as a process: TLS, a console that the server keeps running, and the benchmark that it starts.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::console::{Browser, Console, TEMPLATE, UNIX_PASSWORD, write_service};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, frevo};

pub(super) const CASES: &[Case] = &[
    Case::new("console.tls", tls).frevo_only().needs_root(),
    Case::new("console.kept_by_server", kept_by_server).frevo_only().needs_root(),
    Case::new("console.benchmark", benchmark).frevo_only().needs_root(),
];

/// curl and openssl connect with TLS; a request without it is answered, and wrong files are named.
fn tls(fixture: &mut Fixture) -> Result<()> {
    write_service(fixture.environment.dir())?;
    let server = fixture.environment.start("console-tls", TEMPLATE)?;
    let local = fixture.local("console-tls")?;
    let (certificate, key, other) = (local.join("certificate.pem"), local.join("key.pem"), local.join("other.pem"));
    for (key, certificate) in [(&key, &certificate), (&other, &local.join("unused.pem"))] {
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
        command.args(["-addext", "subjectAltName=DNS:localhost"]).arg("-keyout").arg(key).arg("-out").arg(certificate);
        let done = command.output().context("openssl")?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let [chain, secret] = ["--certificate", "--key"].map(OsStr::new);
    let files = [chain, certificate.as_os_str(), secret, key.as_os_str()];
    let console = Console::start_with(fixture, &server, &files)?;
    let port = console.url.trim_end_matches('/').rsplit(':').next().context("no port")?.to_owned();
    ensure!(console.url.starts_with("https://"), "{}", console.url);
    let curl = |arguments: &[&OsStr], url: &str| -> Result<(bool, String)> {
        let done = Command::new("curl").args(["-sS", "-i"]).args(arguments).arg(url).output().context("curl")?;
        Ok((done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()))
    };
    let url = format!("https://localhost:{port}/");
    let trust = [OsStr::new("--cacert"), certificate.as_os_str()];
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        let (fine, text) = curl(&[trust[0], trust[1], OsStr::new(version)], &url)?;
        ensure!(fine && text.starts_with("HTTP/1.1 200") && text.contains("<title>Frevo console"), "{version}: {text}");
    }
    let (fine, text) = curl(&[], &url)?;
    ensure!(!fine && text.contains("certificate"), "an unknown certificate is accepted: {text}");
    let (fine, text) = curl(&[trust[0], trust[1], "--tls-max".as_ref(), "1.1".as_ref()], &url)?;
    ensure!(!fine, "TLS 1.1 is accepted: {text}");
    let (fine, text) = curl(&[], &format!("http://localhost:{port}/"))?;
    ensure!(fine && text.starts_with("HTTP/1.1 400") && text.contains("https://"), "{text}");
    for (certificate, key, said) in [
        (&certificate, &other, "is not the key of"),
        (&local.join("missing.pem"), &key, "cannot read"),
        (&key, &key, "has no certificate"),
    ] {
        let mut command = Command::new(frevo());
        command.args(["console", "--listen", "127.0.0.1:0", "-c"]).arg(server.conf());
        let done = command.arg(chain).arg(certificate).arg(secret).arg(key).output()?;
        let text = String::from_utf8_lossy(&done.stderr);
        ensure!(!done.status.success() && text.contains(said), "{said}: {text}");
    }
    Ok(())
}

/// The processes of the console of the server with this configuration.
fn consoles(conf: &Path) -> Result<Vec<u32>> {
    let conf = conf.display().to_string();
    let is_one = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.get(1) == Some(&&b"console"[..]) && words.contains(&conf.as_bytes())
    };
    let names = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.filter(is_one).collect())
}

/// The server starts the console, which is started again when it ends, and ends with the server.
fn kept_by_server(fixture: &mut Fixture) -> Result<()> {
    write_service(fixture.environment.dir())?;
    let socket = fixture.environment.dir().join("console-kept.sock");
    let template = TEMPLATE.replace(
        "[own]",
        "\tfrevo:console = on\n\tfrevo:console listen = @DIR@/console-kept.sock\n\
         \tfrevo:console admin groups = crew\n\tfrevo:console pam service = frevo-test\n[own]",
    );
    let mut server = fixture.environment.start("console-kept", &template)?;
    let page = || -> Result<bool> {
        let done = Command::new("curl").args(["-s", "--unix-socket"]).arg(&socket).arg("http://localhost/").output()?;
        Ok(String::from_utf8_lossy(&done.stdout).contains("<title>Frevo console"))
    };
    let wait = |what: &str, is_so: &dyn Fn() -> Result<bool>| -> Result<()> {
        for _ in 0..600 {
            if is_so()? {
                return Ok(());
            }
            sleep(Duration::from_millis(100));
        }
        bail!("not seen: {what}")
    };
    wait("the page", &page)?;
    let first = consoles(server.conf())?;
    ensure!(first.len() == 1, "the consoles are {first:?}");
    let mut command = Command::new("curl");
    command.args(["-s", "--unix-socket"]).arg(&socket).args(["-H", "Origin: http://localhost"]);
    command.args(["-H", "Content-Type: application/json", "http://localhost/api/logon", "-d"]);
    let logon = json!({ "name": ALICE.name, "password": UNIX_PASSWORD }).to_string();
    let answer = command.arg(logon).output()?.stdout;
    ensure!(String::from_utf8_lossy(&answer).contains("token"), "{}", String::from_utf8_lossy(&answer));
    ensure!(Command::new("kill").args(["-KILL", &first[0].to_string()]).status()?.success(), "it cannot be killed");
    wait("another console", &|| Ok(consoles(server.conf())?.first().is_some_and(|pid| *pid != first[0]) && page()?))?;
    fixture.smbclient().server(&server).share("own").run("ls")?.fine()?;
    // The server has no time to say goodbye.
    let conf = server.conf().to_owned();
    server.signal(libc::SIGKILL);
    ensure!(server.wait(Duration::from_secs(10))?.is_some(), "the server does not end");
    wait("the end of the console", &|| Ok(consoles(&conf)?.is_empty()))?;
    ensure!(!socket.exists(), "the socket is left");
    Ok(())
}

/// A benchmark is run from the page, and leaves nothing in the share.
fn benchmark(fixture: &mut Fixture) -> Result<()> {
    write_service(fixture.environment.dir())?;
    let server = fixture.environment.start("console-benchmark", TEMPLATE)?;
    let files = fixture.environment.dir().join("data/files");
    let console = Console::start(fixture, &server)?;
    let mut browser = Browser(fixture.start_script("console.py", &[&console.url])?);
    browser.step(json!(["open"]))?;
    browser.log_on(ALICE.name, UNIX_PASSWORD)?;
    let fill = |password: &str| {
        [
            json!(["click", "Shares"]),
            json!(["click", "Benchmark of own"]),
            json!(["accessible"]),
            json!(["fill", "kind", "small"]),
            json!(["fill", "user", BOB.name]),
            json!(["fill", "password", password]),
            json!(["fill", "port", server.port().to_string()]),
            json!(["click", "Start"]),
            json!(["closed"]),
        ]
    };
    browser.steps(&fill("wrong"))?;
    browser.steps(&[json!(["sees", "It failed"]), json!(["sees", "LOGON_FAILURE"])])?;
    browser.steps(&fill(BOB.password))?;
    browser.steps(&[json!(["sees", "runs for"]), json!(["accessible"])])?;
    browser.steps(&[json!(["sees", "smallfile"]), json!(["sees", "ended"]), json!(["lacks", "It failed"])])?;
    browser.step(json!(["accessible"]))?;
    if let Some(pictures) = env::var_os("FREVO_PICTURES") {
        browser.step(json!(["picture", pictures.to_string_lossy(), "Benchmark"]))?;
    }
    let left: Vec<_> = fs::read_dir(&files)?.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    ensure!(!left.iter().any(|name| name.to_string_lossy().starts_with("frevo-bench")), "{left:?} is left");
    // A directory of a user is not removed.
    fs::create_dir(files.join("frevo-bench-smallfile"))?;
    let mut steps = fill(BOB.password);
    steps[8] = json!(["sees", "which a benchmark would remove"]);
    browser.steps(&steps)?;
    ensure!(files.join("frevo-bench-smallfile").exists(), "a directory of a user was removed");
    let events = fs::read_to_string(fixture.environment.dir().join("console-audit.json"))?;
    ensure!(events.contains("benchmark.start") && !events.contains(BOB.password), "{events}");
    Ok(fs::remove_dir(files.join("frevo-bench-smallfile"))?)
}
