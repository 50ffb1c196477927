//! `username map`: a file that maps the names that clients send to accounts, in Samba's format.
//!
//! A line is `account = names`. Names are separated by blanks or commas, and names with blanks are quoted. `*` matches
//! every user, `@group` the members of a netgroup or UNIX group, `&group` those of a netgroup, and `+group` those of a
//! UNIX group. The last line that matches a client's name applies, or the first matching one with a leading `!`. Lines
//! that begin with `#` or `;` are comments. The client must know the mapped account's password, so the file alone
//! grants no access.
//!
//! `*` and groups never map a user to root: only a name that is written out does. Samba accepts any line;
//! CVE-2020-25717 shows the danger of names that others control.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::{UsernameMap, fold};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::unix::names::Question;
use super::unix::{Key, Users};

/// Limits concurrent look-ups. Group look-ups may use the network before the client is authenticated, and a name
/// service that hangs must not occupy all blocking threads of the runtime.
static TURNS: Semaphore = Semaphore::const_new(16);
/// How long a caller waits for an answer, including the wait for a permit. Clients time out after 20 seconds at the
/// earliest, and the logon has further steps.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest file in bytes.
const LARGEST: u64 = 1 << 20;

/// The file and its cached content. It is read again when it changes.
pub struct FileMap(Arc<Inner>);

struct Inner {
    path: PathBuf,
    /// `username map cache time`: how long the file is not checked for changes.
    every: Duration,
    users: Arc<Users>,
    kept: Mutex<Option<Kept>>,
    turns: &'static Semaphore,
}

/// Identifies a version of the file: device, inode, size, and change time in seconds and nanoseconds.
type Stamp = [i64; 5];

struct Kept {
    looked: Instant,
    /// The version of the file; `None` if it cannot be read.
    stamp: Option<Stamp>,
    lines: Arc<[Line]>,
}

/// One line of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    account: String,
    names: Vec<String>,
    last: bool,
}

impl FileMap {
    /// Returns the map in `path`, which is checked for changes after `every`.
    pub fn new(path: PathBuf, every: Duration, users: Arc<Users>) -> Self {
        FileMap(Arc::new(Inner { path, every, users, kept: Mutex::new(None), turns: &TURNS }))
    }
}

/// The user whose account is looked up.
enum MappedUser {
    /// A name as sent by a client.
    Sent { domain: String, user: String },
    /// An authenticated user of a domain, with their groups there. Only full names match them.
    Proven { full: String, groups: Box<[String]> },
}

impl FileMap {
    fn ask(&self, who: MappedUser) -> Answer<Result<Option<String>, Unavailable>> {
        let inner = self.0.clone();
        Answer::later(async move {
            let asked = async {
                let turn = inner.turns.acquire().await.expect("the semaphore is never closed");
                let inner = inner.clone();
                let work = move || {
                    // Released when NSS has answered, even if the caller has given up.
                    let _turn = turn;
                    inner.find(&who)
                };
                tokio::task::spawn_blocking(work).await
            };
            match timeout(PATIENCE, asked).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => Err(Unavailable(format!("username map: {error}"))),
                Err(_) => Err(Unavailable(format!(
                    "username map: NSS has not answered a group look-up for {} seconds; check nsswitch.conf(5)",
                    PATIENCE.as_secs()
                ))),
            }
        })
    }
}

impl UsernameMap for FileMap {
    fn account_of(&self, domain: &str, user: &str) -> Answer<Result<Option<String>, Unavailable>> {
        self.ask(MappedUser::Sent { domain: domain.to_owned(), user: user.to_owned() })
    }

    fn account_of_proven(&self, full: &str, groups: &[String]) -> Answer<Result<Option<String>, Unavailable>> {
        self.ask(MappedUser::Proven { full: full.to_owned(), groups: groups.into() })
    }
}

