//! NSS look-ups other than the users of accounts: owners of files, home directories, netgroup members. Answers are
//! cached and queried like those of [`super::Users`].

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use server::accounts::Unavailable;
use server::answer::Answer;

use super::asking::Asking;
use super::kept::Kept;
use super::{Key, group_by_name, group_name, lossy, nss, passwd};

/// A query.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Question {
    /// The name of the user with this uid.
    User(u32),
    /// The name of the group with this gid.
    Group(u32),
    /// The uid of the user with this name.
    Uid(String),
    /// The gid of the group with this name.
    Gid(String),
    /// The home directory of the user with this name.
    Home(String),
    /// Whether the user is in the netgroup.
    Netgroup {
        /// The user's name.
        user: String,
        /// The netgroup's name.
        group: String,
    },
}

/// The answer to a [`Question`], if there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A name as written by NSS, and its number.
    Named(String, u32),
    /// A home directory.
    Home(PathBuf),
    /// The user is a member.
    Member,
}

/// Answers queries: NSS, or a substitute in tests.
pub type Source = Box<dyn Fn(&Question) -> io::Result<Option<Reply>> + Send + Sync>;

/// The names of the host.
pub struct Names {
    source: Source,
    kept: Kept<Question, Option<Reply>>,
    asking: Asking<Question, Option<Reply>>,
}

impl Names {
    /// Returns the names of this host.
    pub fn of_host() -> Arc<Self> {
        Self::new(Box::new(ask))
    }

    /// Returns the names that `source` provides.
    pub fn new(source: Source) -> Arc<Self> {
        Arc::new(Names { source, kept: Kept::default(), asking: Asking::default() })
    }

    /// Returns the answer, at once if it is cached, otherwise from a blocking thread.
    pub fn ask(self: &Arc<Self>, question: Question) -> Answer<Result<Option<Reply>, Unavailable>> {
        if let Some(reply) = self.kept.get(&question, Instant::now()) {
            return Answer::now(Ok(reply));
        }
        let names = self.clone();
        Answer::later(async move {
            let asked = names.clone();
            match names.asking.ask(question.clone(), move |question| asked.ask_blocking(question)).await {
                Err(unavailable) => {
                    names.kept.late(&question, Instant::now()).filter(Option::is_some).map(Ok).ok_or(unavailable)?
                }
                answer => answer,
            }
        })
    }

    /// Like [`Names::ask`], on a thread that may block.
    pub fn ask_blocking(&self, question: &Question) -> Result<Option<Reply>, Unavailable> {
        if let Some(reply) = self.kept.get(question, Instant::now()) {
            return Ok(reply);
        }
        let reply =
            (self.source)(question).map_err(|error| Unavailable(format!("cannot look up {question:?}: {error}")))?;
        self.kept.put(question.clone(), reply.clone(), reply.is_some(), Instant::now());
        Ok(reply)
    }
}

/// Queries NSS. Blocks.
fn ask(question: &Question) -> io::Result<Option<Reply>> {
    Ok(match question {
        Question::User(uid) => passwd(&Key::Uid(*uid))?.map(|(name, uid, _)| Reply::Named(lossy(&name), uid)),
        Question::Group(gid) => group_name(*gid)?.map(|name| Reply::Named(name, *gid)),
        Question::Uid(name) => passwd(&Key::Name(name.clone()))?.map(|(name, uid, _)| Reply::Named(lossy(&name), uid)),
        Question::Gid(name) => group_by_name(name)?.map(|gid| Reply::Named(name.clone(), gid)),
        Question::Home(name) => home(name)?.map(Reply::Home),
        Question::Netgroup { user, group } => in_netgroup(user, group).then_some(Reply::Member),
    })
}

/// Returns the home directory of the user called `name`. Blocks.
fn home(name: &str) -> io::Result<Option<PathBuf>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    // SAFETY: `name` is a C string, and entry, buffer with its length and result are valid for writing.
    let call = |entry, buffer: &mut [libc::c_char], result| unsafe {
        libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), result)
    };
    let take = |entry: &libc::passwd| {
        // SAFETY: `pw_dir` of an entry that getpwnam_r filled in is a C string.
        let home = unsafe { CStr::from_ptr(entry.pw_dir) };
        PathBuf::from(std::ffi::OsStr::from_bytes(home.to_bytes()))
    };
    // SAFETY: getpwnam_r fulfils the contract, and `take` copies.
    unsafe { nss(call, take) }
}

/// Returns whether `user` is in the netgroup `group`, on any host and in any NIS domain. Blocks.
#[cfg(target_env = "gnu")]
fn in_netgroup(user: &str, group: &str) -> bool {
    unsafe extern "C" {
        /// innetgr(3); glibc locks its state internally.
        fn innetgr(
            netgroup: *const libc::c_char,
            host: *const libc::c_char,
            user: *const libc::c_char,
            domain: *const libc::c_char,
        ) -> libc::c_int;
    }
    let (Ok(user), Ok(group)) = (CString::new(user), CString::new(group)) else { return false };
    // SAFETY: both names are C strings, and null matches anything.
    unsafe { innetgr(group.as_ptr(), std::ptr::null(), user.as_ptr(), std::ptr::null()) == 1 }
}

/// C libraries other than glibc have no netgroups.
#[cfg(not(target_env = "gnu"))]
fn in_netgroup(_: &str, _: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_host_resolves_root_and_no_unknown_names() {
        let names = Names::of_host();
        let cases = [
            (Question::User(0), Some(Reply::Named("root".into(), 0))),
            (Question::Uid("root".into()), Some(Reply::Named("root".into(), 0))),
            (Question::Group(0), Some(Reply::Named("root".into(), 0))),
            (Question::Gid("root".into()), Some(Reply::Named("root".into(), 0))),
            (Question::Home("root".into()), Some(Reply::Home("/root".into()))),
            (Question::User(3_999_999_999), None),
            (Question::Uid("no such user here".into()), None),
            (Question::Gid("a\0b".into()), None),
            (Question::Home("a\0b".into()), None),
            (Question::Netgroup { user: "root".into(), group: "no such netgroup".into() }, None),
        ];
        for (question, expected) in cases {
            assert_eq!(names.ask(question.clone()).await.unwrap(), expected, "{question:?}");
            assert!(matches!(names.ask(question), Answer::Now(_)), "it is cached");
        }
    }
}
