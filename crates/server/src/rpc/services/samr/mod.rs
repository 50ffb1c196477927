//! The security account manager's calls ([MS-SAMR] 3.1.5): enumeration of users and groups, changing one's own
//! password, and changes by administrators.
//!
//! Enumeration and account information are available to users with an account, because user pickers need them; Samba
//! and domain controllers provide them too. Anonymous and guest users can access domains and password policies, which
//! they need to change an expired password.

mod administer;
mod change;
mod enumerations;
mod objects;
mod positions;

use std::ops::Deref;
use std::time::Duration;

use proto::dtyp::{AccessMask, Sid};
use proto::rpc::ndr::{self, ContextHandle};
use proto::rpc::pdu::{FAULT_CONTEXT_MISMATCH, SyntaxId};
use proto::rpc::samr::{
    self, ChangePassword, ChangePassword4, Connect, Connect2, Connect4, DomainInformation, DomainInformationClass,
    DomainPolicy, LookupDomain, OpenDomain, RidName, opnum, server_rights,
};
use proto::status::Status;

use self::positions::Positions;
use crate::accounts::{AccountPolicy, Unavailable};
use crate::rpc::interface::{Call, Interface, Operation, Results, operations};

/// The security account manager.
pub(super) struct Samr;

impl Interface for Samr {
    fn pipe(&self) -> &'static str {
        "samr"
    }

    fn syntax(&self) -> SyntaxId {
        samr::INTERFACE
    }

    fn operations(&self) -> &'static [Operation] {
        operations![
            (opnum::SAMR_CONNECT, "SamrConnect", SamrCall::connect),
            (opnum::SAMR_CLOSE_HANDLE, "SamrCloseHandle", SamrCall::close),
            (opnum::SAMR_SET_SECURITY_OBJECT, "SamrSetSecurityObject", refuse),
            (opnum::SAMR_LOOKUP_DOMAIN_IN_SAM_SERVER, "SamrLookupDomainInSamServer", SamrCall::lookup_domain),
            (
                opnum::SAMR_ENUMERATE_DOMAINS_IN_SAM_SERVER,
                "SamrEnumerateDomainsInSamServer",
                SamrCall::enumerate_domains
            ),
            (opnum::SAMR_OPEN_DOMAIN, "SamrOpenDomain", SamrCall::open_domain),
            (opnum::SAMR_QUERY_INFORMATION_DOMAIN, "SamrQueryInformationDomain", SamrCall::query_domain),
            (opnum::SAMR_SET_INFORMATION_DOMAIN, "SamrSetInformationDomain", SamrCall::set_domain),
            (opnum::SAMR_CREATE_GROUP_IN_DOMAIN, "SamrCreateGroupInDomain", SamrCall::create_group),
            (opnum::SAMR_ENUMERATE_GROUPS_IN_DOMAIN, "SamrEnumerateGroupsInDomain", SamrCall::enumerate_groups),
            (opnum::SAMR_CREATE_USER_IN_DOMAIN, "SamrCreateUserInDomain", SamrCall::create_user),
            (opnum::SAMR_ENUMERATE_USERS_IN_DOMAIN, "SamrEnumerateUsersInDomain", SamrCall::enumerate_users),
            (opnum::SAMR_CREATE_ALIAS_IN_DOMAIN, "SamrCreateAliasInDomain", SamrCall::create_alias),
            (opnum::SAMR_ENUMERATE_ALIASES_IN_DOMAIN, "SamrEnumerateAliasesInDomain", SamrCall::enumerate_aliases),
            (opnum::SAMR_GET_ALIAS_MEMBERSHIP, "SamrGetAliasMembership", SamrCall::get_alias_membership),
            (opnum::SAMR_LOOKUP_NAMES_IN_DOMAIN, "SamrLookupNamesInDomain", SamrCall::lookup_names),
            (opnum::SAMR_LOOKUP_IDS_IN_DOMAIN, "SamrLookupIdsInDomain", SamrCall::lookup_ids),
            (opnum::SAMR_OPEN_GROUP, "SamrOpenGroup", SamrCall::open_group),
            (opnum::SAMR_QUERY_INFORMATION_GROUP, "SamrQueryInformationGroup", SamrCall::query_group),
            (opnum::SAMR_SET_INFORMATION_GROUP, "SamrSetInformationGroup", SamrCall::set_group),
            (opnum::SAMR_ADD_MEMBER_TO_GROUP, "SamrAddMemberToGroup", SamrCall::add_member_to_group),
            (opnum::SAMR_DELETE_GROUP, "SamrDeleteGroup", SamrCall::delete_group),
            (opnum::SAMR_REMOVE_MEMBER_FROM_GROUP, "SamrRemoveMemberFromGroup", SamrCall::remove_member_from_group),
            (opnum::SAMR_GET_MEMBERS_IN_GROUP, "SamrGetMembersInGroup", SamrCall::get_members_in_group),
            (opnum::SAMR_SET_MEMBER_ATTRIBUTES_OF_GROUP, "SamrSetMemberAttributesOfGroup", refuse),
            (opnum::SAMR_OPEN_ALIAS, "SamrOpenAlias", SamrCall::open_alias),
            (opnum::SAMR_QUERY_INFORMATION_ALIAS, "SamrQueryInformationAlias", SamrCall::query_alias),
            (opnum::SAMR_SET_INFORMATION_ALIAS, "SamrSetInformationAlias", SamrCall::set_alias),
            (opnum::SAMR_DELETE_ALIAS, "SamrDeleteAlias", SamrCall::delete_alias),
            (opnum::SAMR_ADD_MEMBER_TO_ALIAS, "SamrAddMemberToAlias", SamrCall::add_to_alias),
            (opnum::SAMR_REMOVE_MEMBER_FROM_ALIAS, "SamrRemoveMemberFromAlias", SamrCall::remove_from_alias),
            (opnum::SAMR_GET_MEMBERS_IN_ALIAS, "SamrGetMembersInAlias", SamrCall::get_members_in_alias),
            (opnum::SAMR_OPEN_USER, "SamrOpenUser", SamrCall::open_user),
            (opnum::SAMR_DELETE_USER, "SamrDeleteUser", SamrCall::delete_user),
            (opnum::SAMR_QUERY_INFORMATION_USER, "SamrQueryInformationUser", SamrCall::query_user),
            (opnum::SAMR_SET_INFORMATION_USER, "SamrSetInformationUser", SamrCall::set_user),
            (opnum::SAMR_GET_GROUPS_FOR_USER, "SamrGetGroupsForUser", SamrCall::get_groups_for_user),
            (opnum::SAMR_QUERY_DISPLAY_INFORMATION, "SamrQueryDisplayInformation", SamrCall::query_display),
            (
                opnum::SAMR_GET_USER_DOMAIN_PASSWORD_INFORMATION,
                "SamrGetUserDomainPasswordInformation",
                SamrCall::get_user_password_information
            ),
            (
                opnum::SAMR_REMOVE_MEMBER_FROM_FOREIGN_DOMAIN,
                "SamrRemoveMemberFromForeignDomain",
                SamrCall::remove_from_foreign_domain
            ),
            (opnum::SAMR_QUERY_INFORMATION_DOMAIN_2, "SamrQueryInformationDomain2", SamrCall::query_domain),
            (opnum::SAMR_QUERY_INFORMATION_USER_2, "SamrQueryInformationUser2", SamrCall::query_user),
            (opnum::SAMR_QUERY_DISPLAY_INFORMATION_2, "SamrQueryDisplayInformation2", SamrCall::query_display),
            (opnum::SAMR_CREATE_USER_2_IN_DOMAIN, "SamrCreateUser2InDomain", SamrCall::create_user_2),
            (opnum::SAMR_QUERY_DISPLAY_INFORMATION_3, "SamrQueryDisplayInformation3", SamrCall::query_display),
            (opnum::SAMR_ADD_MULTIPLE_MEMBERS_TO_ALIAS, "SamrAddMultipleMembersToAlias", SamrCall::add_many_to_alias),
            (
                opnum::SAMR_REMOVE_MULTIPLE_MEMBERS_FROM_ALIAS,
                "SamrRemoveMultipleMembersFromAlias",
                SamrCall::remove_many_from_alias
            ),
            (opnum::SAMR_UNICODE_CHANGE_PASSWORD_USER_2, "SamrUnicodeChangePasswordUser2", SamrCall::change_password),
            (
                opnum::SAMR_GET_DOMAIN_PASSWORD_INFORMATION,
                "SamrGetDomainPasswordInformation",
                SamrCall::get_password_information
            ),
            (opnum::SAMR_CONNECT_2, "SamrConnect2", SamrCall::connect_2),
            (opnum::SAMR_SET_INFORMATION_USER_2, "SamrSetInformationUser2", SamrCall::set_user),
            (opnum::SAMR_CONNECT_4, "SamrConnect4", SamrCall::connect_4),
            (opnum::SAMR_CONNECT_5, "SamrConnect5", SamrCall::connect_5),
            (opnum::SAMR_RID_TO_SID, "SamrRidToSid", SamrCall::rid_to_sid),
            (opnum::SAMR_UNICODE_CHANGE_PASSWORD_USER_4, "SamrUnicodeChangePasswordUser4", SamrCall::change_password_4),
        ]
    }
}

