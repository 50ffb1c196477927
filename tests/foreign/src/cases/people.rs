//! Identity of users and its effects: homes, mapped names, the user parameters of a share, guests, and groups with
//! SIDs. Both servers must give the same results wherever both are tested.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, CREW, Person, Server, Target};

pub(super) const CASES: &[Case] = &[
    Case::new("people.homes", homes).needs_root(),
    Case::new("people.homes_of_a_path", homes_of_a_path).needs_root(),
    Case::new("people.homes_among_shares", homes_among_shares).needs_root(),
    Case::new("people.username_map", username_map).needs_root(),
    Case::new("people.nobody_becomes_root", no_user_becomes_root).needs_root().frevo_only(),
    Case::new("people.lists", lists).needs_root(),
    Case::new("people.forced", forced).needs_root(),
    Case::new("people.guests", guests).needs_root(),
    Case::new("people.sids", sids).needs_root(),
    Case::new("people.groups", groups).needs_root(),
    Case::new("people.pam_restrictions", pam_restrictions).needs_root(),
];

/// How long the modules may take until the session is closed.
const PATIENCE: Duration = Duration::from_secs(30);
const WRITES: &str = "writes";
const READS: &str = "reads";
const DENIED: &str = "NT_STATUS_ACCESS_DENIED";
const NO_SHARE: &str = "NT_STATUS_BAD_NETWORK_NAME";
const NO_LOGON: &str = "NT_STATUS_LOGON_FAILURE";

/// Returns what `credentials` may do on a share: write, read, or the status of the refusal.
fn access(fixture: &Fixture, server: &Server, credentials: &str, share: &str) -> Result<String> {
    let file = fixture.local("people")?.join("file");
    fs::write(&file, "something")?;
    let smbclient = || fixture.smbclient().server(server).credentials(credentials).share(share);
    let listed = smbclient().run("ls")?;
    if let Some(status) = status(&listed.text) {
        return Ok(status);
    }
    ensure!(listed.success, "{}", listed.text);
    let name = format!("of-{}", credentials.replace([' ', '%'], "-"));
    let put = smbclient().run(&format!("put {} {name}", file.display()))?;
    Ok(match status(&put.text).as_deref() {
        None => WRITES.to_owned(),
        Some(DENIED | "NT_STATUS_MEDIA_WRITE_PROTECTED") => READS.to_owned(),
        Some(other) => format!("{READS}, then {other}"),
    })
}

/// Returns the first status in a program's output.
fn status(text: &str) -> Option<String> {
    let from = text.find("NT_STATUS_")?;
    let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    Some(text[from..].chars().take_while(|letter| word(*letter)).collect())
}

/// Checks all cases and reports all deviations.
fn check(fixture: &Fixture, server: &Server, cases: &[(&str, &str, &str)]) -> Result<()> {
    let mut wrong = String::new();
    for (credentials, share, expected) in cases {
        let seen = access(fixture, server, credentials, share)?;
        if seen != *expected {
            wrong.push_str(&format!("{credentials} on {share}: {seen}, not {expected}\n"));
        }
    }
    ensure!(wrong.is_empty(), "{wrong}{}", server.log_tail());
    Ok(())
}

/// Returns uid and gid of a file in the environment.
fn owner(fixture: &Fixture, path: &str) -> Result<(u32, u32)> {
    let metadata = fs::metadata(fixture.environment.dir().join(path)).with_context(|| path.to_owned())?;
    Ok((metadata.uid(), metadata.gid()))
}

/// Creates alice's home as specified in `/etc/passwd`. bob's does not exist.
fn home(fixture: &Fixture) -> Result<PathBuf> {
    fixture.environment.make_dir("home/alice", &ALICE, 0o700)
}

const HOMES: &str = "[global]\n@TARGET@\n\tread only = no\n\
                     [homes]\n\tcomment = the home of %S\n\tbrowseable = no\n\tvalid users = %S\n";

