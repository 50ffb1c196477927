//! The kernel of the guest and its initramfs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The modules without which the guest cannot reach its root. It loads all others from there.
const MODULES: [&str; 7] = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_blk", "crc32c_generic", "ext4"];
/// The first process of the guest.
const INIT: &str = include_str!("init.sh");

/// Returns the version of the newest kernel of Debian that is installed, or verifies the one that is asked for.
pub(super) fn version(wanted: Option<&str>) -> Result<String> {
    let mut versions = Vec::new();
    for entry in fs::read_dir("/boot").context("cannot read /boot")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        versions.extend(name.strip_prefix("vmlinuz-").map(str::to_owned));
    }
    let numbers = |version: &String| -> Vec<u64> {
        version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    versions.sort_by_key(numbers);
    match wanted {
        None => versions.pop().context("/boot has no kernel; install the package linux-image-amd64"),
        Some(wanted) => {
            ensure!(versions.iter().any(|version| version == wanted), "/boot has {versions:?}, not {wanted:?}");
            Ok(wanted.to_owned())
        }
    }
}

/// Returns the file of the kernel with this version.
pub(super) fn kernel(version: &str) -> PathBuf {
    Path::new("/boot").join(format!("vmlinuz-{version}"))
}

/// Writes the initramfs for this kernel to `file`, with `folder` for its content.
pub(super) fn write(version: &str, folder: &Path, file: &Path) -> Result<()> {
    let modules = folder.join("modules");
    for directory in ["bin", "dev", "proc", "modules"] {
        fs::create_dir_all(folder.join(directory))?;
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    fs::copy(busybox.context("busybox is missing; install the package busybox-static")?, folder.join("bin/busybox"))?;
    let mut order = String::new();
    for path in paths_of_modules(version)? {
        let name = path.file_name().context("a module without a name")?;
        fs::copy(&path, modules.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
        order += &format!("{}\n", name.to_string_lossy());
    }
    fs::write(modules.join("order"), order)?;
    fs::write(folder.join("init"), INIT)?;
    fs::set_permissions(folder.join("init"), fs::Permissions::from_mode(0o755))?;
    archive(folder, file)
}

/// Returns the files of the modules, those that another needs before it.
fn paths_of_modules(version: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for module in MODULES {
        let output = Command::new("/sbin/modprobe")
            .args(["--set-version", version, "--show-depends", module])
            .output()
            .context("cannot start modprobe; install the package kmod")?;
        ensure!(output.status.success(), "kernel {version} has no module {module}");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // The other kind of line is "builtin NAME".
            let Some(path) = line.strip_prefix("insmod ") else { continue };
            let path = PathBuf::from(path.split_whitespace().next().unwrap_or(path));
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

/// Writes the folder as an archive that the kernel unpacks.
fn archive(folder: &Path, file: &Path) -> Result<()> {
    let mut find = Command::new("find").arg(".").current_dir(folder).stdout(Stdio::piped()).spawn()?;
    let names = find.stdout.take().context("no output of find")?;
    let status = Command::new("cpio")
        .args(["--create", "--format=newc", "--quiet"])
        .current_dir(folder)
        .stdin(names)
        .stdout(fs::File::create(file)?)
        .status()
        .context("cannot start cpio; install the package cpio")?;
    ensure!(find.wait()?.success() && status.success(), "cannot write the archive {}", file.display());
    Ok(())
}