/// The domain of the built-in groups.
const BUILTIN: &str = "Builtin";

/// Refuses a call that sets a security descriptor or the attributes of a membership, which are fixed.
async fn refuse(_: &Call<'_>, (): ()) -> Vec<u8> {
    ndr::status_response(Status::ACCESS_DENIED)
}

/// The domains of the account database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SamDomain {
    /// The domain of the server's accounts.
    Own,
    /// BUILTIN.
    Builtin,
}

/// The object of a context handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Object {
    /// The account database ([MS-SAMR] 3.1.1.10, "Server"), with the granted rights.
    Server(u32),
    /// A domain of the account database.
    Domain(SamDomain),
    /// A user of the server's domain, by RID.
    User(u32),
    /// A group of the server's domain.
    Group(u32),
    /// An alias.
    Alias(SamDomain, u32),
}

/// An object, and where enumerations with its handle continue.
struct Opened {
    object: Object,
    positions: Positions,
}

/// The context of a call to this service.
#[derive(Clone, Copy)]
struct SamrCall<'a>(&'a Call<'a>);

impl<'a> From<&'a Call<'a>> for SamrCall<'a> {
    fn from(call: &'a Call<'a>) -> Self {
        SamrCall(call)
    }
}

impl<'a> Deref for SamrCall<'a> {
    type Target = Call<'a>;

