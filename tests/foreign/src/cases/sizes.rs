//! Files of 0 bytes to 5 GiB are sent to the server and fetched with the same SHA-256.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("sizes.empty", |fixture| there_and_back(fixture, 0)),
    Case::new("sizes.one_byte", |fixture| there_and_back(fixture, 1)),
    Case::new("sizes.64_kib", |fixture| there_and_back(fixture, 64 << 10)),
    Case::new("sizes.1_gib", |fixture| there_and_back(fixture, 1 << 30)).slow(),
    Case::new("sizes.5_gib_sparse", five_gib_sparse).slow(),
];

fn there_and_back(fixture: &mut Fixture, length: u64) -> Result<()> {
    let local = fixture.local("size")?;
    file::random(&local.join("sent"), length)?;
    let stored = fixture.share("files").join("size");
    let commands = format!("lcd {}; put sent size; get size fetched", local.display());
    fixture.smbclient().run(&commands)?.fine()?;
    let [sent, on_disk, fetched] =
        [&local.join("sent"), &stored, &local.join("fetched")].map(|path| fixture.sha256(path));
    let sent = sent?.value()?;
    ensure!(on_disk?.value()? == sent, "the stored file differs");
    ensure!(fetched?.value()? == sent, "the fetched file differs");
    ensure!(fs::metadata(&stored)?.len() == length, "the length differs");
    fs::remove_file(&stored)?;
    fs::remove_dir_all(local)?;
    Ok(())
}

/// The fetched data is hashed from a named pipe, so that it needs no disk space a second time.
fn five_gib_sparse(fixture: &mut Fixture) -> Result<()> {
    let length = 5 << 30;
    let local = fixture.local("size")?;
    file::sparse(&local.join("sent"), length)?;
    let sent = fixture.sha256(&local.join("sent"))?;
    fixture.smbclient().run(&format!("lcd {}; put sent size", local.display()))?.fine()?;
    let stored = fixture.share("files").join("size");
    ensure!(fs::metadata(&stored)?.len() == length, "the length differs");
    make_pipe(&local.join("fetched"))?;
    let fetched = fixture.sha256(&local.join("fetched"))?;
    fixture.smbclient().run(&format!("lcd {}; get size fetched", local.display()))?.fine()?;
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
