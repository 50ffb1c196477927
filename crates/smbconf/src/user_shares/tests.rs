//! Tests of shares that users define, with files as `net usershare` writes them.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use super::*;
use crate::tests::Owned;

/// A directory `shares` for definitions, and `music` to share.
fn host() -> tempfile::TempDir {
    let host = tempfile::tempdir().expect("a directory");
    for name in ["shares", "music", "other"] {
        std::fs::create_dir(host.path().join(name)).expect("a directory");
    }
    set_mode(&host.path().join("shares"), 0o1770);
    host
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
}

/// Writes the definition of a share of `directory`.
fn define(host: &Path, name: &str, directory: &str) {
    let path = host.join(directory);
    let text = format!(
        "#VERSION 2\npath={}\ncomment=mine\nusershare_acl=S-1-1-0:R,S-1-5-32-544:F\nguest_ok=y\nsharename={}\n",
        path.display(),
        name.to_uppercase()
    );
    std::fs::write(host.join("shares").join(name), text).expect("a file");
}

fn policy(host: &Path, lines: &str) -> Policy {
    let file = host.join("smb.conf");
    let text = format!("[global]\nusershare path = {}\n{lines}\n", host.join("shares").display());
    std::fs::write(&file, text).expect("a file");
    crate::load(&file, &Owned).unwrap_or_else(|problems| panic!("{problems}")).policy
}

async fn share(policy: &Policy, name: &str) -> Option<Arc<Share>> {
    policy.user_shares.as_ref()?.share(name).await.expect("an answer")
}

#[tokio::test]
async fn no_directory_of_a_user_is_served_from_a_volume() {
    let host = host();
    define(host.path(), "music", "music");
    for (lines, served) in [
        ("vfs objects = glusterfs", false),
        ("usershare template share = t\n[t]\npath = /\nvfs objects = glusterfs", false),
        ("vfs objects = glusterfs\nusershare template share = t\n[t]\npath = /\nvfs objects = acl_xattr", true),
    ] {
        assert_eq!(share(&policy(host.path(), lines), "music").await.is_some(), served, "{lines}");
    }
}

#[tokio::test]
async fn a_definition_is_a_share_with_its_acl() {
    let host = host();
    let policy = policy(host.path(), "veto files = /a/\n[music]\npath = /");
    assert!(share(&policy, "music").await.is_none());
    define(host.path(), "music", "music");
    let music = share(&policy, "Music").await.expect("the share is read when it is named");
    assert_eq!((&*music.name, &*music.comment), ("MUSIC", "mine"));
    assert_eq!(music.path, host.path().join("music").canonicalize().expect("a path"));
    assert_eq!(music.names.veto_files, ["a"]);
    assert!(!music.access.guest_ok && !music.access.read_only);
    let acl = music.access.user_share_acl.as_ref().expect("an ACL");
    assert_eq!((acl.connect.len(), acl.write.len(), acl.refuse.len()), (2, 1, 0));
    let list = policy.user_shares.as_ref().expect("shares").list().await.expect("a list");
    assert_eq!(list.iter().map(|share| &*share.name).collect::<Vec<_>>(), ["MUSIC"]);
}

#[tokio::test]
async fn guests_and_a_template_are_as_configured() {
    let host = host();
    define(host.path(), "music", "music");
    let with = policy(
        host.path(),
        "usershare allow guests = yes\nusershare template share = T\n[t]\npath = /\nread only = yes\nforce user = ann",
    );
    let music = share(&with, "music").await.expect("a share");
    assert!(music.access.guest_ok && !music.access.read_only);
    assert_eq!(music.access.force_user.as_ref().map(|user| user.uid), Some(1000));
    for lines in [
        "usershare max shares = 0",
        "usershare template share = gone",
        "usershare template share = t\n[t]\npath = /\nread only = maybe",
        "usershare template share = t\n[t]\npath = /\nforce user = joe",
    ] {
        assert!(share(&policy(host.path(), lines), "music").await.is_none(), "{lines}");
    }
}

