//! The security account manager's calls ([MS-SAMR] 3.1.5): enumeration of users and groups, and changing one's own
//! password. All other calls are read-only.
//!
//! Enumeration and account information are available to users with an account, because user pickers need them; Samba
//! and domain controllers provide them too. Anonymous and guest users can access domains and password policies, which
//! they need to change an expired password.

mod change;
mod enumerations;
mod objects;
mod positions;

use std::ops::Deref;
use std::time::Duration;

use proto::dtyp::Sid;
use proto::rpc::ndr::{self, ContextHandle};
use proto::rpc::pdu::SyntaxId;
use proto::rpc::samr::{
    self, ChangePassword, DomainInformation, DomainInformationClass, DomainPolicy, LookupDomain, OpenDomain, RidName,
    opnum,
};
use proto::status::Status;

use self::positions::Positions;
use crate::accounts::{AccountPolicy, Unavailable};
use crate::rpc::interface::{Call, Interface, Operation, operations};

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
            (opnum::SAMR_SET_SECURITY_OBJECT, "SamrSetSecurityObject", refuse::<0>),
            (opnum::SAMR_LOOKUP_DOMAIN_IN_SAM_SERVER, "SamrLookupDomainInSamServer", SamrCall::lookup_domain),
            (
                opnum::SAMR_ENUMERATE_DOMAINS_IN_SAM_SERVER,
                "SamrEnumerateDomainsInSamServer",
                SamrCall::enumerate_domains
            ),
            (opnum::SAMR_OPEN_DOMAIN, "SamrOpenDomain", SamrCall::open_domain),
            (opnum::SAMR_QUERY_INFORMATION_DOMAIN, "SamrQueryInformationDomain", SamrCall::query_domain),
            (opnum::SAMR_SET_INFORMATION_DOMAIN, "SamrSetInformationDomain", refuse::<0>),
            (opnum::SAMR_CREATE_GROUP_IN_DOMAIN, "SamrCreateGroupInDomain", refuse::<HANDLE_AND_RID>),
            (opnum::SAMR_ENUMERATE_GROUPS_IN_DOMAIN, "SamrEnumerateGroupsInDomain", SamrCall::enumerate_groups),
            (opnum::SAMR_CREATE_USER_IN_DOMAIN, "SamrCreateUserInDomain", refuse::<HANDLE_AND_RID>),
            (opnum::SAMR_ENUMERATE_USERS_IN_DOMAIN, "SamrEnumerateUsersInDomain", SamrCall::enumerate_users),
            (opnum::SAMR_CREATE_ALIAS_IN_DOMAIN, "SamrCreateAliasInDomain", refuse::<HANDLE_AND_RID>),
            (opnum::SAMR_ENUMERATE_ALIASES_IN_DOMAIN, "SamrEnumerateAliasesInDomain", SamrCall::enumerate_aliases),
            (opnum::SAMR_GET_ALIAS_MEMBERSHIP, "SamrGetAliasMembership", SamrCall::get_alias_membership),
            (opnum::SAMR_LOOKUP_NAMES_IN_DOMAIN, "SamrLookupNamesInDomain", SamrCall::lookup_names),
            (opnum::SAMR_LOOKUP_IDS_IN_DOMAIN, "SamrLookupIdsInDomain", SamrCall::lookup_ids),
            (opnum::SAMR_OPEN_GROUP, "SamrOpenGroup", SamrCall::open_group),
            (opnum::SAMR_QUERY_INFORMATION_GROUP, "SamrQueryInformationGroup", SamrCall::query_group),
            (opnum::SAMR_SET_INFORMATION_GROUP, "SamrSetInformationGroup", refuse::<0>),
            (opnum::SAMR_ADD_MEMBER_TO_GROUP, "SamrAddMemberToGroup", refuse::<0>),
            (opnum::SAMR_DELETE_GROUP, "SamrDeleteGroup", refuse::<HANDLE>),
            (opnum::SAMR_REMOVE_MEMBER_FROM_GROUP, "SamrRemoveMemberFromGroup", refuse::<0>),
            (opnum::SAMR_GET_MEMBERS_IN_GROUP, "SamrGetMembersInGroup", SamrCall::get_members_in_group),
            (opnum::SAMR_SET_MEMBER_ATTRIBUTES_OF_GROUP, "SamrSetMemberAttributesOfGroup", refuse::<0>),
            (opnum::SAMR_OPEN_ALIAS, "SamrOpenAlias", SamrCall::open_alias),
            (opnum::SAMR_QUERY_INFORMATION_ALIAS, "SamrQueryInformationAlias", SamrCall::query_alias),
            (opnum::SAMR_SET_INFORMATION_ALIAS, "SamrSetInformationAlias", refuse::<0>),
            (opnum::SAMR_DELETE_ALIAS, "SamrDeleteAlias", refuse::<HANDLE>),
            (opnum::SAMR_ADD_MEMBER_TO_ALIAS, "SamrAddMemberToAlias", refuse::<0>),
            (opnum::SAMR_REMOVE_MEMBER_FROM_ALIAS, "SamrRemoveMemberFromAlias", refuse::<0>),
            (opnum::SAMR_GET_MEMBERS_IN_ALIAS, "SamrGetMembersInAlias", SamrCall::get_members_in_alias),
            (opnum::SAMR_OPEN_USER, "SamrOpenUser", SamrCall::open_user),
            (opnum::SAMR_DELETE_USER, "SamrDeleteUser", refuse::<HANDLE>),
            (opnum::SAMR_QUERY_INFORMATION_USER, "SamrQueryInformationUser", SamrCall::query_user),
            (opnum::SAMR_SET_INFORMATION_USER, "SamrSetInformationUser", refuse::<0>),
            (opnum::SAMR_GET_GROUPS_FOR_USER, "SamrGetGroupsForUser", SamrCall::get_groups_for_user),
            (opnum::SAMR_QUERY_DISPLAY_INFORMATION, "SamrQueryDisplayInformation", SamrCall::query_display),
            (
                opnum::SAMR_GET_USER_DOMAIN_PASSWORD_INFORMATION,
                "SamrGetUserDomainPasswordInformation",
                SamrCall::get_user_password_information
            ),
            (opnum::SAMR_REMOVE_MEMBER_FROM_FOREIGN_DOMAIN, "SamrRemoveMemberFromForeignDomain", refuse::<0>),
            (opnum::SAMR_QUERY_INFORMATION_DOMAIN_2, "SamrQueryInformationDomain2", SamrCall::query_domain),
            (opnum::SAMR_QUERY_INFORMATION_USER_2, "SamrQueryInformationUser2", SamrCall::query_user),
            (opnum::SAMR_QUERY_DISPLAY_INFORMATION_2, "SamrQueryDisplayInformation2", SamrCall::query_display),
            (opnum::SAMR_CREATE_USER_2_IN_DOMAIN, "SamrCreateUser2InDomain", refuse::<HANDLE_ACCESS_AND_RID>),
            (opnum::SAMR_QUERY_DISPLAY_INFORMATION_3, "SamrQueryDisplayInformation3", SamrCall::query_display),
            (opnum::SAMR_ADD_MULTIPLE_MEMBERS_TO_ALIAS, "SamrAddMultipleMembersToAlias", refuse::<0>),
            (opnum::SAMR_REMOVE_MULTIPLE_MEMBERS_FROM_ALIAS, "SamrRemoveMultipleMembersFromAlias", refuse::<0>),
            (opnum::SAMR_UNICODE_CHANGE_PASSWORD_USER_2, "SamrUnicodeChangePasswordUser2", SamrCall::change_password),
            (
                opnum::SAMR_GET_DOMAIN_PASSWORD_INFORMATION,
                "SamrGetDomainPasswordInformation",
                SamrCall::get_password_information
            ),
            (opnum::SAMR_CONNECT_2, "SamrConnect2", SamrCall::connect),
            (opnum::SAMR_SET_INFORMATION_USER_2, "SamrSetInformationUser2", refuse::<0>),
            (opnum::SAMR_CONNECT_4, "SamrConnect4", SamrCall::connect),
            (opnum::SAMR_CONNECT_5, "SamrConnect5", SamrCall::connect_5),
            (opnum::SAMR_RID_TO_SID, "SamrRidToSid", SamrCall::rid_to_sid),
        ]
    }
}

