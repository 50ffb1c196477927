//! Tests of the whole back end, with files written by the tests and simulated users.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use localfs::advisory::{Keeps, try_lock};
use server::vfs::Identity;

use super::super::record::nt_hash;
use server::accounts::DomainSid;

use super::*;

const DOMAIN: DomainSid = DomainSid([1, 2, 3]);

/// A host with root and the users u0 (uid 10,000) to u9999.
fn users() -> Arc<Users> {
    let source = |key: &Key| {
        let Key::Name(name) = key else { return Ok(None) };
        let uid = match name.strip_prefix(['u', 'U']).and_then(|number| number.parse::<u32>().ok()) {
            Some(number) if number < 10_000 => 10_000 + number,
            _ if name == "root" => 0,
            _ => return Ok(None),
        };
        let identity = Arc::new(Identity { uid, gid: 5, groups: Box::new([]) });
        Ok(Some(User { name: name.clone(), identity, groups: Arc::new([]) }))
    };
    Users::new(None, Box::new(source))
}

/// Returns the line of an account.
fn line(name: &str, uid: u32, password: &str) -> String {
    line_with(name, uid, password, "[U          ]:LCT-6B01BECE:")
}

fn line_with(name: &str, uid: u32, password: &str, end: &str) -> String {
    format!("{name}:{uid}:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:{}:{end}\n", hex(password))
}

fn hex(password: &str) -> String {
    nt_hash(password).unwrap().0.iter().map(|byte| format!("{byte:02X}")).collect()
}

struct Bed {
    dir: tempfile::TempDir,
    accounts: Smbpasswd,
}

impl Bed {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), text).unwrap();
        let accounts = open(&dir.path().join("f"));
        Bed { dir, accounts }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("f")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    async fn find(&self, name: &str) -> Option<Entry> {
        self.accounts.find(name).await.unwrap_or_else(|Unavailable(why)| panic!("{why}"))
    }

    /// Returns whether `password` is the password of `name`.
    async fn is(&self, name: &str, password: &str) -> bool {
        let hash = self.find(name).await.and_then(|entry| entry.record.nt_hash.clone());
        hash.is_some_and(|hash| hash.0 == nt_hash(password).unwrap().0)
    }
}

fn open(file: &Path) -> Smbpasswd {
    let place = SmbpasswdFile { file: file.to_owned(), rid_base: 1000 };
    Smbpasswd::open(&place, DOMAIN, users()).unwrap()
}

fn record(name: &str, password: &str) -> Record {
    Record { nt_hash: Some(nt_hash(password).unwrap()), password_last_set: Some(0x6b01_bece), ..Record::named(name) }
}

#[tokio::test]
async fn accounts_are_found_by_name_and_by_sid() {
    let text = format!("# comment\n{}{}", line("u1", 10_001, "a"), line("U2x", 7, "b"));
    let bed = Bed::new(&text);
    let entry = bed.find("U1").await.unwrap();
    assert_eq!((entry.record.name.as_str(), entry.record.rid), ("u1", 21_002));
    assert_eq!(entry.sid, DOMAIN.with_rid(21_002));
    assert_eq!(entry.user.unwrap().identity.uid, 10_001);
    assert!(bed.is("u1", "a").await && !bed.is("u1", "b").await);
    // Without a UNIX user it has the SID of its line and cannot log on.
    let entry = bed.find("u2x").await.unwrap();
    assert!(entry.user.is_none() && entry.sid == DOMAIN.with_rid(1014));
    assert!(bed.find("u3").await.is_none());
    for (rid, name) in [(21_002, Some("u1")), (1014, Some("U2x")), (21_003, None), (999, None), (1, None)] {
        let found = bed.accounts.by_sid(&DOMAIN.with_rid(rid)).await.unwrap();
        assert_eq!(found.map(|entry| entry.record.name.clone()).as_deref(), name, "{rid}");
    }
    assert!(bed.accounts.by_sid(&Sid::of(5, [21, 9, 9, 9, 21_002])).await.unwrap().is_none());
    assert_eq!(bed.text(), text);
}

