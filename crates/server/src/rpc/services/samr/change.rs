//! Password changes by users ([MS-SAMR] 3.1.5.10.3). Knowing the old password is sufficient, without a logon, so that
//! an expired password can be changed.
//!
//! A wrong old password is treated like a failed logon: it is counted for lockout, the response is delayed, and it does
//! not reveal whether the account exists.

use proto::auth::ntlm::change::{NewPassword, SEALED_PASSWORD};
use proto::rpc::samr::ChangePassword;
use proto::status::Status;

use crate::accounts::{Account, AccountPolicy, NotChanged, NtHash, Unavailable};
use crate::named_pipe::Caller;
use crate::state::Server;

pub(super) async fn change_password(asked: &ChangePassword, server: &Server, caller: &dyn Caller) -> Status {
    let arrived = server.environment.uptime();
    if !server.policy().ntlm {
        return Status::NTLM_BLOCKED;
    }
    let policy = server.accounts.authenticator.policy();
    let known = caller.user().filter(|user| !user.anonymous && !user.guest);
    if policy.log_on_to_change && known.is_none() {
        return Status::ACCESS_DENIED;
    }
    let (account, opened) = match prove(asked, server, caller).await {
        Ok(found) => found,
        Err(why) => {
            tracing::error!(user = asked.user, why = why.0, "the account back end is unavailable");
            return Status::NO_LOGON_SERVERS;
        }
    };
    let name = account.as_ref().map_or(&asked.user, |account| &account.name);
    if server.logons.is_locked_out(name) {
        caller.delay_wrong_password(name, arrived).await;
        return Status::ACCOUNT_LOCKED_OUT;
    }
    let (Some((old, new)), Some(account)) = (opened, &account) else {
        server.logons.wrong_password(name, account.is_some());
        caller.delay_wrong_password(name, arrived).await;
        return Status::WRONG_PASSWORD;
    };
    server.logons.clear_lockout(name);
    if let Err(status) = check(account, &new, &policy, server) {
        return status;
    }
    match server.accounts.authenticator.change_password(&account.name, old, NtHash(*new.nt_hash)).await {
        Ok(()) => {
            tracing::info!(
                user = account.name,
                peer = %caller.address(),
                "password changed by the user"
            );
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

/// The account, and its old and new passwords if the proof is right.
type Proven = (Option<Account>, Option<(NtHash, NewPassword)>);

async fn prove(asked: &ChangePassword, server: &Server, caller: &dyn Caller) -> Result<Proven, Unavailable> {
    let (accounts, from) = (&server.accounts.authenticator, caller.address().ip().into());
    let account = accounts.find(&asked.user).await?;
    let name = account.as_ref().map_or(&asked.user, |account| &account.name);
    if !server.logons.may_try(name, from) {
        return Ok((account, None));
    }
    let opened = open(account.as_ref(), asked);
    if opened.is_some() {
        server.logons.authenticated(name, from);
        return Ok((account, opened));
    }
    // The back end's cache may be outdated.
    let anew = accounts.find_anew(&asked.user).await?;
    let opened = anew.as_ref().and_then(|anew| open(Some(anew), asked));
    Ok((anew.or(account), opened))
}

/// Decrypts the new password if the old one is right. The work is the same for an account that does not exist, and for
/// fields that were not sent.
fn open(account: Option<&Account>, asked: &ChangePassword) -> Option<(NtHash, NewPassword)> {
    let hash = account.and_then(|account| account.nt_hash.clone());
    let (known, old) = (hash.is_some(), hash.unwrap_or(NtHash([0; 16])));
    let sealed = asked.new_password.unwrap_or([0; SEALED_PASSWORD]);
    let opened = NewPassword::open(&old.0, &sealed, &asked.old_hash.unwrap_or_default());
    opened.filter(|_| known).map(|new| (old, new))
}

/// Checks the restrictions on a change with a right old password.
fn check(account: &Account, new: &NewPassword, policy: &AccountPolicy, server: &Server) -> Result<(), Status> {
    let now = server.environment.now();
    if account.disabled {
        return Err(Status::ACCOUNT_DISABLED);
    }
    if account.locked {
        return Err(Status::ACCOUNT_LOCKED_OUT);
    }
    let units = new.text.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let length = char::decode_utf16(units).try_fold(0, |count, unit| unit.map(|_| count + 1));
    let long_enough = length.is_ok_and(|length: u32| length >= policy.min_password_length.max(1));
    // The minimum age does not apply if the password must be changed.
    let too_young = !account.must_change && policy.is_too_young(account.password_last_set, now);
    if long_enough && !too_young { Ok(()) } else { Err(Status::PASSWORD_RESTRICTION) }
}
