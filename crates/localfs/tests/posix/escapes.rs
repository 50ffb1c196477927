//! Attempts to leave the share, or to make the server wait, by links and special files on disk.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::bytes::utf16_bytes;
use proto::fscc::NfsReparseData;
use proto::smb2::create::{CreateDisposition as Disposition, CreateOptions as Options};
use proto::status::Status;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, makedev, mknodat, renameat_with};

use super::{Place, as_root};
use crate::client::{ALL, Client, READ};

const EVERY: [Disposition; 6] = [
    Disposition::OPEN,
    Disposition::OPEN_IF,
    Disposition::CREATE,
    Disposition::OVERWRITE,
    Disposition::OVERWRITE_IF,
    Disposition::SUPERSEDE,
];
const ATTRIBUTES: u32 = 0x80;

/// Tries each way to open a name, of which none may reach data.
#[track_caller]
fn reaches_no_data(client: &mut Client, name: &str, mode: Option<u32>) {
    for disposition in EVERY {
        for options in [Options(0), Options::OPEN_REPARSE_POINT, Options::DIRECTORY_FILE, Options::NON_DIRECTORY_FILE] {
            for access in [READ, ALL, ATTRIBUTES, 0x0010_0116, 0x0200_0000] {
                let Ok((file, ..)) = client.create(name, access, disposition, options, mode) else { continue };
                let read = client.read(file);
                assert!(read.as_ref().is_ok_and(Vec::is_empty) || read.is_err(), "{name} {disposition:?} {read:?}");
                assert_ne!(client.write(file, b"written"), Status::SUCCESS, "{name} {disposition:?}");
                assert_ne!(client.set_size(file, 0), Status::SUCCESS, "{name} {disposition:?}");
                client.client.close(file);
            }
        }
    }
}

fn check_outside(place: &Place) {
    as_root(|| {
        let outside = place.directory().join("outside");
        assert_eq!(fs::read_to_string(outside.join("secret")).expect("it is there"), "secret");
        assert_eq!(fs::read_dir(outside).expect("it is there").count(), 1, "files were created outside the share");
        assert_eq!(fs::read_dir(place.directory()).expect("it is there").count(), 2);
    });
}

#[test]
fn links_on_disk_lead_nobody_out() {
    let Some(place) = Place::new(|_| {}) else { return };
    let outside = place.directory().join("outside");
    as_root(|| {
        for (name, target) in [
            ("file", outside.join("secret").as_path()),
            ("directory", &outside),
            ("above", Path::new("../outside")),
            ("missing", &outside.join("new")),
            ("chain", Path::new("directory")),
            ("process", Path::new("/proc/self/root")),
        ] {
            symlink(target, place.at(name)).expect("root has permission");
        }
    });
    let (mut posix, mut windows) = place.clients();
    posix.put("own", b"own");
    for name in ["file", "directory", "above", "missing", "chain", "process"] {
        assert_eq!(posix.look(name), Status::STOPPED_ON_SYMLINK, "{name}");
        let below = ["", r"\secret", r"\new", r"\..\outside\secret", r"\outside\secret", r"\etc\passwd"];
        for name in below.map(|below| format!("{name}{below}")) {
            for (is_posix, mode) in [(true, Some(0o600)), (true, None), (false, None)] {
                let client = if is_posix { &mut posix } else { &mut windows };
                reaches_no_data(client, &name, mode);
                let file = client.create("own", ALL, Disposition::OPEN, Options(0), mode).expect("it is there").0;
                for replaces in [false, true] {
                    if name.contains('\\') {
                        assert_ne!(client.rename_by(file, &name, replaces), Status::SUCCESS, "{name}");
                    }
                }
                assert_ne!(client.link_by(file, &name), Status::SUCCESS, "{name}");
                client.client.close(file);
            }
        }
    }
    check_outside(&place);
}

#[test]
fn links_of_posix_clients_lead_nobody_out() {
    let Some(place) = Place::new(|_| {}) else { return };
    let (mut posix, mut windows) = place.clients();
    let outside = place.directory().join("outside");
    for target in [outside.to_str().expect("text"), "../outside", "/proc/self/cwd/../outside"] {
        let (file, ..) = posix.create("out", ALL, Disposition::CREATE, Options(0), Some(0o777)).expect("new");
        let wire = utf16_bytes(target);
        assert_eq!(posix.set_reparse(file, NfsReparseData::SymbolicLink(&wire)), Status::SUCCESS);
        // Not even through the handle that created it.
        assert_eq!(posix.write(file, b"written"), Status::ACCESS_DENIED);
        posix.client.close(file);
        for name in ["out", r"out\secret", r"out\new"] {
            for (client, mode) in [(&mut posix, Some(0o600)), (&mut windows, None)] {
                reaches_no_data(client, name, mode);
            }
        }
        check_outside(&place);
        assert_eq!(posix.unlink("out"), Status::SUCCESS);
    }
}