fn homes(fixture: &mut Fixture) -> Result<()> {
    let home = home(fixture)?;
    let server = fixture.environment.start("people-homes", HOMES)?;
    let (alice, bob) = (ALICE.credentials(), BOB.credentials());
    check(
        fixture,
        &server,
        &[
            (&alice, "alice", WRITES),
            (&alice, "ALICE", WRITES),
            (&alice, "homes", WRITES),
            (&bob, "alice", DENIED),
            (&bob, "bob", NO_SHARE),
            (&bob, "homes", NO_SHARE),
            (&alice, "nobody-like-it", NO_SHARE),
        ],
    )?;
    ensure!(fs::metadata(home.join("of-alice-alicepw"))?.uid() == ALICE.id, "the file has another owner");
    let row = |person: &Person| -> Result<Vec<String>> {
        let text = fixture.smbclient().server(&server).user(person).list_shares()?.fine()?;
        Ok(text.lines().filter(|line| line.contains("Disk")).map(|line| line.trim().to_owned()).collect())
    };
    let shown = row(&ALICE)?;
    ensure!(shown.len() == 1 && shown[0].starts_with("alice ") && shown[0].contains("the home of alice"), "{shown:?}");
    let shown = row(&BOB)?;
    ensure!(!shown.iter().any(|line| line.contains("alice") || line.starts_with("homes")), "{shown:?}");
    Ok(())
}

/// With a path, the section works for every user with a UNIX account.
fn homes_of_a_path(fixture: &mut Fixture) -> Result<()> {
    for person in [&ALICE, &BOB] {
        fixture.environment.make_dir(&format!("data/own/{}", person.name), person, 0o700)?;
    }
    let template = "[global]\n@TARGET@\n\tread only = no\n[homes]\n\tpath = @DIR@/data/own/%S\n\tread list = bob\n";
    let server = fixture.environment.start("people-own", template)?;
    let (alice, bob) = (ALICE.credentials(), BOB.credentials());
    // Without `valid users`, only the kernel denies access.
    check(fixture, &server, &[(&alice, "homes", WRITES), (&bob, "bob", READS), (&bob, "alice", DENIED)])?;
    ensure!(owner(fixture, "data/own/alice/of-alice-alicepw")? == (ALICE.id, ALICE.id), "the file has another owner");
    Ok(())
}

/// An explicit section takes precedence over the home of that name, a mapped name leads to the home of its account,
/// guests have none, and every user in NSS has one.
fn homes_among_shares(fixture: &mut Fixture) -> Result<()> {
    home(fixture)?;
    fixture.environment.make_dir("data/bob", &ALICE, 0o777)?;
    fs::write(fixture.environment.dir().join("homes.map"), "alice = ann\n")?;
    let template = "[global]\n@TARGET@\n\tread only = no\n\tmap to guest = Bad User\n\tusername map = @DIR@/homes.map\n\
                    [homes]\n\tcomment = the home of %S\n[bob]\n\tpath = @DIR@/data/bob\n";
    let server = fixture.environment.start("people-among", template)?;
    let (alice, bob) = (ALICE.credentials(), BOB.credentials());
    check(
        fixture,
        &server,
        &[
            (&alice, "bob", WRITES),
            (&bob, "bob", WRITES),
            (&bob, "homes", WRITES),
            ("ann%alicepw", "homes", WRITES),
            ("ann%alicepw", "alice", WRITES),
            ("ann%alicepw", "ann", WRITES),
            ("ann%alicepw", "anna", NO_SHARE),
            (&bob, "daemon", READS),
            (&bob, "root", DENIED),
            ("stranger%x", "alice", DENIED),
        ],
    )?;
    let text = fixture.smbclient().server(&server).credentials("stranger%x").list_shares()?.fine()?;
    let shown: Vec<&str> = text.lines().filter(|line| line.contains("Disk")).map(str::trim).collect();
    ensure!(shown.iter().any(|line| line.starts_with("homes")), "{shown:?}");
    ensure!(!shown.iter().any(|line| line.starts_with("alice")), "{shown:?}");
    Ok(())
}

const MAP: &str = "# alice = robert\n; alice = robert\n!alice = \"Ann Miller\" ann\nbob = ann robert\nbob = @alice\n";

