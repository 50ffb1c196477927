use server::accounts::{Authenticator, IdMap};

use super::*;
use crate::groups::GroupKind;
use crate::record::nt_hash;
use crate::records::{ImportResult, NewAccount, Outcome};

const SAMBA: &str = "S-1-5-21-7-8-9";

fn account(name: &str, rid: u32, password: &str, set: i64) -> Migrated {
    Migrated {
        account: Imported {
            name: name.into(),
            nt_hash: Some(nt_hash(password).unwrap()),
            disabled: false,
            locked: false,
            must_change: false,
            never_expires: false,
            password_last_set: Some(set),
        },
        sid: format!("{SAMBA}-{rid}"),
        full_name: format!("{name} of Samba"),
        expires: None,
    }
}

fn group(name: &str, sid: &str, gid: u32) -> NewGroup {
    let kind = if sid.starts_with("S-1-5-32") { GroupKind::Builtin } else { GroupKind::Domain };
    let (name, sid) = (name.into(), Some(sid.into()));
    NewGroup { name, unix_group: gid.to_string(), sid, kind, comment: String::new() }
}

fn migration() -> Migration {
    let acl = |share: &str, sddl: &str| ShareAcl { share: share.into(), sddl: sddl.into() };
    Migration {
        machine_sid: SAMBA.into(),
        accounts: vec![
            account("root", 500, "x", 5),
            Migrated { expires: Some(2_000_000_000), ..account("games", 3006, "y", 5) },
        ],
        groups: vec![group("Staff", &format!("{SAMBA}-1005"), 70_001), group("Users", "S-1-5-32-545", 70_002)],
        policies: vec![("bad lockout attempt".into(), 7), ("min password length".into(), 5)],
        share_acls: vec![acl("Data", "O:BAG:BAD:(A;;0x1200a9;;;WD)")],
    }
}

fn results(outcomes: &[Outcome]) -> Vec<ImportResult> {
    outcomes.iter().map(|outcome| outcome.result).collect()
}

/// Returns the outcomes as one list, which begins with that of the machine SID.
fn all(outcome: &MigrationOutcome) -> Vec<ImportResult> {
    let lists = [&outcome.accounts, &outcome.groups, &outcome.policies, &outcome.share_acls];
    std::iter::once(outcome.machine_sid.result).chain(lists.into_iter().flat_map(|list| results(list))).collect()
}

#[tokio::test]
async fn everything_is_migrated_once() {
    use ImportResult::{Added, Unchanged};
    let directory = Directory::in_memory().unwrap();
    let dry = directory.migrate(migration(), true).unwrap();
    assert!(directory.is_empty().unwrap() && directory.domain().to_string() != SAMBA);
    let first = directory.migrate(migration(), false).unwrap();
    assert_eq!(dry, first);
    assert_eq!(all(&first), [Added, Added, Added, Added, Added, Added, Unchanged, Added]);
    let games = directory.export(Some("a")).unwrap().remove(0);
    assert_eq!((games.sid.as_str(), games.expires), ("S-1-5-21-7-8-9-3006", Some(2_000_000_000)));
    assert_eq!(games.full_name, "games of Samba");
    assert_eq!(games.account.nt_hash.unwrap().0, nt_hash("y").unwrap().0);
    assert_eq!(directory.export(Some("root")).unwrap().len(), 0);
    let sid = |text: &str| text.parse::<Sid>().unwrap();
    assert_eq!(directory.own.group(&crate::groups::GroupKey::Gid(70_001)).unwrap().sid, sid("S-1-5-21-7-8-9-1005"));
    assert_eq!(directory.policy().lockout_attempts, 7);
    assert_eq!(directory.listed_group(&sid("S-1-5-32-545")).await.unwrap().unwrap().principal.name, "Users");
    assert!(directory.own.share_acl("DATA").is_some());
    assert!(directory.own.former_domains().is_empty(), "no account had the first SID");
    let second = directory.migrate(migration(), false).unwrap();
    assert!(all(&second).iter().all(|result| *result == Unchanged), "{second:?}");
    // New accounts stay clear of the RIDs that Samba has given and will give.
    let hash = Some(nt_hash("z").unwrap());
    directory
        .add_account(NewAccount { name: "bin".into(), nt_hash: hash, full_name: String::new(), uid: None })
        .unwrap();
    let added = directory.export(None).unwrap().remove(0);
    assert!(added.sid.starts_with("S-1-5-21-7-8-9-100000"), "{}", added.sid);
}

