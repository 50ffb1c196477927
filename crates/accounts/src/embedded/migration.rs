//! Migration of another server's accounts, groups, policies and share ACLs, in one transaction.
//!
//! Nothing that exists here is overwritten, except a password that was set later on the other server. What differs is a
//! conflict, and is reported. A second migration of the same data therefore changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use proto::dtyp::Sid;
use redb::WriteTransaction;
use server::accounts::principals::ALL_USERS_RID;
use server::accounts::{AccountPolicy, DomainSid};
use server::policy::fold;

use super::domain::APART;
use super::groups::{GROUPS, Groups, MOST};
use super::policies::POLICIES;
use super::share_acls::{SHARE_ACLS, StoredAcl};
use super::{Change, FIRST_RID, Other, Store};
use crate::backend::Check;
use crate::groups::{Group, GroupKey};
use crate::policies;
use crate::record::{Record, check_name};
use crate::records::{ImportResult, Migrated, MigrationOutcome, Outcome, ShareAcl};

/// What is migrated, with everything resolved that only the host knows.
pub struct Plan {
    /// The other server's machine SID.
    pub machine_sid: DomainSid,
    /// The accounts.
    pub accounts: Vec<Migrated>,
    /// The groups.
    pub groups: Vec<GroupWanted>,
    /// The account policies.
    pub policies: Vec<(String, i64)>,
    /// The share ACLs.
    pub share_acls: Vec<ShareAcl>,
}

/// A group, or why it cannot be migrated.
pub type GroupWanted = Result<Group, String>;

/// Pending changes that only a migration makes.
#[derive(Default)]
pub(super) struct More {
    groups: Groups,
    policies: Vec<(&'static str, i64)>,
    policy: Option<AccountPolicy>,
    share_acls: BTreeMap<String, Arc<StoredAcl>>,
}

impl More {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.len() == 0 && self.policies.is_empty() && self.share_acls.is_empty()
    }

    pub(super) fn write(&self, transaction: &WriteTransaction) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut groups = transaction.open_table(GROUPS)?;
        for group in self.groups.all() {
            groups.insert(group.sid.to_string().as_str(), group.encode().as_slice())?;
        }
        let mut policies = transaction.open_table(POLICIES)?;
        for (name, value) in &self.policies {
            policies.insert(*name, *value)?;
        }
        let mut acls = transaction.open_table(SHARE_ACLS)?;
        for (key, acl) in &self.share_acls {
            acls.insert(key.as_str(), acl.value().as_str())?;
        }
        Ok(())
    }
}

impl Store {
    /// Makes changes visible that are in the database.
    pub(super) fn show_more(&self, more: More) {
        let mut groups = self.groups.write();
        more.groups.all().for_each(|group| groups.insert(group.clone()));
        if let Some(policy) = more.policy {
            *self.policy.write() = policy;
        }
        self.share_acls.write().extend(more.share_acls);
    }

    /// Migrates what `plan` contains, in one transaction. `others` returns the accounts of other back ends whose SIDs
    /// begin with the machine's.
    pub fn migrate(
        &self,
        plan: Plan,
        dry_run: bool,
        check: Check<'_>,
        others: impl FnOnce() -> Result<Vec<Other>>,
    ) -> Result<MigrationOutcome> {
        self.change(dry_run, |change| {
            let machine_sid = self.migrate_domain(change, plan.machine_sid, others)?;
            let mut accounts = Vec::with_capacity(plan.accounts.len());
            let mut rids = BTreeMap::new();
            for account in plan.accounts {
                accounts.push(migrate_account(change, account, &mut rids, check)?);
            }
            let groups = plan.groups.into_iter();
            let groups =
                groups.map(|group| group.map_or_else(Outcome::skipped, |group| add_group(change, group, &rids)));
            let groups = groups.collect();
            let policies = plan.policies.iter().map(|(name, value)| set_policy(change, name, *value)).collect();
            let share_acls = plan.share_acls.iter().map(|acl| add_share_acl(change, acl)).collect();
            Ok(MigrationOutcome { machine_sid, accounts, groups, policies, share_acls })
        })
    }

    /// Takes over the machine's SID, unless accounts or groups have SIDs that begin with another one.
    fn migrate_domain(
        &self,
        change: &mut Change<'_>,
        new: DomainSid,
        others: impl FnOnce() -> Result<Vec<Other>>,
    ) -> Result<Outcome> {
        let before = self.domain();
        if before == new {
            return Ok(Outcome::of(ImportResult::Unchanged));
        }
        let group = |sid: &Sid| sid.domain() == Some(before.sid());
        if !self.accounts.read().is_empty() || self.groups(None, MOST).iter().any(|found| group(&found.sid)) {
            bail!(
                "there are accounts or groups here already, with the machine SID {before}; the other server's is \
                 {new}. Nothing was changed. Run `frevo user machine-sid --set {new}`, which keeps the present SIDs \
                 valid, and then this command again"
            );
        }
        let never_used = change.next_rid == FIRST_RID && self.former_domains().is_empty();
        self.change_domain(change, new, others)?;
        // A SID of which no account ever had one need not be remembered.
        if never_used && change.sids.is_empty() {
            change.former_domains = None;
        }
        Ok(Outcome::of(ImportResult::Added))
    }
}

