//! The size of the backups of Time Machine.

use std::sync::Arc;

use proto::smb2::create::CreateDisposition as Disposition;
use proto::smb2::header::Command;
use proto::smb2::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use server::policy::{MacPolicy, MetadataPlace};
use server::vfs::{Create, NewFile};

use crate::fixture::{Client, with};

#[test]
fn the_size_of_backups_is_kept_for_some_seconds() {
    let server = with(MetadataPlace::Netatalk, |policy| {
        let mac = policy.shares.get_mut("mac").map(Arc::make_mut).expect("it is there");
        let size = Some(1 << 20);
        mac.mac = Some(Arc::new(MacPolicy { time_machine: true, time_machine_max_size: size, ..Default::default() }));
    });
    for (name, band_size) in [("a.sparsebundle", 4096_u64), ("absurd.sparsebundle", 1 << 63)] {
        for directory in [name.to_owned(), format!("{name}/bands")] {
            server.create_locally(&directory, NewFile::new(Create::Directory, 0o777));
        }
        let description = format!("<dict><key>band-size</key><integer>{band_size}</integer></dict>");
        let mut mac = Client::mac(&server, "alice", "mac");
        mac.put(&format!(r"{name}\Info.plist"), description.as_bytes());
        mac.put(&format!(r"{name}\bands\0"), b"band");
    }
    // A link of a user neither shows the number of files elsewhere nor ends the count.
    server.create_locally("link.sparsebundle", NewFile::new(Create::Directory, 0o777));
    server.create_locally("link.sparsebundle/bands", NewFile::symlink(b"../a.sparsebundle/bands", None));
    let mut mac = Client::mac(&server, "alice", "mac");
    let description = "<dict><key>band-size</key><integer>4096</integer></dict>";
    mac.put(r"link.sparsebundle\Info.plist", description.as_bytes());
    let root = mac.create_with("", 0x81, Disposition::OPEN, Vec::new()).expect("the root can be opened");
    let left = |mac: &mut Client| {
        let query = QueryInfoRequest {
            info_type: InfoType::FILESYSTEM,
            // FileFsSizeInformation.
            file_info_class: 3,
            output_buffer_length: 24,
            file_id: root,
            ..QueryInfoRequest::default()
        };
        let response = mac.client.request(Command::QUERY_INFO, |out| query.encode(out));
        let buffer = QueryInfoResponse::decode(&response).expect("a well-formed message").buffer.to_vec();
        let number = |at: usize| u64::from_le_bytes(buffer[at..at + 8].try_into().expect("eight bytes"));
        (number(0), number(8))
    };
    // In blocks of 1 KiB. The bundle with absurd bands is not counted.
    assert_eq!(left(&mut mac), (1024, 1020));
    mac.put(r"a.sparsebundle\bands\1", b"band");
    assert_eq!(left(&mut mac), (1024, 1020));
    server.advance_seconds(10);
    assert_eq!(left(&mut mac), (1024, 1016));
}
