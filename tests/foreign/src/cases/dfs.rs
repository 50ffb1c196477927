//! A DFS namespace on two servers, walked by smbclient. A referral names a server without a port, so the servers have
//! the standard port of two addresses in a network namespace.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::cases::people::output;
use crate::cases::twins::{Differences, Twin, Twins};
use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, Port445, Server};

pub(super) const CASES: &[Case] = &[
    Case::new("dfs.links", links).needs_root(),
    Case::new("dfs.dead_link", dead_link).needs_root(),
    Case::new("dfs.proxy", proxy).needs_root(),
    Case::new("dfs.off", off).needs_root(),
    Case::new("dfs.as_samba", as_samba).needs_root().frevo_only(),
];

/// The server with the namespace and a share of its own.
const ROOT: &str = "[global]
@TARGET@
	read only = no
	host msdfs = @HOST@
[space]
	path = @DIR@/data/space
	msdfs root = yes
[near]
	path = @DIR@/data/near
[elsewhere]
	path = @DIR@/data/space
	msdfs root = yes
	msdfs proxy = \\@OTHER@\\far,\\@DEAD@\\none
[moved]
	msdfs proxy = @OTHER@\\far
";

/// The server that only has a share.
const OTHER: &str = "[global]
@TARGET@
	read only = no
[far]
	path = @DIR@/data/far
";

/// The configuration of both servers that are compared.
const COMPARED: &str = "[global]
@TARGET@
	read only = no
[space]
	path = @TREE@
	msdfs root = yes
[plain]
	path = @TREE@
[elsewhere]
	path = @TREE@
	msdfs root = yes
	msdfs proxy = \\one\\data,two\\data\\below
[elsewhere-too]
	path = @TREE@
	msdfs proxy = \\one\\data
";

/// An address at which there is no server.
const DEAD: &str = "10.99.0.9";

/// Both servers, and what smbclient needs to use them.
struct Namespace {
    doors: Port445,
    _servers: [Server; 2],
    client: std::path::PathBuf,
}

impl Namespace {
    /// Starts the servers. The namespace has three links: to a share of the same server, to a directory below a share
    /// of the other server, and to an address without a server.
    fn start(fixture: &Fixture, case: &str, host_msdfs: &str) -> Result<Namespace> {
        let [first, second] = Port445::ADDRESSES;
        for directory in ["space", "space/teams", "near", "far", "far/below", "far/below/sub"] {
            fixture.environment.make_dir(&format!("data/{directory}"), &ALICE, 0o777)?;
        }
        for name in ["space/own", "near/of-near", "far/of-far", "far/below/of-below", "far/below/sub/deep"] {
            file::owned(fixture, &fixture.share(name), name, &ALICE, 0o644)?;
        }
        for (name, target) in [
            ("space/near", format!(r"msdfs:{first}\near")),
            ("space/teams/far", format!(r"msdfs:{DEAD}\none,{second}\far\below")),
            ("space/gone", format!(r"msdfs:{DEAD}\none")),
        ] {
            let path = fixture.share(name);
            let _ = fs::remove_file(&path);
            symlink(target, path)?;
        }
        let text = ROOT.replace("@HOST@", host_msdfs).replace("@DEAD@", DEAD).replace("@OTHER@", &second.to_string());
        let servers = [(format!("{case}-root"), text.as_str()), (format!("{case}-other"), OTHER)];
        let [root, other] = servers.map(|(name, text)| fixture.environment.start(&name, text));
        let servers = [root?, other?];
        let doors = Port445::open([servers[0].address(), servers[1].address()])?;
        let client = fixture.environment.dir().join("client/smb.conf");
        Ok(Namespace { doors, _servers: servers, client })
    }

    /// Runs commands of smbclient on a share of the first server, and returns its output and errors.
    fn run(&self, share: &str, commands: &str) -> Result<String> {
        let mut command = Command::new("smbclient");
        command.arg(format!("//{}/{share}", Port445::ADDRESSES[0])).args(["-c", commands]).arg("-s").arg(&self.client);
        command.args(["-U", &ALICE.credentials()]).stdin(Stdio::null());
        output(self.doors.enter(&mut command))
    }

    /// Runs commands that succeed, and returns the output.
    fn fine(&self, share: &str, commands: &str) -> Result<String> {
        let text = self.run(share, commands)?;
        ensure!(!text.contains("NT_STATUS_"), "{commands}:\n{text}");
        Ok(text)
    }
}

/// Checks that smbclient lists `name` with these attributes.
fn lists(text: &str, name: &str, attributes: &str) -> Result<()> {
    let found = text.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(name) && words.next() == Some(attributes)
    });
    ensure!(found, "no {name} with {attributes} in\n{text}");
    Ok(())
}

