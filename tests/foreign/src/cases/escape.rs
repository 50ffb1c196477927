//! No name leads out of a share: not `..`, an absolute path, a symbolic link, one swapped in during opens, a stream
//! name or a pipe name. Opens with the POSIX extensions of SMB 3.1.1 do not lead out either.
//!
//! The files outside are readable by everyone, so that only the server's own checks protect them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] = &[
    Case::new("escape.names", |fixture| names(fixture, Opens::Windows)),
    Case::new("escape.posix_names", |fixture| names(fixture, Opens::Posix)).frevo_only(),
    Case::new("escape.posix_links", posix_links).frevo_only(),
    Case::new("escape.smbclient", smbclient),
    Case::new("escape.links_within_the_share", links_within_the_share),
    Case::new("escape.link_swapped_for_file", |fixture| swapped(fixture, Swap::File, Opens::Windows)),
    Case::new("escape.link_swapped_for_folder", |fixture| swapped(fixture, Swap::Folder, Opens::Windows)),
    Case::new("escape.posix_link_swapped_for_file", |fixture| swapped(fixture, Swap::File, Opens::Posix)).frevo_only(),
    Case::new("escape.posix_link_swapped_for_folder", |fixture| swapped(fixture, Swap::Folder, Opens::Posix))
        .frevo_only(),
];

/// How the client opens files.
#[derive(Clone, Copy)]
enum Opens {
    Windows,
    /// With the POSIX extensions of SMB 3.1.1.
    Posix,
}

impl Opens {
    /// Returns the Python module that does it.
    fn module(self) -> &'static str {
        match self {
            Opens::Windows => "connection",
            Opens::Posix => "posix_opens",
        }
    }
}

const SECRET: &str = "kept-outside-of-every-share";

/// Creates a folder with the secret next to the shares, and links to it in the share.
fn prepare(fixture: &Fixture) -> Result<PathBuf> {
    let outside = fixture.environment.make_dir("data/outside", &ALICE, 0o777)?;
    file::owned(fixture, &outside.join("secret"), SECRET, &ALICE, 0o666)?;
    file::owned(fixture, &fixture.environment.dir().join("data/secret"), SECRET, &ALICE, 0o666)?;
    let share = fixture.share("files");
    fixture.environment.make_dir("data/files/inner", &ALICE, 0o777)?;
    file::owned(fixture, &share.join("plain"), "inside", &ALICE, 0o666)?;
    let links: [(&Path, &str); 5] = [
        (&outside.join("secret"), "link"),
        (&outside, "link_dir"),
        (Path::new(".."), "link_up"),
        (Path::new("/etc/passwd"), "passwd_link"),
        (Path::new("link_dir"), "chain"),
    ];
    for (target, name) in links {
        let _ = fs::remove_file(share.join(name));
        symlink(target, share.join(name))?;
    }
    Ok(outside)
}

/// Creates a FIFO and a socket in the share, and a previous version with links to the outside in another one.
fn prepare_special(fixture: &Fixture, outside: &Path) -> Result<()> {
    let share = fixture.share("files");
    for name in ["fifo", "socket"] {
        let _ = fs::remove_file(share.join(name));
    }
    make_fifo(&share.join("fifo"))?;
    drop(std::os::unix::net::UnixListener::bind(share.join("socket"))?);
    let version = "data/versions/.snapshots/@GMT-2015.10.31-19.40.30";
    fixture.environment.make_dir("data/versions/.snapshots", &ALICE, 0o755)?;
    let version = fixture.environment.make_dir(version, &ALICE, 0o755)?;
    file::owned(fixture, &version.join("plain"), "old", &ALICE, 0o644)?;
    file::owned(fixture, &fixture.share("versions").join("plain"), "new", &ALICE, 0o644)?;
    let targets = [(outside.join("secret"), "out"), (outside.to_owned(), "folder"), ("../../../..".into(), "up")];
    for (target, name) in targets {
        let _ = fs::remove_file(version.join(name));
        symlink(target, version.join(name))?;
    }
    Ok(())
}

fn make_fifo(path: &Path) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).context("a path with a zero byte")?;
    // SAFETY: the string ends in a zero byte and outlives the call.
    let made = unsafe { libc::mkfifo(name.as_ptr(), 0o666) };
    ensure!(made == 0, "cannot create {}: {}", path.display(), std::io::Error::last_os_error());
    Ok(())
}

fn posix_links(fixture: &mut Fixture) -> Result<()> {
    let outside = prepare(fixture)?;
    let share = fixture.share("files");
    for number in 0..6 {
        let _ = fs::remove_file(share.join(format!("made{number}")));
    }
    let said = fixture.script("posix_links.py", &[SECRET, &outside.to_string_lossy()])?;
    ensure!(said.trim() == "6", "links created: {said}");
    for number in 0..6 {
        let link = share.join(format!("made{number}"));
        ensure!(fs::symlink_metadata(&link)?.is_symlink(), "{} is not a symbolic link", link.display());
    }
    let left = file::contents(&outside)?;
    ensure!(left.len() == 1, "files were created outside the share: {:?}", left.keys());
    Ok(())
}

