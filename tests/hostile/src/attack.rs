//! The definition of an attack, and the table of all attacks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use futures_util::future::LocalBoxFuture;
use test_environment::{ALICE, TestEnvironment};

use crate::attacks;
use crate::scene::{SHARE, Scene};

/// An attack. It continues until it is dropped.
pub(crate) struct Attack {
    /// The name, in the form `family.attack`.
    pub(crate) name: &'static str,
    /// A description of the attack and its user.
    pub(crate) what: &'static str,
    /// Creates the files that it needs on the share, before the server starts.
    pub(crate) prepare: Option<fn(&Ground<'_>) -> Result<()>>,
    /// The attack.
    pub(crate) run: for<'a> fn(&'a Scene) -> LocalBoxFuture<'a, Result<()>>,
}

/// All attacks, family by family.
pub(crate) fn all() -> impl Iterator<Item = &'static Attack> {
    attacks::FAMILIES.iter().copied().flatten()
}

/// The directory behind the attackers' share.
pub(crate) struct Ground<'a> {
    environment: &'a TestEnvironment,
    dir: PathBuf,
    brief: bool,
}

impl<'a> Ground<'a> {
    /// Empties the directory.
    pub(crate) fn clear(environment: &'a TestEnvironment, brief: bool) -> Result<Ground<'a>> {
        let dir = environment.dir().join(SHARE);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
        }
        let dir = environment.make_dir(SHARE, &ALICE, 0o777)?;
        Ok(Ground { environment, dir, brief })
    }

    /// Returns `brief` or `full`, depending on the run.
    pub(crate) fn choose<T>(&self, brief: T, full: T) -> T {
        if self.brief { brief } else { full }
    }

    /// Returns a path on the share.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Creates a directory owned by alice.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir(&path)?;
        self.give(&path, 0o755)?;
        Ok(path)
    }

    /// Creates a sparse file of `length` bytes, owned by alice.
    pub(crate) fn file(&self, name: &str, length: u64) -> Result<PathBuf> {
        let path = self.path(name);
        fs::File::create(&path)?.set_len(length)?;
        self.give(&path, 0o644)?;
        Ok(path)
    }

    fn give(&self, path: &Path, mode: u32) -> Result<()> {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        self.environment.people().give(path, &ALICE)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_attack_has_a_unique_name_and_a_description() {
        let names: BTreeSet<_> = all().map(|attack| attack.name).collect();
        assert_eq!(names.len(), all().count());
        assert!(all().all(|attack| attack.name.contains('.') && !attack.what.is_empty()));
        assert!(names.len() >= 20);
    }
}