#[tokio::test]
async fn the_sid_follows_the_unix_user_not_the_uid_of_the_line() {
    let bed = Bed::new(&format!("{}{}", line("u1", 10_002, "a"), line("u2", 10_002, "b")));
    assert_eq!(bed.find("u1").await.unwrap().sid, DOMAIN.with_rid(21_002));
    assert_eq!(bed.find("u2").await.unwrap().sid, DOMAIN.with_rid(21_004));
    // The line of u1 never makes it the owner of u2's SID.
    let owner = bed.accounts.by_sid(&DOMAIN.with_rid(21_004)).await.unwrap();
    assert!(owner.is_none_or(|owner| owner.record.name == "u2"));
    let large = Bed::new(&line("nobody", u32::MAX - 1, "a"));
    assert!(large.find("nobody").await.is_none());
}

#[tokio::test]
async fn machine_accounts_are_not_found_and_invalid_lines_are_errors() {
    let text = format!(
        "{}{}u3:10003:XXXX\n\u{1}\n{}u5:10005:XXXXXXXX",
        line_with("pc$", 7, "a", "[W          ]:LCT-6B01BECE:"),
        line_with("dc$", 8, "a", "[S          ]:LCT-6B01BECE:"),
        line_with("u4", 10_004, "a", "[NU         ]:LCT-6B01BECE:"),
    );
    let bed = Bed::new(&text);
    assert!(bed.find("pc$").await.is_none() && bed.find("dc$").await.is_none());
    for (name, word) in [("u3", "line 3: LM hash"), ("u5", "line 6: LM hash")] {
        let Err(Unavailable(why)) = bed.accounts.find(name).await else { panic!("{name}") };
        assert!(why.contains(word) && why.contains(&bed.path().display().to_string()), "{why}");
        assert!(bed.accounts.add(record(name, "x")).is_err());
        assert!(bed.accounts.edit(name, &mut |_| ()).is_err());
        assert!(bed.accounts.remove(name).is_err());
    }
    assert!(bed.find("u4").await.unwrap().record.nt_hash.is_none());
    assert!(bed.accounts.add(record("pc$", "x")).is_err() && !bed.accounts.remove("pc$").unwrap());
    assert_eq!(bed.text(), text);
}

#[tokio::test]
async fn an_immediate_change_by_another_program_is_noticed() {
    let bed = Bed::new(&format!("{}{}", line("u1", 10_001, "a"), line("u2", 10_002, "b")));
    let file = OpenOptions::new().write(true).open(bed.path()).unwrap();
    // Many of these are within one tick of the kernel's clock, and none changes the size.
    for turn in 0..400 {
        let password = ["one", "two", "three"][turn % 3];
        file.write_all_at(line("u2", 10_002, password).as_bytes(), line("u1", 10_001, "a").len() as u64).unwrap();
        assert!(bed.is("u2", password).await, "turn {turn}");
        assert!(bed.is("u1", "a").await);
    }
    // A new file replaces it.
    fs::write(bed.dir.path().join("new"), line("u3", 10_003, "c")).unwrap();
    fs::rename(bed.dir.path().join("new"), bed.path()).unwrap();
    assert!(bed.find("u2").await.is_none() && bed.is("u3", "c").await);
}

#[tokio::test]
async fn a_missing_file_is_an_error_not_an_unknown_user() {
    let bed = Bed::new(&line("u1", 10_001, "a"));
    fs::rename(bed.path(), bed.dir.path().join("away")).unwrap();
    for name in ["u1", "u2"] {
        let Err(Unavailable(why)) = bed.accounts.find(name).await else { panic!("{name}") };
        assert!(why.contains("No such file"), "{why}");
    }
    assert!(bed.accounts.add(record("u2", "x")).err().unwrap().to_string().contains("smbpasswd file"));
    fs::rename(bed.dir.path().join("away"), bed.path()).unwrap();
    assert!(bed.is("u1", "a").await && bed.find("u2").await.is_none());
    // A database of Samba is never written to.
    fs::write(bed.path(), b"TDB file\n\0\0").unwrap();
    assert!(bed.accounts.find("u1").await.is_err() && bed.accounts.add(record("u2", "x")).is_err());
    assert_eq!(fs::read(bed.path()).unwrap(), b"TDB file\n\0\0");
    fs::remove_file(bed.path()).unwrap();
    fs::create_dir(bed.path()).unwrap();
    assert!(bed.accounts.find("u1").await.is_err());
}

