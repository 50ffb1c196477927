//! The domain in the directory, `sambaDomain`, which supplies the SIDs of accounts.
//!
//! RIDs are allocated as in Samba, so both may do it concurrently: `sambaNextRid` is the last RID allocated. A program
//! allocates the next one by replacing the present value in a single change.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use proto::dtyp::Sid;
use zeroize::Zeroizing;

use super::change::done;
use super::entry::in_dn;
use super::people::People;
use ldap::message::{Change, ChangeKind, Filter, Request, ResultCode, SearchResultEntry};

/// The first RID for an account: lower RIDs are reserved by Windows ([MS-DTYP] 2.4.2.4).
const FIRST_RID: u32 = 1000;
/// Attempts to allocate a RID. An attempt fails if another program was faster, or the RID is in use.
const ATTEMPTS: u32 = 20;
/// The pause after a conflict, multiplied by the number of attempts so far.
const PAUSE: Duration = Duration::from_millis(5);

const ATTRIBUTES: &[&str] = &["sambaSID", "sambaNextRid", "sambaNextUserRid", "sambaNextGroupRid"];

impl People {
    /// Allocates a SID that no account has or had.
    pub(super) async fn new_sid(&self) -> Result<Sid> {
        for attempt in 0..ATTEMPTS {
            let domain = self.domain().await?;
            let sid = domain.first("sambaSID").with_context(|| format!("{} has no sambaSID", domain.dn))?;
            let rid = next_rid(&domain)?;
            if !self.take_rid(&domain, rid).await? {
                tokio::time::sleep(PAUSE * attempt).await;
                continue;
            }
            let sid: Sid =
                format!("{sid}-{rid}").parse().with_context(|| format!("{} has an invalid sambaSID", domain.dn))?;
            let filter = Filter::Equal("sambaSID", sid.to_string());
            if self.search(&self.settings.suffix, filter, &["1.1"], 1).await?.is_empty() {
                return Ok(sid);
            }
        }
        bail!("{ATTEMPTS} attempts to allocate a RID in the LDAP directory have failed: try again later")
    }

    /// Returns the domain's SID.
    pub(super) async fn domain_sid(&self) -> Result<String> {
        let domain = self.domain().await?;
        Ok(domain.first("sambaSID").with_context(|| format!("{} has no sambaSID", domain.dn))?.to_owned())
    }

    /// Returns the domain's entry. It is created with this machine's SID if it is missing.
    async fn domain(&self) -> Result<SearchResultEntry> {
        let name = &self.settings.domain;
        for made in [false, true] {
            let filter = Filter::And(vec![
                Filter::Equal("sambaDomainName", name.clone()),
                Filter::Equal("objectClass", "sambaDomain".into()),
            ]);
            let mut found = self.search(&self.settings.suffix, filter, ATTRIBUTES, 2).await?;
            if let Some(domain) = found.pop() {
                return Ok(domain);
            }
            if made {
                break;
            }
            let value = |text: &str| vec![Zeroizing::new(text.to_owned())];
            let attributes = [
                ("objectClass", value("sambaDomain")),
                ("sambaDomainName", value(name)),
                ("sambaSID", value(&self.own.get().to_string())),
                ("sambaAlgorithmicRidBase", value("1000")),
            ];
            let dn = format!("sambaDomainName={},{}", in_dn(name), self.settings.suffix);
            let request = Request::Add { dn: &dn, attributes: &attributes };
            let reply = self.servers.change(&request, self.settings.timeout).await?;
            if reply.outcome.code != ResultCode::ENTRY_ALREADY_EXISTS {
                done(reply, &dn)?;
            }
        }
        bail!("the LDAP directory has no domain {name} (sambaDomainName), although it was just added")
    }

    /// Allocates `rid`; `false` if another program was faster.
    async fn take_rid(&self, domain: &SearchResultEntry, rid: u32) -> Result<bool> {
        let mut changes = Vec::new();
        if let Some(last) = domain.first("sambaNextRid") {
            changes.push(Change::new(ChangeKind::Delete, "sambaNextRid", last));
        }
        changes.push(Change::new(ChangeKind::Add, "sambaNextRid", rid.to_string()));
        let request = Request::Modify { dn: &domain.dn, changes: &changes };
        let reply = self.servers.change(&request, self.settings.timeout).await?;
        // The old value no longer exists, or there is a new one.
        let lost =
            [ResultCode::NO_SUCH_ATTRIBUTE, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, ResultCode::CONSTRAINT_VIOLATION];
        if lost.contains(&reply.outcome.code) {
            return Ok(false);
        }
        done(reply, &domain.dn)?;
        Ok(true)
    }
}

/// Returns the RID after all allocated ones. Old directories have separate counters for users and groups.
fn next_rid(domain: &SearchResultEntry) -> Result<u32> {
    let counter = |name| domain.first(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let last = ATTRIBUTES[1..].iter().map(|name| counter(name)).max().unwrap_or(0);
    Ok(last.checked_add(1).with_context(|| format!("{}: all RIDs are in use", domain.dn))?.max(FIRST_RID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_rid_is_above_all_counters() {
        let check = |counters: &[(&str, &str)], expected: Option<u32>| {
            assert_eq!(next_rid(&SearchResultEntry::of("x", counters)).ok(), expected, "{counters:?}");
        };
        check(&[], Some(1000));
        check(&[("sambaNextRid", "12")], Some(1000));
        check(&[("sambaNextRid", "5000")], Some(5001));
        check(&[("sambaNextRid", "5000"), ("sambaNextUserRid", "7000"), ("sambaNextGroupRid", "6000")], Some(7001));
        check(&[("sambaNextRid", "4294967295")], None);
        check(&[("sambaNextRid", "?")], Some(1000));
    }
}