impl Inner {
    /// Returns the account of `who`. Blocks. It fails if NSS does not answer a group look-up on which the result
    /// depends.
    fn find(&self, who: &MappedUser) -> Result<Option<String>, Unavailable> {
        let (lines, mut found) = (self.lines(), Ok(None));
        for line in &*lines {
            match self.fits(line, who) {
                Ok(true) => found = Ok(Some(line.account.clone())),
                Ok(false) => continue,
                Err(why) => found = Err(why),
            }
            if line.last {
                break;
            }
        }
        found
    }

    /// Returns whether a name of `line` matches `who`. One match is sufficient, even if look-ups of other names fail.
    fn fits(&self, line: &Line, who: &MappedUser) -> Result<bool, Unavailable> {
        // Without regard to case, like all account names.
        let root = fold(&line.account) == "root";
        let mut fits = Ok(false);
        for name in &line.names {
            match self.means(name, who, root) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(why) => fits = Err(why),
            }
        }
        fits
    }

    /// Returns whether `name` of a line matches `who`. For `root` only an explicit name matches.
    fn means(&self, name: &str, who: &MappedUser, root: bool) -> Result<bool, Unavailable> {
        let plain = name.trim_start_matches(['@', '+', '&']);
        let marks = &name[..name.len() - plain.len()];
        if marks.is_empty() && name != "*" {
            return Ok(match who {
                MappedUser::Sent { domain, user } if name.contains('\\') => {
                    fold(name) == fold(&format!("{domain}\\{user}"))
                }
                MappedUser::Sent { user, .. } => fold(name) == fold(user),
                MappedUser::Proven { full, .. } => fold(name) == fold(full),
            });
        }
        if root {
            return Ok(false);
        }
        let user = match who {
            MappedUser::Sent { user, .. } => user,
            MappedUser::Proven { full, .. } => full,
        };
        let in_netgroup = || {
            let question = Question::Netgroup { user: user.clone(), group: plain.to_owned() };
            Ok(self.users.names().ask_blocking(&question)?.is_some())
        };
        let is_it = |group: &String| fold(group) == fold(plain);
        let in_group = || match who {
            MappedUser::Sent { user, .. } => {
                let user = self.users.find_blocking(&Key::Name(user.clone()))?;
                Ok(user.is_ok_and(|user| user.groups.iter().any(is_it)))
            }
            MappedUser::Proven { groups, .. } => Ok(groups.iter().any(is_it)),
        };
        Ok(name == "*" || marks.contains(['@', '&']) && in_netgroup()? || marks.contains(['@', '+']) && in_group()?)
    }

    fn lines(&self) -> Arc<[Line]> {
        let now = Instant::now();
        let mut kept = self.kept.lock();
        if let Some(kept) = &*kept
            && now.duration_since(kept.looked) < self.every
        {
            return kept.lines.clone();
        }
        let before = kept.take();
        let (stamp, lines) = match self.read(before.as_ref()) {
            Ok(read) => read,
            Err(error) => {
                if before.is_none_or(|before| before.stamp.is_some()) {
                    tracing::warn!(path = %self.path.display(), %error, "cannot read username map: no name is mapped");
                }
                (None, Arc::new([]) as Arc<[Line]>)
            }
        };
        *kept = Some(Kept { looked: now, stamp, lines: lines.clone() });
        lines
    }

    /// Returns the lines; those of `before` if the file has not changed since.
    fn read(&self, before: Option<&Kept>) -> io::Result<(Option<Stamp>, Arc<[Line]>)> {
        let file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        let number = |number: u64| i64::from_ne_bytes(number.to_ne_bytes());
        let (device, inode, size) = (number(metadata.dev()), number(metadata.ino()), number(metadata.size()));
        let stamp = Some([device, inode, size, metadata.ctime(), metadata.ctime_nsec()]);
        if let Some(before) = before.filter(|before| before.stamp == stamp) {
            return Ok((stamp, before.lines.clone()));
        }
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
        }
        Ok((stamp, parse(&String::from_utf8_lossy(&bytes))))
    }
}

