//! Frevo with a keytab, in realms of the suite: which tickets are accepted, and how others are refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::{Client, Kerberos};
use proto::smb2::negotiate::CipherId;
use proto::status::Status;

use super::kerberos::{Environment, HOST, negotiate};
use crate::fixture::{Fixture, TEMPLATE};
use crate::suite::Case;
use test_environment::{ALICE, CAROL, Kdc, REALM, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("kerberos.smbclient", smbclient).needs_root().frevo_only().sets_environment(),
    Case::new("kerberos.people", people).needs_root().frevo_only().sets_environment(),
    Case::new("kerberos.keys", keys).needs_root().frevo_only().sets_environment(),
    Case::new("kerberos.clear_realm", clear_realm).needs_root().frevo_only().sets_environment(),
    Case::new("kerberos.other_service", other_service).needs_root().frevo_only().sets_environment(),
    Case::new("kerberos.clocks", clocks).needs_root().frevo_only().sets_environment(),
    Case::new("kerberos.replay", replay).needs_root().frevo_only().sets_environment(),
    Case::new("kerberos.expiry", expiry).needs_root().frevo_only().sets_environment(),
    Case::new("kerberos.no_library", no_library).needs_root().frevo_only().sets_environment(),
];

const SERVICE: &str = "cifs/localhost";
/// The server's name for smbclient, which does not use tickets to `localhost`.
const NAMED: &str = "files.bed.test";
const NAMED_SERVICE: &str = "cifs/files.bed.test";
const AES256: &str = "aes256-cts";

/// Starts a server with the realm's keytab.
fn serve(fixture: &Fixture, name: &str, keytab: &Path) -> Result<Server> {
    let own = format!(
        "[global]\n\trealm = {REALM}\n\tkerberos method = dedicated keytab\n\tdedicated keytab file = {}\n\t\
         min domain uid = 1",
        keytab.display()
    );
    fixture.environment.start(name, &TEMPLATE.replace("[global]", &own))
}

