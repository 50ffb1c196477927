//! Tests of oplocks and leases.

use parking_lot::Mutex;
use proto::status::Status;

use super::*;
use crate::vfs;

const NOW: Duration = Duration::from_secs(100);
const NONE: OplockLevel = OplockLevel::NONE;
const II: OplockLevel = OplockLevel::II;
const EXCLUSIVE: OplockLevel = OplockLevel::EXCLUSIVE;
const BATCH: OplockLevel = OplockLevel::BATCH;

#[derive(Default)]
struct Breaks(Mutex<Vec<Break>>);

impl Holder for Breaks {
    fn broken(&self, what: Break) -> bool {
        self.0.lock().push(what);
        true
    }
}

impl Breaks {
    #[track_caller]
    fn check(&self, expected: &[OplockLevel]) {
        let expected: Vec<_> = expected.iter().map(|level| Break::Oplock(*level)).collect();
        assert_eq!(std::mem::take(&mut *self.0.lock()), expected);
    }
}

fn circumstances(alone: bool, shared: bool) -> Circumstances {
    Circumstances { alone, shared, directory: false }
}

fn opening(overwrites: bool) -> Opening {
    Opening::new(AccessMask::FILE_READ_DATA, overwrites, None, NOW)
}

fn held(level: OplockLevel) -> (Oplocks, Arc<Breaks>) {
    let (mut oplocks, told) = (Oplocks::default(), Arc::new(Breaks::default()));
    assert_eq!(oplocks.grant(1, level, circumstances(true, true), told.clone()), level);
    (oplocks, told)
}

#[test]
fn granted_oplock_levels() {
    let grant = |first: OplockLevel, asked, alone, level_two| {
        let mut oplocks = Oplocks::default();
        if first != NONE {
            assert_eq!(oplocks.grant(1, first, circumstances(true, true), Arc::new(Breaks::default())), first);
        }
        oplocks.grant(2, asked, circumstances(alone, level_two), Arc::new(Breaks::default()))
    };
    assert_eq!(grant(NONE, BATCH, true, true), BATCH);
    assert_eq!(grant(NONE, BATCH, true, false), BATCH);
    assert_eq!(grant(NONE, EXCLUSIVE, true, true), EXCLUSIVE);
    assert_eq!(grant(NONE, BATCH, false, true), II);
    assert_eq!(grant(NONE, BATCH, false, false), NONE);
    assert_eq!(grant(II, EXCLUSIVE, false, true), II);
    assert_eq!(grant(II, II, false, true), II);
    assert_eq!(grant(BATCH, II, false, true), NONE);
    assert_eq!(grant(NONE, NONE, true, true), NONE);
    assert_eq!(grant(NONE, OplockLevel::LEASE, true, true), NONE);
    assert_eq!(grant(NONE, OplockLevel(0x77), true, true), NONE);
}

#[test]
fn an_open_breaks_an_exclusive_oplock_once_and_waits() {
    for (overwrites, to) in [(false, II), (true, NONE)] {
        let (mut oplocks, told) = held(EXCLUSIVE);
        let mut first = oplocks.open(opening(overwrites), false).expect("waits");
        told.check(&[to]);
        assert_eq!(first.deadline, NOW + ACKNOWLEDGMENT_TIME);
        let mut second = oplocks.open(Opening { now: NOW * 2, ..opening(overwrites) }, false).expect("waits");
        told.check(&[]);
        assert_eq!(second.deadline, first.deadline, "a second open gives the holder no more time");
        assert!(first.changed.try_recv().is_err());
        assert_eq!(oplocks.acknowledge(1, II), Ok(to));
        assert!(first.changed.try_recv().is_ok() && second.changed.try_recv().is_ok());
        assert!(oplocks.open(opening(false), false).is_none());
    }
}

#[test]
fn attributes_break_nothing() {
    let (mut oplocks, told) = held(BATCH);
    let rights = AccessMask(0x0010_0180);
    assert!(oplocks.open(Opening::new(rights, false, None, NOW), false).is_none());
    assert!(oplocks.open(Opening::new(rights, true, None, NOW), false).is_some(), "overwriting breaks it");
    told.check(&[NONE]);
}

#[test]
fn writing_ends_level_two_without_a_wait() {
    let (mut oplocks, told) = held(II);
    let other = Arc::new(Breaks::default());
    assert_eq!(oplocks.grant(2, II, circumstances(false, true), other.clone()), II);
    assert!(oplocks.open(opening(false), false).is_none());
    told.check(&[]);
    oplocks.write(None, NOW);
    told.check(&[NONE]);
    other.check(&[NONE]);
    oplocks.write(None, NOW);
    told.check(&[]);
    assert_eq!(oplocks.acknowledge(1, NONE), Err(Status::INVALID_OPLOCK_PROTOCOL), "the break was not requested");
    assert_eq!(oplocks.acknowledge(1, NONE), Err(Status::INVALID_DEVICE_STATE));
}