#[tokio::test]
async fn changes_keep_all_other_lines_byte_for_byte() {
    let others = format!(
        "# comment\n\nu3:broken\n{}  \n",
        line_with("u4", 10_004, "d", "[UX         ]:LCT-6B01BECE:rest:of it")
    );
    let bed = Bed::new(&others);
    let entry = bed.accounts.add(record("u1", "a")).unwrap();
    assert_eq!(entry.sid, DOMAIN.with_rid(21_002));
    assert_eq!(bed.text(), format!("{others}{}", line("u1", 10_001, "a")));
    assert!(bed.accounts.add(record("U1", "a")).err().unwrap().to_string().contains("smbpasswd file"));

    let edit = |name: &str, password: &str| {
        let hash = nt_hash(password).unwrap();
        bed.accounts.edit(name, &mut |record| record.nt_hash = Some(hash.clone())).unwrap()
    };
    assert_eq!(edit("U1", "b").unwrap().record.name, "u1");
    assert!(bed.is("u1", "b").await);
    assert_eq!(bed.text(), format!("{others}{}", line("u1", 10_001, "b")));
    assert!(edit("u9", "b").is_none());

    assert!(bed.accounts.remove("U1").unwrap() && !bed.accounts.remove("u1").unwrap());
    assert!(bed.find("u1").await.is_none() && bed.accounts.by_sid(&DOMAIN.with_rid(21_002)).await.unwrap().is_none());
    assert!(bed.text().starts_with(&others) && !bed.text().contains(&hex("b")));
    // The next account of that length reuses the space of the deleted line.
    let size = bed.text().len();
    bed.accounts.add(record("u2", "c")).unwrap();
    assert_eq!(bed.text().len(), size);
    assert!(bed.is("u2", "c").await && bed.is("u4", "d").await);
    edit("u4", "e").unwrap();
    assert_eq!(bed.text(), format!("{}{}", others.replace(&hex("d"), &hex("e")), line("u2", 10_002, "c")));
}

#[tokio::test]
async fn longer_free_space_is_split_and_shorter_is_kept() {
    let bed = Bed::new(&format!("{}{}", line("u1234", 11_234, "a"), line("u2", 10_002, "b")));
    assert!(bed.accounts.remove("u1234").unwrap());
    // Three bytes shorter: no space for a comment after it.
    bed.accounts.add(record("u1", "c")).unwrap();
    assert!(bed.text().ends_with(&format!("{}{}", line("u2", 10_002, "b"), line("u1", 10_001, "c"))));
    let long = format!("#frevo: free{}\n", " ".repeat(150));
    let bed = Bed::new(&format!("{long}{}", line("u2", 10_002, "b")));
    bed.accounts.add(record("u1", "c")).unwrap();
    assert!(bed.text().starts_with(&format!("{}#frevo: free ", line("u1", 10_001, "c"))));
    assert_eq!(bed.text().len(), long.len() + line("u2", 10_002, "b").len());
    assert!(bed.is("u1", "c").await && bed.is("u2", "b").await);
    // A comment that only begins like a freed line belongs to the administrator.
    let comment = format!("#frevo: freedom{}\n", " ".repeat(150));
    let bed = Bed::new(&comment);
    bed.accounts.add(record("u1", "c")).unwrap();
    assert!(bed.text().starts_with(&comment));
}

#[tokio::test]
async fn a_line_is_appended_after_an_unterminated_last_line() {
    let text = line("u1", 10_001, "a");
    let bed = Bed::new(text.trim_end());
    assert!(bed.is("u1", "a").await);
    bed.accounts.add(record("u2", "b")).unwrap();
    assert_eq!(bed.text(), format!("{text}{}", line("u2", 10_002, "b")));
}

