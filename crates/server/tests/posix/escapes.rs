//! Attempts to leave the share by POSIX opens, and by what POSIX clients create.

use proto::bytes::utf16_bytes;
use proto::fscc::NfsReparseData;
use proto::smb2::create::{CreateDisposition as Disposition, CreateOptions as Options};
use proto::smb2::error::SymlinkFlags;
use proto::status::Status;
use server::testing::TestServer;
use server::vfs::{Create, Kind, NewFile};

use crate::client::{ALL, Client, READ, server};
use crate::metadata;

const OUT: [&str; 5] = ["/etc", "/", "..", "../..", "d/../../outside"];

/// Returns a server with a directory `d` that has a file, and clients with and without the extensions.
fn begin() -> (TestServer, Client, Client) {
    let server = server();
    server.create_locally("d", NewFile::new(Create::Directory, 0o777));
    let mut posix = Client::posix(&server, "alice");
    let windows = Client::new(&server, "alice");
    posix.put(r"d\f", b"inside");
    posix.put("own", b"own");
    (server, posix, windows)
}

/// Creates a symbolic link as Linux does.
fn make_link(posix: &mut Client, name: &str, target: &str) {
    let (file, ..) = posix.create(name, ALL, Disposition::CREATE, Options(0), Some(0o777)).expect("new");
    let target = utf16_bytes(target);
    assert_eq!(posix.set_reparse(file, NfsReparseData::SymbolicLink(&target)), Status::SUCCESS, "{name}");
    posix.client.close(file);
}

#[test]
fn no_name_leads_upwards_or_below_a_link() {
    let (server, mut posix, _) = begin();
    make_link(&mut posix, "out", "/etc");
    let every = [Disposition::OPEN, Disposition::OPEN_IF, Disposition::OVERWRITE_IF, Disposition::CREATE];
    for name in [
        "..",
        r"..\own",
        r"d\..\own",
        r"d\..\..\own",
        r"d\.",
        r".\own",
        r"\own",
        "/own",
        "d/../own",
        "../own",
        "/etc/passwd",
        "own\0",
        "\0",
        "own\0:x",
        r"out\passwd",
        r"out\passwd:stream",
        r"out\..\own",
        "out\\",
        r"out\\passwd",
    ] {
        for disposition in every {
            for options in [Options(0), Options::OPEN_REPARSE_POINT, Options::DIRECTORY_FILE] {
                let refused = posix.create(name, READ, disposition, options, Some(0o644)).map(|_| ());
                assert_ne!(refused, Ok(()), "{name:?} {disposition:?} {options:?}");
            }
        }
        if name == r"\own" {
            // A rename ignores the backslash, so that is the name of the file itself.
            continue;
        }
        let file = posix.open("own", ALL);
        assert_ne!(posix.rename_by(file, name, false), Status::SUCCESS, "{name:?}");
        assert_ne!(posix.link_by(file, name), Status::SUCCESS, "{name:?}");
        posix.client.close(file);
    }
    assert_eq!(posix.names(""), [".", "..", "d", "out", "own"]);
    assert_eq!(posix.names("d"), [".", "..", "f"]);
    assert_eq!(server.open_files(), 0);
}