#[test]
fn acknowledgments() {
    let check = |level, acknowledged, expected| {
        let (mut oplocks, _told) = held(level);
        assert_eq!(oplocks.acknowledge(1, acknowledged), Err(Status::INVALID_DEVICE_STATE), "not breaking");
        let _wait = oplocks.open(opening(false), false);
        assert_eq!(oplocks.acknowledge(2, acknowledged), Err(Status::INVALID_DEVICE_STATE), "another's");
        assert_eq!(oplocks.acknowledge(1, acknowledged), expected);
        assert!(oplocks.open(opening(false), false).is_none(), "the oplock is broken whatever was acknowledged");
    };
    check(BATCH, II, Ok(II));
    check(BATCH, NONE, Ok(NONE));
    check(BATCH, EXCLUSIVE, Ok(NONE));
    check(BATCH, BATCH, Err(Status::INVALID_OPLOCK_PROTOCOL));
    check(EXCLUSIVE, EXCLUSIVE, Err(Status::INVALID_OPLOCK_PROTOCOL));
    check(EXCLUSIVE, OplockLevel::LEASE, Err(Status::INVALID_PARAMETER));
    check(EXCLUSIVE, OplockLevel(0x77), Err(Status::INVALID_OPLOCK_PROTOCOL));
}

#[test]
fn closing_or_silence_ends_the_wait() {
    let (mut oplocks, _told) = held(BATCH);
    let mut wait = oplocks.open(opening(false), false).expect("waits");
    oplocks.close(2);
    oplocks.expire(wait.deadline - Duration::from_nanos(1));
    assert!(wait.changed.try_recv().is_err());
    oplocks.close(1);
    assert!(wait.changed.try_recv().is_ok());

    let (mut oplocks, _told) = held(BATCH);
    let mut wait = oplocks.open(opening(false), false).expect("waits");
    oplocks.expire(wait.deadline);
    assert!(wait.changed.try_recv().is_ok() && oplocks.open(opening(false), false).is_none());
    assert_eq!(oplocks.acknowledge(1, II), Err(Status::INVALID_DEVICE_STATE), "too late");
}

const CLIENT: proto::dtyp::Guid = proto::dtyp::Guid([9; 16]);

fn id(key: u8) -> LeaseId {
    LeaseId { client: CLIENT, key: [key; 16] }
}

/// Parses `RWH` and parts of it.
fn states(text: &str) -> LeaseState {
    text.chars().fold(NOTHING, |state, letter| {
        state
            | match letter {
                'R' => READ,
                'W' => WRITE,
                _ => HANDLE,
            }
    })
}

/// Leases of one file, and the notifications of their clients.
#[derive(Default)]
struct Leases {
    oplocks: Oplocks,
    told: Arc<Breaks>,
}

impl Leases {
    /// Opens the file under the lease `key`, requesting `asked`; returns what is granted.
    #[track_caller]
    fn grant(&mut self, open: u64, key: u8, asked: &str, alone: bool, expected: &str) -> LeaseGranted {
        let asked = LeaseAsked { id: id(key), state: states(asked), epoch: Some(0x10) };
        let granted = self.oplocks.grant_lease(open, asked, circumstances(alone, true), self.told.clone());
        assert_eq!(granted.state, states(expected));
        granted
    }

    /// Opens the file without a lease, or under the lease `key`; returns whether the open must wait.
    fn open(&mut self, key: Option<u8>, overwrites: bool, violation: bool) -> bool {
        let opening = Opening::new(AccessMask::FILE_READ_DATA, overwrites, key.map(id), NOW);
        self.oplocks.open(opening, violation).is_some()
    }

    /// Returns the notifications since the last call: `RWH>RH` and the like, with `!` if an acknowledgment is expected.
    fn told(&self) -> Vec<String> {
        let letters = |state: LeaseState| {
            [(READ, 'R'), (WRITE, 'W'), (HANDLE, 'H')]
                .iter()
                .filter(|(bit, _)| state.contains(*bit))
                .map(|(_, letter)| *letter)
                .collect::<String>()
        };
        let text = |what: Break| match what {
            Break::Oplock(level) => format!("{level:?}"),
            Break::Lease(it) => {
                format!("{}>{}{}", letters(it.from), letters(it.to), if it.acknowledge { "!" } else { "" })
            }
        };
        std::mem::take(&mut *self.told.0.lock()).into_iter().map(text).collect()
    }

