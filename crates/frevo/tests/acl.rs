//! `frevo acl show`, `set`, `diff` and `convert` on a share in a temporary directory, without a server. Descriptors are
//! stored in an attribute that any user may write.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use accounts::backend::Backend;
use accounts::embedded::Store;
use accounts::record::Record;
use accounts::state_dir::StateDir;
use serde_json::Value;

struct Ground {
    _directory: tempfile::TempDir,
    share: PathBuf,
    configuration: PathBuf,
}

impl Ground {
    /// Creates a share with `d`, `d/f`, `d/sub/g` and `other`, of mode 0755 and 0644, and a symbolic link that leads
    /// out. Also creates an account in a database that only one process can open at a time.
    fn new() -> Ground {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (share, configuration) = (top.join("share"), top.join("smb.conf"));
        fs::create_dir_all(share.join("d/sub")).unwrap();
        for name in ["d/f", "d/sub/g", "other"] {
            fs::write(share.join(name), "x").unwrap();
            mode(&share.join(name), 0o644);
        }
        ["", "d", "d/sub"].into_iter().for_each(|name| mode(&share.join(name), 0o755));
        std::os::unix::fs::symlink("/etc", share.join("d/out")).unwrap();
        let text = format!(
            "[global]\nstate directory = {}\n[data]\npath = {}\nread only = no\nvfs objects = acl_xattr\n\
             acl_xattr:security_acl_name = user.NTACL\n",
            top.join("state").display(),
            share.display()
        );
        fs::write(&configuration, text).unwrap();
        let store = Store::open(&StateDir::create(&top.join("state")).unwrap()).unwrap();
        store.add(Record::named("ann")).unwrap();
        Ground { _directory: directory, share, configuration }
    }

    fn path(&self, name: &str) -> String {
        self.share.join(name).to_str().unwrap().to_owned()
    }

    fn run(&self, words: &[&str], input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frevo"));
        command.arg("acl").args(words).arg("-c").arg(&self.configuration);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that does not read its input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// Runs a command, which must succeed, and returns its output.
    #[track_caller]
    fn says(&self, words: &[&str]) -> String {
        let out = self.run(words, "");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn sddl(&self, name: &str) -> String {
        self.says(&["show", "--sddl", &self.path(name)]).trim().to_owned()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.says(words)).unwrap()
    }

    fn source(&self, name: &str) -> String {
        self.json(&["show", "--json", &self.path(name)])["source"].as_str().unwrap().to_owned()
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_set_acl_is_shown_and_inherited() {
    let ground = Ground::new();
    assert_eq!(ground.source("d/f"), "converted");
    assert!(ground.says(&["diff", &ground.path("d/f")]).is_empty());
    ground.says(&["set", &ground.path("d/sub"), "D:P(A;;FA;;;WD)"]);
    let said = ground.says(&["set", "-r", &ground.path("d"), "D:P(A;OICI;FA;;;WD)"]);
    assert_eq!(said, "1 changed, 0 already up to date, 1 protected and skipped, 0 failed\n");
    assert!(ground.sddl("d").ends_with("D:P(A;OICI;FA;;;WD)"), "{}", ground.sddl("d"));
    assert!(ground.sddl("d/f").ends_with("(A;ID;FA;;;WD)"), "{}", ground.sddl("d/f"));
    assert!(ground.sddl("d/sub").ends_with("D:P(A;;FA;;;WD)"));
    assert_eq!(ground.source("d/sub/g"), "converted", "below a protected directory");
    let said = ground.says(&["set", "-r", &ground.path("d"), "D:P(A;OICI;FA;;;WD)"]);
    assert!(said.starts_with("0 changed, 1 already up to date"), "{said}");
    let out = ground.run(&["diff", &ground.path("d")], "");
    let lines = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(lines.contains("\n-D:\n+D:P\n"), "{lines}");
    let handed_on = "may do everything, only inherited by files and directories\n";
    assert!(lines.contains("\n-(A;OICIIO;FA;;;CO)  ") && lines.contains(handed_on), "{lines}");
    let words = ground.says(&["show", "--words", &ground.path("d/f")]);
    assert!(words.contains("\nEveryone may do everything (from the parent)\n"), "{words}");
}

#[test]
fn a_file_with_two_hard_links_inherits_through_either() {
    let ground = Ground::new();
    fs::hard_link(ground.path("d/f"), ground.path("elsewhere")).unwrap();
    fs::hard_link(ground.path("other"), ground.path("d/protected")).unwrap();
    ground.says(&["set", &ground.path("other"), "D:P(A;;FR;;;WD)"]);
    let said = ground.says(&["set", "-r", &ground.path("d"), "D:P(A;OICI;FA;;;WD)"]);
    let expected = "3 changed (1 with other hard links, which are changed as well), 0 already up to date, ";
    assert!(said.starts_with(expected), "{said}");
    for name in ["d/f", "elsewhere"] {
        assert!(ground.sddl(name).ends_with("(A;ID;FA;;;WD)"), "{name}: {}", ground.sddl(name));
    }
    assert!(ground.sddl("other").ends_with("D:P(A;;FR;;;WD)"), "a protected file is unchanged under each name");
}

#[test]
fn displayed_acls_can_be_set() {
    let ground = Ground::new();
    ground.says(&["set", &ground.path("d/f"), "D:PAI(D;;FW;;;BG)(A;;0x1200a9;;;WD)"]);
    let shown = ground.sddl("d/f");
    let out = ground.run(&["set", &ground.path("other"), "-"], &shown);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(ground.sddl("other"), shown);
    assert!(ground.says(&["diff", &ground.path("d/f"), &ground.path("other")]).is_empty());
}

#[test]
fn errors_are_reported() {
    let ground = Ground::new();
    let path = ground.path("d/f");
    for (words, status, part) in [
        (&["set", &path, "D:(A;;XX;;;WD)"][..], 1, "position 6"),
        (&["set", &path, "O:S-1-5-21-9-9-9-9"], 1, "not a user of this machine"),
        (&["show", "/"], 1, "is not in any share"),
        (&["show", "--share", "none", &path], 1, "no share [none]"),
        (&["show", &ground.path("missing")], 1, "No such file"),
        (&["diff", &ground.path("missing")], 2, "No such file"),
        (&["convert", "none"], 1, "no share [none]"),
    ] {
        let out = ground.run(words, "");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), said.contains(part)), (Some(status), true), "{words:?}: {said}");
    }
}

