//! Accounts in an LDAP directory: logons, groups, TLS, changes by other programs, and directories that fail and
//! recover.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Client, Credentials, Options};

use super::passwords::{expire_all, rpcclient};
use crate::fixture::{Fixture, TEMPLATE};
use crate::smbclient::ProgramOutput;
use crate::suite::Case;
use test_environment::slapd::{DOMAIN, PASSWORD, SUFFIX, account, dn, group};
use test_environment::{ALICE, BOB, CAROL, Crowd, Server, Slapd, Target, frevo};

pub(super) const CASES: &[Case] = &[
    Case::new("ldap.directory", directory).needs_root(),
    Case::new("ldap.people", people).needs_root().frevo_only(),
    Case::new("ldap.tls", tls).needs_root().frevo_only(),
    Case::new("ldap.changes", changes).needs_root().frevo_only(),
    Case::new("ldap.commands", commands).needs_root().frevo_only(),
    Case::new("ldap.groups", groups).needs_root().frevo_only(),
    Case::new("ldap.failover", failover).needs_root().frevo_only(),
    Case::new("ldap.killed", killed).needs_root().frevo_only().slow(),
];

/// How long an old password may still work, according to the documentation.
const KEPT: Duration = Duration::from_secs(5);

/// A server that has its accounts in a directory.
struct Site<'a> {
    fixture: &'a Fixture,
    server: Server,
}

impl<'a> Site<'a> {
    /// Starts the server with these lines for `[global]`, and shares in addition to the environment's.
    fn open(fixture: &'a Fixture, name: &str, globals: &str, shares: &str) -> Result<Site<'a>> {
        let template = TEMPLATE.replace("@TARGET@\n", &format!("@TARGET@\n{globals}")) + shares;
        let target = fixture.environment.target();
        let server =
            fixture.environment.start_with_accounts(name, &template, &|conf| Slapd::give_password(target, conf))?;
        Ok(Site { fixture, server })
    }

    fn log_on(&self, name: &str, password: &str) -> Result<ProgramOutput> {
        self.list("files", name, password)
    }

    fn list(&self, share: &str, name: &str, password: &str) -> Result<ProgramOutput> {
        let credentials = format!("{name}%{password}");
        self.fixture.smbclient().server(&self.server).share(share).credentials(&credentials).run("ls")
    }

    /// Runs `frevo user` and returns its output.
    fn user(&self, arguments: &[&str], input: &str) -> Result<String> {
        self.frevo("user", arguments, input)
    }

    fn frevo(&self, what: &str, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(frevo());
        command.arg(what).args(arguments).arg("-c").arg(self.server.conf());
        said(self.fixture.environment.people().enter(&mut command), input)
    }
}

/// Runs a program. Returns its output, which is also in the error if it fails.
fn said(command: &mut Command, input: &str) -> Result<String> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("input"), input)?;
    let out = command.stdin(fs::File::open(dir.path().join("input"))?).output()?;
    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    ensure!(out.status.success(), "{command:?}: {text}");
    Ok(text)
}

/// Both servers can have their accounts in the environment's directory.
fn directory(fixture: &mut Fixture) -> Result<()> {
    let slapd = Slapd::start(&fixture.environment, "slapd", Crowd(100), "")?;
    let site = Site::open(fixture, "ldap", &Slapd::globals(&slapd.uri(), false), "")?;
    site.log_on(ALICE.name, ALICE.password)?.fine()?;
    site.log_on("ALICE", ALICE.password)?.fine()?;
    site.log_on(BOB.name, PASSWORD)?.refused_with("NT_STATUS_LOGON_FAILURE")?;
    site.log_on("nobody*", "x")?.refused_with("NT_STATUS_LOGON_FAILURE")?;
    site.log_on(CAROL.name, CAROL.password)?.refused_with("NT_STATUS_ACCOUNT_DISABLED")?;
    // Old directories may have outdated password expiry times; the policies apply instead.
    let past = |attribute: &str| {
        slapd.modify(&format!("dn: {}\nchangetype: modify\nadd: {attribute}\n{attribute}: 1000000000\n", dn(BOB.name)))
    };
    past("sambaPwdMustChange")?;
    site.log_on(BOB.name, BOB.password)?.fine()?;
    past("sambaKickoffTime")?;
    std::thread::sleep(KEPT);
    site.log_on(BOB.name, BOB.password)?.refused_with("NT_STATUS_ACCOUNT_EXPIRED")
}

