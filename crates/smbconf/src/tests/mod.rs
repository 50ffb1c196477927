//! Tests of whole configurations: expected diagnostics, realistic files, and arbitrary input.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::table::daemon::{CONFIG_BACKEND, REGISTRY_SHARES};
use super::table::files::QUOTAS;
use super::table::share::{COPY, INCLUDE};
use super::*;
use accounts::{PassdbBackend, smbpasswd};

mod added;
mod faults;
mod gluster;
mod grammar;
mod modules;
mod openid;
mod printing;
mod readers;
mod sessions;
mod stock;

/// The parameters that are applied before stage two, or only before the process gives up privileges.
const READ_EARLIER: [&str; 5] = [COPY.name, INCLUDE.name, CONFIG_BACKEND.name, REGISTRY_SHARES.name, QUOTAS.name];

thread_local! {
    /// The parameters that stage two has read on this thread.
    pub(super) static READ: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// A host with two users and two groups.
pub(super) struct TestNames;

impl Names for TestNames {
    fn user(&self, name: &str) -> Result<Option<Arc<Identity>>, String> {
        let uid = match name {
            "nobody" => 65534,
            "ann" => 1000,
            "hang" => return Err("no answer".into()),
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Identity { uid, gid: uid, groups: [].into() })))
    }

    fn group(&self, name: &str) -> Result<Option<u32>, String> {
        Ok(match name {
            "staff" => Some(50),
            "users" => Some(100),
            _ => None,
        })
    }

    fn host(&self) -> String {
        "box.example.org".into()
    }

    fn environment(&self, variable: &str) -> Option<String> {
        (variable == "HERE").then(|| "/here".into())
    }
}

/// [`TestNames`], also while the server runs.
pub(super) struct Owned;

impl Names for Owned {
    fn user(&self, name: &str) -> Result<Option<Arc<Identity>>, String> {
        TestNames.user(name)
    }

    fn group(&self, name: &str) -> Result<Option<u32>, String> {
        TestNames.group(name)
    }

    fn owned(&self) -> Option<Arc<dyn Names + Send + Sync>> {
        Some(Arc::new(Owned))
    }

    fn host(&self) -> String {
        TestNames.host()
    }

    fn environment(&self, variable: &str) -> Option<String> {
        TestNames.environment(variable)
    }
}

/// Writes `files` into a new directory, with the directory's own path in place of `@DIR@`.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text.replace("@DIR@", path)).expect("a file");
    }
    directory
}

pub(crate) fn load_files(files: &[(&str, &str)]) -> (Result<Loaded, Problems>, tempfile::TempDir) {
    let directory = directory(files);
    std::fs::create_dir(directory.path().join("x")).expect("a directory");
    (load(&directory.path().join("smb.conf"), &TestNames), directory)
}

/// Returns the problems of a configuration except notes, with `@DIR@` for its directory.
fn said(files: &[(&str, &str)]) -> String {
    let (loaded, directory) = load_files(files);
    let mut problems = match loaded {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    };
    problems.0.retain(|problem| problem.severity != Severity::Note);
    problems.to_string().replace(directory.path().to_str().expect("UTF-8"), "@DIR@")
}

fn check(text: &str, expected: &str) {
    assert_eq!(said(&[("smb.conf", text)]), expected.trim_end(), "{text}");
}