#[test]
fn what_differs_is_a_conflict_and_stays() {
    use ImportResult::{Added, Skipped, Unchanged, Updated};
    let directory = Directory::in_memory().unwrap();
    directory.migrate(migration(), false).unwrap();
    directory.set_enabled("games", false).unwrap();
    let mut again = migration();
    // A later password of an account is the newer one, wherever it was set.
    again.accounts[0] = account("root", 500, "later", 6);
    again.accounts.push(account("bin", 3006, "x", 5));
    again.accounts.push(account("daemon", 1005, "x", 5));
    again.accounts.push(Migrated { sid: "S-1-5-21-1-1-1-1000".into(), ..account("sys", 1, "x", 5) });
    again.accounts.push(account("sync", 3100, "x", 5));
    again.groups.push(group("Other", &format!("{SAMBA}-3006"), 70_003));
    again.groups.push(group("Third", &format!("{SAMBA}-4000"), 70_001));
    again.groups.push(group("Sync", &format!("{SAMBA}-4001"), 70_009));
    again.policies[0].1 = 9;
    again.policies.push(("disconnect time".into(), 1));
    again.share_acls[0].sddl = "D:(A;;FA;;;WD)".into();
    let outcome = directory.migrate(again, false).unwrap();
    assert_eq!(results(&outcome.accounts), [Updated, Skipped, Skipped, Skipped, Skipped, Added], "{outcome:?}");
    assert_eq!(results(&outcome.groups), [Unchanged, Unchanged, Skipped, Skipped, Skipped], "{outcome:?}");
    assert_eq!(results(&outcome.policies), [Skipped, Unchanged, Skipped], "{outcome:?}");
    assert_eq!(results(&outcome.share_acls), [Skipped]);
    let record = |name: &str| directory.record(name).unwrap().unwrap();
    assert_eq!(record("root").nt_hash.as_ref().unwrap().0, nt_hash("later").unwrap().0);
    assert!(record("games").disabled, "it is not enabled again");
    assert_eq!(directory.policy().lockout_attempts, 7);
    // An older password does not replace the present one.
    let older = directory.migrate(migration(), false).unwrap();
    assert_eq!(older.accounts[0].result, Unchanged);
    assert!(older.accounts[0].note.as_ref().unwrap().contains("keeps its password"), "{older:?}");
    assert_eq!(record("root").nt_hash.as_ref().unwrap().0, nt_hash("later").unwrap().0);
}

#[test]
fn accounts_with_another_machine_sid_prevent_the_migration() {
    let directory = Directory::in_memory().unwrap();
    let hash = Some(nt_hash("z").unwrap());
    let new = NewAccount { name: "root".into(), nt_hash: hash, full_name: String::new(), uid: None };
    directory.add_account(new).unwrap();
    let before = directory.export(None).unwrap().remove(0).sid;
    let error = directory.migrate(migration(), false).unwrap_err().to_string();
    assert!(error.contains("machine-sid --set S-1-5-21-7-8-9"), "{error}");
    assert_eq!(directory.export(None).unwrap().iter().map(|found| found.sid.as_str()).collect::<Vec<_>>(), [before]);
    assert!(directory.share_acls(None).unwrap().is_empty());
    // The remedy of the message works; the account then is a conflict.
    directory.machine_sid(Some(SAMBA.into()), None).unwrap();
    let outcome = directory.migrate(migration(), false).unwrap();
    assert_eq!(results(&outcome.accounts), [ImportResult::Skipped, ImportResult::Added]);
    assert!(outcome.accounts[0].note.as_ref().unwrap().contains("exists with the SID"), "{outcome:?}");
}

#[test]
fn a_share_acl_is_set_and_removed() {
    let directory = Directory::in_memory().unwrap();
    assert!(directory.share_acls(Some(("a".into(), None))).is_err());
    let set = |text: Option<&str>| directory.share_acls(Some(("a".into(), text.map(str::to_owned)))).unwrap().len();
    assert_eq!((set(Some("D:(A;;FA;;;WD)")), set(None)), (1, 0));
}
