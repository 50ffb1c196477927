//! Names that differ only in case, which POSIX clients create, as clients without the extensions see them.

use proto::smb2::create::{CreateDisposition as Disposition, CreateOptions as Options};
use proto::status::Status;

use crate::client::{ALL, Client, READ, server};

/// Creates the names in this order, each with itself as content.
fn create(posix: &mut Client, names: &[&str]) {
    for name in names {
        posix.put(name, name.as_bytes());
    }
}

#[track_caller]
fn content(client: &mut Client, name: &str) -> Vec<u8> {
    let file = client.open_plain(name, READ).unwrap_or_else(|status| panic!("{name}: {status:?}"));
    let content = client.read(file);
    client.client.close(file);
    content.expect("it can be read")
}

#[test]
fn each_listed_name_leads_to_its_own_file() {
    // The order in which they were created does not matter, nor does an index of the directory that exists already.
    for names in [["a", "A", "Name", "NAME", "name"], ["name", "NAME", "Name", "A", "a"]] {
        for indexed in [false, true] {
            let server = server();
            let (mut posix, mut windows) = (Client::posix(&server, "alice"), Client::new(&server, "alice"));
            if indexed {
                assert_eq!(windows.open_plain("nAME", READ).err(), Some(Status::OBJECT_NAME_NOT_FOUND));
            }
            create(&mut posix, &names);
            let mut listed = windows.plain_names("");
            listed.retain(|name| !name.starts_with('.'));
            listed.sort();
            assert_eq!(listed, ["A", "NAME", "Name", "a", "name"]);
            for name in &listed {
                assert_eq!(content(&mut windows, name), name.as_bytes());
            }
            // Any other spelling leads to the first one in byte order, each time and for each client.
            for _ in 0..3 {
                assert_eq!(content(&mut windows, "nAmE"), b"NAME");
                assert_eq!(content(&mut Client::new(&server, "bob"), "nAmE"), b"NAME");
                assert_eq!(content(&mut Client::posix(&server, "alice"), "nAmE"), b"NAME");
            }
        }
    }
}

#[test]
fn a_windows_client_deletes_the_name_that_it_saw() {
    for (deleted, left) in [("a", "A"), ("A", "a")] {
        let server = server();
        let (mut posix, mut windows) = (Client::posix(&server, "alice"), Client::new(&server, "alice"));
        create(&mut posix, &["a", "A"]);
        let options = Options::DELETE_ON_CLOSE;
        let (file, ..) = windows.create(deleted, ALL, Disposition::OPEN, options, None).expect("it is listed");
        windows.client.close(file);
        assert_eq!(posix.names(""), [".", "..", left]);
        // Then the other one is what the name in either case means.
        for name in ["a", "A"] {
            assert_eq!(content(&mut windows, name), left.as_bytes());
        }
    }
    // Also when the other spelling appeared after the open.
    let server = server();
    let (mut posix, mut windows) = (Client::posix(&server, "alice"), Client::new(&server, "alice"));
    create(&mut posix, &["A"]);
    let file = windows.open_plain("a", ALL).expect("in another case");
    create(&mut posix, &["a"]);
    assert_eq!(windows.delete_by(file), Status::SUCCESS);
    windows.client.close(file);
    assert_eq!(posix.names(""), [".", "..", "a"]);
    assert_eq!(posix.get("a"), Ok(b"a".to_vec()));
}

#[test]
fn a_windows_client_creates_no_third_spelling_and_replaces_the_exact_one() {
    let server = server();
    let (mut posix, mut windows) = (Client::posix(&server, "alice"), Client::new(&server, "alice"));
    create(&mut posix, &["ab", "AB", "other", "Other"]);
    let collides = Some(Status::OBJECT_NAME_COLLISION);
    for name in ["ab", "AB", "aB"] {
        assert_eq!(windows.create(name, ALL, Disposition::CREATE, Options(0), None).err(), collides, "{name}");
    }
    // A rename to a spelling that does not exist collides with one that does.
    for name in ["ab", "AB", "aB"] {
        assert_eq!(windows.rename_plain("other", name, false), Status::OBJECT_NAME_COLLISION, "{name}");
    }
    assert_eq!(windows.rename_plain("other", "AB", true), Status::SUCCESS);
    assert_eq!(posix.names(""), [".", "..", "AB", "Other", "ab"]);
    assert_eq!((posix.get("AB"), posix.get("ab")), (Ok(b"other".to_vec()), Ok(b"ab".to_vec())));
    // A new spelling of the file itself replaces the other file only if the client says so.
    assert_eq!(windows.rename_plain("ab", "AB", false), Status::OBJECT_NAME_COLLISION);
    assert_eq!(posix.names(""), [".", "..", "AB", "Other", "ab"]);
    assert_eq!(windows.rename_plain("ab", "AB", true), Status::SUCCESS);
    assert_eq!(posix.names(""), [".", "..", "AB", "Other"]);
    assert_eq!(posix.get("AB"), Ok(b"ab".to_vec()));
    // Without another file, the spelling changes.
    assert_eq!(windows.rename_plain("Other", "OTHER", false), Status::SUCCESS);
    assert_eq!(posix.names(""), [".", "..", "AB", "OTHER"]);
}
