//! Tests of the evaluation of winbind's answers, and of the time limits when winbindd hangs.

use server::accounts::DomainSid;
use server::testing::NoAccounts;

use super::*;

const USER: Sid = Sid::of(5, [21, 1, 2, 3, 1103]);
const GROUP: Sid = Sid::of(5, [21, 1, 2, 3, 513]);
const OTHER: Sid = Sid::of(5, [21, 1, 2, 3, 1104]);

fn named(name: &str, kind: SidNameUse) -> Option<Arc<Name>> {
    Some(Arc::new(Name { domain: "DOM".into(), name: name.into(), kind }))
}

#[test]
fn an_account_is_built_from_its_sids() {
    let ids = [Some(UnixId::Both(61_103)), Some(UnixId::Group(60_513)), Some(UnixId::Both(61_104))];
    let names =
        [named("dora", SidNameUse::USER), named("Domain Users", SidNameUse::GROUP), named("staff", SidNameUse::ALIAS)];
    let account = account(&[USER, GROUP, OTHER], &ids, &names).unwrap();
    assert_eq!((account.name.as_str(), account.domain.as_deref()), (r"DOM\dora", Some("DOM")));
    assert_eq!((account.sid, &*account.former_sids), (USER, &[GROUP, OTHER][..]));
    assert_eq!((account.identity.uid, account.identity.gid), (61_103, 60_513));
    assert_eq!(*account.identity.groups, [61_103, 61_104]);
    assert_eq!(*account.groups, [r"DOM\Domain Users".to_owned(), r"DOM\staff".to_owned()]);
}

#[test]
fn no_domain_user_becomes_root() {
    let check = |ids: [Option<UnixId>; 3], expected: Result<&[u32], &str>| {
        let names = [named("dora", SidNameUse::USER), named("g", SidNameUse::GROUP), None];
        let found = account(&[USER, GROUP, OTHER], &ids, &names);
        match (found, expected) {
            (Ok(account), Ok(groups)) => assert_eq!(&*account.identity.groups, groups),
            (Err(Refused::Unmapped(why)), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (found, expected) => panic!("{:?} instead of {expected:?}", found.map(|account| account.name)),
        }
    };
    let (user, group) = (Some(UnixId::User(7)), Some(UnixId::Group(8)));
    check([user, group, None], Ok(&[]));
    check([user, group, Some(UnixId::Group(0))], Ok(&[]));
    check([user, group, Some(UnixId::User(9))], Ok(&[]));
    check([Some(UnixId::Both(0)), group, None], Err("no uid"));
    check([None, group, None], Err("no uid"));
    check([group, group, None], Err("no uid"));
    check([user, None, None], Err("no gid"));
    check([user, Some(UnixId::Group(0)), None], Err("no gid"));
    assert!(account(&[], &[], &[]).is_err());
    assert!(account(&[USER, GROUP], &[user, group], &[None, None]).is_err());
}

#[test]
fn well_known_sids_are_not_mapped() {
    for (sid, expected) in [
        (USER, true),
        (Sid::BUILTIN_USERS, false),
        (Sid::of(18, [1]), false),
        (Sid::EVERYONE, false),
        (Sid::of(5, [21, 1, 2, 3]), false),
        (Sid::AUTHENTICATED_USERS, false),
    ] {
        assert_eq!(may_be_mapped(&sid), expected, "{sid}");
    }
}

/// The server's accounts: the machine's SID, which can be changed, and two former SIDs of ann.
struct Own(Mutex<DomainSid>);

const FORMER: Sid = Sid::of(5, [21, 8, 8, 8, 1001]);
const FORMER_OF_DOMAIN: Sid = Sid::of(5, [21, 1, 2, 3, 1199]);

impl Own {
    fn without_accounts(&self) -> NoAccounts {
        NoAccounts(*self.0.lock())
    }
}

impl IdMap for Own {
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        self.without_accounts().id_of(sid)
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        self.without_accounts().sid_of(id)
    }

    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        self.without_accounts().sids_of(identity)
    }

    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        self.without_accounts().named(realm, name)
    }

    fn expect_sids(&self, sids: &[Sid]) -> Answer<()> {
        self.without_accounts().expect_sids(sids)
    }

    fn domain(&self) -> DomainSid {
        self.without_accounts().domain()
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        self.without_accounts().is_of_machine(sid)
    }

    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
        let ann = Principal { sid: *sid, kind: SidNameUse::USER, realm: Realm::Server, name: "ann".into() };
        Answer::now(Ok(Some(ann).filter(|_| [FORMER, FORMER_OF_DOMAIN].contains(sid))))
    }
}