fn username_map(fixture: &mut Fixture) -> Result<()> {
    let map = fixture.environment.dir().join("users.map");
    fs::write(&map, MAP)?;
    fixture.environment.make_dir("data/map", &ALICE, 0o777)?;
    let template =
        "[global]\n@TARGET@\n\tread only = no\n\tusername map = @DIR@/users.map\n[map]\n\tpath = @DIR@/data/map\n";
    let server = fixture.environment.start("people-map", template)?;
    check(
        fixture,
        &server,
        &[
            ("ann%alicepw", "map", WRITES),
            ("Ann Miller%alicepw", "map", WRITES),
            ("ANN%alicepw", "map", WRITES),
            ("ann%bobpw", "map", NO_LOGON),
            ("robert%bobpw", "map", WRITES),
            ("robert%alicepw", "map", NO_LOGON),
            ("bob%bobpw", "map", WRITES),
            ("alice%bobpw", "map", WRITES),
            ("alice%alicepw", "map", NO_LOGON),
            ("stranger%alicepw", "map", NO_LOGON),
        ],
    )?;
    let files = [
        ("of-ann-alicepw", &ALICE),
        ("of-Ann-Miller-alicepw", &ALICE),
        ("of-robert-bobpw", &BOB),
        ("of-alice-bobpw", &BOB),
    ];
    for (file, person) in files {
        ensure!(
            owner(fixture, &format!("data/map/{file}"))?.0 == person.id,
            "{file} does not belong to {}",
            person.name
        );
    }
    fs::write(&map, "!bob = bob\nalice = *\n")?;
    check(
        fixture,
        &server,
        &[
            ("stranger%alicepw", "map", WRITES),
            ("robert%bobpw", "map", NO_LOGON),
            ("bob%bobpw", "map", WRITES),
            ("alice%alicepw", "map", WRITES),
        ],
    )?;
    ensure!(owner(fixture, "data/map/of-stranger-alicepw")?.0 == ALICE.id, "the unknown user is not mapped to alice");
    fs::remove_file(&map)?;
    check(fixture, &server, &[("alice%alicepw", "map", WRITES), ("stranger%alicepw", "map", NO_LOGON)])
}

fn no_user_becomes_root(fixture: &mut Fixture) -> Result<()> {
    fs::write(fixture.environment.dir().join("root.map"), "root = *\nroot = @crew +crew\n")?;
    fixture.environment.make_dir("data/map", &ALICE, 0o777)?;
    let template =
        "[global]\n@TARGET@\n\tread only = no\n\tusername map = @DIR@/root.map\n[map]\n\tpath = @DIR@/data/map\n";
    let server = fixture.environment.start("people-root", template)?;
    check(fixture, &server, &[("bob%bobpw", "map", WRITES), ("stranger%alicepw", "map", NO_LOGON)])?;
    ensure!(owner(fixture, "data/map/of-bob-bobpw")?.0 == BOB.id, "bob is mapped to another user");
    Ok(())
}

/// User parameters of a share, and what alice and bob may do. `@SID@` is alice's SID, `@BED@` the server's name.
const LISTS: &[(&str, &str, &str)] = &[
    ("valid users = alice", WRITES, DENIED),
    ("valid users = ALICE", WRITES, DENIED),
    ("valid users = @alice", WRITES, DENIED),
    ("valid users = +alice", WRITES, DENIED),
    ("valid users = +crew", WRITES, WRITES),
    ("valid users = &crew", DENIED, DENIED),
    ("valid users = @BED@\\alice", WRITES, DENIED),
    ("valid users = \"Unix User\\alice\"", WRITES, DENIED),
    ("valid users = +\"Unix Group\\alice\"", WRITES, DENIED),
    ("valid users = ELSEWHERE\\alice", DENIED, DENIED),
    ("valid users = @SID@", WRITES, DENIED),
    ("valid users = S-1-22-2-64201", WRITES, DENIED),
    ("valid users = %U", WRITES, WRITES),
    ("valid users = alice\n\tinvalid users = +crew", DENIED, DENIED),
    ("invalid users = bob", WRITES, DENIED),
    ("invalid users = @alice", DENIED, WRITES),
    ("read list = bob", WRITES, READS),
    ("read list = @crew\n\twrite list = alice", WRITES, READS),
    ("read only = yes\n\twrite list = +alice", WRITES, READS),
    ("read only = yes\n\twrite list = @SID@", WRITES, READS),
    ("read only = yes\n\tread list = alice\n\twrite list = alice", WRITES, READS),
    ("read only = yes\n\tadmin users = alice", ADMIN, READS),
    ("read only = yes\n\tadmin users = alice\n\twrite list = alice", WRITES, READS),
    // The user that `force user` or `force group` sets is not considered in the lists.
    ("force user = bob\n\tvalid users = bob", DENIED, WRITES),
    ("force user = bob\n\tinvalid users = bob", WRITES, DENIED),
    ("force user = bob\n\tread list = bob", WRITES, READS),
    ("force user = bob\n\tread only = yes\n\twrite list = bob", READS, WRITES),
    ("force user = bob\n\tread only = yes\n\twrite list = alice", WRITES, READS),
    ("force group = alice\n\tvalid users = @alice", WRITES, DENIED),
    ("force group = alice\n\tread list = @alice", READS, WRITES),
];

