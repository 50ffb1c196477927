//! Tests that advice follows from measurements.

use server::policy::{AclStore, Encryption, EncryptionAlgorithm, Entries, SigningAlgorithm, StoredAcls};
use smbconf::SocketOption;

use super::*;
use crate::tune::measurements::{Attributes, Concurrent, Features, Flush, Host, Link, Network, Speed, Storage};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A host and a configuration.
struct Case {
    measured: Measurements,
    policy: Policy,
    daemon: Daemon,
    share: Share,
}

impl Case {
    /// A host with two cores, a link of 10 Gbit/s and flash storage, at which nothing needs a change.
    fn good() -> Case {
        let speed = |algorithm, mib: u64| Speed { algorithm, bytes_per_second: (mib * MIB) as f64 };
        let reads = |(threads, thousands): (usize, f64)| Concurrent { threads, per_second: thousands * 1e3 };
        let measured = Measurements {
            host: Host {
                processor: "test".into(),
                cores: 2,
                memory: 8 << 30,
                descriptors: 1 << 20,
                descriptors_of_service: None,
                watches: Some(1 << 20),
                wake_up: Some(4e-6),
                halt_polling: None,
            },
            network: Network {
                links: vec![Link {
                    name: "eth0".into(),
                    speed: Some(10_000_000_000),
                    mtu: Some(1500),
                    is_device: true,
                    receive_queues: 4,
                }],
                round_trip: 0.001,
                receive_buffer: Some([4096, 131_072, 6 * MIB]),
                send_buffer: Some([4096, 16_384, 4 * MIB]),
                largest_receive_option: Some(208 * KIB),
                largest_send_option: Some(208 * KIB),
                backlog: Some(4096),
                window_scaling: Some(true),
                receive_autotuning: Some(true),
                loopback: Some(3e9),
                loopback_with_options: None,
            },
            cryptography: vec![
                speed("AES-128-GMAC", 5000),
                speed("AES-128-CMAC", 1000),
                speed("HMAC-SHA256", 1500),
                speed("AES-128-GCM", 4000),
                speed("AES-128-CCM", 700),
                speed("AES-256-GCM", 3000),
                speed("AES-256-CCM", 500),
            ],
            storage: Storage {
                file_system: "ext4 on /dev/vda, rw".into(),
                create: 2e-5,
                stat: 3e-6,
                remove: 2e-5,
                list_per_name: 2e-7,
                attributes: Attributes {
                    set: Some(1e-5),
                    get: Some(1e-6),
                    largest: 65_536,
                    security: true,
                    posix_acls: true,
                },
                write_rate: 5e8,
                read_rate: 1e9,
                reads_bypass_cache: true,
                random_reads: [(1, 10.0), (4, 38.0), (12, 80.0), (32, 82.0), (48, 80.0)].map(reads).into(),
                flush: Flush { median: 5e-4, worst: 2e-3, ..Flush::default() },
                features: Features { clones: false, copy_rate: Some(1e9), preallocates: true, notifies: true },
            },
            acl_store: None,
        };
        let share = Share::new("data", "/srv/data");
        Case { measured, policy: Policy::default(), daemon: Daemon::default(), share }
    }

    fn stored(&mut self, attribute: &str) {
        let (attribute, default_style) = (attribute.to_owned(), server::policy::AclStyle::Posix);
        let acls = StoredAcls { of_owner: None, attribute, ignore_system_acls: false, default_style };
        self.share.acls.stored = Some(acls);
    }

