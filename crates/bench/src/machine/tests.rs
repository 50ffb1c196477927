//! Tests on this machine and on invented ones.

use super::*;

#[test]
fn only_known_servers_are_run_for_their_version() {
    assert_eq!(version_of(std::process::id()), None);
    assert_eq!(version_of(1 << 22), None);
    let dir = tempfile::tempdir().unwrap();
    let cat = dir.path().join("frevo");
    // The `cat` of GNU and of BusyBox both accept the option. Only the program's name selects it.
    fs::copy("/bin/cat", &cat).unwrap();
    let mut child = Command::new(&cat).stdin(Stdio::piped()).spawn().unwrap();
    let version = version_of(child.id());
    drop(child.stdin.take());
    child.wait().unwrap();
    let said = Command::new("/bin/cat").arg("--version").output().unwrap();
    let expected = String::from_utf8_lossy(&said.stdout).lines().next().map(str::to_owned);
    assert_eq!(version, expected.filter(|_| said.status.success()));
}

#[test]
fn a_program_that_does_not_respond_is_killed() {
    let check = |script: &str, patience, expected: Option<&str>| {
        assert_eq!(first_line(Command::new("sh").args(["-c", script]), patience).as_deref(), expected, "{script}");
    };
    check("echo ' Version 1 '; echo more", PATIENCE, Some("Version 1"));
    check("echo Version; exit 1", PATIENCE, None);
    check("true", PATIENCE, None);
    let short = Duration::from_millis(100);
    check("exec sleep 1000", short, None);
    check("exec cat /dev/zero", short, None);
}

#[test]
fn memory_in_use_excludes_the_cache() {
    let text = "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 800 kB\nBuffers: 20 kB\nCached: 200 kB\n\
                SwapCached: 5 kB\nSReclaimable: 80 kB\n";
    assert_eq!(in_use(text).unwrap(), 400 * 1024);
    assert!(in_use("MemTotal: 1000 kB\n").unwrap_err().to_string().contains("MemFree"));
    assert!(memory_in_use().unwrap() > own_memory().unwrap());
}

#[test]
fn the_processor_time_of_the_tool_grows() {
    let before = client_cpu();
    while client_cpu() <= before {
        std::hint::spin_loop();
    }
}
