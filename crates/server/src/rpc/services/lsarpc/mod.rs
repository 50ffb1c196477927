//! The local security authority's calls ([MS-LSAT] 3.1.4, [MS-LSAD] 3.1.4): names for the Security tab, the server's
//! name, privileges and the accounts that have them, and secrets. Anonymous and guest users can look up only the names
//! and SIDs that every server has, as in samr.

mod accounts;
mod objects;
mod privileges;
mod secrets;

use proto::rpc::lsarpc::{
    self, Domains, Generation, GetUserName, LookupLevel, LookupNames, LookupSids, PolicyInformationClass,
    ReferencedDomain, SidNameUse, TranslatedName, TranslatedSid, opnum,
};
use proto::rpc::ndr::{self, ContextHandle};
use proto::rpc::pdu::{FAULT_ACCESS_DENIED, FAULT_CONTEXT_MISMATCH, SyntaxId};
use proto::status::Status;

use crate::accounts::Unavailable;
use crate::accounts::principals::{self, Principal, Realm};
use crate::answer::yield_now;
use crate::policy::limits::RPC_LOOKUP_STUB_BYTES;
use crate::rpc::interface::{Call, Interface, Operation, Results, operations};

/// Look-ups after which the task yields, because cached ones complete without waiting.
const AT_A_TIME: usize = 64;

/// The local security authority.
pub(super) struct Lsarpc;

