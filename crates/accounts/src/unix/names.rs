//! NSS look-ups other than the users of accounts: owners of files, home directories, netgroup members. Answers are
//! cached and queried like those of [`super::Users`].

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
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
    /// The addresses of the host with this name.
    Addresses(String),
    /// The name of the host with this address, which has the address according to its name, too.
    Host(IpAddr),
    /// Whether the host with this name is in the netgroup.
    HostNetgroup {
        /// The host's name.
        host: String,
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
    /// The user or host is a member.
    Member,
    /// The addresses of a host.
    Addresses(Vec<IpAddr>),
    /// The name of a host.
    Host(String),
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
        Question::Netgroup { user, group } => in_netgroup(group, None, Some(user))?.then_some(Reply::Member),
        Question::Addresses(name) => Some(Reply::Addresses(addresses(name)?)),
        Question::Host(address) => host(*address)?.map(Reply::Host),
        Question::HostNetgroup { host, group } => in_netgroup(group, Some(host), None)?.then_some(Reply::Member),
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

/// Returns the addresses of the host called `name`. Blocks.
fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip().to_canonical()).collect())
}

/// Returns the name of the host at `address`, if its name has that address: the operator of the address chooses the
/// name alone. Blocks.
fn host(address: IpAddr) -> io::Result<Option<String>> {
    let Some(name) = reverse(address)? else { return Ok(None) };
    Ok(addresses(&name)?.contains(&address).then_some(name))
}

/// Returns the name that the operator of `address` gives it. Blocks.
fn reverse(address: IpAddr) -> io::Result<Option<String>> {
    let mut name = [0u8; 1025];
    let length = libc::socklen_t::try_from(name.len()).unwrap_or(0);
    let call = |socket: *const libc::sockaddr, size: usize, name: &mut [u8]| {
        let size = libc::socklen_t::try_from(size).unwrap_or(0);
        // SAFETY: `socket` is an address of `size` bytes, and `name` has `length` bytes.
        unsafe {
            libc::getnameinfo(
                socket,
                size,
                name.as_mut_ptr().cast(),
                length,
                std::ptr::null_mut(),
                0,
                libc::NI_NAMEREQD,
            )
        }
    };
    let code = match address {
        IpAddr::V4(address) => {
            // SAFETY: all bytes zero is a valid address.
            let mut socket: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            socket.sin_family = libc::AF_INET as libc::sa_family_t;
            socket.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
            call((&raw const socket).cast(), size_of_val(&socket), &mut name)
        }
        IpAddr::V6(address) => {
            // SAFETY: all bytes zero is a valid address.
            let mut socket: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            socket.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            socket.sin6_addr.s6_addr = address.octets();
            call((&raw const socket).cast(), size_of_val(&socket), &mut name)
        }
    };
    match code {
        0 => Ok(CStr::from_bytes_until_nul(&name).ok().map(|name| name.to_string_lossy().into_owned())),
        libc::EAI_NONAME => Ok(None),
        code => Err(io::Error::other(format!("the name of {address} cannot be looked up (error {code})"))),
    }
}

/// Returns whether the host or user is in the netgroup `group`, in any NIS domain. Blocks.
#[cfg(target_env = "gnu")]
fn in_netgroup(group: &str, host: Option<&str>, user: Option<&str>) -> io::Result<bool> {
    let text = |name: Option<&str>| name.map(CString::new).transpose();
    let (Ok(group), Ok(host), Ok(user)) = (CString::new(group), text(host), text(user)) else { return Ok(false) };
    // After a failure, nscd is not asked again, so a socket that a stopped nscd left behind is not an error.
    netgroup_answer(ask_netgroup(&group, host.as_deref(), user.as_deref()))
        .or_else(|_| netgroup_answer(ask_netgroup(&group, host.as_deref(), user.as_deref())))
}

/// Returns the result of innetgr, and the value of errno if it is zero.
#[cfg(target_env = "gnu")]
fn ask_netgroup(group: &CStr, host: Option<&CStr>, user: Option<&CStr>) -> (bool, libc::c_int) {
    unsafe extern "C" {
        /// innetgr(3); glibc locks its state internally.
        fn innetgr(
            netgroup: *const libc::c_char,
            host: *const libc::c_char,
            user: *const libc::c_char,
            domain: *const libc::c_char,
        ) -> libc::c_int;
    }
    let pointer = |name: Option<&CStr>| name.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the address is that of the errno of this thread.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: the names are C strings, and null matches anything.
    let found = unsafe { innetgr(group.as_ptr(), pointer(host), pointer(user), std::ptr::null()) };
    (found == 1, io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Returns what the result of innetgr and errno mean. The function has no result for a failure; only errno differs.
#[cfg(target_env = "gnu")]
fn netgroup_answer((found, error): (bool, libc::c_int)) -> io::Result<bool> {
    match error {
        _ if found => Ok(true),
        // A service leaves ENOENT if the host has no file of netgroups.
        0 | libc::ENOENT | libc::ESRCH => Ok(false),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// C libraries other than glibc have no netgroups.
#[cfg(not(target_env = "gnu"))]
fn in_netgroup(_: &str, _: Option<&str>, _: Option<&str>) -> io::Result<bool> {
    Ok(false)
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
            (Question::HostNetgroup { host: "localhost".into(), group: "no such netgroup".into() }, None),
        ];
        for (question, expected) in cases {
            assert_eq!(names.ask(question.clone()).await.unwrap(), expected, "{question:?}");
            assert!(matches!(names.ask(question), Answer::Now(_)), "it is cached");
        }
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn a_name_service_that_fails_does_not_deny_membership() {
        let answer = |found, error| netgroup_answer((found, error)).map_err(|error| error.raw_os_error());
        assert_eq!(answer(true, libc::EACCES), Ok(true));
        for unknown in [0, libc::ENOENT, libc::ESRCH] {
            assert_eq!(answer(false, unknown), Ok(false));
        }
        // As seen with a file of netgroups that cannot be read, is a directory, and without a free descriptor.
        for failed in [libc::EACCES, libc::EISDIR, libc::EMFILE, libc::ECONNREFUSED, libc::EAGAIN] {
            assert_eq!(answer(false, failed), Err(Some(failed)));
        }
    }
}
