//! The events of the audit: their bytes, a destination that accepts none, and logons as fail2ban finds them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::fixture::Fixture;
use crate::mount::Mount;
use crate::suite::Case;
use test_environment::{ALICE, Disk, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("audit.bytes", bytes).needs_root().frevo_only(),
    Case::new("audit.blocked", blocked).needs_root().frevo_only(),
    Case::new("audit.blocked_sockets", blocked_sockets).needs_root().frevo_only(),
    Case::new("audit.full_disk", full_disk).needs_root().frevo_only(),
    Case::new("audit.fail2ban", fail2ban).needs_root().frevo_only(),
];

/// `@TREE@` is the directory of the shares, and `@DESTINATION@` the parameters of the destination.
const TEMPLATE: &str = "[global]
@TARGET@
	netbios name = BED
	log level = 1 auth_audit:3@@TREE@/auth.log auth_json_audit:3@@TREE@/auth.json
[watched]
	path = @TREE@/watched
	read only = no
	vfs objects = full_audit
	full_audit:success = all
	full_audit:failure = all
	@DESTINATION@
[plain]
	path = @TREE@/watched
	read only = no
";

/// How long events may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(fixture: &Fixture, name: &str, audit: &Path, overflow: &str) -> Result<Server> {
    let file = format!("frevo:audit file = {}\n\tfrevo:audit overflow = {overflow}", audit.display());
    start_with(fixture, name, &file)
}

fn start_with(fixture: &Fixture, name: &str, destination: &str) -> Result<Server> {
    fixture.environment.make_dir(&format!("data/{name}/watched"), &ALICE, 0o755)?;
    let tree = fixture.share(name).display().to_string();
    fixture.environment.start(name, &TEMPLATE.replace("@TREE@", &tree).replace("@DESTINATION@", destination))
}

