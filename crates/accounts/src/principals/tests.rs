//! Tests of [`Directory`]'s mapping between SIDs, names and ids, with a real database and a simulated host.

use std::path::Path;

use server::accounts::{IdMap, principals};

use super::super::unix::names::Names;
use super::super::unix::{Key, User, Users};
use super::super::{PassdbBackend, embedded::Store};
use super::*;
use crate::records::{NewAccount, NewGroup};
use crate::state_dir::StateDir;

const PEOPLE: [(&str, u32); 4] = [("root", 0), ("ann", 100), ("bob", 101), ("eve", 102)];
const GROUPS: [(&str, u32); 3] = [("users", 50), ("staff", 51), ("ann", 100)];

/// A directory on a host with those users and groups; ann and carl (whose UNIX user is bob) have accounts.
fn directory(path: &Path) -> Directory {
    let user = |key: &Key| {
        let found = PEOPLE.into_iter().find(|(name, uid)| match key {
            Key::Name(asked) => asked == name,
            Key::Uid(asked) => asked == uid,
        });
        Ok(found.map(|(name, uid)| User {
            name: name.into(),
            identity: Arc::new(Identity { uid, gid: 50, groups: Box::new([51]) }),
            groups: Arc::new(["users".into(), "staff".into()]),
        }))
    };
    let named = |(name, id): (&str, u32)| Reply::Named(name.into(), id);
    let names = move |question: &Question| {
        Ok(match question {
            Question::User(uid) => PEOPLE.into_iter().find(|(_, id)| id == uid).map(named),
            Question::Group(gid) => GROUPS.into_iter().find(|(_, id)| id == gid).map(named),
            Question::Uid(name) => PEOPLE.into_iter().find(|(known, _)| known == name).map(named),
            Question::Gid(name) => GROUPS.into_iter().find(|(known, _)| known == name).map(named),
            _ => None,
        })
    };
    let store = Store::open(&StateDir::create(path).unwrap()).unwrap();
    let users = Users::with_names(None, Box::new(user), Names::new(Box::new(names)));
    let directory = Directory::new(store, path, &[PassdbBackend::Embedded], users).unwrap();
    for (name, uid) in [("ann", None), ("carl", Some(101))] {
        let nt_hash = Some(crate::record::nt_hash("x").unwrap());
        let new = NewAccount { name: name.into(), nt_hash, full_name: String::new(), uid };
        directory.add_account(new).unwrap();
    }
    let staff = NewGroup {
        name: "NT Staff".into(),
        unix_group: "staff".into(),
        sid: None,
        kind: GroupKind::Domain,
        comment: String::new(),
    };
    directory.add_group(staff).unwrap();
    directory
}

#[tokio::test]
async fn ids_of_accounts_and_groups_map_to_their_sids() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    let own = |rid| directory.domain().with_rid(rid);
    let cases = [
        (UnixId::User(100), own(1000)),
        (UnixId::User(101), own(1001)),
        (UnixId::User(102), Sid::unix_user(102)),
        (UnixId::User(0), Sid::unix_user(0)),
        (UnixId::User(9999), Sid::unix_user(9999)),
        (UnixId::Group(51), own(1002)),
        (UnixId::Group(50), Sid::unix_group(50)),
        (UnixId::Group(100), Sid::unix_group(100)),
    ];
    for (id, sid) in cases {
        assert_eq!(directory.sid_of(id).await.unwrap(), sid, "{id:?}");
        assert_eq!(directory.id_of(&sid).await.unwrap(), Some(id), "{sid}");
        assert_eq!(directory.id_of(&id.plain_sid()).await.unwrap(), Some(id));
    }
    assert_eq!(directory.id_of(&own(4711)).await.unwrap(), None);
    let ann = Arc::new(Identity { uid: 100, gid: 50, groups: Box::new([51, 100]) });
    assert_eq!(directory.sids_of(&ann).await.unwrap(), [own(1000), own(1002)]);
}

#[tokio::test]
async fn names_map_to_sids_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    let own = |rid| directory.domain().with_rid(rid);
    // The requested name, its SID, and the name to which the SID is mapped back.
    let cases = [
        ("ann", own(1000), "SRV\\ann"),
        ("SRV\\CARL", own(1001), "SRV\\carl"),
        ("nt staff", own(1002), "SRV\\NT Staff"),
        ("staff", own(1002), "SRV\\NT Staff"),
        ("users", Sid::BUILTIN_USERS, "BUILTIN\\Users"),
        ("Unix Group\\users", Sid::unix_group(50), "Unix Group\\users"),
        ("Unix User\\eve", Sid::unix_user(102), "Unix User\\eve"),
        ("Unix User\\root", Sid::unix_user(0), "Unix User\\root"),
        ("unix user\\bob", own(1001), "SRV\\carl"),
    ];
    for (name, sid, back) in cases {
        let found = principals::by_name(&directory, "SRV", name).await.unwrap().expect(name);
        assert_eq!(found.sid, sid, "{name}");
        let found = principals::by_sid(&directory, &sid).await.unwrap().expect(back);
        assert_eq!(format!("{}\\{}", found.realm.name("SRV"), found.name), back);
    }
    for name in ["eve", "nobody", "OTHER\\ann", "Unix Group\\eve"] {
        assert!(principals::by_name(&directory, "SRV", name).await.unwrap().is_none(), "{name}");
    }
}