/// winbindd maps S-1-5-32-... for the host's own use, and a controller may use SIDs of this machine's accounts and
/// groups, including former ones. Neither gives a domain user their rights.
#[tokio::test]
async fn a_domain_cannot_assign_groups_of_this_host() {
    const OWN: Sid = Sid::of(5, [21, 7, 7, 7, 1001]);
    const ASSERTED: Sid = Sid::of(18, [1]);
    let winbind = Winbind::new(true);
    let own = Arc::new(Own(Mutex::new(DomainSid([7, 7, 7]))));
    winbind.own.set(own.clone()).ok().expect("the first");
    let now = Instant::now();
    let mut next = 60_000;
    for (sid, kind) in [
        (USER, SidNameUse::USER),
        (GROUP, SidNameUse::GROUP),
        (OTHER, SidNameUse::GROUP),
        (OWN, SidNameUse::ALIAS),
        (FORMER, SidNameUse::USER),
        (FORMER_OF_DOMAIN, SidNameUse::GROUP),
        (ASSERTED, SidNameUse::WELL_KNOWN_GROUP),
        (Sid::BUILTIN_USERS, SidNameUse::ALIAS),
        (Sid::BUILTIN_ADMINISTRATORS, SidNameUse::ALIAS),
    ] {
        next += 1;
        winbind.ids.put(sid, Some(UnixId::Both(next)).filter(|_| sid != ASSERTED), true, now);
        winbind.names.put(sid, named("name", kind), true, now);
    }
    // No query is possible, so everything must come from the cache.
    winbind.look_ups.turns.close();
    let all = vec![
        USER,
        GROUP,
        Sid::BUILTIN_ADMINISTRATORS,
        OTHER,
        OWN,
        FORMER,
        FORMER_OF_DOMAIN,
        Sid::BUILTIN_USERS,
        ASSERTED,
    ];
    let account = winbind.account_of(all).await.expect("an account");
    assert_eq!(*account.identity.groups, [60_001, 60_003]);
    assert_eq!(*account.former_sids, [GROUP, OTHER, ASSERTED]);
    for sids in [
        vec![OWN, GROUP],
        vec![USER, Sid::BUILTIN_USERS],
        vec![USER, OWN],
        vec![FORMER, GROUP],
        vec![USER, FORMER],
        vec![FORMER_OF_DOMAIN, GROUP],
    ] {
        match winbind.account_of(sids.clone()).await {
            Err(Refused::Unmapped(why)) => assert!(why.contains("S-1-5-"), "{why}"),
            _ => panic!("{sids:?}"),
        }
    }
    // The machine gets another SID while the server runs.
    *own.0.lock() = DomainSid([1, 2, 3]);
    assert!(matches!(winbind.account_of(vec![USER, GROUP]).await, Err(Refused::Unmapped(_))));
}