impl Interface for Lsarpc {
    fn pipe(&self) -> &'static str {
        "lsarpc"
    }

    fn syntax(&self) -> SyntaxId {
        lsarpc::INTERFACE
    }

    fn max_stub(&self) -> usize {
        RPC_LOOKUP_STUB_BYTES
    }

    fn operations(&self) -> &'static [Operation] {
        operations![
            (opnum::LSAR_CLOSE, "LsarClose", close),
            (opnum::LSAR_DELETE, "LsarDelete", objects::not_supported),
            (opnum::LSAR_ENUMERATE_PRIVILEGES, "LsarEnumeratePrivileges", privileges::enumerate_privileges),
            (opnum::LSAR_QUERY_SECURITY_OBJECT, "LsarQuerySecurityObject", objects::query_security),
            (opnum::LSAR_OPEN_POLICY, "LsarOpenPolicy", open_policy),
            (opnum::LSAR_QUERY_INFORMATION_POLICY, "LsarQueryInformationPolicy", query_information),
            (opnum::LSAR_CREATE_ACCOUNT, "LsarCreateAccount", accounts::create_account),
            (opnum::LSAR_ENUMERATE_ACCOUNTS, "LsarEnumerateAccounts", accounts::enumerate_accounts),
            (opnum::LSAR_ENUMERATE_TRUSTED_DOMAINS, "LsarEnumerateTrustedDomains", enumerate_trusted_domains),
            (opnum::LSAR_LOOKUP_NAMES, "LsarLookupNames", lookup_names_1),
            (opnum::LSAR_LOOKUP_SIDS, "LsarLookupSids", lookup_sids_1),
            (opnum::LSAR_CREATE_SECRET, "LsarCreateSecret", secrets::create_secret),
            (opnum::LSAR_OPEN_ACCOUNT, "LsarOpenAccount", accounts::open_account),
            (
                opnum::LSAR_ENUMERATE_PRIVILEGES_ACCOUNT,
                "LsarEnumeratePrivilegesAccount",
                accounts::enumerate_privileges_account
            ),
            (opnum::LSAR_ADD_PRIVILEGES_TO_ACCOUNT, "LsarAddPrivilegesToAccount", accounts::add_privileges),
            (
                opnum::LSAR_REMOVE_PRIVILEGES_FROM_ACCOUNT,
                "LsarRemovePrivilegesFromAccount",
                accounts::remove_privileges
            ),
            (opnum::LSAR_GET_SYSTEM_ACCESS_ACCOUNT, "LsarGetSystemAccessAccount", accounts::system_access),
            (opnum::LSAR_SET_SYSTEM_ACCESS_ACCOUNT, "LsarSetSystemAccessAccount", accounts::set_system_access),
            (opnum::LSAR_OPEN_SECRET, "LsarOpenSecret", secrets::open_secret),
            (opnum::LSAR_SET_SECRET, "LsarSetSecret", secrets::set_secret),
            (opnum::LSAR_QUERY_SECRET, "LsarQuerySecret", secrets::query_secret),
            (opnum::LSAR_LOOKUP_PRIVILEGE_VALUE, "LsarLookupPrivilegeValue", privileges::privilege_value),
            (opnum::LSAR_LOOKUP_PRIVILEGE_NAME, "LsarLookupPrivilegeName", privileges::privilege_name),
            (
                opnum::LSAR_LOOKUP_PRIVILEGE_DISPLAY_NAME,
                "LsarLookupPrivilegeDisplayName",
                privileges::privilege_display_name
            ),
            (opnum::LSAR_DELETE_OBJECT, "LsarDeleteObject", objects::delete_object),
            (
                opnum::LSAR_ENUMERATE_ACCOUNTS_WITH_USER_RIGHT,
                "LsarEnumerateAccountsWithUserRight",
                accounts::enumerate_accounts_with_right
            ),
            (opnum::LSAR_ENUMERATE_ACCOUNT_RIGHTS, "LsarEnumerateAccountRights", accounts::enumerate_account_rights),
            (opnum::LSAR_ADD_ACCOUNT_RIGHTS, "LsarAddAccountRights", accounts::add_account_rights),
            (opnum::LSAR_REMOVE_ACCOUNT_RIGHTS, "LsarRemoveAccountRights", accounts::remove_account_rights),
            (opnum::LSAR_STORE_PRIVATE_DATA, "LsarStorePrivateData", secrets::store_private_data),
            (opnum::LSAR_RETRIEVE_PRIVATE_DATA, "LsarRetrievePrivateData", secrets::retrieve_private_data),
            (opnum::LSAR_OPEN_POLICY_2, "LsarOpenPolicy2", open_policy),
            (opnum::LSAR_GET_USER_NAME, "LsarGetUserName", user_name),
            (opnum::LSAR_QUERY_INFORMATION_POLICY_2, "LsarQueryInformationPolicy2", query_information),
            (opnum::LSAR_ENUMERATE_TRUSTED_DOMAINS_EX, "LsarEnumerateTrustedDomainsEx", enumerate_trusted_domains),
            (opnum::LSAR_QUERY_DOMAIN_INFORMATION_POLICY, "LsarQueryDomainInformationPolicy", domain_policy),
            (opnum::LSAR_LOOKUP_SIDS_2, "LsarLookupSids2", lookup_sids_2),
            (opnum::LSAR_LOOKUP_NAMES_2, "LsarLookupNames2", lookup_names_2),
            (opnum::LSAR_LOOKUP_NAMES_3, "LsarLookupNames3", lookup_names_3),
            (opnum::LSAR_LOOKUP_SIDS_3, "LsarLookupSids3", only_for_controllers),
            (opnum::LSAR_LOOKUP_NAMES_4, "LsarLookupNames4", only_for_controllers),
        ]
    }
}

/// The object of a context handle: the policy ([MS-LSAD] 2.2.2.1).
struct PolicyObject;

fn is_open(call: &Call<'_>, handle: &ContextHandle) -> bool {
    call.handles.lock().get::<PolicyObject>(handle).is_some()
}

/// Closes a handle. As in Windows, an unknown one is a fault (C706 appendix N).
async fn close(call: &Call<'_>, handle: ContextHandle) -> Results {
    match call.handles.lock().close(&handle) {
        true => Ok(ndr::handle_response(&[0; 20], Status::SUCCESS)),
        false => Err(FAULT_CONTEXT_MISMATCH),
    }
}

/// Opens a policy handle ([MS-LSAT] 3.1.4.1). `restrict anonymous` refuses it to anonymous users.
async fn open_policy(call: &Call<'_>, (): ()) -> Vec<u8> {
    if call.is_anonymous() && call.server.policy().restrict_anonymous >= 1 {
        return ndr::handle_response(&[0; 20], Status::ACCESS_DENIED);
    }
    let handle = call.handles.lock().open(PolicyObject, &*call.server.environment);
    match handle {
        Some(handle) => ndr::handle_response(&handle, Status::SUCCESS),
        None => ndr::handle_response(&[0; 20], Status::INSUFFICIENT_RESOURCES),
    }
}

