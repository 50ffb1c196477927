//! `cargo xtask setup`: everything that the tests need besides cargo and a C compiler.
//!
//! As root, missing packages are installed with apt-get. Without root, the command to install them is printed. Existing
//! files are not modified. Daemons of installed packages are not left running.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use foreign::suite::Tools;
use test_environment::Target;

/// A Debian package and a file that proves that it is installed. One component of the path may contain a `*`.
struct Package {
    name: &'static str,
    proof: &'static str,
}

const fn package(name: &'static str, proof: &'static str) -> Package {
    Package { name, proof }
}

/// The purpose of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// Tests of Frevo.
    Frevo,
    /// Tests of Debian's Samba.
    Samba,
    /// `cargo xtask compare`, and the experiments that it runs.
    Compare,
    /// `cargo xtask package --check`.
    Package,
    /// `cargo xtask gluster`.
    Gluster,
    /// `cargo xtask guest`.
    Guest,
}

impl From<Target> for Set {
    fn from(target: Target) -> Set {
        match target {
            Target::Frevo => Set::Frevo,
            Target::Samba => Set::Samba,
        }
    }
}

impl std::str::FromStr for Set {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Set> {
        match text {
            "frevo" => Ok(Set::Frevo),
            "samba" => Ok(Set::Samba),
            "compare" => Ok(Set::Compare),
            "package" => Ok(Set::Package),
            "gluster" => Ok(Set::Gluster),
            "guest" => Ok(Set::Guest),
            other => bail!("unknown target {other:?}: frevo, samba, compare, package, gluster or guest"),
        }
    }
}

impl Set {
    fn packages(self) -> impl Iterator<Item = &'static Package> {
        let parts: &[&[Package]] = match self {
            Set::Frevo => &[DEBIAN, DEBIAN_KERBEROS, DEBIAN_DOMAIN],
            Set::Samba => &[DEBIAN, DEBIAN_KERBEROS, DEBIAN_SAMBA],
            Set::Compare => &[DEBIAN_SAMBA, DEBIAN_COMPARE],
            Set::Package => &[DEBIAN_PACKAGE],
            Set::Gluster => &[DEBIAN_SAMBA, DEBIAN_GLUSTER],
            Set::Guest => &[DEBIAN_SAMBA, DEBIAN_GUEST],
        };
        parts.iter().copied().flatten()
    }
}

/// Debian packages for the tests of Frevo.
const DEBIAN: &[Package] = &[
    package("smbclient", "/usr/bin/smbclient"),
    package("acl", "/usr/bin/setfacl"),
    package("attr", "/usr/bin/getfattr"),
    package("samba-testsuite", "/usr/bin/smbtorture"),
    package("xfsprogs", "/usr/sbin/mkfs.xfs"),
    package("btrfs-progs", "/usr/sbin/mkfs.btrfs"),
    package("strace", "/usr/bin/strace"),
    package("valgrind", "/usr/bin/valgrind"),
    package("dbench", "/usr/share/dbench/client.txt"),
    package("tshark", "/usr/bin/tshark"),
    package("dbus-daemon", "/usr/bin/dbus-daemon"),
    package("avahi-daemon", "/usr/sbin/avahi-daemon"),
    package("avahi-utils", "/usr/bin/avahi-browse"),
    package("wsdd", "/usr/sbin/wsdd"),
    package("slapd", "/usr/sbin/slapd"),
    package("ldap-utils", "/usr/bin/ldapmodify"),
    package("openssl", "/usr/bin/openssl"),
    package("libnss-db", "/usr/bin/makedb"),
    package("rclone", "/usr/bin/rclone"),
    package("bindfs", "/usr/bin/bindfs"),
    package("cups-daemon", "/usr/sbin/cupsd"),
    package("cups-client", "/usr/sbin/lpadmin"),
    package("prometheus", "/usr/bin/promtool"),
    package("chromium", "/usr/bin/chromium"),
    package("python3-venv", "/usr/lib/python3*/ensurepip/__init__.py"),
];

/// Packages for the client libraries of other languages ([`client_libraries`]).
const DEBIAN_LIBRARIES: &[Package] =
    &[package("default-jdk-headless", "/usr/bin/javac"), package("maven", "/usr/bin/mvn")];

/// Packages for starting Samba.
const DEBIAN_SAMBA: &[Package] = &[
    package("samba", "/usr/sbin/smbd"),
    package("samba-common-bin", "/usr/bin/smbpasswd"),
    package("samba-vfs-modules", "/usr/lib/*/samba/vfs/acl_xattr.so"),
];

