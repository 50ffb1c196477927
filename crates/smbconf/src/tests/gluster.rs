//! Tests of shares in GlusterFS volumes.

use std::time::Duration;

use super::*;
use server::policy::{CachePolicy, Coherence, GlusterVolume, HandlePolicy, Share, Storage, VolfileServer};

fn loaded(text: &str) -> (Loaded, tempfile::TempDir) {
    let (loaded, directory) = load_files(&[("smb.conf", text)]);
    (loaded.unwrap_or_else(|problems| panic!("{text}: {problems}")), directory)
}

/// Loads a share with these lines in a volume.
fn with(lines: &str) -> Loaded {
    loaded(&format!("[vol]\npath = /\nvfs objects = glusterfs\n{lines}\n")).0
}

/// Returns the volume of the share with these lines.
fn volume(lines: &str) -> GlusterVolume {
    let loaded = with(lines);
    assert_eq!(loaded.warnings.shares_not_served().count(), 0, "{lines}: {}", loaded.warnings);
    match &loaded.policy.shares["vol"].storage {
        Storage::Gluster(volume) => (**volume).clone(),
        Storage::Directory => panic!("{lines}: the share is in a directory"),
    }
}

fn tcp(host: &str, port: u16) -> VolfileServer {
    VolfileServer::Tcp { host: host.to_owned(), port }
}

#[test]
fn a_module_without_parameters_has_the_defaults_of_samba() {
    let (loaded, _directory) = loaded("[vol]\npath = /missing/on/this host\nvfs objects = acl_xattr glusterfs\n");
    assert!(loaded.warnings.0.is_empty(), "{}", loaded.warnings);
    let share = &loaded.policy.shares["vol"];
    assert!(share.available && share.acls.stored.is_some());
    assert_eq!(share.path, Path::new("/missing/on/this host"));
    let expected = GlusterVolume {
        volume: "vol".into(),
        servers: vec![tcp("localhost", 24007)],
        log_file: None,
        log_level: 7,
        coherence: None,
        threads: 16,
        timeout: Duration::from_secs(30),
    };
    assert_eq!(share.storage, Storage::Gluster(Arc::new(expected)));
}

#[test]
fn all_parameters_are_read() {
    let read = volume(
        "glusterfs: volume = gv_0-%D\nglusterfs:volfile_server = a b.example.org:1 [fd00::1]:2\n\
         glusterfs:logfile = /var/log/%L/vol-%M.log\nglusterfs:loglevel = 9\nfrevo:coherence = Callback\n\
         frevo:glusterfs threads = 64\nfrevo:glusterfs timeout = 1",
    );
    let expected = GlusterVolume {
        volume: "gv_0-WORKGROUP".into(),
        servers: vec![tcp("a", 24007), tcp("b.example.org", 1), tcp("fd00::1", 2)],
        log_file: Some("/var/log/BOX/vol-frevo.log".into()),
        log_level: 9,
        coherence: Some(Coherence::Callback),
        threads: 64,
        timeout: Duration::from_secs(1),
    };
    assert_eq!(read, expected);
    assert_eq!(volume("glusterfs:volume = /snaps/s1/vol").volume, "/snaps/s1/vol");
    assert_eq!(volume("[plain]\npath = @DIR@/x\n").volume, "vol", "the instance of another share");
    for (value, coherence) in
        [("auto", None), ("exclusive", Some(Coherence::Exclusive)), ("timestamp", Some(Coherence::Timestamp))]
    {
        assert_eq!(volume(&format!("frevo:coherence = {value}")).coherence, coherence);
    }
}

#[test]
fn servers_have_the_forms_of_samba() {
    let cases = [
        ("tcp+a", vec![tcp("a", 24007)]),
        ("tcp+10.0.0.1:24008", vec![tcp("10.0.0.1", 24008)]),
        ("[::1]", vec![tcp("::1", 24007)]),
        ("tcp+[::1]:65535", vec![tcp("::1", 65535)]),
        ("unix+/run/a:b  host", vec![VolfileServer::Unix("/run/a:b".into()), tcp("host", 24007)]),
        ("%L", vec![tcp("BOX", 24007)]),
    ];
    for (value, expected) in cases {
        assert_eq!(volume(&format!("glusterfs:volfile_server = {value}")).servers, expected, "{value}");
    }
}

