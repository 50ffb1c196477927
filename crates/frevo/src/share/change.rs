//! A change of the added shares: it is checked with the whole configuration, then the file is replaced.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use smbconf::added::{self, Added, AddedShares, Change, FILE_NAME, Refusal};
use smbconf::{Loaded, Names, Sources};

use accounts::state_dir::StateDir;

/// The new file, until it has replaced the former one.
const NEW_FILE: &str = "shares.conf.new";

/// A change that is possible.
pub(crate) struct Prepared {
    /// The configuration with the change.
    pub(crate) loaded: Loaded,
    text: Vec<u8>,
}

/// Returns the path of the file of the added shares.
pub(crate) fn file_of(state: &Path) -> PathBuf {
    state.join(FILE_NAME)
}

/// Reads the configuration in `config`, with the `shares` of the command line, as it is after `change`. The caller must
/// be the only one who changes the file. Blocks.
///
/// # Errors
/// If the change is not possible.
pub(crate) fn prepare(
    state: &StateDir,
    config: Option<&Path>,
    shares: &[(String, PathBuf)],
    names: &dyn Names,
    change: &Change,
) -> Result<Prepared, Refusal> {
    let file = file_of(state.path());
    let load = |text: &[u8]| {
        let added = Added::Text { file: &file, text };
        smbconf::load_from(&Sources { config, shares, added }, names).map_err(|problems| {
            Refusal::Failed(format!("the configuration has errors, which must be corrected first\n{problems}"))
        })
    };
    let former = read(state).map_err(|error| Refusal::Failed(format!("{error:#}")))?;
    let mut shares = AddedShares::parse(&former)?;
    match shares.apply(change) {
        // It may be one of the administrator.
        Err(Refusal::NotFound(why)) => {
            return Err(added::check_owner(&load(&former)?, change.name(), &file)
                .err()
                .unwrap_or(Refusal::NotFound(why)));
        }
        applied => applied?,
    }
    let text = shares.to_bytes()?;
    let loaded = load(&text)?;
    added::check(&loaded, change, &file)?;
    Ok(Prepared { loaded, text })
}

fn read(state: &StateDir) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(file) = state.open_file(FILE_NAME)? {
        file.take(added::LARGEST_FILE + 1).read_to_end(&mut text).with_context(|| FILE_NAME.to_owned())?;
    }
    if text.len() as u64 > added::LARGEST_FILE {
        bail!("{FILE_NAME} is too large; remove shares from it");
    }
    Ok(text)
}

impl Prepared {
    /// Replaces the file. A crash leaves either the former or the new one. Blocks.
    ///
    /// # Errors
    /// If it cannot be replaced; the former file stays.
    pub(crate) fn write(&self, state: &StateDir) -> Result<()> {
        // A process that crashed may have left one.
        state.remove(NEW_FILE)?;
        let replaced = self.replace(state);
        if replaced.is_err() {
            let _ = state.remove(NEW_FILE);
        }
        replaced.with_context(|| format!("cannot write {}", file_of(state.path()).display()))
    }

    fn replace(&self, state: &StateDir) -> Result<()> {
        let mut file = state.create_file(NEW_FILE)?;
        file.write_all(&self.text)?;
        file.sync_all()?;
        state.rename(NEW_FILE, FILE_NAME)
    }
}
