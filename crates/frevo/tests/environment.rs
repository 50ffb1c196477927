//! A server that is configured by environment variables, as in a container.

mod served;

use std::path::Path;
use std::process::{Child, Command};

use client::{Client, Credentials, Options};

/// A server that is killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The account. Accounts of a server that runs as root need a UNIX user.
const USER: &str = "root";

fn start(directory: &Path, log: &str) -> (Server, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frevo"));
    command.arg("serve");
    command.env("FREVO_SHARE", format!("files={}", directory.join("files").display()));
    command.env("FREVO_USER", USER).env("FREVO_PASSWORD_FILE", directory.join("password"));
    command.env("FREVO_STATE_DIR", directory.join("state"));
    let (process, port) = served::start(&mut command, &directory.join(log));
    (Server(process), port)
}

async fn log_on(port: u16, password: &str) -> client::Result<Client> {
    let options = Options { credentials: Credentials::password(USER, password), ..Options::default() };
    Client::connect(("127.0.0.1", port), "localhost", "files", &options).await
}

#[tokio::test]
async fn the_account_has_the_password_of_the_file_also_after_a_change() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("files")).expect("a directory to share");
    std::fs::write(directory.path().join("password"), "first secret\n").expect("a file");
    {
        let (_server, port) = start(directory.path(), "log");
        log_on(port, "first secret").await.expect("a logon");
        assert!(log_on(port, "second secret").await.is_err(), "a wrong password");
        let mut status = Command::new(env!("CARGO_BIN_EXE_frevo"));
        status.arg("status").env("FREVO_STATE_DIR", directory.path().join("state"));
        assert!(status.output().expect("frevo starts").status.success(), "the health check of the container");
    }
    std::fs::write(directory.path().join("password"), "second secret").expect("a file");
    let (_server, port) = start(directory.path(), "log2");
    log_on(port, "second secret").await.expect("a logon");
    assert!(log_on(port, "first secret").await.is_err(), "the former password");
}

#[test]
fn a_user_without_a_password_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_frevo"));
    command.args(["serve", "--port", "0"]).arg(directory.path());
    command.env("FREVO_USER", USER).env("FREVO_STATE_DIR", directory.path().join("state"));
    let output = command.output().expect("frevo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("FREVO_PASSWORD_FILE"), "{said}");
}