/// Returns the complete lines of a JSON file.
fn objects(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Waits until there are so many events of this operation, and returns all events.
fn after(path: &Path, operation: &str, count: usize) -> Result<Vec<Value>> {
    let end = Instant::now() + PATIENCE;
    loop {
        let events = objects(path)?;
        let found = events.iter().filter(|event| event["operation"] == operation).count();
        if found >= count {
            return Ok(events);
        }
        ensure!(Instant::now() < end, "{found} of {count} events {operation} in {}", path.display());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the sum of a field of the events of this operation that succeeded.
fn sum(events: &[Value], operation: &str, field: &str) -> u64 {
    let done = events.iter().filter(|event| event["operation"] == operation && event["result"] == "ok");
    done.filter_map(|event| event[field].as_u64()).sum()
}

/// The bytes of the events are those that smbclient has moved.
fn bytes(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let (local, audit) = (fixture.local("audit-bytes")?, fixture.share("audit-bytes").join("audit.json"));
    let server = start(fixture, "audit-bytes", &audit, "drop")?;
    let mut put = 0;
    let mut commands = format!("lcd {}", local.display());
    for (number, length) in [0, 1, 65_536, 1_000_003, 9_000_000].into_iter().enumerate() {
        fs::write(local.join(number.to_string()), vec![b'x'; length])?;
        put += length as u64;
        commands += &format!("; put {number}; get {number} again{number}");
    }
    // A part of a file.
    commands += "; reget 3 1";
    fixture.smbclient().server(&server).share("watched").run(&commands)?.fine()?;
    let got: u64 =
        (0..5).map(|number| Ok(fs::metadata(local.join(format!("again{number}")))?.len())).sum::<Result<u64>>()?;
    let got = got + 1_000_003 - 1;
    let events = after(&audit, "disconnect", 1)?;
    for (operation, field, expected) in [
        ("pwrite_recv", "bytes", put),
        ("pread_recv", "bytes", got),
        ("close", "bytes_written", put),
        ("close", "bytes_read", got),
    ] {
        let found = sum(&events, operation, field);
        ensure!(found == expected, "{operation} has {found} {field}, and smbclient moved {expected}");
    }
    for event in &events {
        let is_complete = event["user"] == "alice"
            && event["address"] == "127.0.0.1"
            && event["share"] == "watched"
            && event["session"].as_str().is_some_and(|session| session.len() == 16);
        ensure!(is_complete, "{event}");
        let has_path = !matches!(event["operation"].as_str(), Some("connect" | "disconnect"));
        ensure!(event["path"].is_string() == has_path, "{event}");
    }
    println!("    {} events of {put} bytes written and {got} bytes read", events.len());
    Ok(())
}

/// A destination that nothing reads delays no request, and gets all events later.
fn blocked(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let (local, audit) = (fixture.local("audit-blocked")?, fixture.share("audit-blocked").join("pipe"));
    fixture.environment.make_dir("data/audit-blocked", &ALICE, 0o755)?;
    let made = Command::new("mkfifo").arg(&audit).status().context("cannot start mkfifo")?;
    ensure!(made.success(), "mkfifo: {made}");
    let server = start(fixture, "audit-blocked", &audit, "drop")?;
    fs::write(local.join("file"), "content")?;
    let commands = format!("lcd {}; {}", local.display(), "put file; get file copy; del file; ".repeat(100));
    for share in ["watched", "plain"] {
        fixture.smbclient().server(&server).share(share).run(&commands)?.fine()?;
    }
    // The pipe is longer than its buffer, so the server is still writing while it is read.
    let mut pipe = File::open(&audit)?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    let ends = |text: &[u8]| text.windows(12).any(|word| word == b"\"disconnect\"") && text.ends_with(b"\n");
    while !ends(&text) {
        let count = pipe.read(&mut buffer)?;
        ensure!(count > 0, "the server has closed the pipe");
        text.extend_from_slice(&buffer[..count]);
    }
    let text = String::from_utf8(text)?;
    let events: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let count = |operation: &str| events.iter().filter(|event| event["operation"] == operation).count();
    ensure!(count("unlinkat") == 100 && count("pwrite_recv") == 100, "{} unlinkat", count("unlinkat"));
    ensure!(events.iter().all(|event| event["lost"].is_null()), "events were lost");
    println!("    {} events waited", events.len());
    Ok(())
}

/// The socket of syslog or the journal that nothing reads delays no request, and gets all events later. Each is in a
/// mount namespace that ends with its thread.
fn blocked_sockets(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    for (name, top, socket, journal) in
        [("audit-syslog", "/dev", "/dev/log", "no"), ("audit-journal", "/run", "/run/systemd/journal/socket", "yes")]
    {
        let work = || on_blocked_socket(fixture, name, Path::new(top), Path::new(socket), journal);
        let done = thread::scope(|scope| scope.spawn(work).join());
        done.map_err(|_| anyhow!("the thread with the socket panicked"))?.context(name)?;
    }
    Ok(())
}

fn on_blocked_socket(fixture: &Fixture, name: &str, top: &Path, socket: &Path, journal: &str) -> Result<()> {
    let parts = Disk::in_memory(&fixture.environment.dir().join("data"), 16 << 20)?;
    for part in ["lower", "upper", "work"] {
        fs::create_dir(parts.point().join(part))?;
    }
    let _below = Mount::bind(top, &parts.point().join("lower"))?;
    let _above = Mount::overlay(&parts.point(), top)?;
    fs::create_dir_all(socket.parent().context("a path with a directory")?)?;
    // The host's own, if it has one. Only this namespace loses it.
    let _ = fs::remove_file(socket);
    let events = UnixDatagram::bind(socket)?;
    events.set_read_timeout(Some(PATIENCE))?;
    let server = start_with(fixture, name, &format!("frevo:audit journal = {journal}"))?;
    let local = fixture.local(name)?;
    fs::write(local.join("file"), "content")?;
    let commands = format!("lcd {}; {}", local.display(), "put file; get file copy; del file; ".repeat(100));
    for share in ["watched", "plain"] {
        fixture.smbclient().server(&server).share(share).run(&commands)?.fine()?;
    }
    let (mut removed, mut count, mut is_end, mut buffer) = (0, 0, false, [0; 65_536]);
    while !is_end {
        let length = events.recv(&mut buffer).with_context(|| format!("after {count} events"))?;
        let text = String::from_utf8_lossy(&buffer[..length]);
        count += 1;
        removed += usize::from(text.contains("|unlinkat|ok|"));
        is_end = text.contains("|disconnect|ok|");
        ensure!(!text.contains("lost"), "{text}");
    }
    ensure!(removed == 100, "{removed} of 100 removed files have an event");
    println!("    {count} events waited for {}", socket.display());
    Ok(())
}

/// A full disk refuses changes once the queue is full, and no event of a change is lost. In a mount namespace that ends
/// with its thread.
fn full_disk(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let done = thread::scope(|scope| scope.spawn(|| on_full_disk(fixture)).join());
    done.map_err(|_| anyhow!("the thread with the file system panicked"))?
}

fn on_full_disk(fixture: &Fixture) -> Result<()> {
    let disk = Disk::in_memory(&fixture.environment.dir().join("data"), 32 << 20)?;
    let (filler, audit) = (disk.point().join("filler"), disk.point().join("audit.json"));
    let server = start(fixture, "audit-full", &audit, "refuse")?;
    let local = fixture.local("audit-full")?;
    let content = b"content";
    // Long names need fewer files to fill the queue.
    const FILES: usize = 2_000;
    for number in 0..FILES {
        fs::write(local.join(format!("{number:04}{}", "n".repeat(200))), content)?;
    }
    let before = format!("lcd {}; put {:04}{} before", local.display(), 0, "n".repeat(200));
    fixture.smbclient().server(&server).share("watched").run(&before)?.fine()?;
    after(&audit, "disconnect", 1)?;
    let mut file = File::create(&filler)?;
    while file.write(&[0; 4096]).is_ok() {}
    drop(file);
    let put = format!("lcd {}; prompt off; mput *", local.display());
    let output = fixture.smbclient().server(&server).share("watched").run(&put)?;
    ensure!(output.text.contains("NT_STATUS_AUDIT_FAILED"), "no request was refused");
    // Other shares answer.
    fixture.smbclient().server(&server).share("plain").run("ls; del before")?.fine()?;
    let watched = fixture.share("audit-full").join("watched");
    let present = fs::read_dir(&watched)?.count();
    ensure!(present > 10 && present < FILES, "{present} of {FILES} files");
    fs::remove_file(&filler)?;
    // The last put that was admitted may have been refused its WRITE. Each file has an event.
    let events = after(&audit, "disconnect", 2)?;
    ensure!(events.iter().all(|event| event["lost"].is_null()), "events were lost");
    let made = |path: &Path| {
        let path = path.to_string_lossy();
        events
            .iter()
            .any(|event| event["operation"] == "create_file" && event["path"] == *path && event["result"] == "ok")
    };
    let mut stored = content.len() as u64;
    for entry in fs::read_dir(&watched)? {
        let entry = entry?;
        ensure!(made(&entry.path()), "{} has no event", entry.path().display());
        stored += entry.metadata()?.len();
    }
    let recorded = sum(&events, "pwrite_recv", "bytes");
    ensure!(recorded == stored, "{recorded} bytes are recorded, and {stored} are stored");
    fixture.smbclient().server(&server).share("watched").run(&before)?.fine()?;
    println!("    {present} of {FILES} files before the first was refused, {} events", events.len());
    Ok(())
}

/// Filters that users of fail2ban have for Samba. Python's `re`, which fail2ban uses, searches with them; fail2ban
/// itself does not run. `<ADDR>` is written out. The last is for the JSON objects.
const FILTERS: &[(&str, &str)] = &[
    (
        "auth.log",
        concat!(
            r"^\s*Auth: .* status \[NT_STATUS_(?:WRONG_PASSWORD|NO_SUCH_USER|ACCOUNT_LOCKED_OUT)\] ",
            r".* remote host \[ipv[46]:<ADDR>:\d+\]",
        ),
    ),
    (
        "auth.log",
        concat!(
            r"^\s+Auth:.*status\s*\[NT_STATUS_(?:WRONG_PASSWORD|NO_SUCH_USER|LOGON_FAILURE)\]",
            r".*remote host \[ipv4:<ADDR>:\d+\]",
        ),
    ),
    (
        "auth.log",
        concat!(
            r"^.*Auth:.*status \[NT_STATUS_(WRONG_PASSWORD|NO_SUCH_USER|LOGON_FAILURE)\]",
            r".*remote host \[ipv4:<ADDR>:[0-9]+\].*$",
        ),
    ),
    ("auth.json", r#".*(NT_STATUS_WRONG_PASSWORD|NT_STATUS_NO_SUCH_USER).*remoteAddress": "ipv4:<ADDR>:"#),
];

/// The date pattern of docs/audit.md with its parts written out, and the year in place of the address. fail2ban takes
/// the date from what it matches.
const DATE: &str = concat!(
    r"\] at \[(?:\w{3}, )?\d\d \w{3} (?P<address>\d{4}) \d\d:\d\d:\d\d(?:\.\d+)?",
    r"(?: (?:UTC|[+-]\d{4}))?\] with \["
);

/// Prints the address that a filter finds in each line of a file.
const FIND: &str = r"import re, sys
filter = re.compile(sys.argv[2].replace('<ADDR>', r'(?P<address>[0-9a-fA-F.:]+)'))
for line in open(sys.argv[1], encoding='utf-8', newline='\n'):
    found = filter.search(line.rstrip('\n'))
    print(found['address'] if found else '-')
";

/// Filters of fail2ban for Samba find the address of a refused logon, whatever the client sends as its name.
fn fail2ban(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let tree = fixture.share("audit-logons");
    let server = start(fixture, "audit-logons", &tree.join("audit.json"), "drop")?;
    let attempts = [
        (ALICE.credentials(), true),
        ("alice%wrong".to_owned(), false),
        ("nobody here%wrong".to_owned(), false),
        ("2020-01-01 00:00:00%wrong".to_owned(), false),
        ("x] at [Wed, 01 Jan 2020 00:00:00 UTC] with [%wrong".to_owned(), false),
        ("x] remote host [ipv4:192.0.2.99:1%wrong".to_owned(), false),
        (r#"x", "remoteAddress": "ipv4:192.0.2.99:%wrong"#.to_owned(), false),
    ];
    for (credentials, succeeds) in &attempts {
        let output = fixture.smbclient().server(&server).share("plain").credentials(credentials).run("ls")?;
        ensure!(output.success == *succeeds, "{credentials}: {}", output.text);
    }
    // The end of the session is an event, too.
    let events = after(&tree.join("auth.json"), "logon", attempts.len())?;
    let logon = |event: &&Value| event["operation"] == "logon";
    let results: Vec<bool> = events.iter().filter(logon).map(|event| event["result"] == "ok").collect();
    ensure!(results == attempts.each_ref().map(|(_, succeeds)| *succeeds), "{events:#?}");
    ensure!(
        events.iter().any(|event| event["operation"] == "logoff" && event["user"] == "alice"),
        "no end: {events:#?}"
    );
    let causes: Vec<&str> = events.iter().filter(logon).filter_map(|event| event["error"].as_str()).collect();
    let expected = [&["NT_STATUS_WRONG_PASSWORD"][..], &["NT_STATUS_NO_SUCH_USER"; 5]].concat();
    ensure!(causes == expected, "{causes:?}");
    let find = |file: &str, filter: &str| -> Result<Vec<String>> {
        let output = Command::new(&fixture.python).args(["-c", FIND]).arg(tree.join(file)).arg(filter).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter(|line| *line != "-").map(str::to_owned).collect())
    };
    let refused = attempts.iter().filter(|(_, succeeds)| !succeeds).count();
    for (file, filter) in FILTERS {
        let found = find(file, filter)?;
        ensure!(found == vec!["127.0.0.1"; refused], "{filter} finds {found:?}");
    }
    // Each line has its own date, whatever the name is.
    let (lines, years) = (fs::read_to_string(tree.join("auth.log"))?.lines().count(), find("auth.log", DATE)?);
    ensure!(years.len() == lines && !years.contains(&"2020".to_owned()), "{lines} lines with the years {years:?}");
    println!("    {} filters find {refused} of {} logons", FILTERS.len(), attempts.len());
    Ok(())
}
