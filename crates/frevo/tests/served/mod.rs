//! Runs `frevo serve` on a new directory, for tests of the built program.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use client::{Credentials, Options};

/// A server that is killed at the end of the test.
pub(crate) struct Served {
    /// The server process.
    pub(crate) process: Child,
    /// The port on which it listens.
    pub(crate) port: u16,
    /// Client options with its user.
    pub(crate) options: Options,
    /// Contains its share, `share`, and its state directory, `state`.
    #[allow(dead_code, reason = "not every test starts the server again")]
    pub(crate) directory: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts `frevo serve` on a new directory, with the account that it creates.
pub(crate) fn serve() -> Served {
    serve_in("state")
}

/// Same as [`serve`] with another path of the state directory below [`Served::directory`].
pub(crate) fn serve_in(state: &str) -> Served {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let share = directory.path().join("share");
    std::fs::create_dir(&share).expect("a directory to share");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let mut process = Command::new(env!("CARGO_BIN_EXE_frevo"))
        .arg("serve")
        .arg(&share)
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--log-level", "1", "--state-dir"])
        .arg(directory.path().join(state))
        .stdout(Stdio::piped())
        .spawn()
        .expect("frevo starts");
    // Reads to the end of the text, so that the server is not blocked while writing it.
    let text = BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let lines: Vec<String> = text.take_while(|line| !line.starts_with("More accounts")).collect();
    let word = |label: &str| {
        let line = lines.iter().find(|line| line.trim_start().starts_with(label));
        line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_default().to_string()
    };
    let (user, password) = (word("User"), word("Password"));
    let options = Options { credentials: Credentials::password(&user, &password), ..Options::default() };
    Served { process, port, options, directory }
}