#[test]
fn snapshots_with_a_prefix_are_those_of_guides() {
    let text = b"[tank]\npath = /\nvfs objects = shadow_copy2\nshadow: snapdir = .zfs/snapshot\n\
        shadow: snapprefix = ^zfs-auto-snap_\\(frequent\\)\\{0,1\\}\\(hourly\\)\\{0,1\\}$\nshadow: delimiter = -20\n\
        shadow: format = -%Y-%m-%d-%H%M\nshadow:sort = other\nshadow:snapdirseverywhere = yes\n";
    let loaded = read_text(text).expect("a valid configuration");
    let snapshots = loaded.policy.share("tank").and_then(|share| share.snapshots.clone()).expect("snapshots");
    assert!(snapshots.everywhere && !snapshots.cross_mount_points);
    assert_eq!(snapshots.sort, server::policy::snapshots::Sort::Unsorted);
    assert_eq!(snapshots.moment(b"zfs-auto-snap_hourly-2015-10-31-1940"), Some(1_446_320_400));
    assert_eq!(snapshots.moment(b"zfs-auto-snap_daily-2015-10-31-1940"), None);
    let faulty = b"[tank]\npath = /\nvfs objects = shadow_copy2\nshadow:snapprefix = \\(\n";
    let loaded = read_text(faulty).expect("the other shares are served");
    assert_eq!(loaded.warnings.faulty_shares().collect::<Vec<_>>(), ["tank"]);
    let absolute = b"[a]\npath = /\nvfs objects = shadow_copy2\nshadow:snapdirseverywhere = yes\nshadow:snapdir = /a\n";
    let loaded = read_text(absolute).expect("a valid configuration");
    let snapshots = loaded.policy.share("a").and_then(|share| share.snapshots.clone()).expect("snapshots");
    assert!(!snapshots.everywhere, "an absolute directory is the only one");
}

#[test]
fn a_plain_configuration_has_no_warnings() {
    check("[global]\n\tworkgroup = GROUP\n[x]\n\tpath = @DIR@/x\n\tread only = no\n", "");
}

#[test]
fn unknown_parameters_are_warnings_with_a_suggestion() {
    check(
        "[global]\nworkgruop = A\n[x]\npath = @DIR@/x\nzzz = 1\n",
        "@DIR@/smb.conf:2: warning: unknown parameter `workgruop = A` is ignored\n  \
         remedy: did you mean `workgroup`? `frevo check --parameters` lists all parameters\n\
         @DIR@/smb.conf:5: warning: unknown parameter `zzz = 1` is ignored\n  \
         remedy: correct the name or remove the line; `frevo check --parameters` lists all parameters",
    );
}

#[test]
fn invalid_values_are_errors_that_list_valid_ones() {
    check(
        "[x]\npath = @DIR@/x\nread only = maybe\ncreate mask = 999\ncsc policy = x\nmax connections = -1\nguest ok =\n",
        "@DIR@/smb.conf:3: error: the share [x] is not served: `maybe` is not a valid value for `read only`\n  \
         remedy: allowed: yes or no (also true, false, on, off, 1, 0)\n\
         @DIR@/smb.conf:4: error: the share [x] is not served: `999` is not a valid value for `create mask`\n  \
         remedy: allowed: permission bits in octal, 0000 to 7777\n\
         @DIR@/smb.conf:5: error: the share [x] is not served: `x` is not a valid value for `csc policy`\n  \
         remedy: allowed: manual, documents, programs, disable\n\
         @DIR@/smb.conf:6: error: the share [x] is not served: `-1` is not a valid value for `max connections`\n  \
         remedy: allowed: a whole number, 0 or more\n\
         @DIR@/smb.conf:7: error: the share [x] is not served: `guest ok` has no value\n  \
         remedy: allowed: yes or no (also true, false, on, off, 1, 0)",
    );
}

