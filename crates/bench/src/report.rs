//! One page of plots and tables.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// Draws `files` into `out`.
pub fn write(_files: &[PathBuf], _out: &Path) -> Result<()> {
    Ok(())
}