#[test]
fn a_link_of_a_posix_client_leads_nobody_out() {
    for target in OUT {
        let (server, mut posix, mut windows) = begin();
        make_link(&mut posix, "out", target);
        for (name, behind) in [("out", 0), (r"out\passwd", 14), (r"out\d\f", 8)] {
            for (access, disposition) in [(READ, Disposition::OPEN), (ALL, Disposition::OPEN_IF)] {
                let stopped = posix.stopped(name, access, disposition).map(|(_, _, behind)| behind);
                assert_eq!(stopped, Some(behind), "{target} {name}");
                let refused = windows.create(name, access, disposition, Options(0), None).map(|_| ());
                assert_ne!(refused, Ok(()), "{target} {name}");
            }
        }
        // Neither moves nor links a file there.
        for name in [r"out\new", r"out\d\new"] {
            let [own, plain] = [posix.open("own", ALL), windows.open_plain("own", ALL).expect("shared")];
            for (client, file) in [(&mut posix, own), (&mut windows, plain)] {
                assert_ne!(client.rename_by(file, name, true), Status::SUCCESS, "{target} {name}");
                assert_ne!(client.link_by(file, name), Status::SUCCESS, "{target} {name}");
                client.client.close(file);
            }
        }
        // The link itself is renamed, linked and removed, not its target.
        assert_eq!(posix.rename("out", r"d\moved", false), Status::SUCCESS);
        assert_eq!(metadata(&server, "d/moved").kind, Kind::Symlink);
        assert_ne!(windows.open_plain(r"d\moved\passwd", READ).map(|_| ()), Ok(()));
        assert_eq!(posix.unlink(r"d\moved"), Status::SUCCESS);
        assert_eq!((posix.names(""), posix.names("d")), (names(&["d", "own"]), names(&["f"])));
    }
}

fn names(names: &[&str]) -> Vec<String> {
    [".", ".."].iter().chain(names).map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_reparse_point_of_windows_set_by_a_posix_open_leads_nobody_out() {
    for (target, flags) in [
        (r"\??\C:\Windows", SymlinkFlags(0)),
        (r"\etc\passwd", SymlinkFlags(0)),
        (r"..\..\etc\passwd", SymlinkFlags::RELATIVE),
        (r"d\..\..\etc", SymlinkFlags::RELATIVE),
        ("/etc/passwd", SymlinkFlags::RELATIVE),
        ("a\0b", SymlinkFlags::RELATIVE),
    ] {
        let (server, mut posix, mut windows) = begin();
        let (file, ..) = posix.create("out", ALL, Disposition::CREATE, Options(0), Some(0o777)).expect("new");
        assert_eq!(posix.set_windows_link(file, target, flags), Status::SUCCESS);
        posix.client.close(file);
        // It stays data of the file, which the server follows for no client.
        assert_eq!(metadata(&server, "out").kind, Kind::File, "{target}");
        let opened = windows.create("out", READ, Disposition::OPEN, Options(0), None).map(|_| ());
        assert_eq!(opened, Err(Status::STOPPED_ON_SYMLINK), "{target}");
        assert_eq!(posix.look("out"), Status::STOPPED_ON_SYMLINK, "{target}");
        for client in [&mut posix, &mut windows] {
            for mode in [None, Some(0o600)] {
                let below = client.create(r"out\passwd", READ, Disposition::OPEN_IF, Options(0), mode).map(|_| ());
                assert_ne!(below, Ok(()), "{target}");
            }
        }
    }
    // One that stays in the share becomes a link of Linux, which POSIX opens do not follow.
    let (server, mut posix, mut windows) = begin();
    let (file, ..) = posix.create("in", ALL, Disposition::CREATE, Options(0), Some(0o777)).expect("new");
    assert_eq!(posix.set_windows_link(file, r"d\f", SymlinkFlags::RELATIVE), Status::SUCCESS);
    posix.client.close(file);
    assert_eq!(metadata(&server, "in").kind, Kind::Symlink);
    assert_eq!(posix.look("in"), Status::STOPPED_ON_SYMLINK);
    let file = windows.open_plain("in", READ).expect("inside the share");
    assert_eq!(windows.read(file), Ok(b"inside".to_vec()));
}

#[test]
fn a_hard_link_of_a_link_is_a_link() {
    let (server, mut posix, mut windows) = begin();
    make_link(&mut posix, "out", "/etc/passwd");
    let link = posix.open_itself("out", 0x0001_0080);
    let linked = posix.link_by(link, "second");
    posix.client.close(link);
    if linked == Status::SUCCESS {
        assert_eq!(metadata(&server, "second").kind, Kind::Symlink);
        assert_eq!(posix.look("second"), Status::STOPPED_ON_SYMLINK);
    }
    assert_ne!(windows.open_plain("second", READ).map(|_| ()), Ok(()));
}
