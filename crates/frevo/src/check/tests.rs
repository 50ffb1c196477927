//! Tests of the command's output and exit status.

use std::sync::Arc;

use server::vfs::Identity;

use super::*;

struct NoNames;

impl Names for NoNames {
    fn user(&self, _: &str) -> Result<Option<Arc<Identity>>, String> {
        Ok(None)
    }

    fn group(&self, _: &str) -> Result<Option<u32>, String> {
        Ok(None)
    }

    fn host(&self) -> String {
        "box".into()
    }

    fn environment(&self, _: &str) -> Option<String> {
        None
    }
}

fn report(text: &str) -> (Report, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8").to_owned();
    let file = directory.path().join("smb.conf");
    std::fs::write(&file, text.replace("@DIR@", &path)).expect("a file");
    (Report::of(file, &NoNames, false), path)
}

#[test]
fn the_effective_configuration_lists_served_values_that_are_not_defaults() {
    let (report, path) = report(
        "[global]\nworkgroup = GROUP\nkeepalive = 300\ncreate mode = 664\nread raw = yes\nkernel share modes = yes\n\
         smbd force process locks = no\n[x]\npath = @DIR@\nwriteable = yes\ncreate mask = 0664\n\
         valid users = \"a b\" @c\n[y]\ncopy = x\nkernel share modes = yes\n",
    );
    assert!(report.starts && report.passes, "{}", report.complaints());
    let expected = format!(
        "[global]\n\tcreate mask = 0664\n\tworkgroup = GROUP\n\n\
         [x]\n\tpath = {path}\n\tread only = no\n\tvalid users = \"a b\", @c\n\n\
         [y]\n\tpath = {path}\n\tread only = no\n\tvalid users = \"a b\", @c\n\n\
         # without effect (`frevo help NAME` has the reason): `read raw`, \
         `smbd force process locks`\n\
         # not served: 2\n\
         #   `kernel share modes` is not supported: share modes visible to local programs, because Linux has removed \
         the call (2 times)\n\
         # not available to users: share modes visible to local programs in [y]\n"
    );
    assert_eq!(report.text(), expected);
    assert!(report.complaints().ends_with("smb.conf: 2 warnings: the server starts\n"), "{}", report.complaints());
}

#[test]
fn each_error_fails_the_check() {
    let cases = [
        ("[global]\nwrokgroup = A\n", true),
        ("[x]\npath = @DIR@/gone\n", true),
        ("[x]\npath = @DIR@\nread only = perhaps\n", true),
        ("[global]\nguest ok = perhaps\n", false),
        ("[global]\ninclude = smb.conf\n", false),
    ];
    for (text, starts) in cases {
        let (report, _) = report(text);
        assert_eq!((report.starts, report.passes), (starts, false), "{text}: {}", report.complaints());
        let first = report.problems.first().expect("a problem");
        let place = first.place.as_ref().expect("a location");
        assert!(place.file.ends_with("smb.conf") && place.line > 0, "{first}");
        assert!(!first.remedy.is_empty(), "{first}");
    }
}

#[test]
fn json_has_locations_and_stable_names() {
    let (report, path) = report("[x]\npath = @DIR@\nread only = perhaps\n");
    let json = serde_json::to_value(&report).expect("JSON");
    let problem = &json["problems"][0];
    assert_eq!(problem["place"], format!("{path}/smb.conf:3"));
    assert_eq!((&problem["code"], &problem["severity"]), (&"bad-value".into(), &"error".into()));
    assert_eq!((&problem["subject"], &problem["value"]), (&"read only".into(), &"perhaps".into()));
    assert_eq!((&json["starts"], &json["errors"], &problem["share"]), (&true.into(), &1.into(), &"x".into()));
}

#[test]
fn all_parameters_are_listed() {
    let text = parameters::text();
    let json = parameters::json().expect("JSON");
    for parameter in smbconf::table::all() {
        assert!(text.contains(&format!("  {} (", parameter.name)), "{}", parameter.name);
        assert!(json.contains(&serde_json::to_string(parameter.name).expect("JSON")), "{}", parameter.name);
    }
}

#[test]
fn invalid_lines_of_an_smbpasswd_file_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("smbpasswd");
    let text = format!("[global]\npassdb backend = smbpasswd:{}\n[x]\npath = @DIR@\n", file.display());
    let check = |content: Option<&[u8]>, expected: &str| {
        let _ = std::fs::remove_file(&file);
        content.into_iter().for_each(|content| std::fs::write(&file, content).expect("a file"));
        let (report, _) = report(&text);
        assert!(report.starts && report.passes);
        assert!(report.complaints().contains(expected), "{}", report.complaints());
        // The check must not change the file.
        assert_eq!(std::fs::read(&file).ok().as_deref(), content);
    };
    check(None, "");
    check(Some(b"# comment\nann:1:XX:\n"), "smbpasswd:2: warning: LM hash: not 32 hexadecimal digits\n  remedy: fix");
    check(Some("bad\n".repeat(30).as_bytes()), "smbpasswd: warning: 10 more such lines");
    check(Some(b"TDB file\n\0\0\0"), "smbpasswd: warning: it is not a text file");
}