/// Accounts with an expiry date, with a UNIX user only in the directory, in groups only in the directory, and with
/// root's id.
fn people(fixture: &mut Fixture) -> Result<()> {
    let more = [
        account("dora", 64_301, "dorapw", "[U          ]"),
        account("erik", 64_302, "erikpw", "[U          ]")
            .replace("sambaPwdLastSet", "sambaKickoffTime: 1000000000\nsambaPwdLastSet"),
        account("fred", 64_303, "fredpw", "[U          ]").replace("sambaPwdLastSet: 1700000000", "sambaPwdLastSet: 0"),
        account("lock", 64_304, "lockpw", "[UL         ]"),
        account("super", 0, "superpw", "[U          ]"),
        account("root", 64_305, "rootpw", "[U          ]"),
        account("wheel", 64_306, "wheelpw", "[U          ]").replace("gidNumber: 64306", "gidNumber: 0"),
        account("host$", 64_307, "hostpw", "[W          ]"),
        account("in (the) *office", 64_308, "officepw", "[U          ]"),
        group("dancers", 64_401, &["dora"]),
        group("dora", 64_301, &[]),
    ];
    let slapd = Slapd::start(&fixture.environment, "people", Crowd(0), &more.concat())?;
    fixture.environment.make_dir("data/floor", &ALICE, 0o777)?;
    let share = format!("\n[floor]\n\tpath = {}\n\tvalid users = @dancers\n", fixture.share("floor").display());
    let site = Site::open(fixture, "ldap people", &Slapd::globals(&slapd.uri(), false), &share)?;
    site.log_on("dora", "dorapw")?.fine()?;
    site.list("floor", "dora", "dorapw")?.fine()?;
    site.list("floor", ALICE.name, ALICE.password)?.refused_with("NT_STATUS_ACCESS_DENIED")?;
    site.log_on("in (the) *office", "officepw")?.fine()?;
    for (name, password, status) in [
        ("in (the) *", "officepw", "NT_STATUS_LOGON_FAILURE"),
        ("erik", "erikpw", "NT_STATUS_ACCOUNT_EXPIRED"),
        ("erik", "wrong", "NT_STATUS_LOGON_FAILURE"),
        ("fred", "fredpw", "NT_STATUS_PASSWORD_MUST_CHANGE"),
        ("lock", "lockpw", "NT_STATUS_ACCOUNT_LOCKED_OUT"),
        ("super", "superpw", "NT_STATUS_LOGON_FAILURE"),
        ("root", "rootpw", "NT_STATUS_LOGON_FAILURE"),
        ("wheel", "wheelpw", "NT_STATUS_LOGON_FAILURE"),
        ("host$", "hostpw", "NT_STATUS_ACCOUNT_DISABLED"),
    ] {
        site.log_on(name, password)?.refused_with(status).with_context(|| name.to_owned())?;
    }
    // `frevo user` reports accounts that cannot act as any user.
    let list: serde_json::Value = serde_json::from_str(&site.user(&["list", "--json"], "")?)?;
    for (name, problem) in [("dora", false), ("super", true), ("root", true)] {
        let account = list.as_array().context("a list")?.iter().find(|it| it["name"] == name).context(name)?;
        ensure!(account["problem"].is_string() == problem, "{account}");
    }
    // dora's files belong to her uid from the directory.
    let steps = fixture.local("dora")?.join("steps");
    fs::write(&steps, "one two three")?;
    let put = format!("put {} steps", steps.display());
    fixture.smbclient().server(&site.server).share("floor").credentials("dora%dorapw").run(&put)?.fine()?;
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(fixture.share("floor").join("steps"))?);
    ensure!(owner == 64_301, "dora's file belongs to {owner}");
    Ok(())
}