fn parse(text: &str) -> Arc<[Line]> {
    let line = |line: &str| {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (account, names) = line.split_once('=')?;
        let plain = account.strip_prefix('!').unwrap_or(account).trim();
        let names = list(names);
        (!plain.is_empty() && !names.is_empty()).then(|| Line {
            account: plain.to_owned(),
            names,
            last: account.starts_with('!'),
        })
    };
    text.lines().filter_map(line).collect()
}

/// Splits a list, here or in smb.conf, at white space, commas and semicolons, except inside quotation marks.
pub fn list(text: &str) -> Vec<String> {
    let mut quoted = false;
    let separates = |character: char| {
        quoted ^= character == '"';
        !quoted && (character.is_whitespace() || matches!(character, ',' | ';'))
    };
    text.split(separates).map(|element| element.replace('"', "")).filter(|element| !element.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;

    use server::vfs::Identity;

    use super::super::unix::names::{Names, Reply};
    use super::super::unix::{self, User};
    use super::*;

    const MAP: &str = "\
# comment = x
; another = x
root = admin administrator
root = @staff *
!ann = \"Ann Miller\" am, miller
ann = eve
bob = eve
staffer = +staff
nightly = &night
dora = DOM\\dora
nonsense
= nobody
empty =
";

    /// joe is in the UNIX group staff, nina in the netgroup night.
    fn map(path: PathBuf) -> Inner {
        let user = |key: &Key| {
            let is_joe = matches!(key, Key::Name(name) if name == "joe");
            Ok(is_joe.then(|| User {
                name: "joe".into(),
                identity: Arc::new(Identity { uid: 5, gid: 5, groups: Box::new([]) }),
                groups: Arc::new(["staff".into()]),
            }))
        };
        let names = |question: &Question| {
            let night = Question::Netgroup { user: "nina".into(), group: "night".into() };
            Ok((*question == night).then_some(Reply::Member))
        };
        let users = Users::with_names(None, Box::new(user), Names::new(Box::new(names)));
        Inner { path, every: Duration::ZERO, users, kept: Mutex::new(None), turns: &TURNS }
    }

    fn sent(domain: &str, user: &str) -> MappedUser {
        MappedUser::Sent { domain: domain.into(), user: user.into() }
    }

    /// As in smb.conf(5) for domain members: only full names match users authenticated by a controller.
    #[test]
    fn domain_users_match_only_full_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        let text = "!root = DOM\\administrator\n!ann = dora miller DOM\\emil\n!crew = @\"DOM\\the crew\" +staff\n\
                    root = *\nroot = @DOM\\admins\n!mia = \"DOM\\mia miller\"\n";
        std::fs::write(&path, text).unwrap();
        let map = map(path.clone());
        let check = |full: &str, groups: &[&str], expected: Option<&str>| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let found = map.find(&MappedUser::Proven { full: full.into(), groups }).unwrap();
            assert_eq!(found.as_deref(), expected, "{full}");
        };
        check(r"DOM\Administrator", &[], Some("root"));
        check(r"OTHER\administrator", &[], None);
        check(r"DOM\dora", &[], None);
        check(r"DOM\miller", &[], None);
        check(r"dom\Emil", &[], Some("ann"));
        check(r"DOM\mia miller", &[], Some("mia"));
        check(r"DOM\gus", &[r"DOM\The Crew"], Some("crew"));
        // UNIX groups of a local user of the same name do not apply, and a group never grants root.
        check(r"DOM\joe", &["staff of DOM"], None);
        check(r"DOM\adam", &[r"DOM\admins"], None);
        std::fs::write(&path, "visitor = *\n").unwrap();
        check(r"DOM\gus", &[], Some("visitor"));
    }

    #[test]
    fn names_are_mapped_to_accounts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        std::fs::write(&path, MAP).unwrap();
        let map = map(path);
        let cases = [
            ("", "ann miller", Some("ann")),
            ("", "MILLER", Some("ann")),
            ("", "eve", Some("bob")),
            ("", "joe", Some("staffer")),
            ("", "nina", Some("nightly")),
            ("DOM", "dora", Some("dora")),
            ("OTHER", "dora", None),
            ("", "Administrator", Some("root")),
            ("", "somebody", None),
            ("", "root", None),
            ("", "", None),
        ];
        for (domain, user, expected) in cases {
            assert_eq!(map.find(&sent(domain, user)).unwrap().as_deref(), expected, "{domain} {user}");
        }
    }

    #[test]
    fn a_wildcard_does_not_map_to_root() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        std::fs::write(&path, "!joe = joe\nguest = *\n").unwrap();
        let map = map(path.clone());
        assert_eq!(map.find(&sent("", "joe")).unwrap().as_deref(), Some("joe"));
        assert_eq!(map.find(&sent("", "whoever")).unwrap().as_deref(), Some("guest"));
        for root in ["root", "Root", "ROOT"] {
            std::fs::write(&path, format!("{root} = *\n{root} = @staff +staff &night\n")).unwrap();
            for user in ["joe", "nina", "whoever"] {
                assert_eq!(map.find(&sent("", user)).unwrap(), None, "{user} as {root}");
            }
        }
    }

    #[tokio::test]
    async fn a_changed_file_is_reloaded_and_a_missing_file_maps_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map");
        let map = FileMap(Arc::new(map(path.clone())));
        assert_eq!(map.account_of("", "x").await.unwrap(), None);
        for account in ["first", "the second"] {
            std::fs::write(&path, format!("{account} = x")).unwrap();
            assert_eq!(map.account_of("", "x").await.unwrap().as_deref(), Some(account));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(map.account_of("", "x").await.unwrap(), None);
    }

    /// A map of `text` on a host where `user` answers look-ups.
    fn map_on(dir: &Path, text: &str, turns: &'static Semaphore, user: unix::Source) -> FileMap {
        let path = dir.join("map");
        std::fs::write(&path, text).unwrap();
        let users = Users::new(None, user);
        FileMap(Arc::new(Inner { path, every: Duration::ZERO, users, kept: Mutex::new(None), turns }))
    }

    #[tokio::test]
    async fn a_failed_group_query_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let text = "crew = +staff\nbob = bob\n!ann = +staff ann\nguest = cid\n";
        let map = map_on(dir.path(), text, &TURNS, Box::new(|_| Err(io::Error::other("down"))));
        assert_eq!(map.account_of("", "ann").await.unwrap().as_deref(), Some("ann"));
        for user in ["bob", "cid", "dora"] {
            assert!(map.account_of("", user).await.is_err_and(|why| why.0.contains("down")), "{user}");
        }
        std::fs::write(dir.path().join("map"), "crew = +staff\nbob = bob\n").unwrap();
        assert_eq!(map.account_of("", "bob").await.unwrap().as_deref(), Some("bob"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_name_service_is_waited_for_a_bounded_time() {
        static ONE: Semaphore = Semaphore::const_new(1);
        let dir = tempfile::tempdir().unwrap();
        let (go_on, hangs) = mpsc::channel::<()>();
        let hangs = Mutex::new(hangs);
        let hang = move |_: &Key| {
            let _ = hangs.lock().recv();
            Ok(None)
        };
        let map = map_on(dir.path(), "crew = +staff\n", &ONE, Box::new(hang));
        // One that has a permit, and one that waits for it.
        let asks = ["ann", "bob"].map(|name| tokio::spawn(map.account_of("", name)));
        // The clock does not advance by itself while a thread is busy.
        for _ in 0..=PATIENCE.as_secs() {
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        for asked in asks {
            assert!(asked.await.unwrap().is_err());
        }
        drop(go_on);
        tokio::time::resume();
        assert_eq!(map.account_of("", "ann").await.unwrap(), None);
    }
}