/// Adds one account. `rids` are those of the accounts of this migration, by folded name.
fn migrate_account(
    change: &mut Change<'_>,
    wanted: Migrated,
    rids: &mut BTreeMap<u32, String>,
    check: Check<'_>,
) -> Result<Outcome> {
    let name = wanted.account.name.clone();
    if let Err(why) = check_name(&name) {
        return Ok(Outcome::skipped(why.to_string()));
    }
    let domain = change.domain();
    let own = wanted
        .sid
        .parse::<Sid>()
        .ok()
        .and_then(|sid| sid.rid())
        .filter(|rid| domain.with_rid(*rid).to_string() == wanted.sid && *rid != ALL_USERS_RID);
    let Some(rid) = own else {
        return Ok(Outcome::skipped(format!("has the SID {}, which is not of the machine SID {domain}", wanted.sid)));
    };
    let before = change.get(&name);
    if let Some(before) = &before {
        rids.insert(before.rid, fold(&name));
        if before.rid != rid {
            let there = domain.with_rid(before.rid);
            return Ok(Outcome::skipped(format!(
                "exists with the SID {there}, but has {} on the other server; it is not changed",
                wanted.sid
            )));
        }
        return Ok(update(change, before, &wanted));
    }
    if let Some(why) = taken(change, &domain.with_rid(rid), &name, rids) {
        return Ok(Outcome::skipped(why));
    }
    let record = record_of(wanted, rid);
    let note = check(&record)?;
    rids.insert(rid, fold(&name));
    // RIDs that the other server has given to accounts that it has deleted are not given to new accounts.
    change.next_rid = change.next_rid.max(APART).max(rid.saturating_add(1));
    change.put(record);
    Ok(Outcome { result: ImportResult::Added, note })
}

fn record_of(wanted: Migrated, rid: u32) -> Record {
    let Migrated { account, full_name, expires, .. } = wanted;
    Record {
        name: account.name,
        rid,
        nt_hash: account.nt_hash,
        disabled: account.disabled,
        locked: account.locked,
        must_change: account.must_change,
        never_expires: account.never_expires,
        password_last_set: account.password_last_set,
        full_name,
        uid: None,
        expires,
    }
}

/// Returns why an account called `name` cannot have `sid`.
fn taken(change: &Change<'_>, sid: &Sid, name: &str, rids: &BTreeMap<u32, String>) -> Option<String> {
    let rid = sid.rid()?;
    let store = change.store;
    let known = (change.domain() == store.domain()).then(|| store.by_sid(sid)).flatten();
    if let Some(owner) = rids.get(&rid).cloned().or(known.map(|record| record.name.clone())) {
        return Some(format!("has {sid}, which is the SID of {owner} here"));
    }
    if let Some(group) = store.group(&GroupKey::Sid(*sid)) {
        return Some(format!("has {sid}, which is the SID of the group {} here", group.name));
    }
    let owner = store.former_owner(sid).filter(|owner| *owner != fold(name))?;
    Some(format!("has {sid}, which is a former SID of {owner} here"))
}

/// Compares an account that exists with the one of the other server. A password that was set later there is taken over.
/// Other differences are conflicts, because it is unknown which of the two is meant.
fn update(change: &mut Change<'_>, before: &Record, wanted: &Migrated) -> Outcome {
    let there = &wanted.account;
    let mut differences = Vec::new();
    for (what, here, there) in [
        ("disabled", before.disabled, there.disabled),
        ("locked", before.locked, there.locked),
        ("without expiry of the password", before.never_expires, there.never_expires),
        ("expiring", before.expires.is_some(), wanted.expires.is_some()),
    ] {
        match (here, there) {
            (true, false) => differences.push(format!("{what} here only")),
            (false, true) => differences.push(format!("{what} there only")),
            _ => {}
        }
    }
    if before.expires.is_some() && wanted.expires.is_some() && before.expires != wanted.expires {
        differences.push("expiring at another time".to_owned());
    }
    let equal = before.nt_hash.as_ref().map(|hash| hash.0) == there.nt_hash.as_ref().map(|hash| hash.0);
    if equal && before.must_change != there.must_change {
        differences.push("another time at which the password must be changed".to_owned());
    }
    let later = there.password_last_set > before.password_last_set;
    if !differences.is_empty() {
        let why = format!("differs from the other server ({}); it is not changed", differences.join(", "));
        return Outcome::skipped(why);
    }
    match (equal, later) {
        (false, true) => {
            let (nt_hash, password_last_set) = (there.nt_hash.clone(), there.password_last_set);
            change.put(Record { nt_hash, password_last_set, must_change: there.must_change, ..before.clone() });
            Outcome { result: ImportResult::Updated, note: None }
        }
        (false, false) => {
            let note = Some("keeps its password, which was set here later".to_owned());
            Outcome { result: ImportResult::Unchanged, note }
        }
        (true, _) => Outcome::of(ImportResult::Unchanged),
    }
}

