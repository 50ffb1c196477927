//! UNIX users and groups from the name service switch, and which of them an account may be.
//!
//! NSS may use the network, so look-ups run on blocking threads ([`asking`]). Answers are cached for a minute (found)
//! or ten seconds (not found), so a change of group membership affects new logons after that time. While NSS does not
//! answer, found entries remain valid for five more minutes.
//!
//! The unsafe code of this module is the calls of the C functions.

mod asking;
mod kept;
pub(crate) mod members;
pub mod names;

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Instant;

use libc::{c_char, c_int};
use server::accounts::Unavailable;
use server::answer::Answer;
use server::vfs::Identity;

use self::asking::Asking;
use self::kept::Kept;
use self::names::Names;

/// The largest entry of the group database in bytes; a group of a whole university is about 1 MiB.
const LARGEST_ENTRY: usize = 16 << 20;

/// A UNIX user with its groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The name as NSS writes it.
    pub name: String,
    /// User id, primary group, supplementary groups.
    pub identity: Arc<Identity>,
    /// The names of all its groups; a group without a name has its number here.
    pub groups: Arc<[String]>,
}

/// The key of a user look-up.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// By name.
    Name(String),
    /// By number.
    Uid(u32),
}

/// A user, or the reason why an account cannot be that user.
pub type NssUser = Result<Arc<User>, Arc<str>>;

/// Answers [`Key`]s: NSS, or a substitute in tests.
pub type Source = Box<dyn Fn(&Key) -> io::Result<Option<User>> + Send + Sync>;

/// The UNIX users of accounts, with a cache of NSS's answers.
pub struct Users {
    /// The user of all accounts, if the process cannot change its identity.
    only: Option<Arc<User>>,
    /// Users with all their groups.
    whole: Arc<LookUps>,
    /// Users with only their primary groups; `None` if `whole` is used instead.
    glances: Option<Arc<LookUps>>,
    names: Arc<Names>,
}

/// Look-ups of one kind, with their cache.
struct LookUps {
    source: Source,
    kept: Kept<Key, NssUser>,
    asking: Asking<Key, NssUser>,
}

impl Users {
    /// Returns the users of this host. As root, each account is the UNIX user of its name. Without root the kernel
    /// allows no other identity, so every account is the process's own user.
    pub fn of_host() -> io::Result<Arc<Self>> {
        let only = match rustix::process::geteuid().is_root() {
            true => None,
            false => Some(Arc::new(process_user()?)),
        };
        let names = GroupNames::default();
        Ok(Self::with_glances(only, Box::new(move |key| look_up(key, &names)), Box::new(glance)))
    }

    /// Returns users for which `source` provides all data, and `glances` all but their groups.
    pub(super) fn with_glances(only: Option<Arc<User>>, source: Source, glances: Source) -> Arc<Self> {
        let (whole, glances) = (LookUps::new(source), Some(LookUps::new(glances)));
        Arc::new(Users { only, whole, glances, names: Names::of_host() })
    }

    /// Returns users for which `source` provides all data. If there is an `only` user, every account is that user.
    pub fn new(only: Option<Arc<User>>, source: Source) -> Arc<Self> {
        Self::with_names(only, source, Names::of_host())
    }

    /// Like [`Users::new`], on a host with the names `names`.
    pub(super) fn with_names(only: Option<Arc<User>>, source: Source, names: Arc<Names>) -> Arc<Self> {
        Arc::new(Users { only, whole: LookUps::new(source), glances: None, names })
    }

    /// Returns names and numbers of users and groups, including those that accounts must not use.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Returns the user of all accounts, if the process does not run as root.
    pub fn only(&self) -> Option<&Arc<User>> {
        self.only.as_ref()
    }

    /// Returns the user of `key`, at once if it is cached, otherwise from a blocking thread.
    pub fn find(&self, key: Key) -> Answer<Result<NssUser, Unavailable>> {
        match &self.only {
            Some(only) => Answer::now(Ok(Ok(only.clone()))),
            None => self.whole.find(key),
        }
    }

    /// Like [`Users::find`], on a thread that may block.
    pub fn find_blocking(&self, key: &Key) -> Result<NssUser, Unavailable> {
        match &self.only {
            Some(only) => Ok(Ok(only.clone())),
            None => self.whole.find_blocking(key),
        }
    }

    /// Returns the user of `key` with only the primary group, for lists of many users. NSS looks up the other groups
    /// user by user, and a directory service searches all its groups each time.
    pub fn glance(&self, key: Key) -> Answer<Result<NssUser, Unavailable>> {
        match &self.only {
            Some(only) => Answer::now(Ok(Ok(only.clone()))),
            None => self.glances_at(&key).find(key),
        }
    }

