//! The rpm package, from `packaging/frevo.spec` and the program that was built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Program, Work, epoch, output};

/// Builds the package. Returns its path.
pub(super) fn build(program: &Program, work: &Work, out: &Path) -> Result<Vec<PathBuf>> {
    let mut command = Command::new("rpmbuild");
    for (name, value) in [
        ("_topdir", work.path().join("rpm").display().to_string()),
        ("_rpmdir", out.display().to_string()),
        ("_build_name_fmt", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm".to_owned()),
        ("frevo_program", program.path.display().to_string()),
        ("frevo_source", crate::root().display().to_string()),
        ("frevo_version", program.version()?),
    ] {
        command.arg("--define").arg(format!("{name} {value}"));
    }
    // The program was built by cargo, so the host's rpm database does not matter.
    command.args(["-bb", "--nodeps", "--quiet"]).arg(crate::root().join("packaging/frevo.spec"));
    output(command.env("SOURCE_DATE_EPOCH", epoch()?))?;
    let mut made = Vec::new();
    for entry in std::fs::read_dir(out)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rpm") {
            made.push(path);
        }
    }
    Ok(made)
}
