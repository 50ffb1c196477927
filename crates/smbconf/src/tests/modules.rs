//! Tests of modules that a share needs, shares of the root directory, and requirements on the process.

use super::*;
use crate::table::{MODULES, Status};

fn loaded(text: &str) -> (Loaded, tempfile::TempDir) {
    let (loaded, directory) = load_files(&[("smb.conf", text)]);
    (loaded.unwrap_or_else(|problems| panic!("{text}: {problems}")), directory)
}

fn is_served(loaded: &Loaded, share: &str) -> bool {
    loaded.policy.shares[share].available
}

#[test]
fn only_shares_that_need_a_missing_module_are_not_served() {
    let text = "[vol]\npath = @DIR@/x\nguest ok = yes\nvfs objects = ceph WORM:2 recycle worm\n[x]\npath = @DIR@/x\n";
    let (loaded, _directory) = loaded(text);
    assert!(!is_served(&loaded, "vol") && is_served(&loaded, "x"));
    let problems: Vec<_> = loaded.warnings.shares_not_served().collect();
    assert_eq!(problems.len(), 1, "{}", loaded.warnings);
    let problem = problems[0];
    assert!(problem.severity == Severity::Error && problem.fails_check(), "{problem}");
    assert_eq!(problem.place.as_ref().map(|place| place.line), Some(4));
    assert_eq!(
        problem.message,
        "the share [vol] is not served: Frevo does not have the module `ceph`, which supplies the storage of the share \
         (CephFS); `worm`, which forbids operations (files that cannot be changed)"
    );
    assert!(problem.remedy.ends_with("write `frevo:without = ceph worm` into [vol]"), "{}", problem.remedy);
    let sections: Vec<_> = loaded.effective.differing().into_iter().map(|(name, _)| name).collect();
    assert_eq!(sections, ["global", "x"]);
}

#[test]
fn every_module_to_omit_must_be_listed() {
    let cases = [
        ("frevo:without = ceph", false),
        ("frevo:without = worm", false),
        ("frevo:without = Worm, ceph", true),
        ("frevo:without =", false),
    ];
    for (line, served) in cases {
        let (loaded, _directory) = loaded(&format!("[x]\npath = @DIR@/x\nvfs objects = ceph worm\n{line}\n"));
        assert_eq!(is_served(&loaded, "x"), served, "{line}");
        let said = loaded.warnings.to_string();
        assert_eq!(
            said.contains("warning: the share is served without the module `worm`"),
            line.to_lowercase().contains("worm")
        );
    }
    let (loaded, _directory) = loaded("[x]\npath = @DIR@/x\nfrevo:without = worm\n");
    assert!(loaded.warnings.to_string().contains("note: `frevo:without` names `worm`, which is not in `vfs objects`"));
}

#[test]
fn every_module_is_classified_and_unknown_ones_are_vital() {
    let served = |name: &str| {
        let (loaded, _directory) = loaded(&format!("[x]\npath = @DIR@/x\nvfs objects = {name}\n"));
        is_served(&loaded, "x")
    };
    for module in MODULES {
        assert_eq!(served(module.name), module.vital.is_none(), "{}", module.name);
        assert!(module.vital.is_none() || matches!(module.status, Status::NotServed(_)), "{}", module.name);
    }
    for name in [
        "ceph",
        "ceph_new",
        "gpfs",
        "worm",
        "virusfilter",
        "readonly",
        "audit",
        "extd_audit",
        "acl_tdb",
        "nfs4acl_xattr",
        "zfsacl",
        "xattr_tdb",
        "nonsense",
        "/usr/lib/samba/vfs/own.so",
    ] {
        assert!(!served(name), "{name}");
    }
    for name in ["acl_xattr", "streams_xattr", "shadow_copy2", "recycle", "fruit", "catia", "full_audit", "audit:x"] {
        assert_eq!(served(name), name != "audit:x", "{name}");
    }
}

