//! Frevo as a member of a domain: domain users with NTLM and Kerberos, their groups in parameters and in ACLs, and a
//! winbindd that is gone or hangs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ADMINISTRATOR, ALICE, DORA, Domain, EMIL, FAYE, MEMBER, frevo};

pub(super) const CASES: &[Case] = &[
    Case::new("domain.ntlm", ntlm).needs_root().frevo_only(),
    Case::new("domain.own_accounts", own_accounts).needs_root().frevo_only(),
    Case::new("domain.lists", lists).needs_root().frevo_only(),
    Case::new("domain.names", names).needs_root().frevo_only(),
    Case::new("domain.kerberos", kerberos).needs_root().frevo_only(),
    Case::new("domain.acls", acls).needs_root().frevo_only(),
    Case::new("domain.join", join).needs_root().frevo_only(),
    Case::new("domain.join_run", join_run).needs_root().frevo_only(),
    Case::new("domain.winbindd_gone", winbindd_gone).needs_root().frevo_only(),
    Case::new("domain.winbindd_hangs", winbindd_hangs).needs_root().frevo_only(),
    Case::new("domain.username_map", username_map).needs_root().frevo_only(),
    Case::new("domain.without_winbindd", without_winbindd).needs_root().frevo_only(),
];

/// dora's uid: `idmap config DOM : range` begins with RID 0, and the first created user has RID 1103.
const DORAS_UID: u32 = 62_103;

/// The gid of the group `crew`, created after three users.
const CREWS_GID: u32 = 62_106;

const SHARES: &str = "
[files]
	path = @DIR@/files
	read only = no
[crew]
	path = @DIR@/files
	valid users = @DOM\\crew
[dora]
	path = @DIR@/files
	valid users = dom\\DORA
[own]
	path = @DIR@/files/%U
[acls]
	path = @DIR@/files
	read only = no
	vfs objects = acl_xattr
";

/// Returns the domain with a newly started Frevo on [`SHARES`].
fn served(fixture: &mut Fixture) -> Result<&mut Domain> {
    let files = fixture.environment.dir().join("domain/files");
    let domain = fixture.domain()?;
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(&files)?;
    fs::set_permissions(&files, fs::Permissions::from_mode(0o777))?;
    fs::write(files.join("greeting"), "welcome")?;
    domain.serve(SHARES)?;
    Ok(domain)
}

/// Runs smbclient and returns its output and errors.
fn smbclient(domain: &Domain, share: &str, user: &str, commands: &str) -> Result<String> {
    let mut command = domain.command("smbclient")?;
    command.args(["-s", "/dev/null", "-U", user, &format!("//{MEMBER}/{share}"), "-c", commands]);
    said(command)
}

