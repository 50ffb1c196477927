use std::os::unix::fs::PermissionsExt;

use super::*;

fn add(store: &Store, name: &str) -> u32 {
    store.add(Record::named(name)).unwrap().record.rid
}

#[test]
fn accounts_sid_and_rids_survive_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(dir.path()).unwrap();
    assert!(Store::open_existing(&state).unwrap().is_none());
    let store = Store::open(&state).unwrap();
    let sid = store.domain();
    assert_eq!((add(&store, "Ann"), add(&store, "bob")), (1000, 1001));
    let remove = |change: &mut Change<'_>| {
        change.remove("BOB");
        Ok(())
    };
    store.change(false, remove).unwrap();
    drop(store);
    let store = Store::open(&state).unwrap();
    assert_eq!(store.domain(), sid);
    assert_eq!(store.get("aNN").unwrap().name, "Ann");
    assert!(store.get("bob").is_none());
    assert_eq!(add(&store, "bob"), 1002);
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [FILE]);
    let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn accounts_are_found_by_present_and_former_sids() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(dir.path()).unwrap();
    let store = Store::open(&state).unwrap();
    let (ann, elsewhere) = (store.domain().with_rid(add(&store, "Ann")), Sid::of(5, [21, 1, 2, 3, 1104]));
    let note = |change: &mut Change<'_>| {
        change.put_sid(elsewhere, "ANN");
        Ok(())
    };
    store.change(false, note).unwrap();
    let check = |store: &Store, there: bool| {
        let name = store.by_sid(&ann).map(|record| record.name.clone());
        assert_eq!(name.as_deref(), there.then_some("Ann"));
        assert_eq!(store.former_owner(&elsewhere).as_deref(), there.then_some("ann"));
        assert_eq!(store.former_sids("ann").len(), usize::from(there));
        assert!(store.by_sid(&Sid::of(5, [21, 1, 2, 3, 1105])).is_none());
    };
    check(&store, true);
    drop(store);
    let store = Store::open(&state).unwrap();
    check(&store, true);
    let remove = |change: &mut Change<'_>| {
        change.remove("ann");
        Ok(())
    };
    store.change(false, remove).unwrap();
    check(&store, false);
    // A later Ann is a different user.
    add(&store, "ann");
    assert!(store.former_sids("ann").is_empty() && store.former_owner(&elsewhere).is_none());
    drop(store);
    assert!(Store::open(&state).unwrap().former_owner(&elsewhere).is_none());
}

#[test]
fn a_failed_change_and_a_dry_run_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&StateDir::create(dir.path()).unwrap()).unwrap();
    let failed: Result<()> = store.change(false, |change| {
        change.put(Record { rid: 1, ..Record::named("ann") });
        assert!(change.get("ANN").is_some());
        bail!("no")
    });
    assert!(failed.is_err());
    let put = |change: &mut Change<'_>| {
        change.put(Record { rid: 2, ..Record::named("bob") });
        Ok(())
    };
    store.change(true, put).unwrap();
    assert!(store.page(None, 10).is_empty());
}

#[test]
fn pages_are_consecutive() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&StateDir::create(dir.path()).unwrap()).unwrap();
    for name in ["b", "C", "a"] {
        add(&store, name);
    }
    let names = |page: Vec<Arc<Record>>| page.iter().map(|r| r.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(store.page(None, 2)), ["a", "b"]);
    assert_eq!(names(store.page(Some("B"), 2)), ["C"]);
    assert!(store.page(Some("c"), 2).is_empty());
}

#[test]
fn concurrent_creation_makes_one_database_that_one_process_has_open() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(dir.path()).unwrap();
    let sids: Vec<DomainSid> = std::thread::scope(|scope| {
        let open = || Store::open_patiently(&state, Duration::from_secs(60)).unwrap().domain();
        let all: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(sids.iter().all(|sid| *sid == sids[0]));
    let _store = Store::open(&state).unwrap();
    assert!(matches!(Store::open(&state), Err(OpenError::Busy)));
    assert!(Store::open_patiently(&state, Duration::ZERO).err().unwrap().to_string().contains("in use"));
}

#[test]
fn files_that_are_not_databases_are_refused_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::create(dir.path()).unwrap();
    let garbage = vec![0x55; 10_000];
    std::fs::write(dir.path().join(FILE), &garbage).unwrap();
    let Err(OpenError::Damaged(error)) = Store::open(&state) else { panic!("opened garbage") };
    assert!(format!("{error:#}").contains(FILE));
    assert_eq!(std::fs::read(dir.path().join(FILE)).unwrap(), garbage);
}
