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

pub(super) const CASES: &[Case] = &[
    Case::new("metrics.read_in_three_ways", read_in_three_ways).frevo_only(),
    Case::new("metrics.prometheus", prometheus).frevo_only(),
];

/// The rules for alerts, which must be valid and refer to metrics that exist.
const RULES: &str = include_str!("../../../../packaging/prometheus/frevo-alerts.yml");
/// How often the answer of Prometheus is asked for, once in a second.
const QUESTIONS: u32 = 120;

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

/// Debian's Prometheus reads the metrics and the rules, and `promtool` finds nothing wrong with either.
fn prometheus(fixture: &mut Fixture) -> Result<()> {
    let (port, own) = (ReservedPort::any()?, ReservedPort::any()?);
    let (number, own) = (port.number(), own.number());
    let template = TEMPLATE.replace("[global]\n", &format!("[global]\n\tfrevo:metrics port = {number}\n"));
    let server = fixture.environment.start("prometheus", &template)?;
    let local = fixture.local("prometheus")?;
    fs::write(local.join("sent"), vec![b'x'; 100_000])?;
    fixture
        .smbclient()
        .server(&server)
        .run(&format!("lcd {}; put sent prometheus; del prometheus", local.display()))?;

    let (_, text) = get(TcpStream::connect(("127.0.0.1", number))?, &format!("127.0.0.1:{number}"))?;
    fs::write(local.join("metrics"), &text)?;
    fs::write(local.join("rules.yml"), RULES)?;
    let configuration = format!(
        "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: [rules.yml]\nscrape_configs:\n\
         - job_name: frevo\n  static_configs:\n  - targets: ['127.0.0.1:{number}']\n"
    );
    fs::write(local.join("prometheus.yml"), configuration)?;
    let tool = |arguments: &[&str]| {
        let mut command = Command::new("promtool");
        command.args(arguments).current_dir(&local).stdin(fs::File::open(local.join("metrics"))?);
        let output = command.output().context("cannot start promtool")?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(output.status.success(), "promtool {arguments:?}: {said}");
        anyhow::Ok(said)
    };
    let said = tool(&["check", "metrics"])?;
    ensure!(said.is_empty(), "promtool check metrics: {said}");
    tool(&["check", "rules", "rules.yml"])?;
    tool(&["check", "config", "prometheus.yml"])?;

    let url = format!("http://127.0.0.1:{own}");
    let mut process = Command::new("prometheus")
        .arg(format!("--web.listen-address=127.0.0.1:{own}"))
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=database", "--log.level=warn"])
        .current_dir(&local)
        .spawn()
        .context("cannot start prometheus")?;
    let ask = |question: &str| -> Result<String> {
        let mut last = String::new();
        for _ in 0..QUESTIONS {
            last = tool(&["query", "instant", &url, question]).unwrap_or_else(|error| error.to_string());
            if last.contains(" => ") {
                return Ok(last);
            }
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        anyhow::bail!("Prometheus has no answer to {question:?}: {last}")
    };
    let answers = (|| {
        ask("up{job=\"frevo\"} == 1")?;
        ask("frevo_share_written_bytes_total{share=\"files\"} >= 100000")?;
        ask("frevo_user_requests_total{user=\"alice\"} >= 8")?;
        ask("frevo_file_system_threads{share=\"files\"} >= 0")?;
        // Every metric in the rules exists.
        for name in metrics_of(RULES) {
            let name = name.trim_end_matches("_bucket");
            ensure!(text.contains(&format!("# TYPE {name} ")), "the rules have {name}, which is not a metric");
        }
        Ok(())
    })();
    process.kill().ok();
    process.wait()?;
    answers?;
    drop(server);
    fs::remove_dir_all(local)?;
    Ok(())
}

/// Returns the names of the server's own metrics in a text.
fn metrics_of(text: &str) -> std::collections::BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("frevo_") || word.starts_with("process_")).collect()
}

fn state_directory(conf: &std::path::Path) -> Result<String> {
    let text = fs::read_to_string(conf)?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("state directory = "));
    Ok(line.context("the configuration has no state directory")?.to_owned())
}
