//! The files of a share for the console: listed, their ACLs shown and set, and brought back from the recycle bin and
//! from [snapshots](versions). Files are opened as by the other commands here: from the directory of the share, and
//! without following links.

mod versions;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use proto::dtyp::sddl;
use serde_json::{Value, json};
use server::error::Error;
use server::policy::Share;
use server::security::admin::{AclAdmin, Item};
use server::state::SnapshotTables;
use server::vfs::{Errno, Kind, RelPath};

pub(crate) use self::versions::MayReplace;
use super::place::{Counter, Where, check_is_directory, desk};
use super::show::Shown;

/// Maximum number of names of a directory that are shown.
const SHOWN: usize = 500;

/// The files of a share.
pub(crate) struct Files {
    counter: Counter,
    share: Arc<Share>,
    /// What is known of its snapshots.
    snapshots: SnapshotTables,
}

impl Files {
    /// Opens the directory of the share called `name`.
    pub(crate) fn open(config: Option<PathBuf>, state_dir: Option<PathBuf>, name: &str) -> Result<Files> {
        let place = Where { config, state_dir };
        let opened = place.open()?;
        let share = opened.loaded.policy.share(name).with_context(|| format!("there is no share [{name}]"))?.clone();
        check_is_directory(&share)?;
        ensure!(share.path_template.is_none(), "[{name}] has another directory for each session");
        let counter = Counter {
            desk: desk(share.clone(), opened.accounts.clone())?,
            accounts: opened.accounts,
            domains: opened.domains,
        };
        Ok(Files { counter, share, snapshots: versions::tables() })
    }

    /// Returns the entries of a directory, and the recycle bin.
    pub(crate) async fn list(&self, path: &str) -> Result<Value> {
        let directory = self.item(&relative(path)?).await.map_err(|error| failed(path, error))?;
        let (total, entries) = entries(&self.counter.desk, path, &directory).await?;
        let entries: Vec<Value> = entries.iter().map(|(name, item)| shown(name, item)).collect();
        let (bin, has_versions) = (self.bin().map(|bin| text(&bin)), self.has_versions());
        Ok(json!({ "entries": entries, "total": total, "bin": bin, "versions": has_versions }))
    }

    /// Returns a file or directory that no link leads to.
    async fn item(&self, path: &RelPath) -> Result<Item, Error> {
        let item = self.counter.desk.item(path).await?;
        match item.metadata.kind {
            Kind::File | Kind::Directory => Ok(item),
            _ => Err(Errno::LOOP.into()),
        }
    }

    /// Returns the recycle bin: the part of its path that does not depend on the session.
    fn bin(&self) -> Option<RelPath> {
        const UNKNOWN: &str = "\u{1}";
        let recycle = self.share.recycle.as_deref()?;
        let directory = recycle.directory(&self.share.path, |_| Some(UNKNOWN.to_owned()))?;
        let mut known = RelPath::root();
        let is_known = |name: &&[u8]| !name.contains(&UNKNOWN.as_bytes()[0]);
        let all = directory.components().take_while(is_known).all(|name| known.push(name));
        (all && !known.is_root()).then_some(known)
    }

    /// Returns whether the share has a file, directory or link of this path, with names compared as clients do.
    pub(crate) async fn exists(&self, path: &str) -> Result<bool> {
        let present = self.counter.desk.present(&relative(path)?, None).await;
        present.map(|present| present.is_some()).map_err(|error| failed(path, error))
    }

    /// Moves a file out of the recycle bin. No file is replaced.
    pub(crate) async fn restore(&self, from: &str, to: &str) -> Result<()> {
        let bin = self.bin().context("the share has no recycle bin with a known directory")?;
        let (source, target) = (relative(from)?, relative(to)?);
        ensure!(source.is_beneath(&bin), "{from} is not in the recycle bin");
        ensure!(!target.is_root() && !target.is_beneath(&bin), "{to} is not a place for the file; choose another one");
        let item = self.item(&source).await.map_err(|error| failed(from, error))?;
        self.counter
            .desk
            .restore(&item, &target, &bin)
            .await
            .map_err(|error| anyhow!("{to}: {error}; its directory must exist, and no file may have the name"))
    }

    /// Returns what `frevo acl show --json` prints.
    pub(crate) async fn acl(&self, path: &str) -> Result<Value> {
        let desk = &self.counter.desk;
        let item = self.item(&relative(path)?).await.map_err(|error| failed(path, error))?;
        let look = desk.look(&item).await.map_err(|error| failed(path, error))?;
        Ok(serde_json::to_value(Shown::of(&self.counter, path, &look).await)?)
    }