async fn enumerate_trusted_domains(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    match is_open(call, &handle) {
        true => lsarpc::no_trusted_domains_response(),
        false => failed(3, Status::INVALID_HANDLE),
    }
}

async fn lookup_names_1(call: &Call<'_>, asked: LookupNames) -> Vec<u8> {
    lookup_names(call, &asked, Generation::First).await
}

async fn lookup_names_2(call: &Call<'_>, asked: LookupNames) -> Vec<u8> {
    lookup_names(call, &asked, Generation::Second).await
}

async fn lookup_names_3(call: &Call<'_>, asked: LookupNames) -> Vec<u8> {
    lookup_names(call, &asked, Generation::Third).await
}

async fn lookup_sids_1(call: &Call<'_>, asked: LookupSids) -> Vec<u8> {
    lookup_sids(call, &asked, Generation::First).await
}

async fn lookup_sids_2(call: &Call<'_>, asked: LookupSids) -> Vec<u8> {
    lookup_sids(call, &asked, Generation::Second).await
}

/// Refuses a call over a connection that is not the secure channel of a member to its domain controller ([MS-LSAT]
/// 3.1.4.8, 3.1.4.9).
async fn only_for_controllers(_: &Call<'_>, (): ()) -> Results {
    Err(FAULT_ACCESS_DENIED)
}