#[test]
fn copies_defaults_and_homes_inherit_what_they_need() {
    let (loaded, _directory) = loaded(
        "[a]\npath = @DIR@/x\nvfs objects = extd_audit\n[b]\npath = @DIR@/x\ncopy = a\n\
         [c]\npath = @DIR@/x\ncopy = a\nfrevo:without = extd_audit\n[d]\npath = @DIR@/x\ncopy = c\n",
    );
    let served: Vec<_> = ["a", "b", "c", "d"].into_iter().filter(|name| is_served(&loaded, name)).collect();
    assert_eq!(served, ["c", "d"]);
    let (loaded, _directory) = self::loaded(
        "[global]\nvfs objects = extd_audit\n[a]\npath = @DIR@/x\n[b]\npath = @DIR@/x\nvfs objects = acl_xattr\n",
    );
    assert!(!is_served(&loaded, "a") && is_served(&loaded, "b"));
}

#[test]
fn a_share_whose_command_decides_who_may_connect_is_not_served() {
    for (lines, served) in [
        ("preexec = /bin/may %U\npreexec close = yes", false),
        ("root preexec = /bin/may %U\nroot preexec close = yes", false),
        ("preexec = /bin/log %U", true),
        ("preexec close = yes", true),
        ("exec = /bin/may %U\npreexec close = yes\nfrevo:without = preexec", true),
    ] {
        let text = format!("[x]\npath = @DIR@/x\n{lines}\n[y]\npath = @DIR@/x\n");
        let loaded = load_files(&[("smb.conf", &text)]).0.expect("the other share is served");
        assert_eq!(loaded.policy.shares["x"].available, served, "{lines}");
        assert!(loaded.policy.shares["y"].available);
    }
}

#[test]
fn the_extensions_for_macs_are_on_as_a_whole_or_off() {
    let loaded = |lines: &str| {
        let (loaded, _directory) = load_files(&[("smb.conf", &format!("[x]\npath = @DIR@/x\n{lines}\n"))]);
        let policy = loaded.unwrap_or_else(|problems| panic!("{lines}: {problems}")).policy;
        let share = &policy.shares["x"];
        let streams = share.streams.as_ref().is_some_and(|streams| streams.mac.is_some());
        assert_eq!((policy.mac.offered, streams), (share.mac.is_some(), share.mac.is_some()), "{lines}");
        share.mac.as_deref().cloned()
    };
    let fruit = "vfs objects = fruit streams_xattr\nfruit:resource = stream\n";
    assert_eq!(loaded(fruit), Some(server::policy::MacPolicy::default()));
    assert!(loaded("frevo:mac = yes\nfruit:resource = stream").is_some(), "streams exist by default");
    for off in [
        String::new(),
        format!("{fruit}frevo:mac = no"),
        "vfs objects = fruit streams_xattr\nfruit:resource = xattr".to_owned(),
        "vfs objects = fruit\nfruit:resource = stream".to_owned(),
        "vfs objects = streams_xattr\nfruit:resource = stream".to_owned(),
    ] {
        assert_eq!(loaded(&off), None, "{off}");
    }
    assert!(loaded("vfs objects = fruit streams_xattr").is_some(), "resource forks may be in files");
    let backups = loaded(&format!("{fruit}fruit:time machine = yes\nfruit:time machine max size = 1T"));
    let backups = backups.expect("it is on");
    assert_eq!((backups.time_machine, backups.time_machine_max_size), (true, Some(1 << 40)));
    for (line, expected) in [("", false), ("fruit:locking = none", false), ("fruit:locking = netatalk", true)] {
        assert_eq!(loaded(&format!("{fruit}{line}")).map(|mac| mac.netatalk_locks), Some(expected), "{line}");
    }
}

#[test]
fn appledouble_files_are_hidden_where_resource_forks_are_in_them() {
    for (lines, hidden) in [
        ("", true),
        ("fruit:resource = file", true),
        ("fruit:ressource = file\nveto files = /x/", true),
        ("fruit:resource = file\nfruit:veto_appledouble = no", false),
        ("fruit:resource = stream", false),
        ("frevo:mac = no", false),
    ] {
        let text = format!("[x]\npath = @DIR@/x\nvfs objects = fruit streams_xattr\n{lines}\n");
        let loaded = load_files(&[("smb.conf", &text)]).0.expect("it loads");
        let names = &loaded.policy.shares["x"].names.veto_files;
        assert_eq!(names.iter().any(|name| name == "._*"), hidden, "{lines}");
    }
}