/// Packages for an Active Directory domain, and for Frevo as a member of it.
const DEBIAN_DOMAIN: &[Package] = &[
    package("samba", "/usr/sbin/samba"),
    package("samba-vfs-modules", "/usr/lib/*/samba/vfs/acl_xattr.so"),
    package("samba-ad-provision", "/usr/share/samba/setup/provision.ldif"),
    package("samba-dsdb-modules", "/usr/lib/*/samba/ldb/samba_dsdb.so"),
    package("samba-common-bin", "/usr/bin/net"),
    package("winbind", "/usr/sbin/winbindd"),
    package("libwbclient0", "/usr/lib/*/libwbclient.so.0"),
    package("iproute2", "/usr/sbin/ip"),
];

/// Packages for a Kerberos realm.
const DEBIAN_KERBEROS: &[Package] = &[
    package("krb5-kdc", "/usr/sbin/krb5kdc"),
    package("krb5-admin-server", "/usr/sbin/kadmin.local"),
    package("krb5-user", "/usr/bin/kinit"),
];

/// Further packages for the experiments: a recorded load, servers of other protocols, networks with delay, a browser
/// that opens the report, accounts in a directory, a file system with small inodes, a name service with an index, other
/// allocators.
const DEBIAN_COMPARE: &[Package] = &[
    package("xfsprogs", "/usr/sbin/mkfs.xfs"),
    package("dbench", "/usr/share/dbench/client.txt"),
    package("nginx", "/usr/sbin/nginx"),
    package("vsftpd", "/usr/sbin/vsftpd"),
    package("iproute2", "/usr/sbin/tc"),
    package("strace", "/usr/bin/strace"),
    package("tshark", "/usr/bin/tshark"),
    package("chromium", "/usr/bin/chromium"),
    package("slapd", "/usr/sbin/slapd"),
    package("openssl", "/usr/bin/openssl"),
    package("libnss-db", "/usr/bin/makedb"),
    package("libjemalloc2", "/usr/lib/*/libjemalloc.so.2"),
    package("libmimalloc2.0", "/usr/lib/*/libmimalloc.so.2"),
];

/// Packages for `cargo xtask package --check`: a fresh root, a client in it, and verification.
const DEBIAN_PACKAGE: &[Package] = &[
    package("debootstrap", "/usr/sbin/debootstrap"),
    package("lintian", "/usr/bin/lintian"),
    package("smbclient", "/usr/bin/smbclient"),
    package("dpkg-dev", "/usr/bin/dpkg-shlibdeps"),
    package("iproute2", "/usr/sbin/ip"),
    package("procps", "/usr/bin/pgrep"),
    package("podman", "/usr/bin/podman"),
    package("crun", "/usr/bin/crun"),
];

/// Packages for `cargo xtask gluster`, in addition to those for starting Samba: servers, mounts, the client library and
/// Samba's module that uses it, and the file systems of the bricks.
const DEBIAN_GLUSTER: &[Package] = &[
    package("glusterfs-server", "/usr/sbin/glusterd"),
    package("glusterfs-client", "/sbin/mount.glusterfs"),
    package("libgfapi0", "/usr/lib/*/libgfapi.so.0"),
    package("samba-vfs-modules", "/usr/lib/*/samba/vfs/glusterfs.so"),
    package("xfsprogs", "/usr/sbin/mkfs.xfs"),
    package("e2fsprogs", "/usr/sbin/mkfs.ext4"),
];

