//! A step of `cargo xtask gluster test`: Samba and Frevo serve one directory of a volume in turns. What one of them has
//! stored there is shown unchanged by the other: descriptors, streams, DOS attributes and creation times.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use test_environment::{ALICE, Counts, Crowd, Server, Target, TestEnvironment, interrupt};

use super::Volume;
use super::servers::{Servers, finish, output};

/// The configuration of both servers. @VOLUME@ is the volume.
const TEMPLATE: &str = "[global]
@TARGET@
\tnetbios name = BED
\tread only = no
\tstore dos attributes = yes
\tmap archive = no
\tkernel share modes = no
\tvfs objects = acl_xattr streams_xattr glusterfs
\tglusterfs:volume = @VOLUME@
\tglusterfs:volfile_server = 127.0.0.1
\tglusterfs:logfile = @DIR@/gfapi.log
[interchange]
\tpath = /interchange
";
/// The share, and the directory of the volume that it shows.
const SHARE: &str = "interchange";
/// smbcacls supports no other port.
const SMB: u16 = 445;
/// The turns of each server.
const TURNS: usize = 3;
/// Sizes of the streams of each file.
const SIZES: [usize; 3] = [10, 5_000, 60_000];
/// The size of a stream that no attribute can contain.
const LARGE: usize = 100_000;

/// Runs the part in the namespaces for a volume.
pub(super) fn run(servers: &Servers, volume: &str) -> Result<Counts> {
    let mut command = servers.command(super::own_program()?);
    command.args(["gluster", "--dir"]).arg(servers.dir()).args(["interchange", volume]);
    Ok(match finish(&mut command)? {
        status if status.success() => Counts::passed(1),
        status => Counts::failed(format!("Samba and Frevo on {volume}: {status}")),
    })
}

/// Serves the directory in turns. `dir` is the directory of the GlusterFS servers.
pub(super) fn inside(dir: &Path, volume: &Volume) -> Result<()> {
    let mut ground = Ground::lay(dir, volume.name)?;
    let mut files = BTreeMap::new();
    let mut before = BTreeMap::new();
    for turn in 0..2 * TURNS {
        interrupt::check()?;
        let target = if turn.is_multiple_of(2) { Target::Samba } else { Target::Frevo };
        ground.serve(target)?;
        let shown = if files.is_empty() { BTreeMap::new() } else { ground.shown(&files)? };
        for (name, was) in &before {
            ensure!(shown.get(name) == Some(was), "{target:?} shows {name} as\n{:?}, not as\n{was}", shown.get(name));
        }
        ground.change(turn, &mut files)?;
        before = ground.shown(&files)?;
        ground.check_bricks(&files)?;
    }
    ground.large_stream()?;
    let streams: usize = files.values().map(BTreeMap::len).sum();
    println!("{} files with {streams} streams are equal after {} turns on {}", files.len(), 2 * TURNS, volume.name);
    Ok(())
}

/// The streams of each file, with their content.
type Files = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

struct Ground {
    // The servers end before the environments are removed.
    samba: Server,
    frevo: Server,
    environments: [TestEnvironment; 2],
    /// The directory on each brick.
    bricks: [PathBuf; 3],
}

impl Ground {
    /// Starts both servers once and stops them. alice has the same SID for both.
    fn lay(dir: &Path, volume: &str) -> Result<Ground> {
        let mounted = dir.join("mnt").join(volume).join(SHARE);
        fs::create_dir(&mounted).with_context(|| format!("cannot create {}", mounted.display()))?;
        let bricks = [1, 2, 3].map(|number| dir.join(format!("bricks/{volume}-{number}")).join(SHARE));
        let template = TEMPLATE.replace("@VOLUME@", volume);
        let environments = [Target::Frevo, Target::Samba].map(|target| TestEnvironment::make_in(dir, target, Crowd(0)));
        let [for_frevo, for_samba] = environments;
        let (for_frevo, for_samba) = (for_frevo?, for_samba?);
        for_frevo.people().give(&mounted, &ALICE)?;
        let mut frevo = for_frevo.start_on("server", &template, SMB)?;
        let lookup = format!("lookupnames {}", ALICE.name);
        let said = client("rpcclient", &["127.0.0.1", "-c", &lookup])?;
        let sid = said.split_whitespace().find(|word| word.starts_with("S-1-5-21-")).context(said.clone())?;
        frevo.stop();
        let mut samba = for_samba.start_on("server", &template, SMB)?;
        samba.stop();
        let conf = samba.conf().display().to_string();
        let (domain, _) = sid.rsplit_once('-').context("a SID with a RID")?;
        let give = |program, arguments: &[&str]| {
            output(for_samba.people().enter(Command::new(program).args(["-s", &conf]).args(arguments)))
        };
        give("net", &["setlocalsid", domain])?;
        give("pdbedit", &["-r", "-u", ALICE.name, "-U", sid])?;
        Ok(Ground { samba, frevo, environments: [for_frevo, for_samba], bricks })
    }

    /// Stops the other server and starts this one.
    fn serve(&mut self, target: Target) -> Result<()> {
        let (one, other) = match target {
            Target::Samba => (&mut self.samba, &mut self.frevo),
            Target::Frevo => (&mut self.frevo, &mut self.samba),
        };
        other.stop();
        one.restart()
    }

    /// Returns a path outside the volume.
    fn local(&self, name: &str) -> PathBuf {
        self.environments[0].dir().join(name)
    }

