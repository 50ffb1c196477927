//! Metrics are read over HTTP, from the UNIX socket and with `frevo status`, and are what clients have done.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fixture::{Fixture, TEMPLATE};
use crate::suite::Case;
use test_environment::{ReservedPort, frevo};

pub(super) const CASES: &[Case] = &[Case::new("metrics.read_in_three_ways", read_in_three_ways).frevo_only()];

/// Sends a request for the metrics, and returns the response's head and body.
fn get(mut stream: impl Read + Write, host: &str) -> Result<(String, String)> {
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response).context("the response is not text")?;
    let (head, body) = response.split_once("\r\n\r\n").context("the response has no end of its head")?;
    Ok((head.to_owned(), body.to_owned()))
}

fn read_in_three_ways(fixture: &mut Fixture) -> Result<()> {
    let port = ReservedPort::any()?;
    let number = port.number();
    let template = TEMPLATE.replace("[global]\n", &format!("[global]\n\tfrevo:metrics port = {number}\n"));
    let server = fixture.environment.start("metrics", &template)?;
    let local = fixture.local("metrics")?;
    fs::write(local.join("sent"), vec![b'x'; 300_000])?;
    let commands = format!("lcd {}; put sent metrics; get metrics back; del metrics; ls missing", local.display());
    fixture.smbclient().server(&server).run(&commands)?;
    fixture
        .smbclient()
        .server(&server)
        .credentials("alice%wrong")
        .run("ls")?
        .refused_with("NT_STATUS_LOGON_FAILURE")?;

    let (head, by_port) = get(TcpStream::connect(("127.0.0.1", number))?, &format!("127.0.0.1:{number}"))?;
    ensure!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    ensure!(head.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
    let (refused, _) = get(TcpStream::connect(("127.0.0.1", number))?, "attacker.example")?;
    ensure!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let state = state_directory(server.conf())?;
    let (head, by_socket) = get(UnixStream::connect(format!("{state}/metrics.sock"))?, "localhost")?;
    ensure!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let mut status = Command::new(frevo());
    status.args(["status", "--prometheus", "-c"]).arg(server.conf());
    let output = fixture.environment.people().enter(&mut status).output().context("cannot start frevo")?;
    let by_command = String::from_utf8(output.stdout)?;

    let wanted = [
        "frevo_requests_total{command=CREATE}>=3",
        "frevo_requests_failed_total{command=SESSION_SETUP}>=1",
        "frevo_request_duration_seconds_count{command=WRITE}>=1",
        "frevo_share_requests_total{share=files}>=8",
        "frevo_share_read_bytes_total{share=files}>=300000",
        "frevo_share_written_bytes_total{share=files}>=300000",
        "frevo_logons_total{kind=user}>=1",
        "frevo_logons_refused_total{status=STATUS_LOGON_FAILURE}>=1",
        "frevo_connections_total>=2",
        "frevo_memory_limit_bytes>=1",
        "process_resident_memory_bytes>=1000000",
    ];
    for (way, text) in [("port", by_port), ("socket", by_socket), ("command", by_command)] {
        let mut script = fixture.script_command("metrics.py", &wanted).stdin(Stdio::piped()).spawn()?;
        script.stdin.take().context("no standard input")?.write_all(text.as_bytes())?;
        ensure!(script.wait()?.success(), "the metrics by {way} are wrong:\n{text}");
    }
    drop(server);
    ensure!(!fs::exists(format!("{state}/metrics.sock"))?, "the socket is left behind");
    fs::remove_dir_all(local)?;
    Ok(())
}

fn state_directory(conf: &std::path::Path) -> Result<String> {
    let text = fs::read_to_string(conf)?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("state directory = "));
    Ok(line.context("the configuration has no state directory")?.to_owned())
}
