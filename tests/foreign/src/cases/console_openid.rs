//! Logon to the web console through an issuer in another language, in headless Chromium. The user then connects with
//! the password that they have set.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::console::{Browser, Console, TEMPLATE, write_service};
use crate::fixture::Fixture;
use test_environment::{ALICE, BOB, CAROL, ReservedPort};

const SECRET: &str = "the secret of the console";
/// The password that the administrator sets, and the one that the user sets.
const OLD: &str = "dora's secret";
const NEW: &str = "another secret of dora";

pub(super) fn logon_and_own_password(fixture: &mut Fixture) -> Result<()> {
    let directory = fixture.environment.dir().to_owned();
    write_service(&directory)?;
    let secret = directory.join("openid-secret");
    fs::write(&secret, format!("{SECRET}\n"))?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let port = ReservedPort::any()?;
    let number = port.number().to_string();
    drop(port);
    let mut issuer = fixture.start_script("openid_issuer.py", &[&number, "frevo console", SECRET])?;
    issuer.wait_for("ready")?;
    let settings = format!(
        "[global]\n\tfrevo:openid issuer = http://localhost:{number}\n\tfrevo:openid client id = frevo console\n\
         \tfrevo:openid client secret file = {}\n",
        secret.display()
    );
    let audit = directory.join("console-audit.json");
    let _ = fs::remove_file(&audit);
    let server = fixture.environment.start("console-openid", &TEMPLATE.replace("[global]\n", &settings))?;
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
