//! The data that clients may cache: oplocks, leases and offline files.

use proto::smb2::tree_connect::ShareFlags;

/// The data that clients may cache.
#[derive(Clone, Debug)]
pub struct CachePolicy {
    /// `oplocks`: clients may cache files.
    pub oplocks: bool,
    /// `level2 oplocks`: several clients may cache one file for reading.
    pub level2_oplocks: bool,
    /// `fake oplocks`: every oplock is granted and none is broken.
    pub fake_oplocks: bool,
    /// `kernel oplocks`: a local program that opens a file breaks its oplock. Level II oplocks and leases are not
    /// granted.
    pub kernel_oplocks: bool,
    /// `veto oplock files`: names of files on which no oplocks or leases are granted.
    pub veto_oplock_files: Vec<String>,
    /// `csc policy`: the files that clients may cache for offline use.
    pub csc_policy: CscPolicy,
}

impl Default for CachePolicy {
    fn default() -> Self {
        CachePolicy {
            oplocks: true,
            level2_oplocks: true,
            fake_oplocks: false,
            kernel_oplocks: false,
            veto_oplock_files: Vec::new(),
            csc_policy: CscPolicy::Manual,
        }
    }
}

/// `csc policy`: the offline caching that clients of a share should use ([MS-SMB2] 2.2.10, ShareFlags).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CscPolicy {
    /// The user selects files to cache.
    Manual,
    /// Opened files are cached.
    Documents,
    /// Opened programs are cached and run from the cache.
    Programs,
    /// Nothing is cached.
    Disable,
}

impl CscPolicy {
    /// Returns the policy that a client sets.
    pub(crate) fn of_flags(flags: ShareFlags) -> CscPolicy {
        match flags.caching() {
            ShareFlags::AUTO_CACHING => CscPolicy::Documents,
            ShareFlags::VDO_CACHING => CscPolicy::Programs,
            ShareFlags::NO_CACHING => CscPolicy::Disable,
            _ => CscPolicy::Manual,
        }
    }

    /// Returns the policy as a client sees it.
    pub(crate) fn share_flags(self) -> ShareFlags {
        match self {
            CscPolicy::Manual => ShareFlags::MANUAL_CACHING,
            CscPolicy::Documents => ShareFlags::AUTO_CACHING,
            CscPolicy::Programs => ShareFlags::VDO_CACHING,
            CscPolicy::Disable => ShareFlags::NO_CACHING,
        }
    }
}