    /// Sets the parts of the descriptor that `sddl` has, as `frevo acl set` does.
    pub(crate) async fn set_acl(&self, path: &str, sddl: &str) -> Result<()> {
        let given = sddl::decode(sddl.trim(), &self.counter.domains).map_err(|error| anyhow!("SDDL: {error}"))?;
        let item = self.item(&relative(path)?).await.map_err(|error| failed(path, error))?;
        self.counter.desk.set(&item, &given).await.map_err(|error| failed(path, error))
    }
}

/// Returns the number of names in a directory, and the first files and directories in it.
async fn entries(desk: &AclAdmin, path: &str, directory: &Item) -> Result<(usize, Vec<(String, Item)>)> {
    ensure!(directory.is_directory(), "{path} is not a directory");
    let (total, names) = desk.first_names(directory, SHOWN).await.map_err(|error| failed(path, error))?;
    let mut found = Vec::new();
    for name in &names {
        // Names that are not text cannot be named in a request.
        let (Some(inside), Ok(name)) = (directory.path.join(name), std::str::from_utf8(name)) else { continue };
        // It may be gone, or be a link or a device.
        if let Ok(item) = desk.item(&inside).await
            && item.keeps_descriptor()
        {
            found.push((name.to_owned(), item));
        }
    }
    Ok((total, found))
}

/// Returns what the page shows of a file or directory.
fn shown(name: &str, item: &Item) -> Value {
    json!({
        "name": name, "directory": item.is_directory(), "size": item.metadata.size,
        "modified": item.metadata.modified.secs,
    })
}

/// Reads a path below the share, whose separator is a slash.
fn relative(path: &str) -> Result<RelPath> {
    let mut relative = RelPath::root();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if !relative.push(name.as_bytes()) {
            bail!("{path} is not a path below the share");
        }
    }
    Ok(relative)
}

fn text(path: &RelPath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

fn failed(path: &str, error: Error) -> anyhow::Error {
    anyhow!("{}: {error}", if path.is_empty() { "the directory of the share" } else { path })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn files_come_back_from_the_bin_and_nothing_leaves_the_share() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let share = top.join("share");
        fs::create_dir_all(share.join(".recycle/ann/docs")).unwrap();
        fs::create_dir(share.join("docs")).unwrap();
        fs::write(share.join(".recycle/ann/docs/a <b>.txt"), "a").unwrap();
        fs::write(share.join("docs/taken"), "taken").unwrap();
        fs::write(top.join("secret"), "secret").unwrap();
        symlink(&top, share.join("out")).unwrap();
        symlink(&top, share.join(".recycle/out")).unwrap();
        let text = format!(
            "[x]\npath = {}\nvfs objects = recycle\nrecycle:repository = .recycle/%U\nrecycle:keeptree = yes\n",
            share.display()
        );
        let config = top.join("smb.conf");
        fs::write(&config, text).unwrap();
        let files = Files::open(Some(config), Some(top.join("state")), "x").unwrap();
        let listed = files.list("").await.unwrap();
        assert_eq!(listed["bin"], ".recycle");
        let names: Vec<_> =
            listed["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"docs") && !names.contains(&"out"), "{names:?}");
        for (path, exists) in [("docs", true), ("docs/taken", true), ("frevo-bench-largefile", false), ("out", true)] {
            assert_eq!(files.exists(path).await.unwrap(), exists, "{path}");
        }
        let bin = files.list(".recycle/ann/docs").await.unwrap();
        assert_eq!((&bin["entries"][0]["name"], &bin["entries"][0]["size"]), (&json!("a <b>.txt"), &json!(1)));

        let from = ".recycle/ann/docs/a <b>.txt";
        for (from, to) in [
            (from, "docs/taken"),
            (from, "out/a"),
            (from, "../a"),
            (from, "missing/a"),
            (from, ".recycle/a"),
            (from, ".Recycle/a"),
            (from, ".RECYCLE/ann/a"),
            (from, ""),
            ("docs/taken", "docs/b"),
            (".recycle/out/secret", "docs/secret"),
            (".recycle/../docs/taken", "docs/b"),
        ] {
            assert!(files.restore(from, to).await.is_err(), "{from} to {to}");
        }
        assert_eq!(fs::read(share.join("docs/taken")).unwrap(), b"taken");
        files.restore(from, "docs/a").await.unwrap();
        assert_eq!(fs::read(share.join("docs/a")).unwrap(), b"a");
        assert!(!share.join(from).exists() && top.join("secret").exists());
        for outside in ["out", "out/secret", "..", "../secret"] {
            assert!(files.list(outside).await.is_err() && files.acl(outside).await.is_err(), "{outside}");
            assert!(files.set_acl(outside, "D:(A;;FA;;;WD)").await.is_err(), "{outside}");
        }
        assert!(files.acl("docs/a").await.unwrap()["sddl"].as_str().unwrap().contains("D:"));
    }
}