fn said(mut command: Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    Ok(String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

/// Checks that `said` contains `expected` and no other status.
fn check(domain: &Domain, said: Result<String>, expected: &str) -> Result<()> {
    let said = said?;
    let other = !expected.contains("NT_STATUS_") && said.contains("NT_STATUS_");
    ensure!(said.contains(expected) && !other, "expected {expected:?}, got:\n{said}\nfrevo:\n{}", domain.logged());
    Ok(())
}

fn ntlm(fixture: &mut Fixture) -> Result<()> {
    let written = fixture.environment.dir().join("domain/files/from dora");
    let domain = served(fixture)?;
    let log_on = |user: &str, expected: &str| check(domain, smbclient(domain, "files", user, "ls greeting"), expected);
    log_on(DORA, "greeting")?;
    log_on("dora@DOM.TEST%Dora.Pw1", "greeting")?;
    log_on(r"dom.test\DORA%Dora.Pw1", "greeting")?;
    log_on(r"DOM\dora%wrong", "NT_STATUS_LOGON_FAILURE")?;
    log_on(r"DOM\nobody%Dora.Pw1", "NT_STATUS_LOGON_FAILURE")?;
    log_on(r"MEMBER\dora%Dora.Pw1", "NT_STATUS_LOGON_FAILURE")?;
    log_on(FAYE, "NT_STATUS_ACCOUNT_DISABLED")?;
    // Each dialect derives its keys from the session key in another way.
    for dialect in ["SMB2_02", "SMB2_10", "SMB3_00", "SMB3_11"] {
        let mut command = domain.command("smbclient")?;
        command.args(["-s", "/dev/null", "-m", dialect, "-U", DORA, "--client-protection=sign"]);
        command.args([&format!("//{MEMBER}/files"), "-c", "ls greeting"]);
        check(domain, said(command), "greeting").with_context(|| dialect.to_owned())?;
    }
    check(domain, smbclient(domain, "files", DORA, "put /etc/hostname \"from dora\"; ls"), "from dora")?;
    let metadata = fs::metadata(written)?;
    ensure!(metadata.uid() == DORAS_UID, "dora's file belongs to {}", metadata.uid());
    ensure!((61_000..64_000).contains(&metadata.gid()), "the file belongs to the group {}", metadata.gid());
    Ok(())
}

/// The server's own accounts can be used too, without queries to the domain.
fn own_accounts(fixture: &mut Fixture) -> Result<()> {
    let domain = served(fixture)?;
    add_alice(domain)?;
    let log_on = |user: &str, expected: &str| check(domain, smbclient(domain, "files", user, "ls greeting"), expected);
    log_on(r"MEMBER\alice%alicepw", "greeting")?;
    log_on(r"ANYWHERE\alice%alicepw", "greeting")?;
    log_on(r"DOM\alice%alicepw", "NT_STATUS_LOGON_FAILURE")?;
    log_on(DORA, "greeting")
}

fn add_alice(domain: &Domain) -> Result<()> {
    let mut add = domain.command("sh")?;
    let line = r#"printf '%s\n' "$PW" | "$FREVO" user add alice --password-stdin -c "$CONF" --state-dir "$STATE""#;
    add.args(["-c", line]).env("PW", ALICE.password).env("FREVO", frevo()).env("CONF", domain.conf());
    let text = said({
        add.env("STATE", domain.state());
        add
    })?;
    ensure!(!text.contains("error") || text.contains("exists already"), "{text}");
    Ok(())
}

fn lists(fixture: &mut Fixture) -> Result<()> {
    let own = fixture.environment.dir().join("domain/files/dora");
    let domain = served(fixture)?;
    fs::create_dir(&own)?;
    fs::write(own.join("hers"), "")?;
    check(domain, smbclient(domain, "own", DORA, "ls hers"), "hers")?;
    for (share, user, expected) in [
        ("crew", DORA, "greeting"),
        ("crew", EMIL, "NT_STATUS_ACCESS_DENIED"),
        ("dora", DORA, "greeting"),
        ("dora", EMIL, "NT_STATUS_ACCESS_DENIED"),
    ] {
        check(domain, smbclient(domain, share, user, "ls greeting"), expected)
            .with_context(|| format!("{share} {user}"))?;
    }
    Ok(())
}

/// Resolves SIDs and names of the domain with the LSA pipe.
fn names(fixture: &mut Fixture) -> Result<()> {
    let domain = served(fixture)?;
    let ask = |commands: &str| -> Result<String> {
        let mut command = domain.command("rpcclient")?;
        command.args(["-s", "/dev/null", MEMBER, "-U", DORA, "-c", commands]);
        said(command)
    };
    let found = ask(r"lookupnames DOM\\dora DOM\\crew")?;
    let sid_of = |name: &str| -> Result<String> {
        let line = found.lines().find(|line| line.to_lowercase().contains(name)).context(found.clone())?;
        Ok(line.split_whitespace().find(|word| word.starts_with("S-1-5-21-")).context(found.clone())?.to_owned())
    };
    let (dora, crew) = (sid_of("dora")?, sid_of("crew")?);
    ensure!(dora.ends_with("-1103"), "{found}");
    check(domain, ask(&format!("lookupsids {dora}")), r"DOM\dora")?;
    check(domain, ask(&format!("lookupsids {crew}")), r"DOM\crew")
}

/// With tickets only, user and groups are determined by the PAC.
fn kerberos(fixture: &mut Fixture) -> Result<()> {
    let files = fixture.environment.dir().join("domain/files");
    let domain = served(fixture)?;
    fs::write(files.join("crew's"), "")?;
    std::os::unix::fs::chown(files.join("crew's"), Some(0), Some(CREWS_GID))?;
    fs::set_permissions(files.join("crew's"), fs::Permissions::from_mode(0o640))?;
    let with_ticket = |share: &str, user: &str, commands: &str| -> Result<String> {
        let mut command = domain.command("smbclient")?;
        command.args(["-s", "/dev/null", "--use-kerberos=required", "-U", user, "-c", commands]);
        command.arg(format!("//{MEMBER}/{share}"));
        said(command)
    };
    let (dora, emil) = ("dora@DOM.TEST%Dora.Pw1", "emil@DOM.TEST%Emil.Pw1");
    for (share, user, commands, expected) in [
        ("files", dora, "put /etc/hostname ticketed; ls", "ticketed"),
        ("crew", dora, "ls greeting", "greeting"),
        ("crew", emil, "ls greeting", "NT_STATUS_ACCESS_DENIED"),
        ("dora", dora, "ls greeting", "greeting"),
        ("files", dora, "get \"crew's\" /dev/null", "getting file"),
        ("files", emil, "get \"crew's\" /dev/null", "NT_STATUS_ACCESS_DENIED"),
    ] {
        let described = || format!("{share} {user} {commands}");
        check(domain, with_ticket(share, user, commands), expected).with_context(described)?;
    }
    let owner = fs::metadata(files.join("ticketed"))?.uid();
    ensure!(owner == DORAS_UID, "dora's file belongs to {owner}");
    Ok(())
}

/// SIDs of the domain in stored ACLs are effective for its users, and are mapped to uids and gids in the POSIX ACL.
fn acls(fixture: &mut Fixture) -> Result<()> {
    let files = fixture.environment.dir().join("domain/files");
    let domain = served(fixture)?;
    let smbcacls = |user: &str, arguments: &[&str]| -> Result<String> {
        let mut command = domain.command("smbcacls")?;
        command.args(["-s", "/dev/null", "-U", user, &format!("//{MEMBER}/acls"), "made"]).args(arguments);
        said(command)
    };
    check(domain, smbclient(domain, "acls", DORA, "put /etc/hostname made; ls"), "made")?;
    let shown = smbcacls(DORA, &[])?;
    ensure!(shown.contains(r"OWNER:DOM\dora") && shown.contains(r"GROUP:DOM\Domain Users"), "{shown}");
    // Only dora and the group crew.
    let only = r"ACL:DOM\dora:ALLOWED/0x0/FULL,ACL:DOM\crew:ALLOWED/0x0/READ";
    let set = smbcacls(DORA, &["-S", only])?;
    ensure!(!set.contains("NT_STATUS_"), "{set}");
    check(domain, smbclient(domain, "acls", DORA, "get made /dev/null"), "getting file")?;
    check(domain, smbclient(domain, "acls", EMIL, "get made /dev/null"), "NT_STATUS_ACCESS_DENIED")?;
    let mut getfacl = Command::new("getfacl");
    let local = said({
        getfacl.args(["--numeric", "--absolute-names"]).arg(files.join("made"));
        getfacl
    })?;
    ensure!(local.contains(&format!("group:{CREWS_GID}:r-x")), "the group is not in the POSIX ACL:\n{local}");
    let allowed = smbcacls(DORA, &["-a", r"ACL:DOM\emil:ALLOWED/0x0/READ"])?;
    ensure!(!allowed.contains("NT_STATUS_"), "{allowed}");
    check(domain, smbclient(domain, "acls", EMIL, "get made /dev/null"), "getting file")
}

/// `frevo join` finds everything correct, and reports what is not.
fn join(fixture: &mut Fixture) -> Result<()> {
    let domain = served(fixture)?;
    let all = ["configuration", "dns", "clock", "winbind", "account", "keytab", "directory", "ids"];
    wrong_steps(domain, "", "", &[], &all)?;
    let expect = |from: &str, to: &str, arguments: &[&str], wrong: &[&str]| -> Result<()> {
        wrong_steps(domain, from, to, arguments, wrong).with_context(|| format!("{to:?} {arguments:?}"))
    };
    expect("", "", &["other.test"], &["!configuration"])?;
    expect("security = ads", "security = user", &[], &["!configuration"])?;
    expect(
        "realm = DOM.TEST",
        "realm = NO.TEST",
        &[],
        &["!dns", "-clock", "winbind", "account", "!keytab", "-directory"],
    )?;
    expect("workgroup = DOM", "workgroup = MOD", &[], &["dns", "clock", "!winbind", "-account", "keytab", "-ids"])?;
    expect("member/krb5.keytab", "member/no.keytab", &[], &["winbind", "!keytab", "-directory", "ids"])?;
    domain.kill_winbindd();
    let steps = ["dns", "clock", "!winbind", "-account", "keytab", "directory", "-ids"];
    let gone = wrong_steps(domain, "", "", &[], &steps);
    domain.start_winbindd()?;
    gone
}

/// `frevo join --run` joins the domain, here for the second time. An old keytab and a service name that the account has
/// lost are detected, and the suggested remedies work.
fn join_run(fixture: &mut Fixture) -> Result<()> {
    let keytab = fixture.environment.dir().join("domain/member/krb5.keytab");
    let domain = served(fixture)?;
    let before = fs::read(&keytab)?;
    let (user, password) = ADMINISTRATOR.split_once('%').context("a password")?;
    let mut command = domain.command(frevo())?;
    command.args(["join", "--run", "--user", user, "-c"]).arg(domain.conf()).env("PASSWD", password);
    let joined = said(command)?;
    ensure!(joined.contains("Joined 'MEMBER' to dns domain 'dom.test'"), "{joined}");
    let net = |arguments: &[&str]| -> Result<()> {
        let mut command = domain.command("net")?;
        command.arg("ads").args(arguments).arg("-s").arg(domain.conf());
        let out = command.output()?;
        ensure!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&[out.stdout, out.stderr].concat()));
        Ok(())
    };
    ensure!(joined.contains("MEMBER is a member of DOM.TEST"), "{joined}");
    let ticket = |expected: &str| {
        let mut command = domain.command("smbclient")?;
        command.args(["-s", "/dev/null", "--use-kerberos=required", "-U", "dora@DOM.TEST%Dora.Pw1"]);
        command.args([&format!("//{MEMBER}/files"), "-c", "ls greeting"]);
        check(domain, said(command), expected)
    };
    ticket("greeting")?;

    fs::write(&keytab, before)?;
    wrong_steps(domain, "", "", &[], &["account", "keytab", "!directory"])?;
    ticket("NT_STATUS_LOGON_FAILURE")?;
    net(&["keytab", "create", "-P"])?;
    wrong_steps(domain, "", "", &[], &["keytab", "directory"])?;
    ticket("greeting")?;

    for spn in ["HOST/member.dom.test", "HOST/MEMBER"] {
        net(&["setspn", "delete", "MEMBER", spn, "-U", ADMINISTRATOR])?;
    }
    wrong_steps(domain, "", "", &[], &["keytab", "!directory"])?;
    for spn in ["host/member.dom.test", "HOST/MEMBER"] {
        net(&["setspn", "add", "MEMBER", spn, "-U", ADMINISTRATOR])?;
    }
    wrong_steps(domain, "", "", &[], &["keytab", "directory"])
}

