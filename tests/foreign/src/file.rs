//! Files and trees for transfers, and comparisons of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;

/// Creates a file of `length` random bytes that is readable by everyone.
pub(crate) fn random(path: &Path, length: u64) -> Result<()> {
    let mut file = File::create(path)?;
    io::copy(&mut File::open("/dev/urandom")?.take(length), &mut file)?;
    Ok(file.set_permissions(fs::Permissions::from_mode(0o644))?)
}

/// Creates a sparse file of `length` bytes with a mebibyte of data at its start, around each multiple of 2 GiB, and at
/// its end, because these are the offsets at which 31- and 32-bit arithmetic fails.
pub(crate) fn sparse(path: &Path, length: u64) -> Result<()> {
    const DATA: u64 = 1 << 20;
    let mut file = File::create(path)?;
    file.set_len(length)?;
    let around = (1..).map(|n| (n << 31) - DATA / 2).take_while(|at| at + DATA < length);
    for at in [0, length - DATA].into_iter().chain(around) {
        file.seek(SeekFrom::Start(at))?;
        io::copy(&mut File::open("/dev/urandom")?.take(DATA), &mut file)?;
    }
    Ok(file.set_permissions(fs::Permissions::from_mode(0o644))?)
}

/// Creates `folders` folders with `files` small files each, some nested, with sizes from zero to a few KiB.
pub(crate) fn tree(root: &Path, folders: usize, files: usize) -> Result<()> {
    for folder in 0..folders {
        let path = root.join(format!("part {}", folder % 10)).join(format!("module_{folder:03}"));
        fs::create_dir_all(&path)?;
        for file in 0..files {
            let line = format!("// file {file} of module {folder}\n");
            let repeat = (folder * 31 + file * 17) % 97;
            fs::write(path.join(format!("Source-{file:03}.rs")), line.repeat(repeat))?;
        }
    }
    Ok(())
}

/// Returns the files below a folder by path, with their contents.
pub(crate) fn contents(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(root)?.to_path_buf(), fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

/// Checks that both folders contain the same files.
pub(crate) fn ensure_same_tree(left: &Path, right: &Path) -> Result<usize> {
    let (left, right) = (contents(left)?, contents(right)?);
    for (path, bytes) in &left {
        let other = right.get(path).with_context(|| format!("{} is missing", path.display()))?;
        ensure!(bytes == other, "{} differs", path.display());
    }
    ensure!(left.len() == right.len(), "{} files became {}", left.len(), right.len());
    Ok(left.len())
}

/// A SHA-256 that is being computed in a separate process.
pub(crate) struct Sum(Child);

impl Fixture {
    /// Starts the SHA-256 of a file or named pipe.
    pub(crate) fn sha256(&self, path: &Path) -> Result<Sum> {
        let code = "import hashlib, sys; print(hashlib.file_digest(open(sys.argv[1], 'rb', 0), 'sha256').hexdigest())";
        let mut command = Command::new(&self.python);
        Ok(Sum(command.args(["-c", code]).arg(path).stdout(Stdio::piped()).spawn()?))
    }
}

impl Sum {
    /// Waits for the result.
    pub(crate) fn value(self) -> Result<String> {
        let output = self.0.wait_with_output()?;
        ensure!(output.status.success(), "no SHA-256: {}", output.status);
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// Writes a file with this owner.
pub(crate) fn owned(
    fixture: &Fixture,
    path: &Path,
    text: &str,
    owner: &test_environment::Person,
    mode: u32,
) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    fixture.environment.people().give(path, owner)
}
