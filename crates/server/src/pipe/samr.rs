//! Passwords that their owners change ([MS-SAMR] 3.1.5.10.3). Who knows the old password may, logged on or not: that is
//! how one that has expired is changed.
//!
//! A wrong old password is a wrong password: it counts for lockout, is slowed down as failed logons are, and does not tell
//! whether the account exists.

use std::time::Duration;

use parking_lot::Mutex;
use proto::auth::ntlm::change::{NewPassword, SEALED_PASSWORD};
use proto::dtyp::Sid;
use proto::rpc::ndr::{self, ContextHandle};
use proto::rpc::pdu::{FAULT_BAD_STUB, FAULT_OP_RANGE};
use proto::rpc::samr::{self, Call, ChangePassword, DomainPolicy};
use proto::status::Status;

use super::guessed::slow_down;
use super::handles::{Handles, Object};
use crate::accounts::{Account, AccountPolicy, NotChanged, NtHash, Unavailable};
use crate::conn::Request;

/// The encoded results of call `number`, or the status of a fault.
pub(super) async fn call(
    number: u16,
    stub: &[u8],
    handles: &Mutex<Handles>,
    request: &Request<'_>,
) -> Result<Vec<u8>, u32> {
    let server = &request.connection.server;
    let known = |handle: &ContextHandle, object: Object| handles.lock().get(handle) == Some(object);
    let open = |object: Object| match handles.lock().open(object, &*server.world) {
        Some(handle) => (handle, Status::SUCCESS),
        None => ([0; 20], Status::INSUFFICIENT_RESOURCES),
    };
    let refused = |status: Status| ([0; 20], status);
    let policy = server.policy();
    let (own, builtin) = (server.accounts.domain().sid(), Sid::of(5, [32]));
    Ok(match Call::decode(number, stub).map_err(|_| FAULT_BAD_STUB)?.ok_or(FAULT_OP_RANGE)? {
        Call::Connect => {
            let (handle, status) = if may_ask(request) { open(Object::Sam) } else { refused(Status::ACCESS_DENIED) };
            ndr::handle_response(&handle, status)
        }
        Call::Connect5 => {
            let (handle, status) = if may_ask(request) { open(Object::Sam) } else { refused(Status::ACCESS_DENIED) };
            samr::connect_5_response(&handle, status)
        }
        Call::Close(handle) => {
            let closed = handles.lock().close(&handle);
            ndr::handle_response(&[0; 20], if closed { Status::SUCCESS } else { Status::INVALID_HANDLE })
        }
        Call::EnumerateDomains(handle, _) if !known(&handle, Object::Sam) => {
            samr::no_domains_response(Status::INVALID_HANDLE)
        }
        Call::EnumerateDomains(_, from) if from > 0 => samr::no_domains_response(Status::SUCCESS),
        Call::EnumerateDomains(..) => samr::domains_response(&[&policy.netbios_name, BUILTIN]),
        Call::LookupDomain(handle, _) if !known(&handle, Object::Sam) => {
            samr::no_information_response(Status::INVALID_HANDLE)
        }
        Call::LookupDomain(_, name) => samr::lookup_domain_response(match name {
            name if name.eq_ignore_ascii_case(&policy.netbios_name) => Some(&own),
            name if name.eq_ignore_ascii_case(BUILTIN) => Some(&builtin),
            _ => None,
        }),
        Call::OpenDomain(handle, sid) => {
            let (handle, status) = match sid {
                _ if !known(&handle, Object::Sam) => refused(Status::INVALID_HANDLE),
                sid if sid == own || sid == builtin => open(Object::SamDomain),
                _ => refused(Status::NO_SUCH_DOMAIN),
            };
            ndr::handle_response(&handle, status)
        }
        Call::QueryDomain(handle, class) if known(&handle, Object::SamDomain) => {
            samr::domain_information_response(class, &told(&server.accounts.policy()))
                .unwrap_or_else(|| samr::no_information_response(Status::INVALID_INFO_CLASS))
        }
        Call::QueryDomain(..) => samr::no_information_response(Status::INVALID_HANDLE),
        Call::ChangePassword(asked) => ndr::status_response(change_password(&asked, request).await),
        Call::GetDomainPasswordInformation => {
            let least = server.accounts.policy().min_password_length;
            samr::password_information_response(u16::try_from(least).unwrap_or(u16::MAX))
        }
    })
}