/// Runs smbclient with the tickets of the environment, and returns its output.
fn by_smbclient(fixture: &Fixture, server: &Server, options: &[&str], commands: &str) -> Result<String> {
    let mut command = Command::new("smbclient");
    command.arg("-s").arg(fixture.environment.dir().join("client/smb.conf")).args(["--use-kerberos=required", "-p"]);
    command.arg(server.port().to_string()).args(["-I", "127.0.0.1"]).args(options);
    let cache = std::env::var("KRB5CCNAME").context("there is no ticket")?;
    command.arg(format!("--use-krb5-ccache={cache}")).arg(format!("//{NAMED}/files")).args(["-c", commands]);
    let output = command.stdin(Stdio::null()).output().context("cannot start smbclient")?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Connects the project's own client to the share.
fn by_client(server: &Server) -> Result<(), client::Error> {
    let options = client::Options { credentials: client::Credentials::Kerberos, ..Default::default() };
    wait_for(async { Client::connect(server.address(), HOST, "files", &options).await.map(|_| ()) })
}

fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

#[track_caller]
fn refused(outcome: Result<(), client::Error>, part: &str) -> Result<()> {
    let said = outcome.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(said.contains(part), "expected {part:?}, got {said:?}");
    Ok(())
}

fn logged(server: &Server, parts: &[&str]) -> Result<()> {
    let log = server.log_tail();
    let missing = parts.iter().find(|part| !log.contains(**part));
    ensure!(missing.is_none(), "{missing:?} is not in the log:\n{log}");
    Ok(())
}

/// Transfers files with keys of both lengths, in all dialects, signed and encrypted.
fn smbclient(fixture: &mut Fixture) -> Result<()> {
    for (name, encryption) in [("kdc.aes256", AES256), ("kdc.aes128", "aes128-cts")] {
        let kdc = Kdc::start_as(&fixture.environment, name, encryption, &[NAMED_SERVICE], &[ALICE])?;
        let _realm = Environment::set(&kdc.log_on(&ALICE)?);
        let server = serve(fixture, &format!("server.{name}"), &kdc.keytab())?;
        let local = fixture.local(name)?;
        fs::write(local.join("sent"), encryption)?;
        for dialect in ["SMB2_02", "SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11"] {
            for protection in ["sign", "encrypt"] {
                if protection == "encrypt" && dialect.starts_with("SMB2") {
                    continue;
                }
                let minimum = format!("--option=client min protocol={dialect}");
                let protection = format!("--client-protection={protection}");
                let options = ["-m", dialect, &minimum, &protection];
                let commands = format!("lcd {}; put sent {dialect}; get {dialect} got; rm {dialect}", local.display());
                let said = by_smbclient(fixture, &server, &options, &commands)?;
                let got = fs::read_to_string(local.join("got")).unwrap_or_default();
                ensure!(!said.contains("NT_STATUS") && got == encryption, "{dialect} {protection}: {said}");
                let _ = fs::remove_file(local.join("got"));
            }
        }
    }
    Ok(())
}

/// A user with an account, a UNIX user without one, and principals that are neither.
fn people(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start_as(&fixture.environment, "kdc.people", AES256, &[SERVICE, NAMED_SERVICE], &[ALICE, CAROL])?;
    for name in ["daemon", "root", "alice/admin", "stranger", "HOST$"] {
        kdc.order(&format!("addprinc -pw some {name}"))?;
    }
    let server = serve(fixture, "server.people", &kdc.keytab())?;
    for (name, owner) in [("alice", ALICE.id), ("daemon", 1)] {
        let password = if name == "alice" { ALICE.password } else { "some" };
        let _realm = Environment::set(&kdc.log_on_as(name, password, &[])?);
        let said = by_smbclient(fixture, &server, &[], &format!("mkdir of-{name}"))?;
        let made = fixture.share("files").join(format!("of-{name}"));
        let found = fs::metadata(&made).with_context(|| said.clone())?;
        ensure!(std::os::unix::fs::MetadataExt::uid(&found) == owner, "{name}'s file belongs to another user: {said}");
        fs::remove_dir(made)?;
    }
    for (name, password, status) in [
        ("carol", CAROL.password, "ACCOUNT_DISABLED"),
        ("root", "some", "LOGON_FAILURE"),
        ("alice/admin", "some", "LOGON_FAILURE"),
        ("stranger", "some", "LOGON_FAILURE"),
        ("HOST$", "some", "LOGON_FAILURE"),
    ] {
        let _realm = Environment::set(&kdc.log_on_as(name, password, &[])?);
        refused(by_client(&server), status).with_context(|| name)?;
    }
    // Password logons continue to work besides tickets.
    let said = fixture.smbclient().server(&server).run("ls")?;
    said.fine().map(|_| ())
}

/// A ticket for another key is logged, and a new keytab is used immediately.
fn keys(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start_as(&fixture.environment, "kdc.keys", AES256, &[SERVICE, "host/elsewhere"], &[ALICE])?;
    let keytab = fixture.environment.dir().join("kdc.keys/served");
    let _realm = Environment::set(&kdc.log_on(&ALICE)?);
    let server = serve(fixture, "server.keys", &keytab)?;
    logged(&server, &["no keys yet", "served", "ktadd"])?;
    refused(by_client(&server), "")?;
    // The server checks for the keytab once per second.
    let install = |orders: &str| -> Result<()> {
        let fresh = keytab.with_extension("new");
        kdc.order(&format!("ktadd -k {} {orders}", fresh.display()))?;
        fs::rename(fresh, &keytab)?;
        std::thread::sleep(Duration::from_millis(1100));
        Ok(())
    };
    install("host/elsewhere")?;
    refused(by_client(&server), "LOGON_FAILURE")?;
    logged(&server, &["cifs/localhost@BED.TEST", "aes256-cts-hmac-sha1-96", "klist -ket", "served"])?;
    // alice's cached ticket is for the previous key version.
    install(SERVICE)?;
    refused(by_client(&server), "LOGON_FAILURE")?;
    logged(&server, &["key version 2"])?;
    let _renewed = Environment::set(&kdc.log_on(&ALICE)?);
    by_client(&server)?;
    install(&format!("-norandkey {SERVICE}"))?;
    by_client(&server)?;
    Ok(())
}

/// Starts a server without `realm`. In its keytab, `find` in the name of the realm's key is replaced by `put`, which
/// has the same length.
fn serve_renamed(fixture: &Fixture, name: &str, kdc: &Kdc, find: &str, put: &str) -> Result<Server> {
    let mut keytab = fs::read(kdc.keytab())?;
    let places: Vec<_> = keytab.windows(find.len()).enumerate().filter(|(_, part)| *part == find.as_bytes()).collect();
    let places: Vec<_> = places.into_iter().map(|(place, _)| place).collect();
    ensure!(!places.is_empty() && find.len() == put.len(), "{find} is not in the keytab");
    for place in places {
        keytab[place..place + put.len()].copy_from_slice(put.as_bytes());
    }
    let renamed = fixture.environment.dir().join(format!("{name}.keytab"));
    fs::write(&renamed, keytab)?;
    let own =
        format!("[global]\n\tkerberos method = dedicated keytab\n\tdedicated keytab file = {}", renamed.display());
    fixture.environment.start(name, &TEMPLATE.replace("[global]", &own))
}

/// The realm in a ticket's clear text does not make it the server's own realm. alice of another realm, whose tickets
/// are encrypted with this key, is not the server's alice.
fn clear_realm(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start_as(&fixture.environment, "kdc.clear_realm", AES256, &[SERVICE], &[ALICE])?;
    let _realm = Environment::set(&kdc.log_on(&ALICE)?);
    by_client(&serve_renamed(fixture, "server.own_realm", &kdc, REALM, REALM)?)?;
    let server = serve_renamed(fixture, "server.clear_realm", &kdc, REALM, "OWN.TEST")?;
    refused(by_client(&server), "LOGON_FAILURE")?;
    logged(&server, &["valid Kerberos ticket of a client without an account", "alice@BED.TEST"])
}

/// A ticket for another service in the keytab is not accepted.
fn other_service(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start_as(&fixture.environment, "kdc.other_service", AES256, &[SERVICE], &[ALICE])?;
    let _realm = Environment::set(&kdc.log_on(&ALICE)?);
    by_client(&serve_renamed(fixture, "server.host", &kdc, "cifs", "host")?)?;
    let server = serve_renamed(fixture, "server.other_service", &kdc, "cifs", "HTTP")?;
    refused(by_client(&server), "LOGON_FAILURE")?;
    logged(&server, &["HTTP/localhost", "file server"])
}

/// A client whose clock is an hour ahead is informed.
fn clocks(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start_as(&fixture.environment, "kdc.clocks", AES256, &[SERVICE], &[ALICE])?;
    let _realm = Environment::set(&kdc.log_on(&ALICE)?);
    let server = serve(fixture, "server.clocks", &kdc.keytab())?;
    by_client(&server)?;
    set_back(&kdc.cache(ALICE.name), 3600)?;
    refused(by_client(&server), "Clock skew too great")?;
    logged(&server, &["Clock skew", "NTP", "cifs/localhost"])?;
    // A client that ignores this gets the error status at its second attempt.
    let mut talk = negotiate(server.address(), CipherId::AES_128_GCM)?;
    let (_, token) = Kerberos::initiate(HOST)?;
    ensure!(talk.set_up(&token)? == Status::MORE_PROCESSING_REQUIRED, "the first time");
    let (_, token) = Kerberos::initiate(HOST)?;
    ensure!(talk.set_up(&token)? != Status::SUCCESS, "the second time");
    Ok(())
}

/// Makes the client believe that the KDC's clock is `seconds` ahead. In a version 4 credential cache, the first field
/// of the header is that difference.
fn set_back(cache: &Path, seconds: u32) -> Result<()> {
    let mut bytes = fs::read(cache)?;
    let header = [5, 4, 0, 12, 0, 1, 0, 8];
    ensure!(bytes.starts_with(&header), "the cache has another version: {:?}", &bytes[..bytes.len().min(16)]);
    bytes[8..12].copy_from_slice(&seconds.to_be_bytes());
    Ok(fs::write(cache, bytes)?)
}

/// A token is accepted only once.
fn replay(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start_as(&fixture.environment, "kdc.replay", AES256, &[SERVICE], &[ALICE])?;
    let _realm = Environment::set(&kdc.log_on(&ALICE)?);
    let server = serve(fixture, "server.replay", &kdc.keytab())?;
    let (_, token) = Kerberos::initiate(HOST)?;
    for expected in [Status::SUCCESS, Status::LOGON_FAILURE] {
        let status = negotiate(server.address(), CipherId::AES_128_GCM)?.set_up(&token)?;
        ensure!(status == expected, "{status}, not {expected}");
    }
    logged(&server, &["replay", "sent before"])
}

/// A client whose ticket has expired is informed, and a new ticket works.
fn expiry(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start_as(&fixture.environment, "kdc.expiry", AES256, &[SERVICE], &[ALICE])?;
    kdc.bear_with(1)?;
    let _realm = Environment::set(&kdc.log_on_as(ALICE.name, ALICE.password, &["-l", "4s"])?);
    fs::write(fixture.share("files").join("lasting"), "")?;
    let server = serve(fixture, "server.expiry", &kdc.keytab())?;
    let options = client::Options { credentials: client::Credentials::Kerberos, ..Default::default() };
    let late = wait_for(async {
        let mut client = Client::connect(server.address(), HOST, "files", &options).await?;
        let open = client::Open::existing("lasting");
        client.open(&open).await?;
        tokio::time::sleep(Duration::from_secs(7)).await;
        client.open(&open).await.map(|_| ())
    });
    refused(late, "NETWORK_SESSION_EXPIRED")?;
    let _renewed = Environment::set(&kdc.log_on(&ALICE)?);
    Ok(by_client(&server)?)
}

/// On hosts without the library, passwords work, and the missing library is logged.
fn no_library(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start_as(&fixture.environment, "kdc.no_library", AES256, &[SERVICE], &[ALICE])?;
    let empty = fixture.environment.dir().join("no_library");
    fs::create_dir_all(&empty)?;
    fs::write(empty.join("libgssapi_krb5.so.2"), "")?;
    let server = {
        let _hidden = Environment::set(&[("LD_LIBRARY_PATH", empty.display().to_string())]);
        serve(fixture, "server.no_library", &kdc.keytab())?
    };
    logged(&server, &["Kerberos is configured but not available", "libgssapi-krb5-2"])?;
    fixture.smbclient().server(&server).run("ls")?.fine()?;
    let _realm = Environment::set(&kdc.log_on(&ALICE)?);
    ensure!(by_client(&server).is_err(), "a ticket was accepted without the library");
    Ok(())
}