#[test]
fn the_acl_store_policy_is_shown_for_shares_with_windows_acls() {
    let (report, path) = report(
        "[global]\nstate directory = @DIR@/state\nfrevo:acl store = >= 6\n[a]\npath = @DIR@\nvfs objects = acl_xattr\n\
         [b]\npath = @DIR@\nvfs objects = acl_xattr\nfrevo:acl store = Auto\n[c]\npath = @DIR@\n\
         frevo:acl store = never\n[d]\npath = @DIR@\n",
    );
    assert!(report.passes, "{}", report.complaints());
    let stores = report.acl_store.iter().map(|(share, store)| format!("{share}: {store}")).collect::<Vec<_>>();
    assert_eq!(stores, ["a: >= 6", "b: auto (never, because nothing was measured)"]);
    let text = report.text();
    assert!(text.contains("#   [b] auto (never, because nothing was measured)\n"), "{text}");
    assert!(text.contains("`frevo:acl store` has no effect: the share stores no descriptors"), "{text}");
    assert_eq!(report.notes, 1, "{text} {path}");
}

#[test]
fn an_invalid_policy_is_an_error_that_lists_valid_values() {
    for value in ["6", "yes", "34-6", ">= 2"] {
        let (report, _) = report(&format!("[a]\npath = @DIR@\nvfs objects = acl_xattr\nfrevo:acl store = {value}\n"));
        let said = report.complaints();
        assert!(!report.passes && said.contains("smb.conf:4") && said.contains(&format!("`{value}`")), "{said}");
        assert!(said.contains("allowed: auto, always, never, >= N or N-M"), "{said}");
    }
}

#[test]
fn every_served_parameter_is_printed_on_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("smb.conf");
    let text = format!("[global]\nsecurity = user\nguest ok = 1\n[x]\npath = {}\n", directory.path().display());
    std::fs::write(&file, text).expect("a file");
    let report = Report::of(file, &NoNames, true);
    let value = |section: usize, name| report.sections[section].parameters.get(name).map(String::as_str);
    let served = |global| {
        let counts = |entry: &&smbconf::table::Parameter| global || entry.scope == smbconf::table::Scope::Share;
        let served = smbconf::table::all().filter(|entry| entry.status == smbconf::table::Status::Served);
        // `copy` and `include` are not settings of a share, but ways to write them.
        served.filter(counts).filter(|entry| !["copy", "include"].contains(&entry.name)).count()
    };
    let counts: Vec<_> = report.sections.iter().map(|section| section.parameters.len()).collect();
    assert_eq!(counts, [served(true), served(false)]);
    assert_eq!((value(0, "security"), value(0, "netbios name")), (Some("USER"), Some("BOX")));
    assert_eq!((value(1, "guest ok"), value(1, "case sensitive")), (Some("Yes"), Some("Auto")));
    assert_eq!((value(1, "create mask"), value(1, "security")), (Some("0744"), None));
}

#[test]
fn the_last_line_is_what_users_miss() {
    let last = |text: &str| report(text).0.text().lines().last().unwrap_or_default().to_owned();
    assert_eq!(last("[x]\npath = @DIR@\n"), "");
    let text = "[global]\nunix password sync = yes\nfruit:model = x\n[x]\npath = @DIR@\nvfs objects = dirsort\n\
                [y]\npath = @DIR@\nvfs objects = dirsort\n[gone]\npath = @DIR@/gone\n\
                [printers]\nprintable = yes\npath = @DIR@\n";
    let expected = "# not available to users: changing the UNIX password together with the SMB password; sorted \
                    listings in [x], [y]; the share [gone]";
    assert_eq!(last(text), expected);
    let (report, _) = report("[printers]\nprintable = yes\n[global]\nload printers = no\n[x]\npath = @DIR@\n");
    assert!(report.unavailable.is_empty() && report.warnings == 0, "{:?}", report.problems);
}

#[test]
fn a_volume_that_no_server_describes_is_reported() {
    let (report, _) = report(
        "[x]\npath = @DIR@\n[v]\npath = /\nvfs objects = glusterfs\n\
         glusterfs:volfile_server = unix+@DIR@/missing.socket\n",
    );
    assert!(report.starts && !report.passes, "{}", report.complaints());
    let said = report.complaints();
    assert!(said.contains("warning: the volume v of [v] cannot be used: "), "{said}");
    assert!(report.volumes.is_empty() && report.unavailable == ["the share [v]"], "{:?}", report.unavailable);
}
