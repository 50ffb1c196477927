//! The built program as a service: its notifications, and sockets that it is given.

mod served;

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Client, Credentials, Options};

/// A server that is killed at the end of the test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(process, signal).expect("the server runs");
    }
}

/// Writes a configuration with a share for guests. Returns a command that serves it.
fn configure(directory: &Path) -> Command {
    let (share, state) = (directory.join("files"), directory.join("state"));
    std::fs::create_dir(&share).expect("a directory to share");
    let text = format!(
        "[global]\nmap to guest = bad user\nguest account = root\nstate directory = {}\n\
         [files]\npath = {}\nguest ok = yes\n",
        state.display(),
        share.display()
    );
    std::fs::write(directory.join("smb.conf"), text).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_frevo"));
    command.arg("serve").arg("-c").arg(directory.join("smb.conf"));
    command
}

fn receive(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = manager.recv(&mut buffer).expect("a message of the server");
    String::from_utf8(buffer[..length].to_vec()).expect("UTF-8")
}

/// Skips messages until one begins with `start`.
fn wait_for(manager: &UnixDatagram, start: &str) -> String {
    loop {
        let message = receive(manager);
        if message.starts_with(start) {
            return message;
        }
    }
}

#[test]
fn the_service_manager_learns_of_start_reload_and_stop_in_the_sandbox() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = format!("frevo-test-service-{}", std::process::id());
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("a socket");
    // A server that says nothing must not block the test.
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut command = configure(directory.path());
    command.env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", "200000");
    let (process, port) = served::start(&mut command, &directory.path().join("log"));
    let service = Service(process);
    assert!(wait_for(&manager, "READY=1").contains("STATUS=serving; 1 shares"), "READY=1 has the status");
    std::net::TcpStream::connect(("127.0.0.1", port)).expect("a server that is ready listens");
    // The sandbox is closed by now, and the reports continue.
    assert!(std::fs::read_to_string(directory.path().join("log")).expect("a log").contains("sandbox"));
    for _ in 0..3 {
        wait_for(&manager, "WATCHDOG=1");
    }
    service.signal(rustix::process::Signal::HUP);
    let reloading = wait_for(&manager, "RELOADING=1");
    assert!(reloading.contains("\nMONOTONIC_USEC="), "{reloading}");
    assert!(wait_for(&manager, "READY=1").contains("STATUS=configuration reloaded"), "the reload ends");
    std::fs::write(directory.path().join("smb.conf"), "[global\n").expect("a file");
    service.signal(rustix::process::Signal::HUP);
    wait_for(&manager, "RELOADING=1");
    let failed = wait_for(&manager, "READY=1");
    assert!(failed.contains("the previous one remains in effect"), "{failed}");
    service.signal(rustix::process::Signal::TERM);
    wait_for(&manager, "STOPPING=1");
}

#[tokio::test]
async fn sockets_of_the_service_manager_are_used_instead_of_own_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let log = std::fs::File::create(directory.path().join("log")).expect("a log");
    let frevo = configure(directory.path());
    // The shell keeps its process id when it executes the program.
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\" 3<&0 </dev/null";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh"]).arg(frevo.get_program()).args(frevo.get_args());
    // Port 1 shows that no other address is bound.
    command.args(["--port", "1"]).stdin(OwnedFd::from(listener)).stderr(log);
    let _service = Service(command.spawn().expect("frevo starts"));
    // From here on, only the server has the socket.
    drop(command);
    let options = Options { credentials: Credentials::Anonymous, ..Options::default() };
    let connected = tokio::time::timeout(
        Duration::from_secs(60),
        // The connection waits in the queue of the socket until the server accepts it.
        Client::connect(("127.0.0.1", port), "localhost", "files", &options),
    );
    match connected.await.expect("the server accepts connections") {
        Ok(_) => {}
        // Whether a guest may use this directory depends on the user of the test.
        Err(error) => assert!(error.status().is_some(), "the server answers: {error}"),
    }
}

#[test]
fn a_descriptor_that_is_not_a_listening_socket_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let frevo = configure(directory.path());
    let mut command = Command::new("/bin/sh");
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\" 3</dev/null";
    command.args(["-c", script, "sh"]).arg(frevo.get_program()).args(frevo.get_args()).args(["--port", "0"]);
    let output = command.stdout(Stdio::null()).output().expect("frevo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("descriptor 3 is not a socket"), "{said}");
}