    fn acknowledge(&mut self, key: u8, kept: &str) -> Result<LeaseState, Status> {
        self.oplocks.acknowledge_lease(id(key), states(kept), NOW)
    }
}

#[test]
fn leases_are_granted_as_far_as_others_allow() {
    for (asked, granted) in
        [("RWH", "RWH"), ("RH", "RH"), ("RW", "RW"), ("R", "R"), ("W", ""), ("H", ""), ("WH", ""), ("", "")]
    {
        Leases::default().grant(1, 1, asked, true, granted);
    }
    let mut leases = Leases::default();
    leases.grant(1, 1, "RWH", false, "RH");
    leases.grant(2, 2, "RWH", false, "RH");
    let oplock = leases.oplocks.grant(3, II, circumstances(false, true), Arc::new(Breaks::default()));
    assert_eq!(oplock, NONE, "no oplock together with a lease on handles");
}

#[test]
fn a_client_upgrades_its_own_lease_and_never_loses_rights() {
    let mut leases = Leases::default();
    assert_eq!(leases.grant(1, 1, "R", true, "R").epoch, Some(0x11));
    assert_eq!(leases.grant(2, 1, "RH", true, "RH").epoch, Some(0x12));
    assert_eq!(leases.grant(3, 1, "RW", true, "RH").epoch, Some(0x12), "not a superset");
    assert_eq!(leases.grant(4, 1, "RWH", true, "RWH").epoch, Some(0x13));
    leases.grant(5, 1, "", true, "RWH");
    assert!(!leases.open(Some(1), true, true), "a client's own lease does not conflict");
    assert_eq!(leases.told(), [""; 0]);
}

#[test]
fn breaks_caused_by_an_open() {
    let check = |held: &str, overwrites, violation, waits, told: &[&str]| {
        let mut leases = Leases::default();
        leases.grant(1, 1, held, true, held);
        assert_eq!(leases.open(Some(2), overwrites, violation), waits, "{held} {overwrites} {violation}");
        assert_eq!(leases.told(), told, "{held} {overwrites} {violation}");
    };
    check("RWH", false, false, true, &["RWH>RH!"]);
    check("RW", false, false, true, &["RW>R!"]);
    check("RH", false, false, false, &[]);
    check("R", false, false, false, &[]);
    check("RWH", true, false, true, &["RWH>!"]);
    check("RH", true, false, false, &["RH>!"]);
    check("R", true, false, false, &["R>"]);
    check("RWH", false, true, true, &["RWH>RW!"]);
    check("RH", false, true, true, &["RH>R!"]);
    check("RW", false, true, false, &[]);
}

#[test]
fn further_breaks_during_a_break_are_sent_step_by_step() {
    let mut leases = Leases::default();
    leases.grant(1, 1, "RWH", true, "RWH");
    assert!(leases.open(None, false, false) && leases.open(None, true, false));
    assert_eq!(leases.told(), ["RWH>RH!"]);
    assert!(leases.grant(2, 1, "RWH", true, "RWH").breaking);
    assert_eq!(leases.acknowledge(1, "RWH"), Err(Status::REQUEST_NOT_ACCEPTED));
    assert_eq!(leases.acknowledge(2, "R"), Err(Status::OBJECT_NAME_NOT_FOUND));
    assert_eq!(leases.acknowledge(1, "RH"), Ok(states("RH")));
    assert_eq!(leases.told(), ["RH>R!"]);
    assert_eq!(leases.acknowledge(1, "R"), Ok(states("R")));
    assert_eq!(leases.told(), ["R>"]);
    assert_eq!(leases.acknowledge(1, ""), Err(Status::UNSUCCESSFUL), "no break is pending");
}

#[test]
fn changes_break_read_caching_of_others() {
    let mut leases = Leases::default();
    leases.grant(1, 1, "RH", false, "RH");
    leases.grant(2, 2, "R", false, "R");
    leases.oplocks.write(Some(id(2)), NOW);
    assert_eq!(leases.told(), ["RH>!"]);
    leases.oplocks.write(Some(id(1)), NOW);
    assert_eq!(leases.told(), ["R>"]);
}

#[test]
fn names_change_only_when_handles_are_closed() {
    let mut leases = Leases::default();
    leases.grant(1, 1, "RWH", true, "RWH");
    assert!(leases.oplocks.change_name(9, Some(id(1)), true, NOW).is_none(), "the client's own lease");
    let mut wait = leases.oplocks.change_name(9, None, false, NOW).expect("waits");
    assert_eq!(leases.told(), ["RWH>RW!"]);
    leases.oplocks.close(1);
    assert!(wait.changed.try_recv().is_ok());
    assert!(leases.oplocks.change_name(9, None, false, NOW).is_none());
}

