//! What this process may do for its shares.

use std::sync::Arc;

use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::{Homes, Policy, Share, StoredAcls};

/// The policy without what this process may not do.
pub(super) fn within_our_means(mut policy: Policy) -> Policy {
    let limit: fn(&mut Arc<Share>) = match localfs::identity::may_switch() {
        false => without_roots_acls,
        true if localfs::identity::gave_up_describing() => until_restart,
        true => return policy,
    };
    policy.shares.values_mut().for_each(limit);
    policy.homes = policy.homes.map(|homes| Arc::new(LimitedHomes(homes, limit)) as _);
    policy
}

/// The attribute that the share keeps Windows ACLs in, where only root may write it.
fn roots_attribute(share: &Share) -> Option<&str> {
    share.acls.as_ref().map(|acls| acls.attribute.as_str()).filter(|attribute| !attribute.starts_with("user."))
}

/// Without the ACLs that it cannot store, the share is served with the permissions that Linux knows.
fn without_roots_acls(share: &mut Arc<Share>) {
    if let Some(attribute) = roots_attribute(share) {
        tracing::warn!(
            share = share.name,
            attribute,
            "Windows ACLs are not stored: only root may write this attribute; run frevo as root, or name one as user.NTACL \
             with acl_xattr:security_acl_name, which local users that may write a file can change"
        );
        Arc::make_mut(share).acls = None;
    }
    let own = rustix::process::geteuid().as_raw();
    if let Some(acls) = share.acls.as_ref().filter(|acls| acls.of_owner != Some(own)) {
        let acls = StoredAcls { of_owner: Some(own), ..acls.clone() };
        Arc::make_mut(share).acls = Some(acls);
    }
}

/// A share that began to store Windows ACLs after the process gave up the privilege for it is not served: without them it
/// would be open to others.
fn until_restart(share: &mut Arc<Share>) {
    if share.available
        && let Some(attribute) = roots_attribute(share)
    {
        tracing::error!(
            share = share.name,
            attribute,
            "the share is not served until the server is restarted: no share stored Windows ACLs when the server started, \
             so it gave up the privilege to write them"
        );
        Arc::make_mut(share).available = false;
    }
}

/// Homes within the means of this process.
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
