//! Directories over which something is mounted while they are in use. The test has its own process in its own mount
//! namespace, so that nothing is left when the process ends.

use super::*;

/// Environment variable that is set in the process with its own mount namespace.
const ALONE: &str = "FREVO_TEST_MOUNTS";

#[test]
fn a_directory_over_which_something_is_mounted_is_not_taken_for_the_former() {
    if std::env::var_os(ALONE).is_some() {
        return mounted_later();
    }
    if cannot_switch() {
        return;
    }
    let name = "tests::mounted::a_directory_over_which_something_is_mounted_is_not_taken_for_the_former";
    let mut again = Command::new("unshare");
    again.args(["--mount", "--propagation", "private"]);
    again.arg(std::env::current_exe().expect("the path of the test program is known"));
    again.args(["--exact", "--nocapture", name]).env(ALONE, "1");
    // Its results must not appear among those of this process.
    let done = process(|| again.output()).expect("the unshare program exists");
    assert!(
        done.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

fn mounted_later() {
    let bed = Bed::new();
    let (directory, file) = (path("dir"), path("dir/file"));
    let prepared = now(bed.fs.create(&bed.who, &directory, NewFile::new(Create::Directory, 0o755)));
    drop(prepared);
    drop(bed.create("dir/file"));
    let share = &bed.fs.0;
    let may_remove = || bed.fs.may_remove(&bed.who, &file, bed.who.uid);
    assert!(share.ways.contains(&directory));
    assert_eq!(may_remove(), Some(true));

    let era = mounts::era();
    assert!(era.is_some());
    let mount = |arguments: &[&str]| {
        let done = process(|| Command::new(arguments[0]).args(&arguments[1..]).arg(bed.root.join("dir")).status());
        assert!(done.expect("the program exists").success());
        // The thread that waits for changes may not have run yet.
        while mounts::era() == era {
            std::thread::yield_now();
        }
    };
    mount(&["mount", "-t", "tmpfs", "-o", "mode=0777", "none"]);
    assert!(!share.ways.contains(&directory) && !share.reaches(&bed.who, &directory));
    assert_eq!(may_remove(), None);
    assert!(!Arc::ptr_eq(&share.serving(&file), &share.root.system), "calls wait for what is mounted");
    assert!(bed.is_missing("dir/file"));
    // A look-up that began before has seen the former directory.
    share.ways.note(era, &directory);
    assert!(!share.ways.contains(&directory));
    mount(&["umount"]);
}