/// The domain of the groups that every server has.
const BUILTIN: &str = "Builtin";

/// `restrict anonymous` keeps the domain from whoever has no name.
fn may_ask(request: &Request<'_>) -> bool {
    let anonymous = request.session().ok().and_then(|session| session.user()).is_none_or(|user| user.anonymous);
    !anonymous || request.connection.server.policy().restrict_anonymous < 1
}

/// The account policies as this protocol tells them.
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

async fn change_password(asked: &ChangePassword, request: &Request<'_>) -> Status {
    let server = &request.connection.server;
    let arrived = server.world.uptime();
    let policy = server.accounts.policy();
    let known = request.session().ok().and_then(|session| session.user()).filter(|user| !user.anonymous && !user.guest);
    if policy.log_on_to_change && known.is_none() {
        return Status::ACCESS_DENIED;
    }
    let (account, opened) = match prove(asked, request).await {
        Ok(found) => found,
        Err(why) => {
            tracing::error!(user = asked.user, why = why.0, "accounts cannot be asked");
            return Status::NO_LOGON_SERVERS;
        }
    };
    let name = account.as_ref().map_or(&asked.user, |account| &account.name);
    if server.is_locked_out(name) {
        slow_down(name, arrived, request).await;
        return Status::ACCOUNT_LOCKED_OUT;
    }
    let (Some((old, new)), Some(account)) = (opened, &account) else {
        server.wrong_password(name, account.is_some());
        slow_down(name, arrived, request).await;
        return Status::WRONG_PASSWORD;
    };
    server.forgive(name);
    if let Err(status) = check(account, &new, &policy, request) {
        return status;
    }
    match server.accounts.change_password(&account.name, old, NtHash(*new.nt_hash)).await {
        Ok(()) => {
            tracing::info!(user = account.name, peer = %request.connection.peer.remote, "password changed by its owner");
            Status::SUCCESS
        }
        Err(NotChanged::Wrong) => Status::WRONG_PASSWORD,
        Err(NotChanged::InHistory) => Status::PASSWORD_RESTRICTION,
        Err(NotChanged::Unavailable(why)) => {
            tracing::error!(user = account.name, why, "password not changed");
            Status::ACCESS_DENIED
        }
    }
}

/// The account, and its old and new password where the proof is right.
type Proven = (Option<Account>, Option<(NtHash, NewPassword)>);

async fn prove(asked: &ChangePassword, request: &Request<'_>) -> Result<Proven, Unavailable> {
    let accounts = &request.connection.server.accounts;
    let account = accounts.find(&asked.user).await?;
    let opened = open(account.as_ref(), asked);
    if opened.is_some() {
        return Ok((account, opened));
    }
    // The back end may remember what was before.
    let anew = accounts.find_anew(&asked.user).await?;
    let opened = anew.as_ref().and_then(|anew| open(Some(anew), asked));
    Ok((anew.or(account), opened))
}

/// Somebody who is not there, and what was not sent, take the same work.
fn open(account: Option<&Account>, asked: &ChangePassword) -> Option<(NtHash, NewPassword)> {
    let hash = account.and_then(|account| account.nt_hash.clone());
    let (known, old) = (hash.is_some(), hash.unwrap_or(NtHash([0; 16])));
    let sealed = asked.new_password.unwrap_or([0; SEALED_PASSWORD]);
    let opened = NewPassword::open(&old.0, &sealed, &asked.old_hash.unwrap_or_default());
    opened.filter(|_| known).map(|new| (old, new))
}

/// What stands against it, although the old password is right.
fn check(account: &Account, new: &NewPassword, policy: &AccountPolicy, request: &Request<'_>) -> Result<(), Status> {
    let now = request.connection.server.world.now();
    if account.disabled {
        return Err(Status::ACCOUNT_DISABLED);
    }
    if account.locked {
        return Err(Status::ACCOUNT_LOCKED_OUT);
    }
    let units = new.text.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let length = char::decode_utf16(units).try_fold(0, |count, unit| unit.map(|_| count + 1));
    let long_enough = length.is_ok_and(|length: u32| length >= policy.min_password_length.max(1));
    // Whoever must change it need not wait.
    let too_young = !account.must_change && policy.is_too_young(account.password_last_set, now);
    if long_enough && !too_young { Ok(()) } else { Err(Status::PASSWORD_RESTRICTION) }
}