#[test]
fn values_with_special_syntax_are_checked() {
    let cases = [
        ("smb ports = 445 70000", "`70000` is not a valid value for `smb ports`"),
        ("smb ports =", "`smb ports` has no port: no client could connect"),
        ("interfaces = 10.0.0.0/99", "`10.0.0.0/99` is not a valid value for `interfaces`"),
        ("hosts allow = 10.0.0.300", "`10.0.0.300` is not a valid value for `hosts allow`"),
        ("passdb backend = smbpasswd:here", "`here` is not a valid value for `passdb backend`"),
        ("smb passwd file = here", "`here` is not a valid value for `smb passwd file`"),
        ("passdb backend = nisplussam", "`nisplussam` is not a valid value for `passdb backend`"),
        ("passdb backend = ldapsam:http://x", "`ldapsam:http://x` is not a valid value for `passdb backend`"),
        ("ldap ssl = perhaps", "`perhaps` is not a valid value for `ldap ssl`"),
        (
            "server role = active directory domain controller",
            "`active directory domain controller` is not a valid value for `server role`",
        ),
        ("security = ads", "`security` = ads needs a realm"),
        (
            "security = ads\nrealm = A.B\nserver role = standalone",
            "`server role` = standalone server and `security` = ads contradict each other",
        ),
        (
            "server min protocol = SMB3\nserver max protocol = SMB2",
            "`server min protocol` is newer than `server max protocol`",
        ),
        ("server smb3 signing algorithms = MD5", "`MD5` is not a valid value for `server smb3 signing algorithms`"),
        ("netbios name = a_name_that_is_too_long", "`A_NAME_THAT_IS_TOO_LONG` is not a valid value for `netbios name`"),
        ("workgroup = %U", "`workgroup` cannot contain %U, which differs between sessions"),
        ("state directory = here", "`here` is not a valid value for `state directory`"),
        ("force user = joe\n[x]\npath = @DIR@/x", "the UNIX user `joe` does not exist"),
        ("force user = hang\n[x]\npath = @DIR@/x", "cannot look up `hang`: no answer"),
        ("force group = joes\n[x]\npath = @DIR@/x", "the UNIX group `joes` does not exist"),
        ("[x]\npath = here", "`here` is not a valid value for `path`"),
        ("[x]\npath = %U/here", "`%U/here` is not a valid value for `path`"),
        ("[x]\npath = /here/../%U", "`/here/../%U` is not a valid value for `path`"),
        ("[x]\nread only = no", "the share [x] has no `path`"),
        ("host msdfs = no\n[x]\nmsdfs proxy = s\\x", "the share [x] has no `path`"),
        ("[x]\npath = /\nmsdfs proxy = s\\x, s", "`s` is not a valid value for `msdfs proxy`"),
        ("host msdfs = maybe", "`maybe` is not a valid value for `host msdfs`"),
        (
            "streams_xattr:prefix = trusted.x.\n[x]\npath = /",
            "`trusted.x.` is not a valid value for `streams_xattr:prefix`",
        ),
    ];
    for (lines, message) in cases {
        let said = said(&[("smb.conf", &format!("[global]\n{lines}\n"))]);
        let of_share = format!(": error: the share [x] is not served: {message}\n  remedy: ");
        assert!(
            said.contains(&format!(": error: {message}\n  remedy: ")) || said.contains(&of_share),
            "{lines}: {said}"
        );
    }
}

#[test]
fn streams_exist_unless_vfs_objects_omits_their_module() {
    use server::policy::stream_layout::Layout;

    let layout = |prefix: &str, typed| Some(Layout { prefix: prefix.to_owned(), typed, has_colons: false, mac: None });
    let samba = layout("user.DosStream.", true);
    let cases = [
        ("", "", samba.clone()),
        ("", "vfs objects = acl_xattr", None),
        ("", "vfs objects =", None),
        ("", "vfs objects = catia streams_xattr:2", samba.clone()),
        ("vfs objects = acl_xattr", "", None),
        ("vfs objects = acl_xattr", "vfs objects = acl_xattr Streams_XAttr", samba),
        ("streams_xattr:store_stream_type = no", "streams_xattr:prefix = user.", layout("user.", false)),
        (
            "",
            "vfs objects = catia streams_xattr\ncatia:mappings = 0x22:0xf020,0x3a:0xf022",
            layout("user.DosStream.", true).map(|layout| Layout { has_colons: true, ..layout }),
        ),
    ];
    for (global, share, expected) in cases {
        let text = format!("[global]\n{global}\n[x]\npath = /\n{share}\n");
        let (loaded, _directory) = load_files(&[("smb.conf", &text)]);
        assert_eq!(loaded.expect("it loads").policy.shares["x"].streams, expected, "{global} {share}");
    }
}

#[test]
fn a_share_on_other_servers_needs_no_directory() {
    let text = "[x]\nmsdfs proxy = a\\b, \\\\c\\d\\e\nmsdfs root = yes\nmsdfs shuffle referrals = yes\n";
    let loaded = read_text(text.as_bytes()).expect("a valid configuration");
    assert!(loaded.warnings.0.is_empty() && loaded.policy.host_msdfs, "{}", loaded.warnings);
    let share = &loaded.policy.shares["x"];
    assert!(share.available && share.dfs.root && share.dfs.shuffle);
    assert_eq!(share.dfs.proxy, [r"\a\b", r"\c\d\e"]);
}

