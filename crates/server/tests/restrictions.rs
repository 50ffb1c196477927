//! The host's restrictions on logons: when the server asks the host, what it does with the answers, and how long a
//! session of the host lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use proto::auth::ntlm::{Credentials, nt_hash};
use proto::smb2::header::Command;
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::negotiate::SecurityMode;
use proto::status::Status;
use server::answer::Answer;
use server::domain::Refused;
use server::restrictions::{HostLogon, HostSession, Restrictions};
use server::testing::{self, PASSWORD, TestClient, TestServer, ntlm_logon, status};

/// A host that admits every user unless a test changes that.
#[derive(Default)]
struct Host {
    asked: Mutex<Vec<HostLogon>>,
    /// Its answer to the next question.
    refuses: Mutex<Option<Refused>>,
    sessions: Arc<AtomicUsize>,
}

/// A session, which is counted as long as it lasts.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Restrictions for Host {
    fn check(&self, logon: HostLogon) -> Answer<Result<HostSession, Refused>> {
        let opens = logon.session.is_some();
        self.asked.lock().push(logon);
        Answer::now(match self.refuses.lock().take() {
            Some(refused) => Err(refused),
            None => Ok(opens.then(|| {
                self.sessions.fetch_add(1, Ordering::Relaxed);
                Box::new(Counted(self.sessions.clone())) as _
            })),
        })
    }
}

fn server() -> (TestServer, Arc<Host>) {
    let host = Arc::new(Host::default());
    let server = TestServer::builder().restrictions(host.clone()).start();
    (server, host)
}

fn client(server: &TestServer) -> TestClient {
    let mut client = TestClient::new(server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    client
}

#[test]
fn the_host_is_asked_after_the_password_and_decides() {
    let (server, host) = server();
    let check = |user: &str, password: &str, refuses: Option<Refused>, expected: Status, asked: usize| {
        *host.refuses.lock() = refuses;
        let mut client = client(&server);
        assert_eq!(client.log_on(user, password, 0), expected, "{user}");
        client.disconnect();
        assert_eq!(host.asked.lock().len(), asked, "{user}");
    };
    check("alice", "wrong", None, Status::LOGON_FAILURE, 0);
    check("carol", PASSWORD, None, Status::ACCOUNT_DISABLED, 0);
    check("alice", PASSWORD, None, Status::SUCCESS, 1);
    let expired = Refused::Because(Status::ACCOUNT_EXPIRED);
    check("alice", PASSWORD, Some(expired), Status::ACCOUNT_EXPIRED, 2);
    let hangs = Refused::Unavailable("a module hangs".into());
    check("alice", PASSWORD, Some(hangs), Status::NO_LOGON_SERVERS, 3);
    assert_eq!(host.sessions.load(Ordering::Relaxed), 0, "the connections have ended");
    assert_eq!(client(&server).log_on_anonymously(), Status::SUCCESS);
    assert_eq!(host.asked.lock().len(), 3, "anonymous users are not users of the host");
}

#[test]
fn a_session_of_the_host_lasts_as_long_as_that_of_the_client() {
    let (server, host) = server();
    let open = || host.sessions.load(Ordering::Relaxed);
    let mut first = client(&server);
    assert_eq!((first.log_on("alice", PASSWORD, 0), open()), (Status::SUCCESS, 1));
    // The same session once more: the account is checked, and no other session begins.
    let credentials = Credentials { user: "alice".into(), domain: String::new(), nt_hash: nt_hash(PASSWORD) };
    let (response, _) = ntlm_logon(Some(credentials), |token| {
        let message = first.compose_session_setup(token, SecurityMode::SIGNING_ENABLED, 0);
        let frames = first.send(&message);
        first.finish(frames).expect("an answer")
    });
    assert_eq!((status(&response), open()), (Status::SUCCESS, 1));
    let sessions: Vec<bool> = host.asked.lock().iter().map(|logon| logon.session.is_some()).collect();
    assert_eq!(sessions, [true, false]);
    let mut second = client(&server);
    assert_eq!((second.log_on("alice", PASSWORD, 0), open()), (Status::SUCCESS, 2));
    first.request(Command::LOGOFF, |writer| LogoffRequest.encode(writer));
    assert_eq!(open(), 1, "a logoff ends it");
    second.disconnect();
    assert_eq!(open(), 0, "so does the end of the connection");
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