/// Runs `frevo join` with `from` in the configuration replaced by `to`. Of the given steps, those with an exclamation
/// mark are expected to be wrong, those with a dash skipped, all others right.
fn wrong_steps(domain: &Domain, from: &str, to: &str, arguments: &[&str], steps: &[&str]) -> Result<()> {
    let conf = domain.state().join("joined.conf");
    fs::write(&conf, fs::read_to_string(domain.conf())?.replacen(from, to, 1))?;
    let mut command = domain.command(frevo())?;
    let out =
        command.args(["join", "--json", "-c"]).arg(&conf).args(arguments).output().context("cannot start frevo")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let report: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{text}{}", String::from_utf8_lossy(&out.stderr)))?;
    for step in steps {
        let (state, name) = match step.split_at(1) {
            ("!", name) => ("wrong", name),
            ("-", name) => ("skipped", name),
            _ => ("right", *step),
        };
        let mut found = report["steps"].as_array().into_iter().flatten();
        let found = found.find(|it| it["step"] == name).with_context(|| format!("no step {name}:\n{text}"))?;
        ensure!(found["state"] == state, "{name} is not {state}:\n{text}");
        ensure!((state == "wrong") == found["remedy"].is_string(), "a remedy is missing or superfluous:\n{text}");
    }
    let well = steps.iter().all(|step| !step.starts_with(['!', '-']));
    ensure!(out.status.success() == well && report["joined"] == well, "{}:\n{text}", out.status);
    Ok(())
}

