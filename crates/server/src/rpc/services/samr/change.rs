//! Password changes by users ([MS-SAMR] 3.1.5.10.3, 3.1.5.10.4). Knowing the old password is sufficient, without a
//! logon, so that an expired password can be changed.
//!
//! A wrong old password is treated like a failed logon: it is counted for lockout, the response is delayed, and it does
//! not reveal whether the account exists.

use proto::auth::ntlm::change::{AesPassword, KeyDerivation, NewPassword, SEALED_PASSWORD};
use proto::rpc::samr::{ChangePassword, ChangePassword4};
use proto::status::Status;

use crate::accounts::{Account, AccountPolicy, NotChanged, NtHash, Unavailable};
use crate::audit::sent_name;
use crate::named_pipe::Caller;
use crate::state::Server;
use crate::yielding::Work;

/// Iterations of a key derivation between two moments at which other tasks run, and their cost as work.
const STEP: u64 = 64;
const STEP_COST: u32 = 192;

/// A change of a password, which proves knowledge of the old one.
#[derive(Clone, Copy)]
pub(super) enum Asked<'a> {
    /// With RC4.
    Sealed(&'a ChangePassword),
    /// With AES.
    Aes(&'a ChangePassword4),
}

impl Asked<'_> {
    fn user(&self) -> &str {
        match self {
            Asked::Sealed(asked) => &asked.user,
            Asked::Aes(asked) => &asked.user,
        }
    }
}

pub(super) async fn change_password(asked: &Asked<'_>, server: &Server, caller: &dyn Caller) -> Status {
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
            tracing::error!(user = sent_name(asked.user()), why = why.0, "the account back end is unavailable");
            return Status::NO_LOGON_SERVERS;
        }
    };
    let name = account.as_ref().map_or(asked.user(), |account| &account.name);
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
type Proven = (Option<Account>, Opened);
type Opened = Option<(NtHash, NewPassword)>;

async fn prove(asked: &Asked<'_>, server: &Server, caller: &dyn Caller) -> Result<Proven, Unavailable> {
    let (accounts, from) = (&server.accounts.authenticator, caller.address().ip().into());
    let account = accounts.find(asked.user()).await?;
    let name = account.as_ref().map_or(asked.user(), |account| &account.name);
    if !server.logons.may_try(name, from) {
        return Ok((account, None));
    }
    let opened = open(account.as_ref(), asked, server).await?;
    if opened.is_some() {
        server.logons.authenticated(name, from);
        return Ok((account, opened));
    }
    // The back end's cache may be outdated.
    let anew = accounts.find_anew(asked.user()).await?;
    let hash = |account: &Option<Account>| account.as_ref().and_then(|account| Some(account.nt_hash.as_ref()?.0));
    let opened = match hash(&anew) {
        Some(other) if Some(other) != hash(&account) => open(anew.as_ref(), asked, server).await?,
        _ => None,
    };
    Ok((anew.or(account), opened))
}

/// Decrypts the new password if the old one is right. The work is the same for an account that does not exist, and for
/// fields that were not sent.
async fn open(account: Option<&Account>, asked: &Asked<'_>, server: &Server) -> Result<Opened, Unavailable> {
    let hash = account.and_then(|account| account.nt_hash.clone());
    let (known, old) = (hash.is_some(), hash.unwrap_or(NtHash([0; 16])));
    let opened = match asked {
        Asked::Sealed(asked) => {
            let sealed = asked.new_password.unwrap_or([0; SEALED_PASSWORD]);
            NewPassword::open(&old.0, &sealed, &asked.old_hash.unwrap_or_default())
        }
        Asked::Aes(asked) => open_aes(&old, asked, server).await?,
    };
    Ok(opened.filter(|_| known).map(|new| (old, new)))
}

/// Decrypts the new password with a key made from the old one. Other requests are executed meanwhile. One key is made
/// at a time, so that clients cannot occupy several processors.
async fn open_aes(old: &NtHash, asked: &ChangePassword4, server: &Server) -> Result<Option<NewPassword>, Unavailable> {
    let sent = &asked.new_password;
    if !KeyDerivation::ITERATIONS.contains(&sent.iterations) {
        return Ok(None);
    }
    let turn = server.key_derivations.wait().await;
    let _turn = turn.ok_or_else(|| Unavailable("too many passwords are changed at the same time".into()))?;
    let mut derivation = KeyDerivation::new(&old.0, &sent.salt, sent.iterations);
    let mut work = Work::new();
    let key = loop {
        if let Some(key) = derivation.advance(STEP) {
            break key;
        }
        work.spend(STEP_COST).await;
    };
    let sealed = AesPassword { auth_data: sent.auth_data, salt: sent.salt, cipher: &sent.cipher };
    Ok(NewPassword::open_aes(&*key, &sealed))
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
