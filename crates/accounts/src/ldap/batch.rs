//! Look-ups of many accounts at once: a client that shows a security descriptor, or the owners of a directory's files,
//! needs whole lists.
//!
//! The results are put into the caches of single look-ups. For accounts only names are fetched, not UNIX users, which
//! would need an NSS query each.

use std::collections::HashMap;

use anyhow::Result;
use proto::dtyp::Sid;
use server::policy::fold;

use super::people::{ACCOUNT, People};
use super::{is_accounts, mapping};
use crate::groups::GroupKey;
use ldap::message::{Filter, SearchResultEntry};

/// SIDs, or names and uids of users, per search.
const AT_A_TIME: usize = 200;

impl People {
    /// Looks up all of `sids` that are not cached.
    pub(super) async fn expect_sids(&self, mut sids: Vec<Sid>) {
        sids.sort_unstable();
        sids.dedup();
        sids.retain(|sid| self.mappings.fresh(&GroupKey::Sid(*sid)).is_none());
        for some in sids.chunks(AT_A_TIME) {
            let accounts: Vec<Sid> = some.iter().copied().filter(|sid| self.is_unknown_account(sid)).collect();
            if let (Err(why), _) | (_, Err(why)) = tokio::join!(self.expect_groups(some), self.expect_names(&accounts))
            {
                // Each single look-up will report this error.
                tracing::debug!("batch look-up of SIDs failed: {why:#}");
                return;
            }
        }
    }

    fn is_unknown_account(&self, sid: &Sid) -> bool {
        is_accounts(sid) && self.cache.fresh_sid(sid).is_none()
    }

    async fn expect_groups(&self, sids: &[Sid]) -> Result<()> {
        let found = self.with_sids("sambaGroupMapping", sids, &self.settings.group_suffix, mapping::ATTRIBUTES).await?;
        sids.iter().for_each(|sid| self.mappings.note_sid(*sid, found.get(sid)));
        Ok(())
    }

    async fn expect_names(&self, sids: &[Sid]) -> Result<()> {
        let seen = self.cache.generation();
        let found = self.with_sids(ACCOUNT, sids, &self.settings.suffix, &["uid", "sambaSID"]).await?;
        for sid in sids {
            let name = found.get(sid).and_then(|entry| entry.first("uid"));
            self.cache.put_owner(*sid, name.map(str::to_owned), seen);
        }
        Ok(())
    }

    /// Returns the SIDs of the accounts of UNIX users: accounts with a user's name and uid, or with the name alone if
    /// the directory has no uid for them. `None` means that neither the name nor the uid exists. Ambiguous users are
    /// omitted and must be looked up one by one: an account may have the name of one user and the uid of another, and
    /// two accounts may share a value.
    pub(super) async fn sids_of_users(&self, users: &[(u32, String)]) -> Result<HashMap<u32, Option<Sid>>> {
        let mut of = HashMap::with_capacity(users.len());
        for some in users.chunks(AT_A_TIME / 2) {
            let either = |(uid, name): &(u32, String)| {
                [Filter::Equal("uid", name.clone()), Filter::Equal("uidNumber", uid.to_string())]
            };
            let any = some.iter().flat_map(either).collect();
            let filter = Filter::And(vec![Filter::Or(any), Filter::Equal("objectClass", ACCOUNT.into())]);
            let found = self.search(&self.settings.suffix, filter, &["uid", "uidNumber", "sambaSID"], 0).await?;
            for (uid, name) in some {
                let has_name =
                    |entry: &SearchResultEntry| entry.first("uid").is_some_and(|known| fold(known) == fold(name));
                let number = uid.to_string();
                let mut its = found.iter().filter(|entry| {
                    entry.all("uid").any(|known| fold(known) == fold(name)) || entry.first("uidNumber") == Some(&number)
                });
                match (its.next(), its.next()) {
                    (None, _) => _ = of.insert(*uid, None),
                    (Some(entry), None) if has_name(entry) && self.may_be(entry, &number) => {
                        let sid = entry.first("sambaSID").and_then(|text| text.parse().ok());
                        of.extend(sid.map(|sid| (*uid, Some(sid))));
                    }
                    _ => {}
                }
            }
        }
        Ok(of)
    }

    /// Returns whether an account with the name of the UNIX user `number` is that user.
    fn may_be(&self, entry: &SearchResultEntry, number: &str) -> bool {
        match entry.first("uidNumber") {
            Some(known) => known == number,
            None => !self.settings.trusted,
        }
    }

    /// Returns the entries of a class by SID, without SIDs that two entries share.
    async fn with_sids(
        &self,
        class: &str,
        sids: &[Sid],
        base: &str,
        attributes: &'static [&'static str],
    ) -> Result<HashMap<Sid, SearchResultEntry>> {
        if sids.is_empty() {
            return Ok(HashMap::new());
        }
        let any = sids.iter().map(|sid| Filter::Equal("sambaSID", sid.to_string())).collect();
        let filter = Filter::And(vec![Filter::Or(any), Filter::Equal("objectClass", class.into())]);
        let mut of: HashMap<Sid, SearchResultEntry> = HashMap::new();
        let mut twice = Vec::new();
        for found in self.search(base, filter, attributes, 0).await? {
            let Some(Ok(sid)) = found.first("sambaSID").map(str::parse::<Sid>) else { continue };
            if let Some(other) = of.insert(sid, found) {
                tracing::error!("two entries have the SID {sid}, so both are ignored: one is {}", other.dn);
                twice.push(sid);
            }
        }
        twice.iter().for_each(|sid| _ = of.remove(sid));
        Ok(of)
    }
}
