//! The members of a Linux group: the listed users, and those whose primary group it is.

use std::ffi::CStr;
use std::io;

use libc::c_char;
use parking_lot::Mutex;

use super::{Key, lossy, nss, passwd};

/// Returns the members of the group `gid` by uid and name, at most `most` of them, in the order of their uids. Blocks.
///
/// Users with it as their primary group are found only by enumerating all users. If NSS does not enumerate a
/// directory's users, these members are missing.
pub(crate) fn members(gid: u32, most: usize) -> io::Result<Vec<(u32, String)>> {
    let mut users = primary_members(gid, most);
    for name in listed(gid)?.unwrap_or_default().into_iter().take(most) {
        users.extend(passwd(&Key::Name(name))?.map(|(name, uid, _)| (uid, lossy(&name))));
    }
    users.sort_unstable();
    users.dedup_by_key(|(uid, _)| *uid);
    users.truncate(most);
    Ok(users)
}

/// Returns the names that the group lists.
fn listed(gid: u32) -> io::Result<Option<Vec<String>>> {
    // SAFETY: entry, buffer with its length and result are valid for writing.
    let call = |entry, buffer: &mut [c_char], result| unsafe {
        libc::getgrgid_r(gid, entry, buffer.as_mut_ptr(), buffer.len(), result)
    };
    let take = |entry: &libc::group| {
        let mut names = Vec::new();
        let mut member = entry.gr_mem;
        // SAFETY: `gr_mem` of an entry that getgrgid_r filled in is an array of C strings that ends with a null
        // pointer.
        while let Some(name) = unsafe { member.as_ref() }.filter(|name| !name.is_null()) {
            // SAFETY: as above.
            names.extend(unsafe { CStr::from_ptr(*name) }.to_str().map(str::to_owned));
            // SAFETY: the null pointer has not been reached.
            member = unsafe { member.add(1) };
        }
        names
    };
    // SAFETY: getgrgid_r fulfils the contract, and `take` copies.
    unsafe { nss(call, take) }
}

/// Returns the users whose primary group it is.
fn primary_members(gid: u32, most: usize) -> Vec<(u32, String)> {
    /// getpwent(3) has one position for the whole process; only this function uses it.
    static WALK: Mutex<()> = Mutex::new(());
    let _one_at_a_time = WALK.lock();
    let mut users = Vec::new();
    // SAFETY: no other thread enumerates, so the entry that getpwent returns and its name are valid until the next
    // call.
    unsafe {
        libc::setpwent();
        while let Some(entry) = libc::getpwent().as_ref().filter(|_| users.len() < most) {
            if entry.pw_gid == gid {
                users.push((entry.pw_uid, lossy(CStr::from_ptr(entry.pw_name))));
            }
        }
        libc::endpwent();
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_in_its_own_group() {
        assert!(members(0, 1000).unwrap().contains(&(0, "root".into())));
        assert!(members(0, 0).unwrap().is_empty());
        assert!(members(3_999_999_999, 1000).unwrap().is_empty());
    }
}