/// With TLS, with STARTTLS, on a Unix socket; and with certificates that are not trusted.
fn tls(fixture: &mut Fixture) -> Result<()> {
    let slapd = Slapd::start(&fixture.environment, "tls", Crowd(0), "")?;
    let stranger = Slapd::start(&fixture.environment, "stranger", Crowd(0), "")?;
    let signed = |by: &Slapd| format!("\ttls cafile = {}\n", by.authority().display());
    for (number, uri) in [slapd.tls_uri(), slapd.uri(), slapd.local_uri()].iter().enumerate() {
        let globals = Slapd::globals(uri, true) + &signed(&slapd);
        let site = Site::open(fixture, &format!("ldap tls {number}"), &globals, "")?;
        site.log_on(ALICE.name, ALICE.password)?.fine().with_context(|| uri.clone())?;
    }
    for (number, uri) in [slapd.tls_uri(), slapd.uri()].iter().enumerate() {
        let globals = Slapd::globals(uri, true) + &signed(&stranger);
        let site = Site::open(fixture, &format!("ldap not tls {number}"), &globals, "")?;
        site.log_on(ALICE.name, ALICE.password)?.refused_with("NT_STATUS_NO_LOGON_SERVERS")?;
        let log = site.server.log_tail();
        ensure!(log.contains("its certificate") && log.contains("tls cafile"), "the reason is not in the log:\n{log}");
    }
    // Without the environment's authority, those of the host are used, which have not signed the certificate either.
    let site = Site::open(fixture, "ldap host", &Slapd::globals(&slapd.tls_uri(), true), "")?;
    site.log_on(ALICE.name, ALICE.password)?.refused_with("NT_STATUS_NO_LOGON_SERVERS")
}

