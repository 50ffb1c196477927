//! Changes of users, groups, aliases and policies by administrators ([MS-SAMR] 3.1.5.4, 3.1.5.6 to 3.1.5.8).
//!
//! They are made by [`Administration`](crate::accounts::Administration). A field that no back end stores, such as the
//! path of a profile, can only be set to nothing: STATUS_NOT_SUPPORTED tells the administrator that a value would be
//! lost.

use std::future::Future;

use proto::auth::ntlm::change::{self, AesPassword, NewPassword};
use proto::auth::ntlm::nt_hash;
use proto::dtyp::{FileTime, Sid};
use proto::rpc::ndr::{self, ContextHandle};
use proto::rpc::samr::{
    self, AccountControl, AliasMembers, Create, CreateUser2, DomainSetting, GROUP_ATTRIBUTES, GroupSetting,
    ManyAliasMembers, SentPassword, SetAlias, SetDomain, SetGroup, SetUser, UserSettings, fields,
};
use proto::status::Status;

use super::{Object, SamDomain, SamrCall};
use crate::accounts::principals::{ALL_USERS_RID, SidNameUse};
use crate::accounts::{Account, GroupChange, NotDone, NtHash, UserChange};
use crate::policy::limits::SAMR_GROUP_MEMBERS;
use crate::vfs::Time;

/// The first RID that is not reserved for accounts and groups of every domain.
const FIRST_RID: u32 = 1000;

/// DOMAIN_PASSWORD_COMPLEX and the other PasswordProperties that change how passwords are treated.
const PASSWORD_PROPERTIES: u32 = 0x3f;

/// The accounts and the log entries that a kind of object has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    User,
    Group,
    Alias,
}

impl Kind {
    fn exists(self) -> Status {
        match self {
            Kind::User => Status::USER_EXISTS,
            Kind::Group => Status::GROUP_EXISTS,
            Kind::Alias => Status::ALIAS_EXISTS,
        }
    }

    fn none(self) -> Status {
        match self {
            Kind::User => Status::NO_SUCH_USER,
            Kind::Group => Status::NO_SUCH_GROUP,
            Kind::Alias => Status::NO_SUCH_ALIAS,
        }
    }
}

