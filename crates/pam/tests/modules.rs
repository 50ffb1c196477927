//! A helper with the host's libpam and service files of the test. There is one test, because the helper is forked from
//! a process in which no other thread works.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pam::{Helper, Pam, Settings};
use proto::status::Status;
use server::domain::Refused;
use server::restrictions::{HostLogon, Restrictions};

const LIMIT: Duration = Duration::from_secs(5);
/// How long a test waits for what happens in any case.
const PATIENCE: Duration = Duration::from_secs(60);

/// Codes that `pam_debug` returns, and the status that Samba 4.17 answers for each.
const CODES: &[(&str, Status)] = &[
    ("success", Status::SUCCESS),
    ("open_err", Status::UNSUCCESSFUL),
    ("symbol_err", Status::UNSUCCESSFUL),
    ("service_err", Status::UNSUCCESSFUL),
    ("system_err", Status::UNSUCCESSFUL),
    ("buf_err", Status::NO_MEMORY),
    ("perm_denied", Status::ACCESS_DENIED),
    ("auth_err", Status::LOGON_FAILURE),
    ("cred_insufficient", Status::INSUFFICIENT_LOGON_INFO),
    ("authinfo_unavail", Status::LOGON_FAILURE),
    ("user_unknown", Status::LOGON_FAILURE),
    ("maxtries", Status::REMOTE_SESSION_LIMIT),
    ("new_authtok_reqd", Status::PASSWORD_MUST_CHANGE),
    ("acct_expired", Status::ACCOUNT_EXPIRED),
    ("session_err", Status::INSUFFICIENT_RESOURCES),
    ("cred_unavail", Status::NO_TOKEN),
    ("cred_expired", Status::PASSWORD_EXPIRED),
    ("cred_err", Status::UNSUCCESSFUL),
    ("authtok_err", Status::UNSUCCESSFUL),
    ("try_again", Status::UNSUCCESSFUL),
    ("ignore", Status::ACCESS_DENIED),
    ("abort", Status::UNSUCCESSFUL),
    ("authtok_expired", Status::PASSWORD_EXPIRED),
    ("module_unknown", Status::UNSUCCESSFUL),
];

struct Host<'d> {
    directory: &'d Path,
    pam: Pam,
}

impl Host<'_> {
    /// Writes the file of the service.
    fn service(&self, lines: &str) {
        std::fs::write(self.directory.join("samba"), lines).expect("a file");
    }

    /// Writes a script that `pam_exec` can execute, and returns its path.
    fn script(&self, text: &str) -> String {
        let path = self.directory.join("script");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its owner may");
        path.display().to_string()
    }

    async fn log_on(&self, session: Option<u64>) -> Result<Option<Box<dyn Any + Send + Sync>>, Refused> {
        self.log_on_as(rustix::process::getuid().as_raw(), session).await
    }

    async fn log_on_as(&self, uid: u32, session: Option<u64>) -> Result<Option<Box<dyn Any + Send + Sync>>, Refused> {
        let client = IpAddr::from(Ipv4Addr::new(192, 0, 2, 7));
        self.pam.check(HostLogon { name: "Somebody".into(), uid, client, session }).await
    }

    async fn status(&self, session: Option<u64>) -> Status {
        match self.log_on(session).await {
            Ok(_) => Status::SUCCESS,
            Err(Refused::Because(status)) => status,
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn unavailable<T>(outcome: Result<T, Refused>) -> String {
    match outcome {
        Err(Refused::Unavailable(why)) => why,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("admitted"),
    }
}

#[test]
fn the_modules_of_the_host_decide() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = Settings { directory: Some(directory.path().to_owned()), limit: LIMIT, ..Settings::default() };
    let helper = Helper::start(&settings).expect("a process");
    assert_eq!(helper.absent(), None);
    let absent = Settings { library: "libfrevo_no_such.so.9".into(), ..Settings::default() };
    let absent = Helper::start(&absent).expect("a process");
    assert!(absent.absent().is_some_and(|why| why.contains("libfrevo_no_such.so.9")), "{:?}", absent.absent());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        let host = Host { directory: directory.path(), pam: Pam::new(absent).expect("a socket") };
        assert!(unavailable(host.log_on(None).await).contains("libpam0g"));
        let host = Host { directory: directory.path(), pam: Pam::new(helper).expect("a socket") };
        codes(&host).await;
        texts(&host).await;
        hanging(&host).await;
        crashing(&host).await;
        sessions(host).await;
    });
}

