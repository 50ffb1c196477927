//! The calls that the sandbox denies, and the threads to which it denies them: in this process, and in a server with a
//! loaded library.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use frevo::sandbox::{self, Sandbox, State};
use localfs::{LocalFs, Options};
use rustix::thread::CapabilitySet;
use server::vfs::{Access, Errno, Identity, Lookup, LookupOptions, Op, RelPath, SymlinkPolicy, Vfs};
use smbconf::Confinement;

/// Set in the process in which the sandbox is closed.
const INSIDE: &str = "FREVO_SANDBOX_TEST";

/// The maximum capabilities of a confined server.
const KEPT: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LEASE);

/// Calls that must fail with EPERM. With all arguments -1, none of them has an effect if it is allowed.
#[rustfmt::skip]
const DENIED: &[(&str, libc::c_long)] = &[
    ("execve", libc::SYS_execve), ("execveat", libc::SYS_execveat), ("ptrace", libc::SYS_ptrace),
    ("process_vm_readv", libc::SYS_process_vm_readv), ("process_vm_writev", libc::SYS_process_vm_writev),
    ("pidfd_getfd", libc::SYS_pidfd_getfd), ("mount", libc::SYS_mount), ("umount2", libc::SYS_umount2),
    ("move_mount", libc::SYS_move_mount), ("fsopen", libc::SYS_fsopen), ("fsmount", libc::SYS_fsmount),
    ("fsconfig", libc::SYS_fsconfig), ("open_tree", libc::SYS_open_tree), ("mount_setattr", libc::SYS_mount_setattr),
    ("pivot_root", libc::SYS_pivot_root), ("chroot", libc::SYS_chroot), ("setns", libc::SYS_setns),
    ("unshare", libc::SYS_unshare), ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("mknodat", libc::SYS_mknodat), ("bpf", libc::SYS_bpf), ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter), ("io_uring_register", libc::SYS_io_uring_register),
    ("userfaultfd", libc::SYS_userfaultfd), ("perf_event_open", libc::SYS_perf_event_open),
    ("keyctl", libc::SYS_keyctl), ("add_key", libc::SYS_add_key), ("request_key", libc::SYS_request_key),
    ("personality", libc::SYS_personality), ("kexec_load", libc::SYS_kexec_load),
    ("init_module", libc::SYS_init_module), ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module), ("acct", libc::SYS_acct), ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff), ("reboot", libc::SYS_reboot), ("sethostname", libc::SYS_sethostname),
    ("setdomainname", libc::SYS_setdomainname), ("settimeofday", libc::SYS_settimeofday),
    ("clock_settime", libc::SYS_clock_settime), ("fanotify_init", libc::SYS_fanotify_init),
];

/// Makes a call and returns its error, or 0.
fn errno_of(call: libc::c_long, arguments: [libc::c_long; 4]) -> i32 {
    let [a, b, c, d] = arguments;
    // SAFETY: no argument used by this test is a valid address, so the kernel does not write to memory.
    match unsafe { libc::syscall(call, a, b, c, d, -1, -1) } {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the calls of this thread that are wrongly allowed or wrongly denied.
fn faults() -> Vec<String> {
    assert!(rustix::thread::no_new_privs().expect("a thread setting"), "the calls are harmless only in the sandbox");
    let mut faults = Vec::new();
    let mut check = |name: &str, call, arguments, expected| {
        let errno = errno_of(call, arguments);
        if errno != expected {
            faults.push(format!("{name}: {errno}"));
        }
    };
    for (name, call) in DENIED {
        check(name, *call, [-1; 4], libc::EPERM);
    }
    // FIFOs and sockets are permitted; the address is not valid.
    for (name, kind, errno) in [
        ("mknodat of a character device", libc::S_IFCHR, libc::EPERM),
        ("mknodat of a block device", libc::S_IFBLK, libc::EPERM),
        ("mknodat of a FIFO", libc::S_IFIFO, libc::EFAULT),
        ("mknodat of a socket", libc::S_IFSOCK, libc::EFAULT),
    ] {
        check(name, libc::SYS_mknodat, [-1, -1, kind.into(), 0], errno);
    }
    for (name, flag) in [("NEWUSER", libc::CLONE_NEWUSER), ("NEWNET", libc::CLONE_NEWNET), ("NEWNS", libc::CLONE_NEWNS)]
    {
        // Without the filter, CLONE_SIGHAND without CLONE_VM is an error, so that no process is created.
        let flags = libc::c_long::from(flag | libc::CLONE_SIGHAND);
        check(name, libc::SYS_clone, [flags, 0, 0, 0], libc::EPERM);
    }
    check("clone without a namespace", libc::SYS_clone, [libc::CLONE_SIGHAND.into(), 0, 0, 0], libc::EINVAL);
    check("clone3", libc::SYS_clone3, [-1; 4], libc::ENOSYS);
    check("a call of the future", 4000, [-1; 4], libc::ENOSYS);
    check("getpid of x32", 0x4000_0000 | libc::SYS_getpid, [0; 4], libc::ENOSYS);
    check("AF_ALG", libc::SYS_socket, [libc::AF_ALG.into(), 5, 0, 0], libc::EPERM);
    check("AF_VSOCK", libc::SYS_socket, [libc::AF_VSOCK.into(), 1, 0, 0], libc::EPERM);
    check("a socket of IPv4 on no type", libc::SYS_socket, [libc::AF_INET.into(), 4000, 0, 0], libc::EINVAL);
    check("TIOCSTI", libc::SYS_ioctl, [-1, 0x5412, 0, 0], libc::EPERM);
    check("FIONREAD", libc::SYS_ioctl, [-1, 0x541b, 0, 0], libc::EBADF);
    let run = Command::new("/bin/true").status();
    if !run.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        faults.push(format!("a program: {run:?}"));
    }
    faults
}

/// Returns the status and the permitted capabilities of all threads of a process.
fn permitted(process: &str) -> Vec<(String, CapabilitySet)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the process is there").flatten();
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let of_one = |status: String| {
        let bits = u64::from_str_radix(&field(&status, "CapPrm:"), 16).expect("hexadecimal");
        (status, CapabilitySet::from_bits_retain(bits))
    };
    statuses.map(of_one).collect()
}

