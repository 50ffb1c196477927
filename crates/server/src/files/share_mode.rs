//! Share modes: which accesses of two opens of one file are compatible ([MS-FSA] 2.1.5.1.2.2).

use proto::dtyp::AccessMask;
use proto::smb2::create::ShareAccess;

/// The access and the share mode of one open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareMode {
    /// The access granted to the open.
    pub access: AccessMask,
    /// The access that it shares.
    pub share: ShareAccess,
}

impl ShareMode {
    /// Whether an open with this mode and one with the `other` may exist at the same time. An open that neither reads,
    /// writes, executes nor deletes is compatible with all others.
    pub fn admits(&self, other: &ShareMode) -> bool {
        self.lets(other) && other.lets(self)
    }

    fn lets(&self, other: &ShareMode) -> bool {
        const READ: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0;
        const WRITE: u32 = AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0;
        const DELETE: u32 = AccessMask::DELETE.0;
        if self.access.0 & (READ | WRITE | DELETE) == 0 {
            return true;
        }
        [(READ, ShareAccess::READ), (WRITE, ShareAccess::WRITE), (DELETE, ShareAccess::DELETE)]
            .iter()
            .all(|(access, share)| other.access.0 & access == 0 || self.share.0 & share.0 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: (u32, u32), b: (u32, u32), together: bool) {
        let mode = |(access, share)| ShareMode { access: AccessMask(access), share: ShareAccess(share) };
        assert_eq!(mode(a).admits(&mode(b)), together, "{a:?} {b:?}");
        assert_eq!(mode(b).admits(&mode(a)), together, "{b:?} {a:?}");
    }

    #[test]
    fn share_modes_of_two_opens() {
        let (read, write, execute, delete, attributes) = (1, 2, 0x20, 0x1_0000, 0x80);
        let (share_read, share_write, share_delete) = (1, 2, 4);
        check((read, share_read), (read, share_read), true);
        check((read, share_read), (write, share_read), false);
        check((read, share_read | share_write), (write, share_read), true);
        check((read, 0), (attributes, 0), true);
        check((read, 0), (execute, 7), false);
        check((attributes, 0), (attributes, 0), true);
        check((delete, 7), (read, 3), false);
        check((delete, 7), (read, share_delete | share_read), true);
    }
}
