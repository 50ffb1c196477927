//! Adapts the policy to the privileges of this process.

use std::sync::Arc;

use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::{Homes, Policy, Share, StoredAcls, UserShares};

/// Removes from the policy what this process is not privileged to do.
pub(super) fn within_our_means(mut policy: Policy) -> Policy {
    let limit: fn(&mut Arc<Share>) = match localfs::identity::may_switch() {
        false => without_roots_acls,
        true if localfs::identity::gave_up_describing() => until_restart,
        true => return policy,
    };
    policy.shares.values_mut().for_each(limit);
    policy.homes = policy.homes.map(|homes| Arc::new(LimitedHomes(homes, limit)) as _);
    policy.user_shares = policy.user_shares.map(|shares| Arc::new(LimitedUserShares(shares, limit)) as _);
    policy
}

/// Returns the attribute in which the share stores Windows ACLs, if only root may write it.
fn roots_attribute(share: &Share) -> Option<&str> {
    share.acls.stored.as_ref().map(|acls| acls.attribute.as_str()).filter(|attribute| !attribute.starts_with("user."))
}

/// Serves a share whose ACLs cannot be stored with Linux permissions only.
fn without_roots_acls(share: &mut Arc<Share>) {
    if let Some(attribute) = roots_attribute(share) {
        tracing::warn!(
            share = share.name,
            attribute,
            "Windows ACLs are not stored because only root may write this attribute; run frevo as root, or set \
             acl_xattr:security_acl_name to a name such as user.NTACL, which local users with write access can change"
        );
        Arc::make_mut(share).acls.stored = None;
    }
    let own = rustix::process::geteuid().as_raw();
    if let Some(acls) = share.acls.stored.as_ref().filter(|acls| acls.of_owner != Some(own)) {
        let acls = StoredAcls { of_owner: Some(own), ..acls.clone() };
        Arc::make_mut(share).acls.stored = Some(acls);
    }
}

/// Does not serve a share that stores Windows ACLs if the process does not have the privilege for it: the service
/// manager did not give it, or no share stored Windows ACLs when the server started.
/// Without the ACLs, the share would be open to other users. The servers of a volume write its attributes themselves.
fn until_restart(share: &mut Arc<Share>) {
    if share.available
        && share.storage.is_directory()
        && let Some(attribute) = roots_attribute(share)
    {
        tracing::error!(
            share = share.name,
            attribute,
            "the share is not served because the process does not have CAP_SYS_ADMIN, without which the kernel does \
             not write this attribute; restart the server, and under systemd, run \
             `systemctl edit frevo` and add the lines of /usr/share/frevo/windows-acls.conf"
        );
        Arc::make_mut(share).available = false;
    }
}

/// Home shares, adapted to the privileges of this process.
struct LimitedHomes(Arc<dyn Homes>, fn(&mut Arc<Share>));

impl Homes for LimitedHomes {
    fn share_of(&self, name: &str, uid: Option<u32>) -> Answer<std::result::Result<Option<Arc<Share>>, Unavailable>> {
        let limit = self.1;
        self.0.share_of(name, uid).map(move |found| {
            found.map(|mut share| {
                share.iter_mut().for_each(limit);
                share
            })
        })
    }

    fn section(&self) -> &Share {
        self.0.section()
    }
}

/// Shares that users define, adapted to the privileges of this process.
#[derive(Debug)]
struct LimitedUserShares(Arc<dyn UserShares>, fn(&mut Arc<Share>));

impl UserShares for LimitedUserShares {
    fn share(&self, name: &str) -> Answer<std::result::Result<Option<Arc<Share>>, Unavailable>> {
        let limit = self.1;
        self.0.share(name).map(move |found| {
            found.map(|mut share| {
                share.iter_mut().for_each(limit);
                share
            })
        })
    }

    fn list(&self) -> Answer<std::result::Result<Vec<Arc<Share>>, Unavailable>> {
        let limit = self.1;
        self.0.list().map(move |found| {
            found.map(|mut shares| {
                shares.iter_mut().for_each(limit);
                shares
            })
        })
    }
}