#[test]
fn refusals_are_distinguished() {
    let check = |status: Status, expected: &str| {
        let refused = format!("{:?}", refused(LogonFailed::Status(status, String::new())));
        assert!(refused.starts_with(expected), "{status}: {refused}");
    };
    check(Status::NO_SUCH_USER, "Unknown");
    check(Status::WRONG_PASSWORD, "Wrong");
    check(Status::ACCOUNT_LOCKED_OUT, "Because");
    check(Status::NO_LOGON_SERVERS, "Unavailable");
    check(Status::TRUSTED_RELATIONSHIP_FAILURE, "Unavailable");
    assert!(matches!(refused(LogonFailed::Failed(Failed::NOT_AVAILABLE)), Refused::Unavailable(_)));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_query_times_out() {
    let winbind = Winbind::new(true);
    let turns = winbind.look_ups.turns.clone();
    // All permits are taken by queries that are never answered.
    let _hanging = turns.acquire_many_owned(u32::try_from(AT_A_TIME).unwrap()).await.unwrap();
    let asked = tokio::time::Instant::now();
    let Err(Unavailable(why)) = winbind.ids_of(&[USER]).await else { panic!("answered") };
    assert!(why.contains("5 seconds"), "{why}");
    assert_eq!(asked.elapsed(), LOOK_UP_TIME);
    // During the rest period, lookups fail immediately.
    let asked = tokio::time::Instant::now();
    assert!(winbind.ids_of(&[USER]).await.is_err());
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn cached_answers_are_not_queried() {
    let winbind = Winbind::new(true);
    let now = Instant::now();
    winbind.ids.put(USER, Some(UnixId::User(7)), true, now);
    winbind.ids.put(GROUP, None, false, now);
    winbind.names.put(USER, named("dora", SidNameUse::USER), true, now);
    winbind.sids.put(UnixId::User(7), Some(USER), true, now);
    // No query is possible: there is no permit left.
    winbind.look_ups.turns.close();
    assert_eq!(winbind.ids_of(&[GROUP, USER]).await.unwrap(), [None, Some(UnixId::User(7))]);
    assert_eq!(winbind.sid_of(UnixId::User(7)).await.unwrap(), Some(USER));
    assert_eq!(winbind.principal(USER).await.unwrap().unwrap().name, "dora");
}

const DOMAIN: Sid = Sid::of(5, [21, 1, 2, 3]);

fn ticket(realm: &str) -> (ClientName, LogonInfo) {
    let client = ClientName { components: vec!["dora".into()], realm: realm.into(), own_realm: realm == "DOM.TEST" };
    let logon = LogonInfo {
        effective_name: "Dora".into(),
        full_name: String::new(),
        logon_domain_name: "DOM".into(),
        user: USER,
        primary_group: GROUP,
        groups: vec![OTHER, Sid::of(18, [1])],
    };
    (client, logon)
}

/// Creates a winbindd that cannot be queried, in the domain DOM with `map`. The host has the user `dora`.
fn away(map: Map) -> Arc<Winbind> {
    let identity = Arc::new(Identity { uid: 5000, gid: 50, groups: Box::new([51]) });
    let source = move |key: &accounts::unix::Key| {
        let name = match key {
            accounts::unix::Key::Name(name) if name == "dora" => name.clone(),
            _ => return Ok(None),
        };
        Ok(Some(accounts::unix::User { name, identity: identity.clone(), groups: Arc::new(["crew".into()]) }))
    };
    let users = Users::new(None, Box::new(source));
    let winbind = Winbind::of_server(OwnDomain::in_memory(), users);
    let membership = Membership { workgroup: "DOM".into(), realm: "DOM.TEST".into() };
    winbind.configure(Some(&membership), Some(map));
    *winbind.rests_until.lock() = Some(Instant::now() + Duration::from_secs(3600));
    winbind
}

fn rid() -> Map {
    Map { backend: crate::idmap::Backend::Rid { base: 0 }, range: Some(60_000..=69_999) }
}

#[tokio::test]
async fn ids_derived_from_rids_need_no_winbindd() {
    let winbind = away(rid());
    // Before the domain's SID is known, ids cannot be derived.
    assert!(winbind.id_of(USER).await.is_err());
    let (client, logon) = ticket("DOM.TEST");
    let account = winbind.account_of_client(&client, logon).await.expect("dora");
    assert_eq!((account.name.as_str(), account.domain.as_deref()), (r"DOM\Dora", Some("DOM")));
    assert_eq!((account.identity.uid, account.identity.gid), (61_103, 60_513));
    assert_eq!(*account.identity.groups, [61_103, 61_104]);
    assert_eq!((account.sid, account.former_sids.len()), (USER, 3));
    assert_eq!(winbind.id_of(OTHER).await.unwrap(), Some(UnixId::Both(61_104)));
    assert_eq!(winbind.away.sid_of(UnixId::Group(60_513)), Some(GROUP));
    // SIDs of other domains need winbindd.
    assert!(winbind.id_of(Sid::of(5, [21, 9, 9, 9, 513])).await.is_err());
}

#[tokio::test]
async fn ids_mapped_by_name_need_no_winbindd() {
    let map = |range| Map { backend: crate::idmap::Backend::Nss, range };
    let (client, logon) = ticket("DOM.TEST");
    let account = away(map(None)).account_of_client(&client, logon.clone()).await.expect("dora");
    assert_eq!((account.identity.uid, account.identity.gid, &*account.identity.groups), (5000, 50, &[51][..]));
    assert_eq!((account.name.as_str(), account.sid, &*account.groups), (r"DOM\Dora", USER, &["crew".to_owned()][..]));
    for (range, name, expected) in [(Some(1..=4999), "Dora", "uid 5000"), (None, "emil", "no UNIX user")] {
        let logon = LogonInfo { effective_name: name.into(), ..logon.clone() };
        match away(map(range)).account_of_client(&client, logon).await {
            Err(Refused::Unmapped(why)) => assert!(why.contains(expected), "{why}"),
            _ => panic!("{name}"),
        }
    }
}

/// Another realm's controllers may use any name for their domain, and a domain that was created again is another
/// domain.
#[tokio::test]
async fn a_ticket_cannot_name_another_domain() {
    let winbind = away(rid());
    let (client, logon) = ticket("OTHER.TEST");
    let refused = winbind.account_of_client(&client, logon).await;
    assert!(matches!(refused, Err(Refused::Unavailable(_))));
    let (client, logon) = ticket("DOM.TEST");
    let other = LogonInfo { logon_domain_name: "OTHER".into(), ..logon.clone() };
    assert!(matches!(winbind.account_of_client(&client, other).await, Err(Refused::Unavailable(_))));
    winbind.away.learn_from_winbind(&Sid::of(5, [21, 9, 9, 9, 1000]), "DOM").await;
    let refused = winbind.account_of_client(&client, logon.clone()).await;
    assert!(matches!(refused, Err(Refused::Unmapped(_))));
    winbind.away.learn_from_winbind(&DOMAIN.with_rid(1000).expect("space for a sub-authority"), "dom").await;
    assert!(winbind.account_of_client(&client, logon).await.is_ok());
}
