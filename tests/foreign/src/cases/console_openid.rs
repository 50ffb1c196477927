//! Logon to the web console through an issuer in another language, and through a provider that others have written, in
//! headless Chromium. The user then connects with the password that they have set.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::console::{Browser, Console, TEMPLATE, write_service};
use super::passwords::user;
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, CAROL, ReservedPort, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("console.openid", logon_and_own_password).frevo_only().needs_root(),
    Case::new("console.canaille", canaille).frevo_only().needs_root(),
];

const CLIENT: &str = "frevo console";
const SECRET: &str = "the secret of the console";
/// The password that the administrator sets, and the one that the user sets.
const OLD: &str = "dora's secret";
const NEW: &str = "another secret of dora";

/// Returns a port that is free now.
fn port() -> Result<String> {
    Ok(ReservedPort::any()?.number().to_string())
}

/// Starts a server with these settings of the issuer.
fn start(fixture: &mut Fixture, name: &str, issuer: &str, more: &str) -> Result<Server> {
    let directory = fixture.environment.dir().to_owned();
    write_service(&directory)?;
    let secret = directory.join("openid-secret");
    fs::write(&secret, format!("{SECRET}\n"))?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let settings = format!(
        "[global]\n\tfrevo:openid issuer = {issuer}\n\tfrevo:openid client id = {CLIENT}\n\
         \tfrevo:openid client secret file = {}\n{more}",
        secret.display()
    );
    let _ = fs::remove_file(directory.join("console-audit.json"));
    fixture.environment.start(name, &TEMPLATE.replace("[global]\n", &settings))
}

/// Canaille, an independent provider, in two manners (`canaille_provider.py`). Between them they differ in the slash
/// at the end of the issuer, the algorithm, how the secret is sent, and the consent.
fn canaille(fixture: &mut Fixture) -> Result<()> {
    for (manner, slash) in [("plain", "/"), ("strict", "")] {
        logon_through_canaille(fixture, manner, slash).with_context(|| format!("Canaille, {manner}"))?;
    }
    Ok(())
}

fn logon_through_canaille(fixture: &mut Fixture, manner: &str, slash: &str) -> Result<()> {
    let (port, name) = (port()?, format!("console-canaille-{manner}"));
    let claim = "\tfrevo:openid user claim = sub\n";
    let server = start(fixture, &name, &format!("http://localhost:{port}{slash}"), claim)?;
    let uid = ALICE.id.to_string();
    user(fixture, &server, &["add", "dora", "--uid", &uid, "--password-stdin"], OLD)?;
    let console = Console::start(fixture, &server)?;
    let redirect = format!("{}openid", console.url);
    let people = [BOB.name, "of bob", "dora", "of dora", "nobody-here", "of nobody"];
    let arguments = [&[port.as_str(), CLIENT, SECRET, &redirect, manner][..], &people].concat();
    let mut provider = fixture.start_script("canaille_provider.py", &arguments)?;
    provider.wait_for("ready")?;

    let through = json!(["click", format!("Log on through localhost:{port}")]);
    let log_on = |user: &str, password: &str| {
        [
            json!(["open"]),
            through.clone(),
            json!(["arrives", "requires that you sign in"]),
            json!(["submit", { "login": user }, "Continue"]),
            json!(["submit", { "password": password }, "Sign in"]),
        ]
    };
    let consents = |answer: &str| [json!(["arrives", "You are logged in as"]), json!(["submit", {}, answer])];

    // The administrator has the whole console, also after a refusal at the provider.
    let mut browser = Browser(fixture.start_script("console.py", &[&console.url])?);
    browser.steps(&log_on(BOB.name, "of bob"))?;
    if manner == "strict" {
        browser.steps(&consents("Deny"))?;
        browser.steps(&[json!(["arrives", "The issuer has not logged you on"]), through.clone()])?;
        browser.steps(&consents("Accept"))?;
    }
    browser.steps(&[json!(["arrives", "Throughput"]), json!(["click", "Log off"])])?;
    // The provider still knows them.
    browser.steps(&[through.clone(), json!(["arrives", "Throughput"])])?;
    drop(browser);

    let mut browser = Browser(fixture.start_script("console.py", &[&console.url])?);
    // With its data in memory, the provider asks once for a client.
    browser.steps(&log_on("nobody-here", "of nobody"))?;
    browser.step(json!(["arrives", "no SMB account with exactly this name"]))?;
    drop(browser);

    let mut browser = Browser(fixture.start_script("console.py", &[&console.url])?);
    browser.steps(&log_on("dora", "wrong"))?;
    browser.steps(&[json!(["arrives", "Login failed"]), json!(["submit", { "password": "of dora" }, "Sign in"])])?;
    browser.steps(&[
        json!(["arrives", "Your password"]),
        json!(["fill", "password", NEW]),
        json!(["fill", "repeated", NEW]),
        json!(["click", "Set the password"]),
        json!(["sees", "The password is set"]),
    ])?;
    let connect = |password: &str| {
        let credentials = format!("dora%{password}");
        fixture.smbclient().server(&server).share("own").credentials(&credentials).run("ls")
    };
    connect(NEW)?.fine()?;
    connect(OLD)?.refused_with("NT_STATUS_LOGON_FAILURE")
}