#[test]
fn character_mappings_are_read_if_the_module_is_named() {
    let characters = |lines: &str| {
        let (loaded, _directory) = load_files(&[("smb.conf", &format!("[x]\npath = @DIR@/x\n{lines}\n"))]);
        loaded.map(|loaded| loaded.policy.shares["x"].names.characters.clone()).map_err(|problems| problems.to_string())
    };
    let expected = server::name::CharacterMap::new([(0x22, 0xa8), (0x2a, 0xa4)]);
    assert_eq!(characters("vfs objects = catia\ncatia:mappings = 0x22:0xa8,0x2a:0xa4"), Ok(expected.clone()));
    assert_eq!(characters("vfs objects = catia\ncatia:mappings = 0x22:0xA8, 2a:a4"), Ok(expected));
    for lines in ["vfs objects = catia", "catia:mappings = 0x22:0xa8"] {
        assert!(characters(lines).is_ok_and(|characters| characters.is_empty()), "{lines}");
    }
    for value in ["0x22", "zz:0x62", "0x10000:0x79", "0x22:0xa8:0x1", "0x0:0x41", "0x41:0xd800", "0x+1:0x41", "0x:0x41"]
    {
        let text = format!("[x]\npath = @DIR@/x\nvfs objects = catia\ncatia:mappings = 0x41:0x42,{value}\n");
        let loaded = load_files(&[("smb.conf", &text)]).0.expect("the other shares are served");
        assert_eq!(loaded.warnings.faulty_shares().collect::<Vec<_>>(), ["x"], "{value}");
        assert!(loaded.warnings.to_string().contains("catia:mappings"), "{value}");
    }
}

/// A host whose users have home directories.
#[derive(Clone)]
struct WithHomes;

impl Names for WithHomes {
    fn user(&self, name: &str) -> Result<Option<Arc<Identity>>, String> {
        TestNames.user(name)
    }

    fn group(&self, name: &str) -> Result<Option<u32>, String> {
        TestNames.group(name)
    }

    fn home(&self, _: &str, _: Option<u32>) -> Result<Option<PathBuf>, String> {
        Ok(Some("/home/ann".into()))
    }

    fn owned(&self) -> Option<Arc<dyn Names + Send + Sync>> {
        Some(Arc::new(WithHomes))
    }

    fn host(&self) -> String {
        TestNames.host()
    }

    fn environment(&self, _: &str) -> Option<String> {
        None
    }
}

#[tokio::test]
async fn homes_that_need_a_missing_module_are_not_served() {
    for (line, served) in [("", false), ("frevo:without = worm", true)] {
        let directory = directory(&[("smb.conf", &format!("[homes]\nvfs objects = worm\n{line}\n"))]);
        let loaded = load(&directory.path().join("smb.conf"), &WithHomes).expect("it loads");
        assert_eq!(loaded.warnings.shares_not_served().count(), usize::from(!served), "{}", loaded.warnings);
        let homes = loaded.policy.homes.expect("there are homes");
        assert_eq!(homes.section().available, served);
        let home = homes.share_of("ann", None).await.ok().flatten().expect("ann has a home");
        assert_eq!(home.available, served);
    }
}

#[test]
fn homes_for_macs_offer_the_extensions() {
    for (section, offers) in
        [("[homes]\nvfs objects = fruit streams_xattr\nfruit:resource = stream\n", true), ("[homes]\n", false)]
    {
        let directory = directory(&[("smb.conf", section)]);
        let loaded = load(&directory.path().join("smb.conf"), &WithHomes).expect("it loads");
        assert_eq!(loaded.policy.mac.offered, offers, "{section}");
    }
}

#[test]
fn wide_links_of_any_share_are_known_to_all() {
    let insecure = "[global]\nallow insecure wide links = yes\n[a]\npath = /\n";
    for (section, expected) in [("", false), ("[b]\npath = /\nwide links = yes\n", true)] {
        let directory = directory(&[("smb.conf", &format!("{insecure}{section}"))]);
        let loaded = load(&directory.path().join("smb.conf"), &WithHomes).expect("it loads");
        assert_eq!(loaded.policy.wide_links, expected, "{section}");
    }
}

