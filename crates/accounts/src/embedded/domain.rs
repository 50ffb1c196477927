//! The SID of this machine, which can be replaced by the SID of a Samba server whose accounts and files are migrated.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Result, ensure};
use parking_lot::RwLock;
use proto::dtyp::Sid;
use redb::{ReadableTable, Table};
use server::accounts::DomainSid;
use server::policy::fold;

use super::{Change, FIRST_RID, Record, Store};
use crate::groups::GroupKey;

/// The first RID for accounts without a SID in the new domain. It is far above the RIDs that the other server has
/// allocated, which this server cannot know completely.
pub(super) const APART: u32 = 1_000_000;

/// The present SID of this machine. A clone is another handle to the same SID.
#[derive(Clone)]
pub struct OwnDomain(Arc<RwLock<DomainSid>>);

impl From<DomainSid> for OwnDomain {
    fn from(sid: DomainSid) -> OwnDomain {
        OwnDomain(Arc::new(RwLock::new(sid)))
    }
}

impl OwnDomain {
    /// Returns the SID.
    pub fn get(&self) -> DomainSid {
        *self.0.read()
    }

    pub(super) fn set(&self, sid: DomainSid) {
        *self.0.write() = sid;
    }
}

/// An account of another back end whose SID begins with the SID of this machine, before or after a change of that SID.
pub struct Other {
    /// Its name.
    pub name: String,
    /// Its SID before the change.
    pub before: Sid,
    /// Its SID after the change.
    pub after: Sid,
}

/// The key of this machine's former SIDs in the table `META`.
const FORMER: &str = "former domains";
/// The size of one SID in bytes.
const SIZE: usize = 12;