    /// Creates a file with streams, and changes that of the turn before.
    fn change(&self, turn: usize, files: &mut Files) -> Result<()> {
        let name = format!("file{turn}");
        let mut commands = format!("put {} {name}; ", self.content("content", b"text")?.display());
        let streams = files.entry(name.clone()).or_default();
        for size in SIZES {
            let content: Vec<u8> = (0..size).map(|at| (at + turn) as u8).collect();
            let path = self.content(&format!("stream{size}"), &content)?;
            commands += &format!("put {} {name}:s{size}; ", path.display());
            streams.insert(format!("s{size}"), content);
        }
        commands += &format!("setmode {name} +hs; utimes {name} 2001:02:03-04:05:0{turn} -1 -1 -1; ");
        let earlier = turn.checked_sub(1).map(|turn| format!("file{turn}"));
        if let Some(earlier) = &earlier {
            let content = format!("changed in turn {turn}").into_bytes();
            let path = self.content("changed", &content)?;
            // Samba replaces no stream of a hidden file or a file of the system.
            let (show, put) = (format!("setmode {earlier} -hs"), format!("put {} {earlier}:s10", path.display()));
            commands += &format!("{show}; {put}; setmode {earlier} +ra; ");
            files.entry(earlier.clone()).or_default().insert("s10".into(), content);
        }
        smbclient(&commands)?;
        let add = |name: &str, ace: &str| {
            client("smbcacls", &[&format!("//127.0.0.1/{SHARE}"), name, "--add", &format!("ACL:{ace}")])
        };
        add(&name, "S-1-1-0:ALLOWED/0x0/0x001200a9")?;
        earlier.iter().try_for_each(|earlier| add(earlier, "S-1-5-32-545:DENIED/0x0/0x00000002").map(drop))
    }

    fn content(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.local(name);
        fs::write(&path, content)?;
        Ok(path)
    }

    /// Returns what the server shows of each file, after a check of the content of all streams. There are few calls of
    /// smbclient, because Samba takes ten seconds to leave
    /// the volume after each.
    fn shown(&self, files: &Files) -> Result<BTreeMap<String, String>> {
        let mut commands = "showacls; ".to_owned();
        for (name, streams) in files {
            for stream in streams.keys() {
                commands += &format!("get {name}:{stream} {}; ", self.local(&format!("{name}-{stream}")).display());
            }
            commands += &format!("allinfo {name}; ls {name}; ");
        }
        let said = smbclient(&commands)?;
        // The information of each file begins with this word.
        let infos: Vec<&str> = said.split("altname:").skip(1).collect();
        ensure!(infos.len() == files.len(), "{said}");
        let mut shown = BTreeMap::new();
        for ((name, streams), info) in files.iter().zip(infos) {
            for (stream, content) in streams {
                let read = fs::read(self.local(&format!("{name}-{stream}")))?;
                ensure!(read == *content, "{name}:{stream} has another content");
            }
            // Samba does not show the fraction of a second of the other times.
            let left_out = ["access_time", "write_time", "change_time", "MTIME"];
            let is_kept = |line: &&str| !left_out.iter().any(|word| line.starts_with(word)) && line.contains(':');
            let mut lines: Vec<_> = info.lines().skip(1).filter(is_kept).collect();
            lines.sort_unstable();
            let has = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
            let found = (has("create_time"), has("attributes"), has("stream"));
            ensure!(found == (1, 1, 1 + streams.len()) && info.contains("S-1-1-0"), "{name}: {info}");
            shown.insert(name.clone(), lines.join("\n"));
        }
        Ok(shown)
    }

    /// Checks that a brick has each stream, followed by a zero byte, and the other attributes.
    fn check_bricks(&self, files: &Files) -> Result<()> {
        for (name, streams) in files {
            let paths = self.bricks.iter().map(|brick| brick.join(name));
            // A brick that does not have a file may have an empty one that says where it is.
            let path = paths.into_iter().find(|path| fs::metadata(path).is_ok_and(|found| found.len() > 0));
            let path = path.with_context(|| format!("no brick has {name}"))?;
            for (stream, content) in streams {
                let value = attribute(&path, &format!("user.DosStream.{stream}:$DATA"))?;
                ensure!(value.strip_suffix(b"\0") == Some(content), "{}: {stream} is different", path.display());
            }
            for attribute_name in ["user.DOSATTRIB", "security.NTACL"] {
                attribute(&path, attribute_name)?;
            }
        }
        Ok(())
    }

    /// Checks that Frevo, which serves the directory, has a store for streams that no attribute can contain.
    fn large_stream(&self) -> Result<()> {
        let content: Vec<u8> = (0..LARGE).map(|at| at as u8).collect();
        let path = self.content("large", &content)?;
        let (copy, put) = (self.local("copy"), format!("put {0} large; put {0} large:stream", path.display()));
        smbclient(&format!("{put}; get large:stream {}", copy.display()))?;
        ensure!(fs::read(copy)? == content, "a large stream has another content");
        // The mount may have noted for a moment that there is no such name.
        let has_entries =
            |brick: &PathBuf| fs::read_dir(brick.join(".frevo-streams")).is_ok_and(|mut store| store.next().is_some());
        ensure!(self.bricks.iter().any(has_entries), "no brick has an entry in the store of large streams");
        Ok(())
    }
}

/// Runs one of Samba's client programs as alice.
fn client(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["-s", "/dev/null", "-U", &ALICE.credentials()]).args(arguments).stdin(Stdio::null());
    output(&mut command)
}

fn smbclient(commands: &str) -> Result<String> {
    let said = client("smbclient", &[&format!("//127.0.0.1/{SHARE}"), "-c", commands])?;
    ensure!(!said.contains("NT_STATUS_"), "{commands}: {said}");
    Ok(said)
}

fn attribute(path: &Path, name: &str) -> Result<Vec<u8>> {
    let mut command = Command::new("getfattr");
    let found = command.args(["--absolute-names", "--only-values", "-n", name]).arg(path).output()?;
    ensure!(found.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&found.stderr));
    Ok(found.stdout)
}
