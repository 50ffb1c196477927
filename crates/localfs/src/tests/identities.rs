//! The identity of system calls. Most tests require root, because otherwise no other identity can be assumed.

use server::vfs::{Create, SetXattr};
use std::os::unix::fs::MetadataExt;

use rustix::thread::CapabilitySet;

use super::*;
use crate::identity::{DESCRIBING, SWITCHING};

/// Returns the effective capabilities of this thread.
fn capabilities() -> CapabilitySet {
    rustix::thread::capabilities(None).expect("capabilities can be read").effective
}

/// Like [`capabilities`], without the one that a user's thread has if other tests have written security descriptors.
fn bare_capabilities() -> CapabilitySet {
    capabilities().difference(DESCRIBING)
}

/// Returns the fsuid of this thread, determined from a file that it creates.
fn acting_as(directory: &Path) -> u32 {
    let probe = directory.join("probe");
    fs::write(&probe, "").expect("every user may write there");
    let uid = fs::metadata(&probe).expect("the file was just created").uid();
    fs::remove_file(&probe).expect("the file was just created");
    uid
}

/// Creates a directory in which all users may write.
fn commons() -> Temp {
    let temp = Temp::new();
    process(|| fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o777))).unwrap();
    temp
}

#[test]
fn only_root_keeps_capabilities() {
    if cannot_switch() {
        return;
    }
    let all = process(capabilities);
    identity::assume(&user(61_001)).unwrap();
    assert_eq!(bare_capabilities(), SWITCHING);
    identity::assume(&user(61_003)).unwrap();
    assert_eq!(bare_capabilities(), SWITCHING);
    identity::assume(&user(0)).unwrap();
    assert_eq!(capabilities(), all);
    identity::assume(&user(61_002)).unwrap();
    assert_eq!(process(capabilities), all);
}

#[test]
fn security_attributes_need_no_identity_switch() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    let (node, _) = bed.create("file");
    identity::assume(&bed.who).unwrap();
    now(node.set_xattr(&user(0), "security.x", Some(b"x".to_vec()), SetXattr::Any));
    let own = bed.root.join("own");
    fs::write(&own, "").unwrap();
    assert_eq!(fs::metadata(&own).unwrap().uid(), bed.who.uid, "the thread still acts as the user");
    assert_eq!(block_on(node.set_xattr(&bed.who, "security.x", None, SetXattr::Any)), Err(Errno::PERM));
    assert_eq!(now(node.get_xattr(&bed.who, "security.x")).as_deref(), Some(&b"x"[..]));
}

#[test]
fn every_part_of_an_identity_changes() {
    if cannot_switch() {
        return;
    }
    let identity = |uid, gid, groups: &[u32]| Op::from(Identity { uid, gid, groups: groups.into() });
    let all = [
        identity(61_001, 61_001, &[]),
        identity(61_001, 61_002, &[]),
        identity(61_001, 61_002, &[61_003]),
        identity(61_002, 61_002, &[61_003]),
        identity(0, 0, &[61_004]),
        identity(61_002, 61_001, &[61_003, 61_004]),
        identity(u32::MAX - 1, 61_001, &[61_003, 61_004]),
        identity(61_001, 61_001, &[]),
    ];
    for from in &all {
        for to in &all {
            identity::assume(from).unwrap();
            identity::assume(to).unwrap();
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let last = |name: &str| line(name).split_whitespace().last().unwrap().parse::<u32>().unwrap();
            let groups: Vec<u32> = line("Groups:").split_whitespace().map(|gid| gid.parse().unwrap()).collect();
            assert_eq!((last("Uid:"), last("Gid:"), groups.as_slice()), (to.uid, to.gid, &*to.groups));
        }
    }
}

#[test]
fn the_inherited_identity_of_a_new_thread_is_not_trusted() {
    if cannot_switch() {
        return;
    }
    let commons = commons();
    identity::assume(&user(61_001)).unwrap();
    std::thread::scope(|scope| {
        let child = scope.spawn(|| {
            let inherited = acting_as(commons.path());
            (inherited, process(|| acting_as(commons.path())))
        });
        assert_eq!(child.join().unwrap(), (61_001, 0));
    });
    assert_eq!(acting_as(commons.path()), 61_001, "other threads have their own identity");
}

