use clap::Parser;
use smbconf::added::Refusal;

use super::*;
use crate::user::Performer;
use accounts::PassdbBackend;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: ShareArgs,
}

/// A state directory, and a configuration with the share `files`.
struct Site(tempfile::TempDir);

impl Site {
    fn new() -> Site {
        let site = Site(tempfile::tempdir().unwrap());
        let text = format!("[global]\nstate directory = {0}/state\n[files]\npath = {0}\n", site.path().display());
        std::fs::write(site.path().join("smb.conf"), text).unwrap();
        site
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, words: &[&str]) -> Result<ExitCode> {
        let config = self.path().join("smb.conf").display().to_string();
        let line = ["share"].iter().chain(words).copied().chain(["-c", config.as_str()]);
        run(Line::try_parse_from(line)?.args)
    }

    fn refusal(&self, words: &[&str]) -> String {
        format!("{:#}", self.run(words).expect_err("it was accepted"))
    }

    fn file(&self) -> String {
        std::fs::read_to_string(self.path().join("state/shares.conf")).unwrap_or_default()
    }
}

#[test]
fn without_a_server_the_file_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let directory = site.path().display().to_string();
    assert!(site.refusal(&["remove", "x"]).contains("there is no share [x]"));
    assert!(!site.path().join("state").exists());
    site.run(&["add", "x", &directory, "--comment", "100% of x", "--writable", "--option", "hide files=/a/"]).unwrap();
    let text = site.file();
    for line in ["[x]", "\tcomment = 100%% of x", "\tread only = no", "\thide files = /a/"] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in {text}");
    }
    let metadata = std::fs::metadata(site.path().join("state/shares.conf")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    site.run(&["set", "X", "--max-connections", "7", "--unset", "hide files"]).unwrap();
    let text = site.file();
    assert!(text.contains("max connections = 7") && !text.contains("hide files"), "{text}");
    for (words, expected) in [
        (&["set", "x"][..], "nothing to change"),
        (&["set", "x", "--option", "workgroup = W"], "not allowed in a share"),
        (&["set", "x", "--comment", "a\nb"], "control character"),
        (&["set", "x", "--path", "/does/not/exist"], "does not exist"),
        (&["add", "x", "/"], "exists already"),
        (&["add", "files", "/"], "smb.conf:3"),
        (&["add", "y", "relative"], "absolute path"),
        (&["add", "IPC$", "/"], "a meaning of its own"),
        (&["set", "files", "--comment", "c"], "smb.conf:3, which Frevo never changes"),
        (&["remove", "files"], "smb.conf:3, which Frevo never changes"),
    ] {
        let why = site.refusal(words);
        assert!(why.contains(expected), "{words:?}: {why}");
    }
    assert_eq!(site.file(), text, "a refused change leaves the file");
    std::fs::write(site.path().join("smb.conf"), "[global]\nsmb ports = many\n").unwrap();
    let state = site.path().join("state").display().to_string();
    assert!(site.refusal(&["remove", "x", "--state-dir", &state]).contains("errors"));
    assert_eq!(site.file(), text, "a configuration with errors leaves the file");
    std::fs::remove_file(site.path().join("smb.conf")).unwrap();
    let again = Site::new();
    std::fs::copy(again.path().join("smb.conf"), site.path().join("smb.conf")).unwrap();
    site.run(&["remove", "x", "--state-dir", &state]).unwrap();
    assert!(!site.file().contains("[x]"));
}

#[test]
fn removing_a_share_removes_its_acl() {
    let site = Site::new();
    let directory = site.path().display().to_string();
    site.run(&["add", "x", &directory]).unwrap();
    let place = AccountPlace { state: site.path().join("state"), backends: vec![PassdbBackend::Embedded] };
    let acls = |set: Option<(String, Option<String>)>| {
        let mut performer = Performer::open(&place, false).unwrap().unwrap();
        match performer.perform(UserRequest::ShareAcls { set }).unwrap() {
            crate::admin::message::UserReply::ShareAcls(acls) => acls.len(),
            _ => panic!("another answer"),
        }
    };
    assert_eq!(acls(Some(("x".into(), Some("D:(A;;FA;;;WD)".into())))), 1);
    site.run(&["remove", "x"]).unwrap();
    assert_eq!(acls(None), 0);
}

#[test]
fn a_file_that_cannot_be_written_stays() {
    let site = Site::new();
    let directory = site.path().display().to_string();
    site.run(&["add", "x", &directory]).unwrap();
    let (text, state) = (site.file(), StateDir::open(&site.path().join("state")).unwrap().unwrap());
    let change = Change::Remove { name: "x".into() };
    let prepared = prepare(&state, None, &[], &Host::of_process().unwrap(), &change).unwrap();
    // The new file cannot be created where a directory is.
    std::fs::create_dir(site.path().join("state/shares.conf.new")).unwrap();
    assert!(prepared.write(&state).is_err());
    assert_eq!(site.file(), text);
    std::fs::remove_dir(site.path().join("state/shares.conf.new")).unwrap();
    std::fs::write(site.path().join("state/shares.conf.new"), "left by a crash").unwrap();
    prepared.write(&state).unwrap();
    assert!(!site.file().contains("[x]") && !site.path().join("state/shares.conf.new").exists());
    let again = prepare(&state, None, &[], &Host::of_process().unwrap(), &change);
    assert!(matches!(again.err(), Some(Refusal::NotFound(_))));
}

#[test]
fn a_share_is_added_to_a_thousand() {
    let site = Site::new();
    site.run(&["add", "first", "/"]).unwrap();
    let mut text = site.file();
    (0..1000).for_each(|number| text += &format!("[share{number}]\n\tpath = /\n"));
    std::fs::write(site.path().join("state/shares.conf"), text).unwrap();
    let state = StateDir::open(&site.path().join("state")).unwrap().unwrap();
    let (host, config) = (Host::of_process().unwrap(), site.path().join("smb.conf"));
    let add = |name: &str| {
        let change = Change::Add { name: name.into(), settings: vec![("path".into(), "/".into())] };
        prepare(&state, Some(&config), &[], &host, &change).unwrap()
    };
    let sources = Sources { config: Some(&config), added: Added::StateDirectory(None), ..Sources::default() };
    assert_eq!(smbconf::load_from(&sources, &host).unwrap().policy.shares.len(), 1002);
    assert_eq!(add("new").loaded.policy.shares.len(), 1003);
}