/// Creates a FIFO, a socket, and the devices of `/dev/zero` and of a terminal.
fn make_special(place: &Place) {
    as_root(|| {
        let everyone = Mode::from_raw_mode(0o666);
        for (name, kind, device) in [
            ("fifo", FileType::Fifo, 0),
            ("socket", FileType::Socket, 0),
            ("zero", FileType::CharacterDevice, makedev(1, 5)),
            ("terminal", FileType::CharacterDevice, makedev(5, 0)),
        ] {
            mknodat(CWD, place.at(name), kind, everyone, device).expect("root has permission");
            fs::set_permissions(place.at(name), fs::Permissions::from_mode(0o666)).expect("root has permission");
        }
    });
}

#[test]
fn an_open_of_a_special_file_neither_waits_nor_reaches_the_device() {
    let Some(place) = Place::new(|_| {}) else { return };
    make_special(&place);
    let (mut posix, mut windows) = place.clients();
    for name in ["fifo", "socket", "zero", "terminal"] {
        assert_eq!(posix.look(name), Status::IO_REPARSE_TAG_NOT_HANDLED, "{name}");
        for (is_posix, mode) in [(true, Some(0o600)), (true, None), (false, None)] {
            let client = if is_posix { &mut posix } else { &mut windows };
            reaches_no_data(client, name, mode);
        }
        // The kind of each is shown.
        let itself = posix.open_itself(name, ATTRIBUTES);
        assert_ne!(posix.information(itself).posix.mode >> 12, 0, "{name}");
        posix.client.close(itself);
    }
    // They are renamed, linked and removed as they are.
    assert_eq!(posix.rename("fifo", "moved", false), Status::SUCCESS);
    assert_eq!(posix.unlink("moved"), Status::SUCCESS);
    assert_eq!(posix.unlink("zero"), Status::SUCCESS);
}

/// Opens `name` by POSIX opens until it was found and refused, both, while a local process exchanges `part` and
/// `other` as fast as it can.
fn swapped(place: &Place, name: &str) {
    let names = ["part", "other"].map(|name| CString::new(place.at(name).as_os_str().as_bytes()).expect("no NUL"));
    let stop = AtomicBool::new(false);
    let (mut found, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let _ = renameat_with(CWD, &*names[0], CWD, &*names[1], RenameFlags::EXCHANGE);
            }
        });
        let (mut posix, _) = place.clients();
        for attempt in 0..200_000 {
            let access = if attempt % 2 == 0 { READ } else { ALL };
            match posix.create(name, access, Disposition::OPEN, Options(0), Some(0xffff)) {
                Ok((file, ..)) => {
                    found += 1;
                    assert_eq!(posix.read(file), Ok(b"inside".to_vec()));
                    posix.client.close(file);
                }
                Err(_) => refused += 1,
            }
            if attempt >= 1000 && found > 0 && refused > 0 {
                break;
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    // Unless both occur, nothing was tested.
    assert!(found > 0 && refused > 0, "found {found} times, refused {refused} times");
}

/// Serves a share with the file `other`, in which `make` creates `part`.
fn swap(name: &str, make: impl Fn(&Place)) {
    let Some(place) = Place::new(|_| {}) else { return };
    as_root(|| {
        let path = if name.contains('\\') {
            fs::create_dir(place.at("other")).expect("new");
            fs::set_permissions(place.at("other"), fs::Permissions::from_mode(0o777)).expect("root has permission");
            place.at("other/secret")
        } else {
            place.at("other")
        };
        fs::write(&path, "inside").expect("root has permission");
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).expect("root has permission");
        make(&place);
    });
    swapped(&place, name);
    check_outside(&place);
}

#[test]
fn a_link_that_is_swapped_for_a_file_is_not_followed() {
    swap("part", |place| symlink(place.directory().join("outside/secret"), place.at("part")).expect("new"));
}

#[test]
fn a_link_that_is_swapped_for_a_directory_is_not_followed() {
    swap(r"part\secret", |place| symlink(place.directory().join("outside"), place.at("part")).expect("new"));
}

#[test]
fn a_fifo_that_is_swapped_for_a_file_makes_no_open_wait() {
    swap("part", |place| {
        mknodat(CWD, place.at("part"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("root has permission");
    });
}