fn field(status: &str, name: &str) -> String {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

#[test]
fn system_calls_that_a_file_server_never_needs_are_denied_to_every_thread() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let name = "system_calls_that_a_file_server_never_needs_are_denied_to_every_thread";
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let child = child.args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    let output = child.output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

fn inside() {
    let sandbox = Sandbox::begin(Confinement {
        wanted: true,
        describes: false,
        pam: false,
        console: false,
        print_commands: Vec::new(),
    })
    .expect("privileges are given up");
    let (go, wait) = mpsc::channel::<()>();
    let before = std::thread::spawn(move || {
        wait.recv().expect("the test sends a message");
        faults()
    });
    sandbox.close().expect("it closes");
    // The thread that runs the tests existed before and has all privileges, so it is the only one that is reported.
    let first = format!("({})", std::process::id());
    match sandbox::state() {
        State::Partly(missing) => assert!(missing.ends_with(&first) && missing.matches('(').count() == 1, "{missing}"),
        state => assert!(state == State::On && !localfs::identity::may_switch(), "{state}"),
    }
    go.send(()).expect("the thread waits");
    assert_eq!(before.join().expect("it ends"), [""; 0], "a thread started before the sandbox");
    assert_eq!(faults(), [""; 0], "the thread that closed the sandbox");
    assert_eq!(std::thread::spawn(faults).join().expect("it ends"), [""; 0], "a thread started after the sandbox");
    assert!(!localfs::identity::may_switch() || localfs::identity::gave_up_describing());
    acting_as_a_user();
    for (status, permitted) in permitted("self") {
        let is_first = field(&status, "Pid:") == std::process::id().to_string();
        assert!(is_first || KEPT.contains(permitted), "{status}");
        assert_eq!((&*field(&status, "Seccomp:"), &*field(&status, "NoNewPrivs:")), ("2", "1"), "{status}");
    }
    for capability in [CapabilitySet::SYS_ADMIN, CapabilitySet::SYS_PTRACE, CapabilitySet::NET_ADMIN] {
        if localfs::identity::may_switch() {
            assert_eq!(rustix::thread::capability_is_in_bounding_set(capability), Ok(false));
        }
    }
}

/// Checks that a user cannot open a file that only root may read, and that root can.
fn acting_as_a_user() {
    if !localfs::identity::may_switch() {
        eprintln!("does not apply: without root, every operation is the process's user's");
        return;
    }
    let links = SymlinkPolicy::default();
    let etc = LocalFs::open(Path::new("/etc"), Options { links, root: None }).expect("it is there");
    let shadow = RelPath::root().join(b"shadow").expect("a name");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let read = |uid| {
        let who = Op::from(Identity { uid, gid: uid, groups: Box::default() });
        runtime.block_on(async {
            let found = etc.lookup(&who, &shadow, LookupOptions::exact(links)).await.expect("/etc may be searched");
            let Lookup::Found { node, .. } = found else { panic!("no /etc/shadow") };
            node.open(&who, Access { read: true, write: false }).await.map(drop)
        })
    };
    assert_eq!(read(61_001), Err(Errno::ACCES));
    assert_eq!(read(0), Ok(()), "an administrator of a share");
    assert_eq!(read(61_001), Err(Errno::ACCES));
}

/// A library like those loaded by NSS. The first user lookup starts a thread. When the file `go` exists, the thread
/// misbehaves and writes the results to the file `said`.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void misbehave(FILE *said, const char *who) {
    char *argv[] = {"/nonexistent", NULL};
    execv("/nonexistent", argv);
    fprintf(said, "%s execve %d\n", who, errno);
    FILE *status = fopen("/proc/thread-self/status", "r");
    char line[256];
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "CapPrm:", 7) || !strncmp(line, "Seccomp:", 8))
            fprintf(said, "%s %s", who, line);
}

