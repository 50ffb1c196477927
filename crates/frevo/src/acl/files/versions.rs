//! Previous versions: those that clients see, read from their snapshots.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use server::answer::Answer;
use server::command::snapshots::PreviousVersions;
use server::policy::Share;
use server::security::admin::{AclAdmin, Item};
use server::state::{SnapshotTables, VolumeId, Volumes, directories_overlap};
use server::vfs::{Errno, Kind, Metadata, SymlinkPolicy, Vfs};
use tokio::sync::Mutex;

use super::{Files, entries, failed, relative, shown};
use crate::environment::SystemEnvironment;
use crate::serve::mount_point;

/// Maximum number of snapshots that are searched, as for clients.
const SEARCHED: usize = 16_384;
/// Maximum number of snapshots, the newest ones, in which a file is looked up.
const LOOKED_AT: usize = 256;

/// Held while a version is copied. Several large files at a time would occupy all threads of the console.
static COPYING: Mutex<()> = Mutex::const_new(());

/// Returns whether a file, which has this device and inode, may be replaced; the error says why not.
pub(crate) type MayReplace<'a> = &'a dyn Fn((u64, u64)) -> Result<()>;

/// The directories of this host, for a command that may block. No links in them are followed.
struct Directories;

impl Volumes for Directories {
    fn id(&self, share: &Share) -> VolumeId {
        VolumeId::of_directory(share)
    }

    fn open(&self, share: &Share) -> Answer<server::vfs::Result<Arc<dyn Vfs>>> {
        let options = localfs::Options { links: SymlinkPolicy::NONE, root: None };
        let opened = localfs::LocalFs::open(&share.path, options);
        let opened = opened.map(|volume| Arc::new(volume) as Arc<dyn Vfs>);
        Answer::now(opened.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0))))
    }

    fn overlap(&self, share: &Share, other: &Share) -> bool {
        directories_overlap(share, other)
    }

    fn mount_point(&self, path: &Path) -> Answer<server::vfs::Result<PathBuf>> {
        Answer::now(mount_point(path))
    }
}

/// Returns what a search for snapshots uses.
pub(super) fn tables() -> SnapshotTables {
    SnapshotTables::new(Arc::new(SystemEnvironment::new()), Arc::new(Directories))
}

impl Files {
    /// Returns whether clients see previous versions of files in the share.
    pub(super) fn has_versions(&self) -> bool {
        self.share.snapshots.is_some() || self.share.automatic_snapshots.is_some()
    }

