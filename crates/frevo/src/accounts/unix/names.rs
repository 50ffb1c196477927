//! What NSS knows of names and numbers beyond the users that accounts are: who a file belongs to, where a home is, who is
//! in a netgroup. Answers are kept as those of [`super::Users`] are, and asked for in the same way.

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

/// A question.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Question {
    /// What the user with this number is called.
    User(u32),
    /// What the group with this number is called.
    Group(u32),
    /// The number of the user of this name.
    Uid(String),
    /// The number of the group of this name.
    Gid(String),
    /// The home of the user of this name.
    Home(String),
    /// Whether the user is in the netgroup.
    Netgroup {
        /// The user's name.
        user: String,
        /// The netgroup's.
        group: String,
    },
}

/// What a [`Question`] is answered with, where there is an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A name as NSS writes it, and its number.
    Named(String, u32),
    /// A home directory.
    Home(PathBuf),
    /// Yes.
    Member,
}

/// Whatever answers questions: NSS, or what a test puts in its place.
pub type Source = Box<dyn Fn(&Question) -> io::Result<Option<Reply>> + Send + Sync>;

/// The names of the host.
pub struct Names {
    source: Source,
    kept: Kept<Question, Option<Reply>>,
    asking: Asking<Question, Option<Reply>>,
}

impl Names {
    /// Those of this host.
    pub fn of_host() -> Arc<Self> {
        Self::new(Box::new(ask))
    }

    /// Those that `source` knows.
    pub fn new(source: Source) -> Arc<Self> {
        Arc::new(Names { source, kept: Kept::default(), asking: Asking::default() })
    }

    /// The answer, at once where a recent one is kept, else from a blocking thread.
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

    /// [`Names::ask`] on a thread that may block.
    pub fn ask_blocking(&self, question: &Question) -> Result<Option<Reply>, Unavailable> {
        if let Some(reply) = self.kept.get(question, Instant::now()) {
            return Ok(reply);
        }
        let reply =
            (self.source)(question).map_err(|error| Unavailable(format!("UNIX look-up of {question:?}: {error}")))?;
        self.kept.put(question.clone(), reply.clone(), reply.is_some(), Instant::now());
        Ok(reply)
    }
}

/// Asks NSS. Blocks.
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

/// The home directory of the user called `name`. Blocks.
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
    // SAFETY: getpwnam_r keeps the contract, and `take` copies.
    unsafe { nss(call, take) }
}

/// Whether `user` is in the netgroup `group`, on whatever host and in whatever NIS domain. Blocks.
#[cfg(target_env = "gnu")]
fn in_netgroup(user: &str, group: &str) -> bool {
    unsafe extern "C" {
        /// netgroup(5); glibc locks its state inside.
        fn innetgr(
            netgroup: *const libc::c_char,
            host: *const libc::c_char,
            user: *const libc::c_char,
            domain: *const libc::c_char,
        ) -> libc::c_int;
    }
    let (Ok(user), Ok(group)) = (CString::new(user), CString::new(group)) else { return false };
    // SAFETY: both names are C strings, and null stands for anything.
    unsafe { innetgr(group.as_ptr(), std::ptr::null(), user.as_ptr(), std::ptr::null()) == 1 }
}

/// C libraries other than glibc have no netgroups: nobody is in one.
#[cfg(not(target_env = "gnu"))]
fn in_netgroup(_: &str, _: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_host_knows_root_and_not_the_unknown() {
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
            assert!(matches!(names.ask(question), Answer::Now(_)), "it is kept");
        }
    }
}