#[tokio::test]
async fn older_lines_are_completed_when_changed() {
    let bed = Bed::new(&format!("{}{}", line_with("u1", 10_001, "a", ""), line("u2", 10_002, "b")));
    bed.accounts.edit("u1", &mut |record| record.nt_hash = Some(nt_hash("c").unwrap())).unwrap();
    assert!(bed.is("u1", "c").await && bed.is("u2", "b").await);
    assert_eq!(bed.text().lines().filter(|line| line.starts_with("u1:")).count(), 1);
    assert!(bed.text().ends_with(&line_with("u1", 10_001, "c", "[U          ]:LCT-FFFFFFFF:")));
    assert!(open(&bed.path()).get("u1").unwrap().unwrap().record.nt_hash.clone().unwrap().0 == nt_hash("c").unwrap().0);
}

#[test]
fn the_file_is_created_and_kept_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
    open(&path).add(record("u1", "a")).unwrap();
    assert_eq!(mode(), 0o600);
    let inode = fs::metadata(&path).unwrap().ino();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let accounts = open(&path);
    assert_eq!(mode(), 0o600);
    accounts.remove("u1").unwrap();
    // The file is not replaced, so a program that waits for its lock gets the right one.
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    // Through a symbolic link.
    std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
    open(&dir.path().join("link")).add(record("u2", "b")).unwrap();
    assert!(accounts.get("u2").unwrap().is_some());
    assert!(fs::symlink_metadata(dir.path().join("link")).unwrap().is_symlink());
    let place = SmbpasswdFile { file: dir.path().join("no/f"), rid_base: 1000 };
    let error = Smbpasswd::open(&place, DOMAIN, users()).err().unwrap();
    assert!(format!("{error:#}").contains("no directory"), "{error:#}");
}

#[test]
fn a_change_waits_for_the_lock() {
    let bed = Bed::new(&line("u1", 10_001, "a"));
    let file = OpenOptions::new().read(true).write(true).open(bed.path()).unwrap();
    assert!(try_lock(std::os::fd::AsFd::as_fd(&file), Keeps::EverybodyOut, 0, 1).unwrap());
    let text = std::thread::scope(|scope| {
        let adding = scope.spawn(|| bed.accounts.add(record("u2", "b")));
        std::thread::sleep(Duration::from_millis(100));
        let text = bed.text();
        drop(file);
        adding.join().unwrap().unwrap();
        text
    });
    assert_eq!(text, line("u1", 10_001, "a"));
    assert_eq!(bed.text(), format!("{text}{}", line("u2", 10_002, "b")));
}

#[tokio::test]
async fn a_program_that_keeps_the_lock_delays_only_once() {
    let bed = Bed::new(&line("u1", 10_001, "a"));
    fs::write(bed.path(), line("u1", 10_001, "b")).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(bed.path()).unwrap();
    assert!(try_lock(std::os::fd::AsFd::as_fd(&file), Keeps::EverybodyOut, 0, 1).unwrap());
    // Each by itself would take minutes.
    let logons: Vec<_> = (0..50).map(|_| tokio::spawn(bed.accounts.find("u1"))).collect();
    for logon in logons {
        let Err(Unavailable(why)) = logon.await.unwrap() else { panic!("answered from an outdated file") };
        assert!(why.contains("locked for 5 seconds"), "{why}");
    }
    drop(file);
    assert!(bed.is("u1", "b").await);
}

