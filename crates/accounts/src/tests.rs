//! Tests of the whole [`Directory`], with a real database and simulated users.

use std::path::Path;

use anyhow::bail;
use server::vfs::Identity;

use super::record::nt_hash;
use super::records::{AccountView, FormerSid, IMPORT_BATCH, ImportResult, Imported, LIST_PAGE, NewAccount, Outcome};
use super::*;

const EMBEDDED: &[PassdbBackend] = &[PassdbBackend::Embedded];

/// A host with the users ann (100), bob (101), root and toor (0).
fn users() -> Arc<Users> {
    let source = |key: &Key| {
        let name = match key {
            Key::Name(name) => name.as_str(),
            Key::Uid(100) => "ann",
            Key::Uid(_) => "",
        };
        let uid = match name {
            "ann" => 100,
            "bob" => 101,
            "root" | "toor" => 0,
            _ => return Ok(None),
        };
        let identity = Arc::new(Identity { uid, gid: 5, groups: Box::new([]) });
        Ok(Some(User { name: name.into(), identity, groups: Arc::new(["staff".into()]) }))
    };
    Users::new(None, Box::new(source))
}

/// A directory in `path` on that host.
fn directory(path: &Path) -> Directory {
    let store = Store::open(&StateDir::create(path).unwrap()).unwrap();
    Directory::new(store, path, EMBEDDED, users()).unwrap()
}

fn add(name: &str, uid: Option<u32>) -> NewAccount {
    NewAccount { name: name.into(), nt_hash: Some(nt_hash("x").unwrap()), full_name: "Some One".into(), uid }
}

fn view(directory: &Directory, name: &str) -> AccountView {
    directory.account_view(name).unwrap().expect("an account")
}

fn refused<T: std::fmt::Debug>(answer: Result<T>, word: &str) {
    let error = answer.unwrap_err();
    assert!(format!("{error:#}").contains(word), "{error:#}");
}

#[tokio::test]
async fn an_account_lives_from_add_to_delete() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    assert!(directory.is_empty().unwrap());
    directory.add_account(add("ann", None)).unwrap();
    let found = directory.find("ANN").await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.sid.rid(), found.identity.uid), ("ann", Some(1000), 100));
    assert_eq!(found.nt_hash.unwrap().0, nt_hash("x").unwrap().0);
    assert_eq!(&*found.groups, ["staff"]);
    assert_eq!(view(&directory, "ann").sid, format!("{}-1000", directory.domain()));

    directory.set_enabled("ann", false).unwrap();
    assert!(directory.find("ann").await.unwrap().unwrap().disabled);
    directory.set_enabled("ann", true).unwrap();
    assert!(!directory.find("ann").await.unwrap().unwrap().disabled);

    directory.set_password("Ann", Some(nt_hash("y").unwrap())).unwrap();
    let found = directory.find("ann").await.unwrap().unwrap();
    assert_eq!(found.nt_hash.unwrap().0, nt_hash("y").unwrap().0);

    directory.delete_account("ann").unwrap();
    assert!(directory.find("ann").await.unwrap().is_none());
    refused(directory.delete_account("ann"), "no account \"ann\"");
}

#[test]
fn invalid_accounts_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    refused(directory.add_account(add("carl", None)), "no UNIX user \"carl\"");
    refused(directory.add_account(add("carl", Some(999))), "uid 999");
    refused(directory.add_account(add("toor", None)), "uid 0");
    refused(directory.add_account(add("carl", Some(0))), "uid 0");
    refused(directory.add_account(add("a/b", None)), "contain");
    let none = NewAccount { name: "ann".into(), nt_hash: None, full_name: String::new(), uid: None };
    refused(directory.add_account(none), "password");
    directory.add_account(add("carl", Some(100))).unwrap();
    assert_eq!(view(&directory, "carl").unix_user.unwrap(), "ann");
    directory.add_account(add("root", None)).unwrap();
    refused(directory.add_account(add("CARL", Some(100))), "exists already");
}

fn imported(name: &str, password: &str) -> Imported {
    Imported {
        name: name.into(),
        nt_hash: Some(nt_hash(password).unwrap()),
        disabled: false,
        locked: true,
        must_change: true,
        never_expires: false,
        password_last_set: Some(7),
    }
}