#[test]
fn a_share_with_a_wrong_value_is_not_served_and_others_are() {
    for line in [
        "glusterfs:volfile_server = rdma+a",
        "glusterfs:volfile_server = a b:",
        "glusterfs:volfile_server = a:0",
        "glusterfs:volfile_server = a:65536",
        "glusterfs:volfile_server = a:+1",
        "glusterfs:volfile_server = fd00::1",
        "glusterfs:volfile_server = [10.0.0.1]",
        "glusterfs:volfile_server = [::1]1",
        "glusterfs:volfile_server = [::1",
        "glusterfs:volfile_server = tcp+",
        "glusterfs:volfile_server = unix+run",
        "glusterfs:volfile_server = udp+a",
        "glusterfs:volfile_server = a/b",
        "glusterfs:volfile_server =",
        "glusterfs:volfile_server = %m",
        "glusterfs:volume = a b",
        "glusterfs:volume = %U",
        "glusterfs:logfile = vol.log",
        "glusterfs:loglevel = 10",
        "glusterfs:loglevel = info",
        "frevo:coherence = yes",
        "frevo:glusterfs threads = 1",
        "frevo:glusterfs threads = 65",
        "frevo:glusterfs timeout = 0",
    ] {
        let (loaded, _directory) =
            loaded(&format!("[vol]\npath = /\nvfs objects = glusterfs\n{line}\n[x]\npath = @DIR@/x\n"));
        let problems: Vec<_> = loaded.warnings.shares_not_served().collect();
        assert_eq!(problems.len(), 1, "{line}: {}", loaded.warnings);
        let (name, problem) = (line.split(" =").next().expect("a name"), problems[0]);
        assert_eq!(problem.place.as_ref().map(|place| place.line), Some(4), "{problem}");
        assert!(problem.message.contains(name) && !problem.remedy.is_empty(), "{problem}");
        let shares = &loaded.policy.shares;
        assert!(!shares["vol"].available && shares["x"].available, "{line}");
    }
    check(
        "[vol]\npath = /\nvfs objects = glusterfs\nglusterfs:volfile_server = a rdma+b\n",
        "@DIR@/smb.conf:4: error: the share [vol] is not served: `rdma+b` is not a valid value for \
         `glusterfs:volfile_server`\n  remedy: allowed: host, host:port, [IPv6 address], [IPv6 address]:port, each \
         also after tcp+, and unix+/path, separated by blanks; GlusterFS 8 removed RDMA",
    );
    check(
        "[my files]\npath = /\nvfs objects = glusterfs\n",
        "@DIR@/smb.conf:1: error: the share [my files] is not served: `my files` cannot be the name of a GlusterFS \
         volume\n  remedy: set `glusterfs:volume`",
    );
}

#[test]
fn a_share_in_a_volume_needs_an_absolute_path_and_no_directory() {
    for (path, code) in [("", Some(Code::NoPath)), ("path = a/b", Some(Code::BadValue)), ("path = /a", None)] {
        let (loaded, _directory) = loaded(&format!("[vol]\nvfs objects = glusterfs\nguest ok = yes\n{path}\n"));
        assert_eq!(loaded.warnings.0.first().map(|problem| problem.code), code, "{path}: {}", loaded.warnings);
        assert_eq!(loaded.policy.shares["vol"].available, code.is_none());
    }
    let (loaded, _directory) = loaded("[vol]\nvfs objects = glusterfs\npath = /home/%U\nguest ok = yes\n");
    assert!(loaded.warnings.0.is_empty() && loaded.policy.shares["vol"].path_template.is_some());
}

#[test]
fn parameters_without_the_module_have_no_effect() {
    let (loaded, _directory) = loaded(
        "[global]\nglusterfs:loglevel = 3\n[x]\npath = @DIR@/x\nglusterfs:volume = v\nfrevo:coherence = exclusive\n",
    );
    assert_eq!(loaded.policy.shares["x"].storage, Storage::Directory);
    assert_eq!(loaded.warnings.without_effect(), ["`frevo:coherence`", "`glusterfs:volume`"]);
    assert!(loaded.policy.shares["x"].caching.oplocks);
}