#[test]
fn sharing_the_root_directory_with_guests_is_a_warning() {
    let cases = [
        ("guest ok = yes\nread only = no", Some(Severity::Warning), true, "guests can write"),
        ("guest ok = yes\nwrite list = ann", Some(Severity::Warning), true, "guests can write"),
        ("guest ok = yes", Some(Severity::Warning), true, "guests can read"),
        ("valid users = ann", Some(Severity::Note), false, "the whole file system"),
        ("guest ok = yes\nvfs objects = glusterfs", None, false, ""),
    ];
    for (lines, severity, fails, words) in cases {
        for path in ["/", "/.", "//usr/.."] {
            let (loaded, _directory) = loaded(&format!("[x]\npath = {path}\n{lines}\n"));
            let found = loaded.warnings.0.iter().find(|problem| problem.code == Code::RootShared);
            assert_eq!(found.map(|problem| problem.severity), severity, "{path} {lines}");
            if let Some(problem) = found {
                assert!(problem.fails_check() == fails && problem.message.contains(words), "{problem}");
            }
        }
    }
}

#[test]
fn process_requirements_are_determined_without_user_lookups() {
    let needs = |text: &str| {
        let directory = directory(&[("smb.conf", text)]);
        confinement(Some(&directory.path().join("smb.conf")), &NoUsers)
    };
    let plain = Confinement { wanted: true, describes: false, pam: false, console: false, print_commands: Vec::new() };
    assert_eq!(confinement(None, &NoUsers), plain);
    assert_eq!(needs("[x]\npath = /x\n"), plain);
    assert_eq!(needs("[global]\nfrevo:sandbox = no\n[x]\npath = /x\n"), Confinement { wanted: false, ..plain.clone() });
    assert_eq!(needs("[global]\nnonsense\n"), plain, "the server does not start with this file");
    assert_eq!(needs("[global]\nobey pam restrictions = yes\n"), Confinement { pam: true, ..plain.clone() });
    assert_eq!(needs("[global]\nfrevo:console = on\n"), Confinement { console: true, ..plain.clone() });
    let describes = Confinement { describes: true, ..plain.clone() };
    assert_eq!(needs("[x]\npath = /x\nvfs objects = acl_xattr\n"), describes);
    assert_eq!(needs("[x]\npath = /x\nfrevo:quotas = yes\n"), describes);
    assert_eq!(needs("[global]\nfrevo:quotas = yes\n[x]\npath = /x\nvfs objects = glusterfs\n"), plain);
    assert_eq!(needs("[global]\nvfs objects = acl_xattr\n[homes]\n"), describes);
    assert_eq!(needs("[x]\npath = /x\nvfs objects = acl_xattr\n[y]\npath = /y\ncopy = x\n"), describes);
    // The file of a session may define such a share.
    assert_eq!(needs("[global]\ninclude = /etc/smb.conf.%m\n[x]\npath = /x\n"), describes);
    let own = "[x]\npath = /x\nvfs objects = acl_xattr\nacl_xattr:security_acl_name = user.NTACL\n";
    assert_eq!(needs(own), plain, "any user may write that attribute");
}

#[test]
fn versions_are_found_if_the_share_asks_for_it() {
    let (loaded, _directory) = loaded(
        "[a]\npath = @DIR@/x\n[b]\npath = @DIR@/x\nfrevo:snapshots = auto\n\
         [c]\npath = @DIR@/x\nvfs objects = snapper\n\
         [d]\npath = @DIR@/x\nvfs objects = snapper\nfrevo:snapshots = no\n",
    );
    let found: Vec<_> =
        ["a", "b", "c", "d"].map(|name| loaded.policy.shares[name].automatic_snapshots.is_some()).into();
    assert_eq!(found, [false, true, true, false]);
}

#[test]
fn a_schedule_of_snapshots_in_homes_is_reported() {
    for (text, reported) in [
        ("[homes]\nfrevo:snapshot schedule = daily 7\n", true),
        ("[global]\nfrevo:snapshot schedule = daily 7\n[homes]\n", false),
        ("[x]\npath = @DIR@/x\nfrevo:snapshot schedule = daily 7\n[homes]\n", false),
    ] {
        let (loaded, _directory) = loaded(text);
        let found = loaded.warnings.0.iter().any(|problem| problem.message.contains("no snapshots are created"));
        assert_eq!(found, reported, "{text}: {}", loaded.warnings);
    }
}