    /// Like [`Users::glance`], on a thread that may block.
    pub fn glance_blocking(&self, key: &Key) -> Result<NssUser, Unavailable> {
        match &self.only {
            Some(only) => Ok(Ok(only.clone())),
            None => self.glances_at(key).find_blocking(key),
        }
    }

    /// Returns the look-ups to use for `key`: a cached complete answer is not looked up again.
    fn glances_at(&self, key: &Key) -> &Arc<LookUps> {
        let known = |_: &&Arc<LookUps>| self.whole.kept.get(key, Instant::now()).is_none();
        self.glances.as_ref().filter(known).unwrap_or(&self.whole)
    }

    /// Returns whether few enough look-ups are active to start one speculatively.
    pub(super) fn is_idle(&self) -> bool {
        self.whole.asking.is_idle()
    }
}

impl LookUps {
    fn new(source: Source) -> Arc<LookUps> {
        Arc::new(LookUps { source, kept: Kept::default(), asking: Asking::default() })
    }

    fn find(self: &Arc<Self>, key: Key) -> Answer<Result<NssUser, Unavailable>> {
        if let Some(found) = self.kept.get(&key, Instant::now()) {
            return Answer::now(Ok(found));
        }
        let this = self.clone();
        Answer::later(async move {
            let asked = this.clone();
            match this.asking.ask(key.clone(), move |key| asked.find_blocking(key)).await {
                Err(unavailable) => {
                    this.kept.late(&key, Instant::now()).filter(NssUser::is_ok).map(Ok).ok_or(unavailable)?
                }
                answer => answer,
            }
        })
    }

    fn find_blocking(&self, key: &Key) -> Result<NssUser, Unavailable> {
        // Another task may have looked up the same key in the meantime.
        if let Some(found) = self.kept.get(key, Instant::now()) {
            return Ok(found);
        }
        let found = match (self.source)(key) {
            Ok(Some(user)) => admit(key, user),
            Ok(None) => Err(match key {
                Key::Name(name) => format!("this host has no UNIX user {name:?}").into(),
                Key::Uid(uid) => format!("this host has no UNIX user with uid {uid}").into(),
            }),
            Err(error) => return Err(Unavailable(format!("cannot look up the UNIX user {key:?}: {error}"))),
        };
        self.kept.put(key.clone(), found.clone(), found.is_ok(), Instant::now());
        Ok(found)
    }
}

/// Checks that an account may be `user`. Only the name `root` gives uid 0: neither another name of uid 0 in the
/// password file nor a number in an account does.
fn admit(key: &Key, user: User) -> NssUser {
    // To the kernel the largest uid or gid means "unchanged", which would be root.
    if [user.identity.uid, user.identity.gid].contains(&u32::MAX) {
        return Err(format!("UNIX user {:?} has the uid or gid 4294967295, which is reserved", user.name).into());
    }
    if user.identity.uid != 0 || *key == Key::Name("root".into()) {
        return Ok(Arc::new(user));
    }
    Err(match key {
        Key::Name(name) => format!("UNIX user {name:?} has uid 0, which only an account named root may have").into(),
        Key::Uid(_) => "uid 0 is only for an account named root".into(),
    })
}

/// Names of groups, cached as long as users, because most users share a few groups.
#[derive(Default)]
struct GroupNames(Kept<u32, String>);

impl GroupNames {
    /// Returns the name of a group, or its number if it has none. Blocks.
    fn of(&self, gid: u32) -> io::Result<String> {
        let now = Instant::now();
        if let Some(name) = self.0.get(&gid, now) {
            return Ok(name);
        }
        let Some(name) = group_name(gid)? else { return Ok(gid.to_string()) };
        self.0.put(gid, name.clone(), true, now);
        Ok(name)
    }
}

/// Returns the user and groups of this process.
fn process_user() -> io::Result<User> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let groups = rustix::process::getgroups()?.iter().map(|gid| gid.as_raw()).collect();
    let name = passwd(&Key::Uid(uid))?.map_or_else(|| uid.to_string(), |(name, _, _)| lossy(&name));
    user(name, uid, gid, groups, &GroupNames::default())
}

/// Returns the user of `key` without groups, from NSS.
fn glance(key: &Key) -> io::Result<Option<User>> {
    let Some((name, uid, gid)) = passwd(key)? else { return Ok(None) };
    let identity = Arc::new(Identity { uid, gid, groups: Box::new([]) });
    Ok(Some(User { name: lossy(&name), identity, groups: Arc::new([]) }))
}

