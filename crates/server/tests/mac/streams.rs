//! Finder info, resource forks and other streams, in listings and copies, too.

use std::sync::Arc;

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::AccessMask as A;
use proto::fscc::{FileInformationClass as Class, FileRenameInformation};
use proto::mac::apple_double;
use proto::smb2::create::{CreateDisposition as Disposition, CreateRequest, ImpersonationLevel, ShareAccess};
use proto::smb2::header::Command;
use proto::status::Status;
use server::answer::block_on;
use server::name::CharacterMap;
use server::policy::stream_layout::Layout;
use server::policy::{MetadataPlace, Policy, Share};
use server::testing::{self, status};
use server::vfs::{Create, NewFile, SERVER};

use crate::fixture::{ALL, Client, NETATALK, ORDINARY, attribute, info, listed_info, server, set_attribute, with};

#[test]
fn two_shares_reach_one_stream() {
    for (place, name) in [(MetadataPlace::Netatalk, "f:AFP_Resource"), (MetadataPlace::Stream, "f:s")] {
        let server = server(place);
        let (mut plain, mut mac) = (Client::new(&server, "alice", "share"), Client::mac(&server, "alice", "mac"));
        let through_mac = mac.open(name);
        let through_plain = plain.open(name);
        // What does not fit in an attribute goes to the store, from where the other share must read it.
        assert_eq!(plain.write(through_plain, 0, &[1; 65_536]), Status::SUCCESS);
        assert_eq!(mac.write(through_mac, 65_536, b"mac"), Status::SUCCESS);
        assert_eq!(plain.write(through_plain, 65_539, b"plain"), Status::SUCCESS);
        assert_eq!(mac.write(through_mac, 0, b"start"), Status::SUCCESS);
        for (client, file) in [(&mut plain, through_plain), (&mut mac, through_mac)] {
            assert_eq!(client.read(file).expect("it can be read")[..6], *b"start\x01");
        }
        assert_eq!(plain.set_size(through_plain, 0), Status::SUCCESS);
        assert_eq!(mac.write(through_mac, 0, b"again"), Status::SUCCESS);
        assert_eq!(mac.set_size(through_mac, 0), Status::SUCCESS);
        assert_eq!(plain.write(through_plain, 0, b"last"), Status::SUCCESS);
        plain.client.close(through_plain);
        mac.client.close(through_mac);
        assert_eq!((plain.get(name), mac.get(name)), (Ok(b"last".to_vec()), Ok(b"last".to_vec())));
    }
}

#[test]
fn share_modes_hold_through_both_shares() {
    let server = server(MetadataPlace::Stream);
    let (mut plain, mut mac) = (Client::new(&server, "alice", "share"), Client::mac(&server, "bob", "mac"));
    plain.put("f:AFP_Resource", b"fork");
    let name = utf16_bytes("f:AFP_Resource");
    let alone = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: 1,
        share_access: ShareAccess(0),
        create_disposition: Disposition::OPEN,
        name: &name,
        ..CreateRequest::default()
    };
    let response = plain.client.request(Command::CREATE, |out| alone.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    assert_eq!(mac.look("f:AFP_Resource"), Status::SHARING_VIOLATION);
}

#[test]
fn a_share_that_gets_the_extensions_keeps_open_streams() {
    let server = server(MetadataPlace::Stream);
    let mut alice = Client::new(&server, "alice", "share");
    let file = alice.open("f:s");
    assert_eq!(alice.write(file, 0, b"before"), Status::SUCCESS);
    let mut policy = Policy::clone(&server.policy());
    let mac = Share { name: "share".to_owned(), ..Share::clone(&policy.shares["mac"]) };
    policy.shares.insert("share".into(), mac.into());
    server.reload(policy);
    let mut bob = Client::mac(&server, "bob", "share");
    let other = bob.create_with("f:s", 1, Disposition::OPEN, Vec::new()).expect("bob may read it");
    assert_eq!(alice.write(file, 0, &[2; 65_536]), Status::SUCCESS);
    assert_eq!(bob.read(other).map(|content| content.len()), Ok(65_536));
}