#[test]
fn a_missing_directory_is_a_warning_and_the_server_starts() {
    let text = "[x]\npath = @DIR@/gone\n[f]\npath = @DIR@/smb.conf\n";
    let remedy = "  remedy: create the directory, mount its file system, or correct `path`; until then clients cannot \
                  connect to the share";
    check(
        text,
        &format!(
            "@DIR@/smb.conf:2: warning: the directory of [x] does not exist: @DIR@/gone\n{remedy}\n\
             @DIR@/smb.conf:4: warning: the directory of [f] is not a directory: @DIR@/smb.conf\n{remedy}"
        ),
    );
    let (loaded, _directory) = load_files(&[("smb.conf", text)]);
    assert!(loaded.expect("it starts").warnings.0.iter().all(Problem::fails_check));
}

#[test]
fn session_variables_are_expanded_only_in_paths() {
    check(
        "[x]\npath = @DIR@/x/%U\ncomment = for %u on %h, %z\n",
        "@DIR@/smb.conf:3: warning: `%z` is not a variable; `comment` keeps it literally\n  \
         remedy: frevo-smb.conf(5) lists the variables; write %% for a percent sign\n\
         @DIR@/smb.conf:3: warning: `comment` is the same for all clients: its session variables are not expanded\n  \
         remedy: use %h, %L, %D, %S or %$(VARIABLE), or a fixed text",
    );
}

#[test]
fn parameters_that_run_commands_are_not_served() {
    let (loaded, _directory) = load_files(&[("smb.conf", "[x]\npath = @DIR@/x\nroot preexec = touch /tmp/%u\n")]);
    let warnings = loaded.expect("it starts").warnings;
    assert_eq!((warnings.0[0].code, warnings.0.len()), (Code::NotServed, 1), "{warnings}");
    // These are executed without a shell.
    let printing = [
        "print command",
        "lpq command",
        "lprm command",
        "lppause command",
        "lpresume command",
        "queuepause command",
        "queueresume command",
    ];
    let runs = |name: &str| (name.ends_with("script") || name.ends_with("command")) && !printing.contains(&name);
    for entry in table::all().filter(|entry| runs(entry.name)) {
        assert_ne!(entry.status, table::Status::Served, "{}", entry.name);
    }
}

#[test]
fn misplaced_and_doubled_lines_are_warnings() {
    check(
        "[x]\npath = @DIR@/x\nworkgroup = A\nguest ok = no\npublic = yes\n",
        "@DIR@/smb.conf:3: warning: `workgroup` is for [global] and has no effect in the share [x] (it begins at \
         @DIR@/smb.conf:1)\n  remedy: move the line to [global]\n\
         @DIR@/smb.conf:5: warning: `public` is set twice in this section: this value applies, not the one at \
         @DIR@/smb.conf:4\n  remedy: remove one of the two lines",
    );
}

#[test]
fn a_server_without_any_logon_method_is_a_warning() {
    check(
        "[global]\nntlm auth = disabled\n[x]\npath = @DIR@/x\n",
        "@DIR@/smb.conf:2: warning: `ntlm auth` = disabled, and Kerberos is not configured\n  \
         remedy: only guests can log on: set `kerberos method` or `realm`, or allow NTLM",
    );
    check("[global]\nntlm auth = disabled\nkerberos method = system keytab\n[x]\npath = @DIR@/x\n", "");
}

#[test]
fn an_unreadable_file_is_one_error() {
    let missing = load(Path::new("/nonexistent/smb.conf"), &TestNames).expect_err("the file does not exist");
    assert_eq!(
        missing.to_string(),
        "/nonexistent/smb.conf: error: cannot read the configuration file: No such file or directory (os error 2)\n  \
         remedy: name another file with -c, or make this one readable"
    );
    assert!(load(Path::new("/"), &TestNames).is_err());
}

