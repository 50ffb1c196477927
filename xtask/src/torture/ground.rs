//! The environment of one worker of the torture runner: its own environment with the shares' directories and the
//! server. Tests that need it also get a second server with mandatory signing, or a Kerberos realm with a server.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use test_environment::{ALICE, Crowd, Health, Kdc, People, REALM, Server, Target, TestEnvironment};

use super::list::Which;
use super::place::{self, WorkerFileSystem};

/// The configuration of the servers.
pub(super) const TEMPLATE: &str = include_str!("../../torture/smb.conf");
const CLIENT: &str = include_str!("../../torture/client.conf");
/// Additional settings of the second server.
const STRICT: &str = "\n@TARGET@\n\tchange notify = no\n\tserver signing = mandatory\n";
/// Additional settings of the server that alice administrates. It has the name of the domain in which the tests look
/// for accounts.
const ADMINISTRATED: &str = "\n@TARGET@\n\tadmin users = alice\n\tnetbios name = RPCSERVER\n";
/// The host name of the server with a keytab. smbtorture does not use tickets for an address or for `localhost`.
pub(super) const NAMED: &str = "files.bed.test";
/// The SMB port, which the server uses if the worker has its own network.
const SMB: u16 = 445;
/// Number of seconds for which directories are created in advance whose names are times.
const AHEAD: i64 = 60;
/// Directories of the shares.
const FOLDERS: [&str; 14] = [
    "share",
    "ro",
    "dosmode",
    "nostreams",
    "compound_find",
    "fruit",
    "async_dosmode",
    "shadow",
    "delete_readonly",
    "acls_non_canonical",
    "kernel",
    "ea",
    "dynamic",
    "timemachine",
];
/// The directories that are emptied before each test.
const EMPTIED: [&str; 3] = ["share", "fruit", "timemachine"];
/// The snapshot used by the tests of previous versions, in the share's own snapshot folder.
const SNAPSHOT: &str = "data/shadow/.snapshots/@GMT-2015.10.31-19.40.30";

pub(super) struct Ground {
    // Declared before the environment, so that the servers end before their directory is removed.
    main: Server,
    strict: Option<Server>,
    administrated: Option<Server>,
    tickets: Option<(Server, Kdc)>,
    /// The template of the configurations.
    template: String,
    on_volume: bool,
    environment: TestEnvironment,
}

impl Ground {
    /// Creates the environment for the calling thread at `place`. `has_smb_port` says whether the server may use port
    /// 445.
    pub(super) fn lay(target: Target, place: &WorkerFileSystem, has_smb_port: bool) -> Result<Ground> {
        let environment = TestEnvironment::make_in(place.base(), target, Crowd(0))?;
        let template = match place.volume() {
            Some(volume) => volume.hold(environment.dir())?,
            None => TEMPLATE.to_owned(),
        };
        for folder in FOLDERS {
            environment.make_dir(&format!("data/{folder}"), &ALICE, 0o777)?;
        }
        compressing(&environment, place.compressing().as_deref())?;
        // Only root may enter this directory.
        let noperm = environment.dir().join("data/noperm");
        fs::create_dir(&noperm)?;
        fs::set_permissions(&noperm, fs::Permissions::from_mode(if environment.people().many() { 0o700 } else { 0 }))?;
        for folder in ["data/shadow/subdir", SNAPSHOT, &format!("{SNAPSHOT}/subdir")] {
            environment.make_dir(folder, &ALICE, 0o755)?;
        }
        snapshot_files(&environment)?;
        for folder in ["private", "lock", "state", "cache", "pid", "ncalrpc"] {
            fs::create_dir_all(environment.dir().join("client").join(folder))?;
        }
        fs::create_dir(environment.dir().join("work"))?;
        fs::write(
            environment.dir().join("client.conf"),
            CLIENT.replace("@DIR@", &environment.dir().display().to_string()),
        )?;
        let on_volume = place.volume().is_some();
        // The servers of a volume are only in the network that the thread has already.
        let is_alone = on_volume || place::own_network().context("cannot set up a network")?;
        let main = match is_alone && has_smb_port {
            true => environment.start_on("server", &template, SMB)?,
            false => environment.start("server", &template)?,
        };
        let (strict, administrated, tickets) = (None, None, None);
        Ok(Ground { main, strict, administrated, tickets, template, on_volume, environment })
    }

