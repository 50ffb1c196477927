//! Health: a file system that hangs or is full is reported, and other shares are served.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::mount::Mount;
use crate::python::Script;
use crate::suite::Case;
use test_environment::{ALICE, BOB, Server, frevo};

pub(super) const CASES: &[Case] = &[
    Case::new("health.hung_file_system", hung_file_system).needs_root().frevo_only(),
    Case::new("health.hung_home", hung_home).needs_root().frevo_only(),
    Case::new("health.full_home", full_home).needs_root().frevo_only(),
    Case::new("health.full_file_system", full_file_system).needs_root().frevo_only(),
];

/// How often the health is asked, and how many times at most.
const PAUSE: Duration = Duration::from_millis(200);
const TRIES: u32 = 150;

const TEMPLATE: &str = "[global]\n@TARGET@\n[files]\n\tpath = @DIR@/data/files\n\tread only = no\n\
                        [other]\n\tpath = @DIR@/OTHER\n\tread only = no\n";

const HOMES: &str = "[global]\n@TARGET@\n\tread only = no\n[files]\n\tpath = @DIR@/data/files\n\
                     [homes]\n\tpath = @DIR@/HOMES/%S\n[own]\n\tpath = @DIR@/HOMES/%U\n";

/// Returns whether `frevo status` succeeds with `probe`, and its answer in JSON.
fn ask(fixture: &Fixture, server: &Server, probe: &str) -> Result<(bool, String)> {
    let mut status = Command::new(frevo());
    status.args(["status", probe, "--json", "-c"]).arg(server.conf());
    let output = fixture.environment.people().enter(&mut status).output().context("cannot start frevo")?;
    Ok((output.status.success(), String::from_utf8(output.stdout)?))
}

/// Waits until the health has or does not have the fault.
fn wait_for(fixture: &Fixture, server: &Server, fault: &str, present: bool) -> Result<String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        // On a busy machine a loop may get no processor for a while.
        let (ready, said) = ask(fixture, server, "--ready")?;
        if ready && said.contains(fault) == present {
            return Ok(said);
        }
        last = said;
        thread::sleep(PAUSE);
    }
    anyhow::bail!("{fault} is {}:\n{last}", if present { "not reported" } else { "still reported" })
}

fn metrics(fixture: &Fixture, server: &Server) -> Result<String> {
    let mut status = Command::new(frevo());
    status.args(["status", "--prometheus", "-c"]).arg(server.conf());
    let output = fixture.environment.people().enter(&mut status).output().context("cannot start frevo")?;
    Ok(String::from_utf8(output.stdout)?)
}

fn hung_file_system(fixture: &mut Fixture) -> Result<()> {
    let source = fixture.environment.make_dir("hung-source", &ALICE, 0o777)?;
    let place = fixture.environment.make_dir("hung", &ALICE, 0o777)?;
    fs::write(source.join("there"), "there")?;
    let mount = Mount::fuse(&source, &place)?;
    let server = fixture.environment.start("health-hung", &TEMPLATE.replace("OTHER", "hung"))?;
    let other = |commands: &str| fixture.smbclient().server(&server).share("other").run(commands);
    other("get there -")?.says("there")?;
    while !metrics(fixture, &server)?.contains("frevo_file_system_size_bytes{share=\"other\"}") {
        thread::sleep(PAUSE);
    }
    wait_for(fixture, &server, "file_system", false)?;

    let mut command = fixture.script_command("latency.py", &[]);
    command.env("SERVER_PORT", server.port().to_string());
    let mut client = Script::start(command)?;
    client.wait_for("ready")?;
    mount.signal(libc::SIGSTOP)?;
    let begin = Instant::now();
    let said = wait_for(fixture, &server, "file_system_hangs", true)?;
    println!("    the fault was reported after {:.1} s", begin.elapsed().as_secs_f64());
    ensure!(said.contains("\"share\": \"other\"") && !said.contains("files"), "{said}");
    client.go_on()?;
    client.wait_for("measured")?;
    fixture.smbclient().server(&server).run("put /etc/hostname name; ls; del name")?.fine()?;
    let (live, said) = ask(fixture, &server, "--live")?;
    ensure!(live && said.contains("file_system_hangs"), "{said}");
    let text = metrics(fixture, &server)?;
    ensure!(text.contains("frevo_fault{fault=\"file_system_hangs\",of=\"other\"} 1"), "{text}");

    mount.signal(libc::SIGCONT)?;
    client.go_on()?;
    client.end()?;
    wait_for(fixture, &server, "file_system_hangs", false)?;
    other("get there -")?.says("there")?;
    drop(server);
    drop(mount);
    Ok(())
}

