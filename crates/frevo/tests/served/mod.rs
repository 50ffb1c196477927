//! Runs `frevo serve` on a new directory, for tests of the built program.
//!
//! A server binds any free port and names it in its log, so that no other program can take the port in between.

#![allow(dead_code, reason = "not every test uses everything")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
    let mut command = Command::new(env!("CARGO_BIN_EXE_frevo"));
    command.arg("serve").arg(&share).arg("--state-dir").arg(directory.path().join(state)).stdout(Stdio::piped());
    let (mut process, port) = start(&mut command, &directory.path().join("log"));
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

/// Starts a server on any port of 127.0.0.1, with its log in the file `log`. Returns the process and the port.
pub(crate) fn start(command: &mut Command, log: &Path) -> (Child, u16) {
    command.args(["--bind", "127.0.0.1", "--port", "0", "--log-level", "info"]);
    let mut process = command.stderr(File::create(log).expect("a log")).spawn().expect("frevo starts");
    loop {
        let text = std::fs::read_to_string(log).expect("a log");
        if let Some(port) = text.split_inclusive('\n').find_map(port_of) {
            return (process, port);
        }
        assert!(process.try_wait().expect("a child").is_none(), "frevo ended:\n{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the port in the complete line of the log that names an address on which the server listens.
fn port_of(line: &str) -> Option<u16> {
    let (_, port) = line.strip_suffix('\n')?.split_once("listening address=127.0.0.1:")?;
    port.parse().ok()
}
