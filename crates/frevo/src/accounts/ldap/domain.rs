//! The domain in the directory, which gives its accounts their SIDs: `sambaDomain`.
//!
//! RIDs are given the way Samba gives them, so that both may do it at the same time: `sambaNextRid` is the last one given,
//! and whoever takes the value that is there away and puts the next one in its place, in one change, has that one.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use proto::dtyp::Sid;
use zeroize::Zeroizing;

use super::change::done;
use super::entry::in_dn;
use super::message::{Change, ChangeKind, Filter, Found, Request, ResultCode};
use super::people::People;

/// The first RID for an account: those below belong to Windows itself ([MS-DTYP] 2.4.2.4).
const FIRST_RID: u32 = 1000;
/// How often a RID is asked for before it is given up: each time somebody else was faster, or it was in use.
const ATTEMPTS: u32 = 20;
/// How long to wait for somebody else to be done, times the number of attempts so far.
const PAUSE: Duration = Duration::from_millis(5);

const ATTRIBUTES: &[&str] = &["sambaSID", "sambaNextRid", "sambaNextUserRid", "sambaNextGroupRid"];

impl People {
    /// A SID that nobody has or had.
    pub(super) async fn new_sid(&self) -> Result<Sid> {
        for attempt in 0..ATTEMPTS {
            let domain = self.domain().await?;
            let sid = domain.first("sambaSID").with_context(|| format!("{}: has no sambaSID", domain.dn))?;
            let rid = next_rid(&domain)?;
            if !self.take_rid(&domain, rid).await? {
                tokio::time::sleep(PAUSE * attempt).await;
                continue;
            }
            let sid: Sid = format!("{sid}-{rid}").parse().with_context(|| format!("{}: bad sambaSID", domain.dn))?;
            let filter = Filter::Equal("sambaSID", sid.to_string());
            if self.search(&self.settings.suffix, filter, &["1.1"], 1).await?.is_empty() {
                return Ok(sid);
            }
        }
        bail!("{ATTEMPTS} attempts to get a RID from the LDAP directory have failed: do others take them all the time?")
    }

    /// The domain's SID.
    pub(super) async fn domain_sid(&self) -> Result<String> {
        let domain = self.domain().await?;
        Ok(domain.first("sambaSID").with_context(|| format!("{}: has no sambaSID", domain.dn))?.to_owned())
    }

    /// The domain's entry, made where there is none, with this machine's SID.
    async fn domain(&self) -> Result<Found> {
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
        bail!("the LDAP directory has no domain {name} (sambaDomainName), although it was just made")
    }

    /// Whether `rid` was still to be had.
    async fn take_rid(&self, domain: &Found, rid: u32) -> Result<bool> {
        let mut changes = Vec::new();
        if let Some(last) = domain.first("sambaNextRid") {
            changes.push(Change::new(ChangeKind::Delete, "sambaNextRid", last));
        }
        changes.push(Change::new(ChangeKind::Add, "sambaNextRid", rid.to_string()));
        let request = Request::Modify { dn: &domain.dn, changes: &changes };
        let reply = self.servers.change(&request, self.settings.timeout).await?;
        // The value that was to go is gone, or another has come.
        let lost =
            [ResultCode::NO_SUCH_ATTRIBUTE, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, ResultCode::CONSTRAINT_VIOLATION];
        if lost.contains(&reply.outcome.code) {
            return Ok(false);
        }
        done(reply, &domain.dn)?;
        Ok(true)
    }
}

/// The RID after all that were given; those for users and groups have counters of their own in old directories.
fn next_rid(domain: &Found) -> Result<u32> {
    let counter = |name| domain.first(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let last = ATTRIBUTES[1..].iter().map(|name| counter(name)).max().unwrap_or(0);
    Ok(last.checked_add(1).with_context(|| format!("{}: no RIDs are left", domain.dn))?.max(FIRST_RID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_rid_is_above_all_counters() {
        let check = |counters: &[(&str, &str)], expected: Option<u32>| {
            assert_eq!(next_rid(&Found::of("x", counters)).ok(), expected, "{counters:?}");
        };
        check(&[], Some(1000));
        check(&[("sambaNextRid", "12")], Some(1000));
        check(&[("sambaNextRid", "5000")], Some(5001));
        check(&[("sambaNextRid", "5000"), ("sambaNextUserRid", "7000"), ("sambaNextGroupRid", "6000")], Some(7001));
        check(&[("sambaNextRid", "4294967295")], None);
        check(&[("sambaNextRid", "?")], Some(1000));
    }
}