/// Adds a group. `rids` are those of the accounts of this migration.
fn add_group(change: &mut Change<'_>, group: Group, rids: &BTreeMap<u32, String>) -> Outcome {
    let store = change.store;
    let keys = [GroupKey::Sid(group.sid), GroupKey::Gid(group.gid), GroupKey::Name(group.name.clone())];
    if let Some(there) = keys.iter().find_map(|key| store.group(key)) {
        return if (there.sid, there.gid) == (group.sid, group.gid) {
            Outcome::of(ImportResult::Unchanged)
        } else {
            Outcome::skipped(format!("the group {:?} ({}, gid {}) exists already", there.name, there.sid, there.gid))
        };
    }
    match may_add(change, &group, rids) {
        Ok(()) => {
            let rid = group.sid.rid().filter(|rid| group.sid == change.domain().with_rid(*rid));
            change.next_rid = change.next_rid.max(rid.map_or(0, |rid| rid.saturating_add(1)));
            change.more.groups.insert(Arc::new(group));
            Outcome::of(ImportResult::Added)
        }
        Err(why) => Outcome::skipped(format!("{why:#}")),
    }
}

fn may_add(change: &Change<'_>, group: &Group, rids: &BTreeMap<u32, String>) -> Result<()> {
    let (store, pending) = (change.store, &change.more.groups);
    group.check(change.domain())?;
    ensure!(store.groups.read().len() + pending.len() < MOST, "there can be at most {MOST} groups");
    let keys = [GroupKey::Sid(group.sid), GroupKey::Gid(group.gid), GroupKey::Name(group.name.clone())];
    if let Some(other) = keys.iter().find_map(|key| pending.get(key)) {
        bail!("the group {:?} ({}, gid {}) has the same SID, gid or name", other.name, other.sid, other.gid);
    }
    ensure!(change.get(&group.name).is_none(), "there is an account of the same name");
    let own = group.sid.rid().filter(|rid| group.sid == change.domain().with_rid(*rid));
    if let Some(owner) = own.and_then(|rid| rids.get(&rid)) {
        bail!("{} is the SID of the account {owner}", group.sid);
    }
    if change.domain() == store.domain()
        && let Some(account) = store.by_sid(&group.sid)
    {
        bail!("{} is the SID of the account {}", group.sid, account.name);
    }
    store.refuse_former(&group.sid)?;
    if let Some(rid) = own.filter(|rid| *rid >= FIRST_RID && store.free_rid(*rid) != *rid) {
        bail!("RID {rid} is even, and even RIDs belong to users in the smbpasswd file");
    }
    Ok(())
}

/// Sets a policy, unless it was set to another value here.
fn set_policy(change: &mut Change<'_>, name: &str, value: i64) -> Outcome {
    let mut policy = change.more.policy.unwrap_or_else(|| change.store.policy());
    let of = |policy: &AccountPolicy| policies::all(policy).find(|(known, ..)| *known == name).map(|found| found.1);
    let (present, default) = (of(&policy), of(&AccountPolicy::default()));
    let known = match policies::known(name) {
        Ok(known) => known,
        Err(why) => return Outcome::skipped(format!("{why:#}")),
    };
    if let Err(why) = policies::set(&mut policy, known, value) {
        return Outcome::skipped(format!("{why:#}"));
    }
    // Compared after it was set, because several numbers mean "never".
    if of(&policy) == present {
        return Outcome::of(ImportResult::Unchanged);
    }
    if present != default {
        let present = present.unwrap_or_default();
        return Outcome::skipped(format!("is {present} here and {value} on the other server; it is not changed"));
    }
    change.more.policies.push((known, value));
    change.more.policy = Some(policy);
    Outcome::of(ImportResult::Added)
}

/// Adds the ACL of a share, unless it has another one here.
fn add_share_acl(change: &mut Change<'_>, wanted: &ShareAcl) -> Outcome {
    let acl = match StoredAcl::new(&wanted.share, &wanted.sddl) {
        Ok(acl) => acl,
        Err(why) => return Outcome::skipped(format!("{why:#}")),
    };
    match change.store.share_acls.read().get(&fold(&wanted.share)) {
        Some(there) if *there.descriptor == *acl.descriptor => return Outcome::of(ImportResult::Unchanged),
        Some(_) => return Outcome::skipped("has another ACL here; it is not changed"),
        None => {}
    }
    change.more.share_acls.insert(fold(&wanted.share), Arc::new(acl));
    Outcome::of(ImportResult::Added)
}