#[test]
fn an_office_configuration_is_served_with_warnings_only() {
    let files = [
        ("smb.conf", include_str!("../../tests/data/office.conf")),
        ("extra.conf", include_str!("../../tests/data/extra.conf")),
    ];
    let (loaded, directory) = load_files(&files);
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
    let (policy, daemon) = (&loaded.policy, &loaded.daemon);
    assert_eq!((&*policy.netbios_name, &*policy.workgroup), ("FILES", "OFFICE"));
    assert!(policy.server_string.starts_with("box.example.org file server (Frevo "));
    assert_eq!(policy.server_signing, server::policy::Signing::Required);
    assert_eq!((policy.smb2_max_credits, policy.smb2_max_read), (4096, 4 << 20));
    assert_eq!(policy.limits.connections, 500);
    assert!(policy.hosts.permits("192.168.2.9".parse().unwrap()));
    assert!(!policy.hosts.permits("10.0.0.66".parse().unwrap()));
    assert_eq!(policy.guest.as_ref().map(|guest| guest.identity.uid), Some(65534));
    assert_eq!(policy.shares.keys().collect::<Vec<_>>(), ["personal", "projects", "public"]);
    assert_eq!(daemon.log, LogTarget::File(directory.path().join("log.frevo")));
    assert_eq!(daemon.dead_time, Some(std::time::Duration::from_secs(900)));
    assert_eq!(daemon.interfaces.len(), 3);
    assert_eq!(daemon.socket_options.len(), 4);
    assert_eq!(daemon.max_log_size, 1_024_000);
    let projects = policy.share("PROJECTS").expect("a share");
    assert!(!projects.access.read_only && projects.names.wide_links && projects.access.force_group_members_only);
    assert_eq!(
        (projects.modes.create_mask, projects.modes.directory_mask, projects.access.force_group),
        (0o660, 0o2775, Some(50))
    );
    let names: Vec<_> = projects.access.valid_users.iter().map(|user| format!("{user:?}")).collect();
    assert_eq!(names, [r#"NetgroupOrGroup("staff")"#, r#"User("ann")"#, r#"User("joe")"#, r#"Group("domain users")"#]);
    let public = policy.share("public").expect("a share");
    assert!(public.access.guest_only && public.access.valid_users.is_empty() && public.browseable);
    assert_eq!(public.modes.create_mask, 0o660, "copied");
    assert_eq!(public.names.veto_files, [".DS_Store", "Thumbs.db", "._*"]);
    assert!(public.names.delete_veto_files);
    let personal = policy.share("personal").expect("a share");
    assert_eq!(personal.comment, "100% yours");
    let home = personal.path_template.as_ref().and_then(|path| path.expand_path(|_| Some("joe".into())));
    assert_eq!(home, Some(directory.path().join("homes/joe")));
}

#[test]
fn a_test_suite_configuration_is_served_with_warnings_only() {
    let (loaded, _directory) = load_files(&[("smb.conf", include_str!("../../tests/data/suite.conf"))]);
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(loaded.policy.shares.len(), 24);
    assert!(!loaded.warnings.0.iter().any(|problem| problem.code == Code::UnknownParameter), "{}", loaded.warnings);
    assert_eq!(loaded.daemon.smb_ports, [4450]);
}

#[test]
fn without_a_file_shares_from_the_command_line_are_served() {
    let directory = tempfile::tempdir().expect("a directory");
    let share = ("data".to_owned(), directory.path().to_owned());
    let with = |shares: &[(String, PathBuf)]| load_from(&Sources { shares, ..Sources::default() }, &TestNames);
    let loaded = with(&[share]).unwrap_or_else(|problems| panic!("{problems}"));
    let utc_offset = accounts::when::utc_offset;
    let expected = Policy { netbios_name: "BOX".into(), utc_offset, ..Policy::default() };
    let mut policy = loaded.policy;
    let data = policy.shares.remove("data").expect("the share");
    assert_eq!(format!("{policy:?}"), format!("{expected:?}"), "an empty file is equivalent to no file");
    let mut expected = server::policy::Share::new("data", directory.path());
    expected.access.read_only = false;
    assert_eq!(format!("{data:?}"), format!("{expected:?}"));
    assert_eq!(loaded.daemon.smb_ports, [445, 139]);
    assert_eq!(loaded.daemon.log, LogTarget::StandardError);
    for (name, path) in [("global", "/"), ("a/b", "/"), ("", "/")] {
        assert!(with(&[(name.into(), path.into())]).is_err(), "{name}");
    }
}

#[test]
fn every_served_parameter_is_read_and_no_other() {
    READ.take();
    let text = "[x]\npath = @DIR@/x\nguest ok = yes\n[y]\npath = @DIR@/x\nvfs objects = full_audit\n\
                [z]\npath = /\nvfs objects = glusterfs\n[printers]\n\
                [m]\npath = @DIR@/x\nvfs objects = fruit catia streams_xattr\nfruit:resource = stream\n\
                [p]\nprintable = yes\nprinting = bsd\n";
    let (loaded, _directory) = load_files(&[("smb.conf", text)]);
    loaded.unwrap_or_else(|problems| panic!("{problems}"));
    let read: BTreeSet<_> = READ.take().into_iter().chain(READ_EARLIER).collect();
    let served: BTreeSet<_> =
        table::all().filter(|entry| entry.status == table::Status::Served).map(|entry| entry.name).collect();
    let unread: Vec<_> = served.difference(&read).collect();
    assert!(unread.is_empty(), "listed as served, but never read: {unread:?}");
    let unlisted: Vec<_> = read.difference(&served).collect();
    assert!(unlisted.is_empty(), "read, but not listed as served: {unlisted:?}");
}

#[test]
fn the_configured_smbpasswd_file_is_used() {
    let check = |lines: &str, file: &str, rid_base: u32, notes: usize| {
        let text = format!("[global]\n{lines}\n[x]\npath = @DIR@/x\n");
        let (loaded, _directory) = load_files(&[("smb.conf", &text)]);
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
        let place = smbpasswd::SmbpasswdFile { file: file.into(), rid_base };
        assert!(loaded.daemon.passdb_backend.contains(&PassdbBackend::Smbpasswd(place)), "{lines}");
        assert_eq!(loaded.warnings.0.len(), notes, "{lines}: {}", loaded.warnings);
    };
    check("passdb backend = smbpasswd", "/etc/samba/smbpasswd", 1000, 0);
    check("passdb backend = smbpasswd\nsmb passwd file = /p", "/p", 1000, 0);
    check("passdb backend = smbpasswd:/q\nsmb passwd file = /p", "/q", 1000, 0);
    // Rounded as in Samba.
    check("passdb backend = smbpasswd:/q\nalgorithmic rid base = 5001", "/q", 5002, 1);
    check("passdb backend = smbpasswd:/q\nalgorithmic rid base = 10", "/q", 1000, 1);
    check("passdb backend = embedded smbpasswd:/q", "/q", 1000, 0);
}

#[test]
fn netbios_names_are_served_only_on_request() {
    let check = |lines: &str, is_served: bool, warning: &str| {
        let text = format!("[global]\n{lines}\n[x]\npath = @DIR@/x\n");
        let (loaded, _directory) = load_files(&[("smb.conf", &text)]);
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.daemon.netbios_name_service, is_served, "{lines}");
        let said = loaded.warnings.to_string();
        assert!(said.contains(warning) && said.is_empty() == warning.is_empty(), "{lines}: {said}");
    };
    let on = "frevo:netbios name service = yes";
    check("", false, "");
    check("disable netbios = no", false, "");
    check("disable netbios = yes", false, "");
    check(on, true, "");
    check(&format!("{on}\ndisable netbios = yes"), false, "`disable netbios` switches off");
    check(&format!("{on}\nnetbios aliases = a b"), true, "");
    check("frevo:llmnr = yes\nnetbios aliases = a b", false, "");
    check("netbios aliases = a b", false, "`netbios aliases` is not announced");
}

#[test]
fn the_state_directory_is_found_despite_an_invalid_share() {
    let directory = directory(&[("smb.conf", "[global]\nstate directory = /here\n[x]\nread only = maybe\n")]);
    let found = places(&directory.path().join("smb.conf"), &TestNames).map(|places| places.state_directory);
    assert_eq!(found, Ok(Some("/here".into())));
}

/// Loads `text` as the file `/f`, which can include itself and `/g`.
fn read_text(text: &[u8]) -> Result<Loaded, Problems> {
    let read_file = |path: &Path| match path.to_str() {
        Some("/f") => Ok(text.to_vec()),
        Some("/g") => Ok(b"[g]\npath=/\ninclude=/f\n".to_vec()),
        _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
    };
    let mut problems = Problems::default();
    let raw = read(Path::new("/f"), &read_file, &TestNames, &mut problems);
    finish(&raw, problems, &TestNames)
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
        let _ = read_text(&text);
    }

    #[test]
    fn arbitrary_values_of_real_parameters_do_not_panic(
        lines in proptest::collection::vec((0..table::all().count(), "[ -~\u{e9}]{0,12}", proptest::bool::ANY), 0..40),
    ) {
        let mut text = String::from("[global]\n");
        for (index, value, section) in lines {
            let name = table::all().nth(index).map_or("", |entry| entry.name);
            text += &format!("{name} = {value}\n{}", if section { format!("[{value}]\n") } else { String::new() });
        }
        let (Ok(Loaded { warnings: problems, .. }) | Err(problems)) = read_text(text.as_bytes());
        for problem in &problems.0 {
            proptest::prop_assert!(!problem.message.is_empty() && !problem.remedy.is_empty());
            proptest::prop_assert!(problem.place.is_some());
        }
    }
}

