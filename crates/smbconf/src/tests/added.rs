//! The shares that Frevo itself added.

use super::*;
use crate::added::{AddedShares, Change, FILE_NAME, Refusal, check, check_name};

/// A configuration with the share `files` whose state directory is its own directory.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory"));
        place.write(
            "smb.conf",
            &format!("[global]\nstate directory = {0}\n[Files]\npath = {0}\n", place.path().display()),
        );
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("a file");
    }

    fn load(&self, added: Added<'_>) -> Loaded {
        let config = self.path().join("smb.conf");
        let sources = Sources { config: Some(&config), added, ..Sources::default() };
        load_from(&sources, &TestNames).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// Checks `change` as a command does.
    fn change(&self, change: &Change) -> Result<Loaded, Refusal> {
        let file = self.path().join(FILE_NAME);
        let mut shares = AddedShares::parse(&std::fs::read(&file).unwrap_or_default())?;
        shares.apply(change)?;
        let text = shares.to_bytes()?;
        let loaded = self.load(Added::Text { file: &file, text: &text });
        check(&loaded, change, &file)?;
        std::fs::write(&file, text).expect("a file");
        Ok(loaded)
    }

    fn add(&self, name: &str, settings: &[(&str, &str)]) -> Result<Loaded, Refusal> {
        let path = self.path().display().to_string();
        let whole = [("path", path.as_str())];
        let settings = whole.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = settings.collect();
        self.change(&Change::Add { name: name.into(), settings })
    }

    fn set(&self, name: &str, parameter: &str, value: Option<&str>) -> Result<Loaded, Refusal> {
        let settings = vec![(parameter.to_owned(), value.map(str::to_owned))];
        self.change(&Change::Set { name: name.into(), settings })
    }
}

fn refusal(result: Result<Loaded, Refusal>) -> Refusal {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(refusal) => refusal,
    }
}

#[test]
fn shares_are_added_changed_and_removed() {
    let place = Place::new();
    let loaded = place.add("New Share", &[("writable", "yes"), ("comment", "first"), ("write ok", "no")]);
    assert!(loaded.is_ok_and(|loaded| loaded.policy.shares["new share"].access.read_only));
    let text = std::fs::read_to_string(place.path().join(FILE_NAME)).expect("the file");
    assert!(text.starts_with("# This file belongs to Frevo"), "{text}");
    assert!(text.contains("[New Share]\n") && text.contains("\tread only = yes\n"), "{text}");
    assert!(place.set("NEW SHARE", "comment", Some("second")).is_ok());
    assert!(place.set("new share", "read only", None).is_ok());
    let loaded = place.load(Added::StateDirectory(None));
    assert_eq!(loaded.policy.shares["new share"].comment, "second");
    assert_eq!(loaded.sections.len(), 2);
    assert!(place.load(Added::None).policy.shares.len() == 1, "only those who ask for them get added shares");
    assert!(place.change(&Change::Remove { name: "new share".into() }).is_ok());
    assert_eq!(place.load(Added::StateDirectory(Some(place.path()))).policy.shares.len(), 1);
    assert!(matches!(refusal(place.change(&Change::Remove { name: "new share".into() })), Refusal::NotFound(_)));
    assert!(matches!(refusal(place.set("new share", "comment", None)), Refusal::NotFound(_)));
}

#[test]
fn what_is_not_allowed_is_refused_and_named() {
    let place = Place::new();
    let check = |settings: &[(&str, &str)], expected: &str| {
        let why = refusal(place.add("x", settings)).to_string();
        assert!(why.contains(expected), "{settings:?}: {why}");
    };
    check(&[("coment", "a")], "`coment` is not a parameter; did you mean `comment`?");
    check(&[("workgroup", "A")], "`workgroup` is not allowed in a share");
    check(&[("include", "/etc/x")], "`include` is not allowed in an added share");
    check(&[("copy", "files")], "`copy` is not allowed");
    check(&[("strict rename", "yes")], "`strict rename` is not supported");
    check(&[("max connections", "many")], "`max connections` cannot have the value `many`; allowed:");
    check(&[("comment", "a\n[evil]\npath = /")], "control character");
    check(&[("comment", "a\r")], "control character");
    check(&[("comment", "a\\")], "a backslash at the end");
    check(&[("comment", "a  b")], "repeated blanks");
    check(&[("comment", "a\u{2028}\u{2028}b")], "repeated blanks");
    check(&[("path", "/does/not/exist")], "does not exist");
    check(&[("path", "relative")], "absolute path");
    check(&[("force user", "nobody-at-all")], "does not exist");
    // The next server would execute the commands with more privileges than this one has.
    check(&[("printable", "yes"), ("printing", "bsd")], "cannot print by commands");
    assert!(!place.path().join(FILE_NAME).exists());
    for name in
        ["", "global", "HOMES", "printers", "IPC$", "admin$", "a/b", "a]b", " a", "a  b", "a\nb", &"x".repeat(81)]
    {
        assert!(matches!(check_name(name), Err(Refusal::BadName(_))), "{name:?}");
        assert!(matches!(refusal(place.add(name, &[])), Refusal::BadName(_)), "{name:?}");
    }
    assert_eq!(check_name(&"x".repeat(80)), Ok(()));
}

