//! SIDs that accounts had on other servers, indexed both ways: a logon needs those of its account, and stored security
//! descriptors need the account of a SID. Neither look-up slows down with their number.

use std::collections::HashMap;
use std::sync::Arc;

use proto::dtyp::Sid;

/// The owners of former SIDs: accounts by their folded names.
#[derive(Default)]
pub(super) struct FormerSids {
    owners: HashMap<Sid, String>,
    /// In the order of the SIDs; accounts without former SIDs are absent.
    by_owner: HashMap<String, Arc<[Sid]>>,
}

impl FormerSids {
    /// Returns the account that had `sid`.
    pub(super) fn owner(&self, sid: &Sid) -> Option<&str> {
        self.owners.get(sid).map(String::as_str)
    }

    /// Returns the SIDs that `owner` had, in order.
    pub(super) fn of(&self, owner: &str) -> Arc<[Sid]> {
        self.by_owner.get(owner).cloned().unwrap_or_default()
    }

    /// Records `sid` as a former SID of `owner` and of no other account.
    pub(super) fn insert(&mut self, sid: Sid, owner: String) {
        if let Some(before) = self.owners.insert(sid, owner.clone()) {
            let kept = self.of(&before).iter().filter(|other| **other != sid).copied().collect();
            self.replace(before, kept);
        }
        let mut all = self.of(&owner).to_vec();
        all.push(sid);
        all.sort_unstable();
        self.replace(owner, all);
    }

    /// Removes the SIDs of `owner`.
    pub(super) fn forget(&mut self, owner: &str) {
        for sid in &*self.by_owner.remove(owner).unwrap_or_default() {
            self.owners.remove(sid);
        }
    }

    fn replace(&mut self, owner: String, sids: Vec<Sid>) {
        if sids.is_empty() {
            self.by_owner.remove(&owner);
        } else {
            self.by_owner.insert(owner, sids.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sid(rid: u32) -> Sid {
        Sid::of(5, [21, 1, 2, 3, rid])
    }

    #[test]
    fn a_former_sid_belongs_to_its_last_account() {
        let mut former = FormerSids::default();
        for (rid, owner) in [(9, "ann"), (8, "ann"), (7, "bob"), (8, "ann"), (9, "bob")] {
            former.insert(sid(rid), owner.to_owned());
        }
        assert_eq!(*former.of("ann"), [sid(8)]);
        assert_eq!(*former.of("bob"), [sid(7), sid(9)]);
        assert_eq!(former.owner(&sid(9)), Some("bob"));
        former.forget("bob");
        assert!(former.of("bob").is_empty() && former.owner(&sid(9)).is_none() && former.owner(&sid(7)).is_none());
        assert_eq!(former.owner(&sid(8)), Some("ann"));
        former.insert(sid(8), "carol".to_owned());
        assert!(former.by_owner.len() == 1 && former.owners.len() == 1);
    }
}
