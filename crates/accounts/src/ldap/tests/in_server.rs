//! Tests in a server's runtime: callers write their queries, and NSS is queried concurrently.

use std::sync::Barrier;

use super::*;
use crate::embedded::Store;
use crate::groups::{GroupKind, NewSid};
use crate::state_dir::StateDir;
use crate::unix::User;
use ldap::message::{Filter, Request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_start_no_thread_and_do_not_block() {
    let fake = Fake::start(|_, id, tag, message, stream| friendly(id, tag, message, stream));
    let ldap = Arc::new(open(vec![fake.uri()], |_| {}));
    assert_eq!(name(ldap.find("ann").await).unwrap(), "ann");
    let blocking = ldap.clone();
    let got = tokio::task::spawn_blocking(move || blocking.get("bob").unwrap().unwrap().record.name.clone());
    assert_eq!(got.await.unwrap(), "bob");
    assert!(ldap.worker.thread.is_none());
}

/// A server that reads late has filled the socket buffers by then; the remaining data is written when there is space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_beyond_the_socket_buffer_is_written_later() {
    const QUESTIONS: usize = 40;
    let (read_on, wait) = std::sync::mpsc::channel();
    let wait = parking_lot::Mutex::new(wait);
    let fake = Fake::start(move |number, id, tag, message, stream| {
        if number == 1 {
            wait.lock().recv().unwrap();
        }
        friendly(id, tag, message, stream);
    });
    let ldap = Arc::new(open(vec![fake.uri()], |settings| settings.timeout = Duration::from_secs(120)));
    let connection = ldap.people.servers.pin(Duration::from_secs(10)).await.unwrap();
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..QUESTIONS {
        let (ldap, connection) = (ldap.clone(), connection.clone());
        asking.spawn(async move {
            let long = format!("{number}{}", "x".repeat(150_000));
            let search = ldap.people.search_for("dc=x", Filter::Equal("uid", long.clone()), &["uid"], 2);
            let found = connection.ask(&Request::Search(&search)).await.unwrap().found;
            found.len() == 1 && found[0].first("uid") == Some(&long)
        });
    }
    while connection.waiting() < QUESTIONS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    read_on.send(()).unwrap();
    assert!(asking.join_all().await.into_iter().all(|is_it| is_it));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_query_is_removed() {
    let fake = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 || wanted(message) != "slow" {
            friendly(id, tag, message, stream);
        }
    });
    let ldap = open(vec![fake.uri()], |_| {});
    assert_eq!(name(ldap.find("ann").await).unwrap(), "ann");
    let gave_up = tokio::time::timeout(Duration::from_millis(50), ldap.find("slow")).await;
    assert!(gave_up.is_err());
    assert_eq!(name(ldap.find("bob").await).unwrap(), "bob");
    assert_eq!(fake.asked.load(Ordering::SeqCst), 3);
    let connection = ldap.people.servers.pin(Duration::from_secs(1)).await.unwrap();
    assert_eq!(connection.waiting(), 0);
}

/// NSS answers only after the directory was queried, and the directory only after NSS was, so each needs the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nss_and_the_directory_are_queried_concurrently() {
    let meet = Arc::new(Barrier::new(2));
    let there = meet.clone();
    let fake = Fake::start(move |_, id, tag, message, stream| {
        if tag != 0x60 {
            there.wait();
        }
        friendly(id, tag, message, stream);
    });
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let user = move |key: &Key| {
        let Key::Name(name) = key else { return Ok(None) };
        count.fetch_add(1, Ordering::SeqCst);
        meet.wait();
        let identity = Arc::new(server::vfs::Identity { uid: 100, gid: 5, groups: Box::new([]) });
        Ok(Some(User { name: name.clone(), identity, groups: Arc::new([]) }))
    };
    let settings = settings(vec![fake.uri()]);
    let users = Users::new(None, Box::new(user));
    let ldap = Ldap::open(&settings, "/nonexistent".into(), DomainSid([1, 2, 3]), users).unwrap();
    let entry = ldap.find("ann").await.unwrap().unwrap();
    assert_eq!(entry.user.unwrap().identity.uid, 100);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// A directory may treat "a  nn", "ａnn" and "ann" as the same; an account has the name by which it was requested.
#[tokio::test]
async fn names_equal_only_to_the_directory_have_no_account() {
    let fake = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 {
            return friendly(id, tag, message, stream);
        }
        stream.write_all(&[entry(id, "Ann"), done(id, 0x65, 0)].concat()).unwrap();
    });
    let ldap = open(vec![fake.uri()], |_| {});
    for (asked, found) in [("Ann", true), ("ANN", true), ("ann", true), (" ann", false), ("\u{ff41}nn", false)] {
        assert_eq!(name(ldap.find(asked).await).is_some(), found, "{asked:?}");
        assert_eq!(ldap.people.person(asked).await.unwrap().is_some(), found, "{asked:?}");
    }
}