/// The domain of the built-in groups.
const BUILTIN: &str = "Builtin";

/// Results of refused calls before the status, in units of four bytes.
const HANDLE: usize = 5;
const HANDLE_AND_RID: usize = 6;
const HANDLE_ACCESS_AND_RID: usize = 7;

/// Refuses a call that creates, changes or deletes something. Its results have `RESULTS` units before the status.
async fn refuse<const RESULTS: usize>(_: &Call<'_>, (): ()) -> Vec<u8> {
    let mut stub = vec![0; RESULTS * 4];
    stub.extend_from_slice(&ndr::status_response(Status::ACCESS_DENIED));
    stub
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
    /// The account database ([MS-SAMR] 3.1.1.10, "Server").
    Server,
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

    /// Returns the object that a connecting client opens.
    fn server_object(&self) -> Result<Object, Status> {
        if self.may_connect() { Ok(Object::Server) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Opens the server ([MS-SAMR] 3.1.5.1.1 to 3.1.5.1.3).
    async fn connect(self, (): ()) -> Vec<u8> {
        self.opened(self.server_object())
    }

    /// Opens the server ([MS-SAMR] 3.1.5.1.1), and also returns a revision.
    async fn connect_5(self, (): ()) -> Vec<u8> {
        let (handle, status) = self.server_object().map_or_else(|status| ([0; 20], status), |object| self.open(object));
        samr::connect_5_response(&handle, status)
    }

    async fn close(self, handle: ContextHandle) -> Vec<u8> {
        let closed = self.handles.lock().close(&handle);
        ndr::handle_response(&[0; 20], if closed { Status::SUCCESS } else { Status::INVALID_HANDLE })
    }

    /// Opens a domain ([MS-SAMR] 3.1.5.1.5).
    async fn open_domain(self, asked: OpenDomain) -> Vec<u8> {
        self.opened(match self.get(&asked.handle) {
            Some(Object::Server) => self.domain_of(&asked.sid).map(Object::Domain).ok_or(Status::NO_SUCH_DOMAIN),
            _ => Err(Status::INVALID_HANDLE),
        })
    }

    /// Enumerates the domains ([MS-SAMR] 3.1.5.2.1).
    async fn enumerate_domains(self, (handle, from): (ContextHandle, u32)) -> Vec<u8> {
        if self.get(&handle) != Some(Object::Server) {
            return samr::no_enumeration_response(Status::INVALID_HANDLE);
        }
        let own = self.server.policy().netbios_name.clone();
        let names = [(0, own), (1, BUILTIN.to_owned())].map(|(rid, name)| RidName { rid, name });
        let from = (from as usize).min(names.len());
        samr::enumeration_response(names.len() as u32, &names[from..], Status::SUCCESS)
    }

    /// Returns the SID of a domain ([MS-SAMR] 3.1.5.11.1).
    async fn lookup_domain(self, asked: LookupDomain) -> Vec<u8> {
        match self.get(&asked.handle) {
            Some(Object::Server) => samr::lookup_domain_response(self.domain_named(&asked.name).as_ref()),
            _ => samr::no_information_response(Status::INVALID_HANDLE),
        }
    }

    async fn change_password(self, asked: ChangePassword) -> Vec<u8> {
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