/// Returns the user of `key` with all groups, from NSS.
fn look_up(key: &Key, group_names: &GroupNames) -> io::Result<Option<User>> {
    let Some((name, uid, gid)) = passwd(key)? else { return Ok(None) };
    let groups = group_list(&name, gid)?;
    user(lossy(&name), uid, gid, groups, group_names).map(Some)
}

fn lossy(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

fn user(name: String, uid: u32, gid: u32, groups: Vec<u32>, group_names: &GroupNames) -> io::Result<User> {
    let mut others = groups;
    others.retain(|group| *group != gid);
    others.sort_unstable();
    others.dedup();
    let mut names = Vec::with_capacity(others.len() + 1);
    for gid in std::iter::once(&gid).chain(&others) {
        names.push(group_names.of(*gid)?);
    }
    let identity = Arc::new(Identity { uid, gid, groups: others.into() });
    Ok(User { name, identity, groups: names.into() })
}

/// Calls one of the `..._r` functions of NSS with a growing buffer. `call` receives the entry, the buffer, and the
/// location for a pointer to the result.
///
/// # Safety
/// If `call` returns 0, it must have stored null or a pointer to the filled entry, whose strings are in the buffer. The
/// value that `take` returns must own all its data.
unsafe fn nss<E, T>(
    mut call: impl FnMut(*mut E, &mut [c_char], *mut *mut E) -> c_int,
    take: impl FnOnce(&E) -> T,
) -> io::Result<Option<T>> {
    let mut buffer: Vec<c_char> = vec![0; 4096];
    loop {
        let mut entry = MaybeUninit::<E>::uninit();
        let mut result = std::ptr::null_mut();
        match call(entry.as_mut_ptr(), &mut buffer, &mut result) {
            // SAFETY: by this function's contract a non-null result points to the filled `entry`; it and the buffer
            // live until the end of this arm, and `take` keeps no reference to them.
            0 => return Ok(unsafe { result.as_ref() }.map(take)),
            libc::ERANGE if buffer.len() < LARGEST_ENTRY => buffer.resize(buffer.len() * 4, 0),
            libc::EINTR => {}
            // Some back ends return these for "no such name" (getpwnam(3)).
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Returns name, uid and gid of a user.
fn passwd(key: &Key) -> io::Result<Option<(CString, u32, u32)>> {
    let take = |entry: &libc::passwd| {
        // SAFETY: `pw_name` of an entry that a getpw..._r function filled in is a C string.
        let name = unsafe { CStr::from_ptr(entry.pw_name) };
        (name.to_owned(), entry.pw_uid, entry.pw_gid)
    };
    match key {
        Key::Name(name) => {
            let Ok(name) = CString::new(name.as_str()) else { return Ok(None) };
            // SAFETY: `name` is a C string, and entry, buffer with its length and result are valid for writing.
            let call = |entry, buffer: &mut [c_char], result| unsafe {
                libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), result)
            };
            // SAFETY: getpwnam_r and getpwuid_r fulfil the contract, and `take` copies.
            unsafe { nss(call, take) }
        }
        Key::Uid(uid) => {
            // SAFETY: entry, buffer with its length and result are valid for writing.
            let call = |entry, buffer: &mut [c_char], result| unsafe {
                libc::getpwuid_r(*uid, entry, buffer.as_mut_ptr(), buffer.len(), result)
            };
            // SAFETY: getpwnam_r and getpwuid_r fulfil the contract, and `take` copies.
            unsafe { nss(call, take) }
        }
    }
}

/// Returns the UNIX user `name` without any check, for names in the administrator's configuration. Blocks.
pub fn user_by_name(name: &str) -> io::Result<Option<User>> {
    look_up(&Key::Name(name.to_owned()), &GroupNames::default())
}

/// Returns the gid of the UNIX group `name`. Blocks.
pub fn group_by_name(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    // SAFETY: `name` is a C string, and entry, buffer with its length and result are valid for writing.
    let call = |entry, buffer: &mut [c_char], result| unsafe {
        libc::getgrnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), result)
    };
    // SAFETY: getgrnam_r fulfils the contract, and a number is copied.
    unsafe { nss(call, |entry: &libc::group| entry.gr_gid) }
}