/// Accounts 1000 and 1001 exist, the second one twice, and group 1100. Two searches answer everything, including
/// missing SIDs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sids_need_two_searches() {
    let fake = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 {
            return friendly(id, tag, message, stream);
        }
        let has = |text: &str| message.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        let account = |name: &str, rid: &str| {
            let sid = format!("S-1-5-21-1-2-3-{rid}");
            assert!(has(&sid));
            found(id, &format!("uid={name},dc=x"), &[("uid", name), ("sambaSID", &sid)])
        };
        let group = [("cn", "crew"), ("gidNumber", "20"), ("sambaSID", "S-1-5-21-1-2-3-1100"), ("sambaGroupType", "2")];
        let found = match has("sambaSamAccount") {
            true => [account("ann", "1000"), account("bob", "1001"), account("bobby", "1001")].concat(),
            false => found(id, "cn=crew,dc=x", &group),
        };
        stream.write_all(&[found, done(id, 0x65, 0)].concat()).unwrap();
    });
    let ldap = open(vec![fake.uri()], |_| {});
    let sid = |rid: u32| Sid::of(5, [21, 1, 2, 3, rid]);
    let builtin = Sid::of(5, [32, 544]);
    ldap.expect_sids(vec![sid(1000), sid(1001), sid(1100), sid(1000), sid(9999), builtin]).await;
    assert_eq!(fake.asked.load(Ordering::SeqCst), 2);
    for (sid, name, group) in [
        (sid(1000), Some("ann"), None),
        (sid(1001), None, None),
        (sid(1100), None, Some("crew")),
        (sid(9999), None, None),
        (builtin, None, None),
    ] {
        assert_eq!(ldap.name_by_sid(&sid).await.unwrap().as_deref(), name, "{sid}");
        let found = ldap.group(&GroupKey::Sid(sid)).await.unwrap();
        assert_eq!(found.as_ref().map(|group| group.name.as_str()), group, "{sid}");
    }
    ldap.expect_sids(vec![sid(1000), sid(9999)]).await;
    assert_eq!(fake.asked.load(Ordering::SeqCst), 2);
}

/// Members of a group, already named by NSS: one search, and no query to NSS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_users_need_one_search() {
    let fake = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 {
            return friendly(id, tag, message, stream);
        }
        let mut answer = Vec::new();
        for (name, uid, rid) in [
            ("ann", "100", "1000"),
            ("bob", "999", "1001"),
            ("cid", "", "1002"),
            ("other", "103", "1003"),
            ("eve", "104", "1004"),
            ("twin", "104", "1005"),
        ] {
            let sid = format!("S-1-5-21-1-2-3-{rid}");
            let attributes = [("uid", name), ("sambaSID", &sid), ("uidNumber", uid)];
            let attributes = &attributes[..if uid.is_empty() { 2 } else { 3 }];
            answer.extend(found(id, &format!("uid={name},dc=x"), attributes));
        }
        stream.write_all(&[answer, done(id, 0x65, 0)].concat()).unwrap();
    });
    for trusted in [false, true] {
        let settings = Settings { trusted, ..settings(vec![fake.uri()]) };
        let users = Users::new(None, Box::new(|key| panic!("{key:?} was queried")));
        let ldap = Ldap::open(&settings, "/nonexistent".into(), DomainSid([1, 2, 3]), users).unwrap();
        let asked = fake.asked.load(Ordering::SeqCst);
        let users = [(100, "Ann"), (101, "bob"), (102, "cid"), (103, "dora"), (104, "eve"), (105, "fay")];
        let mut known = ldap.sids_of_users(users.map(|(uid, name)| (uid, name.to_owned())).into()).await.unwrap();
        assert_eq!(fake.asked.load(Ordering::SeqCst), asked + 1);
        let sid = |rid: u32| Sid::of(5, [21, 1, 2, 3, rid]);
        assert_eq!(known.remove(&100), Some(Some(sid(1000))));
        assert_eq!(known.remove(&102), (!trusted).then(|| Some(sid(1002))));
        assert_eq!(known.remove(&105), Some(None));
        // Name and number of two accounts, and a number that two share.
        assert!(known.is_empty(), "{known:?}");
    }
}