    async fn previous(&self) -> Result<PreviousVersions<'_>> {
        let name = &self.share.name;
        let opened = PreviousVersions::new(&self.snapshots, &self.counter.desk).await;
        let opened = opened.map_err(|error| anyhow!("cannot open the directory of [{name}]: {error}"))?;
        opened.with_context(|| format!("[{name}] shows no previous versions; set `frevo:snapshots = auto` in it"))
    }

    async fn version(&self, path: &str, moment: i64) -> Result<(AclAdmin, Item)> {
        let previous = self.previous().await?;
        previous.version(&relative(path)?, moment).await.map_err(|error| anyhow!("the version of {path}: {error}"))
    }

    /// Returns the previous versions of a file or directory, the newest first. As Windows does, versions of a file that
    /// have the same size and time are shown once, as the newest snapshot has them.
    pub(crate) async fn versions(&self, path: &str) -> Result<Value> {
        let (previous, relative) = (self.previous().await?, relative(path)?);
        let moments = previous.moments(&relative, SEARCHED).await.map_err(|error| failed(path, error))?;
        let mut found = Vec::new();
        let mut last = None;
        for moment in moments.iter().take(LOOKED_AT) {
            // The file may not have existed then, or the snapshot may have been removed meanwhile.
            let Ok((_, item)) = previous.version(&relative, *moment).await else { continue };
            let content = (item.metadata.size, item.metadata.modified);
            if item.is_directory() || last.replace(content) != Some(content) {
                let mut version = shown("", &item);
                version["moment"] = json!(moment);
                found.push(version);
            }
        }
        Ok(json!({ "versions": found, "snapshots": moments.len(), "looked_at": moments.len().min(LOOKED_AT) }))
    }

    /// Returns the entries that a directory had in a snapshot, and whether each of them still exists.
    pub(crate) async fn list_version(&self, path: &str, moment: i64) -> Result<Value> {
        let (snapshot, directory) = self.version(path, moment).await?;
        let (total, found) = entries(&snapshot, path, &directory).await?;
        let (within, mut listed) = (relative(path)?, Vec::new());
        for (name, item) in &found {
            let now = within.join(name.as_bytes()).context("the path is too long")?;
            let mut entry = shown(name, item);
            entry["exists"] = json!(self.counter.desk.item(&now).await.is_ok());
            listed.push(entry);
        }
        Ok(json!({ "entries": listed, "total": total }))
    }

    /// Copies the version of the file `path` of `moment` to the name `to`. A file of that name is replaced only if
    /// `replace` is given and permits it.
    pub(crate) async fn restore_version(
        &self,
        path: &str,
        moment: i64,
        to: &str,
        replace: Option<MayReplace<'_>>,
    ) -> Result<()> {
        let copying = COPYING.try_lock().ok();
        let _copying = copying.context("another version is being restored; try again when it is complete")?;
        let (snapshot, version) = self.version(path, moment).await?;
        ensure!(version.metadata.kind == Kind::File, "{path} was a directory; open the version, and restore its files");
        let (target, bin) = (relative(to)?, self.bin());
        ensure!(!target.is_root(), "the path is empty; enter the name that the file gets");
        let desk = &self.counter.desk;
        let wrong = |error| anyhow!("{to}: {error}; its directory must exist, and no link may lead to it");
        let present = desk.present(&target, bin.as_ref()).await.map_err(wrong)?;
        match (&present, replace) {
            (Some(present), _) if present.kind != Kind::File => bail!("{to} is not a file; choose another name"),
            (Some(_), None) => bail!("{to} exists; choose another name, or confirm that it is replaced"),
            (Some(present), Some(may_replace)) => may_replace((present.id.device, present.id.inode))?,
            (None, _) => {}
        }
        let refusal = Cell::new(None);
        // A client may have opened it while it was copied.
        let still_may = |present: &Metadata| match replace.map(|may| may((present.id.device, present.id.inode))) {
            Some(Err(error)) => refusal.replace(Some(error)).is_some(),
            _ => true,
        };
        let still_may: &dyn Fn() -> bool = &|| present.as_ref().is_none_or(still_may);
        let replaces = present.as_ref().map(|present| (present, still_may));
        let done = desk.restore_version(&snapshot, &version, &target, bin.as_ref(), replaces).await;
        done.map_err(|error| match refusal.take() {
            Some(refusal) => refusal,
            None => anyhow!("{to}: {error}; nothing was changed"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use rustix::fs::{XattrFlags, getxattr, setxattr};

    use super::*;

    /// 2026-01-31 15:30:00 UTC, and a day later.
    const FIRST: i64 = 1_769_873_400;
    const SECOND: i64 = FIRST + 86_400;

    fn write(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A share with two snapshots, as clients see them with `shadow_copy2`.
    fn share(top: &Path) -> Files {
        let share = top.join("share");
        let [first, second] =
            ["@GMT-2026.01.31-15.30.00", "@GMT-2026.02.01-15.30.00"].map(|name| share.join(".snapshots").join(name));
        for (path, content) in [
            (first.join("letter"), "first"),
            (second.join("letter"), "the second"),
            (first.join("docs/gone"), "gone"),
            (second.join("docs/gone"), "gone"),
            (share.join("letter"), "now"),
            (share.join("docs/kept"), "kept"),
            (share.join("hidden/x"), ""),
            (top.join("secret"), "secret"),
        ] {
            write(&path, content);
        }
        let same = fs::metadata(first.join("docs/gone")).unwrap().modified().unwrap();
        fs::File::open(second.join("docs/gone")).unwrap().set_modified(same).unwrap();
        fs::set_permissions(first.join("letter"), fs::Permissions::from_mode(0o4640)).unwrap();
        symlink(top.join("secret"), first.join("link")).unwrap();
        symlink(top, first.join("out")).unwrap();
        symlink(top, share.join("out")).unwrap();
        let text = format!(
            "[x]\npath = {}\nvfs objects = shadow_copy2\nshadow:snapdir = .snapshots\nveto files = /hidden/\n\
             shadow:mountpoint = {0}\nshadow:format = @GMT-%Y.%m.%d-%H.%M.%S\n[y]\npath = {0}\n",
            share.display()
        );
        fs::write(top.join("smb.conf"), text).unwrap();
        Files::open(Some(top.join("smb.conf")), Some(top.join("state")), "x").unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn versions_are_listed_and_restored() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let files = share(&top);
        let share = top.join("share");
        let listed = files.versions("letter").await.unwrap();
        let moments: Vec<_> = listed["versions"].as_array().unwrap().iter().map(|it| it["moment"].clone()).collect();
        assert_eq!(moments, [SECOND, FIRST], "{listed}");
        assert_eq!((&listed["versions"][1]["size"], &listed["snapshots"]), (&json!(5), &json!(2)));
        let gone = files.versions("docs/gone").await.unwrap();
        assert_eq!(gone["versions"].as_array().unwrap().len(), 1, "equal versions are shown once: {gone}");
        assert_eq!(files.list("").await.unwrap()["versions"], true);

        // A deleted file of a directory.
        let docs = files.list_version("docs", FIRST).await.unwrap();
        assert_eq!((&docs["entries"][0]["name"], &docs["entries"][0]["exists"]), (&json!("gone"), &json!(false)));
        // The version has no ACL, so that of the directory does not apply.
        let list: [(u16, u16, u32); 5] = [(1, 7, !0), (2, 7, 9), (4, 7, !0), (0x10, 7, !0), (0x20, 0, !0)];
        let mut default = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in list {
            default.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
            default.extend(id.to_le_bytes());
        }
        setxattr(share.join("docs"), "system.posix_acl_default", &default, XattrFlags::empty()).unwrap();
        files.restore_version("docs/gone", FIRST, "docs/gone", None).await.unwrap();
        assert_eq!(fs::read(share.join("docs/gone")).unwrap(), b"gone");
        let inherited = getxattr(share.join("docs/gone"), "system.posix_acl_access", &mut [0; 100]);
        assert_eq!(inherited, Err(rustix::io::Errno::NODATA));
        let docs = files.list_version("docs", FIRST).await.unwrap();
        assert_eq!(docs["entries"][0]["exists"], true);

        // Nothing is replaced without confirmation.
        let error = files.restore_version("letter", FIRST, "letter", None).await.unwrap_err().to_string();
        assert!(error.contains("exists"), "{error}");
        assert_eq!(fs::read(share.join("letter")).unwrap(), b"now");
        let in_use = files.restore_version("letter", FIRST, "letter", Some(&|_| bail!("in use"))).await.unwrap_err();
        assert_eq!(in_use.to_string(), "in use");
        // A client opens it while it is copied.
        let asked = Cell::new(0);
        let opened = |_| if asked.replace(1) == 0 { Ok(()) } else { bail!("in use now") };
        let in_use = files.restore_version("letter", FIRST, "letter", Some(&opened)).await.unwrap_err();
        assert_eq!(in_use.to_string(), "in use now");
        assert_eq!(fs::read(share.join("letter")).unwrap(), b"now");
        files.restore_version("letter", FIRST, "letter", Some(&|_| Ok(()))).await.unwrap();
        let restored = fs::metadata(share.join("letter")).unwrap();
        let version = fs::metadata(share.join(".snapshots/@GMT-2026.01.31-15.30.00/letter")).unwrap();
        assert_eq!(fs::read(share.join("letter")).unwrap(), b"first");
        assert_eq!((restored.mode() & 0o7777, restored.mtime()), (0o640, version.mtime()), "without setuid");
        assert_eq!((restored.uid(), restored.nlink()), (version.uid(), 1));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_leaves_the_share_or_the_snapshot() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let files = share(&top);
        let before = fs::read_dir(&top).unwrap().count();
        for (from, moment, to) in [
            ("link", FIRST, "a"),
            ("out/secret", FIRST, "a"),
            ("../../../secret", FIRST, "a"),
            ("letter", FIRST + 1, "a"),
            ("docs", FIRST, "a"),
            ("missing", FIRST, "a"),
            ("letter", FIRST, "out/a"),
            ("letter", FIRST, "../a"),
            ("letter", FIRST, "missing/a"),
            ("letter", FIRST, "out"),
            ("letter", FIRST, "docs"),
            ("letter", FIRST, "hidden/x"),
            ("letter", FIRST, ".frevo-x"),
            ("letter", FIRST, ""),
        ] {
            let done = files.restore_version(from, moment, to, Some(&|_| Ok(()))).await;
            assert!(done.is_err(), "{from} to {to}");
        }
        for outside in ["out", "out/secret", "link", "../secret", ".."] {
            assert!(files.list_version(outside, FIRST).await.is_err(), "{outside}");
            let listed = files.versions(outside).await;
            assert!(listed.is_err() || listed.unwrap()["versions"] == json!([]), "{outside}");
        }
        assert!(!top.join("share/a").exists());
        assert_eq!(fs::read_dir(&top).unwrap().count(), before);
        assert_eq!(fs::read(top.join("secret")).unwrap(), b"secret");
        let left: Vec<_> = fs::read_dir(top.join("share")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".frevo-")), "{left:?}");
        let plain = Files::open(Some(top.join("smb.conf")), Some(top.join("state")), "y").unwrap();
        assert!(plain.versions("letter").await.unwrap_err().to_string().contains("frevo:snapshots = auto"));
        assert_eq!(plain.list("").await.unwrap()["versions"], false);
    }
}