async fn codes(host: &Host<'_>) {
    for (code, expected) in CODES {
        host.service(&format!("account required pam_debug.so acct={code}\nsession required pam_deny.so\n"));
        assert_eq!(host.status(None).await, *expected, "{code}");
    }
    host.service("account required pam_permit.so\nsession required pam_deny.so\n");
    assert_eq!(host.status(Some(1)).await, Status::LOGON_FAILURE);
    host.service("account required pam_succeed_if.so uid = 4294967294\n");
    assert_eq!(host.status(None).await, Status::LOGON_FAILURE);
    // Neither the service nor `other` has a file.
    std::fs::remove_file(host.directory.join("samba")).expect("it is there");
    assert_eq!(host.status(None).await, Status::ACCOUNT_DISABLED);
    std::fs::write(host.directory.join("other"), "account required pam_permit.so\n").expect("a file");
    assert_eq!(host.status(None).await, Status::SUCCESS);
    match host.log_on_as(4_294_000_000, None).await {
        Err(Refused::Because(Status::LOGON_FAILURE)) => {}
        other => panic!("a uid without a user: {}", other.is_ok()),
    }
}

async fn sessions(host: Host<'_>) {
    let log = host.directory.join("log");
    let script =
        host.script(&format!("echo $PAM_USER $PAM_RHOST $PAM_SERVICE $PAM_TYPE $PAM_TTY >> {}", log.display()));
    host.service(&format!("account required pam_exec.so {script}\nsession required pam_exec.so {script}\n"));
    let user = std::process::Command::new("id").arg("-un").output().expect("it runs").stdout;
    let user = String::from_utf8(user).expect("a name").trim().to_owned();
    let line = |event: &str| format!("{user} 192.0.2.7 samba {event}\n");
    assert!(host.log_on(None).await.expect("admitted").is_none());
    let mut expected = line("account samba");
    wait_for(&log, &expected).await;
    let session = host.log_on(Some(7)).await.expect("admitted").expect("a session");
    expected += &(line("account samba") + &line("open_session smb/7"));
    wait_for(&log, &expected).await;
    drop(session);
    expected += &line("close_session smb/7");
    wait_for(&log, &expected).await;
    // The helper closes sessions also when the server has ended.
    let session = host.log_on(Some(8)).await.expect("admitted").expect("a session");
    let Host { directory, pam } = host;
    drop((pam, session));
    expected += &(line("account samba") + &line("open_session smb/8") + &line("close_session smb/8"));
    wait_for(&directory.join("log"), &expected).await;
}

/// Waits until the file has this content.
async fn wait_for(file: &Path, expected: &str) {
    let since = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text == expected {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{text:?}, not {expected:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn texts(host: &Host<'_>) {
    std::fs::write(host.directory.join("text"), "hello").expect("a file");
    let echo = format!("pam_echo.so file={}", host.directory.join("text").display());
    host.service(&format!("account optional {echo}\naccount required pam_permit.so\n"));
    assert_eq!(host.status(None).await, Status::SUCCESS);
}

async fn hanging(host: &Host<'_>) {
    let own = rustix::process::getuid().as_raw();
    let script = host.script("exec sleep 1000");
    let is_other = format!("account [success=1 default=ignore] pam_succeed_if.so quiet uid != {own}\n");
    host.service(&format!("{is_other}account required pam_exec.so {script}\naccount required pam_permit.so\n"));
    // More logons than the modules examine at a time.
    let hung: Vec<_> = (0..40)
        .map(|_| {
            let client = IpAddr::from(Ipv4Addr::LOCALHOST);
            tokio::spawn(host.pam.check(HostLogon { name: "x".into(), uid: own, client, session: None }))
        })
        .collect();
    let other = if own == 1 { 0 } else { 1 };
    host.log_on_as(other, None).await.map(drop).expect("another user can log on");
    assert!(hung.iter().all(|logon| !logon.is_finished()), "another user can log on while these wait");
    for logon in hung {
        let why = unavailable(logon.await.expect("no panic"));
        assert!(why.contains("have not answered within 5 seconds"), "{why}");
    }
    host.service("account required pam_permit.so\n");
    assert_eq!(host.status(None).await, Status::SUCCESS, "the processes that hung are killed");
}

/// A module that kills its process.
async fn crashing(host: &Host<'_>) {
    let script = host.script("kill -9 $PPID");
    host.service(&format!("account required pam_exec.so {script}\n"));
    assert!(unavailable(host.log_on(None).await).contains("crashed"));
    host.service("account required pam_permit.so\n");
    assert_eq!(host.status(None).await, Status::SUCCESS);
}
