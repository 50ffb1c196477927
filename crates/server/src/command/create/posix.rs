//! The POSIX extensions of SMB 3.1.1 in CREATE: the mode of a new file, the look-up, and the response.
//!
//! A POSIX open names exactly one file: case matters, and no symbolic link is followed. The client resolves links
//! itself. It is told the target of a link that is in its way ([MS-SMB2] 2.2.2.2.1).

use proto::dtyp::SecurityDescriptor;
use proto::dtyp::security_descriptor::Control;
use proto::smb2::create_context::{CreateContext, PosixRequest, PosixResponse};

use super::check_veto;
use super::parameters::Parameters;
use crate::error::Result;
use crate::information::{nfs_aces, posix};
use crate::links;
use crate::name;
use crate::reparse;
use crate::request::Request;
use crate::tree::Disk;
use crate::vfs::{Case, Errno, Lookup, Metadata, RelPath, SymlinkPolicy};

/// The bits of a mode that a client can set.
const MODE: u32 = 0o7777;

/// The context of a POSIX open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PosixOpen {
    /// The mode of a new file. It is used as it is: neither `create mask` nor `force create mode` applies. `None` if
    /// the client gives none.
    pub(super) mode: Option<u32>,
}

impl PosixOpen {
    pub(super) fn new(asked: PosixRequest) -> PosixOpen {
        // Linux sends all ones in 16 bits if it creates nothing, and otherwise also the type of the file.
        let is_given = asked.mode < 0xffff;
        PosixOpen { mode: is_given.then_some(asked.mode & MODE) }
    }

    /// Takes the mode from the descriptor of a new file, if that has one. Linux also sends it there (`modefromsid`),
    /// with an entry that grants everything to all users, which is not meant as an ACL.
    pub(super) fn take_mode(&mut self, given: &mut Option<SecurityDescriptor>) {
        let Some(descriptor) = given else { return };
        nfs_aces::take_owners(descriptor);
        let Some(mode) = nfs_aces::take(descriptor).mode else { return };
        self.mode = self.mode.or(Some(mode & MODE));
        descriptor.dacl = None;
        descriptor.control = descriptor.control.without(Control::DACL_PRESENT);
    }
}

/// Returns the context of the response.
pub(super) fn response(metadata: &Metadata) -> CreateContext<'static> {
    let shown = posix::attributes(metadata, posix::tag(metadata));
    PosixResponse {
        links: shown.links,
        reparse_tag: shown.reparse_tag,
        mode: shown.mode,
        owner: shown.owner,
        group: shown.group,
    }
    .to_context()
}

/// Looks up exactly the path of a POSIX open.
pub(super) async fn look_up(
    request: &Request<'_>,
    disk: &Disk,
    wanted: &mut RelPath,
    parameters: &Parameters,
) -> Result<Lookup> {
    let access = parameters.data_access(disk);
    let mut found = links::look_up_with(disk, &disk.op, wanted, Case::Sensitive, SymlinkPolicy::NONE, access).await;
    if matches!(found, Ok(Lookup::Missing { .. } | Lookup::NoParent))
        && let Some(meant) = name::meant(wanted)
    {
        check_veto(disk, &disk.shown(&meant), parameters)?;
        *wanted = meant;
        found = links::look_up_with(disk, &disk.op, wanted, Case::Sensitive, SymlinkPolicy::NONE, access).await;
    }
    match found {
        Err(Errno::LOOP) => Err(reparse::posix::stopped(request, disk, wanted).await.unwrap_or(Errno::LOOP.into())),
        found => Ok(found?),
    }
}

#[cfg(test)]
mod tests {
    use proto::dtyp::acl::{Ace, AceFlags};
    use proto::dtyp::{AccessMask, Acl, Sid};

    use super::*;

    #[test]
    fn the_mode_is_that_of_the_context() {
        for (sent, expected) in [
            (0o644, Some(0o644)),
            (0o104_755, Some(0o4755)),
            (0, Some(0)),
            (0xffff, None),
            (u32::MAX, None),
            (0o200_644, None),
        ] {
            assert_eq!(PosixOpen::new(PosixRequest { mode: sent }).mode, expected, "{sent:o}");
        }
    }

    #[test]
    fn the_mode_of_a_descriptor_is_used_and_its_acl_is_not() {
        let everything = Ace::allow(Sid::AUTHENTICATED_USERS, AccessMask::FILE_ALL_ACCESS, AceFlags::NONE);
        let mode = Ace::deny(Sid::of(5, [88, 3, 0o640]), AccessMask::NONE, AceFlags::NONE);
        let descriptor = |aces| SecurityDescriptor {
            control: Control::DACL_PRESENT,
            owner: Some(Sid::of(5, [88, 1, 7])),
            dacl: Acl::new(Acl::REVISION, aces),
            ..SecurityDescriptor::default()
        };
        for (sent, expected) in [(0xffff, 0o640), (0o600, 0o600)] {
            let mut open = PosixOpen::new(PosixRequest { mode: sent });
            let mut given = Some(descriptor(vec![mode.clone(), everything.clone()]));
            open.take_mode(&mut given);
            assert_eq!(open.mode, Some(expected));
            let left = given.expect("its owner is left");
            assert_eq!((left.owner, left.dacl), (Some(Sid::unix_user(7)), None));
            assert!(!left.control.contains(Control::DACL_PRESENT));
        }
        let mut plain = Some(descriptor(vec![everything]));
        PosixOpen { mode: None }.take_mode(&mut plain);
        assert!(plain.is_some_and(|given| given.dacl.is_some()));
    }
}