#[test]
fn another_handle_writes_after_a_mac_has_emptied_a_stream() {
    let server = server(MetadataPlace::Netatalk);
    let (mut mac, mut other) = (Client::mac(&server, "alice", "mac"), Client::mac(&server, "alice", "mac"));
    for size in [5, 70_000_u64] {
        let (first, second) = (mac.open("f:s"), other.open("f:s"));
        assert_eq!(mac.write(first, size - 5, b"12345"), Status::SUCCESS);
        assert_eq!(mac.set_size(first, 0), Status::SUCCESS);
        assert_eq!(mac.streams("f"), Vec::<String>::new());
        assert_eq!(other.write(second, 0, b"kept"), Status::SUCCESS);
        mac.client.close(first);
        other.client.close(second);
        assert_eq!(mac.get("f:s"), Ok(b"kept".to_vec()), "{size}");
    }
}

#[test]
fn finder_info_is_listed_for_every_user_on_every_share() {
    let server = server(MetadataPlace::Netatalk);
    let mut mac = Client::mac(&server, "alice", "mac");
    let mut alice = Client::mac(&server, "alice", "share");
    for name in ["f", "g"] {
        mac.put(&format!("{name}:AFP_Resource"), b"fork");
    }
    mac.put("f:AFP_AfpInfo", &info(1));
    // Stored by a Mac on the share without the extensions.
    alice.put("g:AFP_AfpInfo", &info(2));
    server.advance_seconds(1_000);
    // Bob may not read the attributes of this file. What Bob sees must not be remembered for Alice.
    let hidden = server::vfs::SetMetadata { mode: Some(0o600), ..Default::default() };
    block_on(testing::volume::node(&server.volume, "f").set_metadata(&testing::root(), hidden)).expect("root may");
    server.advance_seconds(1_000);
    let mut bob = Client::mac(&server, "bob", "mac");
    let (_, fork, finder) = bob.listed("f");
    assert_eq!((fork, finder), (0, [0; 12]));
    let (rights, fork, finder) = mac.listed("f");
    assert_eq!((fork, finder), (4, listed_info(1)));
    assert_eq!(rights & A::FILE_WRITE_DATA.0, A::FILE_WRITE_DATA.0);
    // Each share shows the Finder info that it stores, whichever is listed first.
    assert_eq!(alice.listed("g").1, 4);
    assert_eq!((alice.listed("g").2, mac.listed("g").2), (listed_info(2), listed_info(2)));
    assert_eq!(alice.listed("f").2, [0; 12]);
}