#[tokio::test]
async fn the_number_of_shares_is_limited() {
    let host = host();
    (0..20).for_each(|number| define(host.path(), &format!("s{number}"), "music"));
    let policy = policy(host.path(), "usershare max shares = 7");
    let list = policy.user_shares.as_ref().expect("shares").list().await.expect("a list");
    let mut connectable = 0;
    for number in 0..20 {
        let name = format!("S{number}");
        let is_listed = list.iter().any(|share| share.name == name);
        assert_eq!(share(&policy, &name).await.is_some(), is_listed, "{name}");
        connectable += usize::from(is_listed);
    }
    assert_eq!((list.len(), connectable), (7, 7));
}

#[tokio::test]
async fn a_share_is_of_the_directory_that_was_checked() {
    let host = host();
    let policy = policy(host.path(), "");
    define(host.path(), "music", "music");
    let root = share(&policy, "music").await.expect("a share").root.expect("a directory");
    let metadata = std::fs::metadata(host.path().join("music")).expect("it exists");
    assert_eq!((root.device, root.inode), (metadata.dev(), metadata.ino()));
}

#[tokio::test]
async fn only_allowed_paths_are_shared() {
    let host = host();
    define(host.path(), "music", "music");
    let real = host.path().canonicalize().expect("a path");
    let at = |name: &str| real.join(name).display().to_string();
    let allowed = |lines: String| {
        let policy = policy(host.path(), &lines);
        async move { share(&policy, "music").await.is_some() }
    };
    assert!(allowed(format!("usershare prefix allow list = {}", at(""))).await);
    assert!(!allowed(format!("usershare prefix allow list = {}", at("mus"))).await);
    assert!(!allowed(format!("usershare prefix deny list = {}", at("mus"))).await);
    assert!(allowed(format!("usershare prefix deny list = {}", at("other"))).await);
    // A symbolic link does not lead around the lists.
    std::os::unix::fs::symlink(real.join("other"), real.join("music/link")).expect("a link");
    define(host.path(), "music", "music/link");
    assert!(!allowed(format!("usershare prefix allow list = {}", at("music"))).await);
    assert!(!allowed(format!("usershare prefix deny list = {}", at("other"))).await);
}

#[tokio::test]
async fn users_share_their_own_directories_only() {
    let host = host();
    let (strict, loose) = (policy(host.path(), ""), policy(host.path(), "usershare owner only = no"));
    // The root directory is not the user's.
    define(host.path(), "all", "/usr");
    if rustix::process::geteuid().is_root() {
        chown(host.path().join("shares/all"), Some(1000), Some(1000)).expect("root may do that");
    }
    assert!(share(&strict, "all").await.is_none());
    assert!(share(&loose, "all").await.is_some());
}

#[tokio::test]
async fn files_that_others_could_have_written_are_ignored() {
    let host = host();
    let policy = policy(host.path(), "");
    let shares = host.path().join("shares");
    define(host.path(), "music", "music");
    for (path, wrong, right) in
        [(shares.join("music"), 0o666, 0o644), (shares.clone(), 0o1777, 0o1770), (shares.clone(), 0o770, 0o1770)]
    {
        set_mode(&path, wrong);
        assert!(share(&policy, "music").await.is_none(), "{wrong:o}");
        set_mode(&path, right);
        assert!(share(&policy, "music").await.is_some(), "{right:o}");
    }
    std::os::unix::fs::symlink("music", shares.join("link")).expect("a link");
    std::fs::write(shares.join("large"), vec![b'#'; 20_000]).expect("a file");
    std::fs::create_dir(shares.join("folder")).expect("a directory");
    for name in ["link", "large", "folder", "../smb.conf", "", ".", ":tmp1"] {
        assert!(share(&policy, name).await.is_none(), "{name}");
    }
}