static FILE *said;
static void *later(void *unused) {
    misbehave(said, "after");
    return NULL;
}

static void *wait_and_misbehave(void *unused) {
    while (access(getenv("FREVO_TEST_GO"), F_OK))
        usleep(10000);
    said = fopen(getenv("FREVO_TEST_SAID"), "w");
    misbehave(said, "before");
    pthread_t thread;
    if (!pthread_create(&thread, NULL, later, NULL))
        pthread_join(thread, NULL);
    fprintf(said, "done\n");
    fclose(said);
    return NULL;
}

static void start(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, wait_and_misbehave, NULL);
}

int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **result) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    int (*real)(const char *, struct passwd *, char *, size_t, struct passwd **) = dlsym(RTLD_NEXT, "getpwnam_r");
    return real(name, entry, buffer, size, result);
}
"#;

/// A server that is killed at the end of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a server with this line in `[global]`. Returns what the library wrote, the statuses of the server's threads,
/// and the output of `frevo status`.
fn with_library(line: &str) -> (String, Vec<(String, CapabilitySet)>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("hook.c"), LIBRARY).expect("a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(at("hook.so")).arg(at("hook.c")).args(["-ldl", "-lpthread"]);
    assert!(compiler.status().expect("a C compiler, which the build also needs").success());
    let conf = format!("[global]\n{line}\n[x]\npath = {}\nforce user = root\n", directory.path().display());
    std::fs::write(at("smb.conf"), conf).expect("a file");
    let mut server = Command::new(env!("CARGO_BIN_EXE_frevo"));
    server.args(["serve", "--bind", "127.0.0.1", "--port", "0", "-c"]).arg(at("smb.conf"));
    server.arg("--state-dir").arg(at("state")).stdout(Stdio::null());
    server.env("LD_PRELOAD", at("hook.so")).env("FREVO_TEST_GO", at("go")).env("FREVO_TEST_SAID", at("said"));
    let mut server = Server(server.spawn().expect("it starts"));
    let wait_for = |server: &mut Server, what: &dyn Fn() -> bool| {
        while !what() {
            assert!(server.0.try_wait().expect("a child").is_none(), "the server ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for(&mut server, &|| at("state/control.sock").exists());
    std::fs::write(at("go"), "").expect("a file");
    let said = || std::fs::read_to_string(at("said")).unwrap_or_default();
    wait_for(&mut server, &|| said().ends_with("done\n"));
    let threads = permitted(&server.0.id().to_string());
    let mut status = Command::new(env!("CARGO_BIN_EXE_frevo"));
    let status = status.args(["status", "--json", "--state-dir"]).arg(at("state")).output().expect("it runs");
    (said(), threads, String::from_utf8_lossy(&status.stdout).into_owned())
}

#[test]
fn library_threads_are_in_the_sandbox() {
    let (said, threads, status) = with_library("");
    for who in ["before", "after"] {
        assert!(said.contains(&format!("{who} execve {}\n", libc::EPERM)), "{said}");
        assert!(said.contains(&format!("{who} Seccomp:\t2\n")), "{said}");
    }
    assert!(status.contains(r#""sandbox": "on""#), "{status}");
    assert!(threads.len() > 3, "the server's own threads are among them");
    for (status, permitted) in threads {
        assert!((KEPT | CapabilitySet::NET_BIND_SERVICE).contains(permitted), "{status}");
        assert_eq!((&*field(&status, "Seccomp:"), &*field(&status, "NoNewPrivs:")), ("2", "1"), "{status}");
    }
}

#[test]
fn the_sandbox_can_be_disabled() {
    let (said, _, status) = with_library("frevo:sandbox = no");
    assert!(said.contains(&format!("before execve {}\n", libc::ENOENT)), "{said}");
    assert!(said.contains("after Seccomp:\t0\n"), "{said}");
    assert!(status.contains(r#""sandbox": "off (frevo:sandbox = no)""#), "{status}");
}