fn winbindd_gone(fixture: &mut Fixture) -> Result<()> {
    let domain = served(fixture)?;
    add_alice(domain)?;
    check(domain, smbclient(domain, "files", DORA, "ls greeting"), "greeting")?;
    domain.kill_winbindd();
    refused_in_time(domain)?;
    domain.start_winbindd()?;
    check(domain, smbclient(domain, "files", DORA, "ls greeting"), "greeting")
}

fn winbindd_hangs(fixture: &mut Fixture) -> Result<()> {
    let domain = served(fixture)?;
    add_alice(domain)?;
    check(domain, smbclient(domain, "files", DORA, "ls greeting"), "greeting")?;
    domain.hold_winbindd(true);
    let refused = refused_in_time(domain);
    domain.hold_winbindd(false);
    refused?;
    check(domain, smbclient(domain, "files", DORA, "ls greeting"), "greeting")
}

/// `username map` maps dora to the server's own alice, with password and with ticket, and no other user.
fn username_map(fixture: &mut Fixture) -> Result<()> {
    let dir = fixture.environment.dir().join("domain");
    let domain = served(fixture)?;
    add_alice(domain)?;
    fs::write(dir.join("username.map"), "!alice = DOM\\dora\nalice = emil @crew\n")?;
    domain.serve(&format!("\n[global]\n\tusername map = @DIR@/username.map\n{SHARES}"))?;
    for (file, user) in [("mapped", DORA), ("ticketed", "dora@DOM.TEST%Dora.Pw1"), ("own", EMIL)] {
        let mut command = domain.command("smbclient")?;
        command.args(["-s", "/dev/null", "-U", user, &format!("//{MEMBER}/files")]);
        command.args(["-c", &format!("put /etc/hostname {file}; ls {file}")]);
        if user.contains('@') {
            command.arg("--use-kerberos=required");
        }
        check(domain, said(command), file)?;
    }
    let owner = |file: &str| Ok::<_, std::io::Error>(fs::metadata(dir.join("files").join(file))?.uid());
    let (mapped, ticketed, own) = (owner("mapped")?, owner("ticketed")?, owner("own")?);
    ensure!(
        mapped == ticketed && !(61_000..64_000).contains(&mapped),
        "dora writes as {mapped} with a password and {ticketed} with a ticket"
    );
    ensure!((61_000..64_000).contains(&own), "emil writes as {own}");
    Ok(())
}