#[test]
fn silence_ends_a_lease_but_not_its_opens() {
    let mut leases = Leases::default();
    leases.grant(1, 1, "RWH", true, "RWH");
    assert!(leases.open(None, false, false));
    leases.oplocks.expire(NOW + ACKNOWLEDGMENT_TIME);
    assert_eq!(leases.oplocks.lease(id(1)).map(|it| it.state), Some(NOTHING));
    assert!(!leases.open(None, true, true));
    assert_eq!(leases.acknowledge(1, "R"), Err(Status::UNSUCCESSFUL), "too late");
}

/// A holder that cannot be notified.
struct Gone;

impl Holder for Gone {
    fn broken(&self, _: Break) -> bool {
        false
    }

    fn is_connected(&self) -> bool {
        false
    }
}

#[test]
fn no_open_waits_for_a_disconnected_holder() {
    let mut oplocks = Oplocks::default();
    assert_eq!(oplocks.grant(1, BATCH, circumstances(true, true), Arc::new(Gone)), BATCH);
    let wait = oplocks.open(opening(false), false).expect("waits");
    assert_eq!(wait.deadline, NOW);
}

#[test]
fn a_client_that_reclaims_its_opens_is_told_once_of_a_break_in_progress() {
    let mut leases = Leases::default();
    let asked = LeaseAsked { id: id(1), state: states("RWH"), epoch: Some(0x10) };
    for open in [1, 2] {
        leases.oplocks.grant_lease(open, asked, circumstances(true, true), Arc::new(Gone));
    }
    let told = leases.told.clone();
    assert_eq!(leases.oplocks.change_holder(3, told.clone(), None, NOW), None, "it has no lease");
    assert!(leases.open(None, false, false));
    let later = NOW + Duration::from_secs(20);
    let granted = leases.oplocks.change_holder(1, told.clone(), None, later);
    assert_eq!(granted, Some(LeaseGranted { state: states("RWH"), breaking: true, epoch: Some(0x12) }));
    let (from, to) = (states("RWH"), states("RH"));
    let expected = LeaseBreak { id: id(1), from, to, epoch: 0x13, acknowledge: true };
    assert_eq!(std::mem::take(&mut *told.0.lock()), [Break::Lease(expected)], "with an epoch above the response's");
    let wait = leases.oplocks.open(Opening { now: later, ..opening(false) }, false).expect("waits");
    assert_eq!(wait.deadline, later + ACKNOWLEDGMENT_TIME);
    leases.oplocks.change_holder(2, told.clone(), None, later);
    assert_eq!(leases.told(), [""; 0], "told through the other open");
    assert_eq!(leases.acknowledge(1, "RH"), Ok(states("RH")));
    let granted = leases.oplocks.change_holder(1, told, None, later).map(|it| (it.state, it.breaking, it.epoch));
    assert_eq!(granted, Some((states("RH"), false, Some(0x13))));
    assert_eq!(leases.told(), [""; 0], "the break has ended");
}

#[test]
fn a_client_is_told_when_it_reclaims_even_if_a_later_open_of_its_lease_is_connected() {
    let mut leases = Leases::default();
    let asked = LeaseAsked { id: id(1), state: states("RWH"), epoch: Some(0x10) };
    leases.oplocks.grant_lease(1, asked, circumstances(true, true), Arc::new(Gone));
    assert!(leases.open(None, false, false));
    leases.grant(2, 1, "RWH", true, "RWH");
    assert_eq!(leases.told(), [""; 0], "the lease is breaking already");
    leases.oplocks.change_holder(1, leases.told.clone(), None, NOW);
    assert_eq!(leases.told(), ["RWH>RH!"]);
    // The other open was not notified, so its connection does not matter when this one is lost again.
    leases.oplocks.change_holder(1, leases.told.clone(), None, NOW);
    assert_eq!(leases.told(), ["RWH>RH!"]);
}

#[test]
fn reclaiming_again_and_again_does_not_delay_a_break() {
    let mut leases = Leases::default();
    leases.grant(1, 1, "RWH", true, "RWH");
    assert!(leases.open(None, false, false));
    for seconds in [30, 60, 90] {
        let now = NOW + Duration::from_secs(seconds);
        leases.oplocks.change_holder(1, leases.told.clone(), None, now);
    }
    let now = NOW + Duration::from_secs(60);
    let wait = leases.oplocks.open(Opening { now, ..opening(false) }, false).expect("waits");
    assert_eq!(wait.deadline, NOW + 2 * ACKNOWLEDGMENT_TIME);
}