/// A user in `admin users` may write only where other users may.
const ADMIN: &str = READS;

fn lists(fixture: &mut Fixture) -> Result<()> {
    fixture.environment.make_dir("data/lists", &ALICE, 0o777)?;
    let mut template = String::from("[global]\n@TARGET@\n\tnetbios name = BED\n\tread only = no\n");
    for (number, (lines, ..)) in LISTS.iter().enumerate() {
        template.push_str(&format!("[list{number}]\n\tpath = @DIR@/data/lists\n\t{}\n", lines.replace("@BED@", "BED")));
    }
    let mut server = fixture.environment.start("people-lists", &template)?;
    let sid = sid_of(fixture, &server, ALICE.name)?;
    let conf = fs::read_to_string(server.conf())?;
    fs::write(server.conf(), conf.replace("@SID@", &sid))?;
    server.restart()?;
    let mut wrong = String::new();
    for (number, (lines, alice, bob)) in LISTS.iter().enumerate() {
        for (person, expected) in [(&ALICE, alice), (&BOB, bob)] {
            let seen = access(fixture, &server, &person.credentials(), &format!("list{number}"))?;
            // On another share the user may be mapped to one who could not write to the file.
            let _ = fs::remove_file(fixture.share("lists").join(format!("of-{0}-{0}pw", person.name)));
            if seen != **expected {
                wrong.push_str(&format!("{lines}: {} {seen}, not {expected}\n", person.name));
            }
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

/// Shares that force a user or group: the lines, the client's user, and the owner of the new file.
const FORCED: &[(&str, &Person, (u32, u32))] = &[
    ("force user = bob", &ALICE, (BOB.id, BOB.id)),
    ("force group = crew", &ALICE, (ALICE.id, CREW.1)),
    ("force group = +crew", &ALICE, (ALICE.id, CREW.1)),
    ("force group = +alice", &BOB, (BOB.id, BOB.id)),
    ("force group = alice", &BOB, (BOB.id, ALICE.id)),
    ("force user = bob\n\tforce group = alice", &ALICE, (BOB.id, ALICE.id)),
    ("force user = bob\n\tvalid users = alice", &ALICE, (BOB.id, BOB.id)),
    ("admin users = alice", &ALICE, (0, ALICE.id)),
    ("admin users = alice\n\tforce user = bob", &ALICE, (0, BOB.id)),
    ("admin users = bob\n\tforce user = bob", &ALICE, (BOB.id, BOB.id)),
];

fn forced(fixture: &mut Fixture) -> Result<()> {
    let mut template = String::from("[global]\n@TARGET@\n\tread only = no\n");
    for (number, (lines, ..)) in FORCED.iter().enumerate() {
        fixture.environment.make_dir(&format!("data/forced{number}"), &ALICE, 0o777)?;
        template.push_str(&format!("[forced{number}]\n\tpath = @DIR@/data/forced{number}\n\t{lines}\n"));
    }
    let server = fixture.environment.start("people-forced", &template)?;
    let mut wrong = String::new();
    for (number, (lines, person, expected)) in FORCED.iter().enumerate() {
        let seen = access(fixture, &server, &person.credentials(), &format!("forced{number}"))?;
        let owner = owner(fixture, &format!("data/forced{number}/of-{0}-{0}pw", person.name));
        if seen != WRITES || owner.as_ref().ok() != Some(expected) {
            wrong.push_str(&format!("{lines}: {} {seen}, {owner:?}, not {expected:?}\n", person.name));
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    Ok(())
}

/// For each `map to guest`: an unknown user, alice with a wrong password, and an anonymous client, on a share for
/// guests.
const GUESTS: &[(&str, &str, &str)] = &[
    ("Never", NO_LOGON, NO_LOGON),
    ("Bad User", WRITES, NO_LOGON),
    ("Bad Password", WRITES, WRITES),
    ("Bad Uid", NO_LOGON, NO_LOGON),
];

fn guests(fixture: &mut Fixture) -> Result<()> {
    for name in ["open", "only", "closed"] {
        fixture.environment.make_dir(&format!("data/{name}"), &ALICE, 0o777)?;
    }
    let shares = "[open]\n\tpath = @DIR@/data/open\n\tguest ok = yes\n\
                  [only]\n\tpath = @DIR@/data/only\n\tguest ok = yes\n\tguest only = yes\n\
                  [closed]\n\tpath = @DIR@/data/closed\n";
    for (number, (value, stranger, wrong)) in GUESTS.iter().enumerate() {
        let template = format!("[global]\n@TARGET@\n\tread only = no\n\tmap to guest = {value}\n{shares}");
        let server = fixture.environment.start(&format!("people-guests{number}"), &template)?;
        let closed = if *stranger == WRITES { DENIED } else { stranger };
        let cases = [
            ("stranger%x", "open", *stranger),
            ("stranger%x", "closed", closed),
            ("alice%wrong", "open", wrong),
            ("alice%alicepw", "open", WRITES),
            ("alice%alicepw", "only", WRITES),
            ("alice%alicepw", "closed", WRITES),
        ];
        check(fixture, &server, &cases).with_context(|| format!("map to guest = {value}"))?;
        ensure!(owner(fixture, "data/open/of-alice-alicepw")?.0 == ALICE.id, "{value}: alice is a guest");
        let guest = owner(fixture, "data/only/of-alice-alicepw")?.0;
        ensure!(![0, ALICE.id, BOB.id].contains(&guest), "{value}: with `guest only` alice is {guest}");
    }
    Ok(())
}

/// Runs rpcclient as alice.
fn rpcclient(fixture: &Fixture, server: &Server, call: &str) -> Result<String> {
    let mut command = fixture.program("rpcclient", server, &ALICE.credentials());
    output(command.args(["127.0.0.1", "-c", call]))
}

/// Runs a program, which may fail, and returns its output.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Returns the server's SID for a name.
pub(super) fn sid_of(fixture: &Fixture, server: &Server, name: &str) -> Result<String> {
    let said = rpcclient(fixture, server, &format!("lookupnames {name}"))?;
    let sid = said.split_whitespace().find(|word| word.starts_with("S-1-"));
    sid.map(str::to_owned).with_context(|| format!("no SID of {name} in {said}"))
}

const ACLS: &str = "[global]\n@TARGET@\n\tnetbios name = BED\n\tread only = no\n\
                    [acls]\n\tpath = @DIR@/data/acls-people\n\tvfs objects = acl_xattr\n";

/// Accounts, UNIX groups and well-known SIDs by name and by SID, and the owner of a file.
fn sids(fixture: &mut Fixture) -> Result<()> {
    fixture.environment.make_dir("data/acls-people", &ALICE, 0o777)?;
    let server = fixture.environment.start("people-sids", ACLS)?;
    let alice = sid_of(fixture, &server, ALICE.name)?;
    ensure!(alice.starts_with("S-1-5-21-"), "alice is {alice}");
    let names = [
        (alice.as_str(), "BED\\alice (1)"),
        ("S-1-22-1-64202", "Unix User\\bob (1)"),
        ("S-1-22-2-64210", "Unix Group\\crew (2)"),
        ("S-1-5-32-544", "BUILTIN\\Administrators (4)"),
        ("S-1-1-0", "\\Everyone (5)"),
        ("S-1-5-11", "NT Authority\\Authenticated Users (5)"),
    ];
    for (sid, name) in names {
        let said = rpcclient(fixture, &server, &format!("lookupsids {sid}"))?;
        ensure!(said.to_uppercase().contains(&format!("{sid} {name}").to_uppercase()), "{sid}: {said}");
    }
    let by_name = [("\"Unix Group\\crew\"", "S-1-22-2-64210"), ("\"BED\\alice\"", &alice), ("crew", "S-1-22-2-64210")];
    for (name, sid) in by_name {
        let said = rpcclient(fixture, &server, &format!("lookupnames {name}"))?;
        ensure!(said.contains(sid), "{name}: {said}");
    }
    let said = rpcclient(fixture, &server, "lookupnames nobody-like-it")?;
    ensure!(said.contains("NT_STATUS_NONE_MAPPED"), "{said}");
    let file = fixture.local("acls")?.join("file");
    fs::write(&file, "something")?;
    let put = format!("put {} file", file.display());
    fixture.smbclient().server(&server).share("acls").run(&put)?.fine()?;
    let shown = fixture.smbclient().server(&server).share("acls").run("showacls; ls file")?.fine()?;
    ensure!(shown.contains(&format!("Owner SID:\t{alice}\n")), "{alice}: {shown}");
    Ok(())
}

/// Maps `crew` to the name Night Shift, with `frevo group` or Samba's `net groupmap`.
fn map_crew(fixture: &Fixture, server: &Server) -> Result<String> {
    let mut command = match server.target() {
        Target::Frevo => {
            let mut frevo = Command::new(test_environment::frevo());
            frevo.args(["group", "add", "Night Shift", "--unix-group", CREW.0, "-c"]).arg(server.conf());
            frevo
        }
        Target::Samba => {
            let mut net = Command::new("net");
            net.arg("-s").arg(server.conf()).args(["groupmap", "add", "ntgroup=Night Shift", "type=domain"]);
            net.arg(format!("unixgroup={}", CREW.0));
            net
        }
    };
    output(fixture.environment.people().enter(&mut command))
}

/// A UNIX group gets a SID and a name, which an ACL and the user parameters of a share can use.
fn groups(fixture: &mut Fixture) -> Result<()> {
    fixture.environment.make_dir("data/acls-people", &ALICE, 0o777)?;
    let lists = "[byname]\n\tpath = @DIR@/data/acls-people\n\tvalid users = @\"Night Shift\"\n\
                 [bywhole]\n\tpath = @DIR@/data/acls-people\n\tvalid users = +\"BED\\Night Shift\"\n\
                 [byunix]\n\tpath = @DIR@/data/acls-people\n\tvalid users = +crew\n\
                 [bysid]\n\tpath = @DIR@/data/acls-people\n\tvalid users = @SID@\n\tread list = @SID@\n\
                 [byother]\n\tpath = @DIR@/data/acls-people\n\tvalid users = @SID@9\n";
    let mut server = fixture.environment.start("people-groups", &format!("{ACLS}{lists}"))?;
    let said = map_crew(fixture, &server)?;
    let sid = sid_of(fixture, &server, "\"Night Shift\"").context(said)?;
    let seen = rpcclient(fixture, &server, &format!("lookupsids {sid}"))?;
    ensure!(seen.contains("BED\\Night Shift (2)"), "{seen}");
    let file = fixture.local("acls")?.join("file");
    fs::write(&file, "something")?;
    let alice = fixture.smbclient().server(&server).share("acls");
    alice.run(&format!("put {} shift", file.display()))?.fine()?;
    let reads = || fixture.smbclient().server(&server).user(&BOB).share("acls").run("get shift /dev/null");
    let grant = |arguments: &[&str]| {
        let mut script = fixture.script_command("grant.py", arguments);
        output(script.env("SERVER_PORT", server.port().to_string()))
    };
    let said = grant(&["acls", "shift"])?;
    reads()?.refused_with(DENIED).with_context(|| format!("before: {said}"))?;
    let said = grant(&["acls", "shift", &sid])?;
    reads()?.fine().with_context(|| format!("granted: {said}"))?;
    ensure!(said.is_empty(), "{said}");
    let path = fixture.share("acls-people").join("shift");
    std::os::unix::fs::chown(&path, None, Some(CREW.1))?;
    let shown = fixture.smbclient().server(&server).share("acls").run("showacls; ls shift")?.fine()?;
    ensure!(shown.contains(&format!("Group SID:\t{sid}\n")), "{sid}: {shown}");
    let conf = fs::read_to_string(server.conf())?;
    fs::write(server.conf(), conf.replace("@SID@", &sid))?;
    server.restart()?;
    let bob = BOB.credentials();
    let expected = [("byname", WRITES), ("bywhole", WRITES), ("byunix", WRITES), ("bysid", READS), ("byother", DENIED)];
    check(fixture, &server, &expected.map(|(share, access)| (bob.as_str(), share, access)))
}

/// The status for each code of PAM that account management can have, a refused session, and the calls of the modules.
fn pam_restrictions(fixture: &mut Fixture) -> Result<()> {
    let dir = fixture.environment.dir().to_owned();
    let service = dir.join("etc/pam.d/samba");
    let former = fs::read(&service).ok();
    fixture.environment.make_dir("data/pam", &ALICE, 0o777)?;
    let template =
        "[global]\n@TARGET@\n\tread only = no\n\tobey pam restrictions = yes\n[pam]\n\tpath = @DIR@/data/pam\n";
    let server = fixture.environment.start("people-pam", template)?;
    let alice = ALICE.credentials();
    let mut wrong = String::new();
    for (lines, expected) in [
        ("account required pam_permit.so\nsession required pam_permit.so", WRITES),
        ("account required pam_debug.so acct=acct_expired", "NT_STATUS_ACCOUNT_EXPIRED"),
        ("account required pam_debug.so acct=new_authtok_reqd", "NT_STATUS_PASSWORD_MUST_CHANGE"),
        ("account required pam_debug.so acct=authtok_expired", "NT_STATUS_PASSWORD_EXPIRED"),
        ("account required pam_debug.so acct=perm_denied", DENIED),
        ("account required pam_debug.so acct=auth_err", NO_LOGON),
        ("account required pam_debug.so acct=user_unknown", NO_LOGON),
        ("account required pam_debug.so acct=maxtries", "NT_STATUS_REMOTE_SESSION_LIMIT"),
        ("account required pam_debug.so acct=system_err", "NT_STATUS_UNSUCCESSFUL"),
        ("account required pam_succeed_if.so quiet user != alice", NO_LOGON),
        ("account required pam_permit.so\nsession required pam_deny.so", NO_LOGON),
    ] {
        fs::write(&service, format!("{lines}\n"))?;
        let seen = access(fixture, &server, &alice, "pam")?;
        if seen != expected {
            wrong.push_str(&format!("{lines}: {seen}, not {expected}\n"));
        }
    }
    // A guest or an anonymous user is not a user of PAM, and a wrong password is refused before.
    let log = dir.join("pam-calls");
    let script = dir.join("pam-script");
    fs::write(&script, format!("#!/bin/sh\necho $PAM_TYPE $PAM_USER $PAM_RHOST $PAM_SERVICE >> {}\n", log.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let exec = format!("required pam_exec.so {}", script.display());
    fs::write(&service, format!("account {exec}\nsession {exec}\nauth {exec}\n"))?;
    let smbclient = || fixture.smbclient().server(&server).share("pam");
    ensure!(!smbclient().credentials("alice%wrong").run("ls")?.success, "a wrong password");
    ensure!(smbclient().credentials(&alice).run("ls")?.success, "{}", server.log_tail());
    let expected = ["account", "open_session", "close_session"].map(|call| format!("{call} alice 127.0.0.1 samba\n"));
    let expected = expected.concat();
    let since = Instant::now();
    let calls = loop {
        let calls = fs::read_to_string(&log).unwrap_or_default();
        if calls == expected || since.elapsed() > PATIENCE {
            break calls;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if let Some(former) = former {
        fs::write(&service, former)?;
    }
    ensure!(wrong.is_empty(), "{wrong}{}", server.log_tail());
    ensure!(calls == expected, "calls of modules:\n{calls}{}", server.log_tail());
    Ok(())
}