fn names(fixture: &mut Fixture, opens: Opens) -> Result<()> {
    let outside = prepare(fixture)?;
    prepare_special(fixture, &outside)?;
    fixture.script("escape.py", &[SECRET, opens.module()])?;
    let left = file::contents(&outside)?;
    ensure!(left.len() == 1, "files were created outside the share: {:?}", left.keys());
    for place in ["secret.new", "outside.new"] {
        ensure!(!fixture.environment.dir().join("data").join(place).exists(), "{place} was created next to the shares");
    }
    ensure!(!Path::new("/etc/passwd.new").exists(), "/etc/passwd.new was created");
    Ok(())
}

fn smbclient(fixture: &mut Fixture) -> Result<()> {
    prepare(fixture)?;
    for name in ["link", "link_dir/secret", "chain/secret", "passwd_link", "../outside/secret", "/etc/passwd"] {
        let said = fixture.smbclient().run(&format!("get {name} -"))?;
        ensure!(!said.text.contains(SECRET) && !said.text.contains("root:"), "{name} leads outside:\n{}", said.text);
        ensure!(said.text.contains("NT_STATUS_"), "{name} is not refused:\n{}", said.text);
    }
    Ok(())
}

/// A link that stays inside the share is followed, which is the default of `follow symlinks`.
fn links_within_the_share(fixture: &mut Fixture) -> Result<()> {
    prepare(fixture)?;
    let share = fixture.share("files");
    file::owned(fixture, &share.join("inner/file"), "inside", &ALICE, 0o666)?;
    for (target, name) in [("plain", "to_file"), ("inner", "to_folder"), ("inner/../plain", "over_a_folder")] {
        let _ = fs::remove_file(share.join(name));
        symlink(target, share.join(name))?;
    }
    for path in ["to_file", "to_folder/file", "over_a_folder"] {
        fixture.smbclient().run(&format!("get {path} -"))?.says("inside")?;
    }
    fixture.smbclient().run("ls to_folder/*")?.says("file")
}

/// What is at the swapped name when it is not the link that leads out.
#[derive(Clone, Copy)]
enum Swap {
    File,
    Folder,
}

/// While a client opens a path, a local process swaps a component of it with a link to the outside and back as fast as
/// possible. The server must not check a name and then use it again.
fn swapped(fixture: &mut Fixture, swap: Swap, opens: Opens) -> Result<()> {
    let outside = prepare(fixture)?;
    let folder = fixture.environment.make_dir("data/files/swap", &ALICE, 0o777)?;
    let (inside, target, path) = match swap {
        Swap::File => (folder.join("other"), outside.join("secret"), r"swap\part"),
        Swap::Folder => (folder.join("other"), outside, r"swap\part\secret"),
    };
    let part = folder.join("part");
    for old in [&part, &inside] {
        let _ = fs::remove_file(old).or_else(|_| fs::remove_dir_all(old));
    }
    match swap {
        Swap::File => file::owned(fixture, &inside, "inside", &ALICE, 0o666)?,
        Swap::Folder => {
            fixture.environment.make_dir("data/files/swap/other", &ALICE, 0o777)?;
            file::owned(fixture, &inside.join("secret"), "inside", &ALICE, 0o666)?;
        }
    }
    symlink(target, &part)?;
    let stop = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        scope.spawn(|| exchange(&part, &inside, &stop));
        let said = fixture.script("swapped.py", &[path, "1500", SECRET, opens.module()]);
        stop.store(true, Ordering::SeqCst);
        said
    })?;
    let counts: Vec<usize> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // Unless both results occur, the opens did not coincide with the swaps, and nothing was tested.
    ensure!(counts.len() == 2 && counts.iter().all(|count| *count > 0), "opened inside and refused: {counts:?}");
    Ok(())
}

/// Exchanges two names atomically until `stop` is set.
fn exchange(left: &Path, right: &Path, stop: &AtomicBool) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let text = |path: &Path| std::ffi::CString::new(path.as_os_str().as_bytes()).context("a path with a zero byte");
    let (left, right) = (text(left)?, text(right)?);
    while !stop.load(Ordering::SeqCst) {
        let here = libc::AT_FDCWD;
        // SAFETY: both strings end in a zero byte and outlive the call.
        unsafe { libc::renameat2(here, left.as_ptr(), here, right.as_ptr(), libc::RENAME_EXCHANGE) };
    }
    Ok(())
}
