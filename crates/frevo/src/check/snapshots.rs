//! Directories of snapshots that the server ignores, because a user could present files of their own there as earlier
//! versions.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use server::policy::snapshots::{PLACES, Place, is_trusted};
use server::policy::{Share, Storage};
use smbconf::{Code, Loaded, Problem, warning};

use crate::serve::mount_point;

/// Adds the problems of all shares with `frevo:snapshots = auto`.
pub(super) fn look(loaded: &mut Loaded) {
    let shares: Vec<_> = loaded.policy.shares.values().cloned().collect();
    for problem in shares.iter().flat_map(|share| of_share(share)) {
        // Shares on one file system have the same problem above them.
        if !loaded.warnings.0.contains(&problem) {
            loaded.warnings.add(problem);
        }
    }
}

fn of_share(share: &Share) -> Vec<Problem> {
    let is_searched = share.automatic_snapshots.is_some() && share.storage == Storage::Directory;
    // A path with variables is known when a user connects.
    if !is_searched || share.path_template.is_some() || !share.path.is_absolute() {
        return Vec::new();
    }
    let mut bases = vec![share.path.clone()];
    bases.extend(mount_point(&share.path).ok().filter(|point| *point != share.path));
    bases.iter().flat_map(|base| PLACES.iter().filter_map(|place| ignored(base, place))).collect()
}

/// Returns why the snapshots in a place below `base` are ignored; `None` if they are not, or if there are none.
fn ignored(base: &Path, place: &Place) -> Option<Problem> {
    let whole = base.join(place.path.iter().map(|step| step.name).collect::<std::path::PathBuf>());
    if !whole.is_dir() {
        return None;
    }
    let mut at = base.to_owned();
    for step in place.path {
        at.push(step.name);
        let found = std::fs::symlink_metadata(&at).ok()?;
        let name = at.display();
        let (what, remedy) = if found.is_symlink() {
            (
                format!("{name} is a symbolic link"),
                format!("replace {name} with a directory of root, or mount one there"),
            )
        } else if is_trusted(found.uid(), found.mode(), found.ino(), step.control) {
            continue;
        } else {
            let what = format!(
                "{name} {}",
                if found.uid() == 0 { "may be written to by others than root" } else { "does not belong to root" }
            );
            (what, format!("chown root:root {name} && chmod 755 {name}, after a look at what it contains"))
        };
        let message = format!("the snapshots in {} are ignored: {what}", whole.display());
        return Some(warning(Code::SnapshotsIgnored, message).of("frevo:snapshots", "auto").remedy(&remedy));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use server::policy::snapshots::Automatic;

    use super::*;

    fn said(share: &Share) -> String {
        of_share(share).iter().map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn a_directory_that_others_can_change_is_named_with_its_remedy() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().join(".snapshots");
        let plain = Share::new("s", dir.path());
        let share = Share { automatic_snapshots: Some(Automatic { local: |_| 0 }), ..plain.clone() };
        assert_eq!(said(&share), "", "there are none");
        std::fs::create_dir(&at).expect("it is new");
        for (uid, mode, expected) in [
            (0, 0o755, ""),
            (0, 0o700, ""),
            (1000, 0o755, "does not belong to root"),
            (0, 0o775, "may be written to by others than root"),
        ] {
            chown(&at, Some(uid), None).expect("root has permission");
            std::fs::set_permissions(&at, Permissions::from_mode(mode)).expect("root has permission");
            let found = said(&share);
            assert_eq!(found.is_empty(), expected.is_empty(), "{uid} {mode:o}: {found}");
            assert!(found.contains(expected) && (expected.is_empty() || found.contains("chmod 755")), "{found}");
        }
        assert_eq!(said(&plain), "", "it does not show them");
        assert!(of_share(&share).iter().all(|problem| !problem.fails_check()), "the share is served");
        std::fs::rename(&at, dir.path().join("other")).expect("it exists");
        symlink("other", &at).expect("the name is free");
        assert!(said(&share).contains("is a symbolic link"), "{}", said(&share));
        std::fs::remove_file(&at).expect("it exists");
        std::fs::create_dir_all(dir.path().join(".zfs/snapshot")).expect("it is new");
        assert_eq!(said(&share), "");
        std::fs::set_permissions(dir.path().join(".zfs"), Permissions::from_mode(0o777)).expect("root has permission");
        assert!(said(&share).contains("/.zfs/snapshot are ignored: "), "{}", said(&share));
    }
}