#[test]
fn a_failed_switch_fails_the_operation() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    bed.local_write("file", "x");
    let nobody = user(u32::MAX);
    assert_eq!(bed.lookup_as(&nobody, "file", FOLLOW).err(), Some(Errno::INVAL));
    let made = bed.fs.create(&nobody, &path("new"), NewFile::new(Create::File(BOTH), 0o644));
    assert_eq!(block_on(made).err(), Some(Errno::INVAL));
    assert!(bed.is_missing("new"));
    // An incomplete switch is repeated.
    let commons = commons();
    assert!(identity::assume(&nobody).is_err());
    identity::assume(&user(61_002)).unwrap();
    assert_eq!(acting_as(commons.path()), 61_002);
}

#[test]
fn an_operation_that_panics_leaves_no_wrong_identity() {
    if cannot_switch() {
        return;
    }
    let (bed, commons) = (Bed::new(), commons());
    let panicked = std::panic::catch_unwind(|| {
        identity::assume(&user(61_002)).unwrap();
        panic!("intended panic");
    });
    assert!(panicked.is_err());
    // A worker creates the file if the file system has just been slow; then this thread keeps its identity.
    assert_eq!(bed.create("mine").1.uid, 61_001);
    identity::assume(&bed.who).unwrap();
    assert_eq!(acting_as(commons.path()), 61_001);
    assert_eq!(process(|| acting_as(commons.path())), 0);
}

#[test]
fn the_user_identity_is_restored_after_work_as_the_process() {
    if cannot_switch() {
        return;
    }
    let commons = commons();
    identity::assume(&user(61_001)).unwrap();
    assert_eq!(process(|| acting_as(commons.path())), 0);
    assert_eq!(acting_as(commons.path()), 61_001);
    let nested = process(|| {
        identity::assume(&user(61_002)).unwrap();
        (acting_as(commons.path()), process(|| acting_as(commons.path())))
    });
    assert_eq!((nested, acting_as(commons.path())), ((61_002, 0), 61_001));
    let panicked = std::panic::catch_unwind(|| process(|| panic!("intended panic")));
    assert!(panicked.is_err());
    assert_eq!(acting_as(commons.path()), 61_001);
    assert_eq!(bare_capabilities(), SWITCHING);
}

#[test]
fn concurrent_identity_switches_do_not_interfere() {
    if cannot_switch() {
        return;
    }
    let commons = commons();
    let file = |uid: u32, round: usize| commons.path().join(format!("{uid}-{round}"));
    let read = |uid, whose, round| {
        identity::assume(&user(uid)).unwrap();
        fs::read_to_string(file(whose, round)).map_err(|error| error.kind())
    };
    let work = |round| {
        for uid in [61_001, 61_002] {
            identity::assume(&user(uid)).unwrap();
            fs::write(file(uid, round), "secret").unwrap();
            fs::set_permissions(file(uid, round), fs::Permissions::from_mode(0o600)).unwrap();
            let made = fs::metadata(file(uid, round)).unwrap();
            assert_eq!((made.uid(), made.gid()), (uid, uid));
        }
        for (uid, other) in [(61_001, 61_002), (61_002, 61_001)] {
            assert_eq!(read(uid, other, round), Err(io::ErrorKind::PermissionDenied));
            assert_eq!(read(uid, uid, round).as_deref(), Ok("secret"));
        }
    };
    std::thread::scope(|scope| {
        for first in [0, 100, 200, 300] {
            let work = &work;
            scope.spawn(move || (first..first + 50).for_each(work));
        }
    });
}

#[test]
fn files_belong_to_the_user_who_creates_them() {
    let bed = Bed::new();
    let (_, file) = bed.create("file");
    let dir = bed.fs.create(
        &bed.who,
        &path("dir"),
        NewFile { dos_attributes: Some(0x10), ..NewFile::new(Create::Directory, 0o770) },
    );
    let dir = now(dir).metadata;
    assert_eq!((file.uid, file.gid), (bed.who.uid, bed.who.gid));
    assert_eq!((dir.uid, dir.gid, dir.mode), (bed.who.uid, bed.who.gid, 0o770));
}

#[test]
fn groups_apply_and_do_not_persist() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    bed.local_write("file", "x");
    let file = bed.root.join("file");
    process(|| {
        chown(&file, Some(0), Some(61_500)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    });
    let member = Op::from(Identity { uid: 61_002, gid: 61_002, groups: Box::new([61_400, 61_500]) });
    let node = bed.found("file").1;
    assert_eq!(now(node.permissions(&member)), 4);
    assert_eq!(content(&node, &member), "x");
    for stranger in [user(61_002), user(61_001)] {
        assert_eq!(now(node.permissions(&stranger)), 0);
        assert_eq!(block_on(node.open(&stranger, READ)).err(), Some(Errno::ACCES));
    }
}

