//! `cargo xtask package --check`: whether the unit is correct and strict, whether the Debian package has errors,
//! whether the service serves the configuration of Samba in a fresh Debian, also with systemd, and whether the
//! container image serves a share as an unprivileged user.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use test_environment::Counts;

use super::{Options, Work, output, source, succeed};

/// The maximum exposure that `systemd-analyze security` may report.
const EXPOSURE: f64 = 3.0;
/// The maximum time from the start of the program to the first answer, in milliseconds.
const FIRST_ANSWER: u64 = 2000;
/// The maximum size of the container image in bytes.
const IMAGE: u64 = 30_000_000;

/// Runs all tests. `FREVO` may name the program, as for other commands.
pub(crate) fn check() -> Result<Counts> {
    let work = Work::new()?;
    let out = work.path().join("packages");
    for kind in [super::Kind::Deb, super::Kind::Oci] {
        super::run(&Options { kind: Some(kind), out: out.clone(), check: false })?;
    }
    let (package, archive) = (find(&out, "frevo_")?, find(&out, ".oci.tar")?);
    let mut counts = Counts::default();
    let mut test = |name: &str, result: Result<String>| match result {
        Ok(said) => {
            println!("{name}: {said}");
            counts.add(Counts::passed(1));
        }
        Err(error) => {
            println!("{name}: {error:#}");
            counts.add(Counts::failed(format!("{name}: {error:#}")));
        }
    };
    test("systemd-analyze security", security());
    test("lintian", lintian(&package));
    match fresh_root(&work, &package) {
        Ok(root) => {
            test("systemd-analyze verify", verify(&root));
            test("frevo serve without a configuration", nothing_to_serve(&root));
            test("first answer of the installed service", first_answer(&root));
            test("the service with systemd", booted(&root));
        }
        Err(error) => test("installation in a fresh root", Err(error)),
    }
    test("the container image", image(&work, &archive));
    Ok(counts)
}

/// Returns the file whose name contains `part`.
fn find(folder: &Path, part: &str) -> Result<std::path::PathBuf> {
    let mut entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let named = |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
    entries.find(named).with_context(|| format!("{} has no package {part}", folder.display()))
}

fn security() -> Result<String> {
    let mut command = Command::new("systemd-analyze");
    let text = output(command.args(["security", "--offline=yes"]).arg(source("packaging/frevo.service")))?;
    let score = exposure(&text).context("systemd-analyze reports no exposure")?;
    ensure!(score <= EXPOSURE, "the exposure is {score}, more than {EXPOSURE}");
    Ok(format!("exposure {score}"))
}

/// Returns the number in `Overall exposure level for frevo.service: 2.9 OK`.
fn exposure(text: &str) -> Option<f64> {
    let (_, level) = text.split_once("Overall exposure level for ")?;
    let (_, rest) = level.split_once(": ")?;
    rest.split_whitespace().next()?.parse().ok()
}

fn lintian(package: &Path) -> Result<String> {
    let output = Command::new("lintian").args(["--allow-root", "--fail-on", "error"]).arg(package).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "errors:\n{text}");
    Ok(format!("no errors, {} warnings", text.lines().filter(|line| line.starts_with("W: ")).count()))
}

/// Verifies the installed units, with the program that they start.
fn verify(root: &Path) -> Result<String> {
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(format!("--root={}", root.display()));
    let units =
        ["frevo.service", "frevo.socket", "frevo-console.service", "frevo-snapshot.service", "frevo-snapshot.timer"];
    let units = units.map(|unit| root.join("lib/systemd/system").join(unit));
    let output = command.args(units).output().context("cannot start systemd-analyze")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_about = |line: &&str| ["frevo.s", "frevo-s", "frevo-c"].iter().any(|unit| line.contains(unit));
    let about: Vec<&str> = said.lines().filter(is_about).collect();
    ensure!(output.status.success() && about.is_empty(), "{}", about.join("\n"));
    Ok("no problems".to_owned())
}

/// Installs the package with apt-get in a minimal Debian, which also installs its dependencies.
fn fresh_root(work: &Work, package: &Path) -> Result<std::path::PathBuf> {
    let root = work.path().join("root");
    succeed(
        Command::new("debootstrap")
            .args(["--variant=minbase", "--include=systemd-sysv,dbus", "bookworm"])
            .arg(&root)
            .stdout(std::process::Stdio::null()),
    )?;
    fs::copy(package, root.join("tmp/frevo.deb"))?;
    let install = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", "/tmp/frevo.deb"];
    succeed(Command::new("chroot").arg(&root).args(install).stdout(std::process::Stdio::null()))?;
    fs::create_dir_all(root.join("srv/public"))?;
    fs::write(root.join("srv/public/hello.txt"), "hello\n")?;
    Ok(root)
}

/// Runs the program before there is a configuration.
fn nothing_to_serve(root: &Path) -> Result<String> {
    let output = Command::new("chroot").arg(root).args(["/usr/bin/frevo", "serve"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_help = said.contains("there is no configuration") && said.contains("Usage:");
    ensure!(output.status.code() == Some(2) && is_help, "{}: {said}", output.status);
    Ok("help and exit status 2".to_owned())
}

/// Adds a configuration as the package of Samba installs it.
fn configure(root: &Path) -> Result<()> {
    fs::create_dir_all(root.join("etc/samba"))?;
    fs::copy(source("xtask/src/package/samba.conf"), root.join("etc/samba/smb.conf"))?;
    Ok(())
}

/// Starts the command of the unit in a network without other servers, and reads a file with smbclient.
fn first_answer(root: &Path) -> Result<String> {
    configure(root)?;
    let unit = fs::read_to_string(root.join("lib/systemd/system/frevo.service"))?;
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).context("the unit starts nothing")?;
    let script = source("xtask/src/package/first_answer.sh");
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "sh"]).arg(script).arg(root).arg(start);
    first_answer_in(&output(&mut command)?)
}

/// Returns the time of the first answer in the output of a script.
fn first_answer_in(text: &str) -> Result<String> {
    let Some(time) = number(text, "milliseconds ") else { bail!("no answer:\n{text}") };
    ensure!(time <= FIRST_ANSWER, "the first answer took {time} ms, more than {FIRST_ANSWER}");
    Ok(format!("{time} ms"))
}

/// Returns the number in the line with this start.
fn number(text: &str, start: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(start)?.parse().ok())
}

/// Boots the root with its systemd, and starts, reloads and stops the service there, also by its socket.
fn booted(root: &Path) -> Result<String> {
    let text = output(Command::new("sh").arg(source("xtask/src/package/booted.sh")).arg(root))?;
    let status = text.lines().find_map(|line| line.strip_prefix("status ")).context("the service has no status")?;
    ensure!(status.starts_with("configuration reloaded, 1 shares"), "the status after a reload is {status:?}");
    first_answer_in(&text)
}

/// Runs the image with podman, in a network without other servers.
fn image(work: &Work, archive: &Path) -> Result<String> {
    let directory = work.path().join("podman");
    fs::create_dir(&directory)?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
    let text = output(command.arg(source("xtask/src/package/image.sh")).arg(archive).arg(directory))?;
    let size = number(&text, "bytes ").context("podman shows no size")?;
    ensure!(size <= IMAGE, "the image has {size} bytes, more than {IMAGE}");
    Ok(format!("{:.1} MB, {}", size as f64 / 1e6, first_answer_in(&text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exposure_is_read() {
        let text = "a\n→ Overall exposure level for frevo.service: 2.9 OK 🙂\n";
        assert_eq!(exposure(text), Some(2.9));
        assert_eq!(exposure("nothing"), None);
    }
}