#[test]
fn finder_info_of_ordinary_streams_moves_to_the_attribute_of_netatalk() {
    let server = server(MetadataPlace::Netatalk);
    let (mut plain, mut mac) = (Client::new(&server, "alice", "share"), Client::mac(&server, "alice", "mac"));
    plain.put("f:AFP_AfpInfo", &info(1));
    assert_eq!(mac.streams("f"), ["AFP_AfpInfo"]);
    assert_eq!(mac.get("f:AFP_AfpInfo"), Ok(info(1)));
    assert!(attribute(&server, "f", NETATALK).is_none());
    mac.put("f:AFP_AfpInfo", &info(2));
    assert_eq!((attribute(&server, "f", NETATALK).is_some(), attribute(&server, "f", ORDINARY)), (true, None));
    assert_eq!(mac.get("f:AFP_AfpInfo"), Ok(info(2)));
    // Finder info that is removed does not come back from the other attribute.
    plain.put("f:AFP_AfpInfo", &info(1));
    mac.put("f:AFP_AfpInfo", &info(0));
    assert_eq!(mac.look("f:AFP_AfpInfo"), Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn an_attribute_of_netatalk_that_cannot_be_understood_is_left_alone() {
    let server = server(MetadataPlace::Netatalk);
    let mut mac = Client::mac(&server, "alice", "mac");
    mac.put("f", b"content");
    mac.put("f:s", b"stream");
    mac.put("g", b"replaced");
    mac.put("g:AFP_AfpInfo", &info(3));
    set_attribute(&server, "f", NETATALK, b"nonsense");
    assert_eq!(mac.streams("f"), ["s"]);
    assert_eq!(mac.look("f:AFP_AfpInfo"), Status::OBJECT_NAME_NOT_FOUND);
    let file = mac.open("f:AFP_AfpInfo");
    assert_ne!(mac.write(file, 0, &info(1)), Status::SUCCESS);
    mac.client.close(file);
    assert_eq!(mac.copy_file("f", "g"), Status::SUCCESS);
    assert_eq!((mac.get("g"), mac.get("g:s")), (Ok(b"content".to_vec()), Ok(b"stream".to_vec())));
    let replaced = mac.create_with("f", ALL, Disposition::OVERWRITE, Vec::new()).expect("it can be overwritten");
    mac.client.close(replaced);
    assert_eq!(attribute(&server, "f", NETATALK), Some(b"nonsense".to_vec()));
}

#[test]
fn other_information_of_netatalk_outlives_the_finder_info() {
    let server = server(MetadataPlace::Netatalk);
    let mut mac = Client::mac(&server, "alice", "mac");
    for (has_comment, name) in [(false, "f"), (true, "g")] {
        mac.put(name, b"");
        let created = block_on(testing::volume::node(&server.volume, name).metadata(&SERVER)).expect("it is there");
        let mut value = apple_double::metadata(&[1; 32], created.created.secs, 0);
        if has_comment {
            // The length of the comment, the first entry, and its text.
            (value[37], value[154]) = (1, b'c');
        }
        set_attribute(&server, name, NETATALK, &value);
        mac.put(&format!("{name}:AFP_AfpInfo"), &info(0));
        value[122..154].fill(0);
        assert_eq!(attribute(&server, name, NETATALK), has_comment.then_some(value), "{name}");
        assert_eq!(mac.streams(name), Vec::<String>::new());
        mac.put(&format!("{name}:AFP_AfpInfo"), &info(4));
        assert_eq!(mac.get(&format!("{name}:AFP_AfpInfo")), Ok(info(4)));
    }
}

#[test]
fn a_copy_does_not_overwrite_an_open_stream() {
    let server = server(MetadataPlace::Netatalk);
    let mut mac = Client::mac(&server, "alice", "mac");
    mac.put("f", b"new");
    mac.put("f:s", b"new");
    mac.put("g", b"old");
    mac.put("g:s", b"old");
    let stream = mac.open("g:s");
    assert_eq!(mac.copy_file("f", "g"), Status::SHARING_VIOLATION);
    assert_eq!((mac.get("g"), mac.read(stream)), (Ok(b"old".to_vec()), Ok(b"old".to_vec())));
    mac.client.close(stream);
    assert_eq!(mac.copy_file("f", "g"), Status::SUCCESS);
    assert_eq!((mac.get("g"), mac.get("g:s")), (Ok(b"new".to_vec()), Ok(b"new".to_vec())));
    assert_eq!(server.open_files(), 0);
}

#[test]
fn ids_are_hidden_from_macs_in_every_class() {
    let server = server(MetadataPlace::Netatalk);
    for (share, hides) in [("mac", true), ("share", false)] {
        let mut mac = Client::mac(&server, "alice", share);
        let file = mac.open("f");
        let id = mac.query(file, Class::INTERNAL).1;
        assert_eq!(id == [0; 8], hides, "{share}");
        // FileBasicInformation and FileStandardInformation are before it.
        assert_eq!(mac.query(file, Class::ALL).1[64..72], id, "{share}");
        assert_eq!(mac.query(file, Class::ID).1[8..16], id, "{share}");
        mac.client.close(file);
    }
}

#[test]
fn finder_info_is_written_from_its_start() {
    let server = server(MetadataPlace::Stream);
    let mut mac = Client::mac(&server, "alice", "mac");
    let file = mac.open("f:AFP_AfpInfo");
    assert_ne!(mac.write(file, 4, &info(1)[..20]), Status::SUCCESS);
    assert_eq!(mac.write(file, 0, &info(1)), Status::SUCCESS);
    assert_eq!(mac.read(file), Ok(info(1)));
}

/// The characters that a share with `fruit:encoding = native` stores as themselves.
#[test]
fn streams_with_a_colon_are_found_again() {
    let tags = "f:com.apple.metadata\u{f022}_kMDItemUserTags";
    for place in [MetadataPlace::Netatalk, MetadataPlace::Stream] {
        let server = with(place, |policy| {
            let mac = policy.shares.get_mut("mac").map(Arc::make_mut).expect("it is there");
            mac.names.characters = CharacterMap::new([(0x3a, 0xf022)]);
            mac.streams = mac.streams.take().map(|layout| Layout { has_colons: true, ..layout });
        });
        let mut mac = Client::mac(&server, "alice", "mac");
        mac.put(tags, b"red");
        assert_eq!(
            attribute(&server, "f", "user.DosStream.com.apple.metadata:_kMDItemUserTags:$DATA").as_deref(),
            Some(&b"red\0"[..])
        );
        mac.put(tags, b"blue");
        assert_eq!(mac.get(tags), Ok(b"blue".to_vec()));
        assert_eq!(mac.streams("f"), ["com.apple.metadata\u{f022}_kMDItemUserTags"]);
    }
}

#[test]
fn a_fork_is_deleted_only_by_others() {
    let server = server(MetadataPlace::Netatalk);
    let (mut plain, mut mac) = (Client::new(&server, "alice", "share"), Client::mac(&server, "alice", "mac"));
    mac.put("f:AFP_Resource", b"fork");
    for closes_last in ["plain", "mac"] {
        let (through_plain, through_mac) = (plain.open("f:AFP_Resource"), mac.open("f:AFP_Resource"));
        assert_eq!(mac.set(through_mac, Class::DISPOSITION, &[1]), Status::SUCCESS);
        if closes_last == "plain" {
            mac.client.close(through_mac);
            plain.client.close(through_plain);
        } else {
            plain.client.close(through_plain);
            mac.client.close(through_mac);
        }
        assert_eq!(mac.get("f:AFP_Resource"), Ok(b"fork".to_vec()), "{closes_last}");
    }
    let (through_plain, through_mac) = (plain.open("f:AFP_Resource"), mac.open("f:AFP_Resource"));
    assert_eq!(plain.set(through_plain, Class::DISPOSITION, &[1]), Status::SUCCESS);
    plain.client.close(through_plain);
    mac.client.close(through_mac);
    assert_eq!(mac.look("f:AFP_Resource"), Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn a_stream_of_a_mac_exists_when_it_is_written() {
    let server = server(MetadataPlace::Netatalk);
    let (mut plain, mut mac) = (Client::new(&server, "alice", "share"), Client::mac(&server, "alice", "mac"));
    let file = mac.open("f:s");
    assert_eq!(plain.look("f:s"), Status::OBJECT_NAME_NOT_FOUND);
    assert_eq!((mac.read(file), mac.streams("f")), (Ok(Vec::new()), Vec::new()));
    // Another program stores the stream meanwhile.
    set_attribute(&server, "f", "user.DosStream.s:$DATA", b"other\0");
    assert_eq!(mac.write(file, 5, b" and own"), Status::SUCCESS);
    mac.client.close(file);
    assert_eq!(plain.get("f:s"), Ok(b"other and own".to_vec()));
    // A client of the other share creates one as usual.
    let file = plain.open("f:empty");
    plain.client.close(file);
    assert_eq!(plain.get("f:empty"), Ok(Vec::new()));
}

#[test]
fn a_mac_renames_a_directory_with_open_files() {
    let server = server(MetadataPlace::Netatalk);
    server.create_locally("d", NewFile::new(Create::Directory, 0o777));
    let mut mac = Client::mac(&server, "alice", "mac");
    let (kept, deleted) = (mac.open(r"d\kept"), mac.open(r"d\deleted"));
    let rename = |mac: &mut Client, from: &str, to: &str| {
        let opened = mac.create_with(from, (A::DELETE | A::FILE_READ_ATTRIBUTES).0, Disposition::OPEN, Vec::new());
        let (directory, target) = (opened.expect("it can be opened"), utf16_bytes(to));
        let mut buffer = Vec::new();
        FileRenameInformation { replace_if_exists: false, root_directory: 0, file_name: &target }
            .encode(&mut Writer::new(&mut buffer));
        let done = mac.set(directory, Class::RENAME, &buffer);
        mac.client.close(directory);
        done
    };
    assert_eq!(mac.set(deleted, Class::DISPOSITION, &[1]), Status::SUCCESS);
    assert_eq!(rename(&mut mac, "d", "e"), Status::ACCESS_DENIED);
    mac.client.close(deleted);
    assert_eq!(rename(&mut mac, "d", "e"), Status::SUCCESS);
    assert_eq!(mac.write(kept, 0, b"kept"), Status::SUCCESS);
    assert_eq!(mac.set(kept, Class::DISPOSITION, &[1]), Status::SUCCESS);
    mac.client.close(kept);
    assert_eq!(mac.look(r"e\kept"), Status::OBJECT_NAME_NOT_FOUND);
    assert_eq!(rename(&mut Client::new(&server, "alice", "share"), "e", "d"), Status::SUCCESS);
}