#[test]
fn work_as_the_process_has_no_root_privileges() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    let (node, metadata) = bed.create("file");
    let denied =
        |name| matches!(block_on(node.set_xattr(&bed.who, name, Some(b"x".to_vec()), SetXattr::Any)), Err(Errno::PERM));
    assert!(denied("trusted.x") && denied("security.x"));
    process(|| rustix::fs::setxattr(bed.root.join("file"), "trusted.x", b"x", rustix::fs::XattrFlags::empty()))
        .unwrap();
    assert_eq!(now(node.list_xattrs(&bed.who)), [""; 0]);
    assert_eq!(now(node.get_xattr(&bed.who, "trusted.x")), None);
    assert_eq!(now(node.get_xattr(&user(0), "trusted.x")).as_deref(), Some(&b"x"[..]));
    assert_eq!(now(node.list_xattrs(&user(0))), ["trusted.x"]);
    let give = server::vfs::SetMetadata { uid: Some(61_002), ..Default::default() };
    assert_eq!(block_on(node.set_metadata(&bed.who, give)), Err(Errno::PERM));
    assert_eq!(block_on(node.set_metadata(&user(0), give)), Ok(()));
    assert_eq!(bed.found("file").2.uid, 61_002);
    // The owner of the directory may remove another user's file; a stranger may not.
    let unlink = |who| block_on(bed.fs.unlink(&who, &path("file"), metadata.id, Kind::File)).map(|_| ());
    assert_eq!(unlink(user(61_002)), Err(Errno::ACCES));
    assert_eq!(unlink(bed.who.clone()), Ok(()));
}

#[test]
fn the_permission_to_remove_a_name_is_that_of_the_kernel() {
    if cannot_switch() {
        return;
    }
    /// The owner has all permissions, the group 61500 may write and search, others may read.
    const LIST: &[u8] = b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x04\0\x04\0\xff\xff\xff\xff\
        \x08\0\x03\0\x3c\xf0\0\0\x10\0\x07\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
    let bed = Bed::new();
    let owner = bed.who.clone();
    let member = Op::from(Identity { uid: 61_004, gid: 61_004, groups: Box::new([61_500]) });
    let stranger = user(61_002);
    let directory = bed.root.join("dir");
    process(|| fs::create_dir(&directory)).unwrap();
    let file = path("dir/file");
    assert_eq!(bed.fs.may_remove(&owner, &file, owner.uid), None, "the directory was never resolved");
    process(|| chown(&directory, Some(owner.uid), Some(owner.gid))).unwrap();
    bed.create("dir/other");
    // Other tests of the process mount file systems, after which the directory has to be resolved again.
    let may_remove = |who: &Op, file_owner| loop {
        let era = mounts::era();
        bed.fs.0.reaches(&user(0), &path("dir"));
        let answer = bed.fs.may_remove(who, &file, file_owner);
        if mounts::era() == era {
            return answer;
        }
    };
    for (mode, list) in [(0o755, None), (0o777, None), (0o1777, None), (0o555, None), (0o770, Some(LIST)), (0o6, None)]
    {
        process(|| {
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            if let Some(list) = list {
                rustix::fs::setxattr(&directory, "system.posix_acl_access", list, rustix::fs::XattrFlags::empty())
                    .unwrap();
            }
        });
        for who in [&user(0), &owner, &member, &stranger] {
            let about = format!("{mode:o} {} {}", list.is_some(), who.uid);
            bed.local_write("dir/file", "x");
            process(|| chown(directory.join("file"), Some(owner.uid), None)).unwrap();
            let id = match bed.lookup_as(&user(0), "dir/file", FOLLOW) {
                Ok(Lookup::Found { metadata, .. }) => metadata.id,
                _ => panic!("{about}: the file was just written"),
            };
            let known = may_remove(who, owner.uid);
            let removed = block_on(bed.fs.unlink(who, &file, id, Kind::File)).is_ok();
            match known {
                Some(known) => assert_eq!(known, removed, "{about}"),
                // A directory that the user may not search shows nothing.
                None => assert!(!removed, "{about}"),
            }
            assert_eq!(may_remove(who, owner.uid), known, "{about}");
        }
        process(|| rustix::fs::removexattr(&directory, "system.posix_acl_access")).ok();
    }
    process(|| fs::set_permissions(&directory, fs::Permissions::from_mode(0o1777))).unwrap();
    assert_eq!(may_remove(&stranger, owner.uid), Some(false), "the sticky bit");
    assert_eq!(may_remove(&stranger, stranger.uid), Some(true), "their own file");
    assert_eq!(may_remove(&owner, stranger.uid), Some(true), "in their own directory");
}
