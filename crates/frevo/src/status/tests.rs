//! A snapshot with one of each thing, as JSON and as tables.

use server::accounting::{Report, Resource, Usage};
use server::policy::{AclStore, Entries};
use server::vfs::{FileId, Time};

use super::show::table;
use super::*;

pub(crate) fn snapshot() -> Snapshot {
    let at = |secs| Time { secs, nanos: 5 };
    Snapshot {
        taken: at(1_709_210_096),
        started: at(1_709_200_000),
        connections: 2,
        sessions: vec![server::status::Session {
            session_id: 0x1122_3344_5566_7788,
            user: "ann".into(),
            domain: "WORKGROUP".into(),
            guest: false,
            anonymous: false,
            uid: 1000,
            gid: 1000,
            workstation: "LAPTOP\u{1b}[2J".into(),
            peer: "[2001:db8::1]:50000".parse().unwrap(),
            dialect: 0x0311,
            signing: Some("AES-GMAC"),
            encryption: None,
            since: at(1_709_210_000),
        }],
        trees: vec![server::status::Tree {
            tree_id: 1,
            session_id: 0x1122_3344_5566_7788,
            share: "data".into(),
            encrypted: false,
            opens: 1,
            since: at(1_709_210_001),
        }],
        opens: vec![server::status::Open {
            volatile: 9,
            session_id: 0x1122_3344_5566_7788,
            tree_id: 1,
            share: "data".into(),
            path: "dir/file.txt".into(),
            file: FileId { device: 1, inode: 2, stream: 0 },
            directory: false,
            access: 0x0012_019f,
            share_access: 5,
            caching: Caching::Lease(7),
            delete_on_close: false,
            since: at(1_709_210_002),
            kept: None,
            watch: None,
        }],
        acl_cache: server::status::CacheStatistics { entries: 3, bytes: 900, hits: 97, misses: 3 },
        held: Report {
            memory: Usage { held: 5 << 19, bound: 1 << 30 },
            unauthenticated: Usage { held: 500, bound: 64 << 20 },
            resources: vec![
                (Resource::Opens, Usage { held: 1, bound: 1000 }),
                (Resource::Input, Usage { held: 70_000, bound: usize::MAX }),
                (Resource::Locks, Usage { held: 0, bound: 9 }),
            ],
            users: vec![("WORKGROUP\\ann".into(), Usage { held: 2048, bound: 1 << 28 })],
            addresses: Vec::new(),
        },
        acl_store: vec![("Data".into(), AclStore::Said(Entries::between(6, 34)))],
        locks: vec![server::status::Lock {
            volatile: 9,
            session_id: 0x1122_3344_5566_7788,
            share: "data".into(),
            path: "dir/file.txt".into(),
            offset: u64::MAX,
            length: 1,
            exclusive: true,
        }],
    }
}

fn version() -> Version {
    Version { version: "9.9".into(), pid: 42, sandbox: "on".into() }
}

#[test]
fn the_table_is_formatted() {
    let expected = "\
Frevo 9.9, process 42, since 2024-02-29 09:46:40Z: 2 connections
Sandbox: on

Session           Username       Uid   Machine                           Protocol   Encryption  Signing   Since
----------------------------------------------------------------------------------------------------\
--------------------------
1122334455667788  WORKGROUP\\ann  1000  LAPTOP\u{fffd}[2J ([2001:db8::1]:50000)  SMB 3.1.1  -           AES-GMAC  \
2024-02-29 12:33:20Z

Service  Session           Machine                           Connected at          Encrypted  Opens
---------------------------------------------------------------------------------------------------
data     1122334455667788  LAPTOP\u{fffd}[2J ([2001:db8::1]:50000)  2024-02-29 12:33:21Z  -          1

Open files:
Session           User  DenyMode    Access    R/W   Oplock     Share  Name          Time
--------------------------------------------------------------------------------------------------------
1122334455667788  ann   DENY_WRITE  0x12019f  RDWR  lease RHW  data   dir/file.txt  2024-02-29 12:33:22Z

Watched folders: none
Byte range locks:
Session           Share  Name          Kind       Start                 Size
----------------------------------------------------------------------------
1122334455667788  data   dir/file.txt  exclusive  18446744073709551615  1

Resources used by clients:
Resource               Used      Limit
-----------------------------------------
memory                 2.5 MiB   1.0 GiB
memory before a logon  500 B     64.0 MiB
opens                  1         1000
input                  68.4 KiB  -

Memory by user:
Name           Used     Limit
---------------------------------
WORKGROUP\\ann  2.0 KiB  256.0 MiB

Memory by address: none
Converted ACLs that are stored:
Share  POSIX ACL entries
------------------------
Data   6-34

";
    assert_eq!(table(&version(), &snapshot().into()), expected);
}

#[test]
fn an_idle_server_shows_empty_tables() {
    let text = table(&version(), &Snapshot::default().into());
    assert!(text.contains("Open files: none") && text.contains("Byte range locks: none"));
}

#[test]
fn a_disconnected_open_shows_its_remaining_time() {
    let mut snapshot = snapshot();
    snapshot.opens[0].kept = Some(std::time::Duration::from_millis(118_900));
    let text = table(&version(), &snapshot.into());
    assert!(text.contains("1122334455667788  (kept 118 s)  DENY_WRITE"), "{text}");
}

#[test]
fn a_watched_folder_shows_the_depth() {
    for (depth, expected) in [(Depth::Directory, "folder"), (Depth::Tree, "tree")] {
        let mut snapshot = snapshot();
        snapshot.opens[0].watch = Some(depth);
        let status = Status::from(snapshot);
        assert_eq!(status.opens[0].watch.as_deref(), Some(expected));
        let text = table(&version(), &status);
        assert!(text.contains(&format!("1122334455667788  data   dir/file.txt  {expected}\n")), "{text}");
    }
}

#[test]
fn json_round_trips_and_names_are_stable() {
    let status = Status::from(snapshot());
    let text = serde_json::to_string(&Shown { version: version(), status: status.clone() }).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (path, expected) in [
        ("/version", "9.9".into()),
        ("/pid", 42.into()),
        ("/sessions/0/dialect", "3.1.1".into()),
        ("/sessions/0/kind", "user".into()),
        ("/sessions/0/encryption", serde_json::Value::Null),
        ("/trees/0/share", "data".into()),
        ("/opens/0/share_access", "RD".into()),
        ("/opens/0/caching", "lease RHW".into()),
        ("/locks/0/offset", u64::MAX.into()),
        ("/acl_cache/hits", 97.into()),
        ("/acl_store/Data", "6-34".into()),
    ] {
        assert_eq!(value.pointer(path), Some(&expected), "{path}");
    }
}

#[test]
fn values_are_shown_as_words() {
    for (value, word) in [(0x0202, "2.0.2"), (0x0210, "2.1"), (0x0300, "3.0"), (0x0302, "3.0.2"), (7, "0x0007")] {
        assert_eq!(dialect(value), word);
    }
    for (value, word) in [
        (Caching::None, "none"),
        (Caching::Oplock(1), "level II"),
        (Caching::Oplock(8), "exclusive"),
        (Caching::Oplock(9), "batch"),
        (Caching::Oplock(0x20), "oplock 0x20"),
        (Caching::Lease(3), "lease RH"),
    ] {
        assert_eq!(caching(value), word);
    }
}
