//! Single users, groups and aliases, and look-ups of names and RIDs ([MS-SAMR] 3.1.5.1.7 to 3.1.5.1.9, 3.1.5.5,
//! 3.1.5.8, 3.1.5.9, 3.1.5.11).

use proto::dtyp::{FileTime, Sid};
use proto::rpc::ndr::ContextHandle;
use proto::rpc::samr::{
    self, AccountControl, AliasInformationClass, GetAliasMembership, GroupInformation, GroupInformationClass,
    LookupIds, LookupNames, OpenByRid, UserInformation, UserInformationClass,
};
use proto::status::Status;

use super::{Object, SamDomain, SamrCall, enumerations};
use crate::accounts::Account;
use crate::accounts::principals::{self, ALL_USERS_RID, Principal, SidNameUse};
use crate::policy::limits::SAMR_GROUP_MEMBERS;
use crate::vfs::Time;

/// The time that means "never".
const NEVER: i64 = i64::MAX;

fn informed(results: Result<Vec<u8>, Status>) -> Vec<u8> {
    results.unwrap_or_else(samr::no_information_response)
}

/// Returns the status of a look-up of `asked` entries, of which `found` were found.
fn mapped(found: usize, asked: usize) -> Status {
    match found {
        found if found == asked => Status::SUCCESS,
        0 => Status::NONE_MAPPED,
        _ => Status::SOME_NOT_MAPPED,
    }
}

/// Returns the type of a principal; machine accounts are reported as users.
fn kind(principal: &Principal) -> SidNameUse {
    if principal.kind == SidNameUse::COMPUTER { SidNameUse::USER } else { principal.kind }
}

/// The handlers.
impl SamrCall<'_> {
    pub(super) async fn lookup_names(self, asked: LookupNames) -> Vec<u8> {
        match self.found_names(&asked.handle, &asked.names).await {
            Ok((found, status)) => samr::names_response(&found, status),
            Err(status) => samr::names_response(&[], status),
        }
    }

    pub(super) async fn lookup_ids(self, asked: LookupIds) -> Vec<u8> {
        match self.lookup_rids(&asked.handle, &asked.rids).await {
            Ok((found, status)) => samr::ids_response(&found, status),
            Err(status) => samr::ids_response(&[], status),
        }
    }

    pub(super) async fn open_user(self, asked: OpenByRid) -> Vec<u8> {
        self.opened(self.user(&asked.handle, asked.rid).await)
    }

    pub(super) async fn open_group(self, asked: OpenByRid) -> Vec<u8> {
        self.opened(self.group(&asked.handle, asked.rid).await)
    }

    pub(super) async fn open_alias(self, asked: OpenByRid) -> Vec<u8> {
        self.opened(self.alias(&asked.handle, asked.rid).await)
    }

    pub(super) async fn query_user(self, (handle, class): (ContextHandle, UserInformationClass)) -> Vec<u8> {
        informed(self.information_of_user(&handle, class).await)
    }

    pub(super) async fn query_group(self, (handle, class): (ContextHandle, GroupInformationClass)) -> Vec<u8> {
        informed(self.information_of_group(&handle, class).await)
    }

    pub(super) async fn query_alias(self, (handle, class): (ContextHandle, AliasInformationClass)) -> Vec<u8> {
        informed(self.information_of_alias(&handle, class).await)
    }

    pub(super) async fn get_groups_for_user(self, handle: ContextHandle) -> Vec<u8> {
        informed(self.groups_of(&handle).await.map(|rids| samr::groups_response(&rids)))
    }

    pub(super) async fn get_members_in_group(self, handle: ContextHandle) -> Vec<u8> {
        informed(self.group_members(&handle).await.map(|rids| samr::group_members_response(&rids)))
    }

    pub(super) async fn get_members_in_alias(self, handle: ContextHandle) -> Vec<u8> {
        match self.alias_members(&handle).await {
            Ok(sids) => samr::alias_members_response(&sids, Status::SUCCESS),
            Err(status) => samr::alias_members_response(&[], status),
        }
    }

    pub(super) async fn get_alias_membership(self, asked: GetAliasMembership) -> Vec<u8> {
        match self.aliases_of(&asked.handle, &asked.sids).await {
            Ok(rids) => samr::alias_membership_response(&rids, Status::SUCCESS),
            Err(status) => samr::alias_membership_response(&[], status),
        }
    }

    pub(super) async fn rid_to_sid(self, (handle, rid): (ContextHandle, u32)) -> Vec<u8> {
        informed(self.sid_of(&handle, rid).map(|sid| samr::sid_response(&sid)))
    }
}

