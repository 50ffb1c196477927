//! Who is in a group of Linux: whoever it lists, and whoever has it as the primary group.

use std::ffi::CStr;
use std::io;

use libc::c_char;
use parking_lot::Mutex;

use super::{Key, nss, passwd};

/// The uids of the members of the group `gid`, up to `most` of them, in their order. Blocks.
///
/// Whose primary group it is, only a walk over all users tells: where NSS lists none of a directory's, those who are in
/// the group that way alone are not found.
pub(crate) fn members(gid: u32, most: usize) -> io::Result<Vec<u32>> {
    let mut uids = primary_members(gid, most);
    for name in listed(gid)?.unwrap_or_default().into_iter().take(most) {
        uids.extend(passwd(&Key::Name(name))?.map(|(_, uid, _)| uid));
    }
    uids.sort_unstable();
    uids.dedup();
    uids.truncate(most);
    Ok(uids)
}

/// The names that the group lists.
fn listed(gid: u32) -> io::Result<Option<Vec<String>>> {
    // SAFETY: entry, buffer with its length and result are valid for writing.
    let call = |entry, buffer: &mut [c_char], result| unsafe {
        libc::getgrgid_r(gid, entry, buffer.as_mut_ptr(), buffer.len(), result)
    };
    let take = |entry: &libc::group| {
        let mut names = Vec::new();
        let mut member = entry.gr_mem;
        // SAFETY: `gr_mem` of an entry that getgrgid_r filled in is an array of C strings with a null pointer behind it.
        while let Some(name) = unsafe { member.as_ref() }.filter(|name| !name.is_null()) {
            // SAFETY: as above.
            names.extend(unsafe { CStr::from_ptr(*name) }.to_str().map(str::to_owned));
            // SAFETY: the null pointer has not been reached.
            member = unsafe { member.add(1) };
        }
        names
    };
    // SAFETY: getgrgid_r keeps the contract, and `take` copies.
    unsafe { nss(call, take) }
}

/// The uids of those whose primary group it is.
fn primary_members(gid: u32, most: usize) -> Vec<u32> {
    /// getpwent(3) has one place for the whole process; nothing else here asks it.
    static WALK: Mutex<()> = Mutex::new(());
    let _one_at_a_time = WALK.lock();
    let mut uids = Vec::new();
    // SAFETY: nobody else walks, so the entry that getpwent points to stays as it is until the next call.
    unsafe {
        libc::setpwent();
        while let Some(entry) = libc::getpwent().as_ref().filter(|_| uids.len() < most) {
            uids.extend((entry.pw_gid == gid).then_some(entry.pw_uid));
        }
        libc::endpwent();
    }
    uids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_in_its_own_group() {
        assert!(members(0, 1000).unwrap().contains(&0));
        assert!(members(0, 0).unwrap().is_empty());
        assert!(members(3_999_999_999, 1000).unwrap().is_empty());
    }
}
