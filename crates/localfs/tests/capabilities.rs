//! The capabilities of a thread that acts as a user. One test in its own process, because they depend on the attributes
//! that the process has written before.

use localfs::{LocalFs, Options, identity};
use rustix::thread::CapabilitySet;
use server::answer::block_on;
use server::vfs::{Access, Create, Created, Errno, Identity, InitialAcl, NewFile, Op, RelPath, SetXattr, Vfs};

const WHO: u32 = 61_001;
const SWITCHING: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// Returns the effective capabilities of each thread that acts as the user.
fn of_the_user() -> Vec<CapabilitySet> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it").flatten();
    let of_one = |status: String| {
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let fsuid = line("Uid:")?.split_whitespace().last()?.parse::<u32>().ok()?;
        let effective = u64::from_str_radix(line("CapEff:")?.trim(), 16).ok()?;
        (fsuid == WHO).then(|| CapabilitySet::from_bits_retain(effective))
    };
    tasks.filter_map(|task| of_one(std::fs::read_to_string(task.path().join("status")).ok()?)).collect()
}

/// Creates a file as the user, with a security descriptor if `guarded`.
fn make(fs: &LocalFs, who: &Op, name: &str, guarded: bool) -> Created {
    let guard = guarded.then(|| InitialAcl {
        owner: (WHO, WHO),
        mode: None,
        lists: Vec::new(),
        descriptor: ("security.frevo-test".to_owned(), b"descriptor".to_vec()),
    });
    let path = RelPath::root().join(name.as_bytes()).expect("a valid name");
    let file = Create::File(Access { read: true, write: true });
    block_on(fs.create(who, &path, NewFile { dos_attributes: None, protection: guard, ..NewFile::new(file, 0o600) }))
        .expect("every user may write there")
}

#[test]
fn a_user_s_thread_has_a_capability_for_files_only_where_descriptors_are_written() {
    if !identity::may_switch() {
        eprintln!("does not apply: without root, every operation acts as the user of the process");
        return;
    }
    let temp = tempfile::tempdir().expect("a directory");
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(temp.path(), open_to_all).expect("the owner has permission");
    let fs = LocalFs::open(temp.path(), Options::default()).expect("the open succeeds");
    let who = Op::from(Identity { uid: WHO, gid: WHO, groups: Box::default() });
    let plain = make(&fs, &who, "plain", false).node;
    let seen = of_the_user();
    assert!(!seen.is_empty() && seen.iter().all(|it| *it == SWITCHING), "{seen:?}");
    // Reading an attribute requires none.
    assert_eq!(block_on(plain.get_xattr(&who, "security.frevo-test")), Ok(None));
    assert_eq!(of_the_user(), seen);
    let guarded = make(&fs, &who, "guarded", true);
    assert!(guarded.protected);
    let both = SWITCHING.union(CapabilitySet::SYS_ADMIN);
    assert!(of_the_user().contains(&both), "{:?}", of_the_user());
    for name in ["security.x", "trusted.x"] {
        let set = block_on(guarded.node.set_xattr(&who, name, Some(b"x".to_vec()), SetXattr::Any));
        assert_eq!(set, Err(Errno::PERM), "{name}: only root may request it by name");
    }
    make(&fs, &who, "later", false);
    assert!(of_the_user().iter().all(|it| both.contains(*it)), "no other capability");
}