/// Checks the handle and the level of a look-up.
fn check(call: &Call<'_>, handle: &ContextHandle, level: LookupLevel) -> Result<(), Status> {
    if !is_open(call, handle) {
        return Err(Status::INVALID_HANDLE);
    }
    let defined = (LookupLevel::WORKSTATION.0..=LookupLevel::LAST.0).contains(&level.0);
    if defined { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}

/// Returns empty results: `zeros` counts and null pointers, then the status.
fn failed(zeros: usize, status: Status) -> Vec<u8> {
    let mut stub = vec![0; zeros * 4];
    stub.extend_from_slice(&ndr::status_response(status));
    stub
}

/// Returns no domains, an empty list and a zero count.
fn no_lookup(status: Status) -> Vec<u8> {
    failed(4, status)
}

async fn query_information(call: &Call<'_>, (handle, class): (ContextHandle, PolicyInformationClass)) -> Vec<u8> {
    let server = call.server;
    if !is_open(call, &handle) {
        return failed(1, Status::INVALID_HANDLE);
    }
    let policy = server.policy();
    let domains = Domains {
        account: ReferencedDomain { name: policy.netbios_name.clone(), sid: Some(server.accounts.ids.domain().sid()) },
        primary: ReferencedDomain { name: policy.workgroup.clone(), sid: None },
        dns: String::new(),
    };
    lsarpc::information_response(class, &domains).unwrap_or_else(|| failed(1, Status::INVALID_PARAMETER))
}

/// LsarQueryDomainInformationPolicy ([MS-LSAD] 3.1.4.4.7). The server has no policy for EFS or Kerberos.
async fn domain_policy(call: &Call<'_>, (handle, class): (ContextHandle, PolicyInformationClass)) -> Vec<u8> {
    const EFS: u16 = 2;
    const KERBEROS_TICKET: u16 = 3;
    failed(
        1,
        match class.0 {
            _ if !is_open(call, &handle) => Status::INVALID_HANDLE,
            EFS | KERBEROS_TICKET => Status::OBJECT_NAME_NOT_FOUND,
            _ => Status::INVALID_PARAMETER,
        },
    )
}

/// Returns the caller's name ([MS-LSAT] 3.1.4.4).
async fn user_name(call: &Call<'_>, asked: GetUserName) -> Vec<u8> {
    let user = call.user();
    let (name, domain) = match user.as_ref().filter(|user| !user.anonymous) {
        Some(user) => (user.name.as_str(), user.domain.as_str()),
        None => ("Anonymous Logon", "NT Authority"),
    };
    lsarpc::user_name_response(name, asked.with_domain.then_some(domain))
}

/// The domains that a call's results refer to.
#[derive(Default)]
struct Referenced(Vec<ReferencedDomain>);

impl Referenced {
    /// Returns the index of the domain of `principal`; adds it if necessary. The domain SID is the SID without its RID,
    /// or the whole SID for a domain itself.
    fn note(&mut self, principal: &Principal, server: &str) -> u32 {
        let sid = if principal.kind == SidNameUse::DOMAIN { Some(principal.sid) } else { principal.sid.domain() };
        let name = principal.realm.name(server);
        let there = self.0.iter().position(|domain| domain.name == name && domain.sid == sid);
        let index = there.unwrap_or_else(|| {
            self.0.push(ReferencedDomain { name: name.to_owned(), sid });
            self.0.len() - 1
        });
        index as u32
    }
}

async fn lookup_names(call: &Call<'_>, asked: &LookupNames, generation: Generation) -> Vec<u8> {
    if let Err(status) = check(call, &asked.handle, asked.level) {
        return no_lookup(status);
    }
    let (server, names) = (call.server, &asked.names);
    let policy = server.policy();
    let (mut domains, mut sids) = (Referenced::default(), Vec::with_capacity(names.len()));
    let has_account = call.has_account();
    for (number, name) in names.iter().enumerate() {
        if number % AT_A_TIME == AT_A_TIME - 1 {
            yield_now().await;
        }
        // Windows finds BUILTIN without a name, and a domain by its name and a backslash.
        let (name, is_domain) = match name.strip_suffix('\\') {
            None if name.is_empty() => ("BUILTIN", true),
            None => (name.as_str(), false),
            Some(domain) => (domain, true),
        };
        let found = match has_account {
            true => answered(principals::by_name(&*server.accounts.ids, &policy.netbios_name, name).await),
            false => principals::well_known_name(server.accounts.ids.domain(), &policy.netbios_name, name),
        };
        let found = found.filter(|found| !is_domain || found.kind == SidNameUse::DOMAIN);
        sids.push(match found {
            Some(principal) => TranslatedSid {
                kind: principal.kind,
                sid: Some(principal.sid),
                domain: Some(domains.note(&principal, &policy.netbios_name)),
            },
            None => TranslatedSid { kind: SidNameUse::UNKNOWN, sid: None, domain: None },
        });
    }
    lsarpc::names_response(&domains.0, &sids, generation)
}

async fn lookup_sids(call: &Call<'_>, asked: &LookupSids, generation: Generation) -> Vec<u8> {
    if let Err(status) = check(call, &asked.handle, asked.level) {
        return no_lookup(status);
    }
    let (server, sids, level) = (call.server, &asked.sids, asked.level);
    let policy = server.policy();
    let own = server.accounts.ids.domain().sid();
    let (mut domains, mut names) = (Referenced::default(), Vec::with_capacity(sids.len()));
    let has_account = call.has_account();
    if sids.len() > 1 && has_account {
        server.accounts.ids.expect_sids(sids).await;
    }
    for (number, sid) in sids.iter().enumerate() {
        if number % AT_A_TIME == AT_A_TIME - 1 {
            yield_now().await;
        }
        let found = match has_account {
            true => answered(principals::by_sid(&*server.accounts.ids, sid).await),
            false => principals::well_known_sid(server.accounts.ids.domain(), sid),
        };
        names.push(match found {
            Some(principal) => TranslatedName {
                kind: principal.kind,
                domain: Some(domains.note(&principal, &policy.netbios_name)),
                name: principal.name,
            },
            None => {
                // The RID of a SID in the server's domain, the text form of any other ([MS-LSAT] 3.1.4.9).
                let rid = sid.rid().filter(|_| sid.domain() == Some(own));
                let text = rid.map_or_else(|| sid.to_string(), |rid| format!("{rid:08x}"));
                let unknown =
                    Principal { sid: *sid, kind: SidNameUse::UNKNOWN, realm: Realm::Server, name: String::new() };
                TranslatedName {
                    kind: SidNameUse::UNKNOWN,
                    name: if level == LookupLevel::WORKSTATION { text } else { String::new() },
                    domain: rid.map(|_| domains.note(&unknown, &policy.netbios_name)),
                }
            }
        });
    }
    lsarpc::sids_response(&domains.0, &names, generation)
}

/// Treats a name as unknown if the back end is unavailable, and logs the reason.
fn answered(found: Result<Option<Principal>, Unavailable>) -> Option<Principal> {
    found.unwrap_or_else(|why| {
        tracing::warn!(why = why.0, "a name could not be looked up");
        None
    })
}

#[cfg(test)]
mod tests;
