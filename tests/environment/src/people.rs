//! The users of a test environment: alice and bob, who may log on, and carol, whose account is disabled.
//!
//! As root they are UNIX users that exist only for programs started through [`People::enter`], which run in a mount
//! namespace with files of the environment mounted over `/etc/passwd`, `/etc/group` and `/etc/nsswitch.conf`. Without
//! root, all of them are the user who runs the tests, and cases that need two users cannot run.
//!
//! A crowd is in an indexed database, which Debian's `libnss-db` reads, so that a lookup takes the same time for any
//! number of users. `/etc/passwd` would be read from its beginning.

use std::ffi::CString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io, ptr};

use anyhow::{Context, Result};

use crate::crowd::{self, Crowd};
use crate::server::run;

/// A user with an account on the server under test.
#[derive(Clone, Copy, Debug)]
pub struct Person {
    /// Account and UNIX name.
    pub name: &'static str,
    /// The password, which is not secret.
    pub password: &'static str,
    /// UNIX user and group id: rarely used on real machines, and below 65,536, because some containers map no others.
    pub id: u32,
}

impl Person {
    /// Returns `name%password`, as expected after `-U` by Samba's programs.
    pub fn credentials(&self) -> String {
        format!("{}%{}", self.name, self.password)
    }
}

/// The user of most tests.
pub const ALICE: Person = Person { name: "alice", password: "alicepw", id: 64_201 };
/// The other user.
pub const BOB: Person = Person { name: "bob", password: "bobpw", id: 64_202 };
/// A user whose account is disabled.
pub const CAROL: Person = Person { name: "carol", password: "carolpw", id: 64_203 };
/// All users.
pub const EVERYBODY: [Person; 3] = [ALICE, BOB, CAROL];
/// A group with the members alice and bob.
pub const CREW: (&str, u32) = ("crew", 64_210);

/// The directory in which `libnss-db` looks for its databases.
const DATABASES: &str = "/var/lib/misc";
/// The directory of PAM's services, a copy of the machine's.
pub(crate) const SERVICES: &str = "/etc/pam.d";
/// The crowd's lines, from which its database is made.
const CROWD: &str = "crowd";

/// How the users exist for the server.
#[derive(Clone, Debug)]
pub enum People {
    /// As separate UNIX users: pairs of a file or directory of the environment and its mount point.
    Many(Vec<(PathBuf, &'static str)>),
    /// Without root: all are the user who runs the tests.
    Single,
}

impl People {
    /// Writes the files that [`People::enter`] mounts over those in `/etc`. Does nothing without root.
    pub(crate) fn make(environment: &Path) -> Result<People> {
        // SAFETY: geteuid has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Ok(People::Single);
        }
        let etc = environment.join("etc");
        fs::create_dir(&etc)?;
        let people = People::found(environment);
        let People::Many(over) = &people else { return Ok(people) };
        fs::create_dir_all(environment.join(DATABASES.trim_start_matches('/')))?;
        if Path::new(SERVICES).is_dir() {
            let copied = environment.join(SERVICES.trim_start_matches('/'));
            fs::create_dir(&copied)?;
            for entry in fs::read_dir(SERVICES)? {
                let entry = entry?;
                fs::copy(entry.path(), copied.join(entry.file_name()))?;
            }
        }
        for ((file, _), text) in over.iter().zip([passwd(environment)?, group()?, nsswitch()?]) {
            fs::write(file, text)?;
        }
        let mut id = Command::new("id");
        let out = people.enter(id.args(["-u", ALICE.name])).output().context("cannot create a mount namespace")?;
        anyhow::ensure!(
            out.stdout == format!("{}\n", ALICE.id).as_bytes(),
            "{} does not exist in the mount namespace: {}",
            ALICE.name,
            String::from_utf8_lossy(&out.stderr)
        );
        Ok(people)
    }

    /// Returns the users of an environment that another process created as root.
    pub(crate) fn found(environment: &Path) -> People {
        let files = ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"];
        // Only Debian and similar systems have the directory.
        let directories = [DATABASES, SERVICES].into_iter().filter(|place| Path::new(place).is_dir());
        let places = files.into_iter().chain(directories);
        People::Many(places.map(|place| (environment.join(place.trim_start_matches('/')), place)).collect())
    }

    /// Returns the directory of the databases in the environment.
    fn databases(&self) -> Option<&Path> {
        let People::Many(over) = self else { return None };
        over.iter().find(|(_, place)| *place == DATABASES).map(|(path, _)| &**path)
    }

    /// Returns the size of the crowd.
    pub(crate) fn crowd(&self) -> Result<Crowd> {
        let Some(file) = self.databases().map(|dir| dir.join(CROWD)).filter(|file| file.exists()) else {
            return Ok(Crowd(0));
        };
        Ok(Crowd(u32::try_from(fs::read_to_string(file)?.lines().count())?))
    }

    /// Adds members to the crowd. A running server sees them too.
    pub(crate) fn let_in(&self, members: &[crowd::Member]) -> Result<()> {
        let dir = self.databases().context("a crowd needs root, and Debian's libnss-db")?;
        let mut file = fs::File::options().create(true).append(true).open(dir.join(CROWD))?;
        file.write_all(crowd::passwd(members).as_bytes())?;
        let database = crowd::database(&fs::read_to_string(dir.join(CROWD))?);
        let made = dir.join("made");
        run(Command::new("makedb").arg("-o").arg(&made).arg("-"), &database)
            .context("makedb of the package libnss-db failed")?;
        // A concurrent lookup sees either the old or the new database.
        fs::rename(&made, dir.join("passwd.db"))?;
        Ok(())
    }

    /// Returns whether the server has more than one user.
    pub fn many(&self) -> bool {
        matches!(self, People::Many(_))
    }

    /// Makes `command` run in an environment in which the users exist.
    pub fn enter<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let People::Many(over) = self else { return command };
        let text = |path: &[u8]| CString::new(path).expect("paths of the environment contain no zero byte");
        let pairs: Vec<(CString, CString)> =
            over.iter().map(|(file, place)| (text(file.as_os_str().as_bytes()), text(place.as_bytes()))).collect();
        // SAFETY: between fork and exec the closure makes only system calls, without allocations or locks.
        unsafe { command.pre_exec(move || lay_over(&pairs)) }
    }