/// Packages for `cargo xtask guest`: an emulator, a kernel with its client of SMB, and the programs that use a share.
const DEBIAN_GUEST: &[Package] = &[
    package("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    package("linux-image-amd64", "/lib/modules/*/kernel/drivers/virtio/virtio_pci.ko"),
    package("busybox-static", "/bin/busybox"),
    package("cpio", "/usr/bin/cpio"),
    package("kmod", "/usr/bin/kmod"),
    package("e2fsprogs", "/usr/sbin/mkfs.ext4"),
    package("xfsprogs", "/usr/sbin/mkfs.xfs"),
    package("cifs-utils", "/usr/sbin/mount.cifs"),
    package("smbclient", "/usr/bin/smbclient"),
    package("attr", "/usr/bin/getfattr"),
    package("quota", "/usr/sbin/setquota"),
    package("lvm2", "/usr/sbin/lvcreate"),
    package("thin-provisioning-tools", "/usr/sbin/thin_check"),
    package("systemd", "/lib/systemd/systemd"),
    package("git", "/usr/bin/git"),
    package("make", "/usr/bin/make"),
    package("rsync", "/usr/bin/rsync"),
    package("sqlite3", "/usr/bin/sqlite3"),
];

/// Packages that enable daemons in systemd, and these daemons.
const DAEMONS: [(&str, &[&str]); 9] = [
    ("prometheus", &["prometheus"]),
    ("winbind", &["winbind"]),
    ("samba", &["smbd", "nmbd", "samba-ad-dc"]),
    ("nginx", &["nginx"]),
    ("glusterfs-server", &["glusterd", "glustereventsd"]),
    ("slapd", &["slapd"]),
    ("vsftpd", &["vsftpd"]),
    ("krb5-kdc", &["krb5-kdc"]),
    ("krb5-admin-server", &["krb5-admin-server"]),
];

/// Python packages, installed in a separate environment below `target/`.
const PYTHON: &[&str] = &[
    "axe-core-python==0.1.0",
    "Canaille[front,oidc]==0.3.6",
    "impacket==0.13.1",
    "prometheus-client==0.26.0",
    "smbprotocol==1.17.0",
];

/// The Debian release whose source package of libsmb2 is used (the first is 13, trixie), and the version of that
/// package.
const LIBSMB2: (&str, &str) = ("trixie", "6.2+dfsg");
/// The features that its configure script finds on a Debian system: headers and two structures.
const LIBSMB2_HAS: [&str; 25] = [
    "ARPA_INET_H",
    "DLFCN_H",
    "ERRNO_H",
    "FCNTL_H",
    "INTTYPES_H",
    "LINGER",
    "NETDB_H",
    "NETINET_IN_H",
    "NETINET_TCP_H",
    "POLL_H",
    "SOCKADDR_STORAGE",
    "STDINT_H",
    "STDIO_H",
    "STDLIB_H",
    "STRINGS_H",
    "STRING_H",
    "SYS_FCNTL_H",
    "SYS_IOCTL_H",
    "SYS_POLL_H",
    "SYS_SOCKET_H",
    "SYS_STAT_H",
    "SYS_TIME_H",
    "SYS_TYPES_H",
    "SYS_UIO_H",
    "UNISTD_H",
];

fn tools() -> Tools {
    Tools { jars: crate::root().join("target/java/jars"), libsmb2: crate::root().join("target/libsmb2") }
}

/// Returns the interpreter with access to the Python packages.
pub(crate) fn python() -> PathBuf {
    crate::root().join("target/python/bin/python3")
}

/// Installs everything for the purpose.
pub(crate) fn run(set: Set) -> Result<()> {
    packages(set.packages())?;
    if matches!(set, Set::Compare | Set::Package | Set::Gluster | Set::Guest) { Ok(()) } else { python_packages() }
}

/// Downloads the client libraries of other languages from Maven's repository and Debian's sources. They are separate
/// because not every machine that runs the tests can reach these.
pub(crate) fn client_libraries() -> Result<Tools> {
    packages(DEBIAN_LIBRARIES.iter())?;
    java_packages()?;
    libsmb2()?;
    Ok(tools())
}

fn packages(wanted: impl Iterator<Item = &'static Package>) -> Result<()> {
    let missing: Vec<&str> = wanted.filter(|package| !is_there(package)).map(|package| package.name).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
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
        bail!("programs are missing, and this is not a Debian system: install the equivalents of {missing:?}");
    }
    println!("installing {}", missing.join(" "));
    let quiet = KeepDaemonsQuiet::new()?;
    let install = || apt_get(&[&["install", "--yes", "--no-install-recommends", "--no-remove"], missing].concat());
    // The package lists may be missing or outdated. They are downloaded only if the first attempt fails.
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

/// While this value exists, Debian's `policy-rc.d` prevents packages from starting their daemons.
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

/// Disables the daemons that newly installed packages have enabled in systemd.
fn disable_daemons(installed: &[&str]) {
    if !Path::new("/run/systemd/system").exists() {
        return;
    }
    for (_, units) in DAEMONS.iter().filter(|(package, _)| installed.contains(package)) {
        let _ = Command::new("systemctl").args(["--quiet", "disable"]).args(*units).status();
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
    // python3-venv works with Debian's interpreter.
    let debian = Path::new("/usr/bin/python3");
    let interpreter = if debian.exists() { debian } else { Path::new("python3") };
    succeed(Command::new(interpreter).args(["-m", "venv"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    succeed(Command::new(python()).args(pip).args(PYTHON))?;
    fs::write(&stamp, wanted)?;
    Ok(())
}

/// Downloads smbj and its dependencies with Maven.
fn java_packages() -> Result<()> {
    let Tools { jars, .. } = tools();
    let folder = jars.parent().context("the folder has no parent")?;
    let project = crate::root().join("tests/foreign/java/pom.xml");
    let wanted = fs::read_to_string(&project)?;
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    println!("fetching smbj for target/java");
    let _ = fs::remove_dir_all(folder);
    let mut maven = Command::new("mvn");
    maven
        .args(["--batch-mode", "--quiet", "-Dstyle.color=never", "--file"])
        .arg(&project)
        .arg("dependency:copy-dependencies");
    maven.arg(format!("-Dmaven.repo.local={}", folder.join("repository").display()));
    succeed(maven.arg(format!("-DoutputDirectory={}", jars.display())))?;
    fs::write(&stamp, wanted)?;
    Ok(())
}

/// Compiles libsmb2 from Debian's source package, which any Debian release can download from its package mirror.
/// Nothing is installed, and the system's package lists are not modified.
fn libsmb2() -> Result<()> {
    let Tools { libsmb2: folder, .. } = tools();
    let (suite, version) = LIBSMB2;
    let stamp = folder.join("installed");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == version) {
        return Ok(());
    }
    println!("fetching the source of libsmb2 {version} for target/libsmb2");
    let _ = fs::remove_dir_all(&folder);
    let source = folder.join("source");
    for name in ["sources", "lists/partial", "cache/archives/partial", "source"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let lines = format!("Types: deb-src\nURIs: {}\nSuites: {suite}\nComponents: main\nSigned-By: {keys}\n", mirror()?);
    fs::write(folder.join("sources/libsmb2.sources"), lines)?;
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.arg("-qq").current_dir(&source);
        for (name, path) in [
            ("Etc::sourceparts", "sources"),
            ("State::lists", "lists"),
            ("Cache", "cache"),
            ("Etc::sourcelist", "none"),
        ] {
            command.arg("-o").arg(format!("Dir::{name}={}", folder.join(path).display()));
        }
        // apt-get runs as the current user, also as root, because the user `_apt` may not write root's files.
        succeed(command.args(["-o", "APT::Sandbox::User=root"]).args(arguments))
    };
    fs::write(folder.join("none"), "")?;
    apt_get(&["update"])?;
    apt_get(&["source", "--download-only", "--tar-only", "libsmb2"])?;
    let archive = format!("libsmb2_{version}.orig.tar.gz");
    succeed(Command::new("tar").args(["--extract", "--strip-components=1", "--file", &archive]).current_dir(&source))?;
    let mut compile = Command::new("cc");
    // Warnings in foreign code are disabled.
    compile.args(["-w", "-O2", "-r", "-nostdlib", "-D_GNU_SOURCE", "-DSTDC_HEADERS", "-D_U_=__attribute__((unused))"]);
    compile.args(LIBSMB2_HAS.map(|name| format!("-DHAVE_{name}"))).args(["-Iinclude", "-Iinclude/smb2", "-o"]);
    compile.arg(folder.join("libsmb2.o"));
    for entry in fs::read_dir(source.join("lib"))? {
        let path = entry?.path();
        // Kerberos needs further libraries and is not used here.
        let kerberos = path.file_stem().is_some_and(|name| name == "krb5-wrapper");
        if path.extension().is_some_and(|extension| extension == "c") && !kerberos {
            compile.arg(path);
        }
    }
    succeed(compile.current_dir(&source))?;
    fs::rename(source.join("include"), folder.join("include"))?;
    for name in ["sources", "lists", "cache", "source"] {
        fs::remove_dir_all(folder.join(name))?;
    }
    fs::write(&stamp, version)?;
    Ok(())
}

/// Returns the mirror of this system's Debian packages.
fn mirror() -> Result<String> {
    let output = Command::new("apt-get").args(["indextargets", "--format", "$(LABEL) $(REPO_URI)"]).output();
    let output = output.context("cannot start apt-get, which fetches the source of libsmb2")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.lines().find_map(|line| line.strip_prefix("Debian "));
    found
        .map(str::to_owned)
        .context("apt-get has no source of Debian packages; add one to /etc/apt and run apt-get update")
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
    fn the_path_of_a_package_may_contain_wildcards() {
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