/// With `backend = rid` and a ticket, users have the ids that winbindd would assign, also after a restart.
fn without_winbindd(fixture: &mut Fixture) -> Result<()> {
    let files = fixture.environment.dir().join("domain/files");
    let domain = served(fixture)?;
    add_alice(domain)?;
    domain.kill_winbindd();
    let found = without(domain, &files);
    domain.start_winbindd()?;
    found?;
    // The ids are the same with winbindd.
    check(domain, smbclient(domain, "files", DORA, "put /etc/hostname again; ls again"), "again")?;
    let owner = fs::metadata(files.join("again"))?.uid();
    ensure!(owner == DORAS_UID, "with winbindd, dora's file belongs to {owner}");
    Ok(())
}

fn without(domain: &mut Domain, files: &std::path::Path) -> Result<()> {
    for file in ["first", "restarted"] {
        let mut command = domain.command("smbclient")?;
        command.args(["-s", "/dev/null", "--use-kerberos=required", "-U", "dora@DOM.TEST%Dora.Pw1"]);
        command.args([&format!("//{MEMBER}/files"), "-c", &format!("put /etc/hostname {file}; ls {file}")]);
        check(domain, said(command), file)?;
        let metadata = fs::metadata(files.join(file))?;
        ensure!(metadata.uid() == DORAS_UID, "dora's file belongs to {}", metadata.uid());
        ensure!(metadata.gid() == 61_513, "the file belongs to the group {}", metadata.gid());
        domain.serve(SHARES)?;
        // The first query after the restart is made by another user.
        let mut command = domain.command("smbcacls")?;
        command.args([
            "-s",
            "/dev/null",
            "--numeric",
            "-U",
            r"MEMBER\alice%alicepw",
            &format!("//{MEMBER}/files"),
            file,
        ]);
        check(domain, said(command), "-1103")?;
    }
    Ok(())
}

/// Domain users get an error before the client gives up, while the server's own users can log on.
fn refused_in_time(domain: &Domain) -> Result<()> {
    let mut command = domain.command("smbclient")?;
    command.args(["-s", "/dev/null", "-t", "60", "-U", DORA, &format!("//{MEMBER}/files"), "-c", "ls"]);
    std::thread::scope(|scope| {
        let refused = scope.spawn(move || said(command));
        check(domain, smbclient(domain, "files", r"MEMBER\alice%alicepw", "ls greeting"), "greeting")?;
        let said = refused.join().map_err(|_| anyhow::anyhow!("smbclient's thread panicked"))?;
        check(domain, said, "NT_STATUS_NO_LOGON_SERVERS")
    })
}