    fn options(&mut self, options: &[(&'static str, i32)]) {
        self.daemon.socket_options = options.iter().map(|&(name, value)| SocketOption { name, value }).collect();
    }

    fn advised(&self) -> Report {
        let Case { measured, policy, daemon, share } = self;
        advise(&Facts { measured, policy, daemon, share })
    }

    /// Checks the lines that are recommended, and the beginning of a part of each note.
    #[track_caller]
    fn check(&self, lines: &[&str], notes: &[&str]) -> Vec<Advice> {
        let advised = self.advised();
        let found: Vec<_> = advised.recommendations.iter().map(|advice| advice.line.as_str()).collect();
        assert_eq!(found, lines, "{advised:?}");
        assert_eq!(advised.notes.len(), notes.len(), "{:?}", advised.notes);
        for (note, part) in advised.notes.iter().zip(notes) {
            assert!(note.contains(part), "{note:?} has no {part:?}");
        }
        for advice in &advised.recommendations {
            assert!(!advice.because.is_empty() && !advice.effect.is_empty(), "{advice:?}");
            assert_ne!(advice.current, advice.recommended);
        }
        advised.recommendations
    }
}

#[test]
fn a_good_host_needs_no_change() {
    Case::good().check(&[], &[]);
}

#[test]
fn slow_flushes_change_sync_always_and_never_strict_sync() {
    let mut case = Case::good();
    case.measured.storage.flush = Flush { median: 0.045, worst: 0.3, ..Flush::default() };
    case.check(&[], &["Keep `strict sync = yes`"]);
    case.share.handles.continuously_available = true;
    case.check(&[], &["continuously available", "strict sync"]);
    case.share.handles.continuously_available = false;
    case.share.sync.sync_always = true;
    let advice = case.check(&["sync always = no"], &[]);
    assert!(advice[0].because.contains("45 ms") && advice[0].effect.contains("lost"), "the risk is stated: {advice:?}");
}

#[test]
fn a_file_system_without_attributes_stores_nothing() {
    let mut case = Case::good();
    case.measured.storage.attributes = Attributes::default();
    case.check(&["store dos attributes = no"], &["no extended attributes", "no POSIX ACLs"]);
    case.share.attributes.store_dos_attributes = false;
    case.check(&[], &["no extended attributes", "no POSIX ACLs"]);
    case.stored("security.NTACL");
    case.check(&[], &["no extended attributes", "cannot set an attribute such as security.NTACL"]);
}

#[test]
fn short_attributes_are_noted_where_descriptors_are_stored() {
    let mut case = Case::good();
    case.measured.storage.attributes.largest = 4000;
    case.check(&[], &[]);
    case.stored("security.NTACL");
    case.check(&[], &["at most about 4000 bytes"]);
    case.measured.storage.attributes.security = false;
    case.check(&[], &["Run `frevo tune` as root"]);
    case.stored("user.NTACL");
    case.check(&[], &["at most about 4000 bytes"]);
}

#[test]
fn workers_are_added_only_if_one_user_can_use_them() {
    let mut case = Case::good();
    let reads = |it: &[(usize, f64)]| -> Vec<Concurrent> {
        it.iter().map(|&(threads, per_second)| Concurrent { threads, per_second }).collect()
    };
    for (measured, expected) in [
        (reads(&[(1, 1e4), (12, 1e5), (32, 2.5e5), (48, 2.6e5)]), Some("frevo:worker threads = 128")),
        (reads(&[(1, 1e4), (12, 1e5), (32, 2e5), (64, 4e5)]), Some("frevo:worker threads = 192")),
        // A disk that is busy with a few threads, and one core that answers from memory.
        (reads(&[(1, 90.0), (4, 180.0), (12, 200.0), (32, 210.0)]), None),
        (reads(&[(1, 5e5), (4, 4.9e5), (12, 4.8e5), (32, 4.7e5)]), None),
        // The knee is beyond twelve threads, and what it gains is within the usual variation.
        (reads(&[(1, 1e4), (12, 1e5), (16, 1.2e5), (48, 1.2e5)]), None),
        (Vec::new(), None),
    ] {
        case.measured.storage.random_reads = measured;
        case.check(expected.as_slice(), &[]);
    }
    case.measured.storage.random_reads = reads(&[(1, 1e4), (12, 1e5), (32, 2.5e5), (48, 2.6e5)]);
    case.policy.limits.worker_threads = 128;
    case.check(&[], &[]);
    case.measured.host.cores = 1;
    case.policy.limits.worker_threads = 8;
    let advice = case.check(&["frevo:worker threads = 128"], &[]);
    assert!(advice[0].because.contains("at most 2 of 8"), "{advice:?}");
}

#[test]
fn a_fast_link_needs_larger_automatic_buffers() {
    let mut case = Case::good();
    case.measured.network.links[0].speed = Some(100_000_000_000);
    let advice =
        case.check(&["net.ipv4.tcp_wmem = 4096 16384 33554432", "net.ipv4.tcp_rmem = 4096 131072 33554432"], &[]);
    assert!(advice.iter().all(|advice| advice.location == Location::Sysctl), "{advice:?}");
    assert!(advice[0].because.contains("100 Gbit/s") && advice[0].because.contains("4 MiB"), "{advice:?}");
    case.measured.network.round_trip = 1e-4;
    case.check(&[], &[]);
    case.measured.network.links[0].speed = None;
    case.measured.network.round_trip = 0.1;
    case.check(&[], &[]);
}

#[test]
fn fixed_buffers_are_removed_if_they_cannot_fill_the_link() {
    let mut case = Case::good();
    case.options(&[("TCP_NODELAY", 1), ("SO_RCVBUF", 65_536), ("SO_SNDBUF", 65_536)]);
    let advice = case.check(&["socket options = TCP_NODELAY=1"], &[]);
    assert!(advice[0].because.contains("128 KiB") && advice[0].because.contains("524 Mbit/s"), "{advice:?}");
    assert!(advice[0].effect.contains("4 MiB for sending"), "{advice:?}");
    for speed in [Some(1_000_000_000), None] {
        case.measured.network.links[0].speed = speed;
        case.check(&["socket options = TCP_NODELAY=1"], &[]);
    }
    case.measured.network.links[0].speed = Some(100_000_000);
    case.check(&[], &[]);
    case = Case::good();
    case.options(&[("SO_SNDBUF", 65_536)]);
    case.check(&["socket options = TCP_NODELAY"], &[]);
    // The kernel cuts what exceeds net.core.rmem_max, which is small here.
    case.options(&[("SO_RCVBUF", 64 << 20)]);
    case.measured.network.round_trip = 0.002;
    let advice = case.check(&["net.ipv4.tcp_wmem = 4096 16384 8388608", "socket options = TCP_NODELAY"], &[]);
    assert!(advice[1].because.contains("416 KiB (limited by net.core)"), "{advice:?}");
    case.measured.network.largest_receive_option = Some(64 * MIB);
    case.check(&["net.ipv4.tcp_wmem = 4096 16384 8388608"], &[]);
}

#[test]
fn settings_that_are_off_are_switched_on() {
    let mut case = Case::good();
    let network = &mut case.measured.network;
    (network.window_scaling, network.receive_autotuning, network.backlog) = (Some(false), Some(false), Some(128));
    case.check(
        &["net.ipv4.tcp_window_scaling = 1", "net.ipv4.tcp_moderate_rcvbuf = 1", "net.core.somaxconn = 1024"],
        &[],
    );
}

#[test]
fn several_links_and_fast_ones_need_multichannel() {
    let mut case = Case::good();
    case.policy.server_multi_channel_support = false;
    case.check(&["server multi channel support = yes"], &[]);
    case.measured.network.links[0].speed = Some(1_000_000_000);
    case.check(&[], &[]);
    case.measured.network.links.push(Link { name: "br0".into(), ..Link::default() });
    case.check(&[], &[]);
    case.measured.network.links.push(Link { name: "eth1".into(), is_device: true, ..Link::default() });
    case.check(&["server multi channel support = yes"], &[]);
    case.policy.server_multi_channel_support = true;
    case.check(&[], &["eth1 report no speed"]);
}

#[test]
fn small_requests_and_few_credits_are_raised() {
    let mut case = Case::good();
    (case.policy.smb2_max_read, case.policy.smb2_max_write) = (65_536, 65_536);
    case.check(&["smb2 max read = 8388608", "smb2 max write = 8388608"], &[]);
    let mut case = Case::good();
    case.policy.smb2_max_credits = 16;
    case.check(&["smb2 max credits = 8192"], &[]);
    case.policy.smb2_max_credits = 128;
    case.check(&[], &[]);
}

#[test]
fn algorithms_are_reordered_among_keys_of_one_length() {
    let mut case = Case::good();
    use EncryptionAlgorithm::{Aes128Ccm, Aes128Gcm, Aes256Ccm, Aes256Gcm};
    case.policy.server_smb3_encryption_algorithms = vec![Aes256Gcm, Aes128Gcm];
    case.check(&[], &[]);
    case.policy.server_smb3_encryption_algorithms = vec![Aes256Ccm, Aes128Ccm];
    case.check(&["server smb3 encryption algorithms = AES-256-GCM, AES-256-CCM, AES-128-CCM"], &[]);
    case = Case::good();
    case.policy.server_smb3_signing_algorithms = vec![SigningAlgorithm::HmacSha256];
    case.check(&["server smb3 signing algorithms = AES-128-GMAC, HMAC-SHA256"], &[]);
}

#[test]
fn a_slow_core_is_noted_where_encryption_is_required() {
    let mut case = Case::good();
    for speed in &mut case.measured.cryptography {
        speed.bytes_per_second /= 20.0;
    }
    case.measured.host.cores = 1;
    case.check(&[], &[]);
    case.share.access.server_smb_encrypt = Encryption::Required;
    case.check(&[], &["AES-128-GCM limits the throughput"]);
}

#[test]
fn limits_of_a_small_host_are_raised_or_kept() {
    let mut case = Case::good();
    (case.measured.host.descriptors, case.measured.host.watches) = (1024, Some(8192));
    case.check(&["fs.inotify.max_user_watches = 131072"], &["192 connections and 513 open files"]);
    case.policy.kernel_change_notify = false;
    case.measured.host.descriptors_of_service = Some(1 << 20);
    case.check(&[], &[]);
    case.measured.host.descriptors_of_service = Some(1024);
    let advice = case.check(&["LimitNOFILE=1048576"], &[]);
    assert!(advice[0].because.contains("192 connections and 513 open files"), "{advice:?}");
    let mut case = Case::good();
    case.daemon.memory_limit = Some(6 << 30);
    case.check(&["frevo:memory limit = 4096M"], &[]);
    case.daemon.memory_limit = Some(1 << 30);
    case.check(&[], &[]);
}

#[test]
fn processors_that_halt_at_once_are_to_look_for_work_first() {
    let mut case = Case::good();
    (case.measured.host.wake_up, case.measured.host.halt_polling) = (Some(21e-6), Some(0));
    let advice = case.check(&["w /sys/module/haltpoll/parameters/guest_halt_poll_ns - - - - 200000"], &[]);
    assert!(advice[0].because.contains("21 µs"), "{advice:?}");
    // They already do, wake quickly, or it is not known that they halt.
    for (wake_up, halt_polling) in [(21e-6, Some(200_000)), (3e-6, Some(0)), (21e-6, None)] {
        (case.measured.host.wake_up, case.measured.host.halt_polling) = (Some(wake_up), halt_polling);
        case.check(&[], &[]);
    }
}

#[test]
fn the_acl_policy_follows_the_measurement() {
    let mut case = Case::good();
    case.stored("security.NTACL");
    case.measured.acl_store = Some("never".into());
    case.check(&[], &[]);
    case.measured.acl_store = Some(">= 6".into());
    case.check(&["frevo:acl store = >= 6"], &[]);
    case.share.acls.acl_store = AclStore::Auto(Some(Entries::at_least(6)));
    case.check(&[], &[]);
    case.share.acls.acl_store = AclStore::Said(Entries::ALL);
    case.measured.acl_store = Some("never".into());
    case.check(&["frevo:acl store = never"], &[]);
}

#[test]
fn a_network_file_system_and_large_directories_are_noted() {
    let mut case = Case::good();
    case.measured.storage.file_system = "nfs4 on server:/srv, rw".into();
    case.measured.storage.list_per_name = 5e-5;
    case.share.sync.strict_allocate = true;
    case.measured.storage.features.preallocates = false;
    case.check(&["strict allocate = no"], &["nfs4 does not report", "100,000 entries takes 5 s"]);
    case.share.names.case_sensitive = true;
    case.policy.kernel_change_notify = false;
    case.check(&["strict allocate = no"], &[]);
}
