//! Listings that clients cache under a lease on the directory.

use proto::dtyp::Sid;
use proto::dtyp::acl::{Ace, AceFlags};
use proto::fscc::NfsReparseData;
use proto::smb2::SecurityInformation;
use proto::smb2::create::{CreateDisposition as Disposition, CreateOptions as Options};
use proto::smb2::header::{Command, Header};
use proto::status::Status;

use crate::client::{ALL, Client, server};
use crate::{dacl, mode_entry};

#[test]
fn a_change_of_what_a_listing_shows_breaks_its_cache() {
    type Change = fn(&mut Client);
    let changes: [(&str, Change); 6] = [
        ("create", |bob| bob.put("new", b"")),
        ("rename", |bob| assert_eq!(bob.rename("f", "g", false), Status::SUCCESS)),
        ("unlink", |bob| assert_eq!(bob.unlink("f"), Status::SUCCESS)),
        ("link", |bob| {
            let file = bob.open("f", ALL);
            assert_eq!(bob.link_by(file, "h"), Status::SUCCESS);
        }),
        ("mode", |bob| {
            let file = bob.open("f", ALL);
            let all = Ace::allow(Sid::AUTHENTICATED_USERS, proto::dtyp::AccessMask(ALL), AceFlags::NONE);
            let mode = dacl(vec![mode_entry(0o600), all]);
            assert_eq!(bob.client.set_security(file, SecurityInformation::DACL, &mode), Status::SUCCESS);
        }),
        ("special", |bob| {
            let (file, ..) =
                bob.create("empty", ALL, Disposition::OPEN, Options(0), Some(0xffff)).expect("it is there");
            assert_eq!(bob.set_reparse(file, NfsReparseData::Fifo), Status::SUCCESS);
        }),
    ];
    for (name, change) in changes {
        let server = server();
        let (mut alice, mut bob) = (Client::posix(&server, "alice"), Client::posix(&server, "alice"));
        bob.put("f", b"content");
        bob.put("empty", b"");
        let directory = alice.open_cached("");
        assert!(alice.client.proceed().is_empty());
        change(&mut bob);
        let frames = alice.client.proceed();
        let is_break =
            |frame: &Vec<u8>| Header::decode(frame).is_ok_and(|header| header.command == Command::OPLOCK_BREAK);
        assert!(frames.iter().any(is_break), "{name}: {}", frames.len());
        alice.client.close(directory);
    }
}