#[test]
fn concurrent_programs_lose_no_changes() {
    let text: String = (0..8).map(|number| line(&format!("u{number}"), 10_000 + number, "start")).collect();
    let bed = Bed::new(&format!("# comment\n{text}"));
    let path = bed.path();
    // Each opens the file separately, like separate processes.
    std::thread::scope(|scope| {
        for worker in 0..4u32 {
            let path = &path;
            scope.spawn(move || {
                let accounts = open(path);
                for turn in 0..25 {
                    let new = format!("u{}", 100 + worker * 100 + turn);
                    accounts.add(record(&new, "new")).unwrap();
                    for mine in [worker, worker + 4] {
                        let hash = nt_hash(&format!("{worker} {turn}")).unwrap();
                        accounts.edit(&format!("u{mine}"), &mut |record| record.nt_hash = Some(hash.clone())).unwrap();
                    }
                    if turn % 5 == 4 {
                        assert!(accounts.remove(&new).unwrap());
                    }
                }
            });
        }
    });
    let page = bed.accounts.page(None, 1000).unwrap();
    assert_eq!(page.len(), 8 + 4 * 20);
    for worker in 0..4 {
        for mine in [worker, worker + 4] {
            let entry = bed.accounts.get(&format!("u{mine}")).unwrap().unwrap();
            assert_eq!(entry.record.nt_hash.as_ref().unwrap().0, nt_hash(&format!("{worker} 24")).unwrap().0);
        }
    }
    let lines = bed
        .text()
        .lines()
        .map(|line| Fields::read(line.as_bytes()).map(|fields| fields.is_some()))
        .collect::<Result<Vec<_>>>();
    assert_eq!(lines.unwrap().into_iter().filter(|account| *account).count(), 88);
    assert!(bed.text().starts_with("# comment\n"));
}

/// The environment variable that makes [`a_killed_process_leaves_an_intact_file`] the process that is killed.
const VICTIM: &str = "FREVO_TEST_SMBPASSWD_VICTIM";

#[test]
fn a_killed_process_leaves_an_intact_file() {
    const ACCOUNTS: u32 = 200;
    let passwords = ["first", "second"];
    if let Some(path) = std::env::var_os(VICTIM) {
        let accounts = open(Path::new(&path));
        for turn in 0.. {
            let name = format!("u{}", turn % ACCOUNTS as usize);
            let hash = nt_hash(passwords[(turn / ACCOUNTS as usize + 1) % 2]).unwrap();
            accounts.edit(&name, &mut |record| record.nt_hash = Some(hash.clone())).unwrap();
            let passing = format!("u{}", 1000 + turn % 3);
            let _ = if turn % 2 == 0 {
                accounts.add(record(&passing, "x")).is_ok()
            } else {
                accounts.remove(&passing).unwrap()
            };
        }
    }
    let text: String = (0..ACCOUNTS).map(|number| line(&format!("u{number}"), 10_000 + number, "first")).collect();
    let bed = Bed::new(&format!("# comment\n{text}"));
    for round in 0..20 {
        let before = bed.text();
        let mut victim = std::process::Command::new(std::env::current_exe().unwrap());
        victim.args(["--exact", "smbpasswd::tests::a_killed_process_leaves_an_intact_file"]);
        let mut victim = victim.env(VICTIM, bed.path()).stdout(std::process::Stdio::null()).spawn().unwrap();
        while bed.text() == before {
            assert!(victim.try_wait().unwrap().is_none(), "the process ended by itself");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(700 * round));
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert!(bed.text().starts_with("# comment\n"));
        for number in 0..ACCOUNTS {
            let entry = bed.accounts.get(&format!("u{number}")).unwrap().unwrap();
            let hash = entry.record.nt_hash.as_ref().unwrap().0;
            assert!(passwords.iter().any(|password| hash == nt_hash(password).unwrap().0), "u{number}");
        }
        // The line being added may be cut off; nothing else is wrong, and the next change works.
        bed.accounts.edit("u0", &mut |record| record.disabled = !record.disabled).unwrap();
    }
}