#[test]
fn a_share_served_without_the_module_is_in_a_directory_of_this_host() {
    let (loaded, _directory) = loaded("[x]\npath = @DIR@/x\nvfs objects = glusterfs\nfrevo:without = glusterfs\n");
    assert_eq!(loaded.policy.shares["x"].storage, Storage::Directory);
    assert_eq!(loaded.warnings.shares_not_served().count(), 0);
    let said = loaded.warnings.to_string();
    assert!(
        said.contains("warning: the share is served without the module `glusterfs`: `path` is a directory"),
        "{said}"
    );
}

#[test]
fn modules_keep_their_features_in_a_volume() {
    let loaded = with(
        "vfs objects = shadow_copy2 recycle catia full_audit streams_xattr acl_xattr glusterfs:first\n\
         recycle:repository = /bin\nshadow:snapdir = /.snaps\nshadow:basedir = /\ncatia:mappings = 0x22:0xa8",
    );
    let notes = |problem: &Problem| problem.severity == Severity::Note || problem.code == Code::SetTwice;
    assert!(loaded.warnings.0.iter().all(notes), "{}", loaded.warnings);
    let share = &loaded.policy.shares["vol"];
    assert!(share.available && !share.storage.is_directory());
    assert!(
        share.snapshots.is_some() && share.recycle.is_some() && share.audit.is_some() && share.acls.stored.is_some()
    );
    assert!(!share.names.characters.is_empty());
}

#[test]
fn glusterfs_is_the_last_module() {
    check(
        "[vol]\npath = /\nvfs objects = catia glusterfs acl_xattr recycle\n",
        "@DIR@/smb.conf:3: warning: Samba may ignore `acl_xattr`, `recycle` after `glusterfs` in `vfs objects`, and \
         Frevo does not\n  remedy: write `glusterfs` last, or remove the modules after it",
    );
    let (loaded, _directory) = loaded("[vol]\npath = /\nvfs objects = ceph glusterfs\n");
    assert!(!loaded.policy.shares["vol"].available, "two modules supply storage");
}

#[test]
fn clients_cache_only_files_that_nobody_else_changes() {
    let asked = "oplocks = yes\nlevel2 oplocks = yes\nfake oplocks = yes\ndurable handles = yes\n\
                 continuously available = yes\n";
    let granted = |share: &Share| {
        let CachePolicy { oplocks, level2_oplocks, fake_oplocks, kernel_oplocks, .. } = share.caching;
        let HandlePolicy { durable_handles, continuously_available } = share.handles;
        assert!(!kernel_oplocks && !share.locks.posix_locking, "no programs of this host open the files");
        [oplocks, level2_oplocks, fake_oplocks, durable_handles, continuously_available]
    };
    for (lines, expected, notes) in [
        ("", [false; 5], 0),
        ("frevo:coherence = callback", [false; 5], 0),
        ("frevo:coherence = timestamp\noplocks = no\ndurable handles = no", [false; 5], 0),
        (asked, [false; 5], 5),
        ("frevo:coherence = exclusive", [true, true, false, true, false], 0),
        (&format!("frevo:coherence = exclusive\n{asked}"), [true; 5], 0),
    ] {
        let loaded = with(lines);
        assert_eq!(granted(&loaded.policy.shares["vol"]), expected, "{lines}");
        assert_eq!(loaded.warnings.0.iter().filter(|it| it.is_single_note()).count(), notes, "{}", loaded.warnings);
    }
    let said = with("continuously available = yes").warnings.to_string();
    assert!(said.contains("smb.conf:4: note: `continuously available = yes` has no effect in [vol]"), "{said}");
    let local = with("posix locking = yes\nkernel oplocks = yes");
    assert_eq!(local.warnings.without_effect(), ["`kernel oplocks`", "`posix locking`"]);
    granted(&local.policy.shares["vol"]);
    assert!(with("posix locking = no\nkernel oplocks = no").warnings.0.is_empty());
}

#[test]
fn the_process_needs_no_privilege_for_attributes_in_a_volume() {
    let describes = |modules: &str| {
        let text = format!("[vol]\npath = /\nvfs objects = {modules}\n");
        let directory = directory(&[("smb.conf", &text)]);
        confinement(Some(&directory.path().join("smb.conf")), &NoUsers).describes
    };
    assert!(describes("acl_xattr") && !describes("acl_xattr glusterfs"));
}