#[tokio::test]
async fn an_import_adds_updates_and_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    directory.add_account(add("Ann", Some(100))).unwrap();
    let batch = || vec![imported("ann", "z"), imported("bob", "z"), imported("ghost", "z"), imported("a/b", "z")];
    use ImportResult::{Added, Skipped, Unchanged, Updated};
    for (dry_run, results) in [
        (true, [Updated, Added, Added, Skipped]),
        (false, [Updated, Added, Added, Skipped]),
        (false, [Unchanged, Unchanged, Unchanged, Skipped]),
    ] {
        let outcomes = directory.import(batch(), dry_run).expect("outcomes");
        assert_eq!(outcomes.iter().map(|outcome| outcome.result).collect::<Vec<_>>(), results);
        assert!(outcomes[0].note.is_none() && outcomes[2].note.as_ref().unwrap().contains("no UNIX user"));
    }
    let ann = view(&directory, "ann");
    assert_eq!((ann.name.as_str(), ann.full_name.as_str(), ann.uid), ("Ann", "Some One", Some(100)));
    assert_eq!(view(&directory, "bob").sid, format!("{}-1001", directory.domain()));
    let bob = directory.find("bob").await.unwrap().unwrap();
    assert!(bob.locked && bob.must_change);
    assert!(directory.find("ghost").await.unwrap().is_none());

    directory.set_password("bob", Some(nt_hash("y").unwrap())).unwrap();
    let bob = directory.find("bob").await.unwrap().unwrap();
    assert!(!bob.locked && !bob.must_change);
}

#[test]
fn lists_are_returned_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    let names: Vec<String> = (0..LIST_PAGE + 1).map(|number| format!("u{number:05}")).collect();
    for batch in names.chunks(IMPORT_BATCH) {
        let accounts = batch.iter().map(|name| imported(name, "x")).collect();
        directory.import(accounts, false).unwrap();
    }
    let list = |after: Option<&str>| {
        let views = directory.account_views(after).expect("a list");
        views.into_iter().map(|view| view.name).collect::<Vec<_>>()
    };
    let first = list(None);
    assert_eq!(first, names[..LIST_PAGE]);
    assert_eq!(list(first.last().map(String::as_str)), names[LIST_PAGE..]);
}

#[test]
fn a_command_finds_the_database_busy_while_a_server_has_it_open() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(dir.path()).unwrap();
    assert!(Directory::of_command(&state, EMBEDDED, false).unwrap().is_none());
    let server = Directory::of_server(&state, EMBEDDED).unwrap();
    for create in [false, true] {
        assert!(matches!(Directory::of_command(&state, EMBEDDED, create), Err(OpenError::Busy)));
    }
    drop(server);
    assert!(Directory::of_command(&state, EMBEDDED, false).unwrap().is_some());
}

/// A back end that is unavailable.
struct Down;

impl Backend for Down {
    fn name(&self) -> &str {
        "down"
    }

    fn find(&self, _: &str) -> Answer<Result<Option<Entry>, Unavailable>> {
        Answer::later(async { Err(Unavailable("down".into())) })
    }

    fn by_sid(&self, _: &Sid) -> Answer<Result<Option<Entry>, Unavailable>> {
        self.find("")
    }

    fn get(&self, _: &str) -> Result<Option<Entry>> {
        bail!("down")
    }

    fn owner_of(&self, _: &Sid) -> Result<Option<String>> {
        bail!("down")
    }

    fn page(&self, _: Option<&str>, _: usize) -> Result<Vec<Entry>> {
        bail!("down")
    }

    fn add(&self, _: Record) -> Result<Entry> {
        bail!("down")
    }

    fn edit(&self, _: &str, _: &mut dyn FnMut(&mut Record)) -> Result<Option<Entry>> {
        bail!("down")
    }

    fn remove(&self, _: &str) -> Result<bool> {
        bail!("down")
    }
}

