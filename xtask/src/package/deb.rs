//! The Debian package, and one with debug information.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Program, Tree, Work, epoch, output, source};

/// The revision of the packaging.
const REVISION: &str = "1";
/// The field Maintainer, unless `DEBFULLNAME` and `DEBEMAIL` name another. The domain is one that never has mail
/// (RFC 2606), because the project has no address for packages.
const MAINTAINER: &str = "Frevo developers <packages@frevo.invalid>";

/// Builds both packages. Returns their paths.
pub(super) fn build(program: &Program, work: &Work, out: &Path) -> Result<Vec<PathBuf>> {
    let version = format!("{}-{REVISION}", program.version()?);
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
    let tree = Tree::new(work.path().join("deb"))?;
    fill(&tree, program, work, &version)?;
    let depends = depends(program, work)?;
    let (size, maintainer) = (size(&tree)?, maintainer());
    let control = format!(
        "Package: frevo\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {maintainer}\n\
         Installed-Size: {size}\nDepends: {depends}, procps\nRecommends: libgssapi-krb5-2, libpam0g\n\
         Suggests: winbind, samba-common-bin, smbclient\nSection: net\nPriority: optional\n\
         Description: SMB file server that reads smb.conf\n \
         Frevo serves files over SMB 2 and 3 in place of smbd. It reads smb.conf and\n \
         keeps attributes, streams and Windows ACLs on disk in the formats of Samba.\n .\n \
         The service is not started on a host on which smbd is in use.\n"
    );
    tree.write("DEBIAN/control", 0o644, control)?;
    for script in ["postinst", "prerm", "postrm"] {
        tree.copy(&format!("DEBIAN/{script}"), 0o755, &source(&format!("packaging/debian/{script}")))?;
    }
    let mut made = vec![pack(&tree, out, &format!("frevo_{version}_{architecture}.deb"))?];
    if let Some(id) = &program.build_id {
        let symbols = symbols(program, work, &version, &architecture, id)?;
        made.push(pack(&symbols, out, &format!("frevo-dbgsym_{version}_{architecture}.deb"))?);
    }
    Ok(made)
}

/// Adds all files except those of dpkg.
fn fill(tree: &Tree, program: &Program, work: &Work, version: &str) -> Result<()> {
    tree.copy("usr/bin/frevo", 0o755, &program.path)?;
    tree.directory("etc/frevo", 0o755)?;
    for unit in
        ["frevo.service", "frevo.socket", "frevo-console.service", "frevo-snapshot.service", "frevo-snapshot.timer"]
    {
        tree.copy(&format!("lib/systemd/system/{unit}"), 0o644, &source(&format!("packaging/{unit}")))?;
    }
    tree.copy("usr/share/frevo/windows-acls.conf", 0o644, &source("packaging/windows-acls.conf"))?;
    tree.copy("usr/lib/tmpfiles.d/frevo.conf", 0o644, &source("packaging/frevo.tmpfiles"))?;
    for page in program.manual(&work.path().join("man"))? {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let section = name.rsplit_once('.').map_or("1", |(_, section)| section);
        tree.write_compressed(&format!("usr/share/man/man{section}/{name}"), fs::read(&page)?)?;
    }
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/frevo"),
        ("zsh", "usr/share/zsh/vendor-completions/_frevo"),
        ("fish", "usr/share/fish/vendor_completions.d/frevo.fish"),
    ] {
        tree.write(path, 0o644, program.output(&["completions", shell])?)?;
    }
    let documentation = "usr/share/doc/frevo";
    tree.copy(&format!("{documentation}/copyright"), 0o644, &source("packaging/debian/copyright"))?;
    tree.copy(&format!("{documentation}/examples/smb.conf"), 0o644, &source("packaging/smb.conf"))?;
    tree.write_compressed(&format!("{documentation}/changelog"), fs::read(source("CHANGELOG.md"))?)?;
    let date = output(Command::new("date").args(["--utc", "-R", "-d"]).arg(format!("@{}", epoch()?)))?;
    let changes = format!(
        "frevo ({version}) unstable; urgency=medium\n\n  * The changes are in changelog.gz.\n\n -- {}  {}\n",
        maintainer(),
        date.trim()
    );
    tree.write_compressed(&format!("{documentation}/changelog.Debian"), changes)
}

/// Returns the package with the debug information, where debuggers look for it.
fn symbols(program: &Program, work: &Work, version: &str, architecture: &str, id: &str) -> Result<Tree> {
    let tree = Tree::new(work.path().join("symbols"))?;
    let (start, rest) = id.split_at(2);
    tree.copy(&format!("usr/lib/debug/.build-id/{start}/{rest}.debug"), 0o644, &program.debug)?;
    let control = format!(
        "Package: frevo-dbgsym\nVersion: {version}\nAuto-Built-Package: debug-symbols\nArchitecture: {architecture}\n\
         Maintainer: {}\nInstalled-Size: {}\nDepends: frevo (= {version})\nSection: debug\n\
         Priority: optional\nDescription: debug symbols for frevo\nBuild-Ids: {id}\n",
        maintainer(),
        size(&tree)?
    );
    tree.write("DEBIAN/control", 0o644, control)?;
    tree.directory("usr/share/doc", 0o755)?;
    std::os::unix::fs::symlink("frevo", tree.0.join("usr/share/doc/frevo-dbgsym"))?;
    Ok(tree)
}

fn pack(tree: &Tree, out: &Path, name: &str) -> Result<PathBuf> {
    let list = "find . -type f ! -path './DEBIAN/*' -printf '%P\\n' | LC_ALL=C sort | xargs -d '\\n' md5sum";
    let sums = output(Command::new("sh").args(["-c", list]).current_dir(&tree.0))?;
    tree.write("DEBIAN/md5sums", 0o644, sums)?;
    let path = out.join(name);
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree.0).arg(&path);
    output(command.env("SOURCE_DATE_EPOCH", epoch()?))?;
    Ok(path)
}

/// Returns the name and the address of the packager, as Debian's own tools do.
fn maintainer() -> String {
    match (std::env::var("DEBFULLNAME"), std::env::var("DEBEMAIL")) {
        (Ok(name), Ok(email)) if !name.is_empty() && !email.is_empty() => format!("{name} <{email}>"),
        _ => MAINTAINER.to_owned(),
    }
}

/// Returns the size of the installed files in KiB.
fn size(tree: &Tree) -> Result<String> {
    let text = output(Command::new("du").args(["-k", "-s", "--apparent-size"]).arg(&tree.0))?;
    Ok(text.split_whitespace().next().unwrap_or("0").to_owned())
}

/// Returns the packages with the libraries that the program is linked to.
fn depends(program: &Program, work: &Work) -> Result<String> {
    let folder = work.path().join("shlibdeps");
    fs::create_dir_all(folder.join("debian"))?;
    fs::write(folder.join("debian/control"), "Source: frevo\n\nPackage: frevo\nArchitecture: any\n")?;
    let mut command = Command::new("dpkg-shlibdeps");
    let text = output(command.arg("-O").arg("-e").arg(&program.path).current_dir(&folder))?;
    Ok(text.trim().strip_prefix("shlibs:Depends=").unwrap_or("libc6").to_owned())
}