/// The file system of homes hangs while a client uses one, and while the first client opens one.
fn hung_home(fixture: &mut Fixture) -> Result<()> {
    let source = fixture.environment.make_dir("hung-homes-source", &ALICE, 0o777)?;
    for person in [ALICE, BOB] {
        fixture.environment.make_dir(&format!("hung-homes-source/{}", person.name), &person, 0o777)?;
    }
    fs::write(source.join("alice/there"), "there")?;
    let place = fixture.environment.make_dir("hung-homes", &ALICE, 0o777)?;
    let mount = Mount::fuse(&source, &place)?;
    let server = fixture.environment.start("health-homes", &HOMES.replace("HOMES", "hung-homes"))?;
    let mut command = fixture.script_command("latency.py", &[ALICE.name]);
    command.env("SERVER_PORT", server.port().to_string());
    let mut client = Script::start(command)?;
    client.wait_for("ready")?;
    wait_for(fixture, &server, "file_system", false)?;

    mount.signal(libc::SIGSTOP)?;
    let begin = Instant::now();
    let said = wait_for(fixture, &server, "file_system_hangs", true)?;
    println!("    the fault was reported after {:.1} s", begin.elapsed().as_secs_f64());
    ensure!(said.contains("\"share\": \"alice\"") && !said.contains("files"), "{said}");
    client.go_on()?;
    client.wait_for("measured")?;
    let (live, said) = ask(fixture, &server, "--live")?;
    ensure!(live && said.contains("file_system_hangs"), "{said}");
    mount.signal(libc::SIGCONT)?;
    client.go_on()?;
    client.end()?;
    wait_for(fixture, &server, "file_system", false)?;

    // Nobody uses a home now.
    mount.signal(libc::SIGSTOP)?;
    let mut first = fixture.smbclient().server(&server).user(&BOB).share("own").command("ls").spawn()?;
    let said = wait_for(fixture, &server, "file_system_hangs", true)?;
    ensure!(said.contains("\"share\": \"own\""), "{said}");
    fixture.smbclient().server(&server).run("ls")?.fine()?;
    mount.signal(libc::SIGCONT)?;
    wait_for(fixture, &server, "file_system", false)?;
    first.wait()?;
    drop(server);
    drop(mount);
    Ok(())
}

fn full_home(fixture: &mut Fixture) -> Result<()> {
    let place = fixture.environment.make_dir("full-homes", &ALICE, 0o777)?;
    let mount = Mount::memory("4m", &place)?;
    fixture.environment.make_dir("full-homes/alice", &ALICE, 0o777)?;
    let server = fixture.environment.start("health-full-homes", &HOMES.replace("HOMES", "full-homes"))?;
    fs::write(place.join("large"), vec![b'x'; 4 << 20])?;
    wait_for(fixture, &server, "file_system", false)?;
    let mut client = fixture.smbclient().server(&server).share("alice").interactive().spawn()?;
    let said = wait_for(fixture, &server, "file_system_full", true)?;
    ensure!(said.contains("\"share\": \"alice\""), "{said}");
    // The fault ends with the use, because the server does not look any more.
    client.kill()?;
    client.wait()?;
    wait_for(fixture, &server, "file_system", false)?;
    drop(server);
    drop(mount);
    Ok(())
}

fn full_file_system(fixture: &mut Fixture) -> Result<()> {
    let place = fixture.environment.make_dir("full", &ALICE, 0o777)?;
    let mount = Mount::memory("4m", &place)?;
    let server = fixture.environment.start("health-full", &TEMPLATE.replace("OTHER", "full"))?;
    let local = fixture.local("full")?;
    fs::write(local.join("large"), vec![b'x'; 5 << 20])?;
    let put = format!("lcd {}; put large", local.display());
    let said = fixture.smbclient().server(&server).share("other").run(&put)?;
    ensure!(said.text.contains("NT_STATUS_DISK_FULL"), "{}", said.text);
    let said = wait_for(fixture, &server, "file_system_full", true)?;
    ensure!(said.contains("\"share\": \"other\""), "{said}");
    fixture.smbclient().server(&server).share("other").run("del large")?.fine()?;
    wait_for(fixture, &server, "file_system_full", false)?;
    let text = metrics(fixture, &server)?;
    ensure!(text.contains("frevo_file_system_size_bytes{share=\"other\"} 4194304"), "{text}");
    drop(server);
    drop(mount);
    Ok(())
}
