//! Print shares beside a real CUPS with a configuration of its own, and with the commands of a recording script.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, Person, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("printing.cups", cups).needs_root().frevo_only(),
    Case::new("printing.cups_stopped", cups_stopped).needs_root().frevo_only(),
    Case::new("printing.cups_stops_meanwhile", cups_stops_meanwhile).needs_root().frevo_only(),
    Case::new("printing.server_stops", server_stops).needs_root().frevo_only(),
    Case::new("printing.cached_lists", cached_lists).needs_root().frevo_only(),
    Case::new("printing.commands", commands).needs_root().frevo_only(),
    Case::new("printing.spoolss", spoolss).needs_root().frevo_only(),
    Case::new("printing.spoolss_commands", spoolss_commands).needs_root().frevo_only(),
];

/// How long a program may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest time in which a client must learn that CUPS is stopped, on a busy machine.
const SOON: Duration = Duration::from_secs(10);
/// A name that a shell would not leave alone.
const WILD: &str = "; touch wild $(id) |";

/// The configuration of CUPS: a queue prints to a file, and all requests are logged.
const CUPSD: &str = "LogLevel warn
AccessLogLevel all
MaxLogSize 0
DirtyCleanInterval 0
Listen @DIR@/cups.sock
Browsing No
WebInterface No
<Location />
  Order allow,deny
  Allow all
</Location>
<Policy default>
  <Limit Cancel-Job Hold-Job Release-Job>
    Require user @OWNER @SYSTEM
    Order deny,allow
  </Limit>
  <Limit Pause-Printer Resume-Printer CUPS-Add-Modify-Printer CUPS-Delete-Printer>
    AuthType Default
    Require user @SYSTEM
    Order deny,allow
  </Limit>
  <Limit All>
    Order deny,allow
  </Limit>
</Policy>
";
const CUPS_FILES: &str = "SystemGroup root
FileDevice Yes
ServerRoot @DIR@
CacheDir @DIR@/cache
StateDir @DIR@/state
RequestRoot @DIR@/jobs
TempDir @DIR@/jobs/tmp
AccessLog @DIR@/access.log
ErrorLog @DIR@/error.log
PageLog @DIR@/page.log
";

/// A CUPS with a directory of its own, which is stopped when the value is dropped.
pub(super) struct Cups {
    dir: PathBuf,
    child: Option<Child>,
}

impl Drop for Cups {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Cups {
    /// Starts CUPS with the queue `laser`, which keeps jobs.
    pub(super) fn start(fixture: &Fixture, name: &str) -> Result<Cups> {
        let dir = fixture.environment.dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        for part in ["cache", "state", "jobs/tmp", "ppd", "ssl"] {
            fs::create_dir_all(dir.join(part))?;
        }
        // Its filters and the user of a job reach it.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
        for (file, text) in [("cupsd.conf", CUPSD), ("cups-files.conf", CUPS_FILES)] {
            fs::write(dir.join(file), text.replace("@DIR@", &dir.display().to_string()))?;
        }
        let mut cups = Cups { dir, child: None };
        cups.run()?;
        cups.program("lpadmin", &["-p", "laser", "-D", "The laser", "-v", "file:///dev/null", "-E"])?;
        cups.program("cupsdisable", &["laser"])?;
        Ok(cups)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("cups.sock")
    }