#[tokio::test]
async fn overwritten_bytes_are_within_one_page() {
    // With 107 bytes a line, the changing fields of some lines cross a page boundary.
    let text: String = (0..100).map(|number| line(&format!("u{}", number + 1100), 11_100 + number, "a")).collect();
    let bed = Bed::new(&text);
    let size = bed.text().len();
    for password in ["b", "c", "d"] {
        for number in 1100..1200 {
            let hash = nt_hash(password).unwrap();
            bed.accounts.edit(&format!("u{number}"), &mut |record| record.nt_hash = Some(hash.clone())).unwrap();
        }
    }
    let text = bed.text();
    // Those lines were rewritten in a new location once, and never again.
    assert!(text.len() > size && text.len() < size + 1000, "{}", text.len());
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len() - 2;
        assert!(line.starts_with('#') || (end - 92) / 4096 == end / 4096, "{line}");
        at += line.len();
    }
    assert_eq!(bed.accounts.page(None, 1000).unwrap().len(), 100);
    for number in 1100..1200 {
        assert!(bed.is(&format!("u{number}"), "d").await);
    }
}

#[test]
fn pages_are_consecutive() {
    let text = ["u2", "pc$", "U1", "u3"].map(|name| match name {
        "pc$" => line_with(name, 1, "x", "[W          ]:LCT-6B01BECE:"),
        _ => line(name, 10_000, "x"),
    });
    let bed = Bed::new(&text.concat());
    let names = |after, count| {
        let page = bed.accounts.page(after, count).unwrap();
        page.iter().map(|entry| entry.record.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 2), ["U1", "u2"]);
    assert_eq!(names(Some("U2"), 2), ["u3"]);
    assert!(names(Some("u3"), 2).is_empty());
    bed.accounts.add(record("u25", "x")).unwrap();
    assert_eq!(names(Some("U2"), 2), ["u25", "u3"]);
    bed.accounts.remove("u25").unwrap();
    assert_eq!(names(Some("U2"), 2), ["u3"]);
}

/// Pages of several back ends continue after the last name of all, and a short page means the end of a back end.
#[test]
fn lines_without_a_user_do_not_shorten_a_page() {
    let text = ["u1", "nobody1", "nobody2", "u2", "u3"]
        .map(|name| line_with(name, u32::MAX, "x", "[U          ]:LCT-6B01BECE:"));
    let bed = Bed::new(&text.concat());
    let names = |after, count| {
        let page = bed.accounts.page(after, count).unwrap();
        page.iter().map(|entry| entry.record.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 2), ["u1", "u2"]);
    assert_eq!(names(Some("u2"), 2), ["u3"]);
}

#[test]
fn properties_that_the_file_cannot_store_are_refused() {
    let bed = Bed::new("");
    let check = |record: Record, word: &str| {
        let error = bed.accounts.add(record).err().unwrap();
        assert!(format!("{error:#}").contains(word), "{error:#}");
    };
    check(Record { full_name: "U One".into(), ..record("u1", "x") }, "full name");
    check(Record { uid: Some(7), ..record("u1", "x") }, "no other uid");
    check(record("nobody", "x"), "no UNIX user");
    assert_eq!(bed.text(), "");
}

#[test]
fn an_import_adds_updates_and_keeps() {
    let bed = Bed::new(&line_with("u1", 10_001, "a", "[UX         ]:LCT-6B01BECE:"));
    let batch = || {
        ["U1", "u2", "nobody", "a/b"].map(|name| Imported {
            name: name.into(),
            nt_hash: Some(nt_hash("z").unwrap()),
            disabled: true,
            locked: false,
            must_change: false,
            never_expires: name == "U1",
            password_last_set: Some(7),
        })
    };
    use ImportResult::{Added, Skipped, Unchanged, Updated};
    for (dry_run, results) in [
        (true, [Updated, Added, Skipped, Skipped]),
        (false, [Updated, Added, Skipped, Skipped]),
        (false, [Unchanged, Unchanged, Skipped, Skipped]),
    ] {
        let before = bed.text();
        let outcomes = bed.accounts.import(batch().into(), dry_run, &|_| Ok(None)).unwrap();
        assert_eq!(outcomes.iter().map(|outcome| outcome.result).collect::<Vec<_>>(), results);
        assert!(!dry_run || bed.text() == before);
    }
    let (first, second) = ("[DUX        ]:LCT-00000007:", "[DU         ]:LCT-00000007:");
    assert_eq!(bed.text(), format!("{}{}", line_with("u1", 10_001, "z", first), line_with("u2", 10_002, "z", second)));
}
