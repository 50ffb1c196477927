//! The permissions of new files below default POSIX ACLs, and names that differ only in case.

use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

use proto::smb2::create::{CreateDisposition as Disposition, CreateOptions as Options};
use proto::status::Status;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use server::acl::model::posix_acl::{ACCESS, DEFAULT, Entry, PosixAcl, Tag};
use server::testing;

use super::{ALICE, Place, as_root};
use crate::client::{ALL, READ};

/// What protects a file: mode, group, and both POSIX ACLs.
type Protection = (u32, u32, Option<Vec<u8>>, Option<Vec<u8>>);

fn protection(path: &Path) -> Protection {
    let attribute = |name: &str| {
        let mut value = vec![0; 1024];
        match getxattr(path, name, &mut value[..]) {
            Ok(length) => Some(value[..length].to_vec()),
            Err(Errno::NODATA) => None,
            Err(error) => panic!("{name} of {}: {error}", path.display()),
        }
    };
    let metadata = fs::metadata(path).expect("it was created");
    (metadata.mode(), metadata.gid(), attribute(ACCESS), attribute(DEFAULT))
}

/// Creates a file or directory as a program of alice does.
fn create_locally(path: &Path, is_directory: bool, mode: u32) {
    let path = path.to_owned();
    as_root(|| {
        std::thread::spawn(move || {
            let (uid, gid) = (rustix::fs::Uid::from_raw(ALICE), rustix::fs::Gid::from_raw(ALICE));
            set_thread_groups(&[]).expect("root has permission");
            set_thread_res_gid(gid, gid, gid).expect("root has permission");
            set_thread_res_uid(uid, uid, uid).expect("root has permission");
            match is_directory {
                true => DirBuilder::new().mode(mode).create(&path).expect("new"),
                false => _ = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).expect("new"),
            }
        })
        .join()
        .expect("it is created")
    });
}

fn acl(entries: &[(Tag, u8)]) -> PosixAcl {
    PosixAcl::new(entries.iter().map(|&(tag, permissions)| Entry { tag, permissions }).collect())
}

#[test]
fn a_new_file_has_the_permissions_of_a_local_one() {
    use Tag::{Group, Mask, Other, Owner, OwningGroup, User};
    let lists = [
        None,
        Some(acl(&[(Owner, 7), (OwningGroup, 5), (Other, 0)])),
        Some(acl(&[(Owner, 6), (User(1001), 7), (OwningGroup, 7), (Mask, 7), (Other, 7)])),
        Some(acl(&[(Owner, 7), (User(1001), 6), (OwningGroup, 4), (Group(62_001), 7), (Mask, 4), (Other, 1)])),
        Some(acl(&[(Owner, 0), (User(1001), 7), (OwningGroup, 0), (Mask, 0), (Other, 0)])),
    ];
    let modes = [0, 0o400, 0o600, 0o640, 0o644, 0o664, 0o666, 0o751, 0o777, 0o1777, 0o2755, 0o4755];
    // With stored descriptors, the directory has none, so that the mode and the default ACL apply.
    for stores in [false, true] {
        let place = Place::new(|share| {
            share.acls.stored = stores.then(testing::stored_acls);
            (share.modes.create_mask, share.modes.directory_mask) = (0o700, 0o700);
            share.modes.inherit_permissions = stores;
        });
        let Some(place) = place else { return };
        let (mut alice, _) = place.clients();
        for (number, list) in lists.iter().enumerate() {
            for setgid in [0, 0o2000] {
                let directory = format!("{number}-{setgid}");
                as_root(|| {
                    let path = place.at(&directory);
                    fs::create_dir(&path).expect("new");
                    chown(&path, Some(ALICE), Some(62_001)).expect("root has permission");
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o777 | setgid))
                        .expect("root has permission");
                    if let Some(list) = list {
                        setxattr(&path, DEFAULT, &list.encode(), XattrFlags::empty()).expect("POSIX ACLs are stored");
                    }
                });
                for mode in modes {
                    for (options, is_directory) in [(Options(0), false), (Options::DIRECTORY_FILE, true)] {
                        let [remote, local] = ["remote", "local"].map(|by| format!("{by}-{mode:o}-{is_directory}"));
                        let name = format!(r"{directory}\{remote}");
                        alice.create(&name, ALL, Disposition::CREATE, options, Some(mode)).expect("new");
                        let (remote, local) = (place.at(&directory).join(remote), place.at(&directory).join(local));
                        create_locally(&local, is_directory, mode);
                        let (made, expected) = as_root(|| (protection(&remote), protection(&local)));
                        assert_eq!(made, expected, "{stores} {list:?} {setgid:o} {mode:o} {is_directory}");
                    }
                }
            }
        }
    }
}

#[test]
fn another_spelling_leads_to_the_first_name_in_byte_order() {
    for names in [["name", "Name", "NAME"], ["NAME", "Name", "name"]] {
        for indexed in [false, true] {
            let Some(place) = Place::new(|_| {}) else { return };
            let (mut posix, mut windows) = place.clients();
            if indexed {
                assert!(windows.open_plain("nAME", READ).is_err());
            }
            names.iter().for_each(|name| posix.put(name, name.as_bytes()));
            let mut open = |name: &str| {
                let file = windows.open_plain(name, READ).expect("it is there");
                let content = windows.read(file).expect("it can be read");
                windows.client.close(file);
                String::from_utf8(content).expect("a name")
            };
            assert_eq!(names.map(&mut open), names);
            for first in ["NAME", "Name", "name"] {
                for _ in 0..3 {
                    assert_eq!(["nAME", "naMe"].map(&mut open), [first; 2], "{names:?} {indexed}");
                }
                assert_eq!(posix.unlink(first), Status::SUCCESS);
            }
        }
    }
}