    /// Starts the program and waits until it answers.
    fn run(&mut self) -> Result<()> {
        let mut command = Command::new("/usr/sbin/cupsd");
        command.arg("-f").arg("-c").arg(self.dir.join("cupsd.conf")).arg("-s").arg(self.dir.join("cups-files.conf"));
        let log = fs::File::create(self.dir.join("output.log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().context("cannot start cupsd")?);
        until("CUPS starts", || Ok(self.program("lpstat", &["-r"]).is_ok_and(|said| said.contains("is running"))))
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It writes the state of jobs when it is asked to end.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let since = Instant::now();
            while since.elapsed() < PATIENCE && matches!(child.try_wait(), Ok(None)) {
                sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Runs a program of CUPS.
    pub(super) fn program(&self, name: &str, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(name);
        command.args(arguments).env("CUPS_SERVER", self.socket()).env("LC_ALL", "C").stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot start {name}"))?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(output.status.success(), "{name} {arguments:?}: {text}");
        Ok(text)
    }

    /// Returns the job with this number as `lpstat` lists it, and as CUPS has stored it, which has the title.
    fn job(&self, number: u32) -> Result<(String, String)> {
        let name = format!("laser-{number}");
        let list = self.program("lpstat", &["-o", "laser"])?;
        let line = list.lines().find(|line| line.split_whitespace().next() == Some(&name));
        let line = line.with_context(|| format!("{name} is not in:\n{list}"))?.to_owned();
        let file = self.dir.join(format!("jobs/c{number:05}"));
        until("CUPS stores a job", || Ok(file.exists()))?;
        Ok((line, String::from_utf8_lossy(&fs::read(file)?).into_owned()))
    }

    /// Returns the number of jobs in the queue.
    fn job_count(&self) -> Result<usize> {
        Ok(self.program("lpstat", &["-o", "laser"])?.lines().count())
    }

    /// Returns the number of requests with this operation.
    fn requests(&self, operation: &str) -> Result<usize> {
        let log = fs::read_to_string(self.dir.join("access.log"))?;
        Ok(log.lines().filter(|line| line.contains(&format!(" {operation} "))).count())
    }
}

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let since = Instant::now();
    while !holds()? {
        if since.elapsed() > PATIENCE {
            bail!("{what}: not after {} seconds", PATIENCE.as_secs());
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Starts a server with the parameters of `[global]`, and the share `ink` for the queue `laser`.
fn serve(fixture: &Fixture, name: &str, global: &str, share: &str) -> Result<(Server, PathBuf)> {
    let spool = fixture.environment.make_dir(&format!("data/{name}"), &ALICE, 0o1777)?;
    let template = format!(
        "[global]\n@TARGET@\n{global}\n[printers]\npath = {0}\n[ink]\nprintable = yes\nprinter name = laser\n\
         path = {0}\n{share}\n",
        spool.display()
    );
    Ok((fixture.environment.start(name, &template)?, spool))
}

/// Runs commands of smbclient, one a line, so that a semicolon is part of a name.
fn client(fixture: &Fixture, server: &Server, person: &Person, share: &str, commands: &str) -> Result<String> {
    let mut command = fixture.program("smbclient", server, &person.credentials());
    command.arg(format!("//127.0.0.1/{share}")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start smbclient")?;
    child.stdin.take().context("a pipe")?.write_all(commands.as_bytes())?;
    let output = child.wait_with_output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// As [`client`], and fails if a command does.
fn print(fixture: &Fixture, server: &Server, person: &Person, share: &str, commands: &str) -> Result<()> {
    let text = client(fixture, server, person, share, commands)?;
    ensure!(!text.contains("NT_STATUS_"), "{text}\n{}", server.log_tail());
    Ok(())
}

fn is_empty(spool: &Path) -> Result<()> {
    let left: Vec<_> = fs::read_dir(spool)?.flatten().map(|entry| entry.file_name()).collect();
    ensure!(left.is_empty(), "files are left in the spool directory: {left:?}");
    Ok(())
}

/// Writes 50 MB that are not the same everywhere.
fn large(path: &Path) -> Result<Vec<u8>> {
    let data: Vec<u8> =
        (0..12_500_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(path, &data)?;
    Ok(data)
}

fn cups(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("printing")?;
    let cups = Cups::start(fixture, "cups")?;
    let global = format!("cups server = {}", cups.socket().display());
    let (server, spool) = serve(fixture, "printing", &global, "")?;
    let data = large(&local.join("large"))?;
    fs::write(local.join("small"), "a small job\n")?;
    let small = local.join("small");
    let commands = format!("put {} \"{WILD}\"\nlcd {}\nprint small\n", local.join("large").display(), local.display());
    print(fixture, &server, &ALICE, "ink", &commands)?;
    // The queue itself is a share, too, by the section [printers].
    print(fixture, &server, &BOB, "laser", &format!("put {} memo\n", small.display()))?;
    let listed = fixture.smbclient().server(&server).list_shares()?.fine()?;
    for line in ["ink             Printer", "laser           Printer   The laser"] {
        ensure!(listed.contains(line), "{line:?} is not in:\n{listed}");
    }
    for (number, owner, title, size) in
        [(1, "alice", WILD, 50_000_000), (2, "alice", "small", 12), (3, "bob", "memo", 12)]
    {
        let (line, stored) = cups.job(number)?;
        // CUPS shows whole KiB.
        let size = (u64::div_ceil(size, 1024) * 1024).to_string();
        let words: Vec<&str> = line.split_whitespace().collect();
        ensure!(words[1..3] == [owner, &size], "{title:?} of {owner} with {size} bytes: {line}");
        // The value of an attribute has its length in front.
        let attribute = format!("job-name\0{}{title}", char::from(title.len() as u8));
        ensure!(stored.contains(&attribute), "{title:?} is not the name of: {stored:?}");
    }
    ensure!(cups.job_count()? == 3, "{} jobs", cups.job_count()?);
    ensure!(fs::read(cups.dir.join("jobs/d00001-001"))? == data, "the large job has other data in CUPS");
    ensure!(!local.join("wild").exists() && !spool.join("wild").exists(), "a part of a title was executed");
    is_empty(&spool)?;
    let text = client(fixture, &server, &ALICE, "nothing", "ls\n")?;
    ensure!(text.contains("NT_STATUS_BAD_NETWORK_NAME"), "{text}");
    Ok(())
}

fn cups_stopped(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("printing-stopped")?;
    let mut cups = Cups::start(fixture, "cups-stopped")?;
    let global = format!("cups server = {}\nlpq cache time = 0", cups.socket().display());
    let (server, spool) = serve(fixture, "printing-stopped", &global, "")?;
    let file = local.join("file");
    fs::write(&file, "acknowledged\n")?;
    print(fixture, &server, &ALICE, "ink", &format!("put {} first\n", file.display()))?;
    cups.stop();
    let since = Instant::now();
    let text = client(fixture, &server, &ALICE, "ink", &format!("put {} lost\n", file.display()))?;
    ensure!(text.contains("NT_STATUS_DEVICE_NOT_READY"), "{text}");
    ensure!(since.elapsed() < SOON, "the client waited {:?}", since.elapsed());
    let log = server.log_tail();
    ensure!(log.contains("systemctl start cups"), "the log does not name the remedy:\n{log}");
    is_empty(&spool)?;
    cups.run()?;
    print(fixture, &server, &ALICE, "ink", &format!("put {} second\n", file.display()))?;
    for (number, title) in [(1, "first"), (2, "second")] {
        ensure!(cups.job(number)?.1.contains(title), "the job {title} is lost");
    }
    ensure!(cups.job_count()? == 2, "{} jobs instead of those that were acknowledged", cups.job_count()?);
    // A CUPS that hangs is given up.
    let child = cups.child.as_ref().context("it runs")?.id().to_string();
    ensure!(Command::new("kill").args(["-STOP", &child]).status()?.success(), "CUPS has ended");
    let since = Instant::now();
    let text = client(fixture, &server, &ALICE, "ink", &format!("put {} lost\n", file.display()));
    let waited = since.elapsed();
    ensure!(Command::new("kill").args(["-CONT", &child]).status()?.success(), "CUPS has ended");
    let text = text?;
    ensure!(text.contains("NT_STATUS_DEVICE_NOT_READY") && waited < SOON, "after {waited:?}: {text}");
    is_empty(&spool)
}

/// Prints on `ink` what is written to the standard input of smbclient, and does something before the end of the data.
fn held(fixture: &Fixture, server: &Server, spool: &Path, meanwhile: impl FnOnce() -> Result<()>) -> Result<String> {
    let mut command = fixture.program("smbclient", server, &ALICE.credentials());
    command.args(["//127.0.0.1/ink", "-c", "put - held"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("smbclient")?;
    let mut data = child.stdin.take().context("a pipe")?;
    data.write_all(b"half of a job\n")?;
    until("a job is spooled", || Ok(fs::read_dir(spool)?.count() == 1))?;
    let done = meanwhile();
    drop(data);
    let since = Instant::now();
    let output = child.wait_with_output()?;
    done?;
    ensure!(since.elapsed() < SOON, "the client waited {:?}", since.elapsed());
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// CUPS stops, or hangs, between CREATE and CLOSE.
fn cups_stops_meanwhile(fixture: &mut Fixture) -> Result<()> {
    let empty = fixture.local("printing-meanwhile")?.join("empty");
    fs::write(&empty, "")?;
    let empty = format!("put {} x\n", empty.display());
    let mut cups = Cups::start(fixture, "cups-meanwhile")?;
    let global = format!("cups server = {}\ncups connection timeout = 3", cups.socket().display());
    let (server, spool) = serve(fixture, "printing-meanwhile", &global, "")?;
    let text = held(fixture, &server, &spool, || Ok(()))?;
    ensure!(!text.contains("NT_STATUS_"), "{text}\n{}", server.log_tail());
    print(fixture, &server, &ALICE, "laser", &empty)?;
    let text = held(fixture, &server, &spool, || {
        cups.stop();
        Ok(())
    })?;
    ensure!(text.contains("NT_STATUS_DEVICE_NOT_READY"), "{text}");
    is_empty(&spool)?;
    // The queue is still known as a share, although CUPS does not answer.
    let text = client(fixture, &server, &ALICE, "laser", &empty)?;
    ensure!(text.contains("NT_STATUS_DEVICE_NOT_READY"), "{text}");
    cups.run()?;
    // An error is kept for two seconds.
    until("CUPS is noticed", || {
        Ok(!client(fixture, &server, &ALICE, "laser", &empty)?.contains("NT_STATUS_DEVICE_NOT_READY"))
    })?;
    let child = cups.child.as_ref().context("it runs")?.id().to_string();
    let signal = |name: &str| Command::new("kill").args([name, &child]).status().context("kill").map(drop);
    let text = held(fixture, &server, &spool, || signal("-STOP"));
    signal("-CONT")?;
    let text = text?;
    ensure!(text.contains("NT_STATUS_DEVICE_NOT_READY"), "{text}");
    is_empty(&spool)?;
    // The job may have arrived, because CUPS got it before it could be told that nobody waits any more.
    cups.job(1)?;
    let count = cups.job_count()?;
    ensure!((1..=2).contains(&count), "{count} jobs");
    Ok(())
}

/// A server that stops waits for a job that is being handed over, and removes the files of others.
fn server_stops(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("printing-stops")?;
    fs::set_permissions(&local, fs::Permissions::from_mode(0o777))?;
    let script = local.join("print.sh");
    fs::write(&script, "#!/bin/sh\necho $$ >\"$2\"\nexec sleep 50\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let begun = local.join("begun");
    let share = format!("printing = bsd\nprint command = {} %s {}\nlpq command =\n", script.display(), begun.display());
    let (server, spool) = serve(fixture, "printing-stops", "", &share)?;
    let mut command = fixture.program("smbclient", &server, &ALICE.credentials());
    command.args(["//127.0.0.1/ink", "-c", &format!("put {} job", script.display())]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    until("the job is handed over", || Ok(fs::read_to_string(&begun).is_ok_and(|text| text.ends_with('\n'))))?;
    let process = format!("/proc/{}", fs::read_to_string(&begun)?.trim());
    ensure!(Path::new(&process).exists(), "the command has ended");
    server.signal(libc::SIGTERM);
    until("the command is killed", || Ok(!Path::new(&process).exists()))?;
    let _ = child.kill();
    child.wait()?;
    is_empty(&spool)
}

fn cached_lists(fixture: &mut Fixture) -> Result<()> {
    const JOBS: usize = 10;
    let local = fixture.local("printing-cached")?;
    let cups = Cups::start(fixture, "cups-cached")?;
    let file = local.join("file");
    fs::write(&file, "a job\n")?;
    let commands = format!("put {} x\n", file.display()).repeat(JOBS);
    let count = |time: u32, expected: usize| {
        let global = format!("cups server = {}\nlpq cache time = {time}", cups.socket().display());
        let (server, spool) = serve(fixture, &format!("printing-cached-{time}"), &global, "")?;
        let before = cups.requests("Get-Jobs")?;
        print(fixture, &server, &ALICE, "ink", &commands)?;
        let count = cups.requests("Get-Jobs")? - before;
        ensure!(count == expected, "{count} requests for {JOBS} jobs with `lpq cache time = {time}`");
        is_empty(&spool)
    };
    count(600, 1)?;
    count(0, JOBS)?;
    ensure!(cups.job_count()? == 2 * JOBS, "{} jobs", cups.job_count()?);
    Ok(())
}

fn commands(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("printing-commands")?;
    fs::set_permissions(&local, fs::Permissions::from_mode(0o777))?;
    let script = local.join("print.sh");
    fs::write(
        &script,
        "#!/bin/sh\ndir=$(dirname \"$0\")\nfor it in \"$@\"; do printf '<%s>\\n' \"$it\"; done >>\"$dir/arguments\"\n\
         id -u >>\"$dir/users\"\ncat \"$1\" >>\"$dir/data\"\ntest \"$3\" != broken\n",
    )?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let share = format!("printing = bsd\nprint command = {} %s %p %J 'for %u'\nlpq command =\n", script.display());
    let (server, spool) = serve(fixture, "printing-commands", "", &share)?;
    let file = local.join("file");
    fs::write(&file, "data of a job\n")?;
    print(fixture, &server, &ALICE, "ink", &format!("put {} \"{WILD}\"\n", file.display()))?;
    let said = fs::read_to_string(local.join("arguments"))?;
    let lines: Vec<&str> = said.lines().collect();
    let start = format!("<{}/smbprn.", spool.display());
    ensure!(lines.len() == 4 && lines[0].starts_with(&start), "{said}");
    ensure!(lines[1..] == ["<laser>", &format!("<{WILD}>"), "<for alice>"], "{said}");
    ensure!(fs::read_to_string(local.join("data"))? == "data of a job\n", "the command got other data");
    let user = fs::read_to_string(local.join("users"))?;
    ensure!(user.trim() == ALICE.id.to_string(), "the command ran as the uid {user}");
    ensure!(!local.join("wild").exists() && !spool.join("wild").exists(), "a part of a title was executed");
    let text = client(fixture, &server, &ALICE, "ink", &format!("put {} broken\n", file.display()))?;
    ensure!(text.contains("NT_STATUS_UNEXPECTED_IO_ERROR"), "{text}");
    ensure!(server.log_tail().contains("ended with status 1"), "{}", server.log_tail());
    is_empty(&spool)
}

/// Runs a command of rpcclient.
fn rpcclient(fixture: &Fixture, server: &Server, person: &Person, what: &str) -> Result<String> {
    let mut command = fixture.program("rpcclient", server, &person.credentials());
    let output = command.args(["127.0.0.1", "-c", what]).stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Printers and jobs through the pipe `spoolss`: users change their own jobs, and alice, an administrator, all.
fn spoolss(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("printing-spoolss")?;
    let cups = Cups::start(fixture, "cups-spoolss")?;
    let global = format!("cups server = {}\nadmin users = alice\nlpq cache time = 600", cups.socket().display());
    let secret = "comment = for all\n[secret]\nprintable = yes\nprinter name = laser\nvalid users = alice\n";
    let (server, spool) = serve(fixture, "printing-spoolss", &global, secret)?;
    fs::write(local.join("small"), "a small job\n")?;
    let put = |person: &Person, title: &str| {
        let commands = format!("put {} {title}\n", local.join("small").display());
        print(fixture, &server, person, "ink", &commands)
    };
    let said = |person: &Person, what: &str, expected: &[&str], absent: &[&str]| {
        let text = rpcclient(fixture, &server, person, what)?;
        let is_fine = expected.iter().all(|it| text.contains(it)) && !absent.iter().any(|it| text.contains(it));
        ensure!(is_fine, "{what} of {}: not {expected:?} without {absent:?}:\n{text}", person.name);
        Ok(())
    };
    let laser = r"name:[\\127.0.0.1\laser]";
    let secret = r"name:[\\127.0.0.1\secret]";
    said(&ALICE, "enumprinters 1", &[laser, secret, r"name:[\\127.0.0.1\ink]", "comment:[for all]"], &[])?;
    said(&BOB, "enumprinters 1", &[laser], &[secret])?;
    said(&BOB, "enumprinters 2", &["sharename:[laser]", "comment:[The laser]", "cjobs:[0x0]"], &["[secret]"])?;
    said(&ALICE, "openprinter_ex ink", &["opened successfully"], &[])?;
    said(&BOB, "openprinter_ex ink", &["WERR_ACCESS_DENIED"], &[])?;
    said(&BOB, "openprinter_ex secret", &["WERR_ACCESS_DENIED"], &[])?;
    said(&BOB, "getprinter secret 1", &["WERR_ACCESS_DENIED"], &[])?;
    let mut command = fixture.program("net", &server, &BOB.credentials());
    let listed = command.args(["rpc", "printer", "list", "-S", "127.0.0.1"]).stdin(Stdio::null()).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    ensure!(listed.contains("laser, shared as: laser"), "{listed}");
    put(&ALICE, "first")?;
    put(&BOB, "second")?;
    // The list is cached, but known to have changed.
    said(&BOB, "enumjobs laser", &["jobid[1]: alice first", "jobid[2]: bob second"], &[])?;
    said(&BOB, "getjob ink 2 2", &["jobid[2]: bob second", "1024 bytes"], &[])?;
    said(&BOB, "setjob ink 1 cancel", &["WERR_ACCESS_DENIED"], &[])?;
    said(&BOB, "setjob ink 99 cancel", &["WERR_INVALID_PARAMETER"], &[])?;
    said(&BOB, "setjob ink 2 pause", &[], &["WERR"])?;
    ensure!(cups.program("lpstat", &["-l", "-o", "laser"])?.contains("job-hold-until-specified"), "it is not held");
    said(&BOB, "setjob ink 2 resume", &[], &["WERR"])?;
    said(&BOB, "setjob ink 2 restart", &[], &["WERR"])?;
    said(&BOB, "setjob ink 2 cancel", &[], &["WERR"])?;
    said(&BOB, "enumjobs ink", &["jobid[1]"], &["jobid[2]"])?;
    ensure!(cups.job_count()? == 1, "{} jobs", cups.job_count()?);
    put(&BOB, "third")?;
    said(&ALICE, "setjob ink 3 cancel", &[], &["WERR"])?;
    ensure!(cups.job_count()? == 1, "{} jobs", cups.job_count()?);
    said(&ALICE, "getdata laser ChangeID", &["REG_DWORD"], &[])?;
    said(&ALICE, "getdriver laser", &["WERR_UNKNOWN_PRINTER_DRIVER"], &[])?;
    said(&ALICE, "enumforms laser", &["A4", "width: 210000, length: 297000"], &[])?;
    is_empty(&spool)
}

/// The commands of a queue that is not one of CUPS, and `max reported print jobs`.
fn spoolss_commands(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("printing-spoolss-commands")?;
    fs::set_permissions(&local, fs::Permissions::from_mode(0o777))?;
    let script = local.join("queue.sh");
    fs::write(
        &script,
        "#!/bin/sh\nif [ \"$1\" = list ]; then\necho 'Rank Owner Job Files Total Size'\n\
         echo 'active alice 7 one.txt 100 bytes'\necho '1st bob 8 two.txt 200 bytes'\n\
         echo '2nd bob 9 three.txt 300 bytes'\nelse\necho \"$@\" >>\"$(dirname \"$0\")/done\"\nfi\n",
    )?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let of = |what: &str, variables: &str| format!("{what} = {} {variables}\n", script.display());
    let share = [
        "printing = bsd\nmax reported print jobs = 2\n".to_owned(),
        of("print command", "print %s"),
        of("lpq command", "list %p"),
        of("lprm command", "delete %p %j"),
        of("lppause command", "hold %p %j"),
    ]
    .concat();
    let (server, _) = serve(fixture, "printing-spoolss-commands", "", &share)?;
    let jobs = rpcclient(fixture, &server, &BOB, "enumjobs ink 2")?;
    for line in ["1: jobid[7]: alice one.txt  0/0 pages, 100 bytes", "2: jobid[8]: bob two.txt  0/0 pages, 200 bytes"] {
        ensure!(jobs.contains(line), "{line:?} is not in:\n{jobs}");
    }
    ensure!(!jobs.contains("jobid[9]"), "`max reported print jobs` is not in force:\n{jobs}");
    for (what, expected) in
        [("8 pause", ""), ("9 cancel", ""), ("7 cancel", "ACCESS_DENIED"), ("8 resume", "GEN_FAILURE")]
    {
        let text = rpcclient(fixture, &server, &BOB, &format!("setjob ink {what}"))?;
        ensure!(text.contains(expected) && text.contains("WERR") != expected.is_empty(), "setjob {what}: {text}");
    }
    let done = fs::read_to_string(local.join("done"))?;
    ensure!(done == "hold laser 8\ndelete laser 9\n", "{done}");
    Ok(())
}
