//! Tests the probe on processes that the tests start.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// A child process that is killed at the end of the test, together with its descendants.
struct Started {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

impl Started {
    fn new(command: &mut Command) -> Started {
        let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().map(BufReader::new);
        Started { child, output }
    }

    /// Starts a shell. Each `read x` in the script waits for [`Started::go_on`].
    fn shell(script: &str) -> Started {
        Started::new(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()))
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn processes(&self) -> Processes {
        Processes::of_pids(&[self.pid()]).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let group = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: kill has no memory effects; the group is the child's own, which has not been waited for.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// Uses at least some tens of milliseconds of processor time.
const BURN: &str = "burn() { i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; }";

#[test]
fn the_time_of_a_busy_child_is_measured_in_nanoseconds() {
    let mut busy = Started::shell(&format!("{BURN}; echo 1; read x; burn; echo 2; read x"));
    assert_eq!(busy.line(), "1");
    let processes = busy.processes();
    let before = processes.read().unwrap();
    busy.go_on();
    assert_eq!(busy.line(), "2");
    let after = processes.read().unwrap();
    let cost = after.since(&before);
    let clock = proc::cpu(busy.pid()).unwrap().unwrap();
    assert!(cost.cpu > 0.001 && cost.cpu <= seconds(clock), "{cost:?}");
    assert!(cost.system <= cost.cpu && cost.switches > 0, "{cost:?}");
    assert!(cost.private > 0 && cost.proportional > 0 && cost.processes == 1, "{cost:?}");
    // Since then it has only waited for a line.
    assert!(processes.read_cpu().unwrap().since(&after).cpu < cost.cpu);
}

#[test]
fn the_time_of_an_ended_child_is_kept() {
    // One child is seen while it lives, the other never.
    let script = format!(
        "{BURN}; (burn; echo 1; read x); echo 2; read x; (burn; burn; burn); echo 3; read x; (times; exit) ; read x"
    );
    let mut parent = Started::shell(&script);
    let processes = parent.processes();
    let first = processes.read().unwrap();
    assert_eq!(parent.line(), "1");
    let alive = processes.read().unwrap();
    let seen = alive.since(&first).cpu;
    assert!(seen > 0.001, "{alive:?}");
    assert_eq!(alive.processes, 2);
    parent.go_on();
    assert_eq!(parent.line(), "2");
    let ended = processes.read().unwrap();
    assert_eq!(ended.processes, 1);
    assert!(ended.since(&first).cpu >= seen, "{first:?} {alive:?} {ended:?}");
    parent.go_on();
    assert_eq!(parent.line(), "3");
    let unseen = processes.read().unwrap();
    let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
    // The second child uses three times as much as the first. The parent's value has the resolution of the clock tick.
    assert!(unseen.since(&ended).cpu > seen - 2.0 * tick, "{first:?} {alive:?} {ended:?} {unseen:?}");
}

#[test]
fn the_sum_never_decreases_while_processes_start_and_end() {
    let script = "while :; do (i=0; while [ $i -lt 300 ]; do i=$((i+1)); done; (:); (:) & (:) & wait); done";
    let churn = Started::shell(script);
    let processes = churn.processes();
    let mut last = processes.read().unwrap();
    let begin = last.clone();
    for round in 0..400 {
        let next = processes.read_cpu().unwrap();
        let (now, then) = (next.spent, last.spent);
        assert!(now.cpu >= then.cpu && now.switches >= then.switches, "round {round}: {then:?} {now:?}");
        last = next;
    }
    assert!(last.since(&begin).cpu > 0.0);
}

#[test]
fn orphans_still_belong_to_the_server() {
    let mut parent =
        Started::shell("exec 2>/dev/null; sh -c 'sh -c \"echo 1; read x; echo 2; read x\" <&3 & read x' 3<&0; read x");
    assert_eq!(parent.line(), "1");
    let processes = parent.processes();
    let before = processes.all().unwrap();
    processes.read_cpu().unwrap();
    assert_eq!(before.len(), 3, "{before:?}");
    let middle = before.iter().copied().find(|pid| {
        let stat = proc::stat(*pid).unwrap().unwrap();
        stat.parent == parent.pid()
    });
    let middle = libc::pid_t::try_from(middle.unwrap()).unwrap();
    // SAFETY: kill has no memory effects; the process was started by this test, and its parent has not waited for it.
    assert_eq!(unsafe { libc::kill(middle, libc::SIGKILL) }, 0);
    // The outer shell continues after the middle one has ended, with its own `read`. It does not matter which reads the
    // line.
    while proc::stat(middle as u32).unwrap().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(processes.all().unwrap().len(), 2);
    assert_eq!(processes.read().unwrap().processes, 2);
}

#[test]
fn open_files_are_counted() {
    let mut plain = Command::new("cat");
    let mut many = Command::new("cat");
    let open = || {
        for _ in 0..50 {
            // SAFETY: open and its string argument are safe after fork; the descriptor is left to the new program.
            if unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { many.pre_exec(open) };
    let (mut plain, mut many) = (Started::new(plain.stdin(Stdio::piped())), Started::new(many.stdin(Stdio::piped())));
    let count = |started: &mut Started| {
        // Once it answers, it runs its own program, which has none of this process's descriptors.
        started.go_on();
        assert_eq!(started.line(), "");
        let processes = started.processes();
        let descriptors = processes.descriptors().unwrap();
        assert_eq!(processes.read().unwrap().descriptors(), descriptors);
        descriptors
    };
    let (plain, many) = (count(&mut plain), count(&mut many));
    assert_eq!(many, plain + 50);
}

#[test]
fn the_holder_of_a_listener_is_found() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let port = listener.local_addr().unwrap().port();
        // This process listens, but is left out.
        assert!(Processes::listening_on(port).unwrap().is_none());
        // A shell that holds the listener, with a child that holds it too.
        let script = "exec 3<&0; sleep 1000 & echo 1; wait";
        let mut holder = Started::new(Command::new("sh").args(["-c", script]).stdin(OwnedFd::from(listener)));
        assert_eq!(holder.line(), "1");
        let found = Processes::listening_on(port).unwrap().unwrap();
        assert_eq!(found.pids(), [holder.pid()]);
    }
}

#[test]
fn the_tool_itself_is_never_measured() {
    let own = std::process::id();
    assert!(Processes::of_pids(&[own]).is_err());
    let child = Started::shell("read x");
    // The descendants of this process's parent include this process and its children.
    let processes = Processes::of_pids(&[std::os::unix::process::parent_id()]).unwrap();
    let all = processes.all().unwrap();
    assert!(!all.contains(&own) && !all.contains(&child.pid()), "{all:?}");
}

#[test]
fn a_process_of_another_user_is_refused_by_name() {
    let child = Started::shell("read x");
    let processes = child.processes();
    let refused = std::thread::spawn(move || {
        let nobody = 65_534;
        let is_root = rustix::process::geteuid().is_root();
        // SAFETY: the call changes only the user of this thread, which ends here; it is permitted as root.
        let changed = is_root && unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) } == 0;
        changed.then(|| (processes.read_cpu().map(|it| it.processes), processes.read()))
    });
    let Some((cpu, all)) = refused.join().unwrap() else { return };
    assert_eq!(cpu.unwrap(), 1);
    let error = format!("{:#}", all.unwrap_err());
    assert!(error.contains("run as root") && error.contains(&child.pid().to_string()), "{error}");
}

#[test]
fn a_missing_process_is_named() {
    let error = Processes::of_pids(&[1 << 30]).err().unwrap().to_string();
    assert!(error.contains("1073741824"), "{error}");
}

/// Requires that strace can trace, if it is installed.
#[test]
fn system_calls_of_all_processes_are_counted() {
    let is_there = Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        return;
    }
    // Processes from before tracing, and from while it runs: an existing child, and one that is started then.
    let script = "(echo 1; read x; cd /; cd /; echo 2; read x); (cd /; echo 3; read x); echo 4; read x";
    let mut server = Started::shell(script);
    assert_eq!(server.line(), "1");
    let processes = server.processes();
    let tracer = Syscalls::attach(&processes).expect("strace is installed, so the kernel must let it trace (ptrace)");
    for expected in ["2", "3", "4"] {
        server.go_on();
        assert_eq!(server.line(), expected);
    }
    let calls = tracer.finish().unwrap();
    assert_eq!(calls.get("chdir"), Some(&3), "{calls:?}");
    // It continues untraced.
    assert_eq!(proc::tracers(server.pid()).unwrap(), [0]);
    // Dropping the tracer detaches it too.
    drop(Syscalls::attach(&processes).unwrap());
    assert_eq!(proc::tracers(server.pid()).unwrap(), [0]);
}