/// Reads the former SIDs of this machine.
pub(super) fn read_former(meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Vec<DomainSid>> {
    let Some(value) = meta.get(FORMER)? else { return Ok(Vec::new()) };
    ensure!(value.value().len().is_multiple_of(SIZE), "damaged: {FORMER} is invalid");
    let number = |bytes: &[u8], at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
    let domain = |bytes: &[u8]| DomainSid([0, 4, 8].map(|at| number(bytes, at)));
    Ok(value.value().chunks_exact(SIZE).map(domain).collect())
}

pub(super) fn write_former(meta: &mut Table<'_, &'static str, &'static [u8]>, former: &[DomainSid]) -> Result<()> {
    let bytes: Vec<u8> = former.iter().flat_map(|DomainSid(numbers)| numbers).flat_map(|n| n.to_le_bytes()).collect();
    meta.insert(FORMER, bytes.as_slice())?;
    Ok(())
}

impl Store {
    /// Returns the former SIDs of this machine, the latest last.
    pub fn former_domains(&self) -> Vec<DomainSid> {
        self.former_domains.read().clone()
    }

    /// Returns whether `sid` begins with the present or a former SID of this machine.
    pub fn is_or_was_of_domain(&self, sid: &Sid) -> bool {
        let Some(domain) = sid.domain() else { return false };
        domain == self.domain().sid() || self.former_domains.read().iter().any(|former| former.sid() == domain)
    }

    /// Removes `former` from the former SIDs of this machine because it belongs to a different machine. Former SIDs of
    /// accounts that begin with it remain valid.
    pub fn forget_domain(&self, former: DomainSid) -> Result<()> {
        self.change(false, |change| {
            let before = self.former_domains();
            let shown = || before.iter().map(DomainSid::to_string).collect::<Vec<_>>().join(", ");
            ensure!(before.contains(&former), "{former} is not a former SID of this machine ({})", shown());
            change.former_domains = Some(before.iter().filter(|other| **other != former).copied().collect());
            Ok(())
        })
    }

    /// Returns a handle to the SID of this machine that follows changes.
    pub fn own_domain(&self) -> OwnDomain {
        self.domain.clone()
    }

    /// Gives this machine the SID `new`, in one step.
    ///
    /// An account with a former SID that begins with `new` gets that SID. Any other account gets a RID that the server
    /// that had `new` is unlikely to have allocated. The previous SIDs of accounts remain valid as their former SIDs,
    /// including those of accounts in other back ends that `others` returns. A SID that becomes an account's own is no
    /// other account's former SID any more. Groups keep their SIDs.
    pub fn set_domain(&self, new: DomainSid, others: impl FnOnce() -> Result<Vec<Other>>) -> Result<()> {
        self.change(false, |change| self.change_domain(change, new, others))
    }

    /// Adds what [`Store::set_domain`] does to `change`, whose lock protects the records that are written back.
    pub(super) fn change_domain(
        &self,
        change: &mut Change<'_>,
        new: DomainSid,
        others: impl FnOnce() -> Result<Vec<Other>>,
    ) -> Result<()> {
        let before = self.domain();
        if before == new {
            return Ok(());
        }
        let records: Vec<_> = self.accounts.read().values().cloned().collect();
        change.next_rid = change.next_rid.max(APART);
        change.domain = Some(new);
        let kept = self.former_domains().into_iter().filter(|former| ![before, new].contains(former));
        change.former_domains = Some(kept.chain([before]).collect());
        let others = others()?;
        let taken: HashSet<Sid> = others.iter().map(|other| other.after).collect();
        for record in records {
            let rid = match self.rid_in(new, &record.name, &taken) {
                Some(rid) => rid,
                None => change.new_rid()?,
            };
            change.put_sid(before.with_rid(record.rid), &record.name);
            change.put(Record { rid, ..(*record).clone() });
        }
        for Other { name, before, after } in others {
            if self.former_owner(&after).is_some_and(|owner| owner != fold(&name)) {
                change.put_sid(after, &name);
            }
            change.put_sid(before, &name);
        }
        Ok(())
    }

    /// Returns the RID that the account had in `domain`, if it may be used here and does not produce one of the SIDs
    /// `taken`.
    fn rid_in(&self, domain: DomainSid, name: &str, taken: &HashSet<Sid>) -> Option<u32> {
        let may = |rid: &u32| {
            let sid = domain.with_rid(*rid);
            let other = self.group(&GroupKey::Sid(sid)).is_some() || taken.contains(&sid);
            (FIRST_RID..APART).contains(rid) && self.free_rid(*rid) == *rid && !other
        };
        let former = self.former_sids(&fold(name));
        former.iter().filter(|sid| sid.domain() == Some(domain.sid())).filter_map(Sid::rid).find(may)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;
    use crate::backend::Backend;
    use crate::record::nt_hash;
    use crate::state_dir::StateDir;

    #[test]
    fn a_new_machine_sid_restores_former_rids_and_keeps_previous_sids() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(dir.path()).unwrap();
        let store = Store::open(&state).unwrap();
        let (before, samba) = (store.domain(), DomainSid([7, 8, 9]));
        let [ann, bob, carl] = ["ann", "bob", "carl"].map(|name| store.add(Record::named(name)).unwrap().sid);
        // In Samba ann had the RID that bob has here.
        let note = |change: &mut Change<'_>| {
            change.put_sid(samba.with_rid(bob.rid().unwrap()), "ann");
            change.put_sid(samba.with_rid(500), "carl");
            // Samba's RIDs that are computed from uids may be large.
            change.put_sid(samba.with_rid(APART), "dora");
            Ok(())
        };
        store.change(false, note).unwrap();
        let elsewhere = before.with_rid(5000);
        let dora = Other { name: "dora".to_owned(), before: elsewhere, after: elsewhere };
        store.set_domain(samba, || Ok(vec![dora])).unwrap();
        let check = |store: &Store| {
            let sid = |name: &str| samba.with_rid(store.get(name).unwrap().rid);
            assert_eq!((store.domain(), sid("ann")), (samba, samba.with_rid(1001)));
            for (name, old) in [("ann", ann), ("bob", bob), ("carl", carl)] {
                assert_eq!(store.by_sid(&sid(name)).unwrap().name, name);
                assert_eq!(store.former_owner(&old).as_deref(), Some(name));
                assert!(store.former_sids(name).contains(&old));
                assert!(store.by_sid(&old).is_none());
            }
            assert!(sid("bob").rid() > Some(APART) && sid("carl").rid() > Some(APART));
            assert_eq!(store.former_owner(&elsewhere).as_deref(), Some("dora"));
            assert_eq!(store.former_domains(), [before]);
            assert!(store.is_or_was_of_domain(&before.with_rid(77)) && store.is_or_was_of_domain(&samba.with_rid(77)));
            assert!(!store.is_or_was_of_domain(&DomainSid([7, 8, 0]).with_rid(77)));
        };
        check(&store);
        drop(store);
        let store = Store::open(&state).unwrap();
        check(&store);
        // And back again.
        store.set_domain(before, || Ok(Vec::new())).unwrap();
        assert_eq!(["ann", "bob", "carl"].map(|name| before.with_rid(store.get(name).unwrap().rid)), [ann, bob, carl]);
        assert!(store.add(Record::named("new")).unwrap().sid.rid() >= Some(APART));
        assert_eq!(store.former_domains(), [samba]);
        assert!(store.forget_domain(before).unwrap_err().to_string().contains(&samba.to_string()));
        store.forget_domain(samba).unwrap();
        assert!(!store.is_or_was_of_domain(&samba.with_rid(77)) && store.is_or_was_of_domain(&before.with_rid(77)));
    }

    #[test]
    fn a_concurrent_password_change_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&StateDir::create(dir.path()).unwrap()).unwrap();
        for name in ["ann", "bob"] {
            store.add(Record { nt_hash: Some(nt_hash("old").unwrap()), ..Record::named(name) }).unwrap();
        }
        let begun = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let change = |change: &mut Change<'_>| {
                    let ann = change.get("ann").unwrap();
                    change.put(Record { nt_hash: Some(nt_hash("new").unwrap()), ..(*ann).clone() });
                    change.remove("bob");
                    begun.wait();
                    // Gives the other thread time to get as far as it can.
                    std::thread::sleep(Duration::from_millis(200));
                    Ok(())
                };
                store.change(false, change).unwrap();
            });
            begun.wait();
            store.set_domain(DomainSid([7, 8, 9]), || Ok(Vec::new())).unwrap();
        });
        let ann = store.get("ann").unwrap();
        assert_eq!(ann.nt_hash.as_ref().unwrap().0, nt_hash("new").unwrap().0);
        assert!(store.get("bob").is_none());
    }
}