/// The handlers.
impl SamrCall<'_> {
    pub(super) async fn create_user(self, asked: Create) -> Vec<u8> {
        let (handle, rid, status) = self.created(self.add_user(&asked, AccountControl::NORMAL_ACCOUNT.0).await);
        samr::created_response(&handle, rid, status)
    }

    pub(super) async fn create_user_2(self, asked: CreateUser2) -> Vec<u8> {
        let (handle, rid, status) = self.created(self.add_user(&asked.create, asked.kind).await);
        samr::created_2_response(&handle, rid, status)
    }

    pub(super) async fn create_group(self, asked: Create) -> Vec<u8> {
        let added = self.add_group(&asked, Kind::Group).await;
        let (handle, rid, status) = self.created(added.map(|rid| (Object::Group(rid), rid)));
        samr::created_response(&handle, rid, status)
    }

    pub(super) async fn create_alias(self, asked: Create) -> Vec<u8> {
        let added = self.add_group(&asked, Kind::Alias).await;
        let (handle, rid, status) = self.created(added.map(|rid| (Object::Alias(SamDomain::Own, rid), rid)));
        samr::created_response(&handle, rid, status)
    }

    pub(super) async fn set_user(self, asked: SetUser) -> Vec<u8> {
        done(self.change_user(&asked)).await
    }

    pub(super) async fn set_group(self, asked: SetGroup) -> Vec<u8> {
        done(async move {
            let (name, _) = self.group_of(&asked.handle).await?;
            self.change_group(&name, asked.setting, Kind::Group).await
        })
        .await
    }

    pub(super) async fn set_alias(self, asked: SetAlias) -> Vec<u8> {
        done(async move {
            let (name, ..) = self.alias_of(&asked.handle).await?;
            self.change_group(&name, asked.setting, Kind::Alias).await
        })
        .await
    }

    pub(super) async fn set_domain(self, asked: SetDomain) -> Vec<u8> {
        done(self.change_domain(&asked)).await
    }

    pub(super) async fn delete_user(self, handle: ContextHandle) -> Vec<u8> {
        self.deleted(&handle, self.remove_user(&handle).await)
    }

    pub(super) async fn delete_group(self, handle: ContextHandle) -> Vec<u8> {
        let removed = async {
            let (name, rid) = self.group_of(&handle).await?;
            self.remove_group(&name, rid, Kind::Group).await
        };
        self.deleted(&handle, removed.await)
    }

    pub(super) async fn delete_alias(self, handle: ContextHandle) -> Vec<u8> {
        let removed = async {
            let (name, _, rid) = self.alias_of(&handle).await?;
            self.remove_group(&name, rid, Kind::Alias).await
        };
        self.deleted(&handle, removed.await)
    }

    pub(super) async fn add_member_to_group(self, (handle, member): (ContextHandle, u32)) -> Vec<u8> {
        done(self.change_group_member(&handle, member, true)).await
    }

    pub(super) async fn remove_member_from_group(self, (handle, member): (ContextHandle, u32)) -> Vec<u8> {
        done(self.change_group_member(&handle, member, false)).await
    }

    pub(super) async fn add_to_alias(self, asked: AliasMembers) -> Vec<u8> {
        done(self.change_alias_members(&asked, true, Many::No)).await
    }

    pub(super) async fn remove_from_alias(self, asked: AliasMembers) -> Vec<u8> {
        done(self.change_alias_members(&asked, false, Many::No)).await
    }

    pub(super) async fn add_many_to_alias(self, ManyAliasMembers(asked): ManyAliasMembers) -> Vec<u8> {
        done(self.change_alias_members(&asked, true, Many::Yes)).await
    }

    pub(super) async fn remove_many_from_alias(self, ManyAliasMembers(asked): ManyAliasMembers) -> Vec<u8> {
        done(self.change_alias_members(&asked, false, Many::Yes)).await
    }

    pub(super) async fn remove_from_foreign_domain(self, asked: AliasMembers) -> Vec<u8> {
        done(self.remove_from_aliases(&asked)).await
    }
}

/// Whether a call has several members. Such a call does not fail because of those that are members already, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Many {
    No,
    Yes,
}

async fn done(change: impl Future<Output = Result<(), Status>>) -> Vec<u8> {
    ndr::status_response(change.await.err().unwrap_or(Status::SUCCESS))
}