#[test]
fn the_epoch_continues_from_that_of_the_client_after_a_restart() {
    for (has, known, expected) in [
        ("RWH", ("RWH", 0x20), 0x20),
        ("RWH", ("RWH", 0x05), 0x11),
        ("RWH", ("RH", 0x20), 0x21),
        ("RH", ("RH", 0x20), 0x21),
        ("RH", ("RWH", 0x20), 0x21),
    ] {
        let mut leases = Leases::default();
        leases.grant(1, 1, has, true, has);
        let told = leases.told.clone();
        let granted = leases.oplocks.change_holder(1, told, Some((states(known.0), known.1)), NOW);
        assert_eq!(granted.and_then(|it| it.epoch), Some(expected), "{has} {known:?}");
    }
}

#[test]
fn an_open_that_deletes_breaks_handle_caching() {
    for (held, waits, told) in [("RH", true, vec!["RH>R!"]), ("RWH", true, vec!["RWH>R!"]), ("R", false, vec![])] {
        let mut leases = Leases::default();
        leases.grant(1, 1, held, true, held);
        let opening = Opening::new(AccessMask::DELETE, false, None, NOW);
        assert_eq!(leases.oplocks.open(Opening { deletes: true, ..opening }, false).is_some(), waits, "{held}");
        assert_eq!(leases.told(), told, "{held}");
    }
}

#[test]
fn a_directory_is_cached_until_another_client_changes_it() {
    let mut leases = Leases::default();
    let asked = LeaseAsked { id: id(1), state: states("RWH"), epoch: Some(1) };
    let circumstances = Circumstances { alone: true, shared: true, directory: true };
    assert_eq!(leases.oplocks.grant_lease(1, asked, circumstances, leases.told.clone()).state, states("RH"));
    leases.oplocks.directory_changes(Some(id(1)), NOW);
    assert_eq!(leases.told(), [""; 0]);
    leases.oplocks.directory_changes(Some(id(2)), NOW);
    assert_eq!(leases.told(), ["RH>!"]);
    assert_eq!(leases.acknowledge(1, ""), Ok(NOTHING));
    assert_eq!(leases.oplocks.grant_lease(2, asked, circumstances, leases.told.clone()).state, states("RH"));
    let oplock = leases.oplocks.grant(3, BATCH, circumstances, Arc::new(Breaks::default()));
    assert_eq!(oplock, NONE, "directories have no oplocks");
}

/// A lease of the kernel that records its release.
struct Backing(Arc<std::sync::atomic::AtomicBool>);

impl vfs::Lease for Backing {}

impl Drop for Backing {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn the_kernels_lease_ends_with_its_oplock() {
    let (mut oplocks, told) = (Oplocks::default(), Arc::new(Breaks::default()));
    let given_up = Arc::default();
    let lease = |given_up: &Arc<_>| Box::new(Backing(Arc::clone(given_up)));
    let free = |given_up: &Arc<std::sync::atomic::AtomicBool>| given_up.load(std::sync::atomic::Ordering::Relaxed);
    // The kernel cannot back level II.
    let granted = oplocks.grant_backed(1, II, circumstances(true, true), told.clone(), lease(&given_up));
    assert_eq!((granted, free(&given_up)), (NONE, true));
    let given_up = Arc::default();
    let granted = oplocks.grant_backed(1, BATCH, circumstances(true, true), told.clone(), lease(&given_up));
    assert_eq!(granted, BATCH);
    assert_eq!(oplocks.open_locally(2, NOW), None, "the lease of another open");
    assert_eq!(oplocks.open_locally(1, NOW), Some(NOW + ACKNOWLEDGMENT_TIME));
    told.check(&[NONE]);
    assert_eq!(oplocks.open_locally(1, NOW + ACKNOWLEDGMENT_TIME), Some(NOW + ACKNOWLEDGMENT_TIME), "notified once");
    told.check(&[]);
    assert!(!free(&given_up));
    assert_eq!(oplocks.acknowledge(1, II), Ok(NONE));
    assert!(free(&given_up));
    // Broken by another client rather than by a local program.
    let given_up = Arc::default();
    oplocks.grant_backed(1, EXCLUSIVE, circumstances(true, true), told.clone(), lease(&given_up));
    assert!(oplocks.open(opening(false), false).is_some());
    told.check(&[NONE]);
    oplocks.expire(NOW + ACKNOWLEDGMENT_TIME);
    assert!(free(&given_up));
}