    /// Changes the owner of a file or directory to `person`. Does nothing without root.
    pub fn give(&self, path: &Path, person: &Person) -> Result<()> {
        if self.many() {
            std::os::unix::fs::lchown(path, Some(person.id), Some(person.id))
                .with_context(|| format!("cannot change the owner of {} to {}", path.display(), person.name))?;
        }
        Ok(())
    }
}

/// Creates a mount namespace and bind-mounts the first path of each pair over the second. Later mounts and unmounts
/// outside propagate into it, but not the other way.
pub(crate) fn lay_over(pairs: &[(CString, CString)]) -> io::Result<()> {
    let done = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: plain system calls; the strings end in a zero byte and outlive them.
    unsafe {
        done(libc::unshare(libc::CLONE_NEWNS))?;
        done(libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), libc::MS_REC | libc::MS_SLAVE, ptr::null()))?;
        for (file, place) in pairs {
            done(libc::mount(file.as_ptr(), place.as_ptr(), ptr::null(), libc::MS_BIND, ptr::null()))?;
        }
    }
    Ok(())
}

/// Returns the machine's file without lines that begin with one of `names`.
fn without(file: &str, names: &[&str]) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let ours = |line: &&str| line.split(':').next().is_some_and(|name| names.contains(&name));
    Ok(text.lines().filter(|line| !ours(line)).flat_map(|line| [line, "\n"]).collect())
}

/// alice's home is below the environment, and created by the cases that use it. The others have none.
fn passwd(environment: &Path) -> Result<String> {
    let mut text = without("/etc/passwd", &EVERYBODY.map(|person| person.name))?;
    for person in EVERYBODY {
        let home = if person.name == ALICE.name { environment.join("home/alice") } else { "/nonexistent".into() };
        let _ = writeln!(text, "{0}:x:{1}:{1}::{2}:/usr/sbin/nologin", person.name, person.id, home.display());
    }
    Ok(text)
}

fn group() -> Result<String> {
    let mut text = without("/etc/group", &[ALICE.name, BOB.name, CAROL.name, CREW.0])?;
    for person in EVERYBODY {
        let _ = writeln!(text, "{}:x:{}:", person.name, person.id);
    }
    let _ = writeln!(text, "{}:x:{}:{},{}", CREW.0, CREW.1, ALICE.name, BOB.name);
    Ok(text + &crowd::group())
}

/// Returns the machine's own file, except that users are looked up only in files, first in the crowd's database.
fn nsswitch() -> Result<String> {
    let text = fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    let people = |line: &&str| line.starts_with("passwd:") || line.starts_with("group:");
    let rest = text.lines().filter(|line| !people(line));
    Ok(["passwd: db files", "group: files"].into_iter().chain(rest).flat_map(|line| [line, "\n"]).collect())
}