    /// Returns the directory that contains the directories of the shares.
    pub(super) fn data(&self) -> PathBuf {
        self.environment.dir().join("data")
    }

    /// Returns the path of smbtorture's configuration.
    pub(super) fn client_conf(&self) -> PathBuf {
        self.environment.dir().join("client.conf")
    }

    /// Returns the directory in which smbtorture may leave files.
    pub(super) fn work(&self) -> PathBuf {
        self.environment.dir().join("work")
    }

    /// Returns the server for a test.
    pub(super) fn server(&mut self, which: Which) -> Result<&mut Server> {
        match which {
            Which::Plain => Ok(&mut self.main),
            Which::Strict => {
                if self.strict.is_none() {
                    self.strict =
                        Some(self.environment.start("strict", &self.template.replace("\n@TARGET@\n", STRICT))?);
                }
                self.strict.as_mut().context("just started")
            }
            Which::Administrated => {
                if self.administrated.is_none() {
                    let template = self.template.replace("\n@TARGET@\n", ADMINISTRATED);
                    self.administrated = Some(self.environment.start("administrated", &template)?);
                }
                self.administrated.as_mut().context("just started")
            }
            Which::Tickets => {
                if self.tickets.is_none() {
                    self.tickets = Some(self.realm()?);
                }
                self.tickets.as_mut().map(|(server, _)| server).context("just started")
            }
        }
    }

    /// Starts a realm whose tickets expire without a grace period, and a server in it.
    fn realm(&self) -> Result<(Server, Kdc)> {
        let kdc = Kdc::start(&self.environment, &[&format!("cifs/{NAMED}")], &[ALICE])?;
        kdc.bear_with(1)?;
        fs::create_dir_all(self.environment.dir().join("tickets"))?;
        fs::copy(kdc.conf(), self.environment.dir().join("tickets/krb5.conf"))?;
        fs::write(self.hosts(), format!("127.0.0.1 localhost\n127.0.0.1 {NAMED}\n"))?;
        let own = format!(
            "\n@TARGET@\n\trealm = {REALM}\n\tkerberos method = dedicated keytab\n\tdedicated keytab file = {}\n",
            kdc.keytab().display()
        );
        Ok((self.environment.start("tickets", &self.template.replace("\n@TARGET@\n", &own))?, kdc))
    }

    fn hosts(&self) -> PathBuf {
        self.environment.dir().join("hosts")
    }

    /// Makes smbtorture log on with Kerberos to [`NAMED`], a name that only smbtorture can resolve.
    pub(super) fn log_on_by_ticket(&self, command: &mut Command) {
        command.args(["--use-kerberos=required", "-U", &format!("{}@{REALM}%{}", ALICE.name, ALICE.password)]);
        if let Some((_, kdc)) = &self.tickets {
            command.env("KRB5_CONFIG", kdc.conf());
        }
        People::Many(vec![(self.hosts(), "/etc/hosts")]).enter(command);
    }

