//! Password changes by users with Samba's programs, and account policies.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("passwords.change", change).needs_root().frevo_only(),
    Case::new("passwords.who_is_here", visible_accounts).needs_root().frevo_only(),
    Case::new("passwords.expired", expired).needs_root().frevo_only(),
    Case::new("passwords.never_expire", never_expire).needs_root().frevo_only(),
    Case::new("passwords.lockout", lockout).needs_root().frevo_only(),
    Case::new("passwords.never_told", never_told).needs_root().frevo_only(),
    Case::new("passwords.ntlm_v1", ntlm_v1),
];

const TEMPLATE: &str = "[global]\n@TARGET@\n\tlog level = 10\n[files]\n\tpath = @DIR@/data/files\n";

/// Runs `frevo user` on the accounts of `server`.
pub(super) fn user(fixture: &Fixture, server: &Server, args: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new(test_environment::frevo());
    command.arg("user").args(args).arg("-c").arg(server.conf());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = fixture.environment.people().enter(&mut command).spawn().context("cannot start frevo")?;
    child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "frevo user {args:?}: {}\n{said}", output.status);
    Ok(said)
}

/// Makes existing passwords expire. Their age is measured in seconds, and the policy value 0 means no maximum age, as
/// in Samba.
pub(super) fn expire_all(set_policy: impl Fn(&[&str]) -> Result<String>) -> Result<()> {
    set_policy(&["policy", "maximum password age", "1"])?;
    std::thread::sleep(std::time::Duration::from_millis(1100));
    Ok(())
}