#[tokio::test]
async fn back_ends_are_queried_in_order() {
    let dirs: [_; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let [mut both, second] = dirs.each_ref().map(|dir| directory(dir.path()));
    second.add_account(add("ann", None)).unwrap();
    second.add_account(add("bob", None)).unwrap();
    both.backends = [both.own.clone(), second.own.clone()].map(|store| store as Arc<dyn Backend>).into();
    both.set_password("ann", Some(nt_hash("y").unwrap())).unwrap();
    let ann = both.find("ann").await.unwrap().unwrap();
    assert_eq!(ann.sid, second.domain().with_rid(1000));
    assert_eq!(ann.nt_hash.unwrap().0, nt_hash("y").unwrap().0);
    let uid = both.uid_of(&second.domain().with_rid(1001)).await.unwrap();
    assert_eq!(uid, Some(101), "bob");
    refused(both.add_account(add("ann", None)), "exists already");

    // An account of that name in a later back end may belong to a different user.
    both.backends = [Arc::new(Down) as Arc<dyn Backend>, second.own.clone()].into();
    assert!(both.find("ann").await.is_err());
    both.backends = [second.own.clone() as Arc<dyn Backend>, Arc::new(Down)].into();
    assert!(both.find("ann").await.unwrap().is_some());
    assert!(both.find("carl").await.is_err());
    refused(both.account_views(None), "down");
}

/// A back end that records what the server's own database has of an account when the account is removed, and may refuse
/// to remove it.
struct Watched {
    accounts: Arc<Store>,
    own: Arc<Store>,
    refuses: std::sync::atomic::AtomicBool,
    known: Mutex<Vec<(usize, bool)>>,
}

impl Backend for Watched {
    fn name(&self) -> &str {
        "watched"
    }

    fn find(&self, name: &str) -> Answer<Result<Option<Entry>, Unavailable>> {
        self.accounts.find(name)
    }

    fn by_sid(&self, sid: &Sid) -> Answer<Result<Option<Entry>, Unavailable>> {
        Backend::by_sid(&*self.accounts, sid)
    }

    fn get(&self, name: &str) -> Result<Option<Entry>> {
        Backend::get(&*self.accounts, name)
    }

    fn owner_of(&self, sid: &Sid) -> Result<Option<String>> {
        self.accounts.owner_of(sid)
    }

    fn page(&self, after: Option<&str>, count: usize) -> Result<Vec<Entry>> {
        Backend::page(&*self.accounts, after, count)
    }

    fn add(&self, record: Record) -> Result<Entry> {
        self.accounts.add(record)
    }

    fn edit(&self, name: &str, edit: &mut dyn FnMut(&mut Record)) -> Result<Option<Entry>> {
        self.accounts.edit(name, edit)
    }

    fn remove(&self, name: &str) -> Result<bool> {
        let had = self.own.had_password(name, &nt_hash("y")?)?;
        self.known.lock().push((self.own.former_sids(name).len(), had));
        ensure!(!self.refuses.load(std::sync::atomic::Ordering::SeqCst), "refused");
        self.accounts.remove(name)
    }
}

/// A server that is killed between the two steps must not leave the SIDs to a later account of the same name.
#[test]
fn former_sids_are_deleted_before_an_account_of_another_back_end() {
    let dirs: [_; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let [mut both, second] = dirs.each_ref().map(|dir| directory(dir.path()));
    let (accounts, own) = (second.own.clone(), both.own.clone());
    let watched = Arc::new(Watched { accounts, own, refuses: true.into(), known: Mutex::default() });
    both.backends = [watched.clone() as Arc<dyn Backend>].into();
    both.add_account(add("ann", None)).unwrap();
    both.set_policy("password history", 3).unwrap();
    both.set_password("ann", Some(nt_hash("y").unwrap())).unwrap();
    let former = FormerSid { name: "ann".into(), sid: "S-1-5-21-1-2-3-1104".into() };
    both.note_sids(vec![former], false).unwrap();
    refused(both.delete_account("Ann"), "refused");
    assert_eq!(view(&both, "ann").former_sids, ["S-1-5-21-1-2-3-1104"], "it is still stored");
    watched.refuses.store(false, std::sync::atomic::Ordering::SeqCst);
    both.delete_account("Ann").unwrap();
    assert_eq!(*watched.known.lock(), [(0, false); 2]);
    assert!(both.own.former_sids("ann").is_empty());
}

#[test]
fn a_user_can_change_to_a_password_not_in_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    directory.add_account(add("ann", None)).unwrap();
    let change =
        |old: &str, new: &str| directory.change_password_now("Ann", &nt_hash(old).unwrap(), &nt_hash(new).unwrap());
    change("x", "first").unwrap();
    assert!(matches!(change("wrong", "second"), Err(NotChanged::Wrong)));
    change("first", "first").unwrap();
    directory.set_policy("password history", 3).unwrap();
    assert!(matches!(change("first", "first"), Err(NotChanged::InHistory)));
    change("first", "second").unwrap();
    directory.set_password("ann", Some(nt_hash("third").unwrap())).unwrap();
    assert!(matches!(change("third", "second"), Err(NotChanged::InHistory)));
    change("third", "fourth").unwrap();
    change("fourth", "fifth").unwrap();
    change("fifth", "second").unwrap();
    directory.delete_account("ann").unwrap();
    assert!(matches!(change("second", "sixth"), Err(NotChanged::Wrong)));
}

#[tokio::test]
async fn an_smbpasswd_file_and_the_database_share_no_sid() {
    let dir = tempfile::tempdir().unwrap();
    let before = directory(dir.path());
    before.add_account(add("root", None)).unwrap();
    drop(before);
    let place = smbpasswd_of_bob(dir.path());
    let store = Store::open(&StateDir::create(dir.path()).unwrap()).unwrap();
    let both = Directory::new(store, dir.path(), &[PassdbBackend::Embedded, PassdbBackend::Smbpasswd(place)], users())
        .unwrap();
    both.add_account(add("ann", None)).unwrap();
    both.add_account(add("carl", Some(100))).unwrap();
    for (name, rid, uid) in [("root", 1000, 0), ("ann", 1001, 100), ("carl", 1003, 100), ("bob", 1202, 101)] {
        let sid = both.domain().with_rid(rid);
        assert_eq!(both.find(name).await.unwrap().unwrap().sid, sid, "{name}");
        assert_eq!(both.uid_of(&sid).await.unwrap(), Some(uid), "{name}");
    }
    // Deleted in its own back end, which is not the first one.
    both.delete_account("bob").unwrap();
    assert!(both.find("bob").await.unwrap().is_none());
}

fn smbpasswd_of_bob(path: &Path) -> smbpasswd::SmbpasswdFile {
    let place = smbpasswd::SmbpasswdFile { file: path.join("smbpasswd"), rid_base: 1000 };
    std::fs::write(&place.file, "bob:101:X:X\n".replace('X', &"X".repeat(32))).unwrap();
    place
}

fn note(directory: &Directory, name: &str, sid: Sid) -> (ImportResult, String) {
    let former = FormerSid { name: name.into(), sid: sid.to_string() };
    let Outcome { result, note } = directory.note_sids(vec![former], false).unwrap().remove(0);
    (result, note.unwrap_or_default())
}

/// A former SID must not make an account another account, or a member of a group.
#[tokio::test(flavor = "multi_thread")]
async fn a_former_sid_cannot_be_the_sid_of_another_account_or_group() {
    let dirs: [_; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let second = directory(dirs[1].path());
    second.add_account(add("root", None)).unwrap();
    second.add_account(add("carl", Some(100))).unwrap();
    let store = Store::open(&StateDir::create(dirs[0].path()).unwrap()).unwrap();
    let place = smbpasswd_of_bob(dirs[0].path());
    let backends = [PassdbBackend::Embedded, PassdbBackend::Smbpasswd(place)];
    let mut all = Directory::new(store, dirs[0].path(), &backends, users()).unwrap();
    all.backends = all.backends.iter().cloned().chain([second.own.clone() as Arc<dyn Backend>]).collect();
    all.add_account(add("ann", None)).unwrap();
    // An odd RID, which ann might get.
    let [bobs, carls] = [all.domain().with_rid(1202), second.domain().with_rid(1001)];
    let group = Sid::of(5, [21, 4, 5, 6, 1100]);
    let staff = |sid| groups::Group {
        name: "Staff".into(),
        sid,
        gid: 50,
        kind: groups::GroupKind::Domain,
        comment: String::new(),
    };
    all.own.add_group(|_| staff(group)).unwrap();
    for (sid, whose) in [(bobs, "of bob"), (carls, "of carl"), (group, "group Staff")] {
        let (result, why) = note(&all, "ann", sid);
        assert!(result == ImportResult::Skipped && why.contains(whose), "{whose}: {why}");
    }
    assert_eq!(note(&all, "bob", bobs).0, ImportResult::Unchanged);
    // RIDs that no account has before the machine has that SID, and one that carl has.
    let new = second.domain();
    assert_eq!(note(&all, "ann", new.with_rid(1202)).0, ImportResult::Added);
    let sneak = |change: &mut embedded::Change<'_>| {
        change.put_sid(carls, "ann");
        Ok(())
    };
    all.own.change(false, sneak).unwrap();
    let taken = all.own.add_group(|_| groups::Group { name: "Crew".into(), gid: 51, ..staff(new.with_rid(1202)) });
    assert!(taken.unwrap_err().to_string().contains("former SID of the account ann"));
    all.machine_sid(Some(new.to_string()), None).unwrap();
    let ann = all.find("ann").await.unwrap().unwrap();
    for (sid, name, uid) in [(new.with_rid(1202), "bob", 101), (carls, "carl", 100)] {
        assert_eq!(all.uid_of(&sid).await.unwrap(), Some(uid), "{name}");
        assert_eq!(all.own.former_owner(&sid).as_deref(), Some(name));
        assert!(ann.sid != sid && !ann.former_sids.contains(&sid), "{name}");
    }
    assert_eq!(all.uid_of(&bobs).await.unwrap(), Some(101), "the former SID");
}

/// Otherwise a realm's controller could use the rights that stored ACLs grant to accounts by their former SIDs.
#[tokio::test]
async fn a_ticket_cannot_add_former_sids_of_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    for name in ["ann", "bob"] {
        directory.add_account(add(name, None)).unwrap();
    }
    let [theirs, anns, group] = [1103, 1104, 513].map(|rid| Sid::of(5, [21, 1, 2, 3, rid]));
    let first = directory.domain();
    let former = FormerSid { name: "ann".into(), sid: anns.to_string() };
    directory.note_sids(vec![former], false).unwrap();
    let second = DomainSid([7, 8, 9]);
    directory.machine_sid(Some(second.to_string()), None).unwrap();
    let ask = async |user: Sid, groups: &[Sid]| {
        let client = ClientName { components: vec!["bob".into()], realm: "R.TEST".into(), own_realm: true };
        let logon = LogonInfo {
            effective_name: "bob".into(),
            full_name: String::new(),
            logon_domain_name: "R".into(),
            user,
            primary_group: group,
            groups: groups.to_vec(),
        };
        directory.of_client(&client, Some(&logon)).await.unwrap().unwrap().former_sids.to_vec()
    };
    let own = directory.find("bob").await.unwrap().unwrap().former_sids.to_vec();
    let with = |more: &[Sid]| [&own[..], more].concat();
    // No account has these any more, and no account gets them.
    let gone = [first.with_rid(4711), second.with_rid(4711)];
    assert_eq!(ask(theirs, &[anns, gone[0], gone[1], first.with_rid(1000)]).await, with(&[theirs, group]));
    for user in [anns, gone[0], gone[1], first.with_rid(1000)] {
        assert_eq!(ask(user, &[]).await, own, "{user}");
    }
    assert_eq!(ask(first.with_rid(1001), &[]).await, with(&[group]), "the user was bob");
    let forget = |sid: DomainSid| directory.machine_sid(None, Some(sid.to_string()));
    forget(first).unwrap();
    assert_eq!(ask(theirs, &[gone[0], first.with_rid(1000)]).await, with(&[theirs, group, gone[0]]));
    refused(forget(first), "not a former SID");
}

#[tokio::test]
async fn the_number_of_users_follows_changes() {
    let dir = tempfile::tempdir().unwrap();
    let directory = directory(dir.path());
    assert_eq!(directory.count_users().await.unwrap(), 0);
    for name in ["ann", "bob"] {
        directory.add_account(add(name, None)).unwrap();
    }
    // If counting took time, the number is cached for a while.
    *directory.counted.lock() = None;
    assert_eq!(directory.count_users().await.unwrap(), 2);
    let domain = directory.domain().sid();
    *directory.counted.lock() = Some(Counted { since: std::time::Instant::now(), domain, users: 77 });
    assert_eq!(directory.count_users().await.unwrap(), 77);
    directory.machine_sid(Some("S-1-5-21-7-8-9".into()), None).unwrap();
    assert_eq!(directory.count_users().await.unwrap(), 2, "the cached number is of another domain");
}
