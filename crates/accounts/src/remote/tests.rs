//! Changes of a real database with simulated users.

use std::sync::Arc;

use server::accounts::{Administration, Authenticator, GroupChange, IdMap, NotDone, UserChange};
use server::vfs::{Identity, Time};

use super::super::embedded::Store;
use super::super::record::nt_hash;
use super::super::state_dir::StateDir;
use super::super::unix::{Key, User, Users};
use super::super::{Directory, PassdbBackend};

/// A directory on a host with the user ann.
fn directory(path: &std::path::Path) -> Directory {
    let source = |key: &Key| {
        let identity = Arc::new(Identity { uid: 100, gid: 5, groups: Box::new([]) });
        let ann = matches!(key, Key::Name(name) if name == "ann");
        Ok(ann.then(|| User { name: "ann".into(), identity, groups: Arc::new([]) }))
    };
    let store = Store::open(&StateDir::create(path).unwrap()).unwrap();
    Directory::new(store, path, &[PassdbBackend::Embedded], Users::new(None, Box::new(source))).unwrap()
}

#[tokio::test]
async fn an_account_is_made_changed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    let sid = directory.add_user("ann").await.unwrap();
    let new = directory.find("ann").await.unwrap().unwrap();
    assert_eq!((new.sid, new.disabled, new.nt_hash.is_none()), (sid, true, true));
    assert_eq!(directory.add_user("ANN").await, Err(NotDone::Exists));
    assert!(matches!(directory.add_user("nobody").await, Err(NotDone::NoUnixObject(_))));
    assert!(matches!(directory.add_user("a*b").await, Err(NotDone::Name(_))));

    let change = UserChange {
        full_name: Some("Ann A.".into()),
        nt_hash: Some(nt_hash("x").unwrap()),
        disabled: Some(false),
        must_change: Some(true),
        expires: Some(Some(Time { secs: 9, nanos: 0 })),
        ..UserChange::default()
    };
    directory.change_user("Ann", change).await.unwrap();
    let changed = directory.find("ann").await.unwrap().unwrap();
    assert_eq!((changed.full_name.as_str(), changed.disabled, changed.must_change), ("Ann A.", false, true));
    assert_eq!(changed.nt_hash.unwrap().0, nt_hash("x").unwrap().0);
    assert_eq!(changed.expires.map(|time| time.secs), Some(9));
    let again = UserChange { expires: Some(None), ..UserChange::default() };
    directory.change_user("ann", again).await.unwrap();
    assert!(directory.find("ann").await.unwrap().unwrap().expires.is_none());
    let control = UserChange { full_name: Some("a\nb".into()), ..UserChange::default() };
    assert!(matches!(directory.change_user("ann", control).await, Err(NotDone::NotStored(_))));

    directory.delete_user("ann").await.unwrap();
    assert!(directory.find("ann").await.unwrap().is_none());
    assert_eq!(directory.delete_user("ann").await, Err(NotDone::NotFound));
    assert_eq!(directory.change_user("ann", UserChange::default()).await, Err(NotDone::NotFound));
}

#[tokio::test]
async fn policies_and_missing_groups() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    directory.set_policies(vec![("min password length", 9), ("maximum password age", -1)]).await.unwrap();
    assert_eq!(directory.policy().min_password_length, 9);
    let wrong = directory.set_policies(vec![("min password length", 9999)]).await;
    assert!(matches!(wrong, Err(NotDone::NotStored(_))), "{wrong:?}");
    assert_eq!(directory.change_group("staff", GroupChange::default()).await, Err(NotDone::NotFound));
    assert_eq!(Administration::delete_group(&directory, "staff").await, Err(NotDone::NotFound));
    assert!(directory.is_of_machine(&directory.domain().with_rid(1)));
}