fn links(fixture: &mut Fixture) -> Result<()> {
    let namespace = Namespace::start(fixture, "links", "yes")?;
    let text = namespace.fine("space", "ls; cd teams; ls")?;
    for link in ["near", "gone", "far"] {
        lists(&text, link, "Dr")?;
    }
    lists(&text, "teams", "D")?;
    let local = fixture.local("dfs")?;
    for (path, name) in [
        ("own", "space/own"),
        (r"near\of-near", "near/of-near"),
        (r"teams\far\of-below", "far/below/of-below"),
        (r"teams\far\sub\deep", "far/below/sub/deep"),
    ] {
        let fetched = local.join("fetched");
        namespace.run("space", &format!("get {path} {}", fetched.display()))?;
        let text = fs::read_to_string(&fetched).unwrap_or_default();
        ensure!(text == name, "{path} has {text:?}");
        fs::remove_file(fetched)?;
    }
    let text = namespace.run("space", r"cd near; ls; showconnect")?;
    ensure!(text.contains("of-near") && text.contains(&format!("//{}/near", Port445::ADDRESSES[0])), "{text}");
    // The first target of this link is dead, so the client takes the second one.
    let text = namespace.run("space", r"cd teams\far; ls; cd sub; ls; showconnect")?;
    let server = format!("//{}/far", Port445::ADDRESSES[1]);
    ensure!(text.contains("of-below") && text.contains("deep") && text.contains(&server), "{text}");
    let sent = local.join("sent");
    fs::write(&sent, "sent")?;
    namespace.run("space", &format!(r"put {} teams\far\new; mkdir near\made", sent.display()))?;
    let written = fs::read_to_string(fixture.share("far/below/new"))?;
    ensure!(written == "sent" && fixture.share("near/made").is_dir(), "it was written elsewhere");
    namespace.run("space", r"del teams\far\new; rmdir near\made")?;
    ensure!(!fixture.share("far/below/new").exists() && !fixture.share("near/made").exists(), "it was not deleted");
    // The namespace itself has ordinary files.
    namespace.fine("space", &format!("put {} plain; rename plain renamed; del renamed", sent.display()))?;
    Ok(())
}

fn dead_link(fixture: &mut Fixture) -> Result<()> {
    let namespace = Namespace::start(fixture, "dead_link", "yes")?;
    for commands in [r"ls gone\*", "cd gone", r"get gone\file /dev/null", "del gone", "rename gone other"] {
        let text = namespace.run("space", commands)?;
        let refused = text.contains("NT_STATUS_") || text.contains("NT code");
        ensure!(refused && text.contains(&format!("Connection to {DEAD} failed")), "{commands}:\n{text}");
    }
    let link = fs::read_link(fixture.share("space/gone"))?;
    ensure!(link.to_string_lossy().starts_with("msdfs:"), "the link is {link:?}");
    // The other links work after it in the same session.
    let text = namespace.run("space", r"ls gone\*; ls near\*; ls teams\far\*; ls")?;
    for name in ["of-near", "of-below", "own"] {
        lists(&text, name, "N").or_else(|_| lists(&text, name, "A"))?;
    }
    Ok(())
}

fn proxy(fixture: &mut Fixture) -> Result<()> {
    // Unlike for a link, smbclient tries only the first target.
    let namespace = Namespace::start(fixture, "proxy", "yes")?;
    let server = format!("//{}/far", Port445::ADDRESSES[1]);
    // The second one has no directory.
    for share in ["elsewhere", "moved"] {
        let text = namespace.run(share, r"ls; ls below\*; showconnect")?;
        ensure!(text.contains("of-far") && text.contains("of-below") && text.contains(&server), "{share}:\n{text}");
    }
    Ok(())
}

fn off(fixture: &mut Fixture) -> Result<()> {
    let namespace = Namespace::start(fixture, "off", "no")?;
    let text = namespace.fine("space", "ls")?;
    lists(&text, "own", "N").or_else(|_| lists(&text, "own", "A"))?;
    ensure!(!text.lines().any(|line| line.split_whitespace().nth(1) == Some("Dr")), "{text}");
    let text = namespace.run("space", r"ls near\*")?;
    ensure!(text.contains("NT_STATUS_OBJECT_") || text.contains("NT_STATUS_STOPPED"), "{text}");
    let text = namespace.fine("elsewhere", "ls")?;
    ensure!(text.contains("own"), "{text}");
    Ok(())
}

fn as_samba(fixture: &mut Fixture) -> Result<()> {
    let trees = ["data/compared", "data/compared-too"];
    for tree in trees {
        fixture.environment.make_dir(tree, &ALICE, 0o777)?;
        fixture.environment.make_dir(&format!("{tree}/teams"), &ALICE, 0o777)?;
        let tree = fixture.environment.dir().join(tree);
        file::owned(fixture, &tree.join("own"), "own", &ALICE, 0o644)?;
        for (name, target) in [
            ("near", r"msdfs:one\data"),
            ("teams/far", r"msdfs:one\data\below,two\data,\\three\data"),
            ("empty", "msdfs:"),
            ("slashes", "msdfs:one/data,,two/data/below,"),
            ("capitals", r"MSDFS:one\data"),
            ("to_teams", "teams"),
        ] {
            symlink(target, tree.join(name))?;
        }
    }
    let trees = trees.map(|tree| fixture.environment.dir().join(tree));
    let twins = Twins::start(fixture, "compared", COMPARED, [&trees[0], &trees[1]])?;
    let [samba, frevo] = [Twin::Samba, Twin::Frevo].map(|twin| twins.script(fixture, twin, "dfs.py", &[]));
    Differences::of_lines("dfs", &samba?, &frevo?).none()
}