#[test]
fn the_acl_cache_size_is_read_or_disabled() {
    let check = |line: &str, expected: usize| {
        let text = format!("[global]\n{line}\n[x]\npath = @DIR@/x\n");
        let loaded = load_files(&[("smb.conf", &text)]).0.unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.policy.limits.descriptor_bytes, expected, "{line}");
        assert_eq!(loaded.daemon.acl_cache, expected as u64, "{line}");
    };
    check("", 32 << 20);
    check("frevo:acl cache = 0", 0);
    check("frevo:acl cache = 4M", 4 << 20);
    check("frevo: acl cache = 512", 512);
}

#[test]
fn a_reload_lists_parameters_that_need_a_restart() {
    let daemon = |lines: &str| {
        let text = format!("[global]\n{lines}\n[x]\npath = @DIR@/x\n");
        load_files(&[("smb.conf", &text)]).0.unwrap_or_else(|problems| panic!("{problems}")).daemon
    };
    let before = daemon("passdb backend = ldapsam:ldap://a\nldap suffix = dc=a");
    let check = |lines: &str, expected: &[&str]| {
        let changed = before.changed_until_restart(&daemon(lines));
        assert_eq!(changed.len(), expected.len(), "{lines}: {changed:?}");
        assert!(changed.iter().zip(expected).all(|(changed, part)| changed.contains(part)), "{lines}: {changed:?}");
    };
    check("passdb backend = ldapsam:ldap://a\nldap suffix = dc=a\nlog level = 3", &[]);
    check("passdb backend = ldapsam:ldap://a\nldap suffix = dc=b", &["passdb backend"]);
    check("passdb backend = ldapsam:ldap://a\nldap suffix = dc=a\nsmb ports = 4450", &["smb ports"]);
    check("realm = A.TEST", &["passdb backend", "Kerberos"]);
    check("passdb backend = ldapsam:ldap://a\nldap suffix = dc=a\nfrevo:acl cache = 0", &["frevo:acl cache"]);
    let printer = "passdb backend = ldapsam:ldap://a\nldap suffix = dc=a\n[p]\nprintable = yes\nprinting = bsd";
    check(printer, &["print command"]);
}

#[test]
fn worker_threads_have_a_default_and_bounds() {
    let load = |line: &str| load_files(&[("smb.conf", &format!("[global]\n{line}\n[x]\npath = @DIR@/x\n"))]).0;
    for (line, expected) in [("", 48), ("frevo:worker threads = 96", 96), ("frevo:worker threads = 4", 4)] {
        let loaded = load(line).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.policy.limits.worker_threads, expected, "{line}");
    }
    assert!(load("frevo:worker threads = 1000").is_err());
}

#[test]
fn the_memory_limit_is_large_enough_or_refused() {
    let load = |line: &str| load_files(&[("smb.conf", &format!("[global]\n{line}\n[x]\npath = @DIR@/x\n"))]).0;
    for (line, expected) in [("", None), ("frevo:memory limit = 0", None), ("frevo:memory limit = 1G", Some(1 << 30))] {
        assert_eq!(load(line).unwrap_or_else(|problems| panic!("{problems}")).daemon.memory_limit, expected, "{line}");
    }
    let refused = load("frevo:memory limit = 100M").expect_err("too small").to_string();
    assert!(refused.contains("104857600") && refused.contains("at least 128M"), "{refused}");
}