#[tokio::test]
async fn a_refused_group_change_names_the_missing_permission() {
    let fake = Fake::start(|_, id, tag, message, stream| {
        let has = |text: &str| message.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        let posix = [("objectClass", "posixGroup"), ("cn", "night"), ("gidNumber", "20")];
        let answer = match tag {
            0x60 => done(id, 0x61, 0),
            0x63 if has("gidNumber\u{4}\u{2}20") => [found(id, "cn=night,dc=x", &posix), done(id, 0x65, 0)].concat(),
            0x63 => done(id, 0x65, 0),
            _ => done(id, tag + 1, 50),
        };
        stream.write_all(&answer).unwrap();
    });
    let ldap = Arc::new(open(vec![fake.uri()], |_| {}));
    for (gid, dn) in [(20, "cn=night,dc=x"), (21, "sambaSID=S-1-5-21-1-2-3-1100,dc=x")] {
        let sid = NewSid::Whole(Sid::of(5, [21, 1, 2, 3, 1100]));
        let wanted = Wanted { name: "Night".into(), sid, gid, kind: GroupKind::Domain, comment: String::new() };
        let asking = ldap.clone();
        let added = tokio::task::spawn_blocking(move || asking.groups().unwrap().add(wanted)).await.unwrap();
        let said = added.unwrap_err().to_string();
        assert!(said.contains(&format!("`ldap admin dn` has no permission to change {dn}")), "{said}");
    }
}

/// A logon during a change of the user's groups gets the old ones; they are not cached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_read_before_a_change_are_not_cached() {
    let (held, holds) = std::sync::mpsc::channel();
    let fake = Fake::start(move |_, id, tag, message, stream| {
        let has = |text: &str| message.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        let night = [
            ("objectClass", "posixGroup"),
            ("cn", "night"),
            ("gidNumber", "20"),
            ("memberUid", "ann"),
            ("sambaSID", "S-1-5-21-1-2-3-1100"),
            ("sambaGroupType", "2"),
        ];
        let with_group = || [found(id, "cn=night,dc=x", &night), done(id, 0x65, 0)].concat();
        let answer = match tag {
            0x60 => done(id, 0x61, 0),
            0x63 if has("sambaSamAccount") => return friendly(id, tag, message, stream),
            0x63 if has("memberUid\u{4}\u{3}ann") => {
                return held.send((with_group(), done(id, 0x65, 0), stream.try_clone().unwrap())).unwrap();
            }
            0x63 if has("night") => with_group(),
            0x63 => done(id, 0x65, 0),
            _ => done(id, tag + 1, 0),
        };
        stream.write_all(&answer).unwrap();
    });
    let ldap = Arc::new(open(vec![fake.uri()], |settings| settings.trusted = true));
    let find = || {
        let ldap = ldap.clone();
        tokio::spawn(async move { ldap.find("ann").await.unwrap().unwrap().user.unwrap().identity.groups.len() })
    };
    let (before, is_held) = (find(), tokio::task::spawn_blocking(move || (holds.recv().unwrap(), holds)));
    let ((with_group, _, mut stream), holds) = is_held.await.unwrap();
    let changing = ldap.clone();
    let change = move || changing.groups().unwrap().members("night", Vec::new(), vec!["ann".into()]);
    tokio::task::spawn_blocking(change).await.unwrap().unwrap();
    stream.write_all(&with_group).unwrap();
    assert_eq!(before.await.unwrap(), 1);
    let after = find();
    let queried = tokio::task::spawn_blocking(move || holds.recv_timeout(Duration::from_secs(60)));
    let (_, without, mut stream) = queried.await.unwrap().expect("the directory is queried again");
    stream.write_all(&without).unwrap();
    assert_eq!(after.await.unwrap(), 0);
}

/// Lists of several back ends continue after the last name of all, so a short page means the end of one of them.
#[test]
fn unusable_accounts_do_not_shorten_a_page() {
    const NAMES: [&str; 5] = ["ann", "bad1", "bad2", "bob", "cid"];
    let fake = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 {
            return friendly(id, tag, message, stream);
        }
        let has = |text: &str| message.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        let names_alone = !has("sambaNTPassword");
        let mut answer = Vec::new();
        for name in NAMES.into_iter().filter(|name| names_alone || has(name)) {
            answer.extend(match name.starts_with("bad") {
                true => found(id, &format!("uid={name},dc=x"), &[("uid", name)]),
                false => entry(id, name),
            });
        }
        // Another account has that as a second name.
        if !names_alone && has("bob") {
            let zed = [("uid", "zed"), ("uid", "bob"), ("sambaSID", "S-1-5-21-1-2-3-1001")];
            answer.extend(found(id, "uid=zed,dc=x", &zed));
        }
        answer.extend(done(id, 0x65, 0));
        stream.write_all(&answer).unwrap();
    });
    let ldap = open(vec![fake.uri()], |_| {});
    let names = |after, count| {
        let page = ldap.page(after, count).unwrap();
        page.iter().map(|entry| entry.record.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 2), ["ann", "bob"]);
    assert_eq!(names(Some("Bob"), 2), ["cid"]);
    assert!(names(Some("cid"), 2).is_empty());
}