impl SamrCall<'_> {
    /// Looks up names ([MS-SAMR] 3.1.5.11.2).
    async fn found_names(
        &self,
        handle: &ContextHandle,
        names: &[String],
    ) -> Result<(Vec<(u32, SidNameUse)>, Status), Status> {
        let domain = self.members_of(handle)?;
        let (server, sid, realm) = (self.server, self.sid(domain), self.name(domain));
        let own = self.name(SamDomain::Own);
        let (mut found, mut count) = (Vec::with_capacity(names.len()), 0);
        for name in names {
            let principal = principals::by_name(&*server.accounts.ids, &own, &format!("{realm}\\{name}")).await?;
            // A UNIX group does not belong to a domain.
            let principal = principal.filter(|principal| principal.sid.domain() == Some(sid));
            let rid = principal.as_ref().and_then(|principal| principal.sid.rid());
            count += usize::from(rid.is_some());
            found.push((rid.unwrap_or(0), principal.map_or(SidNameUse::UNKNOWN, |principal| kind(&principal))));
        }
        Ok((found, mapped(count, names.len())))
    }

    /// Looks up RIDs ([MS-SAMR] 3.1.5.11.3).
    async fn lookup_rids(
        &self,
        handle: &ContextHandle,
        rids: &[u32],
    ) -> Result<(Vec<(Option<String>, SidNameUse)>, Status), Status> {
        let domain = self.members_of(handle)?;
        let (mut found, mut count) = (Vec::with_capacity(rids.len()), 0);
        for rid in rids {
            let principal = self.principal(domain, *rid).await?;
            count += usize::from(principal.is_some());
            let kind = principal.as_ref().map_or(SidNameUse::UNKNOWN, kind);
            found.push((principal.map(|principal| principal.name), kind));
        }
        Ok((found, mapped(count, rids.len())))
    }

    pub(super) async fn principal(&self, domain: SamDomain, rid: u32) -> Result<Option<Principal>, Status> {
        let server = self.server;
        Ok(principals::by_sid(&*server.accounts.ids, &self.with_rid(domain, rid)).await?)
    }

    /// Finds the object to open by its RID, if it has this type.
    async fn find(
        &self,
        handle: &ContextHandle,
        rid: u32,
        wanted: SidNameUse,
        none: Status,
    ) -> Result<SamDomain, Status> {
        let domain = self.members_of(handle)?;
        let found = self.principal(domain, rid).await?;
        found.filter(|found| kind(found) == wanted).map(|_| domain).ok_or(none)
    }

    async fn user(&self, handle: &ContextHandle, rid: u32) -> Result<Object, Status> {
        let found = self.find(handle, rid, SidNameUse::USER, Status::NO_SUCH_USER).await;
        found.map(|_| Object::User(rid))
    }

    async fn group(&self, handle: &ContextHandle, rid: u32) -> Result<Object, Status> {
        let found = self.find(handle, rid, SidNameUse::GROUP, Status::NO_SUCH_GROUP).await;
        found.map(|_| Object::Group(rid))
    }

    async fn alias(&self, handle: &ContextHandle, rid: u32) -> Result<Object, Status> {
        let found = self.find(handle, rid, SidNameUse::ALIAS, Status::NO_SUCH_ALIAS).await;
        found.map(|domain| Object::Alias(domain, rid))
    }

    /// Returns the object of `handle` if `of` accepts its type.
    pub(super) fn object<T>(&self, handle: &ContextHandle, of: impl FnOnce(Object) -> Option<T>) -> Result<T, Status> {
        let object = self.get(handle).ok_or(Status::INVALID_HANDLE)?;
        of(object).ok_or(Status::OBJECT_TYPE_MISMATCH)
    }

    /// Returns the account of a handle; it may have been deleted.
    pub(super) async fn account(&self, handle: &ContextHandle) -> Result<Account, Status> {
        let user = |object| if let Object::User(rid) = object { Some(rid) } else { None };
        let rid = self.object(handle, user)?;
        let sid = self.with_rid(SamDomain::Own, rid);
        let server = self.server;
        let principal = server.accounts.ids.principal(&sid).await?.ok_or(Status::NO_SUCH_USER)?;
        let account = server.accounts.authenticator.find(&principal.name).await?;
        account.filter(|account| account.sid == sid).ok_or(Status::NO_SUCH_USER)
    }

    /// Returns user information ([MS-SAMR] 3.1.5.5.5).
    async fn information_of_user(
        &self,
        handle: &ContextHandle,
        class: UserInformationClass,
    ) -> Result<Vec<u8>, Status> {
        let account = self.account(handle).await?;
        samr::user_information_response(class, &self.user_information(&account)).ok_or(Status::INVALID_INFO_CLASS)
    }

    fn user_information(&self, account: &Account) -> UserInformation {
        let server = self.server;
        let (policy, now) = (server.accounts.authenticator.policy(), server.environment.now());
        let time = |time: Time| i64::try_from(FileTime::from(time).0).unwrap_or(NEVER);
        let later = |set: Time, age: std::time::Duration| {
            let ticks = i64::try_from(age.as_nanos() / 100).unwrap_or(NEVER);
            time(set).saturating_add(ticks)
        };
        let set = account.password_last_set;
        let age = policy.max_password_age.filter(|_| !account.never_expires);
        let must_change = match (account.must_change, set, age) {
            (true, ..) => 0,
            (false, Some(set), Some(age)) => later(set, age),
            _ => NEVER,
        };
        let locked = account.locked || server.logons.is_locked_out(&account.name);
        let expired = account.must_change || account.has_expired_password(&policy, now);
        UserInformation {
            name: account.name.clone(),
            full_name: account.full_name.clone(),
            rid: account.sid.rid().unwrap_or(0),
            primary_group: ALL_USERS_RID,
            control: enumerations::control(&account.name, account.disabled, locked)
                .with(AccountControl::DONT_EXPIRE_PASSWORD, account.never_expires)
                .with(AccountControl::PASSWORD_EXPIRED, expired),
            password_last_set: set.map_or(0, time),
            password_can_change: set.map_or(0, |set| later(set, policy.min_password_age)),
            password_must_change: must_change,
            account_expires: account.expires.map_or(NEVER, time),
        }
    }

    /// Returns the groups of a user ([MS-SAMR] 3.1.5.9.1).
    async fn groups_of(&self, handle: &ContextHandle) -> Result<Vec<u32>, Status> {
        let account = self.account(handle).await?;
        let mut rids = vec![ALL_USERS_RID];
        rids.extend(self.memberships(&account, SamDomain::Own, SidNameUse::GROUP).await?);
        rids.dedup();
        Ok(rids)
    }

    /// Returns the RIDs of groups or aliases in `domain` of which the account is a member through its UNIX groups.
    async fn memberships(&self, account: &Account, domain: SamDomain, wanted: SidNameUse) -> Result<Vec<u32>, Status> {
        let (server, of) = (self.server, self.sid(domain));
        let mut rids = Vec::new();
        for sid in server.accounts.ids.sids_of(&account.identity).await? {
            let Some(rid) = sid.rid().filter(|_| sid.domain() == Some(of)) else { continue };
            let principal = self.principal(domain, rid).await?;
            if principal.is_some_and(|principal| principal.kind == wanted) {
                rids.push(rid);
            }
        }
        Ok(rids)
    }

    /// Returns the aliases that contain any of `sids` ([MS-SAMR] 3.1.5.9.2).
    async fn aliases_of(&self, handle: &ContextHandle, sids: &[Sid]) -> Result<Vec<u32>, Status> {
        let domain = self.members_of(handle)?;
        self.aliases_with(domain, sids).await
    }

    /// Returns the aliases of `domain` that contain any of `sids`.
    pub(super) async fn aliases_with(&self, domain: SamDomain, sids: &[Sid]) -> Result<Vec<u32>, Status> {
        let (server, own) = (self.server, self.sid(SamDomain::Own));
        let mut rids = Vec::new();
        for sid in sids.iter().filter(|sid| sid.domain() == Some(own)) {
            let Some(principal) = server.accounts.ids.principal(sid).await? else { continue };
            let account = match kind(&principal) {
                SidNameUse::USER => server.accounts.authenticator.find(&principal.name).await?,
                _ => None,
            };
            if let Some(account) = account {
                rids.extend(self.memberships(&account, domain, SidNameUse::ALIAS).await?);
            }
        }
        rids.sort_unstable();
        rids.dedup();
        Ok(rids)
    }

    /// Returns group information ([MS-SAMR] 3.1.5.5.3).
    async fn information_of_group(
        &self,
        handle: &ContextHandle,
        class: GroupInformationClass,
    ) -> Result<Vec<u8>, Status> {
        let group = |object| if let Object::Group(rid) = object { Some(rid) } else { None };
        let rid = self.object(handle, group)?;
        let counts = [GroupInformationClass::GENERAL, GroupInformationClass::REPLICATION].contains(&class);
        let members = if counts { self.group_members(handle).await?.len() } else { 0 };
        let about = self.group_information(SamDomain::Own, rid, members, Status::NO_SUCH_GROUP).await?;
        samr::group_information_response(class, &about).ok_or(Status::INVALID_INFO_CLASS)
    }

    /// Returns alias information ([MS-SAMR] 3.1.5.5.4).
    async fn information_of_alias(
        &self,
        handle: &ContextHandle,
        class: AliasInformationClass,
    ) -> Result<Vec<u8>, Status> {
        let (domain, rid) = self.object(handle, opened_alias)?;
        let counts = class == AliasInformationClass::GENERAL;
        let members = if counts { self.alias_members(handle).await?.len() } else { 0 };
        let about = self.group_information(domain, rid, members, Status::NO_SUCH_ALIAS).await?;
        samr::alias_information_response(class, &about).ok_or(Status::INVALID_INFO_CLASS)
    }

    async fn group_information(
        &self,
        domain: SamDomain,
        rid: u32,
        members: usize,
        none: Status,
    ) -> Result<GroupInformation, Status> {
        let server = self.server;
        let name = self.principal(domain, rid).await?.ok_or(none)?.name;
        let group = server.accounts.roster.group(&self.with_rid(domain, rid)).await?;
        let comment = group.map_or(String::new(), |group| group.comment);
        Ok(GroupInformation { name, comment, members: u32::try_from(members).unwrap_or(u32::MAX) })
    }

    /// Returns the members of a group ([MS-SAMR] 3.1.5.8.3).
    async fn group_members(&self, handle: &ContextHandle) -> Result<Vec<u32>, Status> {
        let group = |object| if let Object::Group(rid) = object { Some(rid) } else { None };
        let rid = self.object(handle, group)?;
        if rid == ALL_USERS_RID {
            return self.all_rids(SAMR_GROUP_MEMBERS).await;
        }
        let own = self.sid(SamDomain::Own);
        let members = self.members(SamDomain::Own, rid).await?;
        Ok(members.iter().filter(|sid| sid.domain() == Some(own)).filter_map(Sid::rid).collect())
    }

    /// Returns the members of an alias ([MS-SAMR] 3.1.5.8.6).
    async fn alias_members(&self, handle: &ContextHandle) -> Result<Vec<Sid>, Status> {
        let (domain, rid) = self.object(handle, opened_alias)?;
        self.members(domain, rid).await
    }

    pub(super) async fn members(&self, domain: SamDomain, rid: u32) -> Result<Vec<Sid>, Status> {
        let server = self.server;
        let members = server.accounts.roster.members(&self.with_rid(domain, rid), SAMR_GROUP_MEMBERS + 1).await?;
        if members.len() > SAMR_GROUP_MEMBERS { Err(Status::INSUFFICIENT_RESOURCES) } else { Ok(members) }
    }

    /// Converts a RID in the domain of any open object to a SID ([MS-SAMR] 3.1.5.13.7).
    fn sid_of(&self, handle: &ContextHandle, rid: u32) -> Result<Sid, Status> {
        let domain = self.object(handle, |object| match object {
            Object::Domain(domain) | Object::Alias(domain, _) => Some(domain),
            Object::User(_) | Object::Group(_) => Some(SamDomain::Own),
            Object::Server(_) => None,
        })?;
        Ok(self.with_rid(domain, rid))
    }
}

fn opened_alias(object: Object) -> Option<(SamDomain, u32)> {
    if let Object::Alias(domain, rid) = object { Some((domain, rid)) } else { None }
}
