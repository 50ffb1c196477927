//! Frevo as a member of a domain: its users by NTLM and by Kerberos, their groups in lists and in ACLs, and a winbindd that
//! is gone or hangs.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::bed::{ALICE, DORA, Domain, EMIL, FAYE, MEMBER, frevo};
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("domain.ntlm", ntlm).needs_root().frevo_only(),
    Case::new("domain.own_accounts", own_accounts).needs_root().frevo_only(),
    Case::new("domain.lists", lists).needs_root().frevo_only(),
    Case::new("domain.names", names).needs_root().frevo_only(),
    Case::new("domain.winbindd_gone", winbindd_gone).needs_root().frevo_only(),
    Case::new("domain.winbindd_hangs", winbindd_hangs).needs_root().frevo_only(),
];

/// What the domain's users have here: `idmap config DOM : range` begins with RID 0, and the first user made has RID 1103.
const DORAS_UID: u32 = 62_103;

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
[acls]
	path = @DIR@/files
	read only = no
	vfs objects = acl_xattr
";

/// The domain, with a fresh Frevo on [`SHARES`].
fn served(stage: &mut Stage) -> Result<&mut Domain> {
    let files = stage.bed.dir().join("domain/files");
    let domain = stage.domain()?;
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(&files)?;
    fs::set_permissions(&files, fs::Permissions::from_mode(0o777))?;
    fs::write(files.join("greeting"), "welcome")?;
    domain.serve(SHARES)?;
    Ok(domain)
}

/// What smbclient says, output and errors.
fn smbclient(domain: &Domain, share: &str, user: &str, commands: &str) -> Result<String> {
    let mut command = domain.command("smbclient")?;
    command.args(["-s", "/dev/null", "-U", user, &format!("//{MEMBER}/{share}"), "-c", commands]);
    said(command)
}

fn said(mut command: Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    Ok(String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

/// `said` has `expected` in it, and no other status than it names.
fn check(domain: &Domain, said: Result<String>, expected: &str) -> Result<()> {
    let said = said?;
    let other = !expected.contains("NT_STATUS_") && said.contains("NT_STATUS_");
    ensure!(said.contains(expected) && !other, "expected {expected:?}, got:\n{said}\nfrevo:\n{}", domain.logged());
    Ok(())
}

fn ntlm(stage: &mut Stage) -> Result<()> {
    let written = stage.bed.dir().join("domain/files/from dora");
    let domain = served(stage)?;
    let log_on = |user: &str, expected: &str| check(domain, smbclient(domain, "files", user, "ls greeting"), expected);
    log_on(DORA, "greeting")?;
    log_on("dora@DOM.TEST%Dora.Pw1", "greeting")?;
    log_on(r"dom.test\DORA%Dora.Pw1", "greeting")?;
    log_on(r"DOM\dora%wrong", "NT_STATUS_LOGON_FAILURE")?;
    log_on(r"DOM\nobody%Dora.Pw1", "NT_STATUS_LOGON_FAILURE")?;
    log_on(r"MEMBER\dora%Dora.Pw1", "NT_STATUS_LOGON_FAILURE")?;
    log_on(FAYE, "NT_STATUS_ACCOUNT_DISABLED")?;
    // Every dialect has its own way from the session key to the keys.
    for dialect in ["SMB2_02", "SMB2_10", "SMB3_00", "SMB3_11"] {
        let mut command = domain.command("smbclient")?;
        command.args(["-s", "/dev/null", "-m", dialect, "-U", DORA, "--client-protection=sign"]);
        command.args([&format!("//{MEMBER}/files"), "-c", "ls greeting"]);
        check(domain, said(command), "greeting").with_context(|| dialect.to_owned())?;
    }
    check(domain, smbclient(domain, "files", DORA, "put /etc/hostname \"from dora\"; ls"), "from dora")?;
    let metadata = fs::metadata(written)?;
    ensure!(metadata.uid() == DORAS_UID, "what dora writes belongs to {}", metadata.uid());
    ensure!((61_000..64_000).contains(&metadata.gid()), "and to the group {}", metadata.gid());
    Ok(())
}

/// Accounts of the server itself are there as well, and nothing of them is asked of the domain.
fn own_accounts(stage: &mut Stage) -> Result<()> {
    let domain = served(stage)?;
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

fn lists(stage: &mut Stage) -> Result<()> {
    let domain = served(stage)?;
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

/// SIDs and names of the domain, by the pipe of the security authority.
fn names(stage: &mut Stage) -> Result<()> {
    let domain = served(stage)?;
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

/// How long a logon may take to be refused.
const PATIENCE: Duration = Duration::from_secs(25);

fn winbindd_gone(stage: &mut Stage) -> Result<()> {
    let domain = served(stage)?;
    add_alice(domain)?;
    check(domain, smbclient(domain, "files", DORA, "ls greeting"), "greeting")?;
    domain.kill_winbindd();
    refused_in_time(domain)?;
    domain.start_winbindd()?;
    check(domain, smbclient(domain, "files", DORA, "ls greeting"), "greeting")
}

fn winbindd_hangs(stage: &mut Stage) -> Result<()> {
    let domain = served(stage)?;
    add_alice(domain)?;
    check(domain, smbclient(domain, "files", DORA, "ls greeting"), "greeting")?;
    domain.hold_winbindd(true);
    let refused = refused_in_time(domain);
    domain.hold_winbindd(false);
    refused?;
    check(domain, smbclient(domain, "files", DORA, "ls greeting"), "greeting")
}

/// The domain's users are told that nobody can be asked, and the server's own log on.
fn refused_in_time(domain: &Domain) -> Result<()> {
    let began = Instant::now();
    let mut command = domain.command("smbclient")?;
    command.args(["-s", "/dev/null", "-t", "60", "-U", DORA, &format!("//{MEMBER}/files"), "-c", "ls"]);
    std::thread::scope(|scope| {
        let refused = scope.spawn(move || said(command));
        check(domain, smbclient(domain, "files", r"MEMBER\alice%alicepw", "ls greeting"), "greeting")?;
        let said = refused.join().map_err(|_| anyhow::anyhow!("smbclient's thread panicked"))?;
        check(domain, said, "NT_STATUS_NO_LOGON_SERVERS")
    })?;
    ensure!(began.elapsed() < PATIENCE, "refused after {:?}", began.elapsed());
    Ok(())
}