    fn deref(&self) -> &Call<'a> {
        self.0
    }
}

/// Maps a back-end failure to a status, and logs the reason.
impl From<Unavailable> for Status {
    fn from(Unavailable(why): Unavailable) -> Status {
        tracing::warn!(why, "the account back end is unavailable");
        Status::NO_LOGON_SERVERS
    }
}

impl SamrCall<'_> {
    fn get(&self, handle: &ContextHandle) -> Option<Object> {
        self.handles.lock().get::<Opened>(handle).map(|opened| opened.object)
    }

    /// Returns the domain of `handle`, if the caller may see its members.
    fn members_of(&self, handle: &ContextHandle) -> Result<SamDomain, Status> {
        match self.get(handle) {
            Some(Object::Domain(domain)) => self.check_somebody().map(|()| domain),
            Some(_) => Err(Status::OBJECT_TYPE_MISMATCH),
            None => Err(Status::INVALID_HANDLE),
        }
    }

    /// Refuses anonymous and guest users.
    fn check_somebody(&self) -> Result<(), Status> {
        if self.has_account() { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Returns whether the caller may connect; `restrict anonymous` refuses anonymous users.
    fn may_connect(&self) -> bool {
        !self.is_anonymous() || self.server.policy().restrict_anonymous < 1
    }

    /// Returns the rights of a handle of the server for `desired` access ([MS-SAMR] 3.1.5.1.1, 3.1.2.1). Administrators
    /// have all, other users those to enumerate and to find domains.
    async fn server_access(&self, desired: u32) -> Result<u32, Status> {
        use proto::rpc::samr::server_rights::{ALL, EXECUTE, READ, WRITE};
        const GENERIC: [(AccessMask, u32); 4] = [
            (AccessMask::GENERIC_READ, READ),
            (AccessMask::GENERIC_WRITE, WRITE),
            (AccessMask::GENERIC_EXECUTE, EXECUTE),
            (AccessMask::GENERIC_ALL, ALL),
        ];
        if !self.may_connect() {
            return Err(Status::ACCESS_DENIED);
        }
        let has = |mask: AccessMask| desired & mask.0 != 0;
        let special = GENERIC.iter().fold(AccessMask::MAXIMUM_ALLOWED.0, |all, (mask, _)| all | mask.0);
        let mut wanted = desired & !special;
        wanted |= GENERIC.iter().filter(|(mask, _)| has(*mask)).fold(0, |all, (_, rights)| all | rights);
        let allowed = match self.is_administrator().await {
            true => ALL | AccessMask::ACCESS_SYSTEM_SECURITY.0,
            false => READ | EXECUTE,
        };
        if wanted & !allowed != 0 {
            return Err(Status::ACCESS_DENIED);
        }
        Ok(if has(AccessMask::MAXIMUM_ALLOWED) { allowed } else { wanted })
    }

    /// Checks that `handle` is one of the server and has `right`.
    fn check_server(&self, handle: &ContextHandle, right: u32) -> Result<(), Status> {
        match self.get(handle) {
            Some(Object::Server(rights)) if rights & right == 0 => Err(Status::ACCESS_DENIED),
            Some(Object::Server(_)) => Ok(()),
            _ => Err(Status::INVALID_HANDLE),
        }
    }

    fn open(&self, object: Object) -> (ContextHandle, Status) {
        let opened = Opened { object, positions: Positions::default() };
        match self.handles.lock().open(opened, &*self.server.environment) {
            Some(handle) => (handle, Status::SUCCESS),
            None => ([0; 20], Status::INSUFFICIENT_RESOURCES),
        }
    }

    fn opened(&self, object: Result<Object, Status>) -> Vec<u8> {
        let (handle, status) = object.map_or_else(|status| ([0; 20], status), |object| self.open(object));
        ndr::handle_response(&handle, status)
    }

    /// Opens the server ([MS-SAMR] 3.1.5.1.4).
    async fn connect(self, Connect(desired): Connect) -> Vec<u8> {
        self.opened(self.server_access(desired).await.map(Object::Server))
    }

    /// Opens the server ([MS-SAMR] 3.1.5.1.3).
    async fn connect_2(self, Connect2(desired): Connect2) -> Vec<u8> {
        self.opened(self.server_access(desired).await.map(Object::Server))
    }

    /// Opens the server ([MS-SAMR] 3.1.5.1.2).
    async fn connect_4(self, Connect4(desired): Connect4) -> Vec<u8> {
        self.opened(self.server_access(desired).await.map(Object::Server))
    }

    /// Opens the server ([MS-SAMR] 3.1.5.1.1), and also returns a revision.
    async fn connect_5(self, Connect2(desired): Connect2) -> Vec<u8> {
        let opened = self.server_access(desired).await.map(|rights| self.open(Object::Server(rights)));
        let (handle, status) = opened.unwrap_or_else(|status| ([0; 20], status));
        samr::connect_5_response(&handle, status)
    }

    async fn close(self, handle: ContextHandle) -> Vec<u8> {
        let closed = self.handles.lock().close(&handle);
        ndr::handle_response(&[0; 20], if closed { Status::SUCCESS } else { Status::INVALID_HANDLE })
    }

    /// Opens a domain ([MS-SAMR] 3.1.5.1.5). As in Windows, a handle of another type is a fault.
    async fn open_domain(self, asked: OpenDomain) -> Results {
        let checked = self.check_server(&asked.handle, server_rights::LOOKUP_DOMAIN);
        if checked == Err(Status::INVALID_HANDLE) {
            return Err(FAULT_CONTEXT_MISMATCH);
        }
        let found = || self.domain_of(&asked.sid).map(Object::Domain).ok_or(Status::NO_SUCH_DOMAIN);
        Ok(self.opened(checked.and_then(|()| found())))
    }

    /// Enumerates the domains ([MS-SAMR] 3.1.5.2.1).
    async fn enumerate_domains(self, (handle, from): (ContextHandle, u32)) -> Vec<u8> {
        if let Err(status) = self.check_server(&handle, server_rights::ENUMERATE_DOMAINS) {
            return samr::no_enumeration_response(status);
        }
        let own = self.server.policy().netbios_name.clone();
        let names = [(0, own), (1, BUILTIN.to_owned())].map(|(rid, name)| RidName { rid, name });
        let from = (from as usize).min(names.len());
        samr::enumeration_response(names.len() as u32, &names[from..], Status::SUCCESS)
    }

    /// Returns the SID of a domain ([MS-SAMR] 3.1.5.11.1).
    async fn lookup_domain(self, asked: LookupDomain) -> Vec<u8> {
        match self.check_server(&asked.handle, server_rights::LOOKUP_DOMAIN) {
            Ok(()) if asked.name.is_empty() => samr::no_information_response(Status::INVALID_PARAMETER),
            Ok(()) => samr::lookup_domain_response(self.domain_named(&asked.name).as_ref()),
            Err(status) => samr::no_information_response(status),
        }
    }

    async fn change_password(self, asked: ChangePassword) -> Vec<u8> {
        let asked = change::Asked::Sealed(&asked);
        ndr::status_response(change::change_password(&asked, self.server, self.caller).await).to_vec()
    }

    async fn change_password_4(self, asked: ChangePassword4) -> Vec<u8> {
        let asked = change::Asked::Aes(&asked);
        ndr::status_response(change::change_password(&asked, self.server, self.caller).await).to_vec()
    }

    async fn get_password_information(self, (): ()) -> Vec<u8> {
        samr::password_information_response(self.min_password_length())
    }

    async fn get_user_password_information(self, _: ContextHandle) -> Vec<u8> {
        samr::password_information_response(self.min_password_length())
    }

    fn sid(&self, domain: SamDomain) -> Sid {
        match domain {
            SamDomain::Own => self.server.accounts.ids.domain().sid(),
            SamDomain::Builtin => Sid::of(5, [32]),
        }
    }

    /// Returns the SID of an account or group in `domain`.
    fn with_rid(&self, domain: SamDomain, rid: u32) -> Sid {
        match domain {
            SamDomain::Own => self.server.accounts.ids.domain().with_rid(rid),
            SamDomain::Builtin => Sid::of(5, [32, rid]),
        }
    }

    fn domain_of(&self, sid: &Sid) -> Option<SamDomain> {
        [SamDomain::Own, SamDomain::Builtin].into_iter().find(|domain| self.sid(*domain) == *sid)
    }

    /// Returns the name of `domain`.
    fn name(&self, domain: SamDomain) -> String {
        match domain {
            SamDomain::Own => self.server.policy().netbios_name.clone(),
            SamDomain::Builtin => BUILTIN.to_owned(),
        }
    }

    fn domain_named(&self, name: &str) -> Option<Sid> {
        let all = [SamDomain::Own, SamDomain::Builtin];
        let found = all.into_iter().find(|domain| name.eq_ignore_ascii_case(&self.name(*domain)));
        found.map(|domain| self.sid(domain))
    }

    fn min_password_length(&self) -> u16 {
        u16::try_from(self.server.accounts.authenticator.policy().min_password_length).unwrap_or(u16::MAX)
    }

    /// Returns domain information ([MS-SAMR] 3.1.5.5.1).
    async fn query_domain(self, (handle, class): (ContextHandle, DomainInformationClass)) -> Vec<u8> {
        let server = self.server;
        let Some(Object::Domain(domain)) = self.get(&handle) else {
            return samr::no_information_response(Status::INVALID_HANDLE);
        };
        let counts = match class.counts() {
            true => match self.counts(domain).await {
                Ok(counts) => counts,
                Err(status) => return samr::no_information_response(status),
            },
            false => [0; 3],
        };
        let about = DomainInformation {
            policy: domain_policy(&server.accounts.authenticator.policy()),
            name: self.name(domain),
            workgroup: match domain {
                SamDomain::Own => server.policy().workgroup.clone(),
                SamDomain::Builtin => self.name(domain),
            },
            server: server.policy().netbios_name.clone(),
            comment: if domain == SamDomain::Own { server.policy().server_string.clone() } else { String::new() },
            counts,
        };
        samr::domain_information_response(class, &about)
            .unwrap_or_else(|| samr::no_information_response(Status::INVALID_INFO_CLASS))
    }
}

/// Converts the account policies to the protocol's format.
fn domain_policy(policy: &AccountPolicy) -> DomainPolicy {
    let never = i64::MIN;
    let interval = |time: Duration| i64::try_from(time.as_nanos() / 100).map_or(never, |ticks| -ticks);
    let short = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    DomainPolicy {
        min_password_length: short(policy.min_password_length),
        password_history: short(policy.password_history),
        max_password_age: policy.max_password_age.map_or(never, interval),
        min_password_age: interval(policy.min_password_age),
        lockout_duration: policy.lockout_duration.map_or(never, interval),
        lockout_window: interval(policy.lockout_reset),
        lockout_threshold: short(policy.lockout_attempts),
    }
}

#[cfg(test)]
mod tests;