#[test]
fn a_share_is_converted_once() {
    let ground = Ground::new();
    ground.says(&["set", &ground.path("other"), "D:P(A;;FR;;;WD)"]);
    ground.says(&["set", &ground.path("d/f"), "D:P(A;;FR;;;WD)"]);
    mode(&ground.share.join("d/f"), 0o600);
    assert_eq!(ground.source("d/f"), "outdated");
    let before: Vec<String> = ["", "d", "d/f", "other"].iter().map(|name| ground.sddl(name)).collect();
    let counts = |summary: &Value| {
        ["seen", "stored", "replaced", "valid", "kept", "passed", "failed"].map(|name| summary[name].as_u64().unwrap())
    };
    for (options, expected) in [
        (&["--dry-run"][..], [7, 4, 1, 1, 0, 1, 0]),
        (&["--keep-outdated", "--rate", "0"], [7, 4, 0, 1, 1, 1, 0]),
        (&[], [7, 0, 1, 5, 0, 1, 0]),
        (&[], [7, 0, 0, 6, 0, 1, 0]),
    ] {
        let summary = ground.json(&[&["convert", "data", "--json"][..], options].concat());
        assert_eq!(counts(&summary), expected, "{options:?}");
        assert_eq!(summary["complete"], true);
    }
    let after: Vec<String> = ["", "d", "d/f", "other"].iter().map(|name| ground.sddl(name)).collect();
    assert_eq!(after, before);
    assert_eq!(ground.source("d/f"), "stored");
}

#[test]
fn an_interrupted_conversion_resumes() {
    let ground = Ground::new();
    let position = ground.share.parent().unwrap().join("state/acl-convert.data");
    // The position that a run leaves if it is killed after d/f.
    ground.says(&["convert", "data", "--dry-run"]);
    let root = ground.share.to_str().unwrap();
    fs::write(&position, serde_json::json!({ "root": root, "path": "d/sub" }).to_string()).unwrap();
    let summary = ground.json(&["convert", "data", "--json"]);
    assert_eq!((&summary["resumed"], &summary["seen"]), (&true.into(), &5.into()), "{summary}");
    assert_eq!((ground.source("d/f"), ground.source("d/sub/g")), ("converted".into(), "stored".into()));
    assert!(!position.exists(), "everything is done");
    fs::write(&position, "damaged").unwrap();
    let summary = ground.json(&["convert", "data", "--json"]);
    assert_eq!((&summary["resumed"], &summary["stored"]), (&false.into(), &1.into()), "{summary}");
}
