//! Files of 0 bytes to 5 GiB are sent to the server and fetched with the same SHA-256.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::file;
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("sizes.empty", |stage| there_and_back(stage, 0)),
    Case::new("sizes.one_byte", |stage| there_and_back(stage, 1)),
    Case::new("sizes.64_kib", |stage| there_and_back(stage, 64 << 10)),
    Case::new("sizes.1_gib", |stage| there_and_back(stage, 1 << 30)).slow(),
    Case::new("sizes.5_gib_sparse", five_gib_sparse).slow(),
];

fn there_and_back(stage: &mut Stage, length: u64) -> Result<()> {
    let local = stage.local("size")?;
    file::random(&local.join("sent"), length)?;
    let stored = stage.share("files").join("size");
    let commands = format!("lcd {}; put sent size; get size fetched", local.display());
    stage.smbclient().run(&commands)?.fine()?;
    let [sent, on_disk, fetched] =
        [&local.join("sent"), &stored, &local.join("fetched")].map(|path| stage.sha256(path));
    let sent = sent?.value()?;
    ensure!(on_disk?.value()? == sent, "the stored file differs");
    ensure!(fetched?.value()? == sent, "the fetched file differs");
    ensure!(fs::metadata(&stored)?.len() == length, "the length differs");
    fs::remove_file(&stored)?;
    fs::remove_dir_all(local)?;
    Ok(())
}

/// The fetched data is hashed from a named pipe, so that it needs no disk space a second time.
fn five_gib_sparse(stage: &mut Stage) -> Result<()> {
    let length = 5 << 30;
    let local = stage.local("size")?;
    file::sparse(&local.join("sent"), length)?;
    let sent = stage.sha256(&local.join("sent"))?;
    stage.smbclient().run(&format!("lcd {}; put sent size", local.display()))?.fine()?;
    let stored = stage.share("files").join("size");
    ensure!(fs::metadata(&stored)?.len() == length, "the length differs");
    make_pipe(&local.join("fetched"))?;
    let fetched = stage.sha256(&local.join("fetched"))?;
    stage.smbclient().run(&format!("lcd {}; get size fetched", local.display()))?.fine()?;
    ensure!(fetched.value()? == sent.value()?, "the fetched file differs");
    fs::remove_file(&stored)?;
    fs::remove_dir_all(local)?;
    Ok(())
}

fn make_pipe(path: &Path) -> Result<()> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the string ends in a zero byte and outlives the call.
    let made = unsafe { libc::mkfifo(text.as_ptr(), 0o600) };
    (made == 0).then_some(()).with_context(|| format!("cannot create a pipe: {}", std::io::Error::last_os_error()))
}
