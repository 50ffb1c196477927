//! The security account manager's calls ([MS-SAMR] 3.1.5): enumeration of users and groups, and changing one's own
//! password. All other calls are read-only.
//!
//! Enumeration and account information are available to users with an account, because user pickers need them; Samba
//! and domain controllers provide them too. Anonymous and guest users can access domains and password policies, which
//! they need to change an expired password.

mod change;
mod lists;
mod objects;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proto::dtyp::Sid;
use proto::rpc::ndr::{self, ContextHandle};
use proto::rpc::pdu::{FAULT_BAD_STUB, FAULT_OP_RANGE};
use proto::rpc::samr::{self, Call, DomainInformation, DomainInformationClass, DomainPolicy, RidName};
use proto::status::Status;

use crate::accounts::{AccountPolicy, Unavailable};
use crate::named_pipe::Caller;
use crate::rpc::context_handles::{ContextHandles, Object, SamDomain};
use crate::state::Server;

/// Returns the encoded results of call `number`, or the status of a fault.
pub(in crate::rpc) async fn call(
    number: u16,
    stub: &[u8],
    handles: &Mutex<ContextHandles>,
    server: &Arc<Server>,
    caller: &dyn Caller,
) -> Result<Vec<u8>, u32> {
    let call = Call::decode(number, stub).map_err(|_| FAULT_BAD_STUB)?.ok_or(FAULT_OP_RANGE)?;
    let asked = Asked { handles, server, caller };
    Ok(match call {
        Call::Connect | Call::Connect5 | Call::Close(_) | Call::OpenDomain(..) | Call::EnumerateDomains(..) => {
            asked.connect(&call)
        }
        Call::LookupDomain(handle, name) => match asked.get(&handle) {
            Some(Object::Sam) => samr::lookup_domain_response(asked.domain_named(&name).as_ref()),
            _ => samr::no_information_response(Status::INVALID_HANDLE),
        },
        Call::QueryDomain(handle, class) => asked.domain(&handle, class).await,
        Call::ChangePassword(change) => ndr::status_response(change::change_password(&change, server, caller).await),
        Call::GetDomainPasswordInformation => samr::password_information_response(asked.min_password_length()),
        Call::EnumerateUsers(handle, from, control) => asked.enumerate_users(&handle, from, control).await,
        Call::EnumerateGroups(handle, from) => asked.enumerate_groups(&handle, from, false).await,
        Call::EnumerateAliases(handle, from) => asked.enumerate_groups(&handle, from, true).await,
        Call::QueryDisplay(handle, query) => asked.display(&handle, query).await,
        call => objects::call(&asked, call).await,
    })
}

/// The domain of the built-in groups.
const BUILTIN: &str = "Builtin";

/// The context of one call.
struct Asked<'a> {
    handles: &'a Mutex<ContextHandles>,
    server: &'a Arc<Server>,
    caller: &'a dyn Caller,
}

/// Maps a back-end failure to a status, and logs the reason.
impl From<Unavailable> for Status {
    fn from(Unavailable(why): Unavailable) -> Status {
        tracing::warn!(why, "the account back end is unavailable");
        Status::NO_LOGON_SERVERS
    }
}

impl Asked<'_> {
    fn get(&self, handle: &ContextHandle) -> Option<Object> {
        self.handles.lock().get(handle)
    }

    /// Returns the domain of `handle`, if the caller may see its members.
    fn members_of(&self, handle: &ContextHandle) -> Result<SamDomain, Status> {
        match self.get(handle) {
            Some(Object::SamDomain(domain)) => self.check_somebody().map(|()| domain),
            Some(_) => Err(Status::OBJECT_TYPE_MISMATCH),
            None => Err(Status::INVALID_HANDLE),
        }
    }

    /// Refuses anonymous and guest users.
    fn check_somebody(&self) -> Result<(), Status> {
        if crate::rpc::pipe::has_account(self.caller) { Ok(()) } else { Err(Status::ACCESS_DENIED) }
    }

    /// Returns whether the caller may connect; `restrict anonymous` refuses anonymous users.
    fn may_connect(&self) -> bool {
        let user = self.caller.user();
        let anonymous = user.is_none_or(|user| user.anonymous);
        !anonymous || self.server.policy().restrict_anonymous < 1
    }

    fn open(&self, object: Object) -> (ContextHandle, Status) {
        match self.handles.lock().open(object, &*self.server.environment) {
            Some(handle) => (handle, Status::SUCCESS),
            None => ([0; 20], Status::INSUFFICIENT_RESOURCES),
        }
    }

    fn opened(&self, object: Result<Object, Status>) -> Vec<u8> {
        let (handle, status) = object.map_or_else(|status| ([0; 20], status), |object| self.open(object));
        ndr::handle_response(&handle, status)
    }

    /// Executes calls that open the server and domains ([MS-SAMR] 3.1.5.1, 3.1.5.2.1).
    fn connect(&self, call: &Call) -> Vec<u8> {
        let sam = if self.may_connect() { Ok(Object::Sam) } else { Err(Status::ACCESS_DENIED) };
        match call {
            Call::Connect5 => {
                let (handle, status) = sam.map_or_else(|status| ([0; 20], status), |sam| self.open(sam));
                samr::connect_5_response(&handle, status)
            }
            Call::Close(handle) => {
                let closed = self.handles.lock().close(handle);
                ndr::handle_response(&[0; 20], if closed { Status::SUCCESS } else { Status::INVALID_HANDLE })
            }
            Call::OpenDomain(handle, sid) => self.opened(match self.get(handle) {
                Some(Object::Sam) => self.domain_of(sid).map(Object::SamDomain).ok_or(Status::NO_SUCH_DOMAIN),
                _ => Err(Status::INVALID_HANDLE),
            }),
            Call::EnumerateDomains(handle, _) if self.get(handle) != Some(Object::Sam) => {
                samr::no_enumeration_response(Status::INVALID_HANDLE)
            }
            Call::EnumerateDomains(_, from) => {
                let own = self.server.policy().netbios_name.clone();
                let names = [(0, own), (1, BUILTIN.to_owned())].map(|(rid, name)| RidName { rid, name });
                let from = (*from as usize).min(names.len());
                samr::enumeration_response(names.len() as u32, &names[from..], Status::SUCCESS)
            }
            _ => self.opened(sam),
        }
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
    async fn domain(&self, handle: &ContextHandle, class: DomainInformationClass) -> Vec<u8> {
        let server = self.server;
        let Some(Object::SamDomain(domain)) = self.get(handle) else {
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
            policy: told(&server.accounts.authenticator.policy()),
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
fn told(policy: &AccountPolicy) -> DomainPolicy {
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