impl SamrCall<'_> {
    /// Checks that the user acts as root. A member of BUILTIN\Administrators who does not could become root by such
    /// changes: by the password of one of the `admin users`, or the name of a group among them.
    async fn check_root(&self) -> Result<(), Status> {
        if self.acts_as_root().await { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Maps a change that was not made to a status, and logs the reason.
    fn refused(&self, why: NotDone, kind: Kind) -> Status {
        let user = self.user().map_or_else(String::new, |user| user.name.clone());
        let (status, why) = match why {
            NotDone::Exists => return kind.exists(),
            NotDone::NotFound => return kind.none(),
            NotDone::Name(why) => (Status::INVALID_ACCOUNT_NAME, why),
            NotDone::NoUnixObject(why) => (kind.none(), why),
            NotDone::NotStored(why) => (Status::NOT_SUPPORTED, why),
            NotDone::Unavailable(why) => (Status::INTERNAL_DB_ERROR, why),
        };
        tracing::warn!(user, peer = %self.caller.address(), why, "a change of accounts was refused");
        status
    }

    fn log(&self, what: &str, name: &str) {
        let user = self.user().map_or_else(String::new, |user| user.name.clone());
        tracing::info!(user, peer = %self.caller.address(), name, "an administrator {what}");
    }

    /// Opens a handle of a new object.
    fn created(&self, added: Result<(Object, u32), Status>) -> (ContextHandle, u32, Status) {
        match added {
            Ok((object, rid)) => {
                let (handle, status) = self.open(object);
                (handle, rid, status)
            }
            Err(status) => ([0; 20], 0, status),
        }
    }

    /// Closes the handle of a deleted object.
    fn deleted(&self, handle: &ContextHandle, removed: Result<(), Status>) -> Vec<u8> {
        match removed {
            Ok(()) => {
                self.handles.lock().close(handle);
                ndr::handle_response(&[0; 20], Status::SUCCESS)
            }
            Err(status) => ndr::handle_response(handle, status),
        }
    }

    /// Returns the domain in which an administrator creates something. BUILTIN has only what every server has.
    async fn creates_in(&self, handle: &ContextHandle) -> Result<(), Status> {
        match self.get(handle) {
            Some(Object::Domain(domain)) => {
                self.check_root().await?;
                if domain == SamDomain::Own { Ok(()) } else { Err(Status::ACCESS_DENIED) }
            }
            Some(_) => Err(Status::OBJECT_TYPE_MISMATCH),
            None => Err(Status::INVALID_HANDLE),
        }
    }

    /// Creates a user ([MS-SAMR] 3.1.5.4.4). There are no machine accounts.
    async fn add_user(&self, asked: &Create, kind: u32) -> Result<(Object, u32), Status> {
        const TYPES: [AccountControl; 4] = [
            AccountControl::NORMAL_ACCOUNT,
            AccountControl::INTERDOMAIN_TRUST_ACCOUNT,
            AccountControl::WORKSTATION_TRUST_ACCOUNT,
            AccountControl::SERVER_TRUST_ACCOUNT,
        ];
        self.creates_in(&asked.handle).await?;
        match AccountControl(kind) {
            AccountControl::NORMAL_ACCOUNT => {}
            other if TYPES.contains(&other) => return Err(Status::NOT_SUPPORTED),
            _ => return Err(Status::INVALID_PARAMETER),
        }
        let added = self.server.accounts.administration.add_user(&asked.name).await;
        let sid = added.map_err(|why| self.refused(why, Kind::User))?;
        self.log("adds an account", &asked.name);
        // An account of another server's domain, in a directory that several servers share, has no handle here.
        let rid = sid.rid().filter(|rid| sid == self.with_rid(SamDomain::Own, *rid)).ok_or(Status::NO_SUCH_USER)?;
        Ok((Object::User(rid), rid))
    }

    /// Creates a group or an alias ([MS-SAMR] 3.1.5.4.2, 3.1.5.4.3).
    async fn add_group(&self, asked: &Create, kind: Kind) -> Result<u32, Status> {
        self.creates_in(&asked.handle).await?;
        let wanted = if kind == Kind::Alias { SidNameUse::ALIAS } else { SidNameUse::GROUP };
        let added = self.server.accounts.administration.add_group(&asked.name, wanted).await;
        let sid = added.map_err(|why| self.refused(why, kind))?;
        self.log("adds a group", &asked.name);
        sid.rid().filter(|rid| sid == self.with_rid(SamDomain::Own, *rid)).ok_or_else(|| kind.none())
    }

    /// Returns the account that an administrator changes.
    async fn changed_account(&self, handle: &ContextHandle) -> Result<Account, Status> {
        let account = self.account(handle).await?;
        self.check_root().await?;
        Ok(account)
    }

    /// Deletes a user ([MS-SAMR] 3.1.5.7.3).
    async fn remove_user(&self, handle: &ContextHandle) -> Result<(), Status> {
        let account = self.changed_account(handle).await?;
        if account.sid.rid().is_none_or(|rid| rid < FIRST_RID) {
            return Err(Status::SPECIAL_ACCOUNT);
        }
        let removed = self.server.accounts.administration.delete_user(&account.name).await;
        removed.map_err(|why| self.refused(why, Kind::User))?;
        self.log("deletes an account", &account.name);
        Ok(())
    }

    /// Returns the name and the RID of the group that an administrator changes.
    async fn group_of(&self, handle: &ContextHandle) -> Result<(String, u32), Status> {
        let rid = self.object(handle, |object| if let Object::Group(rid) = object { Some(rid) } else { None })?;
        self.check_root().await?;
        let name = self.principal(SamDomain::Own, rid).await?.ok_or(Status::NO_SUCH_GROUP)?.name;
        Ok((name, rid))
    }

    /// Returns the name, the domain and the RID of the alias that an administrator changes.
    async fn alias_of(&self, handle: &ContextHandle) -> Result<(String, SamDomain, u32), Status> {
        let alias = |object| if let Object::Alias(domain, rid) = object { Some((domain, rid)) } else { None };
        let (domain, rid) = self.object(handle, alias)?;
        self.check_root().await?;
        let name = self.principal(domain, rid).await?.ok_or(Status::NO_SUCH_ALIAS)?.name;
        Ok((name, domain, rid))
    }

    /// Deletes a group or an alias ([MS-SAMR] 3.1.5.7.1, 3.1.5.7.2).
    async fn remove_group(&self, name: &str, rid: u32, kind: Kind) -> Result<(), Status> {
        if rid < FIRST_RID {
            return Err(Status::SPECIAL_GROUP);
        }
        let removed = self.server.accounts.administration.delete_group(name).await;
        removed.map_err(|why| self.refused(why, kind))?;
        self.log("deletes a group", name);
        Ok(())
    }

    /// Sets the name or the comment of a group or an alias ([MS-SAMR] 3.1.5.6.2, 3.1.5.6.3).
    async fn change_group(&self, name: &str, setting: Option<GroupSetting>, kind: Kind) -> Result<(), Status> {
        let change = match setting.ok_or(Status::INVALID_INFO_CLASS)? {
            GroupSetting::Name(name) => GroupChange { name: Some(name), ..Default::default() },
            GroupSetting::Comment(comment) => GroupChange { comment: Some(comment), ..Default::default() },
            GroupSetting::Attributes(GROUP_ATTRIBUTES) => return Ok(()),
            GroupSetting::Attributes(_) => return Err(Status::INVALID_PARAMETER),
        };
        self.change_group_to(name, change, kind).await
    }

    async fn change_group_to(&self, name: &str, change: GroupChange, kind: Kind) -> Result<(), Status> {
        let changed = self.server.accounts.administration.change_group(name, change).await;
        changed.map_err(|why| self.refused(why, kind))?;
        self.log("changes a group", name);
        Ok(())
    }

    /// Adds a member to a group or removes one ([MS-SAMR] 3.1.5.8.1, 3.1.5.8.2).
    async fn change_group_member(&self, handle: &ContextHandle, member: u32, add: bool) -> Result<(), Status> {
        let (name, rid) = self.group_of(handle).await?;
        let member = self.principal(SamDomain::Own, member).await?.filter(|found| found.kind == SidNameUse::USER);
        let member = member.ok_or(Status::NO_SUCH_USER)?;
        // Every account is in the group of all users.
        let is_member = rid == ALL_USERS_RID || self.members(SamDomain::Own, rid).await?.contains(&member.sid);
        match (add, is_member) {
            (true, true) => return Err(Status::MEMBER_IN_GROUP),
            (false, false) => return Err(Status::MEMBER_NOT_IN_GROUP),
            (false, true) if rid == ALL_USERS_RID => return Err(Status::MEMBERS_PRIMARY_GROUP),
            _ => {}
        }
        self.change_group_to(&name, membership(vec![member.name], add), Kind::Group).await
    }

    /// Adds members to an alias or removes some ([MS-SAMR] 3.1.5.8.4 to 3.1.5.8.7). They are accounts of this server.
    async fn change_alias_members(&self, asked: &AliasMembers, add: bool, many: Many) -> Result<(), Status> {
        let (name, domain, rid) = self.alias_of(&asked.handle).await?;
        let present = self.members(domain, rid).await?;
        let mut changed = Vec::new();
        for sid in &asked.sids {
            match (add, present.contains(sid), many) {
                (true, true, Many::No) => return Err(Status::MEMBER_IN_ALIAS),
                (false, false, Many::No) => return Err(Status::MEMBER_NOT_IN_ALIAS),
                (true, true, Many::Yes) | (false, false, Many::Yes) => continue,
                _ => {}
            }
            changed.push(self.member_name(sid).await?);
        }
        if changed.is_empty() {
            return Ok(());
        }
        if present.len() + changed.len() > SAMR_GROUP_MEMBERS && add {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        self.change_group_to(&name, membership(changed, add), Kind::Alias).await
    }

    async fn member_name(&self, sid: &Sid) -> Result<String, Status> {
        let found = self.server.accounts.ids.principal(sid).await?.ok_or(Status::NO_SUCH_MEMBER)?;
        let is_account = found.kind == SidNameUse::USER && sid.domain() == Some(self.sid(SamDomain::Own));
        if is_account { Ok(found.name) } else { Err(Status::INVALID_MEMBER) }
    }

    /// Removes an account from all aliases of a domain ([MS-SAMR] 3.1.5.8.8).
    async fn remove_from_aliases(&self, asked: &AliasMembers) -> Result<(), Status> {
        let domain = self.members_of(&asked.handle)?;
        self.check_root().await?;
        for sid in &asked.sids {
            for rid in self.aliases_with(domain, std::slice::from_ref(sid)).await? {
                let alias = self.principal(domain, rid).await?.ok_or(Status::NO_SUCH_ALIAS)?;
                let member = self.member_name(sid).await?;
                self.change_group_to(&alias.name, membership(vec![member], false), Kind::Alias).await?;
            }
        }
        Ok(())
    }

    /// Sets fields of a user ([MS-SAMR] 3.1.5.6.4).
    async fn change_user(&self, asked: &SetUser) -> Result<(), Status> {
        let account = self.changed_account(&asked.handle).await?;
        let set = asked.settings.as_ref().ok_or(Status::INVALID_INFO_CLASS)?;
        if set.which == 0 || set.which & fields::NOT_SETTABLE != 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        let change = self.user_change(&account, set)?;
        let unlocks = change.locked == Some(false) || change.nt_hash.is_some();
        let changed = self.server.accounts.administration.change_user(&account.name, change).await;
        changed.map_err(|why| self.refused(why, Kind::User))?;
        if unlocks {
            self.server.logons.clear_lockout(&account.name);
        }
        let password = set.which & (fields::NT_PASSWORD_PRESENT | fields::LM_PASSWORD_PRESENT) != 0;
        self.log(if password { "sets the password of an account" } else { "changes an account" }, &account.name);
        Ok(())
    }

    fn user_change(&self, account: &Account, set: &UserSettings) -> Result<UserChange, Status> {
        let mut change = UserChange::default();
        // A user is not renamed, because their UNIX user would not be.
        if set.text(fields::USER_NAME).is_some_and(|name| !name.eq_ignore_ascii_case(&account.name))
            || set.filled() & !(fields::USER_NAME | fields::FULL_NAME) != 0
            || (set.which & fields::LOGON_HOURS != 0 && set.restricts_hours)
            || (set.which & fields::PRIMARY_GROUP_ID != 0 && set.primary_group != ALL_USERS_RID)
        {
            let why = "only the full name, the expiry, the flags and the password of an account can be set".into();
            return Err(self.refused(NotDone::NotStored(why), Kind::User));
        }
        change.full_name = set.text(fields::FULL_NAME).map(str::to_owned);
        if set.which & fields::ACCOUNT_EXPIRES != 0 {
            // Both values mean "never" ([MS-SAMR] 3.1.1.8).
            let time = u64::try_from(set.account_expires).ok().filter(|time| ![0, u64::MAX >> 1].contains(time));
            change.expires = Some(time.map(|time| Time { secs: FileTime(time).to_unix().0, nanos: 0 }));
        }
        if set.which & fields::USER_ACCOUNT_CONTROL != 0 {
            let control = AccountControl(set.control);
            if control.0 & !AccountControl::SETTABLE.0 != 0 {
                return Err(Status::INVALID_PARAMETER);
            }
            change.disabled = Some(control.has_all(AccountControl::ACCOUNT_DISABLED));
            change.never_expires = Some(control.has_all(AccountControl::DONT_EXPIRE_PASSWORD));
            // Only wrong passwords lock an account.
            let locked = control.0 & AccountControl::ACCOUNT_AUTO_LOCKED.0 != 0;
            change.locked = (!locked).then_some(false);
        }
        if set.which & (fields::NT_PASSWORD_PRESENT | fields::LM_PASSWORD_PRESENT) != 0 {
            change.nt_hash = self.new_password(&set.password)?;
        }
        if set.which & fields::PASSWORD_EXPIRED != 0 {
            change.must_change = Some(set.password_expired);
        }
        Ok(change)
    }

    /// Decrypts a password with the session key. A password cannot be empty.
    fn new_password(&self, sent: &SentPassword) -> Result<Option<NtHash>, Status> {
        if matches!(sent, SentPassword::None) {
            // There is only a hash of LAN Manager, or a flag without a hash.
            return Err(Status::NOT_SUPPORTED);
        }
        let key = self.session_key().ok_or(Status::NO_USER_SESSION_KEY)?;
        let key: &[u8; 16] = key.as_bytes().try_into().map_err(|_| Status::NO_USER_SESSION_KEY)?;
        let opened = match sent {
            SentPassword::None => return Err(Status::NOT_SUPPORTED),
            SentPassword::Hash(hash) => {
                let hash = NtHash(*change::decrypt_hash(hash, key));
                return if hash.0 == nt_hash("") { Err(Status::PASSWORD_RESTRICTION) } else { Ok(Some(hash)) };
            }
            SentPassword::Sealed(sealed) => NewPassword::open_with_key(key, sealed),
            SentPassword::Salted(sealed) => NewPassword::open_salted(key, sealed),
            SentPassword::Aes(sent) => {
                let sealed = AesPassword { auth_data: sent.auth_data, salt: sent.salt, cipher: &sent.cipher };
                NewPassword::open_aes(key, &sealed)
            }
        };
        let new = opened.ok_or(Status::WRONG_PASSWORD)?;
        if new.text.is_empty() { Err(Status::PASSWORD_RESTRICTION) } else { Ok(Some(NtHash(*new.nt_hash))) }
    }

    /// Sets the password or lockout policy ([MS-SAMR] 3.1.5.6.1).
    async fn change_domain(&self, asked: &SetDomain) -> Result<(), Status> {
        let Some(Object::Domain(domain)) = self.get(&asked.handle) else { return Err(Status::INVALID_HANDLE) };
        self.check_root().await?;
        let setting = asked.setting.ok_or(Status::INVALID_INFO_CLASS)?;
        let policies = match setting {
            _ if domain == SamDomain::Builtin => return Err(Status::ACCESS_DENIED),
            DomainSetting::NotStored => return Err(Status::NOT_SUPPORTED),
            DomainSetting::Password { properties, .. } if properties & PASSWORD_PROPERTIES != 0 => {
                return Err(Status::NOT_SUPPORTED);
            }
            DomainSetting::Password { min_age, max_age, .. } if min_age > 0 || max_age > 0 || max_age > min_age => {
                return Err(Status::INVALID_PARAMETER);
            }
            DomainSetting::Password { min_length, history, max_age, min_age, .. } => vec![
                ("min password length", min_length.into()),
                ("password history", history.into()),
                ("maximum password age", span(max_age, 1)),
                ("minimum password age", span(min_age, 1)),
            ],
            DomainSetting::Lockout { duration, window, .. } if duration > 0 || window > 0 || duration > window => {
                return Err(Status::INVALID_PARAMETER);
            }
            DomainSetting::Lockout { duration, window, threshold } => vec![
                ("lockout duration", span(duration, 60)),
                ("reset count minutes", span(window, 60)),
                ("bad lockout attempt", threshold.into()),
            ],
        };
        let changed = self.server.accounts.administration.set_policies(policies).await;
        changed.map_err(|why| match self.refused(why, Kind::User) {
            Status::NOT_SUPPORTED => Status::INVALID_PARAMETER,
            status => status,
        })?;
        self.log("sets the account policies", "");
        Ok(())
    }
}

/// Returns an interval of the protocol in multiples of `unit` seconds; -1 for never.
fn span(interval: i64, unit: i64) -> i64 {
    if interval == i64::MIN { -1 } else { interval.saturating_neg() / (10_000_000 * unit) }
}

fn membership(names: Vec<String>, add: bool) -> GroupChange {
    match add {
        true => GroupChange { add: names, ..Default::default() },
        false => GroupChange { remove: names, ..Default::default() },
    }
}

#[cfg(test)]
mod tests;