/// Passwords that are changed by other programs, and new accounts.
fn changes(fixture: &mut Fixture) -> Result<()> {
    let slapd = Slapd::start(&fixture.environment, "changes", Crowd(0), "")?;
    let site = Site::open(fixture, "ldap changes", &Slapd::globals(&slapd.uri(), false), "")?;
    site.log_on(ALICE.name, ALICE.password)?.fine()?;
    slapd.set_password(ALICE.name, "another")?;
    let changed = Instant::now();
    site.log_on(ALICE.name, "another")?.fine()?;
    // A logon with the new password has shown the server that the old one is outdated.
    site.log_on(ALICE.name, ALICE.password)?.refused_with("NT_STATUS_LOGON_FAILURE")?;

    site.log_on(BOB.name, BOB.password)?.fine()?;
    slapd.set_password(BOB.name, "another")?;
    std::thread::sleep(KEPT);
    site.log_on(BOB.name, BOB.password)?.refused_with("NT_STATUS_LOGON_FAILURE")?;
    site.log_on(BOB.name, "another")?.fine()?;

    site.log_on("dora", "dorapw")?.refused_with("NT_STATUS_LOGON_FAILURE")?;
    slapd.modify(&account("dora", 64_301, "dorapw", "[U          ]").replacen('\n', "\nchangetype: add\n", 1))?;
    site.log_on("dora", "dorapw")?.fine()?;

    // The directory is updated after logons without delaying them.
    let stored = |attribute: &str, name: &str| slapd.search(&format!("(uid={name})"), &[attribute]);
    let end = changed + Duration::from_secs(60);
    while !(stored("sambaLogonTime", ALICE.name)?.contains("sambaLogonTime: ")
        && stored("sambaBadPasswordCount", ALICE.name)?.contains("sambaBadPasswordCount: 1"))
    {
        ensure!(Instant::now() < end, "the directory was not updated:\n{}", stored("*", ALICE.name)?);
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// `frevo user` changes the directory, and Samba's programs see the changes.
fn commands(fixture: &mut Fixture) -> Result<()> {
    let unknown = account("dora", 64_301, "x", "x");
    let without_samba: String =
        unknown.lines().filter(|line| !line.contains("amba")).flat_map(|line| [line, "\n"]).chain(["\n"]).collect();
    let slapd = Slapd::start(&fixture.environment, "commands", Crowd(1_500), &without_samba)?;
    let site = Site::open(fixture, "ldap commands", &Slapd::globals(&slapd.uri(), false), "")?;
    site.user(&["add", "dora", "--password-stdin"], "dorapw\n")?;
    site.log_on("dora", "dorapw")?.fine()?;
    site.user(&["passwd", "dora", "--password-stdin"], "second\n")?;
    site.log_on("dora", "second")?.fine()?;
    site.log_on("dora", "dorapw")?.refused_with("NT_STATUS_LOGON_FAILURE")?;
    site.user(&["disable", "dora"], "")?;
    site.log_on("dora", "second")?.refused_with("NT_STATUS_ACCOUNT_DISABLED")?;
    site.user(&["enable", "dora"], "")?;
    site.log_on("dora", "second")?.fine()?;
    let list = site.user(&["list", "--json"], "")?;
    let list: serde_json::Value = serde_json::from_str(&list)?;
    let names: Vec<&str> = list.as_array().context("a list")?.iter().filter_map(|it| it["name"].as_str()).collect();
    ensure!(
        names.len() == 1_504 && names.is_sorted() && names.contains(&"u01500"),
        "listed: {} {names:?}",
        names.len()
    );

    let samba = Samba::of(fixture, &slapd)?;
    let seen = samba.pdbedit(&["-L", "-v", "dora"], "")?;
    let sid = format!("{DOMAIN}-500000001");
    ensure!(seen.contains(&sid) && seen.contains("[U          ]"), "pdbedit sees:\n{seen}");
    let hashes = samba.pdbedit(&["-L", "-w", "dora"], "")?;
    let known = slapd.search("(uid=dora)", &["sambaNTPassword"])?;
    let hash = known.split("sambaNTPassword: ").nth(1).context("a password")?.trim();
    ensure!(hashes.contains(hash), "{hashes} has no {hash}");

    // Both programs can set that a password never expires.
    expire_all(|args| site.user(args, ""))?;
    site.log_on("dora", "second")?.refused_with("NT_STATUS_PASSWORD_EXPIRED")?;
    site.user(&["account-control", "dora", "[X]"], "")?;
    site.log_on("dora", "second")?.fine()?;
    let seen = samba.pdbedit(&["-L", "-v", "dora"], "")?;
    ensure!(seen.contains("[UX         ]"), "pdbedit sees:\n{seen}");
    samba.pdbedit(&["-r", "-u", "dora", "-c", "[]"], "")?;
    std::thread::sleep(KEPT);
    site.log_on("dora", "second")?.refused_with("NT_STATUS_PASSWORD_EXPIRED")?;
    samba.pdbedit(&["-r", "-u", "dora", "-c", "[X]"], "")?;
    std::thread::sleep(KEPT);
    site.log_on("dora", "second")?.fine()?;
    site.user(&["policy", "maximum password age", "-1"], "")?;

    // Samba assigns the next RID, and Frevo the one after Samba's.
    site.user(&["delete", "alice"], "")?;
    samba.pdbedit(&["-a", "-t", "alice"], "alicepw\nalicepw\n")?;
    site.user(&["delete", "bob"], "")?;
    site.user(&["add", "bob", "--password-stdin"], "bobpw\n")?;
    for (name, rid) in [("alice", 500_000_002), ("bob", 500_000_003)] {
        let found = slapd.search(&format!("(uid={name})"), &["sambaSID"])?;
        ensure!(found.contains(&format!("{DOMAIN}-{rid}\n")), "{name} has another RID than {rid}:\n{found}");
    }
    site.log_on(ALICE.name, ALICE.password)?.fine()?;
    site.log_on(BOB.name, BOB.password)?.fine()?;
    let gone = site.user(&["delete", "nobody"], "").err().context("a missing account was deleted")?.to_string();
    ensure!(gone.contains("there is no account"), "{gone}");
    Ok(())
}

/// `frevo group` changes the directory, `net groupmap` sees the changes, and memberships are effective at the next
/// logon.
fn groups(fixture: &mut Fixture) -> Result<()> {
    let dancers = format!(
        "dn: cn=dancers,ou=groups,{SUFFIX}\nobjectClass: posixGroup\ncn: dancers\ngidNumber: 64401\nmemberUid: dora\n\n"
    );
    let more = [account("dora", 64_301, "dorapw", "[U          ]"), group("dora", 64_301, &[]), dancers];
    let slapd = Slapd::start(&fixture.environment, "groups", Crowd(0), &more.concat())?;
    fixture.environment.make_dir("data/floor", &ALICE, 0o777)?;
    let share = format!("\n[floor]\n\tpath = {}\n\tvalid users = @dancers\n", fixture.share("floor").display());
    let site = Site::open(fixture, "ldap groups", &Slapd::globals(&slapd.uri(), false), &share)?;
    let group = |arguments: &[&str]| site.frevo("group", arguments, "");
    let samba = Samba::of(fixture, &slapd)?;
    let seen = || samba.run("net", &["groupmap", "list", "verbose"], "");

    // One group exists in the directory for Linux, and one only on this host.
    let added = group(&["add", "Night Dancers", "--unix-group", "64401", "--comment", "at night"])?;
    let sid = format!("{DOMAIN}-500000001");
    ensure!(added.contains(&sid), "{added}");
    group(&["add", "Keepers", "--unix-group", "sys", "--sid", "S-1-5-32-545", "--type", "builtin"])?;
    let list = seen()?;
    ensure!(["Night Dancers", &sid, "at night", "Keepers"].iter().all(|text| list.contains(text)), "{list}");
    let listed = group(&["list"])?;
    ensure!(["Night Dancers", &sid, "crew", "Keepers"].iter().all(|text| listed.contains(text)), "{listed}");
    for (again, why) in [
        (&["add", "night dancers", "--unix-group", "64499"][..], "exists already"),
        (&["add", "Others", "--unix-group", "64401"], "exists already"),
        (&["add", "Others", "--unix-group", "64499", "--sid", &sid], "is the SID of"),
        (&["add", "Others", "--unix-group", "0"], "root's"),
        (&["add", "alice", "--unix-group", "64499"], "is an account"),
        (&["edit", "Others", "--rename", "More"], "there is no group"),
        (&["members", "Night Dancers", "--add", "nobody at all"], "has no user"),
        (&["delete", "Others"], "there is no group"),
    ] {
        let said = group(again).err().with_context(|| format!("{again:?} succeeded"))?.to_string();
        ensure!(said.contains(why), "{again:?}: {said}");
    }

    // The members of a group are returned if they and the group have SIDs of the same machine: alice and bob, as listed
    // by NSS.
    site.user(&["machine-sid", "--set", DOMAIN], "")?;
    let ask = |call: &str| rpcclient(&site.server, "dora%dorapw", "", call);
    let known = ask("samlookupnames domain crew")?;
    let rid = known.split_whitespace().find(|word| word.starts_with("0x")).with_context(|| known.clone())?;
    let said = ask(&format!("querygroupmem {rid}"))?;
    ensure!(said.matches("rid:[").count() == 2, "crew is {rid}: {said}");

    site.list("floor", "dora", "dorapw")?.fine()?;
    let members = group(&["members", "Night Dancers", "--remove", "dora", "--add", "bob"])?;
    ensure!(members == "bob\n", "{members}");
    site.list("floor", "dora", "dorapw")?.refused_with("NT_STATUS_ACCESS_DENIED")?;
    group(&["edit", "Night Dancers", "--rename", "Day Dancers", "--comment", "at noon"])?;
    let list = seen()?;
    ensure!(list.contains("Day Dancers") && list.contains("at noon") && !list.contains("Night"), "{list}");

    group(&["delete", "day dancers"])?;
    group(&["delete", "Keepers"])?;
    let left = slapd.search("(gidNumber=64401)", &["*"])?;
    ensure!(left.contains("memberUid: bob") && !left.contains("sambaSID"), "{left}");
    ensure!(slapd.search("(sambaSID=S-1-5-32-545)", &["*"])?.trim().is_empty(), "the entry of Keepers still exists");
    // Earlier output of Samba is imported.
    let file = fixture.local("printed")?.join("list");
    fs::write(&file, list)?;
    let printed = file.to_str().context("a path")?;
    group(&["import", printed, "--dry-run"])?;
    ensure!(!seen()?.contains("Day Dancers"), "a dry run has changed something");
    let imported = group(&["import", printed])?;
    ensure!(imported.contains("2 added") && imported.contains("0 refused"), "{imported}");
    ensure!(seen()?.contains(&sid), "not imported");
    Ok(())
}

/// Samba's programs on the same directory.
struct Samba<'a> {
    fixture: &'a Fixture,
    conf: std::path::PathBuf,
}

impl<'a> Samba<'a> {
    fn of(fixture: &'a Fixture, slapd: &Slapd) -> Result<Samba<'a>> {
        let dir = fixture.local("samba")?;
        let mut text = format!("[global]\n\tworkgroup = WORKGROUP\n{}", Slapd::globals(&slapd.uri(), false));
        for kind in ["private dir", "lock directory", "state directory", "cache directory", "pid directory"] {
            text += &format!("\t{kind} = {}\n", dir.display());
        }
        let conf = dir.join("smb.conf");
        fs::write(&conf, text)?;
        Slapd::give_password(Target::Samba, &conf)?;
        Ok(Samba { fixture, conf })
    }

    fn pdbedit(&self, arguments: &[&str], input: &str) -> Result<String> {
        self.run("pdbedit", arguments, input)
    }

    fn run(&self, program: &str, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(program);
        command.arg("-s").arg(&self.conf).args(arguments);
        said(self.fixture.environment.people().enter(&mut command), input)
    }
}

/// Two directories: one fails, then both, then they recover.
fn failover(fixture: &mut Fixture) -> Result<()> {
    let mut first = Slapd::start(&fixture.environment, "first", Crowd(0), "")?;
    let mut second = Slapd::start(&fixture.environment, "second", Crowd(0), "")?;
    let uris = format!("{} {}", first.uri(), second.uri());
    let site = Site::open(fixture, "ldap failover", &Slapd::globals(&uris, false), "")?;
    second.set_password(BOB.name, "of the second")?;
    site.log_on(BOB.name, BOB.password)?.fine()?;
    first.kill()?;
    site.log_on(BOB.name, "of the second")?.fine()?;
    site.log_on(ALICE.name, ALICE.password)?.fine()?;
    second.kill()?;
    let began = Instant::now();
    // A user who logged on recently can log on with cached data; for others there is none.
    std::thread::sleep(KEPT);
    site.log_on(ALICE.name, ALICE.password)?.fine()?;
    site.log_on(CAROL.name, CAROL.password)?.refused_with("NT_STATUS_NO_LOGON_SERVERS")?;
    ensure!(began.elapsed() < KEPT + Duration::from_secs(25), "it took {:?}", began.elapsed());
    first.restart()?;
    std::thread::sleep(Duration::from_secs(1));
    site.log_on(CAROL.name, CAROL.password)?.refused_with("NT_STATUS_ACCOUNT_DISABLED")?;
    site.log_on(BOB.name, BOB.password)?.fine()?;
    Ok(())
}

/// The directory is killed during a thousand logons. Each logon ends in time with a reason, existing sessions continue,
/// and logons succeed again when the directory is back.
fn killed(fixture: &mut Fixture) -> Result<()> {
    const LOGONS: usize = 1_000;
    const STARTED_BEFORE: usize = LOGONS / 2;
    const AT_A_TIME: usize = 50;
    let crowd = Crowd(u32::try_from(LOGONS)?);
    let mut slapd = Slapd::start(&fixture.environment, "killed", crowd, "")?;
    let globals = Slapd::globals(&slapd.uri(), false) + "\tldap timeout = 5\n";
    let site = Site::open(fixture, "ldap killed", &globals, "")?;
    let address = site.server.address();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut there = runtime.block_on(log_on(address, ALICE.name, ALICE.password))?;
    let (good, refused, longest) = runtime.block_on(async {
        let mut running = tokio::task::JoinSet::new();
        let (mut good, mut refused, mut longest) = (0, 0, Duration::ZERO);
        let mut count = |ended: (Result<Client>, Duration)| {
            longest = longest.max(ended.1);
            match ended.0 {
                Ok(_) => good += 1,
                Err(error) if format!("{error:#}").contains("NO_LOGON_SERVERS") => refused += 1,
                Err(error) => return Err(error),
            }
            Ok(())
        };
        for number in 1..=LOGONS {
            if number == STARTED_BEFORE + 1 {
                slapd.kill()?;
            }
            if running.len() == AT_A_TIME {
                count(running.join_next().await.context("a logon")??)?;
            }
            running.spawn(async move {
                let began = Instant::now();
                let done = log_on(address, &format!("u{number:05}"), Crowd::PASSWORD).await;
                (done, began.elapsed())
            });
        }
        while let Some(ended) = running.join_next().await {
            count(ended?)?;
        }
        anyhow::Ok((good, refused, longest))
    })?;
    ensure!(
        good + AT_A_TIME >= STARTED_BEFORE && refused > 0 && good + refused == LOGONS,
        "{good} good, {refused} refused"
    );
    ensure!(longest < Duration::from_secs(20), "a logon took {longest:?}");
    runtime.block_on(there.echo()).context("an existing session")?;
    slapd.restart()?;
    std::thread::sleep(Duration::from_secs(1));
    site.log_on("u01000", Crowd::PASSWORD)?.fine()?;
    Ok(())
}

async fn log_on(address: SocketAddr, user: &str, password: &str) -> Result<Client> {
    let credentials =
        Credentials::Password { user: user.to_owned(), domain: String::new(), password: password.to_owned() };
    let options = Options { credentials, ..Default::default() };
    Ok(Client::connect(address, "127.0.0.1", "files", &options).await?)
}
