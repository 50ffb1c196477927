//! The local security authority's calls ([MS-LSAT] 3.1.4, [MS-LSAD] 3.1.4): names for the Security tab, and the
//! server's name. All calls are read-only. Anonymous and guest users can look up only the names and SIDs that every
//! server has, as in samr.

use std::sync::Arc;

use parking_lot::Mutex;
use proto::dtyp::Sid;
use proto::rpc::lsarpc::{
    self, Call, Domains, Generation, LookupLevel, PolicyInformationClass, ReferencedDomain, SidNameUse, TranslatedName,
    TranslatedSid,
};
use proto::rpc::ndr::{self, ContextHandle};
use proto::rpc::pdu::{FAULT_BAD_STUB, FAULT_OP_RANGE};
use proto::status::Status;

use crate::accounts::Unavailable;
use crate::accounts::principals::{self, Principal, Realm};
use crate::answer::yield_now;
use crate::named_pipe::Caller;
use crate::rpc::context_handles::{ContextHandles, Object};
use crate::state::Server;

/// Look-ups after which the task yields, because cached ones complete without waiting.
const AT_A_TIME: usize = 64;

/// Returns the encoded results of call `number`, or the status of a fault.
pub(in crate::rpc) async fn call(
    number: u16,
    stub: &[u8],
    handles: &Mutex<ContextHandles>,
    server: &Arc<Server>,
    caller: &dyn Caller,
) -> Result<Vec<u8>, u32> {
    let call = Call::decode(number, stub).map_err(|_| FAULT_BAD_STUB)?.ok_or(FAULT_OP_RANGE)?;
    let known = |handle: &ContextHandle| handles.lock().get(handle) == Some(Object::Policy);
    Ok(match call {
        Call::OpenPolicy => open(handles, server, caller),
        Call::Close(handle) => {
            let closed = handles.lock().close(&handle);
            ndr::handle_response(&[0; 20], if closed { Status::SUCCESS } else { Status::INVALID_HANDLE })
        }
        Call::QueryInformation(handle, class) => information(known(&handle), class, server),
        Call::EnumerateAccounts(handle, _) | Call::EnumerateTrustedDomains(handle) if !known(&handle) => {
            failed(3, Status::INVALID_HANDLE)
        }
        // The accounts to which Windows assigns privileges.
        Call::EnumerateAccounts(_, from) => lsarpc::accounts_response(
            from,
            &[Sid::EVERYONE, Sid::BUILTIN_ADMINISTRATORS, Sid::BUILTIN_USERS, Sid::BUILTIN_GUESTS],
        ),
        Call::EnumerateTrustedDomains(_) => lsarpc::no_trusted_domains_response(),
        Call::LookupNames(handle, names, level, generation) => match check(known(&handle), level) {
            Ok(()) => lookup_names(&names, generation, server, caller).await,
            Err(status) => no_lookup(status),
        },
        Call::LookupSids(handle, sids, level, generation) => match check(known(&handle), level) {
            Ok(()) => lookup_sids(&sids, level, generation, server, caller).await,
            Err(status) => no_lookup(status),
        },
        Call::GetUserName(with_domain) => user_name(with_domain, caller),
    })
}

/// Opens a policy handle ([MS-LSAT] 3.1.4.1). `restrict anonymous` refuses it to anonymous users.
fn open(handles: &Mutex<ContextHandles>, server: &Arc<Server>, caller: &dyn Caller) -> Vec<u8> {
    let anonymous = caller.user().is_none_or(|user| user.anonymous);
    if anonymous && server.policy().restrict_anonymous >= 1 {
        return ndr::handle_response(&[0; 20], Status::ACCESS_DENIED);
    }
    let handle = handles.lock().open(Object::Policy, &*server.environment);
    match handle {
        Some(handle) => ndr::handle_response(&handle, Status::SUCCESS),
        None => ndr::handle_response(&[0; 20], Status::INSUFFICIENT_RESOURCES),
    }
}

fn check(known: bool, level: LookupLevel) -> Result<(), Status> {
    if !known {
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

fn information(known: bool, class: PolicyInformationClass, server: &Arc<Server>) -> Vec<u8> {
    if !known {
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

/// Returns the caller's name ([MS-LSAT] 3.1.4.4).
fn user_name(with_domain: bool, caller: &dyn Caller) -> Vec<u8> {
    let user = caller.user();
    let (name, domain) = match user.as_ref().filter(|user| !user.anonymous) {
        Some(user) => (user.name.as_str(), user.domain.as_str()),
        None => ("Anonymous Logon", "NT Authority"),
    };
    lsarpc::user_name_response(name, with_domain.then_some(domain))
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

async fn lookup_names(names: &[String], generation: Generation, server: &Arc<Server>, caller: &dyn Caller) -> Vec<u8> {
    let policy = server.policy();
    let (mut domains, mut sids) = (Referenced::default(), Vec::with_capacity(names.len()));
    let has_account = crate::rpc::pipe::has_account(caller);
    for (number, name) in names.iter().enumerate() {
        if number % AT_A_TIME == AT_A_TIME - 1 {
            yield_now().await;
        }
        let found = match has_account {
            true => answered(principals::by_name(&*server.accounts.ids, &policy.netbios_name, name).await),
            false => principals::well_known_name(server.accounts.ids.domain(), &policy.netbios_name, name),
        };
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

async fn lookup_sids(
    sids: &[Sid],
    level: LookupLevel,
    generation: Generation,
    server: &Arc<Server>,
    caller: &dyn Caller,
) -> Vec<u8> {
    let policy = server.policy();
    let own = server.accounts.ids.domain().sid();
    let (mut domains, mut names) = (Referenced::default(), Vec::with_capacity(sids.len()));
    let has_account = crate::rpc::pipe::has_account(caller);
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