fn logon_and_own_password(fixture: &mut Fixture) -> Result<()> {
    let number = port()?;
    let mut issuer = fixture.start_script("openid_issuer.py", &[&number, CLIENT, SECRET])?;
    issuer.wait_for("ready")?;
    let server = start(fixture, "console-openid", &format!("http://localhost:{number}"), "")?;
    let audit = fixture.environment.dir().join("console-audit.json");
    let console = Console::start(fixture, &server)?;
    let through = format!("Log on through localhost:{number}");
    let mut browser = Browser(fixture.start_script("console.py", &[&console.url])?);
    let log_on = |user: &str, text: &str| {
        [
            json!(["sees", through]),
            json!(["click", through]),
            json!(["arrives", "Choose a user"]),
            json!(["click", user]),
            json!(["arrives", text]),
        ]
    };

    // An account of `admin users` adds a user, who has the UNIX user of an administrator and another name.
    browser.step(json!(["open"]))?;
    browser.steps(&[json!(["sees", through]), json!(["accessible"])])?;
    browser.steps(&log_on(BOB.name, "Throughput"))?;
    browser.steps(&[
        json!(["cookie"]),
        json!(["click", "Users"]),
        json!(["click", "Add a user"]),
        json!(["fill", "name", "dora"]),
        json!(["fill", "uid", ALICE.id.to_string()]),
        json!(["fill", "password", OLD]),
        json!(["fill", "repeated", OLD]),
        json!(["click", "Add"]),
        json!(["closed"]),
        json!(["sees", "dora"]),
        json!(["click", "Log off"]),
    ])?;
    // A UNIX administrator, an account that is disabled, and a name that is not exactly that of an account.
    browser.steps(&log_on(ALICE.name, "Throughput"))?;
    browser.step(json!(["click", "Log off"]))?;
    browser.steps(&log_on(CAROL.name, "no SMB account with exactly this name"))?;
    browser.steps(&log_on("Dora", "no SMB account with exactly this name"))?;

    browser.steps(&log_on("dora", "Your password"))?;
    browser.steps(&[
        json!(["cookie"]),
        json!(["accessible"]),
        json!(["lacks", "Throughput"]),
        json!(["leave"]),
        json!(["arrives", "Your password"]),
        json!(["fill", "password", NEW]),
        json!(["fill", "repeated", OLD]),
        json!(["click", "Set the password"]),
        json!(["sees", "The passwords differ"]),
        json!(["fill", "password", "x"]),
        json!(["fill", "repeated", "x"]),
        json!(["click", "Set the password"]),
        json!(["sees", "the password is too short"]),
        json!(["fill", "password", NEW]),
        json!(["fill", "repeated", NEW]),
        json!(["click", "Set the password"]),
        json!(["sees", "The password is set"]),
        json!(["accessible"]),
        json!(["inert"]),
        json!(["click", "Log on again"]),
        json!(["sees", through]),
    ])?;
    let connect = |password: &str| {
        let credentials = format!("dora%{password}");
        fixture.smbclient().server(&server).share("own").credentials(&credentials).run("ls")
    };
    connect(NEW)?.fine()?;
    connect(OLD)?.refused_with("NT_STATUS_LOGON_FAILURE")?;

    let text = fs::read_to_string(&audit)?;
    ensure!(!text.contains("secret"), "a password is recorded:\n{text}");
    let events: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let mut rest = events.iter();
    for (operation, result, user, argument) in [
        ("console.logon", "ok", BOB.name, "method=openid"),
        ("console.logon", "ok", ALICE.name, "method=openid"),
        ("console.logon", "fail", CAROL.name, "method=openid"),
        ("console.logon", "fail", "Dora", "method=openid"),
        ("console.logon", "ok", "dora", "method=openid"),
        ("user.passwd", "fail", "dora", "dora"),
        ("user.passwd", "ok", "dora", "dora"),
    ] {
        let is_meant = |event: &&Value| {
            event["operation"] == operation
                && event["result"] == result
                && event["user"] == user
                && event["arguments"] == json!([argument])
        };
        rest.find(is_meant).with_context(|| format!("{operation} {result} of {user} is not in its place:\n{text}"))?;
    }
    Ok(())
}
