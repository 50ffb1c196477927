//! `log level = auth_audit:3`: the record of logons and of the ends of sessions.

use std::sync::Arc;
use std::time::Duration;

use proto::smb2::header::Command;
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::negotiate::{Dialect, SecurityMode};
use proto::status::Status;
use server::audit::{Destinations, Event, Logon, LogonEvent, Queue};
use server::policy::audit::{Destination, LogonAudit};
use server::policy::{Guest, MapToGuest, Policy};
use server::testing::{self, ManualClock, TestClient, TestServer};
use server::vfs::Identity;

/// One queue for all destinations, which the test reads.
#[derive(Default)]
struct Events(Arc<Queue>);

impl Destinations for Events {
    fn queue(&self, _: &Destination) -> Arc<Queue> {
        Arc::clone(&self.0)
    }
}

struct Fixture {
    server: TestServer,
    events: Arc<Queue>,
}

impl Fixture {
    fn new(level: u8) -> Fixture {
        Fixture::with_policy(level, |_| ())
    }

    fn with_policy(level: u8, change: impl FnOnce(&mut Policy)) -> Fixture {
        let events = Arc::<Queue>::default();
        let builder = TestServer::builder().clock(ManualClock::ticking()).audit(Arc::new(Events(Arc::clone(&events))));
        let sinks = if level > 0 { vec![(Destination::Log, level)] } else { Vec::new() };
        let server = builder
            .configure(|policy| {
                policy.logon_audit = LogonAudit { sinks };
                change(policy);
            })
            .start();
        Fixture { server, events }
    }

    /// Logs on, and returns the client.
    fn log_on(&self, user: &str, password: &str) -> (TestClient, Status) {
        let mut client = TestClient::new(&self.server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        let status = client.log_on(user, password, 0);
        (client, status)
    }

    /// Returns the events since the last call.
    fn events(&self) -> Vec<Logon> {
        let batch = self.events.next(Duration::ZERO);
        self.events.written(batch.events.len(), 0);
        let of_logon = |event| match event {
            Event::Logon(logon) => *logon,
            other => panic!("{other}"),
        };
        batch.events.into_iter().map(of_logon).collect()
    }

    #[track_caller]
    fn event(&self) -> Logon {
        let events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.into_iter().next().expect("an event")
    }
}

#[test]
fn a_logon_and_its_end_are_recorded() {
    let fixture = Fixture::new(3);
    let (mut client, status) = fixture.log_on("alice", testing::PASSWORD);
    assert_eq!(status, Status::SUCCESS);
    let logon = fixture.event();
    assert_eq!((logon.event, logon.status, logon.method), (LogonEvent::Logon, Status::SUCCESS, "NTLMv2"));
    assert_eq!((logon.sent.user.as_str(), logon.dialect), ("alice", Dialect::SMB_2_1));
    let became = logon.became.expect("a user");
    assert_eq!((became.name.as_str(), became.kind), ("alice", "user"));
    assert!(became.sid.starts_with("S-1-"), "{became:?}");
    client.request(Command::LOGOFF, |out| LogoffRequest.encode(out));
    let ended = fixture.event();
    assert_eq!((ended.event, ended.session, ended.became), (LogonEvent::Logoff, logon.session, Some(became)));
    // A lost connection ends a session too.
    let (client, _) = fixture.log_on("alice", testing::PASSWORD);
    client.disconnect();
    let events: Vec<_> = fixture.events().into_iter().map(|event| event.event).collect();
    assert_eq!(events, [LogonEvent::Logon, LogonEvent::Logoff]);
}

#[test]
fn a_refused_logon_has_its_cause_and_the_names_that_were_sent() {
    let fixture = Fixture::new(2);
    for (user, cause) in [("alice", Status::WRONG_PASSWORD), ("nobody here", Status::NO_SUCH_USER)] {
        let (client, status) = fixture.log_on(user, "wrong");
        // The client does not learn which of them it is.
        assert_eq!(status, Status::LOGON_FAILURE);
        let logon = fixture.event();
        assert_eq!((logon.status, logon.sent.user.as_str(), logon.became), (cause, user, None));
        client.disconnect();
        assert!(fixture.events().is_empty(), "a session that never had a user has no end");
    }
    let (_client, _) = fixture.log_on("x] remote host [ipv4:192.0.2.1:1]\n", "wrong");
    let line = fixture.event().to_string();
    assert_eq!((line.matches("remote host [").count(), line.lines().count()), (1, 1), "{line}");
    // Logons that succeed are of a higher level.
    let (_client, status) = fixture.log_on("alice", testing::PASSWORD);
    assert_eq!((status, fixture.events().len()), (Status::SUCCESS, 0));
}

#[test]
fn a_wrong_password_is_recorded_although_the_client_becomes_a_guest() {
    let identity = Arc::new(Identity { uid: 1000, gid: 1000, groups: Box::new([]) });
    let guest = Some(Guest { name: "nobody".into(), identity });
    let fixture = Fixture::with_policy(3, |policy| {
        (policy.map_to_guest, policy.guest) = (MapToGuest::BadPassword, guest);
    });
    let (_client, status) = fixture.log_on("alice", "wrong");
    assert_eq!(status, Status::SUCCESS);
    let events: Vec<_> = fixture
        .events()
        .into_iter()
        .map(|logon| (logon.status, logon.sent.user, logon.became.map(|became| became.kind)))
        .collect();
    let alice = || "alice".to_owned();
    let expected = [(Status::WRONG_PASSWORD, alice(), None), (Status::SUCCESS, alice(), Some("guest"))];
    assert_eq!(events, expected);
}

#[test]
fn nothing_is_recorded_without_the_class() {
    let fixture = Fixture::new(0);
    let (client, _) = fixture.log_on("alice", testing::PASSWORD);
    client.disconnect();
    fixture.log_on("alice", "wrong");
    assert!(fixture.events().is_empty());
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