/// Returns whether the group is the private one of the user `uid`: it has that user's name, is the user's primary
/// group, and has no other members. Blocks.
pub(crate) fn is_private_group(gid: u32, uid: u32) -> bool {
    let Ok(Some((name, _, primary))) = passwd(&Key::Uid(uid)) else { return false };
    let has_its_name = matches!(group_name(gid), Ok(Some(group)) if group == lossy(&name));
    primary == gid
        && has_its_name
        && members::members(gid, 2).is_ok_and(|members| members.iter().all(|(id, _)| *id == uid))
}

/// Returns the name of a group. Blocks.
fn group_name(gid: u32) -> io::Result<Option<String>> {
    // SAFETY: entry, buffer with its length and result are valid for writing.
    let call = |entry, buffer: &mut [c_char], result| unsafe {
        libc::getgrgid_r(gid, entry, buffer.as_mut_ptr(), buffer.len(), result)
    };
    let take = |entry: &libc::group| {
        // SAFETY: `gr_name` of an entry that getgrgid_r filled in is a C string.
        let name = unsafe { CStr::from_ptr(entry.gr_name) };
        lossy(name)
    };
    // SAFETY: getgrgid_r fulfils the contract, and `take` copies.
    unsafe { nss(call, take) }
}

/// Returns all groups of a user, including `gid`. Blocks.
fn group_list(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = c_int::try_from(groups.len()).map_err(io::Error::other)?;
        // SAFETY: `name` is a C string; `groups` is valid for writing `count` elements, and `count` itself is.
        let answer = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        let count = usize::try_from(count).map_err(io::Error::other)?;
        if answer >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        // The kernel also accepts at most 65,536 groups (NGROUPS_MAX).
        if groups.len() > 65_536 {
            return Err(io::Error::other(format!("user {} is in too many groups", lossy(name))));
        }
        groups.resize(count.max(groups.len() * 2), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn user_of(name: &str, uid: u32) -> User {
        let identity = Arc::new(Identity { uid, gid: 5, groups: Box::new([]) });
        User { name: name.into(), identity, groups: Arc::new([]) }
    }

    /// Users whose source has `ann`, `root` and `toor` and counts its queries.
    fn users(asked: &Arc<AtomicUsize>) -> Arc<Users> {
        let asked = asked.clone();
        let source = move |key: &Key| {
            asked.fetch_add(1, Ordering::Relaxed);
            match key {
                Key::Name(name) if name == "ann" => Ok(Some(user_of("ann", 7))),
                Key::Name(name) if name == "root" || name == "toor" => Ok(Some(user_of(name, 0))),
                Key::Uid(0) => Ok(Some(user_of("root", 0))),
                Key::Name(name) if name == "ldap" => Err(io::Error::other("down")),
                _ => Ok(None),
            }
        };
        Users::new(None, Box::new(source))
    }

    #[tokio::test]
    async fn answers_are_cached_and_failures_are_not() {
        let asked = Arc::new(AtomicUsize::new(0));
        let users = users(&asked);
        for (name, good) in [("ann", true), ("bob", false), ("ann", true), ("bob", false)] {
            assert_eq!(users.find(Key::Name(name.into())).await.unwrap().is_ok(), good);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        for _ in 0..2 {
            assert!(users.find(Key::Name("ldap".into())).await.is_err());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }

    /// Lists need no groups, and a user with a complete cached answer is not looked up again.
    #[test]
    fn a_lookup_for_lists_does_not_query_groups() {
        let asked = [const { AtomicUsize::new(0) }; 2].map(Arc::new);
        let source = |which: usize| -> Source {
            let asked = asked[which].clone();
            Box::new(move |key| {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok(Some(match key {
                    Key::Name(name) => user_of(name, u32::from(name != "toor")),
                    Key::Uid(uid) => user_of("someone", *uid),
                }))
            })
        };
        let users = Users::with_glances(None, source(0), source(1));
        let check = |whole: usize, glances: usize| {
            assert_eq!([0, 1].map(|which| asked[which].load(Ordering::Relaxed)), [whole, glances]);
        };
        let (ann, bob) = (Key::Name("ann".into()), Key::Name("bob".into()));
        for _ in 0..2 {
            assert_eq!(users.glance_blocking(&ann).unwrap().unwrap().name, "ann");
        }
        check(0, 1);
        assert!(users.find_blocking(&ann).is_ok() && users.find_blocking(&bob).is_ok());
        check(2, 1);
        assert!(users.glance_blocking(&bob).unwrap().is_ok());
        check(2, 1);
        assert!(users.glance_blocking(&Key::Name("toor".into())).unwrap().unwrap_err().contains("uid 0"));
        check(2, 2);
    }

    #[test]
    fn cached_answers_expire() {
        let users = users(&Arc::default());
        let now = Instant::now();
        let (ann, bob) = (Key::Name("ann".into()), Key::Name("bob".into()));
        users.whole.kept.put(ann.clone(), Ok(Arc::new(user_of("ann", 7))), true, now);
        users.whole.kept.put(bob.clone(), Err("missing".into()), false, now);
        for (key, seconds, kept) in [(&ann, 59, true), (&ann, 60, false), (&bob, 9, true), (&bob, 10, false)] {
            assert_eq!(
                users.whole.kept.get(key, now + Duration::from_secs(seconds)).is_some(),
                kept,
                "{key:?} {seconds}"
            );
        }
    }

    /// NSS hangs for `slow`: cached users can log on, the others are refused in bounded time.
    #[tokio::test(start_paused = true)]
    async fn a_hanging_name_service_delays_logons_for_a_bounded_time() {
        let (guard, held) = std::sync::mpsc::channel::<()>();
        let held = parking_lot::Mutex::new(held);
        let source = move |key: &Key| {
            let _ = held.lock().recv();
            Ok(matches!(key, Key::Name(name) if name == "ann").then(|| user_of("ann", 7)))
        };
        let users = Users::new(None, Box::new(source));
        let before = Instant::now();
        let (ann, bob) = (Key::Name("ann".into()), Key::Name("bob".into()));
        users.whole.kept.put(ann.clone(), Ok(Arc::new(user_of("ann", 7))), true, before - Duration::from_secs(61));
        users.whole.kept.put(bob.clone(), Err("missing".into()), false, before - Duration::from_secs(61));
        let find = |key: &Key| {
            let (users, key) = (users.clone(), key.clone());
            tokio::spawn(async move { users.find(key).await })
        };
        let (known, unknown) = (find(&ann), find(&bob));
        // A paused clock does not advance by itself while threads are busy.
        for _ in 0..12 {
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(known.await.unwrap().unwrap().unwrap().name, "ann");
        // A user that was missing some time ago must not be reported missing now.
        let Err(Unavailable(why)) = unknown.await.unwrap() else { panic!("answered") };
        assert!(why.contains("NSS has not answered"), "{why}");
        drop(guard);
        tokio::time::resume();
        while users.find(bob.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn the_superuser_is_root_by_that_name_only() {
        let users = users(&Arc::default());
        let find = |key| users.find_blocking(&key).unwrap();
        assert_eq!(find(Key::Name("root".into())).unwrap().identity.uid, 0);
        assert!(find(Key::Name("toor".into())).unwrap_err().contains("uid 0"));
        assert!(find(Key::Uid(0)).unwrap_err().contains("root"));
        assert!(admit(&Key::Name("none".into()), user_of("none", u32::MAX)).unwrap_err().contains("4294967295"));
        assert!(find(Key::Name("nul\0".into())).unwrap_err().contains("no UNIX user"));
    }

    #[test]
    fn without_root_every_user_is_that_of_the_process() {
        let me = Arc::new(user_of("me", 1234));
        let users = Users::new(Some(me.clone()), Box::new(|_| panic!("unexpected query")));
        assert_eq!(users.find_blocking(&Key::Name("root".into())).unwrap().unwrap(), me);
        assert_eq!(users.only(), Some(&me));
    }

    #[test]
    fn nss_finds_root_and_no_unknown_user() {
        let root = user_by_name("root").unwrap().unwrap();
        assert_eq!((root.identity.uid, root.name.as_str()), (0, "root"));
        assert!(!root.identity.groups.contains(&root.identity.gid));
        assert_eq!(root.groups[0], group_name(root.identity.gid).unwrap().unwrap());
        assert_eq!(group_by_name(&root.groups[0]).unwrap(), Some(root.identity.gid));
        assert_eq!(passwd(&Key::Uid(0)).unwrap().unwrap().0.to_str().unwrap(), "root");
        let names = GroupNames::default();
        for _ in 0..2 {
            assert_eq!(names.of(root.identity.gid).unwrap(), root.groups[0]);
            assert_eq!(names.of(4_123_456_789).unwrap(), "4123456789");
        }
        assert_eq!(names.0.len(), 1);
        for name in ["no such user here", "a\0b", ""] {
            assert!(user_by_name(name).unwrap().is_none());
            assert!(group_by_name(name).unwrap().is_none());
        }
        let me = process_user().unwrap();
        assert_eq!(me.identity.uid, rustix::process::geteuid().as_raw());
    }
}