#[test]
fn shares_of_the_administrator_come_first() {
    let place = Place::new();
    let why = refusal(place.add("FILES", &[]));
    assert!(matches!(&why, Refusal::Exists(why) if why.contains("smb.conf:3")), "{why}");
    assert!(place.add("other", &[]).is_ok());
    assert!(matches!(refusal(place.add("OTHER", &[])), Refusal::Exists(_)));
    // The administrator adds a share with the same name later.
    let config = std::fs::read_to_string(place.path().join("smb.conf")).expect("the file");
    place.write("smb.conf", &(config + "[other]\npath = /\ncomment = of the administrator\n"));
    let loaded = place.load(Added::StateDirectory(None));
    assert_eq!(loaded.policy.shares["other"].comment, "of the administrator");
    let hidden = |problem: &&Problem| problem.code == Code::DuplicateShare && problem.message.contains("smb.conf:5");
    assert_eq!(loaded.warnings.0.iter().filter(hidden).count(), 1, "{}", loaded.warnings);
    assert!(matches!(refusal(place.set("other", "comment", Some("x"))), Refusal::NotOurs(_)));
    assert!(place.change(&Change::Remove { name: "other".into() }).is_ok(), "the one that is not served");
}

#[test]
fn the_file_only_adds_shares() {
    let place = Place::new();
    place.write(
        FILE_NAME,
        "[global]\nworkgroup = EVIL\ninclude = /etc/passwd\n[files]\ncomment = changed\n[b]\npath = /\n",
    );
    let loaded = place.load(Added::StateDirectory(None));
    assert_eq!(loaded.policy.workgroup, "WORKGROUP");
    assert_eq!((loaded.policy.shares["files"].comment.as_str(), loaded.policy.shares.len()), ("", 2));
    // A file with other lines is not replaced, because they would be lost.
    for lost in ["# a remark\n[b]\n\tpath = /\n", "not a parameter\n"] {
        place.write(FILE_NAME, lost);
        assert!(refusal(place.add("x", &[])).to_string().contains("line 1 of shares.conf"), "{lost}");
    }
    std::fs::remove_file(place.path().join(FILE_NAME)).expect("the file");
    std::fs::create_dir(place.path().join(FILE_NAME)).expect("a directory");
    let loaded = place.load(Added::StateDirectory(None));
    assert!(loaded.policy.shares.len() == 1 && loaded.warnings.0.iter().any(|it| it.code == Code::Unreadable));
}

#[tokio::test]
async fn sessions_with_files_of_their_own_have_the_added_shares() {
    let place = Place::new();
    let config = std::fs::read_to_string(place.path().join("smb.conf")).expect("the file");
    place.write("smb.conf", &format!("{config}[c]\npath = /\ninclude = {}/of.%U\n", place.path().display()));
    place.write("of.ann", "comment = of ann\n");
    assert!(place.add("added", &[]).is_ok());
    let config = place.path().join("smb.conf");
    let sources = Sources { config: Some(&config), added: Added::StateDirectory(None), ..Sources::default() };
    let loaded = load_from(&sources, &Owned).unwrap_or_else(|problems| panic!("{problems}"));
    let policy = sessions::of_session(&loaded.policy, sessions::session("ann", "box")).await;
    let policy = policy.expect("a policy").expect("another one");
    assert_eq!(policy.shares["c"].comment, "of ann");
    assert!(policy.shares.contains_key("added"));
}
