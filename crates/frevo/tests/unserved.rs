//! Clients' view of shares that are not served, or not always, with the built program and the project's own client.

mod served;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Client, Credentials, Open, Options};
use proto::status::Status;

/// A server that is killed at the end of the test.
struct Server(Child);

impl Server {
    fn reload(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("the server is there");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn frevo(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frevo"));
    command.args(words).arg("-c").arg(directory.join("smb.conf"));
    command
}

/// Writes a configuration with a share whose `path` is a path in CephFS, and a correct share.
fn configure(directory: &Path, of_volume: &str, of_files: &str) {
    let (path, state) = (directory.join("files"), directory.join("state"));
    let text = format!(
        "[global]\nstate directory = {}\n[volume]\npath = /\nread only = no\nguest ok = yes\n\
         ceph:config_file = /etc/ceph.conf\nkernel share modes = no\n{of_volume}\n[files]\npath = {}\n{of_files}\n",
        state.display(),
        path.display()
    );
    std::fs::write(directory.join("smb.conf"), text).expect("a file");
}

/// Returns the name of the user of this process.
fn own_name() -> String {
    let name = String::from_utf8(Command::new("id").arg("-un").output().expect("it runs").stdout).expect("a name");
    name.trim().to_owned()
}

/// Adds an account for the user of this process, so no other user is needed.
fn add_account(directory: &Path) -> Credentials {
    let user = own_name();
    let mut add = frevo(directory, &["user", "add", &user, "--password-stdin"]);
    let mut add = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    std::io::Write::write_all(&mut add.stdin.take().expect("a pipe"), b"secret-1\n").expect("it reads");
    assert!(add.wait().expect("it ends").success());
    Credentials::password(&user, "secret-1")
}

async fn connect(port: u16, share: &str, credentials: &Credentials) -> client::Result<Client> {
    let options = Options { credentials: credentials.clone(), ..Options::default() };
    Client::connect(("127.0.0.1", port), "localhost", share, &options).await
}

/// Returns the status with which the share is refused, or success if its root directory can be opened.
async fn answer(port: u16, share: &str, credentials: &Credentials) -> Status {
    match connect(port, share, credentials).await {
        Err(error) => error.status().unwrap_or_else(|| panic!("{share}: {error}")),
        Ok(mut client) => match client.open(&Open::directory("")).await {
            Ok(_) => Status::SUCCESS,
            Err(error) => error.status().unwrap_or_else(|| panic!("{share}: {error}")),
        },
    }
}

/// Waits for this answer, which a reload causes.
async fn until(port: u16, share: &str, credentials: &Credentials, status: Status) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while answer(port, share, credentials).await != status {
        assert!(std::time::Instant::now() < end, "the answer for {share} is not {status:?} after a reload");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_share_with_foreign_storage_shows_no_files_of_the_host() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("files")).expect("a directory");
    configure(directory.path(), "vfs objects = ceph", "");
    let check = frevo(directory.path(), &["check"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&[check.stdout, check.stderr].concat()).into_owned();
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert!(said.contains("error: the share [volume] is not served") && said.contains("the server starts"), "{said}");
    let me = add_account(directory.path());
    let log = directory.path().join("log");
    let (process, port) = served::start(frevo(directory.path(), &["serve"]).stdout(Stdio::null()), &log);
    let server = Server(process);
    assert_eq!(answer(port, "volume", &me).await, Status::BAD_NETWORK_NAME);
    assert_eq!(answer(port, "files", &me).await, Status::SUCCESS);
    let logged = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(logged.lines().filter(|line| line.contains("[volume] is not served")).count(), 1, "{logged}");
    assert!(logged.contains("ERROR"), "{logged}");

    // A reload decides again, and a share may be served again if the administrator allows it.
    let reload = || server.reload();
    configure(directory.path(), "vfs objects = ceph\nfrevo:without = ceph", "vfs objects = extd_audit");
    reload();
    until(port, "files", &me, Status::BAD_NETWORK_NAME).await;
    assert_eq!(answer(port, "volume", &me).await, Status::SUCCESS);
    configure(directory.path(), "vfs objects = ceph", "");
    reload();
    until(port, "files", &me, Status::SUCCESS).await;
    assert_eq!(answer(port, "volume", &me).await, Status::BAD_NETWORK_NAME);
}

#[tokio::test]
async fn a_share_with_an_error_is_not_served_or_keeps_its_version() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    std::fs::create_dir(path.join("files")).expect("a directory");
    let configure = |global: &str, of_faulty: &str| {
        let (state, files) = (path.join("state"), path.join("files"));
        let (state, files) = (state.display(), files.display());
        let text = format!(
            "state directory = {state}\n[global]\n{global}\n[files]\npath = {files}\n\
             [faulty]\npath = {files}\n{of_faulty}\n"
        );
        std::fs::write(path.join("smb.conf"), text).expect("a file");
    };
    configure("", "read only = perhaps");
    let check = frevo(path, &["check"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&[check.stdout, check.stderr].concat()).into_owned();
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert!(said.contains("error: the share [faulty] is not served: `perhaps`"), "{said}");
    let me = add_account(path);
    let log = path.join("log");
    let (process, port) = served::start(frevo(path, &["serve"]).stdout(Stdio::null()), &log);
    let server = Server(process);
    assert_eq!(answer(port, "faulty", &me).await, Status::BAD_NETWORK_NAME);
    assert_eq!(answer(port, "files", &me).await, Status::SUCCESS);
    let logged = || std::fs::read_to_string(&log).expect("a log");
    assert!(
        logged().lines().any(|line| line.contains("ERROR") && line.contains("[faulty] is not served")),
        "{}",
        logged()
    );
    // Waits for the line about the reload.
    let reload = async |message: &str| {
        let before = logged().matches(message).count();
        server.reload();
        while logged().matches(message).count() == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    configure("", "");
    reload("configuration reloaded, 2 shares").await;
    assert_eq!(answer(port, "faulty", &me).await, Status::SUCCESS);
    configure("", "read only = perhaps");
    reload("2 shares; with their previous versions, because of errors: [faulty]").await;
    assert_eq!(answer(port, "faulty", &me).await, Status::SUCCESS);
    configure("hosts deny 127.", "available = no");
    reload("cannot reload the configuration").await;
    assert_eq!(answer(port, "faulty", &me).await, Status::SUCCESS);
    configure("", "available = no");
    reload("configuration reloaded, 2 shares").await;
    assert_eq!(answer(port, "faulty", &me).await, Status::BAD_NETWORK_NAME);
}

#[tokio::test]
async fn shares_of_users_and_of_sessions_appear_without_a_reload() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    for name in ["files", "shares"] {
        std::fs::create_dir(path.join(name)).expect("a directory");
    }
    let shares = path.join("shares");
    std::fs::set_permissions(&shares, std::fs::Permissions::from_mode(0o1770)).expect("permissions");
    let text = format!(
        "[global]\nstate directory = {0}/state\nusershare path = {0}/shares\ninclude = {0}/of-%U\n\
         [files]\npath = {0}/files\n",
        path.display()
    );
    std::fs::write(path.join("smb.conf"), text).expect("a file");
    let me = add_account(path);
    let (process, port) = served::start(frevo(path, &["serve"]).stdout(Stdio::null()), &path.join("log"));
    let _server = Server(process);
    assert_eq!(answer(port, "music", &me).await, Status::BAD_NETWORK_NAME);
    assert_eq!(answer(port, "mine", &me).await, Status::BAD_NETWORK_NAME);
    let user_share =
        format!("#VERSION 2\npath={}/files\ncomment=\nusershare_acl=S-1-1-0:F\nguest_ok=n\n", path.display());
    std::fs::write(shares.join("music"), user_share).expect("a file");
    assert_eq!(answer(port, "music", &me).await, Status::SUCCESS);
    let of_me = format!("[mine]\npath = {}/files\n", path.display());
    std::fs::write(path.join(format!("of-{}", own_name())), of_me).expect("a file");
    assert_eq!(answer(port, "mine", &me).await, Status::SUCCESS);
    assert_eq!(answer(port, "files", &me).await, Status::SUCCESS);
}
