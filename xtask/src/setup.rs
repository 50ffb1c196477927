//! `cargo xtask setup`: everything that the tests need beyond cargo and a C compiler, in one place.
//!
//! As root the packages are installed with apt-get; without root the missing ones are named with the command that
//! installs them. What is there is never touched. A daemon that a package brings is not left running.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use foreign::bed::Target;

/// A Debian package and a file that shows it is installed; one part of its path may hold a `*`.
struct Package {
    name: &'static str,
    proof: &'static str,
}

const fn package(name: &'static str, proof: &'static str) -> Package {
    Package { name, proof }
}

/// Debian packages for the tests of Frevo.
const DEBIAN: &[Package] = &[
    package("smbclient", "/usr/bin/smbclient"),
    package("samba-testsuite", "/usr/bin/smbtorture"),
    package("strace", "/usr/bin/strace"),
    package("python3-venv", "/usr/lib/python3*/ensurepip/__init__.py"),
];

/// What `--target samba` needs as well.
const DEBIAN_SAMBA: &[Package] = &[
    package("samba", "/usr/sbin/smbd"),
    package("samba-common-bin", "/usr/bin/smbpasswd"),
    package("samba-vfs-modules", "/usr/lib/*/samba/vfs/acl_xattr.so"),
];

/// Python packages, in an environment of their own below `target/`.
const PYTHON: &[&str] = &["impacket==0.13.1", "smbprotocol==1.17.0"];

/// The interpreter that sees the Python packages.
pub(crate) fn python() -> PathBuf {
    crate::root().join("target/python/bin/python3")
}

/// Makes sure that everything is there for tests against `target`.
pub(crate) fn run(target: Target) -> Result<()> {
    let wanted = DEBIAN.iter().chain(if target == Target::Samba { DEBIAN_SAMBA } else { &[] });
    let missing: Vec<&str> = wanted.filter(|package| !is_there(package)).map(|package| package.name).collect();
    if !missing.is_empty() {
        install(&missing)?;
    }
    python_packages()
}

fn is_there(package: &Package) -> bool {
    let Some((before, after)) = package.proof.split_once('*') else { return Path::new(package.proof).exists() };
    let (folder, start) = before.rsplit_once('/').unwrap_or(("", before));
    let (end, rest) = after.split_once('/').unwrap_or((after, ""));
    let named = |name: &str| name.starts_with(start) && name.ends_with(end);
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_str().is_some_and(named) && entry.path().join(rest).exists())
}

fn install(missing: &[&str]) -> Result<()> {
    let command = format!("apt-get install --no-install-recommends --no-remove {}", missing.join(" "));
    // SAFETY: geteuid has no preconditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        bail!("these packages are missing: {}\nas root, run:\n    {command}", missing.join(" "));
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("these programs are missing, and this is not a Debian system: install what there stands for {missing:?}");
    }
    println!("installing {}", missing.join(" "));
    let quiet = KeepDaemonsQuiet::new()?;
    let install = || apt_get(&[&["install", "--yes", "--no-install-recommends", "--no-remove"], missing].concat());
    // The package lists may be absent or old; they are fetched only when the first attempt says so.
    if install().is_err() {
        apt_get(&["update"])?;
        install()?;
    }
    drop(quiet);
    disable_daemons(missing);
    Ok(())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(["-q", "-o", "Dpkg::Use-Pty=0"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("cannot start apt-get")?;
    anyhow::ensure!(status.success(), "apt-get {} failed ({status})", arguments.join(" "));
    Ok(())
}

/// While it lives, Debian's `policy-rc.d` forbids packages to start their daemons.
struct KeepDaemonsQuiet {
    made: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl KeepDaemonsQuiet {
    fn new() -> Result<KeepDaemonsQuiet> {
        let made = !Path::new(POLICY).exists();
        if made {
            fs::write(POLICY, "#!/bin/sh\nexit 101\n")?;
            fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))?;
        }
        Ok(KeepDaemonsQuiet { made })
    }
}

impl Drop for KeepDaemonsQuiet {
    fn drop(&mut self) {
        if self.made {
            let _ = fs::remove_file(POLICY);
        }
    }
}

/// The Samba package asks systemd to start its daemons at the next boot: taken back, if it was installed just now.
fn disable_daemons(installed: &[&str]) {
    if installed.contains(&"samba") && Path::new("/run/systemd/system").exists() {
        let _ = Command::new("systemctl").args(["--quiet", "disable", "smbd", "nmbd", "samba-ad-dc"]).status();
    }
}

fn python_packages() -> Result<()> {
    let folder = crate::root().join("target/python");
    let stamp = folder.join("installed");
    let wanted = PYTHON.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) && python().exists() {
        return Ok(());
    }
    println!("installing {} in target/python", PYTHON.join(" "));
    let _ = fs::remove_dir_all(&folder);
    // Debian's interpreter is the one that python3-venv belongs to.
    let debian = Path::new("/usr/bin/python3");
    let interpreter = if debian.exists() { debian } else { Path::new("python3") };
    succeed(Command::new(interpreter).args(["-m", "venv"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    succeed(Command::new(python()).args(pip).args(PYTHON))?;
    fs::write(&stamp, wanted)?;
    Ok(())
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    anyhow::ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_may_hold_a_star() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("python3.11/ensurepip")).unwrap();
        let check =
            |proof: &str| is_there(&Package { name: "x", proof: format!("{}/{proof}", dir.path().display()).leak() });
        assert!(check("python3.11/ensurepip"));
        assert!(check("python3*/ensurepip"));
        assert!(check("*/ensurepip"));
        assert!(!check("python2*/ensurepip"));
        assert!(!check("python3*/other"));
        assert!(!check("nothing"));
    }
}