/// A machine whose SID is changed while the server runs.
#[test]
fn a_new_domain_gets_the_current_machine_sid() {
    let made = Arc::new(AtomicBool::new(false));
    let fake = Fake::start(move |_, id, tag, message, stream| {
        let has = |text: &str| message.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        let answer = match tag {
            0x60 => return friendly(id, tag, message, stream),
            0x68 => {
                made.store(has("S-1-5-21-7-8-9"), Ordering::SeqCst);
                done(id, 0x69, 0)
            }
            _ if made.load(Ordering::SeqCst) => {
                let domain = [("sambaSID", "S-1-5-21-7-8-9")];
                [found(id, "sambaDomainName=x", &domain), done(id, 0x65, 0)].concat()
            }
            _ => done(id, 0x65, 0),
        };
        stream.write_all(&answer).unwrap();
    });
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&StateDir::create(dir.path()).unwrap()).unwrap();
    let users = Users::new(None, Box::new(|key| panic!("{key:?} was queried")));
    let ldap = Ldap::open(&settings(vec![fake.uri()]), "/nonexistent".into(), store.own_domain(), users).unwrap();
    store.set_domain(DomainSid([7, 8, 9]), || Ok(Vec::new())).unwrap();
    let people = ldap.people.clone();
    let sid = ldap.worker.wait(async move { people.domain_sid().await }).unwrap();
    assert_eq!(sid, "S-1-5-21-7-8-9");
}

#[test]
fn the_owner_of_a_sid_is_found_without_nss() {
    let fake = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 {
            return friendly(id, tag, message, stream);
        }
        let has = |text: &str| message.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        let ann = [("uid", "ann"), ("sambaSID", "S-1-5-21-1-2-3-1001")];
        let mut answer = if has("S-1-5-21-1-2-3-1001") { found(id, "uid=ann,dc=x", &ann) } else { Vec::new() };
        answer.extend(done(id, 0x65, 0));
        stream.write_all(&answer).unwrap();
    });
    let users = Users::new(None, Box::new(|key| panic!("{key:?} was queried")));
    let ldap = Ldap::open(&settings(vec![fake.uri()]), "/nonexistent".into(), DomainSid([1, 2, 3]), users).unwrap();
    let owner = |rid: u32| ldap.owner_of(&Sid::of(5, [21, 1, 2, 3, rid])).unwrap();
    assert_eq!((owner(1001).as_deref(), owner(1002)), (Some("ann"), None));
    assert_eq!(ldap.owner_of(&Sid::of(5, [32, 544])).unwrap(), None);
}

/// NSS answers only if it is queried for both at the same time, and is never queried for groups. Lists without users
/// and counts do not query it, and a second list does not query it again.
#[test]
fn lists_query_nss_concurrently_or_not_at_all() {
    let fake = Fake::start(|_, id, tag, message, stream| {
        if tag == 0x60 {
            return friendly(id, tag, message, stream);
        }
        let mut answer = [entry(id, "ann"), entry(id, "bob")].concat();
        answer.extend(found(id, "uid=zed,dc=x", &[("sambaSID", "S-1-5-21-7-7-7-1000"), ("uid", "zed")]));
        answer.extend(done(id, 0x65, 0));
        stream.write_all(&answer).unwrap();
    });
    let (meet, asked) = (Barrier::new(2), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    let user = move |key: &Key| {
        let Key::Name(name) = key else { return Ok(None) };
        count.fetch_add(1, Ordering::SeqCst);
        meet.wait();
        let identity = Arc::new(server::vfs::Identity { uid: 100, gid: 5, groups: Box::new([]) });
        Ok(Some(User { name: name.clone(), identity, groups: Arc::new([]) }))
    };
    let groups = |key: &Key| panic!("the groups of {key:?} were queried");
    let users = Users::with_glances(None, Box::new(groups), Box::new(user));
    let settings = settings(vec![fake.uri()]);
    let ldap = Ldap::open(&settings, "/nonexistent".into(), DomainSid([1, 2, 3]), users).unwrap();
    let names = |page: &[Entry]| page.iter().map(|entry| entry.record.name.clone()).collect::<Vec<_>>().join(" ");
    let page = ldap.page(None, 2).unwrap();
    assert_eq!((names(&page), asked.load(Ordering::SeqCst)), ("ann bob".into(), 0));
    assert_eq!(ldap.count(&DomainSid([1, 2, 3]).sid()).unwrap(), Some(2));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    for _ in 0..2 {
        let page = ldap.page_with_users(None, 2).unwrap();
        assert_eq!((names(&page), asked.load(Ordering::SeqCst)), ("ann bob".into(), 2));
        assert!(page.iter().all(|entry| entry.user.as_ref().is_some_and(|user| user.identity.uid == 100)));
    }
}