    /// Empties the directories in which tests leave files. A server on a volume that nobody else changes is restarted
    /// then.
    pub(super) fn clean(&mut self) -> Result<()> {
        let mut is_changed = false;
        let folders = EMPTIED.map(|folder| fs::read_dir(self.data().join(folder))).into_iter();
        for entry in folders.collect::<io::Result<Vec<_>>>()?.into_iter().flatten() {
            let entry = entry?;
            is_changed = true;
            // A server may still be removing a file of the last test.
            let _ = match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path()),
                false => fs::remove_file(entry.path()),
            };
        }
        if is_changed && self.on_volume {
            let others =
                [self.strict.as_mut(), self.administrated.as_mut(), self.tickets.as_mut().map(|(server, _)| server)];
            [Some(&mut self.main)].into_iter().chain(others).flatten().try_for_each(Server::restart)?;
        }
        Ok(())
    }

    /// Creates what a test on `share` needs. Frevo runs no commands, so the directories for `%t` are created in
    /// advance.
    pub(super) fn prepare(&self, share: &str) -> Result<()> {
        if share != "dynamic_share" || self.environment.target() == Target::Samba {
            return Ok(());
        }
        // SAFETY: time has no preconditions with a null pointer.
        let now = unsafe { libc::time(std::ptr::null_mut()) };
        for moment in now..now + AHEAD {
            // SAFETY: localtime_r reads a number and fills a struct of numbers.
            let time = unsafe {
                let mut time: libc::tm = std::mem::zeroed();
                libc::localtime_r(&moment, &mut time);
                time
            };
            let (year, month, day) = (time.tm_year + 1900, time.tm_mon + 1, time.tm_mday);
            let (hour, minute, second) = (time.tm_hour, time.tm_min, time.tm_sec);
            let name = format!("data/dynamic/{year}{month:02}{day:02}_{hour:02}{minute:02}{second:02}");
            self.environment.make_dir(&name, &ALICE, 0o777)?;
        }
        Ok(())
    }

    /// Returns whether there are two UNIX users.
    pub(super) fn two_users(&self) -> bool {
        self.environment.people().many()
    }

    /// Returns the server's health after a test. A server that is gone or hangs is restarted.
    pub(super) fn look_after(&mut self, which: Which) -> Result<Health> {
        let server = self.server(which)?;
        let health = server.health()?;
        if matches!(health, Health::Gone | Health::Hung) {
            server.restart().context("the server does not restart")?;
        }
        Ok(health)
    }
}

/// Creates the directory of the share for compression tests. If there is a compressing file system, it is a link to a
/// directory there.
fn compressing(environment: &TestEnvironment, there: Option<&Path>) -> Result<()> {
    let here = environment.dir().join("data/compress");
    let Some(there) = there else { return environment.make_dir("data/compress", &ALICE, 0o777).map(drop) };
    let there = there.join(environment.dir().file_name().context("the environment has no name")?);
    fs::create_dir(&there)?;
    environment.people().give(&there, &ALICE)?;
    Ok(std::os::unix::fs::symlink(there, here)?)
}

/// Creates files in the snapshot: a file with a stream of three bytes in Samba's format, which has an additional byte
/// at its end. Also creates the file of a subdirectory, in the snapshot and outside it.
fn snapshot_files(environment: &TestEnvironment) -> Result<()> {
    for folder in ["data/shadow", SNAPSHOT] {
        let linked = environment.dir().join(folder).join("subdir/hardlink");
        fs::write(&linked, folder)?;
        environment.people().give(&linked, &ALICE)?;
    }
    let file = environment.dir().join(SNAPSHOT).join("foo");
    fs::write(&file, "snapshot")?;
    environment.people().give(&file, &ALICE)?;
    let path = CString::new(file.as_os_str().as_bytes())?;
    let (name, value) = (c"user.DosStream.bar:$DATA", b"baz\0");
    // SAFETY: both strings end in a zero byte, the value is as long as said, and all outlive the call.
    let set = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    (set == 0).then_some(()).with_context(|| {
        let error = std::io::Error::last_os_error();
        format!(
            "no extended attributes in {} ({error}); set TMPDIR to a file system with them",
            environment.dir().display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_share_is_defined_once_and_has_a_folder() {
        let sections = TEMPLATE.lines().filter(|line| line.starts_with('['));
        let mut seen = std::collections::HashSet::new();
        for section in sections {
            assert!(seen.insert(section), "{section} is defined twice");
        }
        let folders = TEMPLATE.lines().filter_map(|line| line.trim().strip_prefix("path = @DIR@/data/"));
        for folder in folders.map(|path| path.trim_end_matches("/%t")) {
            assert!(FOLDERS.contains(&folder) || ["noperm", "compress"].contains(&folder), "{folder} is never created");
        }
    }
}