/// Runs Samba's `rpcclient` as `who` (`name%password`, or `%` for anonymous) over a pipe with these options.
pub(super) fn rpcclient(server: &Server, who: &str, options: &str, call: &str) -> Result<String> {
    let port = server.port().to_string();
    let output = Command::new("rpcclient")
        .args(["-s", "/dev/null", "-p", &port, "-U", who, &format!("ncacn_np:127.0.0.1{options}"), "-c", call])
        .output()
        .context("cannot start rpcclient")?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn logon(fixture: &Fixture, server: &Server, password: &str, status: Option<&str>) -> Result<()> {
    let said = fixture.smbclient().server(server).credentials(&format!("alice%{password}")).run("ls")?;
    match status {
        None => said.fine().map(drop),
        Some(status) => said.refused_with(status),
    }
    .with_context(|| format!("alice with {password:?}"))
}

/// `ntlm auth`: a client with NTLMv1 responses is refused unless they are permitted. Then its keys are right, for
/// signatures and for encryption.
fn ntlm_v1(fixture: &mut Fixture) -> Result<()> {
    const SHARE: &str = "[files]\n\tpath = @DIR@/data/files\n";
    for (name, value) in [("v1-refused", "ntlmv2-only"), ("v1-permitted", "ntlmv1-permitted")] {
        let template = format!("[global]\n@TARGET@\n\tntlm auth = {value}\n{SHARE}");
        let server = fixture.environment.start(name, &template)?;
        let permitted = value == "ntlmv1-permitted";
        for protection in ["sign", "encrypt"] {
            let protection = format!("--client-protection={protection}");
            let options = ["--option=client ntlmv2 auth=no", &protection];
            let said = fixture.smbclient().server(&server).options(&options).run("ls")?;
            if permitted { said.fine().map(drop) } else { said.refused_with("NT_STATUS_LOGON_FAILURE") }?;
        }
        let wrong = fixture.smbclient().server(&server).credentials("alice%wrong");
        wrong.options(&["--option=client ntlmv2 auth=no"]).run("ls")?.refused_with("NT_STATUS_LOGON_FAILURE")?;
        logon(fixture, &server, ALICE.password, None)?;
    }
    Ok(())
}

fn change(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("passwords-change", TEMPLATE)?;
    let mut old = ALICE.password.to_owned();
    // Protected like the session, signed and encrypted by NTLM in addition, and encrypted with SPNEGO.
    for (number, options) in ["", "[sign,ntlm]", "[seal,ntlm]"].into_iter().enumerate() {
        // With RC4, and with AES.
        for call in ["chgpasswd2", "chgpasswd4"] {
            let new = format!("another {number} {call}");
            let changed = format!("{call} alice {old:?} {new:?}");
            let said = rpcclient(&server, &format!("alice%{old}"), options, &changed)?;
            logon(fixture, &server, &new, None).with_context(|| format!("{call} {options}: {said}"))?;
            old = new;
        }
    }
    // Wrong old passwords and unknown names are refused with the same status.
    for call in [
        "chgpasswd2 alice wrong something",
        "chgpasswd2 nobody-like-it wrong something",
        "chgpasswd4 alice wrong something",
        "chgpasswd4 nobody-like-it wrong something",
    ] {
        let said = rpcclient(&server, &format!("alice%{old}"), "", call)?;
        ensure!(said.contains("NT_STATUS_WRONG_PASSWORD"), "{call}: {said}");
    }
    user(fixture, &server, &["policy", "password history", "3"], "")?;
    for new in ["abc", old.as_str()] {
        let call = format!("chgpasswd2 alice {old:?} {new:?}");
        let said = rpcclient(&server, &format!("alice%{old}"), "", &call)?;
        ensure!(said.contains("NT_STATUS_PASSWORD_RESTRICTION"), "{new}: {said}");
    }
    logon(fixture, &server, &old, None)?;
    let said = rpcclient(&server, &format!("alice%{old}"), "", "getdompwinfo")?;
    ensure!(said.contains("min_password_length: 5"), "{said}");
    let said = rpcclient(&server, &format!("alice%{old}"), "", "querydominfo 12")?;
    ensure!(said.contains("lockout"), "{said}");
    Ok(())
}

/// Users, groups and policies as shown by Samba's programs, to a user and anonymously.
fn visible_accounts(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("passwords-who", TEMPLATE)?;
    let who = format!("alice%{}", ALICE.password);
    for (call, expected) in [
        ("enumdomains", "name:[Builtin]"),
        ("enumdomusers", "user:[alice] rid:["),
        ("enumdomgroups", "group:[None] rid:[0x201]"),
        ("enumalsgroups builtin", "group:[Administrators] rid:[0x220]"),
        ("querydispinfo", "Account: alice"),
        ("querydispinfo 4", "Account: alice"),
        ("querydispinfo 1 1 1", "index: 0x2 "),
        ("queryuser alice", "User Name   :\talice"),
        ("queryuser alice 7", "User Name   :\talice"),
        ("queryuser alice 16", "Acct Flags"),
        ("querydominfo", "Total Groups:"),
        ("querydominfo 7", "ROLE_DOMAIN_PDC"),
        ("samlookupnames domain alice", "name alice: 0x"),
        ("samlookupnames domain nobody-like-it", "NT_STATUS_NONE_MAPPED"),
        ("samlookuprids builtin 544 545", "rid 0x221: Users (4)"),
        ("querygroup 513", "Group Name:\tNone"),
        ("querygroupmem 513", "rid:["),
        ("queryuser nobody-like-it", "NT_STATUS_NONE_MAPPED"),
        ("queryusergroups 77", "NT_STATUS_NO_SUCH_USER"),
        ("createdomuser mallory", "NT_STATUS_ACCESS_DENIED"),
    ] {
        let said = rpcclient(&server, &who, "", call)?;
        ensure!(said.contains(expected), "{call}: {said}");
    }
    for call in ["querydominfo", "samlookupnames domain alice"] {
        let said = rpcclient(&server, "%", "", call)?;
        ensure!(said.contains("NT_STATUS_ACCESS_DENIED"), "anonymous, {call}: {said}");
    }
    // No output for a list that is refused.
    for call in ["enumdomusers", "querydispinfo"] {
        let said = rpcclient(&server, "%", "", call)?;
        ensure!(!said.contains("alice"), "anonymous, {call}: {said}");
    }
    Ok(())
}

/// A user who cannot log on because the password is expired changes it anonymously.
fn expired(fixture: &mut Fixture) -> Result<()> {
    // rpcclient opens the domain first, which `restrict anonymous` denies to anonymous callers.
    let template = TEMPLATE.replacen("[global]", "[global]\nrestrict anonymous = 0", 1);
    let server = fixture.environment.start("passwords-expired", &template)?;
    user(fixture, &server, &["policy", "maximum password age", "0"], "")?;
    logon(fixture, &server, ALICE.password, None)?;
    expire_all(|args| user(fixture, &server, args, ""))?;
    logon(fixture, &server, ALICE.password, Some("NT_STATUS_PASSWORD_EXPIRED"))?;
    let call = format!("chgpasswd2 alice {:?} fresh-one", ALICE.password);
    user(fixture, &server, &["policy", "user must logon to change password", "2"], "")?;
    let said = rpcclient(&server, "%", "", &call)?;
    ensure!(said.contains("NT_STATUS_ACCESS_DENIED"), "{said}");
    user(fixture, &server, &["policy", "user must logon to change password", "0"], "")?;
    let said = rpcclient(&server, "%", "", &call)?;
    user(fixture, &server, &["policy", "maximum password age", "-1"], "")?;
    logon(fixture, &server, "fresh-one", None).context(said)
}

/// An account with Samba's flag X can log on with a password of any age, and the flag is shown to clients.
fn never_expire(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("passwords-never-expire", TEMPLATE)?;
    let control = |flags: &str| user(fixture, &server, &["account-control", "alice", flags], "");
    expire_all(|args| user(fixture, &server, args, ""))?;
    logon(fixture, &server, ALICE.password, Some("NT_STATUS_PASSWORD_EXPIRED"))?;
    control("[X]")?;
    logon(fixture, &server, ALICE.password, None)?;
    let shown = |call: &str| rpcclient(&server, &format!("alice%{}", ALICE.password), "", call);
    for (call, expected) in [("queryuser alice", "acb_info :\t0x00000210"), ("querydispinfo", "acb: 0x00000210")] {
        let said = shown(call)?;
        ensure!(said.contains(expected), "{call}: {said}");
    }
    ensure!(user(fixture, &server, &["list"], "")?.contains("never expires"));
    control("[DX]")?;
    logon(fixture, &server, ALICE.password, Some("NT_STATUS_ACCOUNT_DISABLED"))?;
    control("[]")?;
    logon(fixture, &server, ALICE.password, Some("NT_STATUS_PASSWORD_EXPIRED"))?;
    // The flag is also imported from Samba's export.
    let hash: String = proto::auth::ntlm::nt_hash(ALICE.password).iter().map(|byte| format!("{byte:02X}")).collect();
    let line = format!("alice:0:{}:{hash}:[UX         ]:LCT-00000000:\n", "X".repeat(32));
    user(fixture, &server, &["import", "-"], &line)?;
    logon(fixture, &server, ALICE.password, None)
}

fn lockout(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("passwords-lockout", TEMPLATE)?;
    user(fixture, &server, &["policy", "bad lockout attempt", "2"], "")?;
    logon(fixture, &server, "wrong", Some("NT_STATUS_LOGON_FAILURE"))?;
    logon(fixture, &server, "wrong", Some("NT_STATUS_LOGON_FAILURE"))?;
    logon(fixture, &server, ALICE.password, Some("NT_STATUS_ACCOUNT_LOCKED_OUT"))?;
    ensure!(user(fixture, &server, &["list", "--json"], "")?.contains("\"locked\": true"));
    user(fixture, &server, &["enable", "alice"], "")?;
    logon(fixture, &server, ALICE.password, None)
}

/// Passwords and their hashes are neither in the log at its highest level nor in the output of status.
fn never_told(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("passwords-secret", TEMPLATE)?;
    let new = "Zebra-4711-quilt";
    user(fixture, &server, &["passwd", "alice", "--password-stdin"], &format!("{new}\n"))?;
    logon(fixture, &server, new, None)?;
    logon(fixture, &server, "Wrong-0815-quilt", Some("NT_STATUS_LOGON_FAILURE"))?;
    let said = rpcclient(&server, &format!("alice%{new}"), "[seal,ntlm]", &format!("chgpasswd2 alice {new} {new}-2"))?;
    logon(fixture, &server, &format!("{new}-2"), None).context(said)?;
    let mut printed = user(fixture, &server, &["list", "--json"], "")?;
    let status =
        Command::new(test_environment::frevo()).args(["status", "--json", "-c"]).arg(server.conf()).output()?;
    printed.push_str(&String::from_utf8_lossy(&status.stdout));
    let folder = server.conf().parent().context("the server has a folder")?;
    let mut logs = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "log") || path.to_string_lossy().contains("log") {
            printed.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()));
            logs += 1;
        }
    }
    printed.push_str(&server.log_tail());
    ensure!(printed.contains("logged on"), "{logs} logs were searched, but none has a logon");
    for password in [new, "Zebra-4711-quilt-2", "Wrong-0815-quilt"] {
        ensure!(!printed.contains(password), "{password} is shown");
        let hash = proto::auth::ntlm::nt_hash(password);
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{hash:?}");
        ensure!(!printed.to_lowercase().contains(&hex), "the hash of {password} is shown");
        ensure!(!printed.contains(list.trim_matches(['[', ']'])), "the hash of {password} is shown as a list");
    }
    // The process memory is accessible only to root, and a crash does not write it to disk.
    let status = std::fs::metadata(format!("/proc/{}/mem", server.pid()))?;
    use std::os::unix::fs::MetadataExt;
    ensure!(status.uid() == 0, "/proc/PID/mem belongs to {}", status.uid());
    Ok(())
}
